"""LLVM IR of the functions that all programs share, compiled once per machine for each type of numbers.

They find the entries of arguments and results of one point, compute one or many points of loops, make the arrays for
results or take those of the caller, and call another function where the first one refuses.
"""

from __future__ import annotations

from typing import Final

from accumulus.targets.llvm.library import (
    AXES,
    DATA,
    EITHER,
    FRESH,
    ITEMS,
    LOOPS,
    MAKING,
    POINTS,
    SHAPE,
    TAKEN,
    TYPE,
    UNPACK,
)
from accumulus.targets.llvm.python_objects import (
    OVERLAP,
    declared,
    entry_text,
    field_text,
    readers,
    unless_text,
    when_text,
)
from accumulus.targets.llvm.vectors import UNOPTIMISED

#: Largest number of axes of an array of NumPy, with an axis of points.
MOST_AXES: Final = 65


def unpacking(size: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the function that finds the entries of the arguments and results of one point; and the names it imports.

    It takes the objects, their number, a table of integers, and memory for a pointer to each object and for a number
    for each argument. The table holds the required number of objects and of arguments; the bytes of each object; for
    each argument, the number of its axes and their lengths; for each result, the number of its entries. It returns true
    if all objects match the table, and, if None follows them, no result overlaps an argument or another result.
    """
    text, names = readers(size, numbers=True)
    text += [*declared([*MAKING]), OVERLAP, _UNPACK, _loops(size), _making_results(size), _EITHER]
    # optimised, unlike other code that runs once per call, since it is compiled once per machine
    return [line.replace(UNOPTIMISED, "nounwind") for line in text], (*names, *MAKING)


_UNPACK: Final = f"""\
define i1 @{UNPACK}(ptr %objects, i64 %given, ptr %table, ptr %pointers, ptr %numbers) nounwind {{
%count = load i64, ptr %table
%all = icmp eq i64 %given, %count
br i1 %all, label %counted, label %further
further:
%one.more = add i64 %count, 1
{when_text("is.one.more", "icmp eq i64 %given, %one.more", "marked", "refuse")}
{entry_text("mark", "ptr", "objects", "i64 %count")}
{when_text("is.none", "icmp eq ptr %mark, @object_none", "none", "refuse")}
br label %counted
counted:
{entry_text("arguments", "i64", "table", "i64 1")}
%bytes = getelementptr i64, ptr %table, i64 2
%begin = getelementptr i64, ptr %bytes, i64 %count
br label %next
next:
%k = phi i64 [ 0, %counted ], [ %k.next, %right ]
%at = phi ptr [ %begin, %counted ], [ %at.next, %right ]
{when_text("more", "icmp slt i64 %k, %count", "look", "matched")}
{entry_text("object", "ptr", "objects", "i64 %k")}
%wanted = load i64, ptr %at
%shape = getelementptr i64, ptr %at, i64 1
{when_text("is.argument", "icmp slt i64 %k, %arguments", "argument", "result")}
{when_text("is.number", "icmp eq i64 %wanted, 0", "number", "array")}
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
{unless_text("wrong", "icmp eq ptr %pointer, null", "refuse", "right")}
%pointer.at = getelementptr ptr, ptr %pointers, i64 %k
store ptr %pointer, ptr %pointer.at
%k.next = add i64 %k, 1
%at.next = getelementptr i64, ptr %shape, i64 %lengths
br label %next
matched:
br i1 %all, label %accept, label %results
results:
%b = phi i64 [ %arguments, %matched ], [ %b.next, %apart ]
{when_text("b.more", "icmp slt i64 %b, %count", "compare", "accept")}
{entry_text("b.pointer", "ptr", "pointers", "i64 %b")}
{entry_text("b.bytes", "i64", "bytes", "i64 %b")}
br label %others
others:
%a = phi i64 [ 0, %compare ], [ %a.next, %beside ]
{when_text("a.more", "icmp slt i64 %a, %b", "other", "apart")}
{entry_text("a.pointer", "ptr", "pointers", "i64 %a")}
{entry_text("a.bytes", "i64", "bytes", "i64 %a")}
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
{when_text("more", "icmp slt i64 %k, %arguments", "copied", "place")}
{entry_text("from", "ptr", "pointers", "i64 %k")}
{entry_text("entries", "i64", "sizes", "i64 %k")}
%bytes = mul i64 %entries, {size}
call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
%to.next = getelementptr i8, ptr %to, i64 %bytes
%k.next = add i64 %k, 1
br label %copy
place:
%j = phi i64 [ 0, %copy ], [ %j.next, %placed ]
{when_text("left", "icmp slt i64 %j, %returned", "placed", "compute")}
%row.at = getelementptr {{ i64, i64, i64 }}, ptr %places, i64 %j
%words = load {{ i64, i64, i64 }}, ptr %row.at, align 8
%index = extractvalue {{ i64, i64, i64 }} %words, 0
%object = extractvalue {{ i64, i64, i64 }} %words, 1
%offset = extractvalue {{ i64, i64, i64 }} %words, 2
{entry_text("base", "ptr", "pointers", "i64 %object")}
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
{field_text("state", "owner", DATA, "ptr")}
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
{when_text("some", "icmp slt i64 %p, %count", "compute", "done")}
call void @loops_at(ptr %state, ptr %pointers)
br label %move
move:
%k = phi i64 [ 0, %compute ], [ %k.next, %step ]
{when_text("more", "icmp slt i64 %k, %objects", "step", "moved")}
{entry_text("at", "ptr", "pointers", "i64 %k")}
{entry_text("by", "i64", "steps", "i64 %k")}
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
{field_text("state", "owner", DATA, "ptr")}"""


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
{when_text("more", "icmp slt i64 %k, %count", "one", "done")}
{entry_text("object", "ptr", "objects", "i64 %k")}
call void @Py_DecRef(ptr %object)
%k.next = add i64 %k, 1
br label %next
done:
ret void
}}
define internal ptr @items_of(ptr %out, ptr %slot, i64 %wanted) nounwind {{
{field_text("type", "out", TYPE, "ptr")}
{unless_text("is.array", "icmp eq ptr %type, @object_array_type", "array", "no.array")}
{unless_text("is.tuple", "icmp eq ptr %type, @object_tuple", "tuple", "no.tuple")}
{when_text("is.list", "icmp eq ptr %type, @object_list", "list", "refuse")}
{field_text("listed", "out", 8, "ptr")}
br label %sized
array:
store ptr %out, ptr %slot
{when_text("is.one", "icmp eq i64 %wanted, 1", "single", "refuse")}
ret ptr %slot
tuple:
%items = getelementptr i8, ptr %out, i64 {ITEMS}
br label %sized
sized:
%found = phi ptr [ %listed, %list ], [ %items, %tuple ]
{field_text("count", "out", 0, "i64")}
{when_text("as.many", "icmp eq i64 %count, %wanted", "found.all", "refuse")}
ret ptr %found
refuse:
ret ptr null
}}
define internal i1 @has_shape(ptr %object, i64 %axes, ptr %lengths) nounwind {{
{field_text("type", "object", TYPE, "ptr")}
{when_text("is.array", "icmp eq ptr %type, @object_array_type", "array", "differs")}
{field_text("axes.given", "object", AXES, "i32")}
{field_text("own", "object", SHAPE, "ptr")}
%axes.given.wide = sext i32 %axes.given to i64
{when_text("as.many", "icmp eq i64 %axes.given.wide, %axes", "counted", "differs")}
br label %next
next:
%k = phi i64 [ 0, %counted ], [ %k.next, %compare ]
{when_text("more", "icmp slt i64 %k, %axes", "compare", "same")}
{entry_text("length", "i64", "own", "i64 %k")}
{entry_text("wanted", "i64", "lengths", "i64 %k")}
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
{unless_text("no.items", "icmp eq ptr %given.items, null", "refuse", "begin.given")}
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
{when_text("more", "icmp slt i64 %k, %results", "shaped", "call")}
{entry_text("axes", "i64", "shape", "i64 1")}
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
{entry_text("item", "ptr", "items", "i64 %k")}
%fits = call i1 @has_shape(ptr %item, i64 %axes.all, ptr %lengths)
br i1 %fits, label %taken, label %misfit
taken:
call void @Py_IncRef(ptr %item)
br label %stored
allocate:
%axes.number = trunc i64 %axes.all to i32
%array = call ptr @PyArray_New(\
ptr @object_array_type, i32 %axes.number, ptr %lengths, i32 %type.number, ptr null, ptr null, i32 0, i32 0, ptr null)
{unless_text("none", "icmp eq ptr %array, null", "failed", "allocated")}
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
{unless_text("error", "icmp eq ptr %answer, null", "failed", "answered")}
%is.none = icmp eq ptr %answer, @object_none
%is.misaligned = icmp eq ptr %answer, @object_misaligned
{unless_text("is.done", "or i1 %is.none, %is.misaligned", "done", "passed.on")}
call void @drop(ptr %made, i64 %results)
ret ptr %answer
done:
call void @Py_DecRef(ptr %answer)
%is.guarded = icmp ne i64 %guarded, 0
br i1 %is.guarded, label %guard, label %valid
guard:
{entry_text("guard.array", "ptr", "made", "i64 %left")}
{field_text("truth.at", "guard.array", DATA, "ptr")}
%truth = load {kind}, ptr %truth.at
{unless_text("fails", f"fcmp oeq {kind} %truth, 0.0", "invalid", "holds")}
call void @Py_DecRef(ptr %guard.array)
br label %valid
valid:
%j = phi i64 [ 0, %done ], [ 0, %holds ], [ %j.next, %converted ]
%shape.j = phi ptr [ %shapes, %done ], [ %shapes, %holds ], [ %shape.j.next, %converted ]
{when_text("more.results", "icmp slt i64 %j, %left", "convert", "return")}
%is.number = load i64, ptr %shape.j
{entry_text("axes.j", "i64", "shape.j", "i64 1")}
%places.j = add i64 %axes.j, 2
%shape.j.next = getelementptr i64, ptr %shape.j, i64 %places.j
%j.next = add i64 %j, 1
{unless_text("stays.array", "icmp eq i64 %is.number, 0", "converted", "number")}
%number.at = getelementptr ptr, ptr %made, i64 %j
%number.array = load ptr, ptr %number.at
%number.object = call ptr @PyArray_Return(ptr %number.array)
store ptr %number.object, ptr %number.at
{unless_text("no.number", "icmp eq ptr %number.object, null", "lost", "numbered")}
br label %converted
converted:
br label %valid
return:
%is.several = icmp ne i64 %left, 1
%wants.tuple = icmp ne i64 %tuple, 0
{unless_text("in.tuple", "or i1 %is.several, %wants.tuple", "pack", "single")}
%result = load ptr, ptr %made
ret ptr %result
pack:
%packed = call ptr @PyTuple_New(i64 %left)
{unless_text("no.tuple", "icmp eq ptr %packed, null", "unpacked", "put")}
br label %fill
fill:
%i = phi i64 [ 0, %put ], [ %i.next, %filled ]
{when_text("more.items", "icmp slt i64 %i, %left", "filled", "full")}
{entry_text("filled.object", "ptr", "made", "i64 %i")}
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
{when_text("all", "icmp eq i64 %given, %wanted", "counted", "refuse")}
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
{when_text("all", "icmp eq i64 %given, %wanted", "given.all", "otherwise")}
%arguments.object = load ptr, ptr %objects
{field_text("arguments.type", "arguments.object", TYPE, "ptr")}
{when_text("is.tuple", "icmp eq ptr %arguments.type, @object_tuple", "in.tuple", "otherwise")}
{field_text("size", "arguments.object", 0, "i64")}
{when_text("as.many", "icmp eq i64 %size, %arguments", "counted", "otherwise")}
%from = getelementptr i8, ptr %arguments.object, i64 {ITEMS}
{entry_text("out", "ptr", "objects", "i64 1")}
br i1 %is.batch, label %batch, label %compute
batch:
{_loaded("leading", "axes.with.points", "many", "many.given", "in.axes", "transposed", "alone")}
{entry_text("threads.given", "ptr", "objects", "i64 2")}
{entry_text("in.axes.given", "ptr", "objects", "i64 3")}
{entry_text("transposed.given", "ptr", "objects", "i64 4")}
%no.threads = icmp eq ptr %threads.given, @object_none
%is.alone = icmp ne i64 %alone, 0
%by.default = and i1 %no.threads, %is.alone
%is.one = icmp eq ptr %threads.given, @object_one
%one.thread = or i1 %by.default, %is.one
%same.axes = icmp eq ptr %in.axes.given, %in.axes
%same.way = icmp eq ptr %transposed.given, %transposed
%alike = and i1 %same.axes, %same.way
{when_text("usual", "and i1 %one.thread, %alike", "usual.call", "otherwise")}
{entry_text("leading.object", "ptr", "from", "i64 %leading")}
{field_text("leading.type", "leading.object", TYPE, "ptr")}
{when_text("is.array", "icmp eq ptr %leading.type, @object_array_type", "array", "otherwise")}
{field_text("leading.axes", "leading.object", AXES, "i32")}
{field_text("leading.lengths", "leading.object", SHAPE, "ptr")}
%leading.axes.wide = sext i32 %leading.axes to i64
{when_text("right.axes", "icmp eq i64 %leading.axes.wide, %axes.with.points", "has.points", "otherwise")}
%last.axis = sub i64 %axes.with.points, 1
%is.last = icmp eq i64 %points, 2
%axis = select i1 %is.last, i64 %last.axis, i64 0
{entry_text("points.given", "i64", "leading.lengths", "i64 %axis")}
%is.fresh = icmp eq ptr %out, @object_none
%most = select i1 %is.fresh, i64 %many, i64 %many.given
{when_text("are.few", "icmp slt i64 %points.given, %most", "few", "otherwise")}
br label %compute
compute:
%count = phi i64 [ 0, %counted ], [ %points.given, %few ]
%made = call ptr @made(ptr %state, ptr %from, i64 %count, ptr %out)
{unless_text("refused", "icmp eq ptr %made, @object_refused", "again", "returned")}
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
{unless_text("refused", "icmp eq ptr %answer, @object_refused", "other", "answered")}
ret ptr %answer
other:
call void @Py_DecRef(ptr %answer)
%second.at = getelementptr i8, ptr %self, i64 {ITEMS + 16}
%second = load ptr, ptr %second.at
%second.answer = call ptr @PyObject_Vectorcall(ptr %second, ptr %objects, i64 %given, ptr null)
ret ptr %second.answer
}}"""
