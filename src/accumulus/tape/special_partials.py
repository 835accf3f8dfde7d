"""Partial derivatives of special functions that are written by loops: duplication, series and quadrature."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accumulus.tape.tape import Tape

#: Records a partial derivative of an operation; see `accumulus.tape.partials`.
Partial = Callable[["Tape", int, int], int | None]

#: Steps of the duplication; each divides the spread of the arguments by four. Fewer lose digits of second derivatives
#: where arguments differ by many orders of magnitude, more take time for each of them.
_STEPS: Final = 12
#: Terms of R_D around its mean argument: coefficient, and exponents of E₂, E₃, E₄ and E₅ (DLMF 19.36.2).
_TERMS: Final = (
    (-3 / 14, 1, 0, 0, 0),
    (1 / 6, 0, 1, 0, 0),
    (9 / 88, 2, 0, 0, 0),
    (-3 / 22, 0, 0, 1, 0),
    (-9 / 52, 1, 1, 0, 0),
    (3 / 26, 0, 0, 0, 1),
    (-1 / 16, 3, 0, 0, 0),
    (3 / 40, 0, 2, 0, 0),
    (3 / 20, 1, 0, 1, 0),
    (45 / 272, 2, 1, 0, 0),
    (-9 / 68, 0, 1, 1, 0),
    (-9 / 68, 1, 0, 0, 1),
)
#: Nodes of the quadratures for gammainc and betainc, and the exponent at which they end; the error is below 1e-11.
_NODES: Final = 32
_CUT_OFF: Final = 36.0
#: Terms of the asymptotic series of w for |z| > 8, where the first that is left out is below the rounding.
_TAIL: Final = 20


def elliprd_slope(tape: Tape, arguments: tuple[int, ...], position: int, partial: Partial) -> int:
    """Record a partial derivative of R_D(x, y, z), that of its duplication (B. C. Carlson; DLMF 19.36(i)).

    The derivatives in closed form are 0/0 where two arguments are equal; those of the duplication are not.
    """
    from accumulus.tape.interpreter import copied  # which imports the tape

    return copied(_slope_of_duplication(position, partial), tape, arguments)[0]


@cache
def _slope_of_duplication(position: int, partial: Partial) -> Tape:
    """Return a tape with a partial derivative of R_D, in forward mode along its duplication."""
    from accumulus.tape.tape import Tape

    tape = Tape(3)
    value = _duplicated(tape, 0, 1, 2)
    tangents = {position: tape.constant(1.0)}
    for reference in range(3, value + 1):
        terms = []
        for k, argument in enumerate(tape.arguments(reference)):
            if argument in tangents:
                slope = partial(tape, reference, k)
                assert slope is not None
                terms.append(tape.multiply(slope, tangents[argument]))
        if terms:
            tangents[reference] = tape.sum(terms)
    tape.outputs = [tangents[value]]
    return tape


def _duplicated(tape: Tape, x: int, y: int, z: int) -> int:
    """Record R_D by as many steps of the duplication theorem as bring the arguments together, and a series."""
    add, multiply, divide, constant = tape.add, tape.multiply, tape.divide, tape.constant
    quarter, three = constant(0.25), constant(3.0)
    mean = multiply(constant(0.2), tape.sum([x, y, multiply(three, z)]))
    first, at = mean, (x, y)
    total, scale = constant(0.0), 1.0
    for _ in range(_STEPS):
        a, b, c = (tape.apply("sqrt", each) for each in (x, y, z))
        shift = tape.sum([multiply(a, b), multiply(b, c), multiply(c, a)])
        total = add(total, divide(constant(scale), multiply(c, add(z, shift))))
        x, y, z, mean = (multiply(quarter, add(each, shift)) for each in (x, y, z, mean))
        scale *= 0.25
    u, v = (divide(tape.subtract(first, each), multiply(constant(1.0 / scale), mean)) for each in at)
    w = tape.negative(multiply(constant(1.0 / 3.0), add(u, v)))
    uv, ww = multiply(u, v), multiply(w, w)
    powers = (
        tape.subtract(uv, multiply(constant(6.0), ww)),
        multiply(tape.subtract(multiply(three, uv), multiply(constant(8.0), ww)), w),
        multiply(multiply(three, tape.subtract(uv, ww)), ww),
        multiply(multiply(uv, w), ww),
    )
    series = [constant(1.0)]
    for coefficient, *exponents in _TERMS:
        term = constant(coefficient)
        for power, exponent in zip(powers, exponents, strict=True):
            for _ in range(exponent):
                term = multiply(term, power)
        series.append(term)
    tail = divide(multiply(constant(scale), tape.sum(series)), multiply(mean, tape.apply("sqrt", mean)))
    return add(tail, multiply(three, total))


def faddeeva_tail(tape: Tape, far: int, x: int, y: int, order: int, part: int) -> int:
    """Record a part of Σ c_k z⁻²⁽ᵏ⁺¹⁾ with c_k = (2k + 1)!!/2ᵏ, for z = x + iy where `far` holds.

    Args:
        tape: tape to record on.
        far: truth value; where it does not hold, the result is arbitrary.
        x: real part.
        y: imaginary part.
        order: 1 to multiply terms by (k + 1)/z.
        part: 0 for the real part, 1 for the imaginary part.
    """
    x = tape.select(far, x, tape.constant(9.0))
    y = y if y < 0 else tape.select(far, y, tape.constant(1.0))

    def times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        multiply = tape.multiply
        re = tape.subtract(multiply(a[0], b[0]), multiply(a[1], b[1]))
        return re, tape.add(multiply(a[0], b[1]), multiply(a[1], b[0]))

    size = tape.add(tape.multiply(x, x), tape.multiply(y, y))
    inverse = tape.divide(x, size), tape.divide(tape.negative(y), size)
    square = times(inverse, inverse)
    total = tape.constant(0.0), tape.constant(0.0)
    for k in range(_TAIL, -1, -1):
        coefficient = prod(range(1, 2 * k + 2, 2)) / 2**k * (k + 1 if order else 1)
        total = times((tape.add(total[0], tape.constant(coefficient)), total[1]), square)
    return (times(total, inverse) if order else total)[part]


def gammainc_slope(tape: Tape, a: int, x: int, density: Callable[[int, int], int]) -> int:
    """Record the derivative of P(a, x) with respect to a, by quadrature.

    With t = x exp(τ) in the integral of Q, and t = x exp(-τ) in that of P(a + 1, x),

        P = xᵃ exp(-x) / Γ(a + 1) · (1 + x ∫ exp(-(a + 1)τ - x expm1(-τ)) dτ)    for x < a + 1
        Q = xᵃ exp(-x) / Γ(a) · ∫ exp(aτ - x expm1(τ)) dτ                         elsewhere.

    In the derivatives of these with respect to a, all terms have the same sign, so that nothing cancels. Gauss-Legendre
    quadrature in the root of τ ends where the integrand is exp(-36). `density` records that of the gamma distribution.
    """
    add, subtract, multiply, divide, select = tape.add, tape.subtract, tape.multiply, tape.divide, tape.select
    apply, number = tape.apply, tape.constant
    positive = apply("less", number(0.0), x)
    outside = multiply(number(0.0), apply("sqrt", x))  # 0 at 0, NaN for negative numbers
    x = apply("minimum", select(positive, x, number(1.0)), number(1e100))
    low = apply("less", x, add(a, number(1.0)))
    shape, sign = select(low, add(a, number(1.0)), a), select(low, number(-1.0), number(1.0))
    slope = multiply(sign, subtract(x, shape))
    # the end of the interval: the root of a quadratic equation, and two steps that matter if it is large
    size = subtract(multiply(number(0.5), x), multiply(sign, divide(slope, number(3.0))))
    half = add(slope, multiply(sign, number(_CUT_OFF / 3.0)))
    end = _root(tape, size, half)
    for _ in range(2):
        below = multiply(x, apply("expm1", tape.negative(end)))
        above = divide(add(number(_CUT_OFF), multiply(shape, end)), x)
        end = select(low, divide(subtract(number(_CUT_OFF), below), shape), apply("log1p", above))
    end = apply("attach", end, number(0.0))  # the integral does not depend on it
    signed = multiply(sign, end)
    linear = multiply(shape, signed)
    total, moment = number(0.0), number(0.0)
    for node, weight in _quadrature():
        bent = multiply(x, apply("expm1", multiply(signed, number(node))))
        term = multiply(number(weight), apply("exp", subtract(multiply(linear, number(node)), bent)))
        total, moment = add(total, term), add(moment, multiply(number(node), term))
    total, moment = multiply(end, total), multiply(multiply(end, end), moment)
    by_logarithm = subtract(apply("log", x), apply("digamma", shape))
    inner = subtract(multiply(by_logarithm, add(number(1.0), multiply(x, total))), multiply(x, moment))
    outer = tape.negative(multiply(x, add(multiply(by_logarithm, total), moment)))
    return select(positive, multiply(density(shape, x), select(low, inner, outer)), outside)


def betainc_slope(
    tape: Tape, a: int, b: int, x: int, y: int, position: int, density: Callable[[int, int, int, int], int]
) -> int:
    """Record the derivative of I(a, b, x) with respect to a or b, by quadrature, given y = 1 - x.

    With t/(1 - t) = x/(1 - x) exp(-τ) in the integral, and L = -log1p(x expm1(-τ)),

        I = xᵃ (1 - x)ᵇ / (a B(a, b)) · (1 + (a + b) ∫ L' exp(-aτ + (a + b)L) dτ).

    Beyond the mean, it is 1 less the same with a and b exchanged. `density` records that of the beta distribution.
    """
    add, subtract, multiply, divide, select = tape.add, tape.subtract, tape.multiply, tape.divide, tape.select
    apply, number, one = tape.apply, tape.constant, tape.constant(1.0)
    inside = apply("logical_and", apply("less", number(0.0), x), apply("less", number(0.0), y))
    outside = multiply(number(0.0), apply("sqrt", multiply(x, y)))  # 0 at both ends, NaN beyond
    x, y = (select(inside, each, number(0.5)) for each in (x, y))
    total = add(a, b)
    low = apply("less", multiply(x, add(total, number(2.0))), add(a, one))
    a, b = select(low, a, b), select(low, b, a)
    x, y = select(low, x, y), select(low, y, x)
    above = add(a, one)
    slope = subtract(above, multiply(total, x))
    size = add(divide(slope, number(3.0)), multiply(multiply(number(0.5), total), multiply(x, y)))
    end = _root(tape, size, subtract(slope, number(_CUT_OFF / 3.0)))

    def logarithm(time: int) -> int:
        return tape.negative(apply("log1p", multiply(x, apply("expm1", tape.negative(time)))))

    for _ in range(2):
        end = divide(add(number(_CUT_OFF), multiply(total, logarithm(end))), above)
    end = apply("attach", end, number(0.0))  # the integral does not depend on it
    sums = [number(0.0), number(0.0)]  # of L' exp(…), and of its product with L - τ or L
    for node, weight in _quadrature():
        time = multiply(end, number(node))
        bent = logarithm(time)
        exponent = subtract(multiply(add(total, one), bent), multiply(above, time))
        term = multiply(number(weight), apply("exp", exponent))
        by_shape = select(low, subtract(bent, time), bent) if position == 0 else select(low, bent, subtract(bent, time))
        sums = [add(sums[0], term), add(sums[1], multiply(by_shape, term))]
    scale = multiply(end, x)
    first, second = (multiply(scale, each) for each in sums)
    of_total = apply("digamma", total)
    by_first = add(subtract(apply("log", x), apply("digamma", above)), of_total)
    by_second = add(subtract(apply("log", y), apply("digamma", b)), of_total)
    by_log = select(low, by_first, by_second) if position == 0 else select(low, by_second, by_first)
    inner = multiply(by_log, add(one, multiply(total, first)))
    inner = add(inner, add(first, multiply(total, second)))
    factor = multiply(density(a, b, x, y), divide(multiply(x, y), a))
    result = multiply(factor, inner)
    return select(inside, select(low, result, tape.negative(result)), outside)


def _root(tape: Tape, size: int, half: int) -> int:
    """Record the positive root of size·τ² + half·τ = 36."""
    four = tape.multiply(tape.constant(4.0 * _CUT_OFF), size)
    root = tape.apply("sqrt", tape.add(tape.multiply(half, half), four))
    return tape.divide(tape.constant(2.0 * _CUT_OFF), tape.add(half, root))


@cache
def _quadrature() -> tuple[tuple[float, float], ...]:
    """Return nodes and weights on [0, 1]: Gauss-Legendre in the root."""
    from numpy.polynomial.legendre import leggauss  # which takes milliseconds to import

    halves = [(0.5 * (node + 1.0), weight) for node, weight in zip(*map(list, leggauss(_NODES)), strict=True)]
    return tuple((float(u * u), float(weight * u)) for u, weight in halves)
