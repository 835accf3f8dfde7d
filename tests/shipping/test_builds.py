"""Results of ``accumulus build``: C, a library and a wheel return the numbers of the library itself."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import zipfile
from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inside import app
from typer.testing import CliRunner

import accumulus as acc
from accumulus.cli.application import OF_DERIVATIVES, OPTIONS
from accumulus.errors import ArgumentError
from accumulus.options import Options
from accumulus.shipping.c_projects import CProject
from accumulus.shipping.wheels import write_wheel


def chain_of_jax(x):
    return {"inner": jnp.sin(x[1:]) * x[:-1], "sum": jnp.sum(x) * x[0]}


def energy_of_jax(x, p):
    return jnp.sum(jnp.sin(x) * x[::-1]) * p + x[0] * x[1] ** 2


QUICK = ("--effort", "fast", "--time-limit", "0")
MODEL = """
import numpy as np


def pendulum(state, damping):
    return np.array([state[1], -9.81 * np.sin(state[0]) - damping * state[1] ** 3])


def chain(x):
    return {"inner": x[1:] * x[:-1], "sum": np.sum(x) * x[0]}


def halves(x):
    while x < 0.5:
        x = 2.0 * x
    return x * x


def long(x):
    return np.sin(x) * np.roll(x, 1)


def chain_of(x):
    return {"inner": np.sin(x[1:]) * x[:-1], "sum": np.sum(x) * x[0]}


def energy(x, p):
    return np.sum(np.sin(x) * x[::-1]) * p + x[0] * x[1] ** 2
"""

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler here"
)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def pendulum(state, damping):
    return np.array([state[1], -9.81 * np.sin(state[0]) - damping * state[1] ** 3])


def built(*arguments):
    result = CliRunner().invoke(app, ["build", *arguments, *QUICK])
    assert result.exit_code == 0, result.output
    return result


USE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import swing
value, jacobian = swing.swing([0.1, 0.4], 0.2)
print(value.tolist(), jacobian.tolist(), type(value).__name__)
values, jacobians = swing.batch(np.array([[0.1, 0.4], [0.3, -0.2]]), damping=0.2)
assert np.allclose(values[0], value, rtol=1e-14) and np.allclose(jacobians[0], jacobian, rtol=1e-14)
print(jacobians.shape)
for wrong in (lambda: swing.swing(np.zeros(3), 0.2), lambda: swing.batch(np.zeros(2), 0.2),
              lambda: swing.batch(np.zeros((3, 2)), np.zeros(4)), lambda: swing.swing(np.zeros(2) * 1j, 0.2)):
    try:
        wrong()
    except (ValueError, TypeError) as error:
        print(error)
assert not any(name.startswith(("accumulus", "scipy", "llvmlite")) for name in sys.modules)
"""


def test_a_wheel_is_installed_and_called_elsewhere(model, tmp_path):
    built(
        f"{model}:pendulum", "--shape", "2", "--shape", "scalar", "--name", "swing", "--output", str(tmp_path / "out")
    )
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name.startswith("swing-0.1.0-py3-none-")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)
    command = [sys.executable, "-I", "-c", USE, tmp_path / "site"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.splitlines()
    value, jacobian = acc.value_and_jacobian(pendulum, effort="fast", time_limit=0.0)(np.array([0.1, 0.4]), 0.2)
    shown = lines[0].removesuffix(" ndarray")
    assert shown == f"{value.tolist()} {jacobian.tolist()}"
    assert lines[1] == "(2, 2, 2)"
    assert ["shape (3,)" in lines[2], "axis of points" in lines[3], "axis of 3" in lines[4], "complex" in lines[5]] == [
        True
    ] * 4
    stubs = (tmp_path / "site" / "swing" / "__init__.pyi").read_text()
    assert "def swing(state: ArrayLike, damping: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]" in stubs
    assert (tmp_path / "site" / "swing" / "py.typed").exists()


def test_sources_and_a_library(model, tmp_path):
    out = tmp_path / "out"
    built(f"{model}:pendulum", "--shape", "2", "--shape", "scalar", "--target", "library", "-o", str(out))
    assert sorted(path.name for path in out.iterdir()) == [
        "CMakeLists.txt",
        "libpendulum.so",
        "pendulum.c",
        "pendulum.h",
    ]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([shutil.which("gcc") or "cc", *strict, "pendulum.c"], check=True, cwd=out)
    library = ctypes.CDLL(str(out / "libpendulum.so"))
    state, damping, value, jacobian = np.array([0.1, 0.4]), np.array([0.2]), np.empty(2), np.empty((2, 2))
    library.pendulum(*[ctypes.c_void_p(each.ctypes.data) for each in (state, damping, value, jacobian)])
    expected = acc.value_and_jacobian(pendulum, effort="fast", time_limit=0.0)(state, 0.2)
    np.testing.assert_allclose(value, expected[0], rtol=1e-14)
    np.testing.assert_allclose(jacobian, expected[1], rtol=1e-14)
    if shutil.which("cmake"):
        subprocess.run(["cmake", "-S", ".", "-B", "build"], check=True, cwd=out, capture_output=True)
        subprocess.run(["cmake", "--build", "build"], check=True, cwd=out, capture_output=True)


def imported(wheel, name, tmp_path, monkeypatch):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / name)
    monkeypatch.syspath_prepend(tmp_path / name)
    return __import__(name)


