"""Accumulations: steps, entries, labels of steps, and the verification of all three.

**The accumulation** is a straight-line program of products and sums of edge labels, whose results are the Jacobian's
nonzeros. References 0 … edges − 1 are the labels of the graph's edges, reference edges + k is the result of step k. A
product multiplies labels along a path, and its left factor is nearer to the root. The order of the factors matters for
vector-valued vertices, whose labels are matrices. A sum adds paths between the same two vertices. The notes call this a
set of algebraic expressions connected by reference variables.

**Labels.** `Labels` computes kind, ends and cost of each step's label. It passes the steps to
`accumulus.elimination.compiled.labels_kernel` in chunks. A product with ±1 is free and has the kind of its other
factor. A product of constants is a constant and free, since it is folded when the plan is made. A sum of constants is a
constant; only a sum of parallel edges whose labels are known numbers is ±1 if its value is. Time: linear, some ten
million steps a second; memory: 8 bytes for each edge and step.

**Verification.** Labels are replaced by random triangular matrices (a b; 0 d) of residues modulo the prime 2⁶¹ − 1, and
unit labels by ±1. Each row of the result, times a random vector, is compared with the same sum by Bauer's formula,
evaluated along the graph. The matrices do not commute, so a product with its factors in another order differs. If 1 and
−1 may cancel, the check is repeated with 1 in place of −1, so that every entry with a path has to be present.

If the graph has a mirror, mirrored edges have the same matrix and b is 0, since a product and its mirror are equal. The
entries above the diagonal are copies of the entries below it, so whole rows are compared. If entries are selected, rows
with the same selected columns are compared together, with the weights of all other columns set to 0.

Time: linear in edges and steps, in compiled code; with selected entries the edges count once for each distinct set of
columns. Memory: 24 bytes for each edge and step.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.compiled.labels_kernel import (
    ADD_UP,
    EVALUATE,
    HALF,
    PRICE,
    PRIME,
    VERTEX,
    VERTEX_BITS,
    LabelsState,
)
from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph, Kind, are_selected, mirrored_edges
from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.tape.passes import spread

#: Steps for each call of the kernel; Ctrl-C takes effect between the calls: more delay it and take memory, fewer make
#: more calls.
CHUNK: Final = 1 << 20


@dataclass(slots=True, eq=False)
class Steps:
    """Products and sums in the order of execution; equal if all steps are equal.

    Attributes:
        edges: number of edge labels; step k has the reference edges + k.
        is_product: 1 for each product, 0 for each sum.
        left, right: references of the operands.
    """

    edges: int
    is_product: bytearray = field(default_factory=bytearray)
    left: array[int] = field(default_factory=lambda: array("i"))
    right: array[int] = field(default_factory=lambda: array("i"))

    @classmethod
    def of(cls, edges: int, is_product: NDArray[np.bool_], left: Integers, right: Integers) -> Steps:
        """Return steps from arrays of their columns."""
        columns = (array("i", ends.astype("i").tobytes()) for ends in (left, right))
        return cls(edges, bytearray(is_product.astype(np.uint8).tobytes()), *columns)

    def product(self, left: int, right: int) -> int:
        """Append left · right and return its reference."""
        return self._append(1, left, right)

    def sum(self, left: int, right: int) -> int:
        """Append left + right and return its reference."""
        return self._append(0, left, right)

    def _append(self, is_product: int, left: int, right: int) -> int:
        self.is_product.append(is_product)
        self.left.append(left)
        self.right.append(right)
        return self.edges + len(self.left) - 1

    def columns(self) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """Return three arrays with an element for each step: True for a product, left operand, right operand."""
        left, right = (np.array(column, np.int64) for column in (self.left, self.right))
        return np.array(self.is_product, bool), left, right

    def chunks(self) -> Iterator[tuple[int, Integers, Integers, Integers]]:
        """Yield the columns in chunks, each with the reference of its first step.

        The steps must not grow during the iteration.
        """
        if not len(self):
            return
        columns = [np.frombuffer(self.is_product, np.uint8)] + [
            np.frombuffer(column, f"i{column.itemsize}") for column in (self.left, self.right)
        ]
        for start in range(0, len(self), CHUNK):
            is_product, left, right = (column[start : start + CHUNK].astype(np.int64) for column in columns)
            yield self.edges + start, is_product, left, right

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Steps):
            return NotImplemented
        mine, theirs = ((steps.edges, steps.is_product, steps.left, steps.right) for steps in (self, other))
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.left)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return zip(self.is_product, self.left, self.right, strict=True)


@dataclass(slots=True, eq=False)
class SharedSteps(Steps):
    """Products and sums without duplicates: an existing step is reused.

    >>> steps = SharedSteps(3)
    >>> steps.product(0, 1), steps.sum(0, 2), steps.product(0, 1), steps.sum(2, 0)
    (3, 4, 3, 4)
    """

    #: Reference of each step (is a product, left, right), in the order of the steps.
    step_references: dict[tuple[bool, int, int], int] = field(default_factory=dict)

    def product(self, left: int, right: int) -> int:
        """Return the reference of left · right."""
        key = (True, left, right)
        if key not in self.step_references:
            self.step_references[key] = self._append(1, left, right)
        return self.step_references[key]

    def sum(self, left: int, right: int) -> int:
        """Return the reference of left + right."""
        key = (False, min(left, right), max(left, right))
        if key not in self.step_references:
            self.step_references[key] = self._append(0, left, right)
        return self.step_references[key]

    def rewind(self, length: int) -> list[tuple[int, int, int]]:
        """Remove all steps from number `length` on, and return them as (is product, left, right)."""
        removed = list(self)[length:]
        for column in (self.is_product, self.left, self.right):
            del column[length:]
        for _ in removed:
            self.step_references.popitem()
        return removed

    def replay(self, removed: list[tuple[int, int, int]]) -> None:
        """Append the steps that `rewind` returned."""
        for is_product, left, right in removed:
            (self.product if is_product else self.sum)(left, right)


# Entries -------------------------------------------------------------------------------------------------------------


class JacobianEntries(Mapping[tuple[int, int], int]):
    """Mapping of positions (root, terminal), in row-major order, to references.

    The entries are stored as arrays, because to make a million pairs of Python integers takes longer than to verify
    their Jacobian. The dictionary is made on the first lookup.

    Args:
        roots, terminals: positions of each entry, in any order; pairs are distinct.
        references: reference of each entry.

    >>> JacobianEntries(np.array([1, 0]), np.array([0, 2]), np.array([7, 8]))
    {(0, 2): 8, (1, 0): 7}
    """

    __slots__ = ("_references_by_place", "places", "references")

    def __init__(self, roots: Integers, terminals: Integers, references: Integers) -> None:
        order = np.lexsort((terminals, roots))
        #: (root, terminal) of each entry, (n, 2), and its reference, (n,).
        self.places: Integers = np.stack([roots[order], terminals[order]], axis=1)
        self.references: Integers = references[order]
        assert (np.diff(self.places, axis=0) != 0).any(axis=1).all(), "duplicate entry"
        self._references_by_place: dict[tuple[int, int], int] | None = None

    @property
    def _entries(self) -> dict[tuple[int, int], int]:
        if self._references_by_place is None:
            positions = zip(*self.places.T.tolist(), strict=True)
            self._references_by_place = dict(zip(positions, self.references.tolist(), strict=True))
        return self._references_by_place

    def __getitem__(self, key: tuple[int, int]) -> int:
        return self._entries[key]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self.references)

    def __repr__(self) -> str:
        return repr(self._entries)

    def keys(self) -> KeysView[tuple[int, int]]:
        """Return the positions in order, as the dictionary's view: the mixin's view would look up every position."""
        return self._entries.keys()

    def values(self) -> ValuesView[int]:
        """Return references in the order of their positions."""
        return self._entries.values()

    def items(self) -> ItemsView[tuple[int, int], int]:
        """Return positions and references in order."""
        return self._entries.items()


def columns_of(entries: Mapping[tuple[int, int], int]) -> tuple[Integers, Integers]:
    """Return the positions (root, terminal) of the entries, (n, 2), and their references, in the mapping's order."""
    if isinstance(entries, JacobianEntries):
        return entries.places, entries.references
    positions = np.fromiter(chain.from_iterable(entries), np.int64).reshape(-1, 2)
    return positions, np.fromiter(entries.values(), np.int64)


