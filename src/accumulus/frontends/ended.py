"""Tapes of recordings that have ended: traced values that were kept from these are refused wherever they are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from accumulus.frontends.active import ACTIVE, refuse

T = TypeVar("T")
#: Tapes within one that are remembered, at most.
MOST_INNER: Final = 1000
ENDED: Final = (
    "A traced value is used here whose recording has ended: it was kept (in a global, an attribute, a list, a closure) "
    "when the function was recorded. Let the function return it, or compute it anew from the arguments."
)


def _refused(tape: Any, name: str) -> Any:
    """Return what is left of a tape: the names of its values."""
    if name == "name":
        return lambda reference: f"t{reference}"
    raise refuse(ENDED)


@cache
def _ended(kind: Any) -> Any:
    """Return the class of a tape of a kind that has ended."""
    return type("EndedTape", (kind,), {"__slots__": (), "__getattribute__": _refused})


def ending(record: Callable[..., T]) -> Callable[..., T]:
    """Return a function that records on a tape, its first argument, which ends afterwards, and those within it too."""

    def recorded(tape: Any, **keywords: Any) -> T:
        around, ACTIVE.inner = ACTIVE.inner, deque(maxlen=MOST_INNER)
        try:
            return record(tape, **keywords)
        finally:
            for each in (tape, *ACTIVE.inner):
                kind: Any = type(each)
                each.__class__ = _ended(kind)
            ACTIVE.inner = around

    return recorded
