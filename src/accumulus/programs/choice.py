"""Choice between loops and straight-line code for the program of a recording."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.gradient_graph import is_mirrored
from accumulus.errors import SizeError
from accumulus.frontends.record import REPEATED
from accumulus.frontends.recorder import Recording
from accumulus.graph.linearize import Linearization
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import Derivation, loop_nest, loops_of_sums, straight_line
from accumulus.programs.derived import derived, derived_as_loops, of_gradient
from accumulus.programs.expansion import taylor_recording
from accumulus.programs.graphs import (
    AFTER,
    BEFORE,
    MOST,
    Start,
    along_seeds,
    in_directions,
    inputs_of,
    jacobian_starts,
    linearize_arguments,
    linearized,
    shorter_recording,
    starts_of,
)
from accumulus.programs.iterated import gradient_by_loops, suits, with_loops, without_repeated
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.repetition.instances import by_instance
from accumulus.repetition.roll import rolled
from accumulus.search.elimination import sweep_counts
from accumulus.tape.interpreter import outputs_at
from accumulus.tape.program import ManyBlocksError
from accumulus.targets import Call

#: Maximum number of products for which a derivative is written out if its arrays can be recorded as such. More take
#: seconds to compile, and a call is hardly faster than loops; with fewer, calls of medium derivatives are slower.
MOST_PRODUCTS: Final = 60_000
#: Maximum number of operations on entries of long arrays whose derivatives are written out. Above, loops are no slower
#: at one point (0.5 to 0.9 of the time; in batches 1 to 1.8 times), and the first result takes a tenth to a fortieth of
#: the time; with fewer, calls of medium arrays take up to five times as long.
MOST_IN_LINE: Final = 10_000
#: Largest number of these operations for each different one if entries have operations in common, which are computed
#: once where they are written out, and each time by loops; and largest number of different ones for each input, since
#: distances of all pairs have much more in common after rewriting. Larger numbers make loops of such functions, which
#: then take up to five times as long, smaller ones leave more functions to be prepared for half a second.
IN_COMMON: Final = 1.2
OF_INPUT: Final = 20
#: The same number of operations for each different one up to which entries have nothing in common.
NOTHING_IN_COMMON: Final = 1.01
#: Maximum number of operations on long arrays that are written out for factors: more take many seconds to compile,
#: fewer leave products to factors with many nonzeros for each operation.
MOST_WRITTEN_OUT: Final = 20_000
#: Maximum number of operations for which a product with directions or weights is written out. Above, a call of loops is
#: faster, and its first result takes a tenth of the time; a smaller number makes loops of short products, whose calls
#: take longer.
MOST_ALONG_SEEDS: Final = 20_000
#: Estimated number of operations of derivatives of loops in Python up to which these are written out. With more, that
#: takes longer than a second to prepare, and loops take a tenth; with fewer, calls of short loops take two to five
#: times as long, and batches up to ten times.
MOST_OF_LOOPS: Final = 8_000
#: Operations of first derivatives for each operation of the function, of one result or along one direction, and of
#: more; and inputs for one more operation of second derivatives. Larger numbers make more of them loops.
FIRST_ORDER: Final = (2.2, 3.5)
INPUTS_OF_ONE: Final = 4
#: Approximate number of operations of second derivatives for each operation of the function. In a straight line they
#: take seconds from a quarter of the operations on that make a function long. As loops, their first result takes a
#: tenth of that time, and calls take two to eight times as long. A larger number makes more of them loops.
SECOND_ORDER: Final = 4.0
#: Maximum number of nonzeros for each operation of the function at which a product with the sparse matrix costs no more
#: than a product through the operations. With more, products with the matrix take longer; with fewer, more operations
#: are written out, which take longer to compile.
SPARSE: Final = 4


class Recorded(NamedTuple):
    """A recording with the facts from which its program is made."""

    recording: Recording  # recording of the function
    kind: DerivativeKind
    selection: Selection  # differentiated arguments
    preparation: Preparation  # options, and the stages so far
    points: NDArray[np.float64]  # points at which the recording holds, (points, inputs)


def program_of(recorded: Recorded, first: Call, shared: tuple[bool, ...]) -> CompiledProgram:
    """Return loops if the recording has blocks, else straight-line code; arguments as for `CompiledProgram.of`.

    Operations on long arrays that were few enough to be written out become loops if their derivatives are too many.
    Straight-line code in which `rolled` found loops stays as recorded if the derivatives between arrays are too many.

    Raises:
        SizeError: if they are too many and the arrays were recorded as such.
    """
    recording, kind, selection, preparation, points = recorded
    preparation.points = np.stack([*points, *preparation.others])
    if kind.first is None and not suits(recording, kind, selection, preparation.options):
        recording = without_repeated(recording)
    if recording.loops is not None:
        recording = _as_loops(recording, preparation)
    if kind.factored:
        return _factored(recording, selection, preparation, first, shared)
    if kind.derivatives and not kind.has_seeds and preparation.options.takes_arrays and _is_long(recording):
        recording = replace(_as_loops(recording, preparation), other=recording.program)
    if preparation.options.takes_arrays and _has_long_loops(recording, kind, selection):
        recording = replace(_as_loops(recording, preparation), other=recording.program)
    works_on_arrays, planned = recording.works_on_arrays, None
    starts: list[Start] = []
    if kind.seeds is Seeds.SERIES:
        recording = _expanded(recording, selection, preparation, points)
        kind, selection = replace(kind, seeds=Seeds.NONE), Selection.of(())
    if kind.has_seeds and preparation.options.takes_arrays and _is_long_along_seeds(recording, kind, selection):
        recording = _as_loops(recording, preparation)
    if kind.first is not None:
        if preparation.options.takes_arrays and recording.loops is None and recording.other is None:
            recording = _rolled(recording, preparation)
        if recording.loops is not None:
            loops = _of_blocks(recording, kind, kind.first, selection, preparation)
            if loops is not None:
                return loops
            recording = recording.as_scalars()
        if kind.seeds is Seeds.TANGENTS:
            recording, starts = _second_products(recording, kind, kind.first, selection, preparation, points)
        else:
            recording, mirrored = second_order(recording, kind, kind.first, selection, preparation, points)
            planned = None if mirrored is None else (mirrored, None)
    elif not kind.has_seeds and kind.derivatives and preparation.options.takes_arrays and _may_be_long(recording):
        with preparation.stage("linearize"):
            linearization = linearize_arguments(recording, selection, preparation.name)
            counted, _ = sweep_counts(linearization.graph)
        if not counted or min(priced.products for priced in counted.values()) > MOST_PRODUCTS:
            recording = _as_loops(recording, preparation)
        else:
            planned = linearization, None
    if recording.loops is not None:
        try:
            derivation = _of_loops(replace(recording, other=None), kind, selection, preparation)
            return CompiledProgram.of(derivation, preparation, first, shared)
        except ManyBlocksError:
            pass
        except SizeError:
            if recording.other is None:
                raise
        recording = recording.as_scalars()
    if kind.has_seeds and not starts:
        starts = _products(recording, kind, selection, preparation)
    straight = replace(recording, other=None, unrolled=0)

    def written_out(preparation: Preparation) -> Derivation:
        chosen, graph = starts, planned
        if not starts and kind.first is None:
            chosen, graph = jacobian_starts(recording, kind, selection, preparation, planned and planned[0]), None
        return straight_line(
            straight, kind, selection, preparation, planned=graph, starts=chosen, works_on_arrays=works_on_arrays
        )

    options, made = preparation.options, []
    is_thorough = options.effort == "thorough" and options.counts_rewritten and options.searches
    if is_thorough and kind.derivatives and straight.scalars.operations <= MOST:
        # a thorough search may choose another order, whose program need not be shorter than the default one
        made.append(written_out(preparation.by_default()))
    made.insert(0, written_out(preparation))
    return CompiledProgram.of(min(made, key=lambda each: each.code.operations), preparation, first, shared)


def _of_loops(recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation) -> Derivation:
    """Return the derivatives of a recording with loops, as loops; long loops over arrays are calls where they can be.

    Raises:
        SizeError: if the products between arrays are too many for memory.
    """
    calling = with_loops(recording, kind, selection, preparation)
    if calling is not None:
        with suppress(SizeError):
            derivation = loop_nest(calling, kind, selection, preparation)
            cut_short = [stage for each in derivation.code.tape.calls if (stage := getattr(each, "cut_short", ""))]
            return replace(derivation, cut_short=derivation.cut_short or next(iter(cut_short), ""))
    return loop_nest(without_repeated(recording), kind, selection, preparation)


def _as_loops(recording: Recording, preparation: Preparation) -> Recording:
    """Return the recording with operations on long arrays as loops, grouped by instance where this is a gain."""
    loops = recording.as_loops()
    if loops.loops is None:
        return loops
    with preparation.stage("trace"):
        return replace(loops, program=by_instance(loops.loops, loops.results))


def _rolled(recording: Recording, preparation: Preparation) -> Recording:
    """Return the recording with its repetitions as loops, if its second derivatives would be many operations."""
    with preparation.stage("trace"):
        loops = rolled(recording.scalars, SECOND_ORDER)
        if loops is None or preparation.points is None:
            return recording
        one, other = (outputs_at(each, preparation.points) for each in (loops, recording.program))
        if not np.allclose(one, other, rtol=1e-9, equal_nan=True):
            return recording
    return replace(recording, program=loops, other=recording.program, unrolled=0)


def _products(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation
) -> list[Start]:
    """Return the starts of products with the Jacobian, for the shortened recording if there is one."""
    short = shorter_recording(recording, preparation, BEFORE[1])
    return starts_of(short or recording, kind, selection, preparation, short is not None)


def _second_products(
    recording: Recording,
    kind: DerivativeKind,
    first: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64],
) -> tuple[Recording, list[Start]]:
    """Return the gradient of a recording, and the starts of products with its Jacobian.

    A gradient graph with a mirror is one more start. It has the gradient's operations in the order of reverse mode,
    which the plan of the other gradient rearranges. Either can give the shorter program.
    """
    short = shorter_recording(recording, preparation, BEFORE[2])
    recorded, is_short = short or recording, short is not None
    mirrored = _with_mirror(recorded, first, selection, preparation)
    gradient = derived(recorded, first, selection.whole, preparation, points)
    shorter = shorter_recording(gradient, preparation, (AFTER if is_short else BEFORE)[2])
    starts = starts_of(shorter or gradient, kind, selection, preparation, is_short or shorter is not None)
    if mirrored is not None:
        starts.append(along_seeds(mirrored, kind, selection, preparation, is_short))
    if is_short:
        mirrored = _with_mirror(recording, first, selection, preparation)
        if mirrored is not None:
            starts.append(along_seeds(mirrored, kind, selection, preparation, False))
    return gradient, starts


def _expanded(
    recording: Recording, selection: Selection, preparation: Preparation, points: NDArray[np.float64]
) -> Recording:
    """Return Taylor coefficients, with loops for long arrays if they are too many to be written out."""
    products = (selection.seed_count + 1) * (selection.seed_count + 2) // 2
    is_long = preparation.options.takes_arrays and recording.works_on_arrays
    if is_long and products * recording.scalars.operations > MOST_PRODUCTS:
        recording = _as_loops(recording, preparation)
    return taylor_recording(recording, selection, preparation, points)


def _with_mirror(
    recording: Recording, first: DerivativeKind, selection: Selection, preparation: Preparation
) -> Linearization | None:
    """Return the graph of the gradient along directions if it has a mirror; else None."""
    if not is_mirrored(recording.scalars) or not recording.is_number:
        return None
    with preparation.stage("linearize"):
        gradient, linearization = of_gradient(recording, first, selection, preparation.name)
        return in_directions(gradient, selection, linearization)


def _factored(
    recording: Recording, selection: Selection, preparation: Preparation, first: Call, shared: tuple[bool, ...]
) -> CompiledProgram:
    """Return the program of a linear operator: factors as straight-line code, or the sparse Jacobian as loops.

    Long arrays give loops if the Jacobian is sparse or the straight-line code would be too long.

    Raises:
        SizeError: if the Jacobian does not fit into memory and the straight-line code would be too long.
    """
    from accumulus.programs.operators import factored, factored_as_loops

    if recording.loops is not None:
        operations = len(recording.program)
        few = operations <= MOST_WRITTEN_OUT and not recording.program.calls
        try:
            made, nonzeros = factored_as_loops(replace(recording, other=None), selection, preparation)
            if nonzeros <= SPARSE * operations or not few:
                return CompiledProgram.of(made, preparation, first, shared)
        except ManyBlocksError:
            pass
        except SizeError:
            if not few:
                raise
        with preparation.stage("trace"):
            recording = recording.as_scalars()
    return CompiledProgram.of(factored(recording, selection, preparation), preparation, first, shared)


def graph_of(recorded: Recorded) -> tuple[Recording, Linearization]:
    """Return the recording that a kind differentiates, written out operation by operation, and its graph."""
    recording, kind, selection, preparation, points = recorded
    recording = recording.as_scalars()
    linearization = None
    if kind.first is not None:
        recording, linearization = second_order(recording, kind, kind.first, selection, preparation, points)
    if linearization is None:
        with preparation.stage("linearize"):
            linearization = linearized(recording, kind, selection, preparation.name)
    return recording, linearization


def second_order(
    recording: Recording,
    kind: DerivativeKind,
    first: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64],
) -> tuple[Recording, Linearization | None]:
    """Return the recording that a kind differentiates, written out, and its graph if that has a mirror, else None."""
    if kind.symmetric and is_mirrored(recording.scalars):
        with preparation.stage("linearize"):
            return of_gradient(recording, kind, selection, preparation.name)
    return derived(recording, first, selection.whole, preparation, points), None


def _of_blocks(
    recording: Recording, kind: DerivativeKind, first: DerivativeKind, selection: Selection, preparation: Preparation
) -> CompiledProgram | None:
    """Return loops for a gradient's derivatives; None if they are too many, or values have attached derivatives."""
    try:
        with suppress(SizeError):
            gradient = gradient_by_loops(recording, kind, first, selection, preparation)
            if gradient is not None:
                return CompiledProgram.of(loop_nest(gradient, kind, selection, preparation), preparation)
        recording = without_repeated(recording)
        separable = loops_of_sums(recording, kind, selection, preparation)
        if separable is not None:
            return CompiledProgram.of(separable, preparation)
        gradient = derived_as_loops(recording, first, selection.whole, preparation)
        return (
            None
            if gradient is None
            else CompiledProgram.of(loop_nest(gradient, kind, selection, preparation), preparation)
        )
    except SizeError:
        return None


