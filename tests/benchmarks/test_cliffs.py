"""The cases of `make bench ARGS=cliffs` at small sizes: their derivatives are those of JAX, or differences."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from groups import cliffs

SMALL = {
    "a Gaussian process": cliffs.gaussian_process(5),
    "the same by Cholesky": cliffs.by_cholesky(5),
    "a mixture": cliffs.mixture(2, 3, 20),
    "k-means": cliffs.kmeans(3, "gradient", 20),
    "k-means, in a direction": cliffs.kmeans(3, "hvp", 20),
    "a recurrent network": cliffs.lstm(2, 5),
    "least squares": cliffs.least_squares(50),
    "a logarithm of a sum": cliffs.log_sum_exp(100),
    "logistic regression": cliffs.regression("logistic", "value and gradient", 50),
    "its Hessian": cliffs.regression("logistic", "hessian", 50),
    "Poisson regression": cliffs.regression("Poisson", "value and gradient", 50),
    "a time series": cliffs.garch("gradient", 40),
    "its Hessian, too": cliffs.garch("hessian", 40),
    "minors": cliffs.minors(4),
    "a chain of equations": cliffs.chain(5, 4),
    "a particle": cliffs.particle(),
    "a saddle": cliffs.saddle(),
    "a stiff system": cliffs.stiff_fit(4),
    "a hand": cliffs.hand_tracking(6, 5),
    "reactions": cliffs.reactions(5),
    "bundle adjustment": cliffs.bundle_adjustment(400),
    "minibatches": cliffs.minibatches(300, 70),
    "an elastic body": cliffs.neo_hooke(60),
    "a sparse matrix": cliffs.sparse_matrix(9),
    "a sparse system": cliffs.sparse_system(9),
    "eigenvalues": cliffs.eigenvalues(12),
}


def numbers(result):
    """One array of all that a derivative returns; of a product, the product alone."""
    if scipy.sparse.issparse(result):
        return result.toarray()
    arrays = result if isinstance(result, tuple) else (result,)
    return np.concatenate([np.ravel(array) for array in arrays])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
def test_our_derivatives_equal_those_of_jax(name):
    case = SMALL[name]
    derivative = cliffs.OURS[case.asks](cliffs.in_numpy(case))
    result = derivative(*cliffs.arguments_of(case))
    if case.asks == "jvp":
        result = result[1]
    if case.jax:
        jax = pytest.importorskip("jax", reason="the peer is JAX, which is not installed")
        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
            by_jax = jax.jit(cliffs.of_jax(case), compiler_options={"xla_backend_optimization_level": 0})
            np.testing.assert_allclose(numbers(result), numbers(by_jax(*case.arguments)), rtol=1e-9, atol=1e-9)
            for other in case.others:
                np.testing.assert_allclose(numbers(derivative(*other)), numbers(by_jax(*other)), rtol=1e-9, atol=1e-9)
        return
    if case.differences is not None:
        result = result * case.arguments[0]
        differences = case.differences(*case.arguments) * case.arguments[0]
        np.testing.assert_allclose(result, differences, rtol=0.0, atol=1e-3 * np.abs(result).max())
        return
    f, (x, *rest) = cliffs.in_numpy(case), case.arguments
    if case.asks == "jvp":
        direction, rest = rest[0], ()
    else:
        direction = np.cos(np.arange(len(x)))
        result = result @ direction
    step = 1e-6 * direction
    differences = (f(x + step, *rest) - f(x - step, *rest)) / 2e-6
    np.testing.assert_allclose(result, differences, rtol=1e-6, atol=1e-6)
