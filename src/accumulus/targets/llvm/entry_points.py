"""LLVM IR of the functions that Python calls: they check their arguments and run the program on them.

``point(*x, *out)`` computes one point, ``batch(*x, *out)`` all points of a batch, ``batch(*x, *out, first, last)`` a
range of them. All return None. For arguments that they cannot take (another shape or dtype, a subclass of arrays,
results that overlap) they return NotImplemented, and the caller converts or raises; see `readers` for the arguments
that they take. Batches release the GIL. ``point`` compares the memory of results only if None follows them, since new
arrays do not overlap; in code for batches it refuses that None.

``batch`` returns Ellipsis if it did its work, but stored results across vector boundaries. Code for other alignments
avoids that: put the address of its function ``run`` into the global ``other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import gcd, prod
from typing import Final

from accumulus.targets.llvm.library import (
    AXES,
    DATA,
    DTYPE,
    EITHER,
    FLAGS,
    FRESH,
    FUNCTIONS,
    HEADER,
    ITEMS,
    LOOPS,
    MAKING,
    OBJECTS,
    POINTS,
    READABLE,
    SHAPE,
    TAKEN,
    TYPE,
    UNPACK,
    VALUE,
    WRITABLE,
)
from accumulus.targets.llvm.vectors import UNOPTIMISED, Signature, unless, when

#: Largest number of axes of an array of NumPy, with an axis of points.
MOST_AXES: Final = 65

# Access to Python objects ---------------------------------------------------------------------------------------------


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


def unpacking(size: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the function that finds the entries of the arguments and results of one point; and the names it imports.

    It takes the objects, their number, a table of integers, and memory for a pointer to each object and for a number
    for each argument. The table holds the required number of objects and of arguments; the bytes of each object; for
    each argument, the number of its axes and their lengths; for each result, the number of its entries. It returns true
    if all objects match the table, and, if None follows them, no result overlaps an argument or another result.
    """
    text, names = readers(size, numbers=True)
    text += [*declared([*MAKING]), _OVERLAP, _UNPACK, _loops(size), _making_results(size), _EITHER]
    # optimised, unlike other code that runs once per call, since it is compiled once per machine
    return [line.replace(UNOPTIMISED, "nounwind") for line in text], (*names, *MAKING)


def _when(*arguments: str) -> str:
    return "\n".join(when(*arguments))


def _unless(*arguments: str) -> str:
    return "\n".join(unless(*arguments))


def _entry(name: str, kind: str, base: str, index: str) -> str:
    """Return instructions that load an entry of an array."""
    return f"%{name}.at = getelementptr {kind}, ptr %{base}, {index}\n%{name} = load {kind}, ptr %{name}.at"


def _field(name: str, base: str, offset: int, kind: str) -> str:
    """Return instructions that load a field of a Python object."""
    return f"%{name}.at = getelementptr i8, ptr %{base}, i64 {HEADER + offset}\n%{name} = load {kind}, ptr %{name}.at"


#: Function that returns the address of an array's entries, null unless dtype and flags are as required.
_ARRAY_OF: Final = f"""\
define internal ptr @array_of(ptr %object, i32 %wanted) {UNOPTIMISED} {{
{_field("type", "object", TYPE, "ptr")}
{_when("is.array", "icmp eq ptr %type, @object_array_type", "array", "refuse")}
{_field("dtype", "object", DTYPE, "ptr")}
{_field("flags", "object", FLAGS, "i32")}
{_field("data", "object", DATA, "ptr")}
%dtype.right = icmp eq ptr %dtype, @object_dtype
%flags.both = and i32 %flags, %wanted
%flags.right = icmp eq i32 %flags.both, %wanted
{_when("right", "and i1 %dtype.right, %flags.right", "found", "refuse")}
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
{_unless("none", "icmp eq ptr %data, null", "refuse", "array")}
{_field("axes.given", "object", AXES, "i32")}
{_field("lengths", "object", SHAPE, "ptr")}
%batch = icmp ne i64 %points, -1
%more = zext i1 %batch to i32
%axes.wanted = add i32 %axes, %more
{_when("axes.right", "icmp eq i32 %axes.given, %axes.wanted", "counted", "refuse")}
br i1 %batch, label %points.too, label %start
points.too:
%points.at = getelementptr i64, ptr %lengths, {points_at}
%points.given = load i64, ptr %points.at
{_when("points.right", "icmp eq i64 %points.given, %points", "start", "refuse")}
%own = getelementptr i64, ptr %lengths, {first}
br label %next
next:
%axis = phi i32 [ 0, %start ], [ %axis.next, %compare ]
{_when("left", "icmp slt i32 %axis, %axes", "compare", "found")}
{_entry("length", "i64", "own", "i32 %axis")}
{_entry("wanted", "i64", "shape", "i32 %axis")}
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
{_unless("none", "icmp eq ptr %data, null", "refuse", "array")}
{_field("axes", "object", AXES, "i32")}
{_field("lengths", "object", SHAPE, "ptr")}
br label %next
next:
%axis = phi i32 [ 0, %array ], [ %axis.next, %multiply ]
%product = phi i64 [ 1, %array ], [ %product.next, %multiply ]
{_when("left", "icmp slt i32 %axis, %axes", "multiply", "compare")}
{_entry("length", "i64", "lengths", "i32 %axis")}
%product.next = mul i64 %product, %length
%axis.next = add i32 %axis, 1
br label %next
compare:
{_when("entries.right", "icmp eq i64 %product, %entries", "counted", "refuse")}
{_unless("any", "icmp eq i64 %points, -1", "found", "points.too")}
{_when("some.axes", "icmp sgt i32 %axes, 0", "which", "refuse")}
%axis.last = sub i32 %axes, 1
%points.axis = select i1 %last, i32 %axis.last, i32 0
%points.at = getelementptr i64, ptr %lengths, i32 %points.axis
%points.given = load i64, ptr %points.at
{_when("points.right", "icmp eq i64 %points.given, %points", "found", "refuse")}
ret ptr %data
refuse:
ret ptr null
}}"""

