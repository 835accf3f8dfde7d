"""The Jacobian of a program over arrays, by two levels of elimination.

Inside each body, the Jacobian of its results with respect to its operands is planned and accumulated like that of any
function, once for all instances. Between bodies there is a graph whose vertices are arrays and whose edges are sparse
derivatives of one array with respect to another, entry by entry. Eliminating a vertex multiplies all entries through
it; the vertex with the fewest products is always next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries, Products, positions, selected, sorted_entries
from accumulus.arrays.factors import RULES, Factored
from accumulus.arrays.inverses import ConstantMatrix, Inverse, Slopes
from accumulus.arrays.scans import Factor, Recurrence, Way, dependences, opened_labels
from accumulus.arrays.structured import (
    IN_MATRICES,
    Dense,
    Edge,
    Lookup,
    Structured,
    of_product,
    parted,
    repeats,
    separating_axis,
    written_out,
)
from accumulus.arrays.through import through
from accumulus.arrays.verification import AnyEdge, Heads, verify_derivatives
from accumulus.context import Context
from accumulus.elimination.emit import emit
from accumulus.errors import SizeError
from accumulus.graph.linearize import linearize
from accumulus.graph.rotations import with_rotations
from accumulus.resubstitution.optimise import has_results_of
from accumulus.rewriting.optimise import preview
from accumulus.search.find import find_plan
from accumulus.search.plan import BodyPlan, Plan
from accumulus.tape.blocks import (
    FACTORS,
    GATHER,
    LOG_DETERMINANT,
    MATMUL,
    MOST_REPEATS,
    SCATTER,
    SOLVE,
    SPARSE_PRODUCT,
    SPARSE_SOLVE,
    Block,
    Opaque,
)
from accumulus.tape.columns import Column, Range, column, in_shapes, owners_in, references_in
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.fusion import Map, fuse
from accumulus.tape.moving import Moving
from accumulus.tape.program import MANY_BLOCKS, OpenIndicesError, Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape, to_bytes

Integers = NDArray[np.int64]
#: Vertex of the inputs, and vertex of the outputs.
_INPUTS: Final = -1
_OUTPUTS: Final = -2
#: Vertex of the directions, on which the inputs depend.
_DIRECTIONS: Final = -3
#: Owner of constants, and of inputs that derivatives are not taken with respect to.
_NO_ARRAY: Final = -4
#: Number of arrays, by the code of a block, that derivatives pass through but that are never computed.
_RESIDUALS: Final = {
    **dict.fromkeys((SOLVE, SPARSE_SOLVE, SPARSE_PRODUCT, GATHER, SCATTER), 1),
    **{code: count for code, (count, _) in RULES.items()},
}
#: Largest number of products in one elimination between arrays: their indices must fit into memory. More exhaust it,
#: fewer refuse derivatives that fit.
MOST: Final = 200_000_000
#: Size, in operations, above which a body with its derivatives stays one block. Products with its derivatives are then
#: separate blocks, and Python does no work for each of its operations; below, products are simplified together with the
#: body, and fewer values pass through memory.
LONG_BODY: Final = 2_000
#: First limit on products in the search for ways through recurrences, if only recurrences are left. A larger limit
#: spends time on expensive ways before it tries the others, a smaller one searches more often.
FIRST: Final = 100_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Inputs chosen by indices that the program computes; each is one column of the Jacobian.

    Attributes:
        columns: references of values that hold the input's number.
        groups: group of each column; one index chooses all columns of a group.
        ranks: rank of each column within its group, by the input's number.
        first, last: smallest and largest input number that a column may hold.
    """

    columns: Integers
    groups: Integers
    ranks: Integers
    first: Integers
    last: Integers


@dataclass(frozen=True, slots=True)
class ArrayJacobian:
    """A program that computes values and the Jacobian's nonzeros."""

    tape: Program  # its outputs are the function's own, then the nonzeros row by row
    values: int  # number of outputs that are the function's own
    # rows, columns: output and input of each nonzero, sorted; columns of `opened` are numbered after the inputs
    rows: Integers
    columns: Integers
    bodies: tuple[BodyPlan, ...]  # plans of the bodies of the function
    products: int  # scalar products between bodies
    opened: Opened | None = None


def differentiate(
    tape: Program,
    inputs: Sequence[int] | Integers,
    context: Context,
    directions: Integers | None = None,
    owners: Integers | None = None,
    *,
    by_products: bool = False,
) -> ArrayJacobian:
    """Accumulate the Jacobian of a program's outputs with respect to some inputs, or its product with directions.

    Args:
        tape: program to differentiate.
        inputs: inputs to differentiate with respect to.
        context: options and deadline.
        directions: (directions, inputs), the inputs that hold the entries of each direction. Columns of the result are
            then directions. They are one more array that the inputs depend on, so the Jacobian is formed only if that
            is cheaper.
        owners: argument that each input belongs to, if positions of nonzeros may depend on indices; None to return
            every entry that may be nonzero.
        by_products: if True, products with Jacobians of opaque functions may be calls, which cannot be differentiated.
            Attached derivatives that last (`accumulus.tape.live.lasting`) are dropped, too.

    Raises:
        OpenIndicesError: if `owners` is given and rows at indices are not inputs of one argument.
        SizeError: if the products between arrays do not fit into memory, or a `ManyBlocksError`.
        VerificationError: if the result differs from the Jacobian in the exact check.
    """
    with context.paused():  # except while bodies are planned
        return _Accumulating(tape, np.asarray(inputs, np.int64), context, directions, owners, by_products).result()


