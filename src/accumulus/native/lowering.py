"""Numba's view of kernels: states and their arrays as addresses, and machine code for the operations on words.

Numba's own arrays carry reference counts, which cost more than the work itself. Here a state, a record and an array are
one address each, and a field or an element is one load.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, get_args, get_origin, get_type_hints

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import lower_cast, lower_getattr_generic, lower_setattr_generic
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model

from accumulus.native.state import Field, Floats, Halves, Integers, Record, Records, State, Undoable

_WORD, _HALF, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()
_NUMBERS: Final = {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.void}


class _Fields(types.Type):
    """A state or a record, by its address; logged if writes through it are to be logged."""

    def __init__(self, kind: type[State] | type[Record], *, logged: bool = False) -> None:
        self.kind, self.logged = kind, logged
        #: Alias class of loads and stores of fields. A state is also one of its base classes.
        self.memory = "state" if issubclass(kind, State) else kind.__qualname__
        super().__init__(f"{'Logged' if logged else ''}{kind.__module__}.{kind.__qualname__}")

    def can_convert_to(self, context: Any, other: Any) -> Any:
        """Return a conversion to a base class of states: a state begins with the fields of its bases."""
        is_base = isinstance(other, _Fields) and self.logged == other.logged and issubclass(self.kind, other.kind)
        return Conversion.safe if is_base else None


class _Array(types.Type):
    """An array by its address; a logged one comes with its state."""

    def __init__(self, field: Field, state: _Fields | None = None) -> None:
        self.element = _NUMBERS[field.kind] if field.kind in _NUMBERS else _Fields(field.kind)
        self.axes, self.state = field.axes or (), state
        self.words = len(self.element.kind.fields) if isinstance(self.element, _Fields) else 1
        self.is_half = field.is_half
        assert not (self.is_half and state is not None), "the log has whole words"
        #: Alias class of loads and stores of elements.
        self.memory = "halves" if self.is_half else str(self.element)
        super().__init__(f"Array({self.memory}, {self.axes}{'' if state is None else f', logged by {state}'})")


@register_model(_Fields)
class _FieldsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


@register_model(_Array)
class _ArrayModel(models.PrimitiveModel):
    """One word, or two for a logged array: its address and its state's."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD if kind.state is None else ir.LiteralStructType((_WORD, _WORD)))


def type_of(annotation: Any) -> Any:
    """Return Numba's type for an annotation of a kernel's function."""
    if annotation in _NUMBERS:
        return _NUMBERS[annotation]
    if annotation in (Integers, Floats, Halves):
        return _Array(Field(0, float if annotation == Floats else int, (), annotation == Halves))
    if get_origin(annotation) is Records:
        return _Array(Field(0, get_args(annotation)[0], ()))
    if get_origin(annotation) is tuple:
        return types.Tuple([type_of(each) for each in get_args(annotation)])
    return _Fields(annotation)


def compile_function(function: Callable[..., Any]) -> Any:
    """Return a function, compiled for the types of its annotations."""
    hints = get_type_hints(function, include_extras=True)
    result = type_of(hints.pop("return"))
    return numba.njit(result(*map(type_of, hints.values())), error_model="numpy")(function)


def code_of_primitive(function: Callable[..., Any]) -> Any:
    """Return the compiler's code for a primitive."""
    return _PRIMITIVES[function.__name__]


# Fields and elements -----------------------------------------------------------------------------------------------


@infer_getattr
class _FieldTypes(AttributeTemplate):
    key = _Fields

    def generic_resolve(self, kind: _Fields, name: str) -> Any:
        field = kind.kind.fields.get(name)
        if field is None:
            return None
        return _NUMBERS[field.kind] if field.axes is None else _Array(field, kind if kind.logged else None)


@lower_getattr_generic(_Fields)
def _get_field(context: Any, builder: Any, kind: _Fields, address: Any, name: str) -> Any:
    field = kind.kind.fields[name]
    value = _apart(builder, builder.load(_pointer(builder, address, field.position, _number(field))), kind.memory)
    if not (kind.logged and field.axes is not None):
        return value
    pair = ir.Constant(ir.LiteralStructType((_WORD, _WORD)), ir.Undefined)
    return builder.insert_value(builder.insert_value(pair, value, 0), address, 1)


