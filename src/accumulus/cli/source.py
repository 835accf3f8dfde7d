"""Source text of a planned Jacobian, with comments that use the names in the user's source.

Values are recognised by their numbers at random points: a rewritten program computes the function with other
operations, but it still computes most values that have a name in the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accumulus.cli.problem import Problem, load_derivative, user_code
from accumulus.elimination.emit import emit, label_tape
from accumulus.frontends.names import NamedValues, entry_name, recognised
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.kinds import Seeds
from accumulus.resubstitution.optimise import optimise
from accumulus.show.tables import counted, shape_text
from accumulus.targets import Segment, emit_source, numpy_source, target_of
from accumulus.targets.kernel import Unit
from accumulus.targets.numpy_source import Comments
from accumulus.text import printable

if TYPE_CHECKING:
    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.search.plan import Plan


def labels_of(program: CompiledProgram, names: NamedValues | None, parameters: Sequence[str]) -> Comments:
    """Return the labels for the source text of a program.

    Args:
        program: a derivative.
        names: names of the function's values.
        parameters: names of the numeric arguments, those of the function first.
    """
    same = {} if names is None else recognised(program.tape, names)
    values = {k: text for k, reference in same.items() if names and (text := names.described(reference))}
    return Comments(tuple(parameters), values, tuple(map(tuple, _entries(program, parameters))))


def _entries(program: CompiledProgram, parameters: Sequence[str]) -> Iterator[list[str]]:
    """Yield the meanings of the entries of each array; nothing for arrays that store only a selection of entries."""
    kind, recording, selection = program.kind, program.recording, program._selection
    shapes = {k: shape for k, shape in enumerate(recording.argument_shapes) if shape is not None}
    inputs = [
        [entry_name(name, index) for index in np.ndindex(shape)]
        for name, shape in zip(parameters, shapes.values(), strict=True)
    ]
    numeric = list(shapes)
    differentiated = [inputs[numeric.index(k)] for k in selection.positions]
    rows = _results(program, differentiated)
    if kind.values:
        yield from rows
    plain = program.options.sparse is None and selection.places is None and selection.several is None
    if not plain:
        return
    if kind.seeds is Seeds.TANGENTS:
        yield from ([f"change of {entry} along the direction" for entry in row] for row in rows)
    elif kind.seeds is Seeds.COTANGENTS:
        weighted = " of the weighted sum" if len(rows) > 1 or len(rows[0]) > 1 else ""
        yield from ([f"derivative{weighted} by {column}" for column in columns] for columns in differentiated)
    elif kind.derivatives:
        for row in rows[kind.skipped :]:
            for columns in differentiated:
                yield [_derivative(entry, column) for entry in row for column in columns]


def _results(program: CompiledProgram, differentiated: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return names of the entries of the differentiated function, or of its gradient, leaf by leaf."""
    kind, recording, name = program.kind, program.recording, program.name
    if kind.first is not None:
        gradient = [[_derivative(name, column) for column in columns] for columns in differentiated]
        return [[name]] * kind.first.values + gradient
    entries, first = [], 0
    for shape in recording.result_shapes:
        size = int(np.prod(shape))
        entries.append([f"{name}{recording.entry_name(k)}" for k in range(first, first + size)])
        first += size
    return entries


def _derivative(entry: str, by: str) -> str:
    if entry.startswith("d "):
        above, _, below = entry[2:].partition(" / ")
        return f"d² {above} / {below} d {by}"
    return f"d {entry} / d {by}"


# Source --------------------------------------------------------------------------------------------------------------


def problem_source(problem: Problem, plan: Plan, target: str) -> str:
    """Return the program as text in the target's language.

    For a function, it maps the entries of the arguments to values and derivatives, flat in C order. For a graph, it
    maps the unknown labels, edge by edge, to the Jacobian, roots × terminals.
    """
    if problem.posed is None:
        text, lines = _from_labels(problem.graph, plan, target)
    else:
        program = problem.posed.compile(plan)
        named = problem.named_values() if target == "numpy" else None
        text, lines = _from_function(program, target, named, problem.parameters)
    # a line break in a name would end the comment
    return "".join(f"{target_of(target).comment} {printable(line)}\n" for line in lines) + text


