"""Products and sums of derivatives between arrays; dense derivatives use products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import FEW_PARTS, Entries, Products
from accumulus.arrays.intervals import Intervals
from accumulus.arrays.inverses import ConstantMatrix, Inverse, Slopes, Unformed
from accumulus.errors import SizeError
from accumulus.tape.blocks import GATHER, SCATTER
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.program import Program

# Dense derivatives ---------------------------------------------------------------------------------------------------
#
# Dense derivatives: one matrix of references for all copies.


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Derivatives of arrays of shape (p, m, q) with respect to arrays of shape (p, k, q): one matrix for all p and q.

    The derivative of ``heads[a, i, b]`` with respect to ``tails[a, l, b]`` is ``matrix[i, l]``; all others are 0. Heads
    are distinct, and so are tails. If p and q are 1, the edge is a *rectangle*: every head depends on every tail.

    Attributes:
        heads, tails: references of the program that is differentiated.
        factor: (m, k), references of the program that computes the derivatives, or a matrix that is not formed.
        is_factor: True if the matrix is a factor of a product in the function itself, rather than a derivative.
    """

    heads: Integers
    tails: Integers
    factor: Integers | Unformed
    is_factor: bool = False

    def __len__(self) -> int:
        if isinstance(self.factor, ConstantMatrix):
            return self.work
        return int(self.heads.size) * int(self.factor.shape[1])

    @property
    def matrix(self) -> Integers:
        """References of the matrix's entries; forms the matrix."""
        return self.factor.formed if isinstance(self.factor, Unformed) else self.factor

    @property
    def work(self) -> int:
        """Number of scalar products that its product with a vector takes."""
        if isinstance(self.factor, Unformed):
            return int(self.heads.size) // self.factor.shape[0] * self.factor.work
        return len(self)

    @property
    def is_rectangle(self) -> bool:
        """True if every head depends on every tail."""
        return bool(self.heads.shape[0] == self.heads.shape[2] == 1)

    @property
    def rows(self) -> Integers:
        """Heads of a rectangle."""
        return self.heads[0, :, 0]

    @property
    def columns(self) -> Integers:
        """Tails of a rectangle."""
        return self.tails[0, :, 0]

    @property
    def transposed(self) -> Dense:
        """The edge with heads and tails exchanged."""
        return replace(self, heads=self.tails, tails=self.heads, factor=self.factor.T)

    @property
    def values(self) -> Column:
        """References of the matrix's entries, row by row."""
        return column(self.matrix)

    @property
    def entries(self) -> Entries:
        """The edge as single entries."""
        p, m, q = self.heads.shape
        if isinstance(self.factor, ConstantMatrix):
            held = self.factor.untransposed
            values = self.factor.tape.constant_array(held.entries)[np.newaxis, :, np.newaxis]
            rows, columns = (held.columns, held.rows) if self.factor.is_transposed else (held.rows, held.columns)
            heads, tails = self.heads[:, rows], self.tails[:, columns]
            return Entries(column(heads), column(tails), column(np.broadcast_to(values, heads.shape)))
        matrix = self.matrix
        shape = p, m, matrix.shape[1], q
        heads = np.broadcast_to(self.heads[:, :, np.newaxis], shape)
        tails = np.broadcast_to(self.tails[:, np.newaxis], shape)
        values = np.broadcast_to(matrix[np.newaxis, :, :, np.newaxis], shape)
        return Entries(column(heads), column(tails), column(values))

    @staticmethod
    def of(rows: Integers, columns: Integers, matrix: Integers) -> Dense:
        """Return a rectangle."""
        return Dense(rows.reshape(1, -1, 1), columns.reshape(1, -1, 1), matrix)


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Derivatives of a gather or scatter with respect to its rows, at positions known only at run time.

    Attributes:
        code: `GATHER` or `SCATTER`.
        shape: see `accumulus.tape.program.Block`.
        heads, tails: references, in the program that is differentiated, of two whole arrays.
        indices: references of the program that computes the derivatives.
    """

    code: int
    shape: tuple[int, int, int]
    heads: Range
    tails: Range
    indices: Integers

    @property
    def values(self) -> Column:
        """Return the references that the positions depend on."""
        return column(self.indices)


def of_product(left: Integers, right: Integers, results: Integers, matrices: tuple[Integers, Integers]) -> list[Dense]:
    """Return derivatives of a product of matrices with respect to both factors.

    Args:
        left: references of the left factor, (m, k).
        right: references of the right factor, (k, n).
        results: references of the product, (m, n).
        matrices: references of both factors in the program that computes the derivatives.
    """
    by_left = Dense(results[:, :, np.newaxis], left[:, :, np.newaxis], matrices[1].T, is_factor=True)
    by_right = Dense(results[np.newaxis], right[np.newaxis], matrices[0], is_factor=True)
    return [by_left, by_right]


def separating_axis(owners: Integers, tails: Integers) -> int | None:
    """Return an axis on which each position's tails have one owner; None if there is none, or tails repeat.

    Args:
        owners: (p, k, q), array that owns each tail; values below -1 mark tails that are left out, which may repeat.
        tails: references, in the same shape.
    """
    active = tails[owners >= -1]
    if len(active) and not _are_distinct(active):
        return None
    for axis in (1, 0, 2):
        along = np.moveaxis(owners, axis, 0).reshape(owners.shape[axis], -1)
        if (along == along[:, :1]).all():
            return axis
    return None


def parted(dense: Dense, owner: Callable[[Integers], Integers]) -> list[tuple[int, Dense]] | None:
    """Split derivatives by the arrays that own the tails; None if no axis separates the arrays, or tails repeat.

    Args:
        dense: derivatives to separate.
        owner: function from references to the owner of each; entries with values below -1 are left out.
    """
    owners = owner(dense.tails)
    axis = separating_axis(owners, dense.tails)
    if axis is None:
        return None
    along = np.moveaxis(owners, axis, 0).reshape(owners.shape[axis], -1)
    parts = []
    for source in np.unique(along[:, 0]).tolist():
        chosen = np.flatnonzero(along[:, 0] == source)
        if source < -1:
            continue
        piece = dense
        if len(chosen) < len(along):
            tails = dense.tails.take(chosen, axis)
            if axis == 1:
                held = dense.factor
                factor = held.columns(chosen) if isinstance(held, Slopes) else dense.matrix[:, chosen]
                piece = replace(dense, tails=tails, factor=factor)
            else:
                piece = replace(dense, tails=tails, heads=dense.heads.take(chosen, axis))
        parts.append((source, piece))
    return parts


def _order(references: Integers) -> Integers:
    """Return the stable sorting order; fast for references that are mostly consecutive ranges."""
    return np.argsort(references, kind="stable")


def _are_distinct(references: Integers) -> bool:
    """Return True if no reference repeats."""
    if (np.diff(references) > 0).all():
        return True
    low = int(references.min())
    marks = np.zeros(int(references.max()) - low + 1, bool)
    marks[references - low] = True
    return int(np.count_nonzero(marks)) == len(references)


def repeats(references: Integers) -> Integers:
    """Return, for each entry, the number of equal ones before it."""
    order = _order(references)
    _, first, lengths = np.unique(references[order], return_index=True, return_counts=True)
    counts = np.empty(len(references), np.int64)
    counts[order] = np.arange(len(references)) - np.repeat(first, lengths)
    return counts


def places(references: Integers, among: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the positions of references in `among`, which has no duplicates, and the mask of those found."""
    if len(among) and int(among[-1]) - int(among[0]) == len(among) - 1 and (np.diff(among) == 1).all():
        positions = references - among[0]
        is_there = (positions >= 0) & (positions < len(among))
        return np.where(is_there, positions, 0), is_there
    order = _order(among)
    at = np.minimum(np.searchsorted(among[order], references), max(len(among) - 1, 0))
    positions = order[at] if len(among) else np.zeros(len(references), np.int64)
    return positions, (among[positions] == references) if len(among) else np.zeros(len(references), bool)


