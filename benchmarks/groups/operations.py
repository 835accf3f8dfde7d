"""Operations of value and Jacobian together, against CasADi's SX after `jacobian` and `cse`.

`counting` says what counts, on either side. CasADi's number of instructions (`n_instructions`) adds its inputs, outputs
and constants; it is what is often quoted, and what two of the goals refer to, since they were set by it. What an
earlier version needed is in `baseline_operations.json`, which says how it was made; no more may be needed, but for a
hundredth in the mean.
"""

from __future__ import annotations

import json
from pathlib import Path

import library
from groups import Settings
from groups.ratios import mean, worst
from peers import NotInstalled
from peers.casadi_functions import Symbolic
from tables import Goal, Row, Table

#: function → the fraction of CasADi's instructions to reach
OF_INSTRUCTIONS = {"roe_flux": 0.65, "robot_arm": 0.70}
#: That of the first column, the default, and that of the second.
EFFORTS = ("balanced", "thorough")
BASELINE = Path(__file__).resolve().parents[1] / "baseline_operations.json"
OF_BASELINE = 1.01
MEAN_REACH, NOWHERE_ABOVE = 0.8, 1.0
WEIGHTED_MEAN_REACH, WEIGHTED_NOWHERE_ABOVE = 0.55, 0.8
#: What programs by value are to reach, and what the default is to come to.
THOROUGH_MEAN_AIM, THOROUGH_NOWHERE_ABOVE, MEAN_AIM, WEIGHTED_THOROUGH_AIM = 0.50, 0.95, 0.60, 0.42


def table(settings: Settings) -> Table:
    """One row a function, then mean and worst, then the fractions of instructions."""
    rows, last = [], []
    ratios, patient, of_baseline = {}, {}, {}
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))["functions"]
    for example in settings.functions:
        ours, thorough = (library.operations(example, effort).operations for effort in EFFORTS)
        cells: dict[str, object] = {"function": example.name, "accumulus": ours, "thorough": thorough}
        if example.name in baseline:
            cells["before"] = before = baseline[example.name]["operations"]
            of_baseline[example.name] = ours / before
        ratio, of_instructions = None, None
        try:
            casadi = Symbolic.of(example)
        except NotInstalled as missing:
            cells["CasADi"] = str(missing)
        else:
            with_cse, instructions = casadi.operations(cse=True), casadi.instructions(cse=True)
            ratios[example.name] = ratio = ours / with_cse
            patient[example.name] = thorough / with_cse
            of_instructions = ours / instructions
            cells |= {"CasADi": casadi.operations(cse=False), "with cse": with_cse, "instructions": instructions}
        rows.append(Row(cells, Goal(NOWHERE_ABOVE, ratio)))
        if example.name in OF_INSTRUCTIONS:
            label = {"function": f"{example.name}, of CasADi's instructions"}
            last.append(Row(label, Goal(OF_INSTRUCTIONS[example.name], of_instructions)))
    rows += mean(ratios, MEAN_REACH) + worst(ratios, NOWHERE_ABOVE) + mean(patient, MEAN_REACH, "thorough")
    rows += mean(ratios, MEAN_AIM, "to aim at")
    rows += mean(patient, THOROUGH_MEAN_AIM, "thorough, to aim at") + worst(patient, THOROUGH_NOWHERE_ABOVE, "thorough")
    rows += mean(of_baseline, OF_BASELINE, "of the version before") + worst(of_baseline, None)
    notes = ["Ratios are to CasADi with cse; instructions are its operations with its inputs, outputs and constants."]
    return Table("operations", "Operations of value and Jacobian, against CasADi", [*rows, *last], notes)


def weighted(settings: Settings) -> Table:
    """Return the same with each operation weighted by its time."""
    rows, ratios, patient = [], {}, {}
    for example in settings.functions:
        ours, thorough = (library.operations(example, effort) for effort in EFFORTS)
        cells: dict[str, object] = {
            "function": example.name,
            "accumulus": ours.weighted,
            "thorough": thorough.weighted,
        }
        ratio = None
        try:
            theirs = Symbolic.of(example).tally(cse=True)
        except NotInstalled as missing:
            cells["CasADi with cse"] = str(missing)
        else:
            ratios[example.name] = ratio = ours.weighted / theirs.weighted
            patient[example.name] = thorough.weighted / theirs.weighted
            cells["CasADi with cse"] = theirs.weighted
            for name, kinds in (("divisions, roots", ("division", "root")), ("functions", ("function",))):
                counts = [sum(side.kinds.get(kind, 0) for kind in kinds) for side in (ours, theirs)]
                cells[name] = " : ".join(map(str, counts))
        rows.append(Row(cells, Goal(WEIGHTED_NOWHERE_ABOVE, ratio)))
    rows += mean(ratios, WEIGHTED_MEAN_REACH) + worst(ratios, WEIGHTED_NOWHERE_ABOVE)
    rows += mean(patient, WEIGHTED_MEAN_REACH, "thorough")
    rows += mean(patient, WEIGHTED_THOROUGH_AIM, "thorough, to aim at") + worst(patient, None, "thorough")
    notes = ["A division or a square root counts 8, a function 15, a sign change 0, everything else 1."]
    return Table("weighted", "The same, weighted by what operations take", rows, notes)
