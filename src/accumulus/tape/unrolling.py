"""Programs over arrays written out as scalar operations: each instance of each block, in their order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import Block, BlockTape
from accumulus.tape.columns import references_in
from accumulus.tape.interpreter import Copies, applied
from accumulus.tape.live import settled
from accumulus.tape.moving import narrowed
from accumulus.tape.tape import Tape

__all__ = ["unroll"]


def unroll(program: BlockTape) -> Tape:
    """Return the same program as scalar operations.

    >>> program = BlockTape(inputs=2)
    >>> program.outputs = program.sums(program.apply("multiply", np.arange(2), np.arange(2)), [0, 2])
    >>> print(unroll(program))
    t2 = multiply(x0, x0)
    t3 = multiply(x1, x1)
    t4 = add(t2, t3)
    return t4
    """
    program = narrowed(program)
    tape = Tape(program.inputs, signed_zeros=program.signed_zeros)
    values = np.zeros(len(program), np.int64)
    values[: program.inputs] = np.arange(program.inputs)
    constants = np.array([tape.constant(value) for value in program.constants.tolist()], np.int64)

    def at(references: NDArray[np.int64]) -> list[int]:
        found = values[np.maximum(references, 0)]
        constant = references < 0
        if constant.any():
            found[constant] = constants[-1 - references[constant]]
        return found.tolist()  # type: ignore[no-any-return]

    for block in program.blocks:
        values[block.start : block.start + block.size] = _written(tape, block, at, values)
    tape.outputs = at(program.outputs)
    return settled(tape) if tape.signed_zeros else tape


def _written(
    tape: Tape, block: Block, at: Callable[[NDArray[np.int64]], list[int]], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Write the instances of a block onto a tape; return the references of its results there."""
    columns = [references_in(operands) for operands in block.operands]
    if block.body is not None:
        write = Copies(tape, is_eager=True).routine(block.body)
        results = values[block.start : block.start + block.size].reshape(-1, block.count)
        for instance in range(block.count):  # which take results of earlier ones
            results[:, instance] = write(*at(np.array([each[instance] for each in columns], np.int64)))
        return results.reshape(-1)
    if block.offsets is not None:
        terms, ends = at(columns[0]), block.offsets.tolist()
        sums = [tape.sum(terms[first:last]) for first, last in pairwise(ends)]
        return np.array(sums, np.int64)
    if block.shape is not None:
        m, k, n = block.shape
        left, right = at(columns[0]), at(columns[1])
        rows = [left[k * i : k * i + k] for i in range(m)]
        lines = [right[j::n] for j in range(n)]
        products = [tape.sum(map(tape.multiply, row, line)) for row in rows for line in lines]
        return np.array(products, np.int64)
    instances = zip(*map(at, columns), strict=True)
    return np.array([applied(tape, block.code, operands) for operands in instances], np.int64)
