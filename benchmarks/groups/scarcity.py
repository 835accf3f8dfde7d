"""Multiplications of a product with a Jacobian through the edges that are left, against nonzeros and all edges."""

from __future__ import annotations

import library
from groups import Settings
from groups.ratios import mean, worst
from tables import Goal, Row, Table

#: A product with the Jacobian itself takes its nonzeros.
REACH = 1.0


def table(settings: Settings) -> Table:
    """One row a function; the ratio is that to the nonzeros."""
    rows, ratios = [], {}
    for example in settings.functions:
        found = library.edges_left(example)
        ratios[example.name] = ratio = found.multiplications / found.nonzeros
        cells: dict[str, object] = {
            "function": example.name,
            "edges": found.edges,
            "nonzeros": found.nonzeros,
            "multiplications": found.multiplications,
        }
        rows.append(Row(cells, Goal(REACH, ratio)))
    rows += mean(ratios, None) + worst(ratios, REACH)
    return Table("scarcity", "Multiplications of a product with the Jacobian at a point", rows)
