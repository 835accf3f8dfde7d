"""Values of two branches as one value: numbers by selects, arrays entry by entry, containers item by item."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.journal import known
from accumulus.frontends.numpy.operands import concrete, constants, depends, holds_complex, references_of
from accumulus.frontends.numpy.scalars import Traced, TracedBoolean

__all__ = ["MISSING", "Joiner", "Kept", "MismatchedBranchesError", "kept", "truth_of"]


class MismatchedBranchesError(Exception):
    """What two branches have made cannot be one value."""


class _Missing:
    """The value of a variable that has none."""

    def __repr__(self) -> str:
        return "undefined"


MISSING: Final = _Missing()
#: Constants that are the same wherever they are equal.
_ATOMS: Final = (str, bytes, type(None), range, slice, complex, type(Ellipsis))


class Kept(NamedTuple):
    """An object that can be changed, and a copy of what it held at the end of a branch."""

    value: Any
    content: Any


def kept(value: Any) -> Any:
    """`value` as it is now: with its content, if that can change."""
    if isinstance(value, TracedArray):
        return Kept(value, TracedArray(value.tape, value.references.copy(), boolean=value.boolean))
    if type(value) is np.ndarray:
        return Kept(value, value.copy())
    if type(value) is list or isinstance(value, tuple):
        return Kept(value, [kept(item) for item in value])
    if type(value) is dict:
        return Kept(value, {key: kept(item) for key, item in value.items()})
    return value


class Joiner:
    """One join: pairs of objects that are met twice are one object afterwards, too.

    Args:
        condition: traced truth value; where it holds, values are those of the first branch.

    Attributes:
        arrays: those whose entries now are in other arrays, too.
    """

    def __init__(self, condition: TracedBoolean) -> None:
        self.condition = condition
        self.arrays: list[TracedArray] = []
        self._known: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def join(self, one: Any, other: Any) -> Any:
        """One value for two, each as `kept` has it.

        Raises:
            MismatchedBranchesError: if they differ in more than numbers.
        """
        a = one.value if type(one) is Kept else one
        b = other.value if type(other) is Kept else other
        if a is b or b is MISSING:
            return a
        if a is MISSING:
            return b
        key = id(a), id(b)
        if key not in self._known:
            first = one.content if type(one) is Kept else one
            second = other.content if type(other) is Kept else other
            self._known[key] = a, b, self._joined(a, b, first, second)
        return self._known[key][2]

    def _joined(self, a: Any, b: Any, first: Any, second: Any) -> Any:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.ndim or b.ndim):
            result = self._arrays(first, second)
            self.arrays += [x for x in (a, b, result) if isinstance(x, TracedArray)]
            return result
        if _is_number(a) and _is_number(b):
            return self._numbers(first, second)
        if type(a) is type(b):
            if isinstance(a, _ATOMS) and a == b:
                return a
            if isinstance(a, list | tuple) and len(a) == len(b):
                items = [self.join(x, y) for x, y in zip(first, second, strict=True)]
                return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
            if type(a) is dict and list(a) == list(b):
                return {key: self.join(first[key], second[key]) for key in first}
        raise MismatchedBranchesError

    def _numbers(self, a: Any, b: Any) -> Any:
        if _is_truth(a) != _is_truth(b) or holds_complex(a) != holds_complex(b):
            raise MismatchedBranchesError
        if not isinstance(a, Traced) and not isinstance(b, Traced) and _is_same(a, b):
            return a
        chosen = np.where(self.condition, a, b)  # type: ignore[call-overload]
        return chosen.item() if isinstance(chosen, np.ndarray) else chosen

    def _arrays(self, a: Any, b: Any) -> Any:
        if a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b"):
            raise MismatchedBranchesError
        tape = self.condition.tape
        parts = []
        for array in (a, b):
            if isinstance(array, TracedArray):
                parts.append(array)
            elif array.dtype == np.float64:
                parts.append(TracedArray(tape, constants(tape, array)))
            else:
                raise MismatchedBranchesError
        return self.entries(*parts)

    def references(self, array: TracedArray, a: Any, b: Any) -> Any:
        """References for those of two branches at the same place of an array."""
        if np.array_equal(a, b):
            return a
        found = self.entries(array._like(np.asarray(a)), array._like(np.asarray(b))).references
        return found if isinstance(a, np.ndarray) else found.item()

    def contents(self, one: Any, other: Any) -> Any:
        """What is in a container after either branch."""
        a = one.content if type(one) is Kept else one
        b = other.content if type(other) is Kept else other
        if isinstance(a, list) and len(a) == len(b):
            return [self.join(x, y) for x, y in zip(a, b, strict=True)]
        if isinstance(a, dict) and list(a) == list(b):
            return {key: self.join(a[key], b[key]) for key in a}
        if isinstance(a, set) and a == b:
            return a
        if isinstance(a, np.ndarray) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return a
        raise MismatchedBranchesError

    def entries(self, a: TracedArray, b: TracedArray) -> TracedArray:
        """One array for two of the same shape and kind: only entries that differ are chosen from."""
        if a.tape is not b.tape or a.boolean != b.boolean:
            raise MismatchedBranchesError
        differ = a.references != b.references
        if not differ.any():
            return a.copy()
        if not differ.shape or differ.all():
            return a._like(self._chosen(a, b))
        references = a.references.copy()
        references[differ] = self._chosen(a._like(a.references[differ]), b._like(b.references[differ]))
        return a._like(references)

    def _chosen(self, a: TracedArray, b: TracedArray) -> Any:
        chosen = np.where(self.condition, a, b)  # type: ignore[call-overload]
        return references_of(a.tape, chosen, a.boolean).reshape(a.shape)


def _is_number(value: Any) -> bool:
    if isinstance(value, Traced | np.ndarray):
        return not np.shape(value)  # type: ignore[arg-type]
    return isinstance(value, bool | int | float | np.bool_ | np.floating | np.integer)


def _is_truth(value: Any) -> bool:
    return bool(value.boolean) if isinstance(value, Traced) else isinstance(value, bool | np.bool_)


def _is_same(a: Any, b: Any) -> bool:
    """Whether constants are the same number, the sign of zero and NaN included, of the same kind."""
    return type(a) is type(b) and repr(a) == repr(b)


def truth_of(value: Any) -> Any:
    """What an `if` asks of a value: a traced truth value, or a plain one."""
    if isinstance(value, Traced):
        if not depends(value):
            return bool(np.asarray(concrete(value)))
        if isinstance(value.entries, int) or value.entries.size == 1:
            scalar = value.item() if isinstance(value, TracedArray) else value
            truth = scalar if scalar.boolean else scalar != 0.0
            if not isinstance(truth, TracedBoolean):
                return bool(truth)
            answer = known(truth.tape, truth.reference)
            return truth if answer is None else answer
    return bool(value)
