"""The last stage of a search for the cheapest tape: orders are scored by what the tape's optimiser makes of them.

Algebra on the tape wins back much of what a poor order costs, and sometimes more than a good one had: the order of the
fewest operations is not always that of the shortest program.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.elimination.emit import emit
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.rewriting.optimise import preview
from accumulus.search.registry import Found, get

__all__ = ["cheapest_program"]

#: Methods whose plans are tried beside the best one, each under the objective that it is best at.
_OTHERS: Final = ("vertex", "markowitz", "forward", "reverse")
#: Products of the best plan, and times as many of another, beyond which it is not tried.
_LARGEST: Final = 20_000
_WORSE: Final = 2.5


def cheapest_program(graph: DifferentiationGraph, options: Options, deadline: Deadline, best: Found) -> Found:
    """The plan from which the optimiser makes the cheapest program by a short search; `best` among equals."""
    products = best.accumulation.steps.is_product.count(1)
    if products > _LARGEST or deadline.passed:
        return best
    quick = replace(options.alone, objective=Objective.MULTIPLICATIONS, effort="fast")
    before = deadline.left
    least = preview(emit(best.accumulation), options.seed, deadline)
    took = before - deadline.left
    for name in _OTHERS:
        # another takes about as long, and one that is cut short says nothing
        if took > deadline.left:
            break
        try:
            found = get(name).find(graph, quick, deadline)
        except OutOfTimeError:
            break
        if found.accumulation.steps.is_product.count(1) > _WORSE * products or took > deadline.left:
            continue
        cost = preview(emit(found.accumulation), options.seed, deadline)
        if cost < least and not deadline.passed:
            best, least = replace(found, _accumulation=found.accumulation, method=name), cost
    return best
