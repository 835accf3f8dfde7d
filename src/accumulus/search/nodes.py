"""A graph's labels, and what its tape computes, as numbered nodes: where the search by operations starts from.

A value is the number of a node, negative if the node is to be negated; node 1 is the number 1. Keys say what a
node computes from others. They are those of `accumulus.search.compiled.sharing_kernel`, so that what the Jacobian needs
meets what the function computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from accumulus.elimination.guards import Guarded, guarded
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.search.compiled.sharing_state import CONDITIONS, DIFFERENCE, NODE_BITS, PRODUCT, SIGN_BIT, SUM
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["Nodes"]

_NEGATIVE: Final = BY_NAME["negative"].code
_NOT: Final = BY_NAME["logical_not"].code
_OPERATIONS: Final = {
    BY_NAME["add"].code: SUM,
    BY_NAME["subtract"].code: DIFFERENCE,
    BY_NAME["multiply"].code: PRODUCT,
}


class Nodes:
    """Nodes of a graph's labels, and of what its tape computes.

    Attributes:
        count: of nodes, the unused node 0 included.
        labels: value and guard of each edge's label. A guard is a set of conditions, as bits.
        constants: nodes of constants.
        keys: value by key.
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.count = 2
        self.constants: set[int] = {1}
        self.keys: dict[int, int] = {}
        self._of_constant: dict[object, int] = {1.0: 1}
        self._conditions: dict[int, int] = {}
        if graph.tape is not None:
            self.labels = self._of_tape(graph.tape.copy(), graph.labels)
        else:
            self.labels = [(self._of_edge(graph, e), 0) for e in range(len(graph.sources))]

    def add(self, a: int, b: int) -> int:
        """The value a + b."""
        return self._operation(SUM, a, b)

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def _constant(self, number: object) -> int:
        if isinstance(number, float) and number < 0:
            return -self._constant(-number)
        node = self._of_constant.get(number)
        if node is None:
            node = self._of_constant[number] = self._new()
            self.constants.add(node)
        return node

    def _of_edge(self, graph: DifferentiationGraph, e: int) -> int:
        if e in graph.constants:
            return self._constant(graph.constants[e])
        return self._constant(("edge", e)) if graph.kinds[e] == Kind.CONSTANT else self._new()

    def _of_tape(self, tape: Tape, references: Iterable[int]) -> list[tuple[int, int]]:
        labels = [guarded(tape, reference) for reference in references]
        opened = [label if isinstance(label, Guarded) else Guarded(label) for label in labels]
        values = self._values(tape, [*tape.outputs, *(label.value for label in opened)])

        def value(label: Guarded) -> int:
            return values[label.value] if label.value >= 0 else self._constant(tape.value_of(label.value))

        return [(value(label), self._guard(tape, label.on)) for label in opened]

    def _values(self, tape: Tape, needed: Iterable[int]) -> dict[int, int]:
        """Values of all references that those need."""
        marks = bytearray(len(tape))
        for reference in needed:
            if reference >= 0:
                marks[reference] = 1
        for reference in range(len(tape) - 1, tape.inputs - 1, -1):
            if marks[reference]:
                for argument in tape.arguments(reference):
                    if argument >= 0:
                        marks[argument] = 1
        values: dict[int, int] = {}
        for reference in range(len(tape)):
            if not marks[reference]:
                continue
            code = tape.codes[reference]
            operation = _OPERATIONS.get(code)
            if operation is not None:
                a, b = (
                    values[argument] if argument >= 0 else self._constant(tape.value_of(argument))
                    for argument in tape.arguments(reference)
                )
                values[reference] = self._operation(operation, a, b)
            elif code == _NEGATIVE:
                values[reference] = -values[tape.first[reference]]
            else:
                values[reference] = self._new()
        return values

    def _operation(self, operation: int, a: int, b: int) -> int:
        """Value of an operation, with its signs pulled out as the kernel does."""
        if operation == DIFFERENCE:
            operation, b = SUM, -b
        sign, flag, created = 1, 0, 1
        low, high = sorted((abs(a), abs(b)))
        if operation == PRODUCT:
            sign = -1 if (a < 0) != (b < 0) else 1
            if sign < 0 and (low in self.constants) != (high in self.constants):
                sign, flag = 1, 1 << SIGN_BIT
        elif (a < 0) == (b < 0):
            sign = -1 if a < 0 else 1
        else:
            operation = DIFFERENCE
            sign = created = 1 if (a > 0) == (abs(a) < abs(b)) else -1
        key = (operation << NODE_BITS | low) << NODE_BITS | high | flag
        if key not in self.keys:
            self.keys[key] = created * self._new()
        return sign * self.keys[key]

    def _guard(self, tape: Tape, conditions: Iterable[int]) -> int:
        bits = 0
        for condition in conditions:
            opposite = tape.codes[condition] == _NOT
            reference = tape.first[condition] if opposite else condition
            number = self._conditions.setdefault(reference, len(self._conditions))
            if number < CONDITIONS:
                bits |= 1 << 2 * number + opposite
        return bits
