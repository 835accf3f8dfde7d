"""Rewritten tapes in the cache: who asks the same again pays for looking it up, and for verifying it.

A tape is stored under a hash of everything that decides it: the tape that it was made from, every option of the search
and the work that is left to it, and the version of the code that searches. A search that the clock cut short is not
stored; with others is stored what work they took, which counts again when they are loaded. A tape is never taken on
trust: what is read is verified against the tape that it was made from, as what has just been found is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus import cache
from accumulus.context import Context
from accumulus.errors import VerificationError
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.equivalence import verify_by_any
from accumulus.rewriting.optimise import Rounds
from accumulus.tape.tape import Tape, from_bytes, to_bytes
from accumulus.versions import digest

__all__ = ["store_tape", "stored_notes", "stored_tape", "tape_key"]

#: Behind the key of what is known of a tape.
_NOTES: Final = ".notes"


def tape_key(
    tape: Tape,
    context: Context,
    kept_outputs: int,
    rounds: Rounds | None = None,
    points: NDArray[np.float64] | None = None,
) -> str:
    """Return the key under which the tape is stored that `accumulus.resubstitution.optimise.rewrite` makes.

    Args:
        points: at which it is looked what rounding does; None where that is not done.
    """
    options, rounds = context.options, rounds or Rounds()
    given = [options.effort, context.left, int(options.seed), kept_outputs, options.dtype, rounds.moves, *rounds.hots]
    everything = json.dumps(given).encode()
    return cache.key_of("tapes", to_bytes(tape), everything, b"" if points is None else points.tobytes())


def stored_tape(key: str, tape: Tape, kept_outputs: int) -> Tape | None:
    """Return the tape that is stored under the key, verified; None if there is none, or none that is right and pays."""
    content = cache.load("tapes", key)
    if content is None:
        return None
    try:
        found, start = from_bytes(content), canonical(tape, kept_outputs)
        verify_by_any(start, found, kept_outputs=kept_outputs)
    except (ValueError, VerificationError):
        return None
    return found if found.operations <= start.operations else None


def store_tape(key: str, tape: Tape, notes: Mapping[str, Any] | None = None) -> None:
    """Store a tape under the key, if that is possible.

    Args:
        notes: what else is known of it, fit for JSON.
    """
    content = to_bytes(tape)
    cache.store("tapes", key, content)
    if notes:
        cache.store("tapes", key + _NOTES, json.dumps([digest([content]), notes]).encode())


def stored_notes(key: str, tape: Tape) -> dict[str, Any]:
    """Return what was stored with that tape; nothing if another process has stored another tape since."""
    content = cache.load("tapes", key + _NOTES)
    if content is None:
        return {}
    known, notes = json.loads(content)
    return dict(notes) if known == digest([to_bytes(tape)]) else {}