def source_of_loops(text: str, shapes: Sequence[str], target: str, options: Mapping[str, Any]) -> str | None:
    """Return the program of a function that is recorded as loops, in a language with loops; else None.

    Args:
        text: problem in the form of the command line.
        shapes: shapes of the arguments, as text.
        target: name of the language.
        options: as for `accumulus.cli.problem.load_problem`.
    """
    if not target_of(target).writes_loops or ".py" not in (Path(text).suffix, Path(text.rpartition(":")[0]).suffix):
        return None
    made, examples, path = load_derivative(text, shapes, options, every=True)
    with user_code(path):
        form, numbers = made._form_of(examples, {})
        recording = form._record(numbers)
        if recording.program.is_straight:
            return None
        program = made.compile(*examples)
    if program.recording.program.is_straight:
        return None
    name, comment = printable(text.rpartition(":")[2]), target_of(target).comment
    source = program.source(target, _identifier(f"{name}_{program.kind.noun}"))
    return f"{comment} {program.kind.title} of {name}, flat in C order.\n{source}"


def _from_function(
    program: CompiledProgram, target: str, named: NamedValues | None, parameters: Sequence[str]
) -> tuple[str, list[str]]:
    names, inputs, shapes = program.array_names, program._arguments.numeric_shapes, [*program._results.shapes]
    if program.is_guarded:
        shapes.append(())
    segments = [replace(segment, name=name) for segment, name in zip(program.kernel.segments, names, strict=True)]
    results = ", ".join(f"{name} ({shape_text(shape)})" for name, shape in zip(names, shapes, strict=True))
    lines = [
        f"{program.kind.title} of {program.name}, {counted(program.operations, 'operation')}.",
        f"Takes its arguments as arrays: {', '.join(map(shape_text, inputs))}; points, if there are many, run behind.",
        f"Returns {results}, flat in C order.",
    ]
    name = _identifier(f"{program.name}_{program.kind.noun}")
    dtype, exact = program.options.dtype, program.code.exact
    if target == "numpy":
        labels = labels_of(program, named, parameters)
        text = numpy_source.numpy_module(Unit(program.tape, segments, dtype, inputs), name, labels)
        return text, lines
    return emit_source(program.tape, segments, target, name, dtype, exact=exact, arguments=inputs), lines


def _from_labels(graph: DifferentiationGraph, plan: Plan, target: str) -> tuple[str, list[str]]:
    tape = optimise(emit(plan.accumulation))
    columns = len(graph.terminals)
    places = tuple(root * columns + terminal for root, terminal in sorted(plan.accumulation.entries))
    segment = Segment(len(graph.roots) * columns, tuple(range(len(places))), places, "jacobian")
    lines = [
        f"Jacobian of the graph {graph.name}, {counted(tape.operations, 'operation')}.",
        f"Returns {len(graph.roots)} roots × {columns} terminals, flat in C order. Takes the labels of these edges:",
        *_wrapped(unknown_labels(graph)),
    ]
    return emit_source(tape, [segment], target, _identifier(f"{graph.name}_jacobian")), lines


def unknown_labels(graph: DifferentiationGraph) -> list[str]:
    """Return the meaning of each input of a program that is made from labels, in order."""
    _, references = label_tape(graph)
    return [
        f"x{reference} = {graph.symbols[e] or f'∂{_end(graph, graph.sources[e])}/∂{_end(graph, graph.targets[e])}'}"
        for e, reference in enumerate(references)
        if reference >= 0
    ]


def _end(graph: DifferentiationGraph, vertex: int) -> str:
    return str(graph.vertices[vertex])


def _wrapped(items: Sequence[str], width: int = 100) -> list[str]:
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > width:
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else '  '}{item}"
    return lines


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() else f"_{text}"
