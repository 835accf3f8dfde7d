"""What derivatives of random programs are: runs in 50 digits of programs of scalars, differences of those of arrays."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
from arrays import Arrays, along, along_many, flat, scope
from calls import function
from exact import mp, mpf
from scalars import FROM_VALUE, TABLE, Run, Scalars

import accumulus as acc

Floats = np.ndarray[Any, Any]

#: Steps of differences in 50 digits, and how many runs that are rounded tell how far rounding moves a result.
STEP: Final = mpf(10) ** -12
SAMPLES: Final = 2


class Oracle(Protocol):
    """What a program's derivatives are by all inputs side by side: pairs of numbers, and how far they may be off."""

    outputs: int
    inputs: int

    def value(self) -> tuple[Floats, Floats]:
        """Of shape (outputs,)."""
        ...

    def jacobian(self) -> tuple[Floats, Floats]:
        """Of shape (outputs, inputs)."""
        ...

    def hessian(self) -> tuple[Floats, Floats]:
        """Of the sum of all outputs: (inputs, inputs)."""
        ...

    def taylor(self, series: Floats) -> tuple[Floats, Floats]:
        """Along x₀ + series[0]·t + series[1]·t² + …: (order, outputs)."""
        ...


class Once:
    """An oracle that says the same again without computing it again."""

    def __init__(self, oracle: Any) -> None:
        self._oracle, self._told = oracle, {}
        self.outputs, self.inputs = oracle.outputs, oracle.inputs

    def __getattr__(self, name: str) -> Callable[..., tuple[Floats, Floats]]:
        def told(*given: Floats) -> tuple[Floats, Floats]:
            key = name, *(each.tobytes() for each in given)
            if key not in self._told:
                self._told[key] = getattr(self._oracle, name)(*given)
            return self._told[key]

        return told


class Moved(Run):
    """A run in 50 digits in which each value, product and slope is moved by up to a unit in the last place.

    Products are moved one by one, since their sum may be 0: y/y is 1, and its slope is the difference of two numbers.
    A partial derivative that is computed from a value is off by what the value's last place is worth, and so is its
    own derivative: that of tanh is 1 - tanh², or 0 where tanh rounds to 1.

    Then values are `rounded`, so that they are where a function has no derivative as often as doubles are: arccos of an
    expit that is 1, say. Runs of which differences are taken are not: their steps are smaller than what doubles show.
    """

    def __init__(self, program: Scalars, number: Any, seed: int | None, rounded: bool = True) -> None:
        super().__init__(program, number, False)
        self.draw = random.Random(seed)
        self.unit, self.rounded = float(np.finfo(number).eps) if seed is not None else 0.0, rounded

    def factor(self, name: str, partial: Callable[..., Any], values: Sequence[Any]) -> Any:
        true = partial(*values)
        if not self.unit or name not in FROM_VALUE:
            return true
        size = 2 * self.unit * self.draw.uniform(-1, 1) * TABLE[name].value(*values)
        return true + size * mp.cos(values[0] + self.draw.uniform(0, 6))

    def product(self, factor: Any, slope: Any) -> Any:
        return super().product(factor, slope) * (1 + mpf(self.unit * self.draw.uniform(-1, 1)))

    def _append(self, value: Any, slope: list[Any], known: Any, active: bool) -> None:
        first = len(self.values) < self.program.inputs  # inputs are what they are
        if self.unit and not first and not isinstance(value, bool):
            value = value * (1 + mpf(self.unit * self.draw.uniform(-1, 1)))
            value = mpf(float(self.number(value))) if self.rounded else value
            slope = [each * (1 + mpf(self.unit * self.draw.uniform(-1, 1))) for each in slope]
        super()._append(value, slope, known, active)


