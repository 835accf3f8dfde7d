"""Sparse matrices of SciPy whose stored entries are traced: `csr_array((data, indices, indptr))` and its relatives.

The positions of the entries are constant. Operations cost in proportion to the stored entries: products with vectors
and matrices, sums, elementwise products, and systems of equations (`accumulus.frontends.scipy.sparse_systems`).
A matrix of complex entries is a pair of real ones, as complex arrays are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.complex_functions import parted
from accumulus.frontends.numpy.complex_numbers import make_complex, parts_of
from accumulus.frontends.numpy.operands import (
    Operand,
    concrete,
    constants,
    depends,
    holds_complex,
    is_sparse,
    references_of,
)
from accumulus.frontends.numpy.products import product_by_rows
from accumulus.frontends.numpy.table import borrows
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape

#: Formats that may have traced entries.
FORMATS: Final = ("csr", "csc", "coo", "dia")
#: Recorded operations of sparse matrices, for messages.
METHODS: Final = (
    "A @ x, x @ A, A.T, A + B, A - B, A * number, A / number, A.multiply(B), A.sum(axis), A.diagonal(), A.toarray(), "
    "A.data, changes of format, vstack, hstack, block_array, kron, tril, triu, and spsolve, splu and factorized"
)
Integers = NDArray[np.int64]


def _of_reals(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a method that calls the one of a complex matrix for complex operands."""

    @wraps(method)
    def of_any(self: Any, other: Any) -> Any:
        if holds_complex(other):
            return getattr(self.as_complex(), method.__name__)(other)
        return method(self, other)

    return of_any


