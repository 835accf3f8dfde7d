"""The plan of a linearization, by the options of a derivative."""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.context import Context
from accumulus.graph.linearize import Linearization
from accumulus.native.machine import prepare
from accumulus.search.elimination import sweep_counts
from accumulus.search.find import find_plan
from accumulus.search.plan import Plan
from accumulus.tape.operations import BY_NAME

__all__ = ["counts_of", "plan_of"]

#: One in so many labels has a condition, if many have.
FEW: Final = 50
_SELECT: Final = BY_NAME["select"].code

#: What the stages from planning on need, beside one another.
_KERNELS: Final = (
    *("elimination.vertex", "elimination.labels", "search.order"),
    *("rewriting.rewrite", "rewriting.signs", "tape.passes"),
)


def plan_of(linearization: Linearization, context: Context) -> Plan:
    """The plan by which derivatives of a kind are accumulated; verified.

    The one of a Hessian is that of the Jacobian of the gradient's recording, of whose entries those of one triangle are
    kept (`accumulus.programs.results`).
    """
    graph = linearization.graph

    def before() -> None:
        if context.options.rewrites:  # all kernels that the stages from now on need, side by side
            with context.paused():
                prepare(*_KERNELS)

    return find_plan(graph, context.planning(len(graph.sources)), keep_best=False, before=before)


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
