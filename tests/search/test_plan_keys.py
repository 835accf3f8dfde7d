"""Properties of a graph on which its hash depends, and those on which it does not."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given

import accumulus as acc
from accumulus import DifferentiationGraph, Kind
from accumulus.cache import CODE, code_version, version_of_kind
from accumulus.search.plan import graph_hash

EDGES = [("y", "a"), ("z", "a"), ("a", "b", 2.5), ("b", "x"), ("z", "w", -1.0)]
SELF = graph_hash(DifferentiationGraph(EDGES))

FUNCTION = """
import numpy as np
def f(x):
    return np.array([x[0] * np.sin(x[1]), np.where(x[1] > 0, x[0] / x[1], 3.0)])
"""


@given(graphs(sized=True))
def test_names_do_not_count(graph):
    number = {name: k for k, name in enumerate(graph.vertices)}
    again = DifferentiationGraph.from_arrays(
        graph.sources,
        graph.targets,
        graph.kinds,
        vertices=[f"another {number[name]}" for name in graph.vertices],
        roots=graph.roots,
        terminals=graph.terminals,
        constants=graph.constants,
        symbols=[None if symbol is None else f"{symbol}′" for symbol in graph.symbols],
        sizes=graph.sizes,
        name="another",
    )
    assert graph_hash(again) == graph_hash(graph)


@pytest.mark.parametrize(
    "other",
    [
        DifferentiationGraph(EDGES[:-1]),
        DifferentiationGraph([*EDGES, ("y", "w")]),
        DifferentiationGraph([("y", "a"), ("z", "b"), *EDGES[2:]]),
        DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b", 2.75), *EDGES[3:]]),
        DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b", Kind.CONSTANT), *EDGES[3:]]),
        DifferentiationGraph([*EDGES[:-1], ("z", "w")]),
        DifferentiationGraph([*EDGES[:-1], ("z", "w", 1.0)]),
        DifferentiationGraph(EDGES, roots=["z", "y"]),
        DifferentiationGraph(EDGES, terminals=["w", "x"]),
        DifferentiationGraph(EDGES, roots=["y"]),
        DifferentiationGraph(EDGES, sizes={"x": 2}),
        DifferentiationGraph([("y", "a", "s"), ("z", "a", "s"), *EDGES[2:]]),
    ],
)
def test_everything_else_counts(other):
    assert graph_hash(other) != SELF


def test_which_symbols_are_equal_counts():
    def hashed(*symbols):
        return graph_hash(DifferentiationGraph([("y", "x", symbol) for symbol in symbols]))

    assert hashed("a", "b") == hashed("c", "a") != hashed("a", "a") == hashed("b", "b")
    assert len({hashed("a", "b"), hashed("a", "a"), hashed(None, "a"), hashed("a", None), hashed(None, None)}) == 5


def test_numbering_counts():
    """Graphs that are numbered differently may have different plans, as the module says."""
    assert graph_hash(DifferentiationGraph(EDGES[::-1])) != SELF


def test_a_function_traced_again_has_the_same_hash_in_every_process():
    scope = {}
    exec(FUNCTION, scope)
    mine = [graph_hash(acc.trace(scope["f"], np.zeros(2)).linearize()) for _ in range(2)]
    program = (
        f"{FUNCTION}\nimport accumulus as acc\nfrom accumulus.search.plan import graph_hash\n"
        "print(graph_hash(acc.trace(f, np.ones(2)).linearize()))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [*mine, ran.stdout.strip()] == mine[:1] * 3


def test_the_tape_of_the_function_counts():
    """Operations of a plan are counted together with those of the function."""

    def hashed(f):
        return graph_hash(acc.trace(f, np.zeros(2)).linearize())

    assert hashed(lambda x: np.sin(x[0]) * x[1]) != hashed(lambda x: np.cosh(x[0]) * x[1])
    assert hashed(lambda x: 2.0 * x[0] + x[1]) != hashed(lambda x: 3.0 * x[0] + x[1])


def test_the_version_of_the_search_is_that_of_its_files(monkeypatch, tmp_path):
    from accumulus import cache

    assert version_of_kind("plans") == version_of_kind("plans")
    for folder in CODE["plans"][1]:
        (tmp_path / folder).mkdir()
    source = tmp_path / "search" / "plans" / "plan_keys.py"
    source.parent.mkdir()
    source.write_text("one")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    fresh = partial(version_of_kind.__wrapped__, "plans")
    versions = [fresh()]
    assert fresh() == versions[0]
    source.write_text("three")
    versions.append(fresh())
    (tmp_path / "tape" / "new.py").write_text("")
    versions.append(fresh())
    Path(tmp_path / "tape" / "notes.txt").write_text("not code")
    assert fresh() == versions[-1]
    assert len(set(versions)) == 3


def test_a_package_that_is_gone_is_missed():
    with pytest.raises(AssertionError, match=r"no folder accumulate$"):
        code_version((), ("tape", "accumulate"))
