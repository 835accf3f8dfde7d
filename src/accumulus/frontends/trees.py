"""Structure of arguments and results: scalars and arrays in nested containers."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from types import FunctionType
from typing import Any, Final, TypeVar

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.kinds import as_leaf, as_nested_lists

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or an array.

    Attributes:
        written: function that converts an array to the form of the user's object, such as a list; None to keep the
            array.
    """

    written: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant that is not a number; two are the same if their keys are equal."""

    key: Hashable
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """A container, and the structure of each of its parts."""

    container: Container
    parts: tuple[Structure, ...]


Structure = Leaf | Constant | Branch


def flatten(tree: Any) -> tuple[Structure, list[tuple[str, Any]]]:
    """Return the structure of a result, and its leaves in order, each with its path such as ``[0]['a']``.

    Raises:
        ArgumentError: for a container that contains itself.

    >>> flatten({"a": 1.0, "b": [2.0, 3.0]})[1]
    [("['a']", 1.0), ("['b'][0]", 2.0), ("['b'][1]", 3.0)]
    """
    if tree is None:  # a missing return statement, not an empty container
        return Leaf(), [("", None)]
    leaves: list[tuple[str, Any]] = []
    return _structure(tree, "", leaves, []), leaves


def _structure(tree: Any, path: str, leaves: list[tuple[str, Any]], above: list[int]) -> Structure:
    contents = opened(tree)
    if contents is None and path and isinstance(tree, str | bytes | Enum):
        return Constant(identity(tree), tree)
    if contents is None:
        leaves.append((path, as_leaf(tree)))
        return Leaf()
    container, held = contents
    entered(tree, path, above)
    parts = [
        Constant(container.kind, item) if fixed else _structure(item, path + label, leaves, above)
        for item, label, fixed in zip(held, container.labels, container.fixed, strict=True)
    ]
    above.pop()
    return Branch(container, tuple(parts))


def entered(tree: Any, path: str, above: list[int]) -> None:
    """Push a container on the stack of those being traversed.

    Raises:
        ArgumentError: if it is on the stack already, so that it contains itself.
    """
    if id(tree) in above:
        raise ArgumentError(f"{path or 'a container'} is a {type(tree).__name__} that contains itself; expected a tree")
    above.append(id(tree))


def unflatten(structure: Structure, leaves: Sequence[T]) -> Any:
    """Return a tree of this structure with these leaves.

    Raises:
        ArgumentError: if the number of leaves is wrong.

    >>> structure, _ = flatten((1.0, {"a": 2.0}))
    >>> unflatten(structure, ["x", "y"])
    ('x', {'a': 'y'})
    """
    count = sum(1 for _ in leaf_paths(structure))
    if len(leaves) != count:
        raise ArgumentError(f"the structure has {count} leaves; expected as many values, not {len(leaves)}")
    return _tree(structure, iter(leaves))


def leaf_paths(structure: Structure, path: str = "") -> Iterator[str]:
    """Yield the path of each leaf."""
    if isinstance(structure, Leaf):
        yield path
    elif isinstance(structure, Branch):
        for label, child in zip(structure.container.labels, structure.parts, strict=True):
            yield from leaf_paths(child, path + label)


def changed(structure: Structure, change: Callable[[Leaf | Constant], Structure]) -> Structure:
    """Return the structure with the result of `change` in place of each leaf and each constant."""
    if isinstance(structure, Branch):
        return Branch(structure.container, tuple([changed(part, change) for part in structure.parts]))
    return change(structure)


def without_lists(structure: Structure) -> Structure:
    """Return the structure with an array instead of each list of numbers."""
    return changed(structure, lambda end: Leaf() if end == Leaf(as_nested_lists) else end)


def grafted(structure: Structure, other: Structure) -> Structure:
    """Return the structure with another structure instead of each leaf."""
    return changed(structure, lambda end: other if isinstance(end, Leaf) else end)


def together(structures: Sequence[Structure]) -> Structure:
    """Return the structure of a tuple of trees."""
    container, _ = opened(tuple(structures)) or (None, ())
    assert container is not None
    return Branch(container, tuple(structures))


def _tree(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    if isinstance(structure, Constant):
        return structure.value
    return structure.container.build([_tree(child, leaves) for child in structure.parts])


# Containers of users and other libraries -----------------------------------------------------------------------------
#
# Opening of containers, and construction of containers of the same kind from other parts.
#
# Containers are lists, tuples, named tuples, dicts, None (which holds nothing), data classes, attrs classes, and
# classes registered here, or with JAX or optree if these are loaded. Everything else is a leaf.
#
# Objects are copied attribute by attribute, without running ``__init__``: it may check or convert numbers, and would do
# so for traced values and for derivatives, too.

# Keys of constants ----------------------------------------------------------------------------------------------------


def identity(value: Hashable) -> Hashable:
    """Return a key that is equal for values with which every function computes the same.

    Python considers 0.0 and -0.0 equal, as well as 1, 1.0 and True, while NaN differs from itself. These keys
    distinguish the former and identify NaN with itself: alone, and inside of tuples, frozen sets and data classes that
    compare by their fields. Other objects have equal keys if they are equal.

    >>> identity((0.0, 1)) == identity((-0.0, 1)), identity((0.0, 1)) == identity((0.0, True))
    (False, False)
    """
    if isinstance(value, float | np.floating):
        return (type(value), np.float64(value).tobytes() if isinstance(value, float) else value.tobytes())
    if isinstance(value, complex | np.complexfloating):
        return (type(value), np.asarray(value).tobytes())
    if isinstance(value, Decimal):  # with its trailing zeros
        return (type(value), str(value))
    if isinstance(value, tuple):
        return (type(value), *map(identity, value))
    if isinstance(value, frozenset):
        return (type(value), frozenset(map(identity, value)))
    if is_dataclass(value) and not isinstance(value, type) and type(value).__dataclass_params__.eq:
        compared = [getattr(value, field.name) for field in fields(value) if field.compare]
        return (type(value), *map(identity, compared))
    return (type(value), value)


#: A container without its parts, and the parts.
Opened = tuple["Container", Sequence[Any]]
#: Types that are not containers, looked up first because most values have one of these.
_CLOSED: Final = frozenset(
    {float, int, bool, str, bytes, complex, np.ndarray, np.float64, np.int64, np.bool_, np.memmap, type, range, slice}
)


@dataclass(frozen=True, slots=True)
class Container:
    """A container without its contents."""

    kind: type  # its type
    labels: tuple[str, ...]  # how code accesses each part: ``[0]``, ``['a']``, ``.k``
    rest: Hashable  # distinguishes it from other containers of its type with as many parts
    build: Callable[[Sequence[Any]], Any] = field(compare=False)  # makes a container of these parts
    static: tuple[bool, ...] = ()  # True for parts that are constants; empty if none is
    attributes: int = 0  # number of declared fields, if the parts are attributes
    derived: tuple[str, ...] = ()  # attributes that the constructor may compute from others

    @property
    def fixed(self) -> Sequence[bool]:
        """True for each part that is a constant."""
        return self.static or (False,) * len(self.labels)


#: Type → function that opens an object of this type.
_REGISTERED: Final[dict[type, Callable[[Any], Opened]]] = {}


def register(
    kind: type[T],
    flatten: Callable[[T], tuple[Iterable[Any], Hashable]],
    unflatten: Callable[[Hashable, Sequence[Any]], T],
) -> None:
    """Register a class as a container: derivatives are taken with respect to its parts, and functions may return it.

    Only classes that are neither data classes nor attrs classes need it. Classes registered with ``jax.tree_util``, or
    with ``optree`` in the namespace "accumulus", are known.

    Args:
        kind: class to register; subclasses are not included.
        flatten: function of an object that returns its parts, which may be containers, and the remaining data.
        unflatten: function of the remaining data and new parts that returns an object. The parts may be numbers, traced
            values, or derivatives.

    Raises:
        ArgumentError: if `kind` is not a class.

    >>> import accumulus as acc
    >>> class Spring:
    ...     def __init__(self, stiffness, name):
    ...         self.stiffness, self.name = stiffness, name
    >>> acc.register(Spring, lambda s: ([s.stiffness], s.name), lambda name, parts: Spring(parts[0], name))
    >>> slope = acc.gradient(lambda spring, x: spring.stiffness * x**2)(Spring(2.0, "left"), 3.0)
    >>> slope.name, float(slope.stiffness)
    ('left', 9.0)
    """
    if not isinstance(kind, type):
        raise ArgumentError(f"register takes a class, and {kind!r:.100} is not one")
    _REGISTERED[kind] = partial(_opened_by, kind, flatten, unflatten)


def opened(value: Any) -> Opened | None:
    """Return a container without its parts, and the parts; None for other values.

    >>> container, parts = opened({"a": 1.0, "b": 2.0})
    >>> container.labels, list(parts), container.build(["x", "y"])
    (("['a']", "['b']"), [1.0, 2.0], {'a': 'x', 'b': 'y'})
    """
    kind = type(value)
    if kind in _CLOSED:
        return None
    if value is None:
        return _NOTHING, ()
    if (opener := _REGISTERED.get(kind)) is not None:
        return opener(value)
    if isinstance(value, list | tuple):
        return _sequence(value)
    if (registered := _elsewhere(value)) is not None:
        return registered
    if isinstance(value, dict):
        return _mapping(value)
    if str(kind.__module__).partition(".")[0] != "accumulus" and not isinstance(value, type):
        if is_dataclass(value):
            return _object(value, fields(value), "__post_init__")
        if hasattr(kind, "__attrs_attrs__"):
            return _object(value, kind.__attrs_attrs__, "__attrs_post_init__")
    return None


def _nothing(_: Sequence[Any]) -> None:
    return None


_NOTHING: Final = Container(type(None), (), None, _nothing)


def _sequence(value: Sequence[Any]) -> Opened:
    kind = type(value)
    named = getattr(kind, "_fields", None) if isinstance(value, tuple) else None
    names = isinstance(named, tuple) and len(named) == len(value)
    labels = [f".{name}" for name in named] if names and named else [f"[{k}]" for k in range(len(value))]
    if kind is list or kind is tuple:
        return Container(kind, tuple(labels), None, kind), value
    build = partial(_tuple_of, kind) if isinstance(value, tuple) else partial(_list_of, kind)
    return Container(kind, tuple(labels), None, build), value


def _tuple_of(kind: type, parts: Sequence[Any]) -> Any:
    return tuple.__new__(kind, parts)


def _list_of(kind: Any, parts: Sequence[Any]) -> Any:
    made = kind.__new__(kind)
    list.__init__(made, parts)
    return made


def _mapping(value: dict[Any, Any]) -> Opened | None:
    kind, keys = type(value), tuple(value)
    rest: Hashable = tuple(map(identity, keys))
    build: Callable[[Sequence[Any]], Any]
    if kind is dict:
        build = partial(_dict_of, keys)
    elif isinstance(value, defaultdict):
        rest = (rest, value.default_factory)
        build = partial(_default_dict_of, kind, value.default_factory, keys)
    elif getattr(value, "__dict__", None):
        return None  # a dict with attributes besides its items is a leaf
    else:
        build = partial(_other_dict_of, kind, OrderedDict if isinstance(value, OrderedDict) else dict, keys)
    return Container(kind, tuple([f"[{key!r}]" for key in keys]), rest, build), tuple(value.values())


def _dict_of(keys: Sequence[Any], parts: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(keys, parts, strict=True))


def _default_dict_of(kind: Any, default: Any, keys: Sequence[Any], parts: Sequence[Any]) -> Any:
    return kind(default, zip(keys, parts, strict=True))


def _other_dict_of(kind: Any, base: type[dict[Any, Any]], keys: Sequence[Any], parts: Sequence[Any]) -> Any:
    made = kind.__new__(kind)
    base.__init__(made, zip(keys, parts, strict=True))
    return made


def _object(value: Any, declared: Iterable[Any], after: str) -> Opened:
    """Open an object with declared fields: its parts are the fields and the other attributes that it has."""
    kind = type(value)
    static = {each.name: bool((each.metadata or {}).get("static")) for each in declared}
    names = [name for name in static if hasattr(value, name)]
    if isinstance(held := getattr(value, "__dict__", None), dict):
        names += [name for name in held if name not in static and not _is_cached(kind, name)]
    parts = [getattr(value, name) for name in names]
    made = _constructed(kind, declared, after)
    derived = (
        ()
        if made is None
        else [
            name for name, attribute in zip(names, parts, strict=True) if name not in made and not _is_plain(attribute)
        ]
    )
    constant = tuple([static.get(name, False) for name in names])
    labels = tuple([f".{name}" for name in names])
    build = partial(_object_of, kind, tuple(names))
    return Container(kind, labels, tuple(names), build, constant, len(static), tuple(derived)), parts


def _constructed(kind: Any, declared: Iterable[Any], after: str) -> frozenset[str] | None:
    """Return the names of a constructor's arguments if it may compute other attributes from them; else None."""
    code = getattr(kind.__init__, "__code__", None)
    has_own_init = code is not None and not code.co_filename.startswith(("<string>", "<attrs generated"))
    takes_self = any(getattr(getattr(each, "default", None), "takes_self", False) for each in declared)
    if not (has_own_init or takes_self or hasattr(kind, after)):
        return None
    try:
        parameters = inspect.signature(kind.__init__).parameters
    except (TypeError, ValueError):
        return frozenset()
    return frozenset([*parameters, *(f"_{name}" for name in parameters)])  # attrs drops leading underscores


