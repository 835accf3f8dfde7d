"""LLVM IR of the functions that Python calls: they look at what they are given, and run the program on it.

``point(*x, *out)`` computes one point, ``batch(*x, *out)`` all points of a batch, ``batch(*x, *out, first, last)`` a
range of them. Both return None. What they cannot take (another shape or dtype, a subclass of arrays, results that
overlap) they refuse with NotImplemented, for the caller to say what is wrong.

An argument is an array of its shape at one point, with an axis of points more in a batch, if it is not shared. Instead
of an array without axes, a number will do. Result arrays may have any axes, if their entries and their points are as
many as there should be. The GIL is released in batches.

``batch`` returns Ellipsis if it did its work, but with results across the boundaries of vectors, which code for memory
that starts elsewhere would avoid: put the address of such code's function ``run`` into the global ``other``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import gcd, prod
from typing import Final

from accumulus.targets.kernel import Shape
from accumulus.targets.llvm.python_abi import (
    AXES,
    DATA,
    DTYPE,
    FLAGS,
    FUNCTIONS,
    HEADER,
    OBJECTS,
    OPENED,
    READABLE,
    SHAPE,
    TYPE,
    VALUE,
    WRITABLE,
)

__all__ = ["ATTRIBUTES", "UNOPTIMISED", "Signature", "entry_points", "opened", "point_entry"]

#: Straight code that runs once a call is compiled the quick way.
UNOPTIMISED: Final = "nounwind noinline optnone"
#: What computes blocks of points: vectors as wide as the text says, and a stack on which spilled ones do not straddle
#: cache lines.
ATTRIBUTES: Final = 'nounwind noinline "prefer-vector-width"="512" "stackrealign"'
#: What code for one point needs of Python.
_OF_POINT: Final = ("Py_IncRef", "PyErr_NoMemory", "PyMem_RawMalloc", "PyMem_RawFree", "object_none", "object_refused")


@dataclass(frozen=True, slots=True)
class Signature:
    """What the functions take.

    Attributes:
        shapes: of the arguments at one point.
        shared: which of them are the same at all points of a batch.
        lengths: entries a point of each result array.
        size: bytes of an entry.
    """

    shapes: tuple[Shape, ...]
    shared: tuple[bool, ...]
    lengths: tuple[int, ...]
    size: int

    @property
    def arguments(self) -> list[str]:
        """Names of the arguments."""
        return [f"x{k}" for k in range(len(self.shapes))]

    @property
    def results(self) -> list[str]:
        """Names of the result arrays."""
        return [f"o{k}" for k in range(len(self.lengths))]

    @property
    def names(self) -> list[str]:
        """Names of both."""
        return [*self.arguments, *self.results]

    @property
    def strides(self) -> dict[str, int]:
        """By name: entries from one point to the next in C order, 0 if it is shared."""
        sizes = [0 if shared else prod(shape) for shape, shared in zip(self.shapes, self.shared, strict=True)]
        return dict(zip(self.names, (*sizes, *self.lengths), strict=True))

    @property
    def widest(self) -> int | None:
        """The result array with the longest rows."""
        return max(range(len(self.lengths)), key=lambda k: self.lengths[k], default=None)


def entry_points(
    signature: Signature, transposed: bool, lanes: int, phases: Sequence[int]
) -> tuple[list[str], tuple[str, ...]]:
    """The functions, and the names that they need from outside.

    Args:
        transposed: arrays are entries × points.
        lanes: entries of a vector.
        phases: where in a vector the first entry of each result array is expected to lie.
    """
    declarations, names = _declarations(signature, transposed)
    lines = [*declarations, "@other = global ptr null", *_LENGTH_OF, *_OVERLAP, *_batch(signature, transposed)]
    if transposed:
        lines += ["define internal i1 @misaligned(ptr %o) nounwind {", "ret i1 false", "}"]
    else:
        lines += [*_misaligned(signature, lanes, phases), *_point(signature)]
    return lines, names


def point_entry(signature: Signature) -> tuple[list[str], tuple[str, ...]]:
    """As `entry_points`, but ``point`` alone, for programs whose arguments `opened` looks at.

    What that has to know is in a table: how many objects are given, how many of them are arguments; for each argument
    the number of its axes and their lengths, for each result the number of its entries.
    """
    table = [len(signature.names), len(signature.shapes)]
    for shape in signature.shapes:
        table += [len(shape), *shape]
    table += signature.lengths
    lines = [
        *(FUNCTIONS.get(name, f"@{name} = external global i8") for name in _OF_POINT),
        f"declare i1 @{OPENED}(ptr, i64, ptr, ptr, ptr)",
        f"@signature = internal constant [{len(table)} x i64] [{', '.join(f'i64 {number}' for number in table)}]",
        f"define ptr @point(ptr %self, ptr %arguments, i64 %given) {UNOPTIMISED} {{",
        f"%pointers = alloca ptr, i64 {len(signature.names)}",
        f"%numbers = alloca i64, i64 {len(signature.shapes)}",
        f"%right = call i1 @{OPENED}(ptr %arguments, i64 %given, ptr @signature, ptr %pointers, ptr %numbers)",
        "br i1 %right, label %open, label %refuse",
        "open:",
    ]
    for k, name in enumerate(signature.names):
        lines += [f"%{name}.at = getelementptr ptr, ptr %pointers, i64 {k}", f"%{name} = load ptr, ptr %{name}.at"]
    return [*lines, *_run_on_point(signature)], (*_OF_POINT, OPENED)


def opened(size: int) -> tuple[list[str], tuple[str, ...]]:
    """The function that finds the entries of the arguments and results of one point, for numbers of so many bytes.

    It takes the objects and how many they are, the table of `point_entry`, and memory for a pointer to each of them and
    for a number for each argument; it returns whether all are as they should be.
    """
    names = (*FUNCTIONS, *OBJECTS, "object_dtype")

    def turn(kind: str, before: str, after: str, length: str, found: Sequence[str]) -> list[str]:
        """A loop over the %k-th objects up to `length`, the table at %{kind}.at."""
        return [
            f"{kind}:",
            f"%{kind}.k = phi i64 [ {'0' if before == 'counted' else '%arguments.count'}, %{before} ], "
            f"[ %{kind}.k.next, %{kind}.right ]",
            f"%{kind}.at = phi ptr [ {'%table.shapes' if before == 'counted' else '%argument.at'}, %{before} ], "
            f"[ %{kind}.at.next, %{kind}.right ]",
            f"%{kind}.more = icmp slt i64 %{kind}.k, {length}",
            f"br i1 %{kind}.more, label %{kind}.given, label %{after}",
            f"{kind}.given:",
            f"%{kind}.slot = getelementptr ptr, ptr %arguments, i64 %{kind}.k",
            f"%{kind}.object = load ptr, ptr %{kind}.slot",
            f"%{kind}.first = load i64, ptr %{kind}.at",
            f"%{kind}.rest = getelementptr i64, ptr %{kind}.at, i64 1",
            *found,
            f"%{kind}.wrong = icmp eq ptr %{kind}.pointer, null",
            f"br i1 %{kind}.wrong, label %refuse, label %{kind}.right",
            f"{kind}.right:",
            f"%{kind}.to = getelementptr ptr, ptr %pointers, i64 %{kind}.k",
            f"store ptr %{kind}.pointer, ptr %{kind}.to",
            f"%{kind}.k.next = add i64 %{kind}.k, 1",
        ]

    lines = [
        *FUNCTIONS.values(),
        *(f"@{name} = external global i8" for name in names if name not in FUNCTIONS),
        *_ARRAY_OF,
        *_argument_of(transposed=False),
        *_RESULT_OF,
        *_number_of("double" if size == 8 else "float"),
        f"define i1 @{OPENED}(ptr %arguments, i64 %given, ptr %table, ptr %pointers, ptr %numbers) nounwind {{",
        "%count = load i64, ptr %table",
        "%all = icmp eq i64 %given, %count",
        "br i1 %all, label %counted, label %refuse",
        "counted:",
        "%arguments.count.at = getelementptr i64, ptr %table, i64 1",
        "%arguments.count = load i64, ptr %arguments.count.at",
        "%table.shapes = getelementptr i64, ptr %table, i64 2",
        "br label %argument",
        *turn(
            "argument",
            "counted",
            "result",
            "%arguments.count",
            [
                "%is.number = icmp eq i64 %argument.first, 0",
                "br i1 %is.number, label %number, label %array",
                "number:",
                "%number.slot = getelementptr i64, ptr %numbers, i64 %argument.k",
                "%number.at = call ptr @number_of(ptr %argument.object, ptr %number.slot)",
                "br label %argument.found",
                "array:",
                "%axes = trunc i64 %argument.first to i32",
                "%array.at = call ptr @argument_of(ptr %argument.object, i32 %axes, ptr %argument.rest, i64 -1)",
                "br label %argument.found",
                "argument.found:",
                "%argument.pointer = phi ptr [ %number.at, %number ], [ %array.at, %array ]",
            ],
        ),
        "%argument.at.next = getelementptr i64, ptr %argument.rest, i64 %argument.first",
        "br label %argument",
        *turn(
            "result",
            "argument",
            "right",
            "%count",
            ["%result.pointer = call ptr @result_of(ptr %result.object, i64 %result.first, i64 -1, i1 false)"],
        ),
        "%result.at.next = getelementptr i64, ptr %result.rest, i64 0",
        "br label %result",
        "right:",
        "ret i1 true",
        "refuse:",
        "ret i1 false",
        "}",
    ]
    # compiled once a machine, so that what is straight code that runs once a call elsewhere is worth more time here
    return [line.replace(UNOPTIMISED, "nounwind") for line in lines], names


def _declarations(signature: Signature, transposed: bool) -> tuple[list[str], tuple[str, ...]]:
    """What every entry point uses, and the names that it needs from outside."""
    names = (*FUNCTIONS, *OBJECTS, "object_dtype")
    external = [f"@{name} = external global i8" for name in names if name not in FUNCTIONS]
    shapes = [
        f"@shape.{k} = internal constant [{len(shape)} x i64] [{', '.join(f'i64 {length}' for length in shape)}]"
        for k, shape in enumerate(signature.shapes)
        if shape
    ]
    lines = [*FUNCTIONS.values(), *external, *shapes, *_ARRAY_OF, *_argument_of(transposed), *_RESULT_OF]
    if () in signature.shapes:
        lines += _number_of("double" if signature.size == 8 else "float")
    return lines, names


def _field(name: str, base: str, offset: int, kind: str) -> list[str]:
    """Read a field of a Python object."""
    return [
        f"%{name}.at = getelementptr i8, ptr %{base}, i64 {HEADER + offset}",
        f"%{name} = load {kind}, ptr %{name}.at",
    ]


#: Where an array's entries are; null if it is not one of the program's dtype with these flags.
_ARRAY_OF: Final = (
    f"define internal ptr @array_of(ptr %object, i32 %wanted) {UNOPTIMISED} {{",
    *_field("type", "object", TYPE, "ptr"),
    "%is.array = icmp eq ptr %type, @object_array_type",
    "br i1 %is.array, label %array, label %refuse",
    "array:",
    *_field("dtype", "object", DTYPE, "ptr"),
    *_field("flags", "object", FLAGS, "i32"),
    *_field("data", "object", DATA, "ptr"),
    "%dtype.right = icmp eq ptr %dtype, @object_dtype",
    "%flags.both = and i32 %flags, %wanted",
    "%flags.right = icmp eq i32 %flags.both, %wanted",
    "%right = and i1 %dtype.right, %flags.right",
    "br i1 %right, label %found, label %refuse",
    "found:",
    "ret ptr %data",
    "refuse:",
    "ret ptr null",
    "}",
)


def _argument_of(transposed: bool) -> list[str]:
    """Where an argument's entries are: one with %axes axes of the lengths at %shape, and %points unless that is -1."""
    # the axis of points is the first or the last one
    first, points_at = ("i32 0", "i32 %axes") if transposed else ("i32 %more", "i32 0")
    return [
        f"define internal ptr @argument_of(ptr %object, i32 %axes, ptr %shape, i64 %points) {UNOPTIMISED} {{",
        f"%data = call ptr @array_of(ptr %object, i32 {READABLE})",
        "%none = icmp eq ptr %data, null",
        "br i1 %none, label %refuse, label %array",
        "array:",
        *_field("axes.given", "object", AXES, "i32"),
        *_field("lengths", "object", SHAPE, "ptr"),
        "%batch = icmp ne i64 %points, -1",
        "%more = zext i1 %batch to i32",
        "%axes.wanted = add i32 %axes, %more",
        "%axes.right = icmp eq i32 %axes.given, %axes.wanted",
        "br i1 %axes.right, label %counted, label %refuse",
        "counted:",
        "br i1 %batch, label %points.too, label %start",
        "points.too:",
        f"%points.at = getelementptr i64, ptr %lengths, {points_at}",
        "%points.given = load i64, ptr %points.at",
        "%points.right = icmp eq i64 %points.given, %points",
        "br i1 %points.right, label %start, label %refuse",
        "start:",
        f"%own = getelementptr i64, ptr %lengths, {first}",
        "br label %next",
        "next:",
        "%axis = phi i32 [ 0, %start ], [ %axis.next, %compare ]",
        "%left = icmp slt i32 %axis, %axes",
        "br i1 %left, label %compare, label %found",
        "compare:",
        "%length.at = getelementptr i64, ptr %own, i32 %axis",
        "%length = load i64, ptr %length.at",
        "%wanted.at = getelementptr i64, ptr %shape, i32 %axis",
        "%wanted = load i64, ptr %wanted.at",
        "%length.right = icmp eq i64 %length, %wanted",
        "%axis.next = add i32 %axis, 1",
        "br i1 %length.right, label %next, label %refuse",
        "found:",
        "ret ptr %data",
        "refuse:",
        "ret ptr null",
        "}",
    ]


