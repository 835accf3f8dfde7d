"""The exponential of a matrix, and the orthogonal factor of a polar decomposition."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np

from accumulus.frontends import decisions
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.linalg.implicit import attached, fixed, matrices_of, square_of, zeros
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
        product = u.mT @ matrices if side == "right" else matrices @ u.mT
        p = 0.5 * (product + product.mT)
        return u.reshape(*stack, *u.shape[1:]), p.reshape(*stack, *p.shape[1:])


def orthogonal_factor(tape: Tape, a: Any) -> Any:
    """The nearest matrices with orthogonal columns, or rows, of stacked matrices of full rank.

    With a = u·p and p = v·s·vᵀ, du is u·v·Ω·vᵀ + (1 - u·uᵀ)·da·p⁻¹, where vᵀ·(uᵀ·da - daᵀ·u)·v has the entries
    (sᵢ + sⱼ)·Ωᵢⱼ.
    """
    m, n = a.shape[1:]
    if m < n:
        return orthogonal_factor(tape, a.mT).mT
    left, values, right = singular(tape, a, "scipy.linalg.polar")
    u = left @ right.mT
    along = left.mT @ (a @ right)
    turning = zeros(tape, len(a), n, n)
    for i, j in combinations(range(n), 2):
        angle = (along[:, i, j] - along[:, j, i]) / (values[:, i] + values[:, j])
        turning[:, i, j], turning[:, j, i] = angle, -angle
    derivative = left @ turning @ right.mT
    if m > n:
        inverse = (right * (1.0 / values)[:, np.newaxis]) @ right.mT
        derivative += (a - u @ (u.mT @ a)) @ inverse
    return attached(tape, u, derivative)
