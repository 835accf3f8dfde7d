"""The derivative that a command is about: `--derivative` of a function in a file, and arguments of the given shapes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accumulus.cli.functions import load_function, user_code
from accumulus.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from accumulus.programs.derivative import Derivative

__all__ = ["OF_DIRECTIONS", "as_given", "known_kinds", "load_derivative", "parameters_of"]

#: Kinds whose arguments are directions or weights, too.
OF_DIRECTIONS: Final = ("jvp", "vjp", "hvp")
#: Kinds that are of all arguments.
_OF_ALL: Final = (*OF_DIRECTIONS, "compile")


def known_kinds() -> list[str]:
    """Names of the kinds whose results are arrays of derivatives, which are those of the functions that make them."""
    from accumulus.programs import kinds

    found = [row for row in vars(kinds).values() if isinstance(row, kinds.Kind)]
    return [row.name for row in found if not row.factored and row.seeds is not kinds.Seeds.SERIES]


def as_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as functions of `accumulus` take them: without those that were not given, and one argument alone.

    Raises:
        ArgumentError: for a text that names no entry.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("argnums", "argnames"):
        if len(given.get(name, ())) == 1:
            (given[name],) = given[name]
    if "entries" in given:
        pairs = [re.fullmatch(r"\s*(-?\d+)\s*,\s*(-?\d+)\s*", text) for text in given["entries"]]
        if None in pairs:
            raise ArgumentError(f"--entries {given['entries'][pairs.index(None)]!r}; expected ROW,COLUMN, such as 0,2")
        given["entries"] = tuple([int(pair[k]) for pair in pairs if pair] for k in (1, 2))
    return given


def load_derivative(
    text: str, shapes: Sequence[str], options: Mapping[str, Any], *, every: bool
) -> tuple[Derivative, list[Any], Path]:
    """The derivative that a command line names, arguments to record it with, and the file of its function.

    Args:
        text: ``file.py:function``.
        shapes: one text for each argument of the function.
        options: of the derivative, and its kind, by name; those that are None were not given.
        every: whether it is by all arguments where none are named; by the first, if not.

    Raises:
        ArgumentError, UnknownNameError: for a kind or an option that does not exist or does not fit.
    """
    import numpy as np

    import accumulus

    given, known = as_given(options), known_kinds()
    kind = given.pop("derivative")
    if kind not in known:
        raise unknown_name("derivative", kind, known)
    if wrong := [name for name in ("argnums", "argnames") if name in given and kind in _OF_ALL]:
        raise ArgumentError(f"--{wrong[0]} is given for {kind}, which is of all arguments; expected none")
    f, sizes, path = load_function(text, shapes)
    arguments = [np.ones(size)[()] for size in sizes]
    if every and kind not in _OF_ALL and not {"argnums", "argnames"} & given.keys():
        given["argnums"] = 0 if len(sizes) == 1 else tuple(range(len(sizes)))
    derivative = getattr(accumulus, kind)(f, **given)
    if kind == "vjp":
        with user_code(path):
            recording = accumulus.trace(f, *arguments).recording
        weights = recording.unflatten([np.ones(shape)[()] for shape in recording.result_shapes])
        return derivative, [tuple(arguments), weights], path
    return derivative, [tuple(arguments)] * 2 if kind in OF_DIRECTIONS else arguments, path


def parameters_of(derivative: Derivative, kind: str, numbers: int, arguments: int) -> list[str]:
    """Names of the numeric arguments of a derivative: those of its function, and of directions or weights.

    Args:
        numbers: how many there are.
        arguments: how many of the function are given.
    """
    own = list(inspect.signature(derivative.__wrapped__).parameters)
    names = [own[k] if k < len(own) else f"x{k}" for k in range(arguments)]
    more = numbers - arguments
    if kind == "vjp":
        return [*names, *(["weights"] if more == 1 else [f"weights_{k}" for k in range(more)])]
    return [*names, *(f"{name}_direction" for name in names[:more])]
