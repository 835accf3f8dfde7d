"""Products of arrays as contractions: sums of products over shared axes, as in `numpy.einsum`.

Operands are contracted in pairs, in NumPy's greedy order if there are more than two. Sums are added from left to right.
A product of m×k and k×n entries takes m·k·n multiplications on the tape, less those by constant zeros and ones.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import starmap
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array, as_constant, make
from accumulus.frontends.numpy.elementwise import ELEMENTWISE
from accumulus.frontends.numpy.operands import NO_REALS, Entries, depends, is_sparse, references_of
from accumulus.frontends.numpy.table import by_name, implements
from accumulus.frontends.numpy.ufuncs import fold, sums_of_segments
from accumulus.frontends.recorder import References
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.tape.tape import Tape

# Contractions ---------------------------------------------------------------------------------------------------------

#: Number of operations that one product of a contraction counts as, since derivatives of dense products are dense. With
#: more, small contractions become loops; with fewer, large ones are written out, with long derivatives.
DENSE: Final = 4

#: Minimum number of products of entries, and minimum number of terms of a sum, for a matrix product that is recorded as
#: one block. Smaller products, and products of more than `MOST_STACKED` stacked matrices, are recorded as
#: multiplications and sums. Gradients through 200 steps of a network of 40 neurons take 1.0 ms a call as products, 1.5
#: as loops over 1,600 multiplications (no command measures this).
SMALLEST_MATRICES: Final = 512
SHORTEST_TERMS: Final = 8
#: Minimum number of stored entries of a constant sparse matrix whose products are one block of the program: smaller
#: blocks cost more to start than their products, larger ones record products one by one.
SMALLEST_SPARSE: Final = 64
#: Number of terms of a product that count as one entry of an array: small matrices are multiplied term by term. With
#: more, medium matrices are written out; with fewer, small ones become loops.
TERMS: Final = 8
MOST_STACKED: Final = 64

#: References with one letter for each axis.
Labelled = tuple[References, str]


def contract(tape: Tape, operands: Sequence[Labelled], result: str) -> Entries:
    """Return references of the product of the operands, summed over all labels that are not in `result`.

    Raises:
        ValueError: if axes with the same label differ in length, and neither length is 1.

    >>> tape = Tape(inputs=4)
    >>> x = np.arange(4)
    >>> contract(tape, [(x[:2], "i"), (x[2:], "i")], "")
    6
    """
    lengths = _lengths(operands)
    remaining = [_simplified(tape, operands, k, lengths, result) for k in range(len(operands))]
    for step in _path(remaining, result):
        chosen = [remaining[k] for k in step]
        remaining = [operand for k, operand in enumerate(remaining) if k not in step]
        product = chosen.pop(0)
        while chosen:
            second = chosen.pop(0)
            required = set(result).union(*(labels for _, labels in remaining + chosen))
            product = _pair(tape, product, second, required)
        remaining.append(product)
    references, labels = remaining[0]
    return references.transpose([labels.index(label) for label in result]) if result else int(references)


def _lengths(operands: Sequence[Labelled]) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for references, labels in operands:
        for label, length in zip(labels, references.shape, strict=True):
            if lengths.setdefault(label, length) == 1:
                lengths[label] = length
            elif length not in (1, lengths[label]):
                raise ValueError(
                    f"operands of the shapes {', '.join(str(r.shape) for r, _ in operands)} cannot be multiplied: "
                    f"axes of lengths {lengths[label]} and {length} have to match"
                )
    return lengths


def _simplified(
    tape: Tape, operands: Sequence[Labelled], position: int, lengths: dict[str, int], result: str
) -> Labelled:
    """Return one operand with each label once and in full length, summed over labels that nothing else needs."""
    references, labels = operands[position]
    full = tuple(lengths[label] for label in labels)
    if references.shape != full:
        references = np.broadcast_to(references, full)
    distinct = "".join(dict.fromkeys(labels))
    if distinct != labels:  # a diagonal
        references = np.einsum(references, _numbers(labels), _numbers(distinct))
    other_labels = {label for k, (_, labels) in enumerate(operands) if k != position for label in labels}
    required = "".join(label for label in distinct if label in result or label in other_labels)
    return _summed(tape, references, distinct, required), required


def _numbers(labels: str) -> list[int]:
    """Return labels as a list of integers, as NumPy's einsum accepts them."""
    return [string.ascii_letters.index(label) for label in labels]


