"""Conversion between operands of NumPy's functions (traced values, numbers, arrays, nested lists) and references.

The entries of an operand are one reference (an int) or an array of references; their kind is real or boolean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from numbers import Complex, Real
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import refuse
from accumulus.frontends.inner import InnerTape
from accumulus.frontends.kinds import StandIn, array_in, is_quantity, unit_advice
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape

Entries = int | References
#: Function of a tape that returns a function from references of operands to the reference of the result.
Formula = Callable[[Tape], Callable[..., int]]


NO_REALS: Final = (
    "A complex number is passed where only real ones are recorded. Write z.real and z.imag, or abs(z); arrays made by "
    "np.zeros(n, complex) hold complex numbers."
)
SPARSE: Final = (
    "A sparse matrix of SciPy can be multiplied with traced vectors and matrices by @. For all other functions pass "
    "M.toarray(), whose zeros cost nothing."
)


class Operand(StandIn):
    """Base class of traced scalars and arrays, with the attributes that this module needs."""

    __slots__ = ()
    tape: Tape
    boolean: bool
    #: True for complex numbers; `entries` has the references of both parts.
    is_complex: bool = False
    #: True for a sparse matrix; `entries` has the references of stored entries.
    is_sparse: bool = False
    #: True for a selection by a mask that is not decided yet.
    is_open: bool = False

    @property
    def entries(self) -> Entries:
        """The reference, or the array of references."""
        raise NotImplementedError


def depends(value: object) -> bool:
    """Return True if `value`, or anything in it, depends on the inputs of a tape."""
    if isinstance(value, Operand):
        if value.is_open:
            return True
        entries = value.entries
        return entries >= 0 if isinstance(entries, int) else bool(entries.size) and bool(entries.max() >= 0)
    if isinstance(value, list | tuple):
        return any(depends(item) for item in value if type(item) is not float)
    if isinstance(value, dict):
        return any(depends(item) for item in value.values())
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(depends(item) for item in value.flat)
    return False


def concrete(value: Any) -> Any:
    """Return `value` with numbers and arrays in place of constant traced values.

    The arrays are read-only, since writes to them would be lost.
    """
    if isinstance(value, Operand):
        if value.is_complex:
            return _read_only(np.asarray(concrete(value.real) + 1j * concrete(value.imag)))  # type: ignore[attr-defined]
        tape, entries = value.tape, value.entries
        if isinstance(entries, int):
            number = tape.value_of(entries)
            return np.bool_(number) if value.boolean else np.float64(number)
        return _read_only(tape.values_of(entries).astype(bool if value.boolean else float, copy=False))
    if type(value) in (list, tuple):
        return type(value)(map(concrete, value))
    if type(value) is dict:
        return {key: concrete(item) for key, item in value.items()}
    return value


def _read_only(numbers: NDArray[Any]) -> NDArray[Any]:
    numbers.flags.writeable = False
    return numbers


def holds_complex(value: object) -> bool:
    """Return True if `value`, or anything in a list, is a traced or constant complex number."""
    if isinstance(value, Operand):
        return value.is_complex
    if type(value) is float or type(value) is int:
        return False
    if isinstance(value, list | tuple):
        return any(map(holds_complex, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "c" or (value.dtype.kind == "O" and any(map(holds_complex, value.flat)))
    return isinstance(value, complex | np.complexfloating) or (is_sparse(value) and value.dtype.kind == "c")  # type: ignore[attr-defined]


def holds_none(value: object) -> bool:
    """Return True for a list or an array with None in it, which is one of objects in NumPy."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(item is None for item in value.flat)
    return isinstance(value, list | tuple) and any(item is None or holds_none(item) for item in value)


def constants(tape: Tape, values: NDArray[Any]) -> References:
    """Return the references of an array of constant real numbers or truth values."""
    numbers = np.ascontiguousarray(values, np.float64).reshape(values.shape)
    return tape.constant_array(numbers)


def is_sparse(value: Any) -> bool:
    """Return True for a sparse matrix or array of SciPy, without importing SciPy."""
    module = str(type(value).__module__)
    return module.startswith("scipy.sparse") and "scipy.sparse" in sys.modules and hasattr(value, "nnz")


