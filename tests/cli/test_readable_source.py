"""NumPy source that says what it computes, by the names of the user's source."""

from __future__ import annotations

import inspect
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from accumulus.cli import app
from accumulus.frontends.names import named_values

MODEL = """
import numpy as np


def twisted(angle):
    inner = np.sin(angle)
    return inner * angle


def orbit(t, y, mu):
    radius = np.sqrt(y[0] ** 2 + y[1] ** 2)
    pull = mu / radius**3
    force = twisted(t)
    return np.array([y[2], y[3], -pull * y[0], -pull * y[1] + force])


def loop(x, points):
    total = 0.0
    out = np.zeros(3)
    for i in range(3):
        total += np.cos(x[i] * points)
        out[i] = total * x[0]
    return {"out": out, "total": total}


def image(A, v):
    moved = A @ v
    norm = np.linalg.norm(moved)
    return moved / norm if norm > 0 else moved


def energy(x):
    return np.exp(x[0] * x[1]) + x[2] ** 2


def awkward(np_, special, points, t3, lambda_, x0, value):
    np = np_ * points
    return np + special * t3 + lambda_ * x0 * value


def spread(t, x, t1):
    return t[0] * t[1] * x[0] * t1
"""
SCALARS = ("--shape", "scalar")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "named_model.py"
    path.write_text(MODEL)
    yield str(path)
    sys.modules.pop("named_model", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]


@pytest.fixture
def scope(model):
    results = {}
    exec(compile(MODEL, model, "exec"), results)
    return results


def emitted(*arguments):
    result = CliRunner().invoke(app, ["emit", *arguments, "--time-limit", "0"])
    assert result.exit_code == 0, result.output
    return result.stdout


def values_by_comment(text, *arguments):
    """Return the value of each operation with a comment, at one point."""
    scope, actual = {}, {}
    exec(text, scope)
    function = [value for value in scope.values() if inspect.isfunction(value)][-1]

    def watch(frame, event, argument):
        if event == "return" and frame.f_code is function.__code__:
            actual.update(frame.f_locals)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return {name: actual[t] for t, name in re.findall(r"^    (t\d+) = .*  # (.+)$", text, re.M)}


def test_values_have_the_names_of_variables(model):
    text = emitted(f"{model}:orbit", *SCALARS, "--shape", "4", *SCALARS)
    assert "def orbit_jacobian(t, y, mu):\n    (y0, y1, y2, y3) = y\n" in text
    y, t, mu = np.array([0.3, -1.4, 0.2, 0.9]), 0.7, -2.1
    result = values_by_comment(text, t, y, mu)
    assert result["radius"] == pytest.approx(np.hypot(y[0], y[1]), rel=1e-14)
    assert result["inner in twisted"] == pytest.approx(np.sin(t), rel=1e-14)
    assert result["force"] == pytest.approx(t * np.sin(t), rel=1e-14)
    assert "named_model.py:11" in result
    for line in ("value[2] = ", "jacobian_1[9] = "):
        (comment,) = re.findall(rf"    {re.escape(line)}t\d+  # (.*)", text)
        assert comment == {"v": "orbit[2]", "j": "d orbit[2] / d y[1]"}[line[0]]


def test_values_of_loops_are_numbered(model):
    text = emitted(f"{model}:loop", "--shape", "3", *SCALARS)
    x, points = np.array([0.4, -0.9, 1.3]), 2.2
    result = values_by_comment(text, x, points)
    totals = np.cumsum(np.cos(x * points))
    for k in range(3):
        assert result[f"total, value {k + 1}"] == pytest.approx(totals[k], rel=1e-14)
        assert result[f"out[{k}]"] == pytest.approx(totals[k] * x[0], rel=1e-14)
    assert "# loop['total']" in text
    assert "# d loop['out'][2] / d x[1]" in text
    assert "# d loop['total'] / d points" in text


def test_entries_of_matrices_and_branches(model):
    text = emitted(f"{model}:image", "--shape", "2x2", "--shape", "2", "--derivative", "jvp")
    assert "def image_jvp(A, v, A_direction, v_direction):" in text
    A, v = np.array([[1.0, 2.0], [-0.5, 3.0]]), np.array([0.2, -0.7])
    result = values_by_comment(text, A, v, A, v)
    np.testing.assert_allclose([result["moved[0]"], result["moved[1]"]], A @ v, rtol=1e-14)
    assert result["norm"] == pytest.approx(np.linalg.norm(A @ v), rel=1e-14)
    assert "lambda" not in text
    assert "# change of image[1] along the direction" in text


def test_entries_of_every_kind(model):
    def comments(kind):
        text = emitted(f"{model}:energy", "--shape", "3", "--derivative", kind)
        return set(re.findall(r"^    \w+\[\d+\] = \S+  # (.*)$", text, re.M))

    gradient = {f"d energy / d x[{i}]" for i in range(3)}
    hessian = {f"d² energy / d x[{i}] d x[{j}]" for i, j in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2))}
    assert comments("gradient") == gradient
    assert comments("hessian") == hessian
    assert comments("value_gradient_hessian") == {"energy"} | gradient | hessian
    assert comments("vjp") == {"energy"} | {f"derivative by x[{i}]" for i in range(3)}
    assert comments("hvp") == {f"change of {entry} along the direction" for entry in gradient}
    assert comments("compile") == {"energy"}


def test_entries_of_which_some_are_stored_have_no_names(model):
    text = emitted(f"{model}:energy", "--shape", "3", "--derivative", "hessian", "--sparse", "csr")
    assert "hessian[0] = " in text
    assert " / d x" not in text


def test_names_that_the_source_needs_itself_get_an_underscore(model, scope):
    text = emitted(f"{model}:awkward", *SCALARS * 7)
    x = np.arange(1.0, 8.0)
    results = {}
    exec(text, results)
    assert "def awkward_jacobian(np_, special_, points_, t3_, lambda_, x0, value_):" in text
    value, *slopes = results["awkward_jacobian"](*x)
    assert value.item() == scope["awkward"](*x)
    assert np.ravel(slopes).tolist() == [3.0, 4.0, 1.0, 2.0, 42.0, 35.0, 30.0]
    text = emitted(f"{model}:spread", "--shape", "2", "--shape", "1", *SCALARS)
    exec(text, results)
    (value, by_t, by_x, by_t1) = results["spread_jacobian"](np.array([2.0, 3.0]), np.array([5.0]), 7.0)
    assert (value.item(), by_t.tolist(), by_x.item(), by_t1.item()) == (210.0, [105.0, 70.0], 42.0, 30.0)


def test_names_leave_the_tracer_of_a_debugger_as_it_was(scope):
    def mine(*_):
        return None

    before = sys.gettrace()
    sys.settrace(mine)
    try:
        result = named_values(scope["orbit"], [1.0, np.ones(4), 1.0])
        assert sys.gettrace() is mine
    finally:
        sys.settrace(before)
    assert {"radius", "pull", "force", "inner in twisted"} <= set(result.names.values())


def test_functions_of_other_libraries_have_no_names():
    import jax.numpy as jnp
    from jax import jit

    assert named_values(jit(lambda x: jnp.sin(x) * 2.0), [1.0]) is None


def test_functions_that_cannot_be_recorded_have_no_names():
    def f(x):
        return np.linalg.eigvals(np.array([[x, 1.0], [-1.0, x]]))

    assert named_values(f, [1.0]) is None
