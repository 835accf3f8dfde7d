"""What users assume of arguments (the option `assume`): its place among the numbers of a call, and its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import Restructured, function_of, positions_of, signature_of
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.recorder import Recording
from accumulus.options import Assumptions

#: Where each assumption is violated. NaN never violates one: it is no number, and remains NaN in every program.
_VIOLATED: Final[dict[str, Callable[[Any], Any]]] = {
    "positive": lambda x: x <= 0,
    "nonnegative": lambda x: x < 0,
    "nonzero": lambda x: x == 0,
}


#: Assumptions by position of the argument, or by name if it is keyword-only; each with the user's key.
Places = dict[int | str, tuple[int | str, str]]


def places_of(assume: Assumptions, function: Any) -> Places:
    """Return what is assumed of the arguments of a function.

    Raises:
        ArgumentError: if the function has no argument of a name, or one is named twice.
    """
    names = [argument for argument, _ in assume if isinstance(argument, str)]
    if names and signature_of(function_of(function)) is None:
        raise ArgumentError(f"assume names {names[0]!r}, and the function has no signature; expected positions")
    by_name = iter(positions_of(function_of(function), names, "assume"))
    places: Places = {}
    for argument, assumption in assume:
        place = next(by_name) if isinstance(argument, str) else argument
        if place in places:
            raise ArgumentError(f"assume is {dict(assume)!r}; expected each argument once, by name or by position")
        places[place] = argument, assumption
    return places


def checked_assumptions(assume: Assumptions, function: Any, numbers: Sequence[Any], name: str) -> dict[int, str]:
    """Return what is assumed of the numbers of a call, by position, after checking them.

    Args:
        assume: the assumptions.
        function: function of these numbers.
        numbers: numbers, arrays and constants, at one point or at all points of a batch.
        name: name of the function, for messages.

    Raises:
        ArgumentError: if an entry violates an assumption, or one is about an argument that the call does not have.
    """
    found: dict[int, str] = {}
    call = function if isinstance(function, Restructured) else None
    count = len(numbers if call is None else call.positional)
    for place, (argument, assumption) in places_of(assume, function).items():
        if call is not None and (place in call.keywords or place in range(count)):
            among: Sequence[int] = call.place_of(place)[1]
        else:
            among = [place] if call is None and isinstance(place, int) and place < count else []
        if not among and isinstance(argument, int) and argument >= count:
            raise ArgumentError(f"assume has argument {argument}; {name} was called with {count} arguments by position")
        for k in among:
            if shape_of(numbers[k], str(argument)) is not None:
                found[k] = assumption
                _check(assumption, np.asarray(numbers[k]), argument, name)
    return found


def _check(assumption: str, entries: NDArray[Any], argument: int | str, name: str) -> None:
    wrong = entries[_VIOLATED[assumption](entries)]
    if wrong.size:
        raise ArgumentError(
            f"argument {argument} of {name} has the entry {wrong.flat[0]}, and assume says that all are {assumption}; "
            "pass such numbers in all calls, or leave the argument out of assume"
        )


def assumed_of_inputs(assumptions: Mapping[int, str], recording: Recording) -> tuple[str, ...]:
    """Return what is assumed of each input of a recording, or "" for nothing; empty if nothing is assumed."""
    if not assumptions:
        return ()
    assumed = [""] * recording.program.inputs
    for k, assumption in assumptions.items():
        span = recording.argument_slices[k]
        assumed[span] = [assumption] * (span.stop - span.start)
    return tuple(assumed)
