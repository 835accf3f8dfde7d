"""Tapes after rewriting: loaded from the cache, or rewritten with other tapes of the same derivatives as sources.

The effort "thorough" also takes values from programs in other elimination orders, and of other forms of the function.
This module also finds the function's own operations, for programs that keep its arithmetic exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import emit
from accumulus.graph.linearize import Linearization, linearize
from accumulus.native.state import Integers
from accumulus.programs.sparse import Nonzeros
from accumulus.resubstitution.angles import with_sums_of_angles
from accumulus.resubstitution.optimise import (
    looks_at_points,
    rewrite,
    store_tape,
    stored_tape,
    tape_key,
)
from accumulus.rewriting.domains import Assumed
from accumulus.rewriting.optimise import Rounds, by_rules
from accumulus.search.find import find_plan
from accumulus.tape.live import as_written, needed, signed_rows
from accumulus.tape.passes import extended, moved
from accumulus.tape.tape import Tape

#: Elimination orders whose programs have values that the best order's program lacks.
_ORDERS: Final = ("markowitz", "forward", "reverse")
#: Methods that accumulate derivatives of a rewritten function.
_REWRITTEN: Final = ("auto", "markowitz")


class Rewritten(NamedTuple):
    """A tape after rewriting."""

    tape: Tape  # the rewritten tape
    recalled: bool  # True if it was in the cache
    stages: tuple[tuple[str, int], ...] = ()  # names of the stages of rewriting, and the operations that each left


def rewritten(
    tape: Tape,
    context: Context,
    rounds: Rounds,
    points: NDArray[np.float64] | None,
    kept_outputs: int = 0,
    sources: Callable[[], Iterable[Tape]] = tuple,
    assumed: Assumed = (),
) -> Rewritten:
    """Return the tape with fewer operations; arguments as for `rewrite`."""
    options = context.options
    cached = options.caches
    with context.paused():
        looks = looks_at_points(tape, options.effort)
        key = tape_key(tape, context, kept_outputs, rounds, points if looks else None, assumed)
        stored = stored_tape(key, tape, context, points, kept_outputs, assumed) if cached else None
    if stored is not None:
        shorter, notes = stored
        context.recall(notes["work"])
        return Rewritten(shorter, True, _stages(notes))
    notes = {}
    before = context.spent
    made = rewrite(
        tape, context, kept_outputs=kept_outputs, rounds=rounds, points=points, alternatives=sources, notes=notes,
        assumed=assumed,
    )  # fmt: skip
    if cached and not context.cut_short:
        store_tape(key, made, notes | {"work": context.spent - before})
    return Rewritten(made, False, _stages(notes))


def _stages(notes: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple((str(name), int(operations)) for name, operations in notes.get("stages", ()))


def alternatives_for(linearization: Linearization, context: Context) -> Iterator[Tape]:
    """Yield tapes of the derivatives in other elimination orders, and of other forms of the function.

    Yields:
        Tapes with the outputs of the tape emitted for the plan. Tapes of rewritten functions have the same values only
        up to rounding, and up to custom derivatives, so values taken from them must be verified.
    """
    graph, options = linearization.graph, context.options
    if options.method != "auto" or options.effort != "thorough" or graph.mirror is not None:
        return
    for method in _ORDERS:
        accumulation = _accumulation(linearization, method, context)
        yield emit(accumulation)
    if not graph.wants_all:
        return
    function = _function(linearization, context)
    # one row and column for each entry
    coordinates_of = {entry: coordinates for coordinates, entry in _places(linearization, accumulation).items()}
    reformulated = with_sums_of_angles(function)
    if reformulated is not None:
        for method in _REWRITTEN:
            yield _derivatives(reformulated, linearization, coordinates_of, method, context)


def _derivatives(
    function: Tape,
    original: Linearization,
    coordinates_of: dict[int, tuple[int, int]],
    method: str,
    context: Context,
) -> Tape:
    """Return a function with its derivatives, accumulated by a method.

    Args:
        function: function with the same results as the original one.
        original: graph of the function whose derivatives are computed.
        coordinates_of: row and column of each entry that is an output, by position of the entry.
        method: name of the method of accumulation.
        context: options and deadline.
    """
    linearization = linearize(function, original.columns)
    linearization = replace(linearization, rows=linearization.rows[: len(original.rows)])
    accumulation = _accumulation(linearization, method, context)
    tape, places = emit(accumulation), _places(linearization, accumulation)
    first, zero = len(function.outputs), tape.constant(0.0)
    tape.outputs[first:] = [
        tape.outputs[first + places[coordinates]] if coordinates in places else zero
        for _, coordinates in sorted(coordinates_of.items())
    ]
    return tape


def _accumulation(linearization: Linearization, method: str, context: Context) -> Accumulation:
    quick = context.having(method=method, effort="fast", executor=None, progress=None)
    return find_plan(linearization.graph, quick, keep_best=False).accumulation


def _function(linearization: Linearization, context: Context) -> Tape:
    """Return the function rewritten by rules; values whose rounding decides derivatives stay (the sign of |x|)."""
    tape = linearization.tape.copy()
    is_needed = np.frombuffer(needed(tape), bool)
    outputs = tape.outputs
    tape.outputs = [*outputs, *(label for label in linearization.graph.labels if label >= 0)]
    fixed = np.flatnonzero(is_needed & np.frombuffer(as_written(tape), bool))
    retained = fixed[fixed >= tape.inputs].tolist()
    tape.outputs = [*retained, *outputs]
    function = by_rules(tape, context.having(effort="balanced"), kept_outputs=len(retained))
    del function.outputs[: len(retained)]
    return function


def _places(linearization: Linearization, accumulation: Accumulation) -> dict[tuple[int, int], int]:
    """Return positions among an accumulation's entries, by row and column of the Jacobian."""
    nonzeros = Nonzeros.of(linearization, sorted(accumulation.entries))
    places = zip(nonzeros.rows.tolist(), nonzeros.columns.tolist(), strict=True)
    return dict(zip(places, nonzeros.outputs.tolist(), strict=True))


def primal_operations(tape: Tape, values: int) -> frozenset[int]:
    """Return references of the function's own operations, which the first `values` outputs need."""
    return frozenset(_operations(tape, tape.outputs[:values]).tolist())


def without_dead(tape: Tape, chosen: Collection[int]) -> tuple[Tape, frozenset[int]]:
    """Return the tape without unneeded operations, not rewritten, and the new references of those in `chosen`."""
    live = _operations(tape, tape.outputs)
    renumbered = np.full(len(tape), -1)
    renumbered[: tape.inputs] = np.arange(tape.inputs)
    renumbered[live] = tape.inputs + np.arange(len(live))
    rows = signed_rows(tape)[live]
    rows[:, 1:] = moved(rows[:, 1:], renumbered)
    # the rows are already simplified, so that each one adds exactly one operation
    result, values = extended(tape.emptied(), rows)
    result.outputs = moved(moved(tape.outputs, renumbered), values).tolist()
    selected = renumbered[sorted(chosen)]
    return result, frozenset(values[selected[selected >= 0]].tolist())


def _operations(tape: Tape, outputs: Sequence[int]) -> Integers:
    return np.flatnonzero(np.frombuffer(needed(tape, outputs), bool)[tape.inputs :]) + tape.inputs