def entries_of(tape: Tape, value: Any) -> tuple[Entries, bool]:
    """Return the entries of any operand, and True if they are boolean.

    Raises:
        TraceError: for complex numbers, text, and values of another recording.
        ValueError: for lists of unequal lengths, as in NumPy.
    """
    if isinstance(value, Operand):
        if value.tape is not tape:
            if isinstance(tape, InnerTape) and tape.is_within(value.tape):
                return tape.take(value.tape, value.entries, value.boolean), value.boolean
            if isinstance(value.tape, InnerTape) and value.tape.is_within(tape):
                raise refuse(
                    "A value that one instance of a repeated function computed is used outside of that function here. "
                    "Return it from the function."
                )
            raise refuse(
                "A value of another recording is used here: it was stored (in a global, an attribute, a cache) by an "
                "earlier call of the function. Compute it again from the arguments."
            )
        if value.is_complex:
            raise refuse(NO_REALS)
        if value.is_sparse:
            raise refuse(SPARSE)
        return value.entries, value.boolean
    if isinstance(value, bool | np.bool_):
        return tape.constant(float(value)), True
    if isinstance(value, Real | np.number) and not isinstance(value, np.complexfloating):
        return tape.constant(float(value)), False
    if isinstance(value, list | tuple):
        return _nested(tape, value)
    if isinstance(value, np.ndarray):
        kind = value.dtype.kind
        if kind in "fiub":
            return constants(tape, value), kind == "b"
        if kind == "O":
            entries, boolean = _nested(tape, value.ravel().tolist())
            return np.reshape(entries, value.shape), boolean
    if isinstance(value, Complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c":
        raise refuse(NO_REALS)
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        if is_quantity(value):
            raise refuse(unit_advice(value))
        held = array_in(value)
        return entries_of(tape, np.asarray(value) if held is value else held)
    if is_sparse(value):
        raise refuse(SPARSE)
    raise refuse(f"{type(value).__name__} {value!r:.60} is not a number, and cannot be combined with traced values.")


def _nested(tape: Tape, items: Sequence[Any]) -> tuple[Entries, bool]:
    if not items:
        return np.empty(0, np.int64), False
    pairs = [entries_of(tape, item) for item in items]
    boolean = all(pair[1] for pair in pairs)
    parts = [pair[0] if pair[1] == boolean else of_kind(tape, *pair, boolean=boolean) for pair in pairs]
    shapes = {np.shape(references) for references in parts}
    if len(shapes) > 1:
        raise ValueError(
            f"setting an array element with a sequence: the items of a list have the shapes {sorted(shapes)}, which do "
            "not make an array"
        )
    return np.array(parts, np.int64), boolean


def of_kind(tape: Tape, entries: Entries, is_boolean: bool, *, boolean: bool) -> Entries:
    """Convert entries to truth values or to reals: True and False become 1 and 0, a real is true unless it is 0."""
    return entries if is_boolean == boolean else map_references(tape, _truth if boolean else _number, [entries])


def _truth(tape: Tape) -> Callable[[int], int]:
    return lambda reference: tape.apply("not_equal", reference, tape.constant(0.0))


def _number(tape: Tape) -> Callable[[int], int]:
    return lambda reference: tape.select(reference, tape.constant(1.0), tape.constant(0.0))


def references_of(tape: Tape, value: Any, boolean: bool = False) -> References:
    """Return the references of any operand as an array of the given kind; traced arrays are shared, not copied."""
    return np.asarray(of_kind(tape, *entries_of(tape, value), boolean=boolean), np.int64)


def map_references(tape: Tape, formula: Formula, operands: Sequence[Entries]) -> Entries:
    """Apply a formula to each entry of broadcast operands; return an int if all of them have shape ()."""
    shapes = [operand.shape for operand in operands if not isinstance(operand, int)]
    shape = shapes[0] if shapes else ()
    if any(other != shape for other in shapes):
        shape = np.broadcast_shapes(*shapes)
    return tape.map(formula, operands, shape) if shape else formula(tape.open)(*map(int, operands))
