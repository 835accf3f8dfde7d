"""`acc.sympy`: functions in the manner of SymPy's own, against `sympy.lambdify` and `Matrix.jacobian`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError, VerificationError

sp = pytest.importorskip("sympy")

from inside import OPERATIONS  # noqa: E402
from sympy.physics.mechanics import dynamicsymbols  # noqa: E402

from accumulus import Tape  # noqa: E402
from accumulus.frontends.sympy.expressions import sympy_expressions, verify_expressions  # noqa: E402

x, y, z, k = sp.symbols("x y z k", real=True)
RESULTS = sp.Matrix([x * sp.sin(y) * k, sp.exp(x * y) + z / k, x**3])
FAST = {"target": "numpy", "time_limit": 0.0}


def test_value_and_jacobian_by_all_symbols_are_those_of_sympy():
    f = acc.sympy.lambdify((x, (y, z), k), RESULTS, **FAST)
    point = (0.5, [0.25, 2.0], 3.0)
    value, jacobian = f(*point)
    np.testing.assert_allclose(value, sp.lambdify((x, (y, z), k), RESULTS)(*point)[:, 0], rtol=1e-15)
    expected = sp.lambdify((x, (y, z), k), RESULTS.jacobian([x, y, z, k]))(*point)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-14)


def test_wrt_chooses_symbols_of_any_argument_in_any_order():
    f = acc.sympy.lambdify((x, (y, z), k), RESULTS, wrt=[z, x], **FAST)
    point = (0.5, [0.25, 2.0], 3.0)
    expected = sp.lambdify((x, (y, z), k), RESULTS.jacobian([z, x]))(*point)
    np.testing.assert_allclose(f(*point)[1], expected, rtol=1e-14)
    one = acc.sympy.lambdify((x, (y, z), k), RESULTS[1], wrt=y, **FAST)
    np.testing.assert_allclose(one(*point)[1], [0.5 * np.exp(0.125)])


def test_value_alone():
    f = acc.sympy.lambdify([x, y], [x * y, {"a": x}], jacobian=False, **FAST)
    value = f(2.0, 3.0)
    assert (value[0], value[1]["a"]) == (6.0, 2.0)
    np.testing.assert_array_equal(f.batch([1.0, 2.0], 3.0)[0], [3.0, 6.0])


def test_batches_take_arguments_that_are_the_same_for_all_points():
    f = acc.sympy.lambdify(([x, y], k), [x * k, y * k, x * y], wrt=[x, y])
    points = np.arange(8.0).reshape(4, 2)
    value, jacobian = f.batch(points, 3.0)
    for n, (a, b) in enumerate(points):
        np.testing.assert_array_equal(value[n], [3 * a, 3 * b, a * b])
        np.testing.assert_array_equal(jacobian[n], [[3.0, 0.0], [0.0, 3.0], [b, a]])
    assert f.operations == 3
    assert f.derivative.report() is not None


def test_functions_of_time_and_matrices_of_symbols():
    q, A = dynamicsymbols("q"), sp.MatrixSymbol("A", 2, 2)
    f = acc.sympy.lambdify([A, q, q.diff()], A[0, 1] * sp.cos(q) + q.diff() ** 2, wrt=[q, q.diff(), A], **FAST)
    value, gradient = f([[1.0, 2.0], [3.0, 4.0]], 0.5, 3.0)
    np.testing.assert_allclose(value, 2.0 * np.cos(0.5) + 9.0)
    np.testing.assert_allclose(gradient, [-2.0 * np.sin(0.5), 6.0, 0.0, np.cos(0.5), 0.0, 0.0])


def test_sparse_results():
    f = acc.sympy.lambdify([[x, y]], [x**2, y, sp.Integer(3)], sparse="csr")
    jacobian = f([2.0, 5.0])[1]
    assert jacobian.nnz == 2
    np.testing.assert_array_equal(jacobian.toarray(), [[4.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


def test_mistakes_are_named():
    with pytest.raises(ArgumentError, match="wrt holds z; expected symbols among the arguments: x, y"):
        acc.sympy.lambdify([x, y], x, wrt=z)
    f = acc.sympy.lambdify([x, [y, z]], x)
    with pytest.raises(ArgumentError, match="1 arguments were given; expected 2"):
        f(1.0)
    with pytest.raises(ArgumentError, match=r"argument 1 has shape \(3,\); expected 2 entries, for \[y, z\]"):
        f(1.0, [1.0, 2.0, 3.0])
    with pytest.raises(ArgumentError, match="any size"):
        acc.sympy.lambdify([sp.IndexedBase("b")], x)
    with pytest.raises(TraceError, match="hold y"):
        acc.sympy.lambdify([x], x * y)(1.0)
    with pytest.raises(ArgumentError, match="nested"):
        acc.sympy.jacobian([[x], [y, x]], x)


# Back to SymPy ---------------------------------------------------------------------------------------------------


def written_out(replacements, matrix):
    """A Jacobian without names for what is common."""
    for symbol, expression in reversed(replacements):
        matrix = matrix.subs(symbol, expression)
    return matrix


@pytest.mark.parametrize(
    "results",
    [
        RESULTS,
        [sp.Piecewise((x * y, x > y), (sp.sqrt(x), True)), sp.Max(x, y * k), sp.Abs(x - y) * z],
        [sp.atan2(x, y), sp.erf(x * y), sp.tanh(x) / sp.cosh(y), x ** sp.Rational(1, 3) * sp.pi, sp.Integer(4)],
        x * sp.log(y),
    ],
)
def test_symbolic_jacobian(results):
    replacements, matrix = acc.sympy.jacobian(results, [x, y], time_limit=0.0)
    assert [str(symbol) for symbol, _ in replacements] == [f"x{n}" for n in range(len(replacements))]
    vector = (
        results
        if isinstance(results, sp.MatrixBase)
        else sp.Matrix(results if isinstance(results, list) else [results])
    )
    at = {x: 0.7, y: 0.4, z: 1.5, k: 2.0}
    expected = vector.jacobian([x, y]).subs(at).evalf()
    actual = written_out(replacements, matrix).subs(at).evalf()
    assert actual.shape == expected.shape
    np.testing.assert_allclose(np.array(actual, float), np.array(expected, float), rtol=1e-13)


def test_symbolic_jacobian_keeps_exact_constants_and_takes_names():
    replacements, matrix = acc.sympy.jacobian(
        [sp.exp(x * y / 3), sp.exp(x * y / 3) * sp.pi], [x], symbols=sp.numbered_symbols("w"), time_limit=0.0
    )
    assert {str(symbol)[0] for symbol, _ in replacements} == {"w"}
    full = written_out(replacements, matrix)
    assert not full.atoms(sp.Float)
    assert (full - sp.Matrix([y / 3, sp.pi * y / 3]) * sp.exp(x * y / 3)).applyfunc(sp.simplify) == sp.zeros(2, 1)
    taken = sp.symbols("x0")
    replacements, _ = acc.sympy.jacobian([sp.exp(taken * y), taken * y], [taken], time_limit=0.0)
    assert taken not in dict(replacements)


def test_functions_of_time_in_symbolic_jacobians():
    q, t = dynamicsymbols("q"), dynamicsymbols._t
    _, matrix = acc.sympy.jacobian([sp.sin(q) * t, q.diff() ** 2], [q, q.diff()], time_limit=0.0)
    assert matrix == sp.Matrix([[t * sp.cos(q), 0], [0, 2 * q.diff()]])


@pytest.mark.parametrize(
    "operation", [op for op in OPERATIONS if op.arity and op.name != "attach"], ids=lambda op: op.name
)
def test_every_operation_comes_back(operation):
    tape = Tape(3)
    arguments = [0, 1, 2][: operation.arity]
    if operation.arguments[0] == "boolean":
        arguments = [tape.apply("less", 0, 1), *([tape.apply("less", 1, 2)] if operation.arity == 2 else arguments[1:])]
    if operation.arguments[0] == "order":
        arguments[0] = tape.constant(2.0)
    tape.outputs = [tape.apply(operation.name, *arguments)]
    if operation.name not in {"acosh"}:  # at points between 0.5 and 1, where it has no number
        replacements, outputs = sympy_expressions(tape, [x, y, z], sp.numbered_symbols(), {})
        verify_expressions(tape, [x, y, z], replacements, outputs)


def test_wrong_expressions_are_detected():
    tape = Tape(2)
    tape.outputs = [tape.multiply(0, 1)]
    with pytest.raises(VerificationError, match="entry 0"):
        verify_expressions(tape, [x, y], [], [x + y])


@given(
    st.lists(
        st.sampled_from([x * y, sp.sin(x * y), x / (y + 2), sp.exp(x) * y**2, (x + y) ** 3]), min_size=2, max_size=4
    )
)
def test_random_sums_come_back(terms):
    results = [sum(terms), sp.Mul(*terms)]
    replacements, matrix = acc.sympy.jacobian(results, [x, y], time_limit=0.0)
    at = {x: 0.7, y: 0.4}
    expected = sp.Matrix(results).jacobian([x, y]).subs(at).evalf()
    np.testing.assert_allclose(
        np.array(written_out(replacements, matrix).subs(at).evalf(), float), np.array(expected, float), rtol=1e-12
    )
