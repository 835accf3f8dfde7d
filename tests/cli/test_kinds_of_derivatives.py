"""Every kind of derivative, and options of the API, on the command line."""

from __future__ import annotations

import inspect
import json
import sys

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import accumulus as acc
from accumulus.cli import app
from accumulus.cli.problem import known_kinds

MODEL = """
import numpy as np


def energy(x, p):
    return np.sum(np.sin(x) * x[::-1]) * p + x[0] * x[1] ** 2


def field(x, p):
    return {"a": x * p, "b": np.array([x[0] * x[1], p**2])}


def picked(x):
    return x[int(x[0])] ** 2
"""
SHAPES = ("--shape", "3", "--shape", "scalar", "--time-limit", "0")
X, P = np.array([0.4, -1.1, 0.8]), 1.7


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "derivative_model.py"
    path.write_text(MODEL)
    yield str(path)
    sys.modules.pop("derivative_model", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]


@pytest.fixture
def scope(model):
    results = {}
    exec(MODEL, results)
    return results


def run(*arguments):
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def emitted(*arguments):
    """The last function of emitted source."""
    results = {}
    exec(run("emit", *arguments), results)
    return [value for value in results.values() if inspect.isfunction(value)][-1]


def arrays(results):
    return [np.ravel(leaf) for leaf in jax.tree.leaves(results)]


@pytest.mark.parametrize("kind", known_kinds())
def test_source_of_every_kind(kind, model, scope):
    energy = scope["energy"]
    if kind in ("jvp", "hvp"):
        arguments = X, P, X + 1.0, 0.5
        expected = getattr(acc, kind)(energy, cache=False)((X, P), (X + 1.0, 0.5))
    elif kind == "vjp":
        arguments = X, P, 2.0
        expected = acc.vjp(energy, cache=False)((X, P), 2.0)
    elif kind == "compile":
        arguments, expected = (X, P), energy(X, P)
    else:
        arguments, expected = (X, P), getattr(acc, kind)(energy, (0, 1), cache=False)(X, P)
    actual = emitted(f"{model}:energy", *SHAPES, "--derivative", kind)(*arguments)
    for one, other in zip(actual if isinstance(actual, tuple) else [actual], arrays(expected), strict=True):
        np.testing.assert_allclose(np.ravel(one), other, rtol=1e-13)


def test_options_of_the_api(model, scope):
    command = (f"{model}:field", *SHAPES, "--derivative", "jacobian")
    by_p = emitted(*command, "--argnums", "1")(X, P)
    expected = acc.jacobian(scope["field"], 1, cache=False)(X, P)
    for one, other in zip(by_p, arrays(expected), strict=True):
        np.testing.assert_allclose(np.ravel(one), other, rtol=1e-13)
    sparse = run("emit", *command, "--sparse", "csr", "--dtype", "float32", "--target", "c")
    assert "float " in sparse
    assert "jacobian_0: 3 numbers" in sparse
    selected = emitted(*command, "--rows", "3", "--columns", "1", "--columns", "0")(X, P)
    np.testing.assert_allclose(np.ravel(selected), [X[0], X[1]], rtol=1e-15)
    some = emitted(*command, "--entries", "3,1", "--entries", "0,0")(X, P)
    np.testing.assert_allclose(np.ravel(some), [X[0], P], rtol=1e-15)
    assert "holds" in run("emit", f"{model}:picked", "--shape", "3", "--time-limit", "0")


def test_plans_and_comparisons(model):
    page = run("plan", f"{model}:energy", *SHAPES, "--derivative", "hessian", "--argnums", "0")
    assert page.startswith("Hessian of energy")
    data = json.loads(run("plan", f"{model}:energy", *SHAPES, "--derivative", "value_and_gradient", "--json"))
    assert data["returns"] == "value_and_gradient"
    assert data["jacobian_shape"] == [1, 4]
    assert {"trace", "linearize", "plan", "emit", "compile"} <= set(data["seconds"])
    rows = json.loads(run("compare", f"{model}:energy", *SHAPES, "--derivative", "hessian", "--json"))["methods"]
    assert {"edge-pushing", "symmetric", "markowitz"} <= {row["method"] for row in rows}
    assert "passed" in run(
        "check", f"{model}:field", *SHAPES[:4], "--argnums", "1", "--points", "1", "--method", "reverse"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("plan", "{model}:energy", *SHAPES, "--derivative", "hessain"), 1, "did you mean 'hessian'"),
        (("emit", "{model}:energy", *SHAPES, "--derivative", "jvp", "--argnums", "0"), 1, "respect to all arguments"),
        (("plan", "{model}:field", *SHAPES, "--derivative", "hessian"), 1, "needs a function that returns one number"),
        (("plan", "{model}:energy", *SHAPES, "--rows", "7"), 1, "rows of the derivative of energy have 7"),
        (("plan", "{model}:energy", *SHAPES, "--derivative", "gradient", "--rows", "0"), 1, "unknown option 'rows'"),
        (("emit", "{model}:energy", *SHAPES, "--entries", "zero"), 1, "expected ROW,COLUMN"),
        (("plan", "tests/data/graphs/HumanHeartDipole.json", "--sparse", "csr"), 2, "--sparse is for functions"),
    ],
)
def test_inconsistent_options(arguments, code, words, model):
    result = CliRunner().invoke(app, [argument.replace("{model}", model) for argument in arguments])
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.replace("│", " ").split())
