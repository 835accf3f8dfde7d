"""Short programs rolled as long ones are, and short loops over arrays as calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from accumulus.programs import lowering
from accumulus.repetition import cones, iterations, roll


@contextmanager
def in_loops() -> Iterator[None]:
    """Let all loops that are recorded stay loops, however short."""
    with mock.patch.object(lowering, "is_quick", return_value=False):
        yield


@contextmanager
def rolling(fewest: int = 1, repeated: int = 1, terms: int = 4, levels: int = 16, deep: int = 16) -> Iterator[None]:
    """Let programs of so many operations be rolled, if each is repeated so often.

    Args:
        fewest, repeated: operations, and how often they are repeated on average, at least.
        terms: of sums, at least.
        levels: of classes that take their own results, at most; more are recurrences.
        deep: operations on the longest way down of cones that are not cut.
    """
    with (
        mock.patch.object(roll, "FEWEST", fewest),
        mock.patch.object(roll, "most_distinct", lambda operations: operations // repeated),
        mock.patch.object(cones, "LEAST_TERMS", terms),
        mock.patch.object(cones, "DEEPEST", deep),
        mock.patch.object(cones, "FEW_LEVELS", levels),
        iterating(),
        in_loops(),
    ):
        yield


@contextmanager
def iterating() -> Iterator[None]:
    """Let loops over arrays be calls, however few blocks they have."""
    with (
        mock.patch.object(iterations, "FEWEST_BLOCKS", 1),
        mock.patch.object(iterations, "FEWEST_WITH_CALLS", 1),
    ):
        yield