#: Function that returns the length of an array's first axis, or its last if %last; -1 if it is no array or has no axes.
LENGTH_OF: Final = f"""\
define internal i64 @length_of(ptr %object, i1 %last) {UNOPTIMISED} {{
{_field("type", "object", TYPE, "ptr")}
{_when("is.array", "icmp eq ptr %type, @object_array_type", "array", "refuse")}
{_field("axes", "object", AXES, "i32")}
{_field("lengths", "object", SHAPE, "ptr")}
{_when("some", "icmp sgt i32 %axes, 0", "sized", "refuse")}
%axis.last = sub i32 %axes, 1
%axis = select i1 %last, i32 %axis.last, i32 0
{_entry("length", "i64", "lengths", "i32 %axis")}
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
{_when("is.int", "icmp eq ptr %type, @object_int", "int", "array")}
%int.value = call double @PyLong_AsDouble(ptr %object)
{_when("doubtful", "fcmp oeq double %int.value, -1.0", "asked", "store")}
%error = call ptr @PyErr_Occurred()
{_unless("fits", "icmp eq ptr %error, null", "store", "too.large")}
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
_OVERLAP: Final = f"""\
define internal i1 @overlap(ptr %a, i64 %a.bytes, ptr %b, i64 %b.bytes) {UNOPTIMISED} {{
%a.end = getelementptr i8, ptr %a, i64 %a.bytes
%b.end = getelementptr i8, ptr %b, i64 %b.bytes
%a.first = icmp ult ptr %a, %b.end
%b.first = icmp ult ptr %b, %a.end
%both = and i1 %a.first, %b.first
ret i1 %both
}}"""


_UNPACK: Final = f"""\
define i1 @{UNPACK}(ptr %objects, i64 %given, ptr %table, ptr %pointers, ptr %numbers) nounwind {{
%count = load i64, ptr %table
%all = icmp eq i64 %given, %count
br i1 %all, label %counted, label %further
further:
%one.more = add i64 %count, 1
{_when("is.one.more", "icmp eq i64 %given, %one.more", "marked", "refuse")}
{_entry("mark", "ptr", "objects", "i64 %count")}
{_when("is.none", "icmp eq ptr %mark, @object_none", "none", "refuse")}
br label %counted
counted:
{_entry("arguments", "i64", "table", "i64 1")}
%bytes = getelementptr i64, ptr %table, i64 2
%begin = getelementptr i64, ptr %bytes, i64 %count
br label %next
next:
%k = phi i64 [ 0, %counted ], [ %k.next, %right ]
%at = phi ptr [ %begin, %counted ], [ %at.next, %right ]
{_when("more", "icmp slt i64 %k, %count", "look", "matched")}
{_entry("object", "ptr", "objects", "i64 %k")}
%wanted = load i64, ptr %at
%shape = getelementptr i64, ptr %at, i64 1
{_when("is.argument", "icmp slt i64 %k, %arguments", "argument", "result")}
{_when("is.number", "icmp eq i64 %wanted, 0", "number", "array")}
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
{_unless("wrong", "icmp eq ptr %pointer, null", "refuse", "right")}
%pointer.at = getelementptr ptr, ptr %pointers, i64 %k
store ptr %pointer, ptr %pointer.at
%k.next = add i64 %k, 1
%at.next = getelementptr i64, ptr %shape, i64 %lengths
br label %next
matched:
br i1 %all, label %accept, label %results
results:
%b = phi i64 [ %arguments, %matched ], [ %b.next, %apart ]
{_when("b.more", "icmp slt i64 %b, %count", "compare", "accept")}
{_entry("b.pointer", "ptr", "pointers", "i64 %b")}
{_entry("b.bytes", "i64", "bytes", "i64 %b")}
br label %others
others:
%a = phi i64 [ 0, %compare ], [ %a.next, %beside ]
{_when("a.more", "icmp slt i64 %a, %b", "other", "apart")}
{_entry("a.pointer", "ptr", "pointers", "i64 %a")}
{_entry("a.bytes", "i64", "bytes", "i64 %a")}
%a.next = add i64 %a, 1
%a.over.b = call i1 @overlap(ptr %a.pointer, i64 %a.bytes, ptr %b.pointer, i64 %b.bytes)
br i1 %a.over.b, label %refuse, label %beside
beside:
br label %others
apart:
%b.next = add i64 %b, 1
br label %results
accept:
ret i1 true
refuse:
ret i1 false
}}"""


#: Words of the state of loops: 1 while they run; address of the table for unpacking; number of arguments, and of them
#: with results; addresses of the first argument's place in the workspace, and of the numbers of entries; address of the
#: addresses that loops take, number of those in results, address of their table (position among the addresses, number
#: of the object, and offset in bytes); address of the table of calls, its rows, and the function that makes them.
STATE: Final = (
    "busy", "table", "arguments", "objects", "first", "sizes", "addresses", "returned", "places", "calls", "rows", "run"
)  # fmt: skip


def _loops(size: int) -> str:
    """Return the functions for loops, which are compiled without entry points: of one point, and of many.

    Python calls the first one; its tuple holds an array of the words of `STATE`. It returns NotImplemented also while
    another thread runs the loops. The second one takes this array, an address for each object, the distance in bytes to
    the next point's, and the number of points; it returns 0 in the same case. Both copy the arguments to the workspace,
    and write the addresses of the results to where loops take them.
    """

    def loaded(*names: str) -> str:
        """Return instructions that load words of the state."""
        numbers = ("arguments", "objects", "returned", "rows")
        return "\n".join(
            f"%{name}.word = getelementptr i64, ptr %state, i64 {STATE.index(name)}\n"
            f"%{name} = load {'i64' if name in numbers else 'ptr'}, ptr %{name}.word"
            for name in names
        )

    entered = """\
