"""Compiled product of a sparse matrix and another modulo a prime."""

from __future__ import annotations

from accumulus.native.state import NOTHING, Integers, State


class SparseState(State):
    """Two matrices modulo a prime, the first one sparse."""

    prime: int  # below 2³¹
    # rows, width: of the product
    rows: int = 0
    width: int = 0
    starts: Integers = NOTHING  # (rows + 1,), where the entries of each row begin
    columns: Integers = NOTHING  # of each entry
    entries: Integers = NOTHING  # their residues
    taken: Integers = NOTHING  # (columns, width), the other matrix
    results: Integers = NOTHING  # (rows, width), 0 before


def perform(state: SparseState) -> int:
    """Compute the product."""
    width, results = state.width, state.results
    for i in range(state.rows):
        for k in range(state.starts[i], state.starts[i + 1]):
            entry, row = state.entries[k], state.columns[k] * width
            for j in range(width):
                at = i * width + j
                results[at] = (results[at] + entry * state.taken[row + j]) % state.prime
    return 0
