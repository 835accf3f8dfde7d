"""The problem of a command: a function in a user's file, its derivative, or a graph file.

A function is found by path. The file's folder is importable, as if the file were run. Its prints go to the error
stream, so that standard output has only the command's own output.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import typer

from accumulus.cli.application import beyond_searches
from accumulus.errors import AccumulusError, ArgumentError, unknown_name
from accumulus.graph.files import READABLE, load_graph

if TYPE_CHECKING:
    from accumulus.frontends.names import NamedValues
    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.programs.derivative import Derivative
    from accumulus.programs.posed import Posed


Shape = tuple[int, ...]
#: Text forms of the shape of a number.
SCALAR = ("", "scalar", "()")


class UserCodeError(AccumulusError):
    """The user's own code raised an error; the message is its traceback, reduced to that code."""


def load_function(text: str, shapes: Sequence[str]) -> tuple[Callable[..., Any], list[Shape], Path]:
    """Return the function that the command line names, the shapes of its arguments, and its file.

    Raises:
        typer.BadParameter: if the text is not of the form ``file.py:function``, or the shapes do not fit the function.
        AccumulusError: if there is no such function, or it cannot be loaded.
    """
    path_text, _, name = (text, "", "") if text.endswith(".py") else text.rpartition(":")
    path = Path(path_text)
    if path.suffix != ".py":
        raise typer.BadParameter(f"{text!r} names no function; expected file.py:function")
    check_file(path_text)
    if not name:
        names = ", ".join(_functions_in(path)) or "no functions"
        raise typer.BadParameter(f"name a function: {path_text}:function ({path.name} defines {names})")
    sizes = [parse_shape(shape) for shape in shapes]
    with user_code(path):
        module = _module(path)
    f = getattr(module, name, None)
    if not callable(f):
        functions = _functions_in(path) or [key for key, value in vars(module).items() if callable(value)]
        raise unknown_name(f"function of {path.name}", name, functions)
    _check_count(f, name, sizes)
    return f, sizes, path


def check_file(text: str) -> None:
    """Raise an error for a path without a file."""
    if not Path(text).is_file():
        raise typer.BadParameter(f"there is no file {text!r}")


def parse_shape(text: str) -> Shape:
    """Return the shape that a text stands for.

    >>> parse_shape("6"), parse_shape("3,3"), parse_shape("3x4"), parse_shape("scalar")
    ((6,), (3, 3), (3, 4), ())
    """
    inner = text.strip().removeprefix("(").removesuffix(")").strip().removesuffix(",")
    if text.strip() in SCALAR:
        return ()
    sizes = re.split(r"\s*[,x×]\s*", inner)
    if not all(size.isascii() and size.isdigit() and int(size) > 0 for size in sizes):
        raise typer.BadParameter(f"--shape {text!r}: expected 6, 3,3 or 3x3, or 'scalar' for a number")
    return tuple(map(int, sizes))


def _check_count(f: Callable[..., Any], name: str, shapes: Sequence[Shape]) -> None:
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    needed = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    try:
        signature.bind(*shapes)
    except TypeError:
        raise typer.BadParameter(
            f"{name}{signature} needs a --shape for each of {', '.join(needed) or 'no arguments'}, in this order; "
            f"{len(shapes)} given. Write --shape 6 for an array of 6, 3x3 for a matrix, scalar for a number."
        ) from None


def _module(path: Path) -> ModuleType:
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # the file must not replace a loaded module of the same name
    name = path.stem if path.stem not in sys.modules else f"user_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def user_code(path: Path) -> Iterator[None]:
    """Run the user's code: its prints go to the error stream, its exceptions become a `UserCodeError`."""
    from accumulus.frontends.location import user_traceback

    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (AccumulusError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise UserCodeError(
            f"{path} exits (code {error.code}) when it is loaded; put what only a script should do behind "
            'if __name__ == "__main__":'
        ) from None
    except BaseException as error:
        trace = user_traceback(error.__traceback__)
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace, chain=False)).rstrip()
        raise UserCodeError(f"{path} raised an exception:\n{text}") from None


def _functions_in(path: Path) -> list[str]:
    """Return the names of the public functions that a file defines, without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


# Derivatives ---------------------------------------------------------------------------------------------------------


#: Kinds with directions or weights as further arguments.
OF_DIRECTIONS: Final = ("jvp", "vjp", "hvp")
#: Kinds that always refer to all arguments.
_OF_ALL: Final = (*OF_DIRECTIONS, "compile")


def known_kinds() -> list[str]:
    """Return the names of the kinds whose results are arrays; they are the names of the functions that make them."""
    from accumulus.programs import kinds

    rows = [row for row in vars(kinds).values() if isinstance(row, kinds.DerivativeKind)]
    return [row.name for row in rows if not row.factored and row.seeds is not kinds.Seeds.SERIES]


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as functions of `accumulus` take them: without missing ones; a single argument without a list.

    Raises:
        ArgumentError: for a text that is not the position of an entry.
    """
    keywords = {name: value for name, value in options.items() if value is not None}
    for name in ("argnums", "argnames"):
        if len(keywords.get(name, ())) == 1:
            (keywords[name],) = keywords[name]
    if "entries" in keywords:
        pairs = [re.fullmatch(r"\s*(-?\d+)\s*,\s*(-?\d+)\s*", text) for text in keywords["entries"]]
        if None in pairs:
            raise ArgumentError(
                f"--entries {keywords['entries'][pairs.index(None)]!r}; expected ROW,COLUMN, such as 0,2"
            )
        keywords["entries"] = tuple([int(pair[k]) for pair in pairs if pair] for k in (1, 2))
    return keywords


