"""Searches that executors share in: the same plan whoever does what, and a plan whatever becomes of them."""

from __future__ import annotations

import os
import sys
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from inside import Context

import accumulus as acc
from accumulus import plan
from accumulus.errors import ArgumentError, ExecutorWarning
from accumulus.graph import generators
from accumulus.options import SWITCH, Options
from accumulus.search.find import PARTS, options_of_parts
from accumulus.search.registry import get

#: Small enough for many parts, and improved by other seeds.
GRAPH = generators.layered(layers=8, width=8, degree=3, seed=1)
#: Nothing but the iterations ends these searches.
BUDGET = {"objective": "fma", "iterations": 300, "time_limit": 1e6, "effort": "fast", "cache": False}
OTHERS = PARTS["fast"] - 1


class AtOnce(Executor):
    """Does what it is given at once, except for what `spoil` makes of it."""

    def __init__(self):
        self.asked = 0

    def submit(self, function, *arguments, **options):
        self.asked += 1
        future = Future()
        try:
            future.set_result(self.spoil(self.asked, function, arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def spoil(self, number, function, arguments):
        return function(*arguments)


class Raising(AtOnce):
    """The third part raises."""

    def spoil(self, number, function, arguments):
        if number == 3:
            raise MemoryError("full")
        return function(*arguments)


class Several(AtOnce):
    """The first parts raise errors of two kinds."""

    def spoil(self, number, function, arguments):
        if number <= 3:
            raise ValueError("lost") if number == 1 else MemoryError(f"full at {number}")
        return function(*arguments)


class Lying(AtOnce):
    """Every part claims to be free."""

    def spoil(self, number, function, arguments):
        data, whole = function(*arguments)
        return data | {"cost": 0}, whole


class Wrong(AtOnce):
    """Every part sends an order that leaves a vertex out, and claims to be free."""

    def spoil(self, number, function, arguments):
        data, whole = function(*arguments)
        return data | {"cost": 0, "order": data["order"][1:]}, whole


class Refusing(AtOnce):
    """Takes two parts, and no more."""

    def submit(self, function, *arguments, **options):
        if self.asked == 2:
            raise OSError("no room for another process")
        return super().submit(function, *arguments, **options)


class Silent(Executor):
    """Never does anything."""

    def __init__(self):
        self.futures = []

    def submit(self, function, *arguments, **options):
        self.futures.append(Future())
        return self.futures[-1]


class Unreachable:
    """A client whose cluster is gone."""

    def get_executor(self, **options):
        raise OSError("timed out")


class Leaving:
    """A client whose cluster goes when the search is over."""

    def get_executor(self, **options):
        executor = AtOnce()
        executor.shutdown = self.shutdown
        return executor

    def shutdown(self, wait):
        raise OSError("connection lost")


class Deadly(ProcessPoolExecutor):
    """The third part kills the process that does it."""

    asked = 0

    def submit(self, function, *arguments, **options):
        self.asked += 1
        return super().submit(_or_die, self.asked, function, *arguments)


def _or_die(number, function, *arguments):
    if number == 3:
        os._exit(1)
    return function(*arguments)


def found(executor, method="vertex", **options):
    return plan(GRAPH, method, executor=executor, **{**BUDGET, **options})


def by_hand(method="vertex", **options):
    """The best part, searched one by one."""
    settings = Options(**_options_of({**BUDGET, **options}))
    candidates = [get(method)(GRAPH, Context(member)) for member in options_of_parts(settings)]
    return min(candidates, key=lambda candidate: candidate.cost(settings.objective))


def _options_of(arguments):
    """Options of the search among arguments of `plan`."""
    return {key: value for key, value in arguments.items() if key != "cache"}


def _reports(executor):
    """Return the number of reports of the best cost in a search."""
    costs = []
    found(executor, progress=lambda progress: costs.append(progress.cost))
    return len(costs)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2) as pool:
        yield pool


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["vertex", "edge", "face", "exact-vertex", "auto"])
def test_the_distribution_of_work_does_not_matter(method, processes):
    alone = found(None, method)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(3) as three:
        plans = [found(executor, method) for executor in (AtOnce(), one, three, processes)]
    assert all(each == plans[0] for each in plans)
    assert plans[0].cost <= alone.cost


