"""Decisions on values that are merged from the source: the recording holds everywhere, and is the function."""

# ruff: noqa: C417, F841, PLW0603, SIM108  # the statements are what is tested

import functools
import math
import sys

import numpy as np
import pytest
from inside import evaluate

import accumulus as acc
from accumulus.frontends.record import record

#: On both sides of what the functions below compare with, and at it.
POINTS = (-7.0, -3.0, -1.0, -0.25, -0.0, 0.0, 1e-3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.5, 8.0, math.inf, math.nan)


def if_else(x):
    if x > 0:
        y = x * x
    else:
        y = -x
    return y + 1


def chain(x):
    y = 1.0
    if x > 4:
        y = x
    elif x > 2:
        y = x * y + 3
    elif x == 1:
        pass
    else:
        y += np.exp(x)
    return y * x


def early_returns(x):
    if x > 4:
        return x**2
    z = x + 1
    if 0 < x <= 1 or x < -1:
        return helper(z)
    if x > 3:
        return z
    return 2 * z


def helper(z):
    if z < 0:
        return -z
    return np.sin(z)


def return_within(x):
    y = np.zeros(2)
    if x > 0:
        if x > 1:
            y[0] = x
        if x > 2:
            return y
        y[1] = 3.0
    y[1] += 1
    return y * x


def stores(x):
    out = np.zeros(4)
    view = out[1:3]
    items = [1.0, 2.0]
    table = {"a": x, "b": 0.0}
    if x > 1:
        out[0] = x
        view += 2 * x
        items[1] = x * 2
        items.append(x)
        table["a"] = 5.0
    elif x > 0:
        out[1:] = x
        items.append(7.0)
    else:
        out += x
        view[...] = 3
        items.append(1.0)
        table["b"] += x
    return np.array([*out, *items, table["a"], table["b"]])


def loops(x):
    total = 0.0
    for i in range(5):
        if x < i:
            continue
        if i % 2:
            total += x * i
            continue
        total -= i
    return total


def nested(x):
    y = 0.0
    for i in range(3):
        if x > i:
            if x > 2 * i:
                y += x
            elif i == 1:
                y -= x
            else:
                y *= 2
        else:
            y += i * x
    return y


def builtins_of_numbers(x):
    few = sorted([x, 1.0, -x, 2.0])
    return [max(x, 1.0), min(x, 2.0, -x), abs(x), *few, float(x), sum(few), any([x > 1, x < 0]) * x, all([x > 1]) + x]


def expressions(x):
    y = x if x > 0 else 2 * x
    is_near = x > 1 and y < 3 and not x > 2
    is_far = x > 4 or not y
    return (y * 2 if is_near else y) + (1.0 if is_far else 0.0) + (0 <= x < 2 <= 5)


class State:
    def __init__(self, v):
        self.v = v
        self.k = 1.0
        if v < 0:
            self.k = v

    def step(self, h):
        if self.v > 1:
            self.v = self.v - h
        else:
            self.v += h
        return self.v


def objects(x):
    state = State(x)
    for _ in range(3):
        state.step(0.5)
    return state.v + state.k


def closures(x):
    def larger(u, v):
        return u if u > v else v

    results = []
    for value in [larger(x, i) for i in range(3)]:
        if value > 1:
            pieces = []
            pieces.append(value)
            pieces.append(1.0)
            results.append(sum(pieces))
        else:
            results.append(value)
    return functools.reduce(larger, results) + sum(map(lambda v: v if v < 2 else 2.0, results))


def caught(x):
    try:
        y = np.exp(-abs(x)) if x > 0 else x
    except ZeroDivisionError:
        y = 0.0
    with np.errstate(all="ignore"):
        if x > 1:
            y = y + 1
    return y


def made_within(x):
    y = 0.0
    if x > 0:
        results = []
        state = State(0.0)
        if x > 1:
            results.append(x)
            state.v = x
        else:
            results.append(2 * x)
        y = results[0] + len(results) + state.v
    return y


def tuples(x):
    if x > 1:
        a, (b, *c) = x, (2.0, 3.0, x)
        d = np.array([x, 1.0])
    else:
        a, (b, *c) = 1.0, (x, x, 0.0)
        d = np.zeros(2)
    return np.array([a, b, *c, *d])


def flags(x):
    inside = False
    if x > 1:
        inside = True
    if x > 4:
        inside = False
    return x if inside is True else 2 * x


def one_sided(x):
    if x > 1:
        scale = x
    y = 1.0
    if x > 1:
        y = scale * 2
    return y + x


def walrus(x):
    if (y := x * 2) > 1:
        return y
    elif (w := y - 1) < -2:
        return w
    return y * 3


