"""Programs of `scales`: prepared at one point and called at others, held against the truth and the plain program.

The plain program is that without rewriting (``optimise=False, exact_order=True``). What is asked of the other: at every
point where the plain one is finite and no intermediate number leaves the range of doubles, its error is at most four
times the plain one's, plus a few units in the last place; or it refuses with a typed error. The plain program's error
is the larger one of what it has at the point, and of what the text has with each operation rounded up or down at random
(`duals.rounded`), since a single run may be right by luck.

Outcomes, the worst one of all points and entries:

* "crash": an error without a type.
* "warned": the verification found a mistake of the optimiser, whose result is not used.
* "not finite": the plain program has a number.
* "wrong": three digits or less are right, and rounding does not explain it by far.
* "less accurate": more than four times the plain error, and more than next doubles as arguments and as results of all
  operations would change (`duals.moved`).
* "inaccurate": more than four times the plain error, but no more than that. Counted and shown; no failure.
* "plain": the plain program is far from what rounding explains forward: sums of products cancel in other orders, and
  differences may be 0 by luck. Counted and shown; no failure, since the other program is held against it.
"""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from checking import Outcome, Steps
from duals import NAMES, PLAINLY, TINY, UNIT, UNITS, At, Floats, OutOfRangeError, function_of, mp, off
from scales import Scaled, far_points, random_scaled
from with_jax import MISSING

import accumulus as acc
from accumulus.errors import AccumulusError, RewritingWarning

#: Ways to run a program after it was prepared, as often as they come.
WAYS_IN_TURN: Final = (
    *("points", "map", "batch", "arrays", "file", "jax", "near 1", "points"),
    *("map", "batch first", "arrays", "file", "jax", "c", "points", "another first"),
)
#: Kinds of derivatives, as often as they come.
KINDS_IN_TURN: Final = ("value_and_jacobian",) * 7 + ("jacobian", "jacobian", "compile")
#: From this fraction of a result on, an error is no matter of a few digits.
WRONG: Final = 1e-3
FAR: Final = 100.0
#: Times what random roundings explain that the plain program may be away.
PLAIN: Final = 1e3
#: Points of long arrays: from so many entries on, operations become loops whose bodies are given no points.
LONG: Final = 512
#: From mild to grave.
KINDS: Final = (
    "undecided",
    "right",
    "refused",
    "inaccurate",
    "plain",
    "warned",
    "less accurate",
    "wrong",
    "not finite",
    "crash",
)
FAILED: Final = ("warned", "less accurate", "wrong", "not finite", "crash")


@dataclass
class _Verdict:
    """The worst that was found so far."""

    kind: str = "undecided"
    remark: str = ""
    factor: float = 0.0

    def add(self, kind: str, remark: str = "", factor: float = 0.0) -> None:
        """Take what was found, if it is worse."""
        if (KINDS.index(kind), factor) > (KINDS.index(self.kind), self.factor):
            self.kind, self.remark, self.factor = kind, remark, factor