class Exact:
    """A program of scalars in 50 digits."""

    def __init__(self, program: Scalars, point: Sequence[Any], dtype: str, seed: int) -> None:
        self.program, self.number, self.seed = program, np.dtype(dtype).type, seed
        self.point = [float(x) for a in point for x in np.ravel(a)]  # zeros have signs
        self.outputs, self.inputs = len(program.outputs), program.inputs
        self._needed = {k for _, arguments in program.steps for k in arguments} | set(program.outputs)

    def _at(self, moved: Sequence[Any], sample: int | None, rounded: bool = True) -> tuple[Any, Any]:
        """Values and slopes as arrays of 50 digits."""
        run = Moved(self.program, self.number, sample, rounded)
        for k, x in enumerate((*moved, *self.program.constants)):
            if k < self.inputs or k in self._needed:
                run.begin(x)
            else:
                run.skip()
        for name, arguments in self.program.steps:
            run.step(name, arguments)
        found = self.program.outputs
        return np.array([run.values[k] for k in found], object), np.array([run.slopes[k] for k in found], object)

    def _told(self, formula: Callable[[int | None], Any]) -> tuple[Floats, Floats]:
        true = formula(None)
        spread = np.max(
            [np.abs(formula(self.seed + k + 1) - true).astype(float) for k in range(SAMPLES)], axis=0, initial=0.0
        )
        return true.astype(float), spread

    def value(self) -> tuple[Floats, Floats]:
        return self._told(lambda sample: self._at(self.point, sample)[0])

    def jacobian(self) -> tuple[Floats, Floats]:
        return self._told(lambda sample: self._at(self.point, sample)[1].reshape(self.outputs, self.inputs))

    def hessian(self) -> tuple[Floats, Floats]:
        def rows(sample: int | None) -> Any:
            # NaN where slopes are no numbers, and beside them they are
            found, lost = [], (self._at(self.point, sample)[1] * 0).sum(axis=0)
            for k in range(self.inputs):
                above, below = list(self.point), list(self.point)
                above[k] = mpf(above[k]) + STEP
                below[k] = mpf(below[k]) - STEP
                difference = self._at(above, sample, False)[1] - self._at(below, sample, False)[1]
                found.append(difference.sum(axis=0) / (2 * STEP) + lost)
            return np.array(found, object)

        return self._told(rows)

    def taylor(self, series: Floats) -> tuple[Floats, Floats]:
        h, truncated = STEP, [mpf(0)]

        def coefficients(sample: int | None) -> Any:
            def slopes(t: Any) -> Any:
                """Of the outputs by t."""
                powers = [t ** (k + 1) for k in range(len(series))]
                moved = [
                    mpf(x) + sum(mpf(float(series[k, j])) * p for k, p in enumerate(powers))
                    for j, x in enumerate(self.point)
                ]
                along = [
                    sum((k + 1) * mpf(float(series[k, j])) * t**k for k in range(len(series)))
                    for j in range(self.inputs)
                ]
                return (self._at(moved, sample, False)[1].reshape(self.outputs, self.inputs) * along).sum(axis=1)

            two, one, zero, minus, below = (slopes(k * h) for k in (2, 1, 0, -1, -2))
            # NaN where slopes are no numbers, and beside them they are
            first = (self._at(self.point, sample)[1].reshape(self.outputs, self.inputs) * series[0]).sum(axis=1)
            second, coarse = (8 * (one - minus) - (two - below)) / (12 * h), (one - minus) / (2 * h)
            third = (16 * (one + minus) - (two + below) - 30 * zero) / (12 * h**2)
            coarser = (one + minus - 2 * zero) / h**2
            if sample is None:
                truncated[:] = [0 * first, abs(second - coarse) / 2, abs(third - coarser) / 6]
            found = [first, second / 2 + 0 * first, third / 6 + 0 * first]
            return np.array(found[: len(series)], object)

        true, spread = self._told(coefficients)
        return true, spread + np.array(truncated[: len(series)], object).astype(float)


class Differences:
    """A program of arrays by differences."""

    def __init__(self, program: Arrays, point: Sequence[Any]) -> None:
        self.f, self.shapes = function(program), program.shapes
        self.point = [np.asarray(a, float) for a in point]
        self.x = np.concatenate([a.ravel() for a in self.point])
        self.inputs = len(self.x)
        self.outputs = len(self._at(self.x))

    def _at(self, x: Floats) -> Floats:
        return flat(self.f(*parted(x, self.shapes)))

    def _told(self, f: Callable[..., Any], at: Any, direction: Any) -> tuple[Floats, Floats]:
        best, error = along(f, [at], [direction])
        return best, error * 10 + 1e-6 * (1 + _largest(best))

    def _columns(self, f: Callable[..., Any]) -> tuple[Floats, Floats]:
        pairs = [self._told(f, self.x, unit) for unit in np.eye(self.inputs)]
        return np.stack([a for a, _ in pairs], axis=-1), np.stack([b for _, b in pairs], axis=-1)

    def value(self) -> tuple[Floats, Floats]:
        value, draw = self._at(self.x), np.random.default_rng(0)
        moved = [self._at(self.x * (1 + 1e-15 * draw.normal(size=self.inputs))) for _ in range(SAMPLES)]
        spread = np.max([np.abs(each - value) for each in moved], axis=0, initial=0.0)
        return value, spread + 1e-9 * (1 + _largest(value))

    def jacobian(self) -> tuple[Floats, Floats]:
        return self._columns(self._at)

    def hessian(self) -> tuple[Floats, Floats]:
        gradient = acc.gradient(total(self.f), tuple(range(len(self.shapes))), target="numpy", time_limit=0.0)
        units = np.eye(self.inputs)
        pairs = along_many(lambda X: self._in_batch(gradient, X), self.x, units)
        best, error = np.stack([a for a, _ in pairs], axis=-1), np.stack([b for _, b in pairs], axis=-1)
        return best, error * 10 + 1e-6 * (1 + _largest(best))

    def _in_batch(self, gradient: Any, X: Floats) -> Floats:
        """Gradients at many points, one a row."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = np.split(X, ends[:-1], axis=1)
        found = gradient.batch(*(part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)))
        return np.concatenate([np.reshape(each, (len(X), -1)) for each in found], axis=1)

    def taylor(self, series: Floats) -> tuple[Floats, Floats]:
        first = acc.jvp(self.f, target="numpy", time_limit=0.0)
        a, b, *_ = [*series, 0.0 * series[0]]

        def slope(t: Any) -> Floats:
            here = tuple(parted(self.x + a * t + b * t * t, self.shapes))
            return flat(first(here, tuple(parted(a + 2 * b * t, self.shapes)))[1])

        found = [self._told(self._at, self.x, a), self._told(slope, np.array(0.0), np.array(1.0))]
        found[1] = found[1][0] / 2, found[1][1] / 2
        return np.array([each for each, _ in found[: len(series)]]), np.array([off for _, off in found[: len(series)]])


def _largest(x: Floats) -> Any:
    """The largest magnitude of numbers, or of each column; what is not finite beside them says nothing of them."""
    return np.abs(x).max(axis=0, initial=0.0, where=np.isfinite(x))


def parted(x: Floats, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Arguments of their shapes from all inputs side by side."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape)[()] for part, shape in zip(np.split(x, ends[:-1]), shapes, strict=True)]


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of all results."""
    add = scope()["float_"]

    def summed(tree: Any) -> Any:
        return add([summed(each) for each in tree.values()] if isinstance(tree, dict) else tree)

    return lambda *arguments: summed(f(*arguments))