def test_sparse_results_and_dicts(model, tmp_path, monkeypatch):
    shared = ("--shape", "4", "--derivative", "jacobian", "--sparse", "csr", "-o", str(tmp_path))
    built(f"{model}:chain", *shared, "--name", "chain_jacobian")
    (wheel,) = tmp_path.glob("*.whl")
    package = imported(wheel, "chain_jacobian", tmp_path, monkeypatch)
    x = np.array([0.3, 0.7, 1.1, 0.2])
    scope = {}
    exec(MODEL, scope)
    expected = acc.jacobian(scope["chain"], sparse="csr", effort="fast", time_limit=0.0)(x)
    actual = package.chain_jacobian(x)
    assert list(actual) == ["inner", "sum"]
    for k, (key, matrix) in enumerate(expected.items()):
        rows, columns = package.PATTERNS[f"jacobian_{k}"]
        dense = np.zeros(matrix.shape)
        dense[rows, columns] = actual[key]
        np.testing.assert_allclose(dense, matrix.toarray(), rtol=1e-14)
    built(f"{model}:chain", *shared, "--target", "c")
    assert "extern const int chain_jacobian_0_rows[6];" in (tmp_path / "chain.h").read_text()
    assert "const int chain_jacobian_0_rows[6] = {0, 0, 1, 1, 2, 2};" in (tmp_path / "chain.c").read_text()


@pytest.mark.parametrize("kind", ["jvp", "vjp", "hvp"])
def test_products_with_directions_and_weights(kind, model, tmp_path, monkeypatch):
    scope, rng = {}, np.random.default_rng(0)
    exec(MODEL, scope)
    directions = rng.normal(size=(5, 4)), rng.normal(size=5)
    if kind == "vjp":
        name, more = "chain_of", {"inner": rng.normal(size=(5, 3)), "sum": rng.normal(size=5)}
        arguments, names, directions = (
            ((directions[0],), more),
            ("x", "weights_0", "weights_1"),
            (directions[0], *more.values()),
        )
        of_jax = jax.vmap(lambda x, *w: jax.vjp(chain_of_jax, x)[1](dict(zip(more, w, strict=True))))
        shapes = ("--shape", "4")
    else:
        name, more = "energy", (rng.normal(size=(5, 4)), rng.normal(size=5))
        arguments, names, directions = (
            (directions, more),
            ("x", "p", "x_direction", "p_direction"),
            (*directions, *more),
        )
        slope = energy_of_jax if kind == "jvp" else jax.grad(energy_of_jax, (0, 1))
        of_jax = jax.vmap(lambda *g: jax.jvp(slope, g[:2], g[2:])[1])
        shapes = ("--shape", "4", "--shape", "scalar")
    package = f"{name}_{kind}"
    shared = (f"{model}:{name}", *shapes, "--derivative", kind, "--name", package, "-o", str(tmp_path / "out"))
    built(*shared)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    module = imported(wheel, package, tmp_path, monkeypatch)
    expected = getattr(acc, kind)(scope[name], effort="fast", time_limit=0.0).batch(*arguments)
    for results in (module.batch(*directions), module.batch(**dict(zip(names, directions, strict=True)))):
        for actual, other in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(actual, other, rtol=1e-12)
    with jax.enable_x64(True):
        reference = of_jax(*directions)
    products = module.batch(*directions) if kind == "hvp" else module.batch(*directions)[1]
    for actual, other in zip(jax.tree.leaves(products), jax.tree.leaves(reference), strict=True):
        np.testing.assert_allclose(actual, other, rtol=1e-12)
    stubs = (tmp_path / package / package / "__init__.pyi").read_text()
    assert f"def {package}({', '.join(f'{each}: ArrayLike' for each in names)}) -> " in stubs
    built(*shared, "--target", "library")
    assert f"a{len(names) - 1} is {names[-1]} */" in (tmp_path / "out" / f"{package}.h").read_text()
    library = ctypes.CDLL(str(tmp_path / "out" / f"lib{package}.so"))
    results = [np.empty(np.shape(each[1])) for each in jax.tree.leaves(module.batch(*directions))]
    point = [np.array(each[1]) for each in directions]
    getattr(library, package)(*[ctypes.c_void_p(each.ctypes.data) for each in (*point, *results)])
    for actual, other in zip(results, jax.tree.leaves(module.batch(*directions)), strict=True):
        np.testing.assert_allclose(actual, other[1], rtol=1e-12)


