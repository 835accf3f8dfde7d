"""Costs of a program by line of the user's source, by output, and by block of the Jacobian.

**Lines.** Every operation of the compiled program belongs to one line. A value of the function belongs to the line that
computes it, a local partial derivative to the line of its operation, a product to the line of the vertex at which its
factors meet, and a sum to the line of its last term. The rewritten program has other operations, so they are recognised
by their values at random points. An operation without an equal belongs to the line of the value that it is used for.

**Outputs and blocks.** An output, or a block of the Jacobian, *needs* the operations that it depends on. Operations
that several need are shared; counts of needed operations therefore add up to more than the program.

Time: linear in the operations, for each output.
"""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.accumulation import Accumulation, Labels
from accumulus.elimination.emit import emit
from accumulus.frontends.names import NamedValues, entry_name, named_values, recognised
from accumulus.graph.graph import DifferentiationGraph
from accumulus.show.bodies import kind_counted
from accumulus.show.tables import Compiled
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

#: A source file and the number of a line.
Line = tuple[str, int]
#: Maximum number of operations whose lines are found: more take seconds for a report, fewer leave reports without
#: lines.
MOST_OPERATIONS: Final = 30_000
#: Maximum number of operations times outputs that are followed from outputs to operations: more take seconds for a
#: report, fewer leave out the costs of outputs.
MOST_REACHED: Final = 40_000_000
#: Maximum number of groups of outputs, and of blocks: more make tables that nobody reads, fewer join what should be
#: told apart.
MOST_GROUPS, MOST_BLOCKS = 16, 60


@dataclass(frozen=True, slots=True)
class CostBlock:
    """The derivatives of one result with respect to one argument.

    Attributes:
        result, argument: their names.
        shape: numbers of rows and columns.
        rows, columns: places of the structural nonzeros.
        operations: operations that the block needs; None if they were not counted.
        own: operations that no other block and no value needs.
        each: operations that each nonzero needs; empty if they were not counted.
    """

    result: str
    argument: str
    shape: tuple[int, int]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    operations: int | None = None
    own: int = 0
    each: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Costs:
    """Operations of a program, grouped.

    Attributes:
        by_line: operations by line of the source, purpose ("value" or "derivatives"), and kind; the line is None for
            operations whose line is unknown.
        by_output: operations by output, or number of outputs that share them, and line.
        blocks: blocks of the Jacobian; empty for products with a Jacobian.
    """

    by_line: Counter[tuple[Line | None, str, str]]
    by_output: Counter[tuple[str, Line | None]]
    blocks: tuple[CostBlock, ...]

    @classmethod
    def of(cls, program: Compiled, function: Callable[..., Any], parameters: Sequence[str]) -> Costs:
        """Return the costs of a straight-line program.

        Args:
            program: the compiled program.
            function: function that was recorded.
            parameters: names of the function's arguments.
        """
        tape: Tape = program.code.tape
        lines, is_value = _lines(program, function)
        kinds = [kind_counted(OPERATIONS[code]) for code in tape.codes[tape.inputs :]]
        purposes = ["value" if each else "derivatives" for each in is_value]
        groups = _groups(program, parameters)
        needed = _needed(tape, [outputs for _, outputs in groups])
        labels = [""] * len(kinds) if needed is None else _labels(needed, [name for name, _ in groups])
        return cls(
            Counter(zip(lines, purposes, kinds, strict=True)),
            Counter(zip(labels, lines, strict=True)),
            pattern_blocks(program, parameters),
        )


def source_of(line: Line) -> str:
    """Return the text of a source line; empty if the file cannot be read."""
    return linecache.getline(*line).strip()


def named(line: Line) -> str:
    """Return a line as ``file.py:12``."""
    return f"{os.path.basename(line[0])}:{line[1]}"


# Lines ---------------------------------------------------------------------------------------------------------------


