"""Complex numbers and arrays: pairs of a real and an imaginary part, each a traced value.

The parts of arrays are traced arrays, which implement views, indices and assignments; `z.real` is a writable view, as
in NumPy. The tape has only real numbers, so derivatives and compiled code need no complex arithmetic. This module is
not used if all values are real.

Universal functions are formulas of both parts; `complex_functions` has all other functions.

References:
    W. Kahan, Branch cuts for complex elementary functions, in: The State of the Art in Numerical Analysis, 1987.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from accumulus.frontends.active import no_number, refuse
from accumulus.frontends.numpy.arrays import AnyArray, TracedArray, as_array
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, Elementwise, apply, complex_rows
from accumulus.frontends.numpy.operands import Operand, concrete, depends, holds_complex, is_sparse, references_of
from accumulus.frontends.numpy.scalars import Number, Traced, TracedScalar, make_scalar
from accumulus.frontends.numpy.table import PROTOCOLS
from accumulus.frontends.numpy.texts import in_full
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape


class Pair(NamedTuple):
    """A real and an imaginary part, each a traced value, a number or an array."""

    re: Any
    im: Any


class _Complex(Traced, NDArrayOperatorsMixin):
    """Base class of complex scalars and arrays."""

    __slots__ = ("im", "re", "tape")
    __hash__ = Traced.__hash__
    is_complex = True
    boolean = False
    dtype: Final = np.dtype(complex)

    def __init__(self, tape: Tape, re: Any, im: Any) -> None:
        self.tape = tape
        self.re = re
        self.im = im

    @property
    def entries(self) -> References:
        """References of both parts, stacked along the first axis."""
        return np.stack([references_of(self.tape, part) for part in (self.re, self.im)])

    @property
    def real(self) -> Any:
        """The real part; a view for an array."""
        return self.re

    @property
    def imag(self) -> Any:
        """The imaginary part; a view for an array."""
        return self.im

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        raise TypeError("a complex number cannot be converted to an integer: write int(z.real)")

    def __float__(self) -> float:
        raise TypeError("a complex number cannot be converted to a real one: write z.real, or abs(z)")

    def conj(self) -> Any:
        """Return the conjugate."""
        return np.conjugate(self)

    conjugate = conj

    def __repr__(self) -> str:
        shown = [[self.tape.name(r) for r in part.ravel().tolist()] for part in self.entries]
        return in_full(self, f"{type(self).__name__}({', '.join(map(str, shown))})".replace("'", ""))

    __str__ = __repr__


class ComplexScalar(_Complex, Number):
    """A complex number that depends on the function's arguments."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.complex128)

    def as_array(self) -> ComplexArray:
        """Return the number as an array of shape ()."""
        return ComplexArray(self.tape, as_array(self.tape, self.re), as_array(self.tape, self.im))

    def item(self) -> ComplexScalar:
        """Return itself."""
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            if isinstance(ufunc := getattr(np, name, None), np.ufunc):
                return functools.partial(ufunc, self)  # NumPy calls it for items of object arrays
            if hasattr(np.ndarray, name):
                return getattr(self.as_array(), name)
        raise AttributeError(f"ComplexScalar has no attribute {name!r}")


