"""Products of matrices in machine code: calls of the BLAS functions that NumPy calls, at their addresses.

Functions of a fixed form read the address of a BLAS function and its arguments from a table, as loops read theirs, so
that the code in the cache has no addresses, and a program of loops and products is one call. `call_of_product` chooses
the function as `np.matmul` does, so that results are the same to the last bit. Where NumPy's functions are not found,
Python calls `np.matmul` between loops (`accumulus.targets.nests.OfMatrices`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from accumulus.targets.blas import AS_STORED, COLUMN_MAJOR, ROW_MAJOR, TRANSPOSED, blas
from accumulus.targets.llvm.rows import ARGUMENTS
from accumulus.targets.llvm.vectors import again, when

GEMM: Final = "product_of_matrices"
GEMV: Final = "product_with_column"
GEMV_OF_ROW: Final = "product_with_row"
DOT: Final = "product_of_vectors"
OUTER: Final = "outer_product"
PRODUCTS: Final = (GEMM, GEMV, GEMV_OF_ROW, DOT, OUTER)
#: Numbers after the address of the BLAS function, of both operands and of the result.
_NUMBERS: Final = {
    GEMM: ("across", "over", "rows", "columns", "inner", "lda", "ldb", "ldc"),
    GEMV: ("order", "rows", "columns", "lda", "incx"),
    GEMV_OF_ROW: ("order", "rows", "columns", "lda", "incx"),
    DOT: ("rows", "incx", "incy"),
    OUTER: ("rows", "columns", "incx", "incy"),
}


class OperandLayout(NamedTuple):
    """Layout of a matrix: rows, columns, and distances between neighbours down a column and along a row."""

    rows: int
    columns: int
    down: int
    along: int

    @property
    def is_by_rows(self) -> bool:
        """True if BLAS accepts it as a matrix that is stored row by row."""
        return self.along == 1 and self.down >= self.columns

    @property
    def transposed(self) -> OperandLayout:
        """The transposed matrix."""
        return OperandLayout(self.columns, self.rows, self.along, self.down)


def call_of_product(left: OperandLayout, right: OperandLayout, *, is_square: bool) -> tuple[str, list[int]] | None:
    """Return the name of the function for a product, and its arguments: a function's address, and numbers.

    Return None if Python has to call NumPy.

    Args:
        left: layout of the left operand.
        right: layout of the right operand.
        is_square: True if both operands begin at the same number, so that they may be a matrix and its transpose.
    """
    rows, inner, columns = left.rows, left.columns, right.columns
    functions = blas()
    if not functions or 0 in (rows, inner, columns) or (is_square and left == right.transposed):
        return None
    if inner == 1:
        return OUTER, [0, rows, columns, left.down, right.along]
    if rows == columns == 1:
        return DOT, [functions["dot"], inner, left.along, right.down]
    if rows == 1 or columns == 1:
        matrix, apart = (right.transposed, left.along) if rows == 1 else (left, right.down)
        order, leading = (COLUMN_MAJOR, matrix.down) if matrix.is_by_rows else (ROW_MAJOR, matrix.along)
        name = GEMV_OF_ROW if rows == 1 else GEMV
        return name, [functions["gemv"], order, inner, matrix.rows, leading, apart]
    across, leading = (AS_STORED, left.down) if left.is_by_rows else (TRANSPOSED, left.along)
    over, leading_right = (AS_STORED, right.down) if right.is_by_rows else (TRANSPOSED, right.along)
    return GEMM, [functions["gemm"], across, over, rows, columns, inner, leading, leading_right, columns]


def product_functions(lanes: int) -> list[str]:
    """Return the functions of all products."""
    return [
        *_calling(GEMM, "void", f"i64 {ROW_MAJOR}, i64 %across, i64 %over, i64 %rows, i64 %columns, i64 %inner, "
                  "double 1.0, ptr %left, i64 %lda, ptr %right, i64 %ldb, double 0.0, ptr %result, i64 %ldc"),
        *_calling(GEMV, "void", _gemv("left", "right")),
        *_calling(GEMV_OF_ROW, "void", _gemv("right", "left")),
        *_calling(DOT, "double", "i64 %rows, ptr %left, i64 %incx, ptr %right, i64 %incy"),
        *_outer(lanes),
    ]  # fmt: skip


def _gemv(matrix: str, vector: str) -> str:
    """Return the arguments of a product of a matrix with a vector."""
    return (
        f"i64 %order, i64 {TRANSPOSED}, i64 %rows, i64 %columns, double 1.0, ptr %{matrix}, i64 %lda, "
        f"ptr %{vector}, i64 %incx, double 0.0, ptr %result, i64 1"
    )


def _opening(name: str) -> Iterator[str]:
    """Yield the beginning of a function, which loads its arguments."""
    yield f"define void @{name}({ARGUMENTS}) nounwind {{"
    yield "start:"
    for k, field in enumerate(("blas", "left", "right", "result", *_NUMBERS[name]), 1):
        yield f"%at{k} = getelementptr i64, ptr %at, i64 {k}"
        yield f"%{field} = load {'ptr' if k <= 4 else 'i64'}, ptr %at{k}"


def _calling(name: str, result: str, arguments: str) -> list[str]:
    """Return a function that calls a BLAS function; a result is added to 0, as NumPy does, and stored."""
    call = f"call {result} %blas({arguments})"
    stored = ["%sum = fadd double 0.0, %dot", "store double %sum, ptr %result, align 8"]
    lines = [call] if result == "void" else [f"%dot = {call}", *stored]
    return [*_opening(name), *lines, "ret void", "}"]


def _outer(lanes: int) -> list[str]:
    """Return a function of the product of a column with a row; `lanes` numbers at once if the row is contiguous."""
    v = f"<{lanes} x double>"
    return [
        *_opening(OUTER),
        "%is.next = icmp eq i64 %incy, 1",
        f"%blocks = and i64 %columns, {-lanes}",
        "%whole = select i1 %is.next, i64 %blocks, i64 0",
        "br label %row",
        "row:",
        "%i = phi i64 [ 0, %start ], [ %i.next, %closed ]",
        "%x.place = mul i64 %i, %incx",
        "%x.p = getelementptr double, ptr %left, i64 %x.place",
        "%x = load double, ptr %x.p, align 8",
        f"%x.lane = insertelement {v} poison, double %x, i32 0",
        f"%x.all = shufflevector {v} %x.lane, {v} poison, <{lanes} x i32> zeroinitializer",
        "%r.place = mul i64 %i, %columns",
        "%r = getelementptr double, ptr %result, i64 %r.place",
        *when("some", "icmp sgt i64 %whole, 0", "wide", "narrow"),
        "%j = phi i64 [ 0, %row ], [ %j.next, %wide ]",
        "%y.p = getelementptr double, ptr %right, i64 %j",
        f"%y = load {v}, ptr %y.p, align 8",
        f"%xy = fmul {v} %x.all, %y",
        f"%xy.sum = fadd {v} zeroinitializer, %xy",
        "%r.p = getelementptr double, ptr %r, i64 %j",
        f"store {v} %xy.sum, ptr %r.p, align 8",
        *again("j", f"{lanes}", "%whole", "more", "wide", "narrow"),
        *when("rest", "icmp slt i64 %whole, %columns", "single", "closed"),
        "%k = phi i64 [ %whole, %narrow ], [ %k.next, %single ]",
        "%z.place = mul i64 %k, %incy",
        "%z.p = getelementptr double, ptr %right, i64 %z.place",
        "%z = load double, ptr %z.p, align 8",
        "%xz = fmul double %x, %z",
        "%xz.sum = fadd double 0.0, %xz",
        "%q.p = getelementptr double, ptr %r, i64 %k",
        "store double %xz.sum, ptr %q.p, align 8",
        *again("k", "1", "%columns", "further", "single", "closed"),
        *again("i", "1", "%rows", "rows.left", "row", "done"),
        "ret void",
        "}",
    ]
