"""Bound calls, and results written to the caller's arrays at one point."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, CaseError

QUICK = {"effort": "fast", "time_limit": 0.0, "cache": False}
X = np.array([0.3, 0.8, 1.7])


def swirl(x):
    return np.sin(x) * x[0] + np.roll(x, 1) ** 2


def energy(x):
    return np.sum(np.cos(x) * x[::-1])


def long_energy(x):
    y = np.tile(x, 500)
    return np.sum(np.sin(y[1:]) * y[:-1])


def halved(x):
    """The number of turns depends on the numbers, so there is a program for each."""
    while x[0] > 0.5:
        x = x / 2
    return x * x[1]


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves(tree[key])]
    if isinstance(tree, tuple | list):
        return [leaf for each in tree for leaf in leaves(each)]
    return [tree.data if hasattr(tree, "indptr") else np.asarray(tree)]


def are_equal(one, other):
    pairs = [*zip(leaves(one), leaves(other), strict=True)]
    return bool(pairs) and all(np.array_equal(a, b) for a, b in pairs)


def at(shift):
    return X + shift


SEED, WEIGHT = np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.5, -1.0])
#: Derivatives with the arguments that they are bound to, as copies, each with an array that is changed.
CASES = {
    "jacobian": (acc.jacobian(swirl, **QUICK), lambda x: (x,)),
    "value and jacobian": (acc.value_and_jacobian(swirl, **QUICK), lambda x: (x,)),
    "gradient": (acc.gradient(energy, **QUICK), lambda x: (x,)),
    "value and gradient": (acc.value_and_gradient(energy, **QUICK), lambda x: (x,)),
    "hessian": (acc.hessian(energy, **QUICK), lambda x: (x,)),
    "all three": (acc.value_gradient_hessian(energy, **QUICK), lambda x: (x,)),
    "jvp": (acc.jvp(swirl, **QUICK), lambda x: ((x,), (SEED,))),
    "vjp": (acc.vjp(swirl, **QUICK), lambda x: ((x,), WEIGHT)),
    "hvp": (acc.hvp(energy, **QUICK), lambda x: ((x,), (SEED,))),
    "function": (acc.compile(swirl, **QUICK), lambda x: (x,)),
    "nonzeros": (acc.jacobian(lambda x: x[:2] * x[1:], sparse="csr", **QUICK), lambda x: (x,)),
    "loops": (acc.value_and_gradient(long_energy, **QUICK), lambda x: (x,)),
    "numpy": (acc.jacobian(swirl, target="numpy", **QUICK), lambda x: (x,)),
    "c": (acc.jacobian(swirl, target="c", **QUICK), lambda x: (x,)),
    "two arguments": (acc.jacobian(lambda s, x: s * swirl(x), argnums=(0, 1), **QUICK), lambda x: (2.0, x)),
    "constant": (acc.jacobian(lambda x, how: swirl(x) if how else x, static_argnums=1, **QUICK), lambda x: (x, "yes")),
    "containers": (acc.gradient(lambda p: energy(p["x"]) * p["s"][0], **QUICK), lambda x: ({"x": x, "s": (3.0,)},)),
    "selected": (acc.jacobian(swirl, rows=[0, 2], **QUICK), lambda x: (x,)),
    "checked": (acc.jacobian(swirl, check_finite=True, **QUICK), lambda x: (x,)),
    "branches": (acc.jacobian(halved, **QUICK), lambda x: (x,)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bound_call_reads_and_writes_the_same_arrays(name):
    derivative, arguments = CASES[name]
    x = X.copy()
    call = derivative.bind(*arguments(x))
    first = call()
    kept = [id(leaf) for leaf in leaves(call.out)]
    for shift in (0.0, 0.25, 3.0):
        x[:] = at(shift)
        assert call() is first is call.out
        assert are_equal(call.out, derivative(*arguments(at(shift))))
    assert [id(leaf) for leaf in leaves(call.out)] == kept
    own = [np.full_like(leaf, np.nan) for leaf in leaves(call.out)]
    x[:] = X
    derivative.bind(*arguments(x), out=own)()
    assert are_equal(own, derivative(*arguments(X)))


@pytest.mark.parametrize("name", CASES)
def test_results_are_written_to_the_callers_arrays(name):
    derivative, arguments = CASES[name]
    own = [np.full_like(leaf, np.nan) for leaf in leaves(derivative.bind(*arguments(X.copy())).out)]
    for shift in (0.0, 0.25, 3.0, 3.0):
        derivative(*arguments(at(shift)), out=own)
        assert are_equal(own, derivative(*arguments(at(shift))))


def test_results_are_those_of_constants_and_variables_as_they_are_now():
    scale = [2.0]

    def scaled(x, how):
        if scale[0] is None:
            raise ValueError("no scale")
        return scale[0] * swirl(x) if how == "swirl" else x

    jacobian, plain, J = (
        acc.jacobian(scaled, static_argnums=1, **QUICK),
        acc.jacobian(swirl, **QUICK)(X),
        np.empty((3, 3)),
    )
    for factor, how in ((2.0, "swirl"), (2.0, "swirl"), (2.0, "x"), (2.0, "swirl"), (3.0, "swirl"), (3.0, "swirl")):
        scale[0] = factor
        np.testing.assert_allclose(jacobian(X, how, out=J), factor * plain if how == "swirl" else np.eye(3), rtol=1e-14)
    alone = acc.jacobian(lambda x: scaled(x, "swirl"), **QUICK)
    for factor in (2.0, 2.0, 3.0, 3.0):
        scale[0] = factor
        np.testing.assert_allclose(alone(X, out=J), factor * plain, rtol=1e-14)
    scale[0] = None
    for _ in range(2):  # after an error, too, nothing is left of the program before
        with pytest.raises(ValueError, match="no scale"):
            alone(X, out=J)
    call = alone.bind
    scale[0] = 3.0
    np.testing.assert_allclose(call(X)(), 3.0 * plain, rtol=1e-14)


def test_numbers_are_arrays_to_write_into():
    call = acc.value_and_gradient(lambda a, x: a * x**2, argnums=1, **QUICK).bind(2, 3.0)
    assert [float(each) for each in call()] == [18.0, 12.0]
    call.arguments[0][()], call.arguments[1][()] = -1.0, 5.0
    assert [float(each) for each in call()] == [-25.0, -10.0]


def test_keywords_and_numbers_of_another_width():
    x = X.astype(np.float32)
    call = acc.jacobian(lambda x, scale: scale * x, dtype="float32", **QUICK).bind(scale=2.0, x=x)
    assert call().dtype == np.float32
    np.testing.assert_array_equal(call(), 2.0 * np.eye(3))


def test_programs_and_files_are_bound_too(tmp_path):
    derivative, x = acc.jacobian(swirl, **QUICK), X.copy()
    program = derivative.compile(x)
    acc.save(derivative, tmp_path / "swirl")
    named = acc.jacobian(lambda p: p["x"] ** 2, **QUICK)
    for bound in (program.bind(x), acc.load(tmp_path / "swirl").bind(x)):
        x[:] = at(0.5)
        assert are_equal(bound(), derivative(at(0.5)))
    call = named.compile({"x": x}).bind({"x": x})
    x[:] = X
    assert are_equal(call(), named({"x": X}))


def test_a_program_says_where_another_branch_is_taken():
    x = np.array([0.4, 1.0])
    derivative = acc.jacobian(halved, **QUICK)
    call = derivative.compile(x).bind(x)
    before = call().copy()
    x[0] = 3.0
    with pytest.raises(CaseError, match="halved"):
        call()
    x[0] = 0.4
    np.testing.assert_array_equal(call(), before)
    np.testing.assert_array_equal(derivative.bind(x)(), derivative(x))


def test_each_thread_has_its_own():
    derivative = acc.value_and_jacobian(swirl, **QUICK)
    expected = {shift: derivative(at(shift)) for shift in range(8)}

    def run(shift):
        x = at(shift)
        call = derivative.bind(x)
        return all(are_equal(call(), expected[shift]) for _ in range(2_000))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


@pytest.mark.parametrize(
    ("x", "given"),
    [
        ([1.0, 2.0, 3.0], "list"),
        (np.arange(3), "int64"),
        (X.astype(np.float32), "float32"),
        (np.ones(6)[::2], "not C-contiguous"),
        (np.ma.masked_array(X, [0, 0, 1]), "float64"),
    ],
)
def test_arguments_that_had_to_be_converted_are_refused(x, given):
    with pytest.raises(ArgumentError, match=f"argument 0 of swirl is .*{given}.*reads it again"):
        acc.jacobian(swirl, **QUICK).compile(X).bind(x)


def test_results_that_do_not_fit_are_refused():
    table = np.zeros((4, 3))
    jacobian, both = acc.jacobian(swirl, **QUICK), acc.value_and_jacobian(swirl, **QUICK)
    matrix = np.zeros((3, 3))
    for derivative, x, out in (
        (jacobian, table[0], table[:3]),
        (jacobian, table[3], np.zeros((3, 4))),
        (jacobian, table[3], np.zeros((3, 3), np.float32)),
        (jacobian, table[3], np.zeros((3, 3)).T[::-1]),
        (both, table[0], (table[0], matrix)),
        (both, X, (matrix[0], matrix)),
        (both, X, (np.zeros(3),)),
    ):
        for _ in range(2):  # the second call may be quick
            with pytest.raises(ArgumentError, match="out"):
                derivative.bind(x, out=out)
            with pytest.raises(ArgumentError, match="out"):
                derivative(x, out=out)
        good = derivative(X)
        derivative(X, out=[np.empty_like(leaf) for leaf in leaves(good)])
    assert not table.any()
    assert not matrix.any()
