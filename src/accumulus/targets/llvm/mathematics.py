"""Elementary functions on vectors of doubles, as algorithms that write LLVM IR.

Each follows the usual plan: reduce the argument (W. J. Cody and W. Waite, Software Manual for the Elementary Functions,
1980; in two or three parts, exact thanks to fused multiply-add), evaluate a polynomial, reconstruct. The logarithm is
fdlibm's; powers compute it as a sum of two doubles. Coefficients are minimax fits (Remez) of the relative error of the
result, with a truncation error below 2⁻⁵⁷. The tests require errors of at most 2.5 units in the last place; the
remainder of a division is exact.

Each algorithm also marks the lanes that it does not cover: huge angles and quotients, results that overflow, logarithms
of zero, of negative and of denormal numbers, NaN. The C library's scalar function computes these, in code that rarely
runs, so that special values are the C library's.

The functions are used if a processor has fused multiply-add, even without a vector library, and always give the same
bits. Sine and cosine of one angle are one call.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

# fmt: on

# 1.5 · 2⁵²: added to a number below 2⁵¹ it leaves the nearest integer in the low bits
_ROUNDER: Final = 6755399441055744.0
_SIGN: Final = -(1 << 63)

# fmt: off
# (sin √z / √z − 1)/z and (cos √z − 1 + z/2)/z² on [0, (π/4)²]
_SIN: Final = (-0.16666666666666632, 0.008333333333322425, -0.00019841269829817015, 2.755731369522618e-06,
               -2.505075865007683e-08, 1.5896827589245722e-10)
_COS: Final = (0.041666666666666595, -0.0013888888888873056, 2.480158728885151e-05, -2.7557314179250354e-07,
               2.0875700836543388e-09, -1.1358536271311696e-11)
# (exp r − 1 − r)/r² on [−ln 2 / 2, ln 2 / 2], for exp and for expm1
_EXP: Final = (0.5000000000000011, 0.16666666666666413, 0.041666666666530267, 0.008333333333494336,
               0.0013888888943596833, 0.0001984126950676485, 2.480149313700458e-05, 2.7557586281944997e-06,
               2.763023366422882e-07, 2.5000067321957548e-08)
_EXPM1: Final = (0.5, 0.16666666666666677, 0.04166666666666651, 0.0083333333333217, 0.0013888888888962361,
                 0.00019841269885940117, 2.4801587172530655e-05, 2.755724440304281e-06, 2.755740267431116e-07,
                 2.5108967903244095e-08, 2.087531231812032e-09)
# (2 artanh √z / √z − 2)/z on [0, ((√2 − 1)/(√2 + 1))²]
_LOG: Final = (0.6666666666666734, 0.39999999999414665, 0.28571428742389926, 0.22222198573020663,
               0.18183564332236374, 0.1531405043405797, 0.14795950659513873)
# (2 artanh √z / √z − 2 − ⅔ z)/z² on the same, for powers
_LOG_TAIL: Final = (0.40000000000002256, 0.28571428570100005, 0.222222225198345, 0.18181784375740134,
                    0.15386756898331866, 0.13256828573948137, 0.13196221975227615)
# (arcsin √z / √z − 1)/z on [0, 1/4]
_ASIN: Final = (0.16666666666666763, 0.07499999999970262, 0.0446428571751202, 0.030381942683649504,
                0.022372215659390616, 0.01735160010729471, 0.013980961283868752, 0.01139777718601169,
                0.010786523358220978, 0.0036830596820055005, 0.02176346482756809, -0.02107725497569548,
                0.03267687280844427)
# (arctan √z / √z − 1)/z on [0, tan² π/8]
_ATAN: Final = (-0.333333333333332, 0.19999999999954082, -0.14285714280248515, 0.11111110786138215,
                -0.09090897836451285, 0.07692061636957814, -0.06663120379846824, 0.05848008872010018,
                -0.05039845254185701, 0.03807831316342069, -0.017922269574437818)
# constants as sums of doubles, each the nearest to the remainder of the ones before
_HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_TWO_THIRDS: Final = (0.6666666666666666, 3.700743415417188e-17)
_LN2_SHORT: Final = (0.6931471805592082, 7.371002565167799e-13)  # k times the first is exact
_LN2: Final = (0.6931471805599453, 2.3190468138462996e-17)
# fmt: on


def double(value: float) -> str:
    """Return a number in LLVM IR, exactly."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