#: Where the entries of a result array are: one with so many of them, and %points in the first axis, or the last one if
#: %last, unless %points is -1.
_RESULT_OF: Final = (
    f"define internal ptr @result_of(ptr %object, i64 %entries, i64 %points, i1 %last) {UNOPTIMISED} {{",
    f"%data = call ptr @array_of(ptr %object, i32 {WRITABLE})",
    "%none = icmp eq ptr %data, null",
    "br i1 %none, label %refuse, label %array",
    "array:",
    *_field("axes", "object", AXES, "i32"),
    *_field("lengths", "object", SHAPE, "ptr"),
    "br label %next",
    "next:",
    "%axis = phi i32 [ 0, %array ], [ %axis.next, %multiply ]",
    "%product = phi i64 [ 1, %array ], [ %product.next, %multiply ]",
    "%left = icmp slt i32 %axis, %axes",
    "br i1 %left, label %multiply, label %compare",
    "multiply:",
    "%length.at = getelementptr i64, ptr %lengths, i32 %axis",
    "%length = load i64, ptr %length.at",
    "%product.next = mul i64 %product, %length",
    "%axis.next = add i32 %axis, 1",
    "br label %next",
    "compare:",
    "%entries.right = icmp eq i64 %product, %entries",
    "br i1 %entries.right, label %counted, label %refuse",
    "counted:",
    "%any = icmp eq i64 %points, -1",
    "br i1 %any, label %found, label %points.too",
    "points.too:",
    "%some.axes = icmp sgt i32 %axes, 0",
    "br i1 %some.axes, label %which, label %refuse",
    "which:",
    "%axis.last = sub i32 %axes, 1",
    "%points.axis = select i1 %last, i32 %axis.last, i32 0",
    "%points.at = getelementptr i64, ptr %lengths, i32 %points.axis",
    "%points.given = load i64, ptr %points.at",
    "%points.right = icmp eq i64 %points.given, %points",
    "br i1 %points.right, label %found, label %refuse",
    "found:",
    "ret ptr %data",
    "refuse:",
    "ret ptr null",
    "}",
)


