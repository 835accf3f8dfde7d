"""Every construct that functions are made of, in every kind of derivative, target and way to run a program.

Where `kinds` draws programs, this goes through a table of what may stand in a function: loops, decisions, iterations,
linear algebra, functions within functions. Each is differentiated in each kind (`kinds.KINDS`, and Lagrangians), for
each target (CUDA on a stand-in for CuPy), with loops as they are, all of them kept, or rolled from a straight line, and
run in each way: at a point, in batches, from a file, from its source. The truth is differences of what NumPy computes.
There is no exception: an error of whatever kind is a hole.
"""

from __future__ import annotations

import random
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from checking import Outcome
from kinds import KINDS, Claims, Drawn, Posed, Undecided, told_in
from looped import unrolled
from rolling import rolling
from truths import total
from ways import arrays_of, demand_close, in_another_way

import accumulus as acc

sys.path.append(str(Path(__file__).resolve().parents[1] / "targets"))

from cuda_shim import fake

TARGETS: Final = ("llvm", "numpy", "c", *(("cuda",) if shutil.which("g++") else ()))


class Pair(NamedTuple):
    """A container of a construct; by name, so that files find it."""

    one: Any
    other: Any


class Construct(NamedTuple):
    """A function `f` of a vector `v`, a matrix `m` and a number `s`; smooth around the point."""

    name: str
    body: str
    before: str = ""

    @property
    def source(self) -> str:
        """As text."""
        body = "\n    ".join(self.body.strip().splitlines())
        return f"import scipy\n{self.before.strip()}\n\ndef f(v, m, s):\n    {body}\n"

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the arguments."""
        return (5,), (2, 3), ()


POINT: Final = [np.array([0.7, 1.3, 0.4, 1.9, 1.1]), np.array([[0.9, 0.3, 1.2], [0.5, 1.6, 0.8]]), np.float64(0.6)]

CONSTRUCTS: Final[dict[str, Construct]] = {
    each.name: each
    for each in (
        Construct("elementwise", "return np.sin(v) * np.exp(-v * s) + v[::-1] / (1.0 + m[0, 0])"),
        Construct("constant results", "return np.array([2.0, s, 0.0, v[1] * s])"),
        Construct(
            "reductions",
            "w = np.outer(v, m[1]) * s\n"
            "return np.sum(w, axis=0) + np.prod(m, axis=0) * np.mean(v) + np.cumsum(m[0]) * np.linalg.norm(v)",
        ),
        Construct(
            "products of matrices", "a = m @ np.outer(m[0] * s, v)\nreturn np.einsum('ij,j->i', a, v) + m @ m[1]"
        ),
        Construct("moved entries", "return np.concatenate([np.roll(v, 2)[[0, 3, 3]] * s, (m.T[::-1] ** 2)[:, 1]])"),
        Construct(
            "written entries",
            "r = np.zeros((3, 4))\n"
            "r[0] = v[:4] * s\n"
            "r[1, 1:] = m[0]\n"
            "r[1:, ::2] += m.T[:2] * v[4]\n"
            "np.add.at(r[2], [0, 1, 1], m[1])\n"
            "return r",
        ),
        Construct("chosen values", "return np.where(v > 1.0, v * s, np.sin(v)) + np.maximum(v, 1.2) * np.abs(m[0, 1])"),
        Construct(
            "decision",
            "if v[0] * s > m[1, 2]:\n"
            "    return np.array([v[0], s])\n"
            "elif s > 0.5 and m[0, 0] < v[1]:\n"
            "    w = v * s\n"
            "else:\n"
            "    w = v + s\n"
            "return np.array([np.sum(w * w), np.exp(-m[1, 1] * w[2])])",
        ),
        Construct(
            "branches in loops",
            "r = 0.0\n"
            "for x in v:\n"
            "    if x > 1.0:\n"
            "        r = r + x * s\n"
            "    else:\n"
            "        r = r * m[0, 1] - np.cos(x)\n"
            "return r",
        ),
        Construct(
            "nested loops",
            "r = [0.0, 1.0]\n"
            "for i in range(2):\n"
            "    for j in range(3):\n"
            "        r[i] = r[i] * s + np.sin(m[i, j] * v[j])\n"
            "return np.array(r)",
        ),
        Construct(
            "while",
            "x, k = s, 0\n"
            "while abs(x * x - v[1]) > 1e-13 * v[1] and k < 60:\n"
            "    x, k = 0.5 * (x + v[1] / x), k + 1\n"
            "return np.array([m[0, 0] / s, np.sin(m[1, 1])])",
        ),
        Construct(
            "early exit",
            "t = 0.0\n"
            "for i, x in enumerate(v):\n"
            "    t = t + x * s\n"
            "    if t > 1.3:\n"
            "        break\n"
            "else:\n"
            "    t = -t\n"
            "return t * np.sin(m[1])",
        ),
        Construct(
            "steps",
            "def step(state, x):\n"
            "    a, b = state\n"
            "    a, b = a + 0.3 * b * s, b - 0.3 * np.sin(a) * x\n"
            "    return (a, b), a * b\n"
            "(a, b), each = acc.scan(step, (m[0, 1], m[1, 0]), v)\n"
            "return np.array([a, b]), each",
        ),
        Construct(
            "steps of arrays",
            "def step(x, _):\n"
            "    return x + 0.1 * s * (np.roll(x, 1) - 2.0 * x + np.roll(x, -1)) - 0.1 * x ** 2, None\n"
            "return acc.scan(step, v, length=6)[0]",
        ),
        Construct("map", "return acc.map(lambda x, y: (x * y, np.exp(-s * x)), v[:2], m)"),
        Construct(
            "assembled",
            "return assembled(v * s, np.array([1.0, 2.0, m[0, 2], 4.0]))",
            "def element(ends, stiffness):\n"
            "    force = stiffness * np.sin(ends[1] - ends[0])\n"
            "    return np.array([force, -force])\n\n"
            "assembled = acc.assemble(element, [[0, 1], [1, 2], [2, 3], [3, 4]])",
        ),
        Construct(
            "linear systems",
            "a = np.outer(v[:3], v[1:4]) * 0.1 + np.eye(3) * (2.0 + s)\n"
            "return np.linalg.solve(a, m[0]), np.linalg.inv(a)[1] * np.linalg.det(a)",
        ),
        Construct(
            "factorisations",
            "a = m @ m.T + np.eye(2) * s\n"
            "w, q = np.linalg.eigh(a)\n"
            "return np.linalg.cholesky(a), w, np.linalg.svd(m, compute_uv=False), np.abs(q), scipy.linalg.expm(a)",
        ),
        Construct("sorted", "return np.sort(v)[1:4] * s, np.median(m), v[np.argmax(v)] * np.max(m, axis=0)"),
        Construct("transforms", "z = np.fft.fft(v)\nreturn np.abs(z) + z.real * s, np.convolve(v, m[0])"),
        Construct(
            "complex numbers", "z = np.exp(1j * v * s) * (m[0, 0] + 1j * m[1, 1])\nreturn z.imag, np.abs(z + 1.0)"
        ),
        Construct(
            "containers",
            "p = {'a': v * s, 'b': (m[0], [s, v[2]])}\n"
            "return {'sum': p['a'][0] + p['b'][1][1], 'rest': [p['b'][0] ** 2, Pair(s * s, p['a'][1:3])]}",
            "from constructs import Pair",
        ),
        Construct(
            "implicit",
            "return root(v[:2], m[0, :2], s) * v[3]",
            "root = acc.implicit(lambda y, p, s: np.array([y[0] ** 3 + s * y[1] - p[0], y[1] + y[0] ** 2 / 9 - p[1]]))",
        ),
        Construct(
            "derivative within",
            "slope = acc.gradient(lambda x: np.sum(np.sin(x * s) ** 2) * x[0])\n"
            "value, tangent = acc.jvp(lambda x: x ** 2 * m[0])((v[:3],), (m[1],))\n"
            "return slope(v), tangent + value",
        ),
        Construct(
            "special functions",
            "return scipy.special.erf(v * s) + scipy.special.gammaln(v + 1.0), scipy.special.logsumexp(m)",
        ),
        Construct(
            "tables",
            "return np.interp(v, [0.0, 0.5, 1.5, 2.0], [1.0, m[0, 1], s, 3.0]), spline(v) * s",
            "from scipy.interpolate import CubicSpline\nspline = CubicSpline([0, 0.5, 1.2, 2], [1, 0.2, 1.4, 0.8])",
        ),
        Construct("roundings", "return np.floor(v) * s + np.sign(m[0, 0]) * v % 0.45"),
        Construct(
            "functions of functions",
            "def power(x, n):\n"
            "    return 1.0 if n == 0 else x * power(x, n - 1)\n"
            "try:\n"
            "    return sum(power(x, 3) for x in v), max(m[0]) * min(v), sorted([s, *m[1]])\n"
            "except ZeroDivisionError:\n"
            "    return s",
        ),
    )
}


def lagrangian(drawn: Drawn) -> Posed:
    """Of the sum of all results and the results themselves: multipliers add up where all are 1."""
    f, shapes = drawn.f, drawn.program.shapes
    size = int(np.prod(shapes[0]))

    def claims(result: Any) -> Claims:
        want, off = drawn.oracle.hessian()
        return [("H", np.reshape(result, (size, size)), (3.0 * want[:size, :size], 3.0 * off[:size, :size]))]

    posed = acc.hessian_of_lagrangian(total(f), total(f), **drawn.options)
    return Posed(posed, (drawn.point[0], 2.0, 1.0, *drawn.point[1:]), claims)


ALL_KINDS: Final[dict[str, Callable[[Drawn], Posed]]] = {**KINDS, "lagrangian": lagrangian}


# How loops are recorded, and how programs are run ------------------------------------------------------------------

FORMS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "as it is": nullcontext,
    "in loops": lambda: unrolled(0, 1),
    "written out": lambda: unrolled(10**9),
    "rolled": rolling,
}


def in_way(posed: Posed, way: str, result: Any) -> None:
    """Hold what a derivative returned against what it returns in another way.

    Raises:
        Disagreement: if they differ.
    """
    if not isinstance(posed.derivative, acc.Derivative):  # an operator has neither batches, files nor source
        return
    if way == "points":
        different_points(posed)
    elif way in ("c", "cuda"):
        text = posed.derivative.compile(*posed.arguments).source(way)
        assert " f(" in text, text
    else:
        in_another_way(posed.derivative, posed.arguments, way, result, "float64", demanded=True)


def different_points(posed: Posed) -> None:
    """Hold a batch of points that differ, on two threads, against one after the other."""
    draw = np.random.default_rng(0)
    points = [tree_map(lambda x: x * (1.0 + 1e-3 * draw.normal(size=np.shape(x))), posed.arguments) for _ in range(23)]
    found = arrays_of(posed.derivative.batch(*tree_map(lambda *each: np.stack(each), *points), threads=2))
    for k, point in enumerate(points):
        for one, several in zip(arrays_of(posed.derivative(*point)), found, strict=True):
            if not hasattr(one, "toarray"):
                demand_close(np.asarray(one), several[k], f"point {k} of a batch", "float64")


def tree_map(f: Callable[..., Any], *trees: Any) -> Any:
    """A structure like some others, with what a function makes of their numbers and arrays."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: tree_map(f, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, (tuple, list)):
        parts = [tree_map(f, *each) for each in zip(*trees, strict=True)]
        return first._make(parts) if hasattr(first, "_make") else type(first)(parts)
    return None if first is None else f(*(np.asarray(tree, float) for tree in trees))


