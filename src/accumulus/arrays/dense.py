"""Dense derivatives: matrices of references, once for as many copies as they are derivatives of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries
from accumulus.tape.blocks import column

__all__ = ["Dense", "of_product"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Derivatives of arrays of shape (p, m, q) by arrays of shape (p, k, q): one matrix, whatever the outer axes.

    That of ``heads[a, i, b]`` by ``tails[a, l, b]`` is ``matrix[i, l]``; all others are 0. No reference is twice among
    the heads, nor among the tails.

    Attributes:
        heads, tails: references to the program that is differentiated.
        matrix: references to the program that computes the derivatives; (m, k).
    """

    heads: Integers
    tails: Integers
    matrix: Integers

    def __len__(self) -> int:
        return int(self.heads.size) * int(self.matrix.shape[1])

    @property
    def entries(self) -> Entries:
        """The same, one by one."""
        p, m, q = self.heads.shape
        shape = p, m, self.matrix.shape[1], q
        heads = np.broadcast_to(self.heads[:, :, np.newaxis], shape)
        tails = np.broadcast_to(self.tails[:, np.newaxis], shape)
        values = np.broadcast_to(self.matrix[np.newaxis, :, :, np.newaxis], shape)
        return Entries(column(heads), column(tails), column(values))


def of_product(left: Integers, right: Integers, results: Integers, matrices: tuple[Integers, Integers]) -> list[Dense]:
    """Derivatives of a product of matrices by its left and its right factor.

    Args:
        left, right, results: references of (m, k), (k, n) and (m, n) entries.
        matrices: the factors in the program that computes the derivatives.
    """
    by_left = Dense(results[:, :, np.newaxis], left[:, :, np.newaxis], matrices[1].T)
    by_right = Dense(results[np.newaxis], right[np.newaxis], matrices[0])
    return [by_left, by_right]