%entered = cmpxchg ptr %state, i64 0, i64 1 acquire acquire
%is.free = extractvalue { i64, i1 } %entered, 1"""
    left = "store atomic i64 0, ptr %state release, align 8"
    return f"""\
define internal void @loops_at(ptr %state, ptr %pointers) nounwind {{
{loaded("arguments", "first", "sizes", "addresses", "returned", "places", "calls", "rows", "run")}
br label %copy
copy:
%k = phi i64 [ 0, %0 ], [ %k.next, %copied ]
%to = phi ptr [ %first, %0 ], [ %to.next, %copied ]
{_when("more", "icmp slt i64 %k, %arguments", "copied", "place")}
{_entry("from", "ptr", "pointers", "i64 %k")}
{_entry("entries", "i64", "sizes", "i64 %k")}
%bytes = mul i64 %entries, {size}
call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
%to.next = getelementptr i8, ptr %to, i64 %bytes
%k.next = add i64 %k, 1
br label %copy
place:
%j = phi i64 [ 0, %copy ], [ %j.next, %placed ]
{_when("left", "icmp slt i64 %j, %returned", "placed", "compute")}
%row.at = getelementptr {{ i64, i64, i64 }}, ptr %places, i64 %j
%words = load {{ i64, i64, i64 }}, ptr %row.at, align 8
%index = extractvalue {{ i64, i64, i64 }} %words, 0
%object = extractvalue {{ i64, i64, i64 }} %words, 1
%offset = extractvalue {{ i64, i64, i64 }} %words, 2
{_entry("base", "ptr", "pointers", "i64 %object")}
%address = getelementptr i8, ptr %base, i64 %offset
%address.at = getelementptr ptr, ptr %addresses, i64 %index
store ptr %address, ptr %address.at
%j.next = add i64 %j, 1
br label %place
compute:
call void %run(ptr %calls, i64 %rows)
ret void
}}
define ptr @{LOOPS}(ptr %self, ptr %given.objects, i64 %given) nounwind {{
%owner.at = getelementptr i8, ptr %self, i64 {ITEMS + 8}
%owner = load ptr, ptr %owner.at
{_field("state", "owner", DATA, "ptr")}
{loaded("table", "arguments", "objects")}
{entered}
br i1 %is.free, label %unpack, label %refuse
unpack:
%pointers = alloca ptr, i64 %objects
%numbers = alloca i64, i64 %arguments
%right = call i1 @{UNPACK}(ptr %given.objects, i64 %given, ptr %table, ptr %pointers, ptr %numbers)
br i1 %right, label %compute, label %leave
compute:
%thread = call ptr @PyEval_SaveThread()
call void @loops_at(ptr %state, ptr %pointers)
call void @PyEval_RestoreThread(ptr %thread)
{left}
call void @Py_IncRef(ptr @object_none)
ret ptr @object_none
leave:
{left}
br label %refuse
refuse:
call void @Py_IncRef(ptr @object_refused)
ret ptr @object_refused
}}
define i64 @{POINTS}(ptr %state, ptr %pointers, ptr %steps, i64 %count) nounwind {{
{loaded("objects")}
{entered}
br i1 %is.free, label %point, label %busy
point:
%p = phi i64 [ 0, %0 ], [ %p.next, %moved ]
{_when("some", "icmp slt i64 %p, %count", "compute", "done")}
call void @loops_at(ptr %state, ptr %pointers)
br label %move
move:
%k = phi i64 [ 0, %compute ], [ %k.next, %step ]
{_when("more", "icmp slt i64 %k, %objects", "step", "moved")}
{_entry("at", "ptr", "pointers", "i64 %k")}
{_entry("by", "i64", "steps", "i64 %k")}
%next = getelementptr i8, ptr %at, i64 %by
%next.at = getelementptr ptr, ptr %pointers, i64 %k
store ptr %next, ptr %next.at
%k.next = add i64 %k, 1
br label %move
moved:
%p.next = add i64 %p, 1
br label %point
done:
{left}
ret i64 1
busy:
ret i64 0
}}"""


#: Words of the state of the functions that make results: address of the function to call; number of its arguments, and
#: of its results; number of NumPy's type; 1 if the last result is 0 where the others are invalid; 1 if a single result
#: is returned in a tuple, too; 1 if points are on the first axis of results, 2 if they are on the last one, 0 at one
#: point. Of batches also: position of an argument with points, and the number of its axes; numbers of points that are
#: too many for new results, and for those of the caller; addresses of `in_axes` and `transposed`; 1 if one thread is
#: used by default. For each result follow 1 if it is returned as a number, the number of axes, and their lengths.
RESULTS_STATE: Final = (
    *("called", "arguments", "results", "type", "guarded", "tuple", "points"),
    *("leading", "axes.with.points", "many", "many.given", "in.axes", "transposed", "alone"),
)
_ADDRESSES: Final = ("called", "in.axes", "transposed")


def _loaded(*names: str) -> str:
    """Return instructions that load words of `RESULTS_STATE`."""
    return "\n".join(
        f"%{name}.word = getelementptr i64, ptr %state, i64 {RESULTS_STATE.index(name)}\n"
        f"%{name} = load {'ptr' if name in _ADDRESSES else 'i64'}, ptr %{name}.word"
        for name in names
    )


#: Instructions that find the state of a function's tuple.
_STATE_OF_SELF: Final = f"""\
%owner.at = getelementptr i8, ptr %self, i64 {ITEMS + 8}
%owner = load ptr, ptr %owner.at
{_field("state", "owner", DATA, "ptr")}"""


def _making_results(size: int) -> str:
    """Return the functions that make arrays for results, or take them, call compiled code, and return the results.

    Python calls ``fresh`` with the arguments of the function that is called, after the number of points of a batch; and
    ``taken`` with a tuple of the arguments and `out`, and of batches with `threads`, `in_axes` and `transposed`, too.
    Their tuple holds an array of the words of `RESULTS_STATE`; that of ``taken`` also a function that it calls where it
    refuses. They return the result, or a tuple of several; NotImplemented if the called function does so, or if the
    last result is 0; and pass errors on.
    """
    kind = "double" if size == 8 else "float"
    return f"""\