#: Those of `kinds` and a batch of points that differ.
WAYS: Final = ("alone", "batch", "points", "file", "numpy", "c", "cuda", "jax")


class Case(NamedTuple):
    """One of the product."""

    construct: str
    kind: str
    target: str
    form: str
    way: str


def drawn_case(number: int) -> Case:
    """One of them by chance."""
    rng = random.Random(number)
    return Case(*(rng.choice(list(table)) for table in (CONSTRUCTS, ALL_KINDS, TARGETS, FORMS, WAYS)))


def drawn_cases(count: int, seed: int) -> list[Case]:
    """So many of the product, by chance, and each entry of each table among them where they are enough."""
    rng = random.Random(seed)
    tables: list[list[Any]] = [list(CONSTRUCTS), list(ALL_KINDS), list(TARGETS), list(FORMS), list(WAYS)]
    columns = []
    for table in tables:
        column = (table * (count // len(table) + 1))[:count]
        rng.shuffle(column)
        columns.append(column)
    return [Case(*each) for each in zip(*columns, strict=True)]


@contextmanager
def _cupy(target: str) -> Iterator[None]:
    """A stand-in for CuPy while CUDA is the target; nothing else that is imported meanwhile is put back."""
    if target != "cuda":
        yield
        return
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = fake()
    try:
        yield
    finally:
        del sys.modules["cupy"]
        if before is not None:
            sys.modules["cupy"] = before


def check_case(case: Case, seed: int = 0) -> Outcome:
    """Differentiate, run and compare one case."""
    construct = CONSTRUCTS[case.construct]
    options: dict[str, Any] = {"target": case.target, "dtype": "float64", "effort": "fast", "cache": False}
    drawn = Drawn(construct, POINT, options, random.Random(seed), seed)  # type: ignore[arg-type]
    outcome, remark = "right", ""
    with ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_cupy(case.target))
        try:
            with FORMS[case.form]():
                outcome, remark = told_in(ALL_KINDS[case.kind](drawn), case.way, in_way)
        except Undecided as why:
            outcome, remark = "undecided", str(why)
        except Exception as error:
            outcome, remark = "crash", f"{type(error).__name__}: {error}"
    return Outcome(seed, outcome, f"{', '.join(case)}: {remark}", construct.source)  # type: ignore[arg-type]
