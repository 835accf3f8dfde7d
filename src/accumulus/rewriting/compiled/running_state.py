"""What `accumulus.rewriting.compiled.running_kernel` works on."""

from __future__ import annotations

from typing import Annotated

from accumulus.native.state import Axes, Floats, Integers, State

__all__ = ["RunningState"]


class RunningState(State):
    """A tape at complex points, side by side: what belongs to a reference at a point is at reference · points + point.

    Constants stand behind the operations, the first one last: the reference -1 is the last place.

    Attributes:
        points: how many.
        places: of inputs, operations and constants together.
        rows: code and three arguments of each input and operation, (references, 4).
        begin, end: the operations of a call.
        real, imaginary: values, (places · points,).
        errors: bounds on their errors, in units of rounding.
        sizes: their magnitudes, NaN where there is no value.
        rounding: what a unit of an error comes to, with some slack.
    """

    points: int
    places: int
    rows: Annotated[Integers, Axes(4)]
    begin: int = 0
    end: int = 0
    real: Floats
    imaginary: Floats
    errors: Floats
    sizes: Floats
    rounding: float