def load_derivative(
    text: str, shapes: Sequence[str], options: Mapping[str, Any], *, every: bool
) -> tuple[Derivative, list[Any], Path]:
    """Return the derivative that a command line describes, arguments to record it with, and the file of its function.

    Args:
        text: ``file.py:function``.
        shapes: one text for each argument of the function.
        options: options of the derivative, and its kind, by name; None for missing ones.
        every: if True, differentiate with respect to all arguments if none are named; else with respect to the first.

    Raises:
        ArgumentError, UnknownNameError: for an unknown kind or option, or an invalid value.
    """
    import numpy as np

    import accumulus

    keywords, kinds = given_options(options), known_kinds()
    kind = keywords.pop("derivative")
    if kind not in kinds:
        raise unknown_name("derivative", kind, kinds)
    if wrong := [name for name in ("argnums", "argnames") if name in keywords and kind in _OF_ALL]:
        raise ArgumentError(
            f"--{wrong[0]} is given for {kind}, which differentiates with respect to all arguments; leave it out"
        )
    f, sizes, path = load_function(text, shapes)
    arguments = [np.ones(size)[()] for size in sizes]
    if every and kind not in _OF_ALL and not {"argnums", "argnames"} & keywords.keys():
        keywords["argnums"] = 0 if len(sizes) == 1 else tuple(range(len(sizes)))
    derivative = getattr(accumulus, kind)(f, **keywords)
    if kind == "vjp":
        with user_code(path):
            recording = accumulus.trace(f, *arguments).recording
        weights = recording.unflatten([np.ones(shape)[()] for shape in recording.result_shapes])
        return derivative, [tuple(arguments), weights], path
    return derivative, [tuple(arguments)] * 2 if kind in OF_DIRECTIONS else arguments, path


def names_of_arguments(derivative: Derivative, kind: str, numbers: int, arguments: int) -> list[str]:
    """Return names of a derivative's numeric arguments: its function's, followed by directions or weights.

    Args:
        derivative: derivative whose arguments are named.
        kind: kind of the derivative.
        numbers: number of numeric arguments.
        arguments: number of the function's own arguments.
    """
    function_parameters = list(inspect.signature(derivative.__wrapped__).parameters)
    names = [function_parameters[k] if k < len(function_parameters) else f"x{k}" for k in range(arguments)]
    more = numbers - arguments
    if kind == "vjp":
        return [*names, *(["weights"] if more == 1 else [f"weights_{k}" for k in range(more)])]
    return [*names, *(f"{name}_direction" for name in names[:more])]


# Problems ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """A recorded derivative of a function, or a graph from a file."""

    name: str
    graph: DifferentiationGraph
    posed: Posed | None
    #: Time that each stage took, in seconds.
    seconds: dict[str, float]
    #: Names of the numeric arguments of the derivative in the user's source.
    parameters: tuple[str, ...] = ()
    #: Function that returns names of the function's values, from another recording.
    named_values: Callable[[], NamedValues | None] = lambda: None


def load_problem(text: str, shapes: Sequence[str], options: Mapping[str, Any]) -> Problem:
    """Return the problem that the command line describes.

    Args:
        text: ``file.py:function``, ``graph.json`` or ``graph.graphml``.
        shapes: one text for each argument of the function.
        options: options by name: for a function, of its derivative and kind; for a graph, of its plan.

    Raises:
        typer.BadParameter: if there is no such file, or shapes or options do not fit it.
        AccumulusError: if there is no such function, it cannot be loaded or recorded, or the graph is malformed.
    """
    if Path(text).suffix.lower() in READABLE:
        check_file(text)
        if shapes:
            raise typer.BadParameter("--shape is for functions; leave it out for a graph file")
        if wrong := beyond_searches(options):
            raise typer.BadParameter(f"--{wrong[0].replace('_', '-')} is for functions; leave it out for a graph file")
        start = time.perf_counter()
        graph = load_graph(Path(text))
        return Problem(graph.name, graph, None, {"read": time.perf_counter() - start})
    if ".py" not in (Path(text).suffix, Path(text.rpartition(":")[0]).suffix):
        forms = " or ".join(f"graph{end}" for end in READABLE)
        raise typer.BadParameter(f"{text!r} names neither a function (file.py:function) nor a graph ({forms})")
    made, examples, path = load_derivative(text, shapes, options, every=True)
    with user_code(path):
        posed = made.posed(*examples)
    numbers = sum(shape is not None for shape in posed.recording.argument_shapes)
    parameters = tuple(names_of_arguments(made, options["derivative"], numbers, len(shapes)))

    def names() -> NamedValues | None:
        from accumulus.frontends.names import named_values

        with user_code(path):
            return named_values(made.__wrapped__, examples[0] if options["derivative"] in OF_DIRECTIONS else examples)

    return Problem(text.rpartition(":")[2], posed.graph, posed, posed.seconds, parameters, names)
