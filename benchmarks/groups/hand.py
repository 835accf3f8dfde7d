"""Operations of value and Jacobian, against programs that were written and tuned by hand: see `hand`."""

from __future__ import annotations

import library
from groups import Settings
from hand import BY_CHAIN_RULE, PROGRAMS, tally
from tables import Goal, Row, Table


def table(settings: Settings) -> Table:
    """One row a function that there is such a program for."""
    rows = []
    for example in settings.functions:
        if example.name in PROGRAMS:
            ours, thorough = library.operations(example), library.operations(example, "thorough")
            hand, by_chain_rule = (tally(kind[example.name], example) for kind in (PROGRAMS, BY_CHAIN_RULE))
            cells = {
                "function": example.name,
                "accumulus": ours.operations,
                "thorough": thorough.operations,
                "by hand": hand.operations,
                "by the chain rule alone": by_chain_rule.operations,
                "weighted": f"{thorough.weighted} : {hand.weighted} : {by_chain_rule.weighted}",
            }
            rows.append(Row(cells, Goal(hand.operations, thorough.operations)))
    notes = ["By the chain rule alone: the best by hand without theorems on rotations and on Roe's averages."]
    return Table("hand", "Operations of value and Jacobian, against programs written by hand", rows, notes)
