"""A network of nodes written down as a tape, with as few changes of sign as can be found.

Signs are free while a network is rewritten. On a tape they are operations, but most need none: a difference can be
taken either way round, a constant takes the sign of its product or sum, products and odd functions hand theirs on.
What is left are changes of sign of outputs, of choices between values of different signs, and of arguments of
functions that are neither odd nor even. Which nodes are computed with which sign is searched for by
`accumulus.rewriting.compiled.signs_kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.rewriting.compiled import rewrite_slots, signs_slots
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Definitions", "write"]

INPUT: Final = BY_NAME["input"].code
ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
SELECT: Final = BY_NAME["select"].code
CONSTANT: Final = rewrite_slots.CONSTANT
_ARITY: Final = [row.arity for row in OPERATIONS]
_REAL: Final = [tuple(kind == "real" for kind in row.arguments) for row in OPERATIONS]
_KIND: Final = [
    {ADD: signs_slots.SUM, MULTIPLY: signs_slots.PRODUCT, DIVIDE: signs_slots.PRODUCT, SELECT: signs_slots.SELECT}.get(
        row.code, {"odd": signs_slots.ODD, "even": signs_slots.EVEN, None: signs_slots.OTHER}[row.parity]
    )
    for row in OPERATIONS
]
#: Rounds of annealing, of which the best counts; one, if there are so many nodes.
ROUNDS: Final = 6
LARGE: Final = 20_000
#: Visits of each node in a round; of all together, at least, and at most if that leaves each a few.
VISITS: Final = 80
FEWEST: Final = 4_000
MOST: Final = 4_000_000
FEW: Final = 3
HOT: Final = 0.8
COLD: Final = 0.05


@dataclass(frozen=True)
class Definitions:
    """What nodes are computed from; see `accumulus.rewriting.compiled.rewrite_kernel`.

    Attributes:
        codes: operation of each node.
        signs: 1 or -1 each: the value of a node is that times its operation on its arguments.
        arguments: three each; numbers of nodes, negative where the negative is meant; of an input, its position.
        numbers: value of each node that is a constant.
        outputs: the values that the program returns.
    """

    codes: Sequence[int]
    signs: Sequence[int]
    arguments: Sequence[Sequence[int]]
    numbers: Sequence[float]
    outputs: Sequence[int]


def write(network: Definitions, tape: Tape) -> Tape:
    """The network as a tape with the inputs and constants of another, whose operations do not matter."""
    order = _order(network)
    return _written(network, order, _signs(network, order), tape)


def _order(network: Definitions) -> list[int]:
    """Operations that the outputs need, arguments first."""
    codes, rows = network.codes, network.arguments
    order: list[int] = []
    seen = bytearray(len(codes))
    for output in network.outputs:
        stack = [abs(output)]
        while stack:
            n = stack.pop()
            if n < 0:
                order.append(~n)
            elif not seen[n]:
                seen[n] = 1
                code = codes[n]
                if code not in (INPUT, CONSTANT):
                    stack.append(~n)
                    row = rows[n]
                    for k in range(_ARITY[code] - 1, -1, -1):
                        stack.append(abs(row[k]))
    return order


def _signs(network: Definitions, order: Sequence[int]) -> list[int]:
    """The sign with which each node is computed: 1 as its value, -1 as the negative of that."""
    codes, rows, own = network.codes, network.arguments, network.signs
    signs = [1] * len(codes)
    # operations by position, then the outputs, then one node that stands for all inputs and never turns
    position = {n: k for k, n in enumerate(order, 1)}
    count, outputs = len(order), len(network.outputs)
    fixed = count + outputs + 1
    kinds, arguments = [signs_slots.FREE], [(0, 0, 0)]

    def known(a: int, real: bool = True) -> int:
        code = codes[abs(a)]
        if code == CONSTANT or not real:
            return 0
        place = fixed if code == INPUT else position[abs(a)]
        return place if a > 0 else -place

    for n in order:
        code, row = codes[n], rows[n]
        found = [known(row[k], _REAL[code][k]) for k in range(_ARITY[code])]
        free = code in (ADD, MULTIPLY, DIVIDE) and 0 in found
        kinds.append(signs_slots.FREE if free else _KIND[code])
        first, second, third, *_ = (*found, 0, 0, 0)
        arguments.append((first, second, third))
    kinds += [signs_slots.OUTPUT] * outputs + [signs_slots.FREE]
    arguments += [(known(output), 0, 0) for output in network.outputs] + [(0, 0, 0)]

    block = Block(signs_slots.SLOTS)
    block.point(signs_slots.KINDS, np.array(kinds, np.int64))
    table = block.point(signs_slots.ARGUMENTS, np.array(arguments, np.int64))
    block.point(signs_slots.OWN, np.array([1, *(own[n] for n in order), *[1] * (outputs + 1)], np.int64))
    spins = block.point(signs_slots.SPINS, np.ones(fixed + 1, np.int64))
    heads, nexts = _uses(np.abs(table).reshape(-1), fixed)
    block.point(signs_slots.HEADS, heads)
    block.point(signs_slots.NEXTS, nexts)
    middles = (np.arange(signs_slots.THRESHOLD_COUNT) + 0.5) / signs_slots.THRESHOLD_COUNT
    block.point(signs_slots.THRESHOLDS, -np.log(middles))
    visits = min(max(VISITS * count, FEWEST), max(MOST, FEW * count))
    integers, floats = block.integers, block.floats
    integers[[signs_slots.NODES, signs_slots.ALL]] = count, count + outputs
    integers[[signs_slots.VISITS, signs_slots.RANDOM]] = visits, 0x9E3779B97F4A7C1
    floats[signs_slots.COOLING] = (COLD / HOT) ** (1 / visits)
    best, fewest = spins.copy(), len(kinds)
    for _ in range((ROUNDS if count < LARGE else 1) if count else 0):
        floats[signs_slots.TEMPERATURE] = HOT
        changes = kernel("rewriting.signs")(block.address)
        if changes < fewest:
            best, fewest = spins.copy(), changes
        if fewest == 0:
            break
    for n, spin in zip(order, best[1:].tolist(), strict=False):
        signs[n] = spin
    return signs


def _uses(arguments: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first use of each node, and the next use of the node that is used at each place; 0 ends a list."""
    heads, nexts = np.zeros(count + 1, np.int64), np.zeros(len(arguments), np.int64)
    places = np.flatnonzero(arguments)
    places = places[np.argsort(arguments[places], kind="stable")]
    nodes = arguments[places]
    same = nodes[1:] == nodes[:-1]
    nexts[places[:-1][same]] = places[1:][same]
    first = np.concatenate([[True], ~same]) if len(nodes) else np.zeros(0, bool)
    heads[nodes[first]] = places[first]
    return heads, nexts


