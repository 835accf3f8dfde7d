"""docs/reading.md says for each construct what becomes of it; here each is tried."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.record import record

PAGE = (Path(__file__).parents[3] / "docs" / "reading.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (.+?) \| (merged|guarded|refused|unchanged|as they are) \|", PAGE, re.MULTILINE))

#: Beginning of a row → bodies of functions of x, at x = 1.75.
BODIES = {
    "`if`, `elif`": ["if x > 1:\n    y = x\nelif x > 0:\n    y = x * x\nelse:\n    y = 0.0\nreturn y"],
    "early `return`": [
        "if x > 2:\n    return x\ny = x + 1\nif y > 2:\n    return y\nreturn 0.0",
        "s = 0.0\nfor i in range(4):\n    if x > i:\n        continue\n    s += x * i\nreturn s",
    ],
    "`a if c": ["return x if x > 1 else 0.0"],
    "`and`, `or`": ["return x if 0 < x < 2 and not x > 5 or x < -1 else 0.0"],
    "`max`": ["return max(x, 1.0, 2 * x) + min(x, 0.5)"],
    "`sorted` of up": ["return sorted([x, 1.0, -x, 2.0, 0.5, 2 * x, 3.0, 4.0])"],
    "`any`": ["return x * any([x > 1, x < 0]) + all([x > 0, x < 5])"],
    "stores": ["d = {'u': x}\na = np.zeros(2)\nif x > 1:\n    a[0] = x\n    d['u'] = 0.0\nreturn [*a, d['u']]"],
    "lists that grow by": ["l = []\nif x > 1:\n    l.append(x)\nelse:\n    l.append(1.0)\nreturn l"],
    "`u[m] = g": [
        "u = np.array([x, -x, 2.0])\nm = u > 0\nu[m] = np.sqrt(u[m])\nreturn u",
        "u = np.array([x, -x, 2.0])\nreturn np.sum(u[u > 0]) + u[u > 0].max()",
    ],
    "`u[m][0]": [
        "u = np.array([x, -x, 2.0])\nreturn u[u > 0][0]",
        "u = np.array([x, -x, 2.0])\nreturn u[u > 0] * np.array([1.0, x])",
    ],
    "`len(u[m])`": ["u = np.array([x, -x, 2.0])\nreturn x * len(u[u > 0])"],
    "`if` in helper": [
        "def kink(u):\n    if u > 1:\n        return u\n    return 0.0\n"
        "return kink(x) + (lambda u: -u if u < 0 else u)(x)",
    ],
    "functions compiled": ["return compiled(x)"],
    "`np.vectorize`": ["return np.vectorize(lambda u: u if u > 0 else 0.0)(np.array([x, -x]))"],
    "`if` on constants": ["return x if isinstance(x, float) and None is None and len([1]) > 0 else 0.0"],
    "`math`": ["return math.sin(x) + statistics.mean([x, 1.0])"],
    "`float(x)`": ["print(x, f'{x:.3f}')\nreturn float(x)"],
    "`while`": [
        "while x > 1:\n    x = x / 2\nreturn x",
        "i = 0\nwhile i < 9:\n    if x < i:\n        break\n    i += 1\nreturn x * i",
        "for i in range(99):\n    if x < i:\n        break\nreturn x * i",
        "for i in range(4):\n    try:\n        if x < i:\n            break\n    finally:\n        pass\nreturn x * i",
    ],
    "`break`, `return`": [
        "for i in range(4):\n    if x < i:\n        break\nreturn x * i",
        "for i in range(4):\n    if x < i:\n        return x * i\nreturn x",
    ],
    "`assert`": ["assert x > 0\nreturn x", "if x < 0:\n    raise ValueError\nreturn x"],
    "`try: math": [
        "try:\n    y = math.sqrt(x)\nexcept ValueError:\n    y = -x\nreturn y",
        "try:\n    y = math.log(-x)\nexcept ValueError:\n    y = -x\nreturn y",
    ],
    "a branch that raises": ["if x < 0:\n    x = [][0]\nreturn x"],
    "`int(x)`": ["return [1.0, x, 2 * x][int(x)] * sum(1 for _ in range(int(x)))"],
    "`sorted` of more": ["return sorted([x * (-1) ** i / (i + 1) for i in range(9)])"],
    "results that do": ["y = x if x > 1 else None\nreturn 0.0 if y is None else y"],
    "lists that grow in": ["l = [x]\nif x > 1:\n    l.append(x)\nreturn sum(l)"],
    "global": ["it = iter([x, 2 * x])\nif x > 1:\n    next(it)\nreturn next(it)"],
    "an array that": ["u, v = np.zeros(2), np.ones(2)\nw = u if x > 1 else v\nu[0] = x\nreturn w"],
    "`if` within more": [
        "\n".join("    " * i + f"if x > {-i}:" for i in range(12)) + "\n" + "    " * 12 + "x = 2 * x\nreturn x",
    ],
    "`if` within itself": [
        "def f(n, u):\n    if n == 0:\n        return u\n    return f(n - 1, 0.9 * u) if u > 1 else f(n - 1, 1.1 * u)\n"
        "return f(12, x)",
    ],
    "an `if` that runs": ["if x < 1:\n    for i in range(500):\n        x = np.sin(x) + i / x\nreturn 2.0 * x"],
    "`if` in an operator": [
        "class V:\n    def __init__(self, u):\n        self.u = u\n    def __add__(self, other):\n"
        "        return V(self.u + other.u if self.u > 1 else other.u)\nreturn (V(x) + V(x)).u",
    ],
    "a decision in": ["return acc.map(lambda u: [0.0, u][int(u)], np.array([x, 2 * x]))"],
}
CASES = [(begin, body) for begin, bodies in BODIES.items() for body in bodies]


def of(body, folder):
    path = folder / "read.py"
    source = (
        "import math, statistics\nimport numpy as np\nimport accumulus as acc\n\ndef function(x):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "\ndef compiled(x):\n    if x > 1:\n        return x * x\n    return x\n"
    )
    path.write_text(source)
    scope = {"__name__": "read"}
    exec(compile(source, str(path), "exec"), scope)
    if "compiled(" in body:
        scope["compiled"] = pytest.importorskip("numba").njit(scope["compiled"])
    return scope["function"]


def row_of(begin):
    results = [row for row in ROWS if row.startswith(begin)]
    assert len(results) == 1, begin
    return results[0]


@pytest.mark.parametrize(("begin", "body"), CASES)
def test_constructs_are_read_as_the_page_says(begin, body, tmp_path):
    function = of(body, tmp_path)
    expected = ROWS[row_of(begin)]
    if expected == "refused":
        with pytest.raises(TraceError):
            record(function, [1.75], decides=True)
        return
    recording = record(function, [1.75], decides=True, check=True)
    assert bool(recording.guards) == (expected == "guarded"), recording.guards
    np.testing.assert_allclose(acc.jacobian(function)(1.75), _slopes(function), rtol=1e-6)


def _slopes(function):
    ahead, behind = (np.asarray(function(x), float) for x in (1.75 + 1e-6, 1.75 - 1e-6))
    return (ahead - behind) / 2e-6


def test_every_row_is_tried():
    elsewhere = {"functions without source", "writing into an argument"}
    assert {row_of(begin) for begin in BODIES} | elsewhere == set(ROWS)


def test_functions_without_source_are_guarded():
    scope = {}
    exec("def function(x):\n    return x if x > 1 else 0.0\n", scope)
    assert len(record(scope["function"], [1.75], decides=True).guards) == 1


def test_writing_into_an_argument_is_refused():
    def function(x):
        x[0] = 1.0
        return x

    with pytest.raises(TraceError):
        record(function, [np.ones(2)], decides=True)


def test_without_decisions_nothing_is_read_from_source(tmp_path):
    function = of(BODIES["`a if c"][0], tmp_path)
    with pytest.raises(TraceError, match=r"np\.where"):
        acc.jacobian(function, guards="error")(1.75)