def _is_cached(kind: type, name: str) -> bool:
    """Return True if an attribute is the cached value of a property, which can be recomputed."""
    return isinstance(getattr(kind, name, None), cached_property)


def _is_plain(value: Any) -> bool:
    """Return True if a value cannot have been computed from numbers."""
    return value is None or isinstance(value, str | bytes | bool | type | FunctionType | Enum)


def _object_of(kind: type, names: Sequence[str], parts: Sequence[Any]) -> Any:
    made: Any = object.__new__(kind)
    for name, value in zip(names, parts, strict=True):
        object.__setattr__(made, name, value)  # works for frozen classes, too
    return made


def _opened_by(kind: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any], value: Any) -> Opened:
    parts, rest = flatten(value)
    parts = tuple(parts)
    labels = tuple([f"[{k}]" for k in range(len(parts))])
    return Container(kind, labels, identity(rest), partial(_unflattened, unflatten, rest)), parts


def _unflattened(unflatten: Callable[[Any, Any], Any], rest: Any, parts: Sequence[Any]) -> Any:
    return unflatten(rest, tuple(parts))


def _elsewhere(value: Any) -> Opened | None:
    """Open a container that is registered with JAX or optree; None if it is not, or neither is loaded."""
    if type(value) in (dict, OrderedDict, defaultdict):
        return None
    jax = sys.modules.get("jax.tree_util")
    if jax is not None and hasattr(jax, "all_leaves") and not jax.all_leaves([value]):
        pairs, definition = jax.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
        labels = tuple([jax.keystr(path) for path, _ in pairs])
        return Container(type(value), labels, definition, _JaxBuild(definition)), tuple([child for _, child in pairs])
    optree = sys.modules.get("optree")
    if optree is not None and hasattr(optree, "tree_is_leaf") and not optree.tree_is_leaf(value, namespace="accumulus"):
        parts, rest, entries, unflatten = optree.tree_flatten_one_level(value, namespace="accumulus")
        labels = tuple([f"[{entry!r}]" for entry in entries])
        return Container(type(value), labels, identity(rest), partial(_unflattened, unflatten, rest)), tuple(parts)
    return None


class _JaxBuild:
    """Constructor of containers registered with JAX; pickled with an example, since JAX's definitions cannot be."""

    def __init__(self, definition: Any) -> None:
        self._definition = definition

    def __call__(self, parts: Sequence[Any]) -> Any:
        return self._definition.unflatten(parts)

    def __reduce__(self) -> Any:
        return _jax_build, (self._definition.unflatten([0.0] * self._definition.num_leaves),)


def _jax_build(example: Any) -> _JaxBuild:
    import jax

    return _JaxBuild(jax.tree_util.tree_structure(example))
