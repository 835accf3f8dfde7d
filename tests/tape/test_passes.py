"""Compiled passes over tapes against the builders and loops in Python that they stand for."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import interpret

from accumulus import Tape
from accumulus.tape import passes
from accumulus.tape.compiled import passes_kernel
from accumulus.tape.compiled.passes_kernel import CODE, QUOTIENT, SHARED_QUOTIENT, SIGNED, TAKE, VERBATIM
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import commands, extended, rows_of, spread, topological

# SciPy takes long for some numbers; one row of three arguments stands for its functions
ROWS = [row for row in OPERATIONS if row.arity and (not row.is_scipys or row.name == "elliprf")]
SIMPLIFIED = [
    BY_NAME[name]
    for name in (
        *("add", "subtract", "multiply", "divide", "negative", "power", "select", "sin", "cos", "floor", "sign"),
        *("less", "equal", "not_equal", "logical_not", "logical_and", "logical_or"),
    )
]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, 5e-324, -(2.0**-1023), 2.0**-1024, 1e308, 2.0**1023]
SPECIAL = [math.inf, -math.inf, math.nan, -math.nan]


def contents(tape: Tape):
    """All that a tape is; numbers by their bits."""
    numbers = np.array(tape.constants).view(np.int64).tolist()
    return tape.inputs, tape.codes, tape.first, tape.second, tape.third, numbers, tape.outputs


@st.composite
def programs(draw):
    """A tape, and operations to append to it: code and arguments, references of values or of constants."""
    tape = Tape(draw(st.integers(1, 3)), signed_zeros=draw(st.booleans()))
    for value in draw(st.lists(st.sampled_from([*NUMBERS, *SPECIAL]) | st.floats(), min_size=1, max_size=6)):
        tape.constant(value)
    table = draw(st.sampled_from([ROWS, SIMPLIFIED]))
    count = draw(st.integers(0, 40))
    before = draw(st.integers(0, count))
    values = list(range(tape.inputs))
    rows = []
    for k in range(count):
        row = draw(st.sampled_from(table))
        near = (
            st.integers(max(-len(tape.constants), -2), len(values) - 1)
            if draw(st.booleans())
            else st.integers(-len(tape.constants), len(values) - 1)
        )
        arguments = [draw(near) for _ in range(row.arity)]
        if k < before:
            values.append(tape.apply_code(row.code, [values[a] if a >= 0 else a for a in arguments]))
        else:
            ways = [0, SIGNED, *[VERBATIM] * (row.arity < 3)]
            code = row.code + draw(st.sampled_from(ways))
            rows.append((code, *arguments, *[0] * (3 - row.arity)))
            values.append(-1)
    tape.outputs = [0]
    return tape, values[: len(values) - len(rows)], np.array(rows, np.int64).reshape(-1, 4)


def by_builders(tape: Tape, outputs: list[int], rows: np.ndarray):
    """Return the expected result of `extended`, by one builder after the other."""
    result, values = tape.copy(), list(outputs)
    for command, *arguments in rows.tolist():
        result.signed_zeros, code = bool(command & SIGNED), command & CODE
        operands = [values[a] if a >= 0 else a for a in arguments[: OPERATIONS[code].arity]]
        if command & VERBATIM:
            values.append(result._record(code, *operands, *[0] * (2 - len(operands))))
        else:
            values.append(result.apply_code(code, operands))
    return result, values


def as_python(state, mode):
    """Replace `passes._perform` by the kernel as Python."""
    state.mode = mode
    return interpret(passes_kernel.run_passes, state)


@given(programs())
def test_machine_code_agrees_with_python(program):
    tape, given_values, rows = program
    expected, references = extended(tape, rows, given_values)
    with mock.patch.object(passes, "_perform", as_python):
        actual, same = extended(tape, rows, given_values)
    assert contents(actual) == contents(expected)
    assert same.tolist() == references.tolist()


@settings(max_examples=max(100, settings.default.max_examples))
@given(programs(), st.sampled_from([1, -1]))
def test_many_operations_at_once_are_those_of_the_builders(program, turn):
    tape, given_values, rows = program
    given_values = given_values[::turn]
    expected, values = by_builders(tape, given_values, rows)
    actual, references = extended(tape, rows, given_values)
    assert contents(actual) == contents(expected)
    assert references.tolist() == values
    # and builders go on from there
    assert by_builders(actual, values, rows)[1] == by_builders(expected, values, rows)[1]
    assert [actual.constant(value) for value in NUMBERS] == [expected.constant(value) for value in NUMBERS]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 17])
def test_tables_grow_and_chunks_join(chunk, monkeypatch):
    monkeypatch.setattr(passes, "CHUNK", chunk)
    tape = Tape(2)
    numbers = [tape.constant(0.5 + k) for k in range(300)]
    given_values, rows = [0, 1], []
    for k in range(3_000 if chunk > 1 else 300):
        name = ("add", "subtract", "power", "divide", "negative")[k % 5]
        a, b = (k // 2) % (2 + k), numbers[k % 300] if k % 3 else (7 * k + 1) % (2 + k)
        rows.append((BY_NAME[name].code, a, 0 if name == "negative" else b, 0))
    rows = np.array(rows)
    expected, values = by_builders(tape, given_values, rows)
    actual, references = extended(tape, rows, given_values)
    assert contents(actual) == contents(expected)
    assert references.tolist() == values


def test_values_are_all_references_of_the_tape_by_default():
    tape = Tape(1)
    tape.apply("exp", 0)
    tape.outputs = [1]
    actual, references = extended(tape, commands(2, BY_NAME["multiply"].code, [1, 2], 0))
    assert references.tolist() == [0, 1, 2, 3]
    assert str(actual) == "t1 = exp(x0)\nt2 = multiply(x0, t1)\nt3 = multiply(x0, t2)\nreturn t1"
    assert tape.operations == 1


def test_later_operations_are_no_arguments():
    with pytest.raises(IndexError, match="before one of its arguments"):
        extended(Tape(2), commands(3, BY_NAME["add"].code, [0, 3, 0], 1))


def test_an_argument_may_be_taken_as_it_is():
    tape = Tape(2)
    actual, references = extended(tape, commands(2, TAKE, [1, tape.constant(4.0)]))
    assert actual.operations == 0
    assert references.tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize("quotient", [QUOTIENT, SHARED_QUOTIENT])
def test_a_quotient_by_a_number_whose_sign_is_written_down(quotient):
    tape = Tape(1)
    written, _ = extended(tape, commands(1, BY_NAME["negative"].code + VERBATIM, tape.constant(3.0)))
    # of the variable, of the number itself, of another
    actual, references = extended(written, commands(3, quotient, [0, 1, written.constant(6.0)], 1))
    actual.outputs = references[-3:].tolist()
    assert str(actual) == "t1 = negative(3.0)\nt2 = multiply(-0.3333333333333333, x0)\nreturn t2, 1.0, -2.0"


def test_rows_of_a_part_of_a_tape():
    tape = Tape(2)
    below = tape.apply("less", 0, 1)
    tape.select(below, 0, 1)
    np.testing.assert_array_equal(rows_of(tape)[2:], rows_of(tape, 2))
    assert rows_of(tape, 3).tolist() == [[BY_NAME["select"].code, 2, 0, 1]]


def test_marks_spread_in_the_order_of_edges(monkeypatch):
    marks = np.array([True, False, False, False, False])
    start, to = np.array([0, 1, 3]), np.array([1, 2, 4])
    assert spread(marks, start, to).tolist() == [True, True, True, False, False]
    assert spread(marks, start[::-1], to[::-1]).tolist() == [True, True, False, False, False]
    monkeypatch.setattr(passes, "CHUNK", 1)
    assert spread(marks, start, to).tolist() == [True, True, True, False, False]
    monkeypatch.setattr(passes, "_perform", as_python)
    assert spread(marks, start, to).tolist() == [True, True, True, False, False]
    assert marks.tolist() == [True, False, False, False, False]


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_vertices_in_topological_order(count, pairs):
    edges = [(j, i) for j, i in pairs if max(i, j) < count]
    start, to = np.array(edges, np.int32).reshape(-1, 2).T
    waiting = [int((start == v).sum()) for v in range(count)]
    expected = [v for v in range(count) if not waiting[v]]
    for v in expected:
        for j, i in edges:
            if i == v:
                waiting[j] -= 1
                if not waiting[j]:
                    expected.append(j)
    assert topological(count, start, to).tolist() == expected
    with mock.patch.object(passes, "_perform", as_python):
        assert topological(count, start, to).tolist() == expected