class SparseEntries(Operand):
    """A sparse matrix whose entries have constant positions and may be traced.

    Args:
        tape: tape of the entries.
        rows, columns: positions of the stored entries; entries at the same position are added.
        references: references of the entries.
        shape: shape of the matrix.
        kind: class of SciPy that it stands for.
    """

    __slots__ = ("columns", "kind", "references", "rows", "shape", "tape")
    __array_ufunc__ = None
    __class__: Any = property(lambda self: self.kind)
    boolean, ndim, is_sparse = False, 2, True
    dtype: Final = np.dtype(float)

    def __init__(
        self, tape: Tape, rows: Integers, columns: Integers, references: References, shape: Any, kind: Any
    ) -> None:
        self.tape, self.references, self.kind = tape, references, kind
        self.rows, self.columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
        self.shape = int(shape[0]), int(shape[1])

    @property
    def entries(self) -> References:
        """References of the stored entries."""
        return self.references

    @property
    def data(self) -> TracedArray:
        """The stored entries."""
        return TracedArray(self.tape, self.references)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.references)

    @property
    def format(self) -> str:
        """Name of the format, three letters."""
        return str(self.kind.__name__[:3])

    @property
    def is_matrix(self) -> bool:
        """True for SciPy's matrix interface, where ``*`` is the matrix product, as opposed to its array interface."""
        return bool(self.kind.__name__.endswith("_matrix"))

    @property
    def T(self) -> SparseEntries:  # noqa: N802
        """The transpose."""
        return self._at(self.columns, self.rows, self.shape[::-1])

    def transpose(self, axes: Any = None, copy: bool = False) -> SparseEntries:
        """Return the transpose."""
        return self.T

    def copy(self) -> SparseEntries:
        """Return the matrix itself, which is immutable."""
        return self

    def asformat(self, format: Any, copy: bool = False) -> SparseEntries:  # noqa: A002
        """Return the matrix in another format, with the stored entries in the order of that format."""
        import scipy.sparse

        if format is None or format == self.format:
            return self
        ordered = self.summed() if format == "csr" else self.T.summed().T if format == "csc" else self
        kind = getattr(scipy.sparse, f"{format}{'_matrix' if self.is_matrix else '_array'}")
        return SparseEntries(self.tape, ordered.rows, ordered.columns, ordered.references, self.shape, kind)

    def tocsr(self, copy: bool = False) -> SparseEntries:
        """Return the matrix in CSR format."""
        return self.asformat("csr")

    def tocsc(self, copy: bool = False) -> SparseEntries:
        """Return the matrix in CSC format."""
        return self.asformat("csc")

    def tocoo(self, copy: bool = False) -> SparseEntries:
        """Return the matrix in COO format."""
        return self.asformat("coo")

    def _with(self, data: Any) -> SparseEntries:
        references = references_of(self.tape, data)
        return SparseEntries(self.tape, self.rows, self.columns, references, self.shape, self.kind)

    def _at(self, rows: Integers, columns: Integers, shape: tuple[int, int]) -> SparseEntries:
        return SparseEntries(self.tape, rows, columns, self.references, shape, self.kind)

    def as_complex(self) -> ComplexSparse:
        """Return the matrix with imaginary parts of 0."""
        return ComplexSparse(self, self._with(np.zeros(self.nnz)))

    def where(self, kept: Any) -> SparseEntries:
        """Return the matrix with only some of the stored entries."""
        places = self.rows[kept], self.columns[kept]
        return SparseEntries(self.tape, *places, self.references[kept], self.shape, self.kind)

    def summed(self) -> SparseEntries:
        """Return the matrix with entries sorted by rows, and entries at the same position added."""
        order = np.lexsort((self.columns, self.rows))
        rows, columns, entries = self.rows[order], self.columns[order], self.references[order]
        first = np.flatnonzero(np.diff(rows * self.shape[1] + columns, prepend=-1))
        if len(first) < len(order):
            totals: Any = np.add.reduceat(TracedArray(self.tape, entries), first)
            entries = totals.references
        return SparseEntries(self.tape, rows[first], columns[first], entries, self.shape, self.kind)

    @_of_reals
    def __matmul__(self, other: Any) -> Any:
        if is_sparse(other) or isinstance(other, SparseEntries):
            raise refuse(
                "The product of two sparse matrices is not recorded if entries depend on the arguments of the "
                "function. Write A @ (B @ x), or A @ B.toarray()."
            )
        order = np.argsort(self.rows, kind="stable")
        ends = np.searchsorted(self.rows[order], np.arange(self.shape[0] + 1))
        return product_by_rows(
            self.tape, ends, self.columns[order], self.data[order], self.shape, as_array(self.tape, other)
        )

    dot = __matmul__

    @_of_reals
    def __rmatmul__(self, other: Any) -> Any:
        return (self.T @ as_array(self.tape, other).T).T

    @_of_reals
    def __mul__(self, other: Any) -> Any:
        if self.is_matrix and np.ndim(other):
            return self @ other
        return self.multiply(other)

    @_of_reals
    def __rmul__(self, other: Any) -> Any:
        return other @ self if self.is_matrix and np.ndim(other) else self.multiply(other)

    @_of_reals
    def multiply(self, other: Any) -> SparseEntries:
        """Return the elementwise product with a number, a dense array, or a sparse matrix."""
        if is_sparse(other) or isinstance(other, SparseEntries):
            other = other.toarray()
        if not np.ndim(other):
            return self._with(self.data * other)
        spread = np.broadcast_to(references_of(self.tape, other), self.shape)
        return self._with(self.data * TracedArray(self.tape, spread[self.rows, self.columns]))

    @_of_reals
    def __truediv__(self, other: Any) -> SparseEntries:
        if np.ndim(other):
            raise refuse("A sparse matrix can only be divided by a number. Write A.multiply(1.0 / x).")
        return self._with(self.data / other)

    def __neg__(self) -> SparseEntries:
        return self._with(-self.data)

    @_of_reals
    def __add__(self, other: Any) -> Any:
        if not (is_sparse(other) or isinstance(other, SparseEntries)):
            return self.toarray() + other if np.ndim(other) else self._refused(f"adding {other!r:.40}")
        more = sparse_of(self.tape, other, self.kind)
        if more.shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {more.shape}")
        rows, columns = np.append(self.rows, more.rows), np.append(self.columns, more.columns)
        references = np.append(self.references, more.references)
        return SparseEntries(self.tape, rows, columns, references, self.shape, self.kind).summed()

    __radd__ = __add__

    @_of_reals
    def __sub__(self, other: Any) -> Any:
        return self + -other

    @_of_reals
    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def sum(self, axis: Any = None) -> Any:
        """Return the sum of all entries, or of each row or column."""
        if axis is None:
            return np.sum(self.data)
        by_column = axis in (0, -2)
        ones = np.ones(self.shape[axis])
        sums = ones @ self if by_column else self @ ones
        return (sums[np.newaxis] if by_column else sums[:, np.newaxis]) if self.is_matrix else sums

    def diagonal(self, k: int = 0) -> Any:
        """Return a diagonal."""
        return np.diagonal(self.toarray(), k)

    def toarray(self, order: Any = None) -> TracedArray:
        """Return the dense matrix; its zeros cost nothing."""
        stored = self.summed()
        dense = np.full(self.shape, self.tape.constant(0.0))
        dense[stored.rows, stored.columns] = stored.references
        return TracedArray(self.tape, dense)

    todense = toarray

    def conj(self) -> SparseEntries:
        """Return the matrix itself, which is real."""
        return self

    conjugate = conj

    def __repr__(self) -> str:
        return "with traced entries: return A.data or A.toarray()"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refused(f".{name}")

    def _refused(self, operation: str) -> Any:
        raise refuse(
            f"{operation} of a sparse matrix whose entries depend on the arguments of the function is not recorded. "
            f"Recorded are {METHODS}."
        )


