"""Many initial value problems of one system at once, in the lanes of vectors.

A step of a method, with its error estimate and the size of the next step, is a function of the state of one problem. It
is recorded and compiled as any function is, and its batches advance all problems that have not ended: each has its own
time, step size and error control, and the numbers that it would have alone. Python looks only for problems that have
reached one of their times, or failed, and drops those that have ended.

Explicit methods are SciPy's, with their tableaus. The implicit one is Rodas5P, a Rosenbrock method: it solves eight
linear systems with one matrix in each step, without iterations, so that all problems take the same way through the
code. Its factors are written out for the pattern of the Jacobian. Pivots are on the diagonal. A bad pivot gives a bad
error estimate, after which the step is repeated with a smaller size, and 1/(γh) dominates the diagonal.

Sensitivities are further states (`System.augmented`). The Jacobian of the whole system has equal blocks on its
diagonal, whose factors are computed once, and only zeros above them.

Sources: E. Hairer, S. P. Nørsett and G. Wanner, Solving Ordinary Differential Equations I, 1993, section II.4 (step
sizes) and Solving Ordinary Differential Equations II, 1996, sections IV.2 (detection of stiffness) and IV.7 (Rosenbrock
methods); G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks within the Julia
Differential Equations package, BIT Numerical Mathematics 63, 2023 (the coefficients of Rodas5P).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import references_of
from accumulus.programs.equations import Floats, compiled_derivative
from accumulus.programs.kinds import COMPILED, JACOBIAN
from accumulus.tape.systems import Diagonal

Integers = NDArray[np.int64]
#: Rows of a problem's state before its entries: time, size of the next step, largest factor by which the step after it
#: may be longer, number of steps since the last requested time, number of steps that looked stiff, and an event.
TIME, STEP, LONGEST, STEPS, STIFF, EVENT, HEADER = range(7)
#: Events: a requested time is reached; the step is too small; there were too many steps; the problem is stiff.
REACHED, TOO_SMALL, TOO_MANY, IS_STIFF = 1.0, 2.0, 3.0, 4.0
#: A step is made so much shorter than the error estimate allows: with a larger factor, more steps are repeated.
SAFETY: Final = 0.9
#: Smallest and largest ratio of consecutive steps. Wider limits find the right size sooner, and more often exceed it.
SHORTEST, LONGER = 0.2, 8.0
#: Smallest step relative to the time. A smaller one advances the time by rounding errors.
SMALLEST: Final = 16.0 * 2.0**-52
#: Number of steps that look stiff before the problem counts as stiff, less a part of those between that do not. With
#: fewer, problems with a short stiff phase leave the explicit method; with more, stiff ones take longer.
STIFF_STEPS, NOT_STIFF = 15.0, 0.25
#: Part of all problems that have ended before the others move together. A smaller part copies more often, a larger one
#: computes more steps that are not used.
ENDED: Final = 0.25


class System(Protocol):
    """Rates of a state, y' = f(t, y, p), recorded for traced values; see `accumulus.programs.initial_values.System`."""

    size: int  # number of entries of the state
    parameters: int
    name: str

    @property
    def base(self) -> System:
        """The system without variational equations, whose Jacobian gives all diagonal blocks."""

    def __call__(self, *operands: Any) -> Any:
        """Record the rates for a time, a state and parameters."""


