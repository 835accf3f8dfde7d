"""LLVM IR that reads arguments, results and numbers, by the layout of CPython's and NumPy's objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accumulus.targets.llvm.library import (
    AXES,
    DATA,
    DTYPE,
    FLAGS,
    FUNCTIONS,
    HEADER,
    MAKING,
    OBJECTS,
    READABLE,
    SHAPE,
    TYPE,
    VALUE,
    WRITABLE,
)
from accumulus.targets.llvm.vectors import UNOPTIMISED, unless, when


def declared(names: Sequence[str]) -> list[str]:
    """Return declarations of the Python functions and objects that a module needs."""
    functions = FUNCTIONS | MAKING
    return [functions.get(name, f"@{name} = external global i8") for name in names]


def readers(size: int, *, numbers: bool, transposed: bool = False) -> tuple[list[str], tuple[str, ...]]:
    """Return ``argument_of``, ``result_of`` and, with `numbers`, ``number_of``; and the names that they import.

    Args:
        size: bytes of an entry.
        numbers: if True, ``number_of`` is needed.
        transposed: if True, arrays are (entries, points).
    """
    names = (*FUNCTIONS, *OBJECTS, "object_dtype")
    text = [*declared(names), _ARRAY_OF, _argument_of(transposed), _RESULT_OF]
    return [*text, *([_number_of(size)] if numbers else [])], names


def when_text(*arguments: str) -> str:
    """Return a branch as text, see `accumulus.targets.llvm.vectors.when`."""
    return "\n".join(when(*arguments))


def unless_text(*arguments: str) -> str:
    """Return a branch as text, see `accumulus.targets.llvm.vectors.unless`."""
    return "\n".join(unless(*arguments))


def entry_text(name: str, kind: str, base: str, index: str) -> str:
    """Return instructions that load an entry of an array."""
    return f"%{name}.at = getelementptr {kind}, ptr %{base}, {index}\n%{name} = load {kind}, ptr %{name}.at"


def field_text(name: str, base: str, offset: int, kind: str) -> str:
    """Return instructions that load a field of a Python object."""
    return f"%{name}.at = getelementptr i8, ptr %{base}, i64 {HEADER + offset}\n%{name} = load {kind}, ptr %{name}.at"


#: Function that returns the address of an array's entries, null unless dtype and flags are as required.
_ARRAY_OF: Final = f"""\
define internal ptr @array_of(ptr %object, i32 %wanted) {UNOPTIMISED} {{
{field_text("type", "object", TYPE, "ptr")}
{when_text("is.array", "icmp eq ptr %type, @object_array_type", "array", "refuse")}
{field_text("dtype", "object", DTYPE, "ptr")}
{field_text("flags", "object", FLAGS, "i32")}
{field_text("data", "object", DATA, "ptr")}
%dtype.right = icmp eq ptr %dtype, @object_dtype
%flags.both = and i32 %flags, %wanted
%flags.right = icmp eq i32 %flags.both, %wanted
{when_text("right", "and i1 %dtype.right, %flags.right", "found", "refuse")}
ret ptr %data
refuse:
ret ptr null
}}"""


def _argument_of(transposed: bool) -> str:
    """Return the function that checks an argument's shape, %shape, and %points unless -1, and returns its address."""
    # the axis of points is the first or the last one
    first, points_at = ("i32 0", "i32 %axes") if transposed else ("i32 %more", "i32 0")
    return f"""\
define internal ptr @argument_of(ptr %object, i32 %axes, ptr %shape, i64 %points) {UNOPTIMISED} {{
%data = call ptr @array_of(ptr %object, i32 {READABLE})
{unless_text("none", "icmp eq ptr %data, null", "refuse", "array")}
{field_text("axes.given", "object", AXES, "i32")}
{field_text("lengths", "object", SHAPE, "ptr")}
%batch = icmp ne i64 %points, -1
%more = zext i1 %batch to i32
%axes.wanted = add i32 %axes, %more
{when_text("axes.right", "icmp eq i32 %axes.given, %axes.wanted", "counted", "refuse")}
br i1 %batch, label %points.too, label %start
points.too:
%points.at = getelementptr i64, ptr %lengths, {points_at}
%points.given = load i64, ptr %points.at
{when_text("points.right", "icmp eq i64 %points.given, %points", "start", "refuse")}
%own = getelementptr i64, ptr %lengths, {first}
br label %next
next:
%axis = phi i32 [ 0, %start ], [ %axis.next, %compare ]
{when_text("left", "icmp slt i32 %axis, %axes", "compare", "found")}
{entry_text("length", "i64", "own", "i32 %axis")}
{entry_text("wanted", "i64", "shape", "i32 %axis")}
%length.right = icmp eq i64 %length, %wanted
%axis.next = add i32 %axis, 1
br i1 %length.right, label %next, label %refuse
found:
ret ptr %data
refuse:
ret ptr null
}}"""


