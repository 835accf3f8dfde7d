"""Opaque functions: values and derivatives to the order of their rules, errors that come out, and where they cannot be.

References are JAX's derivatives of the same function, written out, and recordings of a function that could be recorded.
"""

from __future__ import annotations

import ctypes
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program

import accumulus as acc
from accumulus.errors import ArgumentError, CompileError, FileError, MismatchError, OpaqueError, TraceError
from accumulus.shipping.data_files import Fields
from accumulus.shipping.tapes import tape_as_data, tape_from_data
from accumulus.tape.blocks import CALL
from accumulus.targets.c.c_target import compiler, shared_library

P = np.array([0.3, 0.7, 1.2])
V = np.array([1.0, -2.0, 0.5])
POINTS = np.random.default_rng(0).uniform(0.2, 1.5, size=(300, 3))
CALLABLE = pytest.mark.parametrize("target", ["llvm", "numpy"])


def force(x, y, np=np):
    return np.stack([x[0] * y, np.sin(x[1]) * x[0], y**3 * x[1]])


def force_slopes(x, y):
    by_x = [[y, 0.0], [np.sin(x[1]), np.cos(x[1]) * x[0]], [0.0, y**3]]
    return np.array(by_x), np.array([x[0], 0.0, 3.0 * y**2 * x[1]])


def rules_of(jax, function, order):
    """An opaque function whose rules, one for each order, are JAX's."""
    rule = jax.jit(function)
    rules = [rule]
    for _ in range(order):
        rules.append(jax.jit(jax.jacobian(rules[-1], argnums=(0, 1))))
    result = acc.custom(rules[-1])
    for rule in reversed(rules[:-1]):
        result = acc.custom(rule, derivative=result)
    return result


class Compiled:
    """JAX, whose derivatives are compiled as a whole: one by one their operations take seconds to be compiled.

    Those of one function are compiled once.
    """

    def __init__(self, jax):
        self.jax = jax

    def __getattr__(self, name):
        result = getattr(self.jax, name)
        if name not in ("grad", "jacobian", "hessian"):
            return result
        made = cache(lambda *args, **options: self.jax.jit(result(*args, **options)))
        setattr(self, name, made)
        return made


@pytest.fixture(scope="module")
def jax():
    result = pytest.importorskip("jax")
    result.config.update("jax_enable_x64", True)
    return Compiled(result)


@pytest.fixture(scope="module")
def third(jax):
    return rules_of(jax, lambda x, y: force(x, y, jax.numpy), 3)


FIRST = acc.custom(force, derivative=force_slopes)


def model(p, inner=FIRST, np=np):
    r = inner(p[:2] * p[2], p[0] + p[1])
    return r * np.exp(p[2]) + inner(p[1:], r[0])


def energy(p, inner=FIRST, np=np):
    return np.sum(model(p, inner, np) ** 2)


@pytest.fixture(scope="module")
def written_out(jax):
    """Return the same functions without opaque ones, for JAX."""

    @cache
    def opened(function):
        return lambda p: function(p, lambda x, y: force(x, y, jax.numpy), jax.numpy)

    return opened


def close(actual, expected, rtol=1e-12):
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=rtol, atol=1e-13)


# Values and derivatives ----------------------------------------------------------------------------------------------


@CALLABLE
def test_first_derivatives_are_those_of_jax(target, jax, written_out):
    close(acc.compile(model, target=target)(P), model(P, force))
    close(acc.jacobian(model, target=target)(P), jax.jacobian(written_out(model))(P))
    close(acc.gradient(energy, target=target)(P), jax.grad(written_out(energy))(P))
    value, slopes = acc.value_and_jacobian(model, target=target)(P)
    close(value, model(P, force))
    close(slopes, jax.jacobian(written_out(model))(P))
    value, slopes = acc.value_and_gradient(energy, target=target)(P)
    close(value, energy(P, force))
    close(slopes, jax.grad(written_out(energy))(P))


