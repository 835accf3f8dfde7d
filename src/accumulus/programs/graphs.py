"""Graph and plan of the requested derivatives of a recording: of the Jacobian, or of products with it.

A direction is an additional terminal on which the arguments depend, with its entries as labels. A weight is an
additional root that depends on the results, with its entries as labels. The search over elimination orders therefore
decides whether forward, reverse, or a mixed order is cheapest, and the Jacobian is formed only where this is cheaper.

**Starts of products.** A product with one direction computes f and, for each of its operations, the effect on the
direction. It is short where f is short, and the rewriter finds a short f far more easily than a short product, since f
has a third of the operations. Therefore f is rewritten first, and the product is derived from the shorter f; for H·v,
the gradient is rewritten as well. A shorter f need not have the shorter product, and the cheapest elimination order is
not known before rewriting. Several starts are therefore emitted, and the one with the lowest cost in a short search is
kept. Two orders are compared. One runs from the directions (the weights) through the graph. The other forms the
Jacobian first, which is shorter if the entries of the Jacobian share most of their operations.

**Starts of Jacobians.** Long Jacobians are derived from the rewritten function, too: the rewriter has too little time
to cover a long program, and operations that it removes from the function first need not be differentiated. If a result
no longer depends on an argument after rewriting, the Jacobian would have fewer nonzeros than its pattern; then the
function is differentiated as recorded.

**Starts by a theorem.** Rotations by vectors have short derivatives that no elimination order of their operations finds
(`accumulus.graph.rotations`). A function with them has one more start, whose derivatives are proved equal to those of
the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.frontends.decisions import holds_of
from accumulus.frontends.recorder import Recording
from accumulus.graph.graph import DifferentiationGraph, are_selected
from accumulus.graph.linearize import Linearization, linearize
from accumulus.graph.rotations import with_rotations
from accumulus.native.machine import prepare
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.programs.rewritten import rewritten
from accumulus.programs.selection import Selection
from accumulus.programs.sparse import Nonzeros
from accumulus.programs.waves import with_sums_of_waves
from accumulus.resubstitution.optimise import (
    ROTATIONS,
    WAVES,
    shorter_by_angles,
)
from accumulus.rewriting.optimise import MOVES, Rounds, preview
from accumulus.search.elimination import sweep_counts
from accumulus.search.find import find_plan
from accumulus.search.plan import Plan
from accumulus.search.vertex_orders import greedy_orders
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape

#: If more than one label in this many has a condition, all steps count as conditional. A larger number overestimates
#: the preparation of functions with few conditions, a smaller one underestimates it where conditions spread.
FEW: Final = 50
_SELECT: Final = BY_NAME["select"].code

#: Kernels that the stages from planning on need; they are prepared side by side.
_KERNELS: Final = (
    *("elimination.vertex", "elimination.labels", "search.order"),
    *("rewriting.rewrite", "rewriting.signs", "tape.passes"),
)


def linearized(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    name: str,
    *,
    joined: bool = True,
    keeping: bool = False,
) -> Linearization:
    """Return the graph of a kind of derivative for the selected arguments; for the rest, see `linearize_arguments`."""
    skipped = sum(int(np.prod(shape)) for shape in recording.result_shapes[: kind.skipped])
    linearization = linearize_arguments(recording, selection, name, skipped, joined=joined, keeping=keeping)
    if kind.seeds is Seeds.TANGENTS:
        return in_directions(recording, selection, linearization)
    if kind.seeds is Seeds.COTANGENTS:
        return _weighted(recording, selection, linearization)
    return linearization


def linearize_arguments(
    recording: Recording,
    selection: Selection,
    name: str,
    skipped: int = 0,
    *,
    joined: bool = True,
    keeping: bool = False,
) -> Linearization:
    """Return the graph of a recorded function with respect to the selected arguments, for the selected entries.

    If the recording has guards, the tape has one more output than the graph: 1 where all guards hold, else 0.

    Args:
        recording: recording of the function.
        selection: differentiated arguments, and the selected entries.
        name: name of the function, for messages.
        skipped: number of leading result entries that are not differentiated.
        joined: if False, there is a separate output for each guard.
        keeping: as for `linearize`.
    """
    columns, places, selected = inputs_of(recording, selection.positions), selection.places, None
    rows = np.arange(skipped, recording.results)
    if places is not None:
        columns, rows = columns[places.columns], places.rows + skipped
        if places.pairs is not None:
            selected = np.stack(
                [places.pairs[:, 0] + skipped, np.searchsorted(places.columns, places.pairs[:, 1])], axis=1
            )
    if not recording.guards and len(rows) == recording.results:
        return linearize(recording.tape, columns.tolist(), name=name, selected=selected, keeping=keeping)
    tape, results = recording.tape.copy(), recording.results
    guards = tape.outputs[results:]
    if guards and joined:
        guards = [holds_of(tape, np.array(guards))]
    # an attached derivative of zero keeps the other results from being roots
    zero, is_root = tape.constant(0.0), np.zeros(results, bool)
    is_root[rows] = True
    values = [
        r if root or r < 0 else tape.apply("attach", r, zero)
        for r, root in zip(tape.outputs[:results], is_root.tolist(), strict=True)
    ]
    tape.outputs = [*values, *guards]
    linearization = linearize(tape, columns.tolist(), name=name, selected=selected, keeping=keeping)
    return replace(linearization, rows=linearization.rows[:results])


def inputs_of(recording: Recording, argnums: Sequence[int]) -> NDArray[np.int64]:
    """Return the tape inputs that belong to the arguments at `argnums`, in their order."""
    parts = [np.arange(recording.program.inputs)[recording.argument_slices[k]] for k in argnums]
    return np.concatenate([*parts, np.empty(0, np.int64)], dtype=np.int64)


def entries_of_seeds(recording: Recording, selection: Selection) -> NDArray[np.int64]:
    """Return the tape inputs that are entries of directions or weights, one row for each."""
    parts = [inputs_of(recording, [seed]).reshape(selection.seed_count, -1) for seed in selection.seeds]
    return np.concatenate(parts, axis=1)


def in_directions(recording: Recording, selection: Selection, linearization: Linearization) -> Linearization:
    """Return the graph with the directions as terminals, in place of the arguments."""
    graph = linearization.graph
    count = selection.seed_count
    labels = entries_of_seeds(recording, selection)
    used = np.unique(np.asarray(graph.targets)[np.isin(graph.targets, graph.terminals)])
    # leave out entries of the arguments that no value depends on
    remaining = np.ones(len(graph.vertices), bool)
    remaining[list(graph.terminals)] = False
    remaining[used] = True
    number = count + np.cumsum(remaining) - 1
    sources = np.concatenate([number[graph.sources], np.tile(number[used], count)])
    targets = np.concatenate([number[graph.targets], np.repeat(np.arange(count), len(used))])
    directed = DifferentiationGraph.from_tape(
        linearization.tape,
        np.concatenate([np.array(graph.labels, np.int64), labels[:, used].reshape(-1)]),
        [f"d{k}" for k in range(count)] + [name for name, keep in zip(graph.vertices, remaining, strict=True) if keep],
        number[list(graph.roots)].tolist() if graph.roots else [],
        range(count),
        sources,
        targets,
        name=graph.name,
    )
    return Linearization(directed, linearization.rows, tuple(range(count)))


def _weighted(recording: Recording, selection: Selection, linearization: Linearization) -> Linearization:
    """Return the graph with the weighted results as roots, in place of the results."""
    graph, tape = linearization.graph, linearization.tape.copy()
    count = selection.seed_count
    weights = entries_of_seeds(recording, selection)
    rows = np.array(linearization.rows, np.int64)
    first = len(graph.vertices)
    sources, targets, labels = [], [], []
    for direction in range(count):
        for row, root in enumerate(graph.roots):
            sources.append(first + direction)
            targets.append(root)
            # equal results share a root
            labels.append(tape.sum(weights[direction, np.flatnonzero(rows == row)].tolist()))
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
    return Linearization(weighted, tuple(range(count)) if graph.roots else (-1,) * count, linearization.columns)


def plan_of(linearization: Linearization, context: Context) -> Plan:
    """Return the verified plan that accumulates derivatives of a kind.

    For a Hessian, it is the plan of the Jacobian of the recorded gradient; one triangle of the entries is kept
    afterwards (`accumulus.programs.results`).
    """
    graph = linearization.graph

    def before() -> None:
        if context.options.rewrites:  # prepare all kernels that later stages need, side by side
            with context.paused():
                prepare(*_KERNELS)

    return find_plan(graph, context.planning(len(graph.sources)), keep_best=False, before=before)


def counts_of(linearization: Linearization, plan: Plan | None = None) -> tuple[int, int]:
    """Return estimated numbers of operations of the derivatives: of all, and of those reached by conditions."""
    graph = linearization.graph
    if plan is not None:
        steps = len(plan.accumulation.steps)
    else:
        counted, _ = sweep_counts(graph)
        # a graph too large to be counted may be sparse, so the estimate is optimistic rather than a refusal
        steps = min((priced.steps for priced in counted.values()), default=len(graph.sources))
    if graph.tape is None:
        return steps, 0
    codes, labels = np.frombuffer(graph.tape.codes, np.uint8), np.array(graph.labels, np.int64)
    conditional = int(np.count_nonzero(codes[labels[labels >= 0]] == _SELECT))
    # eliminating next to a condition spreads it: all steps are conditional, unless conditions are few
    return graph.tape.operations + steps, steps if FEW * conditional > len(labels) else conditional


# Starts ---------------------------------------------------------------------------------------------------------------


#: Estimated number of operations of a Jacobian and its function from which on the function is rewritten first. A larger
#: number gives up operations, a smaller one spends preparation time on a rewriting that gains little.
LONG: Final = 2_500
#: Rounds of rewriting for a function before it is differentiated once or twice; and afterwards, with less left to gain,
#: for its gradient and its products. More moves or rounds cost preparation time in proportion, fewer leave operations.
BEFORE: Final = {1: Rounds(MOVES // 2), 2: Rounds(MOVES // 2, (0.35, 0.6, 0.45))}
AFTER: Final = {1: Rounds(MOVES // 2), 2: Rounds(MOVES // 2, (0.35, 0.5))}
#: Rounds of rewriting for products of functions that were not rewritten; more cost preparation time, fewer leave
#: operations.
ALONE: Final = Rounds(MOVES // 2, (0.35, 0.5))
#: Maximum number of operations of a function that is rewritten first; and the fraction of the time for this. Larger
#: values take time from the search for an order and from rewriting the derivatives, smaller ones leave operations that
#: derivatives multiply.
MOST: Final = 2_000
_SHARE: Final = 0.3
#: A Jacobian is formed if it takes at most this many products and sums for each edge; a direction takes one. With a
#: larger number, Jacobians are formed that cost more than the sweeps they replace; with a smaller one, shorter products
#: are missed.
_FORMED: Final = 1.6
#: Moves, for each node, of the search that compares starts: more cost preparation time for each start, fewer choose the
#: start by less of what rewriting gains.
LOOKS: Final = 60
#: Starts with more operations than this multiple of the fewest are not compared. Comparing more of them takes time,
#: comparing fewer misses starts that rewriting shortens most.
_MORE: Final = 1.15
#: The sweep for one direction, or one row of weights.
_SWEEPS: Final = {Seeds.TANGENTS: "forward", Seeds.COTANGENTS: "reverse"}
#: Operations whose derivatives may depend on the rounding of their arguments or of the values they select from. A value
#: with an attached derivative would lose it in the rewriter.
_STAY: Final = frozenset(
    BY_NAME[name].code
    for name in (
        *("select", "attach", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not"),
        *("floor", "ceil", "sign", "fmod"),
    )
)
_ADD, _SUBTRACT, _NEGATIVE, _MULTIPLY, _DIVIDE, _POWER = (
    BY_NAME[name].code for name in ("add", "subtract", "negative", "multiply", "divide", "power")
)
_LINEAR: Final = (_ADD, _SUBTRACT, _NEGATIVE)


@dataclass(frozen=True, slots=True)
class Start:
    """A graph of derivatives, and its plan if it has one."""

    linearization: Linearization  # the tape has the same outputs for all starts
    plan: Plan | None = None  # plan for the graph; None if it is still to be found
    is_short: bool = False  # True if the differentiated function has been rewritten
    # theorem that gives values or derivatives, so that the emitted ones are compared with those of the first start
    theorem: str | None = None


def shorter_recording(
    recording: Recording, preparation: Preparation, rounds: Rounds, *, sums_of_angles: bool = False
) -> Recording | None:
    """Return the recording with fewer operations, to be differentiated; None if there is no safe one.

    Sums of angles shorten Jacobians of chains of links, but often lengthen single products of short functions.
    """
    if not preparation.options.compares_rewritten or not _is_short(recording):
        return None
    tape = recording.tape
    if not _keeps_derivatives(tape):
        return None
    with preparation.stage("optimise"):
        context, points = preparation.context.part(_SHARE), preparation.points
        tape_to_rewrite = shorter_by_angles(tape, context, points) if sums_of_angles else tape
        made = rewritten(tape_to_rewrite, context, rounds, points, assumed=preparation.assumed).tape
    if _with_tangents(made) >= _with_tangents(tape):
        return None
    return recording.computing(made)


def jacobian_starts(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation
) -> list[Start]:
    """Return the graphs of a function or its Jacobian to choose from; a long Jacobian is of the shortened function.

    All have the same pattern of nonzeros.

    Args:
        recording: recording of the function.
        kind: kind of the derivatives, without seeds.
        selection: differentiated arguments, and the selected entries.
        preparation: name, options, deadline and stages.
    """
    with preparation.stage("linearize"):
        linearization = linearized(recording, kind, selection, preparation.name)
    is_long = kind.derivatives and counts_of(linearization)[0] >= LONG
    if is_long:
        short = shorter_recording(recording, preparation, BEFORE[1], sums_of_angles=True)
        if short is not None:
            with preparation.stage("linearize"):
                shorter = linearized(short, kind, selection, preparation.name)
            linearization = shorter if _have_same_pattern(linearization, shorter) else linearization
    others = [] if is_long else _by_theorems(recording, kind, selection, preparation, linearization)
    return [Start(linearization), *others]


def _by_theorems(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    linearization: Linearization,
) -> list[Start]:
    """Return starts with the same pattern as the graph of a recording, in which theorems give values or derivatives.

    Args:
        recording: recording of the function.
        kind: kind of the derivatives.
        selection: differentiated arguments, and the selected entries.
        preparation: name, options, deadline and stages.
        linearization: graph of the recording.
    """
    options, points, tape = preparation.options, preparation.points, recording.tape
    if not (options.compares_rewritten and kind.derivatives and tape.operations <= MOST):
        return []
    with preparation.stage("linearize"):
        made = [(recording.computing(other), ROTATIONS) for other in with_rotations(tape, recording.results)]
        waves = with_sums_of_waves(tape, recording.results, preparation.context, points)
    if waves is not None:
        by_waves = recording.computing(waves)
        made.append((shorter_recording(by_waves, preparation, BEFORE[1]) or by_waves, WAVES))
    with preparation.stage("linearize"):
        starts = [
            Start(linearized(other, kind, selection, preparation.name), theorem=theorem) for other, theorem in made
        ]
        return [start for start in starts if _have_same_pattern(linearization, start.linearization)]


def _have_same_pattern(one: Linearization, other: Linearization) -> bool:
    """Return True if two graphs have the same nonzeros, in the same order."""
    first, second = (Nonzeros.of(each, connected(each)) for each in (one, other))
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ("rows", "columns", "outputs"))


def connected(linearization: Linearization) -> list[tuple[int, int]]:
    """Return pairs of a root and a terminal, by position, that a path joins; with a mirror, of one triangle."""
    from accumulus.graph.degrees import index_domains  # not needed by every process

    graph = linearization.graph
    domains, size = index_domains(graph), len(graph.terminals) // 8 + 1
    pairs = []
    for row, root in enumerate(graph.roots):
        bits = np.frombuffer(domains[root].to_bytes(size, "little"), np.uint8)
        columns = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        pairs.append(np.stack([np.full(len(columns), row), columns], axis=1))
    places = np.concatenate([*pairs, np.zeros((0, 2), np.int64)]).astype(np.int64)
    return [(row, column) for row, column in places[are_selected(graph, places)].tolist()]


def starts_of(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation, is_short: bool = False
) -> list[Start]:
    """Return the starts of products with the Jacobian of a recording: along the seeds, and through the Jacobian."""
    with preparation.stage("linearize"):
        linearization = linearized(recording, kind, selection, preparation.name)
    preparation.expect(*counts_of(linearization))
    start = along_seeds(linearization, kind, selection, preparation, is_short)
    formed = (
        _formed(recording, linearization, selection, preparation) if preparation.options.compares_rewritten else None
    )
    others = _by_theorems(recording, kind, selection, preparation, linearization)
    return [
        start,
        *([] if formed is None else [Start(linearization, formed, is_short)]),
        *(
            replace(along_seeds(each.linearization, kind, selection, preparation, is_short), theorem=each.theorem)
            for each in others
        ),
    ]


def along_seeds(
    linearization: Linearization, kind: DerivativeKind, selection: Selection, preparation: Preparation, is_short: bool
) -> Start:
    """Return the start of a product along the seeds: a sweep for one seed; for several, the plan is found later."""
    options = preparation.options
    if selection.seed_count > 1 or not options.compares_rewritten:
        return Start(linearization, None, is_short)
    with preparation.stage("plan"):
        sweep = replace(options, method=_SWEEPS[kind.seeds], executor=None)
        return Start(linearization, find_plan(linearization.graph, Context(sweep), keep_best=False), is_short)


def rounds_of(start: Start, kind: DerivativeKind) -> Rounds:
    """Return the rounds of rewriting for the emitted derivatives of a start."""
    if start.is_short:
        return AFTER[kind.order]
    return ALONE if kind.has_seeds else Rounds()


def _formed(
    recording: Recording, linearization: Linearization, selection: Selection, preparation: Preparation
) -> Plan | None:
    """Return the plan that forms the Jacobian and multiplies it; None if there is none, or a search takes too long."""
    if not _is_short(recording):
        return None
    with preparation.stage("linearize"):
        of_jacobian = linearize_arguments(recording, selection, preparation.name)
    with preparation.stage("plan"):
        priced = [greedy.priced for greedy in greedy_orders(of_jacobian.graph, preparation.options.objective)]
        if min(each.cost[0] + each.additions for each in priced) > _FORMED * len(of_jacobian.graph.sources):
            return None
        context = preparation.context.having(method="vertex", executor=None)
        plan = plan_of(of_jacobian, context)
        if plan.order is None:
            return None
        graph, names = linearization.graph, [of_jacobian.graph.vertices[v] for v in plan.order]
        inner = [graph.vertices[v] for v in graph.intermediates]
        eliminated, left = set(inner), [name for name in inner if name not in set(names)]
        order = [*(name for name in names if name in eliminated), *left]
        return find_plan(graph, context.having(method="auto"), order, keep_best=False)


def _is_short(recording: Recording) -> bool:
    """Return True for straight-line code of few operations without guards."""
    return recording.program.is_straight and recording.tape.operations <= MOST and not recording.guards


def _with_tangents(tape: Tape) -> int:
    """Return an estimate of the operations of a tape together with its product with one direction."""
    rows = rows_of(tape, tape.inputs)[np.frombuffer(needed(tape), bool)[tape.inputs :]]
    codes, first, second = rows[:, :3].T
    constant = (first < 0) | (second < 0)
    products = np.where(constant, 2, np.where(first == second, 3, 4))
    quotients = np.where(constant, 3, 4)
    linear = np.isin(codes, _LINEAR)
    rest = np.where(linear, np.where(constant & (codes != _NEGATIVE), 1, 2), 3)
    return int(np.where(codes == _MULTIPLY, products, np.where(codes == _DIVIDE, quotients, rest)).sum())


def _keeps_derivatives(tape: Tape) -> bool:
    """Return True if rewritten programs have the same derivatives, even where single operations have none.

    Half-integer powers become products with roots, and powers that differ by one become products with the lower power.
    Neither has a derivative at 0.
    """
    if any(code in _STAY for code in set(tape.codes[tape.inputs :])):
        return False
    powers = [k for k in range(tape.inputs, len(tape)) if tape.codes[k] == _POWER and tape.second[k] < 0]
    there = {(tape.first[k], tape.value_of(tape.second[k])) for k in powers}
    return not any(
        p > 1.0 and not p.is_integer() and ((2.0 * p).is_integer() or (base, p - 1.0) in there) for base, p in there
    )


def cheapest(tapes: Sequence[Tape], context: Context) -> int:
    """Return the position of the tape that a short rewriting search makes the cheapest; the first of equal ones."""
    if len(tapes) == 1:
        return 0
    counts = [sum(needed(tape)) for tape in tapes]
    within = [k for k, count in enumerate(counts) if count <= _MORE * min(counts)]
    if len(within) == 1:
        return within[0]
    costs = {k: preview(tapes[k], context, LOOKS) for k in within}
    return min(costs, key=lambda k: costs[k])
