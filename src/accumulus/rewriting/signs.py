"""Emission of a network of nodes as a tape, with as few changes of sign as possible.

Signs are free while a network is rewritten. On a tape they are operations, but most can be avoided: a difference can be
taken either way round, a constant takes the sign of its product or sum, products and odd functions pass signs on.
Changes of sign remain at outputs, at choices between values of different signs, and at arguments of functions that are
neither odd nor even. `accumulus.rewriting.compiled.signs_kernel` searches for the signs with which nodes are computed.
It runs last: the tape's builders move signs outwards, so a sign that is best changed once, before many products, would
otherwise be changed after each of them.

**Signs of zeros.** The search ignores signs of zeros. Rewriting changes operands of arctan2 only in ways that are exact
except for signs of zeros: ``x + 0`` becomes x, and ``b - a`` the negative of ``a - b``. In the end, therefore, each of
these nodes is redefined by the operation of the tape that it was made from, and operations that share a node get
separate nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import cool, thresholds
from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.rewriting.compiled import signs_kernel as kind
from accumulus.rewriting.compiled.rewrite_nodes import CONSTANT, THRESHOLD_COUNT
from accumulus.rewriting.compiled.signs_kernel import COUNT, SORT, TURN, SignsState
from accumulus.tape.compiled.passes_kernel import ARITY, JUMPS, SIGNED, VERBATIM
from accumulus.tape.live import needed, seeing_zero_signs, signed_zeros
from accumulus.tape.operations import INPUT, OPERATIONS
from accumulus.tape.passes import PROPERTIES, commands, extended, moved, rows_of
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SELECT, SUBTRACT, Tape

#: By code: number of arguments, mask of the arguments that are numbers, and effect on signs.
_ARITY: Final = PROPERTIES & ARITY
_REAL: Final = np.array([[k < row.arity and row.arguments[k] != "boolean" for k in range(3)] for row in OPERATIONS])
_KIND: Final = np.array(
    [
        {ADD: kind.SUM, MULTIPLY: kind.PRODUCT, DIVIDE: kind.PRODUCT, SELECT: kind.SELECT}.get(
            row.code, {"odd": kind.ODD, "even": kind.EVEN, None: kind.OTHER}[row.parity]
        )
        for row in OPERATIONS
    ]
)
#: Operations with jumps, which are not odd at signed zeros: the sign of either zero is 0.
_JUMPS: Final = PROPERTIES & JUMPS != 0
THRESHOLDS: Final = thresholds(THRESHOLD_COUNT)
#: Number of annealing rounds, from which the best result is kept; one round from `LARGE` nodes on. More rounds cost
#: time in proportion, fewer leave changes of sign.
ROUNDS: Final = 3
LARGE: Final = 10_000
#: A round makes `VISITS` visits per node, and at least `FEWEST` in each window. Networks of more than `WINDOW` nodes
#: are annealed in windows of that size, each overlapping half of the one before, with `FEWER` visits per node. More
#: visits cost time in proportion, fewer leave changes of sign; larger windows leave the cache, smaller ones see fewer
#: signs together.
VISITS: Final = 40
FEWEST: Final = 4_000
WINDOW: Final = 2048
FEWER: Final = 20
#: Temperatures at the start and at the end, in changes of sign: a hotter start loses more of the signs found before, a
#: colder one stays in a local minimum.
HOT: Final = 0.8
COLD: Final = 0.05
#: Least number of products whose signs are changed by one change of a common factor's sign. With a single product,
#: nothing would be saved.
SHARED: Final = 2


@dataclass(frozen=True)
class Definitions:
    """Definitions of nodes; see `accumulus.rewriting.compiled.rewrite_kernel`.

    Attributes:
        codes: (n,), operation of each node.
        signs: (n,), 1 or -1: a node's value is this factor times its operation on its arguments.
        arguments: (n, 3), nodes, negative where the negative is meant; for an input, its position.
        numbers: (n,), value of each node that is a constant.
        outputs: nodes of the outputs, negative where the negative is returned.
        exact: (n,), True if zeros of a node must have the sign that its operation gives them. The negative of a sum is
            then computed as such: a + b and -a - b are both 0 if a is -b.
    """

    codes: Integers
    signs: Integers
    arguments: Integers
    numbers: NDArray[np.float64]
    outputs: Integers
    exact: NDArray[np.bool_]


def signed_tape(network: Definitions, tape: Tape) -> Tape:
    """Return the network as a tape with the inputs and constants of another tape, whose operations are ignored."""
    # an exact sum is computed as defined: for a node that is -(x - y), x - y is computed, not y - x
    signs = np.where(network.exact & (network.codes == ADD), network.signs, 1)
    return _emitted(network, _order(network), signs, tape)


def with_fewest_signs(tape: Tape) -> Tape:
    """Return the tape, or an equivalent one with fewer changes of sign if that has fewer operations.

    Args:
        tape: tape without dead operations.
    """
    if NEGATIVE not in tape.codes:
        return tape
    return with_shared_changes(min(tape, with_few_changes(tape), key=lambda each: each.operations))


def with_shared_changes(tape: Tape) -> Tape:
    """Return the tape with changes of sign moved from products to factors that several of them share.

    -(a·b) is (-a)·b to the last bit, and one -a serves all products and quotients by a. Factors are chosen greedily,
    those of most products first.

    Args:
        tape: tape without dead operations.
    """
    rows = rows_of(tape)
    taken = np.concatenate([rows[tape.inputs :, 1:][_operands(rows[tape.inputs :])], tape.outputs]).astype(np.int64)
    uses = np.bincount(taken[taken >= 0], minlength=len(tape))
    changes = np.flatnonzero((rows[:, 0] == NEGATIVE) & (rows[:, 1] >= tape.inputs))
    products = rows[changes, 1]
    may_change = np.isin(rows[products, 0], (MULTIPLY, DIVIDE)) & (uses[products] == 1)
    waiting = dict(zip(changes[may_change].tolist(), products[may_change].tolist(), strict=True))
    if not waiting:
        return tape
    codes, first, second = rows[:, :3].T.tolist()
    products_by: dict[int, list[int]] = {}
    for r, m in waiting.items():
        for a in {first[m], second[m]}:
            if a >= 0 and codes[a] != NEGATIVE:
                products_by.setdefault(a, []).append(r)
    # factors whose negatives are computed anyway come first
    changed = {first[r] for r in np.flatnonzero(rows[:, 0] == NEGATIVE).tolist() if r not in waiting}
    by_factor: dict[int, int] = {}
    for factor in sorted(products_by, key=lambda a: (a not in changed, -len(products_by[a]))):
        alone = [r for r in products_by[factor] if r not in by_factor]
        if factor in changed or len(alone) >= SHARED:
            by_factor |= dict.fromkeys(alone, factor)
    if not by_factor:
        return tape
    dissolved = {waiting[r] for r in by_factor}
    written: list[tuple[int, ...]] = []
    places, negatives = list(range(tape.inputs)), dict[int, int]()

    def write(code: int, *arguments: int) -> int:
        written.append((code + VERBATIM, *arguments))
        return tape.inputs + len(written) - 1

    def negative(a: int) -> int:
        if a not in negatives:
            negatives[a] = write(NEGATIVE, places[a], 0, 0)
        return negatives[a]

    for r, (code, *arguments) in enumerate(rows[tape.inputs :].tolist(), tape.inputs):
        if r in by_factor:
            m, factor = waiting[r], by_factor[r]
            others = [places[a] if a >= 0 else a for a in (first[m], second[m])]
            others[0 if first[m] == factor else 1] = negative(factor)
            places.append(write(codes[m], *others, 0))
        elif r in dissolved:
            places.append(-1)
        elif code == NEGATIVE and arguments[0] >= 0:
            places.append(negative(arguments[0]))
        else:
            arity = int(_ARITY[code])
            new = [places[a] if k < arity and a >= 0 else a for k, a in enumerate(arguments)]
            places.append(write(code, *new))
    result = tape.emptied()
    result, values = extended(result, np.array(written, np.int64).reshape(-1, 4))
    result.outputs = [int(values[places[output]]) if output >= 0 else output for output in tape.outputs]
    return result


def _operands(rows: Integers) -> NDArray[np.bool_]:
    """Return the mask of the arguments that operations have, (operations, 3)."""
    return np.arange(3) < _ARITY[rows[:, 0]][:, np.newaxis]


def with_few_changes(tape: Tape) -> Tape:
    """Return the tape with few changes of sign; its other operations stay the same up to signs.

    Operations are recorded verbatim: builders would move signs outwards.
    """
    network = _network(tape)
    order = _order(network)
    return _emitted(network, order, _signs(network, order), tape, verbatim=True)


def _network(tape: Tape) -> Definitions:
    """Return the operations of a tape as nodes; changes of sign become signs of arguments."""
    # node 0 is unused; then come inputs and operations, then constants
    rows, size, constants = rows_of(tape), len(tape), len(tape.constants)
    codes = rows[:, 0]
    value = np.arange(1, size + 1)
    value[codes == NEGATIVE] = -value[rows[codes == NEGATIVE, 1]]

    def nodes(references: Integers) -> Integers:
        return np.where(references >= 0, value[np.maximum(references, 0)], size - references)

    count = 1 + size + constants
    arguments = np.zeros((count, 3), np.int64)
    arguments[1 : size + 1] = np.where(np.arange(3) < _ARITY[codes][:, np.newaxis], nodes(rows[:, 1:]), 0)
    arguments[1 : size + 1][codes == SUBTRACT, 1] *= -1
    arguments[1 : tape.inputs + 1, 0] = np.arange(tape.inputs)
    return Definitions(
        codes=np.concatenate([[CONSTANT], np.where(codes == SUBTRACT, ADD, codes), np.full(constants, CONSTANT)]),
        signs=np.ones(count, np.int64),
        arguments=arguments,
        numbers=np.concatenate([np.zeros(1 + size), tape.constants]),
        outputs=nodes(np.array(tape.outputs, np.int64)),
        exact=np.concatenate([[False], signed_zeros(tape), np.zeros(constants, bool)]),
    )


def _order(network: Definitions) -> Integers:
    """Return the operations that outputs need, arguments first."""
    arities = _ARITY[network.codes]
    state = SignsState(
        arguments=np.ascontiguousarray(network.arguments),
        arities=arities,
        roots=np.ascontiguousarray(network.outputs),
        root_count=len(network.outputs),
        seen=np.zeros(len(arities), np.int64),
        # each node is pushed once, and once for each use
        stack=np.empty(len(arities) + arities.sum() + 1, np.int64),
        order=np.empty(len(arities), np.int64),
        thresholds=THRESHOLDS,
    )
    return state.order[: _perform(state, SORT)]


def _signs(network: Definitions, order: Integers) -> Integers:
    """Return the sign with which each node is computed: 1 for its value, -1 for the negative of its value."""
    signs = np.ones(len(network.codes), np.int64)
    # operations by position, then the outputs, then one node that stands for all inputs and never changes sign
    count, outputs = len(order), len(network.outputs)
    fixed = count + outputs + 1
    places = np.zeros(len(network.codes), np.int64)
    places[network.codes == INPUT] = fixed
    places[order] = np.arange(1, count + 1)

    codes, rows = network.codes[order], network.arguments[order]
    table = np.zeros((fixed + 1, 3), np.int64)
    table[1 : count + 1] = np.where(_REAL[codes], np.sign(rows) * places[np.abs(rows)], 0)
    table[count + 1 : fixed, 0] = np.sign(network.outputs) * places[np.abs(network.outputs)]
    own_kinds = _kinds(network, order)
    arithmetic = (own_kinds == kind.SUM) | (own_kinds == kind.PRODUCT)
    takes_any_sign = arithmetic & (table[1 : count + 1, :2] == 0).any(axis=1)
    kinds = np.full(fixed + 1, kind.OUTPUT)
    kinds[1 : count + 1] = np.where(takes_any_sign, kind.FREE, own_kinds)
    kinds[[0, fixed]] = kind.FREE

    own_signs, spins = np.ones((2, fixed + 1), np.int64)
    own_signs[1 : count + 1] = network.signs[order]
    spins[kinds == kind.EXACT_SUM] = own_signs[kinds == kind.EXACT_SUM]
    heads, nexts = _uses(np.abs(table).reshape(-1), fixed)
    state = SignsState(
        arguments=table,
        kinds=kinds,
        own=own_signs,
        spins=spins,
        heads=heads,
        nexts=nexts,
        thresholds=THRESHOLDS,
        random=np.array([0x9E3779B97F4A7C1]),
        count=count + outputs,
    )
    best, fewest = spins.copy(), _perform(state, COUNT)
    for _ in range(ROUNDS if count < LARGE else 1):
        if fewest == 0:
            break
        # nodes in the order of the program, so that a window's nodes are adjacent in memory
        for first in range(1, count + 1, WINDOW // 2):
            together = min(WINDOW, count + 1 - first)
            state.first, state.nodes = first, together
            state.visits = max((VISITS if count <= WINDOW else FEWER) * together, FEWEST)
            cool(state, state.visits, HOT, COLD)
            _perform(state, TURN)
            if first + WINDOW > count:
                break
        changes = _perform(state, COUNT)
        if changes < fewest:
            best, fewest = spins.copy(), changes
    signs[order] = best[1 : count + 1]
    return signs


def _kinds(network: Definitions, order: Integers) -> Integers:
    """Return how each node treats signs, as a kind of `signs_kernel`."""
    codes, exact = network.codes[order], network.exact[order]
    kinds = _KIND[codes]
    kinds[exact & (kinds == kind.SUM)] = kind.EXACT_SUM
    kinds[exact & _JUMPS[codes]] = kind.OTHER
    return kinds


def _perform(state: SignsState, mode: int) -> int:
    state.mode = mode
    return kernel("rewriting.signs")(state.address)


def _uses(arguments: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first use of each node, and for each use the next use of the same node; 0 ends a list."""
    heads, nexts = np.zeros(count + 1, np.int64), np.zeros(len(arguments), np.int64)
    places = np.flatnonzero(arguments)
    places = places[np.argsort(arguments[places], kind="stable")]
    nodes = arguments[places]
    same = nodes[1:] == nodes[:-1]
    nexts[places[:-1][same]] = places[1:][same]
    first = np.concatenate([[True], ~same]) if len(nodes) else np.zeros(0, bool)
    heads[nodes[first]] = places[first]
    return heads, nexts


