"""Random programs over the whole surface against independent oracles, in several processes: `make fuzz`.

    python tests/fuzz/driver.py                              every function at every order, 100,000 programs, then
                                                             threads, forks and kills
    python tests/fuzz/driver.py --functions NAME…            these functions alone: special.jv, or all without a name
    python tests/fuzz/driver.py --programs 1000 --seed 7     fewer, others
    python tests/fuzz/driver.py --constructs 10000           more constructs in every kind, target and way
    python tests/fuzz/driver.py --no-derivatives             without functions at every order
    python tests/fuzz/driver.py --thorough 10000             thorough ones, too, of which the clock cut none short
    python tests/fuzz/driver.py --only 4711                  the program of one seed, as it is drawn: a reproducer
    python tests/fuzz/driver.py --log build/fuzz.log         the same in parts: goes on where it was stopped, of the
                                                             same sources

Program k of a run is that of the number seed·10⁹ + k, which a failure is printed with. Ends with 1 if a result was
wrong, anything but a typed error was raised, or something hung; numbers that are less accurate than rounding explains
are counted and shown.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shelve
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for the references of all tests
sys.path.append(str(Path(__file__).resolve().parents[1] / "functions"))

import constructs
import derivative_checks
import stress
import structured_checks
import sweep
import with_jax
from checking import Outcome, check
from derivative_cases import all_cases
from kinds import check_form, check_kind
from rich.console import Console
from structured_cases import all_structured

#: One program in so many is checked in another kind of derivative than Jacobians.
KINDS: Final = 3
#: One in so many is a function of JAX or of SymPy.
FORMS: Final = 100
#: Programs that a process is given at once.
CHUNK = 50
#: A run is given this much for each of its programs, and every one of its numbers is below this.
RUN = 10**9
#: Thorough programs of a run have numbers from here on, and so many are tried for each that is to be whole.
THOROUGH: Final = 5 * 10**8
MOST_TRIED: Final = 20
#: Rounds of each part of the stress for a hundred thousand programs.
ROUNDS = 60

Given = TypeVar("Given")
Found = TypeVar("Found")


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, and say what came of it."""
    options = _parse(arguments)
    os.environ["ACCUMULUS_CACHE_PLANS"] = "0"  # programs are searched for, never loaded
    if options.log is None:
        return _run(options, {})
    with shelve.open(options.log) as log:
        if log.setdefault("sources", _sources()) != _sources():
            sys.exit(f"{options.log} is of other sources: remove it, or name another file")
        return _run(options, log)


def _run(options: argparse.Namespace, log: MutableMapping[str, Any]) -> int:
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    if options.only is not None:
        outcome = checked(options.only, "thorough" if options.only % RUN >= THOROUGH else "program")
        _show(outcome, console)
        return 0 if outcome.kind in ("right", "undecided") else 1
    options.log = log
    failed = options.derivatives and bool(_functions(options, console) + _structured(options, console))
    if options.functions is not None:
        return int(failed)
    first = options.seed * RUN
    kinds, seconds = _programs(range(first, first + options.programs), options, console)
    by_jax = kinds.pop("with JAX", 0)
    total = sum(kinds.values())
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    rate = total / seconds if seconds else 0.0
    console.print(f"{total:,} programs from seed {options.seed}: {counts}; {rate:.0f} a second of one processor")
    console.print(f"JAX: {with_jax.MISSING or f'{by_jax:,} of them compared'}")
    failed |= bool(kinds["wrong"] + kinds["crash"])
    if options.thorough:
        failed |= _thorough(first + THOROUGH, options, console)
    if options.constructs:
        kinds, _ = _programs(range(first, first + options.constructs), options, console, "construct")
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()) if count)
        console.print(f"{options.constructs:,} constructs in a kind, a target and a way: {counts}")
        failed |= bool(kinds["wrong"] + kinds["crash"])
    if options.sweep:
        kinds, _ = _programs(range(sweep.count()), options, console, "sweep")
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()) if count)
        console.print(f"{sweep.count():,} calls of NumPy's functions with odd arguments: {counts}")
        failed |= bool(kinds["wrong"] + kinds["crash"])
    for name, part in stress.PARTS.items():
        if name in options.stress:
            failures = part(options.rounds, options.seed)
            console.print(f"{name}: {options.rounds} rounds, {len(failures)} failures")
            for failure in failures[:10]:
                console.print(f"  {failure}")
            failed |= bool(failures)
    return int(failed)


def _thorough(first: int, options: argparse.Namespace, console: Console) -> bool:
    """Check thorough programs until as many as asked for were whole; whether one of them failed."""
    found: Counter[str] = Counter()
    whole = tried = 0
    while whole < options.thorough and tried < MOST_TRIED * options.thorough:
        count = max(options.jobs, options.thorough - whole)
        kinds, _ = _programs(range(first + tried, first + tried + count), options, console, "thorough")
        tried, whole = tried + count, whole + count - kinds["cut short"]
        found += kinds
    short = found.pop("cut short", 0)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.items()))
    console.print(
        f"{whole:,} thorough programs: {counts}; {short:,} more were cut short by the clock, and do not count"
    )
    return bool(found["wrong"] + found["crash"])


def checked(number: int, how: str = "program") -> Outcome:
    """The outcome of the program of a number, of a thorough one, of a construct, or of a case of the sweep."""
    if how == "sweep":
        return sweep.check_case(number)
    if how == "construct":
        return constructs.check_case(constructs.drawn_case(number), number)
    if how == "thorough":
        return check_kind(number, thorough=True)
    if number % FORMS == 1:
        return check_form(number)
    return check_kind(number) if number % KINDS == 0 else check(number)


