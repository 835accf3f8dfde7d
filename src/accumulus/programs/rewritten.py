"""Tapes as the rewriter leaves them, by the options of a derivative: from the cache, or made and stored there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import Deadline
from accumulus.options import Options
from accumulus.resubstitution.optimise import looks_at_points, optimise
from accumulus.rewriting import tape_cache
from accumulus.rewriting.optimise import Rounds
from accumulus.search.plan_cache import is_enabled
from accumulus.tape.tape import Tape

if TYPE_CHECKING:
    from accumulus.resubstitution.extraction import Least

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
    options: Options,
    deadline: Deadline,
    rounds: Rounds,
    points: NDArray[np.float64] | None,
    kept_outputs: int = 0,
    others: Callable[[], Iterable[Tape]] = tuple,
) -> Rewritten:
    """The tape with fewer operations; arguments are those of `optimise`."""
    cached = options.cache and is_enabled()
    with deadline.paused():
        key = tape_cache.key_of(
            tape, options.effort, deadline.left, options.seed, kept_outputs, rounds, options.dtype,
            points if looks_at_points(tape, options.effort) else None,
        )  # fmt: skip
        known = tape_cache.load(key, tape, kept_outputs) if cached else None
        notes = {} if known is None else tape_cache.load_notes(key, known)
    if known is not None and isinstance(work := notes.get("work"), int):
        deadline.recall(work)
        if "least" not in notes:
            return Rewritten(known, True, None)
        from accumulus.resubstitution.extraction import Least  # not what every process needs

        return Rewritten(known, True, Least(*notes["least"]))
    told: list[Least] = []
    before = deadline.spent
    made = optimise(
        tape,
        effort=options.effort,
        deadline=deadline,
        seed=options.seed,
        kept_outputs=kept_outputs,
        rounds=rounds,
        points=points,
        others=others,
        tell=told.append,
        dtype=options.dtype,
    )
    least = told[-1] if told else None
    if cached and not deadline.cut_short:
        notes = {"work": deadline.spent - before}
        tape_cache.store(key, made, notes if least is None else notes | {"least": least})
    return Rewritten(made, False, least)
