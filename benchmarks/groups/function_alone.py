"""Operations of the functions alone, without derivatives: what the optimiser of tapes does by itself."""

from __future__ import annotations

import library
from groups import Settings
from groups.against_sympy import measured, note
from groups.ratios import mean
from peers import NotInstalled
from peers.casadi_functions import Symbolic
from tables import Goal, Row, Table

PIVOTS = "In pendulum_chain accumulus chooses the pivots at each point; the peers' symbols are eliminated without."


def table(settings: Settings) -> Table:
    """One row a function; to be reached is one operation fewer than the best peer has."""
    rows = []
    ratios: dict[str, dict[str, float]] = {"CasADi": {}, "SymPy": {}}
    for example in settings.functions:
        ours = library.function_operations(example).operations
        cells: dict[str, object] = {"function": example.name, "accumulus": ours}
        counts = []
        try:
            cells["CasADi cse"] = casadi = Symbolic.of(example).function_tally().operations
        except NotInstalled as missing:
            cells["CasADi cse"] = str(missing)
        else:
            counts.append(casadi)
            ratios["CasADi"][example.name] = ours / casadi
        sympy = measured(example, "function")
        cells["SymPy cse"] = sympy if isinstance(sympy, str) else sympy.operations
        if not isinstance(sympy, str):
            counts.append(sympy.operations)
            ratios["SymPy"][example.name] = ours / sympy.operations
        best = min(counts, default=0)
        cells["than the best"] = "" if not counts else "fewer" if ours < best else "equal" if ours == best else "more"
        rows.append(Row(cells, Goal(best - 1, ours if counts else None)))
    for peer, values in ratios.items():
        rows += mean(values, None, peer)
    return Table("function", "Operations of the function alone", rows, [note(), PIVOTS])
