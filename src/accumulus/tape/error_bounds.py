"""Values of a tape with bounds on their rounding errors: running error analysis, many points at once.

A bound limits the difference between two evaluations of the same expressions with different rounding: sums in another
order, fused products, functions of another library. If rounding may carry a value across a jump (of floor, of a
comparison), the bound is at least as large as the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.blocks import Opaque
from accumulus.tape.columns import in_shapes
from accumulus.tape.factorisations import Factorisation
from accumulus.tape.interpreter import NUMBERS, Domain, outputs_at, run
from accumulus.tape.moving import expanded, narrowed
from accumulus.tape.operations import BY_NAME, Operation
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape


class _Rounding(NamedTuple):
    """Rounding of an arithmetic."""

    # relative error that one operation may add; elementary functions of good libraries stay within four roundings; the
    # rest is for reordered sums of as many terms as people write
    unit: float
    # absolute error for results that are too small for relative rounding; in double precision XLA takes them for zero
    smallest: float
    whole: float  # largest integer up to which all integers are representable


#: Rounding by dtype.
ROUNDING: Final = {
    "float64": _Rounding(16.0 * 2.0**-53, 2.0**-1022, 2.0**53),
    "float32": _Rounding(16.0 * 2.0**-24, 16.0 * 2.0**-149, 2.0**24),
}
#: Relative error of one operation in double precision.
UNIT: Final = ROUNDING["float64"].unit

#: Relative difference up to which no bound is computed, times the root of the number of operations in programs with
#: loops: errors of rounding that do not depend on each other grow as this root. A larger one accepts small mistakes, a
#: smaller one computes bounds, which take longer, for differences in the last digits.
CLOSE: Final = 8.0 * 2.0**-53
#: Number of rows that are compared at once: more take memory for temporary arrays, fewer make more calls of NumPy.
PART: Final = 1 << 15
#: An array of points, or a number that all points share.
Values = Any


class ErrorBounds(Domain):
    """Pairs of a value and a bound on its error, infinite if no bound is known.

    Each rule takes an operation's value, its arguments and their errors, and returns the error of the value.
    """

    parts = 2

    def __init__(self, dtype: str = "float64") -> None:
        self._rounding = ROUNDING[dtype]

    def number(self, number: Any) -> tuple[Any, Any]:
        """Return constants and bounds on their errors.

        Integers are exact; other numbers may be rounded results, and so may those above 2⁵³, all of which are integers.
        """
        unit, _, whole = self._rounding
        is_whole = (number == np.trunc(number)) & (abs(number) <= whole)
        return number, np.where(is_whole, 0.0, unit * abs(number))

    def numbers(self, numbers: Sequence[float]) -> Iterable[tuple[Any, Any]]:
        """Return the pair of each of many constants."""
        return zip(*self.number(np.array(numbers, np.float64)), strict=True)

    def rule(self, row: Operation) -> Callable[..., tuple[Values, Values]]:
        """Return the function that computes an operation's value and its error bound."""
        compute, error_of = row.by_numpy, super().rule(row)

        def of(*arguments: Any) -> tuple[Values, Values]:
            xs, dxs = zip(*arguments, strict=True)
            value = compute(*xs)
            return _bounded(value, error_of(value, xs, dxs))

        return of

    def add(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound a sum; its cancellation depends on the grouping of its terms, so the bound includes all of them."""
        return dxs[0] + dxs[1] + self._rounding.unit * (abs(xs[0]) + abs(xs[1]))

    subtract = add

    def multiply(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound a product."""
        (x, y), (dx, dy) = xs, dxs
        return dx * abs(y) + dy * abs(x) + dx * dy + self._rounding.unit * abs(v) + self._rounding.smallest

    def divide(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound a quotient; infinite if its divisor may be 0."""
        nearest = abs(xs[1]) - dxs[1]
        error = (dxs[0] + dxs[1] * abs(v)) / nearest + self._rounding.unit * abs(v) + self._rounding.smallest
        return np.where(nearest > 0, error, np.inf)

    def negative(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Return the error of the first argument, since nothing is rounded."""
        return dxs[0]

    abs = logical_not = attach = negative

    def minimum(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Return the larger error, since either argument may be selected."""
        return np.maximum(*dxs)

    maximum = logical_and = logical_or = minimum

    def comparison(self, row: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Return 1 if rounding may change the result, else 0; truth values are numbers here."""
        slip = dxs[0] + dxs[1]
        return np.where((slip > 0) & ~(abs(xs[0] - xs[1]) > slip), 1.0, 0.0)

    def select(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound a selection, which may take the other value if the condition may change."""
        chosen = np.where(xs[0], dxs[1], dxs[2])
        either = np.maximum(dxs[1], dxs[2]) + abs(xs[1] - xs[2])
        return np.where(dxs[0] > 0, either, chosen)

    def fmod(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound x - n·y, exact for its operands, unless rounding carries x across a nonzero multiple of y."""
        (x, y), (dx, dy) = xs, dxs
        period = abs(y)
        n = abs(np.rint((x - v) / y))
        slip = dx + (n + 1.0) * dy
        across = ((n > 0) & ~(abs(v) > slip)) | ~(period - abs(v) > slip)
        return np.where((slip > 0) & across, 2.0 * (period + dy), slip)

    def log_ndtr(self, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound log Φ(x) as JAX computes it: for x > 0 as the logarithm of a rounded number near 1.

        Below -20 JAX takes four terms of the asymptotic series of Φ(x)·√(2π)·|x|·exp(x²/2), 1 - x⁻² + 3 x⁻⁴ - 15 x⁻⁶.
        """
        series = np.where(xs[0] < -20.0, 105.0 / np.square(np.square(np.square(xs[0]))), self._rounding.unit)
        return self.function(BY_NAME["log_ndtr"], v, xs, dxs) + series

    def function(self, row: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values]) -> Values:
        """Bound any other operation by its change when its arguments change by their errors."""
        error = np.where(np.isfinite(sum(dxs)), self._rounding.unit * abs(v) + self._rounding.smallest, np.inf)
        if row.name in ("sin", "cos"):  # errors may exceed a period, where differences at both ends say nothing
            return error + np.minimum(dxs[0], 2.0)
        for k, (x, dx) in enumerate(zip(xs, dxs, strict=True)):
            above, below = (row.by_numpy(*xs[:k], x + step, *xs[k + 1 :]) for step in (dx, -dx))
            # the larger change; at the end of the domain, the one that exists
            moved = np.fmax(abs(above - v), abs(below - v))
            error = error + np.where(dx > 0, np.where(np.isnan(moved), np.inf, moved), 0.0)
        return error

    def sums(self, terms: tuple[Values, Values], offsets: NDArray[np.int64]) -> tuple[Values, Values]:
        """Compute sums of segments, with bounds for every order of their terms."""
        values, errors = terms
        most = int(np.diff(offsets).max())
        lost = errors + most * self._rounding.unit * abs(values)
        return _bounded(NUMBERS.sums(values, offsets), NUMBERS.sums(lost, offsets))

    def matmul(
        self, left: tuple[Values, Values], right: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Compute a matrix product and bound it; each product is rounded, and each sum of products."""
        (x, dx), (y, dy), product, rounding = left, right, NUMBERS.matmul, self._rounding
        rounded = (shape[1] + 1) * (rounding.unit * product(abs(x), abs(y), shape) + rounding.smallest)
        error = product(dx, abs(y) + dy, shape) + product(abs(x), dy, shape) + rounded
        return _bounded(product(x, y, shape), error)

    def solve(
        self, matrix: tuple[Values, Values], sides: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Solve systems and bound the solutions X by |A⁻¹|·(|dA|·|X| + |dB|), LAPACK's rounding included in dA and dB.

        Infinite where the matrix may be singular. Source: N. J. Higham, Accuracy and Stability, section 7.2.
        """
        (a, da), (b, db), (_, n, m) = matrix, sides, shape
        inverse, moved = self._of_inverse(a, da, n)
        solution, unit = NUMBERS.solve(a, b, shape), self._rounding.unit
        product = NUMBERS.matmul
        residual = product(moved, abs(solution), (n, n, m)) + db + 4 * n * unit * abs(b) + self._rounding.smallest
        return _bounded(solution, 2.0 * product(inverse, residual, (n, n, m)))

    def log_determinant(self, matrix: tuple[Values, Values], shape: tuple[int, int, int]) -> tuple[Values, Values]:
        """Bound a logarithm by the trace of |A⁻¹|·|dA|; the sign is exact unless the matrix may be singular."""
        (a, da), n = matrix, shape[0]
        inverse, moved = self._of_inverse(a, da, n)
        value = NUMBERS.log_determinant(a, shape)
        error = 2.0 * np.sum(_transposed(inverse, n) * moved, axis=0) + n * self._rounding.unit * (1.0 + abs(value[1]))
        return _bounded(value, np.stack([np.where(np.isfinite(error), 0.0, np.inf), error]))

    def cholesky(self, matrix: tuple[Values, Values], shape: tuple[int, int, int]) -> tuple[Values, Values]:
        """Bound a factor L by |L|·(|L⁻¹|·|dA|·|L⁻ᵀ|), rounding included in dA.

        Source: N. J. Higham, Accuracy and Stability, sections 10.1.1 and 10.3.
        """
        (a, da), n, product = matrix, shape[0], NUMBERS.matmul
        factor = NUMBERS.cholesky(a, shape)
        size, turned = abs(factor), _transposed(abs(factor), n)
        moved = da + 4 * n * self._rounding.unit * product(size, turned, shape) + self._rounding.smallest
        inverse, _ = self._of_inverse(factor, np.zeros_like(factor), n)
        lost = product(product(inverse, moved, shape), _transposed(inverse, n), shape)
        small = lost.reshape(n, n, *a.shape[1:]).sum(axis=1).max(axis=0) < 0.25
        return _bounded(factor, np.where(small, 2.0 * product(size, lost, shape), np.inf))

    def gather(
        self, matrix: tuple[Values, Values], indices: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Take rows and their bounds; indices are exact."""
        return NUMBERS.gather(matrix[0], indices[0], shape), NUMBERS.gather(matrix[1], indices[0], shape)

    def scatter(
        self, terms: tuple[Values, Values], indices: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Add rows and bound the sums, of up to all terms; indices are exact."""
        (x, dx), at = terms, indices[0]
        lost = dx + shape[1] * self._rounding.unit * abs(x)
        return _bounded(NUMBERS.scatter(x, at, shape), NUMBERS.scatter(lost, at, shape))

    def factorise(
        self, row: Factorisation, matrix: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Bound each part by its change with the matrix, in the Frobenius norm, LAPACK's rounding included."""
        (a, da), (m, n, _) = matrix, shape
        factors = NUMBERS.factorise(row, a, shape)
        lost = np.linalg.norm(da, axis=0) + 8.0 * max(m, n) * self._rounding.unit * np.linalg.norm(a, axis=0)
        error = np.empty_like(factors)
        for point in np.ndindex(factors.shape[1:]):
            at = (slice(None), *point)
            parts = in_shapes(factors[at], row.shapes(m, n))
            spread = zip(row.sensitivity(parts), parts, strict=True)
            weights = [np.broadcast_to(each, part.shape).reshape(-1) for each, part in spread]
            error[at] = 4.0 * np.concatenate(weights) * lost[point]
        return _bounded(factors, error)

    def sparse_solve(
        self,
        system: SparseSystem,
        data: tuple[Values, Values],
        sides: tuple[Values, Values],
        shape: tuple[int, int, int],
    ) -> tuple[Values, Values]:
        """Bound solutions X by ‖A⁻¹‖·(|dA|·|X| + |dB|), with an estimate of the norm and one bound for all entries.

        Infinite where the matrix is singular, or where only its factors are known. Sources: as for `solve`; N. J.
        Higham and F. Tisseur, A block algorithm for matrix 1-norm estimation, 2000.
        """
        (a, da), (b, db), (_, n, m) = data, sides, shape
        solution, unit = NUMBERS.sparse_solve(system, a, b, shape), self._rounding.unit
        error = np.full_like(solution, np.inf)
        for point in np.ndindex(solution.shape[1:]):
            at = (slice(None), *point)
            norm, matrix, off = system.of_inverse(a[at]), system.matrix(a[at]), da[at]
            if np.isfinite(norm) and matrix is not None:
                size = abs(solution[at].reshape(n, m))
                moved = system.matrix(off) if off.any() else 0.0 * matrix
                lost = (abs(moved) + 8 * unit * abs(matrix)) @ size + (db[at] + unit * abs(b[at])).reshape(n, m)
                error[at] = 4.0 * norm * lost.max(initial=0.0) + self._rounding.smallest
        return _bounded(solution, error)

    def sparse_product(
        self, matrix: SparseMatrix, x: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Multiply and bound the results by magnitudes; each product is rounded, and each sum of products."""
        (value, error), (m, k, n) = x, shape
        size, lost = (matrix.magnitudes @ each.reshape(k, -1) for each in (abs(value), error))
        lengths, rounding = 1 + np.diff(matrix.starts)[:, np.newaxis], self._rounding
        bound = (lost + lengths * (rounding.unit * size + rounding.smallest)).reshape(m * n, *value.shape[1:])
        return _bounded(NUMBERS.sparse_product(matrix, value, shape), bound)

    def call(
        self, opaque: Opaque, numbers: tuple[Values, Values], shape: tuple[int, int, int]
    ) -> tuple[Values, Values]:
        """Call an opaque function and bound the change of its results by |J|·|dx|, with its Jacobian J, if known."""
        (x, dx), k, n = numbers, opaque.argument_count, opaque.result_count
        results = NUMBERS.call(opaque, x, shape)
        error = self._rounding.unit * abs(results) + getattr(opaque, "accuracy", 0.0) * (1.0 + abs(results))
        if (dx > 0).any():
            try:
                slopes = NUMBERS.call(opaque.derivative, x, (1, 1 + k, n * k))
            except Exception:  # the Jacobian has no rule, or no value at this point
                return _bounded(results, np.full_like(results, np.inf))
            error = error + NUMBERS.matmul(abs(slopes), dx[1:], (n, k, 1))
        return _bounded(results, error)

    def _of_inverse(self, a: Values, da: Values, n: int) -> tuple[Values, Values]:
        """Return magnitudes of the inverse, infinite where the matrix may be singular, and errors of the entries."""
        shape = (n, n, n)
        moved = da + 4 * n * self._rounding.unit * abs(a) + self._rounding.smallest
        unit = np.broadcast_to(np.eye(n).reshape(n * n, *(1,) * (a.ndim - 1)), a.shape)
        inverse = abs(NUMBERS.solve(a, unit, shape))
        lost = NUMBERS.matmul(inverse, moved, shape).reshape(n, n, *a.shape[1:]).sum(axis=1).max(axis=0)
        return np.where(lost < 0.5, inverse, np.inf), moved


def _transposed(matrix: Values, n: int) -> Values:
    """Return the transposes of square matrices at points, with entries on the first axis."""
    return np.swapaxes(matrix.reshape(n, n, *matrix.shape[1:]), 0, 1).reshape(matrix.shape)


def _bounded(value: Values, error: Values) -> tuple[Values, Values]:
    return value, np.where(np.isfinite(value) & (error >= 0), error, np.inf)


def evaluate_with_bounds(
    program: Tape | Program, inputs: Sequence[NDArray[np.float64]], dtype: str = "float64"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of a program's outputs, and bounds on their errors; infinite if no bound is known.

    Args:
        program: program to evaluate.
        inputs: array of shape (points,) for each input of the program; taken as exact.
        dtype: precision of one of the two evaluations, to which constants are rounded, too. Values are computed in
            double precision.

    Returns:
        Two arrays of shape (outputs, points).

    Source:
        N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 3.3.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.subtract(tape.add(0, 1), 0)]
    >>> values, bounds = evaluate_with_bounds(tape, [np.array([1e8]), np.array([1.0])])
    >>> float(values[0, 0]), bool(1e-8 < bounds[0, 0] < 1e-6)
    (1.0, True)
    """
    if len(inputs) != program.inputs:
        raise ArgumentError(f"the tape has {program.inputs} inputs, {len(inputs)} values were given")
    count = len(inputs[0]) if len(inputs) else 1
    with np.errstate(all="ignore"):
        if program.scalars is None:
            points = np.reshape(inputs, (program.inputs, count))
            results, bounds = run(program, ErrorBounds(dtype), (points, np.zeros_like(points)))
        else:
            results, bounds = np.empty((2, len(program.outputs), count))
            outputs = run(program, ErrorBounds(dtype), [(x, np.zeros(count)) for x in inputs])
            for row, (value, error) in enumerate(outputs):
                results[row], bounds[row] = value, error
    return results, np.where(np.isfinite(results), bounds, np.inf)


# Comparison ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Agreement:
    """Values of a tape compared with expected values, in arrays of shape (outputs, points)."""

    values: NDArray[np.float64]  # values of the tape
    expected: NDArray[np.float64]  # values of the function
    allowed: NDArray[np.float64]  # tolerance of their difference
    agrees: NDArray[np.bool_]  # True where the difference is within the tolerance
    differs: NDArray[np.bool_]  # True where it exceeds the tolerance; both are False where no comparison is possible

    @property
    def is_complete(self) -> bool:
        """Return True if every output is finite and agrees at some point."""
        return bool((self.agrees & np.isfinite(self.values)).any(axis=1).all())


def _bounds_of(tape: Tape | Program, columns: list[NDArray[np.float64]], requested: NDArray[np.bool_]) -> Any:
    """Return bounds of all outputs; for programs over long arrays, only of requested ones, and 0 for the others."""
    if isinstance(tape, Program):
        tape = expanded(tape)  # the rounding of loops adds up
    if not isinstance(tape, Program) or tape.scalars is not None or len(tape) <= PART:
        return evaluate_with_bounds(tape, columns)[1]
    restricted = copy(tape)
    restricted.outputs = tape.outputs[requested]
    bounds = np.zeros((len(requested), len(columns[0])))
    bounds[requested] = evaluate_with_bounds(narrowed(restricted), columns)[1]
    return bounds


def compare(
    tape: Tape | Program,
    inputs: NDArray[np.float64],
    expected: NDArray[np.float64],
    rounding: NDArray[np.float64] | float = 0.0,
) -> Agreement:
    """Run a tape and compare its outputs with expected values.

    Bounds are computed only if values are not close.

    Args:
        tape: program to run.
        inputs: points, (points, inputs).
        expected: expected values of the first outputs, (outputs, points); guards follow these outputs.
        rounding: error bound of the expected values.
    """
    results = len(expected)
    values = outputs_at(tape, inputs)[:results]
    with np.errstate(all="ignore"):
        close = CLOSE * np.sqrt(tape.operations) if isinstance(tape, Program) and tape.scalars is None else CLOSE
        allowed = close * np.abs(expected)
        allowed += rounding
        agrees = np.empty(expected.shape, bool)
        for first in range(0, len(values), PART):  # arrays may be long
            chunk = slice(first, first + PART)
            one, other = values[chunk], expected[chunk]
            agrees[chunk] = np.abs(one - other) <= allowed[chunk]
            agrees[chunk] |= (one == other) | (np.isnan(one) & np.isnan(other))
        if agrees.all():
            return Agreement(values, expected, allowed, agrees, ~agrees)
        columns = list(np.ascontiguousarray(inputs.T))
        difference = np.abs(values - expected)
        guards = np.ones(len(tape.outputs) - results, bool)
        bounds = _bounds_of(tape, columns, np.concatenate([~agrees.all(axis=1), guards]))
        uncertain = (bounds[results:] > 0).any(axis=0)
        allowed = allowed + bounds[:results]
        agrees |= np.isfinite(difference) & np.isfinite(allowed) & (difference <= allowed)
        differs = np.isfinite(difference) & (difference > allowed)
        # an entry that is finite where the function runs, and never finite in the recording, differs
        never = ~agrees.any(axis=1, keepdims=True)
        differs |= never & np.isfinite(expected) & ~np.isfinite(values)
        differs &= ~uncertain
    return Agreement(values, expected, allowed, agrees, differs)


def equal(one: Tape | Program, other: Tape | Program, points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a truth value for each output: True if two programs agree at all points up to rounding.

    Args:
        one: first program.
        other: second program, with as many outputs.
        points: points, (points, inputs).

    >>> one, other = Tape(2), Tape(2)
    >>> one.outputs = [one.multiply(0, 1), one.add(0, 1)]
    >>> other.outputs = [other.divide(0, other.divide(other.constant(1.0), 1)), other.subtract(0, 1)]
    >>> equal(one, other, np.array([[0.1, 0.7]])).tolist()
    [True, False]
    """
    values, bounds = evaluate_with_bounds(one, list(np.ascontiguousarray(points.T)))
    differs: NDArray[np.bool_] = compare(other, points, values, bounds).differs
    return np.asarray(~differs.any(axis=1))
