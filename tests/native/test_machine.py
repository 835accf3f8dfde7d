"""How machine code is kept: complete files only, made again where they are missing or damaged."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from accumulus.native import machine
from accumulus.native.machine import kernel, prepare


@pytest.fixture(scope="module")
def code():
    return machine._stored("search.order") or machine._compiled_apart(["search.order"])[0]


@pytest.fixture
def empty_cache(code, monkeypatch, tmp_path):
    """A cache of its own, a process that has no kernels, and those that were compiled for it."""
    compiled = []

    def compile_kernel(subjects):
        compiled.extend(subjects)
        return [code for _ in subjects]

    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_compiled_apart", compile_kernel)
    monkeypatch.setattr(machine, "_LOADED", {})
    return compiled


def anew(monkeypatch, *subjects):
    """As a new process prepares them."""
    monkeypatch.setattr(machine, "_LOADED", {})
    prepare(*subjects)
    assert set(subjects) == machine._LOADED.keys()


def test_what_is_compiled_is_kept(empty_cache, code, monkeypatch):
    anew(monkeypatch, "search.order", "search.order")
    assert machine._stored("search.order") == code
    anew(monkeypatch, "search.order")
    assert empty_cache == ["search.order"]


def test_what_is_loaded_is_not_read_again(empty_cache, monkeypatch):
    prepare("search.order")
    monkeypatch.setattr(machine, "_stored", None)
    prepare("search.order")
    assert kernel("search.order") is kernel("search.order")


def test_damaged_files_are_made_again(empty_cache, tmp_path, monkeypatch):
    prepare("search.order")
    (file,) = (tmp_path / "cache" / "kernels").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    anew(monkeypatch, "search.order")
    assert empty_cache == ["search.order", "search.order"]
    assert file.read_bytes() == whole


def test_where_nothing_can_be_written_it_is_compiled_each_time(empty_cache, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the folder should be")
    anew(monkeypatch, "search.order")
    anew(monkeypatch, "search.order")
    assert empty_cache == ["search.order", "search.order"]


def test_where_no_process_can_be_started_it_is_compiled_here(code, monkeypatch):
    monkeypatch.setattr(sys, "executable", os.devnull)
    monkeypatch.setattr(machine, "compile_kernel", lambda subject: code + subject.encode())
    assert machine._compiled_apart(["search.order"]) == [code + b"search.order"]


def test_a_line_says_what_takes_so_long(empty_cache, capsys, monkeypatch):
    monkeypatch.setattr(machine, "_PATIENCE", 0.0)
    slow = machine._compiled_apart
    announced = []

    def wait_for_the_line(subjects):
        while not announced:
            announced.extend(capsys.readouterr().err.splitlines())
        return slow(subjects)

    monkeypatch.setattr(machine, "_compiled_apart", wait_for_the_line)
    prepare("search.order")
    assert announced == [machine._NOTICE]
    anew(monkeypatch, "search.order")
    assert capsys.readouterr().err == ""


def test_kernels_run_without_numba():
    kernel("search.order")
    kernel("search.sharing")
    program = (
        "import sys\n"
        "from accumulus.graph.graph import DifferentiationGraph\n"
        "from accumulus.search.plan import plan\n"
        "edges = [(v, u) for v in range(2, 12) for u in (v - 1, v - 2)]\n"
        "print(plan(DifferentiationGraph(edges), objective='operations').method, 'numba' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[1] == "False"
