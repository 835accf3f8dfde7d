"""Machine code in the cache: complete files only, made again where they are missing or damaged."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from accumulus.errors import CompileError
from accumulus.native import machine
from accumulus.native.machine import kernel, prepare
from accumulus.native.sources import llvm_codes

ORDER = llvm_codes(["search.order"])["search.order"]


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    """A cache of its own, a process that has no kernels, and the code that is finished in it."""
    finished = []
    finish = machine._finished

    def note(code):
        finished.append(code)
        return finish(code)

    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_finished", note)
    monkeypatch.setattr(machine, "_LOADED", {})
    monkeypatch.setattr(machine, "llvm_codes", lambda subjects: dict.fromkeys(subjects, ORDER))
    return finished


def anew(monkeypatch, *subjects):
    """Prepare them as a new process does."""
    monkeypatch.setattr(machine, "_LOADED", {})
    prepare(*subjects)
    assert set(subjects) == machine._LOADED.keys()


def test_finished_code_is_stored(empty_cache, monkeypatch):
    anew(monkeypatch, "search.order", "search.order")
    anew(monkeypatch, "search.order")
    assert empty_cache == [ORDER]


def test_loaded_code_is_not_read_again(empty_cache, monkeypatch):
    prepare("search.order")
    monkeypatch.setattr(machine, "fetch", None)
    prepare("search.order")
    assert kernel("search.order") is kernel("search.order")


def test_damaged_files_are_made_again(empty_cache, tmp_path, monkeypatch):
    prepare("search.order")
    (file,) = (tmp_path / "cache" / "kernels").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    anew(monkeypatch, "search.order")
    assert empty_cache == [ORDER, ORDER]
    assert file.read_bytes() == whole


def test_where_nothing_can_be_written_it_is_finished_each_time(empty_cache, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the folder should be")
    anew(monkeypatch, "search.order")
    anew(monkeypatch, "search.order")
    assert empty_cache == [ORDER, ORDER]


def test_one_line_names_the_slow_stage(empty_cache, capsys, monkeypatch):
    monkeypatch.setattr(machine, "_PATIENCE", 0.0)
    machine._announce.cache_clear()
    announced = []

    def wait_for_the_line(subjects):
        while not announced:
            announced.extend(capsys.readouterr().err.splitlines())
        return dict.fromkeys(subjects, ORDER)

    monkeypatch.setattr(machine, "llvm_codes", wait_for_the_line)
    prepare("search.order")
    assert announced == [machine._NOTICE]
    anew(monkeypatch, "search.order")
    assert capsys.readouterr().err == ""

    def wait_for_the_timer(subjects):
        while any(getattr(thread, "function", None) is machine._announce for thread in threading.enumerate()):
            time.sleep(0.001)
        return dict.fromkeys(subjects, ORDER)

    monkeypatch.setattr(machine, "llvm_codes", wait_for_the_timer)
    prepare("search.pairs")
    assert capsys.readouterr().err == ""


def test_many_threads_load_a_kernel_once(empty_cache):
    results = []
    threads = [threading.Thread(target=lambda: results.append(kernel("search.order"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
    assert empty_cache == [ORDER]


def test_code_of_another_llvm(empty_cache, monkeypatch):
    monkeypatch.setattr(machine, "llvm_codes", lambda subjects: {"search.order": b"BC no bitcode"})
    with pytest.raises(CompileError, match=r"built with a newer LLVM .*install the package again"):
        prepare("search.order")


def test_kernels_run_without_numba():
    kernel("search.order")
    kernel("rewriting.signs")
    program = (
        "import sys\n"
        "from accumulus.graph.graph import DifferentiationGraph\n"
        "from accumulus.search.find import plan\n"
        "edges = [(v, u) for v in range(2, 12) for u in (v - 1, v - 2)]\n"
        "print(plan(DifferentiationGraph(edges), objective='operations').method, 'numba' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[1] == "False"
