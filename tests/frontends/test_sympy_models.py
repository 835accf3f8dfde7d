"""SymPy's expressions as functions: values and Jacobians against SymPy's own derivatives at 50 digits."""

from __future__ import annotations

import operator
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import accumulus as acc
from accumulus.errors import ArgumentError, MismatchError, TraceError

sp = pytest.importorskip("sympy")

from inside import OPERATIONS  # noqa: E402
from sympy.codegen import cfunctions  # noqa: E402
from sympy.physics.mechanics import dynamicsymbols  # noqa: E402
from sympy.utilities.lambdify import implemented_function  # noqa: E402

from accumulus.frontends.sympy import writing  # noqa: E402
from accumulus.frontends.sympy.model import Model  # noqa: E402

x, y, z = sp.symbols("x y z", real=True)
DIGITS = 50


def exactly(expression, values):
    """A number for an expression, by SymPy's own evaluation."""
    exact = sp.expand_func(expression.rewrite(sp.erf)).subs(
        {symbol: sp.Float(value, DIGITS) for symbol, value in values.items()}
    )
    return float(exact.doit().evalf(DIGITS))


def derivatives(expressions, symbols, point):
    """Value and Jacobian at a point, by the target that takes no time to compile."""
    model = Model([list(symbols)], expressions)
    both = acc.value_and_jacobian(model, cache=False, target="numpy", optimise=False, time_limit=0.0)
    return both(np.array(point, float))


def check(expressions, symbols, point, rtol=1e-13):
    """Value and Jacobian of a list of expressions at a point, against SymPy's derivatives."""
    value, jacobian = derivatives(expressions, symbols, point)
    values = dict(zip(symbols, point, strict=True))
    np.testing.assert_allclose(value, [exactly(e, values) for e in expressions], rtol=rtol, atol=1e-15)
    expected = [[exactly(e.diff(symbol), values) for symbol in symbols] for e in expressions]
    np.testing.assert_allclose(jacobian, expected, rtol=rtol, atol=1e-14)


# Functions -------------------------------------------------------------------------------------------------------

BEYOND_ONE = [sp.acosh, sp.asec, sp.acsc, sp.acoth]
SMOOTH = [sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.sinh, sp.cosh, sp.tanh, sp.asinh, sp.atanh]
SMOOTH += [sp.exp, sp.log, sp.erf, sp.erfc, sp.sec, sp.csc, sp.cot, sp.acot, sp.sech, sp.csch, sp.coth, sp.asech]
SMOOTH += [sp.acsch, sp.sinc, sp.sqrt, sp.cbrt, sp.re, sp.conjugate]
SMOOTH += [getattr(cfunctions, name) for name in ("expm1", "log1p", "exp2", "log2", "log10", "Sqrt", "Cbrt")]


@pytest.mark.parametrize("function", SMOOTH + BEYOND_ONE, ids=lambda f: getattr(f, "__name__", str(f)))
def test_functions_of_one_argument(function):
    # an argument that SymPy does not simplify away, between the kinks of all of them
    check([function(x + y / 8), function(x) * y], [x, y], [1.6 if function in BEYOND_ONE else 0.3, 0.7])


@pytest.mark.parametrize(
    "expression",
    [
        *(sp.atan2(x, y), cfunctions.hypot(x, y), cfunctions.fma(x, y, z), sp.erf2(x, y), x**y, x ** (-y), 2**x),
        *(x**5 / y**3, x ** sp.Rational(3, 2), x ** sp.Rational(-1, 2) * y ** sp.Rational(-7, 3) * z, x**2.5, x**-1.5),
        *(sp.Max(x, y, z), sp.Min(x, y, z), sp.Abs(x - y), sp.sqrt(x) ** 3 / sp.sqrt(y), -x / (y * z), sp.E**x),
        *(sp.Sum(x**z, (z, 1, 4)), sp.Product(x + z, (z, 1, 3)), sp.Sum(x * z + y, (z, 3, 2))),
        *(sp.Sum(x**z * y, (z, 1, 3), (sp.Symbol("k"), 0, 2)), sp.Derivative(sp.sin(x) * y, x), sp.S(3) / 7),
    ],
    ids=str,
)
def test_expressions(expression):
    check([expression], [x, y, z], [0.9, 1.3, 0.4])


