"""Programs of `make fuzz` that failed once, as text: a seed draws another program when the drawing changes.

Each is held against NumPy's values, and against differences where these tell anything, at its points and in a batch.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent))

import arrays
import calls
import checking
import kinds
import scalars
import ways
import with_jax
from looped import PLAIN, unrolled
from rolling import rolling
from scalars import Scalars

import accumulus as acc
from accumulus.targets.c import c_target
from accumulus.targets.llvm.host import host

PROGRAMS = {
    # JAX's exp2(7) is 127.99999999999997, of which it takes the ceiling; NumPy's is 128
    "a whole number that JAX rounds": (
        """
def f(t, y):
    t31 = np.exp2(y[1])
    t32 = np.logaddexp(t31, t31)
    t33 = np.arccosh(y[0])
    items = np.zeros(2); items[1] = t33
    t33 = items[1]
    t34 = y[0] - -1.0
    t36 = np.arctan(t33)
    t37 = -t31
    t38 = np.ceil(t37)
    t39 = np.sin(t)
    t40 = np.fmod(0.1, y[0])
    return np.array([t32, t34, t36, t38, t39, t40, y[0], t37])
""",
        {"target": "llvm", "optimise": False, "sparse": "coo", "seed": 64},
        [[172.0, np.array([0.0, 7.0])], [4.0, np.array([49.0, -377.0])]],
    ),
    # the oracle rounded the angle at the point, and not beside it: a second difference of that is anything
    "an angle beside a zero": (
        """
def f(t, y):
    t31 = np.arctan2(-0.25, y[1])
    return np.array([10.0 + y[0], t - y[1], t31])
""",
        {"effort": "fast", "time_limit": 0.02, "seed": 18},
        [[-289.0, np.array([-462.0, -0.0])], [2.0, np.array([3.0, 0.5])]],
    ),
    "more constants than values that are rolled": (
        """
def f(x):
    t32 = x[1] == x[2]
    if t32:
        t33 = x[1]
    else:
        t33 = 7.0
    t34 = np.logical_not(t32)
    t35 = np.arccosh(t33)
    t36 = -0.25 / t35
    t37 = np.maximum(t35, 3.0)
    t38 = np.where(t34, t37, t33)
    t39 = t37 * t37
    t41 = t37 / t39
    t42 = np.expm1(t33)
    return np.array([t36, t38, t41, t42, t39])
""",
        {"target": "numpy", "optimise": False, "seed": 67},
        [[np.array([2.46488108, -2.46604208, 1.52033963])]],
    ),
    "the sign of a zero that is rounded": (
        """
def f(x):
    t31 = x[0] / -1.0
    t32 = np.rint(t31)
    t33 = np.arccosh(t31)
    t35 = np.arctan2(t32, -0.25)
    return np.array([t33, t35, t31])
""",
        {"target": "numpy", "optimise": False, "sparse": "coo", "seed": 31},
        [[np.array([0.09147615, 1.26770722, -2.94907185])], [np.array([-1.62748903, -1.78948735, -0.60868585])]],
    ),
    "a constant without a value": (
        """
def f(x):
    t31 = np.cbrt(x[2])
    t32 = 49.0 != x[0]
    t33 = 49.0 // x[1]
    t35 = x[2] * x[1]
    t36 = np.where(t32, 3.0, 0.5)
    t37 = np.sinh(t36)
    t38 = -0.25 - t35
    t39 = np.arccos(t37)
    return np.array([t31, t33, 49.0 + x[1], t38, t39])
""",
        {"target": "llvm", "effort": "balanced", "sparse": "coo", "seed": 88},
        [[np.array([2.01748981, 1.95423827, 1.57595002])], [np.array([0.17008289, -1.13675435, 0.3])]],
    ),
    "the sign of a zero, divided by": (
        """
def f(s):
    t29 = s / -2.0
    t30 = np.rint(t29)
    t31 = np.cbrt(s)
    t32 = np.ceil(t30)
    t33 = t31 + t29
    t34 = np.reciprocal(t30)
    t35 = np.exp2(t34)
    t36 = np.cosh(t33)
    t37 = t31 % t36
    t38 = np.square(t34)
    t39 = special.expit(t36)
    t41 = -(t39 + t38)
    return np.array([t32, t35, t37, t41, t30])
