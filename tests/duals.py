"""Values and first derivatives of a function in as many digits as they need, and as doubles round them.

The text that NumPy runs is run on numbers of another kind, with `NAMES` in NumPy's place: pairs of a value and its
derivatives, with textbook rules and mpmath's functions, so that nothing of the library enters. `exact` says what they
are. `rounded` runs the text as it is written, forward, each operation rounded to one of the two doubles beside
its result, at random, unless a double holds it (D. S. Parker, Monte Carlo Arithmetic, UCLA 1997): several such runs say
what rounding does to the plain program. `moved` moves exact results and arguments, too: such runs say how well results
are conditioned.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from mpmath.ctx_mp import MPContext

Floats = np.ndarray[Any, Any]


class OutOfRangeError(Exception):
    """A text compares what no double holds, or decides by the sign of a zero."""


#: A context whose precision is set for each run.
mp = MPContext()
#: Digits of a first run, and those of later ones: two have to agree. Sums of numbers that are hundreds of decades apart
#: take as many more.
FIRST_DIGITS: Final = 50
DIGITS: Final = (110, 250, 800)
#: To how many digits two runs have to agree, which is more than doubles have.
AGREED: Final = 1e-22
UNIT: Final = 2.0**-52
#: Bits of a result before it is rounded to a double: more than twice those of a double, so that products are exact.
BITS: Final = 170
#: Decades within which doubles keep all their digits, with some left for what derivatives multiply by.
LEAST, MOST = mp.mpf(10) ** -290, mp.mpf(10) ** 290
#: Exponentials and powers beyond this are out of range whatever else happens, and take mpmath long.
LARGE: Final = 1e4
#: From here on an angle has no digit that rounding leaves.
LARGE_ANGLE: Final = 1e15


class Arithmetic:
    """How a number is kept: with all its digits.

    Numbers out of the range of doubles become NaN.

    Attributes:
        precision: how many bits.
        apart: how many bits terms of a sum are apart at most.
    """

    def __init__(self, digits: int, apart: int = 0) -> None:
        self.precision, self.apart = int(digits * 3.33) + apart, 0

    def keep(self, x: Any) -> Any:
        """Return the number as it is kept."""
        size = abs(x)
        return x if x == 0 or LEAST < size < MOST else mp.nan

    def sum(self, a: Any, b: Any) -> Any:
        """Return a sum, not yet as it is kept."""
        if a and b and mp.isfinite(a) and mp.isfinite(b):
            (_, _, p, m), (_, _, q, n) = a._mpf_, b._mpf_
            self.apart = max(self.apart, abs(p + m - q - n))
        return a + b


class Rounding(Arithmetic):
    """How doubles keep a number, rounded up or down at random where that is not exact."""

    def __init__(self, seed: int) -> None:
        super().__init__(0)
        self.precision = BITS
        self.draw = random.Random(seed)

    def keep(self, x: Any) -> Any:
        x = super().keep(x)
        if not mp.isfinite(x):
            return mp.nan
        near = float(x)
        if (rest := x - near) == 0 or self.draw.random() < 0.5:
            return mp.mpf(near)
        return mp.mpf(float(np.nextafter(near, np.inf if rest > 0 else -np.inf)))


def _with_number(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method of two numbers; NumPy goes through the entries of an array."""

    def run(self: Dual, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            if other.ndim:
                return NotImplemented
            other = other.item()
        return method(self, other if isinstance(other, Dual) else self.constant(other))

    return run


class Moving(Rounding):
    """How doubles keep a number that is moved to a next one, exact or not."""

    def keep(self, x: Any) -> Any:
        """Return the number as it is kept."""
        x = super().keep(x)
        return x + x * (1 if self.draw.random() < 0.5 else -1) * UNIT if mp.isfinite(x) else x


class Dual:
    """A number with its derivatives by those inputs that it depends on."""

    __slots__ = ("how", "slopes", "value")

    def __init__(self, value: Any, slopes: Mapping[int, Any], how: Arithmetic) -> None:
        self.value, self.slopes, self.how = value, slopes, how

    def through(self, value: Any, *factors: tuple[Any, Dual]) -> Dual:
        """Return the result of an operation with partial derivatives by its operands."""
        keep = self.how.keep
        value = keep(value)
        slopes: dict[int, Any] = {}
        for factor, operand in factors:
            kept = keep(factor)
            for k, slope in operand.slopes.items():
                product = keep(kept * slope)
                slopes[k] = keep(self.how.sum(slopes[k], product)) if k in slopes else product
        if not mp.isfinite(value):
            slopes = dict.fromkeys(slopes, mp.nan)
        return Dual(value, slopes, self.how)

    def constant(self, x: Any) -> Dual:
        """Return a number that depends on no input."""
        return Dual(mp.mpf(float(x)), {}, self.how)

    @_with_number
    def __add__(self, b: Dual) -> Dual:
        return self.through(self.how.sum(self.value, b.value), (1, self), (1, b))

    @_with_number
    def __sub__(self, b: Dual) -> Dual:
        return self.through(self.how.sum(self.value, -b.value), (1, self), (-1, b))

    @_with_number
    def __mul__(self, b: Dual) -> Dual:
        return self.through(self.value * b.value, (b.value, self), (self.value, b))

    @_with_number
    def __truediv__(self, b: Dual) -> Dual:
        quotient = self.how.keep(_quotient(self.value, b.value))
        return self.through(quotient, (_quotient(1, b.value), self), (-_quotient(quotient, b.value), b))

    @_with_number
    def __pow__(self, n: Dual) -> Dual:
        x, value = self.value, self.how.keep(_power(self.value, n.value))
        factor = n.value * _power(x, n.value - 1) if n.value else mp.mpf(0)
        return self.through(value, (factor, self), *([(value * _log(x), n)] if n.slopes else []))

    @_with_number
    def __rsub__(self, b: Any) -> Any:
        return b - self

    @_with_number
    def __rtruediv__(self, b: Any) -> Any:
        return b / self

    @_with_number
    def __rpow__(self, b: Any) -> Any:
        return b**self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dual:
        return Dual(-self.value, {k: -slope for k, slope in self.slopes.items()}, self.how)

    def __pos__(self) -> Dual:
        return self

    def __abs__(self) -> Dual:
        if self.value == 0:  # where libraries differ in the slope
            return Dual(self.value, dict.fromkeys(self.slopes, mp.nan), self.how)
        return -self if self.value < 0 else self

    @_with_number
    def __lt__(self, b: Dual) -> bool:
        return _order(self, b) < 0

    @_with_number
    def __le__(self, b: Dual) -> bool:
        return _order(self, b) <= 0

    @_with_number
    def __gt__(self, b: Dual) -> bool:
        return _order(self, b) > 0

    @_with_number
    def __ge__(self, b: Dual) -> bool:
        return _order(self, b) >= 0


def _order(a: Dual, b: Dual) -> int:
    if not (mp.isfinite(a.value) and mp.isfinite(b.value)):
        raise OutOfRangeError("a comparison with something out of range")
    return int(a.value > b.value) - int(a.value < b.value)


def _quotient(a: Any, b: Any) -> Any:
    return a / b if b else mp.nan


def _power(x: Any, n: Any) -> Any:
    if x == 0:
        return mp.mpf(0) if n > 0 else mp.mpf(1) if n == 0 else mp.nan
    if not (mp.isfinite(x) and mp.isfinite(n)) or abs(n * mp.log(abs(x))) > LARGE:
        return mp.nan
    return _real(mp.power(x, n))


def _real(x: Any) -> Any:
    return x if isinstance(x, mp.mpf) else mp.nan


def _log(x: Any) -> Any:
    return mp.log(x) if x > 0 else mp.nan


def _sqrt(x: Any) -> Any:
    return mp.sqrt(x) if x >= 0 else mp.nan


def _exp(x: Any) -> Any:
    return mp.exp(x) if abs(x) < LARGE else mp.nan


def _cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _within(f: Callable[[Any], Any], limit: float = LARGE_ANGLE) -> Callable[[Any], Any]:
    return lambda x: f(x) if abs(x) < limit else mp.nan


def _where(inside: Callable[[Any], bool], f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(x) if inside(x) else mp.nan


#: Functions of one number: the value, and the derivative from the argument x and the value v, which doubles have, too.
UNARY: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]]] = {
    "sqrt": (_sqrt, lambda x, v: _quotient(1, 2 * v)),
    "exp": (_exp, lambda x, v: v),
    "log": (_log, lambda x, v: _quotient(1, x)),
    "log1p": (lambda x: mp.log1p(x) if x > -1 else mp.nan, lambda x, v: _quotient(1, 1 + x)),
    "expm1": (_within(mp.expm1, LARGE), lambda x, v: _exp(x)),
    "log2": (lambda x: _log(x) / mp.ln2, lambda x, v: _quotient(1, x * mp.ln2)),
    "log10": (lambda x: _log(x) / mp.ln10, lambda x, v: _quotient(1, x * mp.ln10)),
    "sin": (_within(mp.sin), lambda x, v: mp.cos(x)),
    "cos": (_within(mp.cos), lambda x, v: -mp.sin(x)),
    "tan": (_within(mp.tan), lambda x, v: 1 + v * v),
    "sinh": (_within(mp.sinh, LARGE), lambda x, v: mp.cosh(x)),
    "cosh": (_within(mp.cosh, LARGE), lambda x, v: mp.sinh(x)),
    "tanh": (_within(mp.tanh, LARGE), lambda x, v: 1 - v * v),
    "arctan": (mp.atan, lambda x, v: 1 / (1 + x * x)),
    "arcsinh": (mp.asinh, lambda x, v: 1 / mp.sqrt(1 + x * x)),
    "arccos": (_where(lambda x: abs(x) <= 1, mp.acos), lambda x, v: -_quotient(1, _sqrt((1 - x) * (1 + x)))),
    "arcsin": (_where(lambda x: abs(x) <= 1, mp.asin), lambda x, v: _quotient(1, _sqrt((1 - x) * (1 + x)))),
    "cbrt": (_cbrt, lambda x, v: _quotient(1, 3 * v * v)),
}