define internal void @drop(ptr %objects, i64 %count) nounwind {{
br label %next
next:
%k = phi i64 [ 0, %0 ], [ %k.next, %one ]
{_when("more", "icmp slt i64 %k, %count", "one", "done")}
{_entry("object", "ptr", "objects", "i64 %k")}
call void @Py_DecRef(ptr %object)
%k.next = add i64 %k, 1
br label %next
done:
ret void
}}
define internal ptr @items_of(ptr %out, ptr %slot, i64 %wanted) nounwind {{
{_field("type", "out", TYPE, "ptr")}
{_unless("is.array", "icmp eq ptr %type, @object_array_type", "array", "no.array")}
{_unless("is.tuple", "icmp eq ptr %type, @object_tuple", "tuple", "no.tuple")}
{_when("is.list", "icmp eq ptr %type, @object_list", "list", "refuse")}
{_field("listed", "out", 8, "ptr")}
br label %sized
array:
store ptr %out, ptr %slot
{_when("is.one", "icmp eq i64 %wanted, 1", "single", "refuse")}
ret ptr %slot
tuple:
%items = getelementptr i8, ptr %out, i64 {ITEMS}
br label %sized
sized:
%found = phi ptr [ %listed, %list ], [ %items, %tuple ]
{_field("count", "out", 0, "i64")}
{_when("as.many", "icmp eq i64 %count, %wanted", "found.all", "refuse")}
ret ptr %found
refuse:
ret ptr null
}}
define internal i1 @has_shape(ptr %object, i64 %axes, ptr %lengths) nounwind {{
{_field("type", "object", TYPE, "ptr")}
{_when("is.array", "icmp eq ptr %type, @object_array_type", "array", "differs")}
{_field("axes.given", "object", AXES, "i32")}
{_field("own", "object", SHAPE, "ptr")}
%axes.given.wide = sext i32 %axes.given to i64
{_when("as.many", "icmp eq i64 %axes.given.wide, %axes", "counted", "differs")}
br label %next
next:
%k = phi i64 [ 0, %counted ], [ %k.next, %compare ]
{_when("more", "icmp slt i64 %k, %axes", "compare", "same")}
{_entry("length", "i64", "own", "i64 %k")}
{_entry("wanted", "i64", "lengths", "i64 %k")}
%k.next = add i64 %k, 1
%is.right = icmp eq i64 %length, %wanted
br i1 %is.right, label %next, label %differs
same:
ret i1 true
differs:
ret i1 false
}}
define internal ptr @made(ptr %state, ptr %from, i64 %count, ptr %out) nounwind {{
{_loaded("called", "arguments", "results", "type", "guarded", "tuple", "points")}
%is.batch = icmp ne i64 %points, 0
%more.axes = zext i1 %is.batch to i64
%left = sub i64 %results, %guarded
%slot = alloca ptr
%has.out = icmp ne ptr %out, @object_none
br i1 %has.out, label %given, label %begin
given:
%given.items = call ptr @items_of(ptr %out, ptr %slot, i64 %left)
{_unless("no.items", "icmp eq ptr %given.items, null", "refuse", "begin.given")}
br label %begin
begin:
%items = phi ptr [ null, %0 ], [ %given.items, %begin.given ]
%is.marked = icmp ugt i1 %has.out, %is.batch
%mark = zext i1 %is.marked to i64
%objects.all = add i64 %arguments, %results
%objects.count = add i64 %objects.all, %mark
%objects.memory = add i64 %objects.all, 1
%objects = alloca ptr, i64 %objects.memory
%mark.at = getelementptr ptr, ptr %objects, i64 %objects.all
store ptr @object_none, ptr %mark.at
%bytes = mul i64 %arguments, 8
call void @llvm.memcpy.p0.p0.i64(ptr %objects, ptr %from, i64 %bytes, i1 false)
%made = getelementptr ptr, ptr %objects, i64 %arguments
%lengths = alloca i64, i64 {MOST_AXES}
%is.first = icmp eq i64 %points, 1
%shift = zext i1 %is.first to i64
%own = getelementptr i64, ptr %lengths, i64 %shift
%shapes = getelementptr i64, ptr %state, i64 {len(RESULTS_STATE)}
%type.number = trunc i64 %type to i32
br label %next
next:
%k = phi i64 [ 0, %begin ], [ %k.next, %stored ]
%shape = phi ptr [ %shapes, %begin ], [ %shape.next, %stored ]
{_when("more", "icmp slt i64 %k, %results", "shaped", "call")}
{_entry("axes", "i64", "shape", "i64 1")}
%axes.at.point = getelementptr i64, ptr %shape, i64 2
%axes.bytes = mul i64 %axes, 8
call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %axes.at.point, i64 %axes.bytes, i1 false)
%count.place = select i1 %is.first, i64 0, i64 %axes
%count.at = getelementptr i64, ptr %lengths, i64 %count.place
store i64 %count, ptr %count.at
%axes.all = add i64 %axes, %more.axes
%is.returned = icmp slt i64 %k, %left
%is.given = and i1 %is.returned, %has.out
br i1 %is.given, label %take, label %allocate
take:
{_entry("item", "ptr", "items", "i64 %k")}
%fits = call i1 @has_shape(ptr %item, i64 %axes.all, ptr %lengths)
br i1 %fits, label %taken, label %misfit
taken:
call void @Py_IncRef(ptr %item)
br label %stored
allocate:
%axes.number = trunc i64 %axes.all to i32
%array = call ptr @PyArray_New(\
ptr @object_array_type, i32 %axes.number, ptr %lengths, i32 %type.number, ptr null, ptr null, i32 0, i32 0, ptr null)
{_unless("none", "icmp eq ptr %array, null", "failed", "allocated")}
br label %stored
stored:
%result.object = phi ptr [ %item, %taken ], [ %array, %allocated ]
%made.at = getelementptr ptr, ptr %made, i64 %k
store ptr %result.object, ptr %made.at
%k.next = add i64 %k, 1
%shape.next = getelementptr i64, ptr %axes.at.point, i64 %axes
br label %next
call:
%answer = call ptr @PyObject_Vectorcall(ptr %called, ptr %objects, i64 %objects.count, ptr null)
{_unless("error", "icmp eq ptr %answer, null", "failed", "answered")}
%is.none = icmp eq ptr %answer, @object_none
%is.misaligned = icmp eq ptr %answer, @object_misaligned
{_unless("is.done", "or i1 %is.none, %is.misaligned", "done", "passed.on")}
call void @drop(ptr %made, i64 %results)
ret ptr %answer
done:
call void @Py_DecRef(ptr %answer)
%is.guarded = icmp ne i64 %guarded, 0
br i1 %is.guarded, label %guard, label %valid
guard:
{_entry("guard.array", "ptr", "made", "i64 %left")}
{_field("truth.at", "guard.array", DATA, "ptr")}
%truth = load {kind}, ptr %truth.at
{_unless("fails", f"fcmp oeq {kind} %truth, 0.0", "invalid", "holds")}
call void @Py_DecRef(ptr %guard.array)
br label %valid
valid:
%j = phi i64 [ 0, %done ], [ 0, %holds ], [ %j.next, %converted ]
%shape.j = phi ptr [ %shapes, %done ], [ %shapes, %holds ], [ %shape.j.next, %converted ]
{_when("more.results", "icmp slt i64 %j, %left", "convert", "return")}
%is.number = load i64, ptr %shape.j
{_entry("axes.j", "i64", "shape.j", "i64 1")}
%places.j = add i64 %axes.j, 2
%shape.j.next = getelementptr i64, ptr %shape.j, i64 %places.j
%j.next = add i64 %j, 1
{_unless("stays.array", "icmp eq i64 %is.number, 0", "converted", "number")}
%number.at = getelementptr ptr, ptr %made, i64 %j
%number.array = load ptr, ptr %number.at
%number.object = call ptr @PyArray_Return(ptr %number.array)
store ptr %number.object, ptr %number.at
{_unless("no.number", "icmp eq ptr %number.object, null", "lost", "numbered")}
br label %converted
converted:
br label %valid
return:
%is.several = icmp ne i64 %left, 1
%wants.tuple = icmp ne i64 %tuple, 0
{_unless("in.tuple", "or i1 %is.several, %wants.tuple", "pack", "single")}
%result = load ptr, ptr %made
ret ptr %result
pack:
%packed = call ptr @PyTuple_New(i64 %left)
{_unless("no.tuple", "icmp eq ptr %packed, null", "unpacked", "put")}
br label %fill
fill:
%i = phi i64 [ 0, %put ], [ %i.next, %filled ]
{_when("more.items", "icmp slt i64 %i, %left", "filled", "full")}
{_entry("filled.object", "ptr", "made", "i64 %i")}
%status = call i32 @PyTuple_SetItem(ptr %packed, i64 %i, ptr %filled.object)
%i.next = add i64 %i, 1
br label %fill
full:
ret ptr %packed
misfit:
call void @drop(ptr %made, i64 %k)
br label %refuse
invalid:
call void @drop(ptr %made, i64 %results)
br label %refuse
refuse:
call void @Py_IncRef(ptr @object_refused)
ret ptr @object_refused
failed:
%so.far = phi i64 [ %k, %allocate ], [ %results, %call ]
call void @drop(ptr %made, i64 %so.far)
ret ptr null
lost:
%after = getelementptr ptr, ptr %made, i64 %j.next
%rest = sub i64 %left, %j.next
call void @drop(ptr %after, i64 %rest)
call void @drop(ptr %made, i64 %j)
ret ptr null
unpacked:
call void @drop(ptr %made, i64 %left)
ret ptr null
}}
define ptr @{FRESH}(ptr %self, ptr %objects, i64 %given) nounwind {{
{_STATE_OF_SELF}
{_loaded("arguments", "points")}
%is.batch = icmp ne i64 %points, 0
%more = zext i1 %is.batch to i64
%wanted = add i64 %arguments, %more
{_when("all", "icmp eq i64 %given, %wanted", "counted", "refuse")}
br i1 %is.batch, label %batch, label %start
batch:
%count.object = load ptr, ptr %objects
%count.given = call i64 @PyLong_AsSsize_t(ptr %count.object)
br label %start
start:
%count = phi i64 [ 0, %counted ], [ %count.given, %batch ]
%from = getelementptr ptr, ptr %objects, i64 %more
%made = call ptr @made(ptr %state, ptr %from, i64 %count, ptr @object_none)
ret ptr %made
refuse:
call void @Py_IncRef(ptr @object_refused)
ret ptr @object_refused
}}
define ptr @{TAKEN}(ptr %self, ptr %objects, i64 %given) nounwind {{
{_STATE_OF_SELF}
{_loaded("arguments", "points")}
%is.batch = icmp ne i64 %points, 0
%wanted = select i1 %is.batch, i64 5, i64 2
{_when("all", "icmp eq i64 %given, %wanted", "given.all", "otherwise")}
%arguments.object = load ptr, ptr %objects
{_field("arguments.type", "arguments.object", TYPE, "ptr")}
{_when("is.tuple", "icmp eq ptr %arguments.type, @object_tuple", "in.tuple", "otherwise")}
{_field("size", "arguments.object", 0, "i64")}
{_when("as.many", "icmp eq i64 %size, %arguments", "counted", "otherwise")}
%from = getelementptr i8, ptr %arguments.object, i64 {ITEMS}
{_entry("out", "ptr", "objects", "i64 1")}
br i1 %is.batch, label %batch, label %compute
batch:
{_loaded("leading", "axes.with.points", "many", "many.given", "in.axes", "transposed", "alone")}
{_entry("threads.given", "ptr", "objects", "i64 2")}
{_entry("in.axes.given", "ptr", "objects", "i64 3")}
{_entry("transposed.given", "ptr", "objects", "i64 4")}
%no.threads = icmp eq ptr %threads.given, @object_none
%is.alone = icmp ne i64 %alone, 0
%by.default = and i1 %no.threads, %is.alone
%is.one = icmp eq ptr %threads.given, @object_one
%one.thread = or i1 %by.default, %is.one
%same.axes = icmp eq ptr %in.axes.given, %in.axes
%same.way = icmp eq ptr %transposed.given, %transposed
%alike = and i1 %same.axes, %same.way
{_when("usual", "and i1 %one.thread, %alike", "usual.call", "otherwise")}
{_entry("leading.object", "ptr", "from", "i64 %leading")}
{_field("leading.type", "leading.object", TYPE, "ptr")}
{_when("is.array", "icmp eq ptr %leading.type, @object_array_type", "array", "otherwise")}
{_field("leading.axes", "leading.object", AXES, "i32")}
{_field("leading.lengths", "leading.object", SHAPE, "ptr")}
%leading.axes.wide = sext i32 %leading.axes to i64
{_when("right.axes", "icmp eq i64 %leading.axes.wide, %axes.with.points", "has.points", "otherwise")}
%last.axis = sub i64 %axes.with.points, 1
%is.last = icmp eq i64 %points, 2
%axis = select i1 %is.last, i64 %last.axis, i64 0
{_entry("points.given", "i64", "leading.lengths", "i64 %axis")}
%is.fresh = icmp eq ptr %out, @object_none
%most = select i1 %is.fresh, i64 %many, i64 %many.given
{_when("are.few", "icmp slt i64 %points.given, %most", "few", "otherwise")}
br label %compute
compute:
%count = phi i64 [ 0, %counted ], [ %points.given, %few ]
%made = call ptr @made(ptr %state, ptr %from, i64 %count, ptr %out)
{_unless("refused", "icmp eq ptr %made, @object_refused", "again", "returned")}
ret ptr %made
again:
call void @Py_DecRef(ptr %made)
br label %otherwise
otherwise:
%other.at = getelementptr i8, ptr %self, i64 {ITEMS + 24}
%other = load ptr, ptr %other.at
%answer = call ptr @PyObject_Vectorcall(ptr %other, ptr %objects, i64 %given, ptr null)
ret ptr %answer
}}"""


#: Function that calls the first function of its tuple, and the second one with the same arguments if that refuses.
_EITHER: Final = f"""\
define ptr @{EITHER}(ptr %self, ptr %objects, i64 %given) nounwind {{
%first.at = getelementptr i8, ptr %self, i64 {ITEMS + 8}
%first = load ptr, ptr %first.at
%answer = call ptr @PyObject_Vectorcall(ptr %first, ptr %objects, i64 %given, ptr null)
{_unless("refused", "icmp eq ptr %answer, @object_refused", "other", "answered")}
ret ptr %answer
other:
call void @Py_DecRef(ptr %answer)
%second.at = getelementptr i8, ptr %self, i64 {ITEMS + 16}
%second = load ptr, ptr %second.at
%second.answer = call ptr @PyObject_Vectorcall(ptr %second, ptr %objects, i64 %given, ptr null)
ret ptr %second.answer
}}"""


# Entry points ---------------------------------------------------------------------------------------------------------

#: Python functions and objects that code for one point uses.
_OF_POINT: Final = ("Py_IncRef", "PyErr_NoMemory", "PyMem_RawMalloc", "PyMem_RawFree", "object_none", "object_refused")


def entry_points(
    signature: Signature, transposed: bool, lanes: int, offsets: Sequence[int]
) -> tuple[list[str], tuple[str, ...]]:
    """Return ``batch`` and, for batches in C order, ``point``; and the names that they import.

    Args:
        signature: arguments and results of the program.
        transposed: if True, arrays are (entries, points).
        lanes: entries of a vector.
        offsets: expected position, within a vector, of the first entry of each result array.
    """
    lines, names = readers(signature.size, numbers=() in signature.shapes, transposed=transposed)
    lines += [f"@shape.{k} = internal constant {_integers(shape)}" for k, shape in enumerate(signature.shapes) if shape]
    lines += ["@other = global ptr null", LENGTH_OF, _OVERLAP, *_batch(signature, transposed)]
    if transposed:
        lines += [*_MISALIGNED, "ret i1 false", "}"]
    else:
        lines += [*_misaligned(signature, lanes, offsets), *_point(signature)]
    return lines, names


def unpacking_table(signature: Signature) -> list[int]:
    """Return the table for the function of `unpacking`."""
    # an array without entries counts as one: the caller decides if the same array may be there twice
    sizes = [max(length, 1) * signature.size for length in (*map(prod, signature.shapes), *signature.lengths)]
    table = [len(signature.names), len(signature.shapes), *sizes]
    for shape in signature.shapes:
        table += [len(shape), *shape]
    return [*table, *signature.lengths]


def point_entry(signature: Signature) -> tuple[list[str], tuple[str, ...]]:
    """Return ``point`` alone; it calls the function of `unpacking`, which is in another library."""
    table = unpacking_table(signature)
    lines = [
        *declared(_OF_POINT),
        f"declare i1 @{UNPACK}(ptr, i64, ptr, ptr, ptr)",
        f"@signature = internal constant {_integers(table)}",
        f"define ptr @point(ptr %self, ptr %objects, i64 %given) {UNOPTIMISED} {{",
        f"%pointers = alloca ptr, i64 {len(signature.names)}",
        f"%numbers = alloca i64, i64 {len(signature.shapes)}",
        f"%right = call i1 @{UNPACK}(ptr %objects, i64 %given, ptr @signature, ptr %pointers, ptr %numbers)",
        "br i1 %right, label %unpacked, label %refuse",
        "unpacked:",
    ]
    for k, name in enumerate(signature.names):
        lines += [f"%{name}.at = getelementptr ptr, ptr %pointers, i64 {k}", f"%{name} = load ptr, ptr %{name}.at"]
    return [*lines, *_run_on_point(signature)], (*_OF_POINT, UNPACK)


def _integers(values: Sequence[int]) -> str:
    return f"[{len(values)} x i64] [{', '.join(f'i64 {value}' for value in values)}]"


def _load_argument(name: str, index: int) -> list[str]:
    """Return instructions that load the argument %name.object at an index."""
    return [
        f"%{name}.slot = getelementptr ptr, ptr %objects, i64 {index}",
        f"%{name}.object = load ptr, ptr %{name}.slot",
    ]


def _address_or_refuse(name: str, call: str) -> list[str]:
    """Return instructions that define %name as the address of an object's entries, or return NotImplemented."""
    return [
        f"%{name} = call ptr {call}",
        f"%{name}.wrong = icmp eq ptr %{name}, null",
        f"br i1 %{name}.wrong, label %refuse, label %{name}.right",
        f"{name}.right:",
    ]