# Labels --------------------------------------------------------------------------------------------------------------


class Labels:
    """Labels of all edges and steps.

    Args:
        graph: graph of the labels.
        steps: products and sums of the labels.
        every_product: if True, free products count as well.

    Attributes:
        cost: cost of the products; a product of labels of vector-valued vertices costs the product of the three sizes.
        misfit: reference of the first step whose operands have sizes that do not match; None if all match. The cost
            then includes only the chunks before it.
    """

    def __init__(self, graph: DifferentiationGraph, steps: Steps, *, every_product: bool) -> None:
        labels = np.zeros(len(graph.sources) + len(steps), np.int64)
        kinds, sources = graph.kinds.astype(np.int64), graph.sources.astype(np.int64)
        labels[: len(kinds)] = (kinds << VERTEX_BITS | sources) << VERTEX_BITS | graph.targets
        for reference, value in _sums_of_constants(graph, steps).items():
            if abs(value) == 1.0:
                labels[reference] = (Kind.ONE if value > 0 else Kind.MINUS_ONE) << 2 * VERTEX_BITS
        state = LabelsState(labels=labels, sizes=np.ascontiguousarray(graph.sizes, np.int64), every=every_product)
        self._labels = labels
        self.cost = 0
        self.misfit: int | None = None
        for reference in _chunks(steps, state):
            cost = _perform(state, PRICE)
            if cost < 0:
                self.misfit = reference - 1 - cost
                break
            self.cost += cost

    def ends(self, references: Any) -> tuple[Any, Any]:
        """Return the source and the target of one label or of several."""
        ends = self._labels[references]
        return ends >> VERTEX_BITS & VERTEX, ends & VERTEX

    @property
    def kinds(self) -> Integers:
        """Kinds of the labels, edges first."""
        return self._labels >> 2 * VERTEX_BITS