class Writer:
    """Writer of one function on vectors of `lanes` doubles; each method returns the name of its result."""

    #: Names of the function's arguments.
    arguments: tuple[str, str] = ("%x", "%y")
    #: Zero in all lanes.
    zero = "zeroinitializer"

    def __init__(self, lanes: int, table: str) -> None:
        self.lanes = lanes
        self.reals = f"<{lanes} x double>"
        self.integers = f"<{lanes} x i64>"
        self.lines: list[str] = []
        self.table = table
        self.constants: dict[str, int] = {}

    def real(self, value: float) -> str:
        """Return a constant in all lanes."""
        # loaded as a whole vector, which can be the operand of an instruction; a broadcast would take a register
        index = self.constants.setdefault(double(value), len(self.constants))
        pointer = f"getelementptr ({self.reals}, ptr @{self.table}, i64 {index})"
        return self.let(f"load {self.reals}, ptr {pointer}, align {8 * self.lanes}, !invariant.load !1")

    def table_definition(self) -> str:
        """Return the definition of the constants as a global array."""
        entries = [f"{self.reals} <{', '.join([f'double {text}'] * self.lanes)}>" for text in self.constants]
        kind = f"[{len(entries)} x {self.reals}]"
        return f"@{self.table} = internal constant {kind} [{', '.join(entries)}], align {8 * self.lanes}"

    def whole(self, value: int) -> str:
        """Return an integer constant in all lanes."""
        return f"<{', '.join([f'i64 {value}'] * self.lanes)}>"

    def let(self, text: str) -> str:
        """Write one instruction, and return the name of its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def operand(self, value: str | float) -> str:
        """Return a value, or a constant in all lanes."""
        return value if isinstance(value, str) else self.real(value)

    def binary(self, operation: str, a: str | float, b: str | float) -> str:
        """Return the result of an instruction with two operands."""
        return self.let(f"{operation} {self.reals} {self.operand(a)}, {self.operand(b)}")

    def comparison(self, predicate: str, a: str | float, b: str | float) -> str:
        """Return the mask of lanes where a comparison holds."""
        return self.let(f"fcmp {predicate} {self.reals} {self.operand(a)}, {self.operand(b)}")

    def function(self, name: str, *arguments: str) -> str:
        """Return the result of an elementary function of this module."""
        operands = ", ".join(f"{self.reals} {argument}" for argument in arguments)
        return self.let(f"call {self.reals} @accumulus_{name}({operands})")

    def either(self, a: str, b: str) -> str:
        """Return the mask of lanes where one or the other mask holds."""
        return self.let(f"or <{self.lanes} x i1> {a}, {b}")

    def minus(self, a: str) -> str:
        """Return -a."""
        return self.let(f"fneg {self.reals} {a}")

    def call(self, intrinsic: str, *arguments: str | float) -> str:
        """Return the result of an LLVM intrinsic."""
        operands = ", ".join(f"{self.reals} {self.operand(a)}" for a in arguments)
        return self.let(f"call {self.reals} @llvm.{intrinsic}.v{self.lanes}f64({operands})")

    def fused(self, a: str, b: str | float, c: str | float) -> str:
        """Return a · b + c, rounded once."""
        return self.call("fma", a, b, c)

    def multiply_add(self, a: str, b: str | float, c: str | float) -> str:
        """Return a · b + c, as polynomials compute it."""
        return self.fused(a, b, c)

    def select(self, mask: str, a: str | float, b: str | float) -> str:
        """Return a where the mask holds, else b."""
        operands = [f"{self.reals} {self.operand(x)}" for x in (a, b)]
        return self.let(f"select <{self.lanes} x i1> {mask}, {operands[0]}, {operands[1]}")

    def bits(self, a: str) -> str:
        """Return the bits of real numbers."""
        return self.let(f"bitcast {self.reals} {a} to {self.integers}")

    def number(self, bits: str) -> str:
        """Return the real numbers with given bits."""
        return self.let(f"bitcast {self.integers} {bits} to {self.reals}")

    def integer(self, operation: str, a: str, b: str | int) -> str:
        """Return the result of an instruction on integers."""
        return self.let(f"{operation} {self.integers} {a}, {b if isinstance(b, str) else self.whole(b)}")

    def negative(self, bits: str) -> str:
        """Return the mask of negative integers."""
        return self.let(f"icmp slt {self.integers} {bits}, zeroinitializer")

    def polynomial(self, z: str, coefficients: Sequence[float]) -> str:
        """Return a polynomial's value at z; even and odd powers are separate, so that two chains run in parallel."""
        square = self.binary("fmul", z, z)
        even, odd = coefficients[::2], coefficients[1::2]
        halves = []
        for half in (even, odd):
            value: str | float = half[-1]
            for coefficient in half[-2::-1]:
                value = self.multiply_add(square, value, coefficient)
            halves.append(value)
        high = halves[1]
        assert isinstance(high, str), "a polynomial of degree two at least"
        return self.multiply_add(z, high, halves[0])

    # Masks of lanes that an algorithm does not cover; these also hold for NaN

    def beyond(self, x: str, limit: float) -> str:
        """Return the mask of |x| > limit."""
        return self.comparison("ugt", self.call("fabs", x), limit)

    def below(self, x: str, limit: float) -> str:
        """Return the mask of x < limit, for numbers that are not negative."""
        return self.comparison("ult", x, limit)

    def not_normal_and_positive(self, x: str) -> str:
        """Return the mask of numbers that are negative, zero, denormal or infinite."""
        return self.either(self.comparison("ult", x, 2.0**-1022), self.comparison("oeq", x, math.inf))

    def unordered(self, a: str, b: str) -> str:
        """Return the mask of lanes where either number is NaN."""
        return self.comparison("uno", a, b)


