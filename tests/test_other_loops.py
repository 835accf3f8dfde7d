"""Derivatives in the loops of others that docs/solvers.md tells of: SUNDIALS and joblib, where they are installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import accumulus as acc

PAGE = Path(__file__).parents[1] / "docs" / "solvers.md"
START = np.array([1.0, 0.0, 0.0])


def robertson(t, y, k):
    slow, fast, square = k * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return np.array([fast - slow, slow - fast - square, square])


def example(package):
    """Return the example of the page that imports a package."""
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (results,) = [text for text in examples if package in text]
    return results


def end(f, time):
    """Return the end point of SciPy's solver with differences."""
    run = solve_ivp(f, (0.0, time), START, "LSODA", args=(0.04,), rtol=1e-10, atol=1e-13)
    return run.y[:, -1]


def test_sundials_takes_value_and_jacobian_as_the_page_says():
    pytest.importorskip("sksundae.cvode")
    scope = {"np": np, "f": acc.compile(robertson), "jac": acc.jacobian(robertson, 1)}
    exec(example("sksundae"), scope)
    assert scope["run"].success
    np.testing.assert_allclose(scope["run"].y[-1], end(scope["f"], 1e4), rtol=1e-4)


def test_diffrax_takes_a_function_of_numpy_as_the_page_says():
    pytest.importorskip("diffrax")
    jax = pytest.importorskip("jax")
    scope = {"np": np, "acc": acc}
    with jax.enable_x64(True):
        exec(example("diffrax"), scope)

    def last(k):
        return acc.odeint(lambda t, y, k: scope["reaction"](y, k), np.array([1.0, 0.0]), [0.0, 2.0], k)[-1, 0]

    np.testing.assert_allclose(scope["slope"], acc.gradient(last)(np.array([2.0, 3.0])), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Custom sparse")
def test_sundials_takes_the_nonzeros_column_by_column():
    cvode = pytest.importorskip("sksundae.cvode")
    f, jac = acc.compile(robertson), acc.jacobian(robertson, 1, sparse="csc")
    jac(0.0, START, 0.04)
    pattern = np.zeros((3, 3))
    pattern[jac.pattern.rows, jac.pattern.columns] = 1.0
    run = cvode.CVODE(
        lambda t, y, rates: np.copyto(rates, f(t, y, 0.04)),
        jacfn=lambda t, y, rates, J: np.copyto(J, jac.nonzeros(t, y, 0.04)),
        linsolver="sparse",
        sparsity=pattern,
        rtol=1e-8,
        atol=1e-12,
        max_num_steps=10_000,
    ).solve(np.array([0.0, 100.0]), START)
    assert run.success
    np.testing.assert_allclose(run.y[-1], end(f, 100.0), rtol=1e-4)


def test_joblib_takes_a_derivative_along():
    joblib = pytest.importorskip("joblib")
    slope = acc.gradient(lambda x: np.sum(np.sin(x) ** 2), effort="fast")
    points = np.random.default_rng(0).normal(size=(40, 3))
    slope(points[0])
    chunks = joblib.Parallel(n_jobs=2)(joblib.delayed(slope.batch)(chunk) for chunk in np.split(points, 2))
    np.testing.assert_allclose(np.concatenate(chunks), np.sin(2.0 * points), atol=1e-14)
