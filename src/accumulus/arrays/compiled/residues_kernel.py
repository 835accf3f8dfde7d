"""Compiled arithmetic modulo the prime 2³¹ − 1: columns of operands, recurrences, and products with sparse matrices."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NO_FLOATS, NO_HALVES, NOTHING, Axes, Floats, Halves, Integers, State
from accumulus.native.words import bits_of, shifted_right

#: A Mersenne prime: numbers are reduced by shifts, and products of two residues fit into 64 bits.
PRIME: Final = 2**31 - 1
_BITS: Final = 31
#: Twice the prime; minus a residue, it is the negative residue.
_TWICE: Final = 2 * PRIME
#: Operations on columns: arithmetic.
ADD, SUBTRACT, MULTIPLY, NEGATIVE, SELECT, SAME = range(6)
#: Further operations: sums of segments, sums of products by index, residues of floating-point numbers.
SUM, SCATTER, NUMBERS = range(6, 9)
#: Step of a column whose positions are listed entry by entry.
GIVEN: Final = 1 << 62
# Floating-point numbers: bits of the fraction, its leading bit, mask and bias of the exponent.
_FRACTION: Final = (1 << 52) - 1
_LEADING: Final = 1 << 52
_EXPONENT: Final = (1 << 11) - 1
#: The bias of exponents and the 52 bits of the fraction, less a multiple of 31, so that exponents stay positive.
_SHIFT: Final = 1075 - 31 * 35
#: Residue that stands for infinities and NaN.
_NO_NUMBER: Final = 1234567891


@compiled
def reduced(number: int) -> int:
    """Return the residue of a number from 0 to 2⁶³ − 1, at most the prime."""
    number = (number & PRIME) + (number >> _BITS)
    number = (number & PRIME) + (number >> _BITS)
    return (number & PRIME) + (number >> _BITS)


# Columns ------------------------------------------------------------------------------------------------------------


class ColumnsState(State):
    """One operation on columns of operands.

    An operand is an array of residues. Instance k has position start + `…_at[k]` if the step is `GIVEN`,
    else start + k·step. Negative positions count from the end.
    """

    kind: int  # operation
    count: int  # number of instances; for SUM, of segments
    results: Halves  # instance k at `result_start + k`; SCATTER adds to the position of the third operand
    result_start: int = 0
    first: Halves = NO_HALVES
    first_at: Integers = NOTHING
    first_start: int = 0
    first_step: int = 0
    first_size: int = 0
    second: Halves = NO_HALVES
    second_at: Integers = NOTHING
    second_start: int = 0
    second_step: int = 0
    second_size: int = 0
    third: Halves = NO_HALVES
    third_at: Integers = NOTHING
    third_start: int = 0
    third_step: int = 0
    third_size: int = 0
    offsets: Integers = NOTHING  # for SUM, begins of the segments, and the end of the last; (count + 1,)
    numbers: Floats = NO_FLOATS  # for NUMBERS, floating-point numbers


@compiled
def position_of(positions: Integers, start: int, step: int, k: int) -> int:
    """Return the position of an instance's operand."""
    return start + (positions[k] if step == GIVEN else step * k)


@compiled
def taken(residues: Halves, size: int, at: int) -> int:
    """Return the residue at a position."""
    residue: int = residues[at + (size if at < 0 else 0)]
    return residue


@compiled
def first(state: ColumnsState, k: int) -> int:
    """Return an instance's first operand."""
    return taken(state.first, state.first_size, position_of(state.first_at, state.first_start, state.first_step, k))


@compiled
def second(state: ColumnsState, k: int) -> int:
    """Return an instance's second operand."""
    return taken(
        state.second, state.second_size, position_of(state.second_at, state.second_start, state.second_step, k)
    )


@compiled
def third(state: ColumnsState, k: int) -> int:
    """Return an instance's third operand."""
    return taken(state.third, state.third_size, position_of(state.third_at, state.third_start, state.third_step, k))


@compiled
def _residue_of(number: float) -> int:
    """Return the residue of a floating-point number: an integer times a power of two."""
    bits = bits_of(number)
    exponent = shifted_right(bits, 52) & _EXPONENT
    fraction = bits & _FRACTION
    if exponent == _EXPONENT:
        return _NO_NUMBER
    if exponent == 0:
        exponent = 1
    else:
        fraction += _LEADING
    residue = reduced(reduced(fraction) << ((exponent - _SHIFT) % _BITS))
    return reduced(_TWICE - residue) if bits < 0 else residue