@CALLABLE
def test_products_and_operators_are_those_of_jax(target, jax, written_out):
    expected = np.asarray(jax.jacobian(written_out(model))(P))
    close(acc.jvp(model, target=target)((P,), (V,))[1], expected @ V)
    close(acc.vjp(model, target=target)((P,), V)[1][0], V @ expected)
    close(acc.linear_operator(model, target=target)(P) @ V, expected @ V)
    close(acc.jacobian(model, sparse="csr", target=target)(P).toarray(), expected)


@CALLABLE
def test_second_derivatives_need_and_take_a_second_rule(target, jax, third, written_out):
    def inlined(p):
        return energy(p, third)

    expected = np.asarray(jax.hessian(written_out(energy))(P))
    close(acc.hessian(inlined, target=target)(P), expected)
    _, gradient, hessian = acc.value_gradient_hessian(inlined, target=target)(P)
    close(gradient, jax.grad(written_out(energy))(P))
    close(hessian, expected)
    close(acc.hvp(inlined, target=target)((P,), (V,))[0], expected @ V)


def taylor_coefficients(jax, function, t):
    """Return the coefficients of orders 1 to 3."""
    first = jax.grad(function)
    second = jax.grad(first)
    return first(t), second(t) / 2, jax.grad(second)(t) / 6


def test_third_derivatives_by_nesting_and_taylor_coefficients(jax, third, written_out):
    def along(t):
        return written_out(energy)(P + t * V)

    expected = jax.jit(lambda t: taylor_coefficients(jax.jax, along, t))(0.0)
    quick = {"effort": "fast", "check": False}  # by a comparison, derivatives within would be prepared for each point
    _, coefficients = acc.taylor(lambda t: energy(P + t * V, third), **quick)((0.0,), ([1.0, 0.0, 0.0],))
    close(coefficients, expected, 1e-11)
    nested = acc.jacobian(lambda p: acc.hessian(lambda q: energy(q, third), **quick)(p) @ V, **quick)
    close(nested(P), jax.jacobian(lambda p: jax.hessian(written_out(energy))(p) @ V)(P), 1e-11)


def test_rules_by_directions(jax, third, written_out):
    def along(arguments, directions):
        return jax.jvp(lambda x, y: force(x, y, jax.numpy), arguments, directions)[1]

    close(acc.jacobian(lambda p: model(p, acc.custom(force, jvp=along)))(P), jax.jacobian(written_out(model))(P))
    slopes = jax.jacobian(lambda x, y: force(x, y, jax.numpy), argnums=(0, 1))
    second = acc.custom(slopes, jvp=lambda arguments, directions: jax.jvp(slopes, arguments, directions)[1])
    hessian = acc.hessian(lambda p: energy(p, acc.custom(force, derivative=second)))
    close(hessian(P), jax.hessian(written_out(energy))(P))


MIXED = np.random.default_rng(3).normal(size=(6, 9))
RULES = {"derivative": ("derivative",), "jvp": ("jvp",), "vjp": ("vjp",), "both": ("jvp", "vjp")}
RULES["all"] = ("derivative", "jvp", "vjp")


def mixed(x, y, np=np):
    return {"a": np.tanh(MIXED @ x) * y, "b": np.sum(x**2) * y}


def counted(names):
    """A function of two arguments with these rules, and the names of the rules that are called."""
    called = []

    def derivative(x, y):
        called.append("derivative")
        t = np.tanh(MIXED @ x)
        return [((1.0 - t**2) * y)[:, None] * MIXED, t, 2.0 * x * y, np.sum(x**2)]

    def jvp(primals, tangents):
        called.append("jvp")
        (x, y), (u, v), t = primals, tangents, np.tanh(MIXED @ primals[0])
        return {"a": (1.0 - t**2) * (MIXED @ u) * y + t * v, "b": 2.0 * (x @ u) * y + np.sum(x**2) * v}

    def vjp(primals, weights):
        called.append("vjp")
        (x, y), t = primals, np.tanh(MIXED @ primals[0])
        back = MIXED.T @ (weights["a"] * (1.0 - t**2) * y) + 2.0 * x * y * weights["b"]
        return back, weights["a"] @ t + np.sum(x**2) * weights["b"]

    rules = {"derivative": derivative, "jvp": jvp, "vjp": vjp}
    return acc.custom(mixed, **{name: rules[name] for name in names}), called