def _emitted(network: Definitions, order: Integers, signs: Integers, tape: Tape, *, verbatim: bool = False) -> Tape:
    """Return a tape of the operations, with the changes of sign of their arguments and results.

    Args:
        network: definitions of the nodes.
        order: nodes in the order of their computation.
        signs: sign with which each node is computed, (n,).
        tape: tape to write onto.
        verbatim: if True, operations are recorded verbatim, without the builders' simplifications.
    """
    codes, rows = network.codes[order], network.arguments[order]
    kinds = _kinds(network, order)
    ways = VERBATIM if verbatim else SIGNED * network.exact[order]
    change = NEGATIVE + VERBATIM * verbatim
    sums, choices, products = codes == ADD, codes == SELECT, kinds == kind.PRODUCT
    odd, even, other = kinds == kind.ODD, kinds == kind.EVEN, kinds == kind.OTHER
    nodes, turned = np.abs(rows), np.sign(rows)
    is_number = network.codes[nodes] == CONSTANT

    # sign: factor of each operation; incoming: signs of its arguments as computed; factors: factors that the arguments
    # need; remaining: signs that are still to be applied. Numbers take any sign.
    sign = signs[order] * network.signs[order]
    incoming = turned * signs[nodes]
    factors = np.ones_like(rows)
    factors[sums, :2] = sign[sums, np.newaxis]
    factors[odd, 0] = sign[odd]
    factors[choices, 1:] = sign[choices, np.newaxis]
    factors[products, 0] = (sign * np.where(is_number[:, 1], 1, incoming[:, 1]))[products]
    by_number = products & is_number[:, 1]
    factors[by_number, 1] = np.where(is_number[:, 0], 1, factors[:, 0] * incoming[:, 0])[by_number]
    remaining = np.where(is_number, 1, factors * incoming)

    # the result's own sign, differences, and arguments that have to be changed first
    negative_sums = (kinds == kind.EXACT_SUM) & (remaining[:, :2] < 0).all(axis=1)
    remaining[negative_sums, 0] = 1
    alike = remaining[:, 0] == remaining[:, 1]
    result = np.where((sums & alike) | (products & ~by_number) | odd, remaining[:, 0], 1)
    result = np.where(even | other, sign, result)
    used = np.arange(3) < _ARITY[codes][:, np.newaxis]
    changed = (choices | other)[:, np.newaxis] & (remaining < 0) & used
    changed[negative_sums, 0] = True

    # one row for each argument that is changed, the operation, and perhaps its change of sign
    present = np.concatenate([changed, np.ones((len(order), 1), bool), (result < 0)[:, np.newaxis]], axis=1)
    at = np.cumsum(present.reshape(-1)).reshape(present.shape) - 1
    reference_of = np.zeros(len(network.codes), np.int64)
    is_input = network.codes == INPUT
    reference_of[is_input] = network.arguments[is_input, 0]
    reference_of[order] = tape.inputs + at[:, 4]
    base = tape.emptied()
    operands = reference_of[nodes]
    numbers = is_number & used
    operands[numbers] = _constants(base, (network.numbers[nodes] * turned * factors)[numbers])
    recorded = commands(int(np.count_nonzero(present)))
    for k in range(3):
        chosen = changed[:, k]
        recorded[at[chosen, k]] = commands(int(np.count_nonzero(chosen)), change, operands[chosen, k])
        operands[chosen, k] = tape.inputs + at[chosen, k]
    differences = sums & ~alike
    backwards = differences & (remaining[:, 0] < 0)
    operands[backwards, :2] = operands[backwards, 1::-1]
    recorded[at[:, 3]] = np.column_stack(
        [
            np.where(differences, SUBTRACT, codes) + ways,
            np.where(used, operands, 0),
        ]
    )
    turned_back = result < 0
    recorded[at[turned_back, 4]] = commands(
        int(np.count_nonzero(turned_back)), change, tape.inputs + at[turned_back, 3]
    )

    outputs, turned = np.abs(network.outputs), np.sign(network.outputs)
    is_number = network.codes[outputs] == CONSTANT
    ends = reference_of[outputs]
    ends[is_number] = _constants(base, (network.numbers[outputs] * turned)[is_number])
    changes = ~is_number & (turned * signs[outputs] < 0)
    last = commands(int(np.count_nonzero(changes)), change, ends[changes])
    ends[changes] = tape.inputs + len(recorded) + np.arange(len(last))
    result_tape, values = extended(base, np.concatenate([recorded, last]))
    result_tape.outputs = moved(ends, values).tolist()
    return result_tape