def _is_long(recording: Recording) -> bool:
    """Return True if so many operations on entries of long arrays were written out that loops are as fast."""
    if not recording.works_on_arrays or recording.other is None:
        return False
    different, recorded = recording.scalars.operations, recording.unrolled
    is_near = recorded <= IN_COMMON * different and different <= OF_INPUT * recording.scalars.inputs
    return different > MOST_IN_LINE and (recorded <= NOTHING_IN_COMMON * different or is_near)


def _has_long_loops(recording: Recording, kind: DerivativeKind, selection: Selection) -> bool:
    """Return True if loops in Python were written out and their derivatives would be many operations."""
    if recording.loops is not None or recording.other is None or recording.works_on_arrays:
        return False
    if REPEATED * recording.other.text > recording.scalars.operations:
        return False
    inputs = len(inputs_of(recording, selection.positions))
    times = 1.0
    if kind.first is not None:
        times = SECOND_ORDER + (2 * selection.seed_count if kind.has_seeds else inputs / INPUTS_OF_ONE)
    elif kind.has_seeds:
        times = FIRST_ORDER[0] * max(selection.seed_count, 1)
    elif kind.derivatives:
        times = FIRST_ORDER[min(inputs, recording.results) > 1]
    return times * recording.scalars.operations > MOST_OF_LOOPS


def _may_be_long(recording: Recording) -> bool:
    """Return True if many operations are on entries of long arrays and their derivatives may need too many products."""
    if not recording.works_on_arrays:
        return False
    tape = recording.scalars
    return 3 * tape.operations * min(tape.inputs, len(tape.outputs)) > MOST_PRODUCTS


def _is_long_along_seeds(recording: Recording, kind: DerivativeKind, selection: Selection) -> bool:
    """Return True if products with directions or weights of operations on long arrays take too many operations.

    Along one direction, a function takes twice its operations, and a gradient three to four times the operations of its
    function.
    """
    if not recording.works_on_arrays:
        return False
    times = 1 + selection.seed_count if kind.first is None else 1.5 + 2 * selection.seed_count
    return times * recording.scalars.operations > MOST_ALONG_SEEDS
