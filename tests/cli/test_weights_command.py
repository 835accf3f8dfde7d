"""`accumulus weights`: the table, JSON, and when it measures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from accumulus.cli import app
from accumulus.tape.weights import Weights, keep, typical
from accumulus.targets.llvm import measure as module

FOUND = replace(typical(), source="measured", machine="a test")


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """How often was measured, with a cache of its own."""
    times = []

    def measure():
        times.append(1)
        return FOUND

    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "measure", measure)
    return times


def run(*arguments):
    done = CliRunner().invoke(app, ["weights", *arguments])
    assert done.exit_code == 0, done.output
    return done


def test_a_row_for_every_operation(measured):
    done = run()
    rows = {tuple(line.rsplit(maxsplit=2)) for line in done.stdout.splitlines() if line.strip()}
    add = FOUND.operations["add"]
    for name, weight in FOUND.operations.items():
        if weight:
            assert (name.replace("_", " "), f"{weight:,}", f"{weight / add:.1f}") in rows, name
    assert ("multiply and add", str(FOUND.fma), f"{FOUND.fma / add:.1f}") in rows
    assert ("sin and cos", str(FOUND.sincos), f"{FOUND.sincos / add:.1f}") in rows
    assert "measured: a test" in done.stdout
    assert "one fused instruction" in done.stdout
    assert "attach" not in done.stdout


def test_measured_once_and_again_when_told_to(measured):
    assert "measuring" in run().stderr
    assert len(measured) == 1
    assert "measuring" not in run().stderr
    assert len(measured) == 1
    assert "measuring" in run("--again").stderr
    assert len(measured) == 2


def test_json_alone(measured):
    assert Weights.from_dict(json.loads(run("--json").stdout)) == FOUND


def test_machines_without_fused_operations(measured):
    keep(replace(FOUND, fused=False))
    text = run().stdout
    assert "multiply and add" not in text
    assert "no fused one" in text
