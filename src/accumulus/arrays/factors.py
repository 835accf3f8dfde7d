"""Derivatives of factorisations, each a chain of linear maps between arrays that are never formed.

A rule takes a factorisation, and returns derivatives between arrays. Their factors are the parts of the factorisation,
so that second derivatives need no further rule. If eigenvalues or singular values are equal, derivatives of vectors are
infinite or NaN, and derivatives of values hold for the computed vectors.

Sources: S. P. Smith, Differentiation of the Cholesky algorithm, 1995; M. B. Giles, Collected matrix derivative results
for forward and reverse mode algorithmic differentiation, 2008; S. F. Walter, L. Lehmann, Algorithmic differentiation of
linear algebra functions, 2010.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries
from accumulus.arrays.inverses import Inverse
from accumulus.arrays.structured import Dense, Edge
from accumulus.tape.blocks import CHOLESKY, DETERMINANT, EIGENVECTORS, ORTHOGONAL, SINGULAR_VECTORS
from accumulus.tape.columns import column
from accumulus.tape.program import Program

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Factored:
    """A factorisation that is differentiated.

    Attributes:
        made: the program that computes derivatives.
        given: (m, n), references of the matrix in the program that is differentiated.
        matrix: its references in `made`.
        values, results: references of the parts in `made`, and in the program that is differentiated.
        inner: references of arrays that are never computed, each as long as all parts together.
    """

    made: Program
    original: Integers
    matrix: Integers
    values: list[Integers]
    results: list[Integers]
    inner: list[Integers]

    def between(self, *shapes: tuple[int, int]) -> list[Integers]:
        """Return the arrays that are never computed, each cut to one of these shapes."""
        return [
            every[: rows * columns].reshape(rows, columns)
            for every, (rows, columns) in zip(self.inner, shapes, strict=True)
        ]


#: (head, tail, derivatives of the one with respect to the other). Positions count the arrays that are never computed,
#: then the results; None stands for the matrix.
Link = tuple[int, int | None, Edge]


def _from_left(heads: Integers, tails: Integers, matrix: Integers | Inverse) -> Dense:
    """Return derivatives of M·X with respect to X."""
    return Dense(heads[np.newaxis], tails[np.newaxis], matrix)


def _from_right(heads: Integers, tails: Integers, matrix: Integers | Inverse) -> Dense:
    """Return derivatives of X·M with respect to X."""
    return Dense(heads[:, :, np.newaxis], tails[:, :, np.newaxis], matrix.T)


def _entries(heads: Integers, tails: Integers, values: Integers | None = None) -> Entries:
    return Entries(column(heads), column(tails), None if values is None else column(values))


def lower_factor_derivative(factored: Factored) -> list[Link]:
    """Return dL = L·Φ(L⁻¹·dA·L⁻ᵀ).

    Φ is the lower triangle with half the diagonal. Only the lower triangle of A is used.
    """
    made, matrix, n = factored.made, factored.original, len(factored.original)
    symmetric, left, whole, halved = factored.between(*[(n, n)] * 4)
    lower = np.tri(n, dtype=bool)
    factor = np.where(lower, factored.values[0], made.constant(0.0))
    inverse = Inverse(made, factor, n)
    weights = made.constant_array(np.where(np.eye(n, dtype=bool), 0.5, 1.0)[lower])
    return [
        (0, None, _entries(symmetric, np.where(lower, matrix, matrix.T))),
        (1, 0, _from_left(left, symmetric, inverse)),
        (2, 1, _from_right(whole, left, inverse.T)),
        (3, 2, _entries(halved[lower], whole[lower], weights)),
        (4, 3, _from_left(factored.results[0], halved, factor)),
    ]


def eigenvector_derivatives(factored: Factored) -> list[Link]:
    """Return P = Vᵀ·dA·V; dλ is its diagonal, and dV = V·X with X_ij = P_ij / (λ_j - λ_i)."""
    made, n, (values, vectors) = factored.made, len(factored.original), factored.values
    matrix, left, whole, turning = factored.between(*[(n, n)] * 4)
    apart = ~np.eye(n, dtype=bool)
    gaps = made.apply("subtract", *np.broadcast_arrays(values, values[:, np.newaxis]))
    steep = made.apply("divide", made.constant(1.0), gaps[apart])
    return [
        (0, None, _entries(matrix, factored.original)),
        (1, 0, _from_left(left, matrix, vectors.T)),
        (2, 1, _from_right(whole, left, vectors)),
        (4, 2, _entries(factored.results[0], np.diag(whole))),
        (3, 2, _entries(turning[apart], whole[apart], steep)),
        (4, 3, _from_left(factored.results[1], turning, vectors)),
    ]


def orthogonal_derivatives(factored: Factored) -> list[Link]:
    """Return B = dA·R⁻¹, C = Qᵀ·B, and T = dR·R⁻¹: upper, C_ij + C_ji above the diagonal; dQ = B - Q·T, dR = T·R."""
    made, (m, n), (upper, q) = factored.made, factored.original.shape, factored.values
    matrix, scaled, along, turning = factored.between((m, n), (m, n), (n, n), (n, n))
    above, zero = np.triu(np.ones((n, n), bool), 1), made.constant(0.0)
    upper = np.where(np.tri(n, k=-1, dtype=bool), zero, upper)
    diagonal = np.diag(turning)
    return [
        (0, None, _entries(matrix, factored.original)),
        (1, 0, _from_right(scaled, matrix, Inverse(made, upper, n))),
        (2, 1, _from_left(along, scaled, q.T)),
        (3, 2, _entries(np.append(turning[above], diagonal), np.append(along[above], np.diag(along)))),
        (3, 2, _entries(turning[above], along.T[above])),
        (4, 1, _entries(factored.results[1], scaled)),
        (4, 3, _from_left(factored.results[1], turning, made.apply("negative", q))),
        (4, 3, _from_right(factored.results[0], turning, upper)),
    ]


def singular_vector_derivatives(factored: Factored) -> list[Link]:
    """Return the derivatives of a singular value decomposition.

    W = dA·V, P = Uᵀ·W, and ds is its diagonal. With F_ij = 1 / (s_j² - s_i²), X_ij = F_ij·(s_j·P_ij + s_i·P_ji) and
    Y_ij = F_ij·(s_i·P_ij + s_j·P_ji): dV = V·Y, and dU = U·X + (W - U·P)·S⁻¹, the last term if m > n.
    """
    made, (m, n), (values, u, v) = factored.made, factored.original.shape, factored.values
    matrix, scaled, along, first, second = factored.between((m, n), (m, n), (n, n), (n, n), (n, n))
    apart = ~np.eye(n, dtype=bool)
    later, earlier = (each[apart] for each in np.broadcast_arrays(values, values[:, np.newaxis]))
    gaps = made.apply("multiply", made.apply("subtract", later, earlier), made.apply("add", later, earlier))
    by_later, by_earlier = (made.apply("divide", each, gaps) for each in (later, earlier))
    links: list[Link] = [
        (0, None, _entries(matrix, factored.original)),
        (1, 0, _from_right(scaled, matrix, v)),
        (2, 1, _from_left(along, scaled, u.T)),
        (5, 2, _entries(factored.results[0], np.diag(along))),
        (3, 2, _entries(first[apart], along.T[apart], by_earlier)),
        (4, 2, _entries(second[apart], along[apart], by_earlier)),
        (4, 2, _entries(second[apart], along.T[apart], by_later)),
        (5, 3, _from_left(factored.results[1], first, u)),
        (5, 4, _from_left(factored.results[2], second, v)),
    ]
    if m > n:
        inverted = made.apply("divide", made.constant(1.0), values)
        rest = made.apply("subtract", by_later, np.broadcast_to(inverted, (n, n))[apart])
        links += [
            (3, 2, _entries(first[apart], along[apart], rest)),
            (3, 2, _entries(np.diag(first), np.diag(along), made.apply("negative", inverted))),
            (5, 1, _entries(factored.results[1], scaled, np.broadcast_to(inverted, (m, n)).copy())),
        ]
    else:
        links.append((3, 2, _entries(first[apart], along[apart], by_later)))
    return links


def determinant_derivative(factored: Factored) -> list[Link]:
    """Return the derivative det A·A⁻ᵀ with respect to A."""
    made, n = factored.made, len(factored.original)
    inverse = made.solve(factored.matrix, made.constant_array(np.eye(n)))
    row = made.apply("multiply", inverse.T.reshape(-1), factored.values[0].reshape(()))
    return [(0, None, Dense.of(factored.results[0].reshape(-1), factored.original.reshape(-1), row.reshape(1, -1)))]


#: Number of arrays that are never computed, and the rule, by the code of a block.
RULES: Final[dict[int, tuple[int, Callable[[Factored], list[Link]]]]] = {
    CHOLESKY: (4, lower_factor_derivative),
    EIGENVECTORS: (4, eigenvector_derivatives),
    ORTHOGONAL: (4, orthogonal_derivatives),
    SINGULAR_VECTORS: (5, singular_vector_derivatives),
    DETERMINANT: (0, determinant_derivative),
}
