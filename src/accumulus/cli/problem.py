"""What a command is about: a derivative of a function in a Python file, or a graph file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from accumulus.cli.derivatives import OF_DIRECTIONS, load_derivative, parameters_of
from accumulus.cli.functions import check_file, user_code
from accumulus.cli.option_table import beyond_searches
from accumulus.graph.files import READABLE, load_graph

if TYPE_CHECKING:
    from accumulus.frontends.names import NamedValues
    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.programs.posed import Posed

__all__ = ["Problem", "load"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """A derivative of a function that was recorded, or a graph without one."""

    name: str
    graph: DifferentiationGraph
    posed: Posed | None
    #: Time that each stage took.
    seconds: dict[str, float]
    #: Names of the numeric arguments of the derivative, of the user's source.
    parameters: tuple[str, ...] = ()
    #: Of what its function computes, by recording it once more.
    named_values: Callable[[], NamedValues | None] = lambda: None


def load(text: str, shapes: Sequence[str], options: Mapping[str, Any]) -> Problem:
    """The problem that the command line names.

    Args:
        text: ``file.py:function``, ``graph.json`` or ``graph.graphml``.
        shapes: one text for each argument of the function.
        options: by name: of a function's derivative, and its kind; of a graph, of its plan.

    Raises:
        typer.BadParameter: if there is no such file, or shapes or options do not fit it.
        AccumulusError: if there is no such function, it cannot be loaded or recorded, or the graph is malformed.
    """
    if Path(text).suffix.lower() in READABLE:
        check_file(text)
        if shapes:
            raise typer.BadParameter("--shape is for functions; a graph file has all that is needed")
        if wrong := beyond_searches(options):
            raise typer.BadParameter(
                f"--{wrong[0].replace('_', '-')} is for functions; a graph file is planned as it is"
            )
        graph, reading = _timed(lambda: load_graph(Path(text)))
        return Problem(graph.name, graph, None, {"read": reading})
    if ".py" not in (Path(text).suffix, Path(text.rpartition(":")[0]).suffix):
        forms = " or ".join(f"graph{end}" for end in READABLE)
        raise typer.BadParameter(f"{text!r} names neither a function (file.py:function) nor a graph ({forms})")
    from accumulus.programs.posed import posed

    made, examples, path = load_derivative(text, shapes, options, every=True)
    with user_code(path):
        found = posed(made, examples)
    numbers = sum(shape is not None for shape in found.recording.argument_shapes)
    parameters = tuple(parameters_of(made, options["derivative"], numbers, len(shapes)))

    def names() -> NamedValues | None:
        from accumulus.frontends.names import named_values

        with user_code(path):
            return named_values(made.__wrapped__, examples[0] if options["derivative"] in OF_DIRECTIONS else examples)

    return Problem(text.rpartition(":")[2], found.graph, found, found.seconds, parameters, names)


def _timed(run: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start
