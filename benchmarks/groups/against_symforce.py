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
    """One row an example, then the geometric means."""
    rows: list[Row] = []
    operations: dict[str, float] = {}
    times: dict[str, float] = {}
    for example in settings.examples:
        count = library.operations(example).operations
        cells: dict[str, object] = {"function": example.name, "accumulus": count}
        try:
            theirs = symforce_functions.generated(example)
        except NotInstalled as missing:
            theirs = str(missing)
        if isinstance(theirs, str):
            rows.append(Row(cells | {"SymForce": theirs}))
            continue
        ours_each, theirs_each = _nanoseconds(example, settings)
        operations[example.name] = count / theirs.tally.operations
        times[example.name] = ours_each / theirs_each
        cells |= {"SymForce": theirs.tally.operations, "of it": operations[example.name]}
        rows.append(Row(cells | {"generated in s": theirs.seconds, "ns": ours_each, "SymForce ns": theirs_each}))
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
