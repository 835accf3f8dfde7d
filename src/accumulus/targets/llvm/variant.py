"""How a program is compiled: a `Variant`, and the operations and results of a program in its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.scatter import by_tables, places
from accumulus.targets.parts import Part, parts
from accumulus.targets.schedule import Group, groups, order, order_by_critical_path

__all__ = ["LARGEST_UNCUT", "PART_SIZE", "Variant", "results_of", "sines_and_cosines"]

#: A program of more operations, or of more results, than the first is cut into functions of so many steps.
LARGEST_UNCUT, PART_SIZE = 1000, 300


@dataclass(frozen=True, slots=True)
class Variant:
    """How a program is compiled.

    Attributes:
        lanes: points computed at once.
        dtype: "float64" or "float32".
        transposed: variables × points instead of points × variables.
        zeroed: structural zeros are in place already.
        offsets: where in a vector the first entry of each result array lies, if not at its start.
        contract: products and sums may be fused.
        exact: references of operations that may not be fused.
        part_size: operations and stores in one function; 0 for the default of the program's length.
        critical_path: operations come in the order of the critical path, not in that of results.
        steps: operations and results, where their order is neither of these two.
        single: for one point at a time, and no batch.
        shared: which arguments are the same at all points; none if empty.
    """

    lanes: int
    dtype: str = "float64"
    transposed: bool = False
    zeroed: bool = False
    offsets: tuple[int, ...] = ()
    contract: bool = True
    exact: frozenset[int] = frozenset()
    part_size: int = 0
    critical_path: bool = False
    steps: tuple[int | Group, ...] | None = None
    single: bool = False
    shared: tuple[bool, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 8 if self.dtype == "float64" else 4

    def parts(self, tape: Tape, segments: Sequence[Segment]) -> tuple[list[Part], int]:
        """Operations and results in order, cut into functions; and how many slots the frame needs."""
        results = results_of(tape, segments)
        if self.steps is not None:
            steps: Sequence[int | Group] = self.steps
        elif self.critical_path:
            steps = list(order_by_critical_path(tape, results, sines_and_cosines(tape)))
        else:
            steps = list(order(tape, results, sines_and_cosines(tape)))
        uncut = max(len(results), len(steps) - len(results)) <= LARGEST_UNCUT
        size = self.part_size or (len(steps) if uncut else PART_SIZE)
        return parts(tape, steps, size, 1 if self.transposed else self.lanes)


def results_of(tape: Tape, segments: Sequence[Segment]) -> list[Group]:
    """The stored results in order: entries of the result arrays, or the distinct values among them as one array."""
    if not by_tables(segments):
        return groups(tape, segments, 1)
    return [Group(0, slot, (reference,)) for slot, reference in enumerate(places(tape, segments)[1])]


def sines_and_cosines(tape: Tape) -> dict[int, int]:
    """Sine and cosine of one angle, which are one call: each → the other."""
    sin, cos = BY_NAME["sin"].code, BY_NAME["cos"].code
    if sin not in tape.codes or cos not in tape.codes:
        return {}
    marks = needed(tape)
    found: dict[int, dict[int, int]] = {sin: {}, cos: {}}
    for reference in range(tape.inputs, len(tape)):
        code = tape.codes[reference]
        if code in found and marks[reference]:
            found[code][tape.first[reference]] = reference
    pairs = {}
    for angle, sine in found[sin].items():
        cosine = found[cos].get(angle)
        if cosine is not None:
            pairs[sine], pairs[cosine] = cosine, sine
    return pairs
