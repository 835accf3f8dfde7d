"""Every row of the table: value and partial derivatives against mpmath in 50 digits.

Errors are counted in units in the last place, scaled by the condition: for a function g of the arguments x one unit
is ε · (|g| + Σ |x_k ∂g/∂x_k|), what rounding the arguments alone can change. A partial derivative that reuses the
rounded value v of its operation may also change by as much as rounding v changes it, and that of power by as much
as rounding y - 1 does. Ten units are allowed, and whatever is below the smallest normal number. Arguments are zero
or normal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from exact import EPSILON, EXACT, LARGEST, PARTIALS, mp, mpf
from hypothesis import assume, given
from hypothesis import strategies as st

from accumulus import Tape
from accumulus.tape.interpreter import evaluate
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.partials import partial

UNITS = 10
NORMAL = 2.0**-1022
#: Relative step of the difference quotients that measure sensitivity, in 50 digits.
NUDGE = mpf(2) ** -80
#: Special functions are held to what docs/numerics.md says, in tests/targets/test_special_functions.py.
ROWS = [row for row in OPERATIONS if row.name != "input" and not row.special]
SMOOTH = [row for row in ROWS if any(row.partials)]
#: Arguments below this in magnitude are squared to nothing by the derivative.
SMALLEST_ARGUMENT = {"atan2": 1e-150}

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
each_smooth_row = pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)


def edges(low: float, high: float) -> list[float]:
    """Arguments next to the ends of an interval, ordinary ones and extreme ones inside it."""
    inside = [s * x for s in (1.0, -1.0) for x in (NORMAL, 1e-160, 1e-9, 0.1, 0.7, 1.3, 2.5, 30.0, 1e5, 1e17, 1e200)]
    ends = [math.nextafter(low, math.inf), low + 1e-9, high - 1e-9, math.nextafter(high, -math.inf)]
    return [x for x in [*inside, *ends] if low < x < high and (x == 0 or NORMAL <= abs(x) < 1e308)]


@st.composite
def points(draw, row: Operation) -> tuple[float, ...]:
    point = []
    for kind, (low, high) in zip(row.arguments, row.domain, strict=True):
        if kind == "boolean":
            point.append(float(draw(st.booleans())))
            continue
        anywhere = st.floats(low, high, exclude_min=True, exclude_max=True, allow_subnormal=False, allow_nan=False)
        nearby = st.floats(max(low, -50.0), min(high, 50.0), exclude_min=True, exclude_max=True, allow_subnormal=False)
        point.append(draw(st.one_of(nearby, st.sampled_from(edges(low, high)), anywhere)))
    point = [x + 0.0 for x in point]  # the sign of a zero does not matter
    assume(all(abs(x) >= SMALLEST_ARGUMENT.get(row.name, 0.0) for x in point if x))
    assume(tuple(point) not in row.kinks)
    return tuple(point)


def assert_close(got: float, exact: mpf, unit: mpf, label: str) -> None:
    allowed = UNITS * unit + NORMAL
    if math.isinf(got) and mp.isfinite(exact):
        assert got * exact > 0, f"{label}: {got}, expected {exact}"
        assert abs(exact) + allowed > LARGEST, f"{label}: {got}, expected {exact}"
    else:
        error = abs(mpf(got) - exact)
        assert error <= allowed, f"{label}: {got!r}, expected {mp.nstr(exact, 20)}, off by {mp.nstr(error / unit, 3)}"


def sensitivity(function: Callable[..., mpf], point: Sequence[mpf]) -> mpf:
    """Σ |x_k ∂f/∂x_k|."""
    here = function(*point)
    moved = [function(*point[:k], x * (1 + NUDGE), *point[k + 1 :]) for k, x in enumerate(point)]
    return sum(abs(there - here) for there in moved) / NUDGE


def written_partial(row: Operation, position: int) -> Tape:
    tape = Tape(row.arity)
    value = tape.apply(row.name, *range(row.arity))
    reference = partial(tape, value, position)
    tape.outputs = [tape.constant(0.0) if reference is None else reference]
    return tape


def test_every_row_has_a_counterpart():
    assert set(EXACT) == {row.name for row in OPERATIONS[1:] if not row.is_scipys}


@each_row
@given(data=st.data())
def test_value(row, data):
    point = data.draw(points(row) if data.draw(st.booleans()) or not row.kinks else st.sampled_from(row.kinks))
    with np.errstate(all="ignore"):
        got = row.evaluate(*map(np.float64, point))
    exact_point = [mpf(x) for x in point]
    exact = EXACT[row.name](*exact_point)
    assume(not mp.isnan(exact))
    if row.result == "boolean":
        assert bool(got) == bool(exact)
    elif tuple(point) in row.kinks:
        assert float(got) == pytest.approx(float(exact), rel=1e-15, abs=0)
    elif abs(exact) > LARGEST:
        assert got == math.copysign(math.inf, exact)
    else:
        unit = EPSILON * (abs(exact) + sensitivity(EXACT[row.name], exact_point))
        assert_close(float(got), exact, unit, f"{row.name}{point}")


@each_smooth_row
@given(data=st.data())
def test_partials(row, data):
    point = data.draw(points(row))
    exact_point = [mpf(x) for x in point]
    function = EXACT[row.name]
    assume(abs(function(*exact_point)) <= LARGEST)
    nudged = EXACT | {row.name: lambda *x: function(*x) * (1 + NUDGE)}
    for position, slope in enumerate(PARTIALS[row.name]):
        tape = written_partial(row, position)
        got = float(evaluate(tape, point)[0])
        exact = slope(*exact_point)
        assume(not mp.isnan(exact))
        written, moved = (evaluate(tape, exact_point, arithmetic, mpf)[0] for arithmetic in (EXACT, nudged))
        unit = EPSILON * (abs(exact) + sensitivity(slope, exact_point) + abs(moved - written) / NUDGE)
        if row.name == "power" and position == 0:
            unit += EPSILON * abs(exact * mp.log(exact_point[0]))
        assert_close(got, exact, unit, f"∂{position} {row.name}{point}")


#: What the partials are where an operation is not smooth: JAX's choice, which the table's docstring promises.
CONVENTIONS = {
    "power": {
        (0.0, 0.5): (math.inf, 0.0),
        (0.0, 1.0): (1.0, 0.0),
        (0.0, 2.0): (0.0, 0.0),
        (0.0, 3.0): (0.0, 0.0),
        (2.0, 0.0): (0.0, math.log(2.0)),
    },
    "sqrt": {(0.0,): (math.inf,)},
    "cbrt": {(0.0,): (math.inf,)},
    "hypot": {(0.0, 0.0): (0.5, 0.5)},
    "log": {(0.0,): (math.inf,)},
    "log1p": {(-1.0,): (math.inf,)},
    "log2": {(0.0,): (math.inf,)},
    "log10": {(0.0,): (math.inf,)},
    "asin": {(-1.0,): (math.inf,), (1.0,): (math.inf,)},
    "acos": {(-1.0,): (-math.inf,), (1.0,): (-math.inf,)},
    "acosh": {(1.0,): (math.inf,)},
    "atanh": {(-1.0,): (math.inf,), (1.0,): (math.inf,)},
    "abs": {(0.0,): (1.0,)},
    "sign": {(0.0,): (0.0,)},
    "floor": {(0.0,): (0.0,), (1.0,): (0.0,)},
    "ceil": {(0.0,): (0.0,), (1.0,): (0.0,)},
    "fmod": {(6.0, 2.0): (1.0, -3.0), (-6.0, 2.0): (1.0, 3.0), (1.0, -1.0): (1.0, 1.0)},
    "minimum": dict.fromkeys(BY_NAME["minimum"].kinks, (0.5, 0.5)),
    "maximum": dict.fromkeys(BY_NAME["maximum"].kinks, (0.5, 0.5)),
}
KINKS = [(row, kink) for row in ROWS if row.result == "real" for kink in row.kinks]
JAX_NAMES = {"asin": "arcsin", "acos": "arccos", "acosh": "arccosh", "atanh": "arctanh"}

each_kink = pytest.mark.parametrize(("row", "kink"), KINKS, ids=[f"{row.name}{kink}" for row, kink in KINKS])


def partials_at(row: Operation, point: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(float(evaluate(written_partial(row, k), point)[0]) for k in range(row.arity))


@each_kink
def test_kinks_follow_the_documented_convention(row, kink):
    assert partials_at(row, kink) == pytest.approx(CONVENTIONS[row.name][kink], rel=1e-15)


@each_kink
def test_kinks_follow_jax(row, kink):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        function = getattr(jax.numpy, JAX_NAMES.get(row.name, row.name))
        expected = jax.jit(jax.grad(function, argnums=tuple(range(row.arity))))(*kink)
        assert partials_at(row, kink) == pytest.approx([float(g) for g in expected], rel=1e-15)


@each_smooth_row
def test_partials_of_nan_are_nan_or_constant_or_of_the_branch_that_nan_selects(row):
    nan = (math.nan,) * row.arity
    branches = {"abs", "minimum", "maximum", "select", "add", "subtract", "negative", "attach", "fmod"}
    assert row.name in branches or all(map(math.isnan, partials_at(row, nan)))
