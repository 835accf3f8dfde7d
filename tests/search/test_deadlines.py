"""Every method stops soon after its time is over, on every kind of graph.

Nothing here depends on how fast a machine is: the clock goes on by a millisecond with each look at it, and what is done
between two looks is counted in function calls. A plan is written down, and its tape counted, in one piece.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from inside import Context, layered

import accumulus as acc
from accumulus import DifferentiationGraph, methods
from accumulus.errors import TimeLimitWarning
from accumulus.graph.generators import banded, dense_layers, series_parallel, star
from accumulus.options import EFFORTS, Objective, Options
from accumulus.search import registry, vertex_orders
from accumulus.search.elimination import cheapest_sweep
from accumulus.search.find import find_plan
from accumulus.search.registry import ANYWAY, get
from accumulus.search.vertex_orders import greedy_orders

#: Calls between two looks, at most, and looks after the time is over.
MOST_CALLS = 300_000
MOST_LOOKS = 80
#: That a method is given.
SECONDS = 0.12


def running_sum(length):
    edges = [(f"s{k}", f"x{k}", 1) for k in range(length)]
    edges += [(f"s{k}", f"s{k - 1}", 1) for k in range(1, length)]
    return DifferentiationGraph(edges + [("y", f"s{k}") for k in range(length)])


def of_function():
    def body(x):
        for _ in range(12):
            x = x + 0.1 * np.array([x[1], -np.sin(x[0]) * x[1], x[0] * x[2]])
        return x

    return acc.trace(body, np.ones(3)).linearize()


GRAPHS = {
    "layered": layered(layers=20, width=8, degree=3, seed=1),
    "dense layers": dense_layers(widths=[18, 20, 18]),
    "running sum": running_sum(400),
    "star": star(inputs=100, outputs=100),
    "series and parallel": series_parallel(edges=600, noise=60, seed=2),
    "banded": banded(intermediates=200, bandwidth=6),
    "function": of_function(),
}


CHAIN = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "b"), ("b", "w"), ("b", "x")])


class Clock:
    """Goes on with each look, and counts the calls of functions between looks."""

    def __init__(self):
        self.time = 0.0
        self.calls = self.most = self.looks = 0

    def __call__(self):
        self.time += 1e-3
        self.looks += 1
        self.most, self.calls = max(self.most, self.calls), 0
        return self.time

    def watch(self, run):
        def count(frame, event, argument):
            self.calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            return run()
        finally:
            sys.setprofile(None)
            self()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", tuple(methods()))
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_methods_look_at_the_clock_and_stop(graph, name):
    method = get(name)
    method(CHAIN, Context(Options(effort="thorough", objective="multiplications")))  # imports and compiles
    for effort in EFFORTS if method.seconds is None else EFFORTS[:1]:
        for objective in ("operations", "multiplications") if effort == EFFORTS[0] else ("operations",):
            options = Options(objective=objective, effort=effort)
            clock = Clock()
            result = clock.watch(lambda c=clock, o=options: method(graph, Context(o, SECONDS, c)))
            result.accumulation.verify()
            assert clock.most <= MOST_CALLS, (effort, objective)
            assert clock.time <= max(SECONDS, ANYWAY) + 1e-3 * MOST_LOOKS, (effort, objective)


@pytest.mark.parametrize("name", [name for name in methods() if get(name).seconds is not None])
def test_procedures_hand_back_the_better_sweep_when_they_do_not_finish(name):
    graph = GRAPHS["dense layers"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "ANYWAY", 0.0)
        result = get(name)(graph, Context(Options(), 2.5e-3, Clock()))
    # nothing to be found, or within one call of a kernel
    if name in ("forward", "reverse", "markowitz", "edge-pushing"):
        assert not result.unfinished
        return
    assert result.unfinished
    assert result.order == cheapest_sweep(graph).order


def test_an_unfinished_method_is_no_secret(monkeypatch):
    monkeypatch.setattr(registry, "ANYWAY", 0.0)
    graph = GRAPHS["dense layers"]
    with pytest.warns(TimeLimitWarning, match="dstar did not finish .* the plan is by forward"):
        plan = find_plan(graph, Context(Options(method="dstar", cache=False), 2.5e-3, Clock()))
    assert plan.method == "forward"
    plan.verify()


def test_without_time_the_best_greedy_plan_is_returned():
    for graph in GRAPHS.values():
        plan = acc.plan(graph, time_limit=0, cache=False)
        assert plan.cost <= min(each.priced.cost[0] for each in greedy_orders(graph, Objective.MULTIPLICATIONS))


def test_compilation_at_first_use_is_not_counted(monkeypatch):
    clock = Clock()

    def compiles(*subjects):
        clock.time += 1e6

    for module in (vertex_orders, registry):
        monkeypatch.setattr(module, "prepare", compiles)
    graph = GRAPHS["layered"]
    result = get("auto")(graph, Context(Options(objective="multiplications"), 1.0, clock))
    assert clock.time > 1e6
    assert result.cost("multiplications") < cheapest_sweep(graph).priced.products
