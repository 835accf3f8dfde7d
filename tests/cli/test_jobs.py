"""Processes that share in the searches of a command, and end with it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import accumulus as acc
import accumulus.search.find as plans
from accumulus.cli import app
from accumulus.cli.application import processes

GRAPH = Path(__file__).parents[1] / "data" / "graphs" / "HumanHeartDipole.json"
#: Nothing but the effort ends these searches.
OPTIONS = ("--objective", "fma", "--time-limit", "1000", "--effort", "fast")


def run(*arguments):
    return CliRunner().invoke(app, [*arguments])


def test_jobs_share_in_a_search(monkeypatch):
    executors = []
    find = plans.plan
    monkeypatch.setattr(plans, "plan", lambda graph, **options: executors.append(options) or find(graph, **options))
    result = run("plan", str(GRAPH), *OPTIONS, "--jobs", "2", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    expected = acc.plan(acc.load_graph(GRAPH), objective="fma", effort="fast", time_limit=1000.0)
    assert report["chosen"]["fma"] <= expected.cost
    assert executors[0]["executor"] is not None
    assert not multiprocessing.active_children()


def test_one_job_is_this_process(monkeypatch):
    executors = []
    find = plans.plan
    monkeypatch.setattr(plans, "plan", lambda graph, **options: executors.append(options) or find(graph, **options))
    assert run("emit", str(GRAPH), *OPTIONS).exit_code == 0
    assert executors[0]["executor"] is None


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_invalid_numbers_of_jobs(jobs):
    result = run("plan", str(GRAPH), "--jobs", jobs)
    assert result.exit_code == 2
    assert "--jobs" in result.output


def test_running_searches_are_not_waited_for():
    children = set(multiprocessing.active_children())  # of an earlier test, ending
    with processes(2) as pool:
        first = pool.submit(os.getpid).result()
        endless = pool.submit(time.sleep, 1e6)
        os.kill(first, signal.SIGINT)  # a terminal's Ctrl-C reaches all processes
        assert pool.submit(os.getpid).result() > 0
    assert set(multiprocessing.active_children()) <= children
    assert not endless.done() or endless.exception() is not None


def test_a_status_that_the_pools_thread_collects_is_waited_for(monkeypatch):
    """Both threads wait for a process; the one that comes second learns nothing until the first one has stored it."""
    waitpid = os.waitpid

    def slow_in_other_threads(*arguments):
        status = waitpid(*arguments)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.3)
        return status

    monkeypatch.setattr(os, "waitpid", slow_in_other_threads)
    children = set(multiprocessing.active_children())
    with processes(2) as pool:
        pool.submit(os.getpid).result()
        pool.submit(time.sleep, 1e6)
        # the pool's thread is woken by this, and waits for the other process, too
        next(iter(set(multiprocessing.active_children()) - children)).terminate()
    assert set(multiprocessing.active_children()) <= children
