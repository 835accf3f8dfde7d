"""Compiled evaluation of a tape in finite fields, and of how its values are rounded.

**Residues.** At each point, a value is an element a + b·i of the field with p² elements, i² = -1, where the prime p is
3 modulo 4. Sums, products, quotients, whole powers and square roots are computed; functions are random residues of
their arguments, with their symmetries; sine and cosine of an argument are 2t/(1 + t²) and (1 - t²)/(1 + t²) with a
random t. The outcome of a comparison is a random number c, and a select is c·a + (1 - c)·b.

**Doubles.** Beside them, samples of doubles tell how values are rounded: arithmetic is that of the processor, and a
function is a random double of the bits of its arguments. Comparisons and jumps depend on these bits.

A hundred nanoseconds an operation at most, if it is no root.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers, State
from accumulus.native.words import bits_of, scattered, shifted_right, wrapped
from accumulus.rewriting.compiled.fields import (
    UNDEFINED,
    difference,
    inverse,
    is_turned,
    minus,
    plus,
    product,
    raised,
    residue_of,
    times,
)
from accumulus.tape.compiled.passes_kernel import ARITY, COMMUTATIVE, EVEN, JUMPS, ODD
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, POWER, SELECT, SUBTRACT

#: Property of operations whose result is a truth value, beside those of `passes_kernel`.
TRUTH: Final = 1 << 16
#: Instead of the place of a root's factor: the root is there, since that of a constant is never negative.
KNOWN: Final = -1
#: Largest whole part of an exponent that is computed; larger powers are functions.
LARGEST_POWER: Final = 1 << 16

#: Number of points whose residues decide comparisons, besides bits: of wrong identities with roots, each point shows
#: one of two. More take time.
DECIDING: Final = 32

SQRT: Final = BY_NAME["sqrt"].code
SIN, COS = BY_NAME["sin"].code, BY_NAME["cos"].code
ATTACH: Final = BY_NAME["attach"].code
NOT, AND, OR = BY_NAME["logical_not"].code, BY_NAME["logical_and"].code, BY_NAME["logical_or"].code
EQUAL, NOT_EQUAL = BY_NAME["equal"].code, BY_NAME["not_equal"].code
#: Exponentials, which are 1 at 0, and logarithms, which are 0 at 1.
EXP, EXP2, COSH = BY_NAME["exp"].code, BY_NAME["exp2"].code, BY_NAME["cosh"].code
LOG, LOG2, LOG10 = BY_NAME["log"].code, BY_NAME["log2"].code, BY_NAME["log10"].code


class ExactState(State):
    """A tape at points and samples: the value of a reference at a point is at reference · points + point.

    Constants follow the operations in reverse order: reference -1 is the last place. Then come roots that are needed
    apart.
    """

    points: int  # number of points in finite fields
    samples: int  # number of points of doubles; 0 if comparisons depend on residues
    places: int  # number of inputs, operations and constants
    rows: Annotated[Integers, Axes(4)]  # code and three arguments of each input and operation, (references, 4)
    properties: Integers  # properties of operations, by code; see `passes_kernel`
    is_truth: Integers  # 1 for references and constants that are truth values, (places,)
    begin: int  # first operation
    end: int
    # (points,)
    primes: Integers
    reciprocals: Floats  # of the primes
    seeds: Integers  # of the random functions
    # for the value of each place: the place of its root where that is needed apart, else 0; the places of the roots of
    # two factors, the second negative for a divisor, if the root is theirs, else 0, or first `KNOWN`; (places,)
    root_places: Integers
    first_roots: Integers
    second_roots: Integers
    # the same for angles: the place of the tangent of half the angle; the places of those of its terms, negative for
    # negative ones, the second 0 if there is none
    angle_places: Integers
    first_terms: Integers
    second_terms: Integers
    # values, (places · points,); `UNDEFINED` where there is none
    real: Integers
    imaginary: Integers
    missing: Integers  # result: number of roots that do not exist at each point, (points,)
    lacking: Integers  # result: 1 where a root that a value needs does not exist, as `real`
    doubles: Floats  # values at the samples, (places · samples,)
    keys: Integers  # result: what outcomes of comparisons and jumps depend on, (places,)
    # keys of comparisons whose outcomes are given, sorted, and these outcomes, 0 or 1, (known · points,)
    known: Integers
    known_count: int
    outcomes: Integers
    constants: Floats  # in reverse order


class ResiduesState(State):
    """Doubles, and their residues."""

    numbers: Floats
    count: int
    # (points,)
    primes: Integers
    reciprocals: Floats  # of the primes
    points: int
    results: Integers  # (count · points,)


# Doubles -------------------------------------------------------------------------------------------------------------


@compiled
def _place(state: ExactState, reference: int) -> int:
    """Return the row of a reference."""
    return reference if reference >= 0 else reference + state.places


@compiled
def _bits(x: float) -> int:
    """Return the bits of a double; zeros of both signs have the same, and so have all that are no numbers."""
    return bits_of(x + 0.0) if x == x else -1  # noqa: PLR0124


@compiled
def _random_double(code: int, x: float, y: float, z: float) -> float:
    """Return a double from 0.5 to 1 that depends on an operation and the bits of three others."""
    key = scattered(scattered(code) ^ _bits(x))
    key = scattered(scattered(key ^ wrapped(3 * _bits(y))) ^ wrapped(5 * _bits(z)))
    return 0.5 + float(shifted_right(key, 12)) * 2.0**-53


@compiled
def _rounded_function(code: int, properties: int, x: float, y: float, z: float) -> float:
    """Return a random double for a function, with its symmetries."""
    arity, sign = properties & ARITY, 1.0
    if properties & COMMUTATIVE and y < x:
        x, y = y, x
    if code in (AND, OR) and x == y:
        return x
    if code == SELECT:
        if y == z:
            return y
        # the negative of both branches is selected with the other sign
        sign = -1.0 if y < 0.0 or (y == 0.0 and z < 0.0) else 1.0
        return sign * _random_double(code, x, sign * y, sign * z)
    if arity == 1 and x < 0.0 and properties & (ODD | EVEN):
        x, sign = -x, -1.0 if properties & ODD else 1.0
    if x == 0.0 and arity == 1 and properties & ODD:
        return 0.0
    return sign * _random_double(code, x, y, z)


@compiled
def _round(state: ExactState, r: int, code: int, q: int) -> float:
    """Return the value of an operation at a sample."""
    samples, properties = state.samples, state.properties[code]
    arity = properties & ARITY
    x: float = state.doubles[_place(state, state.rows[r, 1]) * samples + q]
    y: float = state.doubles[_place(state, state.rows[r, 2]) * samples + q] if arity > 1 else 0.0
    z: float = state.doubles[_place(state, state.rows[r, 3]) * samples + q] if arity > 2 else 0.0
    if code == ADD:
        x += y
    elif code == SUBTRACT:
        x -= y
    elif code == MULTIPLY:
        x *= y
    elif code == DIVIDE:
        x /= y
    elif code == NEGATIVE:
        x = -x
    elif code == NOT:
        x = 1.0 - x
    elif code != ATTACH:
        x = _rounded_function(code, properties, x, y, z)
    return x


# Values --------------------------------------------------------------------------------------------------------------


@compiled
def _put(state: ExactState, at: int, real: int, imaginary: int) -> None:
    """Store a value at a point."""
    state.real[at] = real
    state.imaginary[at] = imaginary


@compiled
def _chance(state: ExactState, p: int, code: int, a: int, b: int, c: int, d: int) -> int:
    """Return a random residue that depends on an operation and two values."""
    x = scattered(wrapped(state.seeds[p] + code))
    x = scattered(x ^ a)
    x = scattered(x ^ wrapped(3 * b))
    x = scattered(x ^ c)
    x = scattered(x ^ wrapped(5 * d))
    chance: int = shifted_right(x, 12) % state.primes[p]
    return chance


@compiled
def _odd(state: ExactState, p: int, code: int, a: int, b: int) -> int:
    """Return the value of an odd function; of a value and its negative, it is computed of the one that comes first."""
    prime = state.primes[p]
    if a == 0 and b == 0:
        return 0
    if is_turned(a, b, prime):
        return minus(_chance(state, p, code, minus(a, prime), minus(b, prime), 0, 0), prime)
    return _chance(state, p, code, a, b, 0, 0)


@compiled
def _multiply(state: ExactState, at: int, i: int, j: int, p: int) -> None:
    """Write the product of two values."""
    a, b, c, d = state.real[i], state.imaginary[i], state.real[j], state.imaginary[j]
    if a < 0 or c < 0:
        _put(state, at, UNDEFINED, 0)
        return
    real, imaginary = product(a, b, c, d, state.primes[p], state.reciprocals[p])
    _put(state, at, real, imaginary)


@compiled
def _invert(state: ExactState, at: int, i: int, p: int) -> None:
    """Write the reciprocal of a value."""
    a, b = state.real[i], state.imaginary[i]
    if a < 0 or (a == 0 and b == 0):
        _put(state, at, UNDEFINED, 0)
        return
    real, imaginary = inverse(a, b, state.primes[p], state.reciprocals[p])
    _put(state, at, real, imaginary)


@compiled
def _root(state: ExactState, at: int, i: int, p: int) -> None:
    """Write a square root of a value, one of both at random; a random residue if the field has none."""
    prime, reciprocal = state.primes[p], state.reciprocals[p]
    a, b = state.real[i], state.imaginary[i]
    if a < 0:
        _put(state, at, UNDEFINED, 0)
        return
    half, chance = (prime + 1) // 4, _chance(state, p, SQRT, a, b, 0, 0)
    is_other = (chance >> 20) & 1
    if b == 0:
        root = raised(a, half, prime, reciprocal)
        is_residue = times(root, root, prime, reciprocal) == a
        root = minus(root, prime) if is_other else root
        if is_residue:
            _put(state, at, root, 0)
        else:  # -a is a square, since -1 is none
            _put(state, at, 0, root)
        return
    norm = plus(times(a, a, prime, reciprocal), times(b, b, prime, reciprocal), prime)
    size = raised(norm, half, prime, reciprocal)
    if times(size, size, prime, reciprocal) != norm:
        state.missing[p] += 1
        state.lacking[at] = 1
        _put(state, at, chance, 0)
        return
    two = (prime + 1) // 2
    square = times(plus(a, size, prime), two, prime, reciprocal)
    root = raised(square, half, prime, reciprocal)
    if times(root, root, prime, reciprocal) != square:
        square = times(difference(a, size, prime), two, prime, reciprocal)
        root = raised(square, half, prime, reciprocal)
    other = times(times(b, two, prime, reciprocal), raised(root, prime - 2, prime, reciprocal), prime, reciprocal)
    if is_other:
        root, other = minus(root, prime), minus(other, prime)
    _put(state, at, root, other)


@compiled
def _roots(state: ExactState, place: int) -> None:
    """Write the root of a value where it is needed apart: a root of its own, or that of two factors."""
    points, root = state.points, state.root_places[place]
    first, second = state.first_roots[place], state.second_roots[place]
    if first == KNOWN:
        return
    for p in range(points):
        at = root * points + p
        if first == 0:
            _root(state, at, place * points + p, p)
        elif second > 0:
            _multiply(state, at, first * points + p, second * points + p, p)
            state.lacking[at] = state.lacking[first * points + p] | state.lacking[second * points + p]
        else:
            _invert(state, at, -second * points + p, p)
            _multiply(state, at, first * points + p, at, p)
            state.lacking[at] = state.lacking[first * points + p] | state.lacking[-second * points + p]


@compiled
def _take_root(state: ExactState, at: int, i: int, p: int) -> None:
    """Write the square root of a value, which may have been needed before."""
    root = state.root_places[i // state.points]
    if root == 0:
        _root(state, at, i, p)
    else:
        _put(state, at, state.real[root * state.points + p], state.imaginary[root * state.points + p])
        state.lacking[at] |= state.lacking[root * state.points + p]


@compiled
def _whole_power(state: ExactState, at: int, i: int, exponent: int, p: int) -> None:
    """Write a value to a whole power."""
    base_real, base_imaginary = state.real[i], state.imaginary[i]
    if base_real < 0:
        _put(state, at, UNDEFINED, 0)
        return
    prime, reciprocal = state.primes[p], state.reciprocals[p]
    real, imaginary, n = 1, 0, abs(exponent)
    while n > 0:
        if n & 1:
            real, imaginary = product(real, imaginary, base_real, base_imaginary, prime, reciprocal)
        base_real, base_imaginary = product(base_real, base_imaginary, base_real, base_imaginary, prime, reciprocal)
        n >>= 1
    _put(state, at, real, imaginary)
    if exponent < 0:
        _invert(state, at, at, p)


@compiled
def _multiply_by(state: ExactState, at: int, factor: int, p: int) -> None:
    """Multiply a value by a residue."""
    prime, reciprocal = state.primes[p], state.reciprocals[p]
    if state.real[at] >= 0:
        real = times(state.real[at], factor, prime, reciprocal)
        _put(state, at, real, times(state.imaginary[at], factor, prime, reciprocal))


@compiled
def _power(state: ExactState, at: int, i: int, exponent: float, p: int) -> None:
    """Write a value to a power: its whole part, times a root or a function of the fractional part of the exponent."""
    if not abs(exponent) <= LARGEST_POWER:
        factor = _chance(state, p, POWER, state.real[i], state.imaginary[i], bits_of(exponent), 0)
        _put(state, at, UNDEFINED if state.real[i] < 0 else factor, 0)
        return
    whole = int(exponent)
    # exact, since both have the same sign
    rest = exponent - float(whole)
    if rest == 0.0:
        _whole_power(state, at, i, whole, p)
    elif abs(rest) == 0.5:
        # x ** (n + 1/2) is a power of the root of x
        _take_root(state, at, i, p)
        _whole_power(state, at, at, 2 * whole + (1 if rest > 0.0 else -1), p)
    else:
        a, b = state.real[i], state.imaginary[i]
        factor = UNDEFINED if a < 0 else _chance(state, p, POWER, a, b, bits_of(rest), 0)
        _whole_power(state, at, i, whole, p)
        if factor >= 0:
            _multiply_by(state, at, factor, p)


@compiled
def _circle(state: ExactState, at: int, i: int, code: int, p: int) -> None:
    """Write the sine or cosine of a value: a point of the unit circle."""
    a, b = state.real[i], state.imaginary[i]
    if a < 0:
        _put(state, at, UNDEFINED, 0)
        return
    prime, reciprocal = state.primes[p], state.reciprocals[p]
    angle = state.angle_places[i // state.points]
    t = state.real[angle * state.points + p] if angle else _odd(state, p, SIN, a, b)
    if t < 0:
        _put(state, at, UNDEFINED, 0)
        return
    square = times(t, t, prime, reciprocal)
    above = plus(t, t, prime) if code == SIN else difference(1, square, prime)
    # 1 + t² is not 0, since -1 is no square
    below = raised(plus(1, square, prime), prime - 2, prime, reciprocal)
    _put(state, at, times(above, below, prime, reciprocal), 0)


@compiled
def _angle(state: ExactState, place: int) -> None:
    """Write the tangent of half an angle, or of a sum of angles."""
    points, first, second = state.points, state.first_terms[place], state.second_terms[place]
    for p in range(points):
        at, prime, reciprocal = state.angle_places[place] * points + p, state.primes[p], state.reciprocals[p]
        i = place * points + p
        if first == 0:
            value = UNDEFINED if state.real[i] < 0 else _odd(state, p, SIN, state.real[i], state.imaginary[i])
            _put(state, at, value, 0)
            continue
        a = state.real[abs(first) * points + p]
        b = state.real[abs(second) * points + p] if second != 0 else 0
        if a < 0 or b < 0:
            _put(state, at, UNDEFINED, 0)
            continue
        a = minus(a, prime) if first < 0 else a
        b = minus(b, prime) if second < 0 else b
        below = difference(1, times(a, b, prime, reciprocal), prime)
        over = raised(below, prime - 2, prime, reciprocal)
        _put(state, at, times(plus(a, b, prime), over, prime, reciprocal) if below else UNDEFINED, 0)


@compiled
def _mixed(state: ExactState, at: int, i: int, j: int, c: int, d: int, p: int) -> None:
    """Write (c + d·i) times a value, plus 1 - c - d·i times another."""
    prime = state.primes[p]
    a, b, e, f = state.real[i], state.imaginary[i], state.real[j], state.imaginary[j]
    if a < 0 or e < 0 or c < 0:
        _put(state, at, UNDEFINED, 0)
        return
    a, b = difference(a, e, prime), difference(b, f, prime)
    real, imaginary = product(a, b, c, d, prime, state.reciprocals[p])
    _put(state, at, plus(real, e, prime), plus(imaginary, f, prime))


@compiled
def _known(code: int, a: int, b: int) -> int:
    """Return the value of a function at 0 or 1 where it is 0 or 1; -1 elsewhere."""
    if b != 0:
        return -1
    if a == 0 and code in (EXP, EXP2, COSH):
        return 1
    return 0 if a == 1 and code in (LOG, LOG2, LOG10) else -1


@compiled
def _function(state: ExactState, at: int, code: int, i: int, j: int, k: int, p: int) -> None:
    """Write a random residue for a function of up to three values, with its symmetries."""
    properties, prime = state.properties[code], state.primes[p]
    arity = properties & ARITY
    a, b = state.real[i], state.imaginary[i]
    c, d = (state.real[j], state.imaginary[j]) if arity > 1 else (0, 0)
    if a < 0 or c < 0 or (arity > 2 and state.real[k] < 0):
        _put(state, at, UNDEFINED, 0)
        return
    if arity > 2:
        c, d = _chance(state, p, code, c, d, state.real[k], state.imaginary[k]), 0
    result = _known(code, a, b)
    if arity == 1 and properties & ODD:
        result = _odd(state, p, code, a, b)
    elif result < 0:
        if arity == 1 and properties & EVEN and is_turned(a, b, prime):
            a, b = minus(a, prime), minus(b, prime)
        if properties & COMMUTATIVE and (c < a or (c == a and d < b)):
            a, b, c, d = c, d, a, b
        result = _chance(state, p, code, a, b, c, d)
    _put(state, at, result, 0)


@compiled
def _known_place(state: ExactState, key: int) -> int:
    """Return the place of a key among those whose outcomes are given, or -1."""
    low, high = 0, state.known_count
    while low < high:
        middle = (low + high) // 2
        if state.known[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < state.known_count and state.known[low] == key else -1


@compiled
def _residue_key(state: ExactState, at: int, p: int, is_negative: bool) -> int:
    """Return a number that depends on a residue, or on its negative."""
    real, imaginary, prime = state.real[at], state.imaginary[at], state.primes[p]
    if real == UNDEFINED:
        return -1
    if is_negative:
        real, imaginary = minus(real, prime), minus(imaginary, prime)
    return scattered(scattered(real) ^ imaginary)


@compiled
def _of_rounding(state: ExactState, code: int, place: int, first: int, second: int) -> None:
    """Write the outcome of a comparison or a jump: a random number of its arguments, of their bits and residues."""
    samples, sign, key = state.samples, 0, scattered(EQUAL if code == NOT_EQUAL else code)
    is_odd, arity = state.properties[code] & ODD, state.properties[code] & ARITY
    if is_odd:
        sign = 1
        for q in range(samples):
            x = state.doubles[first * samples + q]
            if x != 0.0:
                sign = -1 if x < 0.0 else 1
                break
            sign = 0
    for q in range(samples):
        one = state.doubles[first * samples + q]
        other = state.doubles[second * samples + q] if arity > 1 else 0.0
        if is_odd and sign < 0:
            one = -one
        if code in (EQUAL, NOT_EQUAL) and other < one:
            one, other = other, one
        key = scattered(scattered(key ^ _bits(one)) ^ wrapped(7 * _bits(other)))
    # the samples may not show a tiny term that decides elsewhere
    for p in range(min(state.points, DECIDING)):
        one_at, other_at = first * state.points + p, second * state.points + p
        one_key = _residue_key(state, one_at, p, is_odd and sign < 0)
        other_key = _residue_key(state, other_at, p, False) if arity > 1 else 0
        if code in (EQUAL, NOT_EQUAL) and other_key < one_key:
            one_key, other_key = other_key, one_key
        key = scattered(scattered(key ^ one_key) ^ wrapped(7 * other_key))
    state.keys[place] = key
    known = _known_place(state, key) if state.known_count and state.properties[code] & TRUTH else -1
    for p in range(state.points):
        at = place * state.points + p
        value = shifted_right(scattered(key ^ state.seeds[p]), 14)
        if known >= 0:
            value = state.outcomes[known * state.points + p]
        if is_odd:
            value = 0 if sign == 0 else value % state.primes[p]
            value = minus(value, state.primes[p]) if sign < 0 else value
        value = value % state.primes[p]
        if code == NOT_EQUAL:
            value = difference(1, value, state.primes[p])
        _put(state, at, value, 0)
    for q in range(samples):
        # a multiple of 2 ** -20, so that 1 less it is exact
        x = float(shifted_right(scattered(key + q), 44)) * 2.0**-20
        if is_odd:
            x = float(sign) * (0.5 + x)
        state.doubles[place * samples + q] = 1.0 - x if code == NOT_EQUAL else x


@compiled
def _of_values(state: ExactState, code: int, at: int, i: int, j: int, p: int) -> None:
    """Write the outcome of a comparison or a jump at a point: a random residue of its arguments."""
    a, b, c, d = state.real[i], state.imaginary[i], state.real[j], state.imaginary[j]
    if state.properties[code] & ARITY < 2:
        c, d = 0, 0
    if a < 0 or c < 0:
        _put(state, at, UNDEFINED, 0)
        return
    if state.properties[code] & ODD:
        _put(state, at, _odd(state, p, code, a, b), 0)
        return
    if code in (EQUAL, NOT_EQUAL) and (c < a or (c == a and d < b)):
        a, b, c, d = c, d, a, b
    result = _chance(state, p, EQUAL if code == NOT_EQUAL else code, a, b, c, d)
    _put(state, at, difference(1, result, state.primes[p]) if code == NOT_EQUAL else result, 0)


@compiled
def _compute(state: ExactState, r: int, code: int, p: int) -> None:
    """Write the value of an operation at a point."""
    points = state.points
    at, first = r * points + p, state.rows[r, 1]
    i, j = _place(state, first) * points + p, _place(state, state.rows[r, 2]) * points + p
    prime = state.primes[p]
    a, b, c, d = state.real[i], state.imaginary[i], state.real[j], state.imaginary[j]
    if code in (ADD, SUBTRACT):
        if a < 0 or c < 0:
            _put(state, at, UNDEFINED, 0)
        elif code == ADD:
            _put(state, at, plus(a, c, prime), plus(b, d, prime))
        else:
            _put(state, at, difference(a, c, prime), difference(b, d, prime))
    elif code == MULTIPLY:
        _multiply(state, at, i, j, p)
    elif code == DIVIDE:
        _invert(state, at, j, p)
        _multiply(state, at, i, at, p)
    elif code == NEGATIVE:
        _put(state, at, UNDEFINED if a < 0 else minus(a, prime), minus(b, prime))
    elif code == SQRT:
        _take_root(state, at, i, p)
    elif code in (SIN, COS):
        _circle(state, at, i, code, p)
    elif code == POWER and state.rows[r, 2] < 0:
        _power(state, at, i, state.constants[_place(state, state.rows[r, 2]) - state.end], p)
    elif code == SELECT:
        if not state.is_truth[_place(state, first)] and a >= 0:
            a, b = _chance(state, p, NOT_EQUAL, a, b, 0, 0), 0
        _mixed(state, at, j, _place(state, state.rows[r, 3]) * points + p, a, b, p)
    elif code == ATTACH:
        _put(state, at, a, b)
    elif code == NOT:
        _put(state, at, UNDEFINED if a < 0 else difference(1, a, prime), minus(b, prime))
    elif code in (AND, OR):
        _multiply(state, at, i, j, p)
        if code == OR and state.real[at] >= 0:
            real = difference(plus(a, c, prime), state.real[at], prime)
            _put(state, at, real, difference(plus(b, d, prime), state.imaginary[at], prime))
    else:
        _function(state, at, code, i, j, _place(state, state.rows[r, 3]) * points + p, p)


# Entries -------------------------------------------------------------------------------------------------------------


@compiled
def _lack(state: ExactState, r: int, arity: int) -> None:
    """Note the points at which a root that an operation's arguments need does not exist."""
    points = state.points
    for k in range(1, arity + 1):
        i = _place(state, state.rows[r, k]) * points
        for p in range(points):
            state.lacking[r * points + p] |= state.lacking[i + p]


