"""Fast Fourier transforms, written out for one length.

A transform is of a list of columns, one for each place along the axis: numbers or arrays over all other axes. Twiddle
factors are constants, those of quarter turns cost nothing and those of eighths two multiplications.

* powers of two: split radix, with half the work for real input, and for real output (4·n·log₂(n) - 6·n + 8 operations
  for complex input, as published);
* lengths with coprime factors: the prime factor algorithm, which has no twiddle factors between them;
* powers of an odd prime: decimation in time; primes themselves: sums over symmetric pairs, O(n²).

Forward transforms have the factors exp(-2πi·jk/n). Nothing is scaled.

References:
    P. Duhamel, H. Hollmann, Split radix FFT algorithm, Electronics Letters 20, 1984.
    I. Good, The interaction algorithm and practical Fourier analysis, J. R. Stat. Soc. B 20, 1958.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from accumulus.frontends.numpy.complex_numbers.values import Pair

__all__ = ["complex_transform", "real_inverse", "real_transform", "smallest_prime", "turned", "twiddle"]

ZERO: Final = np.float64(0.0)
_EIGHTH: Final = math.sqrt(0.5)


@cache
def twiddle(k: int, n: int) -> tuple[float, float]:
    """Cosine and sine of 2π·k/n, rounded from an angle in the first eighth; exact where they can be.

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
    """The smallest prime that divides n."""
    return next((p for p in range(2, math.isqrt(n) + 1) if n % p == 0), n)


def _add(a: Pair, b: Pair) -> Pair:
    return Pair(a.re + b.re, a.im + b.im)


def _subtract(a: Pair, b: Pair) -> Pair:
    return Pair(a.re - b.re, a.im - b.im)


def _conjugate(z: Pair) -> Pair:
    return Pair(z.re, -z.im)


def turned(z: Pair, k: int, n: int) -> Pair:
    """z times exp(-2πi·k/n)."""
    quarters, rest = divmod(4 * (k % n), n)
    z = (z, Pair(z.im, -z.re), Pair(-z.re, -z.im), Pair(-z.im, z.re))[quarters]
    if not rest:
        return z
    if 2 * rest == n:
        return Pair((z.re + z.im) * _EIGHTH, (z.im - z.re) * _EIGHTH)
    cosine, sine = twiddle(rest, 4 * n)
    return Pair(z.re * cosine + z.im * sine, z.im * cosine - z.re * sine)


def _coprime_parts(n: int) -> tuple[int, int]:
    """The largest power of the smallest prime of n, and the rest."""
    p = smallest_prime(n)
    power = p
    while n % (power * p) == 0:
        power *= p
    return power, n // power


def _places(a: int, b: int) -> list[list[int]]:
    """Where the input of the prime factor algorithm comes from: for i < a and j < b, (b·i + a·j) mod a·b."""
    return [[(b * i + a * j) % (a * b) for j in range(b)] for i in range(a)]


def _frequency(i: int, j: int, a: int, b: int) -> int:
    """The frequency that is i mod a and j mod b."""
    return (i * b * pow(b, -1, a) + j * a * pow(a, -1, b)) % (a * b)


# Complex input -----------------------------------------------------------------------------------------------------


def complex_transform(x: Sequence[Pair]) -> list[Pair]:
    """The transform of complex columns."""
    n = len(x)
    if n == 1:
        return list(x)
    if n == 2:
        return [_add(x[0], x[1]), _subtract(x[0], x[1])]
    power, rest = _coprime_parts(n)
    if rest > 1:
        rows = [complex_transform([x[k] for k in places]) for places in _places(power, rest)]
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
    parts = [complex_transform(x[r::p]) for r in range(p)]
    result = list(x)
    for k in range(n // p):
        values = _complex_prime([turned(part[k], r * k, n) for r, part in enumerate(parts)])
        for q, value in enumerate(values):
            result[k + q * (n // p)] = value
    return result


def _split_radix(x: Sequence[Pair]) -> list[Pair]:
    n = len(x)
    even, first, third = (complex_transform(part) for part in (x[0::2], x[1::4], x[3::4]))
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
    """Sums and differences of the entries that are equally far from both ends, but for the first."""
    half = range(1, len(x) // 2 + 1)
    return [x[j] + x[-j] for j in half], [x[j] - x[-j] for j in half]


def _weighted(values: Sequence[Any], k: int, n: int, part: int) -> Any:
    """The sum of values times cosines (part 0) or sines (1) of 2π·jk/n, from j = 1 on."""
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
    """The transform of real columns at the frequencies 0 … n/2; those beyond are their conjugates."""
    n = len(x)
    if n == 1:
        return [Pair(x[0], ZERO)]
    if n == 2:
        return [Pair(x[0] + x[1], ZERO), Pair(x[0] - x[1], ZERO)]
    power, rest = _coprime_parts(n)
    if rest > 1:
        return _real_coprime(x, power, rest)
    p = smallest_prime(n)
    if p == 2:
        return _real_split_radix(x)
    if p == n:
        return _real_prime(x)
    parts = [real_transform(x[r::p]) for r in range(p)]
    result: dict[int, Pair] = dict(enumerate(_real_prime([part[0].re for part in parts])))
    step = n // p
    result = {k * step: value for k, value in result.items()}
    for k in range(1, step // 2 + 1):
        values = _complex_prime([turned(part[k], r * k, n) for r, part in enumerate(parts)])
        for q, value in enumerate(values):
            _set(result, k + q * step, value, n)
    return [result[k] for k in range(n // 2 + 1)]


def _set(result: dict[int, Pair], k: int, value: Pair, n: int) -> None:
    """Enter the value at a frequency, or at its opposite one if that is the smaller."""
    if k <= n // 2:
        result[k] = value
    else:
        result[n - k] = _conjugate(value)


def _real_coprime(x: Sequence[Any], a: int, b: int) -> list[Pair]:
    rows = [real_transform([x[k] for k in places]) for places in _places(a, b)]
    result: dict[int, Pair] = {}
    for j in range(b // 2 + 1):
        column = [row[j] for row in rows]
        if 2 * j in (0, b):  # which is real
            values = enumerate(real_transform([z.re for z in column]))
        else:
            values = enumerate(complex_transform(column))
        for i, value in values:
            _set(result, _frequency(i, j, a, b), value, a * b)
    return [result[k] for k in range(a * b // 2 + 1)]


def _real_split_radix(x: Sequence[Any]) -> list[Pair]:
    n = len(x)
    quarter = n // 4
    even, first, third = (real_transform(part) for part in (x[0::2], x[1::4], x[3::4]))
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
    """The n real columns of which `x` is the transform at the frequencies 0 … n/2, times n."""
    if n == 1:
        return [x[0].re]
    if n == 2:
        return [x[0].re + x[1].re, x[0].re - x[1].re]
    power, rest = _coprime_parts(n)
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
    """The value at any frequency below n, by that at 0 … n/2."""
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
    for row, places in zip(rows, _places(a, b), strict=True):
        for place, value in zip(places, real_inverse(row, b), strict=True):
            result[place] = value
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
