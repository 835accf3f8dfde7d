"""Evaluation of programs over arrays modulo a prime, with random residues for nonlinear operations.

Sums, products (of matrices, too), negations and choices are computed modulo the prime, and so are gathers, scatters,
and recurrences of these operations; an index is a residue modulo the number of rows. Random matrices stand for inverses
of matrices, which solve systems, and for Jacobians of opaque functions that are not formed. Each result of any
other operation, or of a call of an opaque function, is a random residue, the same wherever it is used. A choice by c of
a or b is b + c·(a − b), where c is a residue as any other. Truth values are stored as numbers, so the test that one is
not 0 is the same residue. Every finite constant is an integer times a power of two, and so has an exact residue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled import residues_kernel
from accumulus.arrays.compiled.residues_kernel import GIVEN, PRIME, ColumnsState, SparseState, StepsState
from accumulus.arrays.inverses import Slopes
from accumulus.native.machine import kernel
from accumulus.native.state import NO_HALVES
from accumulus.tape.blocks import CALL, GATHER, MATMUL, SCAN, SCATTER, SOLVE, SPARSE_PRODUCT, SPARSE_SOLVE, SUM, Block
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape

#: Number of instances of a recurrence that one call processes: more take memory and delay Ctrl-C, fewer make more
#: calls.
CHUNK: Final = 1 << 14
#: Largest number of terms for which sums of products of halves are exact in double precision.
TERMS: Final = 1 << 20

#: Stored residues: 0 to `PRIME`, which stands for 0, too. They are multiplied as 64-bit integers.
Residues = NDArray[np.int32]
Integers = NDArray[np.int64]
#: Bits of the lower half of a residue, and their mask.
_HALF: Final = 16
_LOW: Final = 2**16 - 1
_ONE: Final = np.ones(1, np.int32)
_ADD, _SUBTRACT, _MULTIPLY, _NEGATIVE, _SELECT = (
    BY_NAME[name].code for name in ("add", "subtract", "multiply", "negative", "select")
)
_COMPUTED: Final = frozenset(
    (
        _ADD,
        _SUBTRACT,
        _MULTIPLY,
        _NEGATIVE,
        _SELECT,
        SUM,
        MATMUL,
        SCAN,
        SOLVE,
        SPARSE_SOLVE,
        SPARSE_PRODUCT,
        GATHER,
        SCATTER,
    )
)
_TRUTH: Final = BY_NAME["not_equal"].code
_KINDS: Final = {
    _ADD: residues_kernel.ADD,
    _SUBTRACT: residues_kernel.SUBTRACT,
    _MULTIPLY: residues_kernel.MULTIPLY,
    _NEGATIVE: residues_kernel.NEGATIVE,
    _SELECT: residues_kernel.SELECT,
    _TRUTH: residues_kernel.SAME,
}


def residues_of(numbers: Integers) -> Integers:
    """Return the residues of numbers below 2⁶³."""
    for _ in range(3):
        high = numbers >> 31
        numbers = numbers & PRIME
        numbers += high
    return numbers


def of_numbers(numbers: NDArray[np.float64]) -> Residues:
    """Return the residues of floating-point numbers; infinities and NaN have an arbitrary one."""
    results = np.empty(len(numbers), np.int32)
    floats = np.ascontiguousarray(numbers, np.float64)
    _run(ColumnsState(kind=residues_kernel.NUMBERS, count=len(results), results=results, numbers=floats))
    return results


def chunks(count: int, size: int = CHUNK) -> Sequence[slice]:
    """Return slices of at most `size` entries each."""
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def at(values: Residues, operands: Column) -> Integers:
    """Return the residues of the entries of a column."""
    if isinstance(operands, Range) and operands.step == 0:
        return np.full(len(operands), values[operands.start], np.int64)
    return values[references_in(operands)].astype(np.int64)


def _operand(name: str, values: Residues, operands: Column) -> dict[str, Any]:
    """Return the fields of a `ColumnsState` for one operand."""
    fields: dict[str, Any] = {name: values, f"{name}_size": len(values)}
    if isinstance(operands, Range):
        return {**fields, f"{name}_start": operands.start, f"{name}_step": operands.step}
    return {**fields, f"{name}_at": operands, f"{name}_step": GIVEN}


def add_products(
    total: Residues, places: Column, tails: tuple[Residues, Column], factors: tuple[Residues, Column] | None
) -> None:
    """Add products of residues and factors to a total.

    Args:
        total: residues to add to.
        places: position in `total` of each product.
        tails: residues, and the column of those to multiply.
        factors: the same for the factors; None for ones.
    """
    by, which = (_ONE, Range(0, 0, len(places))) if factors is None else factors
    operands = _operand("first", *tails) | _operand("second", by, which) | _operand("third", NO_HALVES, places)
    _run(ColumnsState(kind=residues_kernel.SCATTER, count=len(places), results=total, **operands))


def _run(state: ColumnsState) -> None:
    kernel("arrays.instances")(state.address)


class RandomInverses:
    """Random residues in place of inverses: for each matrix, a random diagonal plus an outer product of two vectors.

    Transposed matrices have transposed inverses, symmetric matrices symmetric ones; they do not commute. Jacobians of
    opaque functions are random matrices of the same form.

    Args:
        generator: source of random residues.
        calls: calls that compute such Jacobians, or products with them, by the reference of their first result.
    """

    def __init__(self, generator: np.random.Generator, calls: Mapping[int, tuple[Slopes, int | None]]) -> None:
        self._generator, self.calls = generator, calls
        self._cached: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._entries: dict[SparseMatrix, tuple[Integers, Integers, Residues]] = {}

    def slopes_times(self, slopes: Slopes, taken: NDArray[Any]) -> Any:
        """Return the product of an opaque function's Jacobian, or its transpose, and a matrix of residues."""
        diagonal, left, right = self._slopes(slopes)
        columns, rows = slopes.by[slopes.chosen], taken
        if slopes.is_transposed:
            left, right = right, left
        else:
            rows = np.zeros((len(right), taken.shape[1]), np.int64)
            rows[columns] = taken
        products = residues_of(left[:, np.newaxis] * matrix_product(right[np.newaxis], rows))
        q = len(diagonal)
        products[:q] = residues_of(products[:q] + residues_of(diagonal[:, np.newaxis] * rows[:q]))
        return products[columns] if slopes.is_transposed else products

    def called(self, start: int, arguments: Integers) -> Any:
        """Return the results of one of the calls, given the residues of its arguments."""
        slopes, count = self.calls[start]
        if count is not None:
            sides = arguments[len(slopes.numbers) :].reshape(count, -1).T
            return self.slopes_times(replace(slopes, chosen=np.arange(len(slopes.by))), sides).T.reshape(-1)
        diagonal, left, right = self._slopes(slopes)
        columns = slopes.by if hasattr(slopes.opaque, "derivative_by") else np.arange(len(right))
        jacobian = residues_of(left[:, np.newaxis] * right[columns])
        (on,) = np.nonzero(columns < len(diagonal))
        jacobian[columns[on], on] = residues_of(jacobian[columns[on], on] + diagonal[columns[on]])
        return jacobian.reshape(-1)

    def _slopes(self, slopes: Slopes) -> tuple[Any, Any, Any]:
        m, n = slopes.opaque.result_count, slopes.opaque.argument_count
        key = id(slopes.opaque), slopes.numbers.tobytes()
        if key not in self._cached:
            parts = random_residues(self._generator, min(m, n) + m + n).astype(np.int64)
            diagonal, left, right = np.split(parts, [min(m, n), min(m, n) + m])
            self._cached[key] = diagonal, left, right
        return self._cached[key]

    def times(self, matrix: Integers, system: SparseSystem | None, taken: NDArray[Any]) -> Any:
        """Return the product of an inverse and a matrix of residues.

        Args:
            matrix: references of the inverted matrix; for a sparse one, of its stored entries.
            system: positions of the stored entries of a sparse matrix; None for a dense one.
            taken: (rows, columns), residues of the matrix to multiply.
        """
        diagonal, left, right = self._of(matrix, system, len(taken))
        inner = matrix_product(right[np.newaxis], taken)
        return residues_of(residues_of(diagonal[:, np.newaxis] * taken) + residues_of(left[:, np.newaxis] * inner))

    def product(self, matrix: SparseMatrix, taken: Any) -> Any:
        """Return the product of a constant sparse matrix and a matrix of residues."""
        stored = self._entries.get(matrix)
        if stored is None:
            entries = of_numbers(matrix.entries)
            stored = matrix.starts.astype(np.int64), matrix.columns.astype(np.int64), entries
            self._entries[matrix] = stored
        (m, _), n = matrix.shape, taken.shape[1]
        results = np.zeros(m * n, np.int32)
        state = SparseState(
            rows=m,
            width=n,
            starts=stored[0],
            columns=stored[1],
            entries=stored[2],
            taken=np.ascontiguousarray(taken, np.int32).reshape(-1),
            results=results,
        )
        kernel("arrays.sparse")(state.address)
        return results.reshape(m, n).astype(np.int64)

    def _of(self, matrix: Integers, system: SparseSystem | None, n: int) -> tuple[Any, Any, Any]:
        key: Hashable
        if system is not None:
            key, turned, is_turned = (system.root, matrix.tobytes()), None, system.is_transposed
        else:
            key, turned = matrix.tobytes(), matrix.T.tobytes()
            is_turned = turned in self._cached
            key = turned if is_turned else key
        if key not in self._cached:
            diagonal, left, right = random_residues(self._generator, 3 * n).astype(np.int64).reshape(3, n)
            self._cached[key] = diagonal, left, left if key == turned else right
        diagonal, left, right = self._cached[key]
        return (diagonal, right, left) if is_turned else (diagonal, left, right)


