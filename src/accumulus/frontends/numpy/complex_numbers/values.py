"""Complex numbers and arrays of them: the real and the imaginary part, each a traced value of its own.

Parts of arrays are traced arrays, so views, indices and assignments are theirs; and `z.real` is a view that can be
written to, as NumPy's is. Nothing here is asked for where all is real.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from accumulus.frontends.active import no_number, refuse
from accumulus.frontends.numpy.arrays import METHODS, Flat, TracedArray, as_array, method_of
from accumulus.frontends.numpy.operands import Operand, concrete, depends, holds_complex, references_of
from accumulus.frontends.numpy.scalars import Traced, TracedScalar, make_scalar
from accumulus.frontends.numpy.table import PROTOCOLS
from accumulus.frontends.numpy.texts import in_full
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape


class Pair(NamedTuple):
    """Real and imaginary part, each a traced value, a number or an array."""

    re: Any
    im: Any


class _Complex(Traced, NDArrayOperatorsMixin):
    """Base of complex scalars and arrays."""

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
        """References of both parts: what the value depends on."""
        return np.stack([references_of(self.tape, part) for part in (self.re, self.im)])

    @property
    def real(self) -> Any:
        """The real part; of an array, a view."""
        return self.re

    @property
    def imag(self) -> Any:
        """The imaginary part; of an array, a view."""
        return self.im

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        raise TypeError("a complex number has no whole part: write int(z.real)")

    def __float__(self) -> float:
        raise TypeError("a complex number is no real one: write z.real, or abs(z)")

    def conj(self) -> Any:
        """The conjugate."""
        return np.conjugate(self)

    conjugate = conj

    def __repr__(self) -> str:
        shown = [[self.tape.name(r) for r in part.ravel().tolist()] for part in self.entries]
        return in_full(self, f"{type(self).__name__}({', '.join(map(str, shown))})".replace("'", ""))

    __str__ = __repr__


class ComplexScalar(_Complex):
    """A complex number that depends on the function's arguments."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.complex128)
    shape: Final[tuple[int, ...]] = ()
    ndim: Final = 0
    size: Final = 1

    @property
    def T(self) -> ComplexScalar:  # noqa: N802
        """Itself."""
        return self

    def __copy__(self) -> ComplexScalar:
        return self

    def __deepcopy__(self, memory: Any) -> ComplexScalar:
        return self

    def item(self) -> ComplexScalar:
        """Itself."""
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            if isinstance(ufunc := getattr(np, name, None), np.ufunc):
                return functools.partial(ufunc, self)  # what a universal function calls on the items of a list
            if hasattr(np.ndarray, name):
                return getattr(
                    ComplexArray(self.tape, as_array(self.tape, self.re), as_array(self.tape, self.im)), name
                )
        raise AttributeError(f"ComplexScalar has no attribute {name!r}")


