"""Code that computes the derivatives of a recording: straight-line code, or loops over bodies.

Both transformations return a `Derivation`, and the stages after them are the same: compiling, calls, batches, files,
reports. Straight-line code is linearised, planned, emitted and rewritten as a whole. Loops are differentiated body by
body and array by array. There, products with weights are gradients (w·J is the gradient of w·f). For products with
directions, J·v and H·v, the directions are an additional array that the inputs depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.elimination.emit import emit
from accumulus.frontends.decisions import holds_of
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, together
from accumulus.graph.linearize import Linearization
from accumulus.programs.graphs import (
    Start,
    cheapest,
    counts_of,
    entries_of_seeds,
    inputs_of,
    linearized,
    plan_of,
    rounds_of,
)
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.programs.rewritten import alternatives_for, primal_operations, rewritten, without_dead
from accumulus.programs.selection import Selection
from accumulus.programs.sparse import Nonzeros
from accumulus.repetition.iterations import Repeated
from accumulus.resubstitution.optimise import BRIEF, ROTATIONS, ByValue, has_results_of, is_by_value
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.optimise import Rounds
from accumulus.search.plan import BodyPlan, Plan
from accumulus.tape.live import needed
from accumulus.tape.moving import narrowed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import OpenIndicesError, Program
from accumulus.tape.tape import SELECT, Tape
from accumulus.targets.target import Code

if TYPE_CHECKING:
    from accumulus.options import Objective
    from accumulus.show.methods import MethodCosts


#: Starts by theorems, and the one without, are planned if quick plans make them at most this factor longer than the
#: shortest. A larger one takes time, a smaller one leaves out starts that longer searches make the shortest.
CLOSE: Final = 1.05
_ATTACH: Final = BY_NAME["attach"].code


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the derivation of code, for reports and pages."""

    jacobian_shape: tuple[int, int]  # entries of the results, and of the differentiated arguments
    nonzeros: int  # number of structural nonzeros of the Jacobian
    bodies: tuple[BodyPlan, ...] = ()  # verified plans of the loops' bodies; of a straight line, its only one
    products: int = 0  # number of scalar products of derivatives between bodies
    linearization: Linearization | None = None  # graph of a straight line
    by_value: ByValue | None = None  # record of resubstitution, if it ran
    stages: tuple[tuple[str, int], ...] = ()  # names of the stages of rewriting, and the operations that each left
    theorem: str | None = None  # theorem that gives values or derivatives of the graph
    # for programs from a file, whose plans are not in it: their costs, and what they minimise
    found: tuple[MethodCosts, Objective] | None = None

    @property
    def plan(self) -> Plan | None:
        """Plan of straight-line code; None for loops."""
        return self.bodies[0].plan if self.linearization is not None else None


@dataclass(slots=True)
class Derivation:
    """Code for a kind of derivatives, not compiled yet."""

    recording: Recording  # recording of the differentiated function
    kind: DerivativeKind  # kind of the results
    selection: Selection  # differentiated arguments
    # its outputs are the values, if the kind returns them; the derivatives; and the truth value that all guards hold
    code: Code
    nonzeros: Nonzeros  # structural nonzeros of the derivatives, by position among these
    facts: Facts
    from_cache: list[str] = field(default_factory=list)  # stages whose results were taken from the cache
    # stage in which the clock ended a search, so that another run may find another program; or empty
    cut_short: str = ""
    # function that builds the returned value at a point from all results; by default they keep the recording's
    # structure
    join: Callable[[Sequence[Any]], Any] | None = None


# In a straight line --------------------------------------------------------------------------------------------------


