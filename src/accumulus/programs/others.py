"""Other programs for the same derivatives, for an effort that makes one program of several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from accumulus.context import Context
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import emit
from accumulus.graph.linearize import Linearization, linearize
from accumulus.programs.nonzeros import Nonzeros
from accumulus.resubstitution.angles import with_sums_of_angles
from accumulus.resubstitution.relations import with_relations
from accumulus.rewriting.optimise import by_rules
from accumulus.search.find import find_plan
from accumulus.tape.live import as_written, needed
from accumulus.tape.tape import Tape

__all__ = ["others_for"]

#: Orders whose programs have values that the best one's does not.
_ORDERS: Final = ("markowitz", "forward", "reverse")
#: How derivatives of a function that is written in another way are accumulated.
_REWRITTEN: Final = ("auto", "markowitz")


def others_for(linearization: Linearization, context: Context) -> Iterator[Tape]:
    """The same derivatives in other orders, and those of the function where that is written in another way.

    Returns:
        Tapes with the outputs of the one that is emitted for the plan. The latter are what they should be but for
        rounding, and for derivatives that are given by hand: whoever takes values from them verifies that.
    """
    options = context.options
    graph = linearization.graph
    if options.method != "auto" or options.effort != "thorough" or graph.mirror is not None:
        return
    for method in _ORDERS:
        accumulation = _accumulation(linearization, method, context)
        yield emit(accumulation)
    if not graph.wants_all:
        return
    function = _function(linearization, context)
    # one place of each entry
    wanted = {entry: place for place, entry in _places(linearization, accumulation).items()}
    for rewrite in (with_relations, with_sums_of_angles):
        rewritten = rewrite(function)
        if rewritten is not None:
            for method in _REWRITTEN:
                yield _derivatives(rewritten, linearization, wanted, method, context)


def _derivatives(
    function: Tape,
    given: Linearization,
    wanted: dict[int, tuple[int, int]],
    method: str,
    context: Context,
) -> Tape:
    """A function with its derivatives, accumulated by a method.

    Args:
        function: the same as the one that is given with its graph.
        wanted: row and column of each entry that is an output, in the order of these.
    """
    linearization = linearize(function, given.columns)
    linearization = replace(linearization, rows=linearization.rows[: len(given.rows)])
    accumulation = _accumulation(linearization, method, context)
    tape, places = emit(accumulation), _places(linearization, accumulation)
    first, zero = len(function.outputs), tape.constant(0.0)
    tape.outputs[first:] = [
        tape.outputs[first + places[place]] if place in places else zero for _, place in sorted(wanted.items())
    ]
    return tape


def _accumulation(linearization: Linearization, method: str, context: Context) -> Accumulation:
    brief = context.having(method=method, effort="fast", executor=None, progress=None)
    return find_plan(linearization.graph, brief, keep_best=False).accumulation


def _function(linearization: Linearization, context: Context) -> Tape:
    """The function by rules, where what its derivatives round as it is written stays, as the sign of |x| does."""
    tape = linearization.tape.copy()
    own = np.frombuffer(needed(tape), bool)
    outputs = tape.outputs
    tape.outputs = [*outputs, *(label for label in linearization.graph.labels if label >= 0)]
    fixed = np.flatnonzero(own & np.frombuffer(as_written(tape), bool))
    kept = fixed[fixed >= tape.inputs].tolist()
    tape.outputs = [*kept, *outputs]
    function = by_rules(tape, context.having(effort="balanced"), kept_outputs=len(kept))
    del function.outputs[: len(kept)]
    return function


def _places(linearization: Linearization, accumulation: Accumulation) -> dict[tuple[int, int], int]:
    """Positions among an accumulation's entries, by row and column of the Jacobian."""
    nonzeros = Nonzeros.of(linearization, sorted(accumulation.entries))
    places = zip(nonzeros.rows.tolist(), nonzeros.columns.tolist(), strict=True)
    return dict(zip(places, nonzeros.outputs.tolist(), strict=True))
