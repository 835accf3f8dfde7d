"""Bounds on the results of a program over arrays for all finite inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from accumulus.tape.blocks import Block, Opaque
from accumulus.tape.columns import Column, are_equal, owners_in, references_in
from accumulus.tape.factorisations import Factorisation
from accumulus.tape.interpreter import Domain, Partial, resume
from accumulus.tape.operations import Operation
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem

#: Lower and upper bound; None if a result may be NaN, or nothing is known. Sums and products of finite numbers count as
#: finite, however large.
Bounds = tuple[float, float]
Interval = Bounds | None
MOST: Final = 1e308
ANY: Final[Bounds] = (-MOST, MOST)


class Intervals(Partial):
    """Intervals of the results of each block of a program, extended as it grows.

    Args:
        tape: the program; its inputs are taken to be finite.
    """

    located = frozenset(("multiply",))

    def __init__(self, tape: Program) -> None:
        self._tape = tape
        self._by_block: list[Interval] = []

    def is_finite(self, values: Column) -> bool:
        """Return True if all values are finite numbers."""
        return _is_finite(self.of(values))

    def of(self, values: Column) -> Interval:
        """Return the interval of all values of a column."""
        resume(self._tape, self, None, len(self._by_block), memory=lambda *_: self)
        return self._of(values, owners_in(self._tape.starts, values))

    # Interface of the interpreter's memory

    def read(self, operands: Column, *, is_whole: bool = True) -> Interval:
        """Return the interval of a block's operand."""
        return self._of(operands, self._tape.owners(operands))

    def write(self, start: int, count: int, interval: Interval) -> None:
        """Keep the interval of the next block."""
        self._by_block.append(interval)

    def run_steps(self, block: Block, domain: Domain) -> None:
        """Append None: nothing is known about recurrences."""
        self._by_block.append(None)

    def _of(self, operands: Column, owners: Sequence[int]) -> Interval:
        """Return the interval as `of` does, given the blocks that own the references."""
        if not len(operands):
            return (0.0, 0.0)
        return _hull(self._outside(operands) if block < 0 else self._by_block[block] for block in owners)

    def _outside(self, operands: Column) -> Interval:
        """Return the interval of inputs and constants among the values of a column."""
        references = references_in(operands)
        constants = self._tape.constants[-1 - references[references < 0]]
        if not np.isfinite(constants).all():
            return None
        inputs = ((references >= 0) & (references < self._tape.inputs)).any()
        return ANY if inputs or not len(constants) else (float(constants.min()), float(constants.max()))

    # Rules

    def rule(self, row: Operation) -> Callable[..., Interval]:
        """Return the rule of an operation; of finite operands all results but exponentials count as finite."""
        compute = super().rule(row)
        if row.name in ("exp", "select"):
            return compute

        def of(*operands: Any) -> Interval:
            bounds: Interval = compute(*operands)
            if bounds is None or not all(map(_is_finite, operands[-row.arity :])):
                return bounds
            return max(bounds[0], -MOST), min(bounds[1], MOST)

        return of

    def add(self, a: Bounds, b: Bounds) -> Interval:
        """Add, unless infinities of both signs may meet."""
        if (a[1] == math.inf and b[0] == -math.inf) or (a[0] == -math.inf and b[1] == math.inf):
            return None
        return a[0] + b[0], a[1] + b[1]

    def subtract(self, a: Bounds, b: Bounds) -> Interval:
        """Subtract, unless infinities of equal sign may meet."""
        return self.add(a, self.negative(b))

    def multiply(self, tape: Program, block: Block, a: Bounds, b: Bounds) -> Interval:
        """Multiply, unless 0 and infinity may meet; squares are not negative."""
        for one, other in ((a, b), (b, a)):
            if not _is_finite(one) and other[0] <= 0.0 <= other[1]:
                return None
        corners = [x * y for x in a for y in b]
        return max(min(corners), 0.0) if are_equal(*block.operands) else min(corners), max(corners)

    def divide(self, a: Bounds, b: Bounds) -> Interval:
        """Divide, unless the divisor may be 0 or both may be infinite."""
        if b[0] <= 0.0 <= b[1] or not (_is_finite(a) or _is_finite(b)):
            return None
        corners = [x / y for x in a for y in b]
        return min(corners), max(corners)

    def negative(self, a: Bounds) -> Bounds:
        """Negate."""
        return -a[1], -a[0]

    def exp(self, a: Bounds) -> Interval:
        """Return e to these powers, which may overflow."""
        return math.exp(min(a[0], 709.0)), math.exp(a[1]) if a[1] < 709.0 else math.inf

    def abs(self, a: Bounds) -> Interval:
        """Return magnitudes."""
        return (0.0 if a[0] <= 0.0 <= a[1] else min(map(abs, a))), max(map(abs, a))

    def sqrt(self, a: Bounds) -> Interval:
        """Return square roots; None if an argument may be negative."""
        return (math.sqrt(a[0]), math.sqrt(a[1])) if a[0] >= 0.0 else None

    def log(self, a: Bounds) -> Interval:
        """Return logarithms; None if an argument may be 0 or negative."""
        return (math.log(a[0]), math.log(a[1])) if a[0] > 0.0 else None

    def minimum(self, a: Bounds, b: Bounds) -> Interval:
        """Return the interval of the smaller operand."""
        return min(a[0], b[0]), min(a[1], b[1])

    def maximum(self, a: Bounds, b: Bounds) -> Interval:
        """Return the interval of the larger operand."""
        return max(a[0], b[0]), max(a[1], b[1])

    def select(self, condition: Interval, a: Interval, b: Interval) -> Interval:
        """Return the union of both intervals."""
        return _hull([a, b])

    def function(self, row: Operation, *operands: Bounds) -> Interval:
        """Return the bounds in the table for finite arguments, else None; floors and ceilings are finite."""
        bounds = ANY if row.name in ("floor", "ceil") else row.bounds
        return bounds if bounds[1] < math.inf and all(map(_is_finite, operands)) else None

    def sums(self, terms: Interval, offsets: Any) -> Interval:
        """Return `ANY` if the terms are finite, else None."""
        return ANY if _is_finite(terms) else None

    def matmul(self, left: Interval, right: Interval, shape: Any) -> Interval:
        """Return `ANY` if both matrices are finite, else None."""
        return ANY if _is_finite(left) and _is_finite(right) else None

    def solve(self, matrix: Interval, sides: Interval, shape: Any) -> Interval:
        """Return None: matrices may be singular."""
        return None

    def log_determinant(self, matrix: Interval, shape: Any) -> Interval:
        """Return None: determinants may be 0."""
        return None

    def cholesky(self, matrix: Interval, shape: Any) -> Interval:
        """Return None: matrices may not be positive definite."""
        return None

    def gather(self, matrix: Interval, indices: Interval, shape: Any) -> Interval:
        """Return the union of the intervals of all entries."""
        return matrix

    def scatter(self, terms: Interval, indices: Interval, shape: Any) -> Interval:
        """Return `ANY` if the terms are finite, else None."""
        return ANY if _is_finite(terms) else None

    def factorise(self, row: Factorisation, matrix: Interval, shape: Any) -> Interval:
        """Return None: LAPACK may fail."""
        return None

    def sparse_solve(self, system: SparseSystem, data: Interval, sides: Interval, shape: Any) -> Interval:
        """Return None: matrices may be singular."""
        return None

    def sparse_product(self, matrix: SparseMatrix, x: Interval, shape: Any) -> Interval:
        """Return `ANY` if the matrix and `x` are finite, else None."""
        return ANY if matrix.is_finite and _is_finite(x) else None

    def call(self, opaque: Opaque, numbers: Interval, shape: Any) -> Interval:
        """Return None: nothing is known about opaque functions."""
        return None


def _is_finite(interval: Interval) -> bool:
    return interval is not None and math.isfinite(interval[0]) and math.isfinite(interval[1])


def _hull(intervals: Iterable[Interval]) -> Interval:
    bounds = list(intervals)
    finite = [each for each in bounds if each is not None]
    return (min(low for low, _ in finite), max(high for _, high in finite)) if len(finite) == len(bounds) else None