def straight_line(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    *,
    planned: tuple[Linearization, Plan | None] | None = None,
    starts: Sequence[Start] = (),
    works_on_arrays: bool = False,
) -> Derivation:
    """Return the derivatives of a recording without loops: planned, emitted and rewritten.

    Args:
        recording: recording without loops.
        kind: kind of the derivatives.
        selection: differentiated arguments, and the selected entries.
        preparation: name, options, deadline and stages.
        planned: graph, and its plan or None, to use instead of searching for them.
        starts: graphs of the derivatives to choose from, whose tapes have the same outputs; the one with the shortest
            estimated program is rewritten.
        works_on_arrays: if True, many operations are on entries of arrays, and alike.
    """
    options, values = preparation.options, recording.results
    if planned is not None:
        starts = [Start(*planned)]
    elif not starts:
        with preparation.stage("linearize"):
            starts = [Start(linearized(recording, kind, selection, preparation.name))]
    operations, guarded = np.array([counts_of(start.linearization, start.plan) for start in starts]).T
    preparation.expect(int(operations.max()), int(guarded.sum()))
    skipped = 0 if kind.values else values
    plain = None
    if any(start.theorem for start in starts):
        starts, plain = _agreeing(starts, preparation, skipped, has_seeds=bool(selection.seeds))
    emitted = [_emitted(start, preparation) for start in starts]
    with preparation.stage("optimise"):
        chosen = 0
        if len(starts) > 1:
            chosen = cheapest([_without(tape, skipped) for _, tape in emitted], preparation.context)
    start, (plan, tape) = starts[chosen], emitted[chosen]
    # a function that is defined by cases, with a series in one of them, satisfies a theorem at real points alone
    is_comparable = plain is not None and start.theorem == ROTATIONS and SELECT not in plain.codes
    original = plain.copy() if plain is not None and is_comparable else tape.copy()
    nonzeros = Nonzeros.of(start.linearization, sorted(plan.accumulation.entries))
    symmetric = kind.symmetric and not recording.follows_rules
    if symmetric:
        nonzeros = _halved(tape, nonzeros, start.linearization, plan, recording, selection)

    # arrange the outputs of an emitted tape for the kernel
    def arranged(tape: Tape) -> Tape:
        if recording.guards:  # the truth value of the guards comes last
            tape.outputs.append(tape.outputs.pop(values))
        # primal operations are found through the function's values, so these outputs are removed after them
        if not (kind.values or options.exact_order):
            del tape.outputs[:values]
        return tape

    def alternatives() -> Iterator[Tape]:
        if not symmetric:
            siblings = [other for k, (_, other) in enumerate(emitted) if k != chosen]
            yield from map(arranged, chain(siblings, alternatives_for(start.linearization, preparation.context)))

    with preparation.stage("optimise"):
        rounds = rounds_of(start, kind)
        if works_on_arrays and tape.operations > BRIEF[1]:
            rounds = replace(rounds, while_winning=True)  # what is won in one entry is won in all
        code, recalled, by_value, stages = _optimised(
            arranged(tape), arranged(original), kind, values, preparation, rounds, alternatives
        )
    linearization = start.linearization
    facts = Facts(
        (len(linearization.rows), len(linearization.columns)),
        len(nonzeros.rows),
        (BodyPlan(1, b"", plan, frozenset()),),
        linearization=linearization,
        by_value=by_value,
        stages=stages,
        theorem=start.theorem,
    )
    return Derivation(
        recording,
        kind,
        selection,
        code,
        nonzeros,
        facts,
        ["plan"] * plan.recalled + ["optimise"] * recalled,
        preparation.context.cut_short or "plan" * plan.cut_short,
    )