class ComplexSparse(Operand):
    """A sparse matrix of complex entries: the matrices of their real and imaginary parts, with the same positions."""

    __slots__ = ("im", "re", "tape")
    __array_ufunc__ = None
    __class__: Any = property(lambda self: self.re.kind)
    boolean, ndim, is_sparse, is_complex = False, 2, True, True
    dtype: Final = np.dtype(complex)
    #: Linear attributes and methods, which act on both parts.
    LINEAR: Final = frozenset(
        (
            *("T", "transpose", "copy", "asformat", "tocsr", "tocsc", "tocoo", "summed"),
            *("data", "sum", "diagonal", "toarray", "todense", "__neg__"),
        )
    )

    def __init__(self, re: SparseEntries, im: SparseEntries) -> None:
        self.tape, self.re, self.im = re.tape, re, im

    @property
    def entries(self) -> References:
        """References of the stored entries of both parts."""
        return np.stack([self.re.references, self.im.references])

    @property
    def real(self) -> SparseEntries:
        """The real parts."""
        return self.re

    @property
    def imag(self) -> SparseEntries:
        """The imaginary parts."""
        return self.im

    @property
    def H(self) -> Any:  # noqa: N802
        """The conjugate transpose."""
        return self.conj().T

    def getH(self) -> Any:  # noqa: N802
        """Return the conjugate transpose."""
        return self.H

    def conj(self, copy: bool = True) -> ComplexSparse:
        """Return the conjugate."""
        return ComplexSparse(self.re, -self.im)

    conjugate = conj

    def __getattr__(self, name: str) -> Any:
        if name not in self.LINEAR:
            return getattr(self.re, name)
        re, im = getattr(self.re, name), getattr(self.im, name)
        if isinstance(re, Operand):
            return self._joined(re, im)
        return lambda *arguments, **keywords: self._joined(re(*arguments, **keywords), im(*arguments, **keywords))

    def _joined(self, re: Any, im: Any) -> Any:
        return ComplexSparse(re, im) if isinstance(re, SparseEntries) else make_complex(self.tape, re, im)

    def _by_parts(self, name: str, other: Any) -> Any:
        """Return a product of any kind, which is linear in each operand."""
        if not holds_complex(other):
            return self._joined(getattr(self.re, name)(other), getattr(self.im, name)(other))
        re, im = parts_of(self.tape, other)
        return self._joined(
            getattr(self.re, name)(re) - getattr(self.im, name)(im),
            getattr(self.re, name)(im) + getattr(self.im, name)(re),
        )

    def __neg__(self) -> Any:
        return self._joined(-self.re, -self.im)

    def __matmul__(self, other: Any) -> Any:
        return self._by_parts("__matmul__", other)

    dot = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        return self._by_parts("__rmatmul__", other)

    def __mul__(self, other: Any) -> Any:
        return self._by_parts("__mul__", other)

    def __rmul__(self, other: Any) -> Any:
        return self._by_parts("__rmul__", other)

    def multiply(self, other: Any) -> Any:
        """Return the elementwise product with a number, a dense array, or a sparse matrix."""
        return self._by_parts("multiply", other)

    def __truediv__(self, other: Any) -> Any:
        return self._by_parts("multiply", 1.0 / other) if holds_complex(other) else self._by_parts("__truediv__", other)

    def __add__(self, other: Any) -> Any:
        if not (is_sparse(other) or (isinstance(other, Operand) and other.is_sparse)):
            return self.toarray() + other
        re, im = parts_of(self.tape, other) if holds_complex(other) else (other, other * 0.0)
        return self._joined(self.re + re, self.im + im)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __repr__(self) -> str:
        return repr(self.re)