def _arguments(signature: Signature, points: Iterable[str]) -> list[str]:
    """Return instructions that find the entries of all arguments, given their number of points, "-1" for none."""
    lines = []
    for k, (shape, count) in enumerate(zip(signature.shapes, points, strict=True)):
        if shape or count != "-1":
            lengths = f"@shape.{k}" if shape else "null"
            call = f"@argument_of(ptr %x{k}.object, i32 {len(shape)}, ptr {lengths}, i64 {count})"
        else:
            call = f"@number_of(ptr %x{k}.object, ptr %x{k}.number)"
        lines += [*_load_argument(f"x{k}", k), *_address_or_refuse(f"x{k}", call)]
    return lines


def _numbers(signature: Signature) -> list[str]:
    """Return instructions that reserve memory for numbers that are passed as Python objects."""
    return [f"%x{k}.number = alloca i64" for k, shape in enumerate(signature.shapes) if not shape]


def _pointers(signature: Signature) -> str:
    return ", ".join(f"ptr %{name}" for name in signature.names)


def _answer(label: str, name: str) -> list[str]:
    """Return a block that returns a Python object."""
    return [f"{label}:", f"call void @Py_IncRef(ptr @object_{name})", f"ret ptr @object_{name}"]


#: Endings of functions that Python calls: return None, NotImplemented, or an error.
_ENDINGS: Final = (
    *_answer("none", "none"),
    *_answer("refuse", "refused"),
    "no.memory:",
    "%error = call ptr @PyErr_NoMemory()",
    "ret ptr %error",
    "}",
)


