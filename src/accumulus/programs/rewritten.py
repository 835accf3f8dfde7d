"""Tapes as the rewriter leaves them, by the options of a derivative: from the cache, or made and stored there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import Deadline
from accumulus.options import Options
from accumulus.resubstitution.optimise import optimise
from accumulus.rewriting import tape_cache
from accumulus.rewriting.optimise import Rounds
from accumulus.search.plans.plan_cache import is_enabled
from accumulus.tape.tape import Tape

__all__ = ["rewritten"]


def rewritten(
    tape: Tape,
    options: Options,
    deadline: Deadline,
    rounds: Rounds,
    points: NDArray[np.float64] | None,
    kept_outputs: int = 0,
    others: Callable[[], Iterable[Tape]] = tuple,
) -> tuple[Tape, bool]:
    """The tape with fewer operations, and whether it was in the cache; arguments are those of `optimise`."""
    cached = options.cache and is_enabled()
    with deadline.paused():
        key = tape_cache.key_of(tape, options.effort, options.time_limit, options.seed, kept_outputs, rounds)
        known = tape_cache.load(key, tape, kept_outputs) if cached else None
    if known is not None:
        return known, True
    made = optimise(
        tape,
        effort=options.effort,
        deadline=deadline,
        seed=options.seed,
        kept_outputs=kept_outputs,
        rounds=rounds,
        points=points,
        others=others,
    )
    if cached:
        tape_cache.store(key, made)
    return made, False
