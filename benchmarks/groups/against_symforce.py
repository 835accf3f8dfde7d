"""Against SymForce: operations of value and Jacobian, and time per point of its C++: see `peers.symforce_functions`."""

from __future__ import annotations

import library
from functions import Example
from groups import Settings
from groups.ratios import mean
from groups.time_per_point import check_agreement
from peers import NotInstalled, symforce_functions
from tables import Row, Table
from timing import measure, one_core


def table(settings: Settings) -> Table:
    """One row a function; times of the examples only, as in the other tables of times."""
    rows: list[Row] = []
    operations: dict[str, float] = {}
    times: dict[str, float] = {}
    for example in settings.functions:
        cells: dict[str, object] = {"function": example.name, "accumulus": library.operations(example).operations}
        try:
            theirs = symforce_functions.generated(example)
        except NotInstalled as missing:
            theirs = str(missing)
        if isinstance(theirs, str):
            rows.append(Row(cells | {"SymForce": theirs}))
            continue
        operations[example.name] = library.operations(example).operations / theirs.tally.operations
        cells |= {
            "SymForce": theirs.tally.operations,
            "of it": operations[example.name],
            "generated in s": theirs.seconds,
        }
        if example in settings.examples:
            ours, theirs_each = _nanoseconds(example, settings)
            times[example.name] = ours / theirs_each
            cells |= {"ns": ours, "SymForce ns": theirs_each}
        rows.append(Row(cells))
    rows += mean(operations, None, "operations") + mean(times, None, "time per point")
    title = "Against SymForce: operations of value and Jacobian, and time per point of a batch, its C++ by g++ -O3"
    return Table(
        "symforce-code",
        title,
        rows,
        ["Generated: seconds of tracing, differentiating and printing. Times: of a point, in the fastest turn."],
    )


def _nanoseconds(example: Example, settings: Settings) -> tuple[float, float]:
    """Each one's fastest turn on one thread, per point: accumulus and SymForce's C++."""
    X = example.sample(settings.points, settings.seed)
    with one_core():
        contenders = [library.contender(example, X, "dense"), symforce_functions.contender(example, X)]
        check_agreement(example, X, contenders)
        timings = measure({each.name: each.run for each in contenders}, settings.turns)
    ours, theirs = (1e9 * timings[each.name].minimum / len(X) for each in contenders)
    return ours, theirs
