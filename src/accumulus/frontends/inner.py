"""Tapes within others, which take values of the enclosing tape as further inputs.

`InnerTape` is for the body of a loop. `NestedTape` is for a function whose derivatives are taken within a recording:
the differentiated arguments are its own inputs, even if the function also uses the same values of the enclosing tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.location import user_line
from accumulus.tape import program as sizes
from accumulus.tape.interpreter import applied, copied
from accumulus.tape.live import needed
from accumulus.tape.operations import INPUT
from accumulus.tape.passes import USED, moved, rows_of
from accumulus.tape.tape import Tape

#: Most operations of one instance of a body on entries of long arrays. A longer instance is recorded as a program over
#: arrays.
MOST_IN_BODY: Final = 5_000


class LongBodyError(BaseException):
    """The sign that a body, recorded once to run many times, works on long arrays or calls an opaque function.

    The name of an opaque function is its argument. It is no `Exception`, so that the user's code does not catch it.
    """


class InnerTape(Tape):
    """The tape of a body while it is recorded.

    Args:
        own: inputs that it is called with.
        outer: the tape around it, if there is one; values of it may be used.
        most: operations on entries of long arrays, at most.
    """

    __slots__ = ("_most", "_taken", "is_long", "lines", "outer", "own", "unrolled")

    def __init__(self, inputs: int, outer: Any = None, most: int = MOST_IN_BODY) -> None:
        super().__init__(inputs, signed_zeros=outer is not None and outer.signed_zeros)
        self.own, self.outer, self._most = inputs, outer, most
        self._taken: dict[int, int] = {}
        #: Operations on entries of long arrays, and whether they are too many: then the recording counts for nothing,
        #: even if the error is caught.
        self.unrolled, self.is_long = 0, False
        #: Lines of the user's source that its operations come from.
        self.lines: set[tuple[str, int]] = set()

    def _append(self, key: int, code: int, a: int, b: int) -> int:
        self.lines |= user_line()
        return super()._append(key, code, a, b)

    def in_loops(self, entries: int, work: int | None = None, steps: int = 0) -> bool:
        """Return False, or end a recording that gets too long.

        Raises:
            LongBodyError: if it does.
        """
        work = entries if work is None else work
        if work >= sizes.LONG:
            self.unrolled += work
            self.check(self._most)
        return False

    def check(self, most: int) -> None:
        """End the recording if more entries were written out than that.

        Raises:
            LongBodyError: if so.
        """
        if self.unrolled > most:
            self.is_long = True
            raise LongBodyError

    def refuse_call(self, name: str) -> NoReturn:
        """End the recording, since a body cannot call an opaque function.

        Raises:
            LongBodyError: always.
        """
        self.is_long = True
        raise LongBodyError(name)

    def is_within(self, tape: object) -> bool:
        """Return True if this is the body of something that is recorded on `tape`, however deep inside."""
        return self.outer is tape or (isinstance(self.outer, InnerTape) and self.outer.is_within(tape))

    def take(self, tape: Any, entries: Any, boolean: bool) -> Any:
        """Return entries of a tape around this one, one or an array of them, as entries of this one."""
        if isinstance(self.outer, InnerTape) and self.outer is not tape:
            entries = self.outer.take(tape, entries, boolean)
        if isinstance(entries, int):
            return self._take(entries, boolean)
        distinct, where = np.unique(entries, return_inverse=True)
        taken = [self._take(reference, boolean) for reference in distinct.tolist()]
        return np.array(taken, np.int64)[where].reshape(entries.shape)

    def _take(self, reference: int, boolean: bool) -> int:
        if reference < 0:
            return self.constant(self.outer.value_of(reference))
        position = self._taken.get(reference)
        if position is None:  # an input between operations; `closed` brings it to the front
            position = self._taken[reference] = len(self.codes)
            self.codes.append(INPUT)
            self.first.append(0)
            self.second.append(0)
        # truth values are numbers where a body takes them
        return self.apply("not_equal", position, self.constant(0.0)) if boolean else position

    def closed(self) -> tuple[Tape, NDArray[np.int64]]:
        """Return the body as a tape with all inputs first, and the references that inputs behind its own stand for."""
        rows = rows_of(self)
        taken = np.fromiter(self._taken.values(), np.int64)
        computed = np.flatnonzero(rows[:, 0] != INPUT)
        inputs = self.own + len(taken)
        new = np.zeros(len(rows), np.int64)
        new[: self.own] = np.arange(self.own)
        new[taken] = np.arange(self.own, inputs)
        new[computed] = np.arange(inputs, len(rows))
        placed = np.zeros_like(rows)
        placed[inputs:] = rows[computed]
        placed[inputs:, 1:] = np.where(USED[placed[inputs:, 0]], moved(placed[inputs:, 1:], new), 0)
        tape = Tape.of_rows(inputs, placed, self.constants, moved(self.outputs, new).tolist())
        return tape, np.fromiter(self._taken, np.int64)


class NestedTape(InnerTape):
    """The tape of a function whose derivatives are recorded: of its inputs, values on the tape around it are known.

    Args:
        given: reference there of each input.
        outer: the tape around it.
    """

    __slots__ = ("_lowered",)

    def __init__(self, references: Sequence[int], outer: Any) -> None:
        super().__init__(len(references), outer)
        #: References on the outer tape of the values that were looked up so far.
        self._lowered: dict[int, int] = dict(enumerate(references))

    def in_loops(self, entries: int, work: int | None = None, steps: int = 0) -> bool:
        """Return False, or end a recording that should have begun on a program with loops."""
        outer = self.outer
        if isinstance(outer, InnerTape):
            return outer.in_loops(entries, work, steps)
        if outer.may_loop and outer.scalars is not None:
            if steps > sizes.MOST_UNROLLED_STEPS:
                self.unrolled += sizes.MOST_UNROLLED + 1
            work = entries if work is None else work
            self.unrolled += work if work >= sizes.LONG else 0
            self.check(sizes.MOST_UNROLLED)
        return False

    def lowered(self, references: Any) -> Any:
        """Write these values on the tape around: one reference, or an array."""
        if isinstance(references, int):
            return self._lower(references)
        distinct, where = np.unique(references, return_inverse=True)
        outer_references = [self._lower(reference) for reference in distinct.tolist()]
        return np.array(outer_references, np.int64)[where].reshape(np.shape(references))

    def _lower(self, reference: int) -> int:
        lowered, outer = self._lowered, self.outer
        lowered.update({position: taken for taken, position in self._taken.items() if position not in lowered})
        waiting = [reference] if reference >= 0 else []
        while waiting:
            at = waiting[-1]
            missing = [a for a in self.arguments(at) if a >= 0 and a not in lowered] if at not in lowered else []
            if not missing:
                waiting.pop()
                if at not in lowered:
                    operands = [lowered[a] if a >= 0 else outer.constant(self.value_of(a)) for a in self.arguments(at)]
                    lowered[at] = applied(outer, self.codes[at], operands)
            waiting += missing
        return lowered[reference] if reference >= 0 else int(outer.constant(self.value_of(reference)))


def replayed(program: Tape, tape: Any, inputs: Sequence[int]) -> list[int]:
    """Write a program's operations onto another tape, and return the references of its outputs there.

    Args:
        program: tape to copy.
        tape: tape that its operations are written onto.
        inputs: references on that tape of the program's inputs.
    """
    return copied(program, tape, inputs, needed(program))
