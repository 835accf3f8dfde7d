"""Plans in the cache: loaded for equal requests only, whole or not at all, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside import Context

import accumulus as acc
from accumulus import DifferentiationGraph, cache, methods, plan
from accumulus.errors import ArgumentError
from accumulus.graph import generators
from accumulus.native.machine import prepare
from accumulus.options import COUNTED, OF_PLANS, SWITCH, Objective, Options
from accumulus.search import plan as plans

GRAPH = generators.random_dag(seed=1)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Return the folder of plans in a separate cache; kernels are loaded already."""
    prepare("search.order", "theory.mixed", "theory.faces", "elimination.vertex", "elimination.labels")
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    cache.version_of_kind("plans")
    return tmp_path / "cache" / "plans"


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def found(**options):
    return plan(GRAPH, **{"method": "markowitz", **options})


def key_of_found(seed):
    return plans.plan_key(GRAPH, Context(Options(method="markowitz", objective=Objective.MULTIPLICATIONS, seed=seed)))


def test_a_stored_plan_is_loaded(folder):
    first, again = found(), found()
    assert (first.recalled, again.recalled) == (False, True)
    assert first == again
    assert first.seconds == again.seconds
    assert again.graph is GRAPH
    assert len(files(folder)) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", tuple(methods()))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED), seed=st.integers())
def test_a_loaded_plan_equals_that_of_a_new_search(method, graph, objective, seed, folder):
    options = {"objective": objective, "seed": seed, "iterations": 50, "time_limit": 1e9}
    stored = plan(graph, method, **options)
    recalled = plan(graph, method, **options)
    searched = plan(graph, method, cache=False, **options)
    assert recalled.recalled
    assert not searched.recalled
    assert stored == recalled == searched


def test_another_process_loads_the_plan_of_the_same_function(tmp_path):
    program = """
import numpy as np, accumulus as acc
def f(x, n):
    for _ in range(n):
        x = np.array([x[0] * np.sin(x[1]), x[1] / (1.0 + x[0] ** 2)])
    return x
program = acc.jacobian(f, static_argnums=1, method="markowitz").compile(np.ones(2), 4)
print(program.plan.recalled, program.operations, program.plan.order)
"""
    environment = {**os.environ, SWITCH: "1", "ACCUMULUS_CACHE": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stdout.split(maxsplit=1)
        for _ in range(2)
    ]
    assert [recalled for recalled, _ in outputs] == ["False", "True"]
    assert outputs[0][1] == outputs[1][1]


def test_names_do_not_matter(folder):
    found()
    renamed = generators.random_dag(seed=1)
    renamed.name = "renamed"
    renamed.vertices = tuple(f"v{v}" for v in renamed.vertices)
    recalled = plan(renamed, "markowitz")
    assert recalled.recalled
    assert recalled.graph is renamed


@pytest.mark.parametrize(
    "other",
    [
        {"objective": "fma"},
        {"method": "forward"},
        {"seed": 1},
        {"time_limit": 4.0},
        {"time_limit": 0},
        {"effort": "thorough"},
        {"iterations": 10},
        {"iterations": 0},
    ],
)
def test_the_key_has_everything_that_determines_a_plan(other, folder):
    found()
    assert not found(**other).recalled
    assert found(**other).recalled
    assert found().recalled
    assert len(files(folder)) == 2


def test_equal_options_are_one(folder):
    found(seed=3, time_limit=1.0)
    assert found(seed=np.int64(3), time_limit=1).recalled


def test_another_version_of_the_search_searches_again(folder, monkeypatch):
    found()
    monkeypatch.setattr(cache, "version_of_kind", lambda kind: b"another")
    assert not found().recalled


def key_of(options, work=1.0):
    return plans.plan_key(GRAPH, Context(options, work=work))


def test_every_option_that_decides_a_plan_is_part_of_the_key():
    with ThreadPoolExecutor(1) as executor:
        variations = {
            "method": "vertex",
            "objective": Objective.FMA,
            "time_limit": 4.0,
            "effort": "fast",
            "seed": 1,
            "iterations": 5,
            "executor": executor,
        }
        assert tuple(variations) == OF_PLANS
        keys = {key_of(Options(**{name: value})) for name, value in variations.items()}
    assert len(keys | {key_of(Options())}) == len(variations) + 1


