"""Conversion of users' arguments to the positional numbers and arrays that derivatives take.

Positions and names of arguments become places among the numbers; keywords move to their positions in the signature;
containers are flattened, and axes of points passed on to their elements. Calls with numbers and arrays only pass
through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.agreement import run_on_copies
from accumulus.frontends.calls import (
    Reader,
    Restructured,
    positional_call,
    positions_of,
    reader,
    restructured,
    signature_of,
)
from accumulus.frontends.kinds import Spread, StandIn, as_reals, nearby_arguments
from accumulus.frontends.trees import Constant, Leaf, Structure, leaf_paths, opened
from accumulus.programs.arguments import InAxes
from accumulus.programs.batches import is_lazy, is_on_device
from accumulus.programs.selection import Selection, arranged

if TYPE_CHECKING:
    pass


#: Types of arguments that need no conversion.
_PLAIN: Final = frozenset({float, int, np.ndarray, np.float64, str, bool, type(None)})


class Forms:
    """Forms of a function's arguments, with the arguments to differentiate with respect to.

    Args:
        function: user's function.
        name: name of the function, for messages.
        argnums, argnames: positions and names of the arguments to differentiate with respect to; the first if both are
            None.
        static_argnums, static_argnames: positions and names of static arguments, which are passed on unchanged.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        argnums: int | Sequence[int] | None,
        argnames: str | Sequence[str] | None,
        static_argnums: int | Sequence[int],
        static_argnames: str | Sequence[str],
    ) -> None:
        self._function, self._name = function, name
        self.differentiated = requested_arguments(function, argnums, argnames)
        self.static: tuple[int | str, ...]
        self.static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        if static_argnames != ():
            names = _as_names(static_argnames, "static_argnames")
            self.static = (*self.static, *positions_of(function, names, "static_argnames"))

    @property
    def _needed(self) -> list[int | str]:
        """Arguments that are required even if they have a default."""
        requested = (self.differentiated,) if isinstance(self.differentiated, int | str) else self.differentiated
        return [argument for argument in requested if not isinstance(argument, int) or argument > 0]

    @cached_property
    def takes_out(self) -> bool:
        """Return True if ``out=`` in a call cannot be an argument of the function."""
        signature = signature_of(self._function)
        if signature is None:
            return False
        return all(name != "out" and kind is not Parameter.VAR_KEYWORD for name, kind, _ in signature[1])

    @property
    def positional(self) -> tuple[int | Sequence[int], tuple[int, ...]] | None:
        """Positions of differentiated arguments and of static ones; None if names are among the former."""
        differentiated = self.differentiated
        several = (differentiated,) if isinstance(differentiated, int | str) else differentiated
        if any(isinstance(argument, str) for argument in several):
            return None
        return differentiated, self.static_positions  # type: ignore[return-value]

    @property
    def static_positions(self) -> tuple[int, ...]:
        """Positions of static arguments, without names."""
        return tuple([argument for argument in self.static if isinstance(argument, int)])

    def of(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Restructured | None, Sequence[Any]]:
        """Return the function in the form for these arguments, and the numbers in them.

        The function is None if the arguments are positional numbers, arrays and constants.

        Raises:
            ArgumentError: if the arguments do not fit the signature, or contain objects that cannot be traced.
        """
        count = len(arguments)
        needed = [argument for argument in self._needed if isinstance(argument, str) or argument >= count]
        if not keywords and not needed and _PLAIN.issuperset(map(type, arguments)):
            return None, arguments
        name = self._name
        if keywords or needed:
            arguments, keywords = positional_call(self._function, arguments, keywords, name, needed)
        count = len(arguments)
        if wrong := [k for k in self.static if isinstance(k, int) and not -count <= k < count]:
            raise ArgumentError(f"static_argnums has {wrong[0]}; {count} arguments of {name} were given")
        static = {k % count if isinstance(k, int) else k for k in self.static}
        if not keywords and self.positional is not None and not any(map(_needs_form, arguments)):
            return None, arguments
        call, numbers = restructured(self._function, arguments, keywords, static, accepts=stands_for)
        if not call.keywords and self.positional is not None and all(map(_stands_alone, call.positional)):
            rest = iter(numbers)
            return None, [
                structure.value if isinstance(structure, Constant) else next(rest) for structure in call.positional
            ]
        return call, numbers

    def reader(self, arguments: Sequence[Any], keywords: Mapping[str, Any], call: Restructured | None) -> Reader | None:
        """Return a function that extracts the numbers from further calls like this one; None if that is not simple.

        Args:
            arguments: arguments by position.
            keywords: arguments by name.
            call: their form, as `of` returns it; None if they are passed unchanged.
        """
        keys = [*range(len(arguments)), *keywords]
        stand_ins = {key: _StandIn(key) for key in keys}
        by_position = [stand_ins[k] for k in range(len(arguments))]
        positional, named = positional_call(
            self._function, by_position, {name: stand_ins[name] for name in keywords}, self._name, self._needed
        )
        order = [*positional, *named.values()]
        if any(not isinstance(each, _StandIn) for each in order):
            return None  # it is a default, which may change
        structures: Sequence[Structure] = [Leaf()] * len(order) if call is None else call.parts
        return reader(structures, [each.key for each in order])

    def selection(self, call: Restructured) -> Selection:
        """Return the differentiated arguments among the numbers of a call."""
        return arranged(call, self.differentiated, self._name)