#: Function that returns the address of a result array, null unless it has %entries entries, and %points of them on the
#: first axis, or on the last one if %last; -1 for any number of points.
_RESULT_OF: Final = f"""\
define internal ptr @result_of(ptr %object, i64 %entries, i64 %points, i1 %last) {UNOPTIMISED} {{
%data = call ptr @array_of(ptr %object, i32 {WRITABLE})
{unless_text("none", "icmp eq ptr %data, null", "refuse", "array")}
{field_text("axes", "object", AXES, "i32")}
{field_text("lengths", "object", SHAPE, "ptr")}
br label %next
next:
%axis = phi i32 [ 0, %array ], [ %axis.next, %multiply ]
%product = phi i64 [ 1, %array ], [ %product.next, %multiply ]
{when_text("left", "icmp slt i32 %axis, %axes", "multiply", "compare")}
{entry_text("length", "i64", "lengths", "i32 %axis")}
%product.next = mul i64 %product, %length
%axis.next = add i32 %axis, 1
br label %next
compare:
{when_text("entries.right", "icmp eq i64 %product, %entries", "counted", "refuse")}
{unless_text("any", "icmp eq i64 %points, -1", "found", "points.too")}
{when_text("some.axes", "icmp sgt i32 %axes, 0", "which", "refuse")}
%axis.last = sub i32 %axes, 1
%points.axis = select i1 %last, i32 %axis.last, i32 0
%points.at = getelementptr i64, ptr %lengths, i32 %points.axis
%points.given = load i64, ptr %points.at
{when_text("points.right", "icmp eq i64 %points.given, %points", "found", "refuse")}
ret ptr %data
refuse:
ret ptr null
}}"""

#: Function that returns the length of an array's first axis, or its last if %last; -1 if it is no array or has no axes.
LENGTH_OF: Final = f"""\
define internal i64 @length_of(ptr %object, i1 %last) {UNOPTIMISED} {{
{field_text("type", "object", TYPE, "ptr")}
{when_text("is.array", "icmp eq ptr %type, @object_array_type", "array", "refuse")}
{field_text("axes", "object", AXES, "i32")}
{field_text("lengths", "object", SHAPE, "ptr")}
{when_text("some", "icmp sgt i32 %axes, 0", "sized", "refuse")}
%axis.last = sub i32 %axes, 1
%axis = select i1 %last, i32 %axis.last, i32 0
{entry_text("length", "i64", "lengths", "i32 %axis")}
ret i64 %length
refuse:
ret i64 -1
}}"""

#: Kinds of numbers with their value inside the object: name in Python, type in LLVM, conversion to a double.
_NUMBERS: Final = (
    ("float", "double", ""),
    ("float64", "double", ""),
    ("float32", "float", "fpext"),
    ("int64", "i64", "sitofp"),
)


def _number_of(size: int) -> str:
    """Return the function that returns the address of a number: in its array, or at %slot, to which it is copied."""
    kinds, values = [], []
    for name, kind, conversion in _NUMBERS:
        kinds += [
            f"%is.{name} = icmp eq ptr %type, @object_{name}",
            f"br i1 %is.{name}, label %{name}, label %not.{name}",
            f"{name}:",
            field_text(f"{name}.value", "object", VALUE, kind),
            *([f"%{name}.double = {conversion} {kind} %{name}.value to double"] if conversion else []),
            "br label %store",
            f"not.{name}:",
        ]
        values.append(f"[ %{name}.{'double' if conversion else 'value'}, %{name} ]")
    stored = (
        "store double %value, ptr %slot"
        if size == 8
        else "%narrow = fptrunc double %value to float\nstore float %narrow, ptr %slot"
    )
    lines = "\n".join(kinds)
    return f"""\
define internal ptr @number_of(ptr %object, ptr %slot) {UNOPTIMISED} {{
{field_text("type", "object", TYPE, "ptr")}
{lines}
{when_text("is.int", "icmp eq ptr %type, @object_int", "int", "array")}
%int.value = call double @PyLong_AsDouble(ptr %object)
{when_text("doubtful", "fcmp oeq double %int.value, -1.0", "asked", "store")}
%error = call ptr @PyErr_Occurred()
{unless_text("fits", "icmp eq ptr %error, null", "store", "too.large")}
call void @PyErr_Clear()
ret ptr null
store:
%value = phi double {", ".join(values)}, [ %int.value, %int ], [ %int.value, %asked ]
{stored}
ret ptr %slot
array:
%data = call ptr @argument_of(ptr %object, i32 0, ptr null, i64 -1)
ret ptr %data
}}"""


#: Function that returns true if two ranges of memory share a byte.
OVERLAP: Final = f"""\
define internal i1 @overlap(ptr %a, i64 %a.bytes, ptr %b, i64 %b.bytes) {UNOPTIMISED} {{
%a.end = getelementptr i8, ptr %a, i64 %a.bytes
%b.end = getelementptr i8, ptr %b, i64 %b.bytes
%a.first = icmp ult ptr %a, %b.end
%b.first = icmp ult ptr %b, %a.end
%both = and i1 %a.first, %b.first
ret i1 %both
}}"""
