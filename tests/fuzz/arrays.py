"""Random functions of arrays: the cases of every recorded array function, composed with each other.

The cases of `tests/function_cases.py` hold an expression for every array function that is recorded, over a
vector v, matrices A and M and a number s. Here each of these is itself an expression of the arguments, results are
combined, and loops fill arrays. Values are compared with NumPy, derivatives along random directions with extrapolated
central differences of NumPy's values, where two step widths disagree there is a kink, and the point tells nothing; and
some of them with JAX (`with_jax`), to many more digits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import function_cases
import numpy as np
from forms import QUICK

import accumulus as acc

PARAMETERS: Final = ("v", "A", "M", "s")
SHAPES: Final[tuple[tuple[int, ...], ...]] = ((3,), (3, 3), (2, 4), ())
#: Cases whose result says nothing of the arguments' values, or is so large that it absorbs all others.
LEFT_OUT: Final = ("np.empty_like", "np.array_str", "np.array_repr", "np.array2string", "np.nan_to_num")
CASES: Final = [text for name, texts in function_cases.CASES.items() if name not in LEFT_OUT for text in texts]
#: Expressions that keep an argument's shape; {0} is the argument.
PRELUDES: Final = (
    *("np.sin({0}) + {0}", "{0} * s + 0.5", "np.exp(-{0} * {0})", "np.tanh({0}) * 2", "{0} / (1 + {0} * {0})"),
    *("np.where({0} > 0.5, {0}, {0} * {0})", "np.maximum({0}, s)", "np.abs({0}) + 0.1", "np.sqrt({0} * {0} + 1)"),
    *("np.clip({0}, -1.5, 1.5)", "np.arctan2({0}, 2 + s * s)", "np.hypot({0}, 1.0) - s", "np.flip({0})", "-{0}"),
    *("np.cumsum({0}).reshape(np.shape({0}))", "{0} - np.mean({0})", "special.erf({0}) + s", "np.log1p({0} ** 2)"),
)
#: How one or two results become that of the function; float_ adds up what is nested, or true and false.
COMBINED: Final = (
    *("return y", "return y, z", "return {'y': y, 'z': z}", "return [z, (y, y)]", "return float_(y) * float_(z)"),
    *("return np.array([float_(y), float_(z) - float_(y)])", "return np.sin(float_(y)) + s"),
)
LOOP: Final = """r = np.zeros((2, 3))
    for k in range(3):
        r[0, k] = v[k] * M[0, k]
        r[1, -1 - k] += s * A[k, 1]
        r[1] -= 0.5 * v"""
#: The same without a loop.
FILLED: Final = "r = np.stack([v * M[0, :3], (s * A[:, 1])[::-1] - 1.5 * v])"
FIRST_STEP: Final = 2e-3
KINK: Final = 1e-4
UNEVEN: Final = 3.7
#: Relative distance of neighbours, as of 1 and the next number.
UNIT: Final = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Arrays:
    """A function `f` of the arguments.

    Attributes:
        preludes: names of arguments, each with the expression that takes its place.
        row: of the array that `LOOP` fills, which takes the place of v; None without a loop.
        cases: the expressions of the results y, z.
        combined: what is returned.
    """

    preludes: tuple[tuple[str, str], ...]
    row: int | None
    cases: tuple[str, ...]
    combined: str
    parameters: tuple[str, ...] = PARAMETERS
    shapes: tuple[tuple[int, ...], ...] = SHAPES

    @property
    def source(self) -> str:
        """As text."""
        return self._written(LOOP)

    @property
    def functional(self) -> str:
        """As text that changes no array."""
        return self._written(FILLED)

    def _written(self, loop: str) -> str:
        lines = [f"{name} = {expression}" for name, expression in self.preludes]
        if self.row is not None:
            lines += [loop, f"v = r[{self.row}] * 1.0"]
        lines += [f"{name} = {case}" for name, case in zip("yz", self.cases, strict=False)]
        body = "\n    ".join([*lines, self.combined])
        return f"def f({', '.join(self.parameters)}):\n    {body}\n"


def random_arrays(rng: random.Random) -> Arrays:
    """A function of a vector, two matrices and a number."""
    preludes = [
        (name, rng.choice(PRELUDES).format(name)) for name in PARAMETERS for _ in range(rng.choice((0, 0, 1, 1, 2)))
    ]
    rng.shuffle(preludes)
    row = rng.randrange(2) if rng.random() < 0.15 else None
    combined = rng.choice(COMBINED)
    cases = rng.choices(CASES, k=1 + ("z" in combined))
    return Arrays(tuple(preludes), row, tuple(cases), combined)


def namespace(numpy: Any) -> dict[str, Any]:
    """What the text of a function may use, with NumPy or a module like it."""

    def float_(result: Any) -> Any:
        """The sum of all numbers in what a function returned; true and false count 1 and 0."""
        if isinstance(result, (tuple, list)):
            return sum(float_(each) for each in result)
        boolean = getattr(result, "dtype", np.dtype(float)).kind == "b"
        return numpy.sum(numpy.where(result, 1.0, 0.0) if boolean else result)

    return {**vars(function_cases), "np": numpy, "float_": float_}


@cache
def scope() -> dict[str, Any]:
    """What the text of a function may use."""
    from scipy import special

    return {**namespace(np), "special": special, "acc": acc, "quick": QUICK}


def leaves(result: Any) -> list[Any]:
    """The arrays of a structured result, in order, as floats."""
    if isinstance(result, dict):
        return [leaf for key in result for leaf in leaves(result[key])]
    if isinstance(result, (tuple, list)):
        return [leaf for each in result for leaf in leaves(each)]
    return [np.asarray(result, float)]


def flat(result: Any) -> np.ndarray[Any, Any]:
    """All numbers of a structured result, side by side."""
    return np.concatenate([np.ravel(leaf) for leaf in leaves(result)] or [np.empty(0)])


def along(
    f: Callable[..., Any], arguments: Sequence[Any], directions: Sequence[Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Derivative of all results along a direction, and an estimate of its error: infinite at kinks.

    Central differences for steps h, h/2, h/4, extrapolated; the error is what the last extrapolation changed, and what
    the rounding of results does to a difference. At a kink they differ, or one-sided slopes do.
    """

    def at(t: float) -> np.ndarray[Any, Any]:
        return flat(f(*(np.copy(a) + t * d for a, d in zip(arguments, directions, strict=True))))

    with np.errstate(all="ignore"):
        # results that move with the last places of their arguments, such as sin(1e170) or one of 1e17
        close = [flat(f(*(a * (1 + sign * UNIT) for a in arguments))) for sign in (-1.0, 1.0)]
        return _extrapolated([at(t) for t in PLACES], close)