def _unary(name: str) -> Callable[[Any], Any]:
    f, partial = UNARY[name]

    def run(x: Any) -> Any:
        if not isinstance(x, Dual):
            return getattr(np, name)(x)
        if not mp.isfinite(x.value):
            return x.through(mp.nan, (mp.nan, x))
        value = x.how.keep(f(x.value))
        return x.through(value, (partial(x.value, value) if mp.isfinite(value) else mp.nan, x))

    return run


def _pair(a: Any, b: Any) -> tuple[Dual, Dual]:
    one = a if isinstance(a, Dual) else b
    return (a if isinstance(a, Dual) else one.constant(a)), (b if isinstance(b, Dual) else one.constant(b))


def _extreme(larger: bool) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        if not (isinstance(a, Dual) or isinstance(b, Dual)):
            return max(a, b) if larger else min(a, b)
        a, b = _pair(a, b)
        if order := _order(a, b):
            return a if (order > 0) == larger else b
        return Dual(a.value, dict.fromkeys({**a.slopes, **b.slopes}, mp.nan), a.how)  # where libraries share slopes

    return run


def _hypot(a: Any, b: Any) -> Any:
    a, b = _pair(a, b)
    value = a.how.keep(mp.hypot(a.value, b.value))
    return a.through(value, (_quotient(a.value, value), a), (_quotient(b.value, value), b))


