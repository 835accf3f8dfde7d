"""What a command is about: a function in a Python file, or a graph file.

A function is found by path, with the file's folder importable as if the file were run. What it prints goes to the
error stream, so that a command's own output stays what it says.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from accumulus.errors import AccumulusError, unknown_name
from accumulus.graph.files import READABLE, load_graph

if TYPE_CHECKING:
    from accumulus.api import Trace
    from accumulus.graph.graph import DifferentiationGraph

__all__ = ["Problem", "UserCodeError", "load", "load_function", "parse_shape", "user_code"]

T = TypeVar("T")
Shape = tuple[int, ...]
#: How an argument without axes may be written.
SCALAR = ("", "scalar", "()")


class UserCodeError(AccumulusError):
    """The user's own code raised; the message is its traceback, reduced to that code."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A function that was recorded, or a graph without one."""

    name: str
    graph: DifferentiationGraph
    trace: Trace | None
    #: Time that each stage took.
    seconds: dict[str, float]


def load(text: str, shapes: Sequence[str]) -> Problem:
    """The problem that the command line names.

    Args:
        text: ``file.py:function``, ``graph.json`` or ``graph.graphml``.
        shapes: one text for each argument of the function.

    Raises:
        typer.BadParameter: if there is no such file, or the shapes do not fit the function.
        AccumulusError: if there is no such function, it cannot be loaded or recorded, or the graph is malformed.
    """
    if Path(text).suffix.lower() in READABLE:
        _check_file(text)
        if shapes:
            raise typer.BadParameter("--shape is for functions; a graph file has all that is needed")
        graph, reading = _timed(lambda: load_graph(Path(text)))
        return Problem(graph.name, graph, None, {"read": reading})
    if ".py" not in (Path(text).suffix, Path(text.rpartition(":")[0]).suffix):
        forms = " or ".join(f"graph{end}" for end in READABLE)
        raise typer.BadParameter(f"{text!r} names neither a function (file.py:function) nor a graph ({forms})")
    f, sizes, path = load_function(text, shapes)

    import numpy as np

    from accumulus.api import trace

    with user_code(path):
        recording, tracing = _timed(lambda: trace(f, *(np.ones(shape)[()] for shape in sizes)))
    linearized, linearizing = _timed(recording.linearize)
    return Problem(text.rpartition(":")[2], linearized, recording, {"trace": tracing, "linearize": linearizing})


def load_function(text: str, shapes: Sequence[str]) -> tuple[Callable[..., Any], list[Shape], Path]:
    """The function that the command line names, the shapes of its arguments, and its file.

    Raises:
        typer.BadParameter: if the text names no function, or the shapes do not fit it.
        AccumulusError: if there is no such function, or it cannot be loaded.
    """
    path_text, _, name = (text, "", "") if text.endswith(".py") else text.rpartition(":")
    path = Path(path_text)
    if path.suffix != ".py":
        raise typer.BadParameter(f"{text!r} names no function; expected file.py:function")
    _check_file(path_text)
    if not name:
        names = ", ".join(_functions_in(path)) or "no functions"
        raise typer.BadParameter(f"name a function: {path_text}:function ({path.name} defines {names})")
    sizes = [parse_shape(shape) for shape in shapes]
    with user_code(path):
        module = _module(path)
    f = getattr(module, name, None)
    if not callable(f):
        known = _functions_in(path) or [key for key, value in vars(module).items() if callable(value)]
        raise unknown_name(f"function of {path.name}", name, known)
    _check_count(f, name, sizes)
    return f, sizes, path


def _check_file(text: str) -> None:
    if not Path(text).is_file():
        raise typer.BadParameter(f"there is no file {text!r}")


def parse_shape(text: str) -> Shape:
    """The shape that a text means.

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
    except (TypeError, ValueError):  # built-in functions do not always have one
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
    # a file called like a module that is already there must not replace it
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
    """Run code of the user: its prints go to the error stream, its exceptions become a `UserCodeError`."""
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
        kept = user_traceback(error.__traceback__)
        while kept is not None and kept.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
            kept = kept.tb_next
        text = "".join(traceback.format_exception(type(error), error, kept, chain=False)).rstrip()
        raise UserCodeError(f"{path} raised an exception of its own:\n{text}") from None


def _functions_in(path: Path) -> list[str]:
    """Names of the functions that a file defines, without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def _timed(run: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start
