"""Programs over arrays modulo a prime: what they add and multiply, with everything else by chance.

Sums, products, also of matrices, negations and choices are computed; every other operation is a random residue for each
of its results, the same wherever it is referred to. A choice by c of a or b is b + c·(a − b), c being a residue like
any other. Every finite constant is a whole number times a power of two, and so has a residue of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import MATMUL, SUM, Block, BlockTape, Column, Range
from accumulus.tape.operations import BY_NAME

__all__ = ["PRIME", "at", "chunks", "matrix_product", "of_numbers", "reduced", "residues"]

#: 2³¹ − 1: products of two residues fit into 64 bits, and are reduced by shifts.
PRIME: Final = 2**31 - 1
#: Entries that are worked on at once: they stay in the processor's cache.
CHUNK: Final = 1 << 15

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
_COMPUTED: Final = frozenset((_ADD, _SUBTRACT, _MULTIPLY, _NEGATIVE, _SELECT, SUM, MATMUL))


def reduced(numbers: Any) -> Any:
    """The residues of numbers below 2⁶⁴, up to 4 above `PRIME`: several stand for the same."""
    numbers = (numbers & _PRIME) + (numbers >> _BITS)
    return (numbers & _PRIME) + (numbers >> _BITS)


def of_numbers(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The residues of floating-point numbers; of infinities and NaN some."""
    fractions, exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0.7310585786300049))
    whole = (fractions * 2.0**53).astype(np.int64)
    magnitudes = reduced(np.abs(whole).astype(np.uint64))
    residues = reduced(magnitudes << ((exponents.astype(np.int64) - 53) % 31).astype(np.uint64))
    negative: NDArray[np.uint64] = np.where(whole < 0, reduced(_TWICE - residues), residues)
    return negative


def chunks(count: int) -> Sequence[slice]:
    """So many entries in parts."""
    return [slice(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


def at(values: Residues, operands: Column, part: slice) -> Any:
    """The residues of some entries of a column: one if it is the same for all."""
    if not isinstance(operands, Range):
        return values[operands[part]].astype(np.uint64)
    if operands.step == 0:
        return values[operands.start].astype(np.uint64)
    begin = operands.start + operands.step * part.start
    if operands.step > 0 and begin >= 0:
        return values[begin : begin + operands.step * (part.stop - part.start) : operands.step].astype(np.uint64)
    return values[begin + operands.step * np.arange(part.stop - part.start)].astype(np.uint64)


def residues(
    tape: BlockTape, wanted: Sequence[Column], apart: Mapping[int, int], generator: np.random.Generator
) -> Residues:
    """The residue of each result that is wanted, or that one of these is computed from, at its reference.

    Args:
        apart: constants that were rounded, and the residues of what they stand for.

    Returns:
        An array of which negative references, as indices from its end, are those of constants.
    """
    constants = of_numbers(tape.constants)
    for reference, residue in apart.items():
        constants[-1 - reference] = residue
    values = np.empty(len(tape) + len(constants), np.uint32)
    values[len(tape) :] = constants[::-1]
    values[: tape.inputs] = _random(generator, tape.inputs)
    needed = tape.reached(wanted, _COMPUTED)
    for position in np.flatnonzero(needed).tolist():
        block = tape.blocks[position]
        result = values[block.start : block.start + block.count]
        if block.code == SUM:
            _sum(block, values, result)
        elif block.shape is not None:
            m, k, n = block.shape
            left, right = (np.broadcast_to(at(values, part, slice(0, len(part))), len(part)) for part in block.operands)
            result[:] = matrix_product(left.reshape(m, k), right.reshape(k, n)).reshape(-1)
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
    """The product of matrices of residues, of up to 2²¹ terms a sum: by halves, whose sums of products are exact."""
    (high, low), (upper, lower) = (
        ((part >> _HALF).astype(float), (part & _LOW).astype(float)) for part in (left, right)
    )
    parts = high @ upper, high @ lower + low @ upper, low @ lower
    one, two, three = (reduced(part.astype(np.uint64)) for part in parts)
    return reduced((reduced((one << _HALF) + two) << _HALF) + three)


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