OF_SCIPY = [sp.gamma(x), sp.loggamma(x), sp.polygamma(0, x), sp.beta(x, x + 1), sp.erfinv(x / 4)]
OF_SCIPY += [sp.besselj(1, x), sp.bessely(0, x), sp.besseli(0, x), sp.besselk(1, x), sp.besselj(sp.S.Half, x)]
OF_SCIPY += [kind(x) for kind in (sp.Ei, sp.Si, sp.Ci, sp.Shi, sp.Chi, sp.erfi, sp.fresnels, sp.fresnelc)]
OF_SCIPY += [kind(x) for kind in (sp.airyai, sp.airyaiprime, sp.airybi, sp.airybiprime)]
OF_SCIPY += [sp.elliptic_k(x / 3), sp.elliptic_e(x / 3), sp.elliptic_e(x, x / 3), sp.elliptic_f(x, x / 3)]
OF_SCIPY += [sp.lowergamma(sp.Rational(7, 3), x), sp.uppergamma(sp.Rational(7, 3), x), sp.expint(2, x)]


@pytest.mark.parametrize("expression", OF_SCIPY, ids=str)
def test_special_functions(expression):
    value, slope = derivatives([expression], [x], [1.3])
    np.testing.assert_allclose(value, [float(expression.subs(x, 1.3).evalf(DIGITS))], rtol=1e-13)
    np.testing.assert_allclose(slope, [[float(expression.diff(x).subs(x, 1.3).evalf(DIGITS))]], rtol=1e-12)


