"""Between which numbers the results of a program over arrays are, whatever its inputs, as far as operations tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from accumulus.tape.blocks import MATMUL, SUM, BlockTape, Column, references_in
from accumulus.tape.columns import are_equal, owners_in
from accumulus.tape.operations import BY_NAME, OPERATIONS

__all__ = ["Intervals"]

#: The least and the greatest value; None if there may be no number. Sums and products of finite numbers are taken to be
#: finite, however large.
Interval = tuple[float, float] | None
MOST: Final = 1e308
ANY: Final = (-MOST, MOST)


class Intervals:
    """Intervals of the results of each block of a program, while it grows.

    Args:
        tape: the program; its inputs are finite.
    """

    def __init__(self, tape: BlockTape) -> None:
        self._tape = tape
        self._known: list[Interval] = []

    def is_finite(self, values: Column) -> bool:
        """Whether values are finite numbers."""
        return _is_finite(self.of(values))

    def of(self, values: Column) -> Interval:
        """The interval of all values of a column."""
        for block in self._tape.blocks[len(self._known) :]:
            if block.code in (SUM, MATMUL):
                finite = all(_is_finite(self._of_block(operands)) for operands in block.operands)
                self._known.append(ANY if finite else None)
            elif (rule := _RULES.get(block.code)) is None:
                self._known.append(None)
            else:
                found = rule(*map(self._of_block, block.operands))
                if block.code == _MULTIPLY and found is not None and are_equal(*block.operands):
                    found = max(found[0], 0.0), found[1]
                self._known.append(found)
        return self._of(values, owners_in(self._tape.starts, values))

    def _of_block(self, operands: Column) -> Interval:
        return self._of(operands, self._tape.owners(operands))

    def _of(self, operands: Column, owners: Sequence[int]) -> Interval:
        """The same, given which blocks they are results of."""
        if not len(operands):
            return (0.0, 0.0)
        return _hull(self._outside(operands) if block < 0 else self._known[block] for block in owners)

    def _outside(self, operands: Column) -> Interval:
        """The interval of inputs and constants among the values of a column."""
        references = references_in(operands)
        constants = self._tape.constants[-1 - references[references < 0]]
        if not np.isfinite(constants).all():
            return None
        inputs = ((references >= 0) & (references < self._tape.inputs)).any()
        return ANY if inputs or not len(constants) else (float(constants.min()), float(constants.max()))


def _is_finite(interval: Interval) -> bool:
    return interval is not None and math.isfinite(interval[0]) and math.isfinite(interval[1])


def _hull(intervals: Iterable[Interval]) -> Interval:
    found = list(intervals)
    known = [each for each in found if each is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == len(found) else None


def _strict(rule: Callable[..., Interval]) -> Callable[..., Interval]:
    """A rule for numbers; what is no number gives none. Of finite numbers, results are finite."""

    def of(*given: Interval) -> Interval:
        if any(each is None for each in given):
            return None
        found = rule(*given)
        if found is None or not all(map(_is_finite, given)):
            return found
        return max(found[0], -MOST), min(found[1], MOST)

    return of


def _add(a: tuple[float, float], b: tuple[float, float]) -> Interval:
    if (a[1] == math.inf and b[0] == -math.inf) or (a[0] == -math.inf and b[1] == math.inf):
        return None
    return a[0] + b[0], a[1] + b[1]


def _multiply(a: tuple[float, float], b: tuple[float, float]) -> Interval:
    for one, other in ((a, b), (b, a)):
        if not _is_finite(one) and other[0] <= 0.0 <= other[1]:
            return None
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _divide(a: tuple[float, float], b: tuple[float, float]) -> Interval:
    if b[0] <= 0.0 <= b[1] or not (_is_finite(a) or _is_finite(b)):
        return None
    corners = [x / y for x in a for y in b]
    return min(corners), max(corners)


def _exp(a: tuple[float, float]) -> Interval:
    return math.exp(min(a[0], 709.0)), math.exp(a[1]) if a[1] < 709.0 else math.inf


def _abs(a: tuple[float, float]) -> Interval:
    return (0.0 if a[0] <= 0.0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))


def _negative(a: tuple[float, float]) -> Interval:
    return -a[1], -a[0]


def _sqrt(a: tuple[float, float]) -> Interval:
    return (math.sqrt(a[0]), math.sqrt(a[1])) if a[0] >= 0.0 else None


def _log(a: tuple[float, float]) -> Interval:
    return (math.log(a[0]), math.log(a[1])) if a[0] > 0.0 else None


def _select(condition: Interval, a: Interval, b: Interval) -> Interval:
    del condition
    return _hull([a, b])


def _bounded(interval: tuple[float, float]) -> Callable[..., Interval]:
    return lambda *given: interval if all(map(_is_finite, given)) else None


_MULTIPLY: Final = BY_NAME["multiply"].code
_RULES: Final[dict[int, Callable[..., Interval]]] = {
    BY_NAME[name].code: rule
    for name, rule in {
        "add": _strict(_add),
        "subtract": _strict(lambda a, b: _add(a, (-b[1], -b[0]))),
        "multiply": _strict(_multiply),
        "divide": _strict(_divide),
        "negative": _strict(_negative),
        "abs": _strict(_abs),
        "sqrt": _strict(_sqrt),
        "log": _strict(_log),
        "minimum": _strict(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
        "maximum": _strict(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
        "select": _select,
        "floor": _bounded(ANY),
        "ceil": _bounded(ANY),
        **{row.name: _bounded(row.bounds) for row in OPERATIONS if row.bounds[1] < math.inf},
    }.items()
} | {BY_NAME["exp"].code: lambda a: None if a is None else _exp(a)}
