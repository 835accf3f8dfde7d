"""Source text of a planned Jacobian, with a comment that says what goes in and what comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accumulus.cli.derivatives import load_derivative
from accumulus.cli.functions import user_code
from accumulus.cli.problem import Problem
from accumulus.cli.readable import labels_of
from accumulus.elimination.emit import emit, label_tape
from accumulus.resubstitution.optimise import optimise
from accumulus.show.tables import counted, product_of
from accumulus.tape.blocks import BlockTape
from accumulus.targets import Segment, emit_source, numpy_source, target_of
from accumulus.text import printable

if TYPE_CHECKING:
    from accumulus.frontends.names import NamedValues
    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.programs.program import Program
    from accumulus.search.plans.plan import Plan

__all__ = ["source", "source_of_loops"]


def source(problem: Problem, plan: Plan, target: str) -> str:
    """The program in the target's language.

    For a function it maps the entries of its arguments to values and derivatives, flattened in C order. For a graph it
    maps the labels that are not known numbers, edge by edge, to the Jacobian, roots × terminals.
    """
    if problem.posed is None:
        text, lines = _from_labels(problem.graph, plan, target)
    else:
        program = problem.posed.compile(plan)
        named = problem.named_values() if target == "numpy" else None
        text, lines = _from_function(program, target, named, problem.parameters)
    # a name that breaks the line would end the comment
    return "".join(f"{target_of(target).comment} {printable(line)}\n" for line in lines) + text


def source_of_loops(text: str, shapes: Sequence[str], target: str, options: Mapping[str, Any]) -> str | None:
    """As `source`, of a function of long arrays that is recorded as loops, in a language that has them; else None.

    Args:
        text: what the command line names.
        options: as for `accumulus.cli.problem.load`.
    """
    if target_of(target).loop_source is None or ".py" not in (Path(text).suffix, Path(text.rpartition(":")[0]).suffix):
        return None
    made, examples, path = load_derivative(text, shapes, options, every=True)
    with user_code(path):
        form, numbers = made._form_of(examples, {})
        recording = form._record(numbers)
        if not (isinstance(recording.tape, BlockTape) or recording.unrolled):
            return None
        program = made.compile(*examples)
    if not isinstance(program.tape, BlockTape):
        return None
    name, comment = printable(text.rpartition(":")[2]), target_of(target).comment
    source = program.source(target, _identifier(f"{name}_{program.kind.noun}"))
    return f"{comment} {program.kind.title} of {name}, flat in C order.\n{source}"


def _from_function(
    program: Program, target: str, named: NamedValues | None, parameters: Sequence[str]
) -> tuple[str, list[str]]:
    names, inputs, shapes = program.array_names, program._arguments.numeric_shapes, [*program._results.shapes]
    if program.is_guarded:
        shapes.append(())
    segments = [replace(segment, name=name) for segment, name in zip(program.kernel.segments, names, strict=True)]
    results = ", ".join(f"{name} ({product_of(shape)})" for name, shape in zip(names, shapes, strict=True))
    lines = [
        f"{program.kind.title} of {program.name}, {counted(program.operations, 'operation')}.",
        f"Takes its arguments as arrays: {', '.join(map(product_of, inputs))}; points, if there are many, run behind.",
        f"Returns {results}, flat in C order.",
    ]
    name = _identifier(f"{program.name}_{program.kind.noun}")
    dtype, exact = program.options.dtype, program._exact
    if target == "numpy":
        labels = labels_of(program, named, parameters)
        text = numpy_source.source(program.tape, tuple(segments), dtype, inputs, name, labels=labels)
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
    """What each input of a program that was made from labels stands for, in order."""
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