@lower_setattr_generic(_Fields)
def _set_field(context: Any, builder: Any, sig: Any, arguments: Any, name: str) -> None:
    kind, (address, value) = sig.args[0], arguments
    field = kind.kind.fields[name]
    value = context.cast(builder, value, sig.args[1], _NUMBERS[field.kind])
    pointer = _pointer(builder, address, field.position, _number(field))
    if kind.logged:
        _log(builder, address, pointer, kind.memory)
    _apart(builder, builder.store(value, pointer), kind.memory)


@infer_global(operator.getitem)
class _ElementType(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        array, index = arguments
        if not isinstance(array, _Array):
            return None
        if isinstance(index, types.SliceType):
            return signature(array, array, index)
        return signature(array.element, array, index)


@infer_global(operator.setitem)
class _ElementSetting(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        array, index, _value = arguments
        return signature(types.none, array, index, array.element) if isinstance(array, _Array) else None


@lower_builtin(operator.getitem, _Array, types.Any)
def _get_element(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    array, index = sig.args
    pointer = _element(context, builder, array, arguments[0], index, arguments[1])
    if isinstance(array.element, _Fields):
        return builder.ptrtoint(pointer, _WORD)
    value = _apart(builder, builder.load(pointer), array.memory)
    return builder.sext(value, _WORD) if array.is_half else value


@lower_builtin(operator.getitem, _Array, types.SliceType)
def _get_rest(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    """Return code for ``array[start:]``, the address of its first element."""
    array = sig.args[0]
    assert array.state is None, "a part of a logged array"
    start = context.make_helper(builder, sig.args[1], arguments[1]).start
    words = array.words
    for length in array.axes:
        words *= length
    return builder.add(arguments[0], builder.mul(start, _WORD(4 if array.is_half else 8 * words)))


@lower_builtin(operator.setitem, _Array, types.Any, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    array, index, kind = sig.args
    value = context.cast(builder, arguments[2], kind, array.element)
    pointer = _element(context, builder, array, arguments[0], index, arguments[1])
    if array.state is not None:
        _log(builder, builder.extract_value(arguments[0], 1), pointer, array.memory)
    value = builder.trunc(value, _HALF) if array.is_half else value
    _apart(builder, builder.store(value, pointer), array.memory)
    return context.get_dummy_value()


def _element(context: Any, builder: Any, array: _Array, value: Any, index: Any, at: Any) -> Any:
    """Return a pointer to the element, or to the first word of the record, at an index for each axis."""
    kinds, parts = ([index], [at]) if isinstance(index, types.Integer) else (index.types, _unpacked(builder, index, at))
    assert len(parts) == len(array.axes) + 1, f"{array} has {len(array.axes) + 1} axes"
    offset = _WORD(0)
    for length, kind, at_axis in zip((1, *array.axes), kinds, parts, strict=True):
        offset = builder.add(builder.mul(offset, _WORD(length)), context.cast(builder, at_axis, kind, types.int64))
    address = value if array.state is None else builder.extract_value(value, 0)
    number = _HALF if array.is_half else _DOUBLE if array.element is types.float64 else _WORD
    return _pointer(builder, address, builder.mul(offset, _WORD(array.words)), number)


def _unpacked(builder: Any, index: Any, at: Any) -> list[Any]:
    return [builder.extract_value(at, k) for k in range(len(index.types))]


def _pointer(builder: Any, address: Any, offset: Any, number: Any) -> Any:
    offset = _WORD(offset) if isinstance(offset, int) else offset
    return builder.gep(builder.inttoptr(address, number.as_pointer()), [offset], inbounds=True)


def _number(field: Field) -> Any:
    return _DOUBLE if field.axes is None and field.kind is float else _WORD


def _apart(builder: Any, access: Any, memory: str) -> Any:
    """Mark an access with its alias class: fields, the log, arrays of integers and of floats, each kind of records.

    So fields need not be loaded again after each store to an array. Undoing a write may touch any class.
    """
    module = builder.module
    root = module.add_metadata(["words of kernels"])
    kind = module.add_metadata([memory, root, _WORD(0)])
    access.set_metadata("tbaa", module.add_metadata([kind, kind, _WORD(0)]))
    return access


@lower_cast(_Fields, _Fields)
def _as_base(context: Any, builder: Any, kind: Any, base: Any, value: Any) -> Any:
    return value


# The log of writes -------------------------------------------------------------------------------------------------

_LOG, _LOGGED = Undoable.fields["log"].position, Undoable.fields["logged"].position


def _log(builder: Any, state: Any, target: Any, memory: str) -> None:
    """Log the address and the value that a write is about to replace."""
    counter = _pointer(builder, state, _LOGGED, _WORD)
    logged = _apart(builder, builder.load(counter), "state")
    where, before = _entry(builder, state, logged)
    address = builder.ptrtoint(target, _WORD)
    _apart(builder, builder.store(address, where), "log")
    now = _apart(builder, builder.load(_pointer(builder, address, 0, _WORD)), memory)
    _apart(builder, builder.store(now, before), "log")
    _apart(builder, builder.store(builder.add(logged, _WORD(1)), counter), "state")


def _entry(builder: Any, state: Any, number: Any) -> tuple[Any, Any]:
    """Return pointers into a log entry: where a value was written, and the previous value."""
    log = _apart(builder, builder.load(_pointer(builder, state, _LOG, _WORD)), "state")
    first = builder.shl(number, _WORD(1))
    return _pointer(builder, log, first, _WORD), _pointer(builder, log, builder.add(first, _WORD(1)), _WORD)


@intrinsic
def _logged(context: Any, state: Any) -> Any:
    return _Fields(state.kind, logged=True)(state), lambda _context, _builder, _signature, arguments: arguments[0]


@intrinsic
def _take_back(context: Any, state: Any, entry: Any) -> Any:
    """Undo one write."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        where, before = (_apart(builder, builder.load(each), "log") for each in _entry(builder, *arguments))
        builder.store(before, _pointer(builder, where, 0, _WORD))  # the alias class is unknown here
        return _context.get_dummy_value()

    return types.void(state, types.int64), code


@numba.njit(types.void(_Fields(Undoable), types.int64), error_model="numpy")
def _undo(state, length):  # type: ignore[no-untyped-def]
    for entry in range(state.logged - 1, length - 1, -1):
        _take_back(state, entry)
    state.logged = length


# Operations on words -----------------------------------------------------------------------------------------------

_I64, _F64 = types.int64, types.float64


def _on_word(result: Any, argument: Any, code: Callable[[Any, Any], Any]) -> Any:
    """Return an operation on one word, in LLVM's terms."""

    def operation(context: Any, value: Any) -> Any:
        return result(argument), lambda _context, builder, _signature, arguments: code(builder, arguments[0])

    return intrinsic(operation)


@intrinsic
def _shifted_right(context: Any, bits: Any, places: Any) -> Any:
    return _I64(_I64, _I64), lambda _context, builder, _signature, arguments: builder.lshr(*arguments)


@intrinsic
def _copy_many(context: Any, to: Any, source: Any, count: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        places = (builder.inttoptr(each, _WORD.as_pointer()) for each in arguments[:2])
        cgutils.raw_memcpy(builder, *places, arguments[2], 8)
        return _context.get_dummy_value()

    return types.void(to, source, _I64), code


_PRIMITIVES: Final[dict[str, Any]] = {
    "bits_of": _on_word(_I64, _F64, lambda builder, value: builder.bitcast(value, _WORD)),
    "float_of": _on_word(_F64, _I64, lambda builder, bits: builder.bitcast(bits, _DOUBLE)),
    "population": _on_word(_I64, _I64, lambda builder, bits: builder.ctpop(bits)),
    "lowest": _on_word(_I64, _I64, lambda builder, bits: builder.cttz(bits, ir.Constant(ir.IntType(1), 1))),
    "wrapped": _on_word(_I64, _I64, lambda _builder, value: value),
    "shifted_right": _shifted_right,
    "copy_many": _copy_many,
    "logged": _logged,
    "undo": _undo,
}