@pytest.mark.sampled(2)
@CALLABLE
@pytest.mark.parametrize("names", RULES.values(), ids=RULES)
def test_products_call_rules_and_form_no_jacobian(names, target, jax):
    """Arguments that come twice, of several arrays and of constants; one weight or direction, and several."""
    g, called = counted(names)

    def several(p, inner=g, np=np):
        first = inner(np.sin(p[:9]) * p[9], p[9] + p[0])
        return first["a"] * first["b"] + inner(p[1:10], p[3])["a"] * inner(np.ones(9), p[0])["b"]

    options = {"target": target, "effort": "fast", "time_limit": 0.0}
    p, random = np.linspace(0.2, 1.0, 10), np.random.default_rng(1)
    V, W = random.normal(size=(3, 10)), random.normal(size=(3, 6))
    expected = np.asarray(jax.jacobian(lambda p: several(p, lambda x, y: mixed(x, y, jax.numpy), jax.numpy))(p))
    gradient, pushed = acc.gradient(lambda p: np.sum(several(p)), **options), acc.jvp(several, **options)
    pulled = acc.vjp(several, **options)
    for call, product, only in (
        (lambda: gradient(p), expected.sum(axis=0), {"vjp": 3}),
        (lambda: pulled((p,), W[0])[1][0], W[0] @ expected, {}),
        (lambda: pulled((p,), W)[1][0], W @ expected, {}),
        (lambda: pushed((p,), (V[0],))[1], expected @ V[0], {"jvp": 5}),
        (lambda: pushed((p,), (V,))[1], V @ expected.T, {}),
        (lambda: acc.linear_operator(several, **options)(p) @ V[0], expected @ V[0], {}),
    ):
        close(call(), product, 1e-11)
        called.clear()
        call()
        for rule, count in only.items():
            if rule in names:
                assert called == [rule] * count
    close(acc.jacobian(several, **options)(p), expected, 1e-11)
    points = random.uniform(0.2, 1.0, (4, 10))
    close(gradient.batch(points), [gradient(each) for each in points])
    with pytest.raises(ArgumentError, match=r"order 2 of mixed .* has 1 rule"):
        acc.hessian(lambda p: np.sum(several(p)), **options)(p)


def test_products_beside_second_rules_and_branches_that_are_off():
    """Second derivatives form Jacobians; infinite slopes do not reach what a branch switches off."""
    slopes = acc.custom(lambda x: np.diag(2.0 * x), jvp=lambda x, v: np.diag(2.0 * v[0]))
    square = acc.custom(lambda x: x**2, derivative=slopes, vjp=lambda x, w: 2.0 * x[0] * w)
    close(acc.hessian(lambda x: np.sum(square(x) ** 2))(P), np.diag(12.0 * P**2))
    close(acc.hvp(lambda x: np.sum(square(x) ** 2))((P,), (V,))[0], 12.0 * P**2 * V)
    close(acc.gradient(lambda x: np.sum(acc.gradient(lambda y: np.sum(square(y) ** 2))(x)))(P), 12.0 * P**2)
    root = acc.custom(np.sqrt, vjp=lambda x, w: np.where(w == 0.0, 0.0, np.copysign([np.inf, 1.0, 1.0], w)))
    result = acc.gradient(lambda x: np.sum(np.where(x > 0.5, root(x), 0.0)))(P)
    close(result, [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"vjp": lambda x, w: w[:2]}, r"returned arrays of shapes \(2,\); expected \(3,\): those of the arguments"),
        ({"jvp": lambda x, v: v[0][:2]}, r"returned arrays of shapes \(2,\); expected \(3,\)"),
        ({"vjp": lambda x, w: "left"}, "returned str 'left'"),
    ],
)
def test_wrong_products_are_refused(rules, message):
    g = acc.custom(np.sin, **rules)
    call = acc.gradient if "vjp" in rules else acc.jacobian
    with pytest.raises(ArgumentError, match=message):
        call(lambda x: np.sum(g(x)))(P)


