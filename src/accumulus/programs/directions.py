"""Calls with directions in the arguments, or weights of the results, as in ``jvp(f)(primals, tangents)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import Reader, Restructured, positional_call, reader, restructured
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Branch, Constant, Leaf, Structure, changed, grafted, leaf_paths, without_lists
from accumulus.programs.forms import Forms, stands_for
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.selection import Selection

#: Structure of an argument without derivatives.
_NOTHING = Constant(None, None)


class Directed(Restructured):
    """Function of the primals, made from a call with primals and directions or weights.

    Args:
        user_call: the user's call with its two arguments, primals and seeds.
        function: user's function.
    """

    def __init__(self, user_call: Restructured, function: Callable[..., Any]) -> None:
        primals = user_call.positional[0]
        assert isinstance(primals, Branch)
        super().__init__(function, primals.parts, {}, user_call.names)
        self._user_call = user_call

    @property
    def user_call(self) -> Restructured:
        """The call with primals and seeds."""
        return self._user_call

    @property
    def key(self) -> Hashable:
        """Return a key that identifies the structure of the call."""
        return self._user_call.key

    @property
    def seeds(self) -> Structure:
        """The structure of the directions or weights."""
        return self._user_call.positional[1]

    def with_arrays(self) -> Directed:
        """Return the call with arrays in place of lists of numbers among the primals."""
        primals, seeds = self._user_call.positional
        call = Restructured(self._user_call.function, (without_lists(primals), seeds), {}, self.names)
        return Directed(call, self.function)


class DirectionForms(Forms):
    """Forms of the arguments of a kind with seeds.

    Args:
        function: user's function.
        name: name of the function, for messages.
        kind: kind of derivative.
    """

    def __init__(self, function: Callable[..., Any], name: str, kind: DerivativeKind) -> None:
        super().__init__(function, name, (), None, (), ())
        self._kind = kind
        self._seeds = kind.seeds.value

    @property
    def positional(self) -> None:
        """None, since the arguments are primals and seeds, never numbers by position."""
        return

    def of(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Restructured, Sequence[Any]]:
        """Return the function in the form for these primals and seeds, and the numbers in them.

        Raises:
            ArgumentError: if there are not two arguments, the primals are not a tuple, or tangents differ in structure.
        """
        subject = f"{self._kind.name}({self._name})"
        if keywords:
            arguments, keywords = self._in_order(arguments, keywords, subject)
        if len(arguments) != 2:
            raise ArgumentError(
                f"{subject} was called with {len(arguments)} arguments; expected primals and {self._seeds}"
            )
        primals = arguments[0]
        if not isinstance(primals, tuple | list):
            raise ArgumentError(
                f"the primals of {subject} are a {type(primals).__name__}; expected a tuple of all arguments of "
                f"{self._name}, as jax.jvp has it: (x,) for one"
            )
        form, numbers = restructured(_named(self._kind.seeds), (tuple(primals), arguments[1]), {}, accepts=stands_for)
        if not isinstance(form.positional[0], Branch):
            raise ArgumentError(
                f"the primals of {subject} hold no numbers; expected arguments to differentiate with respect to"
            )
        call = Directed(form, self._function)
        if self._kind.seeds is not Seeds.COTANGENTS:
            pairs_of(call, subject, self._seeds)
        return call, numbers

    def _in_order(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], subject: str
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        return positional_call(_named(self._kind.seeds), arguments, keywords, subject)

    def reader(self, arguments: Sequence[Any], keywords: Mapping[str, Any], call: Restructured | None) -> Reader | None:
        """Return a function that extracts the numbers from further arguments of the same form."""
        names = [*inspect.signature(_named(self._kind.seeds)).parameters]
        if call is None or {*names[len(arguments) :]} != {*keywords}:
            return None
        return reader(call.user_call.parts, [k if k < len(arguments) else name for k, name in enumerate(names)])

    def selection(self, call: Restructured) -> Selection:
        """Return the differentiated arguments among the numbers of a call, with directions or weights."""
        assert isinstance(call, Directed)
        if self._kind.seeds is not Seeds.COTANGENTS:
            pairs, structure = pairs_of(call, f"{self._kind.name}({self._name})", self._seeds)
            return Selection(tuple(one for one, _ in pairs), structure, tuple(two for _, two in pairs))
        primals, primal_positions = call.user_call.place_of(0)
        derivatives = changed(primals, lambda end: Leaf() if isinstance(end, Leaf) else _NOTHING)
        return Selection(tuple(primal_positions), derivatives, tuple(call.user_call.place_of(1)[1]))


def _named(seeds: Seeds) -> Callable[..., Any]:
    """Return a function of primals and seeds, for the names of parameters."""
    return {Seeds.TANGENTS: _of_tangents, Seeds.SERIES: _of_series}.get(seeds, _of_cotangents)


def _of_tangents(primals: Any, tangents: Any) -> None: ...


def _of_series(primals: Any, series: Any) -> None: ...


def _of_cotangents(primals: Any, cotangents: Any) -> None: ...


def seeded_signature(kind: DerivativeKind) -> inspect.Signature:
    """Return the signature of a derivative with seeds."""
    parameters = inspect.signature(_named(kind.seeds)).parameters.values()
    return inspect.Signature([inspect.Parameter(each.name, each.kind) for each in parameters])


def pairs_of(call: Directed, subject: str, seeds: str) -> tuple[list[tuple[int, int]], Structure]:
    """Return pairs of a primal and its direction, and the primals' structure with None for primals without direction.

    Raises:
        ArgumentError: if tangents and primals differ in structure; a None in the tangents covers all primals below it.
    """
    primals, count = call.user_call.positional[0], len(call.user_call.place_of(0)[1])
    pairs: list[tuple[int, int]] = []
    at = [0, count]

    def walk(one: Structure, two: Structure, path: str) -> Structure:
        if isinstance(two, Constant) and (_is_nothing(two.value) or one == two):
            at[0] += sum(1 for _ in leaf_paths(one))
            return _NOTHING
        if isinstance(one, Branch) and isinstance(two, Branch) and one.container.labels == two.container.labels:
            parts = zip(one.container.labels, one.parts, two.parts, strict=True)
            return Branch(one.container, tuple([walk(a, b, path + label) for label, a, b in parts]))
        if isinstance(one, Leaf) and isinstance(two, Leaf):
            pairs.append((at[0], at[1]))
            at[0] += 1
            at[1] += 1
            return Leaf()
        raise ArgumentError(
            f"{seeds}{path} of {subject} is {_described(two)}, and primals{path} {_described(one)}; expected the same "
            "structure, or None for arguments that are not differentiated"
        )

    structure = walk(primals, call.seeds, "")
    if not pairs:
        raise ArgumentError(f"all {seeds} of {subject} are None; expected a direction for at least one argument")
    return pairs, structure


def _is_nothing(value: Any) -> bool:
    return value is None or (type(value) in (tuple, list) and all(map(_is_nothing, value)))


def _described(structure: Structure) -> str:
    if isinstance(structure, Leaf):
        return "a number or an array"
    if isinstance(structure, Constant):
        return repr(structure.value)[:60]
    return f"a {structure.container.kind.__name__} with {', '.join(structure.container.labels) or 'nothing'}"


def _are_alike(one: Structure, other: Structure) -> bool:
    """Return True if two structures have the same places for numbers; tuples and lists count as equal."""
    if not (isinstance(one, Branch) and isinstance(other, Branch)):
        return grafted(one, Leaf()) == grafted(other, Leaf())
    container, other_container = one.container, other.container
    sequences = {container.kind, other_container.kind} <= {list, tuple} and container.labels == other_container.labels
    return (container == other_container or sequences) and all(
        _are_alike(a, b) for a, b in zip(one.parts, other.parts, strict=True)
    )


def settled_seeds(
    recording: Recording, call: Directed, selection: Selection, kind: DerivativeKind, name: str
) -> Selection:
    """Return the selection with the number of directions or weights, after checking their shapes.

    Args:
        recording: recording of the function, with inputs for seeds.
        call: call with primals and seeds.
        selection: differentiated arguments.
        kind: kind of the derivative.
        name: name of the function, for messages.

    Raises:
        ArgumentError: for a seed whose shape, apart from a leading axis of seeds, differs from its primal's or
            result's.
    """
    shapes = recording.argument_shapes
    subject = f"{kind.name}({name})"
    if kind.seeds is not Seeds.COTANGENTS:
        expected = [shapes[k] for k in selection.positions]
        names = ["primal"] * len(expected)
    else:
        expected = list(recording.result_shapes)
        if not _are_alike(call.seeds, recording.structure):
            raise ArgumentError(
                f"the cotangents of {subject} are {_described(call.seeds)}; expected the structure of what it returns, "
                f"{_described(recording.structure)}. A list of numbers is an array; a tuple may stand for a list"
            )
        names = ["result"] * len(expected)
    several: set[int | None] = set()
    several_of, none = "several directions at once", "directions"
    if kind.seeds is Seeds.SERIES:
        several_of, none = "the coefficients of t, t², …", "series"
    for seed, shape, of in zip(selection.seeds, expected, names, strict=True):
        seed_shape = shapes[seed]
        assert seed_shape is not None
        assert shape is not None
        if seed_shape == shape:
            several.add(None)
        elif seed_shape[1:] == shape and seed_shape:
            several.add(seed_shape[0])
        else:
            raise ArgumentError(
                f"{call.names[seed]} of {subject} has shape {seed_shape}, and its {of} shape {shape}; expected the "
                f"same, or one axis more, in front, for {several_of}"
            )
    if len(several) > 1:
        counts = ", ".join(sorted("none" if k is None else str(k) for k in several))
        raise ArgumentError(f"{none} of {subject} have first axes of different lengths ({counts}); expected one length")
    count = several.pop() if several else None
    if count == 0:
        raise ArgumentError(f"{subject} was called with no {none}, an axis of length 0; expected at least one")
    return Selection(selection.positions, selection.structure, selection.seeds, count)
