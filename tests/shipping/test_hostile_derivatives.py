"""Hostile files of derivatives: typed errors that name the file, nothing run, no crash, no end of time or memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hostile import derivative_files

import accumulus as acc
from accumulus.errors import FileError
from accumulus.shipping import data_files

QUICK = {"effort": "fast", "time_limit": 0.0, "target": "numpy"}

READ = """
import json, resource, sys, warnings
from pathlib import Path
import numpy as np
import accumulus as acc
warnings.simplefilter("ignore")
gigabytes = 4 << 30
resource.setrlimit(resource.RLIMIT_AS, (gigabytes, gigabytes))
for path in sorted(Path(sys.argv[1]).iterdir()):
    resource.setrlimit(resource.RLIMIT_CPU, (int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 20, -1))
    try:
        loaded = acc.load(path)
        said = None, ""
    except Exception as error:
        said = type(error).__name__, str(error)
    else:
        for x in (np.ones(3), {"k": 2.0}):
            try:
                loaded(x)
                loaded.batch(np.ones((2, 3)))
            except acc.errors.AccumulusError:
                pass
            except Exception as error:
                said = type(error).__name__, "called: " + str(error)
    print(json.dumps([path.name, *said]), flush=True)
"""


def decides(x):
    return np.exp(x) if x[0] > 0.5 else x * x[0]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are those of POSIX")
def test_the_corpus(tmp_path):
    """In a process of its own, which may take a bounded time and memory for each file."""
    files = {}
    made = (
        (acc.jacobian(decides, sparse=True, **QUICK), np.ones(3)),
        (acc.jacobian(lambda p: {"y": p["k"] * np.ones(2)}, **QUICK), {"k": 2.0}),
    )
    for seed, (derivative, argument) in enumerate(made):
        derivative(argument)
        acc.save(derivative, tmp_path / "right")
        for k, (name, content) in enumerate(derivative_files((tmp_path / "right").read_bytes(), seed, 30).items()):
            path = tmp_path / "corpus" / f"{seed}-{k}.accumulus"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            files[path.name] = name
    environment = {**os.environ, "PYTHONPATH": str(Path(acc.__file__).parents[1])}
    command = [sys.executable, "-c", READ, tmp_path / "corpus"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(files), (files[sorted(files)[len(answers)]], ran.stderr[-2000:])
    for file, error, message in answers:
        name = files[file]
        if name.startswith(("changed", "numbers")):  # what is right by itself may be loaded
            assert error in (None, "FileError"), (name, error, message)
        else:
            assert error == "FileError", (name, error, message)
        assert error is None or file in message, (name, message)
        assert len(message) < 2000, name
    assert not list(tmp_path.glob("was-run"))


def test_files_are_whole_or_not_there(tmp_path, monkeypatch):
    jac = acc.jacobian(lambda x: x * x, **QUICK)
    jac(np.ones(3))
    acc.save(jac, tmp_path / "jac")
    before = (tmp_path / "jac").read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(data_files.os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        acc.save(jac, tmp_path / "jac")
    assert [path.name for path in tmp_path.iterdir()] == ["jac"]
    assert (tmp_path / "jac").read_bytes() == before


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small derivative in a file, and what it computes."""
    path = tmp_path_factory.mktemp("small") / "right"
    jac = acc.jacobian(lambda x: x * x, **QUICK)
    jac(np.ones(1))
    acc.save(jac, path)
    return path.read_bytes()


def refused(content, path):
    """Return True if loading a file raises an error that names it."""
    path.write_bytes(content)
    try:
        acc.load(path)
    except FileError as error:
        return str(path) in str(error)
    return False


def test_a_change_of_any_byte_is_detected(small, tmp_path):
    for position in range(len(small)):
        turned = bytearray(small)
        turned[position] ^= 1 << position % 8
        assert refused(bytes(turned), tmp_path / "turned"), (position, small[position])


def test_truncated_and_extended_files_are_detected(small, tmp_path):
    for length in range(len(small)):
        assert refused(small[:length], tmp_path / "short"), length
    for more in (b"\x00", b"\n", b"{}", small):
        assert refused(small + more, tmp_path / "long"), more[:10]


def test_the_file_itself_is_loaded(small, tmp_path):
    path = tmp_path / "right"
    path.write_bytes(small)
    np.testing.assert_array_equal(acc.load(path)(np.array([3.0])), [[6.0]])