def test_rules_by_directions_of_several_results_and_an_empty_argument(jax):
    def several(x, y, nothing):
        return force(x, y, jax.numpy), x

    custom = acc.custom(several, jvp=lambda arguments, directions: jax.jvp(several, arguments, directions)[1])
    result = acc.jacobian(lambda p: custom(p[:2], p[2], p[:0])[0] * custom(p[:2], p[2], p[:0])[1][0])(P)
    close(result, jax.jacobian(lambda p: force(p[:2], p[2], jax.numpy) * p[0])(P))


def test_operators_of_dense_jacobians_and_systems_beside_it(jax, third):
    matrix = np.random.default_rng(0).normal(size=(20, 20))
    dense = acc.custom(lambda x: np.tanh(matrix @ x), lambda x: (1.0 - np.tanh(matrix @ x) ** 2)[:, None] * matrix)
    x = np.linspace(0.0, 1.0, 20)
    close(
        acc.linear_operator(lambda x: dense(2.0 * x))(x) @ x, acc.jacobian(lambda x: np.tanh(matrix @ x * 2.0))(x) @ x
    )

    def system(p, inner, np):
        return np.linalg.solve(np.eye(3) + np.outer(p, p), inner(p[:2], p[2]))[0]

    expected = jax.hessian(lambda p: system(p, lambda x, y: force(x, y, jax.numpy), jax.numpy))(P)
    close(acc.hessian(lambda p: system(p, third, np))(P), expected)


def test_numbers_containers_and_equal_entries():
    square = acc.custom(lambda x: x**2, lambda x: np.diag(2.0 * x))
    slopes = acc.jacobian(lambda x: square(np.array([x[0], x[0], 5.0, x[1]])))(P)
    close(slopes, [[0.6, 0.0, 0.0], [0.6, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.4, 0.0]])
    both = acc.custom(lambda x, k: {"a": k * x, "b": x[0]}, lambda x, k: [(k * np.eye(3), x), (np.eye(3)[0], 0.0)])
    result = acc.jacobian(lambda x: both(x, x[2])["a"] * both(x, x[2])["b"])(P)
    close(result, P[0] * (P[2] * np.eye(3) + np.outer(P, np.eye(3)[2])) + P[2] * np.outer(P, np.eye(3)[0]))
    close(acc.gradient(acc.custom(np.sin, np.cos))(0.5), np.cos(0.5))
    assert acc.jacobian(acc.custom(lambda x: x[:0], lambda x: np.zeros((0, 3))))(P).shape == (0, 3)


STAGES = {
    "sine": (lambda x: np.sin(x) * x[::-1], lambda x: np.diag(np.cos(x) * x[::-1]) + np.diag(np.sin(x))[:, ::-1]),
    "outer": (lambda x: x * np.sum(x**2), lambda x: np.sum(x**2) * np.eye(3) + 2.0 * np.outer(x, x)),
    "mean": (lambda x: 0.5 * (x + np.roll(x, 1)), lambda x: 0.5 * (np.eye(3) + np.roll(np.eye(3), 1, axis=0))),
}