def _agreeing(
    starts: Sequence[Start], preparation: Preparation, skipped: int, *, has_seeds: bool
) -> tuple[list[Start], Tape]:
    """Return the starts whose derivatives agree, and the tape of the first one.

    Those that quick plans make much longer than others are left out, except under "thorough", as sources of values.

    Args:
        starts: starts, the first one without a theorem.
        preparation: options, deadline and stages.
        skipped: number of leading outputs that the program does not return.
        has_seeds: True for derivatives in directions, or weighted, whose columns are no inputs.
    """
    context, points = preparation.context, preparation.points
    quick = context.having(method="markowitz", effort="fast", executor=None)
    with preparation.stage("plan"):
        plans = [start.plan or plan_of(start.linearization, quick) for start in starts]
    with preparation.stage("emit"):
        tapes = [emit(plan.accumulation) for plan in plans]
    entries = np.array(sorted(plans[0].accumulation.entries), np.intp).reshape(-1, 2)
    columns = np.array(starts[0].linearization.columns, np.intp)
    gradients = None if has_seeds else (entries[:, 0], columns[entries[:, 1]])
    with preparation.stage("optimise"):
        agreeing = [
            (start, sum(needed(_without(tape, skipped))))
            for start, tape in zip(starts, tapes, strict=True)
            if not start.theorem or has_results_of(tape, tapes[0], context, points, gradients)
        ]
        least, is_thorough = min(count for _, count in agreeing), context.options.effort == "thorough"
        return [start for start, count in agreeing if start.plan or count <= CLOSE * least or is_thorough], tapes[0]


def _without(tape: Tape, skipped: int) -> Tape:
    """Return a copy of a tape without its first `skipped` outputs."""
    remainder = tape.copy()
    del remainder.outputs[:skipped]
    return remainder


def _emitted(start: Start, preparation: Preparation) -> tuple[Plan, Tape]:
    """Return the plan of a start, and the tape with its derivatives."""
    plan = start.plan
    if plan is None:
        with preparation.stage("plan"):
            plan = plan_of(start.linearization, preparation.context)
    with preparation.stage("emit"):
        return plan, emit(plan.accumulation)


def _halved(
    tape: Tape, nonzeros: Nonzeros, linearization: Linearization, plan: Plan, recording: Recording, selection: Selection
) -> Nonzeros:
    """Return the places of a Hessian's entries in both triangles; if both were planned, keep the cheaper one."""
    inputs = inputs_of(recording, selection.positions)
    skipped = recording.results - len(inputs)
    if linearization.graph.mirror is not None:
        return nonzeros.mirrored(inputs, skipped)
    first = len(tape.outputs) - len(plan.accumulation.entries)
    leading, entries = tape.outputs[:first], np.array(tape.outputs[first:], np.int64)
    ways = [nonzeros.of_one_triangle(inputs, skipped, upper=upper) for upper in (False, True)]
    costs = [sum(needed(tape, [*leading, *entries[np.unique(way.outputs)].tolist()])) for way in ways]
    chosen = ways[int(np.argmin(costs))]
    retained, places = np.unique(chosen.outputs, return_inverse=True)
    tape.outputs = [*leading, *entries[retained].tolist()]
    return Nonzeros(chosen.rows, chosen.columns, places.astype(np.intp))


def _optimised(
    emitted: Tape,
    original: Tape,
    kind: DerivativeKind,
    values: int,
    preparation: Preparation,
    rounds: Rounds,
    sources: Callable[[], Iterable[Tape]],
) -> tuple[Code, bool, ByValue | None, tuple[tuple[str, int], ...]]:
    """Return the code of a tape, True if it was in the cache, the record of resubstitution, and the stages.

    The record compares the code with the tape `original`, which has the same outputs.
    """
    options = preparation.options
    exact = values if options.exact_order else 0
    recalled, by_value = False, None
    stages: tuple[tuple[str, int], ...] = ()
    if options.rewrites:
        context, points, assumed = preparation.context, preparation.points, preparation.assumed
        tape, recalled, stages = rewritten(emitted, context, rounds, points, exact, sources, assumed)
        if is_by_value(emitted, options.effort):
            by_value = ByValue(original, tape, exact, assumed)
    else:
        tape = canonical(emitted, exact)
    primal: frozenset[int] = frozenset()
    if exact:
        primal = primal_operations(tape, values)
        if not kind.values:
            del tape.outputs[:values]
            # `canonical` would rewrite the remaining primal operations
            tape, primal = without_dead(tape, primal)
    return Code(tape, primal), recalled, by_value, stages


