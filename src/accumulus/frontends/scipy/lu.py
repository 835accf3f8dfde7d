"""LU with LAPACK's permutation, which is a value: the place of the first greatest entry of a column, chosen from all.

L and U are differentiated as the elimination is computed. In the results of `scipy.linalg.lu_factor` the permutation is
an array of traced numbers, which `lu_solve` reads by comparing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.linalg.implicit import constant_matrix, is_zero, zeros
from accumulus.frontends.numpy.operands import depends
from accumulus.tape.tape import Tape

__all__ = ["exchanged", "factored"]


def factored(tape: Tape, a: Any) -> tuple[Any, Any]:
    """L below the diagonal and U on and above it, of stacked matrices; and with which each row was exchanged."""
    a = a.copy()
    m, n = a.shape[1:]
    pivots = zeros(tape, len(a), min(m, n))
    for k in range(min(m, n)):
        place, greatest = as_array(tape, np.full(len(a), float(k))), abs(a[:, k, k])
        for i in range(k + 1, m):
            if not is_zero(a[:, i, k]):
                size = abs(a[:, i, k])
                place, greatest = np.where(size > greatest, float(i), place), np.maximum(greatest, size)
        pivots[:, k] = place
        a = _exchanged_once(tape, a, k, place)
        if k + 1 < m:
            a[:, k + 1 :, k] = a[:, k + 1 :, k] / a[:, k, k, np.newaxis]
            a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, np.newaxis] * a[:, k, np.newaxis, k + 1 :]
    return a, pivots


def _exchanged_once(tape: Tape, a: Any, k: int, place: Any) -> Any:
    """Stacked matrices with row k and the row at `place`, which is no earlier, exchanged."""
    result = a.copy()
    place = as_array(tape, place)
    if not depends(place) and len(set(map(float, np.asarray(place)))) == 1:
        i = int(np.asarray(place)[0])
        result[:, [k, i]] = a[:, [i, k]]
        return result
    for i in range(k + 1, a.shape[1]):
        here = (place == float(i))[:, np.newaxis]
        result[:, k] = np.where(here, a[:, i], result[:, k])
        result[:, i] = np.where(here, a[:, k], a[:, i])
    return result


def exchanged(tape: Tape, b: Any, pivots: Any, *, back: bool = False) -> Any:
    """Stacked matrices with the rows exchanged one pair after the other, or back again."""
    places = range(pivots.shape[-1])
    for k in reversed(places) if back else places:
        b = _exchanged_once(tape, b, k, pivots[:, k])
    return b


def permutation(tape: Tape, count: int, m: int, pivots: Any) -> Any:
    """The matrices P with a = P·L·U."""
    return exchanged(tape, constant_matrix(tape, count, np.eye(m)), pivots).mT
