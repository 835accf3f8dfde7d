"""The changes in docs/extending.md do what the page says: each is applied to a copy of the sources, and used."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
#: Kernels and code of unchanged sources, which all processes share.
CACHE = tempfile.TemporaryDirectory()
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
def test_changes_of_the_page_work(section, tmp_path):
    changes = re.findall(r"^```diff\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    (lines,) = re.findall(r"^```python\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    shutil.copytree(ROOT / "src", tmp_path / "src")  # with bytecode, which is valid of what does not change
    assert changes
    assert run(lines, tmp_path).returncode != 0, "what the lines use is there without the change"
    for change in changes:
        apply(change, tmp_path)
    done = run(lines, tmp_path)
    assert done.returncode == 0, done.stderr


def run(lines: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run lines with the sources in a folder, as a user would who has no Numba."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "ACCUMULUS_CACHE": CACHE.name}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.modules['numba'] = None\n{lines}"],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


#: The operations of the page, by everything that there is.
THE_PAGES_EVERYWHERE = """
import importlib.util, pathlib, shutil, sys, tempfile
sys.path += [{tests!r}, {targets!r}]
import mpmath
import numpy as np
from cuda_shim import fake
from looped import unrolled
from rolling import rolling
from scipy import special
import accumulus as acc
from accumulus.tape.error_bounds import evaluate_with_bounds

mpmath.mp.dps = 50
EXACT = {{"exp10": lambda x: mpmath.mpf(10) ** x, "wrightomega": lambda x: mpmath.lambertw(mpmath.exp(x)).real}}
gcc = ["c"] if shutil.which("gcc") else []
cuda = ["cuda"] if shutil.which("g++") else []
sys.modules["cupy"] = fake()
POINTS = np.array([-30.0, -2.0, -0.7, 0.0, 0.4, 1.0, 2.5, 40.0])
has_jax = importlib.util.find_spec("jax") is not None
if has_jax:
    import jax
    jax.config.update("jax_enable_x64", True)

for name, exact in EXACT.items():
    f = getattr(special, name)
    wanted = np.array([[float(mpmath.diff(exact, mpmath.mpf(x), k)) for x in POINTS] for k in range(5)])

    def close(found, wanted, what):
        assert np.allclose(found, wanted, rtol=1e-13, atol=0), (name, what, found, wanted)

    def orders(x):
        found, g = [], f
        for _ in range(5):
            found.append(g(x))
            g = acc.gradient(g)
        return np.array(found)

    # every order, nested, in every target, at points and in batches, of one precision and the other
    for target in ("llvm", "numpy", *gcc, *cuda):
        derivatives = acc.compile(orders, target=target, cache=False, check=target == "llvm")
        close(np.array([derivatives(x) for x in POINTS[:3]]).T, wanted[:, :3], target)
        close(derivatives.batch(POINTS).T, wanted, (target, "batch"))
        single = acc.gradient(f, target=target, dtype="float32", cache=False)
        assert np.allclose(single.batch(POINTS[1:7]), wanted[1, 1:7], rtol=1e-4), target

    # in every kind of derivative, as a straight line, in loops, rolled
    def of_arrays(v):
        return f(v) * v[::-1]

    x = POINTS[1:7]
    jacobian = np.diag(wanted[1, 1:7] * x[::-1]) + np.fliplr(np.diag(wanted[0, 1:7]))
    for how in (lambda: unrolled(10**9), lambda: unrolled(0, 1), rolling):
        with how():
            close(acc.jacobian(of_arrays, cache=False)(x), jacobian, "jacobian")
            close(acc.jvp(of_arrays, cache=False)((x,), (x,))[1], jacobian @ x, "jvp")
            close(acc.vjp(of_arrays, cache=False)((x,), x)[1][0], x @ jacobian, "vjp")
            close(acc.hessian(lambda v: np.sum(f(v)), cache=False)(x), np.diag(wanted[2, 1:7]), "hessian")
            saved = acc.jacobian(of_arrays, sparse="csr", cache=False)
            saved(x)
            acc.save(saved, "f.accumulus")
            close(acc.load("f.accumulus")(x).toarray(), jacobian, "file")
    series = acc.taylor(f, cache=False)((0.4,), ([1.0, 0.0, 0.0, 0.0],))[1]
    close(series, wanted[1:, 4] / [1, 2, 6, 24], "taylor")
    assert acc.check(of_arrays, x).passed
    assert acc.jacobian(of_arrays, effort="thorough", time_limit=0.5, cache=False)(x).shape == (6, 6)

    # in every domain
    tape = acc.trace(of_arrays, x).tape
    assert name in str(tape)
    values, bounds = evaluate_with_bounds(tape, x[:, None])
    assert np.all(np.abs(values[:, 0] - wanted[0, 1:7] * x[::-1]) <= bounds[:, 0])

    # in every language
    program = acc.gradient(f, cache=False).compile(0.4)
    for language in ("llvm", "numpy", "c", "cuda", "jax"):
        text = program.source(language)
        if language == "numpy" or language == "jax" and has_jax:
            scope = {{}}
            exec(text, scope)
            close(scope["f"](np.float64(0.4))[0], wanted[1, 4], language)
"""


@pytest.mark.skipif(find_spec("mpmath") is None, reason="needs mpmath")
def test_the_pages_operations_work_everywhere(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src")  # with bytecode, which is valid of what does not change
    for change in re.findall(r"^```diff\n(.*?)^```", SECTIONS["An operation"], re.MULTILINE | re.DOTALL):
        apply(change, tmp_path)
    tests = ROOT / "tests"
    done = run(THE_PAGES_EVERYWHERE.format(tests=str(tests), targets=str(tests / "targets")), tmp_path)
    assert done.returncode == 0, done.stderr


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
    shutil.copytree(ROOT / "src", tmp_path / "src")  # with bytecode, which is valid of what does not change
    apply(EVERYWHERE, tmp_path)
    done = run(USED_EVERYWHERE, tmp_path)
    assert done.returncode == 0, done.stderr
