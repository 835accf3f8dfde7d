"""The structure of a result: scalars and arrays in nested lists, tuples, named tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from accumulus.errors import ArgumentError

__all__ = ["Branch", "Leaf", "Structure", "flatten", "unflatten"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or an array."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A container: the keys of a dict, None for the others."""

    kind: type
    parts: tuple[Structure, ...]
    keys: tuple[Any, ...] | None = None


Structure = Leaf | Branch


def flatten(tree: Any) -> tuple[Structure, list[tuple[str, Any]]]:
    """The structure of `tree`, and its leaves in order, each with how to get there: ``[0]['a']``.

    >>> flatten({"a": 1.0, "b": [2.0, 3.0]})[1]
    [("['a']", 1.0), ("['b'][0]", 2.0), ("['b'][1]", 3.0)]
    """
    leaves: list[tuple[str, Any]] = []
    return _structure(tree, "", leaves), leaves


def _structure(tree: Any, path: str, leaves: list[tuple[str, Any]]) -> Structure:
    if isinstance(tree, dict):
        parts = tuple(_structure(item, f"{path}[{key!r}]", leaves) for key, item in tree.items())
        return Branch(dict, parts, tuple(tree))
    if isinstance(tree, list | tuple):
        kind = type(tree) if hasattr(tree, "_fields") else list if isinstance(tree, list) else tuple
        return Branch(kind, tuple(_structure(item, f"{path}[{k}]", leaves) for k, item in enumerate(tree)))
    leaves.append((path, tree))
    return Leaf()


def unflatten(structure: Structure, leaves: Sequence[T]) -> Any:
    """The tree of that structure with these leaves.

    Raises:
        ArgumentError: if their number is wrong.

    >>> structure, _ = flatten((1.0, {"a": 2.0}))
    >>> unflatten(structure, ["x", "y"])
    ('x', {'a': 'y'})
    """
    count = _count(structure)
    if len(leaves) != count:
        raise ArgumentError(f"the structure has {count} leaves, {len(leaves)} were given")
    return _tree(structure, iter(leaves))


def _count(structure: Structure) -> int:
    return 1 if isinstance(structure, Leaf) else sum(map(_count, structure.parts))


def _tree(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    parts = [_tree(part, leaves) for part in structure.parts]
    if structure.keys is not None:
        return dict(zip(structure.keys, parts, strict=True))
    return structure.kind(*parts) if hasattr(structure.kind, "_fields") else structure.kind(parts)