class ComplexArray(_Complex):
    """An array of complex numbers: two traced arrays of one shape."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.ndarray)

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

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose, a view."""
        return self._on_parts(lambda part: part.T)

    @property
    def mT(self) -> Any:  # noqa: N802
        """The transpose of the last two axes, a view."""
        return self._on_parts(lambda part: part.mT)

    @property
    def flat(self) -> Flat:
        """The entries in C order, to read and to write."""
        return Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[:] = values

    def _on_parts(self, change: Callable[[TracedArray], Any]) -> Any:
        return make_complex(self.tape, change(self.re), change(self.im))

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
        return self._on_parts(lambda part: part[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        re, im = parts_of(self.tape, value)
        self.re[index] = re
        self.im[index] = im

    def fill(self, value: Any) -> None:
        """Set all entries to `value`."""
        self[...] = value

    def item(self, *index: Any) -> Any:
        """One entry as a scalar."""
        return make_complex(self.tape, self.re.item(*index), self.im.item(*index))

    def tolist(self) -> Any:
        """Nested lists of the entries."""
        return [row.tolist() if isinstance(row, ComplexArray) else row for row in self] if self.ndim else self.item()

    def copy(self, order: str = "C") -> Any:
        """A copy that can be written to."""
        return self._on_parts(TracedArray.copy)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memory: Any) -> Any:
        return self.copy()

    def astype(self, dtype: Any, **options: Any) -> Any:
        """A copy of another type: complex128, bool, or, if constant, whatever NumPy makes of it."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self.copy()
        if wanted.kind == "b":
            return self != 0
        if wanted.kind == "O":
            return self.__array__(object)
        if depends(self):
            raise refuse(
                f"Complex numbers that depend on the function's arguments are asked for as {wanted}, which would drop "
                "their imaginary parts. Write z.real, or abs(z)."
            )
        return concrete(self).astype(wanted)

    def read_flat(self, index: Any) -> Any:
        """Entries by their places in C order."""
        return make_complex(self.tape, self.re.flat[index], self.im.flat[index])

    def write_flat(self, index: Any, value: Any) -> None:
        """Set entries by their places in C order."""
        self.re.flat[index], self.im.flat[index] = parts_of(self.tape, value)

    def reshape(self, *shape: Any, order: Any = "C") -> Any:
        """Return the same entries in another shape."""
        return self._on_parts(lambda part: part.reshape(*shape, order=order))

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order, a view."""
        return self._on_parts(lambda part: part.transpose(*axes))

    def flatten(self, order: Any = "C") -> Any:
        """A copy with one axis."""
        return self._on_parts(lambda part: part.flatten(order))


for _name in METHODS:
    if _name not in vars(ComplexArray):
        setattr(ComplexArray, _name, method_of(_name))


def is_zero(value: Any) -> bool:
    """Return True if all of a real operand is known to be zero."""
    return not depends(value) and not np.any(concrete(value))


def parts_of(tape: Tape, value: Any) -> Pair:
    """Real and imaginary part of any operand; those of lists are arrays."""
    if isinstance(value, _Complex):
        return Pair(value.re, value.im)
    if isinstance(value, Operand):
        return Pair(value, np.float64(0.0))
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        if holds_complex(value):
            items = value if isinstance(value, list | tuple) else value.tolist()
            if not isinstance(items, list | tuple):
                return parts_of(tape, items)
            pairs = [parts_of(tape, item) for item in items]
            re, im = ([pair[k] for pair in pairs] for k in (0, 1))
            re_array, im_array = as_array(tape, re), as_array(tape, im)
            return Pair(re_array, im_array)
        return Pair(as_array(tape, value), np.float64(0.0))
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "c":
        return Pair(np.float64(value.real), np.float64(value.imag)) if not value.ndim else Pair(value.real, value.imag)
    if isinstance(value, complex):
        return Pair(np.float64(value.real), np.float64(value.imag))
    return Pair(np.float64(value) if isinstance(value, float | int) else value, np.float64(0.0))


def make_complex(tape: Tape, re: Any, im: Any) -> Any:
    """Return what stands for a complex result of these parts, which are broadcast: a scalar, or an array."""
    if not np.ndim(re) and not np.ndim(im) and not isinstance(re, TracedArray) and not isinstance(im, TracedArray):
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


def _scalar(tape: Tape, part: Any) -> Any:
    """A part as a number, or as a real scalar: a truth value counts 1 or 0."""
    if type(part) is TracedScalar:
        return part
    return make_scalar(tape, int(references_of(tape, part)))


def _constant(tape: Tape, numbers: NDArray[np.complex128]) -> ComplexArray:
    """An array that NumPy computed from constants."""
    return ComplexArray(tape, *(as_array(tape, part) for part in (numbers.real, numbers.imag)))


def _array(tape: Tape, value: Any, arguments: Any, keywords: Any) -> Any:
    """Any complex operand as an array; what is one already is shared."""
    if isinstance(value, ComplexArray):
        return value
    re, im = parts_of(tape, value)
    return make_complex(tape, as_array(tape, re), im)


PROTOCOLS["complex array"] = _array
PROTOCOLS["complex constant"] = lambda tape, numbers, arguments, keywords: _constant(tape, numbers)
