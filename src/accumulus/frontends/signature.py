"""Keyword arguments of a function in the places of its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accumulus.errors import ArgumentError

__all__ = ["positional"]


def positional(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], name: str
) -> tuple[Any, ...]:
    """All arguments in the order of the signature, with the defaults of those that come before a given one.

    Args:
        function: that would be called.
        arguments, keywords: what it would be called with.
        name: of the function, for messages.

    Raises:
        ArgumentError: if they do not fit the signature, or cannot be given by position.

    >>> positional(lambda x, k=1.0, n=2: ..., [0.5], {"k": 3.0}, "f")
    (0.5, 3.0)
    >>> positional(lambda x, k=1.0, n=2: ..., [0.5], {"n": 4}, "f")
    (0.5, 1.0, 4)
    """
    named = ", ".join(sorted(keywords))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} has no signature to find {named} in; give all arguments by position") from None
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise ArgumentError(f"the arguments do not fit {name}{signature}: {error}") from None
    given = set(bound.arguments)
    bound.apply_defaults()
    values: list[Any] = []
    last = 0
    for parameter in signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            values += value
            last = len(values) if value else last
        elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            if parameter.name in given:
                shown = next(iter(value)) if parameter.kind is parameter.VAR_KEYWORD else parameter.name
                raise ArgumentError(
                    f"{shown} is an argument of {name} by keyword only, and arguments to differentiate by are told by "
                    f"their position: write lambda x, {shown}: {name}(x, {shown}={shown})"
                )
        else:
            values.append(value)
            last = len(values) if parameter.name in given else last
    return tuple(values[:last])