@dataclass(frozen=True, eq=False)
class Explicit:
    """An explicit Runge-Kutta method with an error estimate.

    Attributes:
        name: its name in SciPy.
        order: order of the error estimate, plus one.
        a: coefficients of the stages, (stages, stages).
        b: weights of the stages.
        c: times of the stages.
        errors: pairs of weights of an error estimate, for the stages and the rates after the step, and its part in the
            whole estimate; see `_size`.
        stiff_from: size of a step times the largest eigenvalue, from which on the step looks stiff; 0 for a method
            that cannot tell.
    """

    name: str
    order: float
    a: Floats
    b: Floats
    c: Floats
    errors: tuple[Floats, ...]
    stiff_from: float = 0.0

    @classmethod
    def of(cls, name: str) -> Explicit:
        """Return the method with a name, from `scipy.integrate`."""
        from scipy import integrate

        solver: Any = getattr(integrate, name)
        if name == "DOP853":
            # the last stage and the rates after the step are at the same time, so that their difference shows stiffness
            return cls(name, 8.0, solver.A, solver.B, solver.C, (solver.E5, solver.E3), 6.1)
        return cls(name, solver.error_estimator_order + 1.0, solver.A, solver.B, solver.C, (solver.E,))

    def kept(self, size: int) -> int:
        """Return the number of entries that a problem keeps: state and rates."""
        return 2 * size

    def stepped(self, system: System, t: Any, h: Any, entries: Any, p: Any) -> _Step:
        """Record a step."""
        n = system.size
        y, stages, at = entries[:n], [entries[n:]], entries[:n]
        for row, time in zip(self.a[1:], self.c[1:], strict=True):
            at = y + h * _combined(row, stages)
            stages.append(system(t + time * h, at, p))
        new = y + h * _combined(self.b, stages)
        rates = system(t + h, new, p)
        looks_stiff = np.bool_(False)
        if self.stiff_from:
            change, distance = rates - stages[-1], new - at
            looks_stiff = h * h * (change @ change) > self.stiff_from**2 * (distance @ distance)
        stages.append(rates)
        errors = [h * _combined(weights, stages) for weights in self.errors]
        return _Step(new, np.concatenate([new, rates]), errors, looks_stiff)

    def begun(self, y: Any, rates: Any) -> Any:
        """Return the entries that a problem keeps at the first time."""
        return np.concatenate([y, rates])


@dataclass(frozen=True, eq=False)
class Rosenbrock:
    """A Rosenbrock method that is stiffly accurate: its last stage is the error estimate.

    Attributes as for `Explicit`; stages are transformed so that the matrix multiplies none of them.
    """

    name: str
    order: float
    a: Floats
    b: Floats  # combinations of stages in the right-hand sides
    c: Floats
    d: Floats  # weights of the derivative by time
    gamma: float

    def kept(self, size: int) -> int:
        """Return the number of entries that a problem keeps: the state."""
        return size

    def stepped(self, system: System, t: Any, h: Any, entries: Any, p: Any) -> _Step:
        """Record a step."""
        y = at = entries
        matrix, by_time = (compiled_derivative(system, JACOBIAN, system.name, by)(t, y, p) for by in (1, 0))
        solve = _blocks_solved(system, matrix, 1.0 / (h * self.gamma))
        stages: list[Any] = []
        for before, of_side, time, weight in zip(self.a, self.b, self.c, self.d, strict=True):
            if stages:
                at = y + _combined(before, stages)
            side = system(t + time * h, at, p)
            if stages:
                side = side + _combined(of_side, stages) / h
            if weight:
                side = side + (weight * h) * by_time
            stages.append(solve(side))
        new = at + stages[-1]
        return _Step(new, new, [stages[-1]], np.bool_(False))

    def begun(self, y: Any, rates: Any) -> Any:
        """Return the entries that a problem keeps at the first time."""
        return y


def _rodas5p() -> Rosenbrock:
    a, b = np.zeros((8, 8)), np.zeros((8, 8))
    rows_a: list[tuple[float, ...]] = [
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946),
    ]
    rows_a += [(*rows_a[-1], 1.0), (*rows_a[-1], 1.0, 1.0)]
    rows_b: list[tuple[float, ...]] = [
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
        (
            30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623,
            -28.087943162872662,
        ),
        (
            37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002,
            -54.66780262877968, -9.48861652309627,
        ),
    ]  # fmt: skip
    for k, (row_a, row_b) in enumerate(zip(rows_a, rows_b, strict=True), 1):
        a[k, :k], b[k, :k] = row_a, row_b
    c = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)
    gamma = 0.21193756319429014
    d = (gamma, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0, 0.0)
    return Rosenbrock("Rodas5P", 5.0, a, b, np.array(c), np.array(d), gamma)


#: Functions that return a method, by its name.
METHODS_IN_LANES: Final[dict[str, Callable[[], Explicit | Rosenbrock]]] = {
    **{name: partial(Explicit.of, name) for name in ("RK23", "RK45", "DOP853")},
    "Rodas5P": _rodas5p,
}


