"""Deterministic methods: factorization, D*, local Jacobians, pages.

Each does the same on every run: it does not search, takes no account of the effort, and cannot be stopped by a time
limit. What it takes is estimated from counts of the graph (`accumulus.search.workload`), on a machine of today and
rather too much than too little; `auto` and the command line decide by it what to run. The seconds per product below
come from the examples and from random layered graphs of 200 to 2,000 vertices. Simple chains, which are gone before
local Jacobians are formed, are not foreseen.

Products with unit edges count under "fma", so there local Jacobians form them, as every elimination does; under the
other objectives they are free and left out.

The modules are imported when they are first needed, so that those who plan without them need not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accumulus.deadline import Deadline
from accumulus.elimination.accumulation import Accumulation
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import Options
from accumulus.search.registry import SearchResult, register
from accumulus.search.workload import Workload

if TYPE_CHECKING:
    from accumulus.theory.methods.factorize import Direction

__all__: list[str] = []

#: Levels up to which all bracketings are compared, and pairs times edges up to which pages are parted; as in
#: `accumulus.theory.methods.local_jacobians` and `accumulus.theory.methods.pages`.
_WINDOW: Final = 40
_PARTED: Final = 20_000


def _register_factorization(name: str, direction: Direction) -> None:
    def seconds(work: Workload) -> float:
        products = {"forward": work.reverse, "backward": work.forward}.get(direction, work.forward + work.reverse)
        return 3e-6 * products + 4e-6 * work.edges

    @register(name, seconds)
    def find(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
        from accumulus.theory.methods.factorize import factorize

        return _found(graph, name, factorize(graph, direction, deadline=deadline))


def _found(graph: DifferentiationGraph, method: str, accumulation: Accumulation) -> SearchResult:
    return SearchResult(graph, method, _accumulation=accumulation)


_register_factorization("forward-factorization", "forward")
_register_factorization("backward-factorization", "backward")
_register_factorization("both-sides-factorization", "both")
_register_factorization("middle-factorization", "middle")


@register(
    "dstar",
    seconds=lambda work: 7e-6 * (work.forward + work.reverse) + 4e-6 * work.edges,
)
def _dstar(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Factor subgraphs of most entries first."""
    from accumulus.theory.methods.dstar import dstar

    return _found(graph, "dstar", dstar(graph, deadline=deadline))


def _bracketing_seconds(work: Workload) -> float:
    width = min(work.levels, _WINDOW)
    bracketings = width**3 / 6 * max(1.0, work.levels / 30)
    return 17e-6 * bracketings + 5e-6 * work.segments + 4e-6 * work.fewest


@register("local-jacobians", _bracketing_seconds)
def _local_jacobians(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """The best bracketing of every component."""
    from accumulus.theory.methods.local_jacobians import local_jacobians

    accumulation = local_jacobians(graph, unit_products=options.objective.every_product, deadline=deadline)
    return _found(graph, "local-jacobians", accumulation)


def _pages_seconds(work: Workload) -> float:
    whole = _bracketing_seconds(work)
    return whole if work.pairs * work.edges > _PARTED else 14 * whole + 3e-4 * work.pairs


@register("pages", _pages_seconds)
def _pages(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Parted wherever that is cheaper than one piece."""
    from accumulus.theory.methods.pages import pages

    return _found(graph, "pages", pages(graph, unit_products=options.objective.every_product, deadline=deadline))
