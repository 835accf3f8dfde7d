"""The optimiser's deadline, and when it stops by itself: by work, on a clock that goes when it is looked at."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from contexts import verify, within
from inside import IN_SEARCH, UNIT, Deadline, eliminate_vertices, emit, linearize

import accumulus as acc
from accumulus import Tape
from accumulus.deadline import LOOK, OutOfTimeError
from accumulus.options import EFFORTS
from accumulus.rewriting import optimise as optimiser
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.rewrite_nodes import ANNEAL
from accumulus.rewriting.equivalence import Verification
from accumulus.rewriting.optimise import Network, preview


def ticking(seconds: float) -> Deadline:
    """A deadline on a clock by which each look takes a second."""
    count = itertools.count()
    return Deadline(seconds, clock=lambda: float(next(count)))


def jacobian_of(f, x) -> Tape:
    """The tape of a Jacobian by reverse elimination."""
    graph = linearize(acc.trace(f, x).tape).graph
    return emit(eliminate_vertices(graph, graph.intermediates[::-1]))


def layers(size: int) -> Tape:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, size, size))
    return jacobian_of(lambda x: np.tanh(b @ np.tanh(a @ x)), np.ones(size))


def steps(count: int) -> Tape:
    def f(y):
        def slope(y):
            return np.array([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

        for _ in range(count):
            a = slope(y)
            b = slope(y + 0.05 * a)
            y = y + 0.1 * (a + b) / 2
        return y

    return jacobian_of(f, np.array([2.0, 0.0]))


@pytest.fixture(scope="module")
def tape():
    return canonical(steps(30))


def tried(network: Network) -> int:
    return network._state.tried


@pytest.mark.parametrize("effort", EFFORTS)
def test_without_time_the_plain_form_comes_back(tape, effort):
    for options in ({"time_limit": 0.0}, {"deadline": Deadline(0.0)}, {"time_limit": 60.0, "deadline": Deadline(0.0)}):
        assert str(optimise(tape, effort=effort, **options)) == str(tape)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("seconds", [1, 3, 10, 30, 100, 300])
def test_interrupted_results_are_right_and_no_worse(tape, effort, seconds):
    result = optimise(tape, effort=effort, deadline=ticking(seconds))
    verify(tape, result)
    assert result.operations <= tape.operations
    if seconds == 300:
        assert result.operations < tape.operations


def test_sweeps_end_with_their_deadline(tape):
    for deadline, chunks in (
        (Deadline(0.0), 0), (ticking(1.5), 1), (ticking(5.5), 5),
        (Deadline(60.0, work=LOOK / 8), 1), (Deadline(60.0, work=1.1 * LOOK), 5),
    ):  # fmt: skip
        network = Network(tape, IN_SEARCH)
        network.sweep(10**9, deadline=deadline)
        assert (chunks - 1) * network._together < tried(network) <= chunks * network._together or not chunks
        assert (tried(network) > 0) == (chunks > 0)
        verify(tape, network.emitted())


@pytest.mark.parametrize("deadline", [ticking(20.5), Deadline(60.0, work=0.2)], ids=["clock", "work"])
def test_annealing_ends_with_its_deadline(tape, deadline):
    network = Network(tape, IN_SEARCH)
    network.anneal(10**9, UNIT * 0.35, UNIT * 0.08, 0.3, deadline)
    assert tried(network) < 10**8
    if deadline.left == 0.0:  # by work that ends as it is meant to, cold
        assert network._state.temperature <= UNIT * 0.0801
        assert not deadline.cut_short
    verify(tape, network.emitted())
    assert network.best_cost <= network.cost
    assert network.best_cost == Network(network.emitted(), IN_SEARCH).cost


def test_moves_do_not_depend_on_how_many_are_tried_at_a_time(tape):
    results = set()
    for together in (64, 4096, 10**6):
        network = Network(tape, IN_SEARCH, seed=3)
        network._together = together
        network.sweep(3 * network.size)
        network.anneal(20_000, UNIT * 0.35, UNIT * 0.08, 0.3)
        network.sweep(3 * network.size)
        results.add((network.best_cost, str(network.emitted())))
    assert len(results) == 1


def test_the_half_of_a_verification_that_is_done_before_ends_with_its_deadline(tape):
    with pytest.raises(OutOfTimeError):
        Verification(tape, deadline=Deadline(0.0))
    before = Verification(tape)
    for other in (tape, optimise(tape, time_limit=math.inf)):
        before.check(other)


@pytest.mark.parametrize("effort", EFFORTS)
def test_what_is_not_rewritten_is_not_verified(tape, effort, monkeypatch):
    """Neither without time, nor if nothing is won: values at points are computed for a new program alone."""
    monkeypatch.setattr(Original, "verified", None)
    assert str(optimise(tape, effort=effort, time_limit=0.0)) == str(tape)
    nothing = Tape(2)
    nothing.outputs = [nothing.add(0, nothing.apply("exp", 1))]
    assert str(optimise(nothing, effort=effort, time_limit=0.2)) == str(nothing)
    with pytest.raises(TypeError):
        optimise(tape, effort=effort, time_limit=math.inf if effort == "fast" else 1.0)


def moves_of(tape: Tape, monkeypatch) -> tuple[float, int]:
    """Moves at random for each node that the optimiser tries, and the operations that it ends with."""
    networks = []

    class Counted(Network):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.visits = 0
            networks.append(self)

        def _search(self, mode, *arguments):
            visits = super()._search(mode, *arguments)
            self.visits += visits * (mode == ANNEAL)
            return visits

    monkeypatch.setattr(optimiser, "Network", Counted)
    result = optimise(tape, time_limit=math.inf)
    return sum(network.visits for network in networks) / (tape.operations + tape.inputs), result.operations


def test_large_programs_are_annealed_while_that_wins(monkeypatch):
    """Many steps of a method for differential equations win; dense layers do not: after one round it is over."""
    monkeypatch.setattr(optimiser, "MANY", 0)
    poor, good = canonical(layers(20)), canonical(steps(100))
    few, _ = moves_of(poor, monkeypatch)
    many, operations = moves_of(good, monkeypatch)
    assert few <= 1.1 * optimiser.FIRST
    assert many >= 10 * few
    assert operations < optimise(good, effort="fast", time_limit=math.inf).operations


def test_previews_end_with_their_deadline(tape):
    everything = preview(tape, within(math.inf))
    nothing = preview(tape, within(0.0))
    assert everything < nothing
    assert nothing <= search_cost(tape)


def search_cost(tape: Tape) -> int:
    return Network(tape, IN_SEARCH).cost