def sparse_of(tape: Tape, value: Any, kind: Any = None) -> Any:
    """Convert a sparse matrix, constant or traced, or a dense array to references of its stored entries.

    Returns:
        A `SparseEntries`, or a `ComplexSparse` for complex entries.
    """
    if isinstance(value, SparseEntries | ComplexSparse):
        return value
    if holds_complex(value):
        if is_sparse(value):
            stored, kind = value.tocoo(), kind or type(value)
            return ComplexSparse(*(sparse_of(tape, part, kind) for part in (stored.real, stored.imag)))
        parts = [references_of(tape, part) for part in parts_of(tape, as_array(tape, value))]
        i, j = np.indices(parts[0].shape).reshape(2, -1)
        return ComplexSparse(*(SparseEntries(tape, i, j, each.reshape(-1), each.shape, kind) for each in parts))
    if is_sparse(value):
        stored = value.tocoo()
        references = constants(tape, np.asarray(stored.data, float))
        return SparseEntries(tape, stored.row, stored.col, references, stored.shape, kind or type(value))
    dense = references_of(tape, value)
    if dense.ndim != 2:
        raise ValueError(f"a sparse matrix has two axes; the array given has shape {dense.shape}")
    zero = dense < 0
    zero[zero] = tape.values_of(dense[zero]) == 0.0
    rows, columns = np.nonzero(~zero)
    return SparseEntries(tape, rows, columns, dense[rows, columns], dense.shape, kind)


def _made(tape: Tape, kind: str, argument: Any, shape: Any) -> Any:
    """Return the matrix that a constructor of SciPy makes from its first argument."""
    import scipy.sparse

    made, form = getattr(scipy.sparse, kind), kind[:3]
    if not isinstance(argument, tuple):
        return sparse_of(tape, argument, made)
    if holds_complex(argument[0]):
        parts = (parted(tape, argument[0], part) for part in (0, 1))
        return ComplexSparse(*(_made(tape, kind, (part, *argument[1:]), shape) for part in parts))
    if len(argument) not in (2, 3) or depends(argument[1:]):
        raise refuse(
            f"scipy.sparse.{kind} takes entries that depend on the arguments of the function, at constant positions: "
            "(data, indices, indptr) or (data, (rows, columns))."
        )
    places: list[Any] = list(concrete(argument[1:]))
    references = references_of(tape, argument[0])
    if form == "dia":
        return _of_diagonals(tape, references, np.asarray(places[0]).reshape(-1), shape, made)
    if len(places) == 2:
        along, starts = np.asarray(places[0]), np.asarray(places[1])
        across = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        rows, columns = (across, along) if form == "csr" else (along, across)
        least_shape = (len(starts) - 1, int(along.max(initial=-1)) + 1)
        least_shape = least_shape if form == "csr" else least_shape[::-1]
    else:
        rows, columns = (np.asarray(each).reshape(-1) for each in places[0])
        least_shape = int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1
    shape = least_shape if shape is None else concrete(shape)
    if not len(rows) == len(columns) == references.size or any(n > m for n, m in zip(least_shape, shape, strict=True)):
        raise ValueError(
            f"scipy.sparse.{kind}: {references.size} entries at {len(rows)} rows and {len(columns)} columns do not "
            f"make a matrix of shape {tuple(shape)}"
        )
    matrix = SparseEntries(tape, rows, columns, references.reshape(-1), shape, made)
    if form == "coo" or len(places) == 2:
        return matrix
    return matrix.T.summed().T if form == "csc" else matrix.summed()


def _of_diagonals(tape: Tape, data: References, offsets: Integers, shape: Any, kind: Any) -> SparseEntries:
    """Return a matrix in DIA format: each row of `data` is a diagonal, indexed by column."""
    rows_of = np.atleast_2d(data)
    m, n = concrete(shape)
    columns = np.broadcast_to(np.arange(min(n, rows_of.shape[1])), (len(offsets), min(n, rows_of.shape[1])))
    rows = columns - offsets[:, np.newaxis]
    inside = (rows >= 0) & (rows < m)
    return SparseEntries(tape, rows[inside], columns[inside], rows_of[:, : columns.shape[1]][inside], (m, n), kind)


