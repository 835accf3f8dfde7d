"""Fourier transforms of constant length: values of NumPy and SciPy, Jacobians that are the transforms themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.fft
from agreement import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate, needed

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends import record

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 18, 20, 21, 25, 27, 30, 32, 36, 45, 64]
KINDS = [(name, kind) for name in ("dct", "idct", "dst", "idst") for kind in (1, 2, 3, 4)]


def parts(z):
    return (z.real, z.imag)


def is_too_short(name, kind, n):
    return kind == 1 and "dct" in name and n < 2


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_every_length_are_numpys(n):
    def f(x, y):
        z = x + 1j * y
        half = z[: n // 2 + 1]
        pairs = [np.fft.fft(z), np.fft.ifft(z), np.fft.rfft(x), np.fft.fft(x), np.fft.ihfft(x)]
        return [parts(z) for z in pairs], np.fft.irfft(half, n), np.fft.hfft(half, n)

    generator = np.random.default_rng(n)
    assert_agrees(f, [generator.normal(size=n), generator.normal(size=n)])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 12, 16])
def test_cosine_and_sine_transforms_are_scipys(n):
    def f(x):
        results = [getattr(scipy.fft, name)(x, kind) for name, kind in KINDS if not is_too_short(name, kind, n)]
        scaled = [
            getattr(scipy.fft, name)(x, kind, norm="ortho") for name, kind in KINDS if not is_too_short(name, kind, n)
        ]
        return results, scaled

    assert_agrees(f, [np.random.default_rng(n).normal(size=n)])


@pytest.mark.parametrize(
    "source",
    """
    np.fft.fft(A); np.fft.fft(A, axis=0); np.fft.fft(A, 3); np.fft.fft(A, 7, axis=0, norm='ortho'); np.fft.ifft(A, 5)
    np.fft.rfft(A, axis=0); np.fft.rfft(A, 3); np.fft.irfft(A); np.fft.irfft(A, 5, axis=0); np.fft.irfft(A, 4)
    np.fft.rfft(A, norm='forward'); np.fft.irfft(A, norm='ortho'); np.fft.hfft(A, 6, norm='forward'); np.fft.ihfft(A)
    np.fft.fft2(A); np.fft.ifft2(A); np.fft.rfft2(A); np.fft.irfft2(A); np.fft.fftn(A); np.fft.ifftn(A, norm='ortho')
    np.fft.rfftn(A, axes=(0,)); np.fft.irfftn(A, s=(4, 4)); np.fft.fftn(A, s=(3, 6)); np.fft.fftn(A, axes=(1, 0))
    np.fft.fftshift(A); np.fft.ifftshift(A, axes=1); np.fft.fftfreq(5, 0.1) * A[0, 0]; np.fft.rfftfreq(4) * A[1, 2]
    np.fft.fft([A[0, 0], 1.0, A[1, 1]]); scipy.fft.fft(A); scipy.fft.irfft(A, 6); scipy.fft.rfft2(A); scipy.fft.ifftn(A)
    scipy.fft.fftshift(A); scipy.fft.dctn(A); scipy.fft.idctn(A, 3, axes=(1,)); scipy.fft.dstn(A, 1)
    scipy.fft.dct(A, axis=0); scipy.fft.dct(A, 2, 3); scipy.fft.idst(A, 3, norm='forward')
    scipy.fft.dct(A, 2, orthogonalize=True)
    np.fft.fft(Z); np.fft.ifft2(Z); np.fft.irfft(Z, 8); np.fft.irfftn(Z); np.fft.hfft(Z, axis=0)
    scipy.fft.ifft(Z, workers=1)
    """.replace("\n", ";")
    .strip(" ;")
    .split(";"),
)
def test_options(source):
    def f(A):
        result = eval(source, globals(), {"A": A, "Z": A * np.exp(1j * A)})
        return parts(result) if np.iscomplexobj(result) else result

    assert_agrees(f, [np.random.default_rng(1).normal(size=(4, 5))])


@settings(max_examples=max(6, settings.default.max_examples // 10), deadline=None)
@given(st.integers(2, 40), st.integers(0, 99))
def test_jacobians_are_the_transforms_of_unit_vectors(n, seed):
    def f(x):
        z = np.fft.rfft(x)
        return z.real, z.imag, np.abs(z) ** 2

    points = np.random.default_rng(seed).normal(size=(3, n))
    jac = acc.jacobian(f, target="numpy", optimise=False, time_limit=0.0)
    units = np.fft.rfft(np.eye(n), axis=1).T
    for re, im, power, x in zip(*jac.batch(points), points, strict=True):
        np.testing.assert_allclose(re, units.real, atol=1e-13)
        np.testing.assert_allclose(im, units.imag, atol=1e-13)
        np.testing.assert_allclose(power, 2 * (np.fft.rfft(x)[:, None].conj() * units).real, atol=1e-11)


def test_spectra_are_differentiated_by_compiled_code():
    def energy(x, window):
        spectrum = np.fft.rfft(x * window)
        return np.sum(np.abs(spectrum[1:]) ** 2 / np.arange(1, len(spectrum)))

    x, window = np.random.default_rng(2).normal(size=(2, 12))
    by_x, by_window = acc.gradient(energy, argnums=(0, 1))(x, window)
    h = 1e-6
    for actual, argument in ((by_x, 0), (by_window, 1)):
        for k in range(12):
            step = np.zeros((2, 12))
            step[argument, k] = h
            difference = energy(x + step[0], window + step[1]) - energy(x - step[0], window - step[1])
            assert actual[k] == pytest.approx(difference / (2 * h), rel=1e-6, abs=1e-7)


def operations(f, *arguments):
    """Operations that results need, signs left out."""
    tape = record(f, arguments).tape
    live = needed(tape)
    return sum(live[k] and tape.operation(k).name != "negative" for k in range(tape.inputs, len(tape)))


#: Operations of transforms: of n complex numbers, of n real ones, and to n real ones (unscaled).
COUNTS = {
    4: (16, 6, 8), 5: (48, 20, 24), 6: (44, 18, 22), 8: (56, 23, 28), 12: (112, 46, 56), 15: (224, 98, 112),
    16: (168, 72, 84), 32: (456, 203, 228), 60: (1136, 510, 568), 64: (1160, 528, 580),
}  # fmt: skip


@pytest.mark.parametrize("n", COUNTS)
def test_operations_are_those_of_fast_transforms(n):
    x, half = np.ones(n), np.ones(n // 2 + 1)
    result = (
        operations(lambda x, y: parts(np.fft.fft(x + 1j * y)), x, x),
        operations(lambda x: parts(np.fft.rfft(x)), x),
        operations(lambda x, y: np.fft.irfft(x + 1j * y, n, norm="forward"), half, half),
    )
    assert result == COUNTS[n]
    if n & (n - 1) == 0:
        assert result[0] == 4 * n * math.log2(n) - 6 * n + 8  # split radix, as published


@pytest.mark.parametrize("shape", [(64,), (96,), (3, 40), (67,)])
def test_long_axes_are_operations_on_arrays(shape):
    def f(x):
        z = np.fft.fft(x * np.exp(1j * x))
        return z.real, z.imag, np.abs(np.fft.rfft(x)), np.fft.irfft(z, shape[-1])

    x = np.random.default_rng(4).normal(size=shape)
    tape = record(f, [x], arrays=True, at_once=True, check=True).program
    expected = np.concatenate([array.ravel() for array in f(x)])
    np.testing.assert_allclose(evaluate(tape, x.ravel()), expected, atol=1e-11)
    assert len(tape.blocks) < 1200


def test_a_long_signal_has_a_gradient():
    def f(x):
        return np.sum(np.abs(np.fft.rfft(x)) ** 2) / len(x)

    x = np.random.default_rng(5).normal(size=512)
    expected = np.fft.ifft(np.fft.fft(x) * np.where(np.arange(512) <= 256, 1.0, 0.0)).real * 2
    np.testing.assert_allclose(acc.gradient(f)(x), expected, atol=1e-9)
    # one transform has fewer operations than are written out, and with what follows it has more: it is one of arrays
    assert len(record(f, [x], arrays=True).program.blocks) < 40

    def several(x):
        return sum(np.sum(np.abs(np.fft.rfft(x * k)) ** 3) for k in (1.0, 2.0, 3.0))

    assert len(record(several, [x[:256]], arrays=True).program.blocks) < 120


def test_a_length_that_depends_on_arguments_is_refused():
    with pytest.raises(TraceError, match="must be a constant"):
        record(lambda x, n: np.fft.fft(x, n).real, [np.ones(4), 3.0])


@pytest.mark.parametrize("source", ["np.fft.fft(x, 0)", "np.fft.fft(x, norm='back')", "np.fft.rfft(x * 1j)"])
def test_mistakes_are_the_errors_of_numpy(source):
    f = eval(f"lambda x: {source}", globals())
    with pytest.raises((ValueError, TypeError)) as of_numpy:
        f(np.ones(4))
    with pytest.raises(of_numpy.type):
        record(f, [np.ones(4)])