# Formulas in Python ---------------------------------------------------------------------------------------------------


#: The writer's method for each of Python's operators and NumPy's functions, with its first arguments.
_WRITTEN: Final[dict[np.ufunc, tuple[str, ...]]] = {
    np.add: ("binary", "fadd"),
    np.subtract: ("binary", "fsub"),
    np.multiply: ("binary", "fmul"),
    np.divide: ("binary", "fdiv"),
    np.negative: ("minus",),
    np.less: ("comparison", "olt"),
    np.less_equal: ("comparison", "ole"),
    np.greater: ("comparison", "ogt"),
    np.greater_equal: ("comparison", "oge"),
    np.equal: ("comparison", "oeq"),
    np.bitwise_or: ("either",),
    np.absolute: ("call", "fabs"),
    np.sqrt: ("call", "sqrt"),
    np.floor: ("call", "floor"),
    np.rint: ("call", "rint"),
    np.trunc: ("call", "trunc"),
    np.exp: ("function", "exp"),
    np.log: ("function", "log"),
    np.power: ("function", "pow"),
}


@dataclass(frozen=True, eq=False, slots=True)
class Term(NDArrayOperatorsMixin):
    """A number or a truth value in each lane. Every operation is rounded separately, except `fused`."""

    writer: Writer
    name: str

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Term | float) -> Term:
        written, *words = _WRITTEN[ufunc]
        return Term(self.writer, getattr(self.writer, written)(*words, *map(_operand, operands)))


def _operand(value: Term | float | str) -> str | float:
    return value.name if isinstance(value, Term) else value


def where(mask: Any, a: Term | float, b: Term | float) -> Term:
    """Return a where the mask holds, else b."""
    return Term(mask.writer, mask.writer.select(mask.name, _operand(a), _operand(b)))


def fused(a: Term, b: Term | float, c: Term | float) -> Term:
    """Return a · b + c, rounded once."""
    return Term(a.writer, a.writer.fused(a.name, _operand(b), _operand(c)))