@settings(max_examples=8, deadline=None)
@given(
    stages=st.lists(
        st.tuples(st.sampled_from(sorted(STAGES)), st.booleans(), st.integers(0, 2)), min_size=1, max_size=5
    )
)
def test_opaque_functions_equal_their_recordings(stages):
    """Of a chain in which each stage may take an earlier one besides, any may be opaque."""

    def chain(x, opaque):
        results = [x]
        for name, is_opaque, back in stages:
            f, slopes = STAGES[name]
            f = acc.custom(f, derivative=slopes) if opaque and is_opaque else f
            results.append(f(results[-1]) + 0.1 * results[max(0, len(results) - 1 - back)])
        return results[-1]

    called, recorded = (acc.value_and_jacobian(lambda x, o=o: chain(x, o), effort="fast") for o in (True, False))
    for one, other in zip(called(P), recorded(P), strict=True):
        close(one, other)


# Batches, threads, and what is called --------------------------------------------------------------------------------


@CALLABLE
def test_batches_on_threads_are_points_one_by_one(target):
    derivative = acc.value_and_jacobian(model, target=target)
    alone = [derivative(p) for p in POINTS]
    for threads in (1, 2):
        for k, actual in enumerate(derivative.batch(POINTS, threads=threads)):
            np.testing.assert_array_equal(actual, np.stack([each[k] for each in alone]))
    across = derivative.batch(np.ascontiguousarray(POINTS.T), transposed=True, threads=2)
    np.testing.assert_array_equal(np.moveaxis(across[1], -1, 0), np.stack([each[1] for each in alone]))


def test_several_threads_call_one_program():
    derivative = acc.jacobian(model)
    expected = [derivative(p) for p in POINTS]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(derivative, POINTS)), expected)


def test_needed_calls_happen_once_with_new_arrays():
    seen = []

    def f(x):
        seen.append(("f", x))
        x += 1.0  # which nobody else sees
        return np.sin(x)

    def slopes(x):
        seen.append(("slopes", x))
        return np.diag(np.cos(x + 1.0))

    g = acc.custom(f, derivative=slopes)

    def twice(x):
        y = 2.0 * x
        return np.concatenate([g(y) * x, g(y), 3.0 * g(np.ones(2))])

    jac, value = acc.jacobian(twice), acc.compile(lambda x: g(x)[:0])
    expected = jac(P)
    value(P)
    seen.clear()
    np.testing.assert_array_equal(jac(P), expected)
    assert [name for name, _ in seen] == ["f", "slopes"]
    assert not np.shares_memory(seen[0][1], seen[1][1])
    seen.clear()
    value(P)
    assert not seen


def test_state_of_the_function_is_not_watched():
    """It may count its calls, and read what changes: nothing is recorded anew for that."""
    state = {"calls": 0, "scale": 1.0}

    def f(x):
        state["calls"] += 1
        return state["scale"] * np.sin(x)

    g = acc.custom(f, lambda x: state["scale"] * np.diag(np.cos(x)))
    derivative = acc.value_and_jacobian(lambda x: g(x) * x[0])
    derivative(P)
    before, program = state["calls"], derivative.compile(P)
    state["scale"] = 2.0
    close(derivative(P)[0], 2.0 * np.sin(P) * P[0])
    assert state["calls"] == before + 1
    assert derivative.compile(P) is program


# Errors --------------------------------------------------------------------------------------------------------------


class FailedError(Exception):
    """Error that the user's code raises."""


@CALLABLE
def test_errors_come_out_as_they_are(target, capfd):
    error, broken = FailedError("no convergence"), []

    def f(x):
        if broken and x[0] > 1.0:
            raise error
        return np.sin(x)

    g = acc.custom(f, derivative=lambda x: np.diag(np.cos(x)))
    derivative = acc.value_and_jacobian(lambda x: 2.0 * g(x), target=target)
    expected = derivative(2.0 * P + 1.0)
    broken.append(True)
    for call in (lambda: derivative(2.0 * P + 1.0), lambda: derivative.batch(2.0 * POINTS, threads=2)):
        with pytest.raises(FailedError) as caught:
            call()
        assert caught.value is error
    assert "ignored" not in capfd.readouterr().err
    close(derivative(P)[0], 2.0 * np.sin(P))
    broken.clear()
    np.testing.assert_array_equal(derivative(2.0 * P + 1.0)[1], expected[1])


