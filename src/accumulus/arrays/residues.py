"""Evaluation of programs over arrays modulo a prime, with random residues for nonlinear operations.

Sums, products, also of matrices, negations, choices, and what goes by indices, which are residues like any other modulo
the number of rows, are computed, and recurrences of nothing else; inverses of matrices are random matrices, which
solutions of systems are multiplied with, and so are Jacobians of opaque functions that are not formed. Every other
operation, and a call of an opaque function, is a random residue for each of its results, the same wherever it is used.
A choice by c of a or b is b + c·(a − b), c being a residue like any other; in memory truth values are numbers, so
whether one is not 0 is that residue again. Every finite constant is a whole number times a power of two, and so has a
residue of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled import steps_kernel
from accumulus.arrays.compiled.sparse_kernel import SparseState
from accumulus.arrays.compiled.steps_kernel import StepsState
from accumulus.arrays.inverses import Slopes
from accumulus.native.machine import kernel
from accumulus.tape.blocks import CALL, GATHER, MATMUL, SCAN, SCATTER, SOLVE, SPARSE_PRODUCT, SPARSE_SOLVE, SUM, Block
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape

#: 2³¹ − 1: products of two residues fit into 64 bits, and are reduced by shifts.
PRIME: Final = 2**31 - 1
#: Entries that are worked on at once: they stay in the processor's cache, and need no new memory from the system.
CHUNK: Final = 1 << 14
#: Terms of sums of products of halves, at most, that are exact in double precision.
TERMS: Final = 1 << 20

Residues = NDArray[np.uint32]
_PRIME: Final = np.uint64(PRIME)
#: What residues are taken from to have their negatives.
_TWICE: Final = np.uint64(2 * PRIME)
_BITS: Final = np.uint64(31)
#: Bits of the lower half of a residue, and all of them set.
_HALF: Final = np.uint64(16)
_LOW: Final = np.uint64(2**16 - 1)
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
    _ADD: steps_kernel.ADD,
    _SUBTRACT: steps_kernel.SUBTRACT,
    _MULTIPLY: steps_kernel.MULTIPLY,
    _NEGATIVE: steps_kernel.NEGATIVE,
    _SELECT: steps_kernel.SELECT,
    _TRUTH: steps_kernel.SAME,
}


def half_reduced(numbers: Any) -> Any:
    """Return numbers below 2³³ with the residues of products of two: up to 2³⁰ may be added before they are reduced."""
    high = numbers >> _BITS
    low = numbers & _PRIME
    low += high
    return low


def reduced(numbers: Any) -> Any:
    """Return the residues of numbers below 2⁶⁴, up to 4 above `PRIME`: several stand for the same."""
    return half_reduced(half_reduced(numbers))


def of_numbers(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the residues of floating-point numbers; of infinities and NaN some."""
    fractions, exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0.7310585786300049))
    whole = (fractions * 2.0**53).astype(np.int64)
    magnitudes = reduced(np.abs(whole).astype(np.uint64))
    residues = reduced(magnitudes << ((exponents.astype(np.int64) - 53) % 31).astype(np.uint64))
    negative: NDArray[np.uint64] = np.where(whole < 0, reduced(_TWICE - residues), residues)
    return negative


