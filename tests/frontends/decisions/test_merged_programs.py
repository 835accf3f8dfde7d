"""Random small programs full of decisions: their recordings are the programs wherever the guards hold."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate

from accumulus.frontends.record import record

NAMES = ("a", "b", "c")
LOOP_NAMES = ("i", "j", "k")
POINTS = np.array(
    [[0.3, -0.7], [-1.1, 0.4], [1.7, 1.3], [0.1, 2.3], [-0.6, -0.9], [2.6, -2.2], [0.8, 0.75], [-2.4, 1.9]]
)

names = st.sampled_from(NAMES)
numbers = st.sampled_from(["0.5", "-1.25", "0.7", "2.0", "-0.3"])
operands = st.one_of(names, names, numbers, st.sampled_from(["p[0]", "p[1]", "arr[1]", "arr[2]", "lst[0]", "lst[1]"]))


@st.composite
def expressions(draw):
    one, other, third = draw(operands), draw(operands), draw(operands)
    return draw(
        st.sampled_from(
            [
                f"{one} + 0.5 * {other}",
                f"{one} - {other}",
                f"0.3 * {one} * {other}",
                f"np.sin({one})",
                f"helper({one}, {other})",
                f"({one} if {other} > {third} else {third} * 0.5)",
                f"max({one}, {other}, 0.25)",
                f"min({one}, {other})",
                f"({one} if {one} > 0 else -{one})",
                f"sorted([{one}, {other}, {third}])[1]",
            ]
        )
    )


@st.composite
def conditions(draw):
    one, other, third = draw(operands), draw(operands), draw(operands)
    compare = draw(st.sampled_from(["<", ">", "<=", ">="]))
    return draw(
        st.sampled_from(
            [
                f"{one} {compare} {other}",
                f"{one} {compare} {other} {compare} {third}",
                f"{one} {compare} 0.1 and not {other} > {third}",
                f"{one} > 1.0 or {other} {compare} {third}",
                f"helper({one}, {other}) {compare} 0.2",
                "depth > 1",
                "flag",
            ]
        )
    )


@st.composite
def statements(draw, depth, in_loop=False):
    simple = ["assign", "add", "store", "slice", "item", "append", "fresh", "flag", "tuple"]
    kinds = simple + (["if", "if", "if", "elif", "for", "return"] if depth else ["return"]) + ["continue"] * in_loop
    kind = draw(st.sampled_from(kinds))
    value = draw(expressions())
    name = draw(names)
    indent = "    "

    def block(in_loop=in_loop):
        inner = draw(st.lists(statements(depth - 1, in_loop), min_size=1, max_size=3))
        return [indent + line for lines in inner for line in lines]

    match kind:
        case "assign":
            return [f"{name} = {value}"]
        case "add":
            return [f"{name} += {value}"]
        case "store":
            return [f"arr[{draw(st.integers(0, 2))}] = {value}"]
        case "slice":
            return [f"arr[1:] += {value}"]
        case "item":
            return [f"lst[{draw(st.integers(0, 1))}] = {value}"]
        case "append":
            return [f"lst.append({value})"]
        case "fresh":
            return [f"lst = [{value}, 1.0]"]
        case "flag":
            return [f"flag = {draw(conditions())}"]
        case "tuple":
            return [f"a, b = b, {value}"]
        case "if":
            return [f"if {draw(conditions())}:", *block()]
        case "elif":
            return [f"if {draw(conditions())}:", *block(), f"elif {draw(conditions())}:", *block(), "else:", *block()]
        case "for":
            return [f"for {LOOP_NAMES[depth]} in range(2):", *block(in_loop=True)]
        case "continue":
            return [f"if {draw(conditions())}:", indent + "continue"]
    return [f"if {draw(conditions())}:", indent + f"return {value}"]


@st.composite
def programs(draw):
    blocks = draw(st.lists(statements(2), min_size=2, max_size=6))
    body = [line for block in blocks for line in block]
    return "\n".join(
        [
            "def helper(u, v):",
            "    if u > v:",
            "        return 0.5 * u - v",
            "    w = u * 0.25",
            "    if w > 0.5:",
            "        w = 1.0 - w",
            "    return w",
            "",
            "def function(p):",
            "    a, b, c = p[0], p[1], 0.5",
            "    depth, flag = 1, False",
            "    arr = np.zeros(3)",
            "    lst = [p[1], 1.0]",
            *("    " + line for line in body),
            "    return a + 2.0 * b + 3.0 * c + arr[0] - arr[1] + 0.5 * arr[2] + lst[0] - lst[1] + 0.1 * lst[-1]",
            "",
        ]
    )


def load(source, folder):
    path = folder / f"program_{abs(hash(source))}.py"
    path.write_text(source)
    scope = {"np": np, "__name__": "program"}
    exec(compile(source, str(path), "exec"), scope)
    return scope["function"]


@settings(max_examples=25, deadline=None)
@given(programs())
def test_recordings_hold_wherever_their_guards_do(tmp_path_factory, source):
    function = load(source, tmp_path_factory.getbasetemp())
    recording = record(function, [POINTS[0]], decides=True)
    results = np.array([[float(v) for v in evaluate(recording.tape, list(point))] for point in POINTS])
    assert results[0, 1:].all()
    for point, result in zip(POINTS, results, strict=True):
        if result[1:].all():
            assert math.isclose(result[0], function(point), rel_tol=1e-12, abs_tol=1e-13), (source, point)
    steps = 1e-30j
    for point, result in zip(POINTS, results, strict=True):
        if not result[1:].all():
            continue
        for k in range(2):
            moved = point.astype(complex)
            moved[k] += steps
            slope = complex(evaluate(recording.tape, list(moved))[0]).imag / steps.imag
            h = 1e-6
            ahead, behind = (function(point + s * h * np.eye(2)[k]) for s in (1, -1))
            if abs((ahead - function(point)) - (function(point) - behind)) < 1e-9:  # not beside a jump or a kink
                assert math.isclose(slope, (ahead - behind) / (2 * h), rel_tol=1e-4, abs_tol=1e-5), (source, point)
