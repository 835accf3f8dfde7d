"""Verification that products and sums of derivatives between arrays are the Jacobian.

Each local derivative is a random residue (`accumulus.arrays.residues`), and so is the tangent of each input. The
tangents of all arrays follow edge by edge from the local derivatives, before any product. The rows of the Jacobian
times the tangents of the inputs must equal the tangents of the outputs. Bodies are verified when they are planned.

Time: one evaluation of the products, and one of the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled.residues_kernel import PRIME
from accumulus.arrays.entries import positions
from accumulus.arrays.inverses import ConstantMatrix, Slopes, Unformed
from accumulus.arrays.residues import (
    RandomInverses,
    Residues,
    add_products,
    chunks,
    gathered,
    matrix_product,
    random_residues,
    residues,
    residues_of,
    scattered_rows,
)
from accumulus.arrays.scans import Recurrence
from accumulus.arrays.structured import Dense, Edge, Lookup
from accumulus.errors import VerificationError
from accumulus.tape.blocks import GATHER
from accumulus.tape.columns import CHUNK, Column, column
from accumulus.tape.program import Program

Integers = NDArray[np.int64]
#: First reference of an array in the function, its length, its derivatives with respect to other arrays, and its
#: recurrence if it depends on itself, too.
AnyEdge = Edge | Lookup
Heads = tuple[int, int, list[AnyEdge], Recurrence | None]


def verify_derivatives(
    made: Program,
    inputs: int,
    edges: Sequence[Heads],
    nonzeros: tuple[Integers, Integers, Integers],
    apart: Mapping[int, int],
    seed: int,
    directions: Sequence[AnyEdge] | None = None,
    taken: Integers | None = None,
    calls: Mapping[int, tuple[Slopes, int | None]] | None = None,
) -> None:
    """Check that nonzeros are the derivatives of the outputs with respect to the inputs, or to directions.

    Args:
        made: program that computes the derivatives.
        inputs: number of inputs, or of directions, that the derivatives are with respect to.
        edges: derivatives of each array with respect to its operands, in an order of computation; the outputs come
            last, with one reference each.
        nonzeros: rows, columns and references of values.
        apart: constants that were rounded, with the residues of their exact values.
        seed: seed of the random residues.
        directions: derivatives of the function's inputs with respect to the directions, if there are any.
        taken: references of further values to differentiate with respect to; their columns follow the inputs.
        calls: calls of derivatives of opaque functions; see `Slopes`.

    Raises:
        VerificationError: if a row is wrong; the message names the first one.
    """
    generator = np.random.default_rng(seed)
    rows, columns, references = nonzeros
    first, count, *_ = edges[-1]
    taken = np.empty(0, np.int64) if taken is None else taken
    _check_places(rows, columns, count, inputs + len(taken))
    needed: list[Column] = [column(references)]
    local = [*(directions or ()), *(each for _, _, entries, _ in edges for each in entries)]
    needed += [each.values for each in local if not _is_unformed(each) and each.values is not None]
    needed += [each for *_, recurrence in edges if recurrence is not None for each in recurrence.columns]
    inverses = RandomInverses(generator, calls or {})
    values = residues(made, needed, apart, generator, inverses)
    tangents = np.zeros(max(begin + length for begin, length, *_ in edges), np.int32)
    ends = random_residues(generator, inputs)
    tangents_of_inputs = ends if directions is None else _tangents(0, made.inputs, directions, values, ends, inverses)
    tangents[: len(tangents_of_inputs)] = tangents_of_inputs
    for begin, length, entries, recurrence in edges:
        outside = _tangents(begin, length, entries, values, tangents, inverses)
        tangents[begin : begin + length] = outside if recurrence is None else recurrence.tangents(outside, values)
    ends = np.concatenate([ends, tangents[taken]])
    products = np.zeros(count, np.int32)
    for chunk in chunks(len(rows), CHUNK):
        heads, tails = (each[chunk].astype(np.int64) for each in (rows, columns))
        add_products(products, heads, (ends, tails), (values, references[chunk]))
    wrong = products % PRIME != tangents[first : first + count] % PRIME
    if wrong.any():
        raise VerificationError(
            f"the program does not compute the derivatives of output {int(wrong.argmax())}: modulo a prime its row "
            "differs from the one that the derivatives between arrays give. This is a mistake of accumulus; please "
            "report the function"
        )


def _check_places(rows: Integers, columns: Integers, count: int, inputs: int) -> None:
    """Raise an error for nonzeros that are out of range, repeat, or are not in order."""
    for chunk in chunks(len(rows), CHUNK):
        reach = slice(chunk.start, min(chunk.stop + 1, len(rows)))
        down, right = np.diff(rows[reach]), np.diff(columns[reach])
        inside = (rows[chunk] >= 0) & (rows[chunk] < count) & (columns[chunk] >= 0) & (columns[chunk] < inputs)
        if not inside.all() or not ((down > 0) | ((down == 0) & (right > 0))).all():
            raise VerificationError(
                f"nonzeros {chunk.start} to {chunk.stop} lie outside of {count} × {inputs}, or are not in order. This "
                "is a mistake of accumulus; please report the function"
            )


def _is_unformed(edge: AnyEdge) -> bool:
    return isinstance(edge, Dense) and isinstance(edge.factor, Unformed)


def _tangents(
    begin: int, length: int, entries: Iterable[AnyEdge], values: Residues, tangents: Residues, inverses: RandomInverses
) -> Residues:
    """Return the tangents of an array, given the tangents of the arrays that it depends on."""
    total = np.zeros(length, np.int32)
    for each in entries:
        if isinstance(each, Lookup):
            move = gathered if each.code == GATHER else scattered_rows
            moved = move(tangents[each.tails.references], values[each.indices], each.shape)
            total = residues_of(total.astype(np.int64) + moved).astype(np.int32)
        elif isinstance(each, Dense):
            m, k = each.factor.shape
            taken = tangents[each.tails.transpose(1, 0, 2).reshape(k, -1)]
            if isinstance(each.factor, Slopes):
                products = inverses.slopes_times(each.factor, taken)
            elif isinstance(each.factor, ConstantMatrix):
                products = inverses.product(each.factor.matrix, taken)
            elif isinstance(each.factor, Unformed):
                products = inverses.times(each.factor.operand, each.factor.direct, taken)
            else:
                products = matrix_product(values[each.factor], taken)
            places = each.heads.transpose(1, 0, 2).reshape(m, -1) - begin
            total[places] = residues_of(total[places] + products)
        else:
            factors = None if each.values is None else (values, each.values)
            add_products(total, positions(each.heads, begin), (tangents, each.tails), factors)
    return total