def residues(
    tape: Program,
    columns: Sequence[Column],
    apart: Mapping[int, int],
    generator: np.random.Generator,
    inverses: RandomInverses,
) -> Residues:
    """Return the residues of the needed results and of the values that they depend on, each at its reference.

    Args:
        tape: program to evaluate.
        columns: columns whose values are needed.
        apart: constants that were rounded, with the residues of their exact values.
        generator: generator of random residues.
        inverses: residues that represent inverses of matrices.

        Returns:
            An array indexed by reference; negative references, as indices from its end, are constants.
    """
    constants = of_numbers(tape.constants)
    for reference, residue in apart.items():
        constants[-1 - reference] = residue
    values = np.empty(len(tape) + len(constants), np.int32)
    values[len(tape) :] = constants[::-1]
    values[: tape.inputs] = random_residues(generator, tape.inputs)
    needed = tape.reached(columns, _COMPUTED | {_TRUTH} | ({CALL} if inverses.calls else set()))
    for position in np.flatnonzero(needed).tolist():
        block = tape.blocks[position]
        result = values[block.start : block.start + block.size]
        if block.start in inverses.calls:
            result[:] = inverses.called(block.start, at(values, block.operands[0]))
        elif block.shape is not None and block.code in _COMPUTED:
            result[:] = _of_matrices(block, [at(values, each) for each in block.operands], inverses)
        elif block.body is not None and _is_computed(block.body):
            _scan(block, values, result)
        elif block.code == _TRUTH and 0.0 in (numbers := [tape.uniform(operands) for operands in block.operands]):
            _compute(residues_kernel.SAME, block, values, [block.operands[1 - numbers.index(0.0)]])
        elif block.code == SUM:
            _compute(residues_kernel.SUM, block, values, block.operands)
        elif block.code in _KINDS and block.code != _TRUTH:
            _compute(_KINDS[block.code], block, values, block.operands)
        else:
            result[:] = random_residues(generator, block.size)
    return values