@pytest.mark.parametrize(("numerator", "divisor"), [(7.3, 2.0), (-7.3, 2.0), (7.3, -2.0), (-7.3, -2.0)])
def test_mod_has_the_sign_of_its_divisor(numerator, divisor):
    value, jacobian = derivatives([sp.Mod(x, y)], [x, y], [numerator, divisor])
    np.testing.assert_allclose(value, [numerator % divisor], rtol=1e-15)
    np.testing.assert_allclose(jacobian, [[1.0, -(numerator // divisor)]])


@pytest.mark.parametrize("at", [-1.25, 0.0, 1.5])
def test_functions_with_jumps_have_no_slope_at_them(at):
    jumping = [sp.sign(x), sp.floor(x), sp.ceiling(x), sp.Heaviside(x), sp.Heaviside(x, 0), sp.Heaviside(x, 1)]
    value, jacobian = derivatives([*jumping, sp.frac(x), sp.im(x)], [x], [at])
    expected = [float(e.subs(x, at if at else 0)) for e in jumping]
    np.testing.assert_array_equal(value, [*expected, at - np.floor(at), 0.0])
    np.testing.assert_array_equal(jacobian.ravel(), [0.0] * 6 + [1.0, 0.0])


def test_sinc_and_acot_are_defined_at_zero():
    value, jacobian = derivatives([sp.sinc(x), sp.acot(x)], [x], [0.0])
    np.testing.assert_allclose(value, [1.0, np.pi / 2])
    np.testing.assert_allclose(jacobian, [[0.0], [-1.0]])


@pytest.mark.parametrize("at", [0.0, -0.0, 1e-200, -1e-200, -1e-8, 0.5, -0.5, 1.0, -1.0, 3.0, -1e8, 1e200])
def test_acot_has_sympys_derivatives_everywhere(at):
    value, jacobian = derivatives([sp.acot(x), sp.diff(sp.acot(x), x)], [x], [at])
    expected = [sp.acot(x), *(sp.diff(sp.acot(x), x, n) for n in (1, 1, 2))]
    exact = [float(e.subs(x, sp.Float(at, DIGITS) if at else 0).evalf(DIGITS)) for e in expected]
    np.testing.assert_allclose([value[0], value[1], *jacobian.ravel()], exact, rtol=1e-13)


@pytest.mark.parametrize(
    ("at", "value", "slope"), [(-1.0, 1.0, -2.0), (0.0, 0.0, 1.0), (1.0, 1.0, 1.0), (2.0, 5.0, 3.0)]
)
def test_pieces_are_those_of_the_first_condition_that_holds(at, value, slope):
    pieces = sp.Piecewise((x**2, x < 0), (x, x <= 1), (3 * x - 1, True))
    result = derivatives([pieces, sp.Piecewise((pieces, x > -5))], [x], [at])
    np.testing.assert_array_equal(result[0], [value, value])
    np.testing.assert_array_equal(result[1].ravel(), [slope, slope])


def test_where_no_condition_holds_there_is_no_number_and_infinite_branches_that_are_not_taken_stay_off():
    value, jacobian = derivatives([sp.Piecewise((x, x > 0)), sp.Piecewise((sp.log(x), x > 0), (x, True))], [x], [-1.0])
    np.testing.assert_array_equal([*value, jacobian[1, 0]], [np.nan, -1.0, 1.0])


LOGIC = {
    sp.And: lambda a, b: a and b,
    sp.Or: lambda a, b: a or b,
    sp.Xor: lambda a, b: a != b,
    sp.Implies: lambda a, b: not a or b,
    sp.Equivalent: lambda a, b: a == b,
    sp.Nand: lambda a, b: not (a and b),
    sp.Nor: lambda a, b: not (a or b),
}
RELATIONS = {
    sp.Lt: operator.lt,
    sp.Le: operator.le,
    sp.Gt: operator.gt,
    sp.Ge: operator.ge,
    sp.Eq: operator.eq,
    sp.Ne: operator.ne,
}


@pytest.mark.parametrize("point", [(1.0, 2.0), (2.0, 1.0), (2.0, 2.0), (-1.0, -1.0)])
def test_conditions(point):
    a, b = x > 1, y > 1
    conditions = [*(relation(x, y) for relation in RELATIONS), *(join(a, b) for join in LOGIC), sp.Not(sp.And(a, b))]
    conditions += [sp.ITE(a, b, x < 0)]
    expected = [relation(*point) for relation in RELATIONS.values()]
    first, second = point[0] > 1, point[1] > 1
    expected += [join(first, second) for join in LOGIC.values()]
    expected += [not (first and second), second if first else point[0] < 0]
    value, jacobian = derivatives([sp.Piecewise((x, c), (y, True)) for c in conditions], [x, y], point)
    np.testing.assert_array_equal(value, np.where(expected, *point))
    np.testing.assert_array_equal(jacobian, [[1.0, 0.0] if holds else [0.0, 1.0] for holds in expected])
    np.testing.assert_array_equal(derivatives(conditions, [x, y], point)[0], expected)  # as numbers


def test_constants_are_rounded_once():
    constants = [
        sp.pi,
        sp.E,
        sp.GoldenRatio,
        sp.EulerGamma,
        sp.Rational(1, 3),
        sp.sqrt(2) * sp.pi / 4,
        sp.Float("0.1", 40),
    ]
    constants += [
        sp.sqrt(2) - sp.Rational(14142135623730950, 10**16),
        sp.exp(sp.pi) - sp.pi - 20,
        sp.sin(sp.Integer(10) ** 30),
    ]
    value = derivatives([c + 0 * x for c in constants], [x], [1.0])[0]
    assert value.tolist() == [float(c.evalf(DIGITS)) for c in constants]


def test_implemented_functions_are_recorded_by_their_implementation():
    f = implemented_function("f", lambda t: np.sin(t) * t)
    value, jacobian = derivatives([f(x) * y], [x, y], [0.5, 2.0])
    np.testing.assert_allclose(value, [np.sin(0.5)])
    np.testing.assert_allclose(jacobian, [[2 * np.sin(0.5) + np.cos(0.5), 0.5 * np.sin(0.5)]])


def test_undefined_functions_name_rows_of_the_table():
    erfcx, ive, select = map(sp.Function, ("erfcx", "ive", "select"))
    value, jacobian = derivatives([erfcx(x * y), ive(2, x) + select(x < y, x, y)], [x, y], [0.5, 2.0])
    np.testing.assert_allclose(value, [special.erfcx(1.0), special.ive(2, 0.5) + 0.5])
    slope = 2.0 * special.erfcx(1.0) - 2.0 / np.sqrt(np.pi)
    curve = 0.5 * (special.ive(1, 0.5) + special.ive(3, 0.5)) - special.ive(2, 0.5)
    np.testing.assert_allclose(jacobian, [[2.0 * slope, 0.5 * slope], [1.0 + curve, 0.0]])
    g = sp.Function("gamma")
    assert "erfcx(x)" in str(acc.sympy.jacobian(erfcx(x), x))
    value, jacobian = derivatives([g(x) * y], [g(x), y], [3.0, 2.0])  # as an argument it is a symbol
    np.testing.assert_allclose((value[0], *jacobian[0]), [6.0, 2.0, 3.0])
    with pytest.raises(TraceError, match="expected a constant whole number"):
        derivatives([ive(x, y)], [x, y], [2.0, 1.0])
    with pytest.raises(TraceError, match="not among the arguments"):
        derivatives([erfcx(x, y)], [x, y], [2.0, 1.0])


ORDERED = [row for row in OPERATIONS if "order" in row.arguments]


@pytest.mark.parametrize("row", ORDERED, ids=lambda row: row.name)
def test_orders_that_a_row_does_not_have_are_refused(row):
    named, (lowest, _) = sp.Function(row.name), row.domain[0]
    for order in (int(lowest), int(lowest) + 1, int(min(row.largest_order, 20)) - 1):
        value, jacobian = derivatives([named(order, x)], [x], [1.5])
        step = 1e-6
        ends = [row.evaluate(float(order), 1.5 + side) for side in (step, -step)]
        np.testing.assert_allclose(value[0], row.evaluate(float(order), 1.5), rtol=1e-12)
        np.testing.assert_allclose(jacobian[0, 0], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-9)
    beyond = [lowest - 1, -lowest - 1, *([row.largest_order + 1] if row.largest_order < np.inf else [])]
    for order in (*beyond, sp.Rational(1, 2) + int(lowest), sp.nan, sp.oo, y):
        with pytest.raises(TraceError, match=r"order|nan|infinit|oo"):
            acc.compile(Model([x, y], [named(order if isinstance(order, sp.Basic) else int(order), x)]), cache=False)(
                1.5, 2.0
            )


def test_every_row_of_the_tables_is_tried():
    conditions = {*RELATIONS, sp.GreaterThan, sp.StrictGreaterThan}
    here = {*SMOOTH, *BEYOND_ONE, *conditions, sp.Mod, sp.sign, sp.floor, sp.ceiling, sp.Heaviside, sp.frac, sp.im}
    here |= {sp.atan2, cfunctions.hypot, cfunctions.fma, sp.erf2, sp.Abs, sp.UnevaluatedExpr, sp.Max, sp.Min}
    here |= {sp.And, sp.Or, sp.Not, sp.Xor, sp.Implies, sp.Equivalent, sp.ITE}
    of_scipy = {type(expression) for expression in OF_SCIPY}
    assert set(writing.ROWS) | set(writing.FORMULAS) <= here | of_scipy


# Arguments and results -------------------------------------------------------------------------------------------


def test_arguments_are_nested_as_those_of_lambdify():
    value, (by_x, by_yz) = acc.value_and_jacobian(Model([x, [y, z]], [x * y, y * z]), argnums=(0, 1))(
        2.0, np.array([3.0, 5.0])
    )
    assert [value.tolist(), by_x.tolist(), by_yz.tolist()] == [[6.0, 15.0], [3.0, 0.0], [[2.0, 0.0], [5.0, 3.0]]]
    assert acc.jacobian(Model(x, x**2))(3.0) == 6.0
    entries = sp.Matrix(2, 2, sp.symbols("a:4"))
    np.testing.assert_array_equal(
        acc.jacobian(Model([entries], entries.det()))(np.array([[1.0, 2.0], [3.0, 4.0]])), [[4, -3], [-2, 1]]
    )


def test_names_of_arrays():
    A, b, i = sp.MatrixSymbol("A", 2, 3), sp.IndexedBase("b"), sp.Symbol("i")
    model = Model([A, b], [A[0, 1] * b[2], A[1, 2] ** 2, sp.Sum(b[i], (i, 0, 2))])
    by_A, by_b = acc.jacobian(model, argnums=(0, 1))(np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0]))
    expected = np.zeros((3, 2, 3))
    expected[0, 0, 1], expected[1, 1, 2] = 3.0, 10.0
    np.testing.assert_array_equal(by_A, expected)
    np.testing.assert_array_equal(by_b, [[0, 0, 1], [0, 0, 0], [1, 1, 1]])


def test_functions_of_time_and_their_derivatives_are_symbols():
    q = dynamicsymbols("q")
    value, jacobian = derivatives(
        [sp.sin(q) * q.diff() + q.diff("t", 2)], [q, q.diff(), q.diff("t", 2)], [0.5, 2.0, 3.0]
    )
    np.testing.assert_allclose(value, [2 * np.sin(0.5) + 3.0])
    np.testing.assert_allclose(jacobian, [[2 * np.cos(0.5), np.sin(0.5), 1.0]])


def test_results_have_the_structure_of_the_expressions():
    vector, matrix = sp.Matrix([x, x**2]), sp.SparseMatrix(2, 3, {(0, 1): x, (1, 2): 2})
    array = sp.Array([[x, 1], [2, x]])
    value = acc.value_and_jacobian(Model(x, {"vector": vector, "others": [matrix, (x, 2 * x), array, [], x]}))(3.0)[0]
    assert list(value) == ["vector", "others"]
    assert type(value["others"]) is list
    np.testing.assert_array_equal(value["vector"], [3.0, 9.0])
    np.testing.assert_array_equal(value["others"][0], [[0, 3, 0], [0, 0, 2]])
    np.testing.assert_array_equal(value["others"][1], [3.0, 6.0])
    np.testing.assert_array_equal(value["others"][2], [[3.0, 1.0], [2.0, 3.0]])
    assert value["others"][3:] == [[], 3.0]


def test_products_of_matrices_that_are_not_written_out():
    A, b = sp.MatrixSymbol("A", 2, 2), sp.MatrixSymbol("b", 2, 1)
    at_A, at_b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0], [6.0]])
    np.testing.assert_allclose(
        acc.value_and_jacobian(Model([A, b], A.T * A * b))(at_A, at_b)[0], (at_A.T @ at_A @ at_b)[:, 0]
    )
    np.testing.assert_allclose(acc.value_and_jacobian(Model([A, b], (A * b)[1, 0]))(at_A, at_b)[0], 39.0)