def _batch(signature: Signature, transposed: bool) -> list[str]:
    last = str(transposed).lower()
    arguments, results = signature.arguments, signature.results
    count = len(signature.names)
    lines = [
        f"define ptr @batch(ptr %self, ptr %objects, i64 %given) {UNOPTIMISED} {{",
        *_numbers(signature),
        f"%all = icmp eq i64 %given, {count}",
        f"%some.of.them = icmp eq i64 %given, {count + 2}",
        *when("enough", "or i1 %all, %some.of.them", "counted", "refuse"),
        *_load_argument("first.array", signature.shared.index(False)),
        f"%points = call i64 @length_of(ptr %first.array.object, i1 {last})",
        *unless("no.points", "icmp slt i64 %points, 0", "refuse", "points.known"),
        *_arguments(signature, ["-1" if shared else "%points" for shared in signature.shared]),
    ]
    for k, (name, length) in enumerate(zip(results, signature.lengths, strict=True), len(arguments)):
        lines += [f"%{name}.entries = mul i64 %points, {length}", *_load_argument(name, k)]
        lines += _address_or_refuse(
            name, f"@result_of(ptr %{name}.object, i64 %{name}.entries, i64 %points, i1 {last})"
        )
    lengths = [*map(prod, signature.shapes), *signature.lengths]
    for name, length in zip(signature.names, lengths, strict=True):
        points = "%points" if name in signature.moving else "1"
        lines.append(f"%{name}.bytes = mul i64 {points}, {length * signature.size}")
    for a, b in (*product(arguments, results), *combinations(results, 2)):
        lines += [
            f"%{a}.over.{b} = call i1 @overlap(ptr %{a}, i64 %{a}.bytes, ptr %{b}, i64 %{b}.bytes)",
            f"br i1 %{a}.over.{b}, label %refuse, label %{a}.beside.{b}",
            f"{a}.beside.{b}:",
        ]
    widest = "null" if signature.widest is None else f"%o{signature.widest}"
    return [
        *lines,
        "br i1 %all, label %whole, label %range",
        "whole:",
        "br label %start",
        "range:",
        *_load_argument("first", count),
        *_load_argument("last", count + 1),
        "%first.given = call i64 @PyLong_AsSsize_t(ptr %first.object)",
        "%last.given = call i64 @PyLong_AsSsize_t(ptr %last.object)",
        "br label %start",
        "start:",
        "%first = phi i64 [ 0, %whole ], [ %first.given, %range ]",
        "%last = phi i64 [ %points, %whole ], [ %last.given, %range ]",
        *when("some", "icmp slt i64 %first, %last", "compute", "none"),
        f"%misaligned = call i1 @misaligned(ptr {widest})",
        "%other = load ptr, ptr @other",
        "%has.other = icmp ne ptr %other, null",
        "%use.other = and i1 %misaligned, %has.other",
        "%run = select i1 %use.other, ptr %other, ptr @run",
        "%thread = call ptr @PyEval_SaveThread()",
        f"%status = call i32 %run({_pointers(signature)}, i64 %first, i64 %last, i64 %points)",
        "call void @PyEval_RestoreThread(ptr %thread)",
        *unless("failed", "icmp ne i32 %status, 0", "no.memory", "done"),
        "%not.other = xor i1 %has.other, true",
        "%warn = and i1 %misaligned, %not.other",
        "br i1 %warn, label %misaligned.answer, label %none",
        *_answer("misaligned.answer", "misaligned"),
        *_ENDINGS,
    ]