def _functions(options: argparse.Namespace, console: Console) -> int:
    """How many derivatives of the tables of functions are wrong, in all kinds and targets."""
    chosen = [
        (table, case.name, target)
        for table, cases in all_cases().items()
        for case in cases
        if not options.functions or {case.name, case.table_name} & set(options.functions)
        for target in derivative_checks.TARGETS
    ]
    compared = wrong = 0
    for (_, name, target), result in _done(_function, chosen, options):
        compared += result.compared
        wrong += len(result.wrong)
        for finding in result.wrong[:3]:
            console.print(f"wrong: {finding}\n{Path(__file__).name} --functions '{name}' ({target})")
    console.print(f"functions: {len(chosen):,} in a target, {compared:,} derivatives compared, {wrong:,} wrong")
    return wrong


def _function(chosen: tuple[str, str, str]) -> derivative_checks.Result:
    table, name, target = chosen
    (case,) = (case for case in all_cases()[table] if case.name == name)
    return derivative_checks.check(table, case, target)


def _structured(options: argparse.Namespace, console: Console) -> int:
    """How many derivatives of functions of arrays are wrong, in all kinds and targets."""
    chosen = [
        (case.name, target)
        for case in all_structured()
        if not options.functions or {case.name, case.table_name} & set(options.functions)
        for target in derivative_checks.TARGETS
    ]
    compared = wrong = 0
    for (name, target), (count, found) in _done(_structured_function, chosen, options):
        compared, wrong = compared + count, wrong + len(found)
        for each in found[:3]:
            console.print(f"wrong: {each}\n{Path(__file__).name} --functions '{name}' ({target})")
    console.print(
        f"functions of arrays: {len(chosen):,} in a target, {compared:,} derivatives compared, {wrong:,} wrong"
    )
    return wrong


def _structured_function(chosen: tuple[str, str]) -> tuple[int, list[structured_checks.Worst]]:
    name, target = chosen
    (case,) = (case for case in all_structured() if case.name == name)
    return structured_checks.check_structured(case, target)[:2]


def _programs(
    numbers: range, options: argparse.Namespace, console: Console, how: str = "program"
) -> tuple[Counter[str], float]:
    """How many programs came out how, and seconds of all processors; of thorough ones those that were whole."""
    kinds: Counter[str] = Counter()
    seconds = 0.0
    last, size = numbers.stop, {"thorough": 1, "sweep": 20 * CHUNK}.get(how, CHUNK)
    chunks = [(a, min(a + size, last), how) for a in range(numbers.start, last, size)]
    for _, (outcomes, taken) in _done(_chunk, chunks, options):
        seconds += taken
        for outcome in outcomes:
            if outcome.cut_short and outcome.kind in ("right", "undecided"):
                kinds["cut short"] += 1
                continue
            kinds[outcome.kind] += 1
            kinds["with JAX"] += outcome.with_jax
            if outcome.kind not in ("right", "undecided") and kinds[outcome.kind] <= options.show:
                _show(outcome, console)
    return kinds, seconds


def _done(
    work: Callable[[Given], Found], given: list[Given], options: argparse.Namespace
) -> Iterator[tuple[Given, Found]]:
    """What came of each, as it comes: from the log, or from one of the processes."""
    log = options.log
    for each in given:
        if repr(each) in log:
            yield each, log[repr(each)]
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(work, each): each for each in given if repr(each) not in log}
        for future in as_completed(waiting):
            each = waiting[future]
            try:
                found = log[repr(each)] = future.result()
            except BrokenProcessPool:
                sys.exit(f"a process died in {work.__name__}{each}, or in another at that moment")
            yield each, found


def _sources() -> str:
    """A digest of all sources, the tests' among them."""
    root = Path(__file__).resolve().parents[2]
    files = sorted([*root.glob("src/**/*.py"), *root.glob("tests/**/*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _chunk(chunk: tuple[int, int, str]) -> tuple[list[Outcome], float]:
    """Outcomes, without the source of what is right, which nobody reads; and seconds of this processor."""
    first, last, how = chunk
    start = time.process_time()
    outcomes = [checked(number, how) for number in range(first, last)]
    brief = [replace(each, source="") if each.kind in ("right", "undecided") else each for each in outcomes]
    return brief, time.process_time() - start


def _show(outcome: Outcome, console: Console) -> None:
    console.print(f"{outcome.kind}: {outcome.remark}")
    console.print(f"python {'/'.join(Path(__file__).parts[-3:])} --only {outcome.seed}")
    console.print(outcome.source)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000, help="how many (default 100,000)")
    parser.add_argument("--thorough", type=int, default=0, help="and how many thorough ones that are whole (default 0)")
    parser.add_argument("--constructs", type=int, default=3_000, help="and how many constructs (default 3,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the run (default 0)")
    parser.add_argument("--log", type=Path, help="file of what was done, to go on with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--show", type=int, default=20, help="failures of each kind that are shown in full")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="check this program alone")
    parser.add_argument("--functions", nargs="*", metavar="NAME", help="derivatives of functions alone, all or these")
    parser.add_argument(
        "--derivatives", action=argparse.BooleanOptionalAction, default=True, help="of all functions, too"
    )
    parser.add_argument("--stress", nargs="*", choices=stress.PARTS, default=list(stress.PARTS), help="all by default")
    parser.add_argument("--sweep", action=argparse.BooleanOptionalAction, default=True, help="odd arguments, too")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each part of the stress (default {ROUNDS})")
    options = parser.parse_args(arguments)
    if min(options.programs, options.thorough) < 0 or options.jobs < 1 or options.rounds < 0 or options.seed < 0:
        parser.error("--programs, --thorough, --seed and --rounds must be at least 0, --jobs at least 1")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