def _sums_of_constants(graph: DifferentiationGraph, steps: Steps) -> dict[int, float]:
    """Return the values of steps that add up labels of parallel edges, if all these labels are known numbers."""
    values = {e: value for group in graph.constant_sums.values() for e, value in group}
    sums: dict[int, float] = {}
    if values:
        is_product, left, right = steps.columns()
        for k in np.flatnonzero(~is_product).tolist():
            if left[k] in values and right[k] in values:
                values[steps.edges + k] = sums[steps.edges + k] = values[left[k]] + values[right[k]]
    return sums


def _add_products(numbers: Sequence[NDArray[Any]], matrices: Integers, vectors: Integers, results: Integers) -> None:
    """Add matrices[b] · vectors[c] to results[a] for all (a, b, c) in `numbers`, in order."""
    to, from_first, from_second = (np.ascontiguousarray(column, np.int64) for column in numbers)
    state = LabelsState(
        to=to,
        from_first=from_first,
        from_second=from_second,
        first=matrices,
        second=vectors,
        results=results,
        count=len(to),
    )
    _perform(state, ADD_UP)


def _chunks(steps: Steps, state: LabelsState) -> Iterator[int]:
    """Load the steps into the kernel's state in chunks; yield the first reference of each chunk."""
    for reference, is_product, left, right in steps.chunks():
        wrong = (np.minimum(left, right) < 0) | (np.maximum(left, right) >= reference + np.arange(len(left)))
        if wrong.any():  # the kernel does not check its indices
            k = int(wrong.argmax())
            raise VerificationError(
                f"step {reference + k} uses {left[k]} and {right[k]}; expected references below {reference + k}"
            )
        state.steps = is_product << 2 * HALF | left << HALF | right
        state.count, state.reference = len(left), reference
        yield reference


def _perform(state: LabelsState, mode: int) -> int:
    state.mode = mode
    return kernel("elimination.labels")(state.address)


# Verification --------------------------------------------------------------------------------------------------------


def _verify(graph: DifferentiationGraph, steps: Steps, entries: Mapping[tuple[int, int], int], seed: int) -> None:
    """Check that steps and entries compute the Jacobian of a graph.

    A wrong program passes with probability about (longest path) / 2⁶¹.

    Raises:
        VerificationError: naming the first root whose row is wrong, a reference that does not exist, or a step whose
            operands have sizes that do not match.
    """
    positions, references = columns_of(entries)
    _check_references(graph, steps, positions, references)
    _check_sizes(graph, steps, positions, references)
    if graph.mirror is not None and graph.selected is None:
        above = positions[:, 0] != positions[:, 1]
        positions = np.concatenate([positions, positions[above][:, ::-1]])
        references = np.concatenate([references, references[above]])
    rng = random.Random(seed)
    # in the second pass −1 is replaced by 1, so that unit labels cannot cancel
    may_cancel = (graph.kinds == Kind.MINUS_ONE).any() and (graph.kinds == Kind.ONE).any()
    for minus_one in (PRIME - 1, 1) if may_cancel else (PRIME - 1,):
        _check_rows(graph, steps, positions, references, rng, minus_one)


