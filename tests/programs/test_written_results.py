"""Results that are written to arrays of the caller, arguments by keyword, and what a call does not do again."""

from __future__ import annotations

import cProfile
import pickle
import pstats

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError

QUICK = {"effort": "fast", "time_limit": 0.0}
POINT = np.array([0.7, -0.4, 1.9])


def swirl(x, scale=2.0):
    return np.array([x[0] * np.sin(x[1]) * scale, x[2] / x[0]])


def energy(x, scale=2.0):
    return scale * np.sum(x**3) * x[0]


def parts(x, scale=2.0):
    return {"a": x[0] * scale, "b": x**2}


#: Every function that returns a derivative of the same arguments, with functions that it takes.
KINDS = {
    "compile": (swirl, energy, parts),
    "jacobian": (swirl, energy, parts),
    "value_and_jacobian": (swirl, energy, parts),
    "gradient": (energy,),
    "value_and_gradient": (energy,),
    "hessian": (energy,),
    "value_gradient_hessian": (energy,),
}
CASES = [(name, f) for name, functions in KINDS.items() for f in functions]
PRODUCTS = {"jvp": (POINT, 1.0), "vjp": np.array([1.0, 2.0]), "hvp": (POINT, 1.0), "taylor": (POINT[None], np.ones(1))}


def arrays_of(result):
    """New arrays of the shapes of a result, one after the other."""
    if isinstance(result, dict):
        return [array for value in result.values() for array in arrays_of(value)]
    if isinstance(result, tuple):
        return [array for value in result for array in arrays_of(value)]
    return [np.full(np.shape(result), np.nan)]


def flat(result):
    if isinstance(result, dict | tuple):
        return [each for value in (result.values() if isinstance(result, dict) else result) for each in flat(value)]
    return [result]


class TestOut:
    """``out=`` of a call at one point."""

    @pytest.mark.parametrize(("name", "f"), CASES)
    def test_every_kind_writes_to_out(self, name, f):
        derivative = getattr(acc, name)(f, **QUICK)
        expected = derivative(POINT, 3.0)
        for call in (derivative, derivative.compile(POINT, 3.0)):
            for arguments, keywords in (((POINT, 3.0), {}), ((POINT.tolist(), 3), {}), ((POINT,), {"scale": 3.0})):
                if call is not derivative and (keywords or type(arguments[0]) is list):
                    continue  # programs take numbers by position
                out = arrays_of(expected)
                buffers = out[0] if len(out) == 1 else tuple(out)
                actual = call(*arguments, **keywords, out=buffers)
                for one, array, other in zip(flat(actual), out, flat(expected), strict=True):
                    np.testing.assert_array_equal(array, other)
                    assert one is array if np.ndim(array) else one == array

    @pytest.mark.parametrize("name", PRODUCTS)
    def test_products(self, name):
        f, primals = (energy if name == "hvp" else swirl), (POINT, 3.0)
        product = getattr(acc, name)(f, **QUICK)
        expected = product(primals, PRODUCTS[name])
        out = arrays_of(expected)
        product(primals, PRODUCTS[name], out=tuple(out))
        for array, other in zip(out, flat(expected), strict=True):
            np.testing.assert_array_equal(array, other)

    def test_structures_cases_and_sparse(self):
        out = {"a": np.zeros(3), "b": np.zeros((3, 3))}
        result = acc.jacobian(parts, **QUICK)(POINT, out=out)
        assert result["b"] is out["b"]
        np.testing.assert_array_equal(out["b"], np.diag(2.0 * POINT))

        decides = acc.gradient(lambda x: x**2 if x > 0.0 else -x, **QUICK)
        number = np.zeros(())
        for x, slope in ((2.0, 4.0), (-1.0, -1.0), (3.0, 6.0), (-2.0, -1.0)):
            assert decides(x, out=number) == slope == number

        sparse = acc.jacobian(lambda x: x[1:] * x[:-1], sparse="csr", **QUICK)
        nonzeros = np.zeros(4)
        matrix = sparse(POINT, out=nonzeros)
        np.testing.assert_array_equal(matrix.toarray(), sparse(POINT).toarray())
        assert np.shares_memory(matrix.data, nonzeros)

    @pytest.mark.parametrize("target", ["numpy", "llvm"])
    @pytest.mark.parametrize("checked", [False, True])
    def test_targets_and_checks(self, target, checked):
        out = np.zeros((2, 3))
        jac = acc.jacobian(swirl, target=target, check_finite=checked, **QUICK)
        np.testing.assert_array_equal(jac(POINT, out=out), jac(POINT))
        assert out.any()
        if checked:
            with pytest.raises(ArgumentError, match="finite"):
                jac(np.array([np.nan, 1.0, 1.0]), out=out)

    def test_an_argument_of_that_name_is_the_function_s(self):
        def f(x, out):
            return x * out

        assert acc.gradient(f, **QUICK)(2.0, out=3.0) == 3.0
        assert acc.gradient(lambda x, **rest: x * rest["out"], **QUICK)(2.0, out=3.0) == 3.0

    @pytest.mark.parametrize(
        ("out", "message"),
        [
            (np.zeros((3, 2)), r"float64 \(3, 2\); expected an array of float64 \(2, 3\)"),
            (np.zeros(6), r"expected an array of float64 \(2, 3\)"),
            (np.zeros((2, 3), np.float32), "float32"),
            (np.zeros((3, 2)).T, "C-contiguous"),
            (np.zeros((2, 6))[:, ::2], "C-contiguous"),
            (np.broadcast_to(0.0, (2, 3)), "read-only"),
            ([np.zeros((2, 3))] * 2, "2 arrays; expected 1"),
            ([[0.0] * 3] * 2, "out "),
            ("left", "out "),
        ],
    )
    def test_unwritable_arrays_raise(self, out, message):
        jac = acc.jacobian(swirl, **QUICK)
        for call in (jac, jac.compile(POINT), jac):
            with pytest.raises(ArgumentError, match=message):
                call(POINT, out=out)

    def test_overlaps_are_refused(self):
        memory = np.concatenate([POINT, np.zeros(6)])
        jac, both = acc.jacobian(swirl, **QUICK), acc.value_and_jacobian(swirl, **QUICK)
        np.testing.assert_array_equal(jac(memory[:3], out=memory[3:].reshape(2, 3)), jac(POINT))
        for call in (jac, jac.compile(POINT)):
            with pytest.raises(ArgumentError, match="overlaps an argument"):
                call(memory[:3], out=memory[2:8].reshape(2, 3))
        with pytest.raises(ArgumentError, match="overlaps"):
            both(POINT, out=(memory[:2], memory[1:7].reshape(2, 3)))
        np.testing.assert_array_equal(memory[:3], POINT)

    def test_recordings_and_operators_have_none(self):
        inner = acc.jacobian(swirl, **QUICK)
        with pytest.raises(ArgumentError, match="inside a function that is recorded"):
            acc.jacobian(lambda x: inner(x, out=np.zeros((2, 3))), **QUICK)(POINT)
        assert acc.compile(lambda x: inner(x, out=None), **QUICK)(POINT).shape == (2, 3)


