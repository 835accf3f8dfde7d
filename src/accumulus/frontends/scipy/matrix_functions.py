"""The exponential of a matrix, and the orthogonal factor of a polar decomposition."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any, Final

import numpy as np

from accumulus.frontends import decisions
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.linalg.implicit import attached, fixed, matrices_of, plain, square_of, zeros
from accumulus.frontends.numpy.linalg.spectral import singular
from accumulus.frontends.numpy.operands import references_of
from accumulus.tape.tape import Tape

__all__ = ["expm", "polar"]

#: Padé's approximant of degree 13 and its derivative are exact to double precision for 1-norms up to here; of its
#: coefficients the even ones are of the even part.
#: Source: A. H. Al-Mohy, N. J. Higham, Computing the Fréchet derivative of the matrix exponential, SIAM J. Matrix Anal.
#: Appl. 30 (2009), table 6.1.
RADIUS: Final = 4.74
COEFFICIENTS: Final = tuple(
    c / 64764752532480000.0
    for c in (
        *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
        *(10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
    )
)
#: Squarings at most, where their number is a decision, and where all are recorded and chosen from.
MOST_DECIDED: Final = 60
MOST_CHOSEN: Final = 8


@borrows("scipy.linalg", "expm")
def expm(tape: Tape, A: Any) -> Any:
    """The exponential of square matrices: Padé's approximant of the matrix divided by a power of 2, squared as often.

    How often is a decision, kept as a guard; where decisions are not taken, it is chosen for each matrix up to eight
    times, and the result is NaN for 1-norms beyond 1,200.
    """
    with tape.unsigned_zeros():
        matrices, stack = square_of(tape, A, "scipy.linalg.expm")
        n = matrices.shape[-1]
        if n == 0:
            return matrices.reshape(*stack, n, n)
        norms = np.max(np.sum(abs(fixed(tape, matrices)), axis=1), axis=-1)
        if ACTIVE.decisions is not None and ACTIVE.decisions.tape is tape:
            result = _squared_as_decided(tape, matrices, norms)
        else:
            result = _squared_as_chosen(matrices, norms)
        return result.reshape(*stack, n, n)


def _squared_as_decided(tape: Tape, a: Any, norms: Any) -> Any:
    count, greatest = 0, np.max(norms)
    while count < MOST_DECIDED:
        above = references_of(tape, greatest > RADIUS * 2.0**count, boolean=True)
        if not decisions.truth(tape, int(above)):
            break
        count += 1
    result = _approximant(a * 2.0**-count)
    for _ in range(count):
        result = result @ result
    return result


def _squared_as_chosen(a: Any, norms: Any) -> Any:
    scale: Any = 1.0
    for k in range(MOST_CHOSEN):
        scale = np.where(norms > RADIUS * 2.0**k, 0.5 ** (k + 1), scale)
    result = _approximant(a * np.reshape(scale, (-1, 1, 1)))
    for k in range(MOST_CHOSEN):
        result = np.where((norms > RADIUS * 2.0**k)[:, np.newaxis, np.newaxis], result @ result, result)
    return np.where((norms > RADIUS * 2.0**MOST_CHOSEN)[:, np.newaxis, np.newaxis], np.nan, result)


def _approximant(a: Any) -> Any:
    """Padé's approximant of the exponential: (V - U)⁻¹·(V + U), with U and V the odd and the even part."""
    c = COEFFICIENTS
    identity = np.eye(a.shape[-1])
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    odd = a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * identity
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * identity
    odd = a @ odd
    return np.linalg.solve(even - odd, even + odd)


@borrows("scipy.linalg", "polar")
def polar(tape: Tape, a: Any, side: str = "right") -> tuple[Any, Any]:
    """The orthogonal matrix u and the symmetric p with a = u·p, or p·u for the left side."""
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "scipy.linalg.polar")
        if side not in ("left", "right"):
            raise ValueError(f"polar: side is 'left' or 'right', not {side!r}")
        u = orthogonal_factor(tape, matrices)
        symmetric = u.mT @ matrices if side == "right" else matrices @ u.mT
        p = 0.5 * (symmetric + symmetric.mT)
        return u.reshape(*stack, *u.shape[1:]), p.reshape(*stack, *p.shape[1:])


def orthogonal_factor(tape: Tape, a: Any) -> Any:
    """The nearest matrices with orthogonal columns, or rows, of stacked matrices of full rank, as implicit functions.

    With a = u·p, what is 0 is R = (uᵀ·u - 1)/2, S = uᵀ·a - aᵀ·u and the part of a that is orthogonal to u. A Newton
    step is u·(Ω - R) in the space of u, with Ω·p + p·Ω = S - R·p + p·R. This has a solution where singular values are
    equal, too.
    """
    m, n = a.shape[1:]
    if m < n:
        return orthogonal_factor(tape, a.mT).mT
    left, _, right = (plain(tape, part) for part in singular(tape, a, "scipy.linalg.polar"))
    value = left @ right.mT
    u, at = fixed(tape, value), fixed(tape, a)
    p, lengths, along = u.mT @ at, 0.5 * (u.mT @ u - np.eye(n)), u.mT @ a
    p = 0.5 * (p + p.mT)
    skew = along - along.mT - lengths @ p + p @ lengths
    step = u @ (_turning(tape, p, skew) - lengths)
    if m > n:
        beside = a - u @ along
        step += np.linalg.solve(p, (beside - u @ (u.mT @ beside)).mT).mT
    return attached(tape, value, step)


def _turning(tape: Tape, p: Any, skew: Any) -> Any:
    """The skew-symmetric Ω with Ω·p + p·Ω = `skew`, for symmetric p."""
    pairs = list(combinations(range(p.shape[-1]), 2))
    place = {pair: k for k, pair in enumerate(pairs)}
    matrix = zeros(tape, len(p), len(pairs), len(pairs))
    for (i, j), k in product(pairs, range(p.shape[-1])):
        for row, column, factor in ((i, k, p[:, k, j]), (k, j, p[:, i, k])):
            if row != column:
                sign = 1.0 if row < column else -1.0
                matrix[:, place[i, j], place[min(row, column), max(row, column)]] += sign * factor
    result = zeros(tape, *p.shape)
    if pairs:
        found = np.linalg.solve(matrix, np.stack([skew[:, i, j] for i, j in pairs], axis=-1)[..., np.newaxis])
        for (i, j), k in place.items():
            result[:, i, j], result[:, j, i] = found[:, k, 0], -found[:, k, 0]
    return result
