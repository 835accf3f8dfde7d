"""The tape, if any, that the running thread records on, and what it could not record.

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


class _Active(threading.local):
    tape: Tape | None = None
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
    in_body: bool = False,
    nested: bool = False,
    decisions: Any = None,
) -> Iterator[None]:
    """Let this thread record on `tape`, or not record if it is None.

    Args:
        place: says where the recorded code stands.
        in_body: whether it is one instance of what is repeated.
        nested: whether it is a function whose derivatives are recorded, which is part of the code around it.
        decisions: what decisions on values are answered by, if they are; in a body, or nested, as around it.
    """
    before = vars(ACTIVE).copy()
    vars(ACTIVE).update(tape=tape, place=place, refusal=None)
    if (in_body or nested) and ACTIVE.inner is not None:
        ACTIVE.inner.append(tape)
    if not (in_body or nested):
        vars(ACTIVE).update(decisions=decisions, merging=0, trying=0, console=sys.stdout)
    try:
        yield
    finally:
        vars(ACTIVE).clear()
        vars(ACTIVE).update(before)


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
