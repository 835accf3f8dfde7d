"""What an order of vertices takes: small graphs in Python, large ones in compiled code, with the same results."""

from __future__ import annotations

import math
from collections.abc import Iterable

from accumulus.deadline import FOREVER, Deadline
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.search.elimination import UNLIMITED, Cost, Elimination, Limit, Priced, is_large
from accumulus.search.large import large_price

__all__ = ["cost_of_order", "price"]


def price(
    graph: DifferentiationGraph,
    order: Iterable[int],
    objective: Objective,
    limit: Limit = UNLIMITED,
    deadline: Deadline = FOREVER,
) -> Priced | None:
    """What it takes to eliminate the vertices of `graph` in that order; None once it exceeds the limit.

    Raises:
        OutOfTimeError: if the deadline passes before.
    """
    if is_large(graph):
        return large_price(graph, order, objective, limit, deadline)
    state = Elimination(graph, objective)
    total = tie = 0
    for k in order:
        deadline.check()
        cost, second = state.cost(k)
        total += cost
        tie += second
        if total > limit.cost or state.products_with(k) > limit.products:
            return None
        state.eliminate(k)
    return Priced((total, tie), state.products, state.additions)


def cost_of_order(
    graph: DifferentiationGraph, order: Iterable[int], objective: Objective, limit: float = math.inf
) -> Cost | None:
    """Cost of eliminating the vertices of `graph` in that order; None once it exceeds `limit`."""
    priced = price(graph, order, objective, Limit(limit))
    return None if priced is None else priced.cost