def _check_references(graph: DifferentiationGraph, steps: Steps, positions: Integers, references: Integers) -> None:
    """Raise an error for references that do not exist, such as negative ones, and for unselected entries."""
    edges = len(graph.sources)
    if steps.edges != edges:
        raise VerificationError(f"the steps begin after {steps.edges} labels; expected the graph's {edges}")
    bounds = len(graph.roots), len(graph.terminals), edges + len(steps)
    columns = (*positions.T, references)
    wrong = np.zeros(len(references), bool)
    for column, bound in zip(columns, bounds, strict=True):
        wrong |= (column < 0) | (column >= bound)
    if wrong.any():
        row, column, reference = (int(column[wrong.argmax()]) for column in columns)
        raise VerificationError(
            f"entry {row, column} is reference {reference}; expected an entry of {bounds[0]} × {bounds[1]} and a "
            f"reference below {bounds[2]}"
        )
    unwanted = ~are_selected(graph, positions)
    if unwanted.any():
        raise VerificationError(
            f"entry {tuple(positions[unwanted.argmax()].tolist())} was not requested; expected only the entries that "
            "the graph lists as selected"
        )


def _check_sizes(graph: DifferentiationGraph, steps: Steps, positions: Integers, references: Integers) -> None:
    """Raise an error for products, sums and entries whose sizes do not match."""
    sizes = graph.sizes
    if not (sizes > 1).any():
        return
    labels = Labels(graph, steps, every_product=True)

    def shape(reference: Any) -> tuple[Any, Any]:
        row, column = labels.ends(reference)
        return sizes[row], sizes[column]

    if labels.misfit is not None:
        k = labels.misfit - steps.edges
        (rows, inner), (other, columns) = shape(steps.left[k]), shape(steps.right[k])
        raise VerificationError(
            f"step {labels.misfit} is the {'product' if steps.is_product[k] else 'sum'} of a {rows} × {inner} and a "
            f"{other} × {columns} label; expected sizes that match"
        )
    actual = np.stack(shape(references), axis=1)
    roots, terminals = (np.array(ends, np.int64) for ends in (graph.roots, graph.terminals))
    expected = np.stack([sizes[roots[positions[:, 0]]], sizes[terminals[positions[:, 1]]]], axis=1)
    wrong = (actual != expected).any(axis=1)
    if wrong.any():
        k = int(wrong.argmax())
        raise VerificationError(
            f"entry {tuple(positions[k].tolist())} is a label of sizes {tuple(actual[k].tolist())}; expected "
            f"{tuple(expected[k].tolist())}"
        )


def _check_rows(
    graph: DifferentiationGraph,
    steps: Steps,
    positions: Integers,
    references: Integers,
    rng: random.Random,
    minus_one: int,
) -> None:
    edges = len(graph.sources)
    values = np.empty((edges + len(steps), 3), np.int64)
    values[:edges] = _residues(rng, 3 * edges).reshape(-1, 3)
    if graph.mirror is not None:
        values[:edges] = values[np.minimum(np.arange(edges), mirrored_edges(graph))]
        values[:edges, 1] = 0
    values[:edges][graph.kinds == Kind.ONE] = 1, 0, 1
    values[:edges][graph.kinds == Kind.MINUS_ONE] = minus_one, 0, minus_one
    weights = _residues(rng, 2 * len(graph.terminals)).reshape(-1, 2)

    rank = np.empty(len(graph.vertices), np.int64)
    rank[np.array(graph.topological_order, np.int64)] = np.arange(len(rank))
    order = np.argsort(rank[graph.sources], kind="stable")
    labels = values[:edges].copy()
    state = LabelsState(values=values)
    for _ in _chunks(steps, state):
        _perform(state, EVALUATE)
    for compared, columns in _probes(graph):
        probed = np.where(columns[:, np.newaxis], weights, 0)
        expected = np.zeros((len(graph.vertices), 2), np.int64)
        expected[list(graph.terminals)] = probed
        _add_products((graph.sources[order], order, graph.targets[order]), labels, expected, expected)
        rows = np.zeros((len(graph.roots), 2), np.int64)
        _add_products((positions[:, 0], references, positions[:, 1]), values, probed, rows)
        wrong = (rows != expected[list(graph.roots)]).any(axis=1) & compared
        if wrong.any():
            root = graph.roots[int(wrong.argmax())]
            raise VerificationError(
                f"the plan does not compute the derivatives of root {graph.vertices[root]!r}: modulo a prime its "
                "row differs from the sum over all paths. This is a mistake of the method that made the plan; "
                "please report the graph"
            )