def rectangle(entries: Entries, values: Callable[[Entries], Column]) -> Dense | None:
    """Return these entries as a rectangle if every head depends on every tail exactly once; else None."""
    count = len(entries)
    for one, other in ((entries.heads, entries.tails), (entries.tails, entries.heads)):
        if isinstance(one, Range) and one.step == 1 and isinstance(other, Range) and other.step == 0:
            edge = Dense.of(one.references, np.array([other.start]), references_in(values(entries)).reshape(-1, 1))
            return edge if one is entries.heads else edge.transposed
        # each head occurs once, so all tails have to be equal
        if isinstance(one, Range) and one.step and count > 1 and not (isinstance(other, Range) and other.step == 0):
            return None
    heads, tails = references_in(entries.heads), references_in(entries.tails)
    rows, row = np.unique(heads, return_inverse=True)
    if count % max(len(rows), 1):
        return None
    columns, column_of = np.unique(tails, return_inverse=True)
    if len(rows) * len(columns) != count:
        return None
    keys = row * len(columns) + column_of
    matrix = np.empty(count, np.int64)
    matrix[keys] = references_in(values(entries))
    if not (np.bincount(keys, minlength=count) == 1).all():
        return None
    return Dense.of(rows, columns, matrix.reshape(len(rows), len(columns)))


