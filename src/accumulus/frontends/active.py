"""Which tape, if any, the running thread records on, and what it could not record.

Creation functions such as ``np.zeros`` take no traced argument from which they could tell, so the tape is kept by
thread. Recordings nest: a function may itself record another one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from accumulus.errors import TraceError
from accumulus.frontends.location import LIBRARIES, Place, user_entries, user_place
from accumulus.tape.tape import Tape

__all__ = [
    "ACTIVE",
    "TooLongError",
    "check_constants",
    "check_length",
    "check_steps",
    "recording_on",
    "refuse",
    "swallowed",
]

#: Operations on entries of arrays, at most, that are written onto a tape one by one, where arrays can be recorded as
#: such. Up to there a call of a program that is written out takes less time than one of loops, whose results go through
#: memory; of more operations it takes too long to be prepared.
MOST_UNROLLED: Final = 20_000
#: Entries of an array that is long. Many operations on short ones are a loop in Python, which blocks do not shorten.
LONG: Final = 64
#: The same of one instance of what is repeated: one that works on long arrays is no body, but a program over arrays.
MOST_IN_BODY: Final = 5_000


#: Of operations of a recurrence that are told as such fewer are written out: one in so many. Loops lose little there.
STEPS: Final = 100


class TooLongError(BaseException):
    """An array is too long to be written out; not an `Exception`, so that the user's code does not catch it."""


class _Active(threading.local):
    tape: Tape | None = None
    #: Whether arrays of any length are written out entry by entry, and how many entries have been so far.
    unrolls: bool = True
    unrolled: int = 0
    #: Whether it is one instance of what is repeated that is recorded.
    in_body: bool = False
    #: Whether they became too many: the recording counts for nothing then, whoever caught the error.
    too_long: bool = False
    #: Where the code stands that is being recorded.
    place: Callable[[], Place | None] = staticmethod(user_place)
    #: The last refusal and the file and line that it names, if any: NumPy swallows some exceptions and raises its own,
    #: and so may the user's code.
    refusal: tuple[TraceError, tuple[str, int] | None] | None = None
    #: What decisions on values are answered by (`accumulus.frontends.decisions.Decisions`); None if they are refused.
    decisions: Any = None
    #: Branches that are recorded beside others: in one, no decision can be kept.
    merging: int = 0
    #: The last tapes of bodies and of nested functions that this recording has made.
    inner: Any = None
    #: Where Python printed when the recording began: what is printed elsewhere may be read again.
    console: Any = None
    #: Blocks that catch errors: in one, what `math` would raise for a number has to be known.
    trying: int = 0


ACTIVE: Final = _Active()


@contextmanager
def recording_on(
    tape: Tape | None,
    place: Callable[[], Place | None] = user_place,
    *,
    unrolls: bool = True,
    in_body: bool = False,
    nested: bool = False,
    decisions: Any = None,
) -> Iterator[None]:
    """Let this thread record on `tape`, or not record if it is None.

    Args:
        place: says where the recorded code stands.
        unrolls: whether arrays of any length are written out entry by entry; else `TooLongError` ends the recording.
        in_body: whether it is one instance of what is repeated, which `TooLongError` ends if its arrays are long.
        nested: whether it is a function whose derivatives are recorded, which is part of the code around it.
        decisions: what decisions on values are answered by, if they are; in a body, or nested, as around it.
    """
    before = vars(ACTIVE).copy()
    vars(ACTIVE).update(tape=tape, place=place, refusal=None)
    if not nested:
        vars(ACTIVE).update(unrolls=unrolls, unrolled=0, too_long=False, in_body=in_body)
    if (in_body or nested) and ACTIVE.inner is not None:
        ACTIVE.inner.append(tape)
    if not (in_body or nested):
        vars(ACTIVE).update(decisions=decisions, merging=0, trying=0, console=sys.stdout)
    try:
        yield
    finally:
        vars(ACTIVE).clear()
        vars(ACTIVE).update(before)


def check_length(entries: int) -> None:
    """End the recording if so many entries of one array more are too many to be written out one by one.

    Raises:
        TooLongError: if so.
    """
    if entries >= LONG:
        ACTIVE.unrolled += entries
        most = MOST_IN_BODY if ACTIVE.in_body else MOST_UNROLLED
        if ACTIVE.unrolled > most and (ACTIVE.in_body or not ACTIVE.unrolls):
            ACTIVE.too_long = True
            raise TooLongError


def check_steps(operations: int) -> None:
    """End the recording if a recurrence of so many operations should not be written out step by step.

    Raises:
        TooLongError: if so.
    """
    if not ACTIVE.unrolls and operations > MOST_UNROLLED // STEPS:
        ACTIVE.too_long = True
        raise TooLongError


def check_constants(count: int) -> None:
    """The same for constants of one array: they are written one by one, too, though they are no operations."""
    if count > MOST_UNROLLED:
        check_length(count)


def refuse(message: str, kind: type[TraceError] = TraceError) -> TraceError:
    """The error that names the user's line, quotes it and says `message`."""
    place = ACTIVE.place()
    error = kind(message if place is None else f"{place}{message}")
    ACTIVE.refusal = error, None if place is None else (place.file, place.line)
    return error


def swallowed(error: Exception) -> TraceError | None:
    """The refusal that NumPy swallowed before it raised `error` of its own on the same line, or below it."""
    module = type(error).__module__
    if ACTIVE.refusal is None or not (
        isinstance(error, TypeError | ValueError | IndexError)
        or module.startswith("_")
        or module.partition(".")[0] in LIBRARIES
    ):
        return None
    refusal, line = ACTIVE.refusal
    places = [(entry.tb_frame.f_code.co_filename, entry.tb_lineno) for entry in user_entries(error.__traceback__)]
    return refusal if line in places else None