def random_residues(generator: np.random.Generator, count: int) -> Residues:
    """Return residues that are neither 0 nor 1."""
    return generator.integers(2, PRIME, count, np.int32)


def _compute(kind: int, block: Block, values: Residues, operands: Sequence[Column]) -> None:
    """Compute the results of a block from columns of operands."""
    fields: dict[str, Any] = {} if block.offsets is None else {"offsets": block.offsets}
    for name, column in zip(("first", "second", "third"), operands, strict=False):
        fields |= _operand(name, values, column)
    _run(ColumnsState(kind=kind, count=block.count, results=values, result_start=block.start, **fields))


def _of_matrices(block: Block, operands: Sequence[Integers], inverses: RandomInverses) -> Any:
    """Return the results of a block that works on matrices, from the residues of its operands."""
    assert block.shape is not None
    m, k, n = block.shape
    if block.code == MATMUL:
        product = matrix_product(operands[0].reshape(m, k), operands[1].reshape(k, n))
    elif block.code in (GATHER, SCATTER):
        product = (gathered if block.code == GATHER else scattered_rows)(operands[0], operands[1], block.shape)
    elif isinstance(block.opaque, SparseMatrix):
        product = inverses.product(block.opaque, operands[0].reshape(k, n))
    else:
        system = block.opaque if isinstance(block.opaque, SparseSystem) else None
        references = references_in(block.operands[0])
        references = references.reshape(k, k) if system is None else references
        product = inverses.times(references, system, operands[1].reshape(k, n))
    return product.reshape(-1)


