"""Values of a tape with bounds on what rounding may have done to them: running error analysis, many points at once.

A bound says how far two evaluations of the same expressions may be apart that round differently: sums taken in another
order, products fused, functions of another library. Where rounding may carry a value across a jump (of floor, of a
comparison), the bound is as large as the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.blocks import Block, BlockTape, references_in
from accumulus.tape.matrices import matrix_product
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.tape import Tape

__all__ = ["UNIT", "blocks_with_bounds", "evaluate_with_bounds"]


class Rounding(NamedTuple):
    """How an arithmetic rounds.

    Attributes:
        unit: what one operation may add to the relative error; elementary functions of good libraries stay within four
            roundings, and sums in another order, of as many terms as people write, within the rest.
        smallest: the same where results are too small to be rounded relatively.
        whole: the largest whole number up to which all are numbers of it.
    """

    unit: float
    smallest: float
    whole: float


#: By the type of numbers.
ROUNDING: Final = {
    "float64": Rounding(16.0 * 2.0**-53, 16.0 * 2.0**-1074, 2.0**53),
    "float32": Rounding(16.0 * 2.0**-24, 16.0 * 2.0**-149, 2.0**24),
}
#: That of doubles.
UNIT: Final = ROUNDING["float64"].unit

Floats = NDArray[np.float64]
#: An array of points, or a number that is the same at all of them.
Values = Any
#: From an operation, its value, its arguments and their errors, and how it is rounded, to its error.
Rule = Callable[[Operation, Values, Sequence[Values], Sequence[Values], Rounding], Values]


def evaluate_with_bounds(
    tape: Tape, inputs: Sequence[NDArray[np.float64]], dtype: str = "float64"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of the tape's outputs, and by how much each may be off; infinite where nothing can be said.

    Args:
        inputs: an array of points, of shape (points,), for each input of the tape; taken as exact.
        dtype: that the tape may be computed in, by one of the two evaluations; its constants are rounded to it, too.
            Values are those in double precision.

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
    if len(inputs) != tape.inputs:
        raise ArgumentError(f"the tape has {tape.inputs} inputs, {len(inputs)} values were given")
    count = len(inputs[0]) if inputs else 1
    with np.errstate(all="ignore"):
        found = _with_errors(tape, inputs, [np.zeros(count)] * len(inputs), ROUNDING[dtype])
    shape = len(tape.outputs), count
    results, bounds = np.empty(shape), np.empty(shape)
    for row, (value, error) in enumerate(found):
        results[row], bounds[row] = value, error
    return results, np.where(np.isfinite(results), bounds, np.inf)


def _slip(numbers: Any, rounding: Rounding) -> Any:
    """How far constants may be off: whole numbers are meant as they are; others were rounded, and may be results."""
    is_whole = (numbers == np.trunc(numbers)) & ((abs(numbers) <= rounding.whole) | (rounding.unit == UNIT))
    return np.where(is_whole, 0.0, rounding.unit * abs(numbers))


def _with_errors(
    tape: Tape, inputs: Sequence[Values], slips_of_inputs: Sequence[Values], rounding: Rounding
) -> list[tuple[Any, Any]]:
    """Values and bounds of the outputs, given those of the inputs."""
    numbers: list[Values] = [np.float64(number) for number in tape.constants]
    slips: list[Values] = list(_slip(np.array(tape.constants, np.float64), rounding))
    values: list[Any] = list(inputs)
    errors: list[Any] = list(slips_of_inputs)
    for reference in range(tape.inputs, len(tape)):
        operation = tape.operation(reference)
        arguments = tape.arguments(reference)
        xs = [values[a] if a >= 0 else numbers[-1 - a] for a in arguments]
        dxs = [errors[a] if a >= 0 else slips[-1 - a] for a in arguments]
        value = operation.evaluate(*xs)
        error = _RULES[operation.code](operation, value, xs, dxs, rounding)
        values.append(value)
        errors.append(np.where(np.isfinite(value) & (error >= 0), error, np.inf))
    return [
        (values[output], errors[output]) if output >= 0 else (numbers[-1 - output], slips[-1 - output])
        for output in tape.outputs
    ]


def blocks_with_bounds(
    tape: BlockTape, inputs: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """As `evaluate_with_bounds`, for a program over arrays."""
    numbers = tape.constants[::-1]
    count, points = len(numbers), len(inputs[0]) if len(inputs) else 1
    # constants, the last first, before all else: a reference and where its value is differ by their number
    values, errors = np.zeros((2, count + len(tape), points))
    values[:count] = numbers[:, np.newaxis]
    rounding = ROUNDING["float64"]
    errors[:count] = _slip(numbers, rounding)[:, np.newaxis]
    values[count : count + tape.inputs] = np.reshape(inputs, (tape.inputs, points))
    with np.errstate(all="ignore"):
        for block in tape.blocks:
            place = slice(count + block.start, count + block.start + block.size)
            columns = [count + references_in(operands) for operands in block.operands]
            if block.body is not None:
                _add_steps(block, columns, values, errors, count)
                continue
            xs, dxs = [values[each] for each in columns], [errors[each] for each in columns]
            if block.offsets is not None:
                begins, most = block.offsets[:-1], int(np.diff(block.offsets).max())
                value = np.add.reduceat(xs[0], begins, axis=0)
                error = np.add.reduceat(dxs[0] + most * UNIT * abs(xs[0]), begins, axis=0)
            elif block.shape is not None:
                value, error = _matrix_product(xs, dxs, block.shape, rounding)
            else:
                operation = OPERATIONS[block.code]
                value = operation.evaluate(*xs)
                error = _RULES[block.code](operation, value, xs, dxs, rounding)
            values[place] = value
            errors[place] = np.where(np.isfinite(value) & (error >= 0), error, np.inf)
    results, bounds = values[count + tape.outputs], errors[count + tape.outputs]
    return results, np.where(np.isfinite(results), bounds, np.inf)


def _add_steps(block: Block, columns: Sequence[NDArray[np.int64]], values: Floats, errors: Floats, first: int) -> None:
    """Values and errors of a recurrence, step by step; constants take the first places."""
    assert block.body is not None
    assert block.steps is not None
    start = first + block.start
    for begin, end in zip(block.steps[:-1].tolist(), block.steps[1:].tolist(), strict=True):
        taken = [each[begin:end] for each in columns]
        found = _with_errors(
            block.body, [values[each] for each in taken], [errors[each] for each in taken], ROUNDING["float64"]
        )
        for output, (value, error) in enumerate(found):
            place = slice(start + output * block.count + begin, start + output * block.count + end)
            values[place], errors[place] = value, error


def _sum(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    # what a sum loses by cancelling depends on how its terms are grouped, so all of them count
    return dxs[0] + dxs[1] + rounding.unit * (abs(xs[0]) + abs(xs[1]))


def _product(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    (x, y), (dx, dy) = xs, dxs
    return dx * abs(y) + dy * abs(x) + dx * dy + rounding.unit * abs(v) + rounding.smallest


def _matrix_product(
    xs: Sequence[Values], dxs: Sequence[Values], shape: tuple[int, int, int], rounding: Rounding
) -> tuple[Values, Values]:
    (x, y), (dx, dy) = xs, dxs
    # each product is rounded, and then each sum of them
    rounded = (shape[1] + 1) * (rounding.unit * matrix_product(abs(x), abs(y), shape) + rounding.smallest)
    return matrix_product(x, y, shape), matrix_product(dx, abs(y) + dy, shape) + matrix_product(
        abs(x), dy, shape
    ) + rounded


def _quotient(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    nearest = abs(xs[1]) - dxs[1]
    error = (dxs[0] + dxs[1] * abs(v)) / nearest + rounding.unit * abs(v) + rounding.smallest
    return np.where(nearest > 0, error, np.inf)


def _first(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    return dxs[0]


def _largest(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    return np.maximum(*dxs)


def _comparison(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    """1 where rounding may turn it, else 0; truth values are numbers here."""
    slip = dxs[0] + dxs[1]
    return np.where((slip > 0) & ~(abs(xs[0] - xs[1]) > slip), 1.0, 0.0)


def _choice(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    chosen = np.where(xs[0], dxs[1], dxs[2])
    either = np.maximum(dxs[1], dxs[2]) + abs(xs[1] - xs[2])
    return np.where(dxs[0] > 0, either, chosen)


def _sawtooth(_: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding) -> Values:
    """fmod, exact for what it is given: x - n·y, unless rounding may carry x across a multiple of y other than 0."""
    (x, y), (dx, dy) = xs, dxs
    period = abs(y)
    n = abs(np.rint((x - v) / y))
    slip = dx + (n + 1.0) * dy
    across = ((n > 0) & ~(abs(v) > slip)) | ~(period - abs(v) > slip)
    return np.where((slip > 0) & across, 2.0 * (period + dy), slip)


def _function(
    operation: Operation, v: Values, xs: Sequence[Values], dxs: Sequence[Values], rounding: Rounding
) -> Values:
    """Any other operation: how far it moves when its arguments move as far as they may be off."""
    error = np.where(np.isfinite(sum(dxs)), rounding.unit * abs(v) + rounding.smallest, np.inf)
    if operation.name in ("sin", "cos"):  # a whole period may lie between
        return error + np.minimum(dxs[0], 2.0)
    for k, (x, dx) in enumerate(zip(xs, dxs, strict=True)):
        above, below = (operation.evaluate(*xs[:k], x + step, *xs[k + 1 :]) for step in (dx, -dx))
        # the larger, and the one that is there at the end of the domain
        moved = np.fmax(abs(above - v), abs(below - v))
        error = error + np.where(dx > 0, np.where(np.isnan(moved), np.inf, moved), 0.0)
    return error


def _rules() -> tuple[Rule, ...]:
    named: dict[str, Rule] = {
        "add": _sum,
        "subtract": _sum,
        "multiply": _product,
        "divide": _quotient,
        "select": _choice,
        "fmod": _sawtooth,
        **dict.fromkeys(("negative", "abs", "logical_not", "attach"), _first),
        **dict.fromkeys(("minimum", "maximum", "logical_and", "logical_or"), _largest),
        **dict.fromkeys(("less", "less_equal", "equal", "not_equal"), _comparison),
    }
    return tuple(named.get(row.name, _function) for row in OPERATIONS)


_RULES: Final = _rules()