def test_selected_entries(model, tmp_path, monkeypatch):
    shared = (f"{model}:pendulum", "--shape", "2", "--shape", "scalar", "--argnums", "0", "--argnums", "1")
    entries = ("--entries", "1,0", "--entries", "1, 2", "--entries", "0,0", "-o", str(tmp_path))
    built(*shared, *entries, "--name", "swing_entries")
    (wheel,) = tmp_path.glob("*.whl")
    package = imported(wheel, "swing_entries", tmp_path, monkeypatch)
    state = np.array([0.1, 0.4])
    value, actual = package.swing_entries(state, 0.2)
    np.testing.assert_allclose(value, pendulum(state, 0.2), rtol=1e-14)
    np.testing.assert_allclose(actual, [-9.81 * np.cos(0.1), -(0.4**3), 0.0], rtol=1e-14)


def test_a_case_is_checked(tmp_path, monkeypatch):
    scope = {}
    exec(MODEL, scope)
    program = acc.gradient(scope["halves"], target="numpy", effort="fast", time_limit=0.0).compile(0.9)
    wheel = write_wheel(CProject.of(program, "halves", ["x"]), tmp_path, version="1.0", native=True)
    package = imported(wheel, "halves", tmp_path, monkeypatch)
    assert float(package.halves(0.9)) == 1.8
    for call in (lambda: package.halves(0.1), lambda: package.batch(np.array([0.9, 0.1]))):
        with pytest.raises(ValueError, match="takes another branch"):
            call()


def test_loops_over_long_arrays(model, tmp_path, monkeypatch):
    shared = ("--shape", "6000", "--sparse", "csr", "--name", "long_loops", "-o", str(tmp_path / "out"))
    built(f"{model}:long", *shared)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    package = imported(wheel, "long_loops", tmp_path, monkeypatch)
    scope = {}
    exec(MODEL, scope)
    X = np.random.default_rng(0).uniform(size=(3, 6000))
    values, jacobian = acc.value_and_jacobian(scope["long"], sparse="csr", effort="fast", time_limit=0.0)(X[1])
    for result in (package.long_loops(X[1]), [each[1] for each in package.batch(X)]):
        np.testing.assert_allclose(result[0], values, rtol=1e-13)
        np.testing.assert_allclose(result[1], jacobian.data, rtol=1e-13)
    np.testing.assert_array_equal(package.PATTERNS["jacobian"][1], jacobian.indices)
    built(f"{model}:long", *shared, "--target", "library")
    library = ctypes.CDLL(str(tmp_path / "out" / "liblong_loops.so"))
    value, nonzeros, work = np.empty(6000), np.empty(12000), np.empty(library.long_loops_work_size())
    library.long_loops(*[ctypes.c_void_p(each.ctypes.data) for each in (X[1], value, nonzeros, work)])
    np.testing.assert_allclose(nonzeros, jacobian.data, rtol=1e-13)


def test_functions_that_cannot_be_built(model, tmp_path):
    for arguments, message in (
        (("--target", "rust"), "unknown target 'rust'"),
        (("--derivative", "jacobain"), "did you mean 'jacobian'"),
        (("--name", "../x"), "--name gives one"),
        (("--package-version", "1/2"), "--package-version"),
        (("--dtype", "int8"), "unknown dtype"),
        (("--argnums", "7"), "argnums is 7"),
        (("--entries", "0"), "expected ROW,COLUMN"),
        (("--entries", "0,9"), "columns have 9"),
        (("--entries", "0,0", "--rows", "1"), "and rows or columns"),
        (("--derivative", "jvp", "--entries", "0,0"), "unknown option 'entries'"),
        (("--layout", "casadi", "--target", "c", "--derivative", "hessian"), "derivatives that CasADi calls"),
    ):
        command = ["build", f"{model}:pendulum", "--shape", "2", "--shape", "scalar", *arguments, *QUICK]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 1, result.output
        assert message in " ".join(result.output.split()), result.output
    project = CProject.of(acc.compile(lambda x: {1: x}, target="numpy").compile(0.9), "f", ["x"])
    with pytest.raises(ArgumentError, match="a wheel returns arrays in tuples"):
        write_wheel(project, tmp_path, version="1.0", native=True)


def test_every_option_of_the_api_is_one_of_the_command_line():
    # what shares in a search, and callbacks, are no text; each has targets; nothing changes while a command runs
    excluded = {"executor", "progress", "target", "watch", "assume"}
    assert {option.name for option in fields(Options)} - excluded == OPTIONS.keys() - set(OF_DERIVATIVES)
