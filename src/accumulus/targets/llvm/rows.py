"""Functions of rows in machine code: gathers and scatters of rows, and products with constant sparse matrices."""

from __future__ import annotations

from typing import Final

from accumulus.tape.blocks import GATHER, SCATTER
from accumulus.targets.llvm.vectors import again, when

#: Parameters of every function: addresses, the first instance, and the instance after the last.
ARGUMENTS: Final = "ptr %at, i64 %first, i64 %stop"
#: Names of the functions that gather and scatter rows.
LOOKUPS: Final = {GATHER: "rows_gathered", SCATTER: "rows_scattered"}
#: Their fields: three addresses, numbers of rows and columns, and distances between rows, columns and indices.
_GIVEN: Final = ("matrix", "indices", "result", "rows", "columns", "down", "along", "apart")


def rows_by_indices(code: int) -> list[str]:
    """Return a function that gathers or scatters rows; indices are taken modulo the number of rows."""
    loads = [
        line
        for k, name in enumerate(_GIVEN, 1)
        for line in (
            f"%at{k} = getelementptr i64, ptr %at, i64 {k}",
            f"%{name} = load {'ptr' if k <= 3 else 'i64'}, ptr %at{k}",
        )
    ]
    clearing = [
        "%numbers = mul i64 %rows, %columns",
        "%bytes = shl i64 %numbers, 3",
        "call void @llvm.memset.p0.i64(ptr %result, i8 0, i64 %bytes, i1 false)",
    ]
    source, target = ("%row", "%i") if code == GATHER else ("%i", "%row")
    adding = ["%old = load double, ptr %to, align 8", "%new = fadd double %old, %x"]
    return [
        f"define void @{LOOKUPS[code]}({ARGUMENTS}) nounwind {{",
        "start:",
        *loads,
        *(clearing if code == SCATTER else []),
        "br label %turn",
        "turn:",
        "%i = phi i64 [ %first, %start ], [ %i.next, %closed ]",
        "%place = mul i64 %i, %apart",
        "%index.p = getelementptr double, ptr %indices, i64 %place",
        "%index = load double, ptr %index.p, align 8",
        "%whole = call i64 @llvm.fptosi.sat.i64.f64(double %index)",
        "%left = srem i64 %whole, %rows",
        "%behind = add i64 %left, %rows",
        "%is.negative = icmp slt i64 %left, 0",
        "%row = select i1 %is.negative, i64 %behind, i64 %left",
        f"%from.row = mul i64 {source}, %down",
        f"%to.row = mul i64 {target}, %columns",
        "br label %entry",
        "entry:",
        "%j = phi i64 [ 0, %turn ], [ %j.next, %entry ]",
        "%across = mul i64 %j, %along",
        "%from.place = add i64 %from.row, %across",
        "%from = getelementptr double, ptr %matrix, i64 %from.place",
        "%x = load double, ptr %from, align 8",
        "%to.place = add i64 %to.row, %j",
        "%to = getelementptr double, ptr %result, i64 %to.place",
        *(adding if code == SCATTER else []),
        f"store double {'%new' if code == SCATTER else '%x'}, ptr %to, align 8",
        *again("j", "1", "%columns", "more", "entry", "closed"),
        *again("i", "1", "%stop", "further", "turn", "done"),
        "ret void",
        "}",
    ]


#: Functions that multiply rows of a sparse matrix with single columns, and with as many adjacent columns as a vector
#: has lanes; and the number of rows before the next column, so that their entries stay in the cache: more rows leave
#: it, fewer begin columns more often.
SPARSE_ROWS: Final = "sparse_rows"
SPARSE_LANES: Final = "sparse_lanes"
ROWS_AT_ONCE: Final = 32
SMALLER: Final = "declare i64 @llvm.smin.i64(i64, i64)"