@CALLABLE
def test_results_of_another_form_are_refused(target):
    form = {"f": lambda x: x, "slopes": lambda x: np.eye(3)}

    def solver(x):
        return form["f"](x)

    def slopes(x):
        return form["slopes"](x)

    g = acc.custom(solver, derivative=slopes)
    derivative = acc.value_and_jacobian(lambda x: 2.0 * g(x), target=target)
    derivative(P)
    for name, wrong, text in (
        ("f", lambda x: x[:2], r"solver returned arrays of shapes \(2,\); expected \(3,\)"),
        ("f", lambda x: 1j * x, "expected real numbers"),
        ("f", lambda x: None, "returned NoneType None"),
        ("slopes", lambda x: np.eye(3)[:, :, None], r"shapes \(3, 3, 1\); expected \(3, 3\)"),
        ("slopes", lambda x: (np.eye(3), np.eye(3)), r"shapes \(3, 3\), \(3, 3\); expected \(3, 3\)"),
    ):
        right, form[name] = form[name], wrong
        with pytest.raises(ArgumentError, match=text):
            derivative(P)
        form[name] = right
    close(derivative(P)[1], 2.0 * np.eye(3))


def test_orders_without_rules_are_refused_at_once():
    calls = []

    def counted(x):
        calls.append(x)
        return np.sum(x) ** 2

    g = acc.custom(counted)
    close(acc.compile(lambda x: g(x) * x)(P), np.sum(P) ** 2 * P)
    close(acc.gradient(lambda x, c: g(c) * x[0])(P, P), [np.sum(P) ** 2, 0.0, 0.0])
    with pytest.raises(ArgumentError, match=r"order 1 of counted .* no rule; use acc.custom\(counted, deriv"):
        acc.gradient(lambda x: g(x) * x[0])(P)
    with pytest.raises(ArgumentError, match=r"order 2 of force .* 1 rule; use acc.custom\(force_slopes, "):
        acc.hessian(energy)(P)
    with pytest.raises(ArgumentError, match="order 2 of force"):
        acc.taylor(energy)((P,), (np.stack([V, V]),))


def test_bad_input_is_refused():
    for wrong in (lambda: acc.custom("f"), lambda: acc.custom(True), lambda: acc.custom(force, derivative=np.eye(2))):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(ArgumentError, match="vjp is 3"):
        acc.custom(force, vjp=3)
    with pytest.raises(ArgumentError, match="pass shape="):
        acc.custom(1 << 20)
    with pytest.raises(ArgumentError, match="shape is"):
        acc.custom(force, shape=3)
    with pytest.raises(ArgumentError, match="argument 1 of force is str 'a'"):
        FIRST(P, "a")
    with pytest.raises(ArgumentError, match="by name"):
        FIRST(P, y=1.0)
    with pytest.raises(ArgumentError, match="argument 0"):
        FIRST(P * 1j, 1.0)
    with pytest.raises(TraceError, match="not a number"):
        acc.jacobian(lambda x: FIRST(x, "a"))(P)


# Where it cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["numpy", "c", "cuda", "jax"])
def test_no_source_calls_it(language):
    with pytest.raises(OpaqueError, match=r"cannot call force.*expected target='llvm'"):
        acc.jacobian(model).compile(P).source(language)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: acc.jacobian(model, target="c")(P),
        lambda: acc.jacobian(model, dtype="float32")(P),
        lambda: acc.jacobian(model, exact_order=True)(P),
        lambda: acc.trace(model, P),
        lambda: acc.jacobian(model).posed(P),
        lambda: acc.gradient(lambda q: acc.implicit(lambda y, q: y - FIRST(np.stack([y, q]), q)[0])(0.1, q))(0.5),
    ],
    ids=["c", "float32", "exact order", "trace", "plan", "implicit"],
)
def test_programs_of_operations_alone_are_refused(refused):
    with pytest.raises(OpaqueError, match="cannot call force, which is opaque") as caught:
        refused()
    assert isinstance(caught.value, TraceError)
    assert isinstance(caught.value, CompileError)


