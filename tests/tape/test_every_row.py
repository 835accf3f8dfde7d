"""Every row of the table, through what prints operations and what interprets them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from inside import Points

from accumulus import Tape
from accumulus.errors import CompileError
from accumulus.resubstitution.proofs import _largest
from accumulus.rewriting.compiled.fields import UNDEFINED
from accumulus.rewriting.rounding import run_at_points
from accumulus.tape.error_bounds import evaluate_with_bounds
from accumulus.tape.interpreter import evaluate
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.targets.c.c_expressions import Expressions, Mathematics

each_row = pytest.mark.parametrize("row", OPERATIONS[1:], ids=lambda row: row.name)


def program(row: Operation) -> tuple[Tape, list[float]]:
    """The operation on inputs, orders being constants, and a point in its domain."""
    tape = Tape(row.arity)
    makers = {
        "boolean": lambda k: tape.apply("not_equal", k, tape.constant(0.0)),
        "order": lambda k: tape.constant(2.0),
        "real": lambda k: k,
    }
    tape.outputs = [tape.apply_code(row.code, [makers[kind](k) for k, kind in enumerate(row.arguments)])]
    return tape, [next(x for x in (0.7, 1.3, -0.7) if low < x < high) if low < 2 else low for low, high in row.domain]


@each_row
def test_languages_spell_it_or_say_that_they_do_not_have_it(row):
    tape, _ = program(row)
    (output,) = tape.outputs
    if row.is_scipys:
        with pytest.raises(CompileError, match=r"only SciPy has the function scipy\.special\."):
            Expressions(tape, Mathematics("f", "float64"), {}).operation(output)
        return
    text = Expressions(tape, Mathematics("f", "float64"), {}).operation(output)
    assert all(f"x{a}" in text or f"t{a}" in text for a in tape.arguments(output) if a >= 0 and row.name != "attach")
    for template in filter(None, (row.numpy, row.jax)):
        assert all(f"{{{k}}}" in template for k in range(row.arity) if row.name != "attach")


@each_row
def test_sympy_computes_the_same(row):
    sp = pytest.importorskip("sympy")
    from accumulus.frontends.sympy.expressions import sympy_expressions

    tape, point = program(row)
    symbols = sp.symbols("x:3", real=True)[: row.arity]
    _, (result,) = sympy_expressions(tape, symbols, iter(sp.symbols("t:9")), {})
    if result.is_Function and isinstance(result, sp.core.function.AppliedUndef):  # SymPy has no such function
        assert result.func.__name__ == row.name
        return
    value = result.subs(dict(zip(symbols, map(sp.Float, point), strict=True)))
    assert float(bool(value) if row.result == "boolean" else value) == pytest.approx(float(evaluate(tape, point)[0]))


@each_row
def test_interpreters_agree(row):
    tape, point = program(row)
    value = float(evaluate(tape, point)[0])
    assert math.isfinite(value)
    assert row.bounds[0] <= value <= row.bounds[1]
    values, bounds = evaluate_with_bounds(tape, [np.array([x]) for x in point])
    assert values[0, 0] == value
    assert 0.0 <= bounds[0, 0] < 1e-9 * (1.0 + abs(value))
    at, errors = run_at_points(tape, np.array([point]))
    assert at[tape.outputs[0], 0] == pytest.approx(value, rel=1e-14)
    assert errors[tape.outputs[0], 0] >= 0.0


@each_row
def test_exact_domains_take_it(row):
    tape, _ = program(row)
    (output,) = tape.outputs
    runs = [Points(tape, bits_matter=True).run(tape) for _ in range(2)]
    first, second = (tuple(values[output].tolist() for values in run[:3]) for run in runs)
    assert first == second
    assert UNDEFINED not in first[0]
    assert np.isfinite(first[2]).all()
    assert _largest(tape).degree >= 0
