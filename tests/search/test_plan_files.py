"""Plan files: what is saved is read back, for functions as well; what is malformed or wrong is refused."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accumulus as acc
from accumulus import DifferentiationGraph, load_plan, methods, plan, save_plan
from accumulus.errors import AccumulusError, ArgumentError, PlanError
from accumulus.options import COUNTED
from accumulus.search.plan import VERSION, graph_hash

METHODS = tuple(methods())
EXAMPLES = Path(__file__).parents[2] / "examples"


def same(first, second):
    """Return True if two plans are equal except for the names of their graphs."""
    assert graph_hash(first.graph) == graph_hash(second.graph)
    assert (first.method, first.objective, first.cost) == (second.method, second.objective, second.cost)
    assert (first.order, first.lower_bound, first.seed) == (second.order, second.lower_bound, second.seed)
    assert first.seconds == second.seconds
    assert list(first.accumulation.steps) == list(second.accumulation.steps)
    assert first.accumulation.entries == second.accumulation.entries
    assert first.costs == second.costs
    return True


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED), seed=st.integers())
def test_round_trip(method, graph, objective, seed, tmp_path):
    made = plan(graph, method, objective, seed=seed, iterations=50, time_limit=1e9)
    save_plan(made, tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text()
    again = load_plan(tmp_path / "plan.json")
    assert same(made, again)
    assert again.graph.vertices == graph.vertices
    assert again.graph.name == graph.name
    assert again.graph.symbols == graph.symbols
    save_plan(again, tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == text
    json.loads(text, parse_constant=pytest.fail)  # no NaN and Infinity, which are not JSON


def functions():
    """Functions of the examples, and some with odd tapes: branches, constants that are not finite, signs of zeros."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        from pollu import pollu
        from roe_flux import roe_flux
    finally:
        sys.path.remove(str(EXAMPLES))

    def branches(x):
        low = np.where(x[0] < -1.0, x[1] / 0.3, np.minimum(x[0], x[1]) ** 3)
        return np.array([low, np.where(x[1] > x[0], np.inf, 2.0 * low), np.maximum(x[0], 1.0) + 1.5])

    def angles(x):
        y, z = 0.0 - x[0], x[1] + 0.0
        return np.array([np.arctan2(y - z, -z - x[2]), np.arctan2(0.0 * x[2], z - y), y * z, np.sign(-x[2]) * z])

    return {"roe_flux": (roe_flux, 6), "pollu": (pollu, 20), "branches": (branches, 2), "angles": (angles, 3)}


@pytest.mark.parametrize("name", ["roe_flux", "pollu", "branches", "angles"])
def test_plans_of_functions(name, tmp_path):
    f, inputs = functions()[name]
    trace = acc.trace(f, np.ones(inputs))
    graph = trace.linearize()
    made = plan(graph, objective="operations", iterations=100, time_limit=1e9)
    save_plan(made, tmp_path / "plan.json")
    assert same(made, acc.load_plan(tmp_path / "plan.json"))
    for_trace = acc.load_plan(tmp_path / "plan.json", graph)
    assert same(made, for_trace)
    x = np.linspace(0.5, 1.5, inputs)
    np.testing.assert_array_equal(trace.compile(for_trace)(x), trace.compile(made)(x))


def test_a_plan_for_a_graph_with_other_constants(tmp_path):
    def graph(factor):
        return acc.trace(lambda x: np.sin(factor * x[0]) * x[1], np.zeros(2)).linearize()

    made = plan(graph(3.0), objective="operations")
    save_plan(made, tmp_path / "plan.json")
    other = graph(5.0)
    moved = load_plan(tmp_path / "plan.json", other)
    assert moved.graph is other
    assert moved.order == made.order
    with pytest.raises(PlanError, match="is for another graph than the one given: the number of vertices differ"):
        load_plan(tmp_path / "plan.json", acc.trace(np.sin, np.zeros(1)).linearize())
    with pytest.raises(ArgumentError, match="graph is a list; expected a DifferentiationGraph"):
        load_plan(tmp_path / "plan.json", [])


