"""C that CasADi loads: `accumulus build --layout casadi`, and `acc.casadi.nlpsol`, against CasADi's own derivatives."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from inside import app
from typer.testing import CliRunner

import accumulus as acc
from accumulus.api.casadi_source import function_source, nlp_source
from accumulus.errors import ArgumentError
from accumulus.targets.c.c_target import LANGUAGE, compiler, shared_library

ca = pytest.importorskip("casadi")
pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler here")

QUICK = {"effort": "fast", "time_limit": 0.0, "cache": False}
QUIET = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes", "ipopt.tol": 1e-10}


def loaded(text, name, tmp_path):
    shared_library(text, tmp_path / f"{name}.so")
    return ca.external(name, str(tmp_path / f"{name}.so"))


def products(A, x):
    return {"product": A @ x, "scaled": A * x, "norm": np.sum(x**2)}


def test_functions_and_jacobians_of_matrices(tmp_path):
    A, x = np.arange(6.0).reshape(2, 3) + 1.0, np.array([1.0, -2.0, 3.0])
    f = loaded(function_source(products, [A, x], "f", **QUICK), "f", tmp_path)
    assert (f.n_in(), f.n_out(), f.size_in(0), f.size_out(1)) == (2, 3, (2, 3), (2, 3))
    a, b = ca.MX.sym("a", 2, 3), ca.MX.sym("b", 3)
    same = [ca.mtimes(a, b), a * ca.repmat(b.T, 2, 1), ca.dot(b, b)]
    for mine, other in zip(f(a, b), same, strict=True):
        ours, theirs = (
            ca.Function("J", [a, b], [result, ca.jacobian(result, a), ca.jacobian(result, b)])(A, x)
            for result in (mine, other)
        )
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-14)
            assert one.sparsity() == two.sparsity()


def test_second_derivatives_of_functions(tmp_path):
    A, x = np.arange(6.0).reshape(2, 3) + 1.0, np.array([1.0, -2.0, 3.0])
    f = loaded(function_source(products, [A, x], "f", **QUICK), "f", tmp_path)
    a, b, w, v = ca.MX.sym("a", 2, 3), ca.MX.sym("b", 3), ca.MX.sym("w", 2, 3), ca.MX.sym("v", 2)

    def derivatives(results):
        product, scaled, norm = results(ca.sin(a), 2.0 * b)
        value = ca.dot(v, product) + ca.dot(w, scaled * scaled) + ca.exp(0.01 * norm)
        z = ca.vertcat(ca.vec(a), b)
        second, first = ca.hessian(value, z)
        return ca.Function("D", [a, b, w, v], [first, second, ca.jacobian(first, v), ca.jacobian(first, w)])

    rng = np.random.default_rng(0)
    point = A / 5, x / 3, rng.normal(size=(2, 3)), rng.normal(size=2)
    actual = derivatives(f)(*point)
    expected = derivatives(lambda a, b: (ca.mtimes(a, b), a * ca.repmat(b.T, 2, 1), ca.dot(b, b)))(*point)
    for one, two in zip(actual, expected, strict=True):
        assert one.sparsity() == two.sparsity()
        np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-12, atol=1e-12)


def objective(x, p):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (p[0] - x[:-1]) ** 2)


def constraints(x, p):
    return x[:-1] * x[1:] + np.sin(p[1] * x[1:])


def problem(n, symbol=ca.MX):
    x, p = symbol.sym("x", n), symbol.sym("p", 2)
    f = ca.sum1(100 * (x[1:] - x[:-1] ** 2) ** 2 + (p[0] - x[:-1]) ** 2)
    return {"x": x, "p": p, "f": f, "g": x[:-1] * x[1:] + ca.sin(p[1] * x[1:])}


def test_a_nonlinear_program_is_that_of_casadi(tmp_path):
    n = 8
    text = nlp_source(objective, constraints, np.zeros(n), np.ones(2), **QUICK)
    theirs = ca.nlpsol("theirs", "ipopt", problem(n), QUIET)
    shared_library(text, tmp_path / "nlp.so")
    rng = np.random.default_rng(0)
    x, p, sigma, weights = rng.normal(size=n), rng.normal(size=2), 1.5, rng.normal(size=n - 1)
    for name in ("nlp_f", "nlp_g", "nlp_grad_f", "nlp_jac_g", "nlp_hess_l", "nlp_grad"):
        ours, reference = ca.external(name, str(tmp_path / "nlp.so")), theirs.get_function(name)
        assert ours.name_in() == [each.replace(":", "_") for each in reference.name_in()]
        assert ours.name_out() == [each.replace(":", "_") for each in reference.name_out()]
        for one, two in zip(
            ours.call([x, p, sigma, weights][: ours.n_in()]),
            reference.call([x, p, sigma, weights][: reference.n_in()]),
            strict=True,
        ):
            assert one.sparsity() == two.sparsity()
            np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-12, atol=1e-12)


def test_ipopt_takes_our_derivatives():
    n = 8
    ours = acc.casadi.nlpsol(
        "ours", "ipopt", objective, constraints, np.zeros(n), np.ones(2), solver_options=QUIET, **QUICK
    )
    theirs = ca.nlpsol("theirs", "ipopt", problem(n), QUIET)
    bounds = {"x0": np.full(n, 0.5), "p": [1.0, 1.1], "lbg": 0.5, "ubg": 1.2}
    actual, expected = ours(**bounds), theirs(**bounds)
    assert ours.stats()["success"]
    assert ours.stats()["iter_count"] == theirs.stats()["iter_count"]
    for name, value in expected.items():
        np.testing.assert_allclose(np.array(actual[name]), np.array(value), rtol=1e-8, atol=1e-9, err_msg=name)


def test_functions_of_other_kinds_and_without_parameters():
    x = ca.SX.sym("x", 2)
    f = ca.Function("f", [x], [(x[0] - 2) ** 2 + x[1] ** 2])
    solver = acc.casadi.nlpsol("s", "ipopt", f, lambda x: x[0] * x[1], np.ones(2), solver_options=QUIET, **QUICK)
    result = solver(x0=[1.0, 1.0], lbg=1.0, ubg=1.0)
    np.testing.assert_allclose(np.prod(np.array(result["x"])), 1.0, rtol=1e-8)
    assert result["lam_p"].is_empty()


def test_c_has_no_warnings_and_long_arrays_are_loops(tmp_path):
    text = nlp_source(objective, constraints, np.zeros(300), np.ones(2), **QUICK)
    assert len(text) < 200_000
    (tmp_path / "nlp.c").write_text(text + function_source(products, [np.ones((2, 3)), np.ones(3)], "f", **QUICK))
    strict = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([*compiler(), *LANGUAGE, *strict, "nlp.c"], check=True, cwd=tmp_path)


MODEL = """
import numpy as np