@compiled
def scatter(state: ColumnsState) -> None:
    """Add products to results, at listed or consecutive positions."""
    results = state.results
    for k in range(state.count):
        at = position_of(state.third_at, state.third_start, state.third_step, k)
        results[at] = reduced(results[at] + first(state, k) * second(state, k))


@compiled
def sums(state: ColumnsState) -> None:
    """Sum the first operands over each segment."""
    for i in range(state.count):
        total = 0
        for k in range(state.offsets[i], state.offsets[i + 1]):
            total += first(state, k)
        state.results[state.result_start + i] = reduced(total)


def run_instances(state: ColumnsState) -> int:
    """Compute the results of all instances; return 0."""
    kind, results, start = state.kind, state.results, state.result_start
    if kind == MULTIPLY:
        for k in range(state.count):
            results[start + k] = reduced(first(state, k) * second(state, k))
    elif kind == SCATTER:
        scatter(state)
    elif kind == SUM:
        sums(state)
    elif kind == NUMBERS:
        for k in range(state.count):
            results[start + k] = _residue_of(state.numbers[k])
    elif kind == ADD:
        for k in range(state.count):
            results[start + k] = reduced(first(state, k) + second(state, k))
    elif kind == SUBTRACT:
        for k in range(state.count):
            results[start + k] = reduced(first(state, k) + (_TWICE - second(state, k)))
    elif kind == NEGATIVE:
        for k in range(state.count):
            results[start + k] = reduced(_TWICE - first(state, k))
    elif kind == SAME:
        for k in range(state.count):
            results[start + k] = first(state, k)
    else:
        for k in range(state.count):
            other = third(state, k)
            results[start + k] = reduced(other + first(state, k) * reduced(second(state, k) + (_TWICE - other)))
    return 0


# Recurrences --------------------------------------------------------------------------------------------------------


class StepsState(State):
    """A recurrence; one call computes a range of its instances."""

    # begin, end: the range of instances
    begin: int = 0
    end: int = 0
    count: int = 0  # of all instances
    inputs: int = 0  # number of inputs of the body
    operations: Annotated[Integers, Axes(4)]  # (operations, 4), kind of each and the registers of its arguments
    operation_count: int = 0  # their number
    registers: Integers = NOTHING  # inputs, then operations, then constants
    outputs: Integers = NOTHING  # registers
    output_count: int = 0  # their number
    source: Integers = NOTHING  # (inputs, end - begin), result that is the input; below 0 for none
    values: Halves = NO_HALVES  # (inputs, end - begin), values of the inputs that are no results
    results: Halves = NO_HALVES  # (outputs, count)


@compiled
def operate(state: StepsState, k: int) -> int:
    """Return the value of one operation."""
    registers, kind = state.registers, state.operations[k, 0]
    a: int = registers[state.operations[k, 1]]
    if kind == SAME:
        return a
    if kind == NEGATIVE:
        return reduced(_TWICE - a)
    b: int = registers[state.operations[k, 2]]
    if kind == ADD:
        return reduced(a + b)
    if kind == SUBTRACT:
        return reduced(a + (_TWICE - b))
    if kind == MULTIPLY:
        return reduced(a * b)
    c: int = registers[state.operations[k, 3]]
    return reduced(c + a * reduced(b + (_TWICE - c)))


def run_steps(state: StepsState) -> int:
    """Compute the results of a range of instances in order; return 0."""
    width, registers = state.end - state.begin, state.registers
    for t in range(width):
        for k in range(state.inputs):
            source = state.source[k * width + t]
            registers[k] = state.results[source] if source >= 0 else state.values[k * width + t]
        for k in range(state.operation_count):
            registers[state.inputs + k] = operate(state, k)
        for k in range(state.output_count):
            state.results[k * state.count + state.begin + t] = registers[state.outputs[k]]
    return 0


# Sparse matrices ----------------------------------------------------------------------------------------------------


class SparseState(State):
    """A sparse matrix, and the dense matrix that is multiplied by it."""

    # rows, width: of the product
    rows: int
    width: int
    starts: Integers  # (rows + 1,), begin of the entries of each row
    columns: Integers  # of each entry
    entries: Halves  # residues of the entries
    taken: Halves  # (columns, width), the dense matrix
    results: Halves  # (rows, width), zero before the call


def run_sparse(state: SparseState) -> int:
    """Compute the product; return 0."""
    width, results = state.width, state.results
    for i in range(state.rows):
        for k in range(state.starts[i], state.starts[i + 1]):
            entry, row = state.entries[k], state.columns[k] * width
            for j in range(width):
                at = i * width + j
                results[at] = reduced(results[at] + entry * state.taken[row + j])
    return 0
