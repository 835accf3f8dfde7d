"""What an accumulation costs. Everything that reports a cost asks here.

``fma`` counts every product; ``multiplications`` leaves out products with ±1 and of two constants, which are
folded when the plan is made; ``operations`` counts what the emitted tape really holds, values and partials
included, before it is rewritten. A product of labels of vector-valued vertices counts the product of the three sizes.
"""

from __future__ import annotations

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import emit
from accumulus.elimination.labels import Labels
from accumulus.objective import Objective
from accumulus.rewriting.canonical import canonical

__all__ = ["count"]


def count(accumulation: Accumulation, objective: str) -> int:
    """Cost of the accumulation under the objective of that name.

    Raises:
        UnknownNameError: if there is no such objective.
    """
    judged = Objective.of(objective)
    if judged.on_tape:
        return canonical(emit(accumulation)).operations
    return Labels(accumulation.graph, accumulation.steps, every_product=judged.every_product).cost
