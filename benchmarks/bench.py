"""Measure accumulus against what it must reach, and against CasADi, JAX and SymPy: `make bench`.

    python benchmarks/bench.py                         all groups but those of the search
    python benchmarks/bench.py operations time         some of them
    python benchmarks/bench.py search                  what the search reaches: `make bench-search`
    python benchmarks/bench.py operations --store      into benchmarks/measured/, from which `make tables` writes pages

Prints one table a group. Every row says what is to be reached and what was; all numbers of a row come from one run
on one machine, and ratios are what to compare. Peers are an extra, `pip install -e .[bench]`; what is missing is
named and skipped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from functions import all_examples, suite
from groups import (
    Settings,
    accuracy,
    against_symforce,
    against_sympy,
    beyond_caches,
    budget,
    c_code,
    call_overhead,
    cliffs,
    compile_time,
    counts,
    decisions,
    efforts,
    ensembles,
    explorer,
    first_result,
    first_use,
    fits,
    function_alone,
    hand,
    held_out,
    inside_jax,
    interrupts,
    lowering,
    matrices,
    memory_use,
    methods,
    on_gpu,
    operations,
    optimal_control,
    optimised,
    over_function,
    overview,
    peers,
    prepare,
    recording,
    rewriting,
    scarcity,
    search,
    second_derivatives,
    several_arguments,
    size,
    solvers,
    sources,
    special,
    structure,
    symbolic,
    symforce,
    theorems,
    time_per_point,
    transposed,
)
from tables import Table

GROUPS: dict[str, Callable[[Settings], Table]] = {
    "overview": overview.table,
    "counts": counts.table,
    "methods": methods.table,
    "known": methods.known_numbers,
    "size": size.table,
    "rewriting": rewriting.table,
    "operations": operations.table,
    "weighted": operations.weighted,
    "sympy": against_sympy.table,
    "symforce-code": against_symforce.table,
    "held-out": held_out.table,
    "held-out-weighted": held_out.weighted,
    "held-out-rounding": held_out.rounding,
    "function": function_alone.table,
    "hand": hand.table,
    "rotations": theorems.rotations,
    "systems": theorems.systems,
    "optimised": optimised.table,
    "efforts": efforts.table,
    "ensembles": ensembles.table,
    "peers": peers.table,
    "ratio": over_function.table,
    "hessian": second_derivatives.table,
    "products": second_derivatives.products,
    "scarcity": scarcity.table,
    "hessian-time": second_derivatives.times,
    "time": time_per_point.table,
    "transposed": transposed.table,
    "beyond": beyond_caches.table,
    "special": special.table,
    "matrices": matrices.table,
    "c": c_code.table,
    "arguments": several_arguments.table,
    "jax": inside_jax.table,
    "first": first_result.table,
    "second": first_use.second,
    "first-use": first_use.table,
    "budget": budget.table,
    "prepare": prepare.table,
    "recording": recording.table,
    "interrupts": interrupts.table,
    "estimates": interrupts.estimates,
    "lowering": lowering.table,
    "structure": structure.table,
    "cliffs": cliffs.table,
    "decisions": decisions.table,
    "compile": compile_time.table,
    "call": call_overhead.table,
    "memory": memory_use.table,
    "symbolic": symbolic.table,
    "explorer": explorer.table,
    "symforce": symforce.table,
    "solvers": solvers.table,
    "fits": fits.table,
    "nlpsol": optimal_control.table,
    "accuracy": accuracy.table,
    "rounding": accuracy.rounding,
    "gpu": on_gpu.table,
}
#: What the search reaches; takes minutes, so these are run if they are asked for, all together as "search".
SEARCH: dict[str, Callable[[Settings], Table]] = {
    "search-small": search.small,
    "search-public": search.public,
    "search-start": search.start,
    "search-random": search.random,
    "search-shared": search.shared,
    "sources": sources.table,
}

GROUPS_HELP = f"of {', '.join(GROUPS)}, which are the default; of {', '.join(SEARCH)}, or search for all of these"

EXAMPLE_HELP = "only this function of examples/ or benchmarks/suite/; may be repeated"

CASE_HELP = "of cliffs, only the cases with this text in their names; may be repeated"

WIDTH = 120
MEASURED = Path(__file__).resolve().parent / "measured"


def main(arguments: list[str] | None = None) -> int:
    """Run the groups that are asked for and show their tables."""
    options = _parse(arguments)
    os.environ["ACCUMULUS_CACHE_PLANS"] = "0"  # searches are measured, not how plans are loaded from disk
    # a table that goes into a file or a log needs no terminal's width
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    examples, functions = all_examples(), [*all_examples(), *suite()]
    if options.example:
        examples = functions = [function for function in functions if function.name in options.example]
    settings = Settings(
        tuple(examples), tuple(functions), options.points, options.turns, options.seed, tuple(options.case or ())
    )
    console.print(f"{machine()['processor']}, Python {platform.python_version()}, NumPy {np.__version__}", style="dim")

    tables = []
    where = measured_on() if options.store else {}
    for name in options.groups or GROUPS:
        with console.status(f"measuring {name} …"):
            table = {**GROUPS, **SEARCH}[name](settings)
        table.show(console)
        console.print()
        tables.append(table)
        if options.store and all(row.goal is not None and row.goal.met is None for row in table.rows):
            console.print(f"{table.name} is not stored: nothing of it was measured")
        elif options.store:
            text = json.dumps(where | table.as_json(), indent=1, default=str, ensure_ascii=False)
            (MEASURED / f"{table.name}.json").write_text(f"{text}\n", encoding="utf-8", newline="\n")

    goals = [row.goal.met for table in tables for row in table.rows if row.goal is not None]
    console.print(f"{goals.count(True)} of {len(goals)} goals reached, {goals.count(None)} not measured")
    return 0


def measured_on() -> dict[str, Any]:
    """Return what is stored beside numbers: date, commit, machine, and its load average before the measurement."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=MEASURED, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    commit = git("rev-parse", "--short=8", "HEAD") + (" and changes" if git("status", "--short", "../../src") else "")
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {"date": datetime.date.today().isoformat(), "commit": commit, "machine": machine(), "load": load}


def machine() -> dict[str, str]:
    """Return a description of the machine and the versions of a measurement."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = f"{names[0]}, {len(names)} cores" if names else processor
    system = f"{platform.system()} {platform.machine()}"
    return {"processor": processor, "system": system, "python": platform.python_version()}


def _parse(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="group", help=GROUPS_HELP)
    parser.add_argument("--store", action="store_true", help="write what is measured to benchmarks/measured/")
    parser.add_argument("--example", action="append", metavar="NAME", help=EXAMPLE_HELP)
    parser.add_argument("--case", action="append", metavar="TEXT", help=CASE_HELP)
    parser.add_argument("--points", type=int, default=2000, help="points in a batch (default 2000)")
    parser.add_argument("--turns", type=int, default=21, help="repetitions of each timing (default 21)")
    parser.add_argument("--seed", type=int, default=0, help="of the random points (default 0)")
    options = parser.parse_args(arguments)
    options.groups = [name for given in options.groups for name in (SEARCH if given == "search" else [given])]
    names = [function.name for function in (*all_examples(), *suite())]
    for given, known in ((options.groups, [*GROUPS, *SEARCH]), (options.example or [], names)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(known)}")
    if options.store and (options.example or options.case):
        parser.error("--store needs all functions, without --example and --case")
    if options.points < 1 or options.turns < 1:
        parser.error("--points and --turns must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