def test_a_bound_holds_for_an_equal_cost_only(tmp_path):
    def graph(label):
        return DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x", label), ("b", "x", 5.0)])

    made = replace(plan(graph(3.0), objective="operations"), lower_bound=2)
    save_plan(made, tmp_path / "plan.json")
    again = load_plan(tmp_path / "plan.json", graph(4.0))
    assert (again.cost, again.lower_bound) == (made.cost, 2) == (3, 2)
    cheaper = load_plan(tmp_path / "plan.json", graph(0.0))
    assert (cheaper.cost, cheaper.lower_bound) == (1, None)
    with pytest.raises(PlanError, match="the kinds of the labels differ"):
        load_plan(tmp_path / "plan.json", graph(None))
    with pytest.raises(PlanError, match="the edges differ"):
        load_plan(
            tmp_path / "plan.json",
            DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x", 3.0), ("a", "x", 5.0)]),
        )


CHAIN = DifferentiationGraph(
    [("y", "a"), ("z", "a"), ("a", "b", "s"), ("b", "c", 0.5), ("c", "x", -1.0), ("z", "c"), ("a", "c")], name="chain"
)
FUNCTION = acc.trace(lambda x: np.array([np.sin(x[0]) * x[1] + 2.0, x[0]]), np.zeros(2)).linearize()


def written(made, tmp_path):
    save_plan(made, tmp_path / "plan.json")
    return json.loads((tmp_path / "plan.json").read_text())


