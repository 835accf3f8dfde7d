"""The plan of a linearization, by the options of a derivative."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from accumulus.deadline import Deadline
from accumulus.graph.linearize import Linearization
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.find import find_plan
from accumulus.search.plans.plan import Plan

__all__ = ["plan_of"]

#: What the stages from planning on need, beside one another.
_KERNELS: Final = (
    *("elimination.vertex", "elimination.labels", "search.order"),
    *("rewriting.rewrite", "rewriting.signs", "tape.passes"),
)


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
