"""Verification: whether steps and entries compute the Jacobian of a graph.

Labels are replaced by random triangular matrices (a b; 0 d) of residues modulo a prime near 2⁶¹, which do not commute,
unit labels by ±1; and the rows of the result, weighted by random vectors, compared with the same sums by Bauer's
formula, evaluated along the graph. Two products of the same labels in another order are different matrices: some label
has others before it, which its b shows. Where units may cancel, this is done again with 1 for −1, so that every entry
with a path has to be there.

Where the graph has a mirror, labels of mirrored edges are the same numbers, and b is 0: a product and its mirror are
one. Entries above the diagonal are those below it; so whole rows are compared. Where entries are chosen, rows of which
the same are wanted are compared at once, with weights for these.

Time: linear in edges and steps, in compiled code (`accumulus.elimination.labels`); with chosen entries, the edges count
once for each different set of columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.compiled.labels_state import PRIME
from accumulus.elimination.entry_columns import columns_of
from accumulus.elimination.labels import Labels, evaluate, sums_of_products
from accumulus.elimination.steps import Steps
from accumulus.errors import VerificationError
from accumulus.graph.chosen import are_wanted, mirrored_edges
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.state import Integers

__all__ = ["verify"]


def verify(graph: DifferentiationGraph, steps: Steps, entries: Mapping[tuple[int, int], int], seed: int) -> None:
    """Check that steps and entries compute the Jacobian of a graph.

    Residues of a wrong program agree by chance with probability about (longest path) / 2⁶¹.

    Raises:
        VerificationError: naming the first root whose row is wrong, a reference that is not there, or a step that
            joins labels whose sizes do not match.
    """
    places, references = columns_of(entries)
    _check_references(graph, steps, places, references)
    _check_sizes(graph, steps, places, references)
    if graph.mirror is not None and graph.wanted is None:
        above = places[:, 0] != places[:, 1]
        places = np.concatenate([places, places[above][:, ::-1]])
        references = np.concatenate([references, references[above]])
    rng = random.Random(seed)
    for minus_one in _minus_ones(graph):
        _check_rows(graph, steps, places, references, rng, minus_one)


def _check_references(graph: DifferentiationGraph, steps: Steps, places: Integers, references: Integers) -> None:
    """Refuse what could only be read as something else, such as Python's negative indices."""
    edges = len(graph.sources)
    if steps.edges != edges:
        raise VerificationError(f"the steps begin after {steps.edges} labels; expected the graph's {edges}")
    for first, _, left, right in steps.chunks():
        wrong = (np.minimum(left, right) < 0) | (np.maximum(left, right) >= np.arange(first, first + len(left)))
        if wrong.any():
            k = int(wrong.argmax())
            raise VerificationError(
                f"step {first + k} uses {left[k]} and {right[k]}; expected references below {first + k}"
            )
    bounds = len(graph.roots), len(graph.terminals), edges + len(steps)
    columns = (*places.T, references)
    wrong = np.zeros(len(references), bool)
    for column, bound in zip(columns, bounds, strict=True):
        wrong |= (column < 0) | (column >= bound)
    if wrong.any():
        row, column, reference = (int(column[wrong.argmax()]) for column in columns)
        raise VerificationError(
            f"entry {row, column} is reference {reference}; expected an entry of {bounds[0]} × {bounds[1]} and a "
            f"reference below {bounds[2]}"
        )
    unwanted = ~are_wanted(graph, places)
    if unwanted.any():
        raise VerificationError(
            f"entry {tuple(places[unwanted.argmax()].tolist())} is there; expected entries that are wanted only"
        )


def _check_sizes(graph: DifferentiationGraph, steps: Steps, places: Integers, references: Integers) -> None:
    """Refuse products and sums of labels whose sizes do not match."""
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
    found = np.stack(shape(references), axis=1)
    roots, terminals = (np.array(ends, np.int64) for ends in (graph.roots, graph.terminals))
    expected = np.stack([sizes[roots[places[:, 0]]], sizes[terminals[places[:, 1]]]], axis=1)
    wrong = (found != expected).any(axis=1)
    if wrong.any():
        k = int(wrong.argmax())
        raise VerificationError(
            f"entry {tuple(places[k].tolist())} is a label of sizes {tuple(found[k].tolist())}; expected "
            f"{tuple(expected[k].tolist())}"
        )


def _check_rows(
    graph: DifferentiationGraph,
    steps: Steps,
    places: Integers,
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

    turn = np.empty(len(graph.vertices), np.int64)
    turn[np.array(graph.topological_order, np.int64)] = np.arange(len(turn))
    order = np.argsort(turn[graph.sources], kind="stable")
    given = values[:edges].copy()
    evaluate(steps, values)
    for compared, columns in _probes(graph):
        probed = np.where(columns[:, np.newaxis], weights, 0)
        expected = np.zeros((len(graph.vertices), 2), np.int64)
        expected[list(graph.terminals)] = probed
        sums_of_products((graph.sources[order], order, graph.targets[order]), given, expected, expected)
        rows = np.zeros((len(graph.roots), 2), np.int64)
        sums_of_products((places[:, 0], references, places[:, 1]), values, probed, rows)
        wrong = (rows != expected[list(graph.roots)]).any(axis=1) & compared
        if wrong.any():
            root = graph.roots[int(wrong.argmax())]
            raise VerificationError(
                f"the plan does not compute the derivatives of root {graph.vertices[root]!r}: modulo a prime its "
                "row differs from the sum over all paths. This is a mistake of the method that made the plan; "
                "please report the graph"
            )


def _probes(graph: DifferentiationGraph) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Rows that are compared at once, and the columns that are wanted of all of these."""
    rows, columns = len(graph.roots), len(graph.terminals)
    if graph.wanted is None:
        yield np.ones(rows, bool), np.ones(columns, bool)
        return
    of_row: dict[int, list[int]] = {}
    for row, column in graph.wanted.tolist():
        of_row.setdefault(row, []).append(column)
    alike: dict[tuple[int, ...], list[int]] = {}
    for row, wanted in of_row.items():
        alike.setdefault(tuple(wanted), []).append(row)
    for wanted_columns, chosen in alike.items():
        yield np.isin(np.arange(rows), chosen), np.isin(np.arange(columns), wanted_columns)


def _minus_ones(graph: DifferentiationGraph) -> tuple[int, ...]:
    """The residues that stand for −1 in turn: −1, and 1 if units might cancel each other otherwise."""
    units = (graph.kinds == Kind.MINUS_ONE).any() and (graph.kinds == Kind.ONE).any()
    return (PRIME - 1, 1) if units else (PRIME - 1,)


def _residues(rng: random.Random, many: int) -> Integers:
    """Random residues, none of them 0 or 1."""
    drawn = np.frombuffer(rng.randbytes(8 * many), "<u8")
    residues: Integers = (drawn % np.uint64(PRIME - 2)).astype(np.int64) + 2
    return residues
