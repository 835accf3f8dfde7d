"""Long arrays of indices among the arguments: one program for all of them, with the derivatives that NumPy's have."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from inside import Context, Program, evaluate

import accumulus as acc
from accumulus.arrays.jacobian import differentiate
from accumulus.errors import ArgumentError, TraceError, VerificationError
from accumulus.options import Options

LENGTH = 70
RANDOM = np.random.default_rng(7)


def energy(x: Any, i: Any) -> Any:
    """Rows by indices, twice, of what is computed of the argument; results are added to rows by the same indices."""
    y = np.exp(0.1 * x).reshape(10, 3)
    near = np.sin(y[i]) * y[i[::-1]]
    sums = np.zeros((10, 3))
    np.add.at(sums, i, near)
    return np.sum(sums * sums * y)


def energy_gradient(x: Any, i: Any) -> Any:
    """The gradient of `energy`, by hand."""
    y = np.exp(0.1 * x).reshape(10, 3)
    back = i[::-1]
    near = np.sin(y[i]) * y[back]
    sums = np.zeros((10, 3))
    np.add.at(sums, i, near)
    weights = (2.0 * sums * y)[i]
    by_y = sums * sums
    np.add.at(by_y, i, weights * np.cos(y[i]) * y[back])
    np.add.at(by_y, back, weights * np.sin(y[i]))
    return (by_y * 0.1 * y).ravel()


def indices(low: int = -10, high: int = 10) -> Any:
    """Other indices each time."""
    return RANDOM.integers(low, high, LENGTH)


TABLE = RANDOM.normal(size=(10, 4))
WHOLE = RANDOM.integers(0, 10, 10)
X = RANDOM.normal(size=30)
V = RANDOM.normal(size=30)


def along(x: Any, i: Any, v: Any) -> Any:
    """The product of the Hessian of `energy` with a direction, by differences of its gradient."""
    step = 1e-6
    return (energy_gradient(x + step * v, i) - energy_gradient(x - step * v, i)) / (2.0 * step)


# Every way to ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "numpy", "c"])
def test_gradients_for_any_indices_are_one_program(target: str) -> None:
    gradient = acc.gradient(energy, target=target)
    for _ in range(4):
        i = indices()
        np.testing.assert_allclose(gradient(X, i), energy_gradient(X, i), rtol=1e-12)
    points = X + RANDOM.normal(size=(5, 30))
    many = np.stack([indices() for _ in points])
    expected = [energy_gradient(x, i) for x, i in zip(points, many, strict=True)]
    np.testing.assert_allclose(gradient.batch(points, many), expected, rtol=1e-12)
    np.testing.assert_allclose(
        gradient.batch(points, i, in_axes=(0, None))[2], energy_gradient(points[2], i), rtol=1e-12
    )
    np.testing.assert_allclose(gradient.batch(points, many, threads=2), expected, rtol=1e-12)
    assert len(gradient._compiled_programs()) == 1


def test_a_call_runs_compiled_code_once() -> None:
    """Rows are read and added by machine code, however they lie in memory, and guards are not computed apart."""

    def distance(x: Any, i: Any) -> Any:
        y = x.reshape(10, 3)
        return np.sum(np.sum(y[i] * y[i[::-1]], axis=1) ** 2)

    gradient = acc.gradient(distance, cache=False)
    for _ in range(3):
        i = indices()
        gradient(X, i)
        (cases,) = gradient._programs.values()
        (program,) = cases.programs
        loops, runs = program.kernel, list[int]()
        compute = loops._compute
        loops._compute = lambda *given, compute=compute, runs=runs: runs.append(0) or compute(*given)
        by_call = gradient(X, i)
        loops._compute = compute
        assert len(runs) == 1
        assert not loops._products
        y, near = X.reshape(10, 3), X.reshape(10, 3)[i] * X.reshape(10, 3)[i[::-1]]
        expected, slopes = np.zeros((10, 3)), 2.0 * near.sum(axis=1, keepdims=True)
        np.add.at(expected, i, slopes * y[i[::-1]])
        np.add.at(expected, i[::-1], slopes * y[i])
        np.testing.assert_allclose(by_call, expected.ravel(), rtol=1e-12)


def test_results_are_those_of_the_arguments_after_guards_were_asked_for() -> None:
    """They are computed with the guards, and arrays of the same arguments may change in between."""
    gradient = acc.gradient(energy, cache=False)
    x, i = X.copy(), indices()
    gradient(x, i)
    (program,) = gradient._compiled_programs()
    arguments = x, i
    assert program.holds(arguments)
    x += 0.1
    np.testing.assert_allclose(program.at(arguments), energy_gradient(x, i), rtol=1e-12)
    x += 0.1
    np.testing.assert_allclose(program(*arguments), energy_gradient(x, i), rtol=1e-12)


def test_all_kinds_of_products_are_one_program() -> None:
    kinds: dict[str, tuple[Any, Any, Any, Any]] = {
        "compile": (acc.compile(energy), lambda i: (X, i), lambda y: y, energy),
        "jvp": (acc.jvp(energy), lambda i: ((X, i), (V, None)), lambda y: y[1], lambda x, i: energy_gradient(x, i) @ V),
        "vjp": (acc.vjp(energy), lambda i: ((X, i), 2.0), lambda y: y[1][0], lambda x, i: 2.0 * energy_gradient(x, i)),
        "hvp": (acc.hvp(energy), lambda i: ((X, i), (V, None)), lambda y: y[0], lambda x, i: along(x, i, V)),
    }
    for name, (derivative, arguments, pick, expected) in kinds.items():
        for i in (indices(), indices()):
            np.testing.assert_allclose(pick(derivative(*arguments(i))), expected(X, i), rtol=1e-6, err_msg=name)
        assert len(derivative._compiled_programs()) == 1, name


def test_taylor_coefficients_go_by_indices() -> None:
    series = np.stack([V, 0.0 * V, 0.0 * V])
    i = indices()
    value, coefficients = acc.taylor(energy)((X, i), (series, None))
    _, expected = acc.taylor(lambda x: energy(x, i))((X,), (series,))
    assert value == pytest.approx(energy(X, i), rel=1e-13)
    np.testing.assert_allclose(coefficients, expected, rtol=1e-11)


def test_nested_derivatives_use_the_indices_of_the_call() -> None:
    outer = acc.gradient(lambda x, i: np.sum(acc.gradient(energy)(x, i) * V))
    for i in (indices(), indices()):
        np.testing.assert_allclose(outer(X, i), along(X, i, V), rtol=1e-6)


def test_source_for_jax_goes_by_indices() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    gradient = acc.gradient(energy)
    gradient(X, indices())
    scope: dict[str, Any] = {}
    exec(gradient.compile(X, indices()).source("jax", "f"), scope)
    i = indices()
    result = jax.jit(scope["f"])(jnp.asarray(X), jnp.asarray(i, float))[0]
    np.testing.assert_allclose(np.asarray(result), energy_gradient(X, i), rtol=1e-4)


def test_functions_of_jax_take_indices_that_are_integers() -> None:
    jax = pytest.importorskip("jax")
    jnp, table = jax.numpy, jax.numpy.asarray(TABLE)

    def f(x: Any, i: Any) -> Any:
        y = x.reshape(10, 3)
        return (
            jnp.sum(jnp.sin(y[i]) * table[i, :3]) + jnp.sum(jnp.take(y, i, axis=0)[::2] ** 3) + jnp.sum(y[:, 1][i // 2])
        )

    gradient, reference = acc.gradient(f), jax.jit(jax.grad(f))
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        for i in (indices(), indices()):
            np.testing.assert_allclose(gradient(X, i), reference(jnp.asarray(X), i), rtol=1e-12, atol=1e-14)
        assert len(gradient._compiled_programs()) == 1
        short = np.array([2, 2, 7])
        np.testing.assert_allclose(gradient(X, short), reference(jnp.asarray(X), short), rtol=1e-12, atol=1e-14)


def test_a_file_goes_by_indices(tmp_path: Path) -> None:
    gradient = acc.gradient(energy)
    gradient(X, indices())
    acc.save(gradient, tmp_path / "gradient")
    loaded, i = acc.load(tmp_path / "gradient"), indices()
    np.testing.assert_array_equal(loaded(X, i), gradient(X, i))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gradient))(X, i), gradient(X, i))


def test_the_report_names_loops_by_indices() -> None:
    gradient = acc.gradient(energy)
    gradient(X, indices())
    report = gradient.report()
    kinds = {row.kind for row in report.bodies}
    assert {f"{LENGTH} rows by indices", f"sums of {LENGTH} rows by indices"} <= kinds
    assert {guard.answer for guard in gradient.compile(X, indices()).recording.guards} == {"indices of 10 rows"}


# Every form of an index -----------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Any], list[int]]:
    """A shape, an index with places for open arrays, and the lengths of the axes that these are for."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    items: list[Any] = []
    lengths: list[int] = []
    for length in shape:
        kinds = ["open", "integer", "slice", "constant", "all"]
        kind = draw(st.sampled_from(kinds)) if length != shape[-1] or lengths else "open"
        if kind == "open":
            items.append("open")
            lengths.append(length)
        elif kind == "integer":
            items.append(draw(st.integers(-length, length - 1)))
        elif kind == "constant":
            items.append(RANDOM.integers(-length, length, LENGTH))
        else:
            items.append(slice(None) if kind == "all" else slice(draw(st.integers(0, length)), None, 1))
    if not lengths:
        items[0] = "open"
        lengths.append(shape[0])
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()) and items[-1] == slice(None):
        items[-1] = Ellipsis
    return shape, items, lengths


