"""LLVM IR of functions that read Python objects: they find the entries of arrays and the values of numbers.

An argument is an array of its shape at one point; in a batch with an axis of points more, unless it is shared. A number
may stand for an array without axes. Result arrays may have any axes, if their numbers of entries and points are right.
Any other object gets the address null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accumulus.targets.llvm.kernel_signature import UNOPTIMISED
from accumulus.targets.llvm.python_abi import (
    AXES,
    DATA,
    DTYPE,
    FLAGS,
    FUNCTIONS,
    HEADER,
    OBJECTS,
    READABLE,
    SHAPE,
    TYPE,
    UNPACK,
    VALUE,
    WRITABLE,
)

__all__ = ["LENGTH_OF", "declared", "readers", "unpacking"]


def declared(names: Sequence[str]) -> list[str]:
    """Declarations of what a module needs of Python: functions and objects."""
    return [FUNCTIONS.get(name, f"@{name} = external global i8") for name in names]


def readers(size: int, *, numbers: bool, transposed: bool = False) -> tuple[list[str], tuple[str, ...]]:
    """``argument_of``, ``result_of`` and, if there are `numbers`, ``number_of``; and the names that they need.

    Args:
        size: bytes of an entry.
    """
    names = (*FUNCTIONS, *OBJECTS, "object_dtype")
    text = [*declared(names), _ARRAY_OF, _argument_of(transposed), _RESULT_OF]
    return [*text, *([_number_of(size)] if numbers else [])], names


def unpacking(size: int) -> tuple[list[str], tuple[str, ...]]:
    """The function that finds the entries of the arguments and results of one point; the names that it needs.

    It takes the objects, how many they are, a table of integers, and memory for a pointer to each object and for a
    number for each argument. The table says how many objects there should be, and how many of them are arguments; for
    each argument, the number of its axes and their lengths; for each result, the number of its entries. It returns
    whether all objects match the table.
    """
    text, names = readers(size, numbers=True)
    # optimised, unlike other code that runs once a call: this is compiled once a machine, not once a program
    return [line.replace(UNOPTIMISED, "nounwind") for line in [*text, _UNPACK]], names


def _field(name: str, base: str, offset: int, kind: str) -> str:
    """Read a field of a Python object."""
    return f"%{name}.at = getelementptr i8, ptr %{base}, i64 {HEADER + offset}\n%{name} = load {kind}, ptr %{name}.at"


#: Where an array's entries are, if it is one of the program's dtype with the wanted flags.
_ARRAY_OF: Final = f"""\
define internal ptr @array_of(ptr %object, i32 %wanted) {UNOPTIMISED} {{
{_field("type", "object", TYPE, "ptr")}
%is.array = icmp eq ptr %type, @object_array_type
br i1 %is.array, label %array, label %refuse
array:
{_field("dtype", "object", DTYPE, "ptr")}
{_field("flags", "object", FLAGS, "i32")}
{_field("data", "object", DATA, "ptr")}
%dtype.right = icmp eq ptr %dtype, @object_dtype
%flags.both = and i32 %flags, %wanted
%flags.right = icmp eq i32 %flags.both, %wanted
%right = and i1 %dtype.right, %flags.right
br i1 %right, label %found, label %refuse
found:
ret ptr %data
refuse:
ret ptr null
}}"""


def _argument_of(transposed: bool) -> str:
    """Where an argument's entries are: one with %axes axes of the lengths at %shape, and %points unless that is -1."""
    # the axis of points is the first or the last one
    first, points_at = ("i32 0", "i32 %axes") if transposed else ("i32 %more", "i32 0")
    return f"""\
define internal ptr @argument_of(ptr %object, i32 %axes, ptr %shape, i64 %points) {UNOPTIMISED} {{
%data = call ptr @array_of(ptr %object, i32 {READABLE})
%none = icmp eq ptr %data, null
br i1 %none, label %refuse, label %array
array:
{_field("axes.given", "object", AXES, "i32")}
{_field("lengths", "object", SHAPE, "ptr")}
%batch = icmp ne i64 %points, -1
%more = zext i1 %batch to i32
%axes.wanted = add i32 %axes, %more
%axes.right = icmp eq i32 %axes.given, %axes.wanted
br i1 %axes.right, label %counted, label %refuse
counted:
br i1 %batch, label %points.too, label %start
points.too:
%points.at = getelementptr i64, ptr %lengths, {points_at}
%points.given = load i64, ptr %points.at
%points.right = icmp eq i64 %points.given, %points
br i1 %points.right, label %start, label %refuse
start:
%own = getelementptr i64, ptr %lengths, {first}
br label %next
next:
%axis = phi i32 [ 0, %start ], [ %axis.next, %compare ]
%left = icmp slt i32 %axis, %axes
br i1 %left, label %compare, label %found
compare:
%length.at = getelementptr i64, ptr %own, i32 %axis
%length = load i64, ptr %length.at
%wanted.at = getelementptr i64, ptr %shape, i32 %axis
%wanted = load i64, ptr %wanted.at
%length.right = icmp eq i64 %length, %wanted
%axis.next = add i32 %axis, 1
br i1 %length.right, label %next, label %refuse
found:
ret ptr %data
refuse:
ret ptr null
}}"""