def _arctan2(a: Any, b: Any) -> Any:
    a, b = _pair(a, b)
    if a.value == 0:  # whose sign these numbers do not have
        raise OutOfRangeError("the angle may depend on the sign of a zero")
    square = a.value**2 + b.value**2
    return a.through(mp.atan2(a.value, b.value), (b.value / square, a), (-a.value / square, b))


def _logaddexp(a: Any, b: Any) -> Any:
    a, b = _pair(a, b)
    high, apart = max(a.value, b.value), _exp(-abs(a.value - b.value))
    low = mp.log1p(apart)
    shares = (1 / (1 + _exp(b.value - a.value)), a), (1 / (1 + _exp(a.value - b.value)), b)
    return a.through(a.how.sum(high, low), *shares)


def _eliminated(matrix: Any, right: Any) -> tuple[Any, Any, int]:
    """A triangular matrix and right-hand sides with the same solutions, and the sign of the exchanges."""
    A, b, sign = np.array(matrix, object), np.array(right, object), 1
    for k in range(len(A)):
        largest = max(range(k, len(A)), key=lambda i: abs(_size(A[i, k])))
        if largest != k:
            A[[k, largest]], b[[k, largest]], sign = A[[largest, k]], b[[largest, k]], -sign
        for i in range(k + 1, len(A)):
            factor = A[i, k] / A[k, k]
            A[i, k + 1 :] = A[i, k + 1 :] - factor * A[k, k + 1 :]
            b[i] = b[i] - factor * b[k]
    return A, b, sign


