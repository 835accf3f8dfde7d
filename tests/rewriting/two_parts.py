"""Residues of two parts, a + b·i, in the arithmetic of Python's integers."""

from __future__ import annotations

Number = tuple[int, int]


def product(x: Number, y: Number, p: int) -> Number:
    return (x[0] * y[0] - x[1] * y[1]) % p, (x[0] * y[1] + x[1] * y[0]) % p


def inverse(x: Number, p: int) -> Number:
    over = pow(x[0] * x[0] + x[1] * x[1], -1, p)
    return x[0] * over % p, -x[1] * over % p
