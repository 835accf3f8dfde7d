"""The program is the same on any clock, in another process, on a busy machine, and with any content of the cache."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import same_programs
from same_programs import ALL, CASES, EFFORTS, clock, compiled, digest, digests

import accumulus as acc
from accumulus import deadline
from accumulus.options import SWITCH

SOURCES = Path(acc.__file__).parent
#: Files that may read a clock: they measure how long something took, to be told, or end what a user waits for.
CLOCKS = {
    "cache.py",
    "deadline.py",
    "frontends/captured.py",  # looks twice for what other threads change
    "programs/batches.py",
    "programs/measured.py",
    "programs/preparation.py",
    "search/find.py",
    "targets/kernel.py",
    "targets/llvm/bytecode.py",
    "targets/llvm/llvm_kernel.py",
    "targets/llvm/maps.py",  # chooses between two ways to compute a batch, with the same results to the bit
    "cli/problem.py",
    "theory/research/survey.py",
    "progress.py",
}


@pytest.fixture(scope="module")
def usual():
    """Digests of a case by effort, and of the plans of some methods, on a clock that stands still."""

    @functools.cache
    def of(effort, name):
        with clock(lambda: 0.0):
            result = digests(effort, name, cache=False)
        assert not any(each.startswith("cut short") for each in result.values())
        return result

    return of


def jumping(seed, most):
    """A clock that now stands still and now jumps, by so much in all."""
    draw, now = random.Random(seed), 0.0

    def read():
        nonlocal now
        if draw.random() < 0.3:
            now += draw.random() * (most - now)
        return now

    return read


@pytest.mark.sampled(6, each="effort name")
@pytest.mark.parametrize(("effort", "name"), ALL)
def test_clocks_that_jump_change_nothing(effort, name, usual, monkeypatch):
    expected, limit = usual(effort, name), EFFORTS.get(effort, EFFORTS["fast"])["time_limit"]
    hostile = jumping(len(name), 1e9)
    for reader in ("perf_counter", "time"):
        monkeypatch.setattr(f"time.{reader}", hostile)
    with clock(jumping(7, 0.4 * limit)):
        assert digests(effort, name, cache=False) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", range(3))
def test_another_process_finds_the_same(share, usual, tmp_path):
    """One that orders sets and dictionaries by other hashes, elsewhere; each part has each case."""
    cases = [pair for k, pair in enumerate(ALL) if (k % len(CASES) + k // len(CASES)) % 3 == share]
    environment = {**os.environ, "PYTHONHASHSEED": "271828", SWITCH: "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, same_programs.__file__, json.dumps(cases)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert not ran.returncode, ran.stderr
    assert json.loads(ran.stdout) == [usual(*pair) for pair in cases]


def test_threads_that_take_turns_change_nothing(usual):
    expected = [usual("thorough", name)[name] for name in ("small", "pairs")]
    over = threading.Event()

    def burn():
        while not over.is_set():
            pass

    burning = [threading.Thread(target=burn, daemon=True) for _ in range(2)]
    for thread in burning:
        thread.start()
    try:
        with clock(lambda: 0.0):
            actual = [digest(compiled(name, "thorough", cache=False)) for name in ("small", "pairs")]
    finally:
        over.set()
    assert actual == expected


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(SWITCH, "1")
    return tmp_path / "cache"


@pytest.mark.sampled(3, each="effort name")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("effort", "losses"), [("balanced", (None, None, "tapes", "plans")), ("thorough", (None, None))]
)
def test_caches_cold_and_warm_and_in_part(effort, losses, name, usual, folder):
    expected = usual(effort, name)
    with clock(lambda: 0.0):
        for lost in losses:
            if lost is not None:
                shutil.rmtree(folder / lost, ignore_errors=name != "pairs")  # small ones have none to lose
            assert digests(effort, name) == expected, lost


def running(step):
    """A clock that goes on with each look."""
    now = 0.0

    def read():
        nonlocal now
        now += step
        return now

    return read


@pytest.mark.parametrize("name", ["middle", "hvp", "loops"])
def test_cut_short_results_are_marked_and_not_cached(name, usual, folder, tmp_path):
    with clock(running(EFFORTS["balanced"]["time_limit"] / 2)):
        cut = compiled(name, "balanced")
    stage = cut.cut_short
    assert stage in ("plan", "optimise")
    assert re.search(rf"cut short +at {stage}: the clock ran out", str(cut.report()))
    assert cut.report().to_dict()["cut_short"] == stage
    with clock(lambda: 0.0):
        whole = compiled(name, "balanced")
    assert not whole.cut_short
    assert "cut short" not in str(whole.report())
    assert "optimise" not in whole.from_cache
    assert digest(whole) == usual("balanced", name)[name]


def test_files_mark_cut_short_results(tmp_path):
    x = CASES["middle"][1][0]
    derivative = acc.jacobian(same_programs.steps(12), cache=False)
    with clock(running(1.0)):
        derivative(x)
    acc.save(derivative, tmp_path / "derivative")
    loaded = acc.load(tmp_path / "derivative")
    stage = derivative.report().cut_short
    assert loaded.report().cut_short == stage
    assert f"at {stage}" in str(loaded.report())
    graph = acc.trace(same_programs.small, np.ones(3)).linearize()
    with clock(running(1.0)):
        plan = acc.plan(graph, effort="thorough", objective="fma", cache=False)
    assert plan.cut_short
    acc.save_plan(plan, tmp_path / "plan.json")
    assert acc.load_plan(tmp_path / "plan.json").cut_short
    acc.save_plan(acc.plan(graph, time_limit=0.0), tmp_path / "plan.json")
    assert not acc.load_plan(tmp_path / "plan.json").cut_short


def test_no_work_at_all_is_no_cut():
    program = acc.jacobian(same_programs.steps(12), time_limit=0.0, cache=False).compile(CASES["middle"][1][0])
    assert not program.cut_short


def test_only_these_files_read_a_clock():
    reads = re.compile(r"\btime\.\w+\(|\btime\.(monotonic|perf_counter)|import (date)?time\b|from (date)?time import")
    results = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if any(reads.search(line.split("#")[0]) for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert results <= CLOCKS


def test_work_is_a_part_of_the_time():
    assert 0 < deadline.WORK < 0.7
