"""Dense derivatives: matrices of references, once for as many copies as they are derivatives of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries
from accumulus.tape.columns import Column, Range, column, references_in

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Derivatives of arrays of shape (p, m, q) by arrays of shape (p, k, q): one matrix, whatever the outer axes.

    That of ``heads[a, i, b]`` by ``tails[a, l, b]`` is ``matrix[i, l]``; all others are 0. No reference is twice among
    the heads, nor among the tails. Where p and q are 1, it is a *rectangle*: everything by everything.

    Attributes:
        heads, tails: references to the program that is differentiated.
        matrix: references to the program that computes the derivatives; (m, k).
        is_factor: whether the matrix is a factor of a product, as the function has it, rather than a derivative.
    """

    heads: Integers
    tails: Integers
    matrix: Integers
    is_factor: bool = False

    def __len__(self) -> int:
        return int(self.heads.size) * int(self.matrix.shape[1])

    @property
    def is_rectangle(self) -> bool:
        """True if every head depends on every tail."""
        return bool(self.heads.shape[0] == self.heads.shape[2] == 1)

    @property
    def rows(self) -> Integers:
        """Heads of a rectangle."""
        return self.heads[0, :, 0]

    @property
    def columns(self) -> Integers:
        """Tails of a rectangle."""
        return self.tails[0, :, 0]

    @property
    def transposed(self) -> Dense:
        """Tails as heads, and heads as tails."""
        return replace(self, heads=self.tails, tails=self.heads, matrix=self.matrix.T)

    @property
    def values(self) -> Column:
        """The matrix, row by row."""
        return column(self.matrix)

    @property
    def entries(self) -> Entries:
        """Its entries, one by one."""
        p, m, q = self.heads.shape
        shape = p, m, self.matrix.shape[1], q
        heads = np.broadcast_to(self.heads[:, :, np.newaxis], shape)
        tails = np.broadcast_to(self.tails[:, np.newaxis], shape)
        values = np.broadcast_to(self.matrix[np.newaxis, :, :, np.newaxis], shape)
        return Entries(column(heads), column(tails), column(values))

    @staticmethod
    def of(rows: Integers, columns: Integers, matrix: Integers) -> Dense:
        """A rectangle."""
        return Dense(rows.reshape(1, -1, 1), columns.reshape(1, -1, 1), matrix)


def of_product(left: Integers, right: Integers, results: Integers, matrices: tuple[Integers, Integers]) -> list[Dense]:
    """Derivatives of a product of matrices by its left and its right factor.

    Args:
        left, right, results: references of (m, k), (k, n) and (m, n) entries.
        matrices: the factors in the program that computes the derivatives.
    """
    by_left = Dense(results[:, :, np.newaxis], left[:, :, np.newaxis], matrices[1].T, is_factor=True)
    by_right = Dense(results[np.newaxis], right[np.newaxis], matrices[0], is_factor=True)
    return [by_left, by_right]


def parted(dense: Dense, owner: Callable[[Integers], Integers]) -> list[tuple[int, Dense]] | None:
    """Derivatives by the arrays that the tails are in; None if they cannot be told apart along one axis, or come twice.

    Args:
        owner: from references to which array each is in; negative ones below -1 are left out.
    """
    flat = dense.tails.reshape(-1)
    if len(np.unique(flat)) < len(flat):
        return None
    owners = owner(flat).reshape(dense.tails.shape)
    for axis in (1, 0, 2):
        along = np.moveaxis(owners, axis, 0).reshape(owners.shape[axis], -1)
        if (along == along[:, :1]).all():
            break
    else:
        return None
    parts = []
    for source in np.unique(along[:, 0]).tolist():
        chosen = np.flatnonzero(along[:, 0] == source)
        if source < -1:
            continue
        part = dense
        if len(chosen) < len(along):
            tails = dense.tails.take(chosen, axis)
            if axis == 1:
                part = replace(dense, tails=tails, matrix=dense.matrix[:, chosen])
            else:
                part = replace(dense, tails=tails, heads=dense.heads.take(chosen, axis))
        parts.append((source, part))
    return parts


def places(wanted: Integers, among: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Places of references among others, none of which is twice; and which of them are there at all."""
    if len(among) and int(among[-1]) - int(among[0]) == len(among) - 1 and (np.diff(among) == 1).all():
        found = wanted - among[0]
        known = (found >= 0) & (found < len(among))
        return np.where(known, found, 0), known
    order = np.argsort(among)
    at = np.minimum(np.searchsorted(among[order], wanted), max(len(among) - 1, 0))
    found = order[at] if len(among) else np.zeros(len(wanted), np.int64)
    return found, (among[found] == wanted) if len(among) else np.zeros(len(wanted), bool)


def rectangle(entries: Entries, values: Callable[[Entries], Column]) -> Dense | None:
    """These entries as a rectangle, if every head depends on every tail, once."""
    count = len(entries)
    for one, other in ((entries.heads, entries.tails), (entries.tails, entries.heads)):
        # each head is there once: so all tails have to be one
        if isinstance(one, Range) and one.step and count > 1 and not (isinstance(other, Range) and other.step == 0):
            return None
    heads, tails = references_in(entries.heads), references_in(entries.tails)
    rows, row = np.unique(heads, return_inverse=True)
    if count % max(len(rows), 1):
        return None
    columns, place = np.unique(tails, return_inverse=True)
    if len(rows) * len(columns) != count:
        return None
    keys = row * len(columns) + place
    matrix = np.empty(count, np.int64)
    matrix[keys] = references_in(values(entries))
    if not (np.bincount(keys, minlength=count) == 1).all():
        return None
    return Dense.of(rows, columns, matrix.reshape(len(rows), len(columns)))


def beside(parts: Sequence[Dense]) -> Dense | None:
    """Rectangles of the same rows and of other columns each as one, in order; None if they are something else."""
    rows = np.sort(parts[0].rows)
    matrices = []
    for part in parts:
        if not part.is_rectangle or len(part.rows) != len(rows):
            return None
        order = np.argsort(part.rows)
        if not np.array_equal(part.rows[order], rows):
            return None
        matrices.append(part.matrix[order])
    columns = np.concatenate([part.columns for part in parts])
    order = np.argsort(columns)
    if (np.diff(columns[order]) == 0).any():
        return None
    return Dense.of(rows, columns[order], np.concatenate(matrices, axis=1)[:, order])