# As loops ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopDerivatives:
    """Derivatives as loops, as references on their tape."""

    tape: Program
    values: NDArray[np.int64]  # the recording's results, if the kind returns them
    guards: NDArray[np.int64]  # 1 where the guard holds, one for each
    entries: NDArray[np.int64]  # structural nonzeros of the derivatives, row by row
    nonzeros: Nonzeros  # their places, as `Results` takes them
    products: int  # number of scalar products between bodies
    columns: NDArray[np.int64]  # references of the column numbers of nonzeros whose places depend on indices
    bodies: tuple[BodyPlan, ...] = ()  # plans of the loops' bodies


def loop_nest(recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation) -> Derivation:
    """Return the derivatives of a recording with loops, as loops.

    Raises:
        SizeError: if the products between arrays are too many for memory.
    """
    with preparation.stage("plan"):
        derivatives = differentiated(recording, kind, selection, preparation.context, by_products=True)
    return _compilable(derivatives, recording, kind, selection, preparation)


def loops_of_sums(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation
) -> Derivation | None:
    """Return the Hessian of a recording with loops whose result is a sum over them; None if it is not."""
    from accumulus.arrays.separable import separable_hessian

    program = recording.program
    if not (kind.symmetric and recording.is_number) or selection.places is not None:
        return None
    points = preparation.points
    if points is None or recording.guards or has_attached(program) or program.has_lookups:
        return None
    inputs = inputs_of(recording, selection.positions)
    with preparation.stage("plan"):
        hessian = separable_hessian(program, inputs, preparation.context, points)
        if hessian is None:
            return None
        first, value = kind.skipped, np.array([hessian.value])
        values = np.concatenate([value[:first], hessian.gradient]) if kind.values else value[:0]
        places = np.arange(len(hessian.values))
        nonzeros = Nonzeros(hessian.rows + first, inputs[hessian.columns], places).mirrored(inputs, first)
        shapes = [recording.argument_shapes[k] or () for k in selection.positions]
        structure = together([Leaf()] * first + [selection.structure]) if first else selection.structure
        gradient = recording.returning(hessian.tape, [()] * first + shapes, structure)
        none = np.empty(0, np.int64)
        derivatives = LoopDerivatives(hessian.tape, values, none, hessian.values, nonzeros, hessian.products, none)
    return _compilable(derivatives, gradient, kind, selection, preparation)


def _compilable(
    derivatives: LoopDerivatives,
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
) -> Derivation:
    """Return code for derivatives as loops, with rewritten bodies."""
    from accumulus.resubstitution.optimise import optimise_bodies
    from accumulus.tape.fusion import fuse

    context = preparation.context
    tape, values = derivatives.tape, derivatives.values[: recording.results * kind.values]
    parts = [values, derivatives.entries, derivatives.columns]
    if recording.guards:  # the truth value of the guards comes last
        parts.append(np.array([holds_of(tape, derivatives.guards)]))
    tape.outputs = np.concatenate(parts)
    maps = fuse(tape)
    for each in maps:
        if each.steps is not None and len(each.steps) == 2 < each.count:  # no instance depends on another
            each.steps = None
    with preparation.stage("optimise"):
        if context.options.rewrites:
            optimise_bodies(maps, context, tape, preparation.points)
        else:
            for each in maps:
                each.body = canonical(each.body, each.sensitive)
    shape = recording.results, len(inputs_of(recording, selection.positions))
    facts = Facts(shape, len(derivatives.nonzeros.rows), derivatives.bodies, derivatives.products)
    code = Code(tape, maps=maps)
    return Derivation(recording, kind, selection, code, derivatives.nonzeros, facts, cut_short=context.cut_short)


