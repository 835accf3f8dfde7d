"""Discrete Fourier transforms of constant length, and NumPy's functions for them.

A transform takes a list of columns, one for each position along the axis: numbers, or arrays over all other axes.
Twiddle factors are constants; multiples of a quarter turn cost nothing, and odd multiples of an eighth two
multiplications.

* powers of two: split radix, with half the work for real input, and for real output (4·n·log₂(n) - 6·n + 8 operations
  for complex input, as published);
* lengths with coprime factors: the prime factor algorithm, which has no twiddle factors between them;
* powers of an odd prime: decimation in time; primes themselves: sums over symmetric pairs, O(n²).

Forward transforms have the factors exp(-2πi·jk/n). Results are not scaled.

If array operations are recorded as such, an axis with many entries is split into two axes of similar length. Each is
transformed for all positions of the other at once (Cooley and Tukey, 1965), by a product with the matrix of the
transform. This is a single operation on arrays, and so is its derivative. A fast algorithm has fewer operations on
numbers, but hundreds of operations on arrays, which a derivative would have to traverse.

References:
    P. Duhamel, H. Hollmann, Split radix FFT algorithm, Electronics Letters 20, 1984.
    I. Good, The interaction algorithm and practical Fourier analysis, J. R. Stat. Soc. B 20, 1958.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.complex_numbers import Pair, is_constant_zero, make_complex, parts_of
from accumulus.frontends.numpy.operands import depends, holds_complex
from accumulus.frontends.numpy.table import implements
from accumulus.tape import program as sizes

# Transforms of columns ------------------------------------------------------------------------------------------------

ZERO: Final = np.float64(0.0)
_EIGHTH: Final = math.sqrt(0.5)


@cache
def twiddle(k: int, n: int) -> tuple[float, float]:
    """Return cosine and sine of 2π·k/n, from an angle in the first eighth; exact for multiples of a quarter turn.

    >>> twiddle(3, 12), twiddle(6, 12)
    ((0.0, 1.0), (-1.0, 0.0))
    """
    k %= n
    if 8 * k > n:
        if 2 * k > n:
            cosine, sine = twiddle(n - k, n)
            return cosine, 0.0 - sine
        if 4 * k > n:
            cosine, sine = twiddle(n - 2 * k, 2 * n)
            return 0.0 - cosine, sine
        sine, cosine = twiddle(n - 4 * k, 4 * n)
        return cosine, sine
    angle = 2.0 * math.pi * k / n
    return math.cos(angle), math.sin(angle)


def smallest_prime(n: int) -> int:
    """Return the smallest prime that divides n."""
    return next((p for p in range(2, math.isqrt(n) + 1) if n % p == 0), n)


def _add(a: Pair, b: Pair) -> Pair:
    return Pair(a.re + b.re, a.im + b.im)


def _subtract(a: Pair, b: Pair) -> Pair:
    return Pair(a.re - b.re, a.im - b.im)


def _conjugate(z: Pair) -> Pair:
    return Pair(z.re, -z.im)


def turned(z: Pair, k: int, n: int) -> Pair:
    """Return z times exp(-2πi·k/n)."""
    quarters, rest = divmod(4 * (k % n), n)
    z = (z, Pair(z.im, -z.re), Pair(-z.re, -z.im), Pair(-z.im, z.re))[quarters]
    if not rest:
        return z
    if 2 * rest == n:
        return Pair((z.re + z.im) * _EIGHTH, (z.im - z.re) * _EIGHTH)
    cosine, sine = twiddle(rest, 4 * n)
    return Pair(z.re * cosine + z.im * sine, z.im * cosine - z.re * sine)


def _coprime_factors(n: int) -> tuple[int, int]:
    """Return the largest power of the smallest prime of n, and the rest."""
    p = smallest_prime(n)
    power = p
    while n % (power * p) == 0:
        power *= p
    return power, n // power


def _prime_factor_positions(a: int, b: int) -> list[list[int]]:
    """Return the input positions of the prime factor algorithm: (b·i + a·j) mod a·b, for i < a and j < b."""
    return [[(b * i + a * j) % (a * b) for j in range(b)] for i in range(a)]


def _frequency(i: int, j: int, a: int, b: int) -> int:
    """Return the frequency that is i mod a and j mod b."""
    return (i * b * pow(b, -1, a) + j * a * pow(a, -1, b)) % (a * b)


# Complex input -----------------------------------------------------------------------------------------------------


def complex_transform(x: Sequence[Pair]) -> list[Pair]:
    """Return the transform of complex columns."""
    n = len(x)
    if n == 1:
        return list(x)
    if n == 2:
        return [_add(x[0], x[1]), _subtract(x[0], x[1])]
    power, rest = _coprime_factors(n)
    if rest > 1:
        rows = [complex_transform([x[k] for k in places]) for places in _prime_factor_positions(power, rest)]
        result = list(x)
        for j in range(rest):
            for i, value in enumerate(complex_transform([row[j] for row in rows])):
                result[_frequency(i, j, power, rest)] = value
        return result
    p = smallest_prime(n)
    if p == 2:
        return _split_radix(x)
    if p == n:
        return _complex_prime(x)
    transforms = [complex_transform(x[r::p]) for r in range(p)]
    result = list(x)
    for k in range(n // p):
        values = _complex_prime([turned(transform[k], r * k, n) for r, transform in enumerate(transforms)])
        for q, value in enumerate(values):
            result[k + q * (n // p)] = value
    return result


def _split_radix(x: Sequence[Pair]) -> list[Pair]:
    n = len(x)
    even, first, third = (complex_transform(samples) for samples in (x[0::2], x[1::4], x[3::4]))
    result = list(x)
    quarter = n // 4
    for k in range(quarter):
        a, b = turned(first[k], k, n), turned(third[k], 3 * k, n)
        total, difference = _add(a, b), _subtract(a, b)
        result[k], result[k + 2 * quarter] = _add(even[k], total), _subtract(even[k], total)
        other, minus_i = even[k + quarter], Pair(difference.im, -difference.re)
        result[k + quarter], result[k + 3 * quarter] = _add(other, minus_i), _subtract(other, minus_i)
    return result


def _sum(terms: Sequence[Any]) -> Any:
    return sum(terms[1:], terms[0])


def _pairs(x: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return sums and differences of entries with the same distance from both ends, without the first entry."""
    half = range(1, len(x) // 2 + 1)
    return [x[j] + x[-j] for j in half], [x[j] - x[-j] for j in half]


def _weighted(values: Sequence[Any], k: int, n: int, part: int) -> Any:
    """Return Σ values[j - 1] times the cosine (part 0) or sine (part 1) of 2π·jk/n, from j = 1 on."""
    return _sum([value * twiddle(j * k, n)[part] for j, value in enumerate(values, 1)])


def _complex_prime(x: Sequence[Pair]) -> list[Pair]:
    n = len(x)
    re, im = ([z[part] for z in x] for part in (0, 1))
    (re_sums, re_differences), (im_sums, im_differences) = _pairs(re), _pairs(im)
    result = [Pair(_sum([re[0], *re_sums]), _sum([im[0], *im_sums]))] * n
    for k in range(1, n // 2 + 1):
        a = Pair(re[0] + _weighted(re_sums, k, n, 0), im[0] + _weighted(im_sums, k, n, 0))
        b = Pair(_weighted(im_differences, k, n, 1), -_weighted(re_differences, k, n, 1))
        result[k], result[n - k] = _add(a, b), _subtract(a, b)
    return result


# Real input --------------------------------------------------------------------------------------------------------


def real_transform(x: Sequence[Any]) -> list[Pair]:
    """Return the transform of real columns at the frequencies 0 … n/2; the remaining ones are conjugates."""
    n = len(x)
    if n == 1:
        return [Pair(x[0], ZERO)]
    if n == 2:
        return [Pair(x[0] + x[1], ZERO), Pair(x[0] - x[1], ZERO)]
    power, rest = _coprime_factors(n)
    if rest > 1:
        return _real_coprime(x, power, rest)
    p = smallest_prime(n)
    if p == 2:
        return _real_split_radix(x)
    if p == n:
        return _real_prime(x)
    transforms = [real_transform(x[r::p]) for r in range(p)]
    result: dict[int, Pair] = dict(enumerate(_real_prime([transform[0].re for transform in transforms])))
    step = n // p
    result = {k * step: value for k, value in result.items()}
    for k in range(1, step // 2 + 1):
        values = _complex_prime([turned(transform[k], r * k, n) for r, transform in enumerate(transforms)])
        for q, value in enumerate(values):
            _set(result, k + q * step, value, n)
    return [result[k] for k in range(n // 2 + 1)]


def _set(result: dict[int, Pair], k: int, value: Pair, n: int) -> None:
    """Store the value of a frequency up to n/2, or the conjugate at the opposite frequency."""
    if k <= n // 2:
        result[k] = value
    else:
        result[n - k] = _conjugate(value)


def _real_coprime(x: Sequence[Any], a: int, b: int) -> list[Pair]:
    rows = [real_transform([x[k] for k in places]) for places in _prime_factor_positions(a, b)]
    result: dict[int, Pair] = {}
    for j in range(b // 2 + 1):
        column = [row[j] for row in rows]
        if 2 * j in (0, b):  # this column is real
            values = enumerate(real_transform([z.re for z in column]))
        else:
            values = enumerate(complex_transform(column))
        for i, value in values:
            _set(result, _frequency(i, j, a, b), value, a * b)
    return [result[k] for k in range(a * b // 2 + 1)]


def _real_split_radix(x: Sequence[Any]) -> list[Pair]:
    n = len(x)
    quarter = n // 4
    even, first, third = (real_transform(samples) for samples in (x[0::2], x[1::4], x[3::4]))
    result: dict[int, Pair] = {}
    for k in range(quarter // 2 + 1):
        a, b = turned(first[k], k, n), turned(third[k], 3 * k, n)
        total, difference = _add(a, b), _subtract(a, b)
        result[k] = _add(even[k], total)
        result[2 * quarter - k] = _conjugate(_subtract(even[k], total))
        minus_i = Pair(difference.im, -difference.re)
        other = _conjugate(even[quarter - k])  # at k + quarter
        result[k + quarter] = _add(other, minus_i)
        if k:
            result[quarter - k] = _conjugate(_subtract(other, minus_i))
    result[0] = Pair(result[0].re, ZERO)
    result[2 * quarter] = Pair(result[2 * quarter].re, ZERO)
    return [result[k] for k in range(n // 2 + 1)]


def _real_prime(x: Sequence[Any]) -> list[Pair]:
    n = len(x)
    sums, differences = _pairs(x)
    result = [Pair(_sum([x[0], *sums]), ZERO)]
    for k in range(1, n // 2 + 1):
        result.append(Pair(x[0] + _weighted(sums, k, n, 0), -_weighted(differences, k, n, 1)))
    return result


# Real output -------------------------------------------------------------------------------------------------------


def real_inverse(x: Sequence[Pair], n: int) -> list[Any]:
    """Return the n real columns, times n, whose transform at the frequencies 0 … n/2 is `x`."""
    if n == 1:
        return [x[0].re]
    if n == 2:
        return [x[0].re + x[1].re, x[0].re - x[1].re]
    power, rest = _coprime_factors(n)
    if rest > 1:
        return _inverse_coprime(x, power, rest)
    p = smallest_prime(n)
    if p == 2:
        return _inverse_split_radix(x, n)
    if p == n:
        return _inverse_prime(x, n)
    whole = [_at(x, k, n) for k in range(n)]
    whole[0] = Pair(x[0].re, ZERO)
    return [z.re for z in complex_transform([_conjugate(z) for z in whole])]


def _at(x: Sequence[Pair], k: int, n: int) -> Pair:
    """Return the value at any frequency below n, from the values at 0 … n/2."""
    return x[k] if k <= n // 2 else _conjugate(x[n - k])


def _inverse_coprime(x: Sequence[Pair], a: int, b: int) -> list[Any]:
    n = a * b
    rows: list[list[Pair]] = [[] for _ in range(a)]
    for j in range(b // 2 + 1):
        column = [_at(x, _frequency(i, j, a, b), n) for i in range(a)]
        if 2 * j in (0, b):
            values = [Pair(value, ZERO) for value in real_inverse(column[: a // 2 + 1], a)]
        else:
            values = [_conjugate(z) for z in complex_transform([_conjugate(z) for z in column])]
        for row, value in zip(rows, values, strict=True):
            row.append(value)
    result: list[Any] = [None] * n
    for row, places in zip(rows, _prime_factor_positions(a, b), strict=True):
        for position, value in zip(places, real_inverse(row, b), strict=True):
            result[position] = value
    return result


def _inverse_split_radix(x: Sequence[Pair], n: int) -> list[Any]:
    quarter = n // 4
    even = [_add(x[k], _conjugate(x[2 * quarter - k])) for k in range(quarter + 1)]
    even[0] = Pair(x[0].re + x[2 * quarter].re, ZERO)
    even[quarter] = Pair(2.0 * x[quarter].re, ZERO)
    first, third = [], []
    for k in range(quarter // 2 + 1):
        opposite = _subtract(x[k], _conjugate(x[2 * quarter - k]))  # x at k less x at k + n/2
        if k == 0:
            opposite = Pair(x[0].re - x[2 * quarter].re, ZERO)
        beside = _subtract(x[k + quarter], _conjugate(x[quarter - k]))  # x at k + n/4 less x at k + 3n/4
        if k == 0:
            beside = Pair(ZERO, 2.0 * x[quarter].im)
        times_i = Pair(-beside.im, beside.re)
        first.append(turned(_add(opposite, times_i), -k, n))
        third.append(turned(_subtract(opposite, times_i), -3 * k, n))
    result: list[Any] = [None] * n
    result[0::2] = real_inverse(even, n // 2)
    result[1::4] = real_inverse(first, quarter)
    result[3::4] = real_inverse(third, quarter)
    return result


def _inverse_prime(x: Sequence[Pair], n: int) -> list[Any]:
    cosines, sines = [2.0 * z.re for z in x[1:]], [2.0 * z.im for z in x[1:]]
    result = [_sum([x[0].re, *cosines])] * n
    for j in range(1, n // 2 + 1):
        a, b = x[0].re + _weighted(cosines, j, n, 0), _weighted(sines, j, n, 1)
        result[j], result[n - j] = a - b, a + b
    return result


# Functions of arrays --------------------------------------------------------------------------------------------------

#: If array operations are recorded as such: transforms with more entries than the first number are products with
#: matrices; with more than the second, two products, if both factors of the length are at least the third. Products of
#: short transforms cost more to start than the operations, one product of a long transform takes more operations than
#: two, and short factors make small products.
LONGEST_COLUMNS: Final = 16
LONGEST_PRODUCT: Final = 128
SHORTEST_FACTOR: Final = 8
#: Normalisation modes → divisors of forward and inverse transforms with n entries.
NORMS: Final[dict[Any, tuple[Callable[[int], float], Callable[[int], float]]]] = {
    None: (lambda n: 1.0, float),
    "backward": (lambda n: 1.0, float),
    "ortho": (math.sqrt, math.sqrt),
    "forward": (float, lambda n: 1.0),
}


def divisor(norm: Any, n: int, inverse: bool) -> float:
    """Return the divisor of a transform with n entries.

    Raises:
        ValueError: for an unknown mode.
    """
    if norm not in NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return NORMS[norm][inverse](n)


def padded(a: Any, n: int | None, axis: int) -> Any:
    """Return `a` with the axis last, truncated or padded with zeros to n entries."""
    if n is not None and depends(n):
        raise refuse("The length of a Fourier transform must be a constant.")
    lines = np.moveaxis(a, axis, -1)
    length = lines.shape[-1] if n is None else int(n)
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    if length <= lines.shape[-1]:
        return lines[..., :length]
    return np.concatenate([lines, np.zeros((*lines.shape[:-1], length - lines.shape[-1]))], axis=-1)


def last_axis_entries(lines: Any) -> list[Any]:
    """Return the entries along the last axis, each an array over the other axes."""
    return [lines[..., k] for k in range(lines.shape[-1])]


def stacked_columns(tape: Any, columns: Sequence[Any]) -> Any:
    """Return columns stacked along a new last axis; complex if they are pairs."""
    if isinstance(columns[0], Pair):
        return make_complex(tape, *(stacked_columns(tape, [column[part] for column in columns]) for part in (0, 1)))
    shape = np.broadcast_shapes(*(np.shape(column) for column in columns))
    return as_array(tape, np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1))


def _is_split(tape: Any, lines: Any, n: int) -> bool:
    """Return True if the transform is recorded as matrix products instead of column by column."""
    size = lines.shape[-1]
    work = math.ceil(4 * lines.size * math.log2(size)) if size > 1 else 0
    is_split = tape.in_loops(lines.size if work > sizes.MOST_UNROLLED else 0, work) and tape.is_long
    if n > LONGEST_COLUMNS and not is_split and isinstance(tape, sizes.Program):
        tape.is_mixed = True
    return is_split and n > LONGEST_COLUMNS


def _pair_of(tape: Any, lines: Any) -> Pair:
    """Return the real and the imaginary part as arrays."""
    re, im = parts_of(tape, lines)
    return Pair(re, im if np.ndim(im) else np.zeros(re.shape))


def _forward(tape: Any, lines: Any, half: bool = False) -> Any:
    """Return the transform along the last axis; with `half`, only at the frequencies 0 … n/2."""
    n = lines.shape[-1]
    if _is_split(tape, lines, n):
        result = make_complex(tape, *_split(_pair_of(tape, lines)))
        return result[..., : n // 2 + 1] if half else result
    if holds_complex(lines):
        re, im = (last_axis_entries(part) for part in _pair_of(tape, lines))
        columns = complex_transform([Pair(*pair) for pair in zip(re, im, strict=True)])
    else:
        columns = real_transform(last_axis_entries(lines))
        columns += [Pair(columns[n - k].re, -columns[n - k].im) for k in range(n // 2 + 1, 0 if half else n)]
    return stacked_columns(tape, columns[: n // 2 + 1] if half else columns)


def _split(x: Pair) -> Pair:
    """Return the transform along the last axis, as one or two matrix products."""
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
    """Return the transform along one axis as a product with its matrix."""
    n = np.shape(x.re)[axis]
    cosines, sines = _waves(n, n, n)
    if is_constant_zero(x.im):
        matrix, parts = np.concatenate([cosines, -sines]), [x.re]
    else:
        matrix, parts = np.block([[cosines, sines], [-sines, cosines]]), [x.re, x.im]
    moved = [np.moveaxis(part, axis, 0) for part in parts]
    product = matrix @ np.concatenate([np.reshape(part, (n, -1)) for part in moved])
    results = (np.reshape(part, moved[0].shape) for part in (product[:n], product[n:]))
    return Pair(*(np.moveaxis(result, 0, axis) for result in results))


def _waves(rows: int, columns: int, n: int) -> tuple[Any, Any]:
    """Return cosines and sines of 2π·jk/n."""
    angles = 2.0 * np.pi / n * (np.outer(np.arange(rows), np.arange(columns)) % n)
    return np.cos(angles), np.sin(angles)


def inverse_of_half(tape: Any, lines: Any, n: int) -> Any:
    """Return the n real numbers, times n, whose transform at the frequencies 0 … n/2 is on the last axis."""
    re, im = _pair_of(tape, lines)
    if _is_split(tape, re, n):
        rest = slice((n - 1) // 2, 0, -1)
        edge = np.zeros((*re.shape[:-1], 1))
        inner = im[..., 1 : (n - 1) // 2 + 1]
        parts = [edge, -inner, edge, inner[..., ::-1]] if n % 2 == 0 else [edge, -inner, inner[..., ::-1]]
        return _split(Pair(np.concatenate([re, re[..., rest]], axis=-1), np.concatenate(parts, axis=-1))).re
    return stacked_columns(tape, real_inverse([Pair(re[..., k], im[..., k]) for k in range(n // 2 + 1)], n))


# One axis ----------------------------------------------------------------------------------------------------------


def fft(tape: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Return the transform along one axis."""
    lines = padded(as_array(tape, a), n, axis)
    return np.moveaxis(_forward(tape, lines), -1, axis) / divisor(norm, lines.shape[-1], False)


def ifft(tape: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Return the inverse transform along one axis."""
    lines = np.conjugate(padded(as_array(tape, a), n, axis))
    return np.moveaxis(np.conjugate(_forward(tape, lines)), -1, axis) / divisor(norm, lines.shape[-1], True)


def rfft(tape: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Return the transform of real numbers along one axis, at the frequencies 0 … n/2."""
    if holds_complex(a):
        raise TypeError("rfft takes real numbers, and the array is complex: use fft")
    lines = padded(as_array(tape, a), n, axis)
    length = lines.shape[-1]
    return np.moveaxis(_forward(tape, lines, half=True), -1, axis) / divisor(norm, length, False)


def irfft(tape: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Return the real numbers whose transform at the frequencies 0 … n/2 is `a`."""
    return _from_half(tape, as_array(tape, a), n, axis, norm, inverse=True)


def hfft(tape: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Return the real transform of numbers whose second half is the conjugate of the first."""
    return _from_half(tape, np.conjugate(as_array(tape, a)), n, axis, norm, inverse=False)


def _from_half(tape: Any, a: Any, n: int | None, axis: int, norm: Any, *, inverse: bool) -> Any:
    length = 2 * (a.shape[axis] - 1) if n is None else int(n)
    lines = padded(a, length // 2 + 1, axis)
    return np.moveaxis(inverse_of_half(tape, lines, length), -1, axis) / divisor(norm, length, inverse)


def ihfft(tape: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Return the inverse of `hfft`."""
    lines = padded(as_array(tape, a), n, axis)
    length = lines.shape[-1]
    half = np.conjugate(_forward(tape, lines, half=True))
    return np.moveaxis(half, -1, axis) / divisor(norm, length, True)


# Several axes ------------------------------------------------------------------------------------------------------


def _axes(a: Any, s: Any, axes: Any) -> list[tuple[int, int | None]]:
    """Return axes with the requested lengths."""
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(-np.ndim(a), 0)
    axes = [axes] if np.ndim(axes) == 0 else list(axes)
    lengths = [None] * len(axes) if s is None else [None if n == -1 else n for n in np.atleast_1d(s).tolist()]
    if len(lengths) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return list(zip(axes, lengths, strict=True))


def _over_axes(one: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transform over several axes, the last first."""

    def over(tape: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
        result = as_array(tape, a)
        for axis, n in reversed(_axes(result, s, axes)):
            result = one(tape, result, n, axis, norm)
        return result

    return over


def rfftn(tape: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Return the transform of real numbers over several axes, with only half of the frequencies of the last."""
    *rest, (axis, n) = _axes(as_array(tape, a), s, axes)
    result = rfft(tape, a, n, axis, norm)
    for axis, n in reversed(rest):
        result = fft(tape, result, n, axis, norm)
    return result


def irfftn(tape: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Return the inverse of `rfftn`."""
    result = as_array(tape, a)
    *rest, (axis, n) = _axes(result, s, axes)
    for other, length in rest:
        result = ifft(tape, result, length, other, norm)
    return irfft(tape, result, n, axis, norm)


def _plane(over: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transform over two axes, by default the last ones."""

    def plane(tape: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
        return over(tape, a, s, axes, norm)

    return plane


#: Recorder of each transform, which takes the tape, the array, length or shape, axis or axes, and norm.
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
    def of_numpy(tape: Any, a: Any, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        return record(tape, a, *arguments, **keywords)


for _name, _record in TRANSFORMS.items():
    _enter(_name, _record)
