"""What the steps of an accumulation make of labels, compiled: their kinds, their sizes and cost, and their values.

Drives `accumulus.elimination.compiled.labels_kernel` a chunk of steps at a time. The one place that decides what
products with ±1 and of constants cost an accumulation: a product with ±1 is free and of the kind of its other factor, a
product of constants is a constant and free, as it is folded when the plan is made. Time: linear, some ten million steps
a second; memory: 24 bytes for each edge and step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.compiled.labels_state import (
    ADD_UP,
    EVALUATE,
    HALF,
    PRICE,
    VERTEX,
    VERTEX_BITS,
    LabelsState,
)
from accumulus.elimination.steps import Steps
from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import kernel
from accumulus.native.state import Integers

__all__ = ["Labels", "evaluate", "sums_of_products"]


class Labels:
    """All labels, of edges and of steps.

    Args:
        every_product: whether products that are free count, too.

    Attributes:
        cost: of the products; one of labels of vector-valued vertices counts the product of the three sizes.
        misfit: position of the first step that joins labels whose sizes do not match, None if all do. What follows it
            is not counted.
    """

    def __init__(self, graph: DifferentiationGraph, steps: Steps, *, every_product: bool) -> None:
        labels = np.empty(len(graph.sources) + len(steps), np.int64)
        kinds, sources = graph.kinds.astype(np.int64), graph.sources.astype(np.int64)
        labels[: len(kinds)] = (kinds << VERTEX_BITS | sources) << VERTEX_BITS | graph.targets
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
        """Source and target of labels."""
        ends = self._labels[references]
        return ends >> VERTEX_BITS & VERTEX, ends & VERTEX


def evaluate(steps: Steps, values: Integers) -> None:
    """Write the values of all steps behind those of the edges: triangular matrices (a b; 0 d) of residues, (n, 3)."""
    state = LabelsState(values=values)
    for _ in _chunks(steps, state):
        _perform(state, EVALUATE)


def sums_of_products(numbers: Sequence[NDArray[Any]], matrices: Integers, vectors: Integers, results: Integers) -> None:
    """Add matrices[b] · vectors[c] to results[a], one after the other, for all a, b, c of the three columns."""
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
    """Give the kernel one chunk of steps after the other; yields its first reference."""
    for reference, is_product, left, right in steps.chunks():
        own = np.arange(reference, reference + len(left))
        # the kernel reads whatever it is told to
        if (np.minimum(left, right) < 0).any() or (np.maximum(left, right) >= own).any():
            raise VerificationError("a step refers to what is not there before it")
        state.steps = is_product << 2 * HALF | left << HALF | right
        state.count, state.reference = len(left), reference
        yield reference


def _perform(state: LabelsState, mode: int) -> int:
    state.mode = mode
    return kernel("elimination.labels")(state.address)