@dataclass(frozen=True, slots=True)
class _Step:
    """A recorded step: the state after it, what a problem keeps, the error estimates, and if it looks stiff."""

    new: Any
    kept: Any
    errors: list[Any]
    looks_stiff: Any


def _combined(weights: Floats, arrays: Sequence[Any]) -> Any:
    """Return the sum of arrays with weights, of which there may be fewer or more than arrays."""
    terms = [weight * array for weight, array in zip(weights.tolist(), arrays, strict=False) if weight]
    return sum(terms[1:], terms[0])


def _blocks_solved(system: System, matrix: Any, diagonal: Any) -> Callable[[Any], Any]:
    """Return a function that solves systems with a multiple of the identity less the Jacobian of a system.

    The Jacobian has blocks as large as the base system. Those on the diagonal are equal, those above it are zero.
    """
    tape, n = ACTIVE.tape, system.base.size
    blocks = system.size // n
    first = references_of(tape, diagonal * np.eye(n) - matrix[:n, :n])
    factors = Diagonal(tape.open, first.tolist())

    def solve(side: Any) -> Any:
        found: list[Any] = []
        for k in range(blocks):
            rest = side[n * k : n * (k + 1)]
            for j, x in enumerate(found):
                below = references_of(tape, matrix[n * k : n * (k + 1), n * j : n * (j + 1)])
                if below.max() >= 0 or tape.values_of(below).any():
                    rest = rest + TracedArray(tape, below) @ x
            references = references_of(tape, rest)
            found.append(TracedArray(tape, np.array(factors.solve(tape.open, references.tolist()), np.int64)))
        return np.concatenate(found)

    return solve


