"""Memory of a kernel, declared as a class of named numbers, arrays and records.

    class OrderState(State):
        order: Integers
        total: int = 0
        temperature: float = 0.0

A state is a run of 64-bit words. A number is one word; an array is one, too: the address of memory that the state keeps
alive. The address of the first word is all that machine code is called with. A kernel's code says ``state.order[k]``
and ``state.total += cost``: a load and a store when it is compiled (`accumulus.native.lowering`), and ordinary Python
when it is not (`interpret`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from inspect import get_annotations
from struct import Struct
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Integers of half a word each; long arrays of these take half the memory and half the time to load.
Halves = NDArray[np.int32]
#: Default of an optional array.
NOTHING: Final[Integers] = np.zeros(0, np.int64)
NO_FLOATS: Final[Floats] = np.zeros(0)
NO_HALVES: Final[Halves] = np.zeros(0, np.int32)

_INTEGER, _FLOAT = Struct("q"), Struct("d")
_INTEGERS, _FLOATS, _HALVES = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.int32)

#: Usual annotations of fields, by their text.
_USUAL: Final[Mapping[str, Any]] = {
    "int": int,
    "float": float,
    "Integers": Integers,
    "Floats": Floats,
    "Halves": Halves,
}
_R = TypeVar("_R", bound="Record")


@dataclass(frozen=True, slots=True)
class Axes:
    """Lengths of all axes of an array but the first: ``Annotated[Integers, Axes(3)]`` has rows of three."""

    lengths: tuple[int, ...]

    def __init__(self, *lengths: int) -> None:
        object.__setattr__(self, "lengths", lengths)


@dataclass(frozen=True, slots=True)
class Field:
    """One word of a state or a record.

    Attributes:
        position: index of the word.
        kind: type of the number or of the array's elements: `int`, `float`, or a class of records.
        axes: lengths of all axes of an array but the first; None for a number.
        is_half: True for an array of integers of half a word each.
    """

    position: int
    kind: type
    axes: tuple[int, ...] | None
    is_half: bool = False

    @classmethod
    def of(cls, position: int, annotation: Any) -> Field:
        """Return the field at a position with an annotation."""
        axes: tuple[int, ...] = ()
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            axes = next(each.lengths for each in more if isinstance(each, Axes))
        if annotation in (int, float):
            return cls(position, annotation, None)
        if get_origin(annotation) is Records:
            return cls(position, get_args(annotation)[0], axes)
        assert annotation in (Integers, Floats, Halves), f"kernels know nothing of {annotation}"
        return cls(position, float if annotation == Floats else int, axes, annotation == Halves)


class _Words:
    """Fields, each a word, in the order of their declaration; a subclass begins with the fields of its base."""

    fields: ClassVar[Mapping[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        texts = get_annotations(cls)
        # evaluating texts takes most of the time in which the modules of kernels are imported
        known = {name: _USUAL[text] for name, text in texts.items() if text in _USUAL}
        hints = known if len(known) == len(texts) else get_annotations(cls, eval_str=True)
        declared = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}
        fields = dict(cls.fields)
        for name, hint in declared.items():
            fields[name] = Field.of(len(fields), hint)
        cls.fields = fields


class Record(_Words):
    """Numbers stored side by side in an array: ``records[k].left``."""

    def __init__(self, words: Any) -> None:
        object.__setattr__(self, "_words", words)

    def __getattr__(self, name: str) -> Any:
        field = self.fields[name]
        word = int(self._words[field.position])
        return word if field.kind is int else _FLOAT.unpack(_INTEGER.pack(word))[0]

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.fields[name]
        self._words[field.position] = value if field.kind is int else _INTEGER.unpack(_FLOAT.pack(value))[0]


class Records(Generic[_R]):
    """An array of records; each takes as many words as it has fields.

    Args:
        kind: class of the records.
        words: words of all records in order.
    """

    def __init__(self, kind: type[_R], words: Any) -> None:
        self.kind, self.words = kind, words

    def column(self, name: str) -> NDArray[Any]:
        """Return a field of all records, as a view of their memory."""
        field = self.kind.fields[name]
        column: NDArray[Any] = self.words[field.position :: len(self.kind.fields)]
        return column if field.kind is int else column.view(np.float64)

    @classmethod
    def zeros(cls, kind: type[_R], count: int) -> Records[_R]:
        """Return `count` records whose numbers are 0."""
        return cls(kind, np.zeros(count * len(kind.fields), np.int64))

    @overload
    def __getitem__(self, k: int) -> _R: ...

    @overload
    def __getitem__(self, k: slice) -> Records[_R]: ...

    def __getitem__(self, k: int | slice) -> _R | Records[_R]:
        """Return the record at an index, or all records from an index on: ``records[k:]``."""
        width = len(self.kind.fields)
        if isinstance(k, slice):
            return Records(self.kind, self.words[k.start * width :])
        return self.kind(self.words[k * width : (k + 1) * width])


def _address(words: NDArray[Any]) -> int:
    """Return the address of an array; `words.ctypes.data` takes four times as long, noticeable in small programs."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(words))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only or empty
        return int(words.ctypes.data)


