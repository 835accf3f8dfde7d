"""Traced numbers, which the user's function receives instead of its own: references to a tape with Python's operators.

Operators on real scalars call the tape directly, in about a microsecond. All other operations arrive through NumPy's
protocols ``__array_ufunc__`` and ``__array_function__``, and use the tables in `accumulus.frontends.numpy.table`.

A value is real (``float64``; narrower types are converted) or boolean. In arithmetic, a boolean is ``select(b, 1, 0)``.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partialmethod
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE, no_decision, no_number, refuse
from accumulus.frontends.decisions import UnmergeableError, truth, whole
from accumulus.frontends.inner import InnerTape
from accumulus.frontends.numpy.operands import Operand, concrete, depends, entries_of, of_kind
from accumulus.frontends.numpy.table import PROTOCOLS, columns
from accumulus.frontends.numpy.texts import formatted, in_full, printed_number
from accumulus.tape.tape import Tape


def make_scalar(tape: Tape, reference: int, boolean: bool = False) -> Any:
    """Return the traced scalar of a reference; for a constant a NumPy number, so that constant code runs unchanged."""
    if reference < 0:
        number = tape.value_of(reference)
        return np.bool_(number) if boolean else np.float64(number)
    return (TracedBoolean if boolean else TracedScalar)(tape, reference)


def _innermost(tape: Tape) -> Tape:
    """Return the tape to record on: the tape of the current body, if `tape` is around it."""
    active = ACTIVE.tape
    return active if isinstance(active, InnerTape) and active.is_within(tape) else tape


#: Libraries of arrays that may hold traced arrays, and implement operations with them.
_HOLDING: Final = frozenset({"pint", "xarray"})


@lru_cache(maxsize=1024)
def _role(kind: Any) -> str:
    """Return the role of an operand's class next to traced values: "holds" them, "labels" results, or ""."""
    if hasattr(kind, "__pandas_priority__") and not issubclass(kind, Operand):
        return "labels"
    is_holding = any(str(base.__module__).partition(".")[0] in _HOLDING for base in kind.__mro__)
    return "holds" if is_holding and hasattr(kind, "__array_ufunc__") else ""


