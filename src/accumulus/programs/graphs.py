"""The graph of what is wanted of a recording, and its plan: of the Jacobian, or of products with it.

A direction is one more terminal, on which the arguments depend by its entries; a weight is one more root, which depends
on the results by its entries. So the search over orders of elimination decides whether forward, reverse, or something
in between is cheapest, and the Jacobian is formed only where that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import Deadline
from accumulus.frontends.decisions import holds_of
from accumulus.frontends.recorder import Recording
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization, linearize
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.programs.kinds import Kind, Seeds
from accumulus.programs.selection import Selection
from accumulus.search.find import find_plan
from accumulus.search.plan import Plan
from accumulus.search.sweeps import sweep_counts
from accumulus.tape.operations import BY_NAME

__all__ = [
    "counts_of",
    "entries_of_seeds",
    "in_directions",
    "inputs_of",
    "linearize_arguments",
    "linearized",
    "plan_of",
]

#: One in so many labels has a condition, if many have.
FEW: Final = 50
_SELECT: Final = BY_NAME["select"].code

#: What the stages from planning on need, beside one another.
_KERNELS: Final = (
    *("elimination.vertex", "elimination.labels", "search.order"),
    *("rewriting.rewrite", "rewriting.signs", "tape.passes"),
)


def linearized(
    recording: Recording, kind: Kind, selection: Selection, name: str, *, joined: bool = True, keeping: bool = False
) -> Linearization:
    """The graph of a kind of derivative by the selected arguments; the rest is as for `linearize_arguments`."""
    skipped = sum(int(np.prod(shape)) for shape in recording.result_shapes[: kind.skipped])
    found = linearize_arguments(recording, selection, name, skipped, joined=joined, keeping=keeping)
    if kind.seeds is Seeds.TANGENTS:
        return in_directions(recording, selection, found)
    if kind.seeds is Seeds.COTANGENTS:
        return _weighted(recording, selection, found)
    return found


def linearize_arguments(
    recording: Recording,
    selection: Selection,
    name: str,
    skipped: int = 0,
    *,
    joined: bool = True,
    keeping: bool = False,
) -> Linearization:
    """Graph of the recorded function with respect to the selected arguments, of what is wanted of its Jacobian.

    Where it decides on values, the tape has one output more than the graph: 1 where all guards hold, else 0.

    Args:
        skipped: entries of the results, the first, whose derivatives are not wanted.
        joined: if not, there is an output for each guard.
        keeping: as for `linearize`.
    """
    columns, places, wanted = inputs_of(recording, selection.positions), selection.places, None
    rows = np.arange(skipped, recording.results)
    if places is not None:
        columns, rows = columns[places.columns], places.rows + skipped
        if places.pairs is not None:
            wanted = np.stack(
                [places.pairs[:, 0] + skipped, np.searchsorted(places.columns, places.pairs[:, 1])], axis=1
            )
    if not recording.guards and len(rows) == recording.results:
        return linearize(recording.scalars, columns.tolist(), name=name, wanted=wanted, keeping=keeping)
    tape, results = recording.scalars.copy(), recording.results
    guards = tape.outputs[results:]
    if guards and joined:
        guards = [holds_of(tape, np.array(guards))]
    # with a derivative of zero they are no roots
    zero, is_root = tape.constant(0.0), np.zeros(results, bool)
    is_root[rows] = True
    values = [
        r if root or r < 0 else tape.apply("attach", r, zero)
        for r, root in zip(tape.outputs[:results], is_root.tolist(), strict=True)
    ]
    tape.outputs = [*values, *guards]
    found = linearize(tape, columns.tolist(), name=name, wanted=wanted, keeping=keeping)
    return replace(found, rows=found.rows[:results])


def inputs_of(recording: Recording, argnums: Sequence[int]) -> NDArray[np.int64]:
    """Return the inputs of the tape that belong to some arguments, in their order."""
    parts = [np.arange(recording.tape.inputs)[recording.argument_slices[k]] for k in argnums]
    return np.concatenate([*parts, np.empty(0, np.int64)], dtype=np.int64)


def entries_of_seeds(recording: Recording, selection: Selection) -> NDArray[np.int64]:
    """Inputs of the tape that are entries of directions or weights: a row for each."""
    parts = [inputs_of(recording, [seed]).reshape(selection.seed_count, -1) for seed in selection.seeds]
    return np.concatenate(parts, axis=1)


def in_directions(recording: Recording, selection: Selection, found: Linearization) -> Linearization:
    """The graph by directions: these are its terminals."""
    graph = found.graph
    count = selection.seed_count
    labels = entries_of_seeds(recording, selection)
    used = np.unique(np.asarray(graph.targets)[np.isin(graph.targets, graph.terminals)])
    # of the arguments' entries, those that nothing depends on are left out
    kept = np.ones(len(graph.vertices), bool)
    kept[list(graph.terminals)] = False
    kept[used] = True
    number = count + np.cumsum(kept) - 1
    sources = np.concatenate([number[graph.sources], np.tile(number[used], count)])
    targets = np.concatenate([number[graph.targets], np.repeat(np.arange(count), len(used))])
    directed = DifferentiationGraph.from_tape(
        found.tape,
        np.concatenate([np.array(graph.labels, np.int64), labels[:, used].reshape(-1)]),
        [f"d{k}" for k in range(count)] + [name for name, keep in zip(graph.vertices, kept, strict=True) if keep],
        number[list(graph.roots)].tolist() if graph.roots else [],
        range(count),
        sources,
        targets,
        name=graph.name,
    )
    return Linearization(directed, found.rows, tuple(range(count)))


def _weighted(recording: Recording, selection: Selection, found: Linearization) -> Linearization:
    """The graph of weighted results: these are its roots."""
    graph, tape = found.graph, found.tape.copy()
    count = selection.seed_count
    weights = entries_of_seeds(recording, selection)
    rows = np.array(found.rows, np.int64)
    first = len(graph.vertices)
    sources, targets, labels = [], [], []
    for direction in range(count):
        for place, root in enumerate(graph.roots):
            sources.append(first + direction)
            targets.append(root)
            # results that are equal are one root
            labels.append(tape.sum(weights[direction, np.flatnonzero(rows == place)].tolist()))
    weighted = DifferentiationGraph.from_tape(
        tape,
        [*graph.labels, *labels],
        [*graph.vertices, *(f"w{k}" for k in range(count))],
        range(first, first + count) if graph.roots else [],
        graph.terminals,
        np.concatenate([graph.sources, np.array(sources, np.int64)]),
        np.concatenate([graph.targets, np.array(targets, np.int64)]),
        name=graph.name,
    )
    return Linearization(weighted, tuple(range(count)) if graph.roots else (-1,) * count, found.columns)


def plan_of(linearization: Linearization, options: Options, deadline: Deadline) -> Plan:
    """The plan by which derivatives of a kind are accumulated; verified.

    The one of a Hessian is that of the Jacobian of the gradient's recording, of whose entries those of one triangle are
    kept (`accumulus.programs.results`).
    """
    graph = linearization.graph

    def before() -> None:
        if options.rewrites:  # all kernels that the stages from now on need, side by side
            with deadline.paused():
                prepare(*_KERNELS)

    brief = replace(options, effort=options.effort_of_order(len(graph.sources)))
    of_order = options.deadline_of_order(deadline)
    return find_plan(graph, brief, deadline=of_order, keep_best=False, before=before)


def counts_of(linearization: Linearization, plan: Plan | None = None) -> tuple[int, int]:
    """Operations that derivatives are written out with, at least about so many, and those that conditions reach."""
    graph = linearization.graph
    if plan is not None:
        steps = len(plan.accumulation.steps)
    else:
        counted, _ = sweep_counts(graph)
        # what is too large to be counted may be sparse: nothing is refused for what it may come to
        steps = min((priced.steps for priced in counted.values()), default=len(graph.sources))
    if graph.tape is None:
        return steps, 0
    codes, labels = np.frombuffer(graph.tape.codes, np.uint8), np.array(graph.labels, np.int64)
    conditional = int(np.count_nonzero(codes[labels[labels >= 0]] == _SELECT))
    # what is eliminated next to a condition has it, too: all, if they are not few
    return graph.tape.operations + steps, steps if FEW * conditional > len(labels) else conditional
