"""The transforms of `numpy.fft`, by name: lengths, axes and norms are constants.

Where arrays are recorded as such, an axis of many entries is split into two of about as many, and each is transformed
for all places of the other at once (Cooley and Tukey, 1965), by a product with the matrix of the transform: that is one
operation on arrays, and so is its derivative. A fast algorithm has fewer operations on numbers, but hundreds on arrays,
through which all of a derivative would have to go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import check_length, refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.complex_numbers.values import Pair, is_zero, make_complex, parts_of
from accumulus.frontends.numpy.fourier.transforms import complex_transform, real_inverse, real_transform
from accumulus.frontends.numpy.operands import depends, holds_complex
from accumulus.frontends.numpy.table import implements
from accumulus.tape.blocks import BlockTape
from accumulus.tape.tape import Tape

__all__ = [
    "TRANSFORMS",
    "columns_of",
    "divisor",
    "forward",
    "inverse_of_half",
    "joined",
    "padded",
]

#: Where arrays are recorded as such, transforms of more entries are products with matrices; of more than the second
#: number they are two products, if both factors of the length are at least the third.
LONGEST_COLUMNS: Final = 16
LONGEST_PRODUCT: Final = 128
SHORTEST_FACTOR: Final = 8
#: Names of how results are scaled, with what forward and inverse transforms of n entries are divided by.
NORMS: Final[dict[Any, tuple[Callable[[int], float], Callable[[int], float]]]] = {
    None: (lambda n: 1.0, float),
    "backward": (lambda n: 1.0, float),
    "ortho": (math.sqrt, math.sqrt),
    "forward": (float, lambda n: 1.0),
}


def divisor(norm: Any, n: int, inverse: bool) -> float:
    """What the sums of a transform are divided by."""
    if norm not in NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return NORMS[norm][inverse](n)


def padded(a: Any, n: int | None, axis: int) -> Any:
    """`a` with the axis last, cut or filled with zeros to n entries."""
    if n is not None and depends(n):
        raise refuse("The length of a Fourier transform must be a constant.")
    lines = np.moveaxis(a, axis, -1)
    length = lines.shape[-1] if n is None else int(n)
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    if length <= lines.shape[-1]:
        return lines[..., :length]
    return np.concatenate([lines, np.zeros((*lines.shape[:-1], length - lines.shape[-1]))], axis=-1)


def columns_of(lines: Any) -> list[Any]:
    """The entries along the last axis, each with all other axes."""
    return [lines[..., k] for k in range(lines.shape[-1])]


def joined(tape: Tape, columns: Sequence[Any]) -> Any:
    """Columns as an array, side by side on the last axis; complex if they are pairs."""
    if isinstance(columns[0], Pair):
        return make_complex(tape, *(joined(tape, [column[part] for column in columns]) for part in (0, 1)))
    shape = np.broadcast_shapes(*(np.shape(column) for column in columns))
    return as_array(tape, np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1))


def _check(lines: Any) -> None:
    """Count what is going to be written out."""
    n = lines.shape[-1]
    check_length(math.ceil(4 * lines.size * math.log2(n)) if n > 1 else 0)


def _parts(tape: Tape, lines: Any) -> Pair:
    """Real and imaginary part, both arrays."""
    re, im = parts_of(tape, lines)
    return Pair(re, im if np.ndim(im) else np.zeros(re.shape))


def forward(tape: Tape, lines: Any, half: bool = False) -> Any:
    """The transform along the last axis, or the half of it at the frequencies 0 … n/2."""
    n = lines.shape[-1]
    if isinstance(tape, BlockTape) and n > LONGEST_COLUMNS:
        result = make_complex(tape, *_split(_parts(tape, lines)))
        return result[..., : n // 2 + 1] if half else result
    _check(lines)
    if holds_complex(lines):
        re, im = (columns_of(part) for part in _parts(tape, lines))
        columns = complex_transform([Pair(*pair) for pair in zip(re, im, strict=True)])
    else:
        columns = real_transform(columns_of(lines))
        columns += [Pair(columns[n - k].re, -columns[n - k].im) for k in range(n // 2 + 1, 0 if half else n)]
    return joined(tape, columns[: n // 2 + 1] if half else columns)


def _split(x: Pair) -> Pair:
    """The transform along the last axis as operations on arrays."""
    *stack, n = np.shape(x.re)
    first = next((k for k in range(math.isqrt(n), SHORTEST_FACTOR - 1, -1) if n % k == 0), 0)
    if n <= LONGEST_PRODUCT or not first:
        return _product(x, -1)
    re, im = (np.reshape(part, (*stack, first, n // first)) for part in x)
    re, im = _product(Pair(re, im), -2)
    cosines, sines = _waves(first, n // first, n)
    result = _product(Pair(re * cosines + im * sines, im * cosines - re * sines), -1)
    return Pair(*(np.reshape(np.swapaxes(part, -1, -2), (*stack, n)) for part in result))


def _product(x: Pair, axis: int) -> Pair:
    """The transform along one axis as a product with its matrix."""
    n = np.shape(x.re)[axis]
    cosines, sines = _waves(n, n, n)
    if is_zero(x.im):
        matrix, parts = np.concatenate([cosines, -sines]), [x.re]
    else:
        matrix, parts = np.block([[cosines, sines], [-sines, cosines]]), [x.re, x.im]
    moved = [np.moveaxis(part, axis, 0) for part in parts]
    product = matrix @ np.concatenate([np.reshape(part, (n, -1)) for part in moved])
    results = (np.reshape(part, moved[0].shape) for part in (product[:n], product[n:]))
    return Pair(*(np.moveaxis(result, 0, axis) for result in results))


def _waves(rows: int, columns: int, n: int) -> tuple[Any, Any]:
    """Cosines and sines of 2π·jk/n."""
    angles = 2.0 * np.pi / n * (np.outer(np.arange(rows), np.arange(columns)) % n)
    return np.cos(angles), np.sin(angles)


def inverse_of_half(tape: Tape, lines: Any, n: int) -> Any:
    """The n real numbers whose transform is given for the frequencies 0 … n/2 on the last axis, times n."""
    re, im = _parts(tape, lines)
    if isinstance(tape, BlockTape) and n > LONGEST_COLUMNS:
        rest = slice((n - 1) // 2, 0, -1)
        edge = np.zeros((*re.shape[:-1], 1))
        inner = im[..., 1 : (n - 1) // 2 + 1]
        parts = [edge, -inner, edge, inner[..., ::-1]] if n % 2 == 0 else [edge, -inner, inner[..., ::-1]]
        return _split(Pair(np.concatenate([re, re[..., rest]], axis=-1), np.concatenate(parts, axis=-1))).re
    _check(lines)
    return joined(tape, real_inverse([Pair(re[..., k], im[..., k]) for k in range(n // 2 + 1)], n))


# One axis ----------------------------------------------------------------------------------------------------------


def fft(tape: Tape, a: Any, n: int | None = None, axis: int = -1, norm: Any = None, **workers: Any) -> Any:
    """The transform along one axis."""
    lines = padded(as_array(tape, a), n, axis)
    return np.moveaxis(forward(tape, lines), -1, axis) / divisor(norm, lines.shape[-1], False)


def ifft(tape: Tape, a: Any, n: int | None = None, axis: int = -1, norm: Any = None, **workers: Any) -> Any:
    """The inverse transform along one axis."""
    lines = np.conjugate(padded(as_array(tape, a), n, axis))
    return np.moveaxis(np.conjugate(forward(tape, lines)), -1, axis) / divisor(norm, lines.shape[-1], True)


def rfft(tape: Tape, a: Any, n: int | None = None, axis: int = -1, norm: Any = None, **workers: Any) -> Any:
    """The first half of the transform of real numbers along one axis."""
    if holds_complex(a):
        raise TypeError("rfft takes real numbers, complex ones were given: use fft")
    lines = padded(as_array(tape, a), n, axis)
    length = lines.shape[-1]
    return np.moveaxis(forward(tape, lines, half=True), -1, axis) / divisor(norm, length, False)


def irfft(tape: Tape, a: Any, n: int | None = None, axis: int = -1, norm: Any = None, **workers: Any) -> Any:
    """The real numbers of which the first half of the transform is given."""
    a = as_array(tape, a)
    length = 2 * (a.shape[axis] - 1) if n is None else int(n)
    lines = padded(a, length // 2 + 1, axis)
    return np.moveaxis(inverse_of_half(tape, lines, length), -1, axis) / divisor(norm, length, True)


def hfft(tape: Tape, a: Any, n: int | None = None, axis: int = -1, norm: Any = None, **workers: Any) -> Any:
    """The transform of numbers whose second half are the conjugates of the first: real."""
    a = np.conjugate(as_array(tape, a))
    length = 2 * (a.shape[axis] - 1) if n is None else int(n)
    lines = padded(a, length // 2 + 1, axis)
    return np.moveaxis(inverse_of_half(tape, lines, length), -1, axis) / divisor(norm, length, False)


def ihfft(tape: Tape, a: Any, n: int | None = None, axis: int = -1, norm: Any = None, **workers: Any) -> Any:
    """The inverse of `hfft`."""
    lines = padded(as_array(tape, a), n, axis)
    length = lines.shape[-1]
    half = np.conjugate(forward(tape, lines, half=True))
    return np.moveaxis(half, -1, axis) / divisor(norm, length, True)


# Several axes ------------------------------------------------------------------------------------------------------


def _axes(a: Any, s: Any, axes: Any) -> list[tuple[int, int | None]]:
    """Axes with the lengths that are asked for."""
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(-np.ndim(a), 0)
    axes = [axes] if np.ndim(axes) == 0 else list(axes)
    lengths = [None] * len(axes) if s is None else [None if n == -1 else n for n in np.atleast_1d(s).tolist()]
    if len(lengths) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return list(zip(axes, lengths, strict=True))


def _over_axes(one: Callable[..., Any]) -> Callable[..., Any]:
    """A transform over several axes, the last first."""

    def over(tape: Tape, a: Any, s: Any = None, axes: Any = None, norm: Any = None, **workers: Any) -> Any:
        result = as_array(tape, a)
        for axis, n in reversed(_axes(result, s, axes)):
            result = one(tape, result, n, axis, norm)
        return result

    return over


def rfftn(tape: Tape, a: Any, s: Any = None, axes: Any = None, norm: Any = None, **workers: Any) -> Any:
    """The transform of real numbers over several axes, of which the last is halved."""
    *others, (axis, n) = _axes(as_array(tape, a), s, axes)
    result = rfft(tape, a, n, axis, norm)
    for axis, n in reversed(others):
        result = fft(tape, result, n, axis, norm)
    return result


def irfftn(tape: Tape, a: Any, s: Any = None, axes: Any = None, norm: Any = None, **workers: Any) -> Any:
    """The inverse of `rfftn`."""
    result = as_array(tape, a)
    *others, (axis, n) = _axes(result, s, axes)
    for other, length in others:
        result = ifft(tape, result, length, other, norm)
    return irfft(tape, result, n, axis, norm)


def _plane(over: Callable[..., Any]) -> Callable[..., Any]:
    """A transform over two axes, the last ones unless others are given."""

    def plane(tape: Tape, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, **workers: Any) -> Any:
        return over(tape, a, s, axes, norm)

    return plane


#: What records each transform: tape, array, length or shape, axis or axes, norm.
TRANSFORMS: Final[dict[str, Callable[..., Any]]] = {
    **{function.__name__: function for function in (fft, ifft, rfft, irfft, hfft, ihfft, rfftn, irfftn)},
    "fftn": _over_axes(fft),
    "ifftn": _over_axes(ifft),
    "fft2": _plane(_over_axes(fft)),
    "ifft2": _plane(_over_axes(ifft)),
    "rfft2": _plane(rfftn),
    "irfft2": _plane(irfftn),
}


def _enter(name: str, record: Callable[..., Any]) -> None:
    @implements(getattr(np.fft, name))
    def of_numpy(tape: Tape, a: Any, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        return record(tape, a, *arguments, **keywords)


for _name, _record in TRANSFORMS.items():
    _enter(_name, _record)