def matched(x, mode="soft"):
    match mode:
        case "soft":
            if x > 0:
                y = x
            else:
                y = 0.0
        case _:
            y = x
    return y


def saturated(x, *, limit=2.0):
    return max(-limit, min(limit, x))


MERGED = [
    if_else,
    chain,
    early_returns,
    return_within,
    stores,
    nested,
    builtins_of_numbers,
    expressions,
    objects,
    closures,
    made_within,
]
MERGED += [caught, tuples, flags, one_sided, walrus, matched, saturated, lambda x: x if x < 1 else x * x, loops]


def values(function, recording, x):
    result = evaluate(recording.tape, [float(x)])
    return np.array([float(value) for value in result])


def recorded(function, x=1.75):
    return record(function, [x], decides=True, check=True)


@pytest.mark.parametrize("function", MERGED, ids=lambda f: f.__name__)
def test_all_ways_are_one_recording(function):
    recording = recorded(function)
    assert recording.guards == ()
    for x in POINTS:
        with np.errstate(all="ignore"):
            expected = np.ravel(function(np.float64(x))).astype(float)
        if math.isfinite(x):
            np.testing.assert_allclose(values(function, recording, x), expected, rtol=1e-14, atol=1e-300)
        elif function not in (builtins_of_numbers, return_within):  # of NaN, sorted has no order, and 0 · NaN is 0
            np.testing.assert_array_equal(np.isnan(values(function, recording, x)), np.isnan(expected))


def channel(gate, drain):
    """A transistor's current, which is odd in its drain's voltage."""
    if drain < 0:
        return -channel(gate - drain, -drain)
    over = gate - 0.7
    if over <= 0:
        return 0.0
    if drain < over:
        return over * drain - drain**2 / 2
    return over**2 / 2


def test_a_model_that_calls_itself_for_the_other_sign_is_one_recording():
    recording = record(lambda v: channel(v[0], v[1]), [np.array([1.5, 0.5])], decides=True, check=True)
    assert recording.guards == ()
    for gate in (-1.0, 0.7, 1.0, 2.5):
        for drain in (-2.0, -0.5, 0.0, 0.2, 3.0):
            assert float(evaluate(recording.tape, [gate, drain])[0]) == pytest.approx(channel(gate, drain), rel=1e-15)


def test_a_condition_is_not_evaluated_again_in_its_branch():
    def again(x):
        y = 0.0
        if x > 1:
            if 1 < x:
                y = x
            if -x > -1:
                y = 7.0
            if x <= 1 or x == 1:
                y = 8.0
            if not x > 1:
                y = 9.0
        return y

    recording = recorded(again)
    names = [recording.tape.operation(r).name for r in range(1, len(recording.tape))]
    assert names.count("select") <= 2
    assert [float(values(again, recording, x)[0]) for x in (0.5, 1.0, 2.0, math.nan)] == [0.0, 0.0, 2.0, 0.0]


def factorial(x):
    return 1.0 if x <= 1 else x * factorial(x - 1)


def test_a_recursion_that_ends_by_its_value_is_guarded():
    recording = recorded(factorial, 4.5)
    assert len(recording.guards) == 5
    assert float(values(factorial, recording, 4.25)[0]) == factorial(4.25)


def raises_in_branch(x):
    if x > 1:
        y = x.unknown  # here
    else:
        y = x
    return y


def test_errors_in_branches_name_their_line():
    with pytest.raises(AttributeError) as caught:
        record(raises_in_branch, [1.75], decides=True)
    entry = caught.traceback[-1]
    assert (entry.name, str(entry.statement).strip()) == ("raises_in_branch", "y = x.unknown  # here")
    assert values(raises_in_branch, record(raises_in_branch, [0.5], decides=True), 0.5)[0] == 0.5


