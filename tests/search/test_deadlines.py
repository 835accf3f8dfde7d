"""Every method stops soon after its time is over, on every kind of graph.

Nothing here depends on how fast a machine is: the clock goes on by a millisecond with each look at it, and what is done
between two looks is counted in function calls. Some 100,000 calls take about 20 ms.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import accumulus as acc
from accumulus.deadline import Deadline
from accumulus.graph.generators import banded, dense_layers, layered, series_parallel, star
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import EFFORTS, Options
from accumulus.search.methods import get, methods

#: Calls between two looks, at most, and looks after the time is over.
MOST_CALLS = 150_000
MOST_LOOKS = 80


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
    "layered": layered(layers=30, width=10, degree=3, seed=1),
    "dense layers": dense_layers(widths=[25, 30, 25]),
    "running sum": running_sum(400),
    "star": star(inputs=150, outputs=150),
    "series and parallel": series_parallel(edges=800, noise=60, seed=2),
    "banded": banded(intermediates=300, bandwidth=6),
    "function": of_function(),
}


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


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("name", tuple(methods()))
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_methods_look_at_the_clock_and_stop(graph, name, effort):
    for objective in ("operations", "multiplications"):
        options = Options(objective=objective, effort=effort, cache=False)
        method = get(name)
        method(graph, Options(objective=objective, effort="fast", time_limit=1e-9))  # kernels are there, and imports
        for seconds in (0.02, 0.4):
            clock = Clock()
            found = clock.watch(lambda c=clock, s=seconds, m=method, o=options: m(graph, o, Deadline(s, c)))
            found.accumulation.verify()
            assert clock.most <= MOST_CALLS, (objective, seconds)
            assert clock.time <= max(seconds, 0.1) + 1e-3 * MOST_LOOKS, (objective, seconds)
