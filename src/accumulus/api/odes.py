"""Solutions of ordinary differential equations within functions, with their derivatives.

Sources: L. Petzold, Automatic selection of methods for solving stiff and nonstiff systems of ordinary differential
equations, SIAM Journal on Scientific and Statistical Computing 4, 1983 (LSODA); E. Hairer, S. P. Nørsett and G. Wanner,
Solving Ordinary Differential Equations I, 1993, section I.14 (variational equations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.api.jacobians import compile as compiled
from accumulus.errors import ArgumentError, TraceError, unknown_name
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import name_of
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.bodies import Body, Place
from accumulus.frontends.numpy.custom import check_callable
from accumulus.frontends.numpy.operands import concrete, references_of
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.trees import Branch, Leaf, Structure, flatten, unflatten
from accumulus.programs.equations import decided, recorded_equations
from accumulus.programs.initial_values import METHODS, METHODS_HERE, Control, EventTime, Solution, System, check_times
from accumulus.tape.interpreter import copied
from accumulus.tape.live import needed, signed_zeros
from accumulus.tape.tape import Tape, from_bytes, to_bytes

#: Number of functions and right-hand sides whose programs are cached: more take memory, fewer prepare programs again.
_KEPT: Final = 64
_KNOWN_METHODS: Final = ("LSODA", *METHODS, *METHODS_HERE)


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    method: str = "LSODA",
    rtol: float = 1e-8,
    atol: Any = 1e-10,
    max_steps: int = 10_000,
    failure: str = "error",
    event: Callable[..., Any] | None = None,
    **unknown: Any,
) -> Any:
    """Return the solution of y' = f(t, y, …), y(t[0]) = y0, at the times t.

    Call it on numbers, or within functions that are compiled and differentiated; f is compiled with its Jacobian.
    Derivatives of any order with respect to y0, the times and the parameters (`args` and traced values that f closes
    over) solve the variational equations, integrated together with the states to the same tolerances. Gradients with
    more than a few hundred sensitivities solve the adjoint equations instead. In batches of functions that call it,
    many problems are integrated at once, in the lanes of vectors; each has its own step size.

    Args:
        f: function of a time, a state with the structure and shapes of y0, and `args`. It returns the rates of the
            state in the same structure, or as one flat array. It is recorded once, so branches must be ``if`` or
            `np.where`.
        y0: the state at the first time: a number, an array of any shape, or lists, tuples, dicts and data classes of
            these.
        t: times, shape (times,), ascending or descending; equal times are allowed.
        args: parameters of f: numbers, arrays of any shape, or containers of these; and constants.
        method: "LSODA", which switches between Adams methods and BDF for stiff equations; explicit "RK23", "RK45",
            "DOP853"; implicit "Radau", "BDF"; "Rodas5P" for stiff equations, with compiled steps. Large batches have
            DOP853 in place of "LSODA", until the equations look stiff; Rodas5P from then on, and in place of "Radau"
            and "BDF".
        rtol: relative tolerance. The error of a step may be up to ``atol + rtol * abs(y)`` in each entry.
        atol: absolute tolerance in units of y0, a number or an array of the shape of y0. For the sensitivity to a
            parameter p it is divided by ``abs(p)``.
        max_steps: limit of the steps between two times.
        failure: behaviour if the last time is not reached: "error" raises; "nan" returns NaN, in a batch only at the
            failing point.
        event: function of the arguments of f that returns a number. Integration ends at its first zero between the two
            times in t. An attribute ``direction`` of 1 or -1 requires that it rises or falls there.
        **unknown: must be empty; any other option raises an `UnknownNameError`.

    Returns:
        The states, in the structure of y0, with an additional leading axis of times. With an event, the pair (time,
        state) at the event. Both have derivatives of any order.

    Raises:
        ArgumentError: for arguments that are none of the above, and for rates whose shapes differ from the state's.
        IntegrationError: at a call, if a step gets too small, there are too many steps, or f is not finite; the message
            names the time.
        TraceError: if f cannot be recorded.
        SizeError: if f has more than a million operations, or is too long for "Rodas5P", which writes out its systems.
        OpaqueError: in source text, files, ``float32`` and ``exact_order``, as for `accumulus.custom`.
        UnknownNameError: for a method, a value of failure, or an option that does not exist.

    >>> import numpy as np
    >>> import accumulus as acc
    >>> def cooling(t, y, rate):
    ...     return -rate * (y - 20.0)
    >>> times = np.array([0.0, 1.0, 2.0])
    >>> acc.odeint(cooling, 80.0, times, 0.5).round(6)
    array([80.      , 56.39184 , 42.072767])
    >>> acc.jacobian(lambda rate: acc.odeint(cooling, 80.0, times, rate)[1:])(0.5).round(6)
    array([-36.39184 , -44.145533])
    """
    if unknown:
        raise unknown_name(
            "option of odeint", next(iter(unknown)), ("method", "rtol", "atol", "max_steps", "failure", "event")
        )
    if not callable(f):
        raise ArgumentError(f"f is {f!r:.60}; expected a function of a time, a state and parameters")
    control = _checked(method, rtol, atol, max_steps, failure)
    if event is not None and not callable(event):
        raise ArgumentError(f"event is {event!r:.60}; expected a function of a time, a state and parameters")
    if ACTIVE.tape is None:
        return _on_numbers(f, control, event)(y0, t, *args)
    return _Problem(f, y0, t, args, control).recorded(event)


def _checked(method: Any, rtol: Any, atol: Any, max_steps: Any, failure: Any) -> Control:
    if method not in _KNOWN_METHODS:
        raise unknown_name("method of odeint", method, _KNOWN_METHODS)
    if isinstance(rtol, bool) or not isinstance(rtol, int | float | np.number) or not 1e-13 <= rtol < 1.0:
        raise ArgumentError(f"rtol is {rtol!r:.60}; expected a number of at least 1e-13, below 1")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int | np.integer) or max_steps < 1:
        raise ArgumentError(f"max_steps is {max_steps!r:.60}; expected a whole number, at least 1")
    if failure not in ("error", "nan"):
        raise unknown_name("failure of odeint", failure, ("error", "nan"))
    try:
        leaves = [np.ravel(np.asarray(leaf, float)) for _, leaf in flatten(concrete(atol))[1]]
    except (TypeError, ValueError, TraceError):
        leaves = []
    entries = np.concatenate([np.empty(0), *leaves])
    if not entries.size or not (np.isfinite(entries) & (entries > 0.0)).all():
        raise ArgumentError(f"atol is {atol!r:.60}; expected positive numbers, one or in the shape of y0")
    return Control(method, float(rtol), tuple(entries.tolist()), int(max_steps), failure)


def _on_numbers(f: Callable[..., Any], control: Control, event: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return the compiled function of initial state, times and arguments; equal functions share one program."""
    try:
        return _kept(f, control, event)
    except TypeError:  # f cannot be hashed
        return _compiled(f, control, event)


