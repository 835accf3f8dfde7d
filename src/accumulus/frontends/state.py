"""Which tape, if any, the running thread records on.

Creation functions such as ``np.zeros`` take no traced argument from which they could tell, so the tape is kept by
thread. Recordings nest: a function may itself record another one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from accumulus.errors import TraceError
from accumulus.tape.tape import Tape

__all__ = ["ACTIVE", "recording_on"]


class _Active(threading.local):
    tape: Tape | None = None
    #: The last refusal and the file and line that it names, if any: NumPy swallows some exceptions and raises its own,
    #: and so may the user's code.
    refusal: tuple[TraceError, tuple[str, int] | None] | None = None


ACTIVE: Final = _Active()


@contextmanager
def recording_on(tape: Tape | None) -> Iterator[None]:
    """Let this thread record on `tape`, or not record if it is None."""
    before = ACTIVE.tape, ACTIVE.refusal
    ACTIVE.tape, ACTIVE.refusal = tape, None
    try:
        yield
    finally:
        ACTIVE.tape, ACTIVE.refusal = before
