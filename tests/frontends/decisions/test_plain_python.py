"""Modules and builtins of Python on traced values, as they are on numbers."""

import functools
import itertools
import math
import operator
import statistics
from math import sin as sine

import numba
import numpy as np
import pytest
from inside import evaluate

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.record import record

POINTS = [0.75, 0.25, 0.9, -0.4, -0.999]

FORMULAS = """
math.sin(x); sine(x); math.cos(x); math.tan(x); math.asin(x); math.acos(x); math.atan(x); math.atan2(x, 2.0)
math.sinh(x); math.cosh(x); math.tanh(x); math.asinh(x); math.acosh(2 + x); math.atanh(x); math.exp(x); math.exp2(x)
math.expm1(x); math.log(2 + x); math.log(2 + x, 3); math.log2(2 + x); math.log10(2 + x); math.log1p(x)
math.sqrt(1 + x); math.cbrt(x); math.pow(2 + x, 1.5); math.hypot(x, 2.0); math.hypot(x, 1.0, 2.0); math.fabs(x)
math.floor(3 * x); math.ceil(3 * x); math.trunc(3 * x); math.copysign(2.0, x); math.fmod(x, 0.3)
math.remainder(x, 0.4); math.degrees(x); math.radians(x); math.erf(x); math.erfc(x)
math.fsum([x, 1.0, x]); math.prod([x, x, 2.0]); math.dist([x, 1.0], [2.0, x]); math.modf(3 * x)[0]
math.isnan(x) + x; math.isfinite(x) + x; math.isinf(x) + x; math.isclose(x, 0.75) + x; math.sqrt(2.0) * x
statistics.mean([x, 1.0, 2.0]); statistics.fmean([x, 1.0], [2.0, 1.0]); statistics.median([x, 0.5, 0.0])
statistics.median([x, 0.5, 0.0, 1.0]); statistics.stdev([x, 1.0, 2.5]); statistics.variance([x, 1.0, 2.5])
statistics.pvariance([x, 1.0, 2.5]); statistics.pstdev([x, 1.0, 2.5]); statistics.geometric_mean([2 + x, 2.0])
statistics.harmonic_mean([2 + x, 2.0]); functools.reduce(operator.mul, [x, 2.0, x]); sum(itertools.accumulate([x, x]))
sum(itertools.accumulate([x, 2.0, -x], lambda a, b: a if a > b else b)); operator.add(x, 1.0); max([x, 0.5]); pow(x, 2)
min(x, 0.5, 2 * x); max(0.5, x); abs(x); float(x) * 2; round(3 * x); x // 0.3; x % 0.3; sum(divmod(x, 0.3)); bool(x) * x
sorted([x, 0.0, 0.5, -x], reverse=True)[1]; sum(sorted([x, 0.5, -x])[:2]); any([x > 0.5, x < 0]) * x; all([x > 0.5]) * x
sum(v for _, v in enumerate([x, 2.0])); sum(map(lambda v: v * v, [x, 2.0]))
sum(a * b for a, b in zip([x, 1.0], [2.0, x]))
functools.partial(lambda a, b: a if a > b else b, x)(0.5); (lambda a: -a if a < 0 else a)(x); len([x]) * x
"""
CASES = [case.strip() for line in FORMULAS.strip().split("\n") for case in line.split(";")]
SCOPE = {"functools": functools, "itertools": itertools, "math": math, "np": np, "operator": operator, "sine": sine}
SCOPE |= {"statistics": statistics, "__name__": "formulas"}


def of_source(source, folder):
    """A function of a file, since only what has source is merged."""
    path = folder / "formulas.py"
    path.write_text(source)
    exec(compile(source, str(path), "exec"), SCOPE)
    return SCOPE["function"]


@pytest.mark.parametrize("case", CASES)
def test_formulas_are_those_of_python(case, tmp_path):
    function = of_source(f"def function(x):\n    return {case}\n", tmp_path)
    recording = record(function, [0.75], decides=True)
    assert recording.guards == ()
    for x in POINTS:
        (result,) = evaluate(recording.tape, [x])
        assert float(result) == pytest.approx(float(function(x)), rel=1e-14, abs=1e-15), x


