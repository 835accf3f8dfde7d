"""Source text of a planned Jacobian, with a comment that says what goes in and what comes out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from accumulus.cli.problem import Problem
from accumulus.elimination.emit import emit, label_tape
from accumulus.rewriting.optimise import optimise
from accumulus.show.tables import counted, product_of
from accumulus.targets import Segment, emit_source, target_of
from accumulus.text import printable

if TYPE_CHECKING:
    from accumulus.api import Trace
    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.search.plans.plan import Plan

__all__ = ["source"]


def source(problem: Problem, plan: Plan, target: str, *, values: bool) -> str:
    """The program in the target's language.

    For a function it maps the entries of its arguments to values (if `values`) and Jacobians, flattened in C order. For
    a graph it maps the labels that are not known numbers, edge by edge, to the Jacobian, roots × terminals.
    """
    if problem.trace is None:
        text, lines = _from_labels(problem.graph, plan, target)
    else:
        text, lines = _from_function(problem.trace, plan, target, values)
    # a name that breaks the line would end the comment
    return "".join(f"{target_of(target).comment} {printable(line)}\n" for line in lines) + text


def _from_function(trace: Trace, plan: Plan, target: str, values: bool) -> tuple[str, list[str]]:
    # the numpy target compiles in no time, and lays results out as every other
    program = trace.compile(plan, "numpy", values=values)
    recording = trace.recording
    arguments = [k for k, shape in enumerate(recording.argument_shapes) if shape is not None]
    leaves = range(len(recording.result_shapes))
    names = [_numbered("value", leaf, len(leaves)) for leaf in leaves] if values else []
    shapes = [product_of(recording.result_shapes[leaf]) for leaf in leaves] if values else []
    for leaf in leaves:
        for k in arguments:
            name = _numbered("jacobian", leaf, len(leaves))
            names.append(_numbered(name, k, len(arguments)))
            shapes.append(product_of((*recording.result_shapes[leaf], *(recording.argument_shapes[k] or ()))))
    segments = [replace(segment, name=name) for segment, name in zip(program.kernel.segments, names, strict=True)]
    inputs = [recording.argument_shapes[k] or () for k in arguments]
    results = ", ".join(f"{name} ({shape})" for name, shape in zip(names, shapes, strict=True))
    what = "Value and Jacobian" if values else "Jacobian"
    lines = [
        f"{what} of {trace.name}, {counted(program.operations, 'operation')}.",
        f"Takes its arguments as arrays: {', '.join(map(product_of, inputs))}; points, if there are many, run behind.",
        f"Returns {results}, flat in C order.",
    ]
    name = _identifier(f"{trace.name}_jacobian")
    return emit_source(program.tape, segments, target, name, arguments=inputs), lines


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


def _numbered(name: str, k: int, count: int) -> str:
    return f"{name}_{k}" if count > 1 else name


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() else f"_{text}"
