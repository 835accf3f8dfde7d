"""Derivatives in tangent spaces: of f(retract(x, δ)) with respect to δ at δ = 0, as one program of x.

The compiled program is a function of the user's arguments. It replaces the retraction by its Taylor polynomial in δ, up
to the order of the derivative: x + T(x)·δ for first derivatives. The planner therefore sees the whole chain. The
columns of T are labels of its graph, and zeros and ones at δ = 0 are folded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from accumulus.errors import AccumulusError, ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.calls import Reader, Restructured, positional_call
from accumulus.frontends.kinds import StandIn, numbers_in, shape_of
from accumulus.frontends.location import name_of, numbered
from accumulus.frontends.quaternions import normalised, perturbing
from accumulus.frontends.recorder import holder_of, is_plain, recorder_of
from accumulus.frontends.trees import Container, opened, register
from accumulus.manifolds import SO3, Manifold, is_rotation, quaternions_of, rotation_of
from accumulus.options import Options, refuse_assumptions
from accumulus.programs.arguments import axes_of_points
from accumulus.programs.batches import first_point
from accumulus.programs.derivative import Derivative
from accumulus.programs.directions import DirectionForms
from accumulus.programs.forms import Forms, axes_by_position, axes_of_numbers, requested_arguments
from accumulus.programs.kinds import COMPILED, DerivativeKind, Seeds, in_tangent_spaces
from accumulus.programs.selection import SelectionRequest, static_positions

#: Maximum number of tangent entries for which the derivative is folded into a function of the arguments (`_Folded`).
#: Folded derivatives of more entries are long straight lines; those of fewer lose operations to the zeros if they are
#: not folded.
MOST_FOLDED: Final = 64
#: A manifold, None for arguments in no manifold, or a container of these.
On = Any
#: (leaf, its manifold, its name in messages) → its replacement.
Visit = Callable[[Any, Manifold | None, str], Any]

#: Options of the derivatives at numbers that recordings are compared with: a greedy plan, without rewriting.
_QUICK: Final = Options(
    effort="fast", time_limit=0.0, target="numpy", optimise=False, cache=False, check=False, watch=False, progress=False
)

#: The same options for the user's function, whose recording is compared with the function.
_CHECKED: Final = replace(_QUICK, check=True)


class _Quaternions:
    """A SciPy ``Rotation`` among the arguments or results of a recording, as quaternions."""

    def __init__(self, quaternions: Any) -> None:
        self.quaternions = quaternions


class _Rotations(_Quaternions):
    """A SciPy ``Rotation`` in the results that users receive; unflattening restores the ``Rotation``."""


register(_Quaternions, lambda stored: ([stored.quaternions], None), lambda _, parts: _Quaternions(parts[0]))
register(_Rotations, lambda stored: ([stored.quaternions], None), lambda _, parts: rotation_of(parts[0]))


def tangent_derivative(
    f: Callable[..., Any],
    kind: DerivativeKind,
    argnums: int | Sequence[int] | None,
    names: Sequence[Any],
    options: Options,
    chosen: SelectionRequest | None,
    on: On,
    into: On,
) -> Derivative:
    """Return a derivative of a kind in the tangent spaces of arguments and results.

    Args:
        f: user's function.
        kind: kind of the derivative.
        argnums: positions of the arguments to differentiate with respect to, as `Forms` takes them.
        names: names of these arguments, then positions and names of static arguments.
        options: options of the derivative.
        chosen: selection of rows, columns or entries; None for all.
        on: manifold of each of these arguments, or one for all of them.
        into: manifold of the result, or a container of manifolds.

    Raises:
        ArgumentError: if `on` or `into` is not a manifold, or does not fit the arguments or the kind.
    """
    refuse_assumptions({"assume": options.assume}, f"{kind.name} with on or into", "where arguments are moved")
    for name, manifold in (("on", on), ("into", into)):
        _check_manifolds(manifold, name)
    if into is not None and (kind.order > 1 or kind.of_number):
        raise ArgumentError(f"into is {into!r} for {kind.name}, whose function returns one number; leave into out")
    if kind.seeds is Seeds.SERIES or kind.factored:
        raise ArgumentError(f"on is {on!r} for {kind.name}, which has no tangent space; leave on out")
    if options.sparse is not None and into is not None and kind.values:
        raise ArgumentError(
            f"sparse and into cannot be combined for {kind.name}; call acc.jacobian with both, and acc.compile for "
            "the value"
        )
    differentiated: int | str | Sequence[int | str] = 0 if kind.has_seeds else requested_arguments(f, argnums, names[0])
    function = _OnManifolds(f, kind, differentiated, names[1:], options, chosen, on, into)
    if options.sparse is not None:
        return _Along(function)
    return _Folded(function)


def _check_manifolds(manifolds: On, name: str) -> None:
    if manifolds is None or isinstance(manifolds, Manifold):
        return
    contents = None if isinstance(manifolds, type) else opened(manifolds)
    if contents is None:
        raise ArgumentError(
            f"{name} is {manifolds!r:.80}; expected one of accumulus.manifolds, such as SO3, None for numbers, or a "
            "container of those"
        )
    for element in contents[1]:
        _check_manifolds(element, name)


class _TangentForms(Forms):
    """Forms of arguments that replace a ``Rotation`` by its quaternion and lists of numbers by arrays.

    Args:
        function: function that is recorded.
        differentiated: arguments whose tangent spaces are used.
        static: positions and names of constants.
        argnums: positions of the arguments that `function` is differentiated with respect to.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        differentiated: int | str | Sequence[int | str],
        static: Sequence[Any],
        *,
        argnums: int | Sequence[int] = (),
    ) -> None:
        super().__init__(function, function.__name__, argnums, None, *static)
        self._differentiated = [differentiated] if isinstance(differentiated, int | str) else [*differentiated]

    @property
    def _needed(self) -> list[int | str]:
        return [argument for argument in self._differentiated if not isinstance(argument, int) or argument > 0]

    def of(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Restructured | None, Sequence[Any]]:
        """Return the function in the form for these arguments, None if unchanged, and the numbers in the arguments."""
        return super().of(*self._stored(arguments, keywords))

    def reader(self, arguments: Sequence[Any], keywords: Mapping[str, Any], call: Restructured | None) -> Reader | None:
        """Return a function that extracts the numbers from further arguments of the same form."""
        stored, named = self._stored(arguments, keywords)
        read = super().reader(stored, named, call)
        if read is None or all(map(_is_same, (*stored, *named.values()), (*arguments, *keywords.values()))):
            return read
        read_stored = read
        return lambda positional, by_name: read_stored(*self._stored(positional, by_name))

    def _stored(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        fixed = {k % len(arguments) if isinstance(k, int) and arguments else k for k in self.static}
        positional = tuple([x if k in fixed else _stored(x, f"argument {k}") for k, x in enumerate(arguments)])
        return positional, {name: x if name in fixed else _stored(x, name) for name, x in keywords.items()}


def _is_same(one: Any, other: Any) -> bool:
    return one is other


def _stored(value: Any, path: str, kind: type[_Quaternions] = _Quaternions) -> Any:
    """Return a value with quaternions instead of rotations, and arrays instead of lists of numbers."""
    if is_rotation(value):
        return kind(quaternions_of(value))
    if type(value) in (float, np.ndarray) or isinstance(value, StandIn):
        return value
    if type(value) is list:
        value, _ = numbers_in(value, path)
    contents = None if isinstance(value, np.ndarray) else opened(value)
    if contents is None:
        return value
    parts = [
        element if fixed else _stored(element, path + label, kind)
        for element, label, fixed in zip(contents[1], contents[0].labels, contents[0].fixed, strict=True)
    ]
    return value if all(map(_is_same, parts, contents[1])) else contents[0].build(parts)


class _OnManifolds:
    """A derivative of a function in tangent spaces, as a function of the same arguments.

    Args:
        f: user's function.
        kind: kind of the derivative.
        differentiated: arguments to differentiate with respect to; for products with directions, the primals hold them.
        static: positions and names of constants.
        options, chosen: options of the derivative, and its selection of entries.
        on, into: manifolds of these arguments, and of the result.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        kind: DerivativeKind,
        differentiated: int | str | Sequence[int | str],
        static: Sequence[Any],
        options: Options,
        chosen: SelectionRequest | None,
        on: On,
        into: On,
    ) -> None:
        self.__name__, self.__doc__ = name_of(f), f.__doc__
        self.__qualname__ = self.__name__
        self.holder = holder_of(f)
        self.kind, self.differentiated, self.static = kind, differentiated, static
        self.options, self.selection = options, chosen
        self._function, self._on, self._into = f, on, into
        if kind.has_seeds:
            self.__signature__ = inspect.signature(_of_primals)
        else:
            with suppress(TypeError, ValueError):
                self.__signature__ = inspect.signature(f)
        #: The function as part of an enclosing recording, for any arguments.
        self._recordable = (
            f if is_plain(f) else Derivative(f, COMPILED, Forms(f, self.__name__, (), None, (), ()), options)
        )
        self._at_numbers = _AtNumbers(self, self)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return derivatives at one point: recorded within a recording, else computed by a separate program."""
        if ACTIVE.tape is None:
            return self._at_numbers.derivatives(arguments, keywords)
        kind, options = self.kind, self.options
        positional = [*map(_restored, arguments)]
        named = {name: _restored(x) for name, x in keywords.items()}
        seeds: Any = ()
        if kind.has_seeds:
            points, seeds = positional
            positional = [*points]
        value = None if self._into is None else self._call(positional, named)

        def near(*deltas: Any) -> Any:
            return self.moved(deltas, positional, named, value)

        near.__name__ = self.__name__
        deltas = self.zeros(positional, named)
        if kind.has_seeds:
            forms: Forms = DirectionForms(near, self.__name__, kind)
            derivatives = Derivative(near, kind, forms, options)(deltas, seeds)
            return (_shown(value), derivatives[1]) if value is not None and kind.values else derivatives
        alone = isinstance(self.differentiated, int | str)
        forms = Forms(near, self.__name__, 0 if alone else range(len(deltas)), None, (), ())
        inner = kind if value is None else replace(kind, values=False)
        derivatives = Derivative(near, inner, forms, options, self.selection)(*deltas)
        return (_shown(value), derivatives) if value is not None and kind.values else derivatives

    def zeros(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the zero tangent vector at each differentiated argument, in its structure."""
        tangents = []
        for argument, on in zip(*self._argument_manifolds(arguments), strict=True):
            held = arguments[argument] if isinstance(argument, int) else keywords[argument]
            tangents.append(_walk(held, on, f"argument {argument} of {self.__name__}", _zero))
        return tuple(tangents)

    def zeros_at(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the zero tangent vectors at arguments as users pass them; a single vector for a single argument."""
        positional = tuple([_stored(x, "") for x in arguments])
        named = {key: _stored(x, key) for key, x in keywords.items()}
        differentiated = [self.differentiated] if isinstance(self.differentiated, int | str) else self.differentiated
        if keywords or not all(isinstance(k, int) and -len(positional) <= k < len(positional) for k in differentiated):
            positional, named = positional_call(self, positional, named, self.__name__, differentiated)
        zeros = self.zeros(positional, named)
        return zeros[0] if isinstance(self.differentiated, int | str) else zeros

    def moved(
        self, deltas: Sequence[Any], arguments: Sequence[Any], keywords: Mapping[str, Any], value: Any = None
    ) -> Any:
        """Return the result at perturbed arguments; in local coordinates at `value` if the result has a manifold."""
        positional, named = [*arguments], dict(keywords)
        places, manifolds = self._argument_manifolds(arguments)
        if value is None and self._into is not None:
            value = self._call(positional, named)
        with perturbing():
            for argument, on, delta in zip(places, manifolds, deltas, strict=True):
                path, rest = f"argument {argument} of {self.__name__}", iter(_leaves(delta))
                move = partial(_moved, rest=rest, order=self.kind.order)
                if isinstance(argument, int):
                    positional[argument] = _walk(positional[argument], on, path, move)
                else:
                    named[argument] = _walk(named[argument], on, path, move)
            return self._differential(value, self._call(positional, named))

    @property
    def has_local_results(self) -> bool:
        """Return True if results are in local coordinates, so that a separate program computes the value."""
        return self._into is not None

    def value(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Return the result of the user's function, on numbers or recorded, with rotations as quaternions."""
        positional = [_restored(x, unit=True) for x in arguments]
        named = {name: _restored(x, unit=True) for name, x in keywords.items()}
        if self.kind.has_seeds:
            positional = [*positional[0]]
        if ACTIVE.tape is not None:
            return _stored(self._call(positional, named), "")
        return _stored(recorder_of(self._function).evaluate(partial(self._function, **named), positional), "")

    def _call(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        return self._recordable(*arguments, **keywords)

    def _argument_manifolds(self, arguments: Sequence[Any]) -> tuple[Sequence[int | str], list[On]]:
        """Return the arguments to differentiate with respect to, and the entry of `on` for each of them."""
        on, differentiated = self._on, self.differentiated
        if self.kind.has_seeds:
            places: Sequence[int | str] = range(len(arguments))
        elif isinstance(differentiated, int | str):
            return [differentiated], [on]
        else:
            places = differentiated
        if on is None or isinstance(on, Manifold):
            return places, [on] * len(places)
        if not isinstance(on, list | tuple) or len(on) != len(places):
            raise ArgumentError(
                f"on is {on!r:.80}; expected one entry for each of the {len(places)} arguments to differentiate with "
                "respect to, or one manifold for all of them"
            )
        return places, [*on]

    def _differential(self, value: Any, result: Any) -> Any:
        path = f"the result of {self.__name__}"
        if self._into is None:
            return _walk(result, None, path, _as_numbers)
        return _walk(result, self._into, path, partial(_linear, before=iter(_leaves(value))))


class _AtNumbers:
    """Values of a derivative at numbers, with which its recording is compared.

    The user's function is compared with its own recording. The derivative that contains it is computed by a separate
    program, planned greedily and without rewriting.

    Args:
        around: derivative of the user's function.
        function: function to evaluate: the derivative itself, or the function of tangent vectors.
    """

    def __init__(self, around: _OnManifolds, function: Callable[..., Any]) -> None:
        self.__name__, self.holder, self._around, self._function = around.__name__, around.holder, around, function
        with suppress(AttributeError):
            self.__signature__ = around.__signature__
        self._programs: tuple[Derivative, Derivative] | None = None

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the user's result, with quaternions for rotations."""
        return self._around.value(arguments, keywords)

    def derivatives(self, arguments: Sequence[Any], keywords: Mapping[str, Any], skipped: int = 0) -> Any:
        """Compute derivatives; the first `skipped` arguments do not belong to the user's function."""
        if self._programs is None:
            checked, quick = (
                Derivative(each, COMPILED, Forms(each, self.__name__, (), None, *self._around.static), options)
                for each, options in ((self, _CHECKED), (self._function, _QUICK))
            )
            self._programs = checked, quick
        checked, quick = self._programs
        checked(*arguments[skipped:], **keywords)
        return _stored(quick(*arguments, **keywords), "", _Rotations)


class _Folded(Derivative):
    """A derivative in tangent spaces as part of a function of the arguments, with zeros folded.

    Above `MOST_FOLDED` entries of tangent vectors, as for stacks of points, it delegates to `_Along`, which keeps
    arrays as loops.
    """

    def __init__(self, function: _OnManifolds) -> None:
        kind = function.kind
        forms = _TangentForms(function, () if kind.has_seeds else function.differentiated, function.static)
        shown = in_tangent_spaces(kind)
        super().__init__(function, shown, forms, replace(function.options, sparse=None))
        self._tangents = function
        self._along: _Along | None = None

    @property
    def _loops(self) -> _Along:
        """Return the function of tangent vectors as further arguments."""
        if self._along is None:
            self._along = _Along(self._tangents)
        return self._along

    def _call(self, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if ACTIVE.tape is None and self._is_long(positional, keywords):
            derivatives = self._loops(*positional, **keywords)
            self._last_form = self._loops._last_form
            return derivatives
        return super()._call(positional, keywords)

    def _into(self, positional: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        if self._is_long(positional, keywords):
            return self._loops(*positional, **keywords, out=out)
        return super()._into(positional, keywords, out)

    def compile(self, *examples: Any, **keywords: Any) -> Any:
        """Return the program for arguments of these shapes, see `Derivative.compile`."""
        if self._is_long(examples, keywords):
            program = self._loops.compile(*examples, **keywords)
            self._last_form = self._loops._last_form
            return program
        return super().compile(*examples, **keywords)

    def sparsity(self, *examples: Any, **keywords: Any) -> Any:
        """Return the sparsity pattern of the derivatives, see `Derivative.sparsity`."""
        return self._loops.sparsity(*examples, **keywords)

    def _is_long(self, positional: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
        function = self._tangents
        if function.kind.has_seeds or (function.kind.values and function.has_local_results):
            return False
        with suppress(AccumulusError, LookupError):
            return sum(map(np.size, _leaves(function.zeros_at(*positional, **keywords)))) > MOST_FOLDED
        return False


class _Along(Derivative):
    """A derivative with respect to tangent vectors that are arguments of the program, and zero in every call."""

    def __init__(self, function: _OnManifolds) -> None:
        moved, (static, names) = _Moved(function), function.static
        positions = (static,) if isinstance(static, int) else tuple(static)
        # the tangent vectors come first
        forms = _TangentForms(moved, (), ([k + 1 if k >= 0 else k for k in positions], names), argnums=0)
        super().__init__(moved, function.kind, forms, function.options, function.selection)
        self._tangents = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return derivatives at one point."""
        of_function = {name: x for name, x in keywords.items() if name != "out" or not self._takes_out}
        return super().__call__(*self._with_zeros(arguments, of_function), **keywords)

    @property
    def _takes_out(self) -> bool:
        assert self._forms is not None
        return self._forms.takes_out

    def batch(
        self,
        *arguments: Any,
        in_axes: Any = "auto",
        out: Any = None,
        threads: int | None = None,
        transposed: bool = False,
        **keywords: Any,
    ) -> Any:
        """Compute derivatives at many points, see `Derivative.batch`."""
        function = self._tangents
        call, numbers = _TangentForms(function, function.differentiated, function.static).of(arguments, keywords)
        if call is not None:
            in_axes = axes_of_numbers(call, numbers, in_axes, transposed, self._name)
        elif isinstance(in_axes, dict):
            in_axes = axes_by_position(function, numbers, in_axes, transposed, self._name)
        fixed = () if call is not None else static_positions(function.static[0], len(numbers))
        shapes = [None if k in fixed else shape_of(x, numbered(self._name, k)) for k, x in enumerate(numbers)]
        if in_axes == "auto":
            in_axes = tuple([(-1 if transposed else 0) if shape else None for shape in shapes])
        axes = axes_of_points(in_axes, shapes, [], transposed, self._name)
        at_one: Any = function.zeros_at
        if call is not None:
            at_one = Restructured(at_one, call.positional, call.keywords, call.names)
        zeros = at_one(*map(first_point, numbers, axes))
        form, operands = self._form_of((zeros, *arguments), keywords)
        return form._batch(operands, (*[None] * (len(operands) - len(numbers)), *axes), out, threads, transposed)

    def compile(self, *examples: Any, **keywords: Any) -> Any:
        """Return the program for arguments of these shapes; the tangent vectors are its first arguments."""
        return super().compile(*self._with_zeros(examples, keywords), **keywords)

    def prepared(self, *examples: Any, **keywords: Any) -> Any:
        """Return the program and its arguments, see `Derivative.prepared`."""
        return super().prepared(*self._with_zeros(examples, keywords), **keywords)

    def nonzeros(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the values of the nonzeros, see `Derivative.nonzeros`."""
        return super().nonzeros(*self._with_zeros(arguments, keywords), **keywords)

    def sparsity(self, *examples: Any, **keywords: Any) -> Any:
        """Return the sparsity pattern of the derivatives, see `Derivative.sparsity`."""
        return super().sparsity(*self._with_zeros(examples, keywords), **keywords)

    def _with_zeros(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._tangents.zeros_at(*arguments, **keywords), *arguments


#: The name of the first argument of `_Moved`.
DELTAS: Final = "deltas"


class _Moved:
    """The user's function at perturbed arguments, as a function of tangent vectors and the arguments."""

    def __init__(self, around: _OnManifolds) -> None:
        self.__name__, self.holder, self._around = around.__name__, around.holder, around
        self.__qualname__ = self.__name__
        first = inspect.Parameter(DELTAS, inspect.Parameter.POSITIONAL_ONLY)
        with suppress(AttributeError):
            parameters = around.__signature__.parameters.values()
            kind = (
                inspect.Parameter.POSITIONAL_ONLY if any(each.kind is first.kind for each in parameters) else first.kind
            )
            self.__signature__ = inspect.Signature([first.replace(kind=kind), *parameters])
        self._at_numbers = _AtNumbers(around, self)

    def __call__(self, deltas: Any, *arguments: Any, **keywords: Any) -> Any:
        """Return the result; on numbers, the derivatives at the arguments."""
        if ACTIVE.tape is None:
            return self._at_numbers.derivatives((deltas, *arguments), keywords, 1)
        positional, named = [*map(_restored, arguments)], {name: _restored(x) for name, x in keywords.items()}
        return self._around.moved(
            (deltas,) if isinstance(self._around.differentiated, int | str) else deltas, positional, named
        )


def _of_primals(primals: Any, seeds: Any) -> None: ...


def _restored(value: Any, *, unit: bool = False) -> Any:
    """Return a value with rotations instead of their quaternions, which are normalised if `unit`."""
    if type(value) is _Quaternions:
        return rotation_of(normalised(value.quaternions) if unit else value.quaternions)
    contents = None if isinstance(value, np.ndarray | StandIn) else opened(value)
    if contents is None:
        return value
    parts = [
        element if fixed else _restored(element, unit=unit)
        for element, fixed in zip(contents[1], contents[0].fixed, strict=True)
    ]
    return value if all(map(_is_same, parts, contents[1])) else contents[0].build(parts)


def _shown(value: Any) -> Any:
    """Return a result with quaternions converted back to rotations."""
    return _stored(value, "", _Rotations)


# Leaves and their manifolds -------------------------------------------------------------------------------------------


def _walk(value: Any, on: On, path: str, visit: Visit) -> Any:
    """Return a value with each leaf replaced by ``visit(leaf, manifold, path)``; constants stay.

    Raises:
        ArgumentError: if `on` does not fit the value.
    """
    is_leaf = isinstance(value, StandIn | np.ndarray | _Quaternions) or is_rotation(value)
    contents = None if is_leaf else opened(value)
    if contents is not None:
        container, held = contents
        parts = [
            element if fixed else _walk(element, each, path + label, visit)
            for element, each, label, fixed in zip(
                held, _below(on, container, path), container.labels, container.fixed, strict=True
            )
        ]
        return container.build(parts)
    if on is not None and not isinstance(on, Manifold):
        raise ArgumentError(f"{path} is not a container; expected a manifold or None for it, not {on!r:.80}")
    return visit(value, on, path) if is_leaf or shape_of(value, path) is not None else value


def _below(on: On, container: Container, path: str) -> list[On]:
    """Return the entry of `on` for each element of a container; None for elements that a dict does not name."""
    if on is None or isinstance(on, Manifold):
        return [on] * len(container.labels)
    contents = opened(on)
    assert contents is not None
    labels = contents[0].labels
    if isinstance(on, dict) and any(label.startswith(".") for label in container.labels):
        labels = tuple([f".{name}" for name in on])
    entries = dict(zip(labels, contents[1], strict=True))
    unknown = [label for label in entries if label not in container.labels]
    if unknown or (len(entries) < len(container.labels) and not isinstance(on, dict)):
        raise ArgumentError(
            f"{path} has the parts {', '.join(container.labels)}, and manifolds were given for "
            f"{', '.join(labels) or 'none of them'}; expected one for each part, or a dict with some of the parts"
        )
    return [entries.get(label) for label in container.labels]


def _leaves(value: Any) -> list[Any]:
    """Return the numbers in a value, in order."""
    numbers: list[Any] = []
    _walk(value, None, "", lambda leaf, *_: numbers.append(leaf))
    return numbers


def _zero(leaf: Any, manifold: Manifold | None, path: str) -> Any:
    """Return the tangent vector 0 at a leaf."""
    stored = leaf.quaternions if isinstance(leaf, _Quaternions) else quaternions_of(leaf)
    if stored is not leaf and manifold is not SO3:
        raise ArgumentError(f"{path} is a Rotation; expected accumulus.manifolds.SO3 for it, not {manifold}")
    shape = np.shape(stored)
    shape = shape if manifold is None else manifold.tangent_shape(shape, path)
    return np.zeros(shape) if shape else 0.0


def _moved(leaf: Any, manifold: Manifold | None, path: str, rest: Iterator[Any], order: int) -> Any:
    """Return a leaf moved along the next tangent vector."""
    delta = next(rest)
    if manifold is None:
        return leaf + delta
    moved = manifold.expansion(quaternions_of(leaf), delta, order)
    return rotation_of(moved) if is_rotation(leaf) else moved


def _linear(leaf: Any, manifold: Manifold | None, path: str, before: Iterator[Any]) -> Any:
    """Return a leaf of the result in local coordinates at its base value, to first order."""
    value = next(before)
    if manifold is None:
        return _as_numbers(leaf, manifold, path)
    _zero(leaf, manifold, path)
    return manifold.differential(quaternions_of(value), quaternions_of(leaf))


def _as_numbers(leaf: Any, manifold: Manifold | None, path: str) -> Any:
    if is_rotation(leaf):
        raise ArgumentError(f"{path} is a Rotation; pass into=accumulus.manifolds.SO3, or return its .as_quat()")
    return leaf