def _written(network: Definitions, order: Sequence[int], signs: Sequence[int], tape: Tape) -> Tape:
    codes, rows, own, numbers = network.codes, network.arguments, network.signs, network.numbers
    result = tape.emptied()
    references = [row[0] if code == INPUT else 0 for code, row in zip(codes, rows, strict=True)]

    def bare(a: int, sign: int) -> tuple[int, int]:
        """Reference of a node, and the sign by which that has to be multiplied to give `sign` times the value a."""
        n = abs(a)
        if codes[n] == CONSTANT:
            return result.constant(numbers[n] if (a > 0) == (sign > 0) else -numbers[n]), 1
        return references[n], sign * signs[n] if a > 0 else -sign * signs[n]

    def signed(reference: int, sign: int) -> int:
        return reference if sign > 0 else result.negative(reference)

    for n in order:
        code, (a, b, c) = codes[n], rows[n]
        sign = signs[n] * own[n]  # by which the operation on the arguments is to be multiplied
        if code == ADD:
            (first, x), (second, y) = bare(a, sign), bare(b, sign)
            if x == y:
                references[n] = signed(result.add(first, second), x)
            else:
                references[n] = result.subtract(first, second) if x > 0 else result.subtract(second, first)
        elif code in (MULTIPLY, DIVIDE):
            if codes[abs(b)] == CONSTANT:
                first, x = bare(a, sign)
                second, y = bare(b, x)
                x = 1
            else:
                second, y = bare(b, 1)
                first, x = bare(a, sign * y)
                y = 1
            references[n] = signed(result.apply_code(code, (first, second)), x * y)
        elif code == SELECT:
            chosen = [signed(*bare(argument, sign)) for argument in (b, c)]
            references[n] = result.select(signed(*bare(a, 1)), *chosen)
        elif _KIND[code] == signs_slots.ODD:
            first, x = bare(a, sign)
            references[n] = signed(result.apply_code(code, [first]), x)
        elif _KIND[code] == signs_slots.EVEN:
            references[n] = signed(result.apply_code(code, [bare(a, 1)[0]]), sign)
        else:
            arguments = [signed(*bare(argument, 1)) for argument in rows[n][: _ARITY[code]]]
            references[n] = signed(result.apply_code(code, arguments), sign)
    result.outputs = [signed(*bare(output, 1)) for output in network.outputs]
    return result
