"""The cases of `make bench ARGS=cliffs` at small sizes: their derivatives are those of JAX, or differences."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from cases import arrays, models, time_steps
from groups import cliffs

SMALL = {
    "a Gaussian process": models.gaussian_process(5),
    "the same by Cholesky": models.by_cholesky(5),
    "a mixture": models.mixture(2, 3, 20),
    "k-means": models.kmeans(3, "gradient", 20),
    "k-means, in a direction": models.kmeans(3, "hvp", 20),
    "a recurrent network": models.lstm(2, 5),
    "least squares": models.least_squares(50),
    "a logarithm of a sum": models.log_sum_exp(100),
    "logistic regression": models.regression("logistic", "value and gradient", 50),
    "its Hessian": models.regression("logistic", "hessian", 50),
    "Poisson regression": models.regression("Poisson", "value and gradient", 50),
    "a time series": models.garch("gradient", 40),
    "its Hessian, too": models.garch("hessian", 40),
    "minors": models.minors(4),
    "a chain of equations": models.chain(5, 4),
    "a particle": models.particle(),
    "a saddle": models.saddle(),
    "a stiff system": models.stiff_fit(4),
    "a hand": models.hand_tracking(6, 5),
    "reactions": models.reactions(5),
    "bundle adjustment": models.bundle_adjustment(400),
    "minibatches": models.minibatches(300, 70),
    "an elastic body": models.neo_hooke(60),
    "a sparse matrix": models.sparse_matrix(9),
    "a sparse system": models.sparse_system(9),
    "eigenvalues": models.eigenvalues(12),
    "a Kalman filter": time_steps.kalman_filter(4),
    "a hidden Markov model": time_steps.hidden_markov_model(6, 3),
    "thin films by a loop": arrays.thin_films(3, 5, "loop"),
    "thin films by stacks": arrays.thin_films(3, 5, "stack"),
    "Heston's model": arrays.heston(8, 2),
    "a bucket": time_steps.bucket(60, "gradient"),
    "its second derivatives": time_steps.bucket(60, "hessian"),
    "finite volumes": time_steps.finite_volumes(12, 4),
    "planets": time_steps.planets(3, 4),
    "a diode": time_steps.diode(5),
    "Newton's method inside": arrays.inner_newton(20),
    "implicit heat": time_steps.implicit_heat(5, 3),
    "collocation": arrays.collocation(4, "jacobian"),
    "the Hessian of its Lagrangian": arrays.collocation(4, "hessian"),
    "a Matérn kernel": arrays.matern(9, 2),
    "a factorisation": arrays.factorisation(9, 8, 60, 3),
    "an Asian option": time_steps.asian_option(80, 5),
    "proportional hazards": arrays.proportional_hazards(70, 3, "value and gradient"),
    "a band structure": arrays.band_structure(5, 3),
    "registration": arrays.registration(7),
    "a recurrence in an array": time_steps.recurrence(80),
    "power flow": arrays.power_flow(9),
    "tight binding": arrays.tight_binding(4, 3),
    "a spline": arrays.spline(6, 9),
    "an epidemic": time_steps.epidemic(4, 3),
    "a charged particle": time_steps.charged_particle(5),
    "an American option": time_steps.american_option(6),
    "a soft alignment": time_steps.soft_alignment(5),
    "ARMA": time_steps.autoregression(15, 2),
    "matrix exponentials": time_steps.matrix_exponentials(4),
    "deblurring": arrays.deblurring(6),
    "spectral lines": arrays.spectral_lines(3, 20),
    "page rank": arrays.page_rank(20, 4),
    "attention": arrays.attention(5, 4),
}


@pytest.mark.sampled(4)
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
            np.testing.assert_allclose(
                cliffs.numbers(result), cliffs.numbers(by_jax(*case.arguments)), rtol=1e-9, atol=1e-9
            )
            for other in case.others:
                np.testing.assert_allclose(
                    cliffs.numbers(derivative(*other)), cliffs.numbers(by_jax(*other)), rtol=1e-9, atol=1e-9
                )
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
