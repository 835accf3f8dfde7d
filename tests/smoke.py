"""A first session with an installed package, run by `make wheel` in an environment without anything else."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import accumulus as acc


def rates(y):
    """Return the right-hand side of Robertson's reaction."""
    slow, fast, square = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return np.array([fast - slow, slow - fast - square, square])


assert Path(acc.__file__).is_relative_to(sys.prefix), f"{acc.__file__} is outside of the environment {sys.prefix}"
assert find_spec("numba") is None, "the environment has Numba, so missing kernels would be compiled"
jacobian = acc.jacobian(rates, cache=False)
y = np.array([1.0, 1e-4, 0.5])
expected = [[-0.04, 5e3, 1.0], [0.04, -5e3 - 6e3, -1.0], [0.0, 6e3, 0.0]]
np.testing.assert_allclose(jacobian(y), expected, rtol=1e-14)
np.testing.assert_allclose(jacobian.batch(np.tile(y, (100, 1)))[99], expected, rtol=1e-14)
hessian = acc.hessian(lambda x: np.sum(np.exp(x[1:] * x[:-1])), cache=False, sparse="csr")
assert hessian(np.ones(50)).nnz == 148
print(f"accumulus {acc.__version__} works from {Path(acc.__file__).parent}")