#: Length of the first axis of an array, or of the last one; negative if it is no array, or has no axes.
_LENGTH_OF: Final = (
    f"define internal i64 @length_of(ptr %object, i1 %last) {UNOPTIMISED} {{",
    *_field("type", "object", TYPE, "ptr"),
    "%is.array = icmp eq ptr %type, @object_array_type",
    "br i1 %is.array, label %array, label %refuse",
    "array:",
    *_field("axes", "object", AXES, "i32"),
    *_field("lengths", "object", SHAPE, "ptr"),
    "%some = icmp sgt i32 %axes, 0",
    "br i1 %some, label %sized, label %refuse",
    "sized:",
    "%axis.last = sub i32 %axes, 1",
    "%axis = select i1 %last, i32 %axis.last, i32 0",
    "%length.at = getelementptr i64, ptr %lengths, i32 %axis",
    "%length = load i64, ptr %length.at",
    "ret i64 %length",
    "refuse:",
    "ret i64 -1",
    "}",
)


#: Kinds of numbers whose value lies in the object: Python's name, LLVM's type, how it becomes a double.
_NUMBERS: Final = (
    ("float", "double", ""),
    ("float64", "double", ""),
    ("float32", "float", "fpext"),
    ("int64", "i64", "sitofp"),
)


def _number_of(real: str) -> list[str]:
    """Where a number is: in the array that it is given as, or at %slot, where it is put. Null if it is none."""
    lines = [
        f"define internal ptr @number_of(ptr %object, ptr %slot) {UNOPTIMISED} {{",
        *_field("type", "object", TYPE, "ptr"),
    ]
    values = []
    for name, kind, conversion in _NUMBERS:
        lines += [
            f"%is.{name} = icmp eq ptr %type, @object_{name}",
            f"br i1 %is.{name}, label %{name}, label %not.{name}",
            f"{name}:",
            *_field(f"{name}.value", "object", VALUE, kind),
            *([f"%{name}.double = {conversion} {kind} %{name}.value to double"] if conversion else []),
            "br label %store",
            f"not.{name}:",
        ]
        values.append(f"[ %{name}.{'double' if conversion else 'value'}, %{name} ]")
    values += ["[ %int.value, %int ]", "[ %int.value, %asked ]"]
    return [
        *lines,
        "%is.int = icmp eq ptr %type, @object_int",
        "br i1 %is.int, label %int, label %array",
        "int:",
        "%int.value = call double @PyLong_AsDouble(ptr %object)",
        "%doubtful = fcmp oeq double %int.value, -1.0",
        "br i1 %doubtful, label %asked, label %store",
        "asked:",
        "%error = call ptr @PyErr_Occurred()",
        "%fits = icmp eq ptr %error, null",
        "br i1 %fits, label %store, label %too.large",
        "too.large:",
        "call void @PyErr_Clear()",
        "ret ptr null",
        "store:",
        f"%value = phi double {', '.join(values)}",
        *(["%narrow = fptrunc double %value to float"] if real == "float" else []),
        f"store {real} {'%narrow' if real == 'float' else '%value'}, ptr %slot",
        "ret ptr %slot",
        "array:",
        "%data = call ptr @argument_of(ptr %object, i32 0, ptr null, i64 -1)",
        "ret ptr %data",
        "}",
    ]


