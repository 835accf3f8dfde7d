"""Code that nobody here wrote: derivatives of functions of other people's packages and collections of test problems.

    python tests/fuzz/driver.py --suites                    functions of packages, in an environment of their own
    python tests/fuzz/driver.py --suites opfunu packages    these suites alone
    python tests/fuzz/driver.py --suites --scipy PATH       SciPy's benchmarks, too: PATH is a checkout of SciPy
    python tests/fuzz/driver.py --suites --s2mpj PATH       S2MPJ, CUTEst's problems in Python: PATH is a checkout of it
    python tests/fuzz/driver.py --suites --one-in 7         one function in seven of each suite

Each function is called unchanged; its value and its Jacobian are compared with the function and with central
differences, at two points. Where differences do not settle (`settled_differences`), derivatives are not compared. An
outcome is

* right;
* undecided: the value is right, and no entry of the differences settles, as beside a kink;
* warned: an `IterationWarning` says that the derivative is that of the path of an iteration; in vain if it is right;
* refused: a typed error of this library;
* wrong: a value or an entry of the derivative;
* untyped: any other error, of a function that takes plain numbers;
* late: nothing after `LONGEST` seconds;
* random: two calls on the same numbers differ, or the function is not defined there; these do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import pkgutil
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

#: Seconds for one function.
LONGEST: Final = 60
#: Functions that a process tries before another takes its place.
TOGETHER: Final = 30
#: Largest number of arguments: problems of S2MPJ that have more are left out, and of others so many are compared.
MOST_ARGUMENTS: Final = 30
#: Relative differences, to the largest entry of a row, from which on a value or a derivative is wrong.
WRONG_VALUE: Final = 1e-9
WRONG_SLOPE: Final = 1e-5


class Case(NamedTuple):
    """A function of a suite, made in the process that calls it, and a point."""

    suite: str
    name: str


class Result(NamedTuple):
    """What became of a function."""

    case: Case
    kind: str
    remark: str = ""


# Suites ---------------------------------------------------------------------------------------------------------------


#: A function that makes a function and a point, for each name.
Makers = dict[str, Callable[[], tuple[Callable[..., Any], Any]]]


def of_packages(_: Path | None) -> Makers:
    """Return the functions of many packages."""
    import suite_functions

    return suite_functions.FUNCTIONS


def of_opfunu(_: Path | None) -> Makers:
    """Return the functions of opfunu, a collection of functions to minimise."""
    import opfunu

    found: Makers = {}
    for package in (opfunu.name_based, opfunu.cec_based):
        for module in pkgutil.iter_modules(package.__path__):
            scope = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            for name, kind in scope.items():
                if isinstance(kind, type) and kind.__module__.endswith(module.name) and hasattr(kind, "evaluate"):
                    found[f"{module.name}.{name}"] = lambda kind=kind: _within(kind(), "evaluate")
    return found


def _within(problem: Any, method: str) -> tuple[Callable[..., Any], Any]:
    """Return a method of a problem with bounds, and a point between these."""
    bounds = np.asarray(problem.bounds, float)
    shares = 0.37 + 0.21 * np.sin(np.arange(len(bounds)))
    return getattr(problem, method), bounds[:, 0] + shares * (bounds[:, 1] - bounds[:, 0])


def of_scipy(path: Path | None) -> Makers:
    """Return the functions to minimise of SciPy's benchmarks, and their residuals of least squares."""
    assert path is not None
    sys.path.insert(0, str(path / "benchmarks"))
    found: Makers = {}
    functions = vars(importlib.import_module("benchmarks.go_benchmark_functions"))
    base = functions["Benchmark"]
    for name, kind in functions.items():
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base:
            found[f"minimum.{name}"] = lambda kind=kind: _within(kind(), "fun")
    problems = importlib.import_module("benchmarks.lsq_problems")
    for name, kind in problems.extract_lsq_problems().items():
        found[f"residuals.{name}"] = lambda kind=kind: (kind.fun, np.asarray(kind.x0, float))
    return found


def of_s2mpj(path: Path | None) -> Makers:
    """Return the objectives and constraints of S2MPJ's problems, at their starting points."""
    assert path is not None
    sys.path[:0] = [str(path), str(path / "python_problems")]
    found: Makers = {}
    for each in sorted((path / "python_problems").glob("*.py")):
        found[f"{each.stem}.fx"] = lambda name=each.stem: _of_s2mpj(name, "fx")
        found[f"{each.stem}.cx"] = lambda name=each.stem: _of_s2mpj(name, "cx")
    return found


def _of_s2mpj(name: str, method: str) -> tuple[Callable[..., Any], Any]:
    problem = getattr(importlib.import_module(name), name)()
    groups = getattr(problem, "objgrps" if method == "fx" else "congrps", None)
    if problem.n > MOST_ARGUMENTS or groups is None or not len(groups):
        raise LookupError("too large, or without such groups")
    return getattr(problem, method), np.asarray(problem.x0, float)


SUITES: Final[dict[str, Callable[[Path | None], Makers]]] = {
    "packages": of_packages,
    "opfunu": of_opfunu,
    "scipy": of_scipy,
    "s2mpj": of_s2mpj,
}


