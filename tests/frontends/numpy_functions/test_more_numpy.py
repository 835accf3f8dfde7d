"""Medians, filters, integrals and masks, and which functions of NumPy are recorded at all."""

from __future__ import annotations

import itertools
import types
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.integrate
import scipy.signal
from agreement import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import unrolled
from refusals import reason

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends import record
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, SEVERAL
from accumulus.frontends.numpy.ordering import exchanges
from accumulus.frontends.numpy.statistics import MOST_EXCHANGED
from accumulus.frontends.numpy.table import FUNCTIONS, unsupported

# Orders ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, MOST_EXCHANGED + 1))
def test_exchanges_sort(count):
    """Networks that sort all zeros and ones sort everything (Knuth, The Art of Computer Programming 3, 5.3.4)."""
    lines = np.array(list(itertools.product([0, 1], repeat=count)), np.int8)
    for stage in exchanges(count):
        assert len(np.unique(np.concatenate(stage))) == 2 * len(stage[0])
        for one, other in zip(*stage, strict=True):
            lines[:, [one, other]] = np.sort(lines[:, [one, other]], axis=1)
    assert (np.diff(lines, axis=1) >= 0).all()


def test_the_number_of_exchanges_is_batchers():
    assert [sum(len(one) for one, _ in exchanges(count)) for count in (2, 4, 8, 16)] == [1, 5, 19, 63]