#: Whether two stretches of memory have a byte in common.
_OVERLAP: Final = (
    f"define internal i1 @overlap(ptr %a, i64 %a.bytes, ptr %b, i64 %b.bytes) {UNOPTIMISED} {{",
    "%a.end = getelementptr i8, ptr %a, i64 %a.bytes",
    "%b.end = getelementptr i8, ptr %b, i64 %b.bytes",
    "%a.first = icmp ult ptr %a, %b.end",
    "%b.first = icmp ult ptr %b, %a.end",
    "%both = and i1 %a.first, %b.first",
    "ret i1 %both",
    "}",
)


def _given(name: str, index: int) -> list[str]:
    """The object %name.object that was given at a position."""
    return [
        f"%{name}.slot = getelementptr ptr, ptr %arguments, i64 {index}",
        f"%{name}.object = load ptr, ptr %{name}.slot",
    ]


def _opened(name: str, call: str) -> list[str]:
    """The pointer %name of an argument, or refuse."""
    return [
        f"%{name} = call ptr {call}",
        f"%{name}.wrong = icmp eq ptr %{name}, null",
        f"br i1 %{name}.wrong, label %refuse, label %{name}.right",
        f"{name}.right:",
    ]


def _numbers(signature: Signature) -> list[str]:
    """Memory for numbers that are given as Python's objects."""
    return [f"%x{k}.number = alloca i64" for k, shape in enumerate(signature.shapes) if not shape]


