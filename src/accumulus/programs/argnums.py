"""Positions of arguments as users give them, checked."""

from __future__ import annotations

from collections.abc import Sequence

from accumulus.errors import ArgumentError

__all__ = ["checked_argnums", "static_positions"]


def checked_argnums(
    argnums: int | Sequence[int], shapes: Sequence[tuple[int, ...] | None], name: str
) -> tuple[int, ...]:
    """Positions of the arguments to differentiate by, counted from the first.

    Args:
        argnums: as users give them.
        shapes: of all arguments; None for those that are no numbers.
        name: of the function, for messages.

    Raises:
        ArgumentError: if there is no such argument, it is not numeric, or is named twice.
    """
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    checked = []
    for position in positions:
        if not isinstance(position, int) or not -len(shapes) <= position < len(shapes):
            raise ArgumentError(f"argnums is {argnums!r}; {name} was called with {len(shapes)} arguments")
        if shapes[position] is None:
            raise ArgumentError(
                f"argument {position} of {name} is not numeric; expected one that can be differentiated by"
            )
        checked.append(position % len(shapes))
    if len(set(checked)) < len(checked):
        raise ArgumentError(f"argnums is {argnums!r}; expected each argument once")
    return tuple(checked)


def static_positions(static: int | Sequence[int], count: int) -> frozenset[int]:
    """Positions of the arguments that are passed on as they are, counted from the first, among so many arguments.

    Raises:
        ArgumentError: if there is no such argument.
    """
    given = (static,) if isinstance(static, int) else tuple(static)
    if any(not isinstance(k, int) or not -count <= k < count for k in given):
        raise ArgumentError(f"static_argnums is {static!r}; {count} arguments were given")
    return frozenset(k % count for k in given)