def load(data, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return load_plan(path)


def steps_of(made):
    """Return the same plan as a method without an order returns it."""
    return replace(made, order=None)


def changed(data, path, value):
    data = copy.deepcopy(data)
    *way, last = path
    node = data
    for key in way:
        node = node[key]
    if value is KeyError:
        del node[last]
    else:
        node[last] = value
    return data


#: Which part of the file of a plan for CHAIN is changed, to what, and what the message says.
MALFORMED = [
    (["format"], "another", 'expected an object with "format": "accumulus plan"'),
    (["format"], KeyError, "expected an object with"),
    (["version"], VERSION + 1, f"version {VERSION + 1}, this accumulus reads up to {VERSION}; install"),
    (["version"], 0, "'version' is 0"),
    (["version"], "1", "'version' is '1'"),
    (["vresion"], 1, "the file has the unknown key 'vresion'"),
    (["method"], 3, "'method' is 3"),
    (["objective"], "price", "'objective' is 'price'; expected 'fma' or"),
    (["objective"], [], "'objective' is"),
    (["objective"], "time", "'time' was removed.* Use 'operations'.* make the plan again"),
    (["cost"], "3", "'cost' is '3'"),
    (["cost"], 1, "'cost' is 1, but the plan costs 6 fma"),
    (["cost"], None, "'cost' is None"),
    (["lower_bound"], 9, "'lower_bound' is 9; expected null or a whole number from 0 to the cost 6"),
    (["lower_bound"], 1.5, "'lower_bound' is 1.5"),
    (["seed"], 0.5, "'seed' is 0.5"),
    (["seconds"], -1, "'seconds' is -1"),
    (["seconds"], True, "'seconds' is True"),
    (["order"], [1, 3], "'order': the order leaves out"),
    (["order"], [1, 3, 3, 4], "2 times"),
    (["order"], [1, 3, 400], "'order' is .*from 0 to 5"),
    (["order"], "abc", "'order' is 'abc'"),
    (["order"], None, "neither 'order' nor 'steps' and 'entries'"),
    (["steps"], [], "'entries' is None"),
    (["graph"], None, "'graph' is None"),
    (["graph", "vertices"], [1.5], "'vertices' is"),
    (["graph", "vertices"], KeyError, "'vertices' is None"),
    (["graph", "roots"], [0, 77], "'roots' is .*from 0 to 5"),
    (["graph", "roots"], [0, 0], "a root is named twice|vertex 0 is a root"),
    (["graph", "roots"], [0, 1], "vertex 1 is a root; expected no edges to it|a root"),
    (["graph", "terminals"], [5, 5], "'graph': terminal 'x' is named 2 times"),
    (["graph", "terminals"], [1], "terminal 'a' depends on"),
    (["graph", "edges"], {}, "expected two lists of one length"),
    (["graph", "edges", 0], [0], r"'edges\[0\]' is \[0\]; expected a list of 2 whole numbers"),
    (["graph", "edges", 0], [0, -1], r"'edges\[0\]' is"),
    (["graph", "edges", 4], [4, 0], "'graph': the graph has a cycle|vertex 0 is a root"),
    (["graph", "edges", 2], [4, 1], "'graph': the graph has a cycle"),
    (["graph", "labels"], [], "expected two lists of one length"),
    (["graph", "labels", 0], "absent", r"labels\[0\] is 'absent'"),
    (["graph", "labels", 0], {"sign": 1}, r"labels\[0\] is"),
    (["graph", "labels", 0], [], r"labels\[0\] is"),
    (["graph", "labels", 0], True, r"labels\[0\] is True"),
    (["graph", "sizes"], [1], "'sizes' is"),
    (["graph", "sizes"], [1, 0, 1, 1, 1, 1], "a size is 0"),
    (["graph", "name"], 5, "the graph's 'name' is 5"),
    (["graph", "about"], 5, "'graph' has the unknown key 'about'"),
]


@pytest.mark.parametrize(("path", "value", "message"), MALFORMED, ids=lambda value: str(value)[:40])
def test_malformed(path, value, message, tmp_path):
    data = written(plan(CHAIN, "forward", "fma"), tmp_path)
    assert load(data, tmp_path).cost == 6
    with pytest.raises(PlanError, match=rf"odd\.json: .*({message})") as caught:
        load(changed(data, path, value), tmp_path)
    assert len(str(caught.value)) < 1000


#: The same for a plan that is written as steps.
WRONG_STEPS = [
    (["steps"], KeyError, "'steps' is None"),
    (["entries"], KeyError, "'entries' is None"),
    (["steps", 0], ["*", 1], r"steps\[0\] is"),
    (["steps", 0], ["-", 1, 2], r"steps\[0\] is"),
    (["steps", 0], [[], 1, 2], r"steps\[0\] is"),
    (["steps", 0, 1], -1, r"steps\[0\] is .*expected references from 0 to 6"),
    (["steps", 0, 1], 7, "expected references from 0 to 6"),
    (["steps", 0, 1], 10**30, "expected references from 0 to 6"),
    (["steps", 0, 1], 1.0, "expected references from 0 to 6"),
    (["entries", 0], [0, 0], r"'entries\[0\]' is"),
    (["entries", 0], [0, 5, 3], r"entry \(0, 5\) is reference 3"),
    (["entries", 0, 2], 10**6, r"entry \(0, 0\) is reference 1000000"),
    (["entries", 1], [0, 0, 3], r"entries\[1\] is"),
    (["entries"], [], "does not compute the derivatives of root 'y'"),
    (["steps", 0, 0], "+", "does not compute the derivatives of root .*; make the plan again"),
    (["order"], [1, 2], "'order' is"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG_STEPS, ids=lambda value: str(value)[:40])
def test_wrong_steps(path, value, message, tmp_path):
    data = written(steps_of(plan(CHAIN, "forward", "fma")), tmp_path)
    assert load(data, tmp_path).order is None
    with pytest.raises(PlanError, match=rf"odd\.json: .*{message}"):
        load(changed(data, path, value), tmp_path)


#: The same for a plan of a function.
WRONG_TAPES = [
    (["tape"], [], r"'tape' is \[\]"),
    (["tape", "inputs"], -2, "'inputs' is"),
    (["tape", "inputs"], 1, "expected|takes"),
    (["tape", "constants"], KeyError, "expected lists 'constants', 'operations' and 'outputs'"),
    (["tape", "constants", 0], "zero", r"constants\[0\] is 'zero'"),
    (["tape", "constants"], [2.0, 2.0, 1.0], r"constants\[1\] is 2.0; expected a number that is not in the list yet"),
    (["tape", "operations", 0], "sin", r"operations\[0\] is 'sin'"),
    (["tape", "operations", 0], ["sin"], r"operations\[0\]: sin takes 1 arguments, 0 were given"),
    (["tape", "operations", 0], ["sine", 0], r"operations\[0\]: unknown operation 'sine'; did you mean 'sin"),
    (["tape", "operations", 0], ["sin", 2], r"operations\[0\] is .*references before it"),
    (["tape", "operations", 0], ["sin", -9], r"operations\[0\] is .*references before it"),
    (["tape", "operations", 0], ["sin", "os"], r"operations\[0\] is .*references before it"),
    (["tape", "operations", 0], ["subtract", 0, -1], "expected"),
    (["tape", "operations", 1], ["sin", 0], r"operations\[1\] is .*; expected a simplified operation"),
    (["tape", "outputs"], [99], "outputs that are on it"),
    (["tape", "outputs"], ["x"], "outputs that are on it"),
    (["tape", "code"], "", "'tape' has the unknown key 'code'"),
    (["labels", 0], 99, r"labels\[0\] is 99; expected a reference of the tape"),
    (["labels", 0], "variable", r"labels\[0\] is 'variable'; expected a reference"),
    (["roots"], [0], "a root|depends|root"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG_TAPES, ids=lambda value: str(value)[:40])
def test_wrong_tapes(path, value, message, tmp_path):
    data = written(plan(FUNCTION, objective="operations"), tmp_path)
    assert load(data, tmp_path).graph.tape is not None
    with pytest.raises(PlanError, match=rf"odd\.json: .*({message})"):
        load(changed(data, ["graph", *path], value), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a JSON file"),
        ('{"format": "accumulus plan"', "is not a JSON file"),
        ("__import__('os').abort()", "is not a JSON file"),
        ("[" * 10**6, "is not a JSON file"),
        ("[]", "expected an object"),
        ('{"edges": []}', "expected an object with"),
        ('{"format": "accumulus plan", "version": 1}', "'graph' is None"),
    ],
    ids=range(7),
)
def test_not_a_plan(text, message, tmp_path):
    with pytest.raises(PlanError, match=message):
        load(text, tmp_path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_plan(tmp_path / "nosuch.json")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), of_function=st.booleans(), as_steps=st.booleans())
def test_no_change_makes_a_wrong_plan(data, of_function, as_steps, tmp_path):
    """Any one number or word of a file is changed: it is refused, or what is read is a right plan."""
    made = plan(FUNCTION if of_function else CHAIN, "reverse", data.draw(st.sampled_from(COUNTED)))
    file = written(steps_of(made) if as_steps else made, tmp_path)
    positions = list(leaves(file))
    position = data.draw(st.sampled_from(positions))
    value = data.draw(
        st.one_of(st.integers(-10, 10), st.sampled_from(["*", "+", "one", "sin", "", None, True, 0.5, [], {}]))
    )
    try:
        again = load(changed(file, position, value), tmp_path)
    except PlanError:
        return
    except AccumulusError as error:
        pytest.fail(f"{error!r} instead of PlanError")
    again.verify()
    assert again.cost == again.costs[again.objective]
    assert again.lower_bound is None or again.lower_bound <= again.cost


def leaves(data, path=()):
    if isinstance(data, dict | list) and data:
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from leaves(data[key], (*path, key))
    else:
        yield path
