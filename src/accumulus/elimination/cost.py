"""What an accumulation costs. Everything that reports a cost asks here.

``fma`` counts every product; ``multiplications`` leaves out products with ±1 and of two constants, which are
folded when the plan is made; ``operations`` counts what the emitted tape really holds, values and partials
included, before it is rewritten. A product of labels of vector-valued vertices counts the product of the three sizes.
"""

from __future__ import annotations

from typing import Final

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import emit
from accumulus.graph.graph import Kind
from accumulus.objective import Objective
from accumulus.rewriting.canonical import canonical

__all__ = ["count"]

_UNITS: Final = (Kind.ONE, Kind.MINUS_ONE)


def count(accumulation: Accumulation, objective: str) -> int:
    """Cost of the accumulation under the objective of that name.

    Raises:
        UnknownNameError: if there is no such objective.
    """
    judged = Objective.of(objective)
    if judged.on_tape:
        return canonical(emit(accumulation)).operations
    graph = accumulation.graph
    kinds: list[int] = graph.kinds.tolist()
    sizes = graph.sizes.tolist()
    rows: list[int] = graph.sources.tolist()
    columns: list[int] = graph.targets.tolist()
    total = 0
    for is_product, left, right in accumulation.steps:
        a, b = kinds[left], kinds[right]
        if not is_product:
            kind: int = max(a, b, Kind.CONSTANT)
        elif a in _UNITS:
            kind = b if a == Kind.ONE or b not in _UNITS else Kind.ONE + Kind.MINUS_ONE - b
        else:
            kind = a if b in _UNITS else max(a, b)
        kinds.append(kind)
        rows.append(rows[left])
        columns.append(columns[right])
        free = a in _UNITS or b in _UNITS or (a == b == Kind.CONSTANT)
        if is_product and (judged.every_product or not free):
            total += sizes[rows[left]] * sizes[columns[left]] * sizes[columns[right]]
    return total