def _argument(signature: Signature, k: int, points: str) -> list[str]:
    shape = signature.shapes[k]
    if not shape and points == "-1":
        return [*_given(f"x{k}", k), *_opened(f"x{k}", f"@number_of(ptr %x{k}.object, ptr %x{k}.number)")]
    lengths = f"@shape.{k}" if shape else "null"
    call = f"@argument_of(ptr %x{k}.object, i32 {len(shape)}, ptr {lengths}, i64 {points})"
    return [*_given(f"x{k}", k), *_opened(f"x{k}", call)]


def _answers(*objects: str) -> list[str]:
    return [
        line
        for name in objects
        for line in (f"{name}:", f"call void @Py_IncRef(ptr @object_{name})", f"ret ptr @object_{name}")
    ]


_REFUSE: Final = ["refuse:", "call void @Py_IncRef(ptr @object_refused)", "ret ptr @object_refused"]
_NO_MEMORY: Final = ["no.memory:", "%error = call ptr @PyErr_NoMemory()", "ret ptr %error"]


def _batch(signature: Signature, transposed: bool) -> list[str]:
    last = str(transposed).lower()
    arguments, results = signature.arguments, signature.results
    count = len(signature.names)
    lines = [
        f"define ptr @batch(ptr %self, ptr %arguments, i64 %given) {UNOPTIMISED} {{",
        *_numbers(signature),
        f"%all = icmp eq i64 %given, {count}",
        f"%some.of.them = icmp eq i64 %given, {count + 2}",
        "%enough = or i1 %all, %some.of.them",
        "br i1 %enough, label %counted, label %refuse",
        "counted:",
        *_given("first.array", signature.shared.index(False)),
        f"%points = call i64 @length_of(ptr %first.array.object, i1 {last})",
        "%no.points = icmp slt i64 %points, 0",
        "br i1 %no.points, label %refuse, label %points.known",
        "points.known:",
    ]
    for k, shared in enumerate(signature.shared):
        lines += _argument(signature, k, "-1" if shared else "%points")
    for k, (name, length) in enumerate(zip(results, signature.lengths, strict=True)):
        entries = f"%{name}.entries"
        lines += [f"{entries} = mul i64 %points, {length}", *_given(name, len(arguments) + k)]
        lines += _opened(name, f"@result_of(ptr %{name}.object, i64 {entries}, i64 %points, i1 {last})")
    strides = signature.strides
    for k, name in enumerate(signature.names):
        entries = "i64 1" if name in arguments and signature.shared[k] else "i64 %points"
        length = prod(signature.shapes[k]) if name in arguments else strides[name]
        lines.append(f"%{name}.bytes = mul {entries}, {length * signature.size}")
    for a, b in (*product(arguments, results), *combinations(results, 2)):
        lines += [
            f"%{a}.over.{b} = call i1 @overlap(ptr %{a}, i64 %{a}.bytes, ptr %{b}, i64 %{b}.bytes)",
            f"br i1 %{a}.over.{b}, label %refuse, label %{a}.beside.{b}",
            f"{a}.beside.{b}:",
        ]
    pointers = ", ".join(f"ptr %{name}" for name in signature.names)
    widest = "null" if signature.widest is None else f"%o{signature.widest}"
    return [
        *lines,
        "br i1 %all, label %whole, label %range",
        "whole:",
        "br label %start",
        "range:",
        *_given("first", count),
        *_given("last", count + 1),
        "%first.given = call i64 @PyLong_AsSsize_t(ptr %first.object)",
        "%last.given = call i64 @PyLong_AsSsize_t(ptr %last.object)",
        "br label %start",
        "start:",
        "%first = phi i64 [ 0, %whole ], [ %first.given, %range ]",
        "%last = phi i64 [ %points, %whole ], [ %last.given, %range ]",
        "%some = icmp slt i64 %first, %last",
        "br i1 %some, label %compute, label %none",
        "compute:",
        f"%misaligned = call i1 @misaligned(ptr {widest})",
        "%other = load ptr, ptr @other",
        "%has.other = icmp ne ptr %other, null",
        "%use.other = and i1 %misaligned, %has.other",
        "%run = select i1 %use.other, ptr %other, ptr @run",
        "%thread = call ptr @PyEval_SaveThread()",
        f"%status = call i32 %run({pointers}, i64 %first, i64 %last, i64 %points)",
        "call void @PyEval_RestoreThread(ptr %thread)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %done",
        "done:",
        "%not.other = xor i1 %has.other, true",
        "%warn = and i1 %misaligned, %not.other",
        "br i1 %warn, label %misaligned.answer, label %none",
        "misaligned.answer:",
        "call void @Py_IncRef(ptr @object_misaligned)",
        "ret ptr @object_misaligned",
        *_answers("none"),
        *_REFUSE,
        *_NO_MEMORY,
        "}",
    ]