def _probes(graph: DifferentiationGraph) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield masks of rows with the same selected columns, each with the mask of these columns."""
    rows, columns = len(graph.roots), len(graph.terminals)
    if graph.selected is None:
        yield np.ones(rows, bool), np.ones(columns, bool)
        return
    of_row: dict[int, list[int]] = {}
    for row, column in graph.selected.tolist():
        of_row.setdefault(row, []).append(column)
    rows_by_selection: dict[tuple[int, ...], list[int]] = {}
    for row, selected in of_row.items():
        rows_by_selection.setdefault(tuple(selected), []).append(row)
    for wanted_columns, equal_rows in rows_by_selection.items():
        yield np.isin(np.arange(rows), equal_rows), np.isin(np.arange(columns), wanted_columns)


def _residues(rng: random.Random, many: int) -> Integers:
    """Return random residues from 2 to PRIME − 1."""
    drawn = np.frombuffer(rng.randbytes(8 * many), "<u8")
    residues: Integers = (drawn % np.uint64(PRIME - 2)).astype(np.int64) + 2
    return residues


# The accumulation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A program of products and sums that computes the Jacobian of a graph.

    Attributes:
        graph: the differentiation graph.
        steps: the products and sums.
        entries: mapping of (position in ``graph.roots``, position in ``graph.terminals``) to the reference of
            ∂root/∂terminal, for all selected structural nonzeros. If the graph has a mirror, only entries on and below
            the diagonal are selected.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    >>> product = Steps.of(2, np.array([True]), np.array([0]), np.array([1]))  # of edges 0 and 1; reference 2
    >>> path = Accumulation.between(graph, product, {(graph.roots[0], graph.terminals[0]): 2})
    >>> path.verify()
    >>> [column.tolist() for column in path.selected().ordered_entries()]
    [[[0, 0]], [2]]
    """

    graph: DifferentiationGraph
    steps: Steps
    entries: Mapping[tuple[int, int], int]

    @classmethod
    def between(
        cls, graph: DifferentiationGraph, steps: Steps, references: Mapping[tuple[int, int], int]
    ) -> Accumulation:
        """Return the accumulation of `graph` by `steps`; `references` has the reference of each (root, terminal)."""
        rows, columns = ({v: k for k, v in enumerate(ends)} for ends in (graph.roots, graph.terminals))
        entries = {(rows[j], columns[i]): reference for (j, i), reference in references.items()}
        return cls(graph, steps, dict(sorted(entries.items())))

    def ordered_entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions (root, terminal) of the entries in row-major order, (n, 2), and their references."""
        positions, references = columns_of(self.entries)
        if isinstance(self.entries, JacobianEntries):
            return positions, references
        order = np.lexsort(positions.T[::-1])
        return positions[order], references[order]

    def selected(self) -> Accumulation:
        """Return the accumulation without unselected entries, and without steps that no selected entry needs."""
        if self.graph.wants_all:
            return self
        positions, references = columns_of(self.entries)
        selected = are_selected(self.graph, positions)
        positions, references = positions[selected], references[selected]
        edges, (is_product, left, right) = self.steps.edges, self.steps.columns()
        needed = np.zeros(edges + len(self.steps), bool)
        needed[references] = True
        results = edges + np.arange(len(self.steps))[::-1]
        needed = spread(needed, np.repeat(results, 2), np.stack([left, right], axis=1)[::-1].reshape(-1))
        remaining = needed[edges:]
        number = np.concatenate([np.arange(edges), edges + np.cumsum(remaining) - 1])
        steps = Steps.of(edges, is_product[remaining], number[left[remaining]], number[right[remaining]])
        return Accumulation(self.graph, steps, JacobianEntries(positions[:, 0], positions[:, 1], number[references]))

    def verify(self, seed: int = 0) -> None:
        """Check that the accumulation computes the graph's Jacobian (see the module).

        Args:
            seed: seed of the random residues.

        Raises:
            VerificationError: naming the first root whose row is wrong, a reference that does not exist, or a step
                whose operands have sizes that do not match.

        Source: entries are sums over all paths, section 3 of ``docs/notes.md``.
        """
        _verify(self.graph, self.steps, self.entries, seed)