def sparse_rows(name: str, lanes: int) -> list[str]:
    """Return a function that multiplies rows of a sparse matrix with columns given by their addresses.

    Args:
        name: name of the function.
        lanes: number of adjacent columns, or of points, that are computed at once.
    """
    kind = "double" if lanes == 1 else f"<{lanes} x double>"
    number = "double" if name == SPARSE_LANES else kind
    spread = [
        f"%first.lane = insertelement {kind} poison, double %entry.number, i32 0",
        f"%a = shufflevector {kind} %first.lane, {kind} poison, <{lanes} x i32> zeroinitializer",
    ]
    loads = [
        line
        for k, name in enumerate(("starts", "entries", "columns"), 1)
        for line in (
            f"%at{k} = getelementptr i64, ptr %at, i64 {k}",
            f"%{name} = load {'i64' if name == 'columns' else 'ptr'}, ptr %at{k}",
        )
    ]
    of_column = [
        line
        for k, (name, form) in enumerate((("x", "ptr"), ("places", "ptr"), ("result", "ptr"), ("apart", "i64")))
        for line in (
            f"%{name}.at = getelementptr {{ ptr, ptr, ptr, i64 }}, ptr %listed, i64 %j, i32 {k}",
            f"%{name} = load {form}, ptr %{name}.at",
        )
    ]
    return [
        f"define void @{name}({ARGUMENTS}) nounwind {{",
        "start:",
        *loads,
        "%listed = getelementptr i64, ptr %at, i64 4",
        "br label %block",
        "block:",
        "%b = phi i64 [ %first, %start ], [ %b.next, %closed ]",
        f"%b.whole = add i64 %b, {ROWS_AT_ONCE}",
        "%b.next = call i64 @llvm.smin.i64(i64 %b.whole, i64 %stop)",
        "%block.p = getelementptr i32, ptr %starts, i64 %b",
        "%block.begin.short = load i32, ptr %block.p, align 4",
        "%block.begin = sext i32 %block.begin.short to i64",
        "br label %column",
        "column:",
        "%j = phi i64 [ 0, %block ], [ %j.next, %filled ]",
        *of_column,
        "br label %row",
        "row:",
        "%i = phi i64 [ %b, %column ], [ %i.next, %summed ]",
        "%begin = phi i64 [ %block.begin, %column ], [ %end, %summed ]",
        "%i.after = add i64 %i, 1",
        "%end.p = getelementptr i32, ptr %starts, i64 %i.after",
        "%end.short = load i32, ptr %end.p, align 4",
        "%end = sext i32 %end.short to i64",
        *when("some", "icmp slt i64 %begin, %end", "entry", "summed"),
        "%k = phi i64 [ %begin, %row ], [ %k.next, %entry ]",
        f"%sum = phi {kind} [ zeroinitializer, %row ], [ %sum.next, %entry ]",
        "%entry.p = getelementptr double, ptr %entries, i64 %k",
        f"%{'a' if lanes == 1 else 'entry.number'} = load double, ptr %entry.p, align 8",
        *(spread if lanes > 1 else []),
        "%place.p = getelementptr i32, ptr %places, i64 %k",
        "%place = load i32, ptr %place.p, align 4",
        f"%number.p = getelementptr {number}, ptr %x, i32 %place",
        f"%number = load {kind}, ptr %number.p, align 8",
        f"%product = fmul {kind} %a, %number",
        f"%sum.next = fadd {kind} %sum, %product",
        *again("k", "1", "%end", "more", "entry", "summed"),
        f"%total = phi {kind} [ zeroinitializer, %row ], [ %sum.next, %entry ]",
        "%to = mul i64 %i, %apart",
        f"%to.p = getelementptr {number}, ptr %result, i64 %to",
        f"store {kind} %total, ptr %to.p, align 8",
        *again("i", "1", "%b.next", "rows", "row", "filled"),
        *again("j", "1", "%columns", "further", "column", "closed"),
        *when("over", "icmp slt i64 %b.next, %stop", "block", "done")[:2],
        "done:",
        "ret void",
        "}",
    ]
