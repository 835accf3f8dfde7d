"""The package as it is installed: with the code of every kernel, made from the sources beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from accumulus.native import sources

ROOT = Path(__file__).parents[1]
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE")

USE = """
import sys
sys.modules["numba"] = None  # what cannot be imported
import numpy as np, accumulus as acc
from accumulus.native import machine, sources
machine.prepare(*sources.subjects())
print(acc.jacobian(lambda x: np.sin(x) * x[0])(np.ones(2)).tolist())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel that was built from a copy of the sources, unpacked."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("package")
    for module in PARTS:
        shutil.copy(ROOT / module, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", folder / "dist"]
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, folder], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_the_wheel_holds_the_code_of_every_kernel(wheel):
    shipped = {path.name for path in (wheel / "accumulus" / "native" / "shipped").iterdir()}
    assert shipped == {f"{subject}.kernel" for subject in sources.subjects()}
    for path in (wheel / "accumulus" / "native" / "shipped").iterdir():
        made_from, _, code = path.read_bytes().partition(b"\n")
        assert made_from.decode() == sources.digest(path.stem)
        assert code.startswith(b"BC\xc0\xde")


def test_the_wheel_has_the_assets_of_pages(wheel):
    shipped = {path.name for path in (wheel / "accumulus" / "show" / "assets").iterdir()}
    assert shipped == {path.name for path in (ROOT / "src" / "accumulus" / "show" / "assets").iterdir()}
    assert {
        "theme.css",
        "common.js",
        "explorer.js",
        "explorer.css",
        "report.js",
        "report.css",
        "katex.min.js",
        "katex.css",
        "LICENSE-KaTeX.txt",
        "SHA256SUMS",
    } <= shipped


def test_the_wheel_holds_the_corpus(wheel):
    path = ("accumulus", "theory", "research", "corpus.json")
    assert wheel.joinpath(*path).read_bytes() == (ROOT / "src").joinpath(*path).read_bytes()


def test_an_installation_runs_without_numba_and_kernel_sources(wheel, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(wheel)!r})\n{USE}"],
        env={"ACCUMULUS_CACHE": str(tmp_path / "cache"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        cwd=wheel,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("[[")


def test_numba_is_no_requirement(wheel):
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    required = [line for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist:")]
    assert any("llvmlite" in line for line in required)
    assert not any("numba" in line for line in required if "extra ==" not in line)


def test_building_again_changes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "shipped")
    made = []

    def compiled(subject):
        made.append(subject)
        return b"code of " + subject.encode()

    monkeypatch.setattr(sources, "_compiled_apart", compiled)
    sources.build()
    assert sorted(made) == sources.subjects()
    gone = tmp_path / "shipped" / "search.gone.kernel"
    gone.write_bytes(b"")
    stale = tmp_path / "shipped" / "search.order.kernel"
    stale.write_bytes(b"0" * 64 + b"\nold")
    made.clear()
    sources.build()
    assert made == ["search.order"]
    assert not gone.exists()
    assert sources.shipped("search.order") == b"code of search.order"
