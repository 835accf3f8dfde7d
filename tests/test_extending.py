"""The changes in docs/extending.md do what the page says: each is applied to a copy of the sources, and used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def apply(change: str, folder: Path) -> None:
    """Change a file as a diff without line numbers says, whose lines have to be there, once."""
    head, *lines = change.splitlines()
    path = folder / head.removeprefix("--- ")
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if before:
        assert text.count(before) == 1, f"{path.name} does not have these lines once:\n{before}"
    else:
        assert not text, f"{path.name} is there already"
    path.write_text(text.replace(before, after) if before else after, encoding="utf-8")


def test_page_has_a_section_for_each_table():
    assert list(SECTIONS) == ["An operation", "A domain", "A method", "A target", "A front end", "An objective"]


@pytest.mark.parametrize("section", SECTIONS)
def test_change_does_what_the_page_says(section, tmp_path):
    changes = re.findall(r"^```diff\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    (lines,) = re.findall(r"^```python\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    assert changes
    assert run(lines, tmp_path).returncode != 0, "what the lines use is there without the change"
    for change in changes:
        apply(change, tmp_path)
    done = run(lines, tmp_path)
    assert done.returncode == 0, done.stderr


def run(lines: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run lines with the sources in a folder, as a user would who has no Numba."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "ACCUMULUS_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.modules['numba'] = None\n{lines}"],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


#: An operation that NumPy, C99 and JAX have, with a derivative.
EVERYWHERE = """--- src/accumulus/tape/operations.py
         arguments=("order", "real"), zero_signs="lost", special=True, largest_order=12, c="ierfcx", time=450)
+    elementary("nextafter", "np.nextafter({0}, {1})", ("1", None), zero_signs="seen")
"""
USED_EVERYWHERE = """
import shutil, subprocess, sys, ctypes
import numpy as np, accumulus as acc

def f(x):
    return np.nextafter(x[0] * x[1], x[1]) * np.sin(x[0])

x = np.array([1.5, -2.0])
expected = np.array([-3.0 * np.cos(1.5) - 2.0 * np.sin(1.5), 1.5 * np.sin(1.5)])
recording = acc.trace(f, x)
assert "nextafter" in str(recording.tape), recording.tape
jit = acc.gradient(f, effort="thorough", time_limit=0.5, cache=False)
assert np.allclose(jit(x), expected), (jit(x), expected)
for target in ("llvm", "numpy", "c") if shutil.which("gcc") else ("llvm", "numpy"):
    gradient = acc.gradient(f, target=target, cache=False)
    assert np.allclose(gradient(x), expected), target
    assert np.allclose(gradient.batch(np.stack([x, x])), expected), target
assert acc.check(f, x).passed
program = gradient.compile(x)
if shutil.which("gcc"):
    open("f.c", "w").write(program.source("c"))
    subprocess.run("gcc -std=c99 -pedantic -Wall -Wextra -Werror -shared -fPIC f.c -o f.so -lm".split(), check=True)
    out = np.zeros(2)
    pointer = ctypes.POINTER(ctypes.c_double)
    ctypes.CDLL("./f.so").f(x.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
    assert np.allclose(out, expected), out
scope = {}
exec(program.source("numpy"), scope)
assert np.allclose(scope["f"](x), expected)
try:
    import jax
except ImportError:
    sys.exit()
jax.config.update("jax_enable_x64", True)
scope = {}
exec(program.source("jax"), scope)
assert np.allclose(jax.jit(scope["f"])(x)[0], expected)
"""


def test_an_operation_that_is_added_works_in_all_targets(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    apply(EVERYWHERE, tmp_path)
    done = run(USED_EVERYWHERE, tmp_path)
    assert done.returncode == 0, done.stderr
