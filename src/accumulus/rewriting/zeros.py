"""Signs of zeros in a network that is to be emitted: in the search they have none.

What reaches arctan2 stays as it is while a network is rewritten, up to what makes no difference to zeros without signs:
``x + 0`` has become x, and ``b - a`` the negative of ``a - b``. So in the end each of its nodes is defined anew, by the
operation on the tape that it was made from, and operations that share a node with another get one of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from accumulus.rewriting.compiled.rewrite_state import CONSTANT
from accumulus.rewriting.signs import Definitions
from accumulus.tape.compiled.passes_state import ARITY
from accumulus.tape.live import seeing_zero_signs, signed_zeros
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import PROPERTIES, Integers, rows_of
from accumulus.tape.tape import Tape

__all__ = ["with_signed_zeros"]

INPUT: Final = BY_NAME["input"].code
ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
NEGATIVE: Final = BY_NAME["negative"].code
_ARITY: Final = PROPERTIES & ARITY
_LOSES: Final = np.array([row.zero_signs == "lost" for row in OPERATIONS])


def with_signed_zeros(network: Definitions, tape: Tape, staying: Integers, values: Integers) -> Definitions | None:
    """The network with nodes that have the signs of zeros of the tape that it was made from.

    Args:
        tape: that tape.
        staying: references of all that operations which see the signs of zeros are computed from, and of these.
        values: what each of them is in the network; all of them are there still.

    Returns:
        That, or None where two operations that see the signs of zeros differ by these alone: they are one node.
    """
    rows = rows_of(tape)
    value = np.zeros(len(tape), np.int64)
    given = np.flatnonzero(network.codes == INPUT)
    value[network.arguments[given, 0]] = given
    value[staying] = values
    signed = staying[signed_zeros(tape)[staying]]
    codes = rows[signed, 0]
    turned, own = signed[codes == NEGATIVE], signed[codes != NEGATIVE]

    # one operation for each node, the first; the others get new nodes
    nodes, loses = np.abs(value[own]), _LOSES[rows[own, 0]]
    computed = ~np.isin(network.codes[nodes], (INPUT, CONSTANT))
    operations = np.flatnonzero(computed)
    has_node = np.zeros(len(own), bool)
    has_node[operations[np.unique(nodes[operations], return_index=True)[1]]] = True
    # what has no sign of zeros to keep stays as it has become, unless that is another operation
    kept = ~loses | (computed & ~has_node)
    own, has_node = own[kept], has_node[kept]
    if not has_node[np.isin(own, seeing_zero_signs(tape))].all():
        return None
    count, more = len(network.codes), int(np.count_nonzero(~has_node))
    value[own[~has_node]] = count + np.arange(more)
    value[turned] = -value[rows[turned, 1]]
    # the tape's constants come last
    added = more + len(tape.constants)
    result = replace(
        network,
        codes=np.concatenate([network.codes, np.full(added, CONSTANT)]),
        signs=np.concatenate([network.signs, np.ones(added, np.int64)]),
        arguments=np.concatenate([network.arguments, np.zeros((added, 3), np.int64)]),
        numbers=np.concatenate([network.numbers, np.zeros(more), tape.constants]),
        exact=np.zeros(count + added, bool),
    )
    codes, references = rows[own, 0], rows[own, 1:]
    arguments = np.where(references >= 0, value[np.maximum(references, 0)], count + more - 1 - references)
    arguments[codes == SUBTRACT, 1] *= -1
    nodes = np.abs(value[own])
    result.codes[nodes] = np.where(codes == SUBTRACT, ADD, codes)
    result.signs[nodes] = np.sign(value[own])
    result.arguments[nodes] = np.where(np.arange(3) < _ARITY[codes][:, np.newaxis], arguments, 0)
    result.exact[nodes] = True
    return result