# Checks ---------------------------------------------------------------------------------------------------------------


def settled_differences(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Return columns of the Jacobian by central differences, and a bound on their errors.

    Steps are tried over seven decades; the best are three neighbours that agree, and with all shorter ones. The bound
    is infinite where none do.
    """
    flat = x.reshape(-1)
    shape = np.shape(function(x.copy()))

    def value_at(at: Any) -> Any:
        try:
            return np.asarray(function(at.reshape(x.shape)), float).reshape(-1)
        except Exception:  # outside of what the function takes
            return np.full(int(np.prod(shape)), np.nan)

    columns, errors = [], []
    for k in _columns(flat.size):
        scale = max(abs(flat[k]), 1e-3 * np.abs(flat).max(initial=0.0), 1e-8)
        estimates, noise, middle = [], [], value_at(flat)
        for step in scale * 2.0 ** -np.arange(3.0, 26.0):
            above, below = flat.copy(), flat.copy()
            above[k] += step
            below[k] -= step
            ahead, behind, width = value_at(above), value_at(below), above[k] - below[k]
            estimates.append((ahead - behind) / width)
            noise.append(8.0 * np.finfo(float).eps * np.abs(ahead) / width)
        central = np.array(estimates)
        better = (4.0 * central[1:] - central[:-1]) / 3.0
        spread = np.abs(np.diff(better, axis=0))
        spread = np.maximum(spread[1:], spread[:-1])  # three neighbours agree
        spread = np.where(np.isfinite(spread), np.maximum(spread, np.array(noise)[3:]), np.inf)
        apart = np.abs(better[1:-1, None] - better[None, 1:-1]) - 10.0 * spread[None]
        shorter = np.triu(np.ones((len(spread), len(spread)), bool))[..., None]
        # long steps may agree where a function oscillates between them
        spread = np.maximum(spread, np.max(np.where(shorter & np.isfinite(apart), apart, 0.0), axis=1))
        best = np.argmin(spread, axis=0)
        kink = np.abs(ahead + behind - 2.0 * middle) / width - 4.0 * noise[-1]  # that of the shortest step
        spread = np.maximum(spread, np.where(np.isfinite(kink), kink, 0.0))
        at = np.arange(spread.shape[1])
        columns.append(better[best + 1, at])
        errors.append(spread[best, at])
    return np.stack(columns, axis=-1), np.stack(errors, axis=-1)


def _columns(size: int) -> Sequence[int]:
    """Return the arguments by which derivatives are compared."""
    return range(size) if size <= MOST_ARGUMENTS else np.linspace(0, size - 1, MOST_ARGUMENTS).astype(int).tolist()


def outcome(case: Case, paths: dict[str, Path | None]) -> Result:
    """Return what becomes of one function."""
    warnings.simplefilter("ignore")
    try:
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            function, x = SUITES[case.suite](paths.get(case.suite))[case.name]()
            x = np.asarray(x, float)
            values = [np.asarray(function(x.copy()), float) for _ in range(2)]
            if not np.array_equal(*values) or not np.isfinite(values[0]).all():
                return Result(case, "random")
            wanted = [np.asarray(function(at.copy()), float) for at in _points(x)]
    except BaseException as error:
        return Result(case, "random", f"{type(error).__name__}: {error}"[:200])
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        return _compared(case, function, x, wanted)


def _points(x: Any) -> list[Any]:
    return [x, x * (1.0 + 1e-3 * np.cos(np.arange(x.size)).reshape(x.shape))]


def _compared(case: Case, function: Any, x: Any, wanted: Sequence[Any]) -> Result:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _derivatives_compared(case, function, x, wanted)
    is_warned = any(type(each.message).__name__ == "IterationWarning" for each in caught)
    if is_warned:
        return result._replace(kind={"wrong": "warned", "right": "warned in vain"}.get(result.kind, result.kind))
    return result


def _derivatives_compared(case: Case, function: Any, x: Any, wanted: Sequence[Any]) -> Result:
    import accumulus as acc
    from accumulus.errors import AccumulusError

    derivative = acc.value_and_jacobian(function, cache=False)
    decided = 0
    for at, expected in zip(_points(x), wanted, strict=True):
        try:
            value, jacobian = derivative(at.copy())
        except AccumulusError as error:
            return Result(case, "refused", f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}")
        except TimeoutError:
            raise
        except Exception as error:
            return Result(case, "untyped", f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}")
        value = np.asarray(value, float)
        allowed = WRONG_VALUE * (np.abs(expected).max(initial=0.0) + 1e-300)
        with contextlib.suppress(Exception):  # where values cancel to rounding, by what the next doubles change them
            nearby = [np.asarray(function(np.nextafter(at, side)), float) for side in (np.inf, -np.inf)]
            allowed += 4.0 * np.nanmax(np.abs(np.array(nearby) - expected), initial=0.0)
        if value.shape != expected.shape or not np.allclose(
            value, expected, rtol=WRONG_VALUE, atol=allowed, equal_nan=True
        ):
            return Result(case, "wrong", f"value {value!r:.100} instead of {expected!r:.100}")
        slopes, errors = settled_differences(function, at)
        jacobian = np.asarray(jacobian, float).reshape(-1, at.size)[:, _columns(at.size)]
        scale = np.abs(slopes).max(axis=-1, keepdims=True, initial=0.0)
        settled = errors < 1e-2 * WRONG_SLOPE * np.maximum(np.abs(slopes), 1e-3 * scale)
        settled |= (scale == 0.0) & (errors == 0.0)
        decided += int(settled.sum())
        off = np.abs(jacobian - slopes) > WRONG_SLOPE * np.maximum(np.abs(slopes), 1e-3 * scale) + 100.0 * errors
        wrong = settled & (off | np.isnan(jacobian))
        for column in np.flatnonzero(wrong.any(axis=0)).tolist():
            apart = 4.0 * _oscillations(derivative, at, _columns(at.size)[column])
            wrong[:, column] &= ~(np.abs(jacobian - slopes)[:, column] <= apart)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            pair = f"{jacobian[row, column]:.9g} instead of {slopes[row, column]:.9g}"
            return Result(case, "wrong", f"derivative of result {row} by argument {_columns(at.size)[column]}: {pair}")
    return Result(case, "right" if decided else "undecided")


def _oscillations(derivative: Any, at: Any, argument: int) -> Any:
    """Return by how much a column of the Jacobian differs from its means over short intervals, as differences compute.

    CEC's functions have Weierstrass's in them, whose shortest waves rounding hides from differences.
    """

    def column(x: float) -> Any:
        moved = at.copy()
        moved.flat[argument] = x
        return np.asarray(derivative(moved)[1], float).reshape(-1, at.size)[:, argument]

    x = at.flat[argument]
    sizes = (abs(x) or 1.0) * np.array([1.7e-10, 2.9e-9, 3.1e-8, 2.3e-7, 1.9e-6, 2.1e-5, 1.3e-4, 1.1e-3])
    means = [0.5 * (column(x + size) + column(x - size)) for size in sizes]
    return np.nanmax(np.abs(means - column(x)), axis=0)


def _in_time(case: Case, paths: dict[str, Path | None]) -> Result:
    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        return outcome(case, paths)
    except TimeoutError:
        return Result(case, "late")
    finally:
        signal.alarm(0)


# Runs -----------------------------------------------------------------------------------------------------------------


def run(suites: Sequence[str], paths: dict[str, Path | None], jobs: int, one_in: int) -> Iterator[Result]:
    """Yield what becomes of each function, or of one in so many, in processes of their own."""
    cases = [Case(suite, name) for suite in suites for name in sorted(SUITES[suite](paths.get(suite)))[::one_in]]
    size = TOGETHER * jobs
    for batch in (cases[k : k + size] for k in range(0, len(cases), size)):
        done: set[Case] = set()
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            futures = {pool.submit(_in_time, case, paths): case for case in batch}
            with contextlib.suppress(BrokenProcessPool):
                for future in as_completed(futures):
                    result = future.result()
                    done.add(futures[future])
                    yield result
        for case in batch:
            if case not in done:  # one of these has ended the interpreter: each has a process of its own now
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    try:
                        yield pool.submit(_in_time, case, paths).result()
                    except BrokenProcessPool:
                        yield Result(case, "untyped", "the interpreter ended")


def main(suites: Sequence[str], paths: dict[str, Path | None], jobs: int, one_in: int, show: int) -> int:
    """Run suites and print what became of their functions; return 1 if anything was wrong or untyped."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    chosen = suites or [name for name in SUITES if name in ("packages", "opfunu") or paths.get(name)]
    counts: dict[str, Counter[str]] = {suite: Counter() for suite in chosen}
    shown: Counter[str] = Counter()
    for result in run(chosen, paths, jobs, one_in):
        counts[result.case.suite][result.kind] += 1
        shown[result.kind] += 1
        if result.kind not in ("right", "random", "undecided") and shown[result.kind] <= show:
            console.print(f"{result.kind}: {result.case.suite} {result.case.name}: {result.remark}")
    for suite, kinds in counts.items():
        left_out = kinds.pop("random", 0)
        listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
        console.print(f"{suite}: {kinds.total():,} functions: {listed}; {left_out:,} random or undefined left out")
    total: Counter[str] = sum(counts.values(), Counter())
    return int(bool(total["wrong"] + total["untyped"]))


if __name__ == "__main__":
    os.environ.setdefault("ACCUMULUS_CACHE_PLANS", "0")
    parser = argparse.ArgumentParser()
    parser.add_argument("suites", nargs="*", help=", ".join(SUITES))
    parser.add_argument("--scipy", type=Path)
    parser.add_argument("--s2mpj", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one-in", type=int, default=1)
    parser.add_argument("--show", type=int, default=40)
    given = parser.parse_args()
    sys.exit(main(given.suites, {"scipy": given.scipy, "s2mpj": given.s2mpj}, given.jobs, given.one_in, given.show))
