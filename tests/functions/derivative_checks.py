"""What is wrong with a function's compiled derivatives: every order, kind of derivative and target against references.

A derivative of order k is one of the derivative of order k - 1, nested, at single points and in a batch; Hessians,
their products with directions and Taylor coefficients are compared as well.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from derivative_cases import LARGEST_ORDER, Case, Exponents, Point, exponents, references_of

import accumulus as acc

TARGETS: Final = ("llvm", "numpy", "c")
#: The kinds of derivatives; a program for each.
KINDS: Final = ("nested", "hessian", "hvp", "taylor")
_UNIT: Final = 2.0**-52
_LARGEST: Final = float(np.finfo(float).max)
#: Options of programs: what is searched for does not matter, and recordings of derivatives are compared here.
_OPTIONS: Final[dict[str, Any]] = {"effort": "fast", "cache": False, "check": False}
#: The derivatives that a number is a sum of, with factors.
Terms = dict[Exponents, float]
#: What a program computes: its name, numbers of each point, and what each is a sum of.
Numbers = tuple[str, np.ndarray, list[Terms]]


@dataclass(frozen=True)
class Finding:
    """A derivative with the error that was found, in units of 2⁻⁵² of the scale, and what is allowed."""

    case: str
    target: str
    kind: str
    point: Point
    exponents: Any
    found: float
    expected: float
    units: float
    allowed: float

    @property
    def wrong(self) -> bool:
        """Whether the error is larger than is allowed."""
        return not self.units <= self.allowed

    def __str__(self) -> str:
        return (
            f"{self.case}, {self.target}, {self.kind}, at {self.point}, {self.exponents}: {self.found!r} instead of "
            f"{self.expected!r}, {self.units:.3g} units"
        )


@dataclass(frozen=True)
class Result:
    """How many numbers were compared, and those among them that are wrong or have the largest error."""

    compared: int
    wrong: list[Finding]
    worst: Finding | None


def is_in_tests(case: Case, target: str) -> bool:
    """Whether a case is among the fixed tenth that the tests go through; of C, which compiles long, a fortieth."""
    part = 40 if target == "c" else 10
    return hashlib.sha256(f"{case.name} {target}".encode()).digest()[0] % part == 0


def check(table: str, case: Case, target: str, kinds: tuple[str, ...] = KINDS) -> Result:
    """Compare all derivatives of a case in one target with its references."""
    compared, wrong, worst = 0, [], None
    with np.errstate(all="ignore"):
        for finding in _findings(table, case, target, kinds):
            compared += 1
            if finding.wrong:
                wrong.append(finding)
            if worst is None or finding.units > worst.units:
                worst = finding
    return Result(compared, wrong, worst)


class _Expected:
    """References and conventions of a case, as sums of derivatives at its points."""

    def __init__(self, table: str, case: Case) -> None:
        references = references_of(table, case)
        self.order = exponents(case.arity)
        place = {alpha: k for k, alpha in enumerate(self.order)}
        self.points: list[Point] = [*case.regular, *case.conventions]
        rows = len(self.points)
        self.values = np.full((rows, len(place)), math.nan)
        self.scales = np.ones((rows, len(place)))
        known = len(references.points)
        self.values[:known], self.scales[:known] = references.derivatives, references.scales
        for row, named in enumerate(case.conventions.values(), known):
            for alpha, value in named.items():
                self.values[row, place[alpha]] = value
                self.scales[row, place[alpha]] = max(abs(value), 2.0**-1022) if math.isfinite(value) else 1.0
        self._place = place

    def sums(self, row: int, terms: dict[Exponents, float]) -> tuple[float, float] | None:
        """A sum of derivatives and its scale, None where a term is not known or the sum is not finite."""
        value = scale = 0.0
        for alpha, factor in terms.items():
            found = self.values[row, self._place[alpha]]
            if len(terms) > 1 and not math.isfinite(found):
                return None
            value += factor * found
            scale += factor * self.scales[row, self._place[alpha]]
        return None if math.isnan(value) else (value, max(scale, 2.0**-1022))

    def overflows(self, row: int, order: int) -> bool:
        """Whether a derivative below an order is infinite, or more than a number can be."""
        return any(math.isinf(self.values[row, k]) for alpha, k in self._place.items() if sum(alpha) < order)


def _findings(table: str, case: Case, target: str, kinds: tuple[str, ...]) -> Iterator[Finding]:
    expected = _Expected(table, case)
    regular = len(case.regular)
    X = np.array(expected.points).reshape(-1, case.arity)
    for kind in kinds:
        for name, numbers, terms in _COMPUTED[kind](_of_vector(case), X, target):
            for row, point in enumerate(expected.points):
                for found, each in zip(numbers[row], terms, strict=True):
                    wanted = expected.sums(row, each)
                    # recurrences of coefficients go on from those that have overflowed
                    if wanted is None or (kind == "taylor" and expected.overflows(row, sum(next(iter(each))))):
                        continue
                    units = _error(float(found), *wanted, row >= regular and sum(next(iter(each))) > 0)
                    scaled, absolute = np.max([case.allowed(point, alpha, target) for alpha in each], axis=0)
                    if math.isinf(scaled):
                        continue
                    allowed = scaled + absolute / wanted[1]
                    label = next(iter(each)) if len(each) == 1 else each
                    yield Finding(case.name, target, name, point, label, float(found), wanted[0], units, allowed)


def _of_vector(case: Case) -> Callable[..., Any]:
    return case.vector or (lambda x: case.function(*(x[k] for k in range(case.arity))))


def _error(found: float, expected: float, scale: float, convention: bool) -> float:
    """In units of 2⁻⁵² of the scale; beyond the largest number infinity is right."""
    if convention and math.isinf(expected):  # the sign of an infinity at the end of a domain is that of a zero
        return 0.0 if math.isinf(found) else math.inf
    if math.isinf(expected) or math.isinf(found):
        near = abs(expected) >= _LARGEST * (1 - 64 * _UNIT) and abs(found) >= _LARGEST * (1 - 64 * _UNIT)
        return 0.0 if near and (found > 0) == (expected > 0) else math.inf
    if math.isnan(found):
        return math.inf
    unit = _UNIT * scale
    # the scale may be the smallest normal number, a unit of it the smallest of all
    return abs(found - expected) / unit if abs(found - expected) < _LARGEST else math.inf


# The kinds ------------------------------------------------------------------------------------------------------------


def _nested(f: Callable[..., Any], X: np.ndarray, target: str) -> Iterator[Numbers]:
    n = X.shape[1]
    orders = [f]
    for _ in range(LARGEST_ORDER):
        orders.append(acc.jacobian(orders[-1], **_OPTIONS))
    alphas = exponents(n)

    def every(x: Any) -> Any:
        entries = []
        for order, derivative in enumerate(orders):
            tensor = np.reshape(derivative(x), (n,) * order)
            entries += [tensor[_index(alpha)] for alpha in alphas if sum(alpha) == order]
        return np.stack(entries)

    program = acc.compile(every, target=target, **_OPTIONS)
    terms: list[Terms] = [{alpha: 1.0} for alpha in alphas]
    yield "nested, one by one", np.array([program(x) for x in X]), terms
    yield "nested", program.batch(X), terms


def _index(alpha: Exponents) -> tuple[int, ...]:
    return tuple(itertools.chain.from_iterable([i] * k for i, k in enumerate(alpha)))


def _hessian(f: Callable[..., Any], X: np.ndarray, target: str) -> Iterator[Numbers]:
    n = X.shape[1]
    found = acc.hessian(f, target=target, **_OPTIONS).batch(X)
    pairs = itertools.product(range(n), repeat=2)
    yield "hessian", found.reshape(len(X), n * n), [{_unit(n, i, j): 1.0} for i, j in pairs]


def _hvp(f: Callable[..., Any], X: np.ndarray, target: str) -> Iterator[Numbers]:
    n = X.shape[1]
    (found,) = acc.hvp(f, target=target, **_OPTIONS).batch((X,), (np.ones_like(X),))
    terms: list[Terms] = [{_unit(n, i, j): 1.0 for j in range(n)} for i in range(n)]
    yield "hvp", found.reshape(len(X), n), terms


def _taylor(f: Callable[..., Any], X: np.ndarray, target: str) -> Iterator[Numbers]:
    n = X.shape[1]
    program = acc.taylor(f, target=target, **_OPTIONS)
    for direction in [*np.eye(n), *([np.ones(n)] if n > 1 else [])]:
        series = np.zeros((len(X), LARGEST_ORDER, n))
        series[:, 0] = direction
        value, coefficients = program.batch((X,), (series,))
        terms: list[Terms] = []
        for order in range(LARGEST_ORDER + 1):
            moved = [a for a in exponents(n) if sum(a) == order and not np.any(np.array(a)[direction == 0])]
            terms.append({alpha: 1.0 / math.prod(map(math.factorial, alpha)) for alpha in moved})
        yield "taylor", np.concatenate([np.reshape(value, (-1, 1)), coefficients.reshape(len(X), -1)], 1), terms


def _unit(n: int, *positions: int) -> Exponents:
    return tuple(positions.count(k) for k in range(n))


_COMPUTED: Final = {"nested": _nested, "hessian": _hessian, "hvp": _hvp, "taylor": _taylor}
