"""Products of the best plans for five public graphs, against the best vertex orders that are known.

The graphs are those that AlphaGrad (arXiv 2406.05027) plays on, as `tests/data/graphs/` holds them. `fma` counts every
product 1, `multiplications` lets products with +1 and -1 pass free.
"""

from __future__ import annotations

from pathlib import Path

import library
from groups import Settings
from tables import Goal, Row, Table

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "graphs"
SECONDS = 10.0
#: objective → graph → the count to reach
REACH = {
    "fma": {
        "RoeFlux_1d": 295,
        "RobotArm_6DOF": 221,
        "HumanHeartDipole": 148,
        "PropaneCombustion": 88,
        "BlackScholes_Jacobian": 297,
    },
    "multiplications": {
        "RoeFlux_1d": 184,
        "RobotArm_6DOF": 151,
        "HumanHeartDipole": 48,
        "PropaneCombustion": 24,
        "BlackScholes_Jacobian": 218,
    },
}
#: AlphaGrad's published counts under the same rules
ALPHAGRAD = {
    "fma": {
        "RoeFlux_1d": 320,
        "RobotArm_6DOF": 231,
        "HumanHeartDipole": 148,
        "PropaneCombustion": 88,
        "BlackScholes_Jacobian": 312,
    },
    "multiplications": {
        "RoeFlux_1d": 217,
        "RobotArm_6DOF": 165,
        "HumanHeartDipole": 48,
        "PropaneCombustion": 24,
        "BlackScholes_Jacobian": 229,
    },
}


def table(settings: Settings) -> Table:
    """One row a graph and objective."""
    rows = []
    for objective, reach in REACH.items():
        for graph, count in reach.items():
            planned = library.plan_graph(FOLDER / f"{graph}.json", objective, SECONDS)
            cells = {
                "graph": graph,
                "objective": objective,
                "AlphaGrad": ALPHAGRAD[objective][graph],
                "accumulus": planned.cost,
                "lower bound": "unknown" if planned.lower_bound is None else str(planned.lower_bound),
                "seconds": planned.seconds,
            }
            within = planned.cost if planned.seconds <= SECONDS + 0.5 else None
            rows.append(Row(cells, Goal(count, within)))
    return Table("counts", f"Products of the best plan, {SECONDS:.0f} s each", rows)