def test_a_lambda_is_taken_as_it_is():
    f = sp.Lambda((x, (y, z)), sp.Matrix([x * y, sp.cos(z)]))
    jac = acc.jacobian(f, argnums=1)
    np.testing.assert_allclose(jac(2.0, np.array([3.0, 0.5])), [[2.0, 0.0], [0.0, -np.sin(0.5)]])
    X, YZ = np.ones(4), np.linspace(0.0, 1.0, 8).reshape(4, 2)
    np.testing.assert_allclose(jac.batch(X, YZ)[:, 1, 1], -np.sin(YZ[:, 1]))
    assert acc.check(f, 2.0, np.array([3.0, 0.5])).passed
    assert acc.gradient(sp.Lambda(x, x**3))(2.0) == 12.0


# Size -------------------------------------------------------------------------------------------------------------


def test_deep_expressions_are_read_without_recursion():
    deep = x
    for _ in range(4_000):
        deep = sp.Add(sp.sin(deep, evaluate=False), y, evaluate=False)
    limit = sys.getrecursionlimit()
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 120)
    try:
        value, (by_x, by_y) = acc.value_and_jacobian(Model([x, y], deep), argnums=(0, 1), cache=False)(0.5, 0.2)
    finally:
        sys.setrecursionlimit(limit)
    expected, slope, slope_y = 0.5, 1.0, 0.0
    for _ in range(4_000):
        slope, slope_y, expected = slope * np.cos(expected), slope_y * np.cos(expected) + 1.0, np.sin(expected) + 0.2
    np.testing.assert_allclose([value, by_x, by_y], [expected, slope, slope_y], rtol=1e-9)