def _summed(tape: Tape, references: References, labels: str, required: str) -> References:
    """Return the sums over axes that are not required."""
    remaining = [k for k, label in enumerate(labels) if label in required]
    gone = [k for k in range(len(labels)) if k not in remaining]
    if not gone:
        return references
    shape = tuple(references.shape[k] for k in remaining)
    count = math.prod(references.shape[k] for k in gone)
    table = references.transpose(*remaining, *gone).reshape(math.prod(shape), count)
    if tape.in_loops(table.size):
        return _sums(tape, table).reshape(shape)
    lines = table.tolist()
    return np.array([tape.sum(line) for line in lines], np.int64).reshape(shape)


def _path(operands: Sequence[Labelled], result: str) -> Sequence[tuple[int, ...]]:
    """Return the positions of the operands of each contraction; its product is appended to the remaining ones."""
    if len(operands) <= 2:
        return [tuple(range(len(operands)))]
    arguments: list[Any] = []
    for references, labels in operands:
        arguments += [np.broadcast_to(0.0, references.shape), _numbers(labels)]
    path: Sequence[tuple[int, ...]] = np.einsum_path(*arguments, _numbers(result), optimize="greedy")[0][1:]
    return path


def _pair(tape: Tape, first: Labelled, second: Labelled, required: set[str]) -> Labelled:
    """Return the contraction of two operands over the shared labels that nothing else requires."""
    lengths = {
        label: length for operand in (first, second) for label, length in zip(operand[1], operand[0].shape, strict=True)
    }
    shared = [label for label in first[1] if label in second[1]]
    batch = "".join(label for label in shared if label in required)
    summed = "".join(label for label in shared if label not in required)
    left, right = ("".join(label for label in labels if label not in shared) for _, labels in (first, second))
    blocks = []
    for (references, labels), free in ((first, left), (second, right)):
        ordered = references.transpose([labels.index(label) for label in batch + free + summed])
        sizes = [math.prod(lengths[label] for label in labels) for labels in (batch, free, summed)]
        blocks.append(ordered.reshape(sizes))
    labels = batch + left + right
    shape = [lengths[label] for label in labels]
    terms = math.prod(shape) * blocks[0].shape[2]
    if tape.in_loops(-(-terms // TERMS), DENSE * terms):
        if _is_matrix_product(*blocks):
            stacked = [tape.matmul(a, b.T) for a, b in zip(*blocks, strict=True)]
            return np.stack(stacked).reshape(shape), labels
        products = tape.map(lambda body: body.multiply, [blocks[0][:, :, np.newaxis], blocks[1][:, np.newaxis]])
        return _sums(tape, products.reshape(-1, products.shape[-1])).reshape(shape), labels
    # zeros do not contribute to a sum; a tape that keeps their signs would add them
    zeros = {-k for k, value in enumerate(tape.constants, 1) if value == 0.0} if tape.signed_zeros else None
    entries: list[int] = []
    for rows, columns in zip(*(block.tolist() for block in blocks), strict=True):
        for row in rows:
            for column in columns:
                pairs: Iterable[tuple[int, int]] = zip(row, column, strict=True)
                if zeros and len(row) > 1:
                    pairs = [(x, y) for x, y in pairs if min(x, y) not in zeros or max(x, y) < 0]
                entries.append(tape.sum(starmap(tape.multiply, pairs)))
    return np.array(entries, np.int64).reshape(shape), labels


def _is_matrix_product(first: References, second: References) -> bool:
    """Return True if stacks of matrices, the second one transposed, are large enough for a block."""
    stacked, rows, terms = map(int, first.shape)
    size = rows * terms * int(second.shape[1])
    return terms >= SHORTEST_TERMS and size >= SMALLEST_MATRICES and stacked <= MOST_STACKED


def _sums(tape: Any, lines: References) -> References:
    """Return the sum of each line of a table."""
    count = lines.shape[1]
    if count == 0:
        return np.full(len(lines), tape.constant(0.0))
    return lines[:, 0] if count == 1 else tape.sums(lines.reshape(-1), np.arange(0, lines.size + 1, count))


# Functions ------------------------------------------------------------------------------------------------------------

LETTERS: Final = string.ascii_letters


@implements(np.matmul, np.linalg.matmul)
def _matmul(tape: Tape, x1: Any, x2: Any) -> Any:
    """Return matrix products over the last two axes; vectors are a row on the left, and a column on the right."""
    if is_sparse(x1) or is_sparse(x2):
        return _by_sparse(tape, x1, x2)
    a, b = references_of(tape, x1), references_of(tape, x2)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: a scalar operand; use * instead")
    rows, columns = "a" if a.ndim > 1 else "", "b" if b.ndim > 1 else ""
    stack_a, stack_b, stack = _stacks(a.shape[:-2], b.shape[:-2])
    operands = [(a, stack_a + rows + "c"), (b, stack_b + "c" + columns)]
    return make(tape, contract(tape, operands, stack + rows + columns))


def _by_sparse(tape: Tape, x1: Any, x2: Any) -> Any:
    """Return the product of a constant sparse matrix of SciPy and a vector or matrix, on either side.

    Each entry is the sum over the stored entries of a row, in SciPy's order: as stored for CSR matrices, by columns for
    other formats.
    """
    if not is_sparse(x1):
        return _by_sparse(tape, x2.T, as_array(tape, x1).T).T
    if x1.dtype.kind not in "fiub":
        raise refuse(NO_REALS)
    matrix = x1 if x1.ndim == 2 else x1.reshape(1, -1)
    x = as_array(tape, x2)
    if x.ndim in (1, 2) and len(x) == x1.shape[-1] and x.size and SMALLEST_SPARSE <= matrix.nnz < 1 << 31:
        columns = x.references.reshape(len(x), -1)
        if columns.shape[1] <= matrix.nnz and tape.in_loops(matrix.nnz * columns.shape[1]):
            product = tape.sparse_product(SparseMatrix.of(matrix), columns)
            full = (*x1.shape[:-1], *x.shape[1:])
            return make(tape, product.reshape(full) if full else int(product[0, 0]))
    matrix = matrix if matrix.format == "csr" else matrix.tocsr().sorted_indices()
    data = as_constant(tape, matrix.data.astype(float))
    return product_by_rows(tape, matrix.indptr, matrix.indices, data, x1.shape, x)


def product_by_rows(tape: Tape, starts: Any, indices: Any, data: Any, shape: Sequence[int], x: Any) -> Any:
    """Return the product of a sparse matrix, or of one row, in CSR form with a vector or matrix.

    Args:
        tape: tape to record on.
        starts: position of the first entry of each row, and the end of the last row.
        indices: column of each entry.
        data: value of each entry, traced.
        shape: shape of the matrix.
        x: vector or matrix.
    """
    if x.ndim not in (1, 2) or len(x) != shape[-1]:
        raise ValueError(f"matmul: a sparse matrix of shape {tuple(shape)} cannot be multiplied by shape {x.shape}")
    rows = np.flatnonzero(np.diff(starts))
    columns = x.reshape(len(x), -1).T  # transposed, so that the terms of a sum are contiguous
    terms = (columns[:, indices] * data).references.reshape(-1)
    begins = np.arange(len(columns))[:, np.newaxis] * len(indices) + starts[rows]
    result = np.full((len(columns), len(starts) - 1), tape.constant(0.0))
    result[:, rows] = sums_of_segments(tape, terms, begins.reshape(-1)).reshape(begins.shape)
    full = (*shape[:-1], *x.shape[1:])
    return make(tape, result.T.reshape(full) if full else int(result[0, 0]))


def _stacks(*shapes: tuple[int, ...]) -> tuple[str, ...]:
    """Return labels of the leading axes that broadcast: for each operand, then for the result."""
    longest = max(map(len, shapes))
    labels = LETTERS[len(LETTERS) - longest :]
    return (*(labels[longest - len(shape) :] for shape in shapes), labels)


def _enter_stacked(function: Any, first: str, second: str, result: str) -> None:
    @implements(function)
    def record(tape: Tape, x1: Any, x2: Any, axis: int = -1) -> Any:
        if axis != -1:
            raise refuse("The axis of this product must be the last one: move it there with np.moveaxis.")
        a, b = references_of(tape, x1), references_of(tape, x2)
        stack_a, stack_b, stack = _stacks(a.shape[: a.ndim - len(first)], b.shape[: b.ndim - len(second)])
        return make(tape, contract(tape, [(a, stack_a + first), (b, stack_b + second)], stack + result))


for _name, *_labels in (("vecdot", "a", "a", ""), ("matvec", "ab", "b", "a"), ("vecmat", "a", "ab", "b")):
    for _module in (np, np.linalg):
        if hasattr(_module, _name):  # the last two are new in NumPy 2.2
            _enter_stacked(getattr(_module, _name), *_labels)


def _summed_product(tape: Tape, a: Any, b: Any, axis: int) -> Any:
    """Return the product of a and b, summed over the last axis of a and `axis` of b; without a sum for scalars."""
    a, b = as_array(tape, a), as_array(tape, b)
    return _tensordot(tape, a, b, (-1, max(axis, -b.ndim))) if a.ndim and b.ndim else a * b


implements(np.dot)(lambda tape, a, b, out=None: _summed_product(tape, a, b, -2))
implements(np.inner)(lambda tape, a, b: _summed_product(tape, a, b, -1))
implements(np.vdot)(lambda tape, a, b: _tensordot(tape, as_array(tape, a).ravel(), as_array(tape, b).ravel(), 1))


@implements(np.tensordot, np.linalg.tensordot)
def _tensordot(tape: Tape, a: Any, b: Any, axes: Any = 2) -> Any:
    """Return the product of a and b, summed over pairs of axes, or over the last axes of a and the first of b."""
    x, y = references_of(tape, a), references_of(tape, b)
    if np.ndim(axes) == 0:
        axes = (range(x.ndim - int(axes), x.ndim), range(int(axes)))
    of_x, of_y = (
        normalize_axis_tuple(operand_axes if np.ndim(operand_axes) == 0 else tuple(operand_axes), array.ndim)
        for operand_axes, array in zip(axes, (x, y), strict=True)
    )
    first, second = LETTERS[: x.ndim], list(LETTERS[x.ndim : x.ndim + y.ndim])
    for i, j in zip(of_x, of_y, strict=True):
        if x.shape[i] != y.shape[j]:
            raise ValueError(f"shapes {x.shape} and {y.shape}: axis {i} of the first and {j} of the second differ")
        second[j] = first[i]
    result = "".join(label for label in [*first, *second] if (label in first) != (label in second))
    return make(tape, contract(tape, [(x, first), (y, "".join(second))], result))


@implements(np.trace)
@by_name
def _trace(tape: Tape, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the sum of a diagonal."""
    diagonal = np.diagonal(references_of(tape, a), offset, axis1, axis2)
    return fold(tape, ELEMENTWISE["add"], TracedArray(tape, diagonal), -1)


@implements(np.cross)
def _cross(
    tape: Tape, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Return the cross product of vectors with three or two entries."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x = np.moveaxis(as_array(tape, a), axisa, -1)
    y = np.moveaxis(as_array(tape, b), axisb, -1)
    if {x.shape[-1], y.shape[-1]} - {2, 3}:
        raise ValueError(f"incompatible dimensions for cross product: {x.shape[-1]} and {y.shape[-1]}, must be 2 or 3")
    if x.shape[-1] == y.shape[-1] == 2:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    (a0, a1, a2), (b0, b1, b2) = ([array[..., k] if k < array.shape[-1] else 0.0 for k in range(3)] for array in (x, y))
    components = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    return np.moveaxis(np.stack([as_array(tape, component) for component in components], axis=-1), -1, axisc)


@implements(np.linalg.multi_dot)
def _multi_dot(tape: Tape, arrays: Sequence[Any], out: Any = None) -> Any:
    """Return the product of several matrices, in NumPy's greedy order."""
    operands: list[Labelled] = []
    for k, array in enumerate(arrays):
        references = references_of(tape, array)
        if references.ndim != 2 and not (references.ndim == 1 and k in (0, len(arrays) - 1)):
            raise np.linalg.LinAlgError(f"{references.ndim}-dimensional array given. Array must be two-dimensional")
        labels = LETTERS[k : k + 2] if references.ndim == 2 else LETTERS[k + (k == 0)]
        operands.append((references, labels))
    result = "".join(label for label in LETTERS if sum(label in labels for _, labels in operands) == 1)
    return make(tape, contract(tape, operands, result))


@implements(np.linalg.matrix_power)
def _matrix_power(tape: Tape, a: Any, n: int) -> Any:
    """Return an integer power of a square matrix by repeated squaring; of its inverse for a negative power."""
    if depends(n):
        raise refuse("np.linalg.matrix_power: the power must be a constant integer.")
    square = as_array(tape, a if n >= 0 else np.linalg.inv(a))
    factors, power = [], abs(n)
    while power:
        if power & 1:
            factors.append(square)
        power >>= 1
        square = square @ square if power else square
    if not factors:
        return as_array(tape, np.broadcast_to(np.eye(square.shape[-1]), square.shape)).copy()
    return reduce(np.matmul, factors)


@implements(np.einsum)
def _einsum(
    tape: Tape, *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, **memory: Any
) -> Any:
    """Return Einstein's sum; subscripts are text or lists, and may have ellipses, repeated labels or no result."""
    subscripts, arrays = _subscripts(operands)
    references = [references_of(tape, array) for array in arrays]
    terms, result = _explicit(subscripts, [array.ndim for array in references])
    labelled = list(zip(references, terms, strict=True))
    if len(labelled) == 1 and set(terms[0]) == set(result):  # a view, as in NumPy
        return make(tape, np.einsum(f"{terms[0]}->{result}", references[0]))
    return make(tape, contract(tape, labelled, result))


def _subscripts(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the subscripts as text, and the arrays, from either form of arguments."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    arrays, lists = list(operands[: len(operands) // 2 * 2 : 2]), list(operands[1::2])
    text = ",".join(map(_label_text, lists))
    return (f"{text}->{_label_text(operands[-1])}" if len(operands) % 2 else text), arrays


def _label_text(labels: Sequence[Any]) -> str:
    return "".join("..." if label is Ellipsis else LETTERS[label] for label in labels)


def _explicit(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the result, without ellipses."""
    inputs, arrow, result = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum: {subscripts!r} names {len(terms)} operands, {len(ndims)} were given")
    free = [letter for letter in LETTERS if letter not in subscripts]
    widths = [ndim - len(term.replace("...", "")) for term, ndim in zip(terms, ndims, strict=True)]
    for term, width, ndim in zip(terms, widths, ndims, strict=True):
        if width < 0 or (width and "..." not in term):
            raise ValueError(f"einsum: the subscripts {term!r} do not fit an operand with {ndim} axes")
    widest = max([width for term, width in zip(terms, widths, strict=True) if "..." in term], default=0)
    stack = "".join(free[:widest])
    terms = [term.replace("...", stack[widest - width :]) for term, width in zip(terms, widths, strict=True)]
    if not arrow:
        letters = inputs.replace(",", "").replace("...", "")
        result = "..." + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return terms, result.replace("...", stack)