def test_options_after_planning_are_not_in_the_key():
    variations = {"progress": print, "cache": False, "target": "numpy", "sparse": "csr", "threads": 2}
    assert {key_of(Options(**{k: v})) for k, v in variations.items()} == {key_of(Options())}
    # what is left to the search does
    assert key_of(Options(), 1.0) != key_of(Options(), 0.5)
    # whether the tape is rewritten afterwards decides what the search counts
    float32 = {rewritten: Options(dtype="float32", optimise=rewritten) for rewritten in (True, False)}
    assert key_of(float32[True]) == key_of(Options())
    assert key_of(float32[False]) != key_of(Options())


@pytest.mark.parametrize(
    ("value", "is_on"), [(None, True), ("1", True), ("", True), ("0", False)], ids=["unset", "1", "empty", "0"]
)
def test_the_switch(value, is_on, folder, monkeypatch):
    monkeypatch.delenv(SWITCH)
    if value is not None:
        monkeypatch.setenv(SWITCH, value)
    found()
    assert found().recalled is is_on
    assert bool(files(folder)) is is_on


def test_without_a_cache(folder):
    assert not found(cache=False).recalled
    found()
    assert not found(cache=False).recalled
    plan(GRAPH, order=[GRAPH.vertices[v] for v in GRAPH.intermediates])
    assert len(files(folder)) == 1
    with pytest.raises(ArgumentError, match="cache is 'no'; expected True or False"):
        found(cache="no")
    with pytest.raises(ArgumentError, match="cache is 1"):
        acc.jacobian(np.sin, cache=1)


def test_jacobians_load_their_plans(folder):
    def f(x):
        return np.array([x[0] * np.sin(x[1]) * x[2], np.exp(x[0] * x[1]) + x[2]])

    programs = [acc.jacobian(f).compile(np.ones(3)) for _ in range(2)]
    assert [program.plan.recalled for program in programs] == [False, True]
    assert programs[0].tape.codes == programs[1].tape.codes
    np.testing.assert_array_equal(programs[0](np.arange(3.0)), programs[1](np.arange(3.0)))
    assert not acc.jacobian(f, cache=False).compile(np.ones(3)).plan.recalled
    assert not acc.jacobian(lambda x: f(x) * 2.0).compile(np.ones(3)).plan.recalled


def test_a_damaged_plan_is_made_again(folder):
    made = found()
    (file,) = files(folder)
    file.write_bytes(file.read_bytes()[:-1])
    again = found()
    assert not again.recalled
    assert again == made
    assert files(folder) == [file]
    assert found().recalled


@pytest.mark.parametrize("text", [b"[]", b"null", b"{}", b"[" * 10**5, b"{\xff}", b""])
def test_whatever_has_a_right_checksum_does_not_stop_the_search(text, folder):
    made = found()
    (file,) = files(folder)
    cache.store("plans", file.name, text)
    again = found()
    assert (again, again.recalled) == (made, False)


@pytest.mark.parametrize(
    "lie", [{"cost": 1}, {"order": [3, 4]}, {"order": None, "steps": [], "entries": []}, {"seed": "x"}]
)
def test_a_wrong_plan_with_a_right_checksum_is_dropped(lie, folder):
    made = found()
    (file,) = files(folder)
    text = json.dumps({**json.loads(cache.fetch("plans", file.name)), **lie}).encode()
    cache.store("plans", file.name, text)
    assert found() == made
    assert found().recalled


def test_plans_are_found_even_if_nothing_can_be_written(folder):
    folder.parent.write_text("a file where the folder should be")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = found()
    assert made == plan(GRAPH, "markowitz", cache=False)


def test_an_interrupted_search_is_not_stored(folder):
    def stop(cost):
        raise KeyboardInterrupt

    graph = generators.layered(layers=10, width=10, seed=1)
    stopped = plan(graph, "vertex", "fma", progress=stop)
    assert files(folder) == []
    whole = plan(graph, "vertex", "fma")
    assert not whole.recalled
    assert whole.cost < stopped.cost
    assert plan(graph, "vertex", "fma", progress=stop) == whole


def test_a_plan_by_steps_is_stored(folder):
    """Those of methods that do not eliminate vertices."""
    first = replace(found(), order=None)
    plans.store_plan("0" * 32, first, 7)
    assert plans.stored_plan("0" * 32, GRAPH) == (first, 7)


def test_trivial_graphs(folder):
    for graph in (DifferentiationGraph([]), DifferentiationGraph([("y", "x")])):
        assert plan(graph, "forward") == plan(graph, "forward")
        assert plan(graph, "forward").recalled