def polynomial(z: Term, coefficients: Sequence[float]) -> Term:
    """Return the value of a polynomial at z."""
    return Term(z.writer, z.writer.polynomial(z.name, coefficients))


def _bits(x: Term) -> Term:
    """Return the bits of real numbers."""
    return Term(x.writer, x.writer.bits(x.name))


def _number(bits: Term) -> Term:
    """Return the real numbers with given bits."""
    return Term(bits.writer, bits.writer.number(bits.name))


def _integer(operation: str, a: Term, b: Term | int) -> Term:
    """Return the result of an instruction on integers."""
    return Term(a.writer, a.writer.integer(operation, a.name, b.name if isinstance(b, Term) else b))


def _unfit(which: str, *operands: Term | float | str) -> Term:
    """Return a mask of lanes from a method of the writer, such as the lanes that an algorithm does not cover."""
    w = next(each.writer for each in operands if isinstance(each, Term))
    return Term(w, getattr(w, which)(*map(_operand, operands)))


def _signed_like(magnitude: Term, a: Term) -> Term:
    """Return the magnitude, which is not negative, with the sign of a."""
    sign = _integer("and", _bits(a), _SIGN)
    return _number(_integer("or", _bits(magnitude), sign))


def _reduced(x: Term, inverse: float, parts: Sequence[float]) -> tuple[Term, Term]:
    """Return x minus n periods, n being the nearest integer, and bits with n at the low end."""
    rounded = fused(x, inverse, _ROUNDER)
    n = rounded - _ROUNDER
    for part in parts:
        x = fused(n, -part, x)
    return x, _bits(rounded)


# Algorithms -----------------------------------------------------------------------------------------------------------

#: Results, and the mask of lanes that need the scalar functions; None if there are no such lanes.
Results = tuple[tuple[Term, ...], Term | None]


def sincos(x: Term) -> Results:
    """Return sin x and cos x, from both functions on [−π/4, π/4] and the quadrant."""
    r, quadrant = _reduced(x, 1 / _HALF_PI[0], _HALF_PI)
    z = r * r
    sine = fused(r * z, polynomial(z, _SIN), r)
    sine = where(x == Term(x.writer, x.writer.zero), x, sine)  # a zero keeps its sign
    cosine = fused(z * z, polynomial(z, _COS), fused(z, -0.5, 1.0))
    odd = Term(x.writer, x.writer.negative(_integer("shl", quadrant, 63).name))
    results = []
    for first, second, shift in ((sine, cosine, 0), (cosine, sine, 1)):
        value = where(odd, second, first)
        turns = _integer("add", quadrant, 1) if shift else quadrant
        sign = _integer("and", _integer("shl", turns, 62), _SIGN)
        results.append(_number(_integer("xor", _bits(value), sign)))
    return tuple(results), _unfit("beyond", x, 2.0**30)


def _scaled(mantissa: Term, exponent: Term) -> Term:
    """Return mantissa · 2ⁿ, with n at the low end of the bits `exponent`."""
    return _number(_integer("add", _bits(mantissa), _integer("shl", exponent, 52)))


def exp(x: Term) -> Results:
    """Return exp x = 2ⁿ exp r."""
    r, exponent = _reduced(x, 1 / math.log(2), _LN2)
    value = fused(r * r, polynomial(r, _EXP), r) + 1.0
    return (_scaled(value, exponent),), _unfit("beyond", x, 708.0)


def log(x: Term) -> Results:
    """Return log x = n log 2 + log m, and log m from an odd series in (m − 1)/(m + 1)."""
    k, f, divisor = _log_parts(x)
    s = f / divisor
    z = s * s
    half_square = f * f * 0.5
    tail = fused(z, polynomial(z, _LOG), half_square)
    # log x = k log 2 + f − f²/2 + s (f²/2 + z P(z)), small terms first
    low = fused(s, tail, k * _LN2[1])
    result = fused(k, _LN2[0], f - (half_square - low))
    return (result,), _unfit("not_normal_and_positive", x)


