"""Another module's functions, which hold NumPy's creation functions under names of their own."""

from numpy import array as vector
from numpy import zeros as make

from numpy import empty, zeros_like  # isort: skip


def filled(y, n):
    out = make(n)
    for i in range(n):
        out[i] = y[i] * (i + 1)
    return out


def from_items(y):
    return vector([y[0], 2.0, y[1] * y[2]])


def like(y):
    out = zeros_like(y)
    out[::2] = y[::2]
    return out


def unset(y):
    out = empty(2)
    out[:] = y[:2]
    return out