def test_lines_are_those_of_the_file():
    seen = set()

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "chain":
            seen.add(frame.f_lineno - chain.__code__.co_firstlineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        record(chain, [1.75], decides=True)
    finally:
        sys.settrace(before)
    assert seen - {0} == set(range(1, 11)) - {8}  # an else has no line of its own


@pytest.mark.parametrize(
    "function", [chain, early_returns, stores, expressions, objects, closures], ids=lambda f: f.__name__
)
def test_derivatives_are_those_of_the_branch_that_is_taken(function):
    def flat(x):
        return np.ravel(function(x)) * 1.0

    slopes = acc.jacobian(flat)
    away = [x for x in POINTS if math.isfinite(x) and x % 0.5]
    for x in away:
        expected = (flat(x + 1e-6) - flat(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(slopes(x), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(slopes.batch(np.array(away)), [slopes(x) for x in away])


def test_a_branch_that_is_not_taken_spoils_nothing():
    def function(x):
        if x > 0:
            y = np.sqrt(x) * np.log(x)
        else:
            y = x * x
        return y

    assert recorded(function).guards == ()
    slope = acc.jacobian(function)
    assert [float(slope(x)) for x in (-1.0, 0.0, 1.0)] == [-2.0, 0.0, 1.0]


def test_at_the_border_the_comparison_says_which_side():
    assert float(acc.jacobian(lambda x: max(x, 1.0))(1.0)) == 1.0  # Python's max returns the first
    assert float(acc.jacobian(lambda x: max(1.0, x))(1.0)) == 0.0
    assert float(acc.jacobian(lambda x: min(2 * x, x))(0.0)) == 2.0
    assert float(acc.jacobian(lambda x: x if x >= 1 else 3 * x)(1.0)) == 1.0


def raising(x):
    if x > 100:
        raise ValueError
    return x


def raising_within(x):
    if x > 100:
        math.factorial(-1)
    return x


def texts(x):
    mode = "a" if x > 1 else "b"
    return x if mode == "a" else 2 * x


def looping(x):
    while x > 1:
        x = x / 2
    return x


def lengths(x):
    results = []
    if x > 1:
        results.append(x)
    return sum(results) + x


LOG = []


def outside(x):
    if x > 1:
        LOG.append(1.0)
    return x


def iterators(x):
    items = iter([x, 2 * x, 3 * x])
    y = next(items) if x > 1 else 0.0
    return y + next(items)


def globals_set(x):
    global COUNT
    if x > 1:
        COUNT = x
    return x


def written_after(x):
    u, v = np.zeros(2), np.ones(2)
    w = u if x > 1 else v
    u[0] = 5 * x
    return w * x


def written_through(x):
    u, v = np.zeros(2), np.ones(2)
    w = u if x > 1 else v
    w[0] = 5 * x
    return u + v


def undefined_if_needed(x):
    if x > 1:
        mode = "a"
    else:
        mode = None
    return x if mode else 2 * x


GUARDED = [raising, raising_within, texts, looping, lengths, iterators, globals_set, written_after]
GUARDED += [written_through, undefined_if_needed]


@pytest.mark.parametrize("function", GUARDED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [0.5, 1.75, 3.5])
def test_unmergeable_branches_are_guarded(function, x):
    recording = recorded(function, x)
    assert recording.guards
    actual = values(function, recording, x)
    expected = np.ravel(function(x))
    np.testing.assert_allclose(actual[: len(expected)], expected, rtol=1e-15)
    assert (actual[len(expected) :] == 1).all()


def test_external_effects_of_a_branch_happen_once():
    LOG.clear()
    recording = record(outside, [0.5], decides=True)
    assert len(recording.guards) == 1
    assert LOG == []


def test_a_variable_that_does_not_fit_does_not_matter_unless_it_is_read():
    def function(x):
        if x > 1:
            text = "a"
            y = x
        else:
            text = None
            y = 2 * x
        return y

    assert recorded(function).guards == ()


def many(count):
    lines = ["def function(x):", "    s = 0.0"]
    for i in range(count):
        lines += [f"    if x > {i}:", f"        s += x * {i + 2}", "    else:", f"        s = s * 2 - x * {i + 3}"]
    return "\n".join([*lines, "    return s", ""])


def load(tmp_path, source, name="generated"):
    path = tmp_path / f"{name}.py"
    path.write_text(source)
    scope = {"__name__": "generated", "np": np}
    exec(compile(source, str(path), "exec"), scope)
    return scope["function"]


def test_operations_grow_with_the_number_of_ifs(tmp_path):
    lengths = {}
    for count in (10, 20, 40):
        function = load(tmp_path, many(count), f"of_{count}")
        recording = recorded(function)
        assert recording.guards == ()
        lengths[count] = recording.tape.operations
        for x in (-1.0, 7.5, 50.0):
            np.testing.assert_allclose(values(function, recording, x), function(x), rtol=1e-13)
    assert lengths[40] - lengths[20] <= 2.2 * (lengths[20] - lengths[10])


def test_forty_returns_in_a_row_are_one_recording(tmp_path):
    lines = ["def function(x):"]
    for i in range(40, 0, -1):
        lines += [f"    if x > {i}:", f"        return x * {i}"]
    function = load(tmp_path, "\n".join([*lines, "    return -x", ""]))
    recording = recorded(function)
    assert recording.guards == ()
    assert recording.tape.operations <= 3 * 40 + 1
    for x in (-1.0, 0.5, 7.5, 39.5, 40.5):
        np.testing.assert_allclose(values(function, recording, x), function(x), rtol=1e-15)