@compiled
def _apart(state: ExactState, place: int) -> None:
    """Write what is needed of a value apart: its root, the tangent of half of it."""
    if state.root_places[place]:
        _roots(state, place)
    if state.angle_places[place]:
        _angle(state, place)


def run_exact(state: ExactState) -> int:
    """Run the operations of a tape whose inputs and constants are there; return 0."""
    points, samples = state.points, state.samples
    for place in range(state.places):
        if not state.begin <= place < state.end:
            _apart(state, place)
    for r in range(state.begin, state.end):
        code = state.rows[r, 0]
        _lack(state, r, state.properties[code] & ARITY)
        if state.properties[code] & JUMPS:
            first = _place(state, state.rows[r, 1])
            second = _place(state, state.rows[r, 2] if state.properties[code] & ARITY > 1 else 0)
            if samples:
                _of_rounding(state, code, r, first, second)
            for p in range(0 if samples else points):
                _of_values(state, code, r * points + p, first * points + p, second * points + p, p)
            continue
        for q in range(samples):
            state.doubles[r * samples + q] = _round(state, r, code, q)
        for p in range(points):
            _compute(state, r, code, p)
        _apart(state, r)
    return 0


def run_residues(state: ResiduesState) -> int:
    """Write the residues of numbers; return 0."""
    for k in range(state.count):
        for p in range(state.points):
            state.results[k * state.points + p] = residue_of(state.numbers[k], state.primes[p], state.reciprocals[p])
    return 0
