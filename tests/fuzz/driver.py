"""Random programs over the whole surface against independent oracles, in several processes: `make fuzz`.

    python tests/fuzz/driver.py                              100,000 programs, then threads, forks and kills
    python tests/fuzz/driver.py --programs 1000 --seed 7     fewer, others
    python tests/fuzz/driver.py --only 4711                  the program of one seed, as it is drawn: a reproducer

Program k of a run is that of the number seed·10⁹ + k, which a failure is printed with. Ends with 1 if a result was
wrong, anything but a typed error was raised, or something hung; numbers that are less accurate than rounding explains
are counted and shown.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for the references of all tests

import stress
from checking import Outcome, check
from rich.console import Console

#: Programs that a process is given at once.
CHUNK = 50
#: A run is given this much for each of its programs, and every one of its numbers is below this.
RUN = 10**9
#: Rounds of each part of the stress for a hundred thousand programs.
ROUNDS = 60


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, and say what came of it."""
    options = _parse(arguments)
    os.environ["ACCUMULUS_CACHE_PLANS"] = "0"  # programs are searched for, never recalled
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    if options.only is not None:
        outcome = check(options.only)
        _show(outcome, console)
        return 0 if outcome.kind in ("right", "undecided") else 1
    start = time.perf_counter()
    kinds = _programs(options, console)
    seconds = time.perf_counter() - start
    total = sum(kinds.values())
    rate = total / seconds / options.jobs if seconds else 0.0
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    console.print(f"{total:,} programs from seed {options.seed}: {counts}; {rate:.1f} a second and process")
    failed = bool(kinds["wrong"] + kinds["crash"])
    for name, part in stress.PARTS.items():
        if name in options.stress:
            failures = part(options.rounds, options.seed)
            console.print(f"{name}: {options.rounds} rounds, {len(failures)} failures")
            for failure in failures[:10]:
                console.print(f"  {failure}")
            failed |= bool(failures)
    return int(failed)


def _programs(options: argparse.Namespace, console: Console) -> Counter[str]:
    kinds: Counter[str] = Counter()
    first = options.seed * RUN
    starts = range(first, first + options.programs, CHUNK)
    last = first + options.programs
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(_chunk, a, min(a + CHUNK, last)): a for a in starts}
        for future in as_completed(waiting):
            try:
                outcomes = future.result()
            except BrokenProcessPool:
                outcomes = [Outcome(waiting[future], "crash", f"a process died within {CHUNK} programs from here")]
            for outcome in outcomes:
                kinds[outcome.kind] += 1
                if outcome.kind not in ("right", "undecided") and kinds[outcome.kind] <= options.show:
                    _show(outcome, console)
    return kinds


def _chunk(first: int, last: int) -> list[Outcome]:
    """Outcomes without the source of what is right, which nobody reads."""
    outcomes = map(check, range(first, last))
    return [Outcome(each.seed, each.kind) if each.kind == "right" else each for each in outcomes]


def _show(outcome: Outcome, console: Console) -> None:
    console.print(f"{outcome.kind}: {outcome.remark}")
    console.print(f"python {'/'.join(Path(__file__).parts[-3:])} --only {outcome.seed}")
    console.print(outcome.source)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000, help="how many (default 100,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the run (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--show", type=int, default=20, help="failures of each kind that are shown in full")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="check this program alone")
    parser.add_argument("--stress", nargs="*", choices=stress.PARTS, default=list(stress.PARTS), help="all by default")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each part of the stress (default {ROUNDS})")
    options = parser.parse_args(arguments)
    if options.programs < 0 or options.jobs < 1 or options.rounds < 0 or options.seed < 0:
        parser.error("--programs, --seed and --rounds must be at least 0, --jobs at least 1")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