@pytest.mark.parametrize("objective", ["fma", "operations"])
def test_the_best_part_wins(objective, processes):
    expected = by_hand(objective=objective)
    shared = found(processes, objective=objective)
    assert (shared.order, shared.cost) == (expected.order, expected.cost(objective))


def test_parts_improve_on_one_search():
    assert found(AtOnce()).cost < found(None).cost


def test_parts_differ_in_their_seeds_and_the_first_is_the_search_itself():
    options = Options(seed=5, effort="balanced")
    first, *rest = options_of_parts(options)
    assert first == options
    assert len({member.seed for member in rest}) == len(rest) == PARTS["balanced"] - 1
    assert {member.effort for member in rest} == {"balanced", "thorough"}
    assert len(options_of_parts(Options(effort="thorough"))) == PARTS["thorough"]


def test_sequences_come_back(processes):
    """A plan that is better than every order is sent as steps."""
    graph = generators.lion()
    expected = plan(graph, "edge", "fma", cache=False)
    shared = plan(graph, "edge", "fma", effort="balanced", cache=False, executor=processes)
    assert shared.cost == expected.cost == 11
    shared.verify()


def test_functions_are_planned_by_executors(processes):
    def f(x):
        return np.array([np.sin(x[0]) * x[1], x[0] * x[1] / x[2], np.exp(x[2] * x[0])])

    x = np.array([0.3, 0.7, 1.1])
    options = {"effort": "fast", "time_limit": 1e6, "cache": False}
    shared = acc.jacobian(f, executor=processes, **options)
    alone = acc.jacobian(f, **options)
    np.testing.assert_allclose(shared(x), alone(x), rtol=1e-13)
    assert shared.operations <= alone.operations


def test_names_stay_at_home(processes):
    """Vertices may be named by what cannot travel."""
    nameless = generators.layered(layers=8, width=8, degree=3, seed=1)
    nameless.vertices = tuple((lambda: None) for _ in nameless.vertices)
    assert plan(nameless, "vertex", executor=processes, **BUDGET).order == found(processes).order


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Raising, "Raising failed in parts of the search .MemoryError: full.;"),
        (Lying, "Lying failed .*PlanError: part 1: 'cost' is 0, but the plan costs"),
        (Wrong, "Wrong failed .*PlanError: part 1: 'order': the order leaves out"),
        (Refusing, "Refusing failed .*OSError: no room"),
        (Unreachable, "Unreachable failed .*OSError: timed out"),
        (Leaving, "Leaving failed .*OSError: connection lost"),
    ],
)
def test_a_failure_costs_one_part_only(make, said):
    executor = make()
    with pytest.warns(ExecutorWarning, match=said) as caught:
        shared = found(executor)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    shared.verify()
    assert shared.cost <= found(None).cost
    if make is Leaving:  # all is done
        assert shared == found(AtOnce())


def test_the_warning_has_each_kind_of_failure():
    """With Dask the error that names the cause may come after errors of parts whose results are lost with a worker."""
    with pytest.warns(ExecutorWarning, match=r"search \(ValueError: lost, MemoryError: full at 2, and 1 more\); the"):
        found(Several())


def test_a_part_that_is_lost_is_the_only_one():
    expected = by_hand()
    best = [
        number
        for number, member in enumerate(options_of_parts(Options(**_options_of(BUDGET))))
        if get("vertex")(GRAPH, Context(member)).cost("fma") == expected.cost("fma")
    ]
    assert 3 not in best
    with pytest.warns(ExecutorWarning):
        assert found(Raising()).order == expected.order


def test_a_worker_that_dies():
    with Deadly(2) as pool, pytest.warns(ExecutorWarning, match="Deadly failed .*BrokenProcessPool"):
        shared = found(pool)
    shared.verify()
    assert shared.cost <= found(None).cost


def test_an_executor_that_is_shut_down():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.warns(ExecutorWarning, match="ThreadPoolExecutor failed .*cannot schedule new futures"):
        shared = found(pool)
    assert shared == found(None)


def test_the_time_limit_is_not_waited_for_in_vain():
    """Who answers too late is not waited for, and what waits is cancelled."""
    executor = Silent()
    shared = found(executor, time_limit=0.2)
    assert shared == found(None)
    assert all(future.cancelled() for future in executor.futures)
    assert len(executor.futures) == OTHERS


