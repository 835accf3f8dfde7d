"""Random programs over the whole surface against independent oracles, in several processes: `make fuzz`.

    python tests/fuzz/driver.py                              every function at every order, 100,000 programs, then
                                                             threads, forks and kills
    python tests/fuzz/driver.py --functions NAME…            these functions alone: special.jv, or all without a name
    python tests/fuzz/driver.py --programs 1000 --seed 7     fewer, others
    python tests/fuzz/driver.py --constructs 10000           more constructs in every kind, target and way
    python tests/fuzz/driver.py --no-derivatives             without functions at every order
    python tests/fuzz/driver.py --files 100000               more saved derivatives in which a field was changed
    python tests/fuzz/driver.py --thorough 10000             thorough ones, too, of which the clock cut none short
    python tests/fuzz/driver.py --scales 100000              programs of scales, too: called far from their first points
    python tests/fuzz/driver.py --suites [NAME…]             functions of other people's packages alone (`suites`); with
                                                             --scipy PATH and --s2mpj PATH those of checkouts, too
    python tests/fuzz/driver.py --only 4711                  the program of one seed, as it is drawn: a reproducer
    python tests/fuzz/driver.py --log build/fuzz.log         the same in parts: goes on where it was stopped
    python tests/fuzz/driver.py --mutants                    spoil the library in several places, and find each of them

Program k of a run is that of the number seed·10⁹ + k, which a failure is printed with. Every program is checked in both
targets; kinds of derivatives, ways to run them (C, source for JAX and NumPy, files, batches) and constructs go in turn.
The last lines say how many programs each of these saw.

A log goes on where it was stopped. When the library has changed meanwhile, what was right counts, what failed is
checked again, and the last line says so; when the tests have changed, programs of a number are others, and the log is
refused.

Programs of scales (`scales`, `scale_checks`) are the idioms that rewriting by samples near 1 spoils, with constants and
arguments over 600 decades; `--only` shortens one that fails.

Ends with 1 if a result was wrong, anything but a typed error was raised, or something hung; numbers that are less
accurate than rounding explains are counted and shown.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shelve
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeVar

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for the references of all tests
sys.path.append(str(Path(__file__).resolve().parents[1] / "functions"))

import changed_files
import constructs
import derivative_checks
import scale_checks
import stress
import structured_checks
import sweep
from checking import Outcome, Steps, Turn, at_once, jacobian_steps
from derivative_cases import all_cases
from joined import ALL, QUICK, joined
from kinds import form_steps, kind_steps
from mutants import MUTANTS
from rich.console import Console
from shrinking import shrunk
from structured_cases import all_structured

#: Programs that a process is given at once, and of so many of these one has its C compiled as users have it.
CHUNK = 64
COMPILED_AS_USERS: Final = 8
#: Programs that are checked together while a mistake is looked for.
PATIENCE: Final = 32
#: A run is given this much for each of its programs, and every one of its numbers is below this.
RUN = 10**9
#: Thorough programs of a run have numbers from here on, and so many are tried for each that is to be whole.
THOROUGH: Final = 5 * 10**8
MOST_TRIED: Final = 20
#: Programs of scales of a run have numbers from here on.
SCALES: Final = 7 * 10**8
#: Rounds of each part of the stress for a hundred thousand programs.
ROUNDS = 60

Given = TypeVar("Given")
Found = TypeVar("Found")


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, and say what came of it."""
    options = _parse(arguments)
    if options.suites is not None:
        return _suites(options)
    os.environ["ACCUMULUS_CACHE_PLANS"] = "0"  # programs are searched for, never loaded
    if options.log is None:
        return _run(options, {})
    with shelve.open(options.log) as log:
        if log.setdefault("tests", _sources("tests")) != _sources("tests"):
            sys.exit(f"{options.log} is of other tests, whose programs are others: remove it, or name another file")
        log["libraries"] = list(dict.fromkeys([*log.get("libraries", []), _sources("src")]))
        return _run(options, log)