class TestKeywords:
    """Programs take the keywords with which they were compiled."""

    def test_of_arguments_by_position(self):
        jac = acc.jacobian(swirl, **QUICK)
        program = jac.compile(x=POINT, scale=3.0)
        expected = jac(POINT, 3.0)
        for _ in range(2):
            np.testing.assert_array_equal(program(x=POINT, scale=3.0), expected)
            np.testing.assert_array_equal(program(POINT, scale=3.0), expected)
            np.testing.assert_array_equal(program.batch(x=POINT[None], scale=3.0)[0], expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(program))(POINT, 3.0), expected)
        with pytest.raises(ArgumentError, match="do not fit swirl"):
            program(POINT, size=3.0)

    def test_programs_have_fast_batches(self):
        program, X = acc.jacobian(swirl, **QUICK).compile(POINT, 3.0), np.stack([POINT, 2.0 * POINT])
        expected = program.batch(X, 3.0)
        np.testing.assert_array_equal(program.batch(X, 3.0), expected)
        out = np.zeros((2, 2, 3))
        assert program.batch(X, 3.0, out=out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(program.batch(X, np.array([3.0, 3.0])), expected)
        with pytest.raises(ArgumentError, match="different numbers of points"):
            program.batch(X, np.ones(3))

    def test_changed_defaults_are_seen(self):
        def f(x, scale=2.0):
            return x * scale

        slope = acc.gradient(f, argnames=("x", "scale"), **QUICK)
        assert slope(3.0) == (2.0, 3.0)
        f.__defaults__ = (5.0,)
        assert slope(3.0) == (5.0, 3.0)


factor = 2.0


def of_a_global(x, k=1.0):
    return factor * x * k


def test_calls_by_keyword_see_changes(monkeypatch):
    value = acc.compile(of_a_global, **QUICK)
    number, out = 3.0, np.zeros(())
    assert [value(x=number), value(x=number), value(x=number, out=out)] == [6.0] * 3
    assert value.batch(x=np.ones(2)).tolist() == value.batch(x=np.ones(2)).tolist() == [2.0, 2.0]
    for changed in (5.0, 7.0):
        monkeypatch.setitem(globals(), "factor", changed)
        assert value(x=number) == value(x=number) == 3.0 * changed
        assert value.batch(x=np.ones(2)).tolist() == [changed, changed]
        monkeypatch.setitem(globals(), "factor", 2.0)
        assert value(x=number, out=out) == 6.0
        assert value.batch(x=np.ones(2)).tolist() == [2.0, 2.0]


def test_unwatched_variables_are_those_of_the_first_call(monkeypatch):
    value = acc.compile(of_a_global, watch=False, **QUICK)
    before = value(3.0)
    monkeypatch.setitem(globals(), "factor", 11.0)
    assert value(3.0) == value(x=3.0) == value(3.0, out=np.zeros(())) == before


def of_keywords(x, k=2.0, *, s=1.0):
    return x**2 * k * s


CALLS = {
    "keywords": lambda d: d(x=POINT, k=3.0),
    "keyword only": lambda d: d(POINT, s=3.0),
    "batch": lambda d: d.batch(POINT[None], s=3.0),
    "axes by name": lambda d: d.batch(POINT[None], s=3.0, in_axes={"x": 0}),
    "out": lambda d: d(x=POINT, k=3.0, out=np.zeros((3, 3))),
}


@pytest.mark.parametrize("name", CALLS)
def test_warm_calls_read_no_signature(name):
    derivative = acc.jacobian(of_keywords, **QUICK)
    calls = [lambda: CALLS[name](derivative)]
    if name == "keywords":
        needed, pushed = acc.jacobian(of_keywords, argnames=("x", "k"), **QUICK), acc.jvp(np.sin, **QUICK)
        calls += [lambda: needed(POINT), lambda: pushed(primals=(POINT,), tangents=(POINT,))]
        program = derivative.compile(x=POINT, k=3.0)
        calls.append(lambda: program(x=POINT, k=3.0))
    for call in calls:
        call(), call()
        profile = cProfile.Profile()
        profile.runcall(call)
        assert not [function for function in pstats.Stats(profile).stats if function[0].endswith("inspect.py")]