def _constants(tape: Tape, numbers: NDArray[np.float64]) -> Integers:
    """Return references of numbers as constants of the tape."""
    # by their bits: zeros of both signs are distinct
    distinct, which = np.unique(numbers.view(np.int64), return_inverse=True)
    return np.array([tape.constant(value) for value in distinct.view(np.float64)], np.int64)[which]


_LOSES: Final = np.array([row.zero_signs == "lost" for row in OPERATIONS])


def written_tape(network: Definitions, tape: Tape, meanings: Integers) -> Tape | None:
    """Return the network as a tape that keeps the signs of zeros of the original tape.

    Args:
        network: definitions of the nodes.
        tape: tape that the network was made from.
        meanings: node of each of the tape's references; operands of operations that see signs of zeros still have one.

    Returns:
        The tape; None if two operations that share a node must differ in the signs of zeros.
    """
    seeing = seeing_zero_signs(tape)
    if not len(seeing):
        return signed_tape(network, tape)
    staying = np.flatnonzero(np.frombuffer(needed(tape, seeing.tolist()), bool)[tape.inputs :]) + tape.inputs
    rows, values = rows_of(tape), meanings[staying]
    value = np.zeros(len(tape), np.int64)
    inputs = np.flatnonzero(network.codes == INPUT)
    value[network.arguments[inputs, 0]] = inputs
    value[staying] = values
    signed = staying[signed_zeros(tape)[staying]]
    codes = rows[signed, 0]
    turned, plain = signed[codes == NEGATIVE], signed[codes != NEGATIVE]

    # the first operation of each node keeps it; the others get new nodes
    nodes, loses = np.abs(value[plain]), _LOSES[rows[plain, 0]]
    computed = ~np.isin(network.codes[nodes], (INPUT, CONSTANT))
    operations = np.flatnonzero(computed)
    has_node = np.zeros(len(plain), bool)
    has_node[operations[np.unique(nodes[operations], return_index=True)[1]]] = True
    # operations that lose the sign of zeros stay rewritten, unless their node belongs to another operation
    retained = ~loses | (computed & ~has_node)
    plain, has_node = plain[retained], has_node[retained]
    if not has_node[np.isin(plain, seeing)].all():
        return None
    count, more = len(network.codes), int(np.count_nonzero(~has_node))
    value[plain[~has_node]] = count + np.arange(more)
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
    codes, references = rows[plain, 0], rows[plain, 1:]
    arguments = np.where(references >= 0, value[np.maximum(references, 0)], count + more - 1 - references)
    arguments[codes == SUBTRACT, 1] *= -1
    nodes = np.abs(value[plain])
    result.codes[nodes] = np.where(codes == SUBTRACT, ADD, codes)
    result.signs[nodes] = np.sign(value[plain])
    result.arguments[nodes] = np.where(np.arange(3) < _ARITY[codes][:, np.newaxis], arguments, 0)
    result.exact[nodes] = True
    return signed_tape(result, tape)