@settings(max_examples=8, deadline=None)
@given(cases(), st.booleans())
def test_any_index_selects_as_numpy_does(case: tuple[tuple[int, ...], list[Any], list[int]], table: bool) -> None:
    shape, items, lengths = case
    weights: list[Any] = []

    def index(arrays: Any) -> Any:
        remaining = iter(arrays)
        return tuple(next(remaining) if isinstance(item, str) else item for item in items)

    def f(x: Any, *arrays: Any) -> Any:
        selected = np.sin(x)[index(arrays)]
        return np.sum(selected * weights[0])

    x = RANDOM.normal(size=shape)
    first = [RANDOM.integers(-length, length, LENGTH) for length in lengths]
    weights.append(RANDOM.normal(size=np.shape(x[index(first)])))
    gradient = acc.value_and_gradient(f, target="numpy")
    for arrays in (first, [RANDOM.integers(-length, length, LENGTH) for length in lengths]):
        value, actual = gradient(x, *arrays)
        assert value == pytest.approx(f(x, *arrays), rel=1e-12, abs=1e-12)
        expected = np.zeros(shape)
        np.add.at(expected, index(arrays), weights[0])
        np.testing.assert_allclose(actual, expected * np.cos(x), rtol=1e-12, atol=1e-12)
    if weights[0].size:
        assert len(gradient._compiled_programs()) == 1


