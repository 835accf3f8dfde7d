"""Conversion of calls with containers and keywords to calls with numbers and arrays by position.

Recording, compilation and checks pass numbers and arrays by position. If the user's function takes containers or
keywords, a `Restructured` wraps it and puts the numbers back into their structure.

Code that opens and builds containers is generated for each structure, since it takes a fraction of the time of a
generic walk.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from keyword import iskeyword
from types import CodeType
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.kinds import numbers_in, shape_of
from accumulus.frontends.trees import (
    Branch,
    Constant,
    Container,
    Leaf,
    Structure,
    entered,
    identity,
    leaf_paths,
    opened,
    unflatten,
    without_lists,
)

# Binding of arguments to the signature --------------------------------------------------------------------------------

_POSITIONAL_ONLY, _VAR_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL
_KEYWORD_ONLY, _VAR_KEYWORD = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
_PLACES = (_POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: A parameter: its name, its kind, and its default.
Row = tuple[str, Any, Any]
#: Cached signatures of functions, with the attributes that they were read from.
_SIGNATURES: Final[WeakKeyDictionary[Any, tuple[Any, inspect.Signature, tuple[Row, ...]]]] = WeakKeyDictionary()


def signature_of(function: Callable[..., Any]) -> tuple[inspect.Signature, tuple[Row, ...]] | None:
    """Return the signature of a function and a table of its parameters, from a cache; None if it has no signature."""
    names = ("__code__", "__defaults__", "__kwdefaults__", "__signature__", "__wrapped__")
    source = [getattr(function, name, None) for name in names]  # a cached signature holds while all are unchanged
    with suppress(TypeError):
        cached = _SIGNATURES.get(function)
        if cached is not None and all(a is b for a, b in zip(cached[0], source, strict=True)):
            return cached[1:]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    table = tuple([(each.name, each.kind, each.default) for each in signature.parameters.values()])
    with suppress(TypeError):  # without a hash and weak references there is no cache
        _SIGNATURES[function] = source, signature, table
    return signature, table


def _bound(table: Sequence[Row], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments by name, as ``Signature.bind`` does; None for calls that need ``Signature.bind`` itself."""
    if len(arguments) > len(table):
        return None
    bound: dict[str, Any] = {}
    rest = len(keywords)
    for k, (name, kind, default) in enumerate(table):
        if kind is _VAR_POSITIONAL or kind is _VAR_KEYWORD:
            return None
        if k < len(arguments):
            if kind is _KEYWORD_ONLY or name in keywords:
                return None
            bound[name] = arguments[k]
        elif name in keywords:
            if kind is _POSITIONAL_ONLY:
                return None
            bound[name] = keywords[name]
            rest -= 1
        elif default is inspect.Parameter.empty:
            return None
    return None if rest else bound


