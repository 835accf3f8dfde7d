"""Verification and cost of large plans, compiled: `accumulus.search.compiled.passes_kernel` a chunk of steps at a time.

The same checks and counts as those of `Accumulation.verify` and `accumulus.elimination.cost.count`, which decide
wherever something is found to be wrong, and say what. Time: linear, some ten million steps a second; memory: 24
bytes for each edge and step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.accumulation import Accumulation, minus_ones
from accumulus.elimination.cost import count
from accumulus.elimination.entries import columns_of
from accumulus.graph.graph import Kind
from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.objective import Objective
from accumulus.search.compiled.passes_state import (
    ADD_UP,
    EVALUATE,
    HALF,
    PRICE,
    PRIME,
    VERTEX,
    VERTEX_BITS,
    PassesState,
)
from accumulus.search.elimination import is_large

__all__ = ["cost_of", "verify"]

#: Steps beyond which a plan of any graph is large.
MOST: Final = 10_000
#: Steps of one call of the kernel; between calls Ctrl-C is heard.
_CHUNK: Final = 1 << 20


def verify(accumulation: Accumulation, seed: int = 0) -> None:
    """Check an accumulation as `Accumulation.verify` does.

    Raises:
        VerificationError: as there.
    """
    if not _is_large(accumulation) or not _is_right(accumulation, seed):
        accumulation.verify(seed)


def cost_of(accumulation: Accumulation, objective: str) -> int:
    """Cost of an accumulation, as `accumulus.elimination.cost.count` counts it."""
    graph, judged = accumulation.graph, Objective.of(objective)
    if judged.on_tape or not _is_large(accumulation) or len(graph.vertices) > VERTEX:
        return count(accumulation, judged)
    return _priced(accumulation, judged.every_product)[0]


def _priced(accumulation: Accumulation, every_product: bool) -> tuple[int, Integers]:
    """What the products cost, -1 if sizes of labels do not match; and kind, row and column of each label and step."""
    graph = accumulation.graph
    labels = np.empty(len(graph.sources) + len(accumulation.steps), np.int64)
    kinds, sources = graph.kinds.astype(np.int64), graph.sources.astype(np.int64)
    labels[: len(kinds)] = (kinds << VERTEX_BITS | sources) << VERTEX_BITS | graph.targets
    state = PassesState(labels=labels, sizes=np.ascontiguousarray(graph.sizes, np.int64), every=every_product)
    total = 0
    for _ in _chunks(accumulation, state):
        cost = _perform(state, PRICE)
        if cost < 0:
            return -1, labels
        total += cost
    return total, labels


def _is_large(accumulation: Accumulation) -> bool:
    return is_large(accumulation.graph) or len(accumulation.steps) > MOST


def _is_right(accumulation: Accumulation, seed: int) -> bool:
    graph = accumulation.graph
    edges, steps = len(graph.sources), len(accumulation.steps)
    keys, references = columns_of(accumulation.entries)
    if accumulation.steps.edges != edges or not (
        _within(keys[:, 0], len(graph.roots))
        and _within(keys[:, 1], len(graph.terminals))
        and _within(references, edges + steps)
    ):
        return False
    rng = random.Random(seed)
    rows = all(_rows_are_right(accumulation, keys, references, rng, minus_one) for minus_one in minus_ones(graph))
    return rows and _sizes_match(accumulation, keys, references)


def _rows_are_right(
    accumulation: Accumulation, keys: Integers, references: Integers, rng: random.Random, minus_one: int
) -> bool:
    graph = accumulation.graph
    edges, steps = len(graph.sources), len(accumulation.steps)
    values = np.empty((edges + steps, 3), np.int64)
    values[:edges] = _residues(rng, 3 * edges).reshape(-1, 3)
    values[:edges][graph.kinds == Kind.ONE] = 1, 0, 1
    values[:edges][graph.kinds == Kind.MINUS_ONE] = minus_one, 0, minus_one
    weights = _residues(rng, 2 * len(graph.terminals)).reshape(-1, 2)

    expected = np.zeros((len(graph.vertices), 2), np.int64)
    expected[list(graph.terminals)] = weights
    turn = np.empty(len(graph.vertices), np.int64)
    turn[np.array(graph.topological_order, np.int64)] = np.arange(len(turn))
    order = np.argsort(turn[graph.sources], kind="stable")
    state = PassesState(values=values)
    _add_up(state, (graph.sources[order], order, graph.targets[order]), values, expected, expected)

    for reference in _chunks(accumulation, state):
        if reference < 0:
            return False
        _perform(state, EVALUATE)
    rows = np.zeros((len(graph.roots), 2), np.int64)
    _add_up(state, (keys[:, 0], references, keys[:, 1]), values, weights, rows)
    return bool((rows == expected[list(graph.roots)]).all())


def _sizes_match(accumulation: Accumulation, keys: Integers, references: Integers) -> bool:
    """Whether no label is multiplied, added or returned as one of other sizes; references are in range."""
    graph = accumulation.graph
    sizes = graph.sizes
    if not (sizes > 1).any():
        return True
    if len(graph.vertices) > VERTEX:
        return False  # for `Accumulation.verify` to decide
    cost, labels = _priced(accumulation, every_product=True)
    ends = labels[references]
    rows, columns = ends >> VERTEX_BITS & VERTEX, ends & VERTEX
    roots, terminals = np.array(graph.roots, np.int64)[keys[:, 0]], np.array(graph.terminals, np.int64)[keys[:, 1]]
    return cost >= 0 and bool((sizes[rows] == sizes[roots]).all() and (sizes[columns] == sizes[terminals]).all())


def _chunks(accumulation: Accumulation, state: PassesState) -> Iterator[int]:
    """Give the kernel one chunk of steps after the other; yields its first reference, −1 if one is out of range."""
    steps = accumulation.steps
    # views of the arrays; they must not grow meanwhile
    columns = [np.frombuffer(steps.is_product, np.uint8)] + [
        np.frombuffer(column, f"i{column.itemsize}") for column in (steps.left, steps.right)
    ]
    for start in range(0, len(steps), _CHUNK):
        is_product, left, right = (column[start : start + _CHUNK].astype(np.int64) for column in columns)
        reference = steps.edges + start
        own = np.arange(reference, reference + len(left))
        if (np.minimum(left, right) < 0).any() or (np.maximum(left, right) >= own).any():
            yield -1
            return
        state.steps = is_product << 2 * HALF | left << HALF | right
        state.count, state.reference = len(left), reference
        yield reference


def _add_up(
    state: PassesState, numbers: Sequence[NDArray[Any]], first: Integers, second: Integers, results: Integers
) -> None:
    """Add first[b] · second[c] to results[a], for all a, b, c: matrices times vectors."""
    state.to, state.from_first, state.from_second = (np.ascontiguousarray(column, np.int64) for column in numbers)
    state.first, state.second, state.results = first, second, results
    state.count = len(numbers[0])
    _perform(state, ADD_UP)


def _perform(state: PassesState, mode: int) -> int:
    state.mode = mode
    return kernel("search.passes")(state.address)


def _within(numbers: Integers, bound: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < bound)


def _residues(rng: random.Random, many: int) -> Integers:
    """Random residues, none of them 0 or 1."""
    drawn = np.frombuffer(rng.randbytes(8 * many), "<u8")
    residues: Integers = (drawn % np.uint64(PRIME - 2)).astype(np.int64) + 2
    return residues