def _size(x: Any) -> Any:
    value = x.value if isinstance(x, Dual) else x
    return value if mp.isfinite(value) else mp.mpf(0)


class _LinearAlgebra:
    """Of small matrices, by Gauss's elimination with exchanges of rows."""

    def solve(self, matrix: Any, right: Any) -> Any:
        A, x, _ = _eliminated(matrix, right)
        for k in reversed(range(len(A))):
            for j in range(k + 1, len(A)):
                x[k] = x[k] - A[k, j] * x[j]
            x[k] = x[k] / A[k, k]
        return x

    def inv(self, matrix: Any) -> Any:
        return self.solve(matrix, np.eye(len(matrix)))

    def det(self, matrix: Any) -> Any:
        A, _, sign = _eliminated(matrix, np.zeros((len(matrix), 0)))
        result = sign * A[0, 0]
        for k in range(1, len(A)):
            result = result * A[k, k]
        return result

    def slogdet(self, matrix: Any) -> tuple[Any, Any]:
        A, _, sign = _eliminated(matrix, np.zeros((len(matrix), 0)))
        result = np.float64(0.0)
        for k in range(len(A)):
            sign = -sign if _size(A[k, k]) < 0 else sign
            result = result + _unary("log")(abs(A[k, k]))
        return A[0, 0] * 0.0 + sign, result

    def norm(self, x: Any) -> Any:
        return _unary("sqrt")(np.sum(x * x))


