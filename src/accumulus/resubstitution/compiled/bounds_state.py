"""What `accumulus.resubstitution.compiled.bounds_kernel` works on."""

from __future__ import annotations

from typing import Annotated

from accumulus.native.state import Axes, Floats, Integers, State

__all__ = ["BOUNDED", "PLAIN", "BoundsState"]

#: Values alone, or with bounds on their errors.
PLAIN, BOUNDED = range(2)


class BoundsState(State):
    """A tape at real points, side by side: what belongs to a reference at a point is at reference · points + point.

    Constants stand behind the operations, the first one last: the reference -1 is the last place.

    Attributes:
        mode: whether there are bounds.
        points: how many.
        places: of inputs, operations and constants together.
        rows: code and three arguments of each input and operation, (references, 4).
        begin, end: the operations of a call.
        values: (places · points,).
        errors: bounds on their errors, in units of rounding; with BOUNDED only.
        largest, smallest: what is beyond the first is infinite; what is below the second has errors of its size.
    """

    mode: int = BOUNDED
    points: int
    places: int
    rows: Annotated[Integers, Axes(4)]
    begin: int = 0
    end: int = 0
    values: Floats
    errors: Floats
    largest: float
    smallest: float