class ComplexArray(_Complex, AnyArray):
    """An array of complex numbers: two traced arrays of the same shape."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.ndarray)
    __hash__ = Traced.__hash__

    @property
    def real(self) -> TracedArray:
        """The real parts, a view."""
        part: TracedArray = self.re
        return part

    @real.setter
    def real(self, value: Any) -> None:
        self.re[...] = value

    @property
    def imag(self) -> TracedArray:
        """The imaginary parts, a view."""
        part: TracedArray = self.im
        return part

    @imag.setter
    def imag(self, value: Any) -> None:
        self.im[...] = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        shape: tuple[int, ...] = self.re.shape
        return shape

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self.re.shape = shape
        self.im.shape = shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        size: int = self.re.size
        return size

    def moved(self, move: Callable[[Any], Any]) -> Any:
        """Apply a function that moves entries to both parts, and return the resulting array."""
        return make_complex(self.tape, move(self.re), move(self.im))

    def __len__(self) -> int:
        return len(self.re)

    def __iter__(self) -> Iterator[Any]:
        for re, im in zip(self.re, self.im, strict=True):
            yield make_complex(self.tape, re, im)

    def __getattr__(self, name: str) -> Any:
        if not self.ndim and isinstance(ufunc := getattr(np, name, None), np.ufunc):
            return functools.partial(ufunc, self)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise refuse(f"The method .{name} of complex arrays is not recorded. Use a function of NumPy, or a copy.")
        raise AttributeError(f"ComplexArray has no attribute {name!r}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if depends(self):
            if (dtype is not None and np.dtype(dtype) == object) or (dtype is None and not self.ndim):
                items = np.empty(self.size, object)
                items[:] = [
                    ComplexScalar(self.tape, *pair) for pair in zip(self.re.ravel(), self.im.ravel(), strict=True)
                ]
                return items.reshape(self.shape)
            raise no_number("complex")
        return np.array(concrete(self), dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.moved(lambda part: part[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        re, im = parts_of(self.tape, value)
        self.re[index] = re
        self.im[index] = im

    def item(self, *index: Any) -> Any:
        """Return one entry as a scalar."""
        return make_complex(self.tape, self.re.item(*index), self.im.item(*index))

    def astype(self, dtype: Any, **options: Any) -> Any:
        """Return a copy with another type: complex128, bool, or, for constants, any type of NumPy."""
        target = np.dtype(dtype)
        if target == self.dtype:
            return self.copy()
        if target.kind == "b":
            return self != 0
        if target.kind == "O":
            return self.__array__(object)
        if depends(self):
            raise refuse(
                f"Complex numbers that depend on the function's arguments are converted to {target}, which would drop "
                "their imaginary parts. Write z.real, or abs(z)."
            )
        return concrete(self).astype(target)

    def read_flat(self, index: Any) -> Any:
        """Return entries by flat index, in C order."""
        return make_complex(self.tape, self.re.flat[index], self.im.flat[index])

    def write_flat(self, index: Any, value: Any) -> None:
        """Set entries by flat index, in C order."""
        self.re.flat[index], self.im.flat[index] = parts_of(self.tape, value)


def is_constant_zero(value: Any) -> bool:
    """Return True if a real operand is constant and zero everywhere."""
    return not depends(value) and not np.any(concrete(value))


def parts_of(tape: Tape, value: Any) -> Pair:
    """Return the real and imaginary part of an operand; lists become arrays."""
    if isinstance(value, Operand) and value.is_complex:
        return Pair(value.re, value.im)  # type: ignore[attr-defined]  # complex operands have both parts
    if is_sparse(value):
        return Pair(value.real, value.imag)
    if isinstance(value, Operand):
        return Pair(value, np.float64(0.0))
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        if holds_complex(value):
            items = value if isinstance(value, list | tuple) else value.tolist()
            if not isinstance(items, list | tuple):
                return parts_of(tape, items)
            pairs = [parts_of(tape, item) for item in items]
            re = [pair.re for pair in pairs]
            # items that are real lists or arrays have as many imaginary parts, all 0
            im = [np.broadcast_to(pair.im, np.shape(pair.re)) if np.shape(pair.re) else pair.im for pair in pairs]
            re_array, im_array = as_array(tape, re), as_array(tape, im)
            return Pair(re_array, im_array)
        return Pair(as_array(tape, value), np.float64(0.0))
    if isinstance(value, complex) or (isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "c"):
        return Pair(value.real, value.imag) if np.ndim(value) else Pair(np.float64(value.real), np.float64(value.imag))
    return Pair(np.float64(value) if isinstance(value, float | int) else value, np.float64(0.0))


def make_complex(tape: Tape, re: Any, im: Any) -> Any:
    """Return the complex value of two parts, which are broadcast: a scalar or an array, a constant if both are."""
    if type(re) is type(im) is TracedArray and re.shape == im.shape and not (re.boolean or im.boolean):
        return ComplexArray(tape, re, im)
    if _is_single(re) and _is_single(im):
        if depends(re) or depends(im):
            return ComplexScalar(tape, _scalar(tape, re), _scalar(tape, im))
        return np.complex128(complex(float(concrete(re)), float(concrete(im))))
    parts = [as_array(tape, part) for part in (re, im)]
    if parts[0].shape != parts[1].shape:
        shape = np.broadcast_shapes(parts[0].shape, parts[1].shape)
        parts = [
            part if part.shape == shape else TracedArray(tape, np.broadcast_to(part.references, shape).copy())
            for part in parts
        ]
    return ComplexArray(tape, *parts)


def _is_single(part: Any) -> bool:
    kind = type(part)
    return kind is TracedScalar or kind is float or (kind is not TracedArray and not np.ndim(part))


def _scalar(tape: Tape, part: Any) -> Any:
    """Return a part as a number or a real traced scalar; truth values become 1 or 0."""
    if type(part) is TracedScalar:
        return part
    return make_scalar(tape, int(references_of(tape, part)))


def _array(tape: Tape, value: Any, arguments: Any, keywords: Any) -> Any:
    """Convert a complex operand to an array; arrays are shared."""
    if isinstance(value, ComplexArray):
        return value
    re, im = parts_of(tape, value)
    return make_complex(tape, as_array(tape, re), im)


PROTOCOLS["complex array"] = _array
PROTOCOLS["complex constant"] = lambda tape, numbers, arguments, keywords: ComplexArray(
    tape, *(as_array(tape, part) for part in (numbers.real, numbers.imag))
)


# Universal functions -------------------------------------------------------------------------------------------------
#
# Values equal NumPy's up to rounding, also on branch cuts: the sign of a zero selects the side of a cut. Only arctan2
# sees this sign (`accumulus.tape.live`), so formulas use it. Products are written as NumPy computes them, including
# factors that are a literal zero: a tape that keeps the signs of zeros needs them, and on other tapes they cost
# nothing. Quotients divide by a number of absolute value 1, and then by an absolute value; this neither overflows nor
# branches. Inverse trigonometric functions are Kahan's.
#
# The real part of a logarithm has the accuracy of its argument's rounding; near absolute value 1, where it nearly
# vanishes, NumPy's has more correct digits.

#: Powers with constant integer exponents below this number are products, as in NumPy; another number would round
#: otherwise.
MOST_PRODUCTS: Final = 100
Formula = Callable[..., Any]


def _arctan2(tape: Tape, y: Any, x: Any) -> Any:
    """Record arctan2, also of constants, since folding must respect the signs of zeros."""
    return apply(tape, ELEMENTWISE["arctan2"], (y, x))


def _is_negative(tape: Tape, x: Any) -> Any:
    """Return a truth value: x is negative, or negative zero."""
    return _arctan2(tape, x, -1.0) < 0


def _multiply(tape: Tape, a: Pair, b: Pair) -> Pair:
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _divide(tape: Tape, a: Pair, b: Pair) -> Pair:
    if is_constant_zero(b.im):  # Smith's method, as in NumPy, if its branch is known
        ratio = b.im / b.re
        scale = b.re + b.im * ratio
        return Pair((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale)
    if is_constant_zero(b.re):
        ratio = b.re / b.im
        scale = b.im + b.re * ratio
        return Pair((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale)
    length = np.hypot(b.re, b.im)
    cosine, sine = b.re / length, b.im / length
    return Pair((a.re * cosine + a.im * sine) / length, (a.im * cosine - a.re * sine) / length)


def _absolute(tape: Tape, z: Pair) -> Any:
    if is_constant_zero(z.im):
        return np.absolute(z.re)
    return np.absolute(z.im) if is_constant_zero(z.re) else np.hypot(z.re, z.im)


def _sign(tape: Tape, z: Pair) -> Pair:
    length = _absolute(tape, z)
    divisor = np.where(length == 0, 1.0, length)
    return Pair(z.re / divisor, z.im / divisor)


def _exp(tape: Tape, z: Pair) -> Pair:
    scale = np.exp(z.re)
    return Pair(scale * np.cos(z.im), scale * np.sin(z.im))


def _expm1(tape: Tape, z: Pair) -> Pair:
    half = np.sin(z.im / 2.0)
    return Pair(np.expm1(z.re) * np.cos(z.im) - 2.0 * half * half, np.exp(z.re) * np.sin(z.im))


def _log(tape: Tape, z: Pair) -> Pair:
    return Pair(np.log(_absolute(tape, z)), _arctan2(tape, z.im, z.re))


def _scaled(formula: Formula, before: float = 1.0, after: float = 1.0) -> Formula:
    """Return the formula ``after · formula(before · z)``."""

    def scaled(tape: Tape, z: Pair) -> Pair:
        argument = z if before == 1.0 else Pair(z.re * before, z.im * before)
        result = formula(tape, argument)
        return result if after == 1.0 else Pair(result.re * after, result.im * after)

    return scaled


def _sqrt(tape: Tape, z: Pair) -> Pair:
    right = z.re >= 0
    below = _is_negative(tape, z.im)
    if is_constant_zero(z.im):
        root = np.sqrt(np.absolute(z.re))
        other: Any = np.float64(0.0)
    else:
        root = np.sqrt((np.absolute(z.re) + np.hypot(z.re, z.im)) / 2.0)
        other = np.absolute(z.im) / np.where(root == 0, 1.0, 2.0 * root)
    im = np.where(right, other, root)
    return Pair(np.where(right, root, other), np.where(below, -im, im))


def _power(tape: Tape, a: Pair, b: Pair) -> Pair:
    if not depends(b.re) and not np.ndim(b.re) and is_constant_zero(b.im):
        exponent = float(concrete(b.re))
        if exponent == 0.5:
            return _sqrt(tape, a)
        if exponent.is_integer() and abs(exponent) < MOST_PRODUCTS:
            power = _whole_power(tape, a, int(abs(exponent)))
            return power if exponent >= 0 else _divide(tape, _ONE, power)
    return _exp(tape, _multiply(tape, b, _log(tape, a)))


def _whole_power(tape: Tape, z: Pair, exponent: int) -> Pair:
    """Return an integer power, by repeated squaring."""
    result, square = None, z
    while exponent:
        if exponent & 1:
            result = square if result is None else _multiply(tape, result, square)
        exponent >>= 1
        if exponent:
            square = _multiply(tape, square, square)
    return result if result is not None else Pair(1.0 + 0.0 * z.re, 0.0 * z.im)


_ONE: Final = Pair(np.float64(1.0), np.float64(0.0))


def _tanh(tape: Tape, z: Pair) -> Pair:
    """Return tanh from tanh of the real and tan of the imaginary part; no overflow, and only poles divide by zero."""
    t, tangent = np.tanh(z.re), np.tan(z.im)
    decay = np.exp(-2.0 * np.absolute(z.re))
    steepness = 4.0 * decay / ((1.0 + decay) * (1.0 + decay))  # 1 - t², without the cancellation
    square = tangent * tangent
    divisor = 1.0 + t * t * square
    return Pair(t * (1.0 + square) / divisor, tangent * steepness / divisor)


def _roots(tape: Tape, z: Pair) -> tuple[Pair, Pair]:
    """Return the square roots of 1 + z and 1 - z."""
    return _sqrt(tape, Pair(1.0 + z.re, z.im)), _sqrt(tape, Pair(1.0 - z.re, -z.im))


def _arcsin(tape: Tape, z: Pair) -> Pair:
    plus, minus = _roots(tape, z)
    re = _arctan2(tape, z.re, plus.re * minus.re - plus.im * minus.im)
    return Pair(re, np.arcsinh(minus.re * plus.im - minus.im * plus.re))


def _arccos(tape: Tape, z: Pair) -> Pair:
    plus, minus = _roots(tape, z)
    return Pair(2.0 * _arctan2(tape, minus.re, plus.re), np.arcsinh(plus.re * minus.im - plus.im * minus.re))


def _arccosh(tape: Tape, z: Pair) -> Pair:
    plus, minus = (_sqrt(tape, Pair(z.re + one, z.im)) for one in (1.0, -1.0))
    return Pair(np.arcsinh(plus.re * minus.re + plus.im * minus.im), 2.0 * _arctan2(tape, minus.im, plus.re))


def _arctanh(tape: Tape, z: Pair) -> Pair:
    length = np.absolute(z.re)
    rest = (1.0 - length) * (1.0 - length) + z.im * z.im
    re = np.log1p(4.0 * length / rest) / 4.0
    im = _arctan2(tape, 2.0 * z.im, (1.0 - z.re) * (1.0 + z.re) - z.im * z.im) / 2.0
    return Pair(np.where(z.re < 0, -re, re), im)


def _turned(formula: Formula) -> Formula:
    """Return the formula -i·f(i·z), which converts between trigonometric and hyperbolic functions."""

    def turned(tape: Tape, z: Pair) -> Pair:
        result = formula(tape, Pair(-z.im, z.re))
        return Pair(result.im, -result.re)

    return turned


def _truth(tape: Tape, z: Pair) -> Any:
    return np.logical_or(z.re != 0, z.im != 0)


def _of_truth(ufunc: np.ufunc) -> Formula:
    return lambda tape, *pairs: ufunc(*(_truth(tape, pair) for pair in pairs))


#: NumPy's universal functions by name → formulas of a tape and pairs, which return a pair or a real result.
FORMULAS: Final[dict[str, Formula]] = {
    "add": lambda tape, a, b: Pair(a.re + b.re, a.im + b.im),
    "subtract": lambda tape, a, b: Pair(a.re - b.re, a.im - b.im),
    "multiply": _multiply,
    "divide": _divide,
    "negative": lambda tape, z: Pair(-z.re, -z.im),
    "positive": lambda tape, z: z,
    "conjugate": lambda tape, z: Pair(z.re, -z.im),
    "square": lambda tape, z: _multiply(tape, z, z),
    "reciprocal": lambda tape, z: _divide(tape, _ONE, z),
    "power": _power,
    "float_power": _power,
    "absolute": _absolute,
    "sign": _sign,
    "rint": lambda tape, z: Pair(np.rint(z.re), np.rint(z.im)),
    "exp": _exp,
    "exp2": _scaled(_exp, before=math.log(2.0)),
    "expm1": _expm1,
    "log": _log,
    "log2": _scaled(_log, after=1.0 / math.log(2.0)),
    "log10": _scaled(_log, after=1.0 / math.log(10.0)),
    "log1p": lambda tape, z: _log(tape, Pair(z.re + 1.0, z.im)),
    "sqrt": _sqrt,
    "sin": lambda tape, z: Pair(np.sin(z.re) * np.cosh(z.im), np.cos(z.re) * np.sinh(z.im)),
    "cos": lambda tape, z: Pair(np.cos(z.re) * np.cosh(z.im), -(np.sin(z.re) * np.sinh(z.im))),
    "tan": _turned(_tanh),
    "sinh": lambda tape, z: Pair(np.sinh(z.re) * np.cos(z.im), np.cosh(z.re) * np.sin(z.im)),
    "cosh": lambda tape, z: Pair(np.cosh(z.re) * np.cos(z.im), np.sinh(z.re) * np.sin(z.im)),
    "tanh": _tanh,
    "arcsin": _arcsin,
    "arccos": _arccos,
    "arctan": _turned(_arctanh),
    "arcsinh": _turned(_arcsin),
    "arccosh": _arccosh,
    "arctanh": _arctanh,
    "equal": lambda tape, a, b: np.logical_and(a.re == b.re, a.im == b.im),
    "not_equal": lambda tape, a, b: np.logical_or(a.re != b.re, a.im != b.im),
    "isnan": lambda tape, z: np.logical_or(np.isnan(z.re), np.isnan(z.im)),
    "isinf": lambda tape, z: np.logical_or(np.isinf(z.re), np.isinf(z.im)),
    "isfinite": lambda tape, z: np.logical_and(np.isfinite(z.re), np.isfinite(z.im)),
    "logical_not": _of_truth(np.logical_not),
    "logical_and": _of_truth(np.logical_and),
    "logical_or": _of_truth(np.logical_or),
    "logical_xor": _of_truth(np.logical_xor),
}
#: The same formulas by universal function.
UFUNCS: Final = {getattr(np, name): formula for name, formula in FORMULAS.items()}

#: Functions that need an ordering, which complex numbers lack.
_ORDER: Final = frozenset(["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"])


def _call(tape: Tape, ufunc: np.ufunc, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Record a universal function with at least one complex operand.

    Raises:
        TraceError: for a function without a formula, or a data type other than complex128.
    """
    formula = UFUNCS.get(ufunc)
    if formula is None:
        if not keywords and len(inputs) == 1 and (rows := complex_rows(ufunc, of_complex=True)):
            return _results(tape, ufunc, rows, parts_of(tape, inputs[0]))
        if ufunc.__name__ in _ORDER:
            raise refuse(
                f"np.{ufunc.__name__} orders complex numbers by their real part, ties by the imaginary one, which is "
                "not recorded. Compare z.real, z.imag or abs(z)."
            )
        raise refuse(
            f"{ufunc.__name__} of complex numbers that depend on the function's arguments is not recorded. Recorded "
            f"are {', '.join(sorted(FORMULAS))}; write it with those, or with z.real and z.imag."
        )
    dtype = keywords.get("dtype")
    if dtype is not None and np.dtype(dtype) != np.complex128:
        raise refuse(
            f"np.{ufunc.__name__} is called with dtype={np.dtype(dtype)}: complex numbers are recorded as complex128."
        )
    with np.errstate(all="ignore"):
        result = formula(tape, *(parts_of(tape, value) for value in inputs))
        return make_complex(tape, *result) if isinstance(result, Pair) else result


def _results(tape: Tape, ufunc: np.ufunc, rows: Sequence[Elementwise], inputs: Sequence[Any]) -> Any:
    """Return complex results of a function of real numbers, from rows of their real and imaginary parts."""
    parts = [apply(tape, row, inputs) for row in rows]
    results = tuple(make_complex(tape, *pair) for pair in zip(parts[::2], parts[1::2], strict=True))
    return results if ufunc.nout > 1 else results[0]


PROTOCOLS["complex ufunc"] = _call
PROTOCOLS["complex results"] = _results
