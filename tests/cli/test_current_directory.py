"""Files beside a graph are not run, however the command and its processes are started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accumulus

GRAPH = Path(__file__).parents[1] / "data" / "graphs" / "HumanHeartDipole.json"
DECOYS = ("concurrent", "json", "multiprocessing", "pickle", "random", "signal", "struct", "subprocess", "tempfile")
SCRIPT = "from accumulus.cli import main\nif __name__ == '__main__':\n    main()\n"


@pytest.fixture
def hostile(tmp_path):
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in DECOYS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'w')\n")
    shutil.copy(GRAPH, folder / "graph.json")
    (tmp_path / "command.py").write_text(SCRIPT)
    return folder


@pytest.mark.parametrize(
    "start",
    [["{script}"], ["-P", "-m", "accumulus"], ["-E", "-P", "{script}"]],
    ids=["command", "-P -m", "-E -P"],
)
def test_files_beside_a_graph_are_not_run(start, hostile, tmp_path):
    done = run(hostile, tmp_path, start)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["chosen"]["fma"] > 0
    assert not (tmp_path / "was run").exists()


def test_processes_that_would_look_there_are_not_started(hostile, tmp_path):
    done = run(hostile, tmp_path, ["-E", "{script}"])
    assert done.returncode == 1
    assert "add -P, or use -I" in done.stderr
    assert not (tmp_path / "was run").exists()


def run(hostile, tmp_path, start):
    options = ["--objective", "fma", "--effort", "fast", "--time-limit", "0.2", "--jobs", "2", "--json"]
    command = [sys.executable, *(word.format(script=tmp_path / "command.py") for word in start), "plan", "graph.json"]
    environment = {**os.environ, "ACCUMULUS_CACHE": str(tmp_path / "cache")}
    root = str(Path(accumulus.__file__).parents[1])
    if "-E" in start:  # not by the environment, then
        (tmp_path / "command.py").write_text(f"import sys\nsys.path.insert(0, {root!r})\n{SCRIPT}")
    environment["PYTHONPATH"] = root
    return subprocess.run(
        [*command, *options], cwd=hostile, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