class _Place:
    """Attribute of a state: its array, or the number in its word."""

    def __init__(self, name: str, field: Field) -> None:
        self.name, self.field = name, field

    def __get__(self, state: State | None, owner: type[State]) -> Any:
        if state is None:
            return self
        if self.field.axes is not None:
            return state._arrays[self.name]
        words = state._words if self.field.kind is int else state._floats
        return words.item(self.field.position)

    def __set__(self, state: State, value: Any) -> None:
        if self.field.axes is None:
            (state._words if self.field.kind is int else state._floats)[self.field.position] = value
            return
        words = value.words if isinstance(value, Records) else value
        assert words.flags.c_contiguous
        expected = _HALVES if self.field.is_half else _FLOATS if self.field.kind is float else _INTEGERS
        assert words.dtype == expected
        state._arrays[self.name] = value
        state._words[self.field.position] = _address(words)


@dataclass_transform(kw_only_default=True)
class State(_Words):
    """The memory of one kernel; subclasses declare its fields.

    A subclass's attributes are its numbers and arrays. The constructor takes all of them by keyword, except those with
    a default. Arrays are contiguous, of `numpy.int64`, `numpy.int32` or `numpy.float64`, and shared with the kernel:
    writing to one writes to the kernel's memory. Arrays of different element types do not overlap.

    Attributes:
        address: address of the first word.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        defaults = {name: cls.__dict__[name] for name in cls.fields if name in cls.__dict__}
        cls._defaults = {**cls._defaults, **{k: v for k, v in defaults.items() if not isinstance(v, _Place)}}
        for name, field in cls.fields.items():
            setattr(cls, name, _Place(name, field))
        cls._required = cls.fields.keys() - cls._defaults.keys()
        blank = object.__new__(cls)
        blank._begin(np.zeros(len(cls.fields), np.int64), {})
        for name, value in cls._defaults.items():
            setattr(blank, name, value)
        cls._blank = blank._words, blank._arrays

    _defaults: ClassVar[Mapping[str, Any]] = {}
    #: Fields without defaults.
    _required: ClassVar[Set[str]] = frozenset()
    #: Words and arrays of the defaults, which are copied faster than set one by one.
    _blank: ClassVar[tuple[Integers, dict[str, Any]]] = NOTHING, {}

    def __init__(self, **values: Any) -> None:
        missing = self._required - values.keys()
        assert not missing, f"{sorted(missing)} of {type(self).__name__} are not given"
        assert values.keys() <= self.fields.keys(), f"{type(self).__name__} has no {values.keys() - self.fields.keys()}"
        words, arrays = self._blank
        self._begin(words.copy(), arrays.copy())
        for name, value in values.items():
            field = self.fields[name]
            if field.axes is not None:
                setattr(self, name, value)
            elif field.kind is int:
                self._words[field.position] = value
            else:
                self._floats[field.position] = value

    def place(self, name: str, address: int) -> None:
        """Let an array begin at an address, in memory that the caller keeps alive."""
        self._words[self.fields[name].position] = address

    def _begin(self, words: Integers, arrays: dict[str, Any]) -> None:
        self._words, self._arrays = words, arrays
        self._floats: Floats = words.view(_FLOATS)
        self.address: int = _address(words)


def zeros(count: int, names: str) -> dict[str, Any]:
    """Return arrays of zeros for fields of a state: ``OrderState(**zeros(count, "costs changed"), …)``."""
    return {name: np.zeros(count, np.int64) for name in names.split()}


class Undoable(State):
    """A state with a log of writes, by which a kernel undoes a trial.

    Attributes:
        log: pairs of an address and the previous value there.
        logged: length of the log, in writes.
    """

    log: Integers
    logged: int = 0


class _Interpreted:
    """A state in the form that Python reads fastest: number attributes, arrays as memory views, the log as a list."""

    def __init__(self, state: State) -> None:
        self.undoing: list[tuple[Any, Any, Any]] = []
        for name, field in state.fields.items():
            value = getattr(state, name)
            if isinstance(value, Records):
                value = Records(value.kind, memoryview(value.words))
            elif field.axes is not None:
                value = memoryview(value.reshape(-1, *field.axes))  # in the kernel's axes
            setattr(self, name, value)


def interpret(kernel: Callable[[Any], int], state: State) -> int:
    """Run a kernel as Python on a state; return its result."""
    inside = _Interpreted(state)
    result = kernel(inside)
    for name, field in state.fields.items():
        if field.axes is None:
            setattr(state, name, getattr(inside, name))
    return result