def test_without_time_nothing_is_shared():
    executor = Silent()
    for nothing in ({"time_limit": 0}, {"iterations": 0}):
        assert found(executor, **nothing) == found(None, **nothing)
    assert plan(acc.DifferentiationGraph([("y", "x")]), executor=executor, cache=False).cost == 0
    assert executor.futures == []


def test_proven_searches_are_not_waited_for():
    executor = Silent()
    graph = acc.DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "w"), ("b", "x")])
    assert plan(graph, "vertex", "fma", time_limit=1e6, executor=executor, cache=False).cost == 3
    assert all(future.cancelled() for future in executor.futures)


def test_ctrl_c_returns_the_best_so_far_and_cancels_waiting_parts():
    executor = Silent()
    reports = []

    def stop(cost):
        reports.append(cost)
        if len(reports) > searched:  # the part that is done here is over, the others are waited for
            raise KeyboardInterrupt

    searched = _reports(None)
    shared = found(executor, progress=stop)
    assert len(reports) == searched + 1
    assert shared == found(None)
    assert all(future.cancelled() for future in executor.futures)


def test_ctrl_c_in_the_part_that_is_done_here():
    reports = []

    def stop(cost):
        reports.append(cost)
        raise KeyboardInterrupt

    # what the others have found until then is not lost
    assert found(AtOnce(), progress=stop).cost == found(AtOnce()).cost
    assert len(reports) == 1


def test_ctrl_c_that_only_a_worker_hears():
    class Stopped(Silent):
        def submit(self, function, *arguments, **options):
            future = super().submit(function, *arguments, **options)
            future.set_exception(KeyboardInterrupt())
            return future

    assert found(Stopped()) == found(None)


@pytest.mark.parametrize("executor", [2, "processes", ProcessPoolExecutor, object()])
def test_objects_that_are_no_executor(executor):
    with pytest.raises(ArgumentError, match=r"executor is .*; expected a concurrent.futures.Executor"):
        found(executor)
    with pytest.raises(ArgumentError, match=r"executor is .*; expected a concurrent.futures.Executor"):
        acc.jacobian(np.sin, executor=executor)


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    return {**BUDGET, "cache": True}


def test_shared_plans_are_stored_for_any_executor(kept):
    first = plan(GRAPH, "vertex", executor=AtOnce(), **kept)
    with ThreadPoolExecutor(1) as pool:
        again = plan(GRAPH, "vertex", executor=pool, **kept)
    assert (first.recalled, again.recalled) == (False, True)
    assert first == again
    assert not plan(GRAPH, "vertex", **kept).recalled  # another search


def test_failed_or_cut_short_searches_are_not_stored(kept):
    with pytest.warns(ExecutorWarning):
        plan(GRAPH, "vertex", executor=Raising(), **kept)
    plan(GRAPH, "vertex", executor=Silent(), **{**kept, "time_limit": 0.2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not plan(GRAPH, "vertex", executor=AtOnce(), **kept).recalled
    assert not plan(GRAPH, "vertex", executor=AtOnce(), **{**kept, "time_limit": 0.2}).recalled


class DeadlyClient:
    """A Dask client whose third part kills the process that does it."""

    def __init__(self, client):
        self.client = client

    def get_executor(self, **options):
        executor, numbers = self.client.get_executor(**options), iter(range(1, 1000))
        submit = executor.submit
        executor.submit = lambda function, *arguments: submit(_or_die, next(numbers), function, *arguments)
        return executor


def test_a_cluster_of_several_processes():
    """A real one, with Dask's own scheduler, of which a worker dies."""
    pytest.importorskip("distributed", reason="Dask is not installed; pip install accumulus[dask]")
    import cloudpickle
    import dask
    import distributed

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    quiet = {"distributed.logging.distributed": "critical", "distributed.scheduler.allowed-failures": 1}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        shared = found(client)
        assert shared == found(AtOnce())
        with pytest.warns(ExecutorWarning, match="DeadlyClient failed .*KilledWorker"):
            survived = found(DeadlyClient(client))
        survived.verify()
        assert survived.cost <= found(None).cost
        assert found(client) == shared  # the cluster is still the caller's
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
