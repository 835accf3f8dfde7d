"""Code that opens and makes containers of one structure: it takes a fraction of the time of walking through them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from accumulus.frontends.containers import Container, opened
from accumulus.frontends.leaves import numbers_in
from accumulus.frontends.trees import Branch, Constant, Leaf, Structure, paths, unflatten

__all__ = ["Reader", "maker", "reader"]

#: Arguments and keywords → the numbers in them, or None if they have another structure.
Reader = Callable[[Sequence[Any], dict[str, Any]], "tuple[Any, ...] | None"]
#: Structures of more leaves, and deeper ones, are walked through: the code would be too long.
MOST: Final = 200
DEEPEST: Final = 20


class _Source:
    """Lines of a function, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._objects: dict[str, Any] = {"__name__": __name__}
        self._count = 0

    def fresh(self) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"v{self._count}"

    def named(self, value: Any) -> str:
        """A name for an object."""
        name = self.fresh()
        self._objects[name] = value
        return name

    def function(self, head: str) -> Any:
        """The function of these lines."""
        exec(f"def made({head}):\n    " + "\n    ".join(self.lines), self._objects)
        return self._objects["made"]


def maker(structure: Structure, finish: Sequence[Callable[[Any], Any] | None] = ()) -> Callable[[Sequence[Any]], Any]:
    """What makes a tree of that structure of its leaves.

    Args:
        finish: what each leaf goes through first, if anything.

    >>> make = maker(Branch(opened({"a": 1.0, "b": 2.0})[0], (Leaf(), Leaf())), [None, str])
    >>> make([1.0, 2.0])
    {'a': 1.0, 'b': '2.0'}
    """
    count = sum(1 for _ in paths(structure))
    if count > MOST or _depth(structure) > DEEPEST:
        return lambda leaves: unflatten(structure, _finished(leaves, finish))
    source = _Source()
    names = [source.fresh() for _ in range(count)]
    converted = [
        f"{source.named(convert)}({name})" if convert is not None else name
        for name, convert in zip(names, finish or [None] * count, strict=True)
    ]
    source.lines += [f"[{', '.join(names)}] = leaves", f"return {_made(structure, iter(converted), source)}"]
    made: Callable[[Sequence[Any]], Any] = source.function("leaves")
    return made


def _finished(leaves: Sequence[Any], finish: Sequence[Callable[[Any], Any] | None]) -> Sequence[Any]:
    if not finish:
        return leaves
    return [leaf if convert is None else convert(leaf) for leaf, convert in zip(leaves, finish, strict=True)]


def _depth(structure: Structure) -> int:
    return 1 + max(map(_depth, structure.parts), default=0) if isinstance(structure, Branch) else 0


def _made(structure: Structure, leaves: Iterator[str], source: _Source) -> str:
    """The expression of a tree."""
    if isinstance(structure, Leaf):
        return next(leaves)
    if isinstance(structure, Constant):
        return source.named(structure.value)
    parts = [_made(part, leaves, source) for part in structure.parts]
    container, listed = structure.container, "".join(f"{part}, " for part in parts)
    if container.kind is list:
        return f"[{listed}]"
    if container.kind is tuple:
        return f"({listed})"
    if container.kind is dict:
        keys = container.build(range(len(parts)))
        return "{" + ", ".join(f"{source.named(key)}: {parts[k]}" for key, k in keys.items()) + "}"
    return f"{source.named(container.build)}(({listed}))"


def reader(structures: Sequence[Structure], route: Sequence[int | str]) -> Reader | None:
    """What takes the numbers out of arguments of these structures; None where that cannot be done by short code.

    Numbers are not looked at: what is in their place is returned, and may be anything.

    Args:
        structures: of each argument.
        route: by what position or keyword it is given.
    """
    if sum(1 for structure in structures for _ in paths(structure)) > MOST or max(map(_depth, structures)) > DEEPEST:
        return None
    source = _Source()
    by_position = [place for place in route if isinstance(place, int)]
    keywords = [place for place in route if isinstance(place, str)]
    places = {place: source.fresh() for place in route}
    refused = ": return None"
    source.lines += [
        "try:",
        f"    if len(arguments) != {len(by_position)} or len(keywords) != {len(keywords)}{refused}",
        f"    [{', '.join(places[k] for k in sorted(by_position))}] = arguments",
        *(f"    {places[name]} = keywords[{name!r}]" for name in keywords),
    ]
    leaves: list[str] = []
    for structure, place in zip(structures, route, strict=True):
        if not _read(structure, places[place], source, leaves):
            return None
    source.lines += [
        f"    return ({''.join(f'{leaf}, ' for leaf in leaves)})",
        "except (KeyError, AttributeError, ValueError, TypeError):",
        "    return None",
    ]
    made: Reader = source.function("arguments, keywords")
    return made


def _read(structure: Structure, value: str, source: _Source, leaves: list[str]) -> bool:
    """Lines that read the leaves of a structure from a variable; whether there are any."""
    refused = ": return None"
    if isinstance(structure, Leaf):
        if structure.written is None:
            leaves.append(value)
            return True
        made = source.fresh()
        source.lines += [
            f"    {made}, written = {source.named(_floats_in)}({value})",
            f"    if written is not {source.named(structure.written)}{refused}",
        ]
        leaves.append(made)
        return True
    if isinstance(structure, Constant):
        if isinstance(structure.value, np.ndarray):  # its entries may have changed
            return False
        source.lines.append(f"    if {value} is not {source.named(structure.value)}{refused}")
        return True
    container, parts = structure.container, [source.fresh() for _ in structure.parts]
    listed = f"[{', '.join(parts)}]"
    kind = source.named(container.kind)
    if container.kind is type(None):
        source.lines.append(f"    if {value} is not None{refused}")
    elif container.attributes:
        if len(parts) < container.attributes:
            return False
        source.lines.append(f"    if type({value}) is not {kind}{refused}")
        source.lines += [f"    {part} = {value}{label}" for part, label in zip(parts, container.labels, strict=True)]
        if _has_dict(container):
            source.lines.append(f"    if len({value}.__dict__) != {len(parts)}{refused}")
    elif container.kind in (dict, OrderedDict):
        keys = list(container.build(range(len(parts))))
        if any(type(key) is not str for key in keys):
            return False
        source.lines += [
            f"    if type({value}) is not {kind} or [*{value}] != {source.named(keys)}{refused}",
            f"    {listed} = {value}.values()",
        ]
    elif issubclass(container.kind, list | tuple) and container.rest is None:
        source.lines += [f"    if type({value}) is not {kind}{refused}", f"    {listed} = {value}"]
    else:
        found = source.fresh()
        source.lines += [
            f"    {found} = {source.named(opened)}({value})",
            f"    if {found} is None or {found}[0] != {source.named(container)}{refused}",
            f"    {listed} = {found}[1]",
        ]
    return all(_read(part, name, source, leaves) for part, name in zip(structure.parts, parts, strict=True))


def _floats_in(value: Any) -> tuple[Any, Any]:
    """As `numbers_in`, with floats, which compiled code takes."""
    number, written = numbers_in(value, "")
    return (number.astype(np.float64, copy=False), written) if type(number) is np.ndarray else (number, written)


def _has_dict(container: Container) -> bool:
    return bool(getattr(container.kind, "__dictoffset__", 0))
