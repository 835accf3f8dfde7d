"""Special functions against mpmath in 50 digits: compiled values and derivatives, in batches and one by one."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from exact import EXACT, PARTIALS, mp, mpf
from inside import OPERATIONS
from special_fits import FITS, fit

from accumulus import Tape
from accumulus.tape.operations import Operation, helpers
from accumulus.tape.partials import partial
from accumulus.targets import Segment, compile_tape
from accumulus.targets.llvm import special_coefficients

ROWS = [row for row in OPERATIONS if row.special and not row.is_scipys]
#: Intervals, beyond which values overflow or the reference does not end, and units in the last place that are allowed.
INTERVALS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "erfinv": ((-1.0, 1.0, 4), (-1e-5, 1e-5, 4), (0.999, 1.0 - 1e-12, 4)),
    "erfcinv": ((1e-9, 1.9, 4), (1e-300, 1e-9, 4)),
    "erfcx": ((0.0, 30.0, 6), (30.0, 1e5, 6), (-26.0, 0.0, 6)),
    "i1erfcx": ((0.0, 1.0, 6), (1.0, 30.0, 6), (30.0, 1e9, 6), (-25.0, 0.0, 6)),
    "ierfcx": ((0.0, 1.0, 6), (1.0, 30.0, 6), (30.0, 1e9, 6), (-25.0, 0.0, 6)),
    "log_ndtr": ((-1.0, 1.0, 6), (-1e3, -1.0, 6), (1.0, 36.0, 6)),
    "gamma": ((1e-5, 3.0, 6), (3.0, 8.0, 6), (8.0, 171.0, 6), (-170.0, -1e-5, 8)),
    "gammaln": ((1e-9, 0.99, 4), (0.99, 1.01, 4), (1.99, 2.01, 4), (1.0, 8.0, 4), (8.0, 1e6, 4)),
    "digamma": ((1e-9, 1.0, 4), (1.0, 8.0, 4), (1.46163, 1.46164, 4), (8.0, 1e8, 4)),
    "j0": ((-2.0, 2.0, 6), (3.0, 5.0, 6)),
    "j1": ((-3.0, 3.0, 6), (4.5, 6.5, 6)),
    "y0": ((1e-3, 0.8, 6), (1.5, 3.0, 6)),
    "y1": ((1e-3, 2.0, 6), (3.0, 5.0, 6)),
    "i0": ((-8.0, 8.0, 6), (8.0, 700.0, 6)),
    "i1": ((-8.0, 8.0, 6), (8.0, 700.0, 6)),
    "i0e": ((-8.0, 8.0, 6), (8.0, 1e4, 6)),
    "i1e": ((-8.0, 8.0, 6), (8.0, 1e4, 6)),
    "k0": ((1e-9, 2.0, 6), (2.0, 700.0, 6)),
    "k1": ((1e-9, 2.0, 6), (2.0, 700.0, 6)),
    "k0e": ((1e-9, 2.0, 6), (2.0, 1e3, 6)),
    "k1e": ((1e-9, 2.0, 6), (2.0, 1e3, 6)),
    "iv": ((-20.0, 20.0, 12), (20.0, 700.0, 12)),
    "ive": ((-20.0, 20.0, 12), (20.0, 1e4, 12)),
    "zeta": ((1e-3, 1.0, 6), (1.0, 1e6, 6)),
    "jn": ((2.0, 4.0, 30),),
    "yn": ((1.0, 2.0, 30),),
}
#: What infinities, zeros and NaN give, and poles.
NAN, INF = math.nan, math.inf
SPECIAL = {
    "erfinv": {0.0: 0.0, 1.0: INF, -1.0: -INF, 1.5: NAN, NAN: NAN},
    "erfcinv": {0.0: INF, 1.0: 0.0, 2.0: -INF, -0.5: NAN, 2.5: NAN, NAN: NAN},
    "erfcx": {0.0: 1.0, INF: 0.0, -INF: INF, -30.0: INF, NAN: NAN},
    "i1erfcx": {0.0: 1.0 / math.sqrt(math.pi), INF: 0.0, -INF: INF, -30.0: INF, NAN: NAN},
    "log_ndtr": {0.0: math.log(0.5), INF: 0.0, -INF: -INF, NAN: NAN},
    "gamma": {0.0: INF, 1.0: 1.0, 5.0: 24.0, 172.0: INF, INF: INF, -1.0: NAN, -INF: NAN, NAN: NAN},
    "gammaln": {0.0: INF, 1.0: 0.0, 2.0: 0.0, INF: INF, -INF: INF, -1.0: INF, -5.0: INF, NAN: NAN},
    "digamma": {0.0: -INF, INF: INF, -1.0: NAN, -7.0: NAN, -INF: NAN, NAN: NAN},
    "i0": {0.0: 1.0, INF: INF, -INF: INF, NAN: NAN},
    "i1": {0.0: 0.0, INF: INF, -INF: -INF, NAN: NAN},
    "i0e": {0.0: 1.0, INF: 0.0, -INF: 0.0, NAN: NAN},
    "i1e": {0.0: 0.0, INF: 0.0, NAN: NAN},
    "k0": {0.0: INF, INF: 0.0, -1.0: NAN, NAN: NAN},
    "k1": {0.0: INF, INF: 0.0, -1.0: NAN, NAN: NAN},
    "k0e": {0.0: INF, INF: 0.0, -1.0: NAN, NAN: NAN},
    "k1e": {0.0: INF, INF: 0.0, -1.0: NAN, NAN: NAN},
}

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def written(row: Operation, order: float = 3.0) -> Tape:
    """A tape of the value and the derivative."""
    tape = Tape(1)
    arguments = [tape.constant(order), 0] if row.arity == 2 else [0]
    value = tape.apply(row.name, *arguments)
    slope = partial(tape, value, row.arity - 1)
    assert slope is not None
    tape.outputs = [value, slope]
    return tape


def drawn(row: Operation, low: float, high: float) -> np.ndarray:
    rng = np.random.default_rng(row.code)
    return (
        np.exp(rng.uniform(np.log(low), np.log(high), 24))
        if low > 0 and high / low > 1e3
        else rng.uniform(low, high, 24)
    )


def exact(row: Operation, x: float) -> tuple[mpf, mpf]:
    point = (mpf(3), mpf(x)) if row.arity == 2 else (mpf(x),)
    return EXACT[row.name](*point), PARTIALS[row.name][-1](*point)


def test_every_row_has_intervals():
    assert set(INTERVALS) == {row.name for row in ROWS}


@pytest.mark.sampled(2)
@each_row
@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_values_and_derivatives(row, target):
    tape = written(row)
    kernel = compile_tape(tape, (Segment(2, (0, 1), (0, 1)),), target=target, arguments=((),))
    for low, high, units in INTERVALS[row.name]:
        X = drawn(row, low, high)
        got = kernel.batch(X)[0]
        np.testing.assert_array_equal(got, [kernel(np.array(x))[0] for x in X])
        for x, (value, slope) in zip(X, got, strict=True):
            true_value, true_slope = exact(row, float(x))
            # SciPy has its own errors
            allowed = (units if target == "llvm" else 1e4) * mpf(2) ** -52
            assert abs(mpf(float(value)) - true_value) <= allowed * abs(true_value), (x, value)
            # terms of opposite sign cancel in some derivatives, and are as large as the value; that of log Φ is φ/Φ
            scale = abs(true_slope) * (1 + x * x if row.name == "log_ndtr" else 1)
            if row.name[0] in "eikjy" and "erfcx" not in row.name:
                scale += abs(true_value) * (1 + 2 * abs(x) + 1 / abs(x))
            assert abs(mpf(float(slope)) - true_slope) <= 20 * allowed * scale, (x, slope)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name):
    tape = Tape(1)
    tape.outputs = [tape.apply(name, 0)]
    kernel = compile_tape(tape, (Segment(1, (0,), (0,)),), arguments=((),))
    X = np.array(list(SPECIAL[name]))
    expected = np.array(list(SPECIAL[name].values()))
    np.testing.assert_allclose(kernel.batch(X)[0].ravel(), expected, rtol=1e-15)
    np.testing.assert_array_equal([float(kernel(np.array(x))[0][0]) for x in X], kernel.batch(X)[0].ravel())


@each_row
def test_single_precision(row):
    tape = written(row)
    kernels = [
        compile_tape(tape, (Segment(2, (0, 1), (0, 1)),), dtype=dtype, arguments=((),))
        for dtype in ("float32", "float64")
    ]
    low, high, _ = INTERVALS[row.name][0]
    X = np.linspace(max(low, -3.0) + 0.01, min(high, 3.0) - 0.01, 37).astype(np.float32)
    single, double = (kernel.batch(X.astype(kernel.dtype))[0] for kernel in kernels)
    tolerance = 2e-3 if row.name in ("jn", "yn") else 2e-5
    np.testing.assert_allclose(single, double, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["SINPI", "GAMMALN_MIDDLE", "DIGAMMA_TAIL", "ERFCX", "IERFCX", "K1_LOWER"])
def test_coefficients_are_those_of_the_fits(name):
    low, high, coefficients = getattr(special_coefficients, name)
    assert FITS[name][1:] == (low, high)
    assert fit(*FITS[name]) == list(coefficients)


def test_zeros_on_the_negative_axis_are_absolutely_accurate():
    X = np.random.default_rng(1).uniform(-20.0, 0.0, 200)
    for name in ("gammaln", "digamma"):
        tape = Tape(1)
        tape.outputs = [tape.apply(name, 0)]
        got = compile_tape(tape, (Segment(1, (0,), (0,)),), arguments=((),)).batch(X)[0].ravel()
        true = np.array([float(EXACT[name](mp.mpf(x))) for x in X])
        np.testing.assert_allclose(got, true, rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize("order", [2, 7, 20, 22])
def test_modified_bessel_functions_of_all_orders(order):
    tape = Tape(1)
    tape.outputs = [tape.apply("ive", tape.constant(float(order)), 0)]
    kernel = compile_tape(tape, (Segment(1, (0,), (0,)),), arguments=((),))
    X = np.array([1e-3, 0.5, 7.0, 60.0, 399.0, 401.0, 5e3, -3.0])
    true = np.array([float(EXACT["ive"](mpf(order), mpf(x))) for x in X])
    np.testing.assert_allclose(kernel.batch(X)[0].ravel(), true, rtol=1e-14)


@pytest.mark.parametrize("target", ["llvm", "numpy", "c"])
@pytest.mark.parametrize("order", [0, 1, 2, 5, 12])
def test_repeated_integrals_of_erfc_of_all_orders(order, target):
    tape = Tape(1)
    tape.outputs = [tape.apply("ierfcx", tape.constant(float(order)), 0)]
    kernel = compile_tape(tape, (Segment(1, (0,), (0,)),), target=target, arguments=((),))
    X = np.array([0.0, 1e-300, 1e-3, 0.3, 1.0, 2.5, 7.3, 30.0, 1e5, 1e14, 1e15, 1e16, -1e-8, -0.5, -3.0])
    true = np.array([float(EXACT["ierfcx"](mpf(order), mpf(x))) for x in X])
    np.testing.assert_allclose(kernel.batch(X)[0].ravel(), true, rtol=8 * 2.0**-52)
    ends = kernel.batch(np.array([math.inf, 1e300, -math.inf, -30.0, math.nan]))[0].ravel()
    np.testing.assert_allclose(ends, [0.0, 0.0 if order else 1e-300 / math.sqrt(math.pi), math.inf, math.inf, math.nan])


def test_helpers_have_the_coefficients_of_the_fits():
    literals = re.findall(r"-?\d[\d.]*(?:e-?\d+)?(?=,)", helpers("_ierfcx(")[0].partition("coefficient in (")[2])
    assert [float(each) for each in literals[: len(special_coefficients.IERFCX[2])]] == list(
        special_coefficients.IERFCX[2][::-1]
    )