_MISALIGNED: Final = ["define internal i1 @misaligned(ptr %o) nounwind {"]


def _misaligned(signature: Signature, lanes: int, offsets: Sequence[int]) -> list[str]:
    """Return the function that returns true if no row of the widest result begins where blocks expect; see `ranges`.

    Rows begin at multiples of the greatest common divisor of their length and a vector's, counted from the first.
    """
    widest = signature.widest
    if widest is None or not signature.lengths[widest]:
        return [*_MISALIGNED, "ret i1 false", "}"]
    return [
        *_MISALIGNED,
        "%at = ptrtoint ptr %o to i64",
        f"%entry = udiv i64 %at, {signature.size}",
        f"%off = sub i64 %entry, {offsets[widest]}",
        f"%lane = and i64 %off, {gcd(signature.lengths[widest], lanes) - 1}",
        "%beside = icmp ne i64 %lane, 0",
        "ret i1 %beside",
        "}",
    ]


def _point(signature: Signature) -> list[str]:
    lines = [
        f"define ptr @point(ptr %self, ptr %objects, i64 %given) {UNOPTIMISED} {{",
        *_numbers(signature),
        *when("all", f"icmp eq i64 %given, {len(signature.names)}", "counted", "refuse"),
        *_arguments(signature, ["-1"] * len(signature.shapes)),
    ]
    for k, (name, length) in enumerate(zip(signature.results, signature.lengths, strict=True), len(signature.shapes)):
        lines += _load_argument(name, k)
        lines += _address_or_refuse(name, f"@result_of(ptr %{name}.object, i64 {length}, i64 -1, i1 false)")
    return [*lines, *_run_on_point(signature)]


def _run_on_point(signature: Signature) -> list[str]:
    """Return the part of ``point`` after all addresses are known."""
    return [
        f"%status = call i32 @run({_pointers(signature)}, i64 0, i64 1, i64 1)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %none",
        *_ENDINGS,
    ]