""",
        {"target": "numpy", "sparse": "csc", "seed": 90},
        [[19.0], [0.3]],
    ),
    "the sign of a zero that is a product": (
        "\ndef f(x):\n    t = 0.0 * x\n    return np.array([np.exp2(1 / (t * -0.5)), np.exp2(np.reciprocal(t))])\n",
        {"target": "numpy"},
        [[1.5], [-1.5]],
    ),
    "a quotient of itself without a value": (
        """
def f(x, p, s):
    t33 = np.arccos(p[1])
    t34 = 0.001 + p[1]
    t35 = t33 * 10.0
    t36 = 3.0 / x[0]
    t37 = t35 / t33
    t38 = -1.0 + p[0]
    t39 = t36 / t36
    return {'a': t34, 'b': t37, 'c': t38, 'd': t39, 'e': x[1], 'f': t39}
""",
        {"target": "numpy", "method": "momr-edge", "seed": 58},
        [
            [np.array([0.4714522, 1.31055128]), np.array([-2.65704718, -1.9118617]), -0.29432637755717606],
            [np.array([0.26524808, 2.19886619]), np.array([-0.94464085, 0.83819991]), 2.6181544746770484],
        ],
    ),
    "a divisor that is zero": (
        """
def f(m):
    t32 = m[1, 0] / 0.0
    t33 = np.ceil(t32)
    t34 = np.log(m[1, 1])
    t35 = t32 * t33
    t36 = np.arctanh(t33)
    t37 = t36 * t34
    t38 = np.minimum(1.0, m[0, 0])
    t39 = t38 * t36
    t40 = np.abs(m[0, 0])
    t41 = t38 * t39
    t42 = t38 * t41
    t44 = t41 + t42
    return np.array([t35, t38 - t40, t44, np.tanh(t41), np.fmax(m[1, 0], t38), 0.0 % t37])
""",
        {"target": "llvm", "effort": "balanced", "optimise": True, "dtype": "float32", "seed": 82},
        [[np.array([[1.65500903, -0.69796282], [-1.23458779, -0.02960688]])]],
    ),
    "functions without a value beside others": (
        """
def f(m):
    t32 = np.ceil(m[1, 0])
    t33 = np.sin(m[0, 1])
    t34 = np.log1p(m[0, 0])
    t35 = 0.001 * t33
    t36 = np.expm1(t35)
    t37 = np.arctan2(t33, t35)
    t39 = np.arccosh(t35)
    t40 = np.fmax(t37, t36)
    t41 = 2.0 + t36
    t42 = t37 / t37
    t43 = np.arctan2(t39, t39)
    return np.array([t32, t40, t41, t42, t43, np.abs(t36), t37, m[1, 0]])
""",
        {"target": "numpy", "optimise": True, "seed": 7},
        [
            [np.array([[-1.46473112, 0.12677126], [2.13570567, 2.24426151]])],
            [np.array([[-2.31068212, 3.0], [2.46581556, -2.5992546]])],
        ],
    ),
    "a function outside of its domain at one point": (
        """
def f(x):
    t32 = np.arccos(x[1])
    t33 = t32 * 0.001
    t34 = np.floor(x[2])
    t35 = np.exp(t32)
    t36 = np.expm1(x[3])
    return np.array([t33, t34, t35, t36, t34, t35])