# What cannot be recorded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (x * y, "hold y, which is not among the arguments: x"),
        (sp.Function("g")(x), r"hold g\(x\)"),
        (sp.zeta(x), "hold zeta, which"),
        (sp.I * x, "hold I, which is not a real number"),
        (x + sp.sqrt(-2) * 1.0, "not a real number|complex"),
        (sp.Integral(sp.exp(sp.sin(x)), x), "hold Integral"),
        (sp.Sum(x**y, (y, 0, sp.oo)), "expected integer bounds"),
        (sp.Sum(y * x, (y, 0, 10**9)), "terms"),
        (sp.Derivative(sp.Function("g")(x), x), "which SymPy cannot write out"),
        (sp.Integer(10) ** 400 * x, "beyond the range"),
    ],
    ids=str,
)
def test_errors_name_the_unsupported_expression(expression, message):
    with pytest.raises(TraceError, match=message):
        acc.jacobian(Model(x, expression))(1.0)


@pytest.mark.parametrize(
    ("arguments", "results", "message"),
    [
        ([x, x], x, "x appears twice among the arguments"),
        ([x, 2], x, "argument 1 holds 2"),
        ([x + y], x, r"argument 0 holds x \+ y"),
        (x, "x", "a result is x"),
        (x, sp.MatrixSymbol("A", sp.Symbol("n"), 2), "has no size"),
    ],
)
def test_models_that_are_none(arguments, results, message):
    with pytest.raises(ArgumentError, match=message):
        Model(arguments, results)


