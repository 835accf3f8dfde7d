"""The entries of a large Jacobian, as columns of numbers."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import chain

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entries", "columns_of"]

Integers = NDArray[np.int64]


class Entries(Mapping[tuple[int, int], int]):
    """References by place (root, terminal) in row-major order.

    A mapping like any other, but what goes over all entries finds them in arrays: a million pairs of Python's numbers
    take longer to make than their Jacobian takes to verify. They are made when a place is first asked for.

    Args:
        roots, terminals: positions of each entry, in any order; no place comes twice.
        references: of each entry.

    >>> Entries(np.array([1, 0]), np.array([0, 2]), np.array([7, 8]))
    {(0, 2): 8, (1, 0): 7}
    """

    __slots__ = ("_by_place", "places", "references")

    def __init__(self, roots: Integers, terminals: Integers, references: Integers) -> None:
        order = np.lexsort((terminals, roots))
        #: (root, terminal) of each entry, (n, 2), and its reference, (n,).
        self.places: Integers = np.stack([roots[order], terminals[order]], axis=1)
        self.references: Integers = references[order]
        assert (np.diff(self.places, axis=0) != 0).any(axis=1).all(), "an entry comes twice"
        self._by_place: dict[tuple[int, int], int] | None = None

    @property
    def _entries(self) -> dict[tuple[int, int], int]:
        if self._by_place is None:
            places = zip(*self.places.T.tolist(), strict=True)
            self._by_place = dict(zip(places, self.references.tolist(), strict=True))
        return self._by_place

    def __getitem__(self, place: tuple[int, int]) -> int:
        return self._entries[place]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self.references)

    def __repr__(self) -> str:
        return repr(self._entries)

    def keys(self) -> KeysView[tuple[int, int]]:
        """Places in order; like the other views the dictionary's own, which does not look every place up."""
        return self._entries.keys()

    def values(self) -> ValuesView[int]:
        """References in the order of their places."""
        return self._entries.values()

    def items(self) -> ItemsView[tuple[int, int], int]:
        """Places and references in order."""
        return self._entries.items()


def columns_of(entries: Mapping[tuple[int, int], int]) -> tuple[Integers, Integers]:
    """Places (root, terminal) of entries in their own order, (n, 2), and their references."""
    if isinstance(entries, Entries):
        return entries.places, entries.references
    places = np.fromiter(chain.from_iterable(entries), np.int64).reshape(-1, 2)
    return places, np.fromiter(entries.values(), np.int64)
