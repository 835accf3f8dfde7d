"""Arguments and keywords of a call in the places of the function's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from accumulus.errors import ArgumentError

__all__ = ["placed", "positions_of"]

_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def placed(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    name: str,
    asked: Collection[int | str] = (),
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position, with the defaults of those that come before a given one, and those by keyword only.

    Args:
        function: that would be called.
        arguments, keywords: what it would be called with.
        name: of the function, for messages.
        asked: positions and names of arguments that are needed: those that are not given get their defaults, too.

    Raises:
        ArgumentError: if they do not fit the signature.

    >>> placed(lambda x, k=1.0, n=2: ..., [0.5], {"k": 3.0}, "f")
    ((0.5, 3.0), {})
    >>> placed(lambda x, k=1.0, n=2: ..., [0.5], {"n": 4}, "f")
    ((0.5, 1.0, 4), {})
    >>> placed(lambda x, *, k=1.0, n=2: ..., [0.5], {"n": 4}, "f", ["k"])
    ((0.5,), {'k': 1.0, 'n': 4})
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return tuple(arguments), dict(keywords)
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise ArgumentError(f"the arguments do not fit {name}{signature}: {error}") from None
    given = set(bound.arguments)
    bound.apply_defaults()
    values: list[Any] = []
    named: dict[str, Any] = {}
    last = 0
    for parameter in signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            values += value
            last = len(values) if value else last
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.name in given or parameter.name in asked:
                named[parameter.name] = value
        else:
            values.append(value)
            if parameter.name in given or parameter.name in asked or len(values) - 1 in asked:
                last = len(values)
    return tuple(values[:last]), named


def positions_of(function: Callable[..., Any], names: Sequence[str], option: str) -> list[int | str]:
    """The positions of parameters with these names; the names themselves of those by keyword only.

    Args:
        option: that the names were given for, for messages.

    Raises:
        ArgumentError: if there is none of that name.

    >>> positions_of(lambda x, k, *, damping: ..., ["damping", "k"], "argnames")
    ['damping', 1]
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return list(names)
    places = [each.name for each in parameters.values() if each.kind in _PLACES]
    by_keyword = [each.name for each in parameters.values() if each.kind is each.KEYWORD_ONLY]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    found: list[int | str] = []
    for name in names:
        if name in places:
            found.append(places.index(name))
        elif name in by_keyword or (takes_any and name not in parameters):
            found.append(name)
        else:
            known = ", ".join([*places, *by_keyword]) or "none"
            raise ArgumentError(f"{option} names {name!r}; the arguments of the function are {known}")
    return found
