"""Contractions: sums of products over shared axes, in the sense of `numpy.einsum`.

Operands are contracted in pairs, in NumPy's greedy order if there are more than two; each sum goes from left to right.
A product of m×k and k×n entries is m·k·n products on the tape, less those with constant zeros and ones.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import check_length
from accumulus.frontends.numpy.operands import Entries, References
from accumulus.tape.blocks import BlockTape
from accumulus.tape.tape import Tape

__all__ = ["Labelled", "contract"]

#: How many operations of others a product in a contraction counts for: derivatives of dense products are dense.
DENSE: Final = 4

#: Products of matrices that are recorded as such have at least so many products of entries, and so many terms in a
#: sum; smaller ones, and those of more stacked matrices than the last, are multiplications and sums.
SMALLEST_MATRICES: Final = 4096
SHORTEST_TERMS: Final = 8
MOST_STACKED: Final = 64

#: References with one letter an axis.
Labelled = tuple[References, str]


def contract(tape: Tape, operands: Sequence[Labelled], result: str) -> Entries:
    """References of the sum over all labels that are not in `result` of the product of the operands.

    Raises:
        ValueError: if axes of one label differ in length and neither is 1.

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
            wanted = set(result).union(*(labels for _, labels in remaining + chosen))
            product = _pair(tape, product, second, wanted)
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
                    f"operands of the shapes {', '.join(str(r.shape) for r, _ in operands)} cannot be multiplied: axes "
                    f"of the lengths {lengths[label]} and {length} belong together"
                )
    return lengths


def _simplified(
    tape: Tape, operands: Sequence[Labelled], position: int, lengths: dict[str, int], result: str
) -> Labelled:
    """One operand with every label once, in full length, and without labels that it alone has."""
    references, labels = operands[position]
    full = tuple(lengths[label] for label in labels)
    if references.shape != full:
        references = np.broadcast_to(references, full)
    distinct = "".join(dict.fromkeys(labels))
    if distinct != labels:  # a diagonal
        references = np.einsum(references, _numbers(labels), _numbers(distinct))
    others = {label for k, (_, labels) in enumerate(operands) if k != position for label in labels}
    wanted = "".join(label for label in distinct if label in result or label in others)
    return _summed(tape, references, distinct, wanted), wanted


def _numbers(labels: str) -> list[int]:
    """Labels as NumPy's einsum takes them in lists."""
    return [string.ascii_letters.index(label) for label in labels]


def _summed(tape: Tape, references: References, labels: str, wanted: str) -> References:
    """The sums over the axes that are not wanted."""
    kept = [k for k, label in enumerate(labels) if label in wanted]
    gone = [k for k in range(len(labels)) if k not in kept]
    if not gone:
        return references
    shape = tuple(references.shape[k] for k in kept)
    count = math.prod(references.shape[k] for k in gone)
    table = references.transpose(*kept, *gone).reshape(math.prod(shape), count)
    if isinstance(tape, BlockTape):
        return _sums(tape, table).reshape(shape)
    check_length(table.size)
    lines = table.tolist()
    return np.array([tape.sum(line) for line in lines], np.int64).reshape(shape)


def _path(operands: Sequence[Labelled], result: str) -> Sequence[tuple[int, ...]]:
    """Which operands to contract next; their product is then the last in the list."""
    if len(operands) <= 2:
        return [tuple(range(len(operands)))]
    arguments: list[Any] = []
    for references, labels in operands:
        arguments += [np.broadcast_to(0.0, references.shape), _numbers(labels)]
    path: Sequence[tuple[int, ...]] = np.einsum_path(*arguments, _numbers(result), optimize="greedy")[0][1:]
    return path


def _pair(tape: Tape, first: Labelled, second: Labelled, wanted: set[str]) -> Labelled:
    """The contraction of two operands over the labels that they share and nothing else wants."""
    lengths = {label: length for part in (first, second) for label, length in zip(part[1], part[0].shape, strict=True)}
    shared = [label for label in first[1] if label in second[1]]
    batch = "".join(label for label in shared if label in wanted)
    summed = "".join(label for label in shared if label not in wanted)
    left, right = ("".join(label for label in labels if label not in shared) for _, labels in (first, second))
    blocks = []
    for (references, labels), own in ((first, left), (second, right)):
        ordered = references.transpose([labels.index(label) for label in batch + own + summed])
        sizes = [math.prod(lengths[label] for label in part) for part in (batch, own, summed)]
        blocks.append(ordered.reshape(sizes))
    labels = batch + left + right
    shape = [lengths[label] for label in labels]
    if isinstance(tape, BlockTape):
        if _is_matrix_product(*blocks):
            stacked = [tape.matmul(a, b.T) for a, b in zip(*blocks, strict=True)]
            return np.stack(stacked).reshape(shape), labels
        products = tape.map(lambda body: body.multiply, [blocks[0][:, :, np.newaxis], blocks[1][:, np.newaxis]])
        return _sums(tape, products.reshape(-1, products.shape[-1])).reshape(shape), labels
    check_length(DENSE * math.prod(shape) * blocks[0].shape[2])
    # what a zero contributes to a sum is nothing, whatever its sign; a tape that keeps signs would add it
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
    """Whether stacks of matrices, the second transposed, are large enough to be multiplied as such."""
    stacked, rows, terms = map(int, first.shape)
    size = rows * terms * int(second.shape[1])
    return terms >= SHORTEST_TERMS and size >= SMALLEST_MATRICES and stacked <= MOST_STACKED


def _sums(tape: BlockTape, lines: References) -> References:
    """The sum of each line of a table."""
    count = lines.shape[1]
    if count == 0:
        return np.full(len(lines), tape.constant(0.0))
    return lines[:, 0] if count == 1 else tape.sums(lines.reshape(-1), np.arange(0, lines.size + 1, count))