def _lines(program: Compiled, function: Callable[..., Any]) -> tuple[list[Line | None], list[bool]]:
    """Return for each operation of a program its line, and True if it computes a value of the function."""
    tape: Tape = program.code.tape
    count = tape.operations
    unknown: tuple[list[Line | None], list[bool]] = ([None] * count, [False] * count)
    if count > MOST_OPERATIONS:
        return unknown
    names = None
    # only shapes of arguments are known; lines are optional, so errors of the function are ignored
    with suppress(Exception):
        shapes = [shape for shape in program.recording.argument_shapes if shape is not None]
        if len(shapes) == len(program.recording.argument_shapes):
            names = named_values(function, [np.ones(shape)[()] for shape in shapes])
    plan = program.facts.plan
    whole, of_steps = _with_all_values(plan.graph, plan.accumulation)
    matched: dict[int, Line] = {}
    values: set[int] = set()
    if names is not None and names.tape.inputs <= whole.inputs:
        matches = recognised(whole, names)
        values = {reference for reference in matches if reference >= whole.inputs}
        matched = {reference: names.lines[at] for reference, at in matches.items() if at in names.lines}
    of_values = _lines_of_derivatives(plan.graph, plan.accumulation, of_steps, matched)
    _inherit(whole, matched)
    lines: dict[int, Line] = {}
    matches = recognised(tape, NamedValues(whole, {}, matched))
    for reference, at in matches.items():
        if reference >= tape.inputs and at in matched:
            lines[reference] = matched[at]
    # rounding hides an entry that is zero, but its place says which one it is
    _, entries = plan.accumulation.ordered_entries()
    for reference, value in zip(reversed(_entries(program)), reversed(entries.tolist()), strict=False):
        if reference >= tape.inputs and (line := of_values[value]) is not None:
            lines.setdefault(reference, line)
    is_value = [matches.get(reference, -1) in values for reference in range(tape.inputs, len(tape))]
    unmatched = {reference for reference in range(tape.inputs, len(tape)) if reference not in matches}
    users: dict[int, list[int]] = {}
    for reference in range(tape.inputs, len(tape)):
        for argument in tape.arguments(reference):
            users.setdefault(argument, []).append(reference)
    for reference in sorted(unmatched, reverse=True):
        its = users.get(reference, ())
        is_value[reference - tape.inputs] = bool(its) and all(is_value[user - tape.inputs] for user in its)
    _inherit(tape, lines)
    return [lines.get(reference) for reference in range(tape.inputs, len(tape))], is_value


def _with_all_values(graph: DifferentiationGraph, accumulation: Accumulation) -> tuple[Tape, list[int]]:
    """Return the tape of a plan, and the reference of every edge and of the result of every step."""
    count = len(graph.sources) + len(accumulation.steps)
    whole = emit(Accumulation(graph, accumulation.steps, {(0, k): k for k in range(count)}))
    return whole, list(whole.outputs[len(whole.outputs) - count :])


def _lines_of_derivatives(
    graph: DifferentiationGraph, accumulation: Accumulation, references: Sequence[int], lines_of_values: dict[int, Line]
) -> list[Line | None]:
    """Add the lines of partial derivatives, products and sums; return those of all values of the plan."""
    lines = [
        lines_of_values.get(reference) if (reference := _operation(str(name))) >= 0 else None for name in graph.vertices
    ]
    _, targets = Labels(graph, accumulation.steps, every_product=True).ends(slice(None))
    products, left, right = (column.tolist() for column in accumulation.steps.columns())
    of_value: list[Line | None] = [lines[v] for v in graph.sources.tolist()]
    for k, is_product in enumerate(products):
        of_value.append(lines[int(targets[left[k]])] if is_product else of_value[right[k]] or of_value[left[k]])
    for reference, line in zip(references, of_value, strict=True):
        if line is not None and reference >= 0:
            lines_of_values.setdefault(reference, line)
    return of_value


def _entries(program: Compiled) -> list[int]:
    """Return the references of the entries of the plan, if the program has all of them."""
    outputs: list[int] = list(program.code.tape.outputs)
    outputs = outputs[: len(outputs) - bool(program.recording.guards)]
    count = len(program.facts.plan.accumulation.entries)
    first = program.recording.results if program.kind.values else 0
    return outputs[first:] if len(outputs) == first + count else []


def _operation(name: str) -> int:
    """Return the operation of a vertex of a recorded function, or of an adjoint; −1 for other vertices."""
    return int(name[1:]) if name[:1] in ("v", "y", "a", "g") and name[1:].isdecimal() else -1


def _inherit(tape: Tape, lines: dict[int, Line]) -> None:
    """Give each operation without a line the line of its first user."""
    first: dict[int, int] = {}
    for reference in range(len(tape) - 1, tape.inputs - 1, -1):
        if reference not in lines and reference in first and first[reference] in lines:
            lines[reference] = lines[first[reference]]
        for argument in tape.arguments(reference):
            if argument >= tape.inputs:
                first[argument] = reference


# Outputs and blocks --------------------------------------------------------------------------------------------------


