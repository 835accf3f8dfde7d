"""Tapes as the rewriter leaves them, by the options of a derivative: from the cache, or made and stored there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.resubstitution.exact import Least
from accumulus.resubstitution.optimise import looks_at_points, rewrite
from accumulus.rewriting import tape_cache
from accumulus.rewriting.optimise import Rounds
from accumulus.tape.tape import Tape

__all__ = ["Rewritten", "rewritten"]


class Rewritten(NamedTuple):
    """A tape as the rewriter leaves it.

    Attributes:
        tape: it.
        recalled: whether it was in the cache.
        least: what is known of all choices of definitions, if it was rewritten by value and that is known.
    """

    tape: Tape
    recalled: bool
    least: Least | None


def rewritten(
    tape: Tape,
    context: Context,
    rounds: Rounds,
    points: NDArray[np.float64] | None,
    kept_outputs: int = 0,
    others: Callable[[], Iterable[Tape]] = tuple,
) -> Rewritten:
    """The tape with fewer operations; arguments are those of `rewrite`."""
    options = context.options
    cached = options.caches
    with context.paused():
        looks = looks_at_points(tape, options.effort)
        key = tape_cache.tape_key(tape, context, kept_outputs, rounds, points if looks else None)
        known = tape_cache.stored_tape(key, tape, kept_outputs) if cached else None
        notes = {} if known is None else tape_cache.stored_notes(key, known)
    if known is not None and isinstance(work := notes.get("work"), int):
        context.recall(work)
        return Rewritten(known, True, Least(*notes["least"]) if "least" in notes else None)
    told: list[Least] = []
    before = context.spent
    made = rewrite(
        tape, context, kept_outputs=kept_outputs, rounds=rounds, points=points, others=others, tell=told.append
    )
    least = told[-1] if told else None
    if cached and not context.cut_short:
        notes = {"work": context.spent - before}
        tape_cache.store_tape(key, made, notes if least is None else notes | {"least": least})
    return Rewritten(made, False, least)
