"""Functions in files of the user's, and the shapes of their arguments.

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
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from accumulus.errors import AccumulusError, unknown_name

__all__ = ["UserCodeError", "check_file", "load_function", "parse_shape", "user_code"]

Shape = tuple[int, ...]
#: How an argument without axes may be written.
SCALAR = ("", "scalar", "()")


class UserCodeError(AccumulusError):
    """The user's own code raised; the message is its traceback, reduced to that code."""


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
    check_file(path_text)
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


def check_file(text: str) -> None:
    """Refuse a path without a file."""
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