def _compiled(f: Callable[..., Any], control: Control, event: Callable[..., Any] | None) -> Callable[..., Any]:
    def solution(y0: Any, t: Any, *args: Any) -> Any:
        if ACTIVE.tape is None:  # check f on numbers, to locate an error in it
            return f(t[0], y0, *args), event is None or event(t[0], y0, *args)
        return _Problem(f, y0, t, args, control).recorded(event)

    solution.__name__ = f"odeint({name_of(f)})"
    return compiled(solution, check=False)


_kept: Final = lru_cache(maxsize=_KEPT)(_compiled)


class _Problem:
    """An initial value problem with traced values.

    Args:
        f, y0, t, args, control: as for `odeint`; `control` holds method, tolerances and limits.
    """

    def __init__(self, f: Callable[..., Any], y0: Any, t: Any, args: Sequence[Any], control: Control) -> None:
        self.tape: Any = ACTIVE.tape
        self.name, self._f, self._args, self.control = name_of(f), f, args, control
        check_callable(self.tape, f"odeint({self.name})")
        self.structure, leaves = flatten(y0)
        for path, leaf in leaves:
            _check_real(leaf, f"y0{path}", self.name)
        self.leaf_shapes: list[Place] = [(np.shape(leaf), False) for _, leaf in leaves]
        parts = [references_of(self.tape, leaf).reshape(-1) for _, leaf in leaves]
        self.start = np.concatenate([np.empty(0, np.int64), *parts])
        _check_real(t, "t", self.name)
        self.times = references_of(self.tape, t)
        if self.times.ndim != 1 or not len(self.times):
            raise ArgumentError(
                f"t for odeint({self.name}) has shape {self.times.shape}; expected one axis of one time or more"
            )
        if (self.times < 0).all():
            check_times(self.tape.values_of(self.times), self.name)
        if len(control.atol) not in (1, len(self.start)):
            raise ArgumentError(
                f"atol has {len(control.atol)} entries, and y0 for odeint({self.name}) {len(self.start)}; expected one "
                "number, or one for each entry"
            )

    def recorded(self, event: Callable[..., Any] | None = None) -> Any:
        """Return the states as traced values in the structure of y0, or the pair (time, state) at an event."""
        f, at = decided(self._f), decided(event)
        args, parameters = self._parameters()

        def equations(s: Any, y: Any, p: Any) -> Any:
            given = args(p)
            rates = _ordered(f(s, y, *given), y)
            return rates if event is None else (rates, at(s, y, *given))

        arguments: list[tuple[Structure, Sequence[Place]]] = [
            (Leaf(), [((), False)]),
            (self.structure, self.leaf_shapes),
            (Leaf(), [(parameters.shape, False)]),
        ]
        body = recorded_equations(equations, self._f, arguments, self.tape, self.name)
        body = _without_unused(body, 1 + len(self.start), parameters)
        rates, crossing = self._parted(body, event)
        system = _system(to_bytes(rates), len(self.start), self.name)
        solution = _solution(system, len(self.times), self.control)
        operands = TracedArray(self.tape, np.concatenate([self.start, self.times, body.taken]))
        if event is None or crossing is None:
            states = solution.recorded(operands).reshape(len(self.times), len(self.start))
            return self.arranged(references_of(self.tape, states))
        at = _system(to_bytes(crossing), len(self.start), name_of(event))
        time, state = EventTime(solution, at, float(getattr(event, "direction", 0))).event(operands)
        return time, self.arranged(references_of(self.tape, state))

    def _parameters(self) -> tuple[Callable[[Any], Sequence[Any]], NDArray[np.int64]]:
        """Return the traced numbers in `args` as parameters of the equations.

        What f computes from them alone is thus a part of the equations. Otherwise each such value would be a parameter,
        with a sensitivity of its own.

        Returns:
            A function from parameters inside the equations to `args`; references of the parameters.
        """
        structure, leaves = flatten(self._args)
        parts = [leaf for _, leaf in leaves]
        traced = [k for k, leaf in enumerate(parts) if _is_real(leaf)]
        references = [references_of(self.tape, parts[k]) for k in traced]
        distinct = np.unique(np.concatenate([np.empty(0, np.int64), *(each[each >= 0] for each in references)]))

        def args(p: Any) -> Sequence[Any]:
            given = [*parts]
            for k, each in zip(traced, references, strict=True):
                is_traced = each >= 0
                if is_traced.any():
                    given[k] = p[np.searchsorted(distinct, np.where(is_traced, each, distinct[0]))]
                if not is_traced.all():
                    constants = np.zeros(each.shape)
                    constants[~is_traced] = self.tape.values_of(each[~is_traced])
                    given[k] = np.where(is_traced, given[k], constants) if is_traced.any() else constants
            return unflatten(structure, given)  # type: ignore[no-any-return]

        return args, distinct

    def _parted(self, body: Body, event: Callable[..., Any] | None) -> tuple[Tape, Tape | None]:
        """Return the tapes of the rates, whose shapes are checked, and of the event; both take the same inputs."""
        if event is None:
            self._check_rates(body.structure, body.results)
            return body.tape, None
        assert isinstance(body.structure, Branch)
        count = len(body.results) - 1
        if len(self.times) != 2 or body.results[-1] != ((), False) or not isinstance(body.structure.parts[1], Leaf):
            raise ArgumentError(
                f"event for odeint({self.name}) is {name_of(event)}, and t has {len(self.times)} times; expected a "
                "function that returns one real number, and two times: the initial time, and one after the event"
            )
        self._check_rates(body.structure.parts[0], body.results[:count])
        rates, crossing = body.tape.copy(), body.tape.copy()
        rates.outputs, crossing.outputs = rates.outputs[:-1], crossing.outputs[-1:]
        return rates, crossing

    def arranged(self, states: NDArray[np.int64]) -> Any:
        """Return states, (…, entries), in the structure of y0."""
        parts, first, axes = [], 0, states.shape[:-1]
        for shape, _ in self.leaf_shapes:
            size = int(np.prod(shape))
            entries = states[..., first : first + size].reshape((*axes, *shape))
            parts.append(make(self.tape, entries if entries.ndim else int(entries)))
            first += size
        return unflatten(self.structure, parts)

    def _check_rates(self, structure: Structure, results: Sequence[Place]) -> None:
        """Raise an `ArgumentError` if the rates do not have the form of the state."""
        shapes = [shape for shape, _ in results]
        expected = [shape for shape, _ in self.leaf_shapes]
        in_row = isinstance(self.structure, Leaf) and sum(map(_size, shapes)) == _size(expected[0])
        if any(boolean for _, boolean in results) or not (
            (structure == self.structure and shapes == expected) or in_row
        ):
            returned = unflatten(structure, [f"shape {shape}" for shape in shapes])
            raise ArgumentError(
                f"{self.name} returned {returned} for a state of {unflatten(self.structure, expected)} (shapes); "
                "expected real numbers in the structure of y0"
            )