def _run(options: argparse.Namespace, log: MutableMapping[str, Any]) -> int:
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    if options.only is not None:
        return _only(options.only, console)
    options.log = log
    failed = options.derivatives and bool(_functions(options, console) + _structured(options, console))
    if options.functions is not None:
        return int(failed)
    first = options.seed * RUN
    if options.mutants is not None:
        return _mutants(options, console)
    kinds, seconds = _programs(range(first, first + options.programs), options, console)
    rate = kinds.total() / seconds if seconds else 0.0
    console.print(
        f"{kinds.total():,} programs from seed {options.seed}: {_counted(kinds)}; {3600 * rate:,.0f} in an hour of one "
        "processor"
    )
    console.print(f"of those that are right: {_counted(options.saw)}")
    failed |= bool(kinds["wrong"] + kinds["crash"])
    if options.thorough:
        failed |= _thorough(first + THOROUGH, options, console)
    if options.scales:
        failed |= _scales(range(first + SCALES, first + SCALES + options.scales), options, console)
    if options.constructs:
        kinds, _ = _programs(range(first, first + options.constructs), options, console, "construct")
        console.print(f"{options.constructs:,} constructs in a kind, a target and a way: {_counted(kinds)}")
        failed |= bool(kinds["wrong"] + kinds["crash"])
    if options.sweep:
        kinds, _ = _programs(range(sweep.count()), options, console, "sweep")
        console.print(f"{sweep.count():,} calls of NumPy's functions with odd arguments: {_counted(kinds)}")
        failed |= bool(kinds["wrong"] + kinds["crash"])
    if options.files:
        kinds, failures = changed_files.run(options.files, options.seed, options.jobs)
        console.print(f"{options.files:,} changed files of derivatives: {_counted(kinds)}")
        for failure in failures[: options.show]:
            console.print(f"  {failure}")
        failed |= bool(failures)
    for name, stage in stress.PARTS.items():
        if name in options.stress:
            failures = stage(options.rounds, options.seed)
            console.print(f"{name}: {options.rounds} rounds, {len(failures)} failures")
            for failure in failures[:10]:
                console.print(f"  {failure}")
            failed |= bool(failures)
    if len(log.get("libraries", [])) > 1:
        console.print(f"the log is of {len(log['libraries'])} versions of the library; what failed was checked again")
    return int(failed)


def _suites(options: argparse.Namespace) -> int:
    """Try functions of packages, in the environment of these; return 1 if one is wrong or raises an untyped error."""
    root = Path(__file__).resolve().parents[2]
    paths = [f"--{name}={path}" for name in ("scipy", "s2mpj") if (path := getattr(options, name)) is not None]
    command = [root / "build/suites/bin/python", Path(__file__).with_name("suites.py"), *options.suites, *paths]
    command += [f"--jobs={options.jobs}", f"--show={options.show}", f"--one-in={options.one_in}"]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": str(root / "src")}, check=False).returncode


def _only(number: int, console: Console) -> int:
    """Check one program; one of scales that fails is shortened."""
    how = "scales" if number % RUN >= SCALES else "thorough" if number % RUN >= THOROUGH else "program"
    outcome = checked(number, how)
    _show(outcome, console)
    if how == "scales" and outcome.kind in scale_checks.FAILED:
        console.print("shorter:")
        shorter = shrunk(scale_checks.Case.of(number), number, outcome.kind)
        _show(at_once([scale_checks.checks(shorter.again(), number)])[0], console)
    return 0 if outcome.kind in ("right", "undecided") else 1


def _scales(numbers: range, options: argparse.Namespace, console: Console) -> bool:
    """Check programs of scales; whether one of them failed."""
    kinds, seconds = _programs(numbers, options, console, "scales")
    console.print(f"{len(numbers):,} programs of scales: {_counted(kinds)}; {seconds:,.0f} s of one processor")
    console.print(f"of those that are right: {_counted(options.saw)}")
    console.print(f"of those that are not: {_counted(options.failed)}")
    return any(kinds[kind] for kind in scale_checks.FAILED)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if count)