def beside(parts: Sequence[Dense]) -> Dense | None:
    """Join rectangles with equal rows side by side, rows and columns in order; None if they do not fit together."""
    rows = np.sort(parts[0].rows)
    matrices = []
    for edge in parts:
        if not edge.is_rectangle or len(edge.rows) != len(rows):
            return None
        order = _order(edge.rows)
        if not np.array_equal(edge.rows[order], rows):
            return None
        matrices.append(edge.matrix[order])
    columns = np.concatenate([edge.columns for edge in parts])
    order = _order(columns)
    if (np.diff(columns[order]) == 0).any():
        return None
    return Dense.of(rows, columns[order], np.concatenate(matrices, axis=1)[:, order])


# Products and sums ---------------------------------------------------------------------------------------------------


Integers = NDArray[np.int64]
#: Derivatives of one array with respect to another.
Edge = Entries | Dense

#: Cost of one product inside a product of matrices, and of one that scales a row; a single product costs 1. A larger
#: cost eliminates arrays with single products first, which may make dense matrices later; a smaller one multiplies
#: matrices full of zeros.
IN_MATRICES: Final = 0.05
IN_ROWS: Final = 0.5
#: Up to this number of rows, each row is a product of matrices of its own; a joint product would move its parts. For
#: more rows, separate products make too many blocks.
FEW_ROWS: Final = 8
#: Largest size of a rectangle relative to the entries in it, for the others to be filled with zeros. A larger one
#: multiplies more zeros, a smaller one computes more products entry by entry.
FILLED: Final = 64
#: Largest number of distinct lengths of sums that get separate blocks. More make more blocks, each to be compiled and
#: started; fewer compute more products entry by entry.
MOST_LENGTHS: Final = 16
#: Least size of a product of a column with a row that is recorded as a product of matrices. Smaller ones cost more to
#: start than they save, larger ones compute single products through tables.
SMALLEST_OUTER: Final = 256
#: Largest number of derivatives with respect to values chosen by indices: their zeros are unknown. More take gigabytes,
#: fewer refuse derivatives that fit into memory.
MOST_OF_LOOKUPS: Final = 20_000_000
#: Largest number of dense derivatives between two arrays before they are written out and added; from more than
#: `FEW_PARTS` on, adjacent ones are joined. More parts make more blocks, fewer write out more matrices, entry by entry.
MOST_PARTS: Final = 24


