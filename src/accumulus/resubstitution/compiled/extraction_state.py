"""What `accumulus.resubstitution.compiled.extraction_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.state import Axes, Floats, Integers, State

__all__ = ["DEEPEST", "THRESHOLD_COUNT", "ExtractionState"]

THRESHOLD_COUNT: Final = 1024
#: Dead values that a move brings to life, at most.
DEEPEST: Final = 4


class ExtractionState(State):
    """Values, from 1 on, each with the definitions that it may have and the one that it has.

    A value without a definition is given: an input or a number. What the roots are computed from is *live*, and
    costs what its definition costs.

    Attributes:
        firsts: of the definitions of each value; those of value n end where those of n + 1 begin, (values + 1,).
        arguments: values that each definition takes; 0 where it takes fewer.
        prices: of the definitions.
        chosen: the definition of each value, that of a value without one being 0.
        uses: how often each value is used by live ones, or as a root.
        live: the live values with definitions.
        places: of each of these in that list.
        live_count: how many.
        marks: of the search from value to value, and the `mark` of the last search.
        stack: room for it.
        work: values that come to life or die, four for each value.
        revived: values that get another definition as they come to life, and `before`, the one that they had.
        thresholds: -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,).
        random: state of the generator, (1,).
        visits: moves to try in a call.
        temperature, cooling: and its factor for each visit.
        cost: of all live values.
        best: the least so far, with its definitions in `best_chosen`.
        count: of values, 0 included.
    """

    firsts: Integers
    arguments: Annotated[Integers, Axes(3)]
    prices: Integers
    chosen: Integers
    uses: Integers
    live: Integers
    places: Integers
    live_count: int = 0
    marks: Integers
    mark: int = 0
    stack: Integers
    work: Integers
    revived: Integers
    before: Integers
    thresholds: Floats
    random: Integers
    visits: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
    cost: int = 0
    best: int = 0
    best_chosen: Integers
    count: int