def along_many(
    f: Callable[[Any], Any], x: np.ndarray[Any, Any], directions: np.ndarray[Any, Any]
) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """The same for many directions of one argument, with a function of many points at once."""
    close = x * (1 + UNIT * np.array([[-1.0], [1.0]]))
    with np.errstate(all="ignore"):
        found = f(np.concatenate([close, *(x + np.multiply.outer(PLACES, each) for each in directions)]))
        rest = found[2:].reshape(len(directions), len(PLACES), -1)
        return [_extrapolated(list(each), list(found[:2])) for each in rest]


#: Where a function is evaluated: in the middle, at both sides of it, and at a distance that is no half of another.
PLACES: Final = (
    0.0,
    *(sign * FIRST_STEP / 2**k for k in range(3) for sign in (1, -1)),
    *(sign * FIRST_STEP / UNEVEN for sign in (1, -1)),
)


def _extrapolated(values: list[Any], close: list[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The derivative, and its error, from values at `PLACES` and at neighbours."""
    steps, here = [FIRST_STEP / 2**k for k in range(3)], values[0]
    ends = list(zip(values[1:7:2], values[2:7:2], strict=True))
    first, second, third = ((above - below) / (2 * h) for h, (above, below) in zip(steps, ends, strict=True))
    # what one-sided slopes differ by: a·h where there is a second derivative a, and c + a·h at a kink
    _, bent, straight = ((above - 2 * here + below) / h for h, (above, below) in zip(steps, ends, strict=True))
    once, twice = (4 * second - first) / 3, (4 * third - second) / 3
    best = (16 * twice - once) / 15
    # a staircase may lie evenly under steps that halve, and under no other
    uneven = (values[7] - values[8]) / (2 * FIRST_STEP / UNEVEN)
    scale = 1.0 + np.abs(best)
    error = np.abs(best - twice) + 1e-9 * scale
    error += 10 * np.abs(2 * straight - bent)
    error += np.max([np.abs(each - here) for each in (*close, here + UNIT * np.abs(here))], axis=0) / steps[-1]
    error[~(np.maximum(np.abs(third - second), np.abs(uneven - second)) <= KINK * scale)] = np.inf
    return best, error
