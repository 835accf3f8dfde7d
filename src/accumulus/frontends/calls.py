"""A call whose arguments are structures of numbers, as a call with the numbers alone.

What records, compiles and checks a function passes it numbers and arrays by position. Where the user's function takes
containers, or keywords, it stands behind a `Restructured`, which puts the numbers back to where they were.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.containers import Container, opened
from accumulus.frontends.identity import identity
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.leaves import numbers_in
from accumulus.frontends.trees import Branch, Constant, Leaf, Structure, entered, without_lists

__all__ = ["Restructured", "as_called", "constant_key", "function_of", "restructured"]


class Restructured:
    """A function of the numbers in its arguments, one after the other.

    Args:
        function: the user's.
        positional: structure of each argument by position.
        keywords: of each by keyword.
        names: of the numbers, for messages.
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
    def as_given(self) -> Restructured:
        """The same with the arguments as users give them."""
        return self

    @property
    def key(self) -> Hashable:
        """What tells the structure apart from others."""
        return self.positional, tuple(self.keywords.items())

    @property
    def parts(self) -> tuple[Structure, ...]:
        """The structures of all arguments, in the order of their numbers."""
        return *self.positional, *self.keywords.values()

    def place_of(self, part: int | str) -> tuple[Structure, range]:
        """The structure of an argument, by position or by keyword, and which numbers are in it."""
        chosen = part if isinstance(part, int) else len(self.positional) + list(self.keywords).index(part)
        counts = [_count(structure) for structure in self.parts]
        start = sum(counts[:chosen])
        return self.parts[chosen], range(start, start + counts[chosen])

    def arguments(
        self, leaves: Sequence[Any], constant: Callable[[Any], Any] = lambda value: value
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the function is called with, where the numbers are these.

        Args:
            constant: what becomes of a constant.
        """
        rest = iter(leaves)
        positional = tuple([_restored(part, rest, constant) for part in self.positional])
        return positional, {name: _restored(part, rest, constant) for name, part in self.keywords.items()}

    def with_arrays(self) -> Restructured:
        """The same with an array in the place of each list of numbers."""
        keywords = {name: without_lists(part) for name, part in self.keywords.items()}
        return Restructured(self.function, tuple(map(without_lists, self.positional)), keywords, self.names)

    def constants(self) -> Iterator[Any]:
        """All constants, and the classes of containers, whose methods may run."""
        waiting: list[Structure] = [*self.parts]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Constant):
                yield part.value
            elif isinstance(part, Branch):
                yield part.container.kind
                waiting += part.parts

    def __call__(self, *leaves: Any) -> Any:
        """What the user's function returns."""
        positional, keywords = self.arguments(leaves)
        return self.function(*positional, **keywords)


def function_of(function: Any) -> Any:
    """The user's function behind a `Restructured`; any other is itself."""
    return function.function if isinstance(function, Restructured) else function


def as_called(
    function: Any, arguments: Sequence[Any], inputs: Sequence[Any] = ()
) -> tuple[Any, Sequence[Any], Sequence[Any]]:
    """Return the user's function, with arguments and inputs as it takes them by position; of constants there are none.

    For functions that are not called while they are recorded, but written down.
    """
    if not isinstance(function, Restructured):
        return function, arguments, inputs
    given, _ = function.arguments(arguments)
    references, _ = function.arguments(inputs or arguments, lambda _: None)
    return function.function, given, references


def restructured(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    static: Collection[int | str] = (),
    *,
    accepts: Callable[[Any], bool] = lambda _: False,
) -> tuple[Restructured, list[Any]]:
    """The function behind the structure of its arguments, and the numbers in these.

    Args:
        static: positions and keywords of arguments that are passed on as they are.
        accepts: says of an object whether it stands for numbers in its own way.

    Raises:
        ArgumentError: naming the place, for a number that cannot be traced, or a constant that cannot be hashed.

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
    """What arguments by position are called in messages."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters if each.kind in places][:count]
    return [f"argument {k}" + (f" ({names[k]})" if k < len(names) else "") for k in range(count)]


class _Walk:
    """The numbers and their names, as they are found."""

    def __init__(self, accepts: Callable[[Any], bool]) -> None:
        self.numbers: list[Any] = []
        self.names: list[str] = []
        self._accepts = accepts
        self._above: list[int] = []

    def structure(self, value: Any, path: str) -> Structure:
        number, written = numbers_in(value, path)
        if written is None and not self._accepts(number):
            found = opened(number)
            if found is not None:
                before = len(self.numbers)
                branch = self._branch(number, *found, path)
                # what holds no numbers is passed on itself
                return branch if len(self.numbers) > before or not _is_hashable(number) else self.constant(number, path)
            if shape_of(number, path) is None:
                return Constant(constant_key(number, path), number)
        self.numbers.append(number)
        self.names.append(path)
        return Leaf(written)

    def _branch(self, value: Any, container: Container, held: Sequence[Any], path: str) -> Structure:
        entered(value, path, self._above)
        parts = tuple(
            [
                self.constant(part, path + label) if fixed else self.structure(part, path + label)
                for part, label, fixed in zip(held, container.labels, container.fixed, strict=True)
            ]
        )
        self._above.pop()
        return Branch(container, parts)

    def constant(self, value: Any, path: str) -> Structure:
        """The structure of what is passed on as it is: a constant, or a container of constants."""
        try:
            return Constant(constant_key(value, path), value)
        except ArgumentError:
            found = opened(value)
            if found is None:
                raise
        container, held = found
        entered(value, path, self._above)
        parts = tuple([self.constant(part, path + each) for part, each in zip(held, container.labels, strict=True)])
        self._above.pop()
        return Branch(container, parts)


def constant_key(value: Any, name: str) -> Hashable:
    """What tells a constant apart from others.

    Raises:
        ArgumentError: if it cannot be hashed.
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