@dataclass
class Case:
    """A function, how it is prepared and run, and where."""

    program: Scaled
    way: str
    wanted: str
    first: list[float]
    points: dict[str, list[float]]
    seed: int
    verdict: _Verdict = field(default_factory=_Verdict)

    @classmethod
    def of(cls, number: int) -> Case:
        """Return the case of a number; 160 in a row have all combinations of way and kind."""
        rng = random.Random(number)
        way = WAYS_IN_TURN[number % len(WAYS_IN_TURN)]
        wanted = KINDS_IN_TURN[number // len(WAYS_IN_TURN) % len(KINDS_IN_TURN)]
        program = random_scaled(rng, elementwise=way == "arrays")
        points = {"first": program.first, **far_points(program, rng)}
        first = program.first
        if way in ("near 1", "c"):  # where `accumulus build` prepares
            first = [rng.uniform(0.5, 1.5) for _ in first]
        elif way == "another first":
            first = points[rng.choice([name for name in points if name != "first"])]
        return cls(program, way, wanted, first, points, number)

    def again(self) -> Case:
        """Return the same case, of which nothing is found yet."""
        return replace(self, verdict=_Verdict())

    def options(self) -> str:
        """What is called, for people."""
        return f"acc.{self.wanted}(f), {self.way}, first at {self.first}"

    # Running ---------------------------------------------------------------------------------------------------------

    def plain(self) -> list[Floats]:
        """What the plain program returns at each point, (outputs, 1 + inputs) each."""
        derivative = acc.value_and_jacobian(function_of(self.program.source), **PLAINLY)
        found = []
        for x in self.points.values():
            value, jacobian = derivative(np.array(x))
            found.append(np.concatenate([np.reshape(value, (-1, 1)), jacobian], axis=1))
        return found

    def _results(self, values: Any, jacobians: Any) -> list[Floats]:
        """The same of stacked results; NaN for what was not asked for, which is left out (`asked`)."""
        n, m, k = len(self.points), self.program.outputs, self.program.inputs
        found = np.full((n, m, 1 + k), np.nan)
        if values is not None:
            found[:, :, 0] = np.reshape(values, (n, m))
        if jacobians is not None:
            found[:, :, 1:] = np.reshape(jacobians, (n, m, k))
        return list(found)

    @property
    def asked(self) -> slice:
        """Columns of the results that were asked for."""
        if self.wanted == "value_and_jacobian" and self.is_energy:
            return slice(1, None)
        return {"jacobian": slice(1, None), "compile": slice(0, 1)}.get(self.wanted, slice(None))

    @property
    def is_energy(self) -> bool:
        """Whether long arrays are summed to one number, whose gradient is taken."""
        return self.way == "arrays" and self.program.outputs == 1 and self.wanted != "compile"

    def _parted(self, result: Any) -> tuple[Any, Any]:
        if self.wanted == "value_and_jacobian":
            return result  # type: ignore[no-any-return]
        return (None, result) if self.wanted == "jacobian" else (result, None)

    def prepared(self) -> Callable[[], list[Floats]]:
        """Prepare the program at its first point, and return what calls it at all points."""
        source = self.program.source
        options: dict[str, Any] = {"cache": False, "progress": False}
        X = np.array(list(self.points.values()))
        if self.way == "jax":
            return partial(self._in_jax, X)
        if self.way == "map":
            return partial(self._mapped, acc, X, options)
        if self.way == "arrays":
            return partial(self._in_arrays, X, options)
        options |= {"target": "c"} if self.way == "c" else {}
        derivative = getattr(acc, self.wanted)(function_of(source), **options)
        if self.way == "batch first":
            return lambda: self._results(*self._parted(derivative.batch(X)))
        derivative.compile(np.array(self.first)) if self.way == "c" else derivative(np.array(self.first))
        if self.way == "batch":
            return lambda: self._results(*self._parted(derivative.batch(X)))
        return partial(self._called, derivative, X)

    def _called(self, derivative: Any, X: Floats) -> list[Floats]:
        if self.way == "file":
            with tempfile.TemporaryDirectory() as folder:
                acc.save(derivative, Path(folder, "f.accumulus"))
                derivative = acc.load(Path(folder, "f.accumulus"))
        several = [self._parted(derivative(x)) for x in X]
        values, jacobians = zip(*several, strict=True)
        return self._results(*(None if each[0] is None else np.stack(each) for each in (values, jacobians)))

    def _in_jax(self, X: Floats) -> list[Floats]:
        import jax

        jax.config.update("jax_enable_x64", True)
        derivative = getattr(acc.jax, self.wanted)(function_of(self.program.source))
        return self._results(*self._parted(jax.jit(jax.vmap(derivative))(X)))

    def _mapped(self, library: Any, X: Floats, options: Any) -> list[Floats]:
        f = function_of(self.program.source)
        derivative = getattr(acc, self.wanted)(lambda rows: library.map(f, rows), **options)
        if self.seed // 160 % 2:
            derivative(np.array([self.first] * len(X)))
        value, jacobian = self._parted(derivative(X))
        return self._results(value, None if jacobian is None else np.moveaxis(np.diagonal(jacobian, 0, 0, 2), -1, 0))

    def _in_arrays(self, X: Floats, options: Any) -> list[Floats]:
        """As columns of a long array, all points again and again; derivatives as a sparse matrix, or of the sum."""
        f, n = function_of(self.program.source), len(X)
        m, k = self.program.outputs, self.program.inputs
        columns = np.resize(np.arange(n), LONG)
        if self.is_energy:
            energy = acc.gradient(lambda x: np.sum(f(x)), **options)
            return self._results(None, energy(X.T[:, columns])[:, :n].T)
        options |= {} if self.wanted == "compile" else {"sparse": "csr"}
        derivative = getattr(acc, self.wanted)(f, **options)
        if self.seed // 160 % 2:
            derivative(np.array([self.first] * LONG).T)
        value, jacobian = self._parted(derivative(X.T[:, columns]))
        if jacobian is not None:
            rows, inputs = (np.arange(count) * LONG for count in (m, k))
            whole = jacobian.tocsr()
            jacobian = np.stack([whole[rows + p][:, inputs + p].toarray() for p in range(n)])
        return self._results(None if value is None else value[:, :n].T, jacobian)

    # Judging ---------------------------------------------------------------------------------------------------------

    def judge(self, found: Sequence[Floats], plain: Sequence[Floats]) -> None:
        """Compare results with what they are, wherever the plain program has another number."""
        function = function_of(self.program.source, NAMES)
        for k, (name, x) in enumerate(self.points.items()):
            got, simple = found[k][:, self.asked], plain[k][:, self.asked]
            close = np.abs(got - simple) <= UNITS * UNIT * np.abs(simple)
            # the first points always, so that the plain program is looked at, too
            if k > 1 and (close | (np.isnan(got) & np.isnan(simple))).all():
                if np.isfinite(simple).any():
                    self.verdict.add("right")
                continue
            try:
                self._judge(At(function, x, self.asked), got, simple, f"{name} {x}")
            except OutOfRangeError:
                continue

    def _judge(self, at: At, got: Floats, plain: Floats, where: str) -> None:
        """Compare all entries at a point."""
        with np.errstate(all="ignore"):
            strict, loose = at.excess(got, plain)
            unexplained = off(plain, at.true) / (PLAIN * UNIT * at.size + TINY)
        if np.isfinite(strict).any():
            self.verdict.add("right")

        def remark(index: tuple[int, ...]) -> str:
            of = index[1] + (self.asked.start or 0)
            name = f"output {index[0]}" + (f" by input {of - 1}" if of else "")
            return (
                f"{name} is {float(got[index])!r} instead of {mp.nstr(at.true[index], 17)} at {where}; plainly it is "
                f"{float(plain[index])!r}"
            )

        for index in map(tuple, np.argwhere(strict > 1)):
            error = abs(float(got[index]) - float(at.true[index]))
            far = loose[index] > FAR and error > WRONG * at.size[index]
            kind = "wrong" if far else "less accurate"
            kind = kind if np.isfinite(got[index]) else "not finite"
            kind = kind if loose[index] > 1 else "inaccurate"
            self.verdict.add(kind, f"{remark(index)}; {strict[index]:.1e} times what is allowed", float(loose[index]))
        if (unexplained > 1).any():
            with np.errstate(all="ignore"):
                unexplained = off(plain, at.true) / (PLAIN * (at.moved + UNIT * at.size) + TINY)
            for index in map(tuple, np.argwhere(np.isfinite(strict * unexplained) & (unexplained > 1))):
                self.verdict.add("plain", remark(index), float(unexplained[index]))


def scale_steps(number: int) -> Steps:
    """Check the program of a number; C is compiled with that of others."""
    return checks(Case.of(number), number)


def checks(case: Case, number: int) -> Steps:
    """Check a case."""
    saw = case.way, case.wanted

    def outcome(kind: str, remark: str) -> Outcome:
        source = f"{case.program.source}# {case.options()}\n# {', '.join(case.program.idioms)}\n"
        return Outcome(number, kind, f"{case.way}: {remark}", source, saw)  # type: ignore[arg-type]

    if case.way == "jax" and MISSING is not None:
        return outcome("undecided", MISSING)
    try:
        with _quiet():
            plain = case.plain()
    except AccumulusError as error:
        return outcome("undecided", f"plainly refused: {error}")
    try:
        with _quiet():
            run = case.prepared()
        if case.way == "c":
            yield
        with _quiet():
            case.judge(run(), plain)
    except AccumulusError as error:
        return outcome("refused", f"{type(error).__name__}: {error}")
    except RewritingWarning as warning:
        return outcome("warned", f"{warning}")
    except Exception as error:
        return outcome("crash", f"{type(error).__name__}: {error}")
    return outcome(case.verdict.kind, case.verdict.remark)


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither warn of NaN, nor that time was short."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RewritingWarning)
        yield
