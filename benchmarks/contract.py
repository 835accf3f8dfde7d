"""The contract of a redesign: operations and results stay, bit for bit; times and memory are those of an old checkout.

    python benchmarks/contract.py                       compare with contract.json: `make contract`
    python benchmarks/contract.py --record              write contract.json anew
    python benchmarks/contract.py --against ../old      times and memory, by turns of that checkout and this one
    python benchmarks/contract.py --only roe_flux       of some functions alone; for --against, too, which also has
                                                        "cliffs: …" and "loops: …", parts of their names are enough

The functions are the examples, the suite, those held out, and the cases of `make bench ARGS=structure`. Of each the
file has the operations of value and Jacobian, by default and where the effort is thorough (of functions of long arrays
by default alone), and a digest of value and Jacobian at the example's point where the order of operations is kept. Bits
are those of one version of NumPy and SciPy, which is in the file; with others they are shown and do not count.

Times and memory are also those of the cases of `make bench ARGS=cliffs`, and of functions of arrays and loops of
medium length with their batches.

Ends with 1 if bits differ, or if operations are more: half a hundredth in the mean, or two hundredths anywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy
from rich.console import Console

import accumulus as acc
from functions import Example, all_examples, held_out, suite
from tables import Goal, Row, Table

CONTRACT: Final = Path(__file__).resolve().parent / "contract.json"
#: Of operations: in the mean, and anywhere; of calls, batches and first results.
MEAN, ANYWHERE, OF_TIME = 1.005, 1.02, 1.03
#: Seconds for the search where the effort is thorough, as in `make bench`.
PATIENCE: Final = 6.0
POINTS: Final = 1000
TURNS: Final = 5
#: Seconds for which calls are repeated, and those of a case after which it is given up.
REPEATED, GIVEN_UP = 0.2, 200.0
MEASURED: Final = ("first", "call", "batch", "memory")


class Subject(NamedTuple):
    """A function, its point, points of a batch if there are any, whether its Jacobian is sparse and its arrays long."""

    function: Callable[[Any], Any]
    point: np.ndarray
    points: Callable[[int], np.ndarray] | None = None
    sparse: bool = False
    is_long: bool = False

    def timed(self) -> Timed:
        """Return its Jacobian with the arguments of a call."""
        points = None if self.points is None else self.points(POINTS)
        make = partial(acc.jacobian, self.function, sparse=self.sparse or None, cache=False)
        return Timed(make, (self.point,), points)


class Timed(NamedTuple):
    """What makes a derivative, the arguments of a call, and the points of a batch if there are any."""

    make: Callable[[], Any]
    arguments: tuple[Any, ...]
    points: np.ndarray | None = None


def subjects() -> dict[str, Callable[[], Subject]]:
    """All functions by name, made when they are asked for."""
    from groups.structure import CASES

    found: dict[str, Callable[[], Subject]] = {}
    for example in [*all_examples(), *suite(), *held_out()]:
        found[example.name] = partial(_of_example, example)
    for name, (make, sizes) in CASES.items():
        found[name] = partial(_of_long_arrays, make, sizes)
    return found


def timed_only() -> dict[str, Callable[[], Timed]]:
    """Derivatives of which times and memory are measured alone, by name, made when they are asked for."""
    from cases.medium import SUBJECTS
    from groups import cliffs

    found: dict[str, Callable[[], Timed]] = {}
    for name in cliffs.CASES:
        found[f"cliffs: {name}"] = partial(_of_cliff, name)
    for name, subject in SUBJECTS.items():
        found[f"loops: {name}"] = partial(_of_loops, subject)
    return found


def _of_cliff(name: str) -> Timed:
    from groups import cliffs

    make, sizes = cliffs.CASES[name]
    case = make(*sizes)
    return Timed(partial(cliffs.OURS[case.asks], cliffs.in_numpy(case)), cliffs.arguments_of(case))


def _of_loops(subject: Any) -> Timed:
    make = partial(getattr(acc, subject.kinds[0]), subject.function, cache=False)
    return Timed(make, (subject.point,), np.repeat(subject.point[np.newaxis], POINTS, axis=0))


def _of_example(example: Example) -> Subject:
    return Subject(example.function, example.point, example.sample)


def _of_long_arrays(make: Callable[..., Any], sizes: tuple[int, ...]) -> Subject:
    case = make(*sizes)
    return Subject(case.function, case.x, None, case.sparse, True)


# Operations and bits ----------------------------------------------------------------------------------------------


def promised(subject: Subject) -> dict[str, Any]:
    """Operations by default and thorough, and a digest of results."""
    f, x, sparse = subject.function, subject.point, subject.sparse or None
    facts: dict[str, Any] = {"operations": acc.value_and_jacobian(f, sparse=sparse, cache=False).compile(x).operations}
    if not subject.is_long:
        thorough = acc.value_and_jacobian(f, effort="thorough", time_limit=PATIENCE, cache=False)
        facts["thorough"] = thorough.compile(x).operations
    try:
        value, jacobian = acc.value_and_jacobian(f, sparse=sparse, exact_order=True, cache=False)(x)
    except acc.errors.SizeError:  # what is written out for it would not fit
        return facts | {"bits": "too large"}
    digest = hashlib.sha256()
    for array in (value, jacobian.data if subject.sparse else jacobian):
        digest.update(np.ascontiguousarray(array, float).tobytes())
    return facts | {"bits": digest.hexdigest()[:16]}


def versions() -> dict[str, str]:
    """Return the versions on which bits depend, besides this package."""
    return {"numpy": np.__version__, "scipy": scipy.__version__, "machine": os.uname().machine}


def compared(names: list[str], console: Console) -> int:
    """Show what differs from the contract; 1 if it is broken."""
    contract = json.loads(CONTRACT.read_text(encoding="utf-8"))
    same_versions = contract["versions"] == versions()
    rows, broken = [], False
    ratios: dict[str, dict[str, float]] = {"operations": {}, "thorough": {}}
    for name in names:
        before = contract["functions"].get(name)
        now = {"failed": "is not in the contract"} if before is None else in_a_process("promised", name)
        if before is None or "failed" in now:
            rows.append(Row({"function": name, "remark": now["failed"]}))
            broken |= before is not None
            continue
        cells: dict[str, Any] = {"function": name, "bits": "same" if now["bits"] == before["bits"] else "others"}
        broken |= same_versions and now["bits"] != before["bits"]
        worst = 0.0
        for count, found in ratios.items():
            if count in before:
                found[name] = now[count] / max(before[count], 1)
                worst = max(worst, found[name])
                cells |= {count: now[count], f"{count} before": before[count]}
        rows.append(Row(cells, Goal(ANYWHERE, worst)))
        broken |= worst > ANYWHERE
    for count, found in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, found.values()))) if found else math.nan
        rows.append(Row({"function": f"{count}, mean of {len(found)}"}, Goal(MEAN, mean)))
        broken |= mean > MEAN
    notes = [] if same_versions else [f"Bits were recorded with {contract['versions']}, and do not count."]
    Table("contract", "Operations and bits, as they were and as they are", rows, notes).show(console)
    return int(broken)


def record(names: list[str], console: Console) -> int:
    """Write the contract, or its lines of some functions."""
    functions = json.loads(CONTRACT.read_text(encoding="utf-8"))["functions"] if CONTRACT.exists() else {}
    failed = 0
    for name in names:
        facts = in_a_process("promised", name)
        console.print(f"{name}: {facts}", highlight=False)
        failed |= "failed" in facts
        functions[name] = facts
        _write(functions)  # at once: the last ones take minutes
    return int(failed)


def _write(functions: dict[str, Any]) -> None:
    lines = ",\n  ".join(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(functions[name])}" for name in functions)
    made = json.dumps(versions())
    CONTRACT.write_text(f'{{\n "versions": {made},\n "functions": {{\n  {lines}\n }}\n}}\n', encoding="utf-8")


# Times and memory ---------------------------------------------------------------------------------------------------


def measured(subject: Subject | Timed) -> dict[str, Any]:
    """Seconds of the first result, of a call and of a point of a batch, and megabytes at most beyond those before."""
    make, arguments, points = subject.timed() if isinstance(subject, Subject) else subject
    acc.jacobian(lambda x: np.sin(x) * x[0], cache=False)(np.ones(2))  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    derivative = make()
    derivative(*arguments)
    facts = {"first": time.perf_counter() - start, "call": _seconds(lambda: derivative(*arguments))}
    if points is not None:
        facts["batch"] = _seconds(lambda: derivative.batch(points, threads=1)) / len(points)
    return facts | {"memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def _seconds(run: Callable[[], Any]) -> float:
    """The median of repeated runs."""
    found: list[float] = []
    run()
    begin = time.perf_counter()
    while time.perf_counter() - begin < REPEATED or len(found) < 3:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def against(old: Path, names: list[str], turns: int, console: Console) -> int:
    """Show medians of this checkout and ratios to those of another, which take turns."""
    here = Path(__file__).resolve().parents[1]
    rows, ratios = [], {what: dict[str, float]() for what in MEASURED}
    for name in names:
        pairs = [[in_a_process("measured", name, each) for each in (old, here)] for _ in range(turns)]
        if failed := {each["failed"] for pair in pairs for each in pair if "failed" in each}:
            rows.append(Row({"function": name, "remark": "; ".join(sorted(failed))}))
            continue
        cells: dict[str, Any] = {"function": name}
        for what, found in ratios.items():
            if what in pairs[0][0]:
                now = statistics.median(new[what] for _, new in pairs)
                found[name] = statistics.median(new[what] / max(before[what], 1e-9) for before, new in pairs)
                cells |= {what: f"{now:,.1f} MB" if what == "memory" else f"{1e3 * now:,.3f} ms"}
                cells |= {f"{what} / before": f"{found[name]:.2f}"}
        rows.append(Row(cells))
        console.print(cells, highlight=False)
    for what, found in ratios.items():
        mean = math.exp(statistics.fmean(math.log(max(x, 1e-3)) for x in found.values())) if found else math.nan
        rows.append(Row({"function": f"{what}, mean of {len(found)}"}, Goal(OF_TIME, mean)))
    Table("contract", f"Times and memory, and ratios to {old}", rows).show(console)
    return 0


# Processes ----------------------------------------------------------------------------------------------------------


def in_a_process(what: str, name: str, checkout: Path | None = None) -> dict[str, Any]:
    """Return the operations, bits, times and memory of a function, from a separate process that runs a checkout."""
    here = Path(__file__).resolve()
    environment = {**os.environ, "PYTHONPATH": str((checkout or here.parents[1]) / "src"), "ACCUMULUS_CACHE_PLANS": "0"}
    command = [sys.executable, str(here), "--apart", what, name]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=GIVEN_UP
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {GIVEN_UP:.0f} s"}
    if ran.returncode:
        return {"failed": (ran.stderr.strip().splitlines() or ["died"])[-1]}
    facts: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return facts


def main(arguments: list[str] | None = None) -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the contract anew")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="measure times beside another checkout")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each, with --against (default {TURNS})")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these functions alone")
    parser.add_argument("--apart", nargs=2, metavar=("WHAT", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.apart:
        what, name = options.apart
        chosen = (subjects() | timed_only())[name]()
        print(json.dumps({"promised": promised, "measured": measured}[what](chosen)))
        return 0
    known = [*subjects(), *(timed_only() if options.against else ())]
    names: list[str] = []
    for part in options.only or known:
        found = [part] if part in known else [name for name in known if ": " in name and part in name]
        if not found:
            parser.error(f"no function {part!r}; there are {', '.join(known)}")
        names += found
    console = Console(width=None if sys.stdout.isatty() else 200)
    if options.against:
        return against(options.against.resolve(), names, options.turns, console)
    return record(names, console) if options.record else compared(names, console)


if __name__ == "__main__":
    raise SystemExit(main())