def settled_function(function: Callable[..., Any], numbers: Sequence[Any], *, check: bool) -> Callable[..., Any]:
    """Return the function with arrays in place of lists of numbers, if the results are the same.

    SciPy's functions convert lists to arrays before they call the user's function. A function that is called directly
    receives the lists, for which + and * mean something else.

    Args:
        function: user's function in the form of its arguments.
        numbers: numbers in its arguments, at one point.
        check: if True, the function may be called with numbers to compare both forms.
    """
    if not check or not isinstance(function, Restructured):
        return function
    arrays = function.with_arrays()
    if arrays.key == function.key:
        return function
    shapes = [np.shape(number) for number in numbers]
    reals = as_reals(numbers, shapes)
    for point in (reals, nearby_arguments(reals, shapes, 0.5, Spread())):
        try:
            array = run_on_copies(arrays, point)
        except Exception:
            return function
        try:
            listed = run_on_copies(function, point)
        except Exception:
            continue
        same = (array.structure, array.shapes) == (listed.structure, listed.shapes)
        same = same and array.is_real and listed.is_real
        if not same or not np.allclose(array.entries, listed.entries, rtol=1e-9, atol=0.0, equal_nan=True):
            return function
    return arrays


@dataclass(frozen=True)
class _StandIn:
    """Stand-in for an argument if only its place matters."""

    key: int | str


def stands_for(value: Any) -> bool:
    """Return True if an object stands for numbers: a Dask or CuPy array, or a traced value."""
    return is_lazy(value) or is_on_device(value) or isinstance(value, StandIn)


def _needs_form(argument: Any) -> bool:
    return not (type(argument) in _PLAIN or is_lazy(argument) or is_on_device(argument))


def _stands_alone(structure: Structure) -> bool:
    """Return True if an argument is a single number or array, or a constant."""
    return isinstance(structure, Constant) or structure == Leaf()


def requested_arguments(
    function: Callable[..., Any], argnums: int | Sequence[int] | None, argnames: str | Sequence[str] | None
) -> int | str | Sequence[int | str]:
    """Return positions and names of arguments as one request, positions first."""
    if argnums is None and argnames is None:
        return 0
    places: tuple[int, ...] = ()
    if isinstance(argnums, int) or not isinstance(argnums, Iterable) or isinstance(argnums, np.ndarray):
        places = () if argnums is None else (argnums,)
    else:
        places = tuple(argnums)
    if any(not isinstance(position, int) for position in places):
        raise ArgumentError(
            f"argnums is {shortened(argnums)}; expected the position of an argument, or several (argnames takes "
            "names). The arguments of the function come afterwards: acc.jacobian(f)(x)"
        )
    if argnames is None:
        return argnums if isinstance(argnums, int) else places
    named = positions_of(function, _as_names(argnames, "argnames"), "argnames")
    return named[0] if argnums is None and isinstance(argnames, str) else (*places, *named)


def _as_names(names: str | Sequence[str], option: str) -> Sequence[str]:
    sequence = (names,) if isinstance(names, str) or not isinstance(names, Sequence) else tuple(names)
    if any(not isinstance(name, str) for name in sequence):
        raise ArgumentError(f"{option} is {names!r}; expected the name of an argument, or several")
    return sequence