def _enter(kind: str) -> None:
    @borrows("scipy.sparse", kind)
    def record(tape: Tape, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
        return _made(tape, kind, arg1, shape)


for _format in FORMATS:
    for _suffix in ("_array", "_matrix"):
        _enter(_format + _suffix)


def _diagonals(
    tape: Tape,
    suffix: str,
    diagonals: Any,
    offsets: Any,
    shape: Any,
    format: Any,  # noqa: A002
) -> Any:
    """Return a matrix from diagonals; each is a sequence of all its entries, or a single number."""
    import scipy.sparse

    if holds_complex(diagonals):
        both = (parted(tape, diagonals, part) for part in (0, 1))
        return ComplexSparse(*(_diagonals(tape, suffix, part, offsets, shape, format) for part in both))
    numbers = np.atleast_1d(concrete(offsets))
    rows = [diagonals] if np.ndim(offsets) == 0 and np.ndim(diagonals) < 2 and np.ndim(diagonals[0]) == 0 else diagonals
    arrays = [np.atleast_1d(references_of(tape, row)) for row in rows]
    if len(arrays) != len(numbers):
        raise ValueError(f"{len(arrays)} diagonals do not match {len(numbers)} offsets")
    if shape is None:
        n = len(arrays[0]) + abs(int(numbers[0]))
        shape = n, n
    parts = []
    for entries, k in zip(arrays, numbers.tolist(), strict=True):
        length = min(shape[0] + min(k, 0), shape[1] - max(k, 0))
        if len(entries) not in (1, length):
            raise ValueError(f"the diagonal at {k} has {len(entries)} entries; expected {length}")
        at = np.arange(length)
        parts.append((at - min(k, 0), at + max(k, 0), np.broadcast_to(entries, length)))
    rows_of, columns, references = map(np.concatenate, zip(*parts, strict=True))
    kind = getattr(scipy.sparse, f"{format or 'dia'}{suffix}")
    return SparseEntries(tape, rows_of, columns, references, shape, kind)


@borrows("scipy.sparse", "diags")
def _diags(
    tape: Tape,
    diagonals: Any,
    offsets: Any = 0,
    shape: Any = None,
    format: Any = None,  # noqa: A002
    dtype: Any = None,
) -> Any:
    return _diagonals(tape, "_matrix", diagonals, offsets, shape, format)


@borrows("scipy.sparse", "diags_array")
def _diags_array(
    tape: Tape,
    diagonals: Any,
    /,
    *,
    offsets: Any = 0,
    shape: Any = None,
    format: Any = None,  # noqa: A002
    dtype: Any = None,
) -> Any:
    return _diagonals(tape, "_array", diagonals, offsets, shape, format)


@borrows("scipy.sparse", "spdiags")
def _spdiags(
    tape: Tape,
    data: Any,
    diags: Any,
    m: Any = None,
    n: Any = None,
    format: Any = None,  # noqa: A002
) -> Any:
    """Return a matrix from diagonals: each row of `data` is one, indexed by column."""
    if n is None:
        m, n = (np.shape(data)[-1],) * 2 if m is None else m
    return _made(tape, "dia_matrix", (data, np.atleast_1d(concrete(diags))), (m, n)).asformat(format)


# Matrices made of others ----------------------------------------------------------------------------------------------


def _block(tape: Tape, blocks: Any, format: Any, suffix: str) -> Any:  # noqa: A002
    """Return the matrix of a nested list of sparse or dense matrices, or None for zeros.

    Raises:
        ValueError: if their shapes do not fit.
    """
    import scipy.sparse

    kind = getattr(scipy.sparse, f"coo{suffix}")
    grid = [[None if block is None else sparse_of(tape, block, kind) for block in row] for row in blocks]
    sizes: list[list[int]] = []
    for axis, lines in enumerate((grid, list(zip(*grid, strict=True)))):
        lengths = [{block.shape[axis] for block in line if block is not None} for line in lines]
        if any(len(length) != 1 for length in lengths):
            raise ValueError(f"blocks have incompatible numbers of {('rows', 'columns')[axis]}: {lengths}")
        sizes.append([length.pop() for length in lengths])
    starts = [np.concatenate([[0], np.cumsum(each)]).astype(int) for each in sizes]
    placed = [
        (block, starts[0][i], starts[1][j])
        for i, row in enumerate(grid)
        for j, block in enumerate(row)
        if block is not None
    ]
    is_complex = any(block.is_complex for block, _, _ in placed)

    def joined(parts: list[SparseEntries]) -> SparseEntries:
        rows = np.concatenate([part.rows + i for part, (_, i, _) in zip(parts, placed, strict=True)])
        columns = np.concatenate([part.columns + j for part, (_, _, j) in zip(parts, placed, strict=True)])
        references = np.concatenate([part.references for part in parts])
        return SparseEntries(tape, rows, columns, references, (starts[0][-1], starts[1][-1]), kind)

    if not is_complex:
        return joined([block for block, _, _ in placed]).asformat(format)
    pairs = [parts_of(tape, block if block.is_complex else block.as_complex()) for block, _, _ in placed]
    return ComplexSparse(*(joined([pair[k] for pair in pairs]) for k in (0, 1))).asformat(format)


def _interface(blocks: Any) -> str:
    """Return the interface of the result: that of arrays if there is a sparse array among the blocks."""
    flat = [block for row in blocks for block in row]
    names = [(block.kind if isinstance(block, SparseEntries) else type(block)).__name__ for block in flat]
    kinds = [block.re.kind.__name__ for block in flat if isinstance(block, ComplexSparse)]
    return "_array" if any(name.endswith("_array") for name in names + kinds) else "_matrix"


def _on_diagonal(blocks: Any) -> list[list[Any]]:
    return [[block if i == j else None for j in range(len(blocks))] for i, block in enumerate(blocks)]


def _enter_blocks(name: str, arranged: Callable[[Any], Any], makes_array: bool = False) -> None:
    @borrows("scipy.sparse", name)
    def record(tape: Tape, blocks: Any, format: Any = None, dtype: Any = None) -> Any:  # noqa: A002
        grid = arranged(blocks)
        return _block(tape, grid, format, "_array" if makes_array else _interface(grid))


for _name, _arranged in {
    "bmat": lambda blocks: blocks,
    "vstack": lambda blocks: [[block] for block in blocks],
    "hstack": lambda blocks: [blocks],
    "block_diag": _on_diagonal,
}.items():
    _enter_blocks(_name, _arranged)
_enter_blocks("block_array", lambda blocks: blocks, makes_array=True)


@borrows("scipy.sparse", "kron")
def _kron(tape: Tape, A: Any, B: Any, format: Any = None) -> Any:  # noqa: A002
    """Return the Kronecker product."""
    import scipy.sparse

    a, b = (sparse_of(tape, each) for each in (A, B))
    if a.is_complex or b.is_complex:
        raise refuse("scipy.sparse.kron is recorded of real matrices. Write it for the real and the imaginary parts.")
    (m, n), suffix = b.shape, _interface([[A, B]])
    rows, columns = (
        (first[:, np.newaxis] * size + second).reshape(-1)
        for first, size, second in ((a.rows, m, b.rows), (a.columns, n, b.columns))
    )
    data: Any = np.outer(a.data, b.data)
    kind = getattr(scipy.sparse, f"coo{suffix}")
    shape = (a.shape[0] * m, a.shape[1] * n)
    return SparseEntries(tape, rows, columns, references_of(tape, data).reshape(-1), shape, kind).asformat(format)


def _enter_triangle(name: str, keeps: Callable[[Integers, int], Any]) -> None:
    @borrows("scipy.sparse", name)
    def record(tape: Tape, A: Any, k: int = 0, format: Any = None) -> Any:  # noqa: A002
        stored = sparse_of(tape, A)
        parts = list(parts_of(tape, stored)) if stored.is_complex else [stored]
        kept = [part.where(keeps(part.columns - part.rows, int(concrete(k)))).asformat(format) for part in parts]
        return ComplexSparse(*kept) if stored.is_complex else kept[0]


_enter_triangle("tril", lambda offsets, k: offsets <= k)
_enter_triangle("triu", lambda offsets, k: offsets >= k)


# Constant matrices with traced operands -------------------------------------------------------------------------------


def _enter_operator(name: str) -> None:
    def record(tape: Tape, matrix: Any, other: Any) -> Any:
        if "matmul" in name and not (isinstance(other, Operand) and other.is_sparse):
            return np.matmul(matrix, other) if name == "__matmul__" else np.matmul(other, matrix)
        stored = sparse_of(tape, matrix)
        if name in ("__mul__", "__rmul__") and np.ndim(other) and stored.is_matrix:
            return NotImplemented  # the traced operand computes the matrix product
        return getattr(stored, name)(other)

    for form in ("csr", "csc", "coo", "dia", "bsr", "lil", "dok"):
        for suffix in ("_array", "_matrix"):
            borrows("scipy.sparse", f"{form}{suffix}.{name}")(record)


for _name in (
    *("__matmul__", "__rmatmul__", "multiply", "__truediv__", "__mul__", "__rmul__"),
    *("__add__", "__radd__", "__sub__", "__rsub__"),
):
    _enter_operator(_name)