def _needed(tape: Tape, groups: Sequence[Iterable[int]]) -> NDArray[np.bool_] | None:
    """Return which operations each group of outputs needs, (operations, groups); None if that takes too long."""
    if not groups or len(groups) * len(tape) > MOST_REACHED:
        return None
    needed = np.zeros((len(tape), len(groups)), bool)
    for k, outputs in enumerate(groups):
        needed[[reference for output in outputs if (reference := tape.outputs[output]) >= 0], k] = True
    for reference in range(len(tape) - 1, tape.inputs - 1, -1):
        row = needed[reference]
        for argument in tape.arguments(reference):
            if argument >= tape.inputs:
                needed[argument] |= row
    return needed[tape.inputs :]


def _labels(needed: NDArray[np.bool_], names: Sequence[str]) -> list[str]:
    """Return for each operation the name of the output that needs it, or the number of outputs that share it."""
    counts, first = needed.sum(axis=1).tolist(), needed.argmax(axis=1).tolist()
    texts = {0: "guards", len(names): f"shared by all {len(names)}"}
    return [
        names[k] if count == 1 else texts.get(count, f"shared by {count}")
        for count, k in zip(counts, first, strict=True)
    ]


def _groups(program: Compiled, parameters: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return the names of outputs with the positions of their values and derivatives; neighbours are joined.

    Outputs are results of the function, or entries of the gradient of a function with one result.
    """
    recording, blocks = program.recording, program.blocks()
    values = sum(map(prod, recording.result_shapes))
    by_column = values == 1 and bool(blocks)
    names: list[str] = []
    starts: list[int] = []
    shapes = [block.argument for block in blocks] if by_column else range(len(recording.result_shapes))
    for k in shapes:
        starts.append(len(names))
        name = _argument(parameters, k) if by_column else _result(program, k)
        shape = recording.argument_shapes[k] if by_column else recording.result_shapes[k]
        names += [entry_name(name, index) for index in np.ndindex(*(shape or ()))]
    of_output: dict[int, int] = {}
    for b, block in enumerate(blocks):
        places = block.columns + starts[b] if by_column else block.rows + starts[max(block.result, 0)]
        of_output.update(zip(block.outputs.tolist(), places.tolist(), strict=True))
    tape: Tape = program.code.tape
    size = max(1, -(-len(names) // MOST_GROUPS))
    groups: dict[str, list[int]] = {}
    for output in range(len(tape.outputs) - bool(recording.guards)):
        is_value = program.kind.values and output < values
        at = of_output.get(output, -1 if by_column or not is_value else output)
        name = "value" if is_value and at < 0 else "derivatives"
        if at >= 0:
            first = at // size * size
            last = min(first + size, len(names)) - 1
            name = names[first] if first == last else f"{names[first]} … {names[last]}"
        groups.setdefault(name, []).append(output)
    return list(groups.items())


def _result(program: Compiled, k: int) -> str:
    return f"{program.name}, result {k + 1}" if len(program.recording.result_shapes) > 1 else program.name


def _argument(parameters: Sequence[str], k: int) -> str:
    # numbers within containers are called "argument 0 (p)['a']"
    return re.sub(r"^argument \d+ \((\w+)\)", r"\1", parameters[k]) if 0 <= k < len(parameters) else f"argument {k + 1}"


def pattern_blocks(program: Compiled, parameters: Sequence[str]) -> tuple[CostBlock, ...]:
    """Return the blocks of the Jacobian; in a straight line with the operations that they and their nonzeros need."""
    blocks, tape, needed = program.blocks(), program.code.tape, None
    if len(blocks) > MOST_BLOCKS:
        return ()
    if blocks and program.code.maps is None:
        of_blocks = [block.outputs.tolist() for block in blocks]
        remaining = sorted({*range(len(tape.outputs))}.difference(*of_blocks))
        needed = _needed(tape, [*of_blocks, remaining])
    pattern = []
    for k, block in enumerate(blocks):
        each = None if needed is None else _needed(tape, [[output] for output in of_blocks[k]])
        pattern.append(
            CostBlock(
                _result(program, block.result) if block.result >= 0 else "selected entries",
                _argument(parameters, block.argument) if block.argument >= 0 else "",
                block.shape,
                block.rows,
                block.columns,
                None if needed is None else int(needed[:, k].sum()),
                0 if needed is None else int((needed[:, k] & (needed.sum(axis=1) == 1)).sum()),
                () if each is None else tuple(each.sum(axis=0).tolist()),
            )
        )
    return tuple(pattern)