""",
        {"target": "numpy", "seed": 42},
        [
            [np.array([0.11371195, -2.31906032, -2.89944507, -0.30490305])],
            [np.array([2.09664252, 0.9998921, -2.03079857, -2.17300817])],
        ],
    ),
}


#: Results of programs that are either of two numbers by the sign of a zero, which does not matter (docs/numerics.md).
BY_SIGNS = {"the sign of a zero, divided by": (1,), "the sign of a zero that is a product": (0, 1)}


@pytest.mark.parametrize("rolled", [False, True], ids=["", "rolled"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_programs_that_failed_once(name, rolled):
    source, options, points = PROGRAMS[name]
    scope = dict(arrays.scope())
    exec(source, scope)
    f, everything = scope["f"], tuple(range(len(points[0])))
    settings = {"cache": False, "time_limit": 0.0, "check_finite": False, "effort": "fast", **options, "sparse": None}
    rtol = 1e-4 if settings.get("dtype") == "float32" else 1e-9
    numbers = [[np.copy(a)[()] for a in point] for point in points]
    with rolling() if rolled else checking.nullcontext():
        derivative = acc.value_and_jacobian(f, everything, **settings)
        alone = [derivative(*point) for point in numbers]
        together, _ = derivative.batch(*(np.stack(column) for column in zip(*numbers, strict=True)))
    for k, (point, (value, slopes)) in enumerate(zip(numbers, alone, strict=True)):
        expected, values = arrays.flat(f(*point)), arrays.flat(value)
        for entry in BY_SIGNS.get(name, ()):
            if expected[entry] in (0.0, np.inf):
                assert values[entry] in (0.0, np.inf)
                expected[entry] = values[entry]
        np.testing.assert_allclose(values, expected, rtol=rtol)
        several = np.concatenate([np.reshape(leaf, (len(points), -1)) for leaf in arrays.leaves(together)], axis=1)
        np.testing.assert_allclose(several[k], expected, rtol=rtol)
        directions = [np.random.default_rng(k).normal(size=np.shape(a)) for a in point]
        best, error = arrays.along(f, point, directions)
        blocks = list(slopes.values()) if isinstance(slopes, dict) else [slopes]
        actual = [
            sum(
                np.sum(np.asarray(s) * d, axis=tuple(range(-np.ndim(d), 0))) if np.ndim(d) else s * d
                for s, d in zip(block, directions, strict=True)
            )
            for block in blocks
        ]
        actual = np.concatenate([np.ravel(each) for each in actual])
        comparable = np.isfinite(best) & np.isfinite(error) & np.isfinite(expected)
        assert np.all(
            np.abs(actual - best)[comparable] <= (100 * error + max(1e-6, rtol) * (1 + np.abs(best)))[comparable]
        )


#: Programs with loops, whose files were refused, whose JAX source did not run, or which lost a slope.
LOOPED = {
    "a median": """
    v, s = np.exp(-v * v), s * s + 0.5
    return np.inner(v, np.array([1.0, 2.0, 0.5])), np.median(v) * s
""",
    "a norm, and a branch on numbers": """
    v, s = np.cumsum(v).reshape(np.shape(v)), np.where(s > 0.5, s, s * s)
    return np.linalg.norm(A, -np.inf, axis=(1, 0)) * np.nanmedian(v), np.sin(s)
""",
    "a slope at half a period": """
    A = np.exp(-A * A)
    r = np.zeros((2, 3))
    for k in range(3):
        r[0, k] = v[k] * M[0, k]
        r[1, -1 - k] += s * A[k, 1]
        r[1] -= 0.5 * v
    v = r[1] * 1.0
    y = np.unwrap(v * 4, period=3.0, discont=2.0)
    return np.piecewise(v, [v < 0, v >= 0], [lambda x: -x, lambda x: x * x]), y
""",
    "a quantile": """
    v = np.arctan2(v, 2 + s * s)
    return A.sum(axis=(0, 1), keepdims=True), np.quantile(v, 0.3) - np.percentile(M, 40, method="hazen")
