"""Plans that are kept on disk: recalled for equal questions only, whole or not at all, and never in the way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accumulus as acc
from accumulus.accumulate.cost import OBJECTIVES
from accumulus.errors import ArgumentError, CacheWarning
from accumulus.graph import generators
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.kept import store
from accumulus.search.methods import Options, methods
from accumulus.search.plan import plan

GRAPH = generators.random_dag(seed=1)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder of a memory that is on, and of this test alone; search kernels stay where they are."""
    monkeypatch.setenv(store.SWITCH, "1")
    monkeypatch.setattr(store, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr(store, "_written", {})
    store.search_version()
    return tmp_path / "cache" / "plans"


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def found(**options):
    return plan(GRAPH, **{"method": "markowitz", **options})


def test_what_is_found_is_recalled(folder):
    first, again = found(), found()
    assert (first.recalled, again.recalled) == (False, True)
    assert first == again
    assert first.seconds == again.seconds
    assert again.graph is GRAPH
    assert len(files(folder)) == 1


@pytest.mark.parametrize("method", tuple(methods()))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs(sized=True), objective=st.sampled_from(OBJECTIVES), seed=st.integers())
def test_a_recalled_plan_is_the_one_that_would_be_found(method, graph, objective, seed, folder):
    options = {"objective": objective, "seed": seed, "iterations": 50, "time_limit": 1e9}
    kept = plan(graph, method, **options)
    recalled = plan(graph, method, **options)
    searched = plan(graph, method, cache=False, **options)
    assert recalled.recalled
    assert not searched.recalled
    assert kept == recalled == searched


def test_another_process_recalls_the_plan_of_the_same_function(tmp_path):
    program = """
import numpy as np, accumulus as acc
def f(x, n):
    for _ in range(n):
        x = np.array([x[0] * np.sin(x[1]), x[1] / (1.0 + x[0] ** 2)])
    return x
program = acc.jacobian(f, static_argnums=1, method="markowitz").compile(np.ones(2), 4)
print(program.plan.recalled, program.operations, program.plan.order)
"""
    environment = {**os.environ, store.SWITCH: "1", "ACCUMULUS_CACHE": str(tmp_path)}
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
        {"time_limit": 2.0},
        {"time_limit": 0},
        {"effort": "thorough"},
        {"iterations": 10},
        {"iterations": 0},
    ],
)
def test_everything_that_decides_a_plan_is_asked_for(other, folder):
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
    monkeypatch.setattr(store, "search_version", lambda: "another")
    assert not found().recalled


def test_every_option_of_a_search_is_part_of_the_key():
    """Also those that are added later; what cannot be written down is not kept."""

    @dataclass(frozen=True)
    class More(Options):
        windows: object = 1

    keys = {store.key_of(GRAPH, "vertex", More(windows=windows)) for windows in (1, 2, "2", None)}
    assert len(keys) == 4
    assert None not in keys
    assert store.key_of(GRAPH, "vertex", More(windows=object())) is None
    assert store.key_of(GRAPH, "vertex", Options(progress=print)) == store.key_of(GRAPH, "vertex", Options())


@pytest.mark.parametrize(
    ("value", "is_on"), [(None, True), ("1", True), ("", True), ("0", False)], ids=["unset", "1", "empty", "0"]
)
def test_the_switch(value, is_on, folder, monkeypatch):
    monkeypatch.delenv(store.SWITCH)
    if value is not None:
        monkeypatch.setenv(store.SWITCH, value)
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