def _log_parts(x: Term) -> tuple[Term, Any, Any]:
    """Return k, f and 2 + f, where x = (1 + f) 2ᵏ and 1 + f is between √½ and √2."""
    bits = _bits(x)
    shifted = _integer("sub", bits, 0x3FE6A09E667F3BCD)
    m = _number(_integer("sub", bits, _integer("and", shifted, -(1 << 52))))
    biased = _integer("lshr", _integer("add", shifted, 1024 << 52), 52)
    k = _number(_integer("or", biased, 0x4330000000000000)) - (2.0**52 + 1024.0)
    f = m - 1.0
    return k, f, f + 2.0


def power(x: Term, y: Term) -> Results:
    """Return xʸ = exp(y log x), with the logarithm and its product with y as sums of two doubles."""
    # log x = k log 2 + 2s + ⅔s³ + s⁵(…) with s = f / (2 + f), the first three terms as sums of two doubles each
    k, f, divisor = _log_parts(x)
    inverse = 1.0 / divisor
    s = f * inverse
    lost = f - (divisor - 2.0)
    remainder = fused(-s, lost, fused(-s, divisor, f))
    s_low = remainder * inverse

    z = s * s
    z_low = fused(s, s, -z)
    cube = s * z
    cube_low = fused(s, z_low, fused(s, z, -cube))
    cube_low = fused(z * 3.0, s_low, cube_low)
    third = cube * _TWO_THIRDS[0]
    third_low = fused(cube, _TWO_THIRDS[0], -third)
    third_low = fused(cube, _TWO_THIRDS[1], fused(cube_low, _TWO_THIRDS[0], third_low))

    twice = s + s
    whole = k * _LN2_SHORT[0]
    high = whole + twice
    low = twice - (high - whole)
    total = high + third
    low = low + (third - (total - high))
    small = fused(cube * z, polynomial(z, _LOG_TAIL), third_low)
    small = small + fused(k, _LN2_SHORT[1], s_low + s_low)
    low = low + small
    logarithm = total + low
    low = low - (logarithm - total)

    product = y * logarithm
    rest = fused(y, low, fused(y, logarithm, -product))
    r, exponent = _reduced(product, 1 / math.log(2), _LN2)
    r = r + rest
    value = fused(r * r, polynomial(r, _EXP), r) + 1.0
    unfit = _unfit("not_normal_and_positive", x) | _unfit("beyond", product, 707.0)
    return (_scaled(value, exponent),), unfit


def tanh(x: Term) -> Results:
    """Return tanh x = u / (u + 2) with u = exp(2x) − 1."""
    # for |x|: from 2|x| = 44 on the result is 1; NaN does not pass the comparison, and is kept
    twice = abs(x + x)
    large = twice > 44.0
    r, exponent = _reduced(where(large, 44.0, twice), 1 / math.log(2), _LN2)
    t = fused(r * r, polynomial(r, _EXPM1), r)
    scale = _number(_integer("shl", _integer("add", exponent, 1023), 52))
    u = fused(scale, t, scale - 1.0)
    return (_signed_like(u / (u + 2.0), x),), None


def _arc(opposite: Term, adjacent: Term | float) -> Any:
    """Return the angle in [0, π/2] whose tangent is the quotient of two nonnegative numbers."""
    steep = opposite > adjacent
    small, large = where(steep, adjacent, opposite), where(steep, opposite, adjacent)
    # arctan q = π/4 + arctan((q − 1)/(q + 1)) above tan π/8
    upper = large * (math.sqrt(2) - 1) < small
    numerator = where(upper, small - large, small)
    denominator = where(upper, small + large, large)
    t = numerator / denominator
    z = t * t
    arc = fused(t * z, polynomial(z, _ATAN), t)
    base = where(upper, _HALF_PI[0] / 2, 0.0)
    flipped = _number(_integer("xor", _bits(arc), _SIGN))
    arc = where(steep, flipped, arc) + where(upper, _HALF_PI[1] / 2, 0.0)
    return arc + where(steep, _HALF_PI[0] - base, base)


def atan(x: Term) -> Results:
    """Return arctan x."""
    return (_signed_like(_arc(abs(x), 1.0), x),), None


