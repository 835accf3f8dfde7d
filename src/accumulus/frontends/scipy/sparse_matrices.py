"""Sparse matrices of SciPy whose stored entries are traced: `csr_array((data, indices, indptr))` and its relatives.

The positions of the entries are constant. Operations cost in proportion to the stored entries: products with vectors
and matrices, sums, elementwise products, and systems of equations (`accumulus.frontends.scipy.sparse_systems`).
They may be complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.complex_functions import expanded
from accumulus.frontends.numpy.complex_numbers import make_complex, parts_of
from accumulus.frontends.numpy.operands import Operand, concrete, depends, is_sparse, references_of
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


class SparseEntries(Operand):
    """A sparse matrix whose entries have constant positions and may be traced.

    Args:
        tape: tape of the entries.
        rows, columns: positions of the stored entries; entries at the same position are added.
        data: the entries, an array of real or complex numbers.
        shape: shape of the matrix.
        kind: class of SciPy that it stands for.
    """

    __slots__ = ("columns", "data", "is_complex", "kind", "rows", "shape", "tape")
    __array_ufunc__ = None
    __class__: Any = property(lambda self: self.kind)
    boolean, ndim, is_sparse = False, 2, True

    def __init__(self, tape: Tape, rows: Integers, columns: Integers, data: Any, shape: Any, kind: Any) -> None:
        self.tape, self.data, self.kind = tape, as_array(tape, data), kind
        self.is_complex = self.data.is_complex
        self.rows, self.columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
        self.shape = int(shape[0]), int(shape[1])

    @property
    def entries(self) -> References:
        """References of the stored entries."""
        references: References = self.data.entries
        return references

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.data.dtype

    @property
    def real(self) -> SparseEntries:
        """The matrix of real parts."""
        return self._with(self.data.real)

    @property
    def imag(self) -> SparseEntries:
        """The matrix of imaginary parts."""
        return self._with(self.data.imag)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.data)

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

    @property
    def H(self) -> SparseEntries:  # noqa: N802
        """The conjugate transpose."""
        return self.conj().T

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
        return self.as_kind(getattr(scipy.sparse, f"{format}{'_matrix' if self.is_matrix else '_array'}"))

    def as_kind(self, kind: Any) -> SparseEntries:
        """Return the matrix as a class of SciPy, with the stored entries in the order of its format."""
        form = kind.__name__[:3]
        ordered = self.summed() if form == "csr" else self.T.summed().T if form == "csc" else self
        return SparseEntries(self.tape, ordered.rows, ordered.columns, ordered.data, self.shape, kind)

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
        return SparseEntries(self.tape, self.rows, self.columns, data, self.shape, self.kind)

    def _at(self, rows: Integers, columns: Integers, shape: tuple[int, int]) -> SparseEntries:
        return SparseEntries(self.tape, rows, columns, self.data, shape, self.kind)

    def summed(self) -> SparseEntries:
        """Return the matrix with entries sorted by rows, and entries at the same position added."""
        order = np.lexsort((self.columns, self.rows))
        rows, columns, data = self.rows[order], self.columns[order], self.data[order]
        first = np.flatnonzero(np.diff(rows * self.shape[1] + columns, prepend=-1))
        if len(first) < len(order):
            data = self._by_parts(data, lambda part: np.add.reduceat(part, first))
        return SparseEntries(self.tape, rows[first], columns[first], data, self.shape, self.kind)

    def _by_parts(self, data: Any, linear: Callable[[Any], Any]) -> Any:
        """Apply a linear function to an array, or to the real and the imaginary part of a complex one."""
        return make_complex(self.tape, *map(linear, parts_of(self.tape, data))) if data.is_complex else linear(data)

    def __matmul__(self, other: Any) -> Any:
        if _is_sparse(other):
            raise refuse(
                "The product of two sparse matrices is not recorded if entries depend on the arguments of the "
                "function. Write A @ (B @ x), or A @ B.toarray()."
            )
        order = np.argsort(self.rows, kind="stable")
        ends, columns = np.searchsorted(self.rows[order], np.arange(self.shape[0] + 1)), self.columns[order]
        return expanded(
            self.tape,
            [self.data[order], as_array(self.tape, other)],
            lambda parts: product_by_rows(
                self.tape, ends, columns, parts[0], self.shape, as_array(self.tape, parts[1])
            ),
        )

    dot = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        return (self.T @ as_array(self.tape, other).T).T

    def __mul__(self, other: Any) -> Any:
        if self.is_matrix and np.ndim(other):
            return self @ other
        return self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        return other @ self if self.is_matrix and np.ndim(other) else self.multiply(other)

    def multiply(self, other: Any) -> SparseEntries:
        """Return the elementwise product with a number, a dense array, or a sparse matrix."""
        if _is_sparse(other):
            other = other.toarray()
        if np.ndim(other):
            other = np.broadcast_to(as_array(self.tape, other), self.shape)[self.rows, self.columns]
        return self._with(self.data * other)

    def __truediv__(self, other: Any) -> SparseEntries:
        if np.ndim(other):
            raise refuse("A sparse matrix can only be divided by a number. Write A.multiply(1.0 / x).")
        return self._with(self.data / other)

    def __neg__(self) -> SparseEntries:
        return self._with(-self.data)

    def __add__(self, other: Any) -> Any:
        if not _is_sparse(other):
            return self.toarray() + other if np.ndim(other) else self._refused(f"adding {other!r:.40}")
        more = sparse_of(self.tape, other, self.kind)
        if more.shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {more.shape}")
        rows, columns = np.append(self.rows, more.rows), np.append(self.columns, more.columns)
        data = np.concatenate([self.data, more.data])
        return SparseEntries(self.tape, rows, columns, data, self.shape, self.kind).summed()

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

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

    def toarray(self, order: Any = None) -> Any:
        """Return the dense matrix; its zeros cost nothing."""
        stored = self.summed()

        def filled(part: Any) -> TracedArray:
            dense = np.full(self.shape, self.tape.constant(0.0))
            dense[stored.rows, stored.columns] = references_of(self.tape, part)
            return TracedArray(self.tape, dense)

        return self._by_parts(stored.data, filled)

    todense = toarray

    def conj(self, copy: bool = True) -> SparseEntries:
        """Return the conjugate."""
        return self._with(np.conj(self.data))

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


def _is_sparse(value: Any) -> bool:
    return is_sparse(value) or isinstance(value, SparseEntries)


def sparse_of(tape: Tape, value: Any, kind: Any = None) -> SparseEntries:
    """Convert a sparse matrix, constant or traced, or a dense array to its stored entries."""
    if isinstance(value, SparseEntries):
        return value
    if is_sparse(value):
        stored = value.tocoo()
        return SparseEntries(tape, stored.row, stored.col, stored.data * 1.0, stored.shape, kind or type(value))
    dense = as_array(tape, value)
    if dense.ndim != 2:
        raise ValueError(f"a sparse matrix has two axes; the array given has shape {dense.shape}")
    parts = dense.entries.reshape((-1, *dense.shape))
    zero = parts < 0
    zero[zero] = tape.values_of(parts[zero]) == 0.0
    rows, columns = np.nonzero(~zero.all(axis=0))
    return SparseEntries(tape, rows, columns, dense[rows, columns], dense.shape, kind)


def _made(tape: Tape, kind: str, argument: Any, shape: Any) -> Any:
    """Return the matrix that a constructor of SciPy makes from its first argument."""
    import scipy.sparse

    made, form = getattr(scipy.sparse, kind), kind[:3]
    if not isinstance(argument, tuple):
        return sparse_of(tape, argument, made).as_kind(made)
    if len(argument) not in (2, 3) or depends(argument[1:]):
        raise refuse(
            f"scipy.sparse.{kind} takes entries that depend on the arguments of the function, at constant positions: "
            "(data, indices, indptr) or (data, (rows, columns))."
        )
    places: list[Any] = list(concrete(argument[1:]))
    data = as_array(tape, argument[0])
    if form == "dia":
        return _of_diagonals(tape, data, np.asarray(places[0]).reshape(-1), shape, made)
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
    if not len(rows) == len(columns) == data.size or any(n > m for n, m in zip(least_shape, shape, strict=True)):
        raise ValueError(
            f"scipy.sparse.{kind}: {data.size} entries at {len(rows)} rows and {len(columns)} columns do not "
            f"make a matrix of shape {tuple(shape)}"
        )
    matrix = SparseEntries(tape, rows, columns, data.reshape(-1), shape, made)
    return matrix if len(places) == 2 else matrix.as_kind(made)


def _of_diagonals(tape: Tape, data: Any, offsets: Integers, shape: Any, kind: Any) -> SparseEntries:
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

    numbers = np.atleast_1d(concrete(offsets))
    rows = [diagonals] if np.ndim(offsets) == 0 and np.ndim(diagonals) < 2 and np.ndim(diagonals[0]) == 0 else diagonals
    arrays = [np.atleast_1d(as_array(tape, row)) for row in rows]
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
    rows_of, columns, data = map(np.concatenate, zip(*parts, strict=True))
    kind = getattr(scipy.sparse, f"{format or 'dia'}{suffix}")
    return SparseEntries(tape, rows_of, columns, data, shape, kind)


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


def _coo(blocks: Any) -> Any:
    """Return the class of a matrix made of others: of arrays if there is a sparse array among them."""
    import scipy.sparse

    kinds = [block.kind if isinstance(block, SparseEntries) else type(block) for row in blocks for block in row]
    is_array = any(kind.__name__.endswith("_array") for kind in kinds)
    return scipy.sparse.coo_array if is_array else scipy.sparse.coo_matrix


def _block(tape: Tape, blocks: Any, format: Any, kind: Any) -> Any:  # noqa: A002
    """Return the matrix of a nested list of sparse or dense matrices, or None for zeros.

    Raises:
        ValueError: if their shapes do not fit.
    """
    grid = [[None if block is None else sparse_of(tape, block, kind) for block in row] for row in blocks]
    starts: list[Integers] = []
    both: tuple[Any, Any] = grid, zip(*grid, strict=True)
    for axis, lines in enumerate(both):
        lengths = [{block.shape[axis] for block in line if block is not None} for line in lines]
        if any(len(length) != 1 for length in lengths):
            raise ValueError(f"blocks have incompatible numbers of {('rows', 'columns')[axis]}: {lengths}")
        starts.append(np.cumsum([0, *(length.pop() for length in lengths)]))
    placed = [(i, j, block) for i, row in enumerate(grid) for j, block in enumerate(row) if block is not None]
    rows = np.concatenate([block.rows + starts[0][i] for i, _, block in placed])
    columns = np.concatenate([block.columns + starts[1][j] for _, j, block in placed])
    data = np.concatenate([block.data for _, _, block in placed])
    shape = starts[0][-1], starts[1][-1]
    return SparseEntries(tape, rows, columns, data, shape, kind).asformat(format)


def _enter_blocks(name: str, arranged: Callable[[Any], Any]) -> None:
    @borrows("scipy.sparse", name)
    def record(tape: Tape, blocks: Any, format: Any = None, dtype: Any = None) -> Any:  # noqa: A002
        import scipy.sparse

        grid = arranged(blocks)
        return _block(tape, grid, format, scipy.sparse.coo_array if name == "block_array" else _coo(grid))


for _name, _arranged in dict[str, Callable[[Any], Any]](
    bmat=lambda blocks: blocks,
    block_array=lambda blocks: blocks,
    vstack=lambda blocks: [[block] for block in blocks],
    hstack=lambda blocks: [blocks],
    block_diag=lambda blocks: [[b if i == j else None for j in range(len(blocks))] for i, b in enumerate(blocks)],
).items():
    _enter_blocks(_name, _arranged)


@borrows("scipy.sparse", "kron")
def _kron(tape: Tape, A: Any, B: Any, format: Any = None) -> Any:  # noqa: A002
    """Return the Kronecker product."""
    a, b = (sparse_of(tape, each) for each in (A, B))
    m, n = b.shape
    rows = (a.rows[:, np.newaxis] * m + b.rows).reshape(-1)
    columns = (a.columns[:, np.newaxis] * n + b.columns).reshape(-1)
    data = (a.data[:, np.newaxis] * b.data).reshape(-1)
    return SparseEntries(tape, rows, columns, data, (a.shape[0] * m, a.shape[1] * n), _coo([[A, B]])).asformat(format)


def _enter_triangle(name: str, sign: int) -> None:
    @borrows("scipy.sparse", name)
    def record(tape: Tape, A: Any, k: int = 0, format: Any = None) -> Any:  # noqa: A002
        a = sparse_of(tape, A)
        kept = sign * (a.columns - a.rows - int(concrete(k))) >= 0
        return SparseEntries(tape, a.rows[kept], a.columns[kept], a.data[kept], a.shape, a.kind).asformat(format)


_enter_triangle("tril", -1)
_enter_triangle("triu", 1)


# Constant matrices with traced operands -------------------------------------------------------------------------------


def _enter_operator(name: str) -> None:
    def record(tape: Tape, matrix: Any, other: Any) -> Any:
        if "matmul" in name and not isinstance(other, SparseEntries):
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