def _mutants(options: argparse.Namespace, console: Console) -> int:
    """Spoil the library in one place after the other, and check programs until one of them fails."""
    missed = 0
    selected = {name: mutant for name, mutant in MUTANTS.items() if not options.mutants or name in options.mutants}
    for name in selected:
        tried, outcome = noticed(name, options.seed * RUN, options.programs)
        missed += outcome is None
        remark = "not noticed" if outcome is None else f"{outcome.kind}: {outcome.remark[:100]}"
        console.print(f"{name}: {tried:,} programs, {remark}")
    console.print(f"{len(selected)} mutants, {missed} not noticed")
    return int(bool(missed))


def noticed(mutant: str, first: int, most: int) -> tuple[int, Outcome | None]:
    """Return the result of `found_by` from a separate process, since rules that a process has prepared stay mutated."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(found_by, mutant, first, most).result()


def found_by(mutant: str, first: int, most: int) -> tuple[int, Outcome | None]:
    """Return the number of programs until one notices a mutant, and that program; None if none does."""
    with MUTANTS[mutant]():
        for start in range(first, first + most, PATIENCE):
            for outcome in checked_all(range(start, min(start + PATIENCE, first + most))):
                if outcome.kind in ("wrong", "crash", "inaccurate"):
                    return outcome.seed - first + 1, outcome
    return most, None


def _thorough(first: int, options: argparse.Namespace, console: Console) -> bool:
    """Check thorough programs until as many as asked for were whole; whether one of them failed."""
    result: Counter[str] = Counter()
    whole = tried = 0
    while whole < options.thorough and tried < MOST_TRIED * options.thorough:
        count = max(options.jobs, options.thorough - whole)
        kinds, _ = _programs(range(first + tried, first + tried + count), options, console, "thorough")
        tried, whole = tried + count, whole + count - kinds["cut short"]
        result += kinds
    short = result.pop("cut short", 0)
    console.print(
        f"{whole:,} thorough programs: {_counted(result)}; {short:,} more were cut short by the clock, and do not count"
    )
    return bool(result["wrong"] + result["crash"])


def checked(number: int, how: str = "program") -> Outcome:
    """The outcome of the program of a number, a thorough one, one of scales, a construct, or a case of the sweep."""
    if how == "sweep":
        return sweep.check_case(number)
    if how == "construct":
        return constructs.check_case(constructs.drawn_case(number), number)
    (outcome,) = at_once([steps(number, how)])
    return outcome


def steps(number: int, how: str = "program") -> Steps:
    """The checks of the program of a number, of a thorough one, or of one of scales."""
    if how == "scales":
        return scale_checks.scale_steps(number)
    if how == "thorough":
        return kind_steps(number, thorough=True)
    kind = Turn.of(number).kind
    if kind in ("jax", "sympy"):
        return form_steps(number)
    return jacobian_steps(number) if kind == "jacobian" else kind_steps(number)


def checked_all(numbers: range, how: str = "program") -> list[Outcome]:
    """The outcomes of many, whose C is compiled by one run of the compiler."""
    if how in ("sweep", "construct"):
        return [checked(number, how) for number in numbers]
    with joined(QUICK if numbers.start // CHUNK % COMPILED_AS_USERS else ALL):
        return at_once(steps(number, how) for number in numbers)


def _functions(options: argparse.Namespace, console: Console) -> int:
    """Return the number of wrong derivatives of the tables of functions, in all kinds and targets."""
    selected = [
        (table, case.name, target)
        for table, cases in all_cases().items()
        for case in cases
        if not options.functions or {case.name, case.table_name} & set(options.functions)
        for target in derivative_checks.TARGETS
    ]
    compared = wrong = 0
    for (_, name, target), result in _done(_function, selected, options):
        compared += result.compared
        wrong += len(result.wrong)
        for finding in result.wrong[:3]:
            console.print(f"wrong: {finding}\n{Path(__file__).name} --functions '{name}' ({target})")
    console.print(f"functions: {len(selected):,} in a target, {compared:,} derivatives compared, {wrong:,} wrong")
    return wrong


def _function(selected: tuple[str, str, str]) -> derivative_checks.Result:
    table, name, target = selected
    (case,) = (case for case in all_cases()[table] if case.name == name)
    return derivative_checks.check(table, case, target)


def _structured(options: argparse.Namespace, console: Console) -> int:
    """Return the number of wrong derivatives of functions of arrays, in all kinds and targets."""
    selected = [
        (case.name, target)
        for case in all_structured()
        if not options.functions or {case.name, case.table_name} & set(options.functions)
        for target in derivative_checks.TARGETS
    ]
    compared = wrong = 0
    for (name, target), (count, actual) in _done(_structured_function, selected, options):
        compared, wrong = compared + count, wrong + len(actual)
        for each in actual[:3]:
            console.print(f"wrong: {each}\n{Path(__file__).name} --functions '{name}' ({target})")
    console.print(
        f"functions of arrays: {len(selected):,} in a target, {compared:,} derivatives compared, {wrong:,} wrong"
    )
    return wrong


def _structured_function(selected: tuple[str, str]) -> tuple[int, list[structured_checks.Worst]]:
    name, target = selected
    (case,) = (case for case in all_structured() if case.name == name)
    return structured_checks.check_structured(case, target)[:2]


def _programs(
    numbers: range, options: argparse.Namespace, console: Console, how: str = "program"
) -> tuple[Counter[str], float]:
    """Return the number of programs by outcome, seconds of all processors, and the number of complete thorough ones.

    `options.saw` counts what those that are right have seen, `options.failed` the others by outcome and way.
    """
    kinds: Counter[str] = Counter()
    options.saw, options.failed = Counter(), Counter()
    seconds = 0.0
    last, size = numbers.stop, {"thorough": 8, "sweep": 20 * CHUNK}.get(how, CHUNK)
    chunks = [(a, min(a + size, last), how) for a in range(numbers.start, last, size)]
    for _, (outcomes, taken) in _done(_chunk, chunks, options):
        seconds += taken
        for outcome in outcomes:
            if outcome.cut_short and outcome.kind in ("right", "undecided"):
                kinds["cut short"] += 1
                continue
            kinds[outcome.kind] += 1
            options.saw.update(outcome.saw if outcome.kind == "right" else ())
            if outcome.kind not in ("right", "undecided"):
                options.failed[f"{outcome.kind} ({outcome.saw[0] if outcome.saw else how})"] += 1
            if outcome.kind not in ("right", "undecided") and kinds[outcome.kind] <= options.show:
                _show(outcome, console)
    return kinds, seconds


def _done(
    work: Callable[[Given], Found], tasks: list[Given], options: argparse.Namespace
) -> Iterator[tuple[Given, Found]]:
    """Yield the result of each task when it is there: from the log, or from one of the processes."""
    log, library = options.log, _sources("src")
    left = []
    for each in tasks:
        version, actual = log.get(repr(each), ("", None))
        if actual is None or (version != library and has_failed(actual)):
            left.append(each)
        else:
            yield each, actual
    together = options.jobs * options.refresh
    for start in range(0, len(left), together):
        # a pool with `max_tasks_per_child` may wait for ever for a process that it does not replace (CPython 115634)
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            waiting = {pool.submit(work, each): each for each in left[start : start + together]}
            for future in as_completed(waiting):
                each = waiting[future]
                try:
                    actual = future.result()
                except BrokenProcessPool:
                    sys.exit(f"a process died in {work.__name__}{each}, or in another at that moment")
                log[repr(each)] = library, actual
                if hasattr(log, "sync"):
                    log.sync()
                yield each, actual


def has_failed(result: Any) -> bool:
    """Return True if the result of a process contains a failure."""
    outcomes = result[0] if isinstance(result, tuple) else ()
    return getattr(result, "wrong", False) or (
        isinstance(outcomes, list) and any(each.kind not in ("right", "undecided") for each in outcomes)
    )


@cache
def _sources(of: str) -> str:
    """A digest of the library's sources, or of the tests that programs are drawn by."""
    root = Path(__file__).resolve().parents[2]
    tests = [*root.glob("tests/fuzz/*.py"), *root.glob("tests/functions/*.py")]
    tests += [root / "tests/function_cases.py", root / "tests/exact.py", root / "tests/duals.py"]
    beside = ("test_", "mutants", "stress", "driver")  # no program depends on these
    sources = [path for path in tests if not path.name.startswith(beside)]
    files = sorted(root.glob("src/**/*.py") if of == "src" else sources)
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _chunk(chunk: tuple[int, int, str]) -> tuple[list[Outcome], float]:
    """Outcomes, without the source of what is right, which nobody reads; and seconds of this processor."""
    first, last, how = chunk
    start = sum(os.times()[:4])  # compilers are processes of their own
    outcomes = checked_all(range(first, last), how)
    brief = [replace(each, source="") if each.kind in ("right", "undecided") else each for each in outcomes]
    return brief, sum(os.times()[:4]) - start