def _is_real(leaf: Any) -> bool:
    """Return True for traced real numbers."""
    return isinstance(leaf, Traced) and not (leaf.boolean or leaf.is_complex)


def _without_unused(body: Body, first: int, parameters: NDArray[np.int64]) -> Body:
    """Return recorded equations with their parameters, from input `first` on, as values that they take; if used."""
    tape, live = body.tape, needed(body.tape)
    used = {*tape.outputs}.union(*(tape.arguments(k) for k in range(tape.inputs, len(tape)) if live[k]))
    is_used = np.array([k in used for k in range(first, tape.inputs)], np.bool_)
    made = Tape(first + int(np.count_nonzero(is_used)))
    inputs = np.full(tape.inputs, made.constant(0.0))
    inputs[:first], inputs[first:][is_used] = np.arange(first), np.arange(first, made.inputs)
    made.outputs = copied(tape, made, inputs.tolist(), signed=signed_zeros(tape))
    return replace(body, tape=made, taken=np.concatenate([parameters, body.taken])[is_used])


def _ordered(value: Any, like: Any) -> Any:
    """Return a value whose dicts have their keys in the order of those in `like`."""
    if type(value) is dict and type(like) is dict and value.keys() == like.keys():
        return {key: _ordered(value[key], like[key]) for key in like}
    return value


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))


@lru_cache(maxsize=_KEPT)
def _system(rows: bytes, size: int, name: str) -> System:
    """Return the system of a serialised tape; equal right-hand sides are compiled once."""
    return System(from_bytes(rows), size, name)


@lru_cache(maxsize=_KEPT)
def _solution(system: System, times: int, control: Control) -> Solution:
    return Solution(system, times, control)


def _check_real(leaf: Any, subject: str, name: str) -> None:
    """Raise an `ArgumentError` for anything but a real number or an array of real numbers."""
    real = _is_real(leaf) if isinstance(leaf, Traced) else np.asarray(leaf).dtype.kind in "fiuO" and leaf is not None
    if not real:
        raise ArgumentError(
            f"{subject} for odeint({name}) is {type(leaf).__name__} {leaf!r:.60}; expected real numbers"
        )