def test_arguments_of_another_number_or_shape():
    with pytest.raises(ArgumentError, match="2 arguments are given; expected 1: "):
        acc.jacobian(Model([[x, y]], x))(np.ones(2), 1.0)
    with pytest.raises(ArgumentError, match=r"argument 0 has shape \(3,\); expected 2 entries, for \[x, y\]"):
        acc.jacobian(Model([[x, y]], x))(np.ones(3))
    with pytest.raises(TraceError, match=r"b\[7\] is not an entry of b"):
        acc.jacobian(Model(sp.IndexedBase("b"), sp.IndexedBase("b")[7]))(np.ones(3))


def test_a_wrong_table_is_detected(monkeypatch):
    monkeypatch.setitem(writing.ROWS, sp.sin, "cos")
    with pytest.raises(MismatchError, match="gives"):
        acc.jacobian(Model(x, sp.sin(x)), cache=False)(0.5)


# Any expression ---------------------------------------------------------------------------------------------------

LEAVES = st.sampled_from([x, y, z, sp.Integer(2), sp.Rational(-3, 7), sp.pi, sp.Float(0.3)])


def _extended(inner):
    one = st.sampled_from([sp.sin, sp.cos, sp.exp, sp.tanh, sp.atan, lambda e: e**2, lambda e: 1 / (2 + e**2)])
    two = st.sampled_from([operator.add, operator.sub, operator.mul, lambda a, b: a / (1 + b**2), sp.atan2])
    choice = st.builds(lambda a, b, c: sp.Piecewise((a, b > c), (b, True)), inner, inner, inner)
    return st.builds(lambda f, a: f(a), one, inner) | st.builds(lambda f, a, b: f(a, b), two, inner, inner) | choice


@given(
    st.lists(st.recursive(LEAVES, _extended, max_leaves=10), min_size=1, max_size=3),
    st.lists(st.floats(0.25, 1.0), min_size=3, max_size=3, unique=True),
)
def test_random_expressions(expressions, point):
    values = dict(zip((x, y, z), point, strict=True))
    value, jacobian = derivatives(expressions, (x, y, z), point)
    for k, expression in enumerate(expressions):
        expected = [expression, *(sp.diff(expression, symbol) for symbol in (x, y, z))]
        exact = np.array([exactly(sp.sympify(e), values) for e in expected])
        np.testing.assert_allclose([value[k], *jacobian[k]], exact, rtol=1e-9, atol=1e-9)
