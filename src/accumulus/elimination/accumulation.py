"""The accumulation: a straight-line program of products and sums over edge labels that ends in the Jacobian's
nonzeros.

References 0 … edges-1 are the labels of the graph's edges, reference edges+k is the result of step k. A product
multiplies along a path, the left factor being nearer to the root: for vector-valued vertices, and wherever it
is read as mathematics, the order of its factors matters. A sum adds paths between the same two vertices. This
is what the notes call a set of algebraic expressions connected by reference variables.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.entries import Entries, columns_of
from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = ["Accumulation", "Steps", "minus_ones"]

#: Mersenne prime; residues of a wrong program agree by chance with probability about (longest path) / PRIME.
PRIME: Final = 2**61 - 1


@dataclass(slots=True, eq=False)
class Steps:
    """Products and sums, appended in the order in which they run; equal if they are the same, however appended."""

    edges: int
    is_product: bytearray = field(default_factory=bytearray)
    left: array[int] = field(default_factory=lambda: array("i"))
    right: array[int] = field(default_factory=lambda: array("i"))

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
        """Whether each step is a product, its left and its right operand."""
        left, right = (np.array(column, np.int64) for column in (self.left, self.right))
        return np.array(self.is_product, bool), left, right

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


@dataclass(frozen=True, slots=True)
class Accumulation:
    """One way to compute the Jacobian of `graph`.

    `entries` maps (position in ``graph.roots``, position in ``graph.terminals``) to the reference of
    ∂root/∂terminal, for all structural nonzeros.
    """

    graph: DifferentiationGraph
    steps: Steps
    entries: Mapping[tuple[int, int], int]

    def ordered_entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions (root, terminal) of the entries in row-major order, (n, 2), and their references."""
        places, references = columns_of(self.entries)
        if isinstance(self.entries, Entries):
            return places, references
        order = np.lexsort(places.T[::-1])
        return places[order], references[order]

    def verify(self, seed: int = 0) -> None:
        """Check against the graph that this computes its Jacobian, in one linear pass.

        Labels are replaced by random triangular matrices (a b; 0 d) of residues modulo a prime near 2⁶¹, which do not
        commute, unit labels by ±1; and the rows of the result, weighted by random vectors, compared with the same sums
        by Bauer's formula, evaluated along the graph. Two products of the same labels in another order are different
        matrices: some label has others before it, which its b shows.

        Where units may cancel, this is done again with 1 for −1, so that every entry with a path has to be there.

        The plans of large graphs are verified by compiled code, `accumulus.search.passes`, which asks here what is
        wrong if something is.

        Raises:
            VerificationError: naming the first root whose row is wrong, a reference that is not there, or a step that
                joins labels whose sizes do not match.
        """
        rng = random.Random(seed)
        self._check_references()
        self._check_sizes()
        for minus_one in minus_ones(self.graph):
            self._check_rows(rng, minus_one)

    def _check_rows(self, rng: random.Random, minus_one: int) -> None:
        graph = self.graph
        fixed = {Kind.ONE: (1, 0, 1), Kind.MINUS_ONE: (minus_one, 0, minus_one)}

        def residue() -> int:
            return rng.randrange(2, PRIME)

        values = [fixed.get(kind) or (residue(), residue(), residue()) for kind in map(Kind, graph.kinds.tolist())]
        weights = [(residue(), residue()) for _ in graph.terminals]

        expected = [(0, 0)] * len(graph.vertices)
        for terminal, weight in zip(graph.terminals, weights, strict=True):
            expected[terminal] = weight
        targets = graph.targets.tolist()
        for v in graph.topological_order:
            if graph.out_edges[v]:
                expected[v] = _sum_of_products((values[e], expected[targets[e]]) for e in graph.out_edges[v])

        for is_product, left, right in self.steps:
            a, b, d = values[left]
            e, f, h = values[right]
            if is_product:
                values.append((a * e % PRIME, (a * f + b * h) % PRIME, d * h % PRIME))
            else:
                values.append(((a + e) % PRIME, (b + f) % PRIME, (d + h) % PRIME))
        rows: list[list[tuple[tuple[int, int, int], tuple[int, int]]]] = [[] for _ in graph.roots]
        for (root, terminal), reference in self.entries.items():
            rows[root].append((values[reference], weights[terminal]))
        for root, row in zip(graph.roots, rows, strict=True):
            if _sum_of_products(row) != expected[root]:
                raise VerificationError(
                    f"the plan does not compute the derivatives of root {graph.vertices[root]!r}: modulo a prime its "
                    "row differs from the sum over all paths. This is a mistake of the method that made the plan; "
                    "please report the graph"
                )

    def _check_sizes(self) -> None:
        """Refuse products and sums of labels whose sizes do not match."""
        graph = self.graph
        if not (graph.sizes > 1).any():
            return
        sizes = graph.sizes.tolist()
        shapes = [(sizes[j], sizes[i]) for j, i in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)]
        for position, (is_product, left, right) in enumerate(self.steps, self.steps.edges):
            (rows, inner), (other, columns) = shapes[left], shapes[right]
            if (inner != other) if is_product else (shapes[left] != shapes[right]):
                raise VerificationError(
                    f"step {position} is the {'product' if is_product else 'sum'} of a {rows} × {inner} and a "
                    f"{other} × {columns} label; expected sizes that match"
                )
            shapes.append((rows, columns))
        for (row, column), reference in self.entries.items():
            expected = sizes[graph.roots[row]], sizes[graph.terminals[column]]
            if shapes[reference] != expected:
                raise VerificationError(
                    f"entry {row, column} is a label of sizes {shapes[reference]}; expected {expected}"
                )

    def _check_references(self) -> None:
        """Refuse what could only be read as something else, such as Python's negative indices."""
        edges = len(self.graph.sources)
        if self.steps.edges != edges:
            raise VerificationError(f"the steps begin after {self.steps.edges} labels; expected the graph's {edges}")
        for position, (_, left, right) in enumerate(self.steps, self.steps.edges):
            if not (0 <= left < position and 0 <= right < position):
                raise VerificationError(
                    f"step {position} uses {left} and {right}; expected references below {position}"
                )
        references = range(self.steps.edges + len(self.steps))
        rows, columns = range(len(self.graph.roots)), range(len(self.graph.terminals))
        for (row, column), reference in self.entries.items():
            if row not in rows or column not in columns or reference not in references:
                raise VerificationError(
                    f"entry {row, column} is reference {reference}; expected an entry of {len(rows)} × "
                    f"{len(columns)} and a reference below {len(references)}"
                )


def minus_ones(graph: DifferentiationGraph) -> tuple[int, ...]:
    """The residues that stand for −1 in turn: −1, and 1 if units might cancel each other otherwise."""
    units = (graph.kinds == Kind.MINUS_ONE).any() and (graph.kinds == Kind.ONE).any()
    return (PRIME - 1, 1) if units else (PRIME - 1,)


def _sum_of_products(terms: Iterable[tuple[tuple[int, int, int], tuple[int, int]]]) -> tuple[int, int]:
    """Triangular matrices times vectors, added up modulo the prime."""
    first = second = 0
    for (a, b, d), (x, y) in terms:
        first += a * x + b * y
        second += d * y
    return first % PRIME, second % PRIME
