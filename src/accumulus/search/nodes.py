"""Values of a tape as the search by operations sees them: numbered nodes, signs pulled out, selects that switch off known as such.

A value is the number of a node, negative if the node is to be negated; node 1 is the number 1. The nodes and keys made here for
what a function computes are those that `accumulus.search.sharing_kernel` makes for what its Jacobian does, so equal
operations meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.search.sharing_slots import DIFFERENCE, NODE_BITS, PRODUCT, SELECT, SUM
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["Nodes"]

_CODES: Final = {name: BY_NAME[name].code for name in ("add", "subtract", "multiply", "negative", "select")}
_NEGATIVE, _SELECT = _CODES["negative"], _CODES["select"]
_OPERATIONS: Final = {_CODES["add"]: SUM, _CODES["subtract"]: DIFFERENCE, _CODES["multiply"]: PRODUCT}


class Nodes:
    """Nodes of a graph's labels, and of what its tape computes.

    Attributes:
        count: of nodes, the unused node 0 included.
        labels: value of each edge's label.
        constants: nodes of constants.
        switches: (node, condition, value) of each select between a value and zero.
        keys: value by key, for operations that the function computes.
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.count = 2
        self.labels: list[int] = []
        self.constants: list[int] = [1]
        self.switches: list[tuple[int, int, int]] = []
        self.keys: dict[int, int] = {}
        self._opposites: dict[int, int] = {}
        self._of_constant: dict[object, int] = {1.0: 1, -1.0: -1}
        if graph.tape is not None:
            values = self._of_tape(graph.tape, [int(label) for label in graph.labels])
            self.labels = [
                values[label] if label >= 0 else self._constant(graph.tape.value_of(label)) for label in graph.labels
            ]
        else:
            for e, kind in enumerate(graph.kinds.tolist()):
                known = graph.constants.get(e)
                if known is None:
                    self.labels.append(self._constant(("edge", e)) if kind == Kind.CONSTANT else self._new())
                else:
                    self.labels.append(self._constant(known))

    def add(self, a: int, b: int) -> int:
        """The value a + b, known from now on."""
        return self._operation(SUM, a, b)

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def _constant(self, number: object) -> int:
        value = self._of_constant.get(number)
        if value is None:
            value = self._of_constant[number] = self._new()
            self.constants.append(value)
        return value

    def _of_tape(self, tape: Tape, labels: list[int]) -> dict[int, int]:
        """Values of all references that the outputs and labels need."""
        marks = bytearray(len(tape))
        for reference in (*tape.outputs, *labels):
            if reference >= 0:
                marks[reference] = 1
        for reference in range(len(tape) - 1, tape.inputs - 1, -1):
            if marks[reference]:
                for argument in tape.arguments(reference):
                    if argument >= 0:
                        marks[argument] = 1
        values: dict[int, int] = {}

        def value(reference: int) -> int:
            return values[reference] if reference >= 0 else self._constant(tape.value_of(reference))

        for reference in range(len(tape)):
            if not marks[reference]:
                continue
            code = tape.codes[reference]
            operation = _OPERATIONS.get(code)
            if operation is not None:
                values[reference] = self._operation(operation, value(tape.first[reference]), value(tape.second[reference]))
            elif code == _NEGATIVE:
                values[reference] = -values[tape.first[reference]]
            elif code == _SELECT:
                values[reference] = self._select(tape, reference, value)
            else:
                values[reference] = self._new()
        return values

    def _operation(self, operation: int, a: int, b: int) -> int:
        if operation == PRODUCT:
            sign = -1 if (a < 0) != (b < 0) else 1
        else:
            if operation == DIFFERENCE:
                b = -b
            if (a < 0) == (b < 0):
                operation, sign = SUM, -1 if a < 0 else 1
            else:  # the node is the lower number less the higher one
                operation, sign = DIFFERENCE, 1 if (a > 0) == (abs(a) < abs(b)) else -1
        low, high = sorted((abs(a), abs(b)))
        key = (operation << NODE_BITS | low) << NODE_BITS | high
        node = self.keys.get(key)
        if node is None:
            node = self.keys[key] = self._new()
        return sign * node

    def _select(self, tape: Tape, reference: int, value: Callable[[int], int]) -> int:
        condition, taken, other = tape.arguments(reference)
        node = self._new()
        if other < 0 and tape.value_of(other) == 0.0:
            self._switch(node, value(condition), value(taken))
        elif taken < 0 and tape.value_of(taken) == 0.0:
            opposite = self._opposites.setdefault(condition, 0) or self._new()
            self._opposites[condition] = opposite
            self._switch(node, opposite, value(other))
        return node

    def _switch(self, node: int, condition: int, value: int) -> None:
        low, high = sorted((condition, abs(value)))
        key = (SELECT << NODE_BITS | low) << NODE_BITS | high | (value < 0) << 62
        self.keys[key] = node
        self.switches.append((node, condition, value))