def atan2(x: Term, y: Term) -> Results:
    """Return the angle of the point (y, x): arctan2(x, y)."""
    opposite, adjacent = abs(x), abs(y)
    angle = _arc(opposite, adjacent)
    behind = math.pi - (angle - 2 * _HALF_PI[1])
    larger = where(_unfit("comparison", "ugt", opposite, adjacent), opposite, adjacent)
    tiny_or_huge = _unfit("below", larger, 2.0**-960) | _unfit("beyond", larger, 2.0**960)
    unfit = tiny_or_huge | _unfit("unordered", x, y)
    return (_signed_like(where(y < 0.0, behind, angle), x),), unfit


def _half_arc(x: Term) -> tuple[Any, Term]:
    """Return the mask of |x| > ½, and arcsin √((1 − |x|)/2) there, arcsin |x| elsewhere."""
    magnitude = abs(x)
    large = magnitude > 0.5
    halved = fused(magnitude, -0.5, 0.5)
    z = where(large, halved, magnitude * magnitude)
    s = where(large, np.sqrt(halved), magnitude)
    return large, fused(s * z, polynomial(z, _ASIN), s)


def asin(x: Term) -> Results:
    """Return arcsin x; above ½ from the half angle."""
    large, arc = _half_arc(x)
    complement = fused(arc, -2.0, _HALF_PI[1]) + _HALF_PI[0]
    return (_signed_like(where(large, complement, arc), x),), None


def acos(x: Term) -> Results:
    """Return arccos x; above ½ from the half angle."""
    large, arc = _half_arc(x)
    signed = _signed_like(arc, x)
    middle = _HALF_PI[0] - (signed - _HALF_PI[1])
    twice = arc + arc
    left = math.pi - (twice - 2 * _HALF_PI[1])
    return (where(large, where(x < 0.0, left, twice), middle),), None


def fmod(x: Term, y: Term) -> Results:
    """Return x - n·y exactly, where n is the integer part of x / y.

    The quotient of magnitudes is rounded, so its integer part may be one too large, and never too small. Then the
    remainder |x| - n·|y| is a multiple of the last place of y, and no larger than y: one fused step computes it without
    rounding, and so does the addition that corrects n by one.
    """
    dividend, divisor = abs(x), abs(y)
    quotient = dividend / divisor
    whole = np.trunc(quotient)
    rest = fused(-whole, divisor, dividend)
    rest = where(rest < 0.0, rest + divisor, rest)
    rest = where(dividend < divisor, dividend, rest)  # an infinite y, too
    unfit = _unfit("comparison", "uge", quotient, 2.0**53)
    return (_signed_like(rest, x),), unfit


# Functions that a module may contain ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """A vector function that a module may define."""

    name: str  # name in the module
    arity: int  # number of arguments, %x and %y
    scalars: tuple[str, ...]  # functions of the C library for its results
    formula: Callable[..., Results | Term]  # function of the arguments: `Results`, or one result that covers all lanes
    calls: tuple[VectorFunction, ...] = ()  # other functions that it calls

    def write(self, w: Writer) -> tuple[tuple[str, ...], str | None]:
        """Write the formula; return results, and the mask of lanes that it does not cover (None if there are none)."""
        terms = self.formula(*(Term(w, argument) for argument in w.arguments[: self.arity]))
        results, unfit = ((terms,), None) if isinstance(terms, Term) else terms
        return tuple(result.name for result in results), None if unfit is None else unfit.name

    def result_type(self, lanes: int) -> str:
        """Return LLVM's type of its result."""
        vector = f"<{lanes} x double>"
        return vector if len(self.scalars) == 1 else f"{{ {', '.join([vector] * len(self.scalars))} }}"


def _single(name: str, arity: int, formula: Callable[..., Results]) -> tuple[VectorFunction, int]:
    return VectorFunction(f"accumulus_{name}", arity, (name,), formula), 0


