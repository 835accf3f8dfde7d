"""The plan of a linearization, by the options of a derivative."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from accumulus.deadline import Deadline
from accumulus.elimination.emit import emit
from accumulus.graph.linearize import Linearization
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.find import find_plan
from accumulus.search.plans.plan import Plan
from accumulus.tape.tape import Tape

__all__ = ["others_for", "plan_of"]

#: What the stages from planning on need, beside one another.
_KERNELS: Final = (
    *("elimination.vertex", "elimination.labels", "search.order"),
    *("rewriting.rewrite", "rewriting.signs", "tape.passes"),
)
#: Methods whose programs for the same derivatives have values that the best one's does not.
_OTHERS: Final = ("markowitz", "forward", "reverse")


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


def others_for(linearization: Linearization, options: Options, deadline: Deadline) -> Iterator[Tape]:
    """The same derivatives, accumulated in other orders, for an effort that makes one program of several."""
    graph = linearization.graph
    if options.method != "auto" or options.effort != "thorough" or graph.mirror is not None:
        return
    for method in _OTHERS:
        other = replace(options.alone, method=method)
        yield emit(find_plan(graph, other, deadline=deadline, keep_best=False).accumulation)
