"""The structure of arguments and results: scalars and arrays in nested containers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from accumulus.errors import ArgumentError
from accumulus.frontends.containers import Container, identity, opened
from accumulus.frontends.kinds import as_leaf, as_nested_lists

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or an array.

    Attributes:
        written: makes of an array what the user has written in its place, a list of numbers; None where it is itself.
    """

    written: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """Value that is no number, and stays as it is; two are the same if their keys are equal."""

    key: Hashable
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """A container, and the structure of each of its parts."""

    container: Container
    parts: tuple[Structure, ...]


Structure = Leaf | Constant | Branch


def flatten(tree: Any) -> tuple[Structure, list[tuple[str, Any]]]:
    """The structure of a result, and its leaves in order, each with how to get there: ``[0]['a']``.

    Raises:
        ArgumentError: for a container that holds itself.

    >>> flatten({"a": 1.0, "b": [2.0, 3.0]})[1]
    [("['a']", 1.0), ("['b'][0]", 2.0), ("['b'][1]", 3.0)]
    """
    if tree is None:  # a missing return statement, not an empty container
        return Leaf(), [("", None)]
    leaves: list[tuple[str, Any]] = []
    return _structure(tree, "", leaves, []), leaves


def _structure(tree: Any, path: str, leaves: list[tuple[str, Any]], above: list[int]) -> Structure:
    found = opened(tree)
    if found is None and path and isinstance(tree, str | bytes | Enum):
        return Constant(identity(tree), tree)
    if found is None:
        leaves.append((path, as_leaf(tree)))
        return Leaf()
    container, held = found
    entered(tree, path, above)
    parts = [
        Constant(container.kind, part) if fixed else _structure(part, path + label, leaves, above)
        for part, label, fixed in zip(held, container.labels, container.fixed, strict=True)
    ]
    above.pop()
    return Branch(container, tuple(parts))


def entered(tree: Any, path: str, above: list[int]) -> None:
    """Note that a container is being walked through.

    Raises:
        ArgumentError: if it already is: it holds itself.
    """
    if id(tree) in above:
        raise ArgumentError(f"{path or 'a container'} is the {type(tree).__name__} that holds it; expected a tree")
    above.append(id(tree))


def unflatten(structure: Structure, leaves: Sequence[T]) -> Any:
    """The tree of that structure with these leaves.

    Raises:
        ArgumentError: if their number is wrong.

    >>> structure, _ = flatten((1.0, {"a": 2.0}))
    >>> unflatten(structure, ["x", "y"])
    ('x', {'a': 'y'})
    """
    count = sum(1 for _ in paths(structure))
    if len(leaves) != count:
        raise ArgumentError(f"the structure has {count} leaves, {len(leaves)} were given")
    return _tree(structure, iter(leaves))


def paths(structure: Structure, path: str = "") -> Iterator[str]:
    """Return how to get to each leaf."""
    if isinstance(structure, Leaf):
        yield path
    elif isinstance(structure, Branch):
        for label, part in zip(structure.container.labels, structure.parts, strict=True):
            yield from paths(part, path + label)


def without_lists(structure: Structure) -> Structure:
    """The structure with an array in the place of each list of numbers."""
    if isinstance(structure, Branch):
        return Branch(structure.container, tuple(map(without_lists, structure.parts)))
    return Leaf() if isinstance(structure, Leaf) and structure.written is as_nested_lists else structure


def grafted(structure: Structure, other: Structure) -> Structure:
    """The structure with another one in the place of each leaf."""
    if isinstance(structure, Branch):
        return Branch(structure.container, tuple([grafted(part, other) for part in structure.parts]))
    return other if isinstance(structure, Leaf) else structure


def together(structures: Sequence[Structure]) -> Structure:
    """The structure of a tuple of trees."""
    container, _ = opened(tuple(structures)) or (None, ())
    assert container is not None
    return Branch(container, tuple(structures))


def _tree(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    if isinstance(structure, Constant):
        return structure.value
    return structure.container.build([_tree(part, leaves) for part in structure.parts])