def _show(outcome: Outcome, console: Console) -> None:
    console.print(f"{outcome.kind}: {outcome.remark}")
    console.print(f"python {'/'.join(Path(__file__).parts[-3:])} --only {outcome.seed}")
    console.print(outcome.source)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000, help="how many (default 100,000)")
    parser.add_argument("--thorough", type=int, default=0, help="and how many thorough ones that are whole (default 0)")
    parser.add_argument("--scales", type=int, default=0, help="and how many programs of scales (default 0)")
    parser.add_argument("--constructs", type=int, default=3_000, help="and how many constructs (default 3,000)")
    parser.add_argument("--files", type=int, default=20_000, help="and how many changed files (default 20,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the run (default 0)")
    parser.add_argument("--log", type=Path, help="file of what was done, to go on with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--show", type=int, default=20, help="failures of each kind that are shown in full")
    parser.add_argument("--refresh", type=int, default=20, help="tasks of each process before others take their places")
    parser.add_argument("--mutants", nargs="*", choices=MUTANTS, help="put mistakes into the library, and find them")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="check this program alone")
    parser.add_argument("--suites", nargs="*", metavar="NAME", help="functions of other people's packages alone")
    parser.add_argument("--scipy", type=Path, metavar="PATH", help="checkout of SciPy, with the functions it minimises")
    parser.add_argument("--s2mpj", type=Path, metavar="PATH", help="checkout of S2MPJ, CUTEst's problems in Python")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="of these suites, one function in N")
    parser.add_argument("--functions", nargs="*", metavar="NAME", help="derivatives of functions alone, all or these")
    parser.add_argument(
        "--derivatives", action=argparse.BooleanOptionalAction, default=True, help="of all functions, too"
    )
    parser.add_argument("--stress", nargs="*", choices=stress.PARTS, default=list(stress.PARTS), help="all by default")
    parser.add_argument("--sweep", action=argparse.BooleanOptionalAction, default=True, help="odd arguments, too")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each part of the stress (default {ROUNDS})")
    options = parser.parse_args(arguments)
    options.saw = Counter()
    numbers = (options.programs, options.thorough, options.scales, options.files, options.rounds, options.seed)
    if min(numbers) < 0 or options.jobs < 1:
        parser.error(
            "--programs, --thorough, --scales, --files, --seed and --rounds must be at least 0, --jobs at least 1"
        )
    return options


if __name__ == "__main__":
    raise SystemExit(main())