def chunks(count: int) -> Sequence[slice]:
    """Return so many entries in parts."""
    return [slice(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


def at(values: Residues, operands: Column, part: slice) -> Any:
    """Return the residues of some entries of a column: one if it is the same for all."""
    if not isinstance(operands, Range):
        return values[operands[part]].astype(np.uint64)
    if operands.step == 0:
        return values[operands.start].astype(np.uint64)
    begin = operands.start + operands.step * part.start
    if operands.step > 0 and begin >= 0:
        return values[begin : begin + operands.step * (part.stop - part.start) : operands.step].astype(np.uint64)
    return values[begin + operands.step * np.arange(part.stop - part.start)].astype(np.uint64)


class RandomInverses:
    """Residues in the place of inverses: a random diagonal, and a product of two random vectors, for each matrix.

    Transposed matrices have transposed ones, and symmetric matrices symmetric ones; they do not commute. Jacobians of
    opaque functions are the same.

    Args:
        calls: that compute these, or products with them, by the reference of their first result.
    """

    def __init__(self, generator: np.random.Generator, calls: Mapping[int, tuple[Slopes, int | None]]) -> None:
        self._generator, self.calls = generator, calls
        self._known: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._entries: dict[SparseMatrix, tuple[NDArray[np.int64], ...]] = {}

    def slopes_times(self, slopes: Slopes, taken: Residues) -> Any:
        """Multiply the Jacobian of an opaque function, or its transpose, with a matrix of residues."""
        diagonal, left, right = self._slopes(slopes)
        columns, given = slopes.by[slopes.chosen], taken.astype(np.uint64)
        if slopes.is_transposed:
            left, right = right, left
        else:
            given = np.zeros((len(right), taken.shape[1]), np.uint64)
            given[columns] = taken
        found = reduced(left[:, np.newaxis] * matrix_product(right[np.newaxis], given))
        q = len(diagonal)
        found[:q] = reduced(found[:q] + reduced(diagonal[:, np.newaxis] * given[:q]))
        return found[columns] if slopes.is_transposed else found

    def called(self, start: int, given: Residues) -> Any:
        """Return the results of one of the calls, of the residues of all that it is given."""
        slopes, count = self.calls[start]
        if count is not None:
            sides = given[len(slopes.numbers) :].reshape(count, -1).T
            return self.slopes_times(replace(slopes, chosen=np.arange(len(slopes.by))), sides).T.reshape(-1)
        diagonal, left, right = self._slopes(slopes)
        columns = slopes.by if hasattr(slopes.opaque, "derivative_by") else np.arange(len(right))
        found = reduced(left[:, np.newaxis] * right[columns])
        (on,) = np.nonzero(columns < len(diagonal))
        found[columns[on], on] = reduced(found[columns[on], on] + diagonal[columns[on]])
        return found.reshape(-1)

    def _slopes(self, slopes: Slopes) -> tuple[Any, Any, Any]:
        m, n = slopes.opaque.result_count, slopes.opaque.argument_count
        key = id(slopes.opaque), slopes.numbers.tobytes()
        if key not in self._known:
            parts = _random(self._generator, min(m, n) + m + n).astype(np.uint64)
            diagonal, left, right = np.split(parts, [min(m, n), min(m, n) + m])
            self._known[key] = diagonal, left, right
        return self._known[key]

    def times(self, matrix: NDArray[np.int64], system: SparseSystem | None, taken: Residues) -> Any:
        """Return the product with a matrix of residues.

        Args:
            matrix: references of the inverted matrix; for a sparse one of its stored entries.
            system: places of the stored entries of a sparse matrix; None for a dense one.
            taken: residues of the matrix to multiply.
        """
        diagonal, left, right = self._of(matrix, system, len(taken))
        inner = matrix_product(right[np.newaxis], taken)
        return reduced(
            reduced(diagonal[:, np.newaxis] * taken.astype(np.uint64)) + reduced(left[:, np.newaxis] * inner)
        )

    def product(self, matrix: SparseMatrix, taken: Any) -> Any:
        """Return the product of a constant sparse matrix, whose entries have residues, and one of residues."""
        given = self._entries.get(matrix)
        if given is None:
            entries = np.empty(matrix.nnz, np.int64)
            for part in chunks(matrix.nnz):
                entries[part] = of_numbers(matrix.entries[part])
            given = matrix.starts.astype(np.int64), matrix.columns.astype(np.int64), entries
            self._entries[matrix] = given
        (m, _), n = matrix.shape, taken.shape[1]
        results = np.zeros(m * n, np.int64)
        state = SparseState(
            prime=PRIME,
            rows=m,
            width=n,
            starts=given[0],
            columns=given[1],
            entries=given[2],
            taken=taken.astype(np.int64).reshape(-1),
            results=results,
        )
        kernel("arrays.sparse")(state.address)
        return results.reshape(m, n).astype(np.uint64)

    def _of(self, matrix: NDArray[np.int64], system: SparseSystem | None, n: int) -> tuple[Any, Any, Any]:
        key: Hashable
        if system is not None:
            key, turned, is_turned = (system.root, matrix.tobytes()), None, system.is_transposed
        else:
            key, turned = matrix.tobytes(), matrix.T.tobytes()
            is_turned = turned in self._known
            key = turned if is_turned else key
        if key not in self._known:
            diagonal, left, right = _random(self._generator, 3 * n).astype(np.uint64).reshape(3, n)
            self._known[key] = diagonal, left, left if key == turned else right
        diagonal, left, right = self._known[key]
        return (diagonal, right, left) if is_turned else (diagonal, left, right)


def residues(
    tape: Program,
    wanted: Sequence[Column],
    apart: Mapping[int, int],
    generator: np.random.Generator,
    inverses: RandomInverses,
) -> Residues:
    """Return the residues of the needed results and of the values that they depend on, each at its reference.

    Args:
        tape: program to evaluate.
        wanted: columns whose values are needed.
        apart: constants that were rounded, with the residues of their exact values.
        generator: generator of the inputs' random residues.
        inverses: residues that represent inverses of matrices.

    Returns:
        An array of which negative references, as indices from its end, are those of constants.
    """
    constants = of_numbers(tape.constants)
    for reference, residue in apart.items():
        constants[-1 - reference] = residue
    values = np.empty(len(tape) + len(constants), np.uint32)
    values[len(tape) :] = constants[::-1]
    values[: tape.inputs] = _random(generator, tape.inputs)
    needed = tape.reached(wanted, _COMPUTED | {_TRUTH} | ({CALL} if inverses.calls else set()))
    for position in np.flatnonzero(needed).tolist():
        block = tape.blocks[position]
        result = values[block.start : block.start + block.size]
        if block.code == SUM:
            _sum(block, values, result)
        elif block.code == MATMUL:
            assert block.shape is not None
            m, k, n = block.shape
            left, right = (np.broadcast_to(at(values, part, slice(0, len(part))), len(part)) for part in block.operands)
            result[:] = matrix_product(left.reshape(m, k), right.reshape(k, n)).reshape(-1)
        elif block.start in inverses.calls:
            (every,) = block.operands
            given = np.broadcast_to(at(values, every, slice(0, len(every))), len(every))
            result[:] = inverses.called(block.start, given)
        elif block.code in (GATHER, SCATTER):
            assert block.shape is not None
            terms, places = (
                np.broadcast_to(at(values, part, slice(0, len(part))), len(part)) for part in block.operands
            )
            move = gathered if block.code == GATHER else scattered
            result[:] = move(terms, places, block.shape)
        elif isinstance(block.opaque, SparseMatrix):
            assert block.shape is not None
            (taken,), (_, k, n) = block.operands, block.shape
            given = np.broadcast_to(at(values, taken, slice(0, len(taken))), len(taken)).reshape(k, n)
            result[:] = inverses.product(block.opaque, given).reshape(-1)
        elif block.code in (SOLVE, SPARSE_SOLVE):
            assert block.shape is not None
            _, n, m = block.shape
            matrix, sides = block.operands
            given = np.broadcast_to(at(values, sides, slice(0, len(sides))), len(sides)).reshape(n, m)
            system = block.opaque if isinstance(block.opaque, SparseSystem) else None
            references = references_in(matrix)
            references = references.reshape(n, n) if system is None else references
            result[:] = inverses.times(references, system, given).reshape(-1)
        elif block.body is not None and _is_computed(block.body):
            _scan(block, values, result)
        elif block.body is not None:
            result[:] = _random(generator, block.size)
        elif block.code == _TRUTH and 0.0 in (numbers := [tape.uniform(operands) for operands in block.operands]):
            for part in chunks(block.count):
                result[part] = at(values, block.operands[1 - numbers.index(0.0)], part)
        elif block.code in _COMPUTED:
            for part in chunks(block.count):
                result[part] = _computed(block.code, [at(values, operands, part) for operands in block.operands])
        else:
            result[:] = _random(generator, block.count)
    return values


def _random(generator: np.random.Generator, count: int) -> Residues:
    return generator.integers(2, PRIME, count, np.uint32)


def _computed(code: int, operands: Sequence[Any]) -> Any:
    if code == _MULTIPLY:
        return reduced(operands[0] * operands[1])
    if code == _ADD:
        return reduced(operands[0] + operands[1])
    if code == _SUBTRACT:
        return reduced(operands[0] + (_TWICE - operands[1]))
    if code == _NEGATIVE:
        return reduced(_TWICE - operands[0])
    condition, one, other = operands
    return reduced(other + reduced(condition * reduced(one + (_TWICE - other))))


def matrix_product(left: Any, right: Any) -> Any:
    """Return a product of matrices of residues: by halves, as many terms at once as have exact sums."""
    total = np.zeros((left.shape[0], right.shape[1]), np.uint64)
    for first in range(0, right.shape[0], TERMS):
        part = slice(first, first + TERMS)
        (high, low), (upper, lower) = (
            ((each >> _HALF).astype(float), (each & _LOW).astype(float)) for each in (left[:, part], right[part])
        )
        parts = high @ upper, high @ lower + low @ upper, low @ lower
        one, two, three = (reduced(each.astype(np.uint64)) for each in parts)
        total = reduced(total + (reduced((one << _HALF) + two) << _HALF) + three)
    return total


def gathered(rows: Any, indices: Any, shape: tuple[int, int, int]) -> Any:
    """Return rows of k × n residues by m indices."""
    _, k, n = shape
    return rows.reshape(k, n)[(indices % PRIME % k).astype(np.intp)].reshape(-1)


def scattered(terms: Any, indices: Any, shape: tuple[int, int, int]) -> Any:
    """Return the sums of k rows of n residues by their indices, in m rows."""
    m, k, n = shape
    total = np.zeros((m, n), np.uint64)
    np.add.at(total, (indices % PRIME % m).astype(np.intp), terms.reshape(k, n).astype(np.uint64))
    return reduced(total).reshape(-1)


def _sum(block: Block, values: Residues, result: Residues) -> None:
    assert block.offsets is not None
    offsets, (terms,) = block.offsets, block.operands
    total = np.zeros(block.count, np.uint64)
    for part in chunks(len(terms)):
        first, last = np.searchsorted(offsets, [part.start, part.stop - 1], side="right") - 1
        begins = np.maximum(offsets[first : last + 1], part.start) - part.start
        numbers = np.broadcast_to(at(values, terms, part), part.stop - part.start)
        total[first : last + 1] += np.add.reduceat(numbers, begins)
    result[:] = reduced(total)


def _is_computed(body: Tape) -> bool:
    """Return True if a body is sums, products, negations and choices by truth values that it is given."""
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

    def inputs(part: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        width = part.stop - part.start
        source = np.full((body.inputs, width), -1)
        given = np.zeros((body.inputs, width), np.int64)
        for k, operands in enumerate(block.operands):
            if isinstance(operands, Range):
                references = operands.start + operands.step * np.arange(part.start, part.stop)
            else:
                references = operands[part]
            source[k] = np.where(references >= block.start, references - block.start, -1)
            given[k] = values[references]  # of its own results nothing that is used
        return given, source

    result[:] = by_steps(body, count, inputs).reshape(-1)


def by_steps(
    body: Tape, count: int, inputs: Callable[[slice], tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> NDArray[np.int64]:
    """Return the residues of a recurrence, (outputs, count), instance by instance.

    Args:
        body: sums, products, negations and choices.
        count: number of instances.
        inputs: for some instances, the inputs that are given, and for those that are results of earlier instances,
            output · count + instance, else -1; (inputs, instances) both.
    """
    size = len(body)
    arguments = np.zeros((size - body.inputs, 4), np.int64)
    for operation, reference in zip(arguments, range(body.inputs, size), strict=True):
        code, given = body.codes[reference], body.arguments(reference)
        taken: Sequence[int] = [max(given)] if code == _TRUTH else given
        operation[: 1 + len(taken)] = [_KINDS[code], *(a if a >= 0 else size - 1 - a for a in taken)]
    registers = np.zeros(size + len(body.constants), np.int64)
    registers[size:] = of_numbers(np.array(body.constants, np.float64))
    results = np.zeros((len(body.outputs), count), np.int64)
    state = StepsState(
        prime=PRIME,
        count=count,
        inputs=body.inputs,
        operations=arguments,
        operation_count=len(arguments),
        registers=registers,
        outputs=np.array([a if a >= 0 else size - 1 - a for a in body.outputs], np.int64),
        output_count=len(body.outputs),
        results=results.reshape(-1),
    )
    for part in chunks(count):
        numbers, source = inputs(part)
        state.begin, state.end = part.start, part.stop
        state.given, state.source = (np.ascontiguousarray(each, np.int64).reshape(-1) for each in (numbers, source))
        kernel("arrays.steps")(state.address)
    return results