def positional_call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    name: str,
    requested: Collection[int | str] = (),
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional arguments, with defaults in the gaps before the last passed one, and keyword-only arguments.

    Args:
        function: function that would be called.
        arguments: its arguments by position.
        keywords: its arguments by name.
        name: name of the function, for messages.
        requested: positions and names of arguments that the result must include, with their defaults if they are not
            passed.

    Raises:
        ArgumentError: if the arguments do not fit the signature.

    >>> positional_call(lambda x, k=1.0, n=2: ..., [0.5], {"k": 3.0}, "f")
    ((0.5, 3.0), {})
    >>> positional_call(lambda x, k=1.0, n=2: ..., [0.5], {"n": 4}, "f")
    ((0.5, 1.0, 4), {})
    >>> positional_call(lambda x, *, k=1.0, n=2: ..., [0.5], {"n": 4}, "f", ["k"])
    ((0.5,), {'k': 1.0, 'n': 4})
    """
    entry = signature_of(function)
    if entry is None:
        return tuple(arguments), dict(keywords)
    signature, table = entry
    bound = _bound(table, arguments, keywords)
    if bound is not None:
        passed = set(bound)
        by_name: Mapping[str, Any] = {each: bound.get(each, default) for each, _, default in table}
    else:
        try:
            bound_arguments = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise ArgumentError(f"the arguments do not fit {name}{signature}: {error}") from None
        passed = set(bound_arguments.arguments)
        bound_arguments.apply_defaults()
        by_name = bound_arguments.arguments
    values: list[Any] = []
    named: dict[str, Any] = {}
    last = 0
    for parameter, kind, _ in table:
        value = by_name[parameter]
        if kind is _VAR_POSITIONAL:
            values += value
            last = len(values) if value else last
        elif kind is _VAR_KEYWORD:
            named |= value
        elif kind is _KEYWORD_ONLY:
            if parameter in passed or parameter in requested:
                named[parameter] = value
        else:
            values.append(value)
            if parameter in passed or parameter in requested or len(values) - 1 in requested:
                last = len(values)
    return tuple(values[:last]), named


def positions_of(function: Callable[..., Any], names: Sequence[str], option: str) -> list[int | str]:
    """Return the position of each named parameter; keyword-only parameters keep their names.

    Args:
        function: function that has the parameters.
        names: names of parameters.
        option: name of the option that lists them, for messages.

    Raises:
        ArgumentError: if the function has no parameter of a name.

    >>> positions_of(lambda x, k, *, damping: ..., ["damping", "k"], "argnames")
    ['damping', 1]
    """
    entry = signature_of(function)
    if entry is None:
        return list(names)
    parameters = [name for name, _, _ in entry[1]]
    places = [name for name, kind, _ in entry[1] if kind in _PLACES]
    by_keyword = [name for name, kind, _ in entry[1] if kind is _KEYWORD_ONLY]
    takes_any = any(kind is _VAR_KEYWORD for _, kind, _ in entry[1])
    positions: list[int | str] = []
    for name in names:
        if name in places:
            positions.append(places.index(name))
        elif name in by_keyword or (takes_any and name not in parameters):
            positions.append(name)
        else:
            there = ", ".join([*places, *by_keyword]) or "none"
            raise ArgumentError(f"{option} names {name!r}; the arguments of the function are {there}")
    return positions


class Restructured:
    """A function that takes the numbers in the arguments of another function, by position.

    Args:
        function: user's function.
        positional: structure of each positional argument.
        keywords: structure of each keyword argument.
        names: names of the numbers, for messages.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        positional: tuple[Structure, ...],
        keywords: Mapping[str, Structure],
        names: Sequence[str],
    ) -> None:
        self.function = function
        self.positional, self.keywords = positional, dict(keywords)
        self.names = tuple(names)

    @property
    def user_call(self) -> Restructured:
        """This function itself: its arguments already have the structure in which users pass them."""
        return self

    @property
    def key(self) -> Hashable:
        """Return a key of the structure of the arguments."""
        return self.positional, tuple(self.keywords.items())

    @property
    def parts(self) -> tuple[Structure, ...]:
        """Structures of all arguments: the positional ones, then the keywords."""
        return *self.positional, *self.keywords.values()

    def place_of(self, key: int | str) -> tuple[Structure, range]:
        """Return the structure of an argument, by position or by keyword, and the range of its numbers."""
        chosen = key if isinstance(key, int) else len(self.positional) + list(self.keywords).index(key)
        counts = [_count(structure) for structure in self.parts]
        start = sum(counts[:chosen])
        return self.parts[chosen], range(start, start + counts[chosen])

    def arguments(
        self, leaves: Sequence[Any], constant: Callable[[Any], Any] = lambda value: value
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments of the user's function for these numbers.

        Args:
            leaves: numbers of the call, in order.
            constant: function that converts each constant.
        """
        rest = iter(leaves)
        positional = tuple([_restored(structure, rest, constant) for structure in self.positional])
        return positional, {name: _restored(structure, rest, constant) for name, structure in self.keywords.items()}

    def with_arrays(self) -> Restructured:
        """Return the same function with an array instead of each list of numbers."""
        keywords = {name: without_lists(structure) for name, structure in self.keywords.items()}
        return Restructured(self.function, tuple(map(without_lists, self.positional)), keywords, self.names)

    def constants(self) -> Iterator[Any]:
        """Yield all constants, and the classes of containers, since their methods may run."""
        waiting: list[Structure] = [*self.parts]
        while waiting:
            structure = waiting.pop()
            if isinstance(structure, Constant):
                yield structure.value
            elif isinstance(structure, Branch):
                yield structure.container.kind
                waiting += structure.parts

    def __call__(self, *leaves: Any) -> Any:
        """Call the user's function, and return its result."""
        positional, keywords = self.arguments(leaves)
        return self.function(*positional, **keywords)


def function_of(function: Any) -> Any:
    """Return the user's function in a `Restructured`; return any other function unchanged."""
    return function.function if isinstance(function, Restructured) else function


def as_called(
    function: Any, arguments: Sequence[Any], inputs: Sequence[Any] = ()
) -> tuple[Any, Sequence[Any], Sequence[Any]]:
    """Return the user's function, its positional arguments, and its inputs in the same structure.

    Used for functions that are translated instead of called, such as CasADi's. Constants have None as input.
    """
    if not isinstance(function, Restructured):
        return function, arguments, inputs
    positional, _ = function.arguments(arguments)
    references, _ = function.arguments(inputs or arguments, lambda _: None)
    return function.function, positional, references


def restructured(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    static: Collection[int | str] = (),
    *,
    accepts: Callable[[Any], bool] = lambda _: False,
) -> tuple[Restructured, list[Any]]:
    """Return a function that takes the numbers in the arguments, and these numbers.

    Args:
        function: user's function.
        arguments: its arguments by position.
        keywords: its arguments by name.
        static: positions and names of static arguments.
        accepts: function that returns True for objects that represent numbers by their own rules.

    Raises:
        ArgumentError: for a number that cannot be traced, or a constant that cannot be hashed; the message has its
            path.

    >>> inner, numbers = restructured(lambda p, x: p["k"] * x[0], [{"k": 2.0}, [1.0, 3.0]], {})
    >>> numbers, inner.names, float(inner(*numbers))
    ([2.0, array([1., 3.])], ("argument 0 (p)['k']", 'argument 1 (x)'), 2.0)
    """
    walk = _Walk(accepts)
    called = _names_of(function, len(arguments))
    by_keyword = {name: f"argument {name}" for name in keywords}
    parts = tuple(
        [
            walk.constant(each, called[k]) if k in static else walk.structure(each, called[k])
            for k, each in enumerate(arguments)
        ]
    )
    named = {
        name: walk.constant(each, by_keyword[name]) if name in static else walk.structure(each, by_keyword[name])
        for name, each in keywords.items()
    }
    return Restructured(function, parts, named, walk.names), walk.numbers


def _names_of(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of arguments by position, for messages."""
    entry = signature_of(function)
    names = [] if entry is None else [name for name, kind, _ in entry[1] if kind in _PLACES][:count]
    return [f"argument {k}" + (f" ({names[k]})" if k < len(names) else "") for k in range(count)]


class _Walk:
    """A traversal of arguments that collects the numbers and their names."""

    def __init__(self, accepts: Callable[[Any], bool]) -> None:
        self.numbers: list[Any] = []
        self.names: list[str] = []
        self._accepts = accepts
        self._above: list[int] = []

    def structure(self, value: Any, path: str) -> Structure:
        number, written = numbers_in(value, path)
        if written is None and not self._accepts(number):
            contents = opened(number)
            if contents is not None:
                before = len(self.numbers)
                branch = self._branch(number, *contents, path)
                # containers without numbers are passed on unchanged
                return branch if len(self.numbers) > before or not _is_hashable(number) else self.constant(number, path)
            if shape_of(number, path) is None:
                return Constant(constant_key(number, path), number)
        self.numbers.append(number)
        self.names.append(path)
        return Leaf(written)

    def _branch(self, value: Any, container: Container, items: Sequence[Any], path: str) -> Structure:
        entered(value, path, self._above)
        parts = tuple(
            [
                self.constant(item, path + label) if fixed else self.structure(item, path + label)
                for item, label, fixed in zip(items, container.labels, container.fixed, strict=True)
            ]
        )
        self._above.pop()
        return Branch(container, parts)

    def constant(self, value: Any, path: str) -> Structure:
        """Return the structure of a value that is passed on unchanged: a constant, or a container of constants."""
        try:
            return Constant(constant_key(value, path), value)
        except ArgumentError:
            contents = opened(value)
            if contents is None:
                raise
        container, items = contents
        entered(value, path, self._above)
        parts = tuple([self.constant(item, path + each) for item, each in zip(items, container.labels, strict=True)])
        self._above.pop()
        return Branch(container, parts)


def constant_key(value: Any, name: str) -> Hashable:
    """Return a key that is equal for equal constants only.

    Raises:
        ArgumentError: if the constant cannot be hashed.
    """
    if isinstance(value, np.ndarray):
        return (type(value), value.shape, str(value.dtype), value.tobytes())
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"{name} is a {type(value).__name__} that cannot be hashed; expected a number, a NumPy array (make one "
            "with np.array), a container of those (a list, dict, data class, or what accumulus.register has), or a "
            "hashable object that is passed on as it is"
        ) from None
    return identity(value)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _count(structure: Structure) -> int:
    if isinstance(structure, Branch):
        return sum(map(_count, structure.parts))
    return int(isinstance(structure, Leaf))


def _restored(structure: Structure, leaves: Iterator[Any], constant: Callable[[Any], Any]) -> Any:
    if isinstance(structure, Leaf):
        leaf = next(leaves)
        return leaf if structure.written is None else structure.written(leaf)
    if isinstance(structure, Constant):
        return constant(structure.value)
    return structure.container.build([*map(partial(_restored, leaves=leaves, constant=constant), structure.parts)])


# Code that opens and builds containers --------------------------------------------------------------------------------

#: Function of arguments and keywords that returns the numbers in them, or None if they have another structure.
Reader = Callable[[Sequence[Any], dict[str, Any]], "tuple[Any, ...] | None"]
#: Maximum number of leaves and maximum depth of a structure with generated code. Larger structures would need too much
#: code, and are walked through instead, which takes longer for each call.
MOST: Final = 200
DEEPEST: Final = 20


class FunctionSource:
    """Source lines of a function, and the objects that they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._objects: dict[str, Any] = {"__name__": __name__}
        self._count = 0

    def fresh(self) -> str:
        """Return an unused name."""
        self._count += 1
        return f"v{self._count}"

    def named(self, value: Any) -> str:
        """Bind an object to an unused name, and return the name."""
        name = self.fresh()
        self._objects[name] = value
        return name

    def bind(self, **objects: Any) -> None:
        """Bind objects to their own names."""
        self._objects |= objects

    def function(self, head: str) -> Any:
        """Return the function of these lines."""
        exec(_compiled(f"def made({head}):\n    " + "\n    ".join(self.lines)), self._objects)
        return self._objects["made"]


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    """Return the code of a text, from a cache: names do not depend on the objects, so functions share texts."""
    return compile(text, "<generated>", "exec")


def maker(structure: Structure, finish: Sequence[Callable[[Any], Any] | None] = ()) -> Callable[[Sequence[Any]], Any]:
    """Return a function that builds a tree of a structure from its leaves.

    Args:
        structure: structure of the tree.
        finish: conversion of each leaf; None for leaves that are not converted. Empty if no leaf is converted.

    >>> make = maker(Branch(opened({"a": 1.0, "b": 2.0})[0], (Leaf(), Leaf())), [None, str])
    >>> make([1.0, 2.0])
    {'a': 1.0, 'b': '2.0'}
    """
    if not is_short(structure):
        return lambda leaves: unflatten(structure, _finished(leaves, finish))
    source = FunctionSource()
    names = [source.fresh() for _ in leaf_paths(structure)]
    tree = tree_expression(structure, names, finish, source)
    source.lines += [f"[{', '.join(names)}] = leaves", f"return {tree}"]
    made: Callable[[Sequence[Any]], Any] = source.function("leaves")
    return made


def is_short(structure: Structure) -> bool:
    """Return True if code is generated for a structure, which has few leaves and levels."""
    return sum(1 for _ in leaf_paths(structure)) <= MOST and _depth(structure) <= DEEPEST


def tree_expression(
    structure: Structure,
    leaves: Sequence[str],
    finish: Sequence[Callable[[Any], Any] | None],
    source: FunctionSource,
) -> str:
    """Return the source of an expression that builds a tree from leaves of these names; `finish` as for `maker`."""
    converted = [
        f"{source.named(convert)}({name})" if convert is not None else name
        for name, convert in zip(leaves, finish or [None] * len(leaves), strict=True)
    ]
    return _made(structure, iter(converted), source)


def _finished(leaves: Sequence[Any], finish: Sequence[Callable[[Any], Any] | None]) -> Sequence[Any]:
    if not finish:
        return leaves
    return [leaf if convert is None else convert(leaf) for leaf, convert in zip(leaves, finish, strict=True)]


def _depth(structure: Structure) -> int:
    return 1 + max(map(_depth, structure.parts), default=0) if isinstance(structure, Branch) else 0


def _made(structure: Structure, leaves: Iterator[str], source: FunctionSource) -> str:
    """Return the source of an expression that builds a tree."""
    if isinstance(structure, Leaf):
        return next(leaves)
    if isinstance(structure, Constant):
        return source.named(structure.value)
    parts = [_made(item, leaves, source) for item in structure.parts]
    container, listed = structure.container, "".join(f"{item}, " for item in parts)
    if container.kind is list:
        return f"[{listed}]"
    if container.kind is tuple:
        return f"({listed})"
    if container.kind is dict:
        keys = container.build(range(len(parts)))
        return "{" + ", ".join(f"{source.named(key)}: {parts[k]}" for key, k in keys.items()) + "}"
    return f"{source.named(container.build)}(({listed}))"


def reader(structures: Sequence[Structure], route: Sequence[int | str]) -> Reader | None:
    """Return a function that reads the numbers in arguments of these structures; None if short code cannot read them.

    The function does not check the numbers: it returns any object in the place of a number.

    Args:
        structures: structure of each argument.
        route: position or keyword of each argument.
    """
    if sum(1 for each in structures for _ in leaf_paths(each)) > MOST or not all(map(is_short, structures)):
        return None
    source = FunctionSource()
    by_position = [key for key in route if isinstance(key, int)]
    keywords = [key for key in route if isinstance(key, str)]
    places = {key: source.fresh() for key in route}
    refused = ": return None"
    wrong_keywords = f"len(keywords) != {len(keywords)}" if keywords else "keywords"
    source.lines += [
        "try:",
        f"    if len(arguments) != {len(by_position)} or {wrong_keywords}{refused}",
        f"    [{', '.join(places[k] for k in sorted(by_position))}] = arguments",
        *(f"    {places[name]} = keywords[{name!r}]" for name in keywords),
    ]
    leaves: list[str] = []
    for structure, key in zip(structures, route, strict=True):
        if not _read(structure, places[key], source, leaves):
            return None
    source.lines += [
        f"    return ({''.join(f'{leaf}, ' for leaf in leaves)})",
        "except (KeyError, AttributeError, ValueError, TypeError):",
        "    return None",
    ]
    made: Reader = source.function("arguments, keywords")
    return made


def _read(structure: Structure, value: str, source: FunctionSource, leaves: list[str]) -> bool:
    """Append lines that read the leaves of a structure from a variable; return False if short code cannot read them."""
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
        for item, label in zip(parts, container.labels, strict=True):
            name = label.removeprefix(".")
            # attributes that `setattr` made may have names that would be other code
            is_plain = name.isascii() and name.isidentifier() and not iskeyword(name)
            read = f"{value}.{name}" if is_plain else f"getattr({value}, {name!r})"
            source.lines.append(f"    {item} = {read}")
        if _has_dict(container):
            source.lines.append(f"    if len({value}.__dict__) != {len(parts)}{refused}")
    elif container.kind in (dict, OrderedDict):
        keys = list(container.build(range(len(parts))))
        if any(type(key) is not str for key in keys):
            return False
        found = [source.fresh() for _ in keys]
        other = [f"{name} != {source.named(key)}" for name, key in zip(found, keys, strict=True)]
        source.lines += [
            f"    if type({value}) is not {kind} or len({value}) != {len(keys)}{refused}",
            f"    [{', '.join(found)}] = {value}",
            *([f"    if {' or '.join(other)}{refused}"] if other else []),
            *(f"    {part} = {value}[{name}]" for part, name in zip(parts, found, strict=True)),
        ]
    elif issubclass(container.kind, list | tuple) and container.rest is None:
        source.lines += [f"    if type({value}) is not {kind}{refused}", f"    {listed} = {value}"]
    else:
        variable = source.fresh()
        source.lines += [
            f"    {variable} = {source.named(opened)}({value})",
            f"    if {variable} is None or {variable}[0] != {source.named(container)}{refused}",
            f"    {listed} = {variable}[1]",
        ]
    return all(_read(item, name, source, leaves) for item, name in zip(structure.parts, parts, strict=True))


def _floats_in(value: Any) -> tuple[Any, Any]:
    """Return ``numbers_in(value)`` with arrays converted to float64, which compiled code takes."""
    number, written = numbers_in(value, "")
    return (number.astype(np.float64, copy=False), written) if type(number) is np.ndarray else (number, written)


def _has_dict(container: Container) -> bool:
    return bool(getattr(container.kind, "__dictoffset__", 0))
