"""Tapes inside other tapes, which take values of the enclosing tape as further inputs.

`InnerTape` records the body of a loop. `NestedTape` records a function whose derivatives are taken inside a recording:
the differentiated arguments are its own inputs, even if the function also uses the same values of the enclosing tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.location import user_line
from accumulus.tape import program as sizes
from accumulus.tape.interpreter import Copy
from accumulus.tape.operations import INPUT
from accumulus.tape.passes import USED, moved, rows_of
from accumulus.tape.tape import Tape

#: Maximum number of operations of one instance of a body on entries of long arrays. A longer instance is recorded as a
#: program over arrays, which passes more values through memory; longer bodies take longer to differentiate and compile.
MOST_IN_BODY: Final = 5_000


class LongBodyError(BaseException):
    """Signal that a body, recorded once to run many times, works on long arrays or calls an opaque function.

    The argument of the error is the name of the opaque function, if there is one. The error is not an `Exception`, so
    that the user's code does not catch it.
    """


class InnerTape(Tape):
    """The tape of a body while it is recorded.

    Args:
        inputs: number of its own inputs.
        outer: enclosing tape, whose values the body may use; None if there is none.
        most: maximum number of operations on entries of long arrays.
    """

    __slots__ = ("_most", "_taken", "is_long", "lines", "outer", "own_inputs", "unrolled")

    def __init__(self, inputs: int, outer: Any = None, most: int = MOST_IN_BODY) -> None:
        super().__init__(inputs, signed_zeros=outer is not None and outer.signed_zeros)
        self.own_inputs, self.outer, self._most = inputs, outer, most
        self._taken: dict[int, int] = {}
        #: Number of operations on entries of long arrays. `is_long` is True if there are too many: the recording is
        #: discarded then, even if the user's code catches the error.
        self.unrolled, self.is_long = 0, False
        #: Lines of the user's source that its operations come from.
        self.lines: set[tuple[str, int]] = set()

    def _append(self, key: int, code: int, a: int, b: int) -> int:
        self.lines |= user_line()
        return super()._append(key, code, a, b)

    def in_loops(self, entries: int, work: int | None = None, steps: int = 0) -> bool:
        """Return False: a body has no loops; end a recording that gets too long.

        Raises:
            LongBodyError: if the recording is too long.
        """
        work = entries if work is None else work
        if work >= sizes.LONG:
            self.unrolled += work
            self.check(self._most)
        return False

    def check(self, most: int) -> None:
        """End the recording if more than `most` operations on entries were written out.

        Raises:
            LongBodyError: if there are more.
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
        """Return True if this is the body of a loop on `tape`, at any depth of nesting."""
        return self.outer is tape or (isinstance(self.outer, InnerTape) and self.outer.is_within(tape))

    def take(self, tape: Any, entries: Any, boolean: bool) -> Any:
        """Return one reference, or an array of references, of an enclosing tape as references of this tape."""
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
        # a body takes truth values as numbers
        return self.apply("not_equal", position, self.constant(0.0)) if boolean else position

    def closed(self) -> tuple[Tape, NDArray[np.int64]]:
        """Return the body as a tape with all inputs first, and the outer references of the inputs after its own."""
        rows = rows_of(self)
        taken = np.fromiter(self._taken.values(), np.int64)
        computed = np.flatnonzero(rows[:, 0] != INPUT)
        inputs = self.own_inputs + len(taken)
        new = np.zeros(len(rows), np.int64)
        new[: self.own_inputs] = np.arange(self.own_inputs)
        new[taken] = np.arange(self.own_inputs, inputs)
        new[computed] = np.arange(inputs, len(rows))
        placed = np.zeros_like(rows)
        placed[inputs:] = rows[computed]
        placed[inputs:, 1:] = np.where(USED[placed[inputs:, 0]], moved(placed[inputs:, 1:], new), 0)
        tape = Tape.of_rows(inputs, placed, self.constants, moved(self.outputs, new).tolist())
        return tape, np.fromiter(self._taken, np.int64)


class NestedTape(InnerTape):
    """The tape of a function whose derivatives are recorded; each of its inputs is a value of the enclosing tape.

    Args:
        references: reference on the enclosing tape of each input.
        outer: enclosing tape.
    """

    __slots__ = ("_lowered",)

    def __init__(self, references: Sequence[int], outer: Any) -> None:
        super().__init__(len(references), outer)
        #: Values that are recorded on the enclosing tape already.
        self._lowered = Copy(self, outer, dict(enumerate(references)))

    def in_loops(self, entries: int, work: int | None = None, steps: int = 0) -> bool:
        """Return False; end a recording that should have begun on a program with loops.

        Raises:
            LongBodyError: if operations on arrays of this length should be loops of the enclosing program.
        """
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
        """Copy the operations of one or more values to the enclosing tape, and return the references there."""
        if isinstance(references, int):
            return self._lower(references)
        distinct, where = np.unique(references, return_inverse=True)
        outer_references = [self._lower(reference) for reference in distinct.tolist()]
        return np.array(outer_references, np.int64)[where].reshape(np.shape(references))

    def _lower(self, reference: int) -> int:
        copy, lowered = self._lowered, self._lowered.values
        lowered.update({position: taken for taken, position in self._taken.items() if position not in lowered})
        waiting = [reference] if reference >= 0 else []
        while waiting:
            at = waiting[-1]
            missing = [a for a in self.arguments(at) if a >= 0 and a not in lowered] if at not in lowered else []
            if not missing:
                waiting.pop()
                if at not in lowered:
                    copy.record(at)
            waiting += missing
        return copy[reference]
