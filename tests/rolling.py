"""Short programs rolled as long ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from accumulus.repetition import cones, roll


@contextmanager
def rolling(fewest: int = 1, repeated: int = 1, terms: int = 4) -> Iterator[None]:
    """Let programs of so many operations be rolled, if each is repeated so often; sums have so many terms at least."""
    with (
        mock.patch.object(roll, "FEWEST", fewest),
        mock.patch.object(roll, "REPEATED", repeated),
        mock.patch.object(roll, "MOST_DISTINCT", 10**6),
        mock.patch.object(cones, "LEAST_TERMS", terms),
    ):
        yield