def _misaligned(signature: Signature, lanes: int, phases: Sequence[int]) -> list[str]:
    """Whether no row of the widest result array begins where blocks expect it; see also `ranges`.

    Rows begin at multiples of what their length has in common with a vector, counted from the first.
    """
    head = "define internal i1 @misaligned(ptr %o) nounwind {"
    widest = signature.widest
    if widest is None or not signature.lengths[widest]:
        return [head, "ret i1 false", "}"]
    return [
        head,
        "%at = ptrtoint ptr %o to i64",
        f"%entry = udiv i64 %at, {signature.size}",
        f"%off = sub i64 %entry, {phases[widest]}",
        f"%lane = and i64 %off, {gcd(signature.lengths[widest], lanes) - 1}",
        "%beside = icmp ne i64 %lane, 0",
        "ret i1 %beside",
        "}",
    ]


def _point(signature: Signature) -> list[str]:
    lines = [f"define ptr @point(ptr %self, ptr %arguments, i64 %given) {UNOPTIMISED} {{", *_numbers(signature)]
    lines += [
        f"%all = icmp eq i64 %given, {len(signature.names)}",
        "br i1 %all, label %counted, label %refuse",
        "counted:",
    ]
    for k in range(len(signature.shapes)):
        lines += _argument(signature, k, "-1")
    for k, (name, length) in enumerate(zip(signature.results, signature.lengths, strict=True)):
        lines += _given(name, len(signature.shapes) + k)
        lines += _opened(name, f"@result_of(ptr %{name}.object, i64 {length}, i64 -1, i1 false)")
    return [*lines, *_run_on_point(signature)]


def _run_on_point(signature: Signature) -> list[str]:
    """What ``point`` does once it knows where everything is."""
    pointers = ", ".join(f"ptr %{name}" for name in signature.names)
    return [
        f"%status = call i32 @run({pointers}, i64 0, i64 1, i64 1)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %none",
        *_answers("none"),
        *_REFUSE,
        *_NO_MEMORY,
        "}",
    ]
