"""Operations of value and Jacobian together, against SymPy's two ways: see `peers.sympy_functions`."""

from __future__ import annotations

import library
from counting import Tally
from functions import Example
from groups import Settings
from groups.ratios import mean, worst
from peers import NotInstalled, sympy_functions
from tables import Row, Table

MEAN_REACH = 0.6
#: What both efforts are to come to against cse of the whole Jacobian.
AIM, AIM_WAY = 0.45, "cse(jacobian)"
#: way → name of its column
WAYS = {"cse(jacobian)": "cse(J)", "forward with cse": "forward"}


def table(settings: Settings) -> Table:
    """One row a function, then the mean for each way, by number and weighted."""
    rows = []
    measures = ("operations", "thorough", "weighted")
    ratios: dict[tuple[str, str], dict[str, float]] = {(way, measure): {} for way in WAYS for measure in measures}
    for example in settings.functions:
        ours, thorough = library.operations(example), library.operations(example, "thorough")
        cells: dict[str, object] = {
            "function": example.name,
            "accumulus": ours.operations,
            "thorough": thorough.operations,
        }
        for way, column in WAYS.items():
            theirs = measured(example, way)
            if isinstance(theirs, str):
                cells[column] = theirs
                continue
            ratios[way, "operations"][example.name] = ours.operations / theirs.operations
            ratios[way, "thorough"][example.name] = thorough.operations / theirs.operations
            ratios[way, "weighted"][example.name] = ours.weighted / theirs.weighted
            cells[column] = theirs.operations
            cells[f"of {column}"] = ours.operations / theirs.operations
        rows.append(Row(cells))
    for (way, measure), values in ratios.items():
        reach = None if measure == "weighted" else MEAN_REACH
        rows += mean(values, reach, f"{WAYS[way]}, {measure}")
    for measure in ("operations", "thorough"):
        values, of = ratios[AIM_WAY, measure], f"{WAYS[AIM_WAY]}, {measure}"
        rows += mean(values, AIM, f"{of}, to aim at") + worst(values, None, of)
    title = "Operations of value and Jacobian, against SymPy: cse of jacobian, and forward with cse"
    return Table("sympy", title, rows, [note()])


def measured(example: Example, way: str) -> Tally | str:
    """SymPy's operations, or why there are none."""
    try:
        tally = sympy_functions.measure(example, way)
    except NotInstalled as missing:
        return str(missing)
    except RuntimeError as error:
        return str(error)
    return "too slow" if tally is None else tally


def note() -> str:
    """Return a note on the functions that are left out."""
    return f"Too slow: not done after {sympy_functions.SECONDS:.0f} s; such functions are not in the means."