def differentiated(
    recording: Recording, kind: DerivativeKind, selection: Selection, context: Context, *, by_products: bool = False
) -> LoopDerivatives:
    """Return the derivatives of a recording with loops.

    Args:
        recording: recording with loops.
        kind: kind of the derivatives.
        selection: differentiated arguments, and the selected entries.
        context: options and deadline.
        by_products: if False, the derivatives may be differentiated again, see
            `accumulus.arrays.jacobian.differentiate`.

    Raises:
        SizeError: if the products between arrays are too many for memory.
        OpenIndicesError: if the places of nonzeros depend on indices in an unsupported way.
    """
    from accumulus.arrays.jacobian import differentiate  # not needed by every process

    program, results = recording.program, recording.results
    inputs = inputs_of(recording, selection.positions)
    program_outputs, places = program.outputs, selection.places
    owners = None
    if kind.is_matrix and program.has_lookups:
        lengths = [span.stop - span.start for span in recording.argument_slices]
        owners = np.repeat(np.arange(len(lengths)), lengths)
    rows_before = sum(int(np.prod(shape)) for shape in recording.result_shapes[: kind.skipped])
    values, guards = program_outputs[:results], program_outputs[results:]
    # rows of the derivatives, and outputs before the differentiated ones
    rows_of, before = np.arange(rows_before, results), values[:rows_before]
    if kind.seeds is Seeds.COTANGENTS:
        before = values
        weights = entries_of_seeds(recording, selection)
        ends = [program.sums(program.apply("multiply", row, values), [0, results]) for row in weights]
        rows_of, targets = np.arange(len(weights)), np.stack(ends).reshape(-1)
    else:
        if places is not None:
            rows_of, inputs = places.rows + rows_before, inputs[places.columns]
            before = values if kind.values else values[:0]
        targets = values[rows_of]
    try:
        program.outputs = np.concatenate([_fixed(program, before), targets, guards])
        directions = entries_of_seeds(recording, selection) if kind.seeds is Seeds.TANGENTS else None
        chosen = program if places is None else narrowed(program)
        derivatives = differentiate(chosen, inputs, context, directions, owners, by_products=by_products)
    finally:
        program.outputs = program_outputs
    made, outputs = derivatives.tape, derivatives.tape.outputs
    rows, columns, entries = rows_of[derivatives.rows - len(before)], derivatives.columns, outputs[derivatives.values :]
    if places is not None and places.pairs is not None:
        width, column_of = places.size[1], np.zeros(program.inputs, np.int64)
        column_of[inputs] = places.columns
        keys = (rows.astype(np.int64) - rows_before) * width + column_of[columns]
        is_requested = np.isin(keys, places.pairs @ np.array([width, 1]))
        rows, columns, entries = rows[is_requested], columns[is_requested], entries[is_requested]
    values = outputs[: results if places is None or kind.values else 0]
    guards = outputs[derivatives.values - len(guards) : derivatives.values]
    if places is not None:
        made.outputs = np.concatenate([values, guards, entries])
        made = narrowed(made)
        values, guards, entries = np.split(made.outputs, np.cumsum([len(values), len(guards)]))
    nonzeros = Nonzeros(rows, columns, np.arange(len(rows), dtype=np.int32))
    numbers = np.empty(0, np.int64)
    if derivatives.opened is not None:
        if context.options.sparse is None or places is not None or kind.symmetric:
            raise OpenIndicesError
        nonzeros, numbers = nonzeros.opened(derivatives.opened, program.inputs)
    return LoopDerivatives(made, values, guards, entries, nonzeros, derivatives.products, numbers, derivatives.bodies)


def _fixed(tape: Program, references: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values with derivatives of zero."""
    if not len(references):
        return references
    return np.asarray(tape.apply("attach", references, tape.constant(0.0)), np.int64)


def has_attached(tape: Program) -> bool:
    """Return True if the program, or a loop that it calls, has values with attached derivatives."""
    loops = [each.body for each in tape.calls if isinstance(each, Repeated)]
    return tape.uses(_ATTACH) or any(map(has_attached, loops))