@settings(max_examples=max(8, settings.default.max_examples // 8), deadline=None)
@given(st.integers(1, 7), st.integers(0, 100), st.floats(0.0, 1.0), st.integers(0, 999))
def test_quantiles_hold_for_every_order(count, sixteenths, share, seed):
    methods = ["linear", "hazen", "weibull", "lower", "midpoint", "normal_unbiased"]
    generator = np.random.default_rng(seed)
    points = generator.permuted(np.tile(np.arange(count) / 4.0, (4, 1)), axis=1)
    points[-1] = np.round(generator.normal(size=count))  # ties

    def f(x):
        return [np.quantile(x, share, method=method) for method in methods], np.percentile(x, sixteenths), np.median(x)

    assert_agrees(f, *([point] for point in points))


def test_medians_of_nan_are_nan():
    for many in (4, 20):
        x = np.arange(float(many))
        x[1] = np.nan
        assert np.isnan(acc.value_and_jacobian(np.median, check=False)(x)[0])


@pytest.mark.parametrize("loops", [False, True])
def test_unwrapped_phases_have_the_slopes_of_phases_at_half_periods_too(loops):
    x = np.array([0.0, 1.5, 0.0, 4.5, 3.0, 7.25])
    with unrolled(0) if loops else nullcontext():
        value, slopes = acc.value_and_jacobian(lambda x, period: np.unwrap(x, period=period), (0, 1))(x, 3.0)
    np.testing.assert_array_equal(value, np.unwrap(x, period=3.0))
    np.testing.assert_array_equal(slopes[0], np.eye(6))
    periods = (value - x) / 3.0
    np.testing.assert_array_equal(slopes[1], periods)


def test_medians_are_differentiated_by_their_entries():
    x = np.array([3.0, -1.0, 2.0, 10.0])
    np.testing.assert_array_equal(acc.gradient(np.median)(x), [0.5, 0.0, 0.5, 0.0])
    np.testing.assert_array_equal(
        acc.jacobian(np.median).batch(np.array([x[::-1], x[[1, 0, 2, 3]]])),
        [[0.0, 0.5, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0]],
    )


def test_medians_of_many_entries_follow_their_order():
    many = MOST_EXCHANGED + 5
    gradient = acc.gradient(lambda x: np.median(x * x))
    generator = np.random.default_rng(7)
    for _ in range(3):
        x = generator.normal(size=many)
        expected = np.zeros(many)
        middle = np.argsort(x * x)[many // 2]
        expected[middle] = 2 * x[middle]
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-14)


# Sums with masks -----------------------------------------------------------------------------------------------------

REDUCTIONS = """
np.add.reduce(A, where=A > 0); np.multiply.reduce(A, axis=1, where=C > 0, initial=2.0); np.all(A > 0, where=C > 0)
np.maximum.reduce(A, axis=0, where=C > 0, initial=-3.0); np.any(A > 1, axis=1, where=A < 2); A.sum(where=C > 0, axis=0)
A.mean(where=A > -1); np.std(A, where=C > 0, ddof=1); np.var(A, axis=0, mean=np.mean(A, axis=0, keepdims=True))
np.var(A, correction=1); np.add.reduceat(A[0], [0, 2, 1]); np.multiply.reduceat(A, [0, 1], axis=1)
np.min(A, where=C > 0, initial=9.0); np.prod(A, where=A > 0); np.nanmax(A, initial=0.5); np.nanmean(A, where=C > 0)
np.cov(A[0] + 1j * A[1]).real; np.cov(A * 1j).real; np.correlate(A[0] * 1j, A[1] + 1j).imag; np.average(A * 1j).imag
"""


@pytest.mark.parametrize("source", REDUCTIONS.replace("\n", ";").strip(" ;").split(";"))
def test_reductions_with_masks(source):
    generator = np.random.default_rng(8)
    C = generator.normal(size=(3, 3))
    assert_agrees(lambda A: eval(source, globals(), {"A": A, "C": C}), *([generator.normal(size=(3, 3))] for _ in "ab"))


def test_a_masked_reduction_without_identity_needs_initial():
    with pytest.raises(ValueError, match="identity"):
        record(lambda x: np.max(x, where=x > 0), [np.ones(3)])


def test_masked_entries_have_no_derivative():
    x = np.array([1.0, np.nan, 3.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(acc.gradient(np.nanmean, check=False)(x), [0.5, 0.0, 0.5])
        np.testing.assert_allclose(acc.gradient(np.nansum, check=False)(x), [1.0, 0.0, 1.0])
        np.testing.assert_allclose(acc.gradient(np.nanmax, check=False)(x), [0.0, 0.0, 1.0])
        np.testing.assert_allclose(acc.gradient(np.nanstd, check=False)(x), [-0.5, 0.0, 0.5])


# SciPy ---------------------------------------------------------------------------------------------------------------

BORROWED = """
integrate.trapezoid(A, axis=0); integrate.trapezoid(v, w); integrate.simpson(v); integrate.simpson(v, dx=0.3)
integrate.simpson(v[:6], dx=s); integrate.simpson(v, w); integrate.simpson(v[:4], w[:4]); integrate.simpson(A, axis=0)
integrate.simpson(v[:2]); integrate.cumulative_trapezoid(v); integrate.cumulative_trapezoid(v, w, initial=0)
integrate.cumulative_trapezoid(A, dx=0.5, axis=0); signal.convolve(v, A[0]); signal.convolve(v, A[0], 'same')
signal.convolve(A[0], v, 'same'); signal.convolve(v, A[0], 'valid'); signal.fftconvolve(v, A[0], 'same')
signal.correlate(v, A[0]); signal.correlate(v, A[0], 'same'); signal.lfilter([1.0, 0.5], [1.0, -s], v)
signal.lfilter(A[0], [2.0, s], A, axis=0); signal.lfilter([0.2], [1.0], v); signal.lfilter([1.0, s], 1.0, v, zi=[s])
"""


@pytest.mark.parametrize("source", BORROWED.replace("\n", ";").strip(" ;").split(";"))
def test_integrals_and_filters_are_scipys(source):
    def f(v, A, s):
        names = {"v": v, "A": A, "s": s, "w": np.cumsum(v * v + 0.5), **vars(scipy)}
        return eval(source, {"integrate": integrate, "signal": signal}, names)

    generator = np.random.default_rng(9)
    assert_agrees(f, *([generator.normal(size=7), generator.normal(size=(3, 4)), 0.3] for _ in "ab"))


integrate, signal = scipy.integrate, scipy.signal


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["full", "same", "valid"]))
@settings(max_examples=max(10, settings.default.max_examples // 5), deadline=None)
def test_convolutions_of_every_length(m, n, mode):
    generator = np.random.default_rng(m * 7 + n)

    def f(a, v):
        return np.convolve(a, v, mode), np.correlate(a, v, mode)

    assert_agrees(f, [generator.normal(size=m), generator.normal(size=n)])


def test_long_arrays_stay_arrays():
    def f(x):
        return np.gradient(x, 0.1), np.trapezoid(x * x), np.convolve(x, [1.0, -2.0, 1.0], "same"), np.nansum(x)

    x = np.random.default_rng(3).normal(size=500)
    recording = record(f, [x], arrays=True, at_once=True, check=True)
    assert len(recording.program.blocks) < 60


# Which functions are recorded ----------------------------------------------------------------------------------------

#: Functions that do not compute with values, or with whole numbers, text and files only; they run as they are.
OUTSIDE = """
asarray_chkfinite asmatrix astype bartlett base_repr binary_repr blackman bmat broadcast_shapes busday_count
busday_offset can_cast common_type datetime_as_string datetime_data diag_indices diag_indices_from einsum_path
format_float_positional format_float_scientific from_dlpack frombuffer fromfile fromfunction fromregex fromstring
genfromtxt get_include get_printoptions getbufsize geterr geterrcall hamming hanning indices info is_busday isdtype
isfortran isscalar issubdtype iterable ix_ kaiser load loadtxt mask_indices may_share_memory min_scalar_type
mintypecode nested_iters printoptions promote_types ravel_multi_index require save savetxt savez savez_compressed
set_printoptions setbufsize seterr seterrcall shares_memory show_config show_runtime test tril_indices
tril_indices_from triu_indices triu_indices_from typename unravel_index arange array asarray asanyarray
ascontiguousarray asfortranarray empty eye fromiter full geomspace identity logspace ndenumerate ones tri zeros
"""


def test_every_function_of_numpy_is_recorded_or_refused_for_a_reason():
    unknown = []
    for name in dir(np):
        function = getattr(np, name)
        if name.startswith("_") or isinstance(function, type | types.ModuleType) or not callable(function):
            continue
        bare_name = getattr(function, "__name__", name)
        recorded = function in FUNCTIONS or bare_name in ELEMENTWISE or bare_name in SEVERAL or name in OUTSIDE.split()
        if not recorded and "Write it with operators" in unsupported(function):
            unknown.append(name)
    # of the first, which makes functions of objects, np.vectorize is recorded; the second is a Bessel function
    assert set(unknown) <= {"frompyfunc", "i0"}


@pytest.mark.parametrize(
    ("source", "words"),
    {
        "np.histogram(x)": "derivative is zero",
        "np.bincount(x)": "derivative is zero",
        "np.frexp(x)": "bits of a number",
        "np.nextafter(x, 1.0)": "bits of a number",
        "np.spacing(x)": "bits of a number",
        "np.signbit(x)": "bits of a number",
        "np.polyfit(x, x, 1)": "constant points",
        "np.quantile(x, x[0])": "constant q",
        "np.quantile(x, 0.5, method='inverted_cdf')": "is not recorded; recorded are",
        "np.pad(x, 1, 'maximum')": "wrap are",
        "np.choose(x, [x, x])": "constant numbers",
        "np.ldexp(x, x)": "constant exponent",
    }.items(),
)
def test_excluded_functions_give_a_reason(source, words):
    with pytest.raises(TraceError, match=reason(words)):
        record(eval(f"lambda x: {source}", globals()), [np.ones(4)])


@pytest.mark.parametrize("ends", [{}, {"left": 0.5, "right": -1.0}], ids=["ends", "given ends"])
def test_interpolation_of_traced_values_at_constant_points_is_a_sum(ends):
    """Each point takes two values; points and knots are those of a table, of any length."""
    draw = np.random.default_rng(0)
    knots, values = np.sort(draw.normal(size=60)), draw.normal(size=60)
    points = np.concatenate([2.0 * draw.normal(size=100), knots, [np.nan, -9.0, 9.0]])
    for x in (points, points[:5].tolist(), points[3], knots[-1], knots[0]):

        def f(v, x=x):
            return np.interp(x, knots, v, **ends)

        np.testing.assert_allclose(acc.compile(f, cache=False)(values), f(values), rtol=1e-13)
        expected = np.stack([f(column) for column in np.eye(60)], axis=-1) - (
            f(np.zeros(60)) * np.ones((60, 1))
        ).T.reshape(*np.shape(x), 60)
        found = acc.jacobian(f, cache=False)(values)
        is_number = np.isfinite(expected)
        np.testing.assert_allclose(found[is_number], expected[is_number], atol=1e-13)
    assert acc.jacobian(lambda v: np.interp(points, knots, v), cache=False, sparse="csr")(values).nnz <= 2 * len(points)