class KeptArrays(list):
    """Arrays of a file before it is written."""

    def add(self, array, dtype=None):
        self.append(np.asarray(array, dtype))
        return len(self) - 1


def test_files_do_not_hold_it(tmp_path):
    derivative = acc.jacobian(model)
    derivative(P)
    with pytest.raises(OpaqueError, match="a file cannot call force"):
        acc.save(derivative, tmp_path / "model.accumulus")
    tape, arrays = Program(4), KeptArrays()
    tape.outputs = tape.matmul(np.arange(4).reshape(1, 4), np.arange(4).reshape(4, 1)).reshape(-1)
    data = tape_as_data(tape, arrays)
    data["blocks"][0]["code"] = CALL
    with pytest.raises(FileError, match="code 250, which does not exist"):
        tape_from_data(Fields(data, "the program", arrays))


def test_opaque_functions_are_not_callable_from_c():
    with pytest.raises(CompileError):
        _ = acc.jacobian(model).compile(P).native.address


# Within other things -------------------------------------------------------------------------------------------------


def test_maps_and_scans_are_recorded_one_by_one(jax, written_out):
    both = np.stack([P, 2.0 * P])
    result = acc.gradient(lambda x: np.sum(acc.map(energy, x)))(both)
    close(result, [jax.grad(written_out(energy))(p) for p in both])
    close(acc.map(energy, POINTS), [energy(p, force) for p in POINTS])

    def steps(p, step, scan):
        return scan(lambda x, _: (x + 0.1 * step(x), None), p, None, length=3)[0]

    result = acc.jacobian(lambda p: steps(p, model, acc.scan))(P)
    close(result, jax.jacobian(lambda p: steps(p, written_out(model), jax.lax.scan))(P))


def test_it_is_called_only_where_the_function_would(jax):
    def root(x):
        if not x > 0:
            raise FailedError(f"the root of {x}")
        return np.sqrt(x)

    def slope(x):
        return 0.5 / root(x)

    g = acc.custom(root, acc.custom(slope, lambda x: -0.25 * root(x) ** -3))

    def decides(x):
        if x[0] * x[1] > 0.1:
            y = g(x[0] * x[1])
            if y > 0.7:
                return g(y - 0.7) * x[2]
            return y * x[2]
        return x[0] * x[2]

    points = np.random.default_rng(1).uniform(-1.5, 1.5, size=(100, 3))
    for derivative in (acc.value_and_gradient(decides), acc.value_gradient_hessian(decides)):
        together = derivative.batch(points, threads=2)
        for k, actual in enumerate(together):
            close(actual, np.stack([derivative(p)[k] for p in points]))
        close(together[0], [decides(p) for p in points])
    assert acc.check(decides, points[0]).passed


def test_points_around_at_which_it_raises_are_left_out():
    def picky(x):
        if x[0] > 1.201:
            raise FailedError("too far")
        return 2.0 * x

    g = acc.custom(picky, lambda x: 2.0 * np.eye(3))

    def decides(x):
        y = g(x)
        return y if y[0] > 0 else -y

    close(acc.jacobian(decides)(np.array([1.2, 1.0, 1.0])), 2.0 * np.eye(3))
    with pytest.raises(FailedError):
        acc.jacobian(decides)(np.array([1.4, 1.0, 1.0]))


def test_errors_that_the_function_catches_are_refused():
    def catches(x):
        try:
            return FIRST(x[:2], x[2])
        except ValueError:
            return x

    with pytest.raises(TraceError, match="Catch them in the opaque function"):
        acc.jacobian(catches)(P)


