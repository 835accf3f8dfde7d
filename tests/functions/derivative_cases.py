"""Cases of functions with their derivatives of orders 0 to 4: what a case is, reference numbers, and where they are.

To add a function, append a `Case` to the table of a module that `TABLES` names (a module of your own has a list
`CASES`, and its name is added to `TABLES`), then run

    python tests/functions/reference_numbers.py NAME…      cases of these names anew, or all without a name

which writes ``tests/data/functions/<module>.npz``. `test_every_function.py` and `make fuzz` go through all tables. A
function of arrays becomes one of a few real parameters that returns a number, such as the determinant of a matrix with
two entries that vary.

A case says

* `name`: unique among all tables; ``np.hypot``, ``special.jv(2)``. What stands before a parenthesis says which name of
  a front end's table the case is for.
* `function`: as a user writes it, of one real number for each argument.
* `exact`: the same in mpmath, of as many digits as `mp.dps` says when it is called. It has to be right in the
  neighbourhood of every point; derivatives are differences of its values.
* `points`: numbers of functions of one argument, tuples of others.
* `singular`: numbers beside 0 near which a difference needs a step that is smaller than the distance, for all
  arguments: poles, branch points, kinks. Where an argument is one of them itself, differences are taken to the right.
* `at`: points at which a derivative does not exist, or differences do not find it, with what the convention is: values
  of orders 0, 1, … of functions of one argument; a mapping from exponents, such as ``(1, 0)``, of others. What is None
  or left out is not compared.
* `allowances`: exceptions from `UNITS`, which docs/numerics.md lists.

The scale of a derivative d is S = |d| + Σ |xᵢ ∂d/∂xᵢ|: what it moves by for a unit of relative error of the arguments,
and of itself. Errors are in units of 2⁻⁵² S.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from mpmath.ctx_mp import MPContext

#: Modules with a table of cases.
TABLES: Final = ("scalar_functions", "distribution_functions")
DATA: Final = Path(__file__).parents[1] / "data" / "functions"
LARGEST_ORDER: Final = 4
#: Errors that are allowed, in units of 2⁻⁵² of the scale.
UNITS: Final = 16.0
#: Steps of differences as a part of the distance to what is singular; two, so that the limit is seen.
_STEPS: Final = (1e-60, 1e-63)
#: Digits in which both have to agree, relative to the scale; and more digits that are tried to reach that.
_AGREED: Final = 50
_MORE_DIGITS: Final = (0, 400, 1600)

#: The context of all references.
mp = MPContext()
mpf = mp.mpf
Point = tuple[float, ...]
Exponents = tuple[int, ...]
#: Differences, each with what rounding may add.
Differences = dict[Exponents, tuple[Any, Any]]


@dataclass(frozen=True)
class Allowance:
    """An exception: where, units of the scale and units of 1 that are allowed, and what it is about.

    `applies` is given the point, the exponents of the derivative and the name of the target. Infinite units are for
    numbers that are not compared at all.
    """

    where: str
    units: float = 0.0
    absolute: float = 0.0
    applies: Callable[[Point, Exponents, str], bool] = lambda point, exponents, target: True


@dataclass(frozen=True)
class Case:
    """One function; see the module."""

    name: str
    function: Callable[..., Any]
    exact: Callable[..., Any]
    points: Sequence[Any]
    singular: Sequence[float] = ()
    at: Mapping[Any, Any] = field(default_factory=dict)
    allowances: Sequence[Allowance] = ()
    #: The function of a vector, where it is not `function` of the entries: of JAX, or a model of SymPy.
    vector: Callable[[Any], Any] | None = None

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.regular[0]) if self.regular else len(next(iter(self.conventions)))

    @property
    def regular(self) -> list[Point]:
        """Points with reference numbers."""
        return [_point(p) for p in self.points if _point(p) not in self.conventions]

    @property
    def conventions(self) -> dict[Point, dict[Exponents, float]]:
        """Points with conventions, each with the derivatives that it names."""
        found = {}
        for point, given in self.at.items():
            named = given if isinstance(given, Mapping) else {(k,): value for k, value in enumerate(given)}
            found[_point(point)] = {key: float(value) for key, value in named.items() if value is not None}
        return found

    @property
    def table_name(self) -> str:
        """The name without orders and remarks: ``special.jv`` of ``special.jv(2)``."""
        return self.name.partition("(")[0]

    def allowed(self, point: Point, alpha: Exponents, target: str) -> tuple[float, float]:
        """Units of the scale and of 1 that an error may have."""
        found = [a for a in self.allowances if a.applies(point, alpha, target)]
        return max([UNITS, *(a.units for a in found)]), max([0.0, *(a.absolute for a in found)])


@dataclass(frozen=True)
class References:
    """Derivatives and their scales at the regular points of a case: arrays (points, exponents)."""

    points: np.ndarray
    derivatives: np.ndarray
    scales: np.ndarray


def _point(given: Any) -> Point:
    return tuple(map(float, given)) if isinstance(given, tuple) else (float(given),)


@cache
def exponents(arity: int, largest: int = LARGEST_ORDER) -> tuple[Exponents, ...]:
    """Exponents of all derivatives up to an order, by their sum."""
    every: Iterable[Exponents] = itertools.product(range(largest + 1), repeat=arity)
    return tuple(sorted((alpha for alpha in every if sum(alpha) <= largest), key=lambda alpha: (sum(alpha), alpha)))


def all_cases() -> dict[str, list[Case]]:
    """The cases of each table."""
    return {table: list(import_module(table).CASES) for table in TABLES}


@cache
def _loaded(table: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{table}.npz") as file:
        return dict(file)


def references_of(table: str, case: Case) -> References:
    """The stored numbers of a case.

    Raises:
        AssertionError: for points that are not those of the case.
    """
    stored = _loaded(table).get(case.name)
    wanted = np.array(case.regular).reshape(-1, case.arity)
    command = f"run python tests/functions/reference_numbers.py '{case.name}'"
    assert stored is not None, f"{case.name} has no reference numbers: {command}"
    count = len(exponents(case.arity))
    points, derivatives, scales = np.split(stored, [case.arity, case.arity + count], axis=1)
    assert np.array_equal(points, wanted), f"the points of {case.name} are others: {command}"
    return References(points, derivatives, scales)


# Computing them -------------------------------------------------------------------------------------------------------


def computed(case: Case) -> np.ndarray:
    """Points, derivatives and scales side by side, one row a regular point.

    Raises:
        ArithmeticError: if two steps of the differences give other digits.
    """
    rows = [[*point, *_row(case, point)] for point in case.regular]
    return np.array(rows).reshape(len(rows), -1)


def _row(case: Case, point: Point) -> list[float]:
    """Derivatives and scales at a point, with as many more digits as it takes."""
    gap = None
    for extra in _MORE_DIGITS:
        first, second = (_differences(case, point, mpf(step), extra) for step in _STEPS)
        for alpha, (value, noise) in second.items():
            # what remains of a derivative of 0 goes with the step, or is rounding with all digits
            if abs(value) < abs(first[alpha][0]) / 100 or (extra == _MORE_DIGITS[-1] and abs(value) < noise):
                second[alpha] = (mpf(0), noise)
        scales = {}
        for alpha in exponents(case.arity):
            moved = (abs(mpf(x) * second[_raised(alpha, i)][0]) for i, x in enumerate(point))
            scales[alpha] = abs(second[alpha][0]) + sum(moved)
        gap = _gap(first, second, scales)
        if gap is None:
            return [_double(second[alpha][0]) for alpha in scales] + [_rounded(scale) for scale in scales.values()]
    raise ArithmeticError(f"{case.name} at {point}: differences of {gap}")


def _gap(first: Differences, second: Differences, scales: Mapping[Exponents, Any]) -> str | None:
    """A derivative of which both steps give other digits."""
    for alpha, scale in scales.items():
        found = second[alpha][0]
        if found and abs(found - first[alpha][0]) > scale * mpf(10) ** -_AGREED:
            return f"{alpha} are {mp.nstr(abs(found - first[alpha][0]) / scale, 4)} of the scale apart"
    return None


def _length(case: Case, x: float) -> Any:
    """What the step of an argument is a part of."""
    distances = [abs(mpf(x) - mpf(s)) for s in (0.0, *case.singular) if s != x]
    return min([max(mpf(1), abs(mpf(x))), *distances])


def _differences(case: Case, point: Point, step: Any, extra: int) -> Differences:
    """Forward differences of all orders up to one more than is wanted, each with what rounding may add."""
    largest = LARGEST_ORDER + 1
    lengths = [_length(case, x) for x in point]
    digits = (
        _AGREED + 20 + extra - int(largest * mp.log10(step)) - (largest + 1) * int(mp.log10(min([mpf(1), *lengths])))
    )
    with mp.workdps(digits):
        h = [length * step for length in lengths]
        values = {
            beta: mpf(mp.re(case.exact(*(mpf(x) + k * each for x, k, each in zip(point, beta, h, strict=True)))))
            for beta in exponents(case.arity, largest)
        }
        rounding = max(map(abs, values.values())) * mpf(10) ** (20 - digits)
        found = {}
        for alpha in exponents(case.arity, largest):
            total = mpf(0)
            for beta in itertools.product(*(range(k + 1) for k in alpha)):
                sign = (-1) ** (sum(alpha) - sum(beta))
                total += sign * math.prod(math.comb(a, b) for a, b in zip(alpha, beta, strict=True)) * values[beta]
            divisor = mp.fprod(each**k for each, k in zip(h, alpha, strict=True))
            found[alpha] = (total / divisor, rounding / divisor)
    return found


def _raised(alpha: Exponents, i: int) -> Exponents:
    return (*alpha[:i], alpha[i] + 1, *alpha[i + 1 :])


def _double(x: Any) -> float:
    return float(x) if abs(x) < mpf(2) ** 1024 else math.copysign(math.inf, x)


def _rounded(x: Any) -> float:
    """A scale in few digits, which compress; between the least normal number and the largest."""
    mantissa, exponent = math.frexp(min(max(_double(x), 2.0**-1022), 1.7e308))
    return math.ldexp(round(mantissa * 256) / 256, exponent)
