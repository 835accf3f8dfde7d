"""Operations of value and Jacobian, against programs that were written and tuned by hand: see `hand`."""

from __future__ import annotations

import library
from groups import Settings
from hand import BY_CHAIN_RULE, PROGRAMS, functions, tally
from tables import Goal, Row, Table


def table(settings: Settings) -> Table:
    """One row a function that there is such a program for, and one for its goal of the default."""
    rows = []
    for example in (*settings.functions, *functions()):
        if example.name in PROGRAMS:
            ours, thorough = library.operations(example), library.operations(example, "thorough")
            hand = tally(PROGRAMS[example.name], example)
            cells = {
                "function": example.name,
                "accumulus": ours.operations,
                "thorough": thorough.operations,
                "by hand": hand.operations,
                "weighted": f"{thorough.weighted} : {hand.weighted}",
            }
            if example.name in BY_CHAIN_RULE:
                by_chain_rule = tally(BY_CHAIN_RULE[example.name], example)
                cells["by the chain rule alone"] = f"{by_chain_rule.operations}, weighted {by_chain_rule.weighted}"
            rows.append(Row(cells, Goal(hand.operations, thorough.operations)))
            default = {"function": f"{example.name}, default"}
            rows.append(Row(default, Goal(hand.operations, ours.operations)))
    notes = ["By the chain rule alone: the best by hand without theorems on rotations and on Roe's averages."]
    return Table("hand", "Operations of value and Jacobian, against programs written by hand", rows, notes)
