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
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = ["Accumulation", "Steps"]

#: Mersenne prime; residues of a wrong program agree by chance with probability about (longest path) / PRIME.
PRIME: Final = 2**61 - 1


@dataclass(slots=True)
class Steps:
    """Products and sums, appended in the order in which they run."""

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
        places = np.fromiter(chain.from_iterable(self.entries), np.int64).reshape(-1, 2)
        order = np.lexsort(places.T[::-1])
        return places[order], np.fromiter(self.entries.values(), np.int64)[order]

    def verify(self, seed: int = 0) -> None:
        """Check against the graph that this computes its Jacobian, in one linear pass.

        Labels are replaced by random residues modulo a prime near 2⁶¹ (unit labels by ±1), and the rows of the
        result, weighted by random residues, compared with the same sums by Bauer's formula, evaluated along the
        graph.

        The plans of large graphs are verified by compiled code, `accumulus.search.passes`, which asks here what is
        wrong if something is.

        Residues commute: a product whose factors are turned round is not noticed.

        Raises:
            VerificationError: naming the first root whose row is wrong, or a reference that is not there.
        """
        rng = random.Random(seed)
        graph = self.graph
        self._check_references()
        fixed = {Kind.ONE: 1, Kind.MINUS_ONE: PRIME - 1}
        labels = [fixed.get(kind) or rng.randrange(2, PRIME) for kind in map(Kind, graph.kinds.tolist())]
        weights = [rng.randrange(2, PRIME) for _ in graph.terminals]

        expected = [0] * len(graph.vertices)
        for terminal, weight in zip(graph.terminals, weights, strict=True):
            expected[terminal] = weight
        targets = graph.targets.tolist()
        for v in graph.topological_order:
            if graph.out_edges[v]:
                expected[v] = sum(labels[e] * expected[targets[e]] for e in graph.out_edges[v]) % PRIME

        values = labels
        for is_product, left, right in self.steps:
            a, b = values[left], values[right]
            values.append((a * b if is_product else a + b) % PRIME)
        rows = [0] * len(graph.roots)
        for (root, terminal), reference in self.entries.items():
            rows[root] += values[reference] * weights[terminal]
        for root, row in zip(graph.roots, rows, strict=True):
            if row % PRIME != expected[root]:
                raise VerificationError(
                    f"the plan does not compute the derivatives of root {graph.vertices[root]!r}: modulo a prime its "
                    "row differs from the sum over all paths. This is a mistake of the method that made the plan; "
                    "please report the graph"
                )

    def _check_references(self) -> None:
        """Refuse what could only be read as something else, such as Python's negative indices."""
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