class Lanes:
    """The compiled steps of a method for a system, and the integration of many problems by them.

    Args:
        system: the system, with or without variational equations.
        method: the method.
        scaled: for each block of states as large as the base system, the parameter by whose magnitude its absolute
            tolerances are divided; -1 for none.
    """

    def __init__(self, system: System, method: Explicit | Rosenbrock, scaled: Sequence[int]) -> None:
        self.system, self.method, self._scaled = system, method, tuple(scaled)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compiled"}  # it is compiled again

    # Recorded functions ------------------------------------------------------------------------------------------

    def _scales(self, y: Any, p: Any, atol: Any, rtol: Any) -> Any:
        """Return the error that each entry of the state may have."""
        scales = []
        for k in self._scaled:
            scales.append(atol if k < 0 else atol / np.where(p[k] == 0.0, 1.0, abs(p[k])))
        return np.concatenate(scales) + rtol * abs(y)

    def _size(self, values: Any) -> Any:
        """Return the largest root mean square of a block of states."""
        n = self.system.base.size
        squares = values * values
        sizes = [np.sum(squares[n * k : n * (k + 1)]) / n for k in range(len(self._scaled))]
        largest = sizes[0]
        for each in sizes[1:]:
            largest = np.maximum(largest, each)
        return np.sqrt(largest)

    def _error(self, errors: Sequence[Any], scales: Any) -> Any:
        """Return the size of the error estimate; two estimates are combined as in Hairer's DOP853."""
        sizes = [self._size(each / scales) for each in errors]
        if len(sizes) == 1:
            return sizes[0]
        fifth, third = sizes
        whole = np.sqrt(fifth * fifth + 0.01 * (third * third))
        return np.where(whole == 0.0, 0.0, fifth * fifth / np.where(whole == 0.0, 1.0, whole))

    def _begin(self, t: Any, y: Any, goal: Any, p: Any, atol: Any, rtol: Any) -> Any:
        """Return the state of a problem at its first time, with a step by Hairer's rule."""
        rates, scales, left = self.system(t, y, p), self._scales(y, p, atol, rtol), goal - t
        sizes = [self._size(each / scales) for each in (y, rates)]
        h = np.where((sizes[0] < 1e-5) | (sizes[1] < 1e-5), 1e-6, 0.01 * sizes[0] / np.maximum(sizes[1], 1e-5))
        h = np.copysign(np.minimum(h, abs(left)), left)
        curved = self._size((self.system(t + h, y + h * rates, p) - rates) / scales) / abs(h)
        largest = np.maximum(sizes[1], curved)
        further = np.where(
            largest <= 1e-15,
            np.maximum(1e-6, 1e-3 * abs(h)),
            (0.01 / np.maximum(largest, 1e-15)) ** (1.0 / self.method.order),
        )
        step = np.copysign(np.minimum(np.minimum(100.0 * abs(h), further), abs(left)), left)
        header = np.stack([t, step, LONGER + 0.0 * t, 0.0 * t, 0.0 * t, 0.0 * t])
        return np.concatenate([header, self.method.begun(y, rates)])

    def _advance(self, state: Any, goal: Any, p: Any, atol: Any, rtol: Any, most: Any, most_stiff: Any) -> Any:
        """Return the state of a problem after a step, or as it was if it has reached its goal."""
        t, planned, longest, steps, stiff = (state[k] for k in range(EVENT))
        n = self.system.size
        left = goal - t
        is_active, is_last = left != 0.0, abs(planned) >= abs(left)
        h = np.where(is_active, np.where(is_last, left, planned), 1.0)
        y = state[HEADER : HEADER + n]
        made = self.method.stepped(self.system, t, h, state[HEADER:], p)
        error = self._error(made.errors, self._scales(np.maximum(abs(y), abs(made.new)), p, atol, rtol))
        is_good = error <= 1.0
        factor = np.minimum(
            np.maximum(SAFETY * np.maximum(error, 1e-10) ** (-1.0 / self.method.order), SHORTEST), longest
        )
        after = h * np.where(is_good | (error > 1.0), factor, SHORTEST)  # NaN is neither
        after = np.where(is_good & is_last & (abs(after) < abs(planned)), planned, after)
        steps = steps + 1.0
        stiff = np.where(is_good, np.where(made.looks_stiff, stiff + 1.0, np.maximum(stiff - NOT_STIFF, 0.0)), stiff)
        event = np.where(
            is_good & is_last,
            REACHED,
            np.where(
                ~is_good & ~(abs(after) > SMALLEST * abs(t)),  # or not a number
                TOO_SMALL,
                np.where(steps > most, TOO_MANY, np.where(stiff > most_stiff, IS_STIFF, 0.0)),
            ),
        )
        time = np.where(is_good, np.where(is_last, goal, t + h), t)
        header = [time, after, np.where(is_good, LONGER, 1.0), steps, stiff, event]
        kept = np.where(is_good, made.kept, state[HEADER:])
        idle = [t, planned, longest, state[STEPS], state[STIFF], 0.0]
        return np.where(
            is_active, np.concatenate([np.stack(header), kept]), np.concatenate([np.stack(idle), state[HEADER:]])
        )

    @cached_property
    def _compiled(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """The compiled functions for many problems, whose arrays have the problems on the last axis."""
        system, size = self.system, HEADER + self.method.kept(self.system.size)
        y, p, atol = np.ones(system.size), np.ones(system.parameters), np.ones(system.base.size)
        begin = self._in_batches(self._begin, (0.0, y, 1.0, p, atol, 1.0), 2)
        return begin, self._in_batches(self._advance, (np.ones(size), 1.0, p, atol, 1.0, 1.0, 1.0), 4)

    def _in_batches(self, function: Callable[..., Any], examples: Sequence[Any], shared: int) -> Callable[..., None]:
        """Return a compiled function of arguments for many problems and the array of results.

        Args:
            function: the function for one problem.
            examples: its arguments.
            shared: number of the last arguments, which all problems share.
        """
        name = f"{self.method.name} of {self.system.name}"
        alike = tuple(k >= len(examples) - shared for k in range(len(examples)))
        _, program = compiled_derivative(function, COMPILED, name)._compiled(examples, "transposed", alike)
        kernel = program.kernel
        many = kernel.many(alike, True)

        def compute(*arrays: Any) -> None:
            if many is None or many(*arrays) is not None:
                x = [np.asarray(array, float) for array in arrays]
                kernel.batch(*x[:-1], shared=alike, out=x[-1:], transposed=True)

        return compute

    # Integration ---------------------------------------------------------------------------------------------------

    def run(
        self, problems: Problems, which: Integers, atol: Floats, rtol: float, most: float, *, leaves_stiff: bool = False
    ) -> None:
        """Integrate some problems from their times until each has passed its last one, or has failed.

        Args:
            problems: all problems; those that are integrated change.
            which: their positions.
            atol: absolute tolerances, one for each entry of the base system.
            rtol: relative tolerance.
            most: largest number of steps between two requested times.
            leaves_stiff: if True, problems that look stiff are given up.
        """
        most_stiff = STIFF_STEPS if leaves_stiff else np.inf
        begin, advance = self._compiled
        problems.events[which] = 0.0
        size, goal, p = self.system.size, problems.goals(which), np.ascontiguousarray(problems.p[:, which])
        state = np.empty((HEADER + self.method.kept(size), len(which)))
        begin(problems.t[which], np.ascontiguousarray(problems.y[:, which]), goal, p, atol, rtol, state)
        other = np.empty_like(state)
        while len(which):
            advance(state, goal, p, atol, rtol, most, most_stiff, other)
            state, other = other, state
            (at,) = state[EVENT].nonzero()
            if not len(at):
                continue
            problems.record(which[at], state[:, at], size)
            state[STEPS, at] = 0.0
            goal[at] = problems.goals(which[at])
            (left,) = np.nonzero(goal != state[TIME])
            if len(left) <= (1.0 - ENDED) * len(which):
                which, goal, p = which[left], goal[left], np.ascontiguousarray(p[:, left])
                state = np.ascontiguousarray(state[:, left])
                other = np.empty_like(state)


class Problems:
    """Initial value problems of one system, and how far they are integrated.

    Args:
        y0: initial states, (size, problems).
        times: times at which states are requested, in order up or down, (times, problems).
        p: parameters, (parameters, problems).

    Attributes:
        states: states at the requested times, (times, size, problems); NaN if they are not known.
        t, y: time of each problem, and its state if it was given up.
        events: `TOO_SMALL`, `TOO_MANY` or `IS_STIFF` for problems that were given up, else 0.
    """

    def __init__(self, y0: Floats, times: Floats, p: Floats) -> None:
        self.times, self.p, self.t, self.y = times, p, times[0].copy(), y0.copy()
        self.states = np.full((len(times), *y0.shape), np.nan)
        self.events = np.zeros(y0.shape[1])
        #: Number of times of each problem that have been reached.
        self._reached = np.zeros(y0.shape[1], np.int64)
        is_known = np.isfinite(y0).all(axis=0) & np.isfinite(times).all(axis=0) & np.isfinite(p).all(axis=0)
        self._reached[~is_known] = len(times)
        which = np.flatnonzero(is_known)
        self._arrive(which, y0[:, which])

    @property
    def left(self) -> Integers:
        """Positions of the problems that have times to reach."""
        return np.flatnonzero(self._reached < len(self.times))

    def goals(self, which: Integers) -> Floats:
        """Return the next time of each problem; its own time if there is none, or if it was given up."""
        at = self._reached[which]
        is_over = (at == len(self.times)) | (self.events[which] != 0.0)
        return np.where(is_over, self.t[which], self.times[np.minimum(at, len(self.times) - 1), which])

    def record(self, which: Integers, state: Floats, size: int) -> None:
        """Record the states of problems that have reached a time, or failed, (rows, problems)."""
        self.t[which], y = state[TIME], state[HEADER : HEADER + size]
        failed = state[EVENT] != REACHED
        if failed.any():
            self.events[which[failed]], self.y[:, which[failed]] = state[EVENT, failed], y[:, failed]
            which, y = which[~failed], y[:, ~failed]
        self._arrive(which, y)

    def _arrive(self, which: Integers, y: Floats) -> None:
        """Record the states of problems at their next time, and at those equal to it."""
        while len(which):
            at = self._reached[which]
            self.states[at, :, which] = y.T
            self._reached[which] = at = at + 1
            is_same = at < len(self.times)
            is_same[is_same] = self.times[at[is_same], which[is_same]] == self.t[which[is_same]]
            which, y = which[is_same], y[:, is_same]
