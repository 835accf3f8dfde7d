"""The memory of `accumulus.rewriting.compiled.rewrite_kernel`."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.state import Axes, Floats, Integers, Record, Records, Undoable

__all__ = [
    "ANNEAL",
    "BUILD",
    "CONSTANT",
    "FOR_LIFE",
    "KEEP",
    "ONE",
    "OUTPUT",
    "SWEEP",
    "TERM_COUNT",
    "THRESHOLD_COUNT",
    "TREE_SIZE",
    "TWO",
    "ZERO",
    "Entry",
    "Operation",
    "RewriteState",
    "Term",
]

#: Node numbers of constants that every program has.
ZERO, ONE, TWO = 1, 2, 3
#: Codes beyond those of the table of operations.
CONSTANT, OUTPUT = 254, 255
#: What a call of the kernel does.
ANNEAL, SWEEP, BUILD, KEEP = range(4)
#: Of an operation that has to stay as it is, even if nothing needs it in the end.
FOR_LIFE: Final = 2
#: Entries of a tree, at most.
TREE_SIZE: Final = 64
#: Terms of a linear combination, at most.
TERM_COUNT: Final = 48
THRESHOLD_COUNT: Final = 1024


class Operation(Record):
    """An operation of the program that is read.

    Attributes:
        code: of the operation.
        first, second, third: references of its arguments.
        stays: whether it has to stay as it is; `FOR_LIFE` if even without a use.
    """

    code: int
    first: int
    second: int
    third: int
    stays: int


class Entry(Record):
    """An entry of a tree of sums, or of products and quotients.

    Attributes:
        node: what it stands for.
        sign: of a term, that with which it counts; of a factor, -1 if it divides.
        left, right: entries of its arguments; left is -1 for a leaf.
        value: what the node is without the leaves that were removed.
        removed: whether the leaf was.
    """

    node: int
    sign: int
    left: int
    right: int
    value: int
    removed: int


class Term(Record):
    """A term of a linear combination: a multiple of a node."""

    node: int
    coefficient: float


class RewriteState(Undoable):
    """A network of nodes, from 1 on, and the moves that rewrite it.

    The *place* of an argument is three times the number of its node, and which of its arguments it is.

    Attributes:
        mode: what to do.
        codes: operation of each node.
        arguments: what it is computed from: nodes, negative where the negative is meant; of an input, its position; of
            a constant, the bits of its number.
        signs: the value of a node is that times its operation on its arguments.
        uses: how often it is used; what is not is dead.
        heads: place of its first use; 0 if there is none.
        nexts, previous: of each place, that of the next and of the previous use of the same node; 0 ends the list.
        frozen: whether the node must stay as it is.
        fused: whether it is a sum that takes up a product.
        queued: whether it waits to be renewed.
        freed: whether its number is free.
        node_limit: nodes that there is room for.
        next: the first number that no node has had.
        weights, arities, properties: price, number of arguments and properties of each operation, by its code; for
            properties, see `accumulus.tape.compiled.passes_state`.
        credit: by how much less a sum and a product that only it uses cost together.
        table: nodes by their definitions, open addressing; 0 where there is none.
        table_bits: of its size.
        log_limit: writes that the log has room for.
        stack: of nodes that come to life or die, and of what a move has made.
        stacked: their number.
        queue: nodes that wait to be renewed.
        queue_count: their number.
        free: numbers of nodes that are free.
        free_count: how many.
        touched: nodes that the move has made or dropped.
        touched_count: their number.
        tree: of the node that is moved.
        part: of one of its terms, or of the second of its branches.
        other: of another of its terms.
        found: terms of a linear combination, (TERM_COUNT,).
        waiting: those that are still to be looked into, (TERM_COUNT,).
        thresholds: -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,).
        random: state of the generator, (1,).
        visits: moves to try in a call.
        at: next node of a sweep.
        inline: chance to look into a sum or product that is used elsewhere, too, of 1024.
        target: node of the move, while it is looked for.
        failed: whether the move came back to that, or took more of the log than there is.
        temperature, cooling: and its factor for each visit.
        cost: of the network.
        tried, changed, accepted: moves that were tried, that changed something, that were accepted.
        best: least cost of a network that was kept.
        best_codes, best_arguments, best_signs: its definitions.
        best_next: its `next`.
        unkept: moves since then.
        program: operations to read.
        length: their number.
        inputs: number of inputs.
        meanings: value of each reference that is an input or an operation.
        outputs: references of the outputs; once they are read, their values.
        output_count: their number.
        first_output: node of the first; the others follow.
        numbers: the program's constants.
        choices: whether there are any.
    """

    mode: int
    codes: Integers
    arguments: Annotated[Integers, Axes(3)]
    signs: Integers
    uses: Integers
    heads: Integers
    nexts: Integers
    previous: Integers
    frozen: Integers
    fused: Integers
    queued: Integers
    freed: Integers
    node_limit: int
    next: int = 1
    weights: Integers
    arities: Integers
    properties: Integers
    credit: int
    table: Integers
    table_bits: int
    log_limit: int
    stack: Integers
    stacked: int = 0
    queue: Integers
    queue_count: int = 0
    free: Integers
    free_count: int = 0
    touched: Integers
    touched_count: int = 0
    tree: Records[Entry]
    part: Records[Entry]
    other: Records[Entry]
    found: Records[Term]
    waiting: Records[Term]
    thresholds: Floats
    random: Integers
    visits: int = 0
    at: int = 0
    inline: int = 0
    target: int = 0
    failed: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
    cost: int = 0
    tried: int = 0
    changed: int = 0
    accepted: int = 0
    best: int = 0
    best_codes: Integers
    best_arguments: Annotated[Integers, Axes(3)]
    best_signs: Integers
    best_next: int = 0
    unkept: int = 0
    program: Records[Operation]
    length: int
    inputs: int
    meanings: Integers
    outputs: Integers
    output_count: int
    first_output: int = 0
    numbers: Floats
    choices: int = 0
