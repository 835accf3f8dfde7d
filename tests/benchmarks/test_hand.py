"""The programs that were written by hand: right everywhere, and counted rightly."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

import accumulus as acc

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import all_examples, suite
from hand import BY_CHAIN_RULE, PROGRAMS, Noted, evaluate, functions, tally
from peers import complex_step

EXAMPLES = {example.name: example for example in (*all_examples(), *suite(), *functions())}
ALL = [(name, program) for programs in (PROGRAMS, BY_CHAIN_RULE) for name, program in programs.items()]
IDS = [program.__name__ for _, program in ALL]


@pytest.mark.parametrize(("name", "program"), ALL, ids=IDS)
def test_values_and_jacobians(name, program):
    example = EXAMPLES[name]
    reference = complex_step.jacobian(example)
    for x in (*example.sample(100, seed=4), example.point):
        values, jacobian = evaluate(program, example, x)
        expected, true = example.function(x), reference(x)
        np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())
        assert (np.abs(jacobian - true) <= 1e-12 * np.abs(true).max(axis=1, keepdims=True)).all()


@pytest.mark.parametrize(("name", "program"), ALL, ids=IDS)
def test_counted_programs_are_those_of_the_package(name, program):
    example = EXAMPLES[name]
    X = example.sample(20, seed=6)
    values, jacobians = acc.value_and_jacobian(example.function, effort="fast", target="numpy").batch(X)
    for x, expected, true in zip(X, values, jacobians, strict=True):
        actual, jacobian = evaluate(program, example, x)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
        assert (np.abs(jacobian - true) <= 1e-12 * np.abs(true).max(axis=1, keepdims=True)).all()


@pytest.mark.parametrize(("name", "program"), ALL, ids=IDS)
def test_entries_are_the_structural_nonzeros(name, program):
    example = EXAMPLES[name]
    _, entries = program.value_and_jacobian(list(example.point))
    graph = acc.trace(example.function, example.point).linearize()
    pattern = acc.plan(graph, method="forward").accumulation.entries
    rows, columns = {output for output, _ in pattern}, {terminal for _, terminal in pattern}
    assert len(entries) == len(pattern)
    assert len({output for output, _ in entries}) == len(rows)
    assert len({column for _, column in entries}) == len(columns)


@pytest.mark.parametrize(("name", "program"), ALL, ids=IDS)
def test_counts_are_those_of_the_source(name, program):
    # the programs have no loops, so each operation of the source is run once
    (function,) = ast.parse(inspect.getsource(program.value_and_jacobian)).body
    assert not any(isinstance(node, ast.For | ast.While | ast.comprehension | ast.If) for node in ast.walk(function))

    def is_variable(node):
        names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
        return bool(names - vars(program).keys())

    operators = [node for node in ast.walk(function) if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call)]
    assert tally(program, EXAMPLES[name]).operations == sum(map(is_variable, operators))


def test_noted_numbers_note_everything_once():
    made = []
    x = Noted(2.0, made)
    result = np.sqrt(x * x + 1.0) - 3.0 / -x
    assert made == ["arithmetic", "arithmetic", "root", "sign", "division", "arithmetic"]
    assert result.value == np.sqrt(5.0) + 1.5
    made.clear()
    np.sign(np.abs(np.sin(x)) * np.float64(2.0))
    assert made == ["function", "arithmetic", "arithmetic", "arithmetic"]
