"""Transforms of `scipy.fft`, and convolutions, correlations and recursive filters of `scipy.signal`.

Fourier transforms are recorded as in `numpy.fft`; options for the execution are ignored. Discrete cosine and sine
transforms of types 1 to 4 are computed from Fourier transforms of real numbers:

* The cosine transform of type 2 is a Fourier transform of as many entries in another order (Makhoul, IEEE Transactions
  on Acoustics, Speech, and Signal Processing 28, 1980).
* Type 3 is the transpose of type 2.
* Type 1 is the transform of the entries followed by their mirror image.
* Type 4 is the transform of twice as many entries, the second half of them zeros.
* Sine transforms of types 2 to 4 are cosine transforms with changed signs and reversed order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.complex_numbers import Pair
from accumulus.frontends.numpy.fourier import (
    TRANSFORMS,
    ZERO,
    complex_transform,
    divisor,
    last_axis_entries,
    padded,
    real_inverse,
    real_transform,
    stacked_columns,
    turned,
)
from accumulus.frontends.numpy.operands import holds_complex
from accumulus.frontends.numpy.sequences import convolution_part
from accumulus.frontends.numpy.table import borrows, by_name
from accumulus.tape.tape import Tape

# Cosine and sine transforms -------------------------------------------------------------------------------------------

Columns = Sequence[Any]


def _cosine_1(x: Columns) -> list[Any]:
    if len(x) < 2:
        raise ValueError("DCT-I is not defined for size < 2")
    return [z.re for z in real_transform([*x, *x[-2:0:-1]])]


def _cosine_2(x: Columns) -> list[Any]:
    n = len(x)
    half = real_transform([*x[0::2], *x[1::2][::-1]])
    result: list[Any] = [None] * n
    for k, value in enumerate(half):
        z = turned(value, k, 4 * n)
        result[k] = 2.0 * z.re
        if 0 < k < n - k:
            result[n - k] = -2.0 * z.im
    return result


def _cosine_3(x: Columns) -> list[Any]:
    n = len(x)
    half = [turned(Pair(x[k], -x[n - k] if k else ZERO), -k, 4 * n) for k in range(n // 2 + 1)]
    values = real_inverse(half, n)
    result: list[Any] = [None] * n
    result[0::2] = values[: (n + 1) // 2]
    result[1::2] = values[(n + 1) // 2 :][::-1]
    return result


def _cosine_4(x: Columns) -> list[Any]:
    n = len(x)
    whole = [turned(Pair(value, ZERO), k, 4 * n) for k, value in enumerate(x)] + [Pair(ZERO, ZERO)] * n
    return [2.0 * turned(z, 2 * k + 1, 8 * n).re for k, z in enumerate(complex_transform(whole)[:n])]


def _sine_1(x: Columns) -> list[Any]:
    zero = 0.0 * x[0]
    return [-z.im for z in real_transform([zero, *x, zero, *(-value for value in x[::-1])])[1:-1]]


def _alternating(x: Columns) -> list[Any]:
    return [-value if k % 2 else value for k, value in enumerate(x)]


def _sine_2(x: Columns) -> list[Any]:
    return _cosine_2(_alternating(x))[::-1]


def _sine_3(x: Columns) -> list[Any]:
    return _alternating(_cosine_3(x[::-1]))


def _sine_4(x: Columns) -> list[Any]:
    return _alternating(_cosine_4(x[::-1]))


#: Functions by type: of cosine transforms, then of sine transforms.
_KINDS = ((_cosine_1, _cosine_2, _cosine_3, _cosine_4), (_sine_1, _sine_2, _sine_3, _sine_4))
#: Type of the inverse of each type.
_INVERSE = (1, 3, 2, 4)


def _orthogonal(columns: Columns, sines: bool, kind: int, before: bool) -> list[Any]:
    """Scale entries at the ends before, or after, the transform, so that its matrix is orthogonal."""
    result = list(columns)
    ends = {(False, 1): (0, -1), (False, 2): () if before else (0,), (False, 3): (0,) if before else ()}
    ends |= {(True, 2): () if before else (-1,), (True, 3): (-1,) if before else ()}
    factor = math.sqrt(2.0) if before else math.sqrt(0.5)
    for end in ends.get((sines, kind), ()):
        result[end] = result[end] * factor
    return result


def _transform(
    tape: Tape, x: Any, kind: int, n: int | None, axis: int, norm: Any, orthogonal: Any, sines: bool, inverse: bool
) -> Any:
    if kind not in (1, 2, 3, 4):
        raise ValueError(f"Invalid type {kind}: types are 1, 2, 3 and 4")
    lines = padded(as_array(tape, x), n, axis)
    length = lines.shape[-1]
    if inverse:
        kind = _INVERSE[kind - 1]
    columns: Any = last_axis_entries(lines)
    scaled = norm == "ortho" if orthogonal is None else orthogonal
    if scaled:
        columns = _orthogonal(columns, sines, kind, True)
    columns = _KINDS[sines][kind - 1](columns)
    if scaled:
        columns = _orthogonal(columns, sines, kind, False)
    period = 2 * (length + (0 if kind != 1 else 1 if sines else -1))
    return np.moveaxis(stacked_columns(tape, columns), -1, axis) / divisor(norm, period, inverse)


def _enter_both(name: str, sines: bool, inverse: bool) -> None:
    """Register a transform along one axis, and the transform along several."""

    @borrows("scipy.fft", name)
    @by_name
    def one(
        tape: Tape,
        x: Any,
        type: int = 2,  # noqa: A002  # SciPy's name
        n: int | None = None,
        axis: int = -1,
        norm: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        return _transform(tape, x, type, n, axis, norm, orthogonalize, sines, inverse)

    @borrows("scipy.fft", f"{name}n")
    @by_name
    def several(tape: Tape, x: Any, s: Any = None, axes: Any = None, **options: Any) -> Any:
        x = as_array(tape, x)
        axes = range(x.ndim) if axes is None else np.atleast_1d(axes).tolist()
        lengths = [None] * len(axes) if s is None else np.atleast_1d(s).tolist()
        for axis, n in zip(axes, lengths, strict=True):
            x = one(tape, x, n=n, axis=axis, **options)
        return x


for _sines, _inverse in product((False, True), repeat=2):
    _enter_both(f"{'i' if _inverse else ''}{'dst' if _sines else 'dct'}", _sines, _inverse)


# Fourier transforms ---------------------------------------------------------------------------------------------------


def _enter(name: str, transform: Callable[..., Any]) -> None:
    @borrows("scipy.fft", name)
    def record(tape: Tape, x: Any, *arguments: Any, **keywords: Any) -> Any:
        for option in ("overwrite_x", "workers", "plan"):
            keywords.pop(option, None)
        return transform(tape, x, *arguments, **keywords)


for _name, _fourier in TRANSFORMS.items():
    _enter(_name, _fourier)


borrows("scipy.fft", "fftshift")(lambda tape, x, axes=None: np.fft.fftshift(x, axes))
borrows("scipy.fft", "ifftshift")(lambda tape, x, axes=None: np.fft.ifftshift(x, axes))


# Filters --------------------------------------------------------------------------------------------------------------


def _centred(tape: Tape, in1: Any, in2: Any, mode: str) -> Any:
    """Return a convolution of two vectors, cut as in `scipy.signal`: "same" is the middle, as long as the first one."""
    a, b = as_array(tape, in1), as_array(tape, in2)
    if a.ndim != 1 or b.ndim != 1:
        raise refuse("scipy.signal's convolutions are recorded of vectors; write those of images as sums of slices.")
    full = np.convolve(a, b)
    if mode != "same":
        return convolution_part(full, max(a.size, b.size), min(a.size, b.size), mode)
    start = (full.size - a.size) // 2
    return full[start : start + a.size]


borrows("scipy.signal", "convolve")(lambda tape, in1, in2, mode="full", method="auto": _centred(tape, in1, in2, mode))
# direct convolution: for few entries, sums of products take fewer operations than transforms
borrows("scipy.signal", "fftconvolve", "oaconvolve")(
    lambda tape, in1, in2, mode="full", axes=None: _centred(tape, in1, in2, mode)
)
borrows("scipy.signal", "correlate")(
    lambda tape, in1, in2, mode="full", method="auto": _centred(
        tape, in1, np.conjugate(as_array(tape, in2))[::-1], mode
    )
)


@borrows("scipy.signal", "lfilter")
def _lfilter(tape: Tape, b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Apply a filter with a rational transfer function, step by step in transposed direct form II."""
    b, a = (np.atleast_1d(as_array(tape, coefficients)) for coefficients in (b, a))
    lines = np.moveaxis(as_array(tape, x), axis, -1)
    if any(map(holds_complex, (b, a, lines))):
        raise refuse("scipy.signal.lfilter is recorded of real numbers.")
    delays = max(b.size, a.size) - 1
    forward, back = (
        [coefficients[k] / a[0] if k < coefficients.size else 0.0 for k in range(delays + 1)] for coefficients in (b, a)
    )
    if zi is None:
        state = [np.zeros(lines.shape[:-1]) for _ in range(delays)]
    else:
        state = [as_array(tape, zi)[..., k] for k in range(delays)]
    results = []
    for k in range(lines.shape[-1]):
        sample = lines[..., k]
        result = forward[0] * sample + (state[0] if delays else 0.0)
        following = [*state[1:], 0.0]
        state = [following[i] + forward[i + 1] * sample - back[i + 1] * result for i in range(delays)]
        results.append(result)
    filtered = np.moveaxis(np.stack(results, axis=-1), -1, axis)
    return filtered if zi is None else (filtered, np.stack(state, axis=-1))
