"""Ctrl-C while a search runs: the best plan so far is printed, and the exit code is 130."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

import accumulus.search.find as plans
from accumulus.cli import app

GRAPH = str(Path(__file__).parents[1] / "data" / "graphs" / "HumanHeartDipole.json")
INTERRUPTED = 130
find = plans.plan


def found_although_interrupted(graph, **options):
    """A search that the user stops, and that hands back what it has."""
    result = find(graph, method="markowitz", objective=options["objective"])
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return result
    raise AssertionError("Ctrl-C did not arrive")


def stopped_before_anything_is_found(graph, **options):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("arguments", [("plan", GRAPH), ("compare", GRAPH), ("emit", GRAPH)])
def test_the_best_so_far_is_printed(arguments, monkeypatch):
    monkeypatch.setattr(plans, "plan", found_although_interrupted)
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == INTERRUPTED
    assert "HumanHeartDipole" in result.stdout
    assert "stopped by Ctrl-C" in result.stderr


def test_json_of_the_best_so_far_is_whole(monkeypatch):
    monkeypatch.setattr(plans, "plan", found_although_interrupted)
    result = CliRunner().invoke(app, ["compare", GRAPH, "--json"])
    assert result.exit_code == INTERRUPTED
    assert len(json.loads(result.stdout)["methods"]) == 1


def test_nothing_is_printed_without_a_plan(monkeypatch):
    monkeypatch.setattr(plans, "plan", stopped_before_anything_is_found)
    result = CliRunner().invoke(app, ["compare", GRAPH])
    assert result.exit_code == INTERRUPTED
    assert result.stdout == ""


def test_the_signal_is_handled_as_before_afterwards(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    CliRunner().invoke(app, ["plan", GRAPH, "--method", "forward"])
    assert signal.getsignal(signal.SIGINT) is before