def axes_of_numbers(call: Restructured, numbers: Sequence[Any], in_axes: Any, transposed: bool, name: str) -> InAxes:
    """Return the axes of points of the numbers in a call, from the axes of its arguments.

    Args:
        call: form of the arguments.
        numbers: numbers in the arguments.
        in_axes: axes as for `Derivative.batch`: for each positional argument an axis, None, or a container of these in
            the argument's structure; or a dict of such entries by argument name. An entry applies to all numbers below
            it. Keyword arguments without an entry have the default axes.
        transposed: if True, points are on the last axis unless `in_axes` says otherwise.
        name: name of the function, for messages.

    Raises:
        ArgumentError: if `in_axes` does not fit the arguments.
    """
    call = call.user_call
    if not isinstance(in_axes, list | tuple | dict):
        return in_axes  # type: ignore[no-any-return]  # one axis for all arguments; checked later
    if not isinstance(in_axes, dict) and len(in_axes) != len(call.positional):
        raise ArgumentError(
            f"in_axes is {in_axes!r}; expected {len(call.positional)} entries, as many as {name} has arguments"
        )
    places: list[Any] = [*range(len(call.positional)), *call.keywords]
    if isinstance(in_axes, dict):
        entries = dict(zip(positions_of(call.function, list(in_axes), "in_axes"), in_axes.values(), strict=True))
        if missing := [argument for argument in entries if argument not in places]:
            raise ArgumentError(f"in_axes is {in_axes!r}; {name} was called without argument {missing[0]}")
    else:
        entries = dict(enumerate(in_axes))
    axes: list[int | None] = []
    for argument in places:
        structure, numbers_here = call.place_of(argument)
        if argument in entries:
            axes += _axes_below(structure, entries[argument], f"in_axes of argument {argument} of {name}")
        else:
            usual = -1 if transposed else 0
            axes += [usual if np.ndim(numbers[k]) else None for k in numbers_here]
    return tuple(axes)


def axes_by_position(
    function: Callable[..., Any], numbers: Sequence[Any], in_axes: Mapping[str, Any], transposed: bool, name: str
) -> InAxes:
    """Return the axes of points of positional arguments, from axes by name.

    Raises:
        ArgumentError: for a name that is not an argument.
    """
    usual = -1 if transposed else 0
    axes = [usual if np.ndim(x) else None for x in numbers]
    for position, axis in zip(positions_of(function, list(in_axes), "in_axes"), in_axes.values(), strict=True):
        if not isinstance(position, int) or position >= len(axes):
            raise ArgumentError(f"in_axes is {in_axes!r}; {name} was called without argument {position}")
        axes[position] = axis
    return tuple(axes)


def _axes_below(structure: Structure, entry: Any, subject: str) -> list[int | None]:
    """Return the axis of each number in a structure, from one axis for all of them or a container of axes."""
    if isinstance(structure, Constant):
        return []
    if entry is None or isinstance(entry, int):
        return [entry] * sum(1 for _ in leaf_paths(structure))
    container = opened(entry)
    if isinstance(structure, Leaf) or container is None:
        raise ArgumentError(
            f"{subject} is {entry!r}; expected an axis or None, or a container of those in the structure of the "
            "argument"
        )
    labels = structure.container.labels
    axes = dict(zip(container[0].labels, container[1], strict=True))
    if set(axes) != set(labels):
        raise ArgumentError(f"{subject} is {entry!r}; expected one entry each for {', '.join(labels) or 'nothing'}")
    return [
        axis
        for label, substructure in zip(labels, structure.parts, strict=True)
        for axis in _axes_below(substructure, axes[label], subject + label)
    ]


class CallForm:
    """The form in which users pass the arguments of one program: containers and keywords, always in one structure.

    Args:
        forms: forms of the function's arguments.
        structure: structure of the arguments; None for plain numbers that may be passed by keyword.
        name: name of the function, for messages.
    """

    def __init__(self, forms: Forms, structure: Restructured | None, name: str) -> None:
        self._forms, self._structure, self._name = forms, structure, name
        #: Reader of the numbers in arguments; and the call signatures (number of positional arguments, keywords) for
        #: which a reader was sought.
        self._read: Reader | None = None
        self._ways: frozenset[tuple[int, tuple[str, ...]]] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_read": None, "_ways": frozenset()}

    @property
    def takes_out(self) -> bool:
        """Return True if calls take `out`: no argument of the function has this name."""
        return self._forms.takes_out

    def numbers(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Sequence[Any]:
        """Return the numbers and arrays in arguments, by position.

        Raises:
            ArgumentError: for arguments of another structure, or with other constants.
        """
        numbers: Sequence[Any] | None = None if self._read is None else self._read(arguments, keywords)
        if numbers is not None:
            return numbers
        call, numbers = self._forms.of(arguments, keywords)
        if (None if call is None else call.key) != (None if self._structure is None else self._structure.key):
            raise ArgumentError(
                f"the arguments of {self._name} have another structure or other constants than those that this program "
                "was compiled for"
            )
        way = len(arguments), tuple(keywords)
        if way not in self._ways:
            self._ways |= {way}
            self._read = self._forms.reader(arguments, keywords, call) or self._read
        return numbers

    def axes(self, numbers: Sequence[Any], in_axes: InAxes, transposed: bool) -> InAxes:
        """Return the axes of points of the numbers, from those of the arguments."""
        if self._structure is None or type(in_axes) is str:
            return in_axes
        return axes_of_numbers(self._structure, numbers, in_axes, transposed, self._name)
