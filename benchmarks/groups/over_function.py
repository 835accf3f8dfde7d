"""Operations of Jacobians over those of their functions, of which FastDifferentiation.jl publishes this ratio.

Both sides are optimised, each alone. Published are sizes of 1, 10, 100 and 1,000 times the smallest, and what is to be
reached is the ratio at the smallest.

That is out of reach for matrices of 10 rows. Of n rows the function takes 4n³ - n² operations. With S = A + B, P = A·B
and Q = S·Bᵀ, the derivatives of entry (k, l) by A_ij are P_lj for k = i and Q_kj for l = i, by B_ij S_kj·A_li and P_lj
for k = i: n⁴ products that all differ, n³ + n² sums, and S, P and Q as they are defined, n⁴ + 5n³ all together. That is
3.85 times the function at n = 10, the n⁴ entries alone 2.56 times, and 2.63 times at n = 5, where 2.6 is published.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import accumulus as acc
import library
from groups import Settings
from tables import Goal, Row, Table

ORDER: Final = 40
MATRIX, SMALLEST = 10, 5
VARIABLES: Final = 100


def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function of many variables."""
    return np.sum((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2)


def spherical_harmonics(x: Any) -> Any:
    """Real spherical harmonics of all degrees below the order, by recurrences in x, y, z: order² results."""
    cosines, sines = [1.0], [0.0]
    for m in range(1, ORDER):
        cosines.append(x[0] * cosines[m - 1] - x[1] * sines[m - 1])
        sines.append(x[0] * sines[m - 1] + x[1] * cosines[m - 1])
    legendre: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for m in range(ORDER):
        if m:
            legendre[m, m] = (1 - 2 * m) * legendre[m - 1, m - 1]
        if m + 1 < ORDER:
            legendre[m + 1, m] = (2 * m + 1) * x[2] * legendre[m, m]
        for degree in range(m + 2, ORDER):
            before, two_before = legendre[degree - 1, m], legendre[degree - 2, m]
            factors = (2 * degree - 1) / (degree - m), (degree + m - 1) / (degree - m)
            legendre[degree, m] = factors[0] * x[2] * before - factors[1] * two_before
    result = np.zeros(ORDER * ORDER)
    for degree in range(ORDER):
        for m in range(-degree, degree + 1):
            size = abs(m)
            ratio = math.exp(math.lgamma(degree - size + 1) - math.lgamma(degree + size + 1))
            scale = math.sqrt((2 * degree + 1) / (4.0 * math.pi) * (2.0 if m else 1.0) * ratio)
            around = sines[size] if m < 0 else cosines[size]
            result[degree * degree + degree + m] = scale * legendre[degree, size] * around
    return result


def matrices(A: Any, B: Any) -> Any:
    """(A + B)·(A·B)ᵀ."""
    return (A + B) @ (A @ B).T


CASES: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]]] = {
    "Rosenbrock": (rosenbrock, (np.linspace(0.5, 1.5, VARIABLES),), 1.13),
    "spherical harmonics": (spherical_harmonics, (np.array([0.3, 0.5, 0.7]),), 2.2),
    "(A+B)(A·B)ᵀ": (matrices, (np.eye(MATRIX), np.ones((MATRIX, MATRIX))), 2.6),
    # published with one digit
    "(A+B)(A·B)ᵀ, 5 rows": (matrices, (np.eye(SMALLEST), np.ones((SMALLEST, SMALLEST))), 2.65),
}


@library.processor_clock()
def table(settings: Settings) -> Table:
    """One row a function."""
    rows = []
    for name, (f, arguments, reach) in CASES.items():
        whole = library.tally(acc.compile(f).compile(*arguments).tape).operations
        jacobian = acc.jacobian(f, tuple(range(len(arguments)))).compile(*arguments).tape
        ours = library.tally(jacobian).operations
        cells = {"function": name, "of the function": whole, "of its Jacobian": ours}
        rows.append(Row(cells, Goal(reach, ours / whole)))
    return Table("ratio", "Operations of the Jacobian over those of the function", rows)
