"""The groups of measurements, in the order in which they are shown. Each has `table(settings)`."""

from __future__ import annotations

from dataclasses import dataclass

from functions import Example


@dataclass(frozen=True)
class Settings:
    """Settings that all groups share.

    Attributes:
        examples: the functions to measure.
        functions: those and the suite, to count operations on.
        points: in a batch.
        turns: how often each contender is timed; medians are taken over the turns.
        seed: of the random points.
        cases: parts of names; of the functions of `cases/`, only those with one of them in their names.
    """

    examples: tuple[Example, ...]
    functions: tuple[Example, ...]
    points: int = 2000
    turns: int = 21
    seed: int = 0
    cases: tuple[str, ...] = ()