def test_jacobians_recall_their_plans(folder):
    def f(x):
        return np.array([x[0] * np.sin(x[1]) * x[2], np.exp(x[0] * x[1]) + x[2]])

    programs = [acc.jacobian(f).compile(np.ones(3)) for _ in range(2)]
    assert [program.plan.recalled for program in programs] == [False, True]
    assert programs[0].tape.codes == programs[1].tape.codes
    np.testing.assert_array_equal(programs[0](np.arange(3.0)), programs[1](np.arange(3.0)))
    assert not acc.jacobian(f, cache=False).compile(np.ones(3)).plan.recalled
    assert not acc.jacobian(lambda x: f(x) * 2.0).compile(np.ones(3)).plan.recalled


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:-1],
    "a bit": lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
    "no checksum": lambda content: content.split(b"\n")[1],
    "zeros": lambda content: bytes(len(content)),
    "more": lambda content: content + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_plans_are_dropped_and_made_again(damage, folder):
    made = found()
    (file,) = files(folder)
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    again = found()
    assert not again.recalled
    assert again == made
    assert files(folder) == [file]
    assert found().recalled


def test_damage_is_dropped_even_if_it_is_not_made_again(folder):
    found()
    (file,) = files(folder)
    file.write_bytes(b"damaged")
    assert store.recall(file.stem, GRAPH) is None
    assert files(folder) == []


def test_a_plan_under_another_key_is_dropped(folder):
    found()
    found(objective="fma")
    one, other = files(folder)
    one.write_bytes(other.read_bytes())
    assert sorted([found().recalled, found(objective="fma").recalled]) == [False, True]


@pytest.mark.parametrize("text", [b"[]", b"null", b"{}", b"[" * 10**5, b"{\xff}", b""])
def test_whatever_has_a_right_checksum_does_not_stop_the_search(text, folder):
    made = found()
    (file,) = files(folder)
    file.write_bytes(store._checksum(file.stem, text) + b"\n" + text)
    again = found()
    assert (again, again.recalled) == (made, False)


@pytest.mark.parametrize(
    "lie", [{"cost": 1}, {"order": [3, 4]}, {"order": None, "steps": [], "entries": []}, {"seed": "x"}]
)
def test_a_wrong_plan_with_a_right_checksum_is_dropped(lie, folder):
    made = found()
    (file,) = files(folder)
    text = json.dumps({**json.loads(file.read_bytes().split(b"\n")[1]), **lie}).encode()
    file.write_bytes(store._checksum(file.stem, text) + b"\n" + text)
    assert found() == made
    assert found().recalled


def test_the_longest_unused_are_dropped(folder, monkeypatch):
    monkeypatch.setattr(store, "LIMIT", 8 * 4096)
    monkeypatch.setattr(store, "_UNSEEN", 0.0)
    for seed in range(8):
        found(seed=seed)
        for file in files(folder):  # each a second older than it was
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**9))
    assert len(files(folder)) == 8
    assert found(seed=2).recalled
    found(seed=8)
    assert len(files(folder)) == 6
    recalled = [seed for seed in range(9) if store.recall(store.key_of(GRAPH, "markowitz", Options(seed=seed)), GRAPH)]
    assert recalled == [2, 4, 5, 6, 7, 8]


def test_the_folder_is_looked_at_now_and_then_only(folder, monkeypatch):
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
    monkeypatch.setattr(store, "LIMIT", 64 * 4096)
    for seed in range(9):
        found(seed=seed)
    assert looks == [folder] * 3


def test_plans_larger_than_all_room_are_not_kept(folder, monkeypatch):
    monkeypatch.setattr(store, "LIMIT", 4096)
    assert not found().recalled
    assert not found().recalled
    assert files(folder) == []


def test_where_nothing_can_be_written_a_warning_names_the_folder(folder):
    folder.parent.write_text("a file where the folder should be")
    with pytest.warns(CacheWarning, match=rf"cannot be kept in .*{folder.name}.*cache=False") as caught:
        made = found()
    assert str(folder) in str(caught[0].message)
    assert made == plan(GRAPH, "markowitz", cache=False)