class _Accumulating:
    def __init__(
        self,
        tape: Program,
        inputs: Integers,
        context: Context,
        directions: Integers | None,
        owners: Integers | None,
        by_products: bool,
    ) -> None:
        self._by_products = by_products
        #: Calls for derivatives of opaque functions; see `Slopes`.
        self.calls: dict[int, tuple[Slopes, int | None]] = {}
        self.original, self.context = tape, context
        self.made = Program(tape.inputs, most=MANY_BLOCKS)
        self.products = Products(self.made)
        self.structured = Structured(self.products)
        #: Map from references in the given program to references in the new one.
        self.moving = Moving(tape, self.made, np.arange(tape.inputs))
        #: True for inputs that derivatives are not taken with respect to.
        self._is_constant_input = np.ones(tape.inputs, bool)
        self._is_constant_input[inputs] = False
        #: Derivatives pass through arrays that are never computed. Their references are numbered after all others. They
        #: are residuals of systems and factorisations, factors of products, and the rows that indices select from. Keys
        #: are positions of blocks.
        beside = [(k, size) for k, block in enumerate(tape.blocks) for size in self._sizes_beside(block)]
        self._factors = [position for position, _ in beside]
        self._residual_sizes = [size for _, size in beside]
        self._residuals: dict[int, list[int]] = {}
        for vertex, position in enumerate(self._factors, len(tape.blocks)):
            self._residuals.setdefault(position, []).append(vertex)
        #: Matrices (references, row by row) whose inverses the derivatives of determinants need in any case.
        self._inverted = {
            references_in(block.operands[0]).tobytes() for block in tape.blocks if block.code == LOG_DETERMINANT
        }
        *self._residual_starts, end = accumulate(self._residual_sizes, initial=len(tape) + len(tape.outputs))
        #: True for inputs to differentiate with respect to, and for results that depend on them.
        self.active = np.zeros(end, bool)
        self.active[inputs] = True
        self.edges: dict[tuple[int, int], list[Edge]] = {}
        #: Derivatives whose positions depend on indices, by (head, tail).
        self.lookups: dict[tuple[int, int], Lookup] = {}
        #: Gathers from inputs whose derivatives stay open, with the table of these inputs; by block.
        self._owners = owners
        self.open: dict[int, tuple[Lookup, Integers]] = {}
        #: Derivatives of the inputs with respect to directions, if any; then the vertex and size of the final tails.
        self.directions: list[Edge] = []
        self.ends, self.end_count = _INPUTS, tape.inputs
        if directions is not None:
            self.ends, self.end_count = _DIRECTIONS, len(directions)
            heads = column(inputs)
            self.directions += [
                Entries(heads, Range(k, 0, len(inputs)), column(row)) for k, row in enumerate(directions) if len(inputs)
            ]
        #: Heads and tails of the edges at each array, while arrays are eliminated.
        self._heads_of: dict[int, set[int]] = {}
        self._tails_of: dict[int, set[int]] = {}
        self._accumulated: dict[object, tuple[Tape, list[tuple[int, int, int]], Plan]] = {}
        self.bodies: list[BodyPlan] = []
        #: Recurrences (results depend on earlier results of the same block), and the ways through them found so far.
        self.recurrences: dict[int, Recurrence] = {}
        self._ways: dict[int, Way] = {}
        #: Arrays next to which one was eliminated since a way through them was looked for.
        self._outdated: set[int] = set()
        #: Cost of each elimination, and the limit on products of the last search for a way through each recurrence.
        self._costs: dict[int, tuple[float, int]] = {}
        self._tried: dict[int, int] = {}

    def result(self) -> ArrayJacobian:
        maps = fuse(self.original)
        for each in maps:
            self.context.report("plan")
            with self.made.located(self.original.lines_of(each.blocks)):
                self._add(each)
        outputs = self.original.outputs
        ends = Range(len(self.original), 1, len(outputs))  # rows, so that a value that is returned twice has two
        self._add_edges(_OUTPUTS, ends, column(outputs), None)
        vertices = [vertex for each in maps for block in each.results for vertex in self._vertices(block)]
        heads = self._heads([*vertices, _OUTPUTS])
        opened, taken = self._opened()
        if self.directions:
            self.edges[_INPUTS, _DIRECTIONS] = self.directions
            vertices.append(_INPUTS)
        self._eliminate(set(vertices) - self.open.keys())
        rows, columns, values = self._collected()
        nonzeros = rows, columns, values
        seed, directions = self.context.options.seed, None if self.ends == _INPUTS else self.directions
        verify_derivatives(
            self.made, self.end_count, heads, nonzeros, self.products.rounded, seed, directions, taken, self.calls
        )
        self.made.outputs = np.concatenate([self.moving.at(outputs), values])
        bodies = tuple(self.bodies)
        return ArrayJacobian(self.made, len(outputs), rows, columns, bodies, self.products.count, opened)

    def _opened(self) -> tuple[Opened | None, Integers]:
        """Return the inputs at open indices, and the references of the program that stand for them."""
        parts: list[Opened] = []
        taken: list[Integers] = []
        groups = 0
        for position, (lookup, rows) in self.open.items():
            self.lookups = {key: each for key, each in self.lookups.items() if key[0] != position}
            self.edges = {key: edges for key, edges in self.edges.items() if key[0] != self._residuals[position][0]}
            (m, _, n), ranks = lookup.shape, np.argsort(np.argsort(rows, axis=1), axis=1)
            if (ranks != ranks[:1]).any():
                raise OpenIndicesError
            numbers = self.made.constant_array(rows.astype(np.float64))
            columns = self.made.gather(numbers, lookup.indices).reshape(-1)
            group_of, several = np.repeat(np.arange(groups, groups + m), n), (m * n,)
            ends = [np.full(several, end, np.int64) for end in (rows.min(), rows.max())]
            parts.append(Opened(columns, group_of, np.tile(ranks[0], m), *ends))
            taken.append(lookup.heads.references)
            groups += m
        if not parts:
            return None, np.empty(0, np.int64)
        fields = ("columns", "groups", "ranks", "first", "last")
        whole = Opened(*(np.concatenate([getattr(opened, name) for opened in parts]) for name in fields))
        return whole, np.concatenate(taken)

    # Values and derivatives of bodies ----------------------------------------------------------------------------

    def _add(self, each: Map) -> None:
        if each.is_sum:
            self._add_sums(each)
        elif each.shape is not None:
            self._add_of_matrices(each)
        elif each.steps is not None:
            self._add_recurrence(each)
        else:
            self._add_body(each)

    def _add_sums(self, each: Map) -> None:
        (position,) = each.blocks
        block = self.original.blocks[position]
        assert block.offsets is not None
        terms = block.operands[0]
        self.moving.note(block.start, self.made.sums(self.moving.at(references_in(terms)), block.offsets))
        heads = np.repeat(np.arange(block.start, block.start + block.size), np.diff(block.offsets))
        self._add_edges(position, column(heads), terms, None)

    def _sizes_beside(self, block: Block) -> list[int]:
        """Return the lengths of the arrays that derivatives of a block pass through and that are never computed."""
        if block.code == MATMUL:
            return [
                len(operand) for operand, is_mixed in zip(block.operands, self._mixed(block), strict=True) if is_mixed
            ]
        length = len(block.operands[0]) if block.code in (GATHER, SCATTER, SPARSE_PRODUCT) else block.size
        return [length] * _RESIDUALS.get(block.code, 0)

    def _mixed(self, block: Block) -> list[bool]:
        """Return True for factors of a product whose entries come from several arrays, or constants, in no order.

        Derivatives with respect to such a factor would be single entries. With respect to an array that is the factor
        they are matrices. If few entries are active, single entries cost less.
        """
        mixed = []
        for operand, shape in zip(block.operands, block.operand_shapes, strict=True):
            is_range = isinstance(operand, Range) and (operand.step != 0 or operand.start < 0)
            if is_range and len(owners_in(self.original.starts, operand)) == 1:
                mixed.append(False)
                continue
            tails = references_in(operand).reshape(*shape, 1)
            owners = np.searchsorted(self.original.starts, tails, side="right") - 1
            is_input = (tails >= 0) & (owners == _INPUTS)
            owners[(tails < 0) | (is_input & self._is_constant_input[np.where(is_input, tails, 0)])] = _NO_ARRAY
            is_full = bool(np.count_nonzero(owners != _NO_ARRAY) >= IN_MATRICES * tails.size)
            mixed.append(is_full and separating_axis(owners, tails) is None)
        return mixed

    def _vertices(self, block: int) -> list[int]:
        """Return the vertices of a block, in the order in which they can be computed."""
        return [*self._residuals.get(block, []), block]

    def _add_of_matrices(self, each: Map) -> None:
        (position,) = each.blocks
        block = self.original.blocks[position]
        assert block.shape is not None
        m, _, n = block.shape
        shapes = block.operand_shapes
        factors = [
            references_in(operand).reshape(shape) for operand, shape in zip(block.operands, shapes, strict=False)
        ]
        matrices = [self.moving.at(factor) for factor in factors]
        computed = self.made.of_matrices(block.code, block.shape, matrices, block.opaque)
        self.moving.note(block.start, computed)
        if isinstance(block.opaque, SparseSystem):
            self._add_system(position, (factors[0], factors[1]), matrices[0], computed.reshape(m, n), block.opaque)
        elif isinstance(block.opaque, SparseMatrix):
            (vertex,), taken = self._residuals[position], factors[0].reshape(1, -1, n)
            results = block.results.references.reshape(1, -1, n)
            self._add_through(position, vertex, taken, Dense(results, taken, ConstantMatrix(self.made, block.opaque)))
        elif block.opaque is not None:
            arguments = factors[0].reshape(-1)[1:]
            active = np.flatnonzero((arguments >= 0) & self.active[np.maximum(arguments, 0)])
            if len(active):
                slopes = self._slopes(block.opaque, matrices[0].reshape(-1), active)
                rows, columns = block.results.references.reshape(1, -1, 1), arguments[active].reshape(1, -1, 1)
                self._add_dense(position, Dense(rows, columns, slopes))
        elif block.code in (GATHER, SCATTER):
            self._add_lookup(position, factors[0], matrices[1].reshape(-1))
        elif block.code == MATMUL:
            parts = of_product(
                factors[0], factors[1], block.results.references.reshape(m, n), (matrices[0], matrices[1])
            )
            vertices = iter(self._residuals.get(position, ()))
            mixed = self._mixed(block) if position in self._residuals else [False, False]
            for dense, factor, is_mixed in zip(parts, factors, mixed, strict=True):
                if is_mixed:
                    self._add_through(position, next(vertices), factor, dense)
                else:
                    self._add_dense(position, dense)
        elif block.code == SOLVE:
            self._add_system(position, (factors[0], factors[1]), matrices[0], computed.reshape(m, n))
        elif block.code in RULES:
            self._add_factorisation(position, factors[0], matrices[0], computed)
        elif self._is_active(column(factors[0])):
            inverse = self.made.solve(matrices[0], self.made.constant_array(np.eye(m)))
            logarithm = np.array([block.start + 1])
            self._add_dense(position, Dense.of(logarithm, factors[0].reshape(-1), inverse.T.reshape(1, -1)))

    def _slopes(self, opaque: Opaque, numbers: Integers, by: Integers) -> Integers | Slopes:
        """Return columns of the Jacobian of an opaque function with respect to the arguments at positions `by`."""
        slopes = Slopes(self.made, opaque, numbers, by, np.arange(len(by)), self.calls)
        return slopes if self._by_products and slopes.has_products else slopes.formed

    def _add_system(
        self,
        position: int,
        operands: tuple[Integers, Integers],
        matrix: Integers,
        solutions: Integers,
        system: SparseSystem | None = None,
    ) -> None:
        """Add the derivatives of X, where A·X = B.

        With respect to the residual R = B - A·X they are A⁻¹. The residual's derivatives, at constant X, are -Xᵀ with
        respect to A and 1 with respect to B. For a sparse A, they are rows of -X with respect to stored entries.
        """
        (by, sides), (vertex,) = operands, self._residuals[position]
        if not any(self._is_active(column(each)) for each in operands):
            return
        residuals = np.arange(solutions.size).reshape(solutions.shape) + self._place(vertex)[0]
        if self._is_active(column(by)):
            negative = self.made.apply("negative", solutions).T
        if self._is_active(column(by)) and system is not None:
            tails = np.broadcast_to(by.reshape(-1, 1), (by.size, solutions.shape[1]))
            values = column(negative.T[system.columns])
            self._add_edges(vertex, column(residuals[system.rows]), column(tails), values)
        elif self._is_active(column(by)):
            self._add_dense(vertex, Dense(residuals[:, :, np.newaxis], by[:, :, np.newaxis], negative, is_factor=True))
        self._add_edges(vertex, column(residuals), column(sides), None)
        results = self.original.blocks[position].results.references.reshape(solutions.shape)
        inverse = Inverse(self.made, matrix if system is None else matrix.reshape(-1), len(solutions), system)
        is_formed = by.tobytes() in self._inverted
        self.active[results] = True
        factor = inverse.formed if is_formed else inverse
        self.edges[position, vertex] = [Dense(results[np.newaxis], residuals[np.newaxis], factor)]

    def _add_through(self, position: int, vertex: int, taken: Integers, dense: Dense) -> None:
        """Add derivatives with respect to an operand through an array that equals it and is never computed.

        Args:
            position: block that is differentiated.
            vertex: vertex of the array.
            taken: references of the operand.
            dense: derivatives with respect to the operand; its tails have the operand's entries in order.
        """
        if not self._is_active(column(taken)):
            return
        every = self._all(vertex)
        self._add_edges(vertex, column(every), column(taken), None)
        self.active[dense.heads] = True
        self.edges.setdefault((position, vertex), []).append(replace(dense, tails=every.reshape(dense.tails.shape)))

    def _add_lookup(self, position: int, rows: Integers, indices: Integers) -> None:
        """Add derivatives of a gather or scatter with respect to an array that equals its rows."""
        if not self._is_active(column(rows)):
            return
        block, (vertex,) = self.original.blocks[position], self._residuals[position]
        assert block.shape is not None
        first, size = self._place(vertex)
        beside = Range(first, 1 if size > 1 else 0, size)
        self._add_edges(vertex, beside, column(rows), None)
        self.active[block.results.references] = True
        self.lookups[position, vertex] = lookup = Lookup(block.code, block.shape, block.results, beside, indices)
        if self._owners is not None:
            is_input = (rows >= 0) & (rows < self.original.inputs)
            if block.code != GATHER or not (
                is_input.all() and self.active[rows].all() and _are_equal(self._owners[rows])
            ):
                raise OpenIndicesError
            self.open[position] = lookup, rows

    def _add_factorisation(self, position: int, references: Integers, matrix: Integers, parts: Integers) -> None:
        """Add the derivatives of a factorisation by its rule, if it depends on any input."""
        if not self._is_active(column(references)):
            return
        block = self.original.blocks[position]
        vertices, inner = self._vertices(position), [self._all(vertex) for vertex in self._residuals.get(position, [])]
        shapes = FACTORISATIONS[block.code].shapes(*references.shape) if block.code in FACTORS else [references.shape]
        values, results = (in_shapes(each, shapes) for each in (parts.reshape(-1), block.results.references))
        for head, tail, edge in RULES[block.code][1](Factored(self.made, references, matrix, values, results, inner)):
            if tail is not None:
                self.edges.setdefault((vertices[head], vertices[tail]), []).append(edge)
            elif isinstance(edge, Dense):
                self._add_dense(vertices[head], edge)
            else:
                self._add_edges(vertices[head], edge.heads, edge.tails, edge.values)
        for every in (*inner, block.results.references):
            self.active[every] = True

    def _all(self, vertex: int) -> Integers:
        """Return references of all entries of an array."""
        start, size = self._place(vertex)
        return np.arange(start, start + size)

    def _add_body(self, each: Map) -> None:
        blocks = self.original.blocks
        active = [k for k, leaf in enumerate(each.leaves) if self._is_active(leaf)]
        tape, entries = self._accumulate(each, tuple(active))
        leaves = [self.moving.column_at(leaf) for leaf in each.leaves] or [Range(0, 0, each.count)]
        if tape.operations > LONG_BODY:
            outputs = self.made.loop(tape, leaves, each.count)
        else:
            outputs = self.made.extend(tape, leaves)
        for start, values in zip(each.starts, outputs, strict=False):
            self.moving.note(start, values)
        for row, leaf, output in entries:
            position = each.results[row]
            number = self.made.uniform(outputs[output])
            if number != 0.0:
                factor = None if number == 1.0 else outputs[output]
                self._add_edges(position, blocks[position].results, each.leaves[leaf], factor)

    def _add_recurrence(self, each: Map) -> None:
        (position,) = each.blocks
        block, count = self.original.blocks[position], each.count
        assert each.steps is not None
        from_itself = [(r >= block.start) & (r < block.start + block.size) for r in map(references_in, each.leaves)]
        rows, active = self._active_parts(each, from_itself)
        tape, entries = self._accumulate(each, tuple(active))
        body, opened = opened_labels(tape, [output for _, _, output in entries])
        labels = sorted({reference for label in opened for reference in label.references if reference >= body.inputs})
        body.outputs = [*body.outputs[: len(each.starts)], *labels]

        def operands(results: list[Range]) -> list[Column]:
            for start, result in zip(each.starts, results, strict=False):
                self.moving.note(start, result)
            return [self.moving.column_at(leaf) for leaf in each.leaves]

        results = self.made.scan(body, operands, each.steps)
        columns = operands(results)  # `scan` may have returned an equal, earlier one
        places: dict[int, Column] = dict(enumerate(columns))
        places.update(zip(labels, results[len(each.starts) :], strict=True))
        slots = [leaf for leaf in active if from_itself[leaf].any()]
        inner: dict[tuple[int, int], Factor] = {}
        single: list[tuple[int, int, Column | None]] = []
        for (row, leaf, _), label in zip(entries, opened, strict=True):
            factor = label.factor(self.made, places, count)
            if factor.number == 0.0:
                continue
            start, outside = each.starts[row], ~from_itself[leaf]
            if outside.any():
                heads, values = Range(start, 1 if count > 1 else 0, count), factor.closed(self.products, count)
                chosen = Range(0, 1, count) if outside.all() else outside
                values = None if values is None else selected(values, chosen)
                if count == 1:
                    single.append((start, int(references_in(each.leaves[leaf])[0]), values))
                    continue
                self._add_edges(position, selected(heads, chosen), selected(each.leaves[leaf], chosen), values)
            if leaf in slots:
                inner[rows.index(row), slots.index(leaf)] = factor
        if single:
            self._add_single(position, single)
        for row in rows:
            self.active[each.starts[row] : each.starts[row] + count] = True
        if inner:
            outputs = [(each.starts[row] - block.start) // count for row in rows]
            leaves = [each.leaves[leaf] for leaf in slots]
            self.recurrences[position] = Recurrence(block.start, count, each.steps, outputs, leaves, inner)

    def _add_single(self, position: int, derivatives: Sequence[tuple[int, int, Column | None]]) -> None:
        """Add derivatives of single results with respect to single values, together: one matrix for each array."""
        heads, tails = (np.array(each, np.int64) for each in zip(*((a, b) for a, b, _ in derivatives), strict=True))
        values = None
        if any(value is not None for *_, value in derivatives):
            one = self.made.constant(1.0)
            values = np.array([one if value is None else references_in(value)[0] for *_, value in derivatives])
        self._add_edges(position, column(heads), column(tails), None if values is None else column(values))

    def _active_parts(self, each: Map, from_itself: Sequence[NDArray[np.bool_]]) -> tuple[list[int], list[int]]:
        """Return outputs and leaves of a recurrence that depend on inputs to differentiate with respect to."""
        leaves = [references_in(leaf) for leaf in each.leaves]
        count, first = each.count, each.starts[0]
        outside = [r[~mine & (r >= 0)] for r, mine in zip(leaves, from_itself, strict=True)]
        active = {k for k, references in enumerate(outside) if self.active[references].any()}
        # results lie one after the other, each with all its instances
        from_own = [
            set((first + (r[mine] - first) // count * count).tolist())
            for r, mine in zip(leaves, from_itself, strict=True)
        ]
        depends = dependences(each.body)
        while True:
            rows = [row for row, on in enumerate(depends) if on & active]
            starts = {each.starts[row] for row in rows}
            further = {k for k, taken in enumerate(from_own) if taken & starts} - active
            if not further:
                return rows, sorted(active)
            active |= further

    def _is_active(self, leaf: Column) -> bool:
        stretch = _stretch(leaf)
        if stretch is not None:
            return bool(self.active[stretch].any())
        references = references_in(leaf)
        return bool(self.active[references[references >= 0]].any())

    def _accumulate(self, each: Map, active: tuple[int, ...]) -> tuple[Tape, list[tuple[int, int, int]]]:
        """Return a tape of a body's values and derivatives, with (result, leaf, output position) of each derivative."""
        body, key = each.body, (to_bytes(each.body), active)
        if key not in self._accumulated:
            first = self._planned(body, active)
            made = [first]
            if self._by_products and self.context.options.compares_rewritten:  # derivatives by a theorem are first ones
                for other in with_rotations(body):
                    planned = self._planned(other, active)
                    if planned[1] == first[1] and has_results_of(planned[0], first[0], self.context, None):
                        made.append(planned)
            costs = [preview(tape, self.context) for tape, _, _ in made] if len(made) > 1 else [0]
            self._accumulated[key] = made[int(np.argmin(costs))]
        tape, entries, plan = self._accumulated[key]
        lines = frozenset(self.original.lines_of(each.blocks))
        self.bodies.append(BodyPlan(each.count, key[0], plan, lines))
        return tape, entries

    def _planned(self, body: Tape, active: tuple[int, ...]) -> tuple[Tape, list[tuple[int, int, int]], Plan]:
        """Return a tape of a body's values and derivatives, the places of the derivatives, and the plan."""
        linearization = linearize(body, active, keeping=not self._by_products)
        with self.context.running():
            plan = find_plan(linearization.graph, self.context.planning(len(linearization.graph.sources)))
        of_root: dict[int, list[tuple[int, int]]] = {}
        for position, (root, terminal) in enumerate(sorted(plan.accumulation.entries), len(body.outputs)):
            of_root.setdefault(root, []).append((linearization.columns[terminal], position))
        entries = [
            (row, leaf, position)
            for row, root in enumerate(linearization.rows)
            for leaf, position in of_root.get(root, [])
        ]
        return emit(plan.accumulation), entries, plan

    def _heads(self, vertices: Sequence[int]) -> list[Heads]:
        """Return the current derivatives of arrays with respect to the arrays that they depend on."""
        of: dict[int, list[AnyEdge]] = {}
        for (head, _), entries in self.edges.items():
            of.setdefault(head, []).extend(entries)
        for (head, _), lookup in self.lookups.items():
            of[head] = [lookup]
        return [(*self._place(vertex), of.get(vertex, []), self.recurrences.get(vertex)) for vertex in vertices]

    def _place(self, vertex: int) -> tuple[int, int]:
        """Return the first entry of an array, and its size."""
        if vertex == _INPUTS:
            return 0, self.original.inputs
        if vertex == _OUTPUTS:
            return len(self.original), len(self.original.outputs)
        blocks = self.original.blocks
        if vertex >= len(blocks):
            k = vertex - len(blocks)
            return self._residual_starts[k], self._residual_sizes[k]
        return blocks[vertex].start, blocks[vertex].size

    def _rank(self, vertex: int) -> float:
        """Return the position of a vertex in the order in which arrays can be computed."""
        k = vertex - len(self.original.blocks)
        if k < 0:
            return vertex
        beside = self._residuals[self._factors[k]]
        return self._factors[k] - 1 + (1 + beside.index(vertex)) / (1 + len(beside))

    # Elimination between arrays ----------------------------------------------------------------------------------

    def _add_edges(self, head: int, heads: Column, tails: Column, values: Column | None) -> None:
        """Add entries, separated by the arrays of their tails; entries whose tails are constants are dropped."""
        sources = owners_in(self.original.starts, tails)  # the first, -1, are inputs and constants
        stretch, marked = _stretch(tails), _stretch(heads)
        if stretch is not None and marked is not None and len(sources) == 1 and self.active[stretch].all():
            if head >= 0:
                self.active[marked] = True
            self.edges.setdefault((head, sources[0]), []).append(Entries(heads, tails, values))
            return
        references = references_in(tails)
        active = self.active[np.maximum(references, 0)]
        if self.moving.has_constants:
            active &= references >= 0
        if not active.any():
            return
        if head >= 0:
            self.active[references_in(heads)[active]] = True
        for source in sources:
            if len(sources) == 1:
                inside = active
            elif source == _INPUTS:
                inside = active & (references < self.original.inputs)
            else:
                block = self.original.blocks[source]
                inside = active & (references >= block.start) & (references < block.start + block.size)
            if inside.all():
                entries = Entries(heads, tails, values)
            elif inside.any():
                entries = Entries(
                    selected(heads, inside),
                    selected(tails, inside),
                    None if values is None else selected(values, inside),
                )
            else:
                continue
            self.edges.setdefault((head, source), []).append(entries)

    def _add_dense(self, head: int, dense: Dense) -> None:
        """Add a dense edge, as `_add_edges` does."""
        if not self._is_active(column(dense.tails)):
            return
        parts = parted(dense, self._sources)
        if parts is None and isinstance(dense.factor, Slopes):
            again = repeats(dense.columns)
            if again.max() < MOST_REPEATS:  # these share one call, if it is of the transpose
                for k in range(int(again.max()) + 1):
                    (chosen,) = np.nonzero(again == k)
                    factor = dense.factor.columns(chosen)
                    self._add_dense(head, replace(dense, tails=dense.tails[:, chosen], factor=factor))
                return
        if parts is None:
            entries = dense.entries
            self._add_edges(head, entries.heads, entries.tails, entries.values)
            return
        for source, piece in parts:
            self.active[piece.heads] = True
            self.edges.setdefault((head, source), []).append(piece)

    def _sources(self, references: Integers) -> Integers:
        """Return the array that owns each reference, `_NO_ARRAY` if it depends on no input."""
        inside = (references >= 0) & self.active[np.maximum(references, 0)]
        return np.where(inside, np.searchsorted(self.original.starts, references, side="right") - 1, _NO_ARRAY)

    def _eliminate(self, vertices: set[int]) -> None:
        for head, tail in self.edges:
            self._heads_of.setdefault(tail, set()).add(head)
            self._tails_of.setdefault(head, set()).add(tail)
        # with one direction, forward elimination takes one product for each entry of an edge, and no array gets wider
        forward = self.ends == _DIRECTIONS and self.end_count == 1 < len(self.original.outputs)
        # with one result, reverse elimination does so; the cheapest vertex now may form a matrix that is never needed
        backward = len(self.original.outputs) == 1
        going_forward = forward or not (backward or len(self.original.outputs) <= self.end_count)
        ordered = sorted(vertices, key=self._rank, reverse=going_forward)  # the next one is the last
        while vertices:
            while ordered[-1] not in vertices:
                ordered.pop()
            free = set[int]()
            if not (forward or backward):
                # derivatives at indices are known once nothing is left on one side of them
                mixed = {each for each in self.recurrences.keys() & vertices if self._has_mixed_tails(each)}
                free = vertices.difference(mixed, *self.lookups)
            vertex, products = self._cheapest(free or {ordered[-1]})
            if products > MOST:
                raise SizeError(
                    f"{products:,} products of derivatives between arrays are needed, and at most {MOST:,} are "
                    "supported; expected arrays whose derivatives are sparse, or smaller ones"
                )
            vertices.remove(vertex)
            self._eliminate_vertex(vertex)

    def _has_mixed_tails(self, vertex: int) -> bool:
        """Return True for a recurrence that depends on directions and other arrays, whose numbers may be equal."""
        tails = self._tails_of.get(vertex, set())
        return vertex in self.recurrences and _DIRECTIONS in tails and len(tails) > 1

    def _cheapest(self, vertices: set[int]) -> tuple[int, int]:
        """Return the array whose elimination costs least, and its number of products.

        The search for a way through an expensive recurrence takes long, so it is limited to the products that could
        still be the fewest. After a neighbour has changed, a way is looked for again only if the former one is the
        cheapest, or if there was none within a smaller limit (M. Minoux, Accelerated greedy algorithms, 1978):
        eliminations next to a recurrence rarely make it cheaper.
        """
        recurrent = {v for v in vertices if v in self.recurrences and all(self._edges_at(v))}
        for vertex in vertices - recurrent - self._costs.keys():
            self._costs[vertex] = self._cost(vertex)
        costs = {vertex: self._costs[vertex] for vertex in vertices - recurrent}
        limit = min([MOST, *(int(cost) for cost, _ in costs.values())]) if costs else min(FIRST, MOST)
        while True:
            for vertex in recurrent - self._ways.keys():
                self._find_way(vertex, limit)
            ways = {vertex: self._ways[vertex].products for vertex in recurrent & self._ways.keys()}
            candidates = costs | {vertex: (products, products) for vertex, products in ways.items()}
            chosen = min(candidates, key=lambda v: (candidates[v][0], -v), default=None)
            if chosen in self._ways and chosen in self._outdated:
                del self._ways[chosen], self._tried[chosen]
                others = [int(cost) for vertex, (cost, _) in candidates.items() if vertex != chosen]
                self._find_way(chosen, min([*others, MOST]))
            elif chosen is not None:
                return chosen, candidates[chosen][1]
            elif limit < MOST:
                limit = min(8 * limit, MOST)
            elif self._outdated.isdisjoint(recurrent):
                return min(recurrent), MOST + 1
            else:
                for vertex in recurrent & self._outdated:
                    self._tried.pop(vertex, None)

    def _find_way(self, vertex: int, limit: int) -> None:
        """Find the cheapest way through a recurrence of at most so many products, unless there is known to be none."""
        tried = self._tried.get(vertex, -1)
        if tried < limit:
            self._outdated.discard(vertex)
            limit = min(max(limit, 8 * tried), MOST)  # since it is likely to grow again
            above, below = map(self._entries_of, self._edges_at(vertex))
            way = self.recurrences[vertex].cheapest(above, below, limit)
            self._tried[vertex] = limit
            if way is not None:
                self._ways[vertex] = way

    def _edges_at(self, vertex: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        above = [(head, vertex) for head in sorted(self._heads_of.get(vertex, ()))]
        below = [(vertex, tail) for tail in sorted(self._tails_of.get(vertex, ()))]
        return above, below

    def _cost(self, vertex: int) -> tuple[float, int]:
        """Return the cost of eliminating an array, and the number of its products that are written entry by entry."""
        start, size = self._place(vertex)
        keys = self._edges_at(vertex)
        above, below = ([each for ends in side for each in self.edges[ends]] for side in keys)
        into, out_of = np.zeros((2, size), np.int64)
        for counts, edges, side in ((into, above, 1), (out_of, below, 0)):
            for entries in edges:
                if isinstance(entries, Dense):
                    continue
                places = positions(entries.tails if side else entries.heads, start)
                if isinstance(places, Range) and abs(places.step) == 1:
                    low, _ = places.ends
                    counts[low : low + places.count] += 1
                else:
                    np.add(counts, np.bincount(references_in(places), minlength=size), out=counts)
        single = int(into @ out_of)
        matrices = [each for each in above if isinstance(each, Dense)]
        pairs: list[tuple[Edge, Edge]] = [(outer, inner) for outer in matrices for inner in below]
        if any(isinstance(each, Dense) for each in below):
            scattered = [each for each in above if not isinstance(each, Dense)]
            pairs += [(outer, inner) for inner in below if isinstance(inner, Dense) for outer in scattered]
        dense = [self.structured.cost(*pair) for pair in pairs]
        return single + sum(cost for cost, _ in dense), single + sum(count for _, count in dense)

    def _entries_of(self, keys: Sequence[tuple[int, int]]) -> list[Entries]:
        return [written_out(each) for key in keys for each in self.edges[key]]

    def _pass_through(self, vertex: int) -> None:
        """Replace the derivatives on one side of a recurrence by derivatives through all its steps.

        Forward, these are derivatives of its results with respect to outside operands; in reverse, derivatives of its
        dependents with respect to its results.
        """
        above, below = self._edges_at(vertex)
        if not above or not below:
            return
        way = self._ways[vertex]
        keys = above if way.is_reverse else below
        passed = through(self.recurrences[vertex], way, self._entries_of(keys), self.products)
        ends = references_in(passed.heads if way.is_reverse else passed.tails)
        for key in keys:
            other = key[0] if way.is_reverse else key[1]
            if other == _DIRECTIONS:  # the only tails then: inputs have been eliminated
                inside = np.ones(len(ends), bool)
            else:
                start, size = self._place(other)
                inside = (ends >= start) & (ends < start + size)
            self.edges[key] = [passed.chosen(inside)] if inside.any() else []

    def _eliminate_vertex(self, vertex: int) -> None:
        if vertex in self.recurrences:
            self._pass_through(vertex)
        for head, tail in [key for key in self.lookups if vertex in key]:
            self._look_up(head, tail, self.lookups.pop((head, tail)), going_back=vertex == head)
        above, below = self._edges_at(vertex)
        for neighbour in {vertex for ends in (*above, *below) for vertex in ends}:
            self._costs.pop(neighbour, None)
            self._outdated.add(neighbour)
        for head, _ in above:
            for _, tail in below:
                made, (first, size) = list(self.edges.get((head, tail), [])), self._place(vertex)
                whole = Range(first, 1 if size > 1 else 0, size)
                for outer in self.structured.together(self.edges[head, vertex], self.edges[vertex, tail], whole):
                    for inner in self.edges[vertex, tail]:
                        made += self.structured.chained(outer, inner, first, size)
                if made:
                    # edges that are not multiplied again may repeat positions: `_collected` adds them
                    final = head == _OUTPUTS and tail == self.ends
                    self._heads_of[tail].add(head)
                    self._tails_of[head].add(tail)
                    self.edges[head, tail] = made if final else self.structured.added(made)
        self.structured.forget()
        for ends in (*above, *below):
            del self.edges[ends]
        for head, _ in above:
            self._tails_of[head].discard(vertex)
        for _, tail in below:
            self._heads_of[tail].discard(vertex)

    def _look_up(self, head: int, tail: int, lookup: Lookup, *, going_back: bool) -> None:
        """Multiply a lookup with the derivatives of its dependents (`going_back`), or of its rows."""
        above, below = self._edges_at(head)[0], self._edges_at(tail)[1]
        for outer, inner in [(each[0], tail) for each in above] if going_back else [(head, each[1]) for each in below]:
            if going_back:
                self.edges[outer, inner] = [self.structured.above_lookup(self.edges[outer, head], lookup)]
            else:
                self.edges[outer, inner] = [self.structured.below_lookup(lookup, self.edges[tail, inner])]
            self._heads_of.setdefault(inner, set()).add(outer)
            self._tails_of.setdefault(outer, set()).add(inner)

    def _collected(self) -> tuple[Integers, Integers, Integers]:
        """Return rows, columns and values of the nonzeros, row by row."""
        edges = self.edges.get((_OUTPUTS, self.ends), [])
        after = self.end_count
        for position in self.open:  # numbered as further inputs
            first, size = self._place(position)
            for each in map(written_out, self.edges.get((_OUTPUTS, position), [])):
                edges = [*edges, Entries(each.heads, positions(each.tails, first - after), each.values)]
            after += size
        if not edges:
            return (np.empty(0, np.int64),) * 3
        if any(isinstance(each, Dense) for each in edges):
            edges = self.structured.added(edges)
            rectangle = self._collected_dense(edges)
            if rectangle is not None:
                return rectangle
        entries = [written_out(each) for each in edges]
        columns = [(each.heads, each.tails, self.products.values(each)) for each in entries]
        nonzeros = sorted_entries(columns, len(self.original), len(self.original.outputs), self.products.sums)
        return nonzeros.rows(np.int32), nonzeros.columns, nonzeros.values

    def _collected_dense(self, edges: Sequence[Edge]) -> tuple[Integers, Integers, Integers] | None:
        """Return the nonzeros as `_collected` does if they form one rectangle; else None."""
        rectangle = self.structured.rectangle(edges)
        if rectangle is None:
            return None
        m, k = rectangle.matrix.shape
        return (
            np.repeat(rectangle.rows - len(self.original), k),
            np.tile(rectangle.columns, m),
            rectangle.matrix.reshape(-1),
        )


def _stretch(operands: Column) -> slice | None:
    """Return the references of a column as an ascending slice; None for tables, constants, and empty columns."""
    if not isinstance(operands, Range) or not operands.count:
        return None
    low, high = operands.ends
    return slice(low, high + 1, max(abs(operands.step), 1)) if low >= 0 else None


def _are_equal(numbers: Integers) -> bool:
    return bool((numbers == numbers.flat[0]).all())