""",
}


@pytest.mark.parametrize("name", LOOPED)
def test_looped_programs_that_failed_once(name, tmp_path):
    scope = dict(arrays.scope())
    exec("def f(v, A, M, s):" + LOOPED[name], scope)
    point = [
        np.array([-0.5, 257.0, 0.25]),
        np.array([[-2.0, 0.0, 3.0], [-2.0, 98.0, 98.0], [10.0, 0.25, -0.5]]),
        np.array([[10.0, 247.0, 49.0, -1.0], [-1.0, 0.94346918, 2.1585797, -0.5]]),
        195.0,
    ]
    with unrolled(0):
        looped = acc.value_and_jacobian(scope["f"], (0, 1, 2, 3), cache=False, effort="fast")
        actual = looped(*point)
    with unrolled(10**9):
        expected = acc.value_and_jacobian(scope["f"], (0, 1, 2, 3), **PLAIN)(*point)
    np.testing.assert_allclose(arrays.flat(actual), arrays.flat(expected), rtol=1e-9, atol=1e-9)
    acc.save(looped, tmp_path / "f.accumulus")
    loaded = acc.load(tmp_path / "f.accumulus")
    np.testing.assert_array_equal(arrays.flat(loaded(*point)), arrays.flat(actual))
    jax = pytest.importorskip("jax")
    names = {}
    exec(looped.compile(*point).source("jax"), names)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        results = jax.jit(names["f"])(*point)
    entries = np.concatenate([np.ravel(each) for each in results])
    np.testing.assert_allclose(np.sort(entries), np.sort(arrays.flat(actual)), rtol=1e-9, atol=1e-9)  # in another order


def test_jax_decides_nothing_by_functions_that_it_rounds():
    pytest.importorskip("jax", reason="one of the oracles is JAX, which is not installed")
    program = Scalars(("x",), ((1,),), ["x[0]"])
    first = 1 + len(program.constants)
    program.steps = [("exp2", (0,)), ("negative", (first,)), ("ceil", (first + 1,))]
    program.outputs = [first + 2]
    program.source = "def f(x):\n    return np.ceil(-np.exp2(x[0]))\n"
    try:
        _, spread = with_jax.jacobian(program, [np.array([7.0])], checking.JAX_SAMPLES, 0)
    except with_jax.Unavailable as why:  # JAX's 2⁷ is not 128 everywhere
        if "JAX's function is another" not in str(why):
            raise
        return
    assert spread[0, 0] >= 1.0


def scalars_of(inputs, outputs, **steps):
    """A program of scalars: operands are inputs x0, x1, …, numbers, or values before."""
    numbers = [operand for _, *operands in steps.values() for operand in operands if isinstance(operand, float)]
    constants = tuple(dict.fromkeys(numbers))
    names = [f"x{k}" for k in range(inputs)]
    place = {name: k for k, name in enumerate([*names, *constants, *steps])}
    texts = [
        f"{target} = {scalars.TABLE[name].text.format(*operands)}\n    " for target, (name, *operands) in steps.items()
    ]
    return Scalars(
        tuple(names),
        ((),) * inputs,
        names,
        constants,
        [(name, tuple(place[operand] for operand in operands)) for name, *operands in steps.values()],
        [place[name] for name in outputs],
        f"def f({', '.join(names)}):\n    {''.join(texts)}return np.array([{', '.join(outputs)}])\n",
    )


#: Programs whose derivatives are right, and were not as the oracle of a kind had them.
IN_KINDS = {
    # differences along a path left a fourth power of their step, times 4e90
    "a coefficient that is zero beside a large value": (
        scalars_of(
            1,
            ["y", "t"],
            **{"t": ("multiply", "x0", "x0"), "u": ("multiply", "t", "x0"), "v": ("add", "t", "u")},
            **{"w": ("add", "v", 301.0), "y": ("exp2", "w")},
        ),
        ["taylor"],
        [0.0],
    ),
    "an angle that turns fast": (scalars_of(1, ["t"], t=("atan2", 1e-3, "x0")), ["taylor"], [0.0]),
    # a slope that is the difference of two numbers was moved, and these were not
    "a quotient of itself": (
        scalars_of(1, ["u"], t=("divide", "x0", "x0"), u=("divide", "t", 1e-3)),
        ["hessian", "gradient_of_product", "taylor"],
        [0.019],
    ),
    # its derivative is that of a number that rounds to -1, times 1e7
    "a hyperbolic tangent beside its limit": (
        scalars_of(1, ["u"], t=("fmod", 0.5, "x0"), q=("divide", -0.25, "t"), u=("tanh", "q")),
        ["hessian", "value_gradient_hessian", "taylor"],
        [0.2445473],
    ),
}


@pytest.mark.parametrize("name", IN_KINDS)
def test_programs_in_kinds_that_failed_once(name):
    program, all_kinds, point = IN_KINDS[name]
    options = {"cache": False, "time_limit": 0.0, "optimise": False, "target": "numpy", "dtype": "float64"}
    for kind in all_kinds:
        told = []
        for seed in range(6):
            posed = kinds.KINDS[kind](kinds.Drawn(program, point, options, random.Random(seed), seed))
            told.append(kinds.judged(posed.claims(posed.derivative(*posed.arguments)), "float64"))
        assert {outcome for outcome, _ in told} <= {"right", "undecided"}, told
        assert any(outcome == "right" for outcome, _ in told)


@pytest.mark.skipif(not host().fused, reason="no processor that rounds a product and a sum at once")
def test_products_that_llvm_rounds_with_a_sum_are_no_disagreement():
    program = scalars_of(1, ["r"], n=("negative", "x0"), t=("multiply", "n", 1e-3), r=("fmod", "x0", "t"))
    options = {"time_limit": 0.0, "objective": "operations", "dtype": "float32", "cache": False, "sparse": None}
    call = calls.Call("value_and_jacobian", (0,), {**options, "target": "llvm"}, 1, False, 1, ("C",))
    one = checking._Jacobian(program, call, [[-2.09086013], [-1.84005249]], 0, False, False, False)
    (found, _), (others, _) = one.results(call), one.results(calls.on_target(call, "numpy"))
    with pytest.raises(calls.Disagreement, match="targets"):
        checking._demand_same_targets(program, found, others, True)
    one.compare_targets(found, others)
    others[0][0].values[0] = np.nan
    with pytest.raises(calls.Disagreement, match="targets"):
        one.compare_targets(found, others)


def test_what_the_clock_leaves_is_no_disagreement():
    """A quotient of itself is 1 once it is rewritten, also where it has no value."""
    program = scalars_of(1, ["u"], t=("log", "x0"), u=("divide", "t", "t"))
    options = {"time_limit": 0.01, "objective": "operations", "dtype": "float64", "cache": False, "sparse": None}
    call = calls.Call("value_and_jacobian", (0,), {**options, "target": "llvm"}, 1, False, 1, ("C",))
    one = checking._Jacobian(program, call, [[-2.0], [2.0]], 0, False, False, False)
    (found, _), (others, _) = one.results(call), one.results(calls.on_target(call, "numpy"))
    found[0][0].values[0], others[0][0].values[0] = 1.0, np.nan
    one.compare_targets(found, others)
    one.call = replace(call, options={**call.options, "time_limit": 0.0})
    with pytest.raises(calls.Disagreement, match="targets"):
        one.compare_targets(found, others)


def test_a_function_that_rounds_to_a_number_without_a_logarithm_tells_nothing():
    """expit(49) is 1: the sine of its logarithm, divided by that, is 0/0."""
    program = scalars_of(1, ["q"], t=("expit", "x0"), u=("log", "t"), v=("sin", "u"), q=("divide", "v", "u"))
    result = scalars.truth(program, [49.0], exact_order=True, dtype="float64", samples=checking.MORE_SAMPLES, seed=0)
    assert not np.isfinite(result.spread[0, 0])
    result = scalars.truth(program, [0.5], exact_order=True, dtype="float64", samples=checking.MORE_SAMPLES, seed=0)
    assert result.spread[0, 0] < 1e-14


def test_roots_of_what_rounding_leaves_nothing_of_tell_nothing():
    """tanh(52) is 1, whose logarithm is 0: the cube root of that has no derivative, and exactly 5.6e-16."""
    exact, off = np.array([[5.6e-16]]), np.array([[7e-7]])
    assert kinds.judged([("J", np.array([[np.nan]]), (exact, off))], "float64")[0] == "undecided"
    assert kinds.judged([("J", np.array([[np.nan]]), (1.0 + exact, off))], "float64")[0] == "wrong"


@pytest.mark.parametrize(("factor", "outcome"), [(1e100, scalars.Undecided), (1.0, calls.Disagreement)])
def test_a_source_may_differ_where_the_next_number_does(factor, outcome, monkeypatch):
    derivative = acc.compile(lambda x: np.sin(factor * x), cache=False, time_limit=0.0, target="numpy")
    monkeypatch.setattr(ways, "_run_source", lambda *_: [np.array(0.3)])
    with pytest.raises(outcome):
        ways.in_another_way(derivative, (190.0,), "numpy", derivative(190.0), "float64")


@pytest.mark.sampled(2, each="case mistake")
@pytest.mark.parametrize(("mistake", "outcome"), [(0.0, "undecided"), (1.0, "wrong")])
@pytest.mark.parametrize(
    ("case", "kind"),
    [("_of_symmetric(np.maximum(A, 5.0))", "linear_operator"), ("np.ptp(np.exp(-A * A), axis=0)", "taylor")],
)
def test_ties_tell_nothing(case, kind, mistake, outcome, monkeypatch):
    """Eigenvectors of equal eigenvalues have no derivative; a maximum of equal numbers has several."""

    def spoiled(drawn):
        posed = getattr(kinds, kind)(drawn)
        claims = posed.claims
        return replace(posed, claims=lambda result: [(name, found + mistake, at) for name, found, at in claims(result)])

    program = arrays.Arrays((), None, (case,), "return y")
    point = [np.ones(3), np.diag([20.0, 10.0], 1)[:3] + np.diag([3.0, 0.0, 0.0]), np.ones((2, 4)), 0.5]
    monkeypatch.setattr(kinds, "random_program", lambda *_: program)
    monkeypatch.setattr(kinds, "random_point", lambda *_: point)
    monkeypatch.setattr(kinds, "KINDS", {kind: spoiled})
    monkeypatch.setattr(kinds, "IN_TURN", {})
    outcomes = {kinds.check_kind(seed).kind for seed in range(6)}
    assert outcome in outcomes
    assert ("wrong" in outcomes) == (outcome == "wrong")


@pytest.mark.skipif(with_jax.MISSING is not None, reason="needs JAX")
@pytest.mark.parametrize(("point", "outcome"), [(-2.0, "undecided"), (2.0, "right")])
def test_what_xla_simplifies_away_tells_nothing(point, outcome, monkeypatch):
    program = scalars_of(1, ["u"], p=("power", "x0", 0.5), u=("log2", "p"))
    monkeypatch.setattr(kinds, "random_scalars", lambda _: program)
    monkeypatch.setattr(kinds, "random_point", lambda *_: [point])
    assert kinds.check_form(4).kind == outcome


@pytest.mark.parametrize(("mistake", "outcome"), [(0.0, "ties, beside which"), (1e-3, "wrong")])
def test_a_maximum_that_moves_out_of_the_way_tells_nothing(mistake, outcome, monkeypatch):
    """max(e(max(a, s)), e(s)) with a decreasing e does not depend on a; at a tie, a has half of half a slope."""
    program = arrays.Arrays(
        (("A", "np.maximum(A, 0.5)"), ("A", "np.exp(-A * A)")), None, ("np.max(A, axis=1)",), "return y"
    )
    call = calls.Call("jacobian", 1, {"dtype": "float64", "cache": False}, 1, False, 1, ("C",) * len(program.shapes))
    point = [np.ones(3), np.array([[2.0, 3.0, 0.7], [0.5, 0.25, 4.0], [2.0, 1.5, 3.0]]), np.ones((3, 4)), 0.5]
    monkeypatch.setattr(checking, "_is_that_of_jax", lambda *_: None)  # as if it had no such function
    slopes = acc.jacobian(calls.function(program), 1, cache=False)(*point).reshape(3, 9)
    made = checking.called
    monkeypatch.setattr(
        checking,
        "called",
        lambda *args: ([[replace(r, slopes=r.slopes + mistake) for r in row] for row in made(*args)[0]], None),
    )
    found = [[calls.Results(None, slopes)] * 2]
    try:
        told = checking._check_arrays(program, call, [point], found, 0)[0]
    except scalars.Undecided as why:
        told = str(why)
    assert told.startswith(outcome)


@pytest.mark.parametrize("loops", [(0, 1), (10**9, 2)])
def test_a_truth_value_among_loops_is_saved(loops):
    """A Hessian as a sum of loops had a weight times a truth value in one, which no file may have."""

    def f(v, A, s):
        A = np.sqrt(A * A + 1)
        return np.sum(A.T) + np.sum(np.where(np.tanh(s) * 2 > 0, v, A))

    arguments = np.array([-0.5, 2.0, -2.0]), np.array([[-1.9, 0.6, 3.0], [-1.7, 2.5, -1.3], [-0.6, 2.0, 2.3]]), 2.1
    with checking.recorded_as(loops, False, False):
        derivative = acc.value_gradient_hessian(f, (0, 1, 2), effort="fast", optimise=False, cache=False)
        assert ways.in_another_way(derivative, arguments, "file", derivative(*arguments), "float64")


@pytest.mark.parametrize(
    "steps",
    [
        {"t": ("divide", "x0", "x0"), "u": ("add", "t", "t"), "v": ("negative", "u"), "w": ("sqrt", "v")},
        {
            "t": ("multiply", "x0", -0.25),
            "c": ("less", "t", "x0"),
            "s": ("select", "c", 0.5, "x0"),
            "w": ("fmax", "t", "s"),
        },
    ],
)
def test_what_sympy_cannot_write_tells_nothing(steps, monkeypatch):
    """The root of -2 is imaginary to SymPy; some of its cases evaluate themselves for ever."""
    program = scalars_of(1, ["w"], **steps)
    monkeypatch.setattr(kinds, "random_scalars", lambda _: program)
    monkeypatch.setattr(kinds, "random_point", lambda *_: [1.2])
    number = next(k for k in range(400) if checking.Turn.of(k).kind == "sympy")
    assert kinds.check_form(number).kind in ("undecided", "right")


def test_powers_of_two_that_jax_rounds_tell_nothing():
    """exp2(316) of JAX is 35 units off, of which the cosine is any number."""
    jnp = pytest.importorskip("jax.numpy", reason="the function is one of JAX, which is not installed")

    def f(x):
        return jnp.cos(jnp.exp2(x))

    with with_jax._jax()[0].enable_x64(True):
        posed = kinds.Posed(acc.value_and_jacobian(f, cache=False, target="numpy"), (316.0,), lambda _: [])
        with pytest.raises(scalars.Undecided, match="powers of 2"):
            kinds._leave_rounded_powers(f, posed)
        kinds._leave_rounded_powers(lambda x: f(x) + 1e-3, posed)


@pytest.mark.parametrize("loops", [(0, 1), (10**9, 2)])
def test_gcc_does_not_warn_of_short_tables(loops, monkeypatch):
    """Sums of fewer than eight entries of a table, in loops that eight of them would overrun."""
    monkeypatch.setattr(c_target, "FLAGS", ("-O3", "-march=native", "-Wall", "-Wextra", "-Werror"))

    def f(v, A):
        v = np.sin(np.flip(v)) + 1.0
        return np.sum(np.gradient(v)) * np.prod(v) + np.sum(A)

    arguments, tangents = ((np.array([2.0, 1.5, 1.6]), np.ones((2, 4))) for _ in range(2))
    with checking.recorded_as(loops, False, False):
        one, other = (
            acc.jvp(f, target=target, method="lowest-fill-in-edge", effort="fast", optimise=False, cache=False)
            for target in ("c", "numpy")
        )
        for mine, its in zip(one(arguments, tangents), other(arguments, tangents), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-13)


def test_half_powers_of_infinity_tell_jax_nothing():
    program = scalars_of(1, ["p"], t=("log", "x0"), p=("power", "t", -0.5))
    call = calls.Call("value_and_jacobian", 0, {"dtype": "float64"}, 1, False, 1, ("C",))
    pytest.importorskip("jax", reason="one of the oracles is JAX, which is not installed")
    results = [[calls.Results(np.array([np.nan]), np.array([[np.nan]]))]]
    checking._agrees_with_jax(program, call, [[0.0]], results, 0)
    with pytest.raises(calls.Disagreement):
        checking._agrees_with_jax(program, call, [[2.0]], [[calls.Results(np.array([0.1]), np.array([[np.nan]]))]], 0)


@pytest.mark.parametrize("is_rewritten", [True, False])
def test_entries_that_are_rounding_alone(is_rewritten):
    """A gradient by irfft2 has entries of which only the rounding of folded constants is left.

    Compiled gradients round otherwise than their recordings, which other functions do not.
    """

    class Gradient:
        def __call__(self, x):
            constant = 7.8388474793003417e-16 if type(x).__module__.startswith("accumulus") else 8.8817841970012523e-16
            return np.array([x, constant * x])

    function = Gradient()
    function.is_rewritten = is_rewritten
    if is_rewritten:
        assert acc.jacobian(function, cache=False)(1.0)[0] == 1.0
    else:
        with pytest.raises(acc.errors.MismatchError):
            acc.jacobian(function, cache=False)(1.0)
    assert acc.gradient(np.sum).is_rewritten


def test_digits_that_rules_lose_are_no_mistake_of_theirs(recwarn):
    """Of (a - a) + b, rules may make (a + b) - a, with a = 500: what loses digits is computed as before."""
    options = {"time_limit": 0.0, "optimise": None, "cache": False}

    def f(s):
        one = np.abs(s / s)
        small = np.minimum(one, 0.001)
        return np.array(
            [np.arctan2(small, small), np.tanh(s), 1.5 * np.arccosh(one + small) % (one - one), np.log10(s)]
        )

    with np.errstate(all="ignore"):
        acc.jacobian(acc.jacobian(f, **options), effort="thorough", time_limit=0.5, cache=False, check=False)(0.3)
    assert not [each for each in recwarn.list if "mistake of the optimiser" in str(each.message)]


def test_functions_of_rounded_limits_tell_nothing():
    """tanh(-59) is -1, of which log1p is infinite; its derivative is 0/0 as written, which XLA simplifies."""
    derivative = acc.gradient(lambda x: np.log1p(np.tanh(x)), cache=False)
    with np.errstate(all="ignore"):
        assert ways._is_saturated(derivative, (-59.0,))
    assert not ways._is_saturated(derivative, (0.5,))
