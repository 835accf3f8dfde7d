"""`accumulus cache`: where, what, how much, and clearing it."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from accumulus import cache
from accumulus.cli import app


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    cache.store("plans", "a", b"content")
    return tmp_path / "cache"


def run(*arguments):
    done = CliRunner().invoke(app, ["cache", *arguments])
    assert done.exit_code == 0, done.output
    return done


def test_the_contents_of_the_cache(place):
    said = json.loads(run("--json").stdout)
    assert said["directory"] == str(place)
    assert said["state"] == "usable"
    assert said["kinds"]["plans"] == {"files": 1, "bytes": 4096}
    assert "plans" in run().stdout


def test_clearing():
    assert json.loads(run("--clear", "--json").stdout)["kinds"]["plans"] == {"files": 0, "bytes": 0}


@pytest.mark.skipif(os.name != "posix", reason="modes are looked at on POSIX")
def test_why_it_is_not_used(place):
    place.chmod(0o777)
    assert "can be written by others" in run().stderr