_SINCOS: Final = VectorFunction("accumulus_sincos", 1, ("sin", "cos"), sincos)
#: Vector function for each function of the C library, and the position of its result.
VECTOR_FUNCTIONS: Final[dict[str, tuple[VectorFunction, int]]] = {
    "sin": (_SINCOS, 0),
    "cos": (_SINCOS, 1),
    "exp": _single("exp", 1, exp),
    "log": _single("log", 1, log),
    "pow": _single("pow", 2, power),
    "tanh": _single("tanh", 1, tanh),
    "asin": _single("asin", 1, asin),
    "acos": _single("acos", 1, acos),
    "atan": _single("atan", 1, atan),
    "atan2": _single("atan2", 2, atan2),
    "fmod": _single("fmod", 2, fmod),
}
_PATCH_NAMES: Final = {1: "accumulus_patch", 2: "accumulus_patch2"}


@cache
def definition(function: VectorFunction, lanes: int, linkage: str = "internal ") -> str:
    """Return LLVM IR of a function and its constants."""
    w = Writer(lanes, f"{function.name}_table")
    results, unfit = function.write(w)
    kind = function.result_type(lanes)
    names = ["%x", "%y"][: function.arity]
    arguments = ", ".join(f"{w.reals} {name}" for name in names)
    if unfit is not None:
        mask = w.let(f"bitcast <{lanes} x i1> {unfit} to i{lanes}")
        some = w.let(f"icmp ne i{lanes} {mask}, 0")
        w.lines.append(f"  br i1 {some}, label %rare, label %done, !prof !0\nrare:")
        wide = w.let(f"zext i{lanes} {mask} to i32")
        patched = [
            w.let(
                f"call {w.reals} @{_PATCH_NAMES[function.arity]}"
                f"({arguments}, {w.reals} {result}, i32 {wide}, ptr @{scalar})"
            )
            for result, scalar in zip(results, function.scalars, strict=True)
        ]
        w.lines.append("  br label %done\ndone:")
        results = tuple(
            w.let(f"phi {w.reals} [ {result}, %entry ], [ {fixed}, %rare ]")
            for result, fixed in zip(results, patched, strict=True)
        )
    if len(results) == 1:
        w.lines.append(f"  ret {kind} {results[0]}")
    else:
        value = "poison"
        for i, result in enumerate(results):
            value = w.let(f"insertvalue {kind} {value}, {w.reals} {result}, {i}")
        w.lines.append(f"  ret {kind} {value}")
    head = f"define {linkage}{kind} @{function.name}({arguments}) nounwind noinline {{\nentry:"
    return "\n".join([w.table_definition(), head, *w.lines, "}"])


@cache
def patch(arity: int, lanes: int) -> str:
    """Return LLVM IR of the function that recomputes the lanes of a mask with a scalar function."""
    vector = f"<{lanes} x double>"
    names = ["x", "y"][:arity]
    lines = [
        f"define internal {vector} @{_PATCH_NAMES[arity]}"
        f"({''.join(f'{vector} %{name}, ' for name in names)}{vector} %fast, i32 %mask, ptr %scalar) "
        "nounwind noinline cold {",
        "entry:",
        *(f"  %{name}s = alloca {vector}" for name in (*names, "result")),
        *(f"  store {vector} %{name}, ptr %{name}s" for name in names),
        f"  store {vector} %fast, ptr %results",
        "  br label %lane",
        "lane:",
        "  %k = phi i32 [ 0, %entry ], [ %after, %next ]",
        "  %shifted = lshr i32 %mask, %k",
        "  %wanted = trunc i32 %shifted to i1",
        "  br i1 %wanted, label %compute, label %next",
        "compute:",
        *(
            f"  %{name}p = getelementptr double, ptr %{name}s, i32 %k\n  %{name}k = load double, ptr %{name}p"
            for name in names
        ),
        f"  %value = call double %scalar({', '.join(f'double %{name}k' for name in names)})",
        "  %to = getelementptr double, ptr %results, i32 %k",
        "  store double %value, ptr %to",
        "  br label %next",
        "next:",
        "  %after = add i32 %k, 1",
        f"  %more = icmp ult i32 %after, {lanes}",
        "  br i1 %more, label %lane, label %end",
        "end:",
        f"  %all = load {vector}, ptr %results",
        f"  ret {vector} %all",
        "}",
    ]
    return "\n".join(lines)