class Names:
    """What stands for NumPy in a text: its own functions, but for those that compute."""

    linalg = _LinearAlgebra()

    def __init__(self) -> None:
        for name in UNARY:
            setattr(self, name, np.frompyfunc(_unary(name), 1, 1))
        pairs = {"hypot": _hypot, "arctan2": _arctan2, "logaddexp": _logaddexp, "power": lambda a, b: a**b}
        pairs |= {"minimum": _extreme(False), "maximum": _extreme(True)}
        for name, f in pairs.items():
            setattr(self, name, np.frompyfunc(f, 2, 1))
        self.where = np.frompyfunc(lambda condition, a, b: a if condition else b, 3, 1)
        self.abs = np.frompyfunc(abs, 1, 1)
        self.square = np.frompyfunc(lambda x: x * x, 1, 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


NAMES: Final = Names()


def function_of(source: str, names: Any = np) -> Callable[..., Any]:
    """The function `f` of a text."""
    scope: dict[str, Any] = {"np": names}
    exec(compile(source, "<random program>", "exec"), scope)
    return scope["f"]  # type: ignore[no-any-return]


def table(f: Callable[..., Any], x: Sequence[float], how: Arithmetic) -> Any:
    """Return values and slopes side by side, (outputs, 1 + inputs), of a function of one array in `NAMES`."""
    mp.prec = how.precision
    numbers = [mp.mpf(float(each)) for each in x]
    duals = np.array([Dual(each, {k: mp.mpf(1)}, how) for k, each in enumerate(numbers)], object)
    results = [each if isinstance(each, Dual) else Dual(mp.mpf(float(each)), {}, how) for each in np.ravel(f(duals))]
    zero = mp.mpf(0)
    return np.array([[e.value, *(e.slopes.get(k, zero) for k in range(len(numbers)))] for e in results], object)


def exact(f: Callable[..., Any], x: Sequence[float]) -> Any:
    """Values and slopes side by side, (outputs, 1 + inputs), in as many digits as two runs need to agree; else NaN.

    Raises:
        OutOfRangeError: where the text compares something out of range.
    """
    how = Arithmetic(FIRST_DIGITS)
    before = table(f, x, how)
    for digits in DIGITS:
        how = Arithmetic(digits, how.apart)
        result = table(f, x, how)
        differ = np.array([not _agree(a, b) for a, b in zip(before.flat, result.flat, strict=True)])
        if not differ.any():
            return result
        before = result
    result.reshape(-1)[differ] = mp.nan
    return result


def _agree(a: Any, b: Any) -> bool:
    if not (mp.isfinite(a) and mp.isfinite(b)):
        return not (mp.isfinite(a) or mp.isfinite(b))
    return bool(abs(a - b) <= AGREED * abs(b))


def rounded(f: Callable[..., Any], x: Sequence[float], seed: int) -> Any:
    """Return the same as the plain program has it, in which each rounding is up or down by chance."""
    return table(f, x, Rounding(seed))


def moved(f: Callable[..., Any], x: Sequence[float], seed: int) -> Any:
    """Return the same where arguments and all results of operations are moved to next doubles."""
    how = Moving(seed)
    mp.prec = how.precision
    return table(f, [float(how.keep(mp.mpf(float(each)))) for each in x], how)


def off(found: Any, true: Any) -> Floats:
    """Return the distance of numbers from what they are; NaN where either is none."""
    pairs = zip(found.flat, true.flat, strict=True)
    apart = [float(abs(mp.mpf(a) - b)) if mp.isfinite(a) and mp.isfinite(b) else np.nan for a, b in pairs]
    return np.reshape(np.array(apart), true.shape)


# Held against the plain program --------------------------------------------------------------------------------------

#: Options of the program without rewriting.
PLAINLY: Final[Mapping[str, Any]] = {
    **{"optimise": False, "exact_order": True, "target": "numpy", "effort": "fast", "time_limit": 0.0},
    **{"check": False, "cache": False, "progress": False},
}
#: Times the plain program's error that is allowed, and units in the last place beside it.
TIMES: Final = 4.0
UNITS: Final = 4.0
#: Results below this have no digits to be told by.
TINY: Final = 1e-290
#: Runs that tell how far rounding moves a result.
RUNS: Final = 5
#: A result has digits if its error is less than this fraction of it.
LOST: Final = 1e-3


class At:
    """What a function is at a point, and how far rounding moves it; each is computed when it is asked for.

    Args:
        f: function of one array, in `NAMES`.
        x: the point.
        columns: of values and slopes side by side, that are looked at.
    """

    def __init__(self, f: Callable[..., Any], x: Sequence[float], columns: slice = slice(None)) -> None:
        self.f, self.x, self.columns = f, x, columns

    @cached_property
    def true(self) -> Any:
        """Values and slopes, NaN where something leaves the range of doubles."""
        return exact(self.f, self.x)[:, self.columns]

    @cached_property
    def size(self) -> Floats:
        """Their magnitudes, as doubles."""
        return np.abs(self.true).astype(float)  # type: ignore[no-any-return]

    @cached_property
    def rounded(self) -> Floats:
        """Errors of the plain program, its roundings up or down by chance; NaN where a run leaves the range."""
        return self._error(rounded)

    @cached_property
    def moved(self) -> Floats:
        """How far results move if arguments and results of all operations do; NaN where a run leaves the range."""
        return self._error(moved)

    def _error(self, run: Callable[..., Any]) -> Floats:
        errors = [off(run(self.f, self.x, seed)[:, self.columns], self.true) for seed in range(RUNS)]
        return np.max(errors, axis=0)  # type: ignore[no-any-return]

    def excess(self, found: Floats, plain: Floats) -> tuple[Floats, Floats]:
        """Return errors by what is allowed: by the plain program's error, and by what rounding can do in any order.

        The plain program's error is that of what it returned, or that of `rounded` where that is larger. Infinite where
        the plain program alone is finite; NaN where nothing is told: something is out of range, or plainly NaN.

        Args:
            found: results of the program that is examined, of the shape of `true`.
            plain: results of the plain program.
        """
        error, plainly = off(found, self.true), off(plain, self.true)
        told = np.isfinite(self.size) & np.isfinite(plain)
        allowed = TIMES * plainly + UNITS * UNIT * self.size + TINY
        strict = np.where(told, error / allowed, np.nan)
        if not (told & ~(error <= allowed)).any():
            return strict, strict
        allowed = TIMES * np.maximum(plainly, self.rounded) + UNITS * UNIT * self.size + TINY
        told &= np.isfinite(allowed)
        lost = told & ~np.isfinite(found)
        # of a number without a digit, none is as good
        has_digits = (allowed < LOST * self.size) | ((self.size == 0) & (allowed <= TINY))
        strict = np.where(lost, np.inf, np.where(told, error / allowed, np.nan))
        if not (strict > 1).any():
            return strict, strict
        loose = np.where(lost, np.where(has_digits, np.inf, 0.0), error / (allowed + TIMES * np.nan_to_num(self.moved)))
        return strict, np.where(told, loose, np.nan)
