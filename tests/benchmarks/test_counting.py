"""One rule for everybody's operations: each side counts small programs as one would by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from inside import OPERATIONS

import accumulus as acc

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import library
from counting import WEIGHTS, Tally, products_of_power
from functions import suite
from peers import complex_step, sympy_functions
from peers.sympy_functions import WAYS, Program, count, kinds

SUITE = {example.name: example for example in suite()}
x, y, z = sp.symbols("x y z", real=True)


def tape_tally(f, size=3):
    return library.tally(acc.trace(f, np.ones(size)).tape)


def test_weights():
    tally = Tally.of(["arithmetic", "division", "root", "function", "sign", "sign"])
    assert tally.operations == 6
    assert tally.weighted == 1 + 8 + 8 + 15


@pytest.mark.parametrize(("exponent", "products"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4), (8, 3), (15, 6)])
def test_products_of_powers(exponent, products):
    assert products_of_power(exponent) == products


def test_every_operation_of_the_table_has_a_kind():
    named = [name for names in library.KINDS.values() for name in names.split()]
    assert len(named) == len(set(named))
    # attach is gone once a tape is compiled
    assert {row.name for row in OPERATIONS} - set(named) == {"input", "attach"}
    assert library.KINDS.keys() == WEIGHTS.keys()


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda v: v[0] * v[1] + 2.0 * v[2], {"arithmetic": 3}),
        (lambda v: np.sin(v[0]) + np.cos(v[0]), {"arithmetic": 1, "function": 2}),
        (lambda v: np.sqrt(v[0]) / v[1], {"root": 1, "division": 1}),
        (lambda v: -v[0], {"sign": 1}),
        (lambda v: np.array([v[0], 3.0]), {}),
        (lambda v: np.maximum(v[0], np.abs(v[1])), {"arithmetic": 2}),
    ],
)
def test_tapes(f, expected):
    assert tape_tally(f).kinds == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (x, []),
        (sp.sqrt(2) * sp.pi, []),
        (x + y + z, ["arithmetic"] * 2),
        (x - y, ["arithmetic"]),
        (-x - y, ["arithmetic", "sign"]),
        (x - 2 * y, ["arithmetic"] * 2),
        (-x, ["sign"]),
        (-2.0 * x * y, ["arithmetic"] * 2),
        (x / y, ["division"]),
        (-1 / x, ["division", "sign"]),
        (-2.0 / x, ["division"]),
        (0.5 * x ** sp.Float(-2.0), ["arithmetic", "division"]),
        (sp.Pow(x, -0.5), ["division", "root"]),
        (2 / x, ["division"]),
        (x / (y * z), ["arithmetic", "division"]),
        (x * y / z, ["arithmetic", "division"]),
        (1 / x**2, ["arithmetic", "division"]),
        (x / y**2, ["arithmetic", "division"]),
        (x**7, ["arithmetic"] * 4),
        (sp.Pow(x, 3.0), ["arithmetic"] * 2),
        (sp.sqrt(x), ["root"]),
        (1 / sp.sqrt(x), ["division", "root"]),
        (x ** sp.Rational(3, 2), ["function"]),
        (x**y, ["function"]),
        (x ** (-y), ["function", "sign"]),
        (sp.sin(x) * sp.exp(-x), ["arithmetic", "function", "function", "sign"]),
        (sp.atan2(x, y + 1), ["arithmetic", "function"]),
        (sp.Max(x, y, 0), ["arithmetic"] * 2),
        (sp.sqrt(2) * x + sp.log(2), ["arithmetic"] * 2),
    ],
)
def test_sympy_expressions(expression, expected):
    assert sorted(kinds(expression)) == expected


def test_sympy_functions_that_nobody_counts_are_errors():
    with pytest.raises(ValueError, match="gamma"):
        list(kinds(sp.gamma(x)))


def test_definitions_count_once_and_only_if_they_are_needed():
    a, b, c = sp.symbols("a b c")
    definitions = {a: x * y, b: a + 1, c: sp.exp(x)}
    assert count(definitions, [b * b, b + a, a]).kinds == {"arithmetic": 4}


def evaluated(program: Program, point):
    values = dict(zip(program.inputs, point, strict=True))

    def value(expression):
        if expression not in values:
            needed = {symbol: sp.Float(value(definition(symbol))) for symbol in expression.free_symbols}
            values[expression] = float(sp.sympify(expression).xreplace(needed))
        return values[expression]

    def definition(symbol):
        return symbol if symbol in values else program.definitions[symbol]

    return np.array([value(expression) for expression in program.results])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name", ["transistor_amplifier", "vehicle", "van_leer_flux", "orbital_elements", "rusanov_flux"]
)
def test_the_expressions_that_sympy_counts_are_the_jacobian(name, way):
    example = SUITE[name]
    (point,) = example.sample(1, seed=2)
    J = complex_step.jacobian(example)(point)
    expected = example.function(point) if way == "function" else np.concatenate([example.function(point), J.ravel()])
    actual = evaluated(WAYS[way](example), point)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


def test_measurements_that_take_too_long_are_abandoned():
    assert sympy_functions.measure(SUITE["gravity_field"], "cse(jacobian)", 0.05) is None


def test_a_separate_process_counts_the_same():
    example = SUITE["transistor_amplifier"]
    program = WAYS["forward with cse"](example)
    assert sympy_functions.measure(example, "forward with cse") == count(program.definitions, program.results)


def test_casadi_counts_its_instructions():
    ca = pytest.importorskip("casadi")
    from peers.casadi_functions import Symbolic, _kinds, tally_of

    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    results = [a**2 + 2 * b, 1 / a, ca.sqrt(b) / a, -a, ca.sin(a) * a**1.5, ca.fmax(a, b)]
    tally = tally_of(ca.Function("f", [a, b], results))
    assert tally.kinds == {"arithmetic": 5, "division": 2, "root": 1, "sign": 1, "function": 2}

    symbolic = Symbolic.of(SUITE["vehicle"])
    function = ca.Function("f", [symbolic.x], ca.cse([symbolic.y, symbolic.J]))
    uncounted = {code for code, kind in _kinds().items() if kind is None}
    counted = [k for k in range(function.n_instructions()) if function.instruction_id(k) not in uncounted]
    assert symbolic.operations(cse=True) == len(counted)
