"""Linearization: graphs of cases worked by hand, and Jacobians of random programs against forward dual numbers.

The reference is a forward derivative in 50 digits (`exact.DUAL`), which shares no line with what is tested.
"""

from __future__ import annotations

import random
from itertools import chain

import loops
import pytest
from exact import exact_jacobian, exact_values, mp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import BY_NAME, canonical, eliminate_vertices, emit
from programs import NUMPY, SMOOTH, programs, small_fraction

from accumulus import Tape
from accumulus.errors import ArgumentError
from accumulus.graph.linearize import linearize
from accumulus.tape.operations import CONSTANTS

#: Rows whose derivatives hold a rounded constant, such as log 2, and rows that jump.
ROUNDED = {row.name for row in BY_NAME.values() if any(c in str(row.partials) for c in CONSTANTS)}
JUMPING = {"floor", "ceil", "fmod"}
SHARP = set(NUMPY) - ROUNDED - JUMPING
CONTINUOUS = {*SMOOTH, "abs", "minimum", "maximum"} - ROUNDED
DYADIC = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5)
WITHOUT_DERIVATIVE = [row.name for row in BY_NAME.values() if row.result == "real" and set(row.partials) == {None}]


def jacobian_tape(linearization, order):
    """A tape of values and Jacobian, and where each entry of the dense Jacobian is among its outputs."""
    accumulation = eliminate_vertices(linearization.graph, order)
    accumulation.verify()
    tape = emit(accumulation)
    start = len(linearization.rows)
    position = {entry: start + k for k, entry in enumerate(sorted(accumulation.entries))}
    columns = range(len(linearization.columns))
    return tape, [[position.get((row, column)) for column in columns] for row in linearization.rows]


def dense(values, positions):
    return [[0 if position is None else values[position] for position in row] for row in positions]


def tape_of(write, inputs=3):
    tape = Tape(inputs)
    tape.outputs = write(tape, tape.apply)
    return tape


#: What a function returns, and its graph: names of vertices, roots, edges with labels, and the root of each output.
CASES = {
    "x*x": (lambda t, f: [f("multiply", 0, 0)], ["v3"], ["v3 → x0: multiply(2.0, x0)"], (0,)),
    "x*y": (lambda t, f: [f("multiply", 0, 1)], ["v3"], ["v3 → x0: x1", "v3 → x1: x0"], (0,)),
    "x-x": (lambda t, f: [f("subtract", 0, 0)], [], [], (-1,)),
    "x/x": (lambda t, f: [f("divide", 0, 0)], ["v3"], ["v3 → x0: subtract(t4, t5)"], (0,)),
    "max(x,x)": (lambda t, f: [f("maximum", 0, 0)], ["v3"], ["v3 → x0: multiply(2.0, t7)"], (0,)),
    "output is an input": (lambda t, f: [1, 0], ["y0", "y1"], ["y0 → x1: 1.0", "y1 → x0: 1.0"], (0, 1)),
    "constant output": (lambda t, f: [t.constant(3.0)], [], [], (-1,)),
    "duplicate outputs": (
        lambda t, f: [f("sin", 0), f("sin", 0), 0, 0],
        ["v3", "y1"],
        ["v3 → x0: cos(x0)", "y1 → x0: 1.0"],
        (0, 0, 1, 1),
    ),
    "output below an output": (
        lambda t, f: [f("exp", 0), f("sin", f("exp", 0))],
        ["y0", "v4"],
        ["v3 → x0: t3", "v4 → v3: cos(t3)", "y0 → v3: 1.0"],
        (0, 1),
    ),
    "no outputs": (lambda t, f: [], [], [], ()),
    "dead operations": (lambda t, f: [f("sin", 0), f("cos", 1)][:1], ["v3"], ["v3 → x0: cos(x0)"], (0,)),
    "dead operations above": (
        lambda t, f: [f("add", 0, 1), f("exp", f("add", 0, 1))][:1],
        ["v3"],
        ["v3 → x0: 1.0", "v3 → x1: 1.0"],
        (0,),
    ),
    "zero partial": (lambda t, f: [f("add", f("floor", 0), 1)], ["v4"], ["v4 → x1: 1.0"], (0,)),
    "only zero partials": (lambda t, f: [f("sin", f("sign", 0))], [], [], (-1,)),
    "division by infinity": (lambda t, f: [f("divide", 0, t.constant(-float("inf")))], [], [], (-1,)),
    "division by zero": (lambda t, f: [f("divide", 0, t.constant(0.0))], ["v3"], ["v3 → x0: inf"], (0,)),
    "condition": (
        lambda t, f: [f("select", f("less", 0, 1), 2, t.constant(0.0))],
        ["v4"],
        ["v4 → x2: select(t3, 1.0, 0.0)"],
        (0,),
    ),
    "x**x": (lambda t, f: [f("power", 0, 0)], ["v3"], ["v3 → x0: add(t6, t10)"], (0,)),
    "x**3": (lambda t, f: [f("power", 0, t.constant(3.0))], ["v3"], ["v3 → x0: multiply(3.0, t4)"], (0,)),
}


def shown(graph):
    """Edges with their labels, as operations on what is on the tape."""
    tape = graph.tape

    def label(reference):
        if reference < tape.inputs or f"v{reference}" in graph.vertices:
            return tape.name(reference)
        return f"{tape.operation(reference).name}({', '.join(map(tape.name, tape.arguments(reference)))})"

    return sorted(
        f"{graph.vertices[j]} → {graph.vertices[i]}: {label(k)}"
        for j, i, k in zip(graph.sources, graph.targets, graph.labels, strict=True)
    )


