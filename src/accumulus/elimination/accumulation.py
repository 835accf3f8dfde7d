"""The accumulation: a straight-line program of products and sums over edge labels that ends in the Jacobian's
nonzeros.

References 0 … edges-1 are the labels of the graph's edges, reference edges+k is the result of step k. A product
multiplies along a path, the left factor being nearer to the root: for vector-valued vertices, and wherever it
is read as mathematics, the order of its factors matters. A sum adds paths between the same two vertices. This
is what the notes call a set of algebraic expressions connected by reference variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.entry_columns import Entries, columns_of
from accumulus.elimination.steps import Steps
from accumulus.elimination.verification import verify
from accumulus.graph.chosen import are_wanted
from accumulus.graph.graph import DifferentiationGraph
from accumulus.tape.passes import spread

__all__ = ["Accumulation", "Steps"]


@dataclass(frozen=True, slots=True)
class Accumulation:
    """One way to compute the Jacobian of `graph`.

    `entries` maps (position in ``graph.roots``, position in ``graph.terminals``) to the reference of
    ∂root/∂terminal, for all structural nonzeros that are wanted: of a graph with a mirror, those on and below the
    diagonal.
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

    def wanted(self) -> Accumulation:
        """The same without entries that the graph does not want, and without steps that only these need."""
        if self.graph.wants_all:
            return self
        places, references = columns_of(self.entries)
        kept = are_wanted(self.graph, places)
        places, references = places[kept], references[kept]
        edges, (is_product, left, right) = self.steps.edges, self.steps.columns()
        needed = np.zeros(edges + len(self.steps), bool)
        needed[references] = True
        own = edges + np.arange(len(self.steps))[::-1]
        needed = spread(needed, np.repeat(own, 2), np.stack([left, right], axis=1)[::-1].reshape(-1))
        made = needed[edges:]
        number = np.concatenate([np.arange(edges), edges + np.cumsum(made) - 1])
        steps = Steps.of(edges, is_product[made], number[left[made]], number[right[made]])
        return Accumulation(self.graph, steps, Entries(places[:, 0], places[:, 1], number[references]))

    def verify(self, seed: int = 0) -> None:
        """Check that this computes the graph's Jacobian, in one linear pass (`accumulus.elimination.verification`).

        Raises:
            VerificationError: naming the first root whose row is wrong, a reference that is not there, or a step that
                joins labels whose sizes do not match.
        """
        verify(self.graph, self.steps, self.entries, seed)
