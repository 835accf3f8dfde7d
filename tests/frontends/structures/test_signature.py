"""Keyword arguments go to their places, with the defaults before them; names say what is differentiated by."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError
from accumulus.frontends.calls import positional_call

X = np.array([0.5, 1.25])


def spring(x, k=2.0, shift=1.0, *, damping=0.0):
    return k * x**2 + shift - damping


@pytest.mark.parametrize(
    ("arguments", "keywords", "expected"),
    [
        ((X,), {"k": 3.0}, 6.0 * X),
        ((X,), {"shift": 3.0}, 4.0 * X),
        ((), {"x": X}, 4.0 * X),
        ((), {"k": 5.0, "x": X}, 10.0 * X),
        ((X, 3.0), {"shift": 1.0}, 6.0 * X),
    ],
)
def test_keywords_are_moved_to_their_positions(arguments, keywords, expected):
    jac = acc.jacobian(spring)
    np.testing.assert_allclose(jac(*arguments, **keywords), np.diag(expected), rtol=1e-15)
    program = jac.compile(*positional_call(spring, arguments, keywords, "spring")[0])
    assert jac.compile(*arguments, **keywords).kernel is program.kernel


def test_keywords_are_differentiated_by_position():
    np.testing.assert_allclose(acc.jacobian(spring, argnums=1)(X, k=3.0), X**2)
    value, (by_x, by_shift) = acc.value_and_jacobian(spring, argnums=(0, -1))(X, shift=4.0)
    np.testing.assert_allclose(value, spring(X, shift=4.0))
    np.testing.assert_allclose(by_shift, [1.0, 1.0])
    np.testing.assert_allclose(by_x, np.diag(4.0 * X))
    assert acc.jacobian(spring, sparse="csr").nonzeros(X, k=3.0).tolist() == (6.0 * X).tolist()


def test_batches_take_keywords():
    rows = np.stack([X, X + 1.0, X + 2.0])
    jac = acc.jacobian(spring)
    np.testing.assert_allclose(jac.batch(rows, k=3.0), [np.diag(6.0 * row) for row in rows], rtol=1e-15)
    each = jac.batch(x=rows, k=np.array([1.0, 2.0, 3.0]), in_axes=(0, 0))
    np.testing.assert_allclose(each, [np.diag(2.0 * k * row) for k, row in zip((1, 2, 3), rows, strict=True)])


def test_text_and_static_numbers_by_keyword():
    def f(x, n, kind="power"):
        return x**n if kind == "power" else n * x

    jac = acc.jacobian(f, static_argnums=1)
    assert float(jac(2.0, n=3)) == 12.0
    assert float(jac(2.0, kind="linear", n=3)) == 3.0


class Model:
    def force(self, x, k=2.0):
        return k * x


def test_methods_and_partials_have_signatures():
    assert acc.jacobian(Model().force)(X, k=3.0)[0, 0] == 3.0
    assert acc.jacobian(functools.partial(Model.force, Model()))(X, k=3.0)[1, 1] == 3.0
    assert positional_call(lambda *x: ..., [1.0, 2.0], {}, "f") == ((1.0, 2.0), {})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: acc.jacobian(spring)(X, speed=1.0),
            r"do not fit spring\(x, k=2\.0.*unexpected keyword argument 'speed'",
        ),
        (lambda: acc.jacobian(spring)(k=1.0), "missing a required argument: 'x'"),
        (lambda: acc.jacobian(spring)(X, x=X), "multiple values for argument 'x'"),
        (lambda: acc.jacobian(spring).batch(X[None], speed=1.0), "unexpected keyword argument 'speed'"),
        (lambda: acc.jacobian(spring)(X, k={1.0, 2.0}), r"argument 1 \(k\) is a set of numbers.*np\.array"),
        (lambda: acc.jacobian(spring)(X, k=[{1.0, 2.0}]), r"argument 1 \(k\)\[0\] is a set of numbers"),
        (lambda: acc.jacobian(spring, argnames="speed"), "argnames names 'speed'; the arguments of the function are x"),
        (lambda: acc.jacobian(spring, static_argnames=["speed"]), "static_argnames names 'speed'"),
        (lambda: acc.jacobian(spring, argnames=1), "argnames is 1; expected the name"),
        (lambda: acc.jacobian(spring, argnums=1, argnames="k")(X), "expected each argument once"),
        (lambda: acc.jacobian(lambda x, **more: x, argnames="k")(X), "k was not given"),
    ],
)
def test_mismatches_raise_typed_errors(call, said):
    with pytest.raises(ArgumentError, match=said):
        call()
