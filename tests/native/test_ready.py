"""Kernels that have to be compiled: in processes that run no code but ours, wherever they are started."""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accumulus.errors import CompileError
from accumulus.native import sources
from accumulus.tape import operations

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
    code = sources._compiled_apart("arrays.sparse")
    assert code.startswith(b"BC\xc0\xde")
    assert code == sources.shipped("arrays.sparse") or sources.shipped("arrays.sparse") is None
    assert not (hostile / "was run").exists()


def test_where_the_package_itself_is_the_current_directory(monkeypatch):
    monkeypatch.chdir(sources.PACKAGE.parent)
    monkeypatch.setattr(sys, "path", ["", str(sources.PACKAGE.parent)])
    assert sources._path() == [str(sources.PACKAGE.parent)]


def test_a_current_directory_that_is_gone(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", "/nowhere"])
    assert sources._path() == ["/nowhere", str(sources.PACKAGE.parent)]
    monkeypatch.undo()


def test_a_kernel_that_cannot_be_compiled(monkeypatch):
    monkeypatch.setattr(sources, "_path", list)
    with pytest.raises(CompileError, match=r"search\.order is not shipped .*No module named 'accumulus'.*install"):
        sources._compiled_apart("search.order")


def test_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", os.devnull)
    with pytest.raises(CompileError, match=r"search\.order cannot be compiled: .* does not start"):
        sources._compiled_apart("search.order")


def test_digests_know_all_sources_of_a_kernel(monkeypatch):
    """Those that a kernel imports, near and far."""
    read = []
    original = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, *args, **keywords: read.append(path) or original(path, "utf-8"))
    sources._module.cache_clear()
    sources.digest.__wrapped__("theory.blocks")
    names = {path.relative_to(sources.PACKAGE).as_posix() for path in read}
    assert {"search/compiled/order_kernel.py", "theory/compiled/orders_kernel.py"} <= names
    assert {"native/words.py", "native/compile.py"} <= names


def fresh(subject):
    sources._module.cache_clear()
    return sources.digest.__wrapped__(subject)


def with_table(monkeypatch, change):
    """The table with its rows as `change` makes them of the list."""
    rows = change(list(operations.OPERATIONS))
    rows = [replace(row, code=code) for code, row in enumerate(rows)]
    monkeypatch.setattr(operations, "BY_NAME", {row.name: row for row in rows})


@pytest.mark.parametrize("subject", sources.subjects())
def test_rows_that_are_added_make_no_kernel_stale(subject, monkeypatch):
    before = fresh(subject)
    added = replace(operations.BY_NAME["erf"], name="another")
    with_table(monkeypatch, lambda rows: [*rows, added])
    assert fresh(subject) == before


def test_kernels_are_stale_whose_codes_change(monkeypatch):
    users = {subject: fresh(subject) for subject in ("rewriting.rewrite", "tape.passes", "repetition.cones")}
    added = replace(operations.BY_NAME["erf"], name="another")
    with_table(monkeypatch, lambda rows: [rows[0], added, *rows[1:]])
    assert all(fresh(subject) != before for subject, before in users.items())


def test_kernels_take_constants_and_codes_alone():
    """All that a kernel uses of a module that is not compiled is in its digest, and is looked up in no other way."""
    for path in sources.PACKAGE.glob("*/compiled/*.py"):
        module = f"accumulus.{path.parts[-3]}.compiled.{path.stem}"
        text, _ = sources._module(module)
        taken = text.decode().removeprefix(path.read_text(encoding="utf-8"))
        for line in taken.splitlines():
            if line:
                _, value = line.split(" ", 1)
                assert isinstance(ast.literal_eval(value), int | float | str | tuple | list | dict), line