def test_refused_guards_do_not_prevent_finding_the_shape():
    close(acc.jacobian(model, guards="error")(P), acc.jacobian(model)(P))
    picky = acc.custom(lambda x: 1.0 / (x - 1.0), lambda x: np.diag(-1.0 / (x - 1.0) ** 2), shape=(3,))
    close(acc.jacobian(picky, guards="error")(P), np.diag(-1.0 / (P - 1.0) ** 2))


def test_inside_of_jax(jax):
    expected = acc.jacobian(model)(P)
    close(jax.jit(acc.jax.jacobian(model))(P), expected)
    close(jax.vmap(acc.jax.jacobian(model))(np.stack([P, 2.0 * P]))[0], expected)


def test_it_is_checked():
    assert acc.check(model, P).passed
    wrong = acc.custom(force, derivative=lambda x, y: tuple(1.01 * each for each in force_slopes(x, y)))
    report = acc.check(lambda p: wrong(p[:2], p[2]), P)
    assert not report.passed
    assert [finding.name for finding in report.findings if not finding.passed] == ["Jacobian, differences"]
    counts = iter(range(100))
    drifting = acc.custom(lambda x: x * next(counts), lambda x: np.eye(3))
    with pytest.raises(MismatchError, match="Called again, it returns other values"):
        acc.jacobian(drifting)(P)


def test_reports_name_the_calls():
    derivative = acc.jacobian(model)
    derivative(P)
    assert "call of" in str(derivative.report())


def test_picklable_functions_stay_picklable():
    copy = pickle.loads(pickle.dumps(FIRST))
    close(acc.jacobian(lambda p: model(p, copy))(P), acc.jacobian(model)(P))


# Functions of C ------------------------------------------------------------------------------------------------------

SOURCE = """
#include <math.h>
void force(const double *x, double *y) {  /* of (2,) and a number */
    y[0] = x[0] * x[2]; y[1] = sin(x[1]) * x[0]; y[2] = x[2] * x[2] * x[2] * x[1];
}
void slopes(const double *x, double *y) {  /* (3, 2), then (3,) */
    y[0] = x[2]; y[1] = 0.0; y[2] = sin(x[1]); y[3] = cos(x[1]) * x[0]; y[4] = 0.0; y[5] = x[2] * x[2] * x[2];
    y[6] = x[0]; y[7] = 0.0; y[8] = 3.0 * x[2] * x[2] * x[1];
}
void square(const double *x, double *y) { *y = *x * *x; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    try:
        compiler()
    except CompileError:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("c") / "force.so"
    shared_library(SOURCE, path)
    return ctypes.CDLL(str(path))


@CALLABLE
def test_functions_of_c(library, target):
    address = ctypes.cast(library.force, ctypes.c_void_p).value
    for f in (library.force, address, ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)):
        inner = acc.custom(f, shape=(3,), derivative=acc.custom(library.slopes, shape=[(3, 2), (3,)]))
        np.testing.assert_allclose(inner(P[:2], P[2]), force(P[:2], P[2]), rtol=1e-15)
        derivative = acc.value_and_jacobian(lambda p, inner=inner: model(p, inner), target=target)
        expected = acc.value_and_jacobian(model).batch(POINTS)
        for actual, other in zip(derivative.batch(POINTS, threads=2), expected, strict=True):
            close(actual, other)
    number = acc.custom(library.square, shape=(), derivative=lambda x: 2.0 * x)
    close(acc.gradient(lambda x: number(x[0]) * number(x[1]))(P), [2 * 0.3 * 0.49, 2 * 0.7 * 0.09, 0.0])


def test_addresses_stay_in_their_process(library):
    with pytest.raises((ValueError, TypeError)):
        pickle.dumps(acc.custom(library.force, shape=(3,)))


def test_most_arguments_may_be_constants():
    total = acc.custom(lambda x: np.sum(x * x), lambda x: 2.0 * x)
    constants = 0.5 + np.arange(300.0)
    derivative = acc.gradient(lambda x: total(np.concatenate([x, constants])), cache=False)
    np.testing.assert_array_equal(derivative(P), 2.0 * P)
