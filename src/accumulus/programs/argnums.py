"""Which arguments to differentiate by, and which are passed on as they are, as users say it, checked."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import Restructured, constant_key
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered
from accumulus.frontends.trees import Branch, Leaf, Structure, grafted, together
from accumulus.programs.chosen import Places

__all__ = ["Selection", "arranged", "checked_argnums", "key_of", "static_positions"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to differentiate by, and how the derivatives of a result are arranged.

    Attributes:
        positions: of numbers and arrays among the arguments.
        structure: with a leaf for each of them.
        seeds: positions of the arguments that are directions, one for each of these, or weights of the results.
        several: how many directions or weights there are, along the first axis of each; None for one, without an axis.
        places: what of the matrix of derivatives is wanted, and returned in the place of all; None for all.
    """

    positions: tuple[int, ...]
    structure: Structure
    seeds: tuple[int, ...] = ()
    several: int | None = None
    places: Places | None = None

    @property
    def seed_count(self) -> int:
        """How many directions or weights there are."""
        return 1 if self.several is None else self.several

    @property
    def whole(self) -> Selection:
        """The same with all derivatives."""
        return replace(self, places=None)

    @classmethod
    def of(cls, positions: int | Sequence[int]) -> Selection:
        """One argument, whose derivative stands alone, or several, whose derivatives are a tuple."""
        if isinstance(positions, int):
            return cls((positions,), Leaf())
        return cls(tuple(positions), together([Leaf()] * len(positions)))


def checked_argnums(
    argnums: int | Sequence[int] | Selection, shapes: Sequence[tuple[int, ...] | None], name: str
) -> Selection:
    """The arguments to differentiate by, counted from the first.

    Args:
        argnums: as users give them; a selection is checked.
        shapes: of all arguments; None for those that are no numbers.
        name: of the function, for messages.

    Raises:
        ArgumentError: if there is no such argument, it is not numeric, or is named twice.
    """
    if isinstance(argnums, Selection):
        return argnums
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
    return Selection.of(checked[0] if isinstance(argnums, int) else checked)


def arranged(call: Restructured, asked: int | str | Sequence[int | str], name: str) -> Selection:
    """The numbers in some arguments of a call, whose derivatives are arranged as these are.

    Args:
        asked: positions of arguments, or their names by keyword; one alone, or several.
        name: of the function, for messages.

    Raises:
        ArgumentError: if there is no such argument, there are no numbers in it, or it is named twice.
    """
    alone = isinstance(asked, int | str)
    places: list[int | str] = []
    for place in (asked,) if isinstance(asked, int | str) else asked:
        count = len(call.positional)
        if isinstance(place, int) and not -count <= place < count:
            raise ArgumentError(f"argnums is {asked!r}; {name} was called with {count} arguments by position")
        if isinstance(place, str) and place not in call.keywords:
            raise ArgumentError(f"argnames is {asked!r}; {place} was not given, and has no default")
        places.append(place % count if isinstance(place, int) else place)
    if len(set(places)) < len(places):
        raise ArgumentError(f"argnums and argnames are {asked!r}; expected each argument once")
    structures: list[Structure] = []
    positions: list[int] = []
    for place in places:
        structure, numbers = call.place_of(place)
        if not numbers:
            what = f"argument {place}" if isinstance(place, int) else place
            raise ArgumentError(f"{what} of {name} holds no numbers; expected what can be differentiated by")
        _check_independent(structure)
        structures.append(grafted(structure, Leaf()))
        positions += numbers
    return Selection(tuple(positions), structures[0] if alone else together(structures))


def _check_independent(structure: Structure) -> None:
    """Refuse derivatives by an object of which attributes may depend on others."""
    if not isinstance(structure, Branch):
        return
    if structure.container.derived:
        kind, name = structure.container.kind.__name__, structure.container.derived[0]
        raise ArgumentError(
            f"{kind}.{name} is no argument of its constructor, which may compute it from the others, so that "
            f"derivatives by these would miss it. Make {name} a property, or tell how to make a {kind} of its parts: "
            f"accumulus.register({kind}, …)"
        )
    for part in structure.parts:
        _check_independent(part)


def key_of(examples: Sequence[Any], static: frozenset[int], name: str) -> tuple[Hashable, ...]:
    """What programs are for: shapes of numeric arguments, values of others, and of those that are static."""
    key = []
    for k, example in enumerate(examples):
        shape = None if k in static else shape_of(example, numbered(name, k))
        key.append(constant_key(example, numbered(name, k)) if shape is None else shape)
    return tuple(key)


def static_positions(static: int | Sequence[int], count: int) -> frozenset[int]:
    """Positions of the arguments that are passed on as they are, counted from the first, among so many arguments.

    Raises:
        ArgumentError: if there is no such argument.
    """
    given = (static,) if isinstance(static, int) else tuple(static)
    if any(not isinstance(k, int) or not -count <= k < count for k in given):
        raise ArgumentError(f"static_argnums is {static!r}; {count} arguments were given")
    return frozenset(k % count for k in given)
