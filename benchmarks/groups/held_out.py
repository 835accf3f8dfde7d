"""Operations of functions that nothing was made with an eye on: see `functions.held_out`."""

from __future__ import annotations

from dataclasses import replace

from functions import held_out
from groups import Settings, accuracy, operations
from tables import Table


def table(settings: Settings) -> Table:
    """Return the table of `operations` for these functions."""
    found = operations.table(_with(settings))
    return replace(found, name="held-out", title="The same, of functions that were held out")


def weighted(settings: Settings) -> Table:
    """Return the table of `weighted` for these functions."""
    found = operations.weighted(_with(settings))
    return replace(found, name="held-out-weighted", title="The same, weighted by what operations take")


def rounding(settings: Settings) -> Table:
    """Return the table of `accuracy.rounding` for these functions."""
    found = accuracy.rounding(_with(settings))
    return replace(found, name="held-out-rounding", title=f"{found.title}; functions that were held out")


def _with(settings: Settings) -> Settings:
    return replace(settings, functions=tuple(held_out()))
