"""The statements of a program in C, and in what has C's expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import Expressions, Fused, literal
from accumulus.targets.c.c_header import Result
from accumulus.targets.c.c_mathematics import Mathematics
from accumulus.targets.parts import Part
from accumulus.targets.schedule import Group

__all__ = ["Statements"]


class Statements:
    """Writes one part of a program: a declaration for each value, a store for each result.

    Args:
        inputs: array and entry of each input of the tape.
        results: the arrays that are written; groups name their stored entries by number.
        at: where in an array, or in the frame, a row is that a value is loaded from or stored to.
    """

    def __init__(
        self,
        tape: Tape,
        inputs: Sequence[tuple[str, int]],
        results: Sequence[Result],
        mathematics: Mathematics,
        dtype: str,
        at: Callable[[str, int], str],
    ) -> None:
        self._tape, self._inputs, self._results, self._mathematics = tape, inputs, results, mathematics
        self._dtype, self._at = dtype, at
        self._lines: list[str] = []
        self._known: set[int] = set()
        self._used: set[str] = set()

    def of(self, part: Part, fused: Mapping[int, Fused]) -> tuple[list[str], set[str]]:
        """The statements, and the arrays that they need."""
        tape, slots = self._tape, part.slots
        here = {step for step in part.steps if not isinstance(step, Group)}
        within = {s: f for s, f in fused.items() if s in here and f.product in here}
        left_out = {f.product for f in within.values()}
        names = self._mathematics.function, self._mathematics.multiply_add
        write = Expressions(tape, self._dtype, within, *names)
        for step in part.steps:
            if isinstance(step, Group):
                (reference,) = step.references
                assert reference is not None
                self._need(reference, slots)
                result = self._results[step.segment]
                self._used.add(result.name)
                self._lines.append(f"{self._at(result.name, result.row(step.start))} = {write.value(reference)};")
            elif step not in left_out:
                arguments = tape.arguments(step)
                if step in within:
                    product = within[step].product
                    arguments = (*(a for a in arguments if a != product), *tape.arguments(product))
                for argument in arguments:
                    self._need(argument, slots)
                self._lines.append(f"const {self._kind(step)} t{step} = {write.operation(step)};")
                self._known.add(step)
                if step in slots:
                    self._keep(step, slots[step])
        return self._lines, self._used

    def _kind(self, reference: int) -> str:
        return self._mathematics.truth if self._tape.is_boolean(reference) else self._mathematics.real

    def _need(self, reference: int, slots: Mapping[int, int]) -> None:
        """Load an input, or a value of another part, when it is first needed."""
        if reference < 0 or reference in self._known:
            return
        self._known.add(reference)
        if reference < self._tape.inputs:
            array, entry = self._inputs[reference]
            name, text = f"x{reference}", self._at(array, entry)
        else:
            array, name, text = "frame", f"t{reference}", self._at("frame", slots[reference])
            if self._tape.is_boolean(reference):
                text = f"{text} != {literal(0.0, self._dtype)}"
        self._used.add(array)
        self._lines.append(f"const {self._kind(reference)} {name} = {text};")

    def _keep(self, reference: int, slot: int) -> None:
        """Store a value for another part; truth values as numbers."""
        value = f"t{reference}"
        if self._tape.is_boolean(reference):
            value = f"{value} ? {literal(1.0, self._dtype)} : {literal(0.0, self._dtype)}"
        self._used.add("frame")
        self._lines.append(f"{self._at('frame', slot)} = {value};")