def test_without_a_home_directory(folder, monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(store, "cache_directory", fail)
    with pytest.warns(CacheWarning, match="kept in a cache directory: Could not determine home directory"):
        assert not found().recalled


@pytest.mark.parametrize("function", ["replace", "fdopen", "scandir"])
def test_a_full_disk(function, folder, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.os, function, fail)
    with pytest.warns(CacheWarning, match="No space left on device"):
        made = found()
    monkeypatch.undo()
    assert made == found(cache=False)
    assert not [file for file in files(folder) if file.suffix != ".plan"]


def test_a_folder_that_cannot_be_written_still_gives_its_plans(folder, monkeypatch):
    found()

    def fail(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store.os, "utime", fail)
    monkeypatch.setattr(store.tempfile, "mkstemp", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found().recalled
    with pytest.warns(CacheWarning, match="Permission denied"):
        found(seed=5)


KILLED = """
import os, signal, sys
from accumulus.search.kept import store
from accumulus.search.plan import plan
from accumulus.graph.generators import random_dag
def kill(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
setattr({"os": os, "store": store}[sys.argv[1]], sys.argv[2], kill)
plan(random_dag(seed=1), "markowitz")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
@pytest.mark.parametrize(("module", "function"), [("os", "fdopen"), ("os", "replace"), ("store", "_make_room")])
def test_a_process_that_is_killed_while_it_writes(module, function, folder):
    environment = {**os.environ, store.SWITCH: "1", "ACCUMULUS_CACHE": str(folder.parent)}
    ran = subprocess.run([sys.executable, "-c", KILLED, module, function], env=environment, check=False)
    assert ran.returncode == -signal.SIGKILL
    left = [file for file in files(folder) if file.suffix == ".part"]
    assert len(left) == (module == "os")
    made = found()
    assert made.recalled is (module == "store")
    assert found() == made
    for file in left:  # it may be somebody's who is still writing, until it is old
        assert file.exists()
        os.utime(file, (0, 0))
    store._written.clear()
    found(seed=1)
    assert [file.suffix for file in files(folder)] == [".plan", ".plan"]


def test_many_writers_and_readers(folder, monkeypatch):
    """Whoever reads finds nothing or a whole plan, whatever others write, replace and drop meanwhile."""
    monkeypatch.setattr(store, "LIMIT", 4 * 4096)
    monkeypatch.setattr(store, "_UNSEEN", 0.0)
    made = {seed: found(seed=seed, cache=False) for seed in range(6)}
    keys = {seed: store.key_of(GRAPH, "markowitz", Options(seed=seed)) for seed in made}
    recalled, failures = [], []
    drop = Path.unlink

    def note(path, *arguments):
        failures.append(path)
        drop(path, *arguments)

    monkeypatch.setattr(Path, "unlink", note)  # how damaged plans are dropped

    def work(start):
        try:
            for k in range(60):
                seed = (start + k) % 6
                store.remember(keys[seed], made[seed])
                known = store.recall(keys[(seed + 1) % 6], GRAPH)
                if known is not None:
                    recalled.append(known == made[(seed + 1) % 6])
        except BaseException as error:
            failures.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert recalled
    assert all(recalled)
    assert all(file.suffix == ".plan" for file in files(folder))


def test_an_interrupted_search_is_not_kept(folder):
    def stop(cost):
        raise KeyboardInterrupt

    graph = generators.layered(layers=10, width=10, seed=1)
    stopped = plan(graph, "vertex", "fma", progress=stop)
    assert files(folder) == []
    whole = plan(graph, "vertex", "fma")
    assert not whole.recalled
    assert whole.cost < stopped.cost
    assert plan(graph, "vertex", "fma", progress=stop) == whole


def test_a_plan_by_steps_is_kept(folder):
    """Those of methods that do not eliminate vertices."""
    first = replace(found(), order=None)
    store.remember("0" * 32, first)
    assert store.recall("0" * 32, GRAPH) == first


def test_trivial_graphs(folder):
    for graph in (DifferentiationGraph([]), DifferentiationGraph([("y", "x")])):
        assert plan(graph, "forward") == plan(graph, "forward")
        assert plan(graph, "forward").recalled