#: Where the entries of a result array are: one with so many of them, and %points in the first axis, or the last one if
#: %last, unless %points is -1.
_RESULT_OF: Final = f"""\
define internal ptr @result_of(ptr %object, i64 %entries, i64 %points, i1 %last) {UNOPTIMISED} {{
%data = call ptr @array_of(ptr %object, i32 {WRITABLE})
%none = icmp eq ptr %data, null
br i1 %none, label %refuse, label %array
array:
{_field("axes", "object", AXES, "i32")}
{_field("lengths", "object", SHAPE, "ptr")}
br label %next
next:
%axis = phi i32 [ 0, %array ], [ %axis.next, %multiply ]
%product = phi i64 [ 1, %array ], [ %product.next, %multiply ]
%left = icmp slt i32 %axis, %axes
br i1 %left, label %multiply, label %compare
multiply:
%length.at = getelementptr i64, ptr %lengths, i32 %axis
%length = load i64, ptr %length.at
%product.next = mul i64 %product, %length
%axis.next = add i32 %axis, 1
br label %next
compare:
%entries.right = icmp eq i64 %product, %entries
br i1 %entries.right, label %counted, label %refuse
counted:
%any = icmp eq i64 %points, -1
br i1 %any, label %found, label %points.too
points.too:
%some.axes = icmp sgt i32 %axes, 0
br i1 %some.axes, label %which, label %refuse
which:
%axis.last = sub i32 %axes, 1
%points.axis = select i1 %last, i32 %axis.last, i32 0
%points.at = getelementptr i64, ptr %lengths, i32 %points.axis
%points.given = load i64, ptr %points.at
%points.right = icmp eq i64 %points.given, %points
br i1 %points.right, label %found, label %refuse
found:
ret ptr %data
refuse:
ret ptr null
}}"""

#: Length of the first axis of an array, or of the last one; negative if it is no array, or has no axes.
LENGTH_OF: Final = f"""\
define internal i64 @length_of(ptr %object, i1 %last) {UNOPTIMISED} {{
{_field("type", "object", TYPE, "ptr")}
%is.array = icmp eq ptr %type, @object_array_type
br i1 %is.array, label %array, label %refuse
array:
{_field("axes", "object", AXES, "i32")}
{_field("lengths", "object", SHAPE, "ptr")}
%some = icmp sgt i32 %axes, 0
br i1 %some, label %sized, label %refuse
sized:
%axis.last = sub i32 %axes, 1
%axis = select i1 %last, i32 %axis.last, i32 0
%length.at = getelementptr i64, ptr %lengths, i32 %axis
%length = load i64, ptr %length.at
ret i64 %length
refuse:
ret i64 -1
}}"""

#: Kinds of numbers whose value lies in the object: Python's name, LLVM's type, how it becomes a double.
_NUMBERS: Final = (
    ("float", "double", ""),
    ("float64", "double", ""),
    ("float32", "float", "fpext"),
    ("int64", "i64", "sitofp"),
)


def _number_of(size: int) -> str:
    """Where a number is: in the array that it is given as, or at %slot, where it is put."""
    kinds, values = [], []
    for name, kind, conversion in _NUMBERS:
        kinds += [
            f"%is.{name} = icmp eq ptr %type, @object_{name}",
            f"br i1 %is.{name}, label %{name}, label %not.{name}",
            f"{name}:",
            _field(f"{name}.value", "object", VALUE, kind),
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
{_field("type", "object", TYPE, "ptr")}
{lines}
%is.int = icmp eq ptr %type, @object_int
br i1 %is.int, label %int, label %array
int:
%int.value = call double @PyLong_AsDouble(ptr %object)
%doubtful = fcmp oeq double %int.value, -1.0
br i1 %doubtful, label %asked, label %store
asked:
%error = call ptr @PyErr_Occurred()
%fits = icmp eq ptr %error, null
br i1 %fits, label %store, label %too.large
too.large:
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


_UNPACK: Final = f"""\
define i1 @{UNPACK}(ptr %objects, i64 %given, ptr %table, ptr %pointers, ptr %numbers) nounwind {{
%count = load i64, ptr %table
%all = icmp eq i64 %given, %count
br i1 %all, label %counted, label %refuse
counted:
%arguments.at = getelementptr i64, ptr %table, i64 1
%arguments = load i64, ptr %arguments.at
%begin = getelementptr i64, ptr %table, i64 2
br label %next
next:
%k = phi i64 [ 0, %counted ], [ %k.next, %right ]
%at = phi ptr [ %begin, %counted ], [ %at.next, %right ]
%more = icmp slt i64 %k, %count
br i1 %more, label %look, label %accept
look:
%object.at = getelementptr ptr, ptr %objects, i64 %k
%object = load ptr, ptr %object.at
%wanted = load i64, ptr %at
%shape = getelementptr i64, ptr %at, i64 1
%is.argument = icmp slt i64 %k, %arguments
br i1 %is.argument, label %argument, label %result
argument:
%is.number = icmp eq i64 %wanted, 0
br i1 %is.number, label %number, label %array
number:
%slot = getelementptr i64, ptr %numbers, i64 %k
%number.at = call ptr @number_of(ptr %object, ptr %slot)
br label %found
array:
%axes = trunc i64 %wanted to i32
%array.at = call ptr @argument_of(ptr %object, i32 %axes, ptr %shape, i64 -1)
br label %found
result:
%result.at = call ptr @result_of(ptr %object, i64 %wanted, i64 -1, i1 false)
br label %found
found:
%pointer = phi ptr [ %number.at, %number ], [ %array.at, %array ], [ %result.at, %result ]
%lengths = phi i64 [ 0, %number ], [ %wanted, %array ], [ 0, %result ]
%wrong = icmp eq ptr %pointer, null
br i1 %wrong, label %refuse, label %right
right:
%pointer.at = getelementptr ptr, ptr %pointers, i64 %k
store ptr %pointer, ptr %pointer.at
%k.next = add i64 %k, 1
%at.next = getelementptr i64, ptr %shape, i64 %lengths
br label %next
accept:
ret i1 true
refuse:
ret i1 false
}}"""
