"""Operations of value and Jacobian together, against CasADi's SX after `jacobian` and `cse`.

An operation is whatever is computed: inputs, constants and stores do not count, on either side. CasADi's number of
instructions (`n_instructions`) adds its inputs, outputs and constants; it is what is often quoted, and what the goals
refer to, since they were set by it. Both ratios are shown.
"""

from __future__ import annotations

import library
from groups import Settings
from peers import NotInstalled
from peers.casadi_functions import Symbolic
from tables import Goal, Row, Table

#: example → the fraction of CasADi's instructions to reach; the others are reported
REACH = {"roe_flux": 0.65, "robot_arm": 0.70}


def table(settings: Settings) -> Table:
    """One row an example."""
    rows = []
    for example in settings.examples:
        ours = library.operations(example)
        cells: dict[str, object] = {"example": example.name, "accumulus": ours}
        ratio = None
        try:
            casadi = Symbolic.of(example)
        except NotInstalled as missing:
            cells["CasADi"] = str(missing)
        else:
            cells["CasADi"] = casadi.operations(cse=False)
            cells["with cse"] = casadi.operations(cse=True)
            cells["instructions"] = casadi.instructions(cse=True)
            ratio = ours / casadi.instructions(cse=True)
            cells["of operations"] = ours / casadi.operations(cse=True)
            cells["of instructions"] = ratio
        goal = Goal(REACH[example.name], ratio) if example.name in REACH else None
        rows.append(Row(cells, goal))
    notes = ["Goals are fractions of CasADi's instructions with cse, which count inputs, outputs and constants too."]
    return Table("operations", "Operations of value and Jacobian", rows, notes)