def matrix_product(left: Any, right: Any) -> Any:
    """Return the product of two matrices of residues, by halves, over chunks of terms whose sums are exact."""
    total = np.zeros((left.shape[0], right.shape[1]), np.int64)
    for first in range(0, right.shape[0], TERMS):
        terms = slice(first, first + TERMS)
        (high, low), (upper, lower) = (
            ((each >> _HALF).astype(float), (each & _LOW).astype(float)) for each in (left[:, terms], right[terms])
        )
        parts = high @ upper, high @ lower + low @ upper, low @ lower
        one, two, three = (residues_of(each.astype(np.int64)) for each in parts)
        total = residues_of(total + (residues_of((one << _HALF) + two) << _HALF) + three)
    return total


def gathered(rows: Any, indices: Any, shape: tuple[int, int, int]) -> Any:
    """Return m rows of n residues, gathered from k rows by indices."""
    _, k, n = shape
    return rows.reshape(k, n)[indices % PRIME % k].reshape(-1)


def scattered_rows(terms: Any, indices: Any, shape: tuple[int, int, int]) -> Any:
    """Return m rows of n residues: the sums of k rows, scattered by indices."""
    m, k, n = shape
    total = np.zeros((m, n), np.int64)
    np.add.at(total, indices % PRIME % m, terms.reshape(k, n))
    return residues_of(total).reshape(-1)


def _is_computed(body: Tape) -> bool:
    """Return True if a body has only sums, products, negations, choices, and tests of given truth values."""
    for reference in range(body.inputs, len(body)):
        code, arguments = body.codes[reference], body.arguments(reference)
        if code not in _KINDS:
            return False
        if code == _TRUTH and not (min(arguments) < 0 <= max(arguments) and body.value_of(min(arguments)) == 0.0):
            return False
    return True


def _scan(block: Block, values: Residues, result: Residues) -> None:
    body, count = block.body, block.count
    assert body is not None

    def inputs(instances: slice) -> tuple[NDArray[Any], Integers]:
        width = instances.stop - instances.start
        source = np.full((body.inputs, width), -1)
        numbers = np.zeros((body.inputs, width), np.int32)
        for k, operands in enumerate(block.operands):
            if isinstance(operands, Range):
                references = operands.start + operands.step * np.arange(instances.start, instances.stop)
            else:
                references = operands[instances]
            source[k] = np.where(references >= block.start, references - block.start, -1)
            numbers[k] = values[references]  # values of the block's own results are not used
        return numbers, source

    result[:] = by_steps(body, count, inputs).reshape(-1)


def by_steps(body: Tape, count: int, inputs: Callable[[slice], tuple[NDArray[Any], Integers]]) -> Residues:
    """Return the residues of a recurrence, (outputs, count), instance by instance.

    Args:
        body: sums, products, negations and choices.
        count: number of instances.
        inputs: function of a slice of instances that returns two arrays, (inputs, instances): the given inputs, and,
            for results of earlier instances, output · count + instance, else -1.
    """
    size = len(body)
    arguments = np.zeros((size - body.inputs, 4), np.int64)
    for operation, reference in zip(arguments, range(body.inputs, size), strict=True):
        code, operands = body.codes[reference], body.arguments(reference)
        taken: Sequence[int] = [max(operands)] if code == _TRUTH else operands
        operation[: 1 + len(taken)] = [_KINDS[code], *(a if a >= 0 else size - 1 - a for a in taken)]
    registers = np.zeros(size + len(body.constants), np.int64)
    registers[size:] = of_numbers(np.array(body.constants, np.float64))
    results = np.zeros((len(body.outputs), count), np.int32)
    state = StepsState(
        count=count,
        inputs=body.inputs,
        operations=arguments,
        operation_count=len(arguments),
        registers=registers,
        outputs=np.array([a if a >= 0 else size - 1 - a for a in body.outputs], np.int64),
        output_count=len(body.outputs),
        results=results.reshape(-1),
    )
    for instances in chunks(count):
        numbers, source = inputs(instances)
        state.begin, state.end = instances.start, instances.stop
        state.values = np.ascontiguousarray(numbers, np.int32).reshape(-1)
        state.source = np.ascontiguousarray(source, np.int64).reshape(-1)
        kernel("arrays.steps")(state.address)
    return results
