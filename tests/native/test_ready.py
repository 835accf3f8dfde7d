"""Kernels that have to be compiled: in processes that run no code but ours, wherever they are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from accumulus.errors import CompileError
from accumulus.native import ready, sources

pytest.importorskip("numba")

#: What a process that compiles imports, by whatever way.
DECOYS = ("accumulus", "json", "llvmlite", "numba", "numpy", "re", "tempfile", "yaml")


@pytest.fixture
def hostile(monkeypatch, tmp_path):
    """A current directory full of modules that must not be run, on every path that leads there."""
    for name in DECOYS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'w')\n")
    (tmp_path / ".numba_config.yaml").write_text("opt: 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(tmp_path)]))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    return tmp_path


def test_files_in_the_current_directory_are_not_run(hostile):
    code = ready._compiled_apart("elimination.labels")
    assert code.startswith(b"BC\xc0\xde")
    assert code == ready.shipped("elimination.labels") or ready.shipped("elimination.labels") is None
    assert not (hostile / "was run").exists()


def test_where_the_package_itself_is_the_current_directory(monkeypatch):
    monkeypatch.chdir(sources.PACKAGE.parent)
    monkeypatch.setattr(sys, "path", ["", str(sources.PACKAGE.parent)])
    assert ready._path() == [str(sources.PACKAGE.parent)]


def test_a_current_directory_that_is_gone(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", "/nowhere"])
    assert ready._path() == ["/nowhere", str(sources.PACKAGE.parent)]
    monkeypatch.undo()


def test_a_kernel_that_cannot_be_compiled(monkeypatch):
    monkeypatch.setattr(ready, "_path", list)
    with pytest.raises(CompileError, match=r"search\.order is not shipped .*No module named 'accumulus'.*install"):
        ready._compiled_apart("search.order")


def test_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", os.devnull)
    with pytest.raises(CompileError, match=r"search\.order cannot be compiled: .* does not start"):
        ready._compiled_apart("search.order")


def test_digests_know_all_sources_of_a_kernel(monkeypatch):
    """Those that a kernel imports, near and far."""
    read = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or original(path))
    sources._module.cache_clear()
    sources.digest.__wrapped__("theory.subsets")
    names = {path.relative_to(sources.PACKAGE).as_posix() for path in read}
    compiled = "search/compiled/"
    assert {f"{compiled}order_kernel.py", f"{compiled}order_state.py", "theory/compiled/subsets_kernel.py"} <= names
    assert {"native/words.py", "native/compile.py"} <= names
    read.clear()
    sources._module.cache_clear()
    sources.digest.__wrapped__("rewriting.rewrite")
    assert sources.PACKAGE / "tape" / "operations.py" in read