class Structured:
    """Products and sums of derivatives, written onto a program.

    Args:
        products: products and sums of sparse derivatives.
    """

    def __init__(self, products: Products) -> None:
        self.products = products
        self.tape: Program = products.tape
        self._intervals = Intervals(self.tape)
        self._rectangles: dict[int, tuple[Entries, Dense | None]] = {}

    # Costs -------------------------------------------------------------------------------------------------------

    def cost(self, outer: Edge, inner: Edge) -> tuple[float, int]:
        """Return the cost of the product of two edges, one dense, and its number of products of single entries."""
        if _is_constant_matrix(outer) and _is_constant_matrix(inner):
            return self._cost_one_by_one(outer, inner)
        if isinstance(outer, Entries) and isinstance(inner, Dense):
            return self._cost_of_entries(outer, inner)
        if isinstance(outer, Dense) and isinstance(inner, Entries):
            return self._cost_of_entries(_transposed(inner), outer.transposed)
        assert isinstance(outer, Dense)
        assert isinstance(inner, Dense)
        if outer.is_rectangle and not isinstance(outer.factor, Unformed):
            return IN_MATRICES * outer.factor.shape[0] * inner.work, 0
        if inner.is_rectangle:
            return IN_MATRICES * inner.factor.shape[1] * outer.work, 0
        if outer.is_rectangle:
            return IN_MATRICES * outer.factor.shape[0] * len(inner), 0
        if _is_aligned(outer, inner):
            m, k = outer.factor.shape
            return IN_MATRICES * m * k * inner.factor.shape[1], 0
        count = len(outer) * inner.factor.shape[1]
        return float(count), count

    def _cost_of_entries(self, outer: Entries, inner: Dense) -> tuple[float, int]:
        if isinstance(inner.factor, Unformed) and _renames(outer, inner):
            return 0.0, 0
        rectangle = self._rectangle(outer)
        if _is_constant_matrix(inner) and (rectangle is None or FILLED * len(rectangle.columns) < inner.heads.size):
            return self._cost_one_by_one(outer, inner)
        if rectangle is not None:
            return self.cost(rectangle, inner)
        count = len(outer) * inner.factor.shape[1]
        if inner.is_rectangle:
            return IN_ROWS * count, 0
        if _renames(outer, inner):
            return 0.0, 0
        return float(count), count

    @staticmethod
    def _cost_one_by_one(outer: Edge, inner: Dense) -> tuple[float, int]:
        count = len(outer) * len(inner) // inner.heads.size
        return float(count), count

    def forget(self) -> None:
        """Drop cached rectangles."""
        self._rectangles.clear()

    def _rectangle(self, entries: Entries) -> Dense | None:
        cached = self._rectangles.get(id(entries))
        if cached is None:
            cached = self._rectangles[id(entries)] = entries, rectangle(entries, self.products.values)
        return cached[1]

    # Products ----------------------------------------------------------------------------------------------------

    def chained(self, outer: Edge, inner: Edge, first: int, size: int) -> list[Edge]:
        """Return derivatives through an array, see `Products.chained`."""
        product: Edge | None
        if isinstance(outer, Entries) and isinstance(inner, Entries):
            product = self.products.chained(outer, inner, first, size)
            return [] if product is None else [product]
        if isinstance(outer, Dense) and isinstance(inner, Dense):
            product = self._of_dense(outer, inner)
        elif isinstance(inner, Dense):
            assert isinstance(outer, Entries)
            product = self._of_entries(outer, inner)
        else:
            assert isinstance(outer, Dense)
            product = self._of_entries(_transposed(inner), outer.transposed)
            product = None if product is None else product.transposed
        if product is not None:
            return [product] if len(product) else []
        return self.chained(written_out(outer), written_out(inner), first, size)

    def _of_dense(self, outer: Dense, inner: Dense) -> Dense | None:
        if outer.is_rectangle and not (isinstance(outer.factor, Unformed) and inner.is_rectangle):
            return self._by_rectangle(outer, inner)
        if inner.is_rectangle:
            transposed = self._by_rectangle(inner.transposed, outer.transposed)
            return None if transposed is None else transposed.transposed
        if (
            _is_aligned(outer, inner)
            and not (_is_constant_matrix(outer) and _is_constant_matrix(inner))
            and not self._is_guarded(outer, inner)
        ):
            return Dense(outer.heads, inner.tails, self._multiplied(outer.factor, inner.factor))
        return None

    def _of_entries(self, outer: Entries, inner: Dense) -> Dense | None:
        if isinstance(inner.factor, Unformed) and _renames(outer, inner):
            return _renamed(outer, inner)
        rectangle = self._rectangle(outer)
        if _is_constant_matrix(inner):  # single entries are cheaper if few of its rows are used
            enough = rectangle is not None and FILLED * len(rectangle.columns) >= inner.heads.size
            return self._by_rectangle(rectangle, inner) if rectangle is not None and enough else None
        if rectangle is None and isinstance(inner.factor, Unformed) and inner.is_rectangle:
            rectangle = self._filled(outer)
        if rectangle is not None:
            return self._by_rectangle(rectangle, inner)
        if inner.is_rectangle:
            return self._by_rows(outer, inner)
        return _renamed(outer, inner) if _renames(outer, inner) else None

    def _by_rectangle(self, outer: Dense, inner: Dense) -> Dense | None:
        """Return the product of a rectangle and a dense edge, as a product of matrices; None if not possible."""
        if _is_constant_matrix(outer):
            return None
        p, m, q = inner.heads.shape
        rows, k = len(outer.rows), inner.factor.shape[1]
        at, is_there = places(inner.heads.reshape(-1), outer.columns)
        if not is_there.any():
            return Dense(outer.heads, inner.tails.reshape(1, -1, 1)[:, :0], outer.matrix[:, :0])
        if self._is_guarded(outer, inner):
            return None
        factor = outer.matrix[:, at]
        if not is_there.all():
            factor[:, ~is_there] = self.tape.constant(0.0)
        factor = factor.reshape(rows, p, m, q)
        tails = inner.tails
        if p == 1 and q > 1 and rows <= FEW_ROWS:
            parts = [self._multiplied(inner.factor.T, each[0]).reshape(-1) for each in factor]
            return Dense.of(outer.rows, tails.reshape(-1), np.stack(parts))
        if q > 1:
            factor, tails = factor.transpose(0, 1, 3, 2), tails.transpose(0, 2, 1)
        product = self._multiplied(factor.reshape(rows * p * q, m), inner.factor, is_outer=inner.is_factor)
        return Dense.of(outer.rows, tails.reshape(-1), product.reshape(rows, p * q * k))

    def _filled(self, entries: Entries) -> Dense | None:
        """Return entries as a rectangle filled with zeros; None if a position repeats, or few entries are there."""
        heads, row = np.unique(references_in(entries.heads), return_inverse=True)
        tails, column_of = np.unique(references_in(entries.tails), return_inverse=True)
        keys, size = row * len(tails) + column_of, len(heads) * len(tails)
        if size > FILLED * len(entries) or len(np.unique(keys)) < len(entries):
            return None
        matrix = np.full(size, self.tape.constant(0.0))
        matrix[keys] = references_in(self.products.values(entries))
        return Dense.of(heads, tails, matrix.reshape(len(heads), len(tails)))

    def _by_rows(self, outer: Entries, inner: Dense) -> Dense | None:
        """Return the product of entries and a rectangle: scaled rows, added where heads repeat."""
        at, is_there = places(references_in(outer.tails), inner.rows)
        heads = references_in(outer.heads)[is_there]
        matrix = inner.matrix[at[is_there]]
        count, width = matrix.shape
        order, rows, lengths = np.arange(count), heads, np.ones(count, np.int64)
        if (np.diff(heads) <= 0).any():
            order = np.argsort(heads, kind="stable")
            rows, first, lengths = np.unique(heads[order], return_index=True, return_counts=True)
            if len(np.unique(lengths)) > MOST_LENGTHS:
                return None
        if outer.values is not None and count:
            self.products.count += count * width
            scales = np.repeat(references_in(outer.values)[is_there], width)
            matrix = self._scaled(scales.reshape(count, width), matrix)
        if len(rows) == count:
            return Dense.of(heads, inner.columns, matrix)
        sums = np.empty((len(rows), width), np.int64)
        for length in np.unique(lengths).tolist():
            chosen = np.flatnonzero(lengths == length)
            terms = matrix[order[first[chosen, np.newaxis] + np.arange(length)]].transpose(0, 2, 1)
            if length == 1:
                sums[chosen] = terms[:, :, 0]
            else:
                offsets = np.arange(0, terms.size + 1, length)
                sums[chosen] = self.tape.sums(terms.reshape(-1), offsets).reshape(len(chosen), width)
        return Dense.of(rows, inner.columns, sums)

    def _multiplied(self, left: Integers | Unformed, right: Integers | Unformed, *, is_outer: bool = False) -> Integers:
        """Return the product of two matrices of references; one or both may be matrices that are not formed.

        With `is_outer`, large products of a column with a row are recorded as products of matrices, too.
        """
        if isinstance(left, Unformed) and isinstance(right, Unformed):
            right = right.formed
        if isinstance(left, Slopes) and left.product(right.shape[1]) is None:
            left = left.formed
        if isinstance(left, Unformed):
            assert not isinstance(right, Unformed)
            self.products.count += left.work * right.shape[1]
            return left.times(right)
        if isinstance(right, Unformed):
            return self._multiplied(right.T, left.T).T
        (m, k), n = left.shape, right.shape[1]
        self.products.count += m * k * n
        if k > 1 or (is_outer and m * n >= SMALLEST_OUTER):
            return self.tape.matmul(left, right)
        return self._scaled(np.broadcast_to(left, (m, n)), np.broadcast_to(right, (m, n)))

    def _scaled(self, left: Integers, right: Integers) -> Integers:
        """Return the elementwise product of two matrices."""
        products = self.products.product(column(left.copy()), column(right.copy()))
        assert products is not None
        return references_in(products).reshape(left.shape)

    # Rows by indices ---------------------------------------------------------------------------------------------

    def above_lookup(self, outer: Sequence[Edge], lookup: Lookup) -> Dense:
        """Return derivatives with respect to a lookup's rows, from derivatives with respect to its results."""
        rows, matrix = self._as_matrix(outer, lookup.heads)
        m, k, n = lookup.shape
        count = len(rows)
        terms = matrix.reshape(count, m, n).transpose(1, 0, 2).reshape(m, count * n)
        moved = self._by_indices(SCATTER if lookup.code == GATHER else GATHER, terms, lookup.indices, k)
        return Dense.of(
            rows, lookup.tails.references, moved.reshape(k, count, n).transpose(1, 0, 2).reshape(count, k * n)
        )

    def below_lookup(self, lookup: Lookup, inner: Sequence[Edge]) -> Dense:
        """Return derivatives of a lookup's results, from derivatives of its rows."""
        columns, matrix = self._as_matrix([_turned(each) for each in inner], lookup.tails)
        m, k, n = lookup.shape
        count = len(columns)
        terms = matrix.T.reshape(k, n * count)
        moved = self._by_indices(lookup.code, terms, lookup.indices, m)
        return Dense.of(lookup.heads.references, columns, moved.reshape(m * n, count))

    def together(self, outer: Sequence[Edge], inner: Sequence[Edge], vertex: Range) -> Sequence[Edge]:
        """Join derivatives with respect to an array into one rectangle if their next product is a call or a matmul."""
        if len(outer) < 2:
            return outer
        slopes = [each.factor for each in inner if isinstance(each, Dense) and isinstance(each.factor, Slopes)]
        if slopes:
            heads = {head for each in outer for head in references_in(written_out(each).heads).tolist()}
            joins = slopes[0].T.product(len(heads)) is not None
        else:
            are_matrices = all(isinstance(each, Dense) and not each.is_rectangle for each in inner)
            joins = are_matrices and self._are_of_equal_rows(outer, MOST_OF_LOOKUPS // max(len(vertex), 1))
        if not joins:
            return outer
        if any(each.values is not None and self.products.guard(each.values) is not None for each in outer):
            return outer
        rows, matrix = self._as_matrix(outer, vertex)
        return [Dense.of(rows, vertex.references, matrix)]

    def _are_of_equal_rows(self, edges: Sequence[Edge], most: int) -> bool:
        """Return True if all these derivatives are rectangles of the same rows, at most `most`."""
        if any(isinstance(each, Dense) and isinstance(each.factor, Unformed) for each in edges):
            return False
        parts = [each if isinstance(each, Dense) else self._rectangle(each) for each in edges]
        rows = [rectangle.rows if rectangle is not None and rectangle.is_rectangle else None for rectangle in parts]
        first = rows[0]
        if first is None or len(first) > most:
            return False
        return all(each is not None and np.array_equal(each, first) for each in rows)

    def _by_indices(self, code: int, terms: Integers, indices: Integers, rows: int) -> Integers:
        if code == GATHER:
            return self.tape.gather(terms, indices)
        self.products.count += terms.size
        return self.tape.scatter(terms, indices, rows)

    def _as_matrix(self, edges: Sequence[Edge], tails: Range) -> tuple[Integers, Integers]:
        """Return the heads of derivatives with respect to an array, and the derivatives as a matrix of references.

        Raises:
            SizeError: if the matrix is too large.
        """
        parts = self.products.added([written_out(each) for each in edges])
        rows = np.unique(np.concatenate([references_in(each.heads) for each in parts]))
        if len(rows) * len(tails) > MOST_OF_LOOKUPS:
            raise SizeError(
                f"indices among the arguments select some of {len(tails):,} numbers, so the nonzeros of the "
                f"derivatives of {len(rows):,} results with respect to these depend on the indices; at most "
                f"{MOST_OF_LOOKUPS:,} such entries are supported. Make the indices static (static_argnums), or use "
                "products with the matrix (acc.jvp, acc.vjp)"
            )
        matrix = np.full((len(rows), len(tails)), self.tape.constant(0.0), np.int64)
        for each in parts:
            at = np.searchsorted(rows, references_in(each.heads)), references_in(each.tails) - tails.start
            matrix[at] = references_in(self.products.values(each))
        return rows, matrix

    # Untaken branches ---------------------------------------------------------------------------------------------

    def _is_guarded(self, one: Dense, other: Dense) -> bool:
        """Return True if an untaken branch makes one matrix 0 while the other may be infinite or NaN.

        Single products select an exact 0 there; a product of matrices would return NaN.
        """
        for guarded, factor in ((one, other), (other, one)):
            if isinstance(guarded.factor, Unformed) or isinstance(factor.factor, Inverse):
                continue  # LAPACK raises for singular matrices; all that depends on any other bad inverse is NaN
            if guarded.is_factor or self.products.guard(guarded.values) is None:
                continue
            matrix = factor.factor
            if isinstance(matrix, Slopes):
                return True
            if not (
                matrix.untransposed.is_finite
                if isinstance(matrix, ConstantMatrix)
                else self._intervals.is_finite(factor.values)
            ):
                return True
        return False

    # Sums --------------------------------------------------------------------------------------------------------

    def added(self, edges: Sequence[Edge]) -> list[Edge]:
        """Return these derivatives with equal positions added."""
        held = [each for each in edges if _is_constant_matrix(each)]
        if 0 < len(held) <= FEW_PARTS:
            rest = [each for each in edges if not _is_constant_matrix(each)]
            return [*held, *(self.added(rest) if rest else [])]
        edges = [written_out(each) if _is_constant_matrix(each) else each for each in edges]
        dense: list[Dense] = []
        marks: list[tuple[int, ...]] = []
        single: list[Entries] = []
        for each in edges:
            rectangle: Dense | None = None
            if isinstance(each, Dense):
                rectangle = each
            elif any(len(previous) == len(each) for previous in dense):
                rectangle = self._rectangle(each)
            if rectangle is None:
                single.append(written_out(each))
                continue
            mark = _mark(rectangle)
            for k, previous in enumerate(dense):
                matrix = _aligned_matrix(rectangle, previous) if marks[k] == mark else None
                if matrix is not None:
                    total = self.products.sum(previous.values, column(matrix))
                    dense[k] = Dense(
                        previous.heads, previous.tails, references_in(total).reshape(previous.matrix.shape)
                    )
                    break
            else:
                dense.append(rectangle)
                marks.append(mark)
        if len(dense) > FEW_PARTS:
            one = beside(dense)
            dense = dense if one is None else [one]
        if len(dense) > MOST_PARTS:
            single, dense = [*single, *(each.entries for each in dense)], []
        return [*dense, *(self.products.added(single) if single else [])]

    def rectangle(self, edges: Sequence[Edge]) -> Dense | None:
        """Return derivatives as one rectangle, rows and columns in order; None if they do not form one."""
        if any(map(_is_constant_matrix, edges)):
            return None
        parts = [each if isinstance(each, Dense) else self._rectangle(each) for each in edges]
        rectangles = [edge for edge in parts if edge is not None]
        return beside(rectangles) if len(rectangles) == len(parts) else None


def written_out(edge: Edge) -> Entries:
    """Return an edge as single entries."""
    return edge.entries if isinstance(edge, Dense) else edge


def _is_constant_matrix(edge: Edge) -> TypeGuard[Dense]:
    """Return True for a constant sparse matrix."""
    return isinstance(edge, Dense) and isinstance(edge.factor, ConstantMatrix)


def _turned(edge: Edge) -> Edge:
    return edge.transposed if isinstance(edge, Dense) else _transposed(edge)


def _transposed(entries: Entries) -> Entries:
    return Entries(entries.tails, entries.heads, entries.values)


def _is_aligned(outer: Dense, inner: Dense) -> bool:
    """Return True if the tails of one edge are the heads of the other, with the same copies."""
    return outer.tails.shape == inner.heads.shape and np.array_equal(outer.tails, inner.heads)


def _renames(outer: Entries, inner: Dense) -> bool:
    """Return True if entries are ones that map each head of a dense edge to one new head."""
    if outer.values is not None:
        return False
    heads, tails = references_in(outer.heads), references_in(outer.tails)
    if not (_are_distinct(heads) and _are_distinct(tails)):
        return False
    return bool(places(inner.heads.reshape(-1), tails)[1].all())


def _renamed(outer: Entries, inner: Dense) -> Dense:
    heads, tails = references_in(outer.heads), references_in(outer.tails)
    at, _ = places(inner.heads.reshape(-1), tails)
    return replace(inner, heads=heads[at].reshape(inner.heads.shape))


def _mark(edge: Dense) -> tuple[int, ...]:
    """Return a key that dense derivatives at the same positions share; others may share it, too."""
    heads, tails = edge.heads, edge.tails
    if not len(edge):
        return *heads.shape, *tails.shape
    ends = (int(each) for side in (heads, tails) for each in (side.min(), side.max(), side.sum()))
    return (*heads.shape, *tails.shape, *ends)


def _aligned_matrix(edge: Dense, other: Dense) -> Integers | None:
    """Return the matrix of an edge in the order of another edge at the same positions; None if positions differ."""
    if edge.heads.shape != other.heads.shape or edge.tails.shape != other.tails.shape:
        return None
    if np.array_equal(edge.heads, other.heads) and np.array_equal(edge.tails, other.tails):
        return edge.matrix
    if not (edge.is_rectangle and other.is_rectangle):
        return None
    down, is_there = places(other.rows, edge.rows)
    along, there = places(other.columns, edge.columns)
    return edge.matrix[down[:, np.newaxis], along] if is_there.all() and there.all() else None