@pytest.mark.parametrize(
    ("f", "is_short"),
    [
        (lambda x, i: TABLE[i] @ x[:4] + x[WHOLE[i]], False),
        (lambda x, i: np.take(x.reshape(6, 5), np.abs(i) // 2, axis=1), False),
        (np.take, False),
        (lambda x, i: x.take(i)[:, None] * TABLE[i, 1:3], False),
        (lambda x, i: np.bincount(np.abs(i), x[i] ** 2, 12), False),
        (lambda x, i: np.take_along_axis(x.reshape(10, 3), np.stack([i, i + 1, -i], axis=1) % 10, axis=0), False),
        (lambda x, i: np.take_along_axis(x, i % 30, axis=None), False),
        (lambda x, i: np.take(x.reshape(6, 5), np.abs(i[:3]) // 2, axis=-1) + np.take(x[:6], abs(i[:6]) // 2)[0], True),
    ],
    ids=["constants", "take along an axis", "take", "method", "bincount", "along", "flat", "short"],
)
def test_functions_that_take_indices(f: Any, is_short: bool) -> None:
    compiled = acc.compile(f)
    for i in (indices(-9, 10), indices(-9, 10)):
        np.testing.assert_allclose(compiled(X, i), f(X, i), rtol=1e-12)
    assert len(compiled._compiled_programs()) == 1 + is_short


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
def test_entries_that_are_named_twice_are_changed_twice(ufunc: np.ufunc) -> None:
    def f(x: Any, i: Any, j: Any) -> Any:
        total = x.reshape(5, 3, 2) ** 2
        ufunc.at(total, (i, slice(None), j), x[:3])
        ufunc.at(total, i, 2.0)
        return total

    compiled = acc.compile(f)
    for _ in range(2):
        i, j = indices(-5, 5), indices(-2, 2)
        np.testing.assert_allclose(compiled(X, i, j), f(X, i, j), rtol=1e-12)
    assert len(compiled._compiled_programs()) == 1


# Indices that are none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [np.full(LENGTH, 10), np.full(LENGTH, -11), np.full(LENGTH, 0.5), np.full(LENGTH, np.nan), np.full(LENGTH, np.inf)],
    ids=["above", "below", "fraction", "nan", "infinite"],
)
def test_invalid_indices_raise_numpy_s_error(wrong: Any) -> None:
    gradient = acc.gradient(energy)
    for is_compiled in (False, True):
        with pytest.raises(IndexError):
            gradient(X, wrong)
        with pytest.raises(IndexError):
            gradient.batch(np.stack([X, X]), np.stack([indices() if is_compiled else wrong, wrong]))
        gradient(X, indices())
    assert len(gradient._compiled_programs()) == 1


def test_a_check_leaves_indices_as_they_are() -> None:
    report = acc.check(lambda x, i: np.sin(x[i]) * x[0], X, indices(), points=2)
    assert report.passed
    assert report.skipped == 0


def test_threads_share_rows_by_indices() -> None:
    i, x = RANDOM.integers(0, 1_000, 60_000), RANDOM.normal(size=1_000)
    gradient = acc.gradient(lambda x, i: np.sum(np.sin(x[i])), threads=2, check=False)
    expected = np.bincount(i, np.cos(x[i]), 1_000)
    for _ in range(3):
        np.testing.assert_allclose(gradient(x, i), expected, rtol=1e-12)


def test_short_indices_and_bodies_are_as_they_were() -> None:
    gradient = acc.gradient(lambda x, i: np.sum(x[i] ** 2))
    for i in (np.array([1, 2]), np.array([3, 3])):
        expected = np.zeros(30)
        np.add.at(expected, i, 2.0 * X[i])
        np.testing.assert_allclose(gradient(X, i), expected)
    assert len(gradient._compiled_programs()) == 2
    with pytest.raises(TraceError):
        acc.gradient(energy, guards="error")(X, indices())
    i = indices()
    np.testing.assert_allclose(acc.gradient(energy, exact_order=True)(X, i), energy_gradient(X, i), rtol=1e-12)


# Jacobians and Hessians -----------------------------------------------------------------------------------------------


def residuals(p: Any, q: Any, i: Any, j: Any) -> Any:
    """Two arrays of what two arguments have at indices."""
    a, b = p.reshape(10, 3)[i], q[j]
    return {"r": np.sin(a).sum(axis=1) * b, "s": (a[:, :2] * a[::-1, 1:]).ravel() + p[0]}


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_sparse_jacobians_compute_positions_in_a_call(fmt: str) -> None:
    jacobian = acc.jacobian(residuals, argnums=(0, 1), sparse=fmt)
    q = RANDOM.normal(size=8)
    for turn in range(4):
        i, j = indices(), indices(-8, 8)
        actual = jacobian(X, q, i, j)
        expected = acc.jacobian(lambda p, q, i=i, j=j: residuals(p, q, i, j), argnums=(0, 1))(X, q)
        for name in "rs":
            for k in range(2):
                matrix = actual[name][k]
                assert matrix.format == fmt
                assert matrix.nnz == len(set(zip(*matrix.tocoo().coords, strict=True)))
                np.testing.assert_allclose(
                    matrix.toarray(), expected[name][k].reshape(matrix.shape), rtol=1e-12, atol=1e-14
                )
        assert len(jacobian._compiled_programs()) == min(turn + 1, 2)
    pattern, matrix = jacobian.pattern["s"][0], actual["s"][0].tocoo()
    assert {*zip(pattern.rows, pattern.columns, strict=True)} == {*zip(*matrix.coords, strict=True)}
    batch = jacobian.batch(np.stack([X, 2.0 * X]), np.stack([q, q]), np.stack([i, i[::-1]]), np.stack([j, j]))
    other = acc.jacobian(lambda p, q: residuals(p, q, i[::-1], j), argnums=(0, 1))(2.0 * X, q)
    np.testing.assert_allclose(batch["s"][0][1].toarray(), other["s"][0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(batch["s"][0].toarray()[1], other["s"][0], rtol=1e-12, atol=1e-14)


def test_fixed_positions_are_compiled_for_each_index_array() -> None:
    jacobian, q = acc.jacobian(residuals, sparse="csr"), RANDOM.normal(size=8)
    for i in (indices(), indices(), indices()):
        jacobian(X, q, i, np.arange(LENGTH) % 8)
    matrix = jacobian(X, q, i, np.arange(LENGTH) % 8)["s"]
    np.testing.assert_array_equal(jacobian.nonzeros(X, q, i, np.arange(LENGTH) % 8)["s"], matrix.data)
    pattern = jacobian.pattern["s"]
    np.testing.assert_array_equal(pattern.indices, matrix.indices)


def test_consumers_of_fixed_positions_raise(tmp_path: Path) -> None:
    jacobian = acc.jacobian(lambda x, i: np.sin(x[i]), sparse="csr")
    for i in (indices(), indices()):
        jacobian(X, i)
    with pytest.raises(ArgumentError, match="depend on indices"):
        jacobian.batch(np.stack([X, X]), np.stack([i, i]), out=np.empty((2, LENGTH)))
    with pytest.raises(ArgumentError, match="depend on indices"):
        acc.save(jacobian, tmp_path / "file")


def test_matrices_by_indices_of_constants_are_one_program_from_the_second_on() -> None:
    def f(w: Any, i: Any) -> Any:
        return np.sin(TABLE[i] @ w)

    w = RANDOM.normal(size=4)
    jacobian, hessian = acc.jacobian(f), acc.hessian(lambda w, i: np.sum(f(w, i)))
    for _ in range(4):
        i = indices()
        rows, angles = TABLE[i], TABLE[i] @ w
        np.testing.assert_allclose(jacobian(w, i), np.cos(angles)[:, None] * rows, rtol=1e-12)
        np.testing.assert_allclose(hessian(w, i), -(rows.T * np.sin(angles)) @ rows, rtol=1e-10, atol=1e-12)
    assert len(jacobian._compiled_programs()) == len(hessian._compiled_programs()) == 2


def test_hessians_and_fixed_positions_have_a_program_for_each() -> None:
    hessian = acc.hessian(energy)
    selection = acc.jacobian(lambda x, i: np.exp(x)[i] * x[0], sparse="csr")
    for _ in range(3):
        i = indices()
        np.testing.assert_allclose(hessian(X, i) @ V, along(X, i, V), rtol=1e-6)
        expected = np.zeros((LENGTH, 30))
        np.add.at(expected, (np.arange(LENGTH), i), np.exp(X)[i] * X[0])
        expected[:, 0] += np.exp(X)[i]
        np.testing.assert_allclose(selection(X, i).toarray(), expected, rtol=1e-12)
    assert len(hessian._compiled_programs()) == len(selection._compiled_programs()) == 3


# Programs -------------------------------------------------------------------------------------------------------------


def program(rows: int = 6, selected: int = 5) -> Program:
    """Squares of rows of two by indices, and sums of these by the same indices."""
    result = Program(2 * rows + selected)
    at = np.arange(2 * rows, 2 * rows + selected)
    taken = result.gather(np.arange(2 * rows).reshape(rows, 2), at)
    squares = result.apply("multiply", taken, taken)
    result.outputs = result.scatter(squares, at, rows).ravel()
    return result


def test_derivatives_between_arrays_are_verified() -> None:
    def wrong(self: Any, code: int, terms: Any, indices: Any, rows: int) -> Any:
        return right(self, code, terms, np.roll(indices, 1), rows)

    from accumulus.arrays.structured import Structured

    right = Structured._by_indices
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Structured, "_by_indices", wrong)
        with pytest.raises(VerificationError):
            differentiate(program(), np.arange(12), Context(Options()))
    result = differentiate(program(), np.arange(12), Context(Options()))
    x = np.concatenate([RANDOM.normal(size=12), [0.0, 3.0, 3.0, -1.0, 5.0]])
    matrix = np.zeros((12, 12))
    matrix[result.rows, result.columns] = evaluate(result.tape, x)[result.values :]
    counts = np.array([1, 0, 0, 2, 0, 2])
    np.testing.assert_allclose(matrix, np.diag(2.0 * x[:12] * np.repeat(counts, 2)), atol=1e-14)