@pytest.mark.parametrize("case", CASES)
def test_graph_of_a_function(case):
    write, roots, edges, rows = CASES[case]
    linearization = linearize(tape_of(write))
    graph = linearization.graph
    assert [graph.vertices[v] for v in graph.terminals] == ["x0", "x1", "x2"]
    assert [graph.vertices[v] for v in graph.roots] == roots
    assert shown(graph) == edges
    assert linearization.rows == rows


def test_the_tape_is_not_written_on():
    tape = tape_of(lambda t, f: [f("sin", 0)])
    before = str(tape)
    linearization = linearize(tape, name="sine")
    assert str(tape) == before
    assert linearization.tape.outputs == tape.outputs
    assert linearization.graph.name == "sine"


def test_subset_of_inputs():
    tape = tape_of(lambda t, f: [f("multiply", 0, f("sin", 1)), f("exp", 2), 2])
    linearization = linearize(tape, [2, 0])
    assert linearization.columns == (2, 0)
    assert [linearization.graph.vertices[v] for v in linearization.graph.terminals] == ["x2", "x0"]
    assert shown(linearization.graph) == ["v4 → x0: sin(x1)", "v5 → x2: t5", "y2 → x2: 1.0"]
    assert linearize(tape, []).rows == (-1, -1, -1)


@pytest.mark.parametrize("inputs", [[0, 0], [3], [-1], [0, 1, 2, 3]])
def test_refused_inputs(inputs):
    with pytest.raises(ArgumentError, match="expected each once, out of 0 … 2"):
        linearize(tape_of(lambda t, f: [0]), inputs)


def generic_point(seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.uniform(0.1, 3.0) for _ in range(3)]


def assert_equal(got, expected):
    for a, b in zip(chain(*got), chain(*expected), strict=True):
        assert mp.almosteq(a, b, 1e-25, 1e-25), f"{a}, expected {b}"


@given(program=programs(SHARP, constants=DYADIC), seed=st.integers(0, 10**6), data=st.data())
def test_jacobians_of_random_programs(program, seed, data):
    tape, point = program.tape(), generic_point(seed)
    expected = exact_jacobian(tape, point)
    assume(all(mp.isfinite(x) for x in [*chain(*expected), *exact_values(tape, point)]))
    linearization = linearize(tape)
    order = data.draw(st.permutations(linearization.graph.intermediates))
    jacobian, positions = jacobian_tape(linearization, order)
    assume(all(map(small_fraction, jacobian.constants)))
    values = exact_values(jacobian, point)
    assert values[: len(tape.outputs)] == exact_values(tape, point)
    assert_equal(dense(values, positions), expected)


@given(program=programs(CONTINUOUS, constants=DYADIC), seed=st.integers(0, 10**6))
def test_optimised_jacobians_of_random_programs(program, seed):
    tape, point = program.tape(), generic_point(seed)
    expected = exact_jacobian(tape, point)
    assume(all(mp.isfinite(x) and abs(x) < 1e100 for x in chain(*expected)))
    linearization = linearize(tape)
    jacobian, positions = jacobian_tape(linearization, linearization.graph.intermediates)
    optimised = canonical(jacobian)
    assume(all(map(small_fraction, optimised.constants)))
    assert_equal(dense(exact_values(optimised, point), positions), expected)


@given(program=programs(), inputs=st.lists(st.integers(0, 2), unique=True), seed=st.integers(0, 10**6))
def test_subsets_are_columns_of_the_whole(program, inputs, seed):
    tape, point = program.tape(), generic_point(seed)
    columns = []
    for subset in (inputs, None):
        linearization = linearize(tape, subset)
        jacobian, positions = jacobian_tape(linearization, linearization.graph.intermediates)
        columns.append(dense(exact_values(jacobian, point), positions))
    some, whole = columns
    finite = all(mp.isfinite(x) for row in whole for x in row)
    assume(finite)
    assert_equal(some, [[row[column] for column in inputs] for row in whole])


def test_table_rows_without_derivative_make_no_edges():
    for name in WITHOUT_DERIVATIVE:
        assert linearize(tape_of(lambda t, f, name=name: [f(name, 0)])).rows == (-1,)


@settings(max_examples=50)
@given(program=programs(), data=st.data())
def test_all_partials_at_once_as_one_after_the_other(program, data):
    tape = program.tape()
    columns = data.draw(st.permutations(range(tape.inputs)))[: data.draw(st.integers(0, tape.inputs))]
    graph = linearize(tape, columns).graph
    expected, labels_of = loops.local_partials(tape, columns)
    assert str(graph.tape) == str(loops.unattached(expected))
    inner = [int(name[1:]) for name in graph.vertices if name.startswith("v")]
    labels = [label for reference in inner for label in labels_of[reference].values()]
    arguments = [argument for reference in inner for argument in labels_of[reference]]
    assert [graph.vertices[target][1:] for target in graph.targets[: len(labels)]] == list(map(str, arguments))
    if "attach" not in str(tape):
        assert [graph.tape.name(label) for label in graph.labels[: len(labels)]] == list(map(expected.name, labels))


@given(program=programs(set(BY_NAME) - {"input", "select"}), data=st.data())
def test_all_steps_at_once_as_one_after_the_other(program, data):
    graph = linearize(program.tape()).graph
    order = data.draw(st.permutations(graph.intermediates))
    accumulation = eliminate_vertices(graph, order)
    assert str(emit(accumulation)) == str(loops.emit(accumulation))