class Traced(Operand):
    """Base class of traced scalars and arrays: NumPy's protocols, and conversions to plain numbers."""

    __slots__ = ()
    # Objects of pandas leave operations to operands of higher priority.
    __array_priority__ = 10_000
    __pandas_priority__ = 10_000

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if any(map(_role, map(type, inputs))):
            is_held = any(_role(kind) == "holds" for kind in map(type, inputs))
            return NotImplemented if is_held else columns().record_ufunc(ufunc, method, inputs, keywords)
        record = PROTOCOLS.get(method)
        if record is None:
            raise refuse(f"np.{ufunc.__name__}.{method} cannot be recorded.")
        return record(_innermost(self.tape), ufunc, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        for kind in types:
            if _role(kind) == "holds":
                return NotImplemented
        return PROTOCOLS["__array_function__"](_innermost(self.tape), function, arguments, keywords)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np

    @property
    def __jax_array__(self) -> Any:
        raise refuse(
            "A function of JAX received a value that is traced through NumPy, since accumulus could not recognise the "
            "recorded function as one of JAX. Pass jax.jit(f) instead of f, or call acc.compile(jax.jit(g)) for the "
            "part that is written in JAX."
        )

    def __float__(self) -> float:
        printed = printed_number(self)
        return float(self._number("float")) if printed is None else printed

    def __int__(self) -> int:
        printed = printed_number(self)
        if printed is not None:
            return int(printed)
        return whole(self.tape, self._one_entry("int")) if depends(self) else int(self._number("int"))

    def __index__(self) -> int:
        if depends(self):
            return whole(self.tape, self._one_entry("index"), "index")
        value = self._number("index")
        if isinstance(value, float):
            raise TypeError(f"the number {value} cannot be an index: it is not an integer")
        return int(value)

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __bool__(self) -> bool:
        if depends(self):
            return truth(self.tape, self._one_entry("bool"))
        return bool(np.asarray(concrete(self)))

    def __format__(self, specification: str) -> str:
        return formatted(self, specification) if specification else str(self)

    def __hash__(self) -> int:
        raise no_number("hash")

    def _one_entry(self, kind: str) -> int:
        """Return the reference of the only entry, as a truth value (for "bool") or as a real number."""
        entries = self.entries
        if not isinstance(entries, int):
            if entries.size != 1:
                if ACTIVE.decisions is None:
                    raise no_decision() if kind == "bool" else no_number(kind)
                raise ValueError(
                    f"an array of {entries.size} entries has no {kind}: expected one entry, any() or all()"
                )
            entries = entries.item()
        return int(of_kind(self.tape, entries, self.boolean, boolean=kind == "bool"))

    def _number(self, kind: str) -> Any:
        if depends(self):
            PROTOCOLS["conversion"](self.tape, sys._getframe(2), (), {})
            raise no_number(kind)
        return np.asarray(concrete(self)).item()


class Number(Traced):
    """Base class of real and complex scalars, with the attributes of NumPy's that do not depend on the kind."""

    __slots__ = ()
    shape: Final[tuple[int, ...]] = ()
    strides: Final[tuple[int, ...]] = ()
    ndim: Final = 0
    size: Final = 1
    base: Final = None

    @property
    def T(self) -> Any:  # noqa: N802
        """Itself."""
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of a number of this type."""
        return int(self.dtype.itemsize)  # type: ignore[attr-defined]

    nbytes = itemsize

    @property
    def flat(self) -> Any:
        """The number as an iterable."""
        return self.as_array().flat

    def as_array(self) -> Any:
        """Return the number as an array of shape ()."""
        return PROTOCOLS["array"](self.tape, self, (), {})

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        if any(isinstance(item, numbers.Integral | slice) and not isinstance(item, bool) for item in items):
            raise IndexError("invalid index to scalar variable.")  # NumPy's words
        return self.as_array()[index]

    def __iter__(self) -> Any:
        # without this method, Python would iterate by `__getitem__`
        raise TypeError(f"'{self.__class__.__module__}.{self.__class__.__name__}' object is not iterable")

    def __contains__(self, other: Any) -> Any:
        raise TypeError(f"argument of type '{self.__class__.__module__}.{self.__class__.__name__}' is not iterable")

    def __copy__(self) -> Any:
        return self.as_array()[()]

    def __deepcopy__(self, memory: Any) -> Any:
        return self.__copy__()


class _Scalar(Number):
    """A reference with the interface of a NumPy scalar.

    `isinstance` takes it for the number that it stands for, so that type checks in user code take the same path.
    """

    __slots__ = ("reference", "tape")

    def __init__(self, tape: Tape, reference: int) -> None:
        self.tape = tape
        self.reference = reference

    boolean = False

    @property
    def entries(self) -> int:
        """The reference."""
        return self.reference

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's data type: float64 or bool."""
        return np.dtype(bool if self.boolean else float)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Change the number, which stands for an array of shape () that NumPy's function would have returned.

        Raises:
            UnmergeableError: in a branch, which does not log the change.
        """
        if ACTIVE.merging:
            raise UnmergeableError
        array = self.as_array()
        array[index] = value
        self.reference = int(array.references[()])

    @property
    def real(self) -> Any:
        """Itself."""
        return self

    @property
    def imag(self) -> float:
        """Zero."""
        return 0.0

    @property
    def flags(self) -> Any:
        """Memory layout, that of any number."""
        return np.float64(0.0).flags

    def as_integer_ratio(self) -> Any:
        """Raise the error for digits of a number that depends on the arguments."""
        raise no_number("digits")

    hex = as_integer_ratio

    def __neg__(self) -> Any:
        return np.negative(self)

    def __pos__(self) -> Any:
        return np.positive(self)

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __invert__(self) -> Any:
        return np.invert(self)

    def __str__(self) -> str:
        return in_full(self, self.tape.name(self.reference))

    def __repr__(self) -> str:
        return in_full(self, f"{type(self).__name__}({self.tape.name(self.reference)})", repr)


class TracedBoolean(_Scalar):
    """A truth value that depends on the function's arguments."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.bool_)
    boolean = True


class TracedScalar(_Scalar):
    """A real number that depends on the function's arguments."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.float64)

    def __neg__(self) -> TracedScalar:
        loop = ACTIVE.loop
        return _negative(self.tape, self) if loop is None else loop.recorded(self.tape, _negative, self)

    def is_integer(self) -> Any:
        """Return a traced truth value: the number has no fraction."""
        return self - np.floor(self) == 0.0

    # Python's integers have no negative zero, so 0.0 is added to remove the sign

    def __floor__(self) -> Any:
        return np.floor(self) + 0.0

    def __ceil__(self) -> Any:
        return np.ceil(self) + 0.0

    def __trunc__(self) -> Any:
        return np.trunc(self) + 0.0

    def __round__(self, digits: int | None = None) -> Any:
        rounded: Any = np.round
        return rounded(self, 0) + 0.0 if digits is None else rounded(self, digits)


def _negative(tape: Tape, number: TracedScalar) -> TracedScalar:
    return TracedScalar(tape, tape.negative(number.reference))


Binary = Callable[[Any, Any], Any]
Builder = Callable[[Tape, int, int], int]


def _is_operand(other: object) -> bool:
    kind: Any = type(other)
    is_number = isinstance(other, Traced | np.ndarray | np.generic | list | tuple | numbers.Complex)
    return is_number or _role(kind) == "labels"


def _operator(ufunc: np.ufunc) -> tuple[Binary, Binary]:
    """Return an operator and its reflected operator, by a universal function."""

    def forward(self: _Scalar, other: Any, _: None = None) -> Any:  # pow() passes None as its modulus
        return ufunc(self, other) if _is_operand(other) else NotImplemented

    def reflected(self: _Scalar, other: Any) -> Any:
        return ufunc(other, self) if _is_operand(other) else NotImplemented

    return forward, reflected


def _quick_operator(ufunc: np.ufunc, build: Builder, result: type[_Scalar]) -> tuple[Binary, Binary]:
    """Return the operators of `TracedScalar`, which call the tape directly for numbers."""

    def apply(self: TracedScalar, other: Any) -> Any:
        tape = self.tape
        if type(other) is TracedScalar:
            if other.tape is tape:
                return result(tape, build(tape.open, self.reference, other.reference))
        elif isinstance(other, (float, int)):  # a union takes longer
            writer = tape.open
            return result(tape, build(writer, self.reference, writer.constant(other)))
        return ufunc(self, other) if _is_operand(other) else NotImplemented

    def apply_reflected(self: TracedScalar, other: Any) -> Any:
        if isinstance(other, (float, int)):
            tape, writer = self.tape, self.tape.open
            return result(tape, build(writer, writer.constant(other), self.reference))
        return ufunc(other, self) if _is_operand(other) else NotImplemented

    # one function for both, since a number in the first iteration of a loop may be a value in all others
    def record(tape: Any, left: Any, right: Any) -> Any:
        return apply(left, right) if type(left) is TracedScalar else apply_reflected(right, left)

    def forward(self: TracedScalar, other: Any, _: None = None) -> Any:
        loop = ACTIVE.loop
        return apply(self, other) if loop is None else loop.recorded(self.tape, record, self, other)

    def reflected(self: TracedScalar, other: Any) -> Any:
        loop = ACTIVE.loop
        return apply_reflected(self, other) if loop is None else loop.recorded(self.tape, record, other, self)

    return forward, reflected


#: Operators → universal function, and the tape's builder for numbers if there is one.
_OPERATORS: Final[dict[str, tuple[np.ufunc, Builder | None]]] = {
    "add": (np.add, lambda tape, a, b: tape.add(a, b)),
    "sub": (np.subtract, lambda tape, a, b: tape.subtract(a, b)),
    "mul": (np.multiply, lambda tape, a, b: tape.multiply(a, b)),
    "truediv": (np.divide, lambda tape, a, b: tape.divide(a, b)),
    "pow": (np.power, lambda tape, a, b: tape.power(a, b)),
    "floordiv": (np.floor_divide, None),
    "mod": (np.remainder, None),
    "divmod": (np.divmod, None),
    "and": (np.bitwise_and, None),
    "or": (np.bitwise_or, None),
    "xor": (np.bitwise_xor, None),
}
#: Comparisons, which Python reflects itself.
_COMPARISONS: Final[dict[str, tuple[np.ufunc, Builder]]] = {
    "lt": (np.less, lambda tape, a, b: tape.apply("less", a, b)),
    "le": (np.less_equal, lambda tape, a, b: tape.apply("less_equal", a, b)),
    "gt": (np.greater, lambda tape, a, b: tape.apply("less", b, a)),
    "ge": (np.greater_equal, lambda tape, a, b: tape.apply("less_equal", b, a)),
    "eq": (np.equal, lambda tape, a, b: tape.apply("equal", a, b)),
    "ne": (np.not_equal, lambda tape, a, b: tape.apply("not_equal", a, b)),
}


def _define_operators() -> None:
    """Define operators without in-place variants: ``b &= c`` is ``b = b & c``, as for NumPy's scalars."""
    for symbol, (ufunc, build) in (_OPERATORS | _COMPARISONS).items():
        kinds = [(_Scalar, _operator(ufunc))]
        if build is not None:
            result = TracedBoolean if symbol in _COMPARISONS else TracedScalar
            kinds.append((TracedScalar, _quick_operator(ufunc, build, result)))
        for kind, (forward, reflected) in kinds:
            setattr(kind, f"__{symbol}__", forward)
            if symbol in _OPERATORS:
                setattr(kind, f"__r{symbol}__", reflected)


def _define_methods() -> None:
    """Define the methods of NumPy's arrays, and methods that universal functions call on items of object arrays.

    They are defined individually, because a ``__getattr__`` would slow down NumPy's many attribute lookups.
    """
    for name in dir(np.ndarray):
        if not name.startswith("_") and callable(getattr(np.ndarray, name)):
            setattr(_Scalar, name, _method(name))
    for name, ufunc in vars(np).items():
        if isinstance(ufunc, np.ufunc) and not hasattr(_Scalar, name):
            setattr(_Scalar, name, partialmethod(_call, ufunc))


def _method(name: str) -> Callable[..., Any]:
    def method(self: _Scalar, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self.as_array(), name)(*arguments, **keywords)

    method.__name__ = name
    return method


def _call(self: _Scalar, ufunc: np.ufunc, *operands: Any) -> Any:
    return ufunc(self, *operands)


_define_operators()
_define_methods()


# Formulas for other front ends ---------------------------------------------------------------------------------------
#
# Formulas of NumPy functions on references, for functions of other front ends that the tape has no operation for.


def by_formula(tape: Tape, formula: Callable[..., Any], arguments: Sequence[int]) -> int:
    """Record a formula of NumPy functions and return the reference of its result.

    >>> tape = Tape(2)
    >>> tape.outputs = [by_formula(tape, lambda x, y: np.hypot(x, y) - 1.0, [0, 1])]
    >>> print(tape)
    t2 = hypot(x0, x1)
    t3 = add(-1.0, t2)
    return t3
    """
    value = formula(*(make_scalar(tape, argument, tape.is_boolean(argument)) for argument in arguments))
    return int(np.asarray(entries_of(tape, value)[0]).item())


def as_real(tape: Tape, reference: int) -> int:
    """Return the reference of a value as a number; truth values become 1 or 0."""
    return int(of_kind(tape, reference, True, boolean=False)) if tape.is_boolean(reference) else reference


def as_truth(tape: Tape, reference: int) -> int:
    """Return the reference of a value as a truth value; a number is true if it is not 0."""
    if reference < 0:
        return tape.constant(float(tape.value_of(reference) != 0))
    return reference if tape.is_boolean(reference) else int(of_kind(tape, reference, False, boolean=True))