def per_entry(x):
    bent = np.vectorize(lambda u, v: u if u > v else -2 * u)
    columns = np.vectorize(lambda u: (u, 2 * u))(x)
    lines = np.apply_along_axis(lambda row: max(row) * row, 0, np.stack([x, 2 * x]))
    pieces = np.piecewise(x, [x > 0.2], [lambda v: v * v, 0.0])
    filled = np.fromiter((u if u > 0 else 0.0 for u in x), float)
    return bent(x, 0.25), *columns, lines, pieces, filled


def test_functions_of_numbers_are_called_for_each_entry():
    x = np.array([0.75, -0.5, 0.3])
    recording = record(per_entry, [x], decides=True, check=True)
    assert recording.guards == ()
    for point in (x, -x, 0.1 * x):
        expected = np.concatenate([np.ravel(array) for array in per_entry(point)])
        np.testing.assert_allclose(np.array(evaluate(recording.tape, list(point)), float), expected, rtol=1e-15)


def test_universal_functions_of_python_functions():
    bent = np.frompyfunc(lambda u, v: u * v if u > v else math.sin(u), 2, 1)
    columns = np.frompyfunc(lambda u: (u * u, -u), 1, 2)

    @numba.vectorize
    def inside(u):
        return u * u if u > 0 else 3.0 * u

    def function(x):
        return np.array([bent(x, [[0.4], [2.0]])[0], *columns(x), inside(x), x * bent(x[0], 0.1)]).astype(float)

    jacobian = acc.value_and_jacobian(function, cache=False)
    for x in (np.array([0.75, -0.5, 3.0]), np.array([-0.75, 0.5, -3.0])):
        values, slopes = jacobian(x)
        np.testing.assert_allclose(values, function(x), rtol=1e-14)
        for k in range(3):
            step = 1e-6 * np.eye(3)[k]
            np.testing.assert_allclose(slopes[..., k], (function(x + step) - function(x - step)) / 2e-6, atol=1e-8)


def test_texts_of_values_show_them_at_the_point():
    texts = []

    def function(x):
        texts.append(f"{2 * x:.3f} {x:8.2e}")
        print(x, f"{x}", "{:g}".format(x), "%s" % x)  # noqa: UP031, UP032
        return x

    record(function, [0.75], decides=True)
    assert texts == ["1.500 7.50e-01"]


def test_whole_numbers_are_guards():
    recording = record(lambda x: [0.0, x, 2 * x][int(3 * x)] + sum(x for _ in range(int(4 * x))), [0.75], decides=True)
    assert {guard.answer for guard in recording.guards} == {"2", "3"}


def test_many_numbers_are_sorted_as_at_the_point():
    x = np.arange(12.0)[::-1].copy()
    recording = record(lambda x: sorted(x)[:3] + sorted(x, reverse=True)[:2], [x], decides=True)
    assert [guard.answer.split()[0] for guard in recording.guards] == ["order", "order"]
    results = [float(value) for value in evaluate(recording.tape, list(x))]
    assert results == [0.0, 1.0, 2.0, 11.0, 10.0, 1.0, 1.0]


def test_functions_compiled_by_numba_are_merged_from_their_source():
    numba = pytest.importorskip("numba")

    @numba.njit
    def kink(u):
        if u > 1:
            return u * u
        return math.sin(u)

    recording = record(lambda x: kink(x) + kink(2 * x), [0.75], decides=True)
    assert recording.guards == ()
    for x in POINTS:
        assert float(evaluate(recording.tape, [x])[0]) == pytest.approx(kink(x) + kink(2 * x), rel=1e-15)


@pytest.mark.parametrize(
    "case", ["math.sin(x)", "max(x, 0.5)", "x if x > 0 else 1.0", "sorted([x, 1.0])[0]", "float(x)"]
)
def test_without_decisions_they_are_refused(case, tmp_path):
    function = of_source(f"def function(x):\n    return {case}\n", tmp_path)
    with pytest.raises(TraceError):
        record(function, [0.75])