def cost(x):
    return np.sum((x - 1.0) ** 2)


def limit(x):
    return x[:-1] * x[1:]
"""


def test_builds(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    model, out = f"{tmp_path}/model.py", tmp_path / "out"
    quick = ("--effort", "fast", "--time-limit", "0", "-o", str(out), "--shape", "3", "--layout", "casadi")

    def built(*arguments):
        return CliRunner().invoke(app, ["build", *arguments, *quick])

    assert built(f"{model}:limit", "--target", "library").exit_code == 0
    f = ca.external("limit", str(out / "liblimit.so"))
    x = ca.MX.sym("x", 3)
    slopes = ca.Function("J", [x], [ca.jacobian(f(x), x)])([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.array(slopes), [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]])
    assert built(f"{model}:cost", "--constraints", "limit", "--target", "library").exit_code == 0
    solver = ca.nlpsol("s", "ipopt", str(out / "libnlp.so"), QUIET)
    actual = np.array(solver(x0=1.5, lbg=4.0)["x"]).ravel()
    assert solver.stats()["success"]
    assert (actual[:-1] * actual[1:] >= 4.0 - 1e-6).all()
    assert (out / "nlp.c").exists()
    for arguments, message in (
        (("--target", "wheel"), "--layout casadi is for C and libraries"),
        (("--target", "c", "--dtype", "float32"), "dtype was given"),
        (("--target", "c", "--constraints", "limits"), "did you mean 'limit'"),
    ):
        result = built(f"{model}:cost", *arguments)
        assert result.exit_code == 1
        assert message in " ".join(result.output.split())


def test_invalid_nonlinear_programs_raise():
    with pytest.raises(ArgumentError, match="expected one number, which is minimised"):
        nlp_source(lambda x: x, lambda x: x, np.ones(2), **QUICK)
    with pytest.raises(ArgumentError, match="expected one vector, or a number"):
        nlp_source(lambda x: x[0], lambda x: (x, x), np.ones(2), **QUICK)
    with pytest.raises(ArgumentError, match="expected vectors or numbers"):
        nlp_source(lambda x: x[0, 0], lambda x: x, np.ones((2, 2)), **QUICK)
    with pytest.raises(ArgumentError, match="two axes at most"):
        function_source(lambda x: x, [np.ones((2, 2, 2))], "f", **QUICK)
    with pytest.raises(ArgumentError, match="keyword"):
        function_source(lambda x: x, [1.0], "double", **QUICK)
