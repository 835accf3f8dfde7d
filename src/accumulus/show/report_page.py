"""The page of a report: where the operations are, what the plan costs, what rewriting won, and how fast it runs.

The page is self-contained as those of the explorer are, and has the same style and the same policy. All numbers are
those of the report, or counted from its program (`accumulus.show.costs`); the script only draws them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from accumulus.show.bodies import plans_of_bodies
from accumulus.show.costs import CostBlock, Costs, Line, named, pattern_blocks, source_of
from accumulus.show.explorer import Inline, html_page, parameters_of, shown
from accumulus.show.methods import chosen_because
from accumulus.show.report import Report
from accumulus.show.tables import amount, duration, percent
from accumulus.text import printable

#: Names of the styles and the scripts of the page.
FILES: Final = ("theme.css", "report.css"), ("common.js", "report.js")
#: Maximum number of parts of a bar of the flame graph; smaller ones are joined. More become too narrow to read, fewer
#: hide lines.
MOST_PARTS: Final = 40
#: Maximum number of rows, and of columns, of the drawn pattern; larger patterns are drawn in groups. More make pages
#: large, fewer hide single entries.
MOST_CELLS: Final = 160


def show_report(report: Report, path: str | PathLike[str] | None = None) -> Path | Inline:
    """Show a report as a page, see `Report.show`."""
    return shown(page_of_report(report), path)


def page_of_report(report: Report) -> str:
    """Return the page of a report."""
    data: dict[str, Any] = {
        "title": printable(f"{report.title} of {report.name}"),
        "facts": [[printable(name), printable(words)] for name, words in _facts(report)],
        "numbers": _numbers(report),
        "flames": [],
        "seconds": list(report.seconds.items()),
        "cached": list(report.from_cache),
        "cases": [
            [[printable(str(condition)) for condition in case.conditions], case.operations, case.calls, case.points]
            for case in report.cases
        ],
        "measured": _measured(report),
        "methods": _methods(report),
        "stages": None if report.has_loops or report.from_file else _stages(report),
        "identities": _identities(report),
    }
    if report.has_loops:
        data["flames"] = [_flame_of_loops(report)]
    if report.subject is not None:
        program, function = report.subject.program, report.subject.function
        parameters = parameters_of(program, function)
        if report.has_loops:
            data["pattern"] = _pattern(pattern_blocks(program, parameters))
        elif program.facts.linearization is not None:
            costs = Costs.of(program, function, parameters)
            data["flames"], data["pattern"] = _flames(costs), _pattern(costs.blocks)
    return html_page(data["title"], data, files=FILES, instead=str(report))


def _facts(report: Report) -> list[tuple[str, str]]:
    """Return the rows of the printed report that the page has no picture of."""
    left_out = {"prepared in", "identities", "", "of these"}
    return [row for row in report.rows() if row[0] not in left_out]


def _numbers(report: Report) -> list[list[str]]:
    """Return the numbers in large type: the number, its noun, and a remark."""
    rows = [[amount(report.operations), "operations", _remark(report)]]
    if report.differentiates:
        height, width = report.jacobian_shape
        share = f", {percent(report.nonzeros, height * width)}" if height * width else ""
        rows.append([amount(report.nonzeros), "structural nonzeros", f"of {height:,} × {width:,}{share}"])
    if report.seconds:
        rows.append([duration(sum(report.seconds.values())), "to prepare", "once for each shape of arguments"])
    if report.measured is not None:
        speed = report.measured
        rows.append([duration(speed.call), "a call", "from Python, at one point"])
        rows.append([duration(min(speed.seconds)), "a point", "of a batch, on one thread"])
    return rows


def _remark(report: Report) -> str:
    recorded = 0 if report.function is None else report.function.operations
    return f"{report.operations / recorded:.1f} times the {recorded:,} of the function" if recorded else ""


def _methods(report: Report) -> dict[str, Any] | None:
    """Return the costs of the plans and of other methods, and of loops the plan of each body."""
    chosen, objective = report.chosen, report.objective
    if chosen is None or not report.differentiates:
        return None
    rows = sorted([*report.others, chosen], key=lambda each: (each.cost(objective), each.method))
    data: dict[str, Any] = {
        "objective": objective.counted,
        "rows": [[each.method, each.fma, each.multiplications, each.operations, each.seconds] for each in rows],
        "chosen": chosen.method,
        "bound": chosen.lower_bound,
        "uncounted": list(report.uncounted),
        "because": chosen_because(chosen, report.others, objective),
    }
    if report.has_loops and report.subject is not None:
        data["bodies"] = [list(row) for row in plans_of_bodies(report.subject.program.facts.bodies)]
    return data


def _stages(report: Report) -> list[list[Any]]:
    stages = [["the plan, as it is emitted", report.emitted], *([name, count] for name, count in report.stages)]
    if len(stages) == 1 or stages[-1][1] != report.operations:
        stages.append(["the program", report.operations])
    return stages


def _identities(report: Report) -> dict[str, Any] | None:
    facts = report.by_value
    if facts is None:
        return None
    return {
        "words": [f"{name}: {words}" for name, words in facts.rows() if name],
        "rows": [
            [
                printable(each.original),
                printable(each.rewritten),
                [*map(printable, each.where)],
                each.times,
                each.is_proved,
            ]
            for each in facts.identities
        ],
    }


def _measured(report: Report) -> dict[str, Any] | None:
    speed = report.measured
    if speed is None:
        return None
    return {
        "call": speed.call,
        "points": speed.points,
        "seconds": speed.seconds,
        "rates": speed.rates,
        "intensity": speed.intensity,
        "peak": speed.peak,
        "bandwidth": speed.bandwidth,
        "words": (
            f"Measured on {speed.date}, on one thread of {printable(speed.machine)}; {speed.operations:,} operations "
            f"and {speed.bytes:,} bytes of arguments and results a point."
        ),
    }


# Flame graphs --------------------------------------------------------------------------------------------------------


def _flames(costs: Costs) -> list[dict[str, Any]]:
    # lines of a single file are named without it
    single = len({line[0] for line, *_ in costs.by_line if line is not None}) == 1

    def frame(line: Line | None) -> tuple[str, str, Hashable]:
        return _place(line, single=single)

    by_line = Counter({(frame(line), purpose, kind): count for (line, purpose, kind), count in costs.by_line.items()})
    flames = [{"name": "by line", "of": _tree("program", by_line)}]
    if len({output for output, _ in costs.by_output}) > 1:
        by_output = Counter({(output, frame(line)): count for (output, line), count in costs.by_output.items()})
        flames.append({"name": "by output", "of": _tree("program", by_output)})
    return flames


def _place(line: Line | None, *, single: bool) -> tuple[str, str, Hashable]:
    """Return a line as its name, its text, and its rank among others."""
    if line is None:
        return "line unknown", "", (1, "", 0)
    return f"line {line[1]}" if single else named(line), printable(source_of(line)), (0, *line)


def _flame_of_loops(report: Report) -> dict[str, Any]:
    stacks: Counter[tuple[Any, ...]] = Counter()
    for body in report.bodies:
        where, text = body.source or "derivatives between loops", f"{body.kind} × {body.instances:,}"
        for kind, count in body.by_kind.items():
            stacks[where, text, kind] += count * body.instances
        if not body.by_kind:
            stacks[where, text] += body.operations
    return {"name": "by line", "of": _tree("program", stacks)}


def _tree(name: Any, stacks: Counter[tuple[Any, ...]], depth: int = 0) -> dict[str, Any]:
    """Return stacks of names as a tree: name, text, number of operations, depth, and parts."""
    label, text = (name[0], name[1]) if isinstance(name, tuple) else (name, "")
    node: dict[str, Any] = {"n": printable(label), "s": text, "v": sum(stacks.values()), "d": depth}
    parts: dict[Any, Counter[tuple[Any, ...]]] = {}
    for stack, count in stacks.items():
        if stack:
            parts.setdefault(stack[0], Counter())[stack[1:]] += count
    children = [_tree(part, inner, depth + 1) | {"r": _rank(part)} for part, inner in parts.items() if inner.total()]
    # lines in the order of the source, all else by size
    children.sort(key=lambda child: (child.pop("r"), -child["v"], child["n"]))
    if len(children) > MOST_PARTS:
        largest = {id(child) for child in sorted(children, key=lambda child: -child["v"])[: MOST_PARTS - 1]}
        rest = [child for child in children if id(child) not in largest]
        children = [child for child in children if id(child) in largest]
        children.append(
            {"n": f"{len(rest)} more", "s": "", "v": sum(child["v"] for child in rest), "d": depth + 1, "c": []}
        )
    node["c"] = children
    return node


def _rank(part: Any) -> Any:
    return part[2] if isinstance(part, tuple) else (0, "", 0)


# The pattern ---------------------------------------------------------------------------------------------------------


def _pattern(blocks: Sequence[CostBlock]) -> dict[str, Any] | None:
    """Return the structural nonzeros in cells, with the operations that they need, and a row for each block."""
    if not blocks:
        return None
    results = list(dict.fromkeys(block.result for block in blocks))
    arguments = list(dict.fromkeys(block.argument for block in blocks))
    heights = {block.result: block.shape[0] for block in blocks}
    widths = {block.argument: block.shape[1] for block in blocks}
    tops, lefts = _starts(results, heights), _starts(arguments, widths)
    height, width = sum(heights.values()), sum(widths.values())
    down, across = (max(1, -(-size // MOST_CELLS)) for size in (height, width))
    rows = np.concatenate([block.rows.astype(np.int64) + tops[block.result] for block in blocks]) // down
    columns = np.concatenate([block.columns.astype(np.int64) + lefts[block.argument] for block in blocks]) // across
    is_counted = all(len(block.each) == len(block.rows) for block in blocks)
    each = np.concatenate([np.array(block.each, np.int64) for block in blocks]) if is_counted else np.zeros(len(rows))
    cells, at, times = np.unique(rows * MOST_CELLS + columns, return_inverse=True, return_counts=True)
    most = np.zeros(len(cells), np.int64)
    np.maximum.at(most, at, each.astype(np.int64))
    return {
        "size": [height, width],
        "group": [down, across],
        "tops": [[name, tops[name]] for name in results],
        "lefts": [[printable(name), lefts[name]] for name in arguments],
        "cells": np.stack([*np.divmod(cells, MOST_CELLS), times, most], axis=1).reshape(-1).tolist(),
        "counted": is_counted,
        "blocks": [
            [_block_name(block), *block.shape, len(block.rows), block.operations, block.own] for block in blocks
        ],
    }


def _block_name(block: CostBlock) -> str:
    return f"∂ {printable(block.result)} / ∂ {printable(block.argument)}" if block.argument else block.result


def _starts(names: Iterable[str], sizes: dict[str, int]) -> dict[str, int]:
    starts, at = {}, 0
    for name in names:
        starts[name] = at
        at += sizes[name]
    return starts
