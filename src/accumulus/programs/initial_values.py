"""Initial value problems in compiled programs: integrated by SciPy, with sensitivities of any order.

A right-hand side is recorded once, as a `System`. A program calls `Solution`, the states at all times as a function of
the initial state, the times and the parameters. Its derivative is `Sensitivities`: the variational equations
S' = ∂f/∂y·S + ∂f/∂p are integrated together with the states, for the requested columns only. They form a system as
well, so a second derivative is the derivative of a program that calls *their* solution, and so on. The derivative with
respect to a time is f at that time. The initial time is one more column, which begins with -f.

A product of weights with many columns of that Jacobian is `Adjoint`: the adjoint equations, integrated backward.

Newton's method in an implicit integrator uses ∂f/∂y as the diagonal blocks of the Jacobian of all equations. The
remaining part, the dependence of sensitivities on states, is nilpotent, so the iterations converge like those for the
states.

Source: T. Maly and L. R. Petzold, Numerical methods and software for sensitivity analysis of differential-algebraic
systems, 1996 (the simultaneous corrector).
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NoReturn

import numpy as np

from accumulus.errors import ArgumentError, IntegrationError, SizeError
from accumulus.forks import Lock
from accumulus.frontends.record import record
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivative import Derivative
from accumulus.programs.ensembles import METHODS_IN_LANES, TOO_MANY, Lanes, Problems
from accumulus.programs.equations import Call, Equations, Floats, RecordedFunction, compiled_derivative
from accumulus.programs.kinds import COMPILED, GRADIENT, JACOBIAN, VALUE_AND_JACOBIAN
from accumulus.tape.blocks import Opaque
from accumulus.tape.systems import Diagonal
from accumulus.tape.tape import Tape

#: Methods of `scipy.integrate.solve_ivp`, other than LSODA; True for implicit methods.
METHODS: Final = {"RK23": False, "RK45": False, "DOP853": False, "Radau": True, "BDF": True}
#: Methods of this library, for one problem and for many.
METHODS_HERE: Final = ("Rodas5P",)
#: Methods for many problems at once in place of a method: later ones take what earlier ones give up.
_IN_LANES: Final = {"LSODA": ("DOP853", "Rodas5P"), "Radau": ("Rodas5P",), "BDF": ("Rodas5P",)}
#: Estimated number of operations of a step up to which problems are integrated together, and the fewest problems.
_MOST_TOGETHER, _FEWEST_TOGETHER = 100_000, 64
#: Numbers of operations for each problem, without and with sensitivities, for which SciPy needs more time, such that
#: preparing takes as long as a few batches by SciPy. Smaller ones leave more problems to be integrated one after the
#: other, larger ones prepare for batches that end sooner.
_A_PROBLEM, _WITH_SENSITIVITIES = 16, 64
#: Number of states and sensitivities, and of nonzeros of the Jacobian, above which problems are not integrated
#: together: with more, finding out what its factors take would take long.
_LARGE, _FULL = 200, 4_000
#: Maximum number of evaluations of the right-hand side for each allowed step of an integrator of `solve_ivp`. With
#: more, a hopeless integration fails later; with fewer, implicit methods fail that need many Newton steps.
_PER_STEP: Final = 20
#: Number of states up to which the Jacobian of a system counts as full, without computing its pattern: a larger one
#: gives up bands that save work in each step, a smaller one prepares a pattern that saves little.
_SMALL: Final = 16
#: Number of states and sensitivities up to which their rates are compiled together. Above, matrix products are faster
#: to prepare; below, compiled rates are faster to call.
_COMPILED: Final = 400
#: Number of variational equations, for each integration between two times, from which on adjoint equations are faster.
#: Adjoint equations are integrated step by step in Python, and restarted at each time. A larger number integrates more
#: equations than needed, a smaller one spends more time in Python.
_VARIATIONAL: Final = 400
#: Number of stages of the methods with the most of them, for the estimate of operations.
_STAGES: Final = 12
#: Nodes of Gauss quadrature on steps from 0 to 1, and their weights.
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(5)[k] / 2.0 + (0.5, 0.0)[k] for k in range(2))
#: Maximum number of derivatives with respect to parameters at quadrature nodes that are in memory at once: more take
#: memory, fewer make smaller batches.
_ENTRIES: Final = 1_000_000
#: LSODA has global state before SciPy 1.17, and warnings are silenced for all threads.
_LOCK: Final = Lock()
#: Newton steps that correct the time of an event from the interpolated states to the integrated states. Each further
#: one integrates again; with fewer, the time keeps an error of the interpolation.
_EVENT_STEPS: Final = 4


@dataclass(frozen=True)
class Control:
    """Control of the integration of an initial value problem.

    Attributes:
        method: "LSODA", or one of `METHODS`.
        rtol: relative tolerance of a step.
        atol: absolute tolerances of a step, a single one, or one for each entry of the state.
        max_steps: maximum number of steps between two times.
        failure: "error" to raise an error if the integration fails, "nan" to return NaN.
    """

    method: str
    rtol: float
    atol: tuple[float, ...]
    max_steps: int
    failure: str

    def tolerances(self, size: int) -> Floats:
        """Return the absolute tolerances of a state of this size."""
        return np.broadcast_to(np.array(self.atol), size)


class System(Equations):
    """A right-hand side f(t, y, p) with a flat state and flat parameters.

    Args:
        tape: tape with the time, the state and the parameters as inputs, and the rates as outputs.
        size: number of entries of the state.
        name: name of the user's function, for messages.
        base: for variational equations, the original system, whose Jacobian gives all diagonal blocks.
    """

    def __init__(self, tape: Tape, size: int, name: str, base: System | None = None) -> None:
        super().__init__(tape, (None, size), name)
        self.size = size
        self.base: System = self if base is None else base.base
        self._augmented: dict[tuple[int, tuple[int, ...]], System] = {}
        self._lanes: dict[tuple[str, tuple[int, ...]], Lanes] = {}

    @cached_property
    def rates(self) -> CompiledProgram:
        """The compiled right-hand side."""
        return self.program(COMPILED)

    @cached_property
    def slopes(self) -> Callable[..., Any]:
        """The compiled rates, and their Jacobians with respect to the state and, if there are any, the parameters."""
        return self.program(VALUE_AND_JACOBIAN, (1, 2) if self.parameters else (1,))

    @cached_property
    def by_state(self) -> Callable[..., Any]:
        """The compiled Jacobian with respect to the state."""
        return self.program(JACOBIAN, 1)

    @cached_property
    def pulled(self) -> tuple[Derivative, Derivative]:
        """Products of weights, the last argument, with the Jacobians with respect to the state and the parameters."""
        return compiled_derivative(self._weighted, GRADIENT, self.name, 1), compiled_derivative(
            self._weighted, GRADIENT, self.name, 2
        )

    def _weighted(self, t: Any, y: Any, p: Any, w: Any) -> Any:
        return w @ self(t, y, p)

    @cached_property
    def bands(self) -> tuple[int, int]:
        """Numbers of diagonals of the Jacobian with respect to the state below and above the main one."""
        n = self.size
        if n <= _SMALL:
            return n - 1, n - 1
        rows, columns = compiled_derivative(self, JACOBIAN, self.name, 1).sparsity(*self.examples).nonzero()
        apart = (rows - columns).astype(int)
        return int(apart.max(initial=0)), int((-apart).max(initial=0))

    def augmented(self, plain: int, by_parameter: tuple[int, ...]) -> System:
        """Return the system with its variational equations.

        Args:
            plain: number of sensitivities without an inhomogeneous term: those to the initial state and time.
            by_parameter: parameters of the columns that follow.
        """
        key = plain, by_parameter
        if key not in self._augmented:
            n, columns = self.size, plain + len(by_parameter)
            slopes = compiled_derivative(self, VALUE_AND_JACOBIAN, self.name, (1, 2) if by_parameter else (1,))

            def equations(t: Any, z: Any, p: Any) -> Any:
                rates, matrices = slopes(t, z[:n], p)
                return _equations(rates, matrices, z[n:].reshape(columns, n), by_parameter)

            size = n * (1 + columns)
            recording = record(equations, [0.0, np.zeros(size), np.zeros(self.parameters)])
            self._augmented[key] = System(recording.tape, size, self.name, self)
        return self._augmented[key]

    # Numbers -----------------------------------------------------------------------------------------------------

    def states(self, y0: Floats, t: Floats, p: Floats, control: Control) -> Floats:
        """Return the states at all times, (times, size)."""
        if control.method in METHODS_HERE:
            return self.together(y0[:, np.newaxis], t[:, np.newaxis], p[:, np.newaxis], control)[..., 0]
        rates = self.rates
        atol = np.tile(control.tolerances(self.base.size), self.size // self.base.size)
        return self._integrated(lambda s, y: rates(s, y, p), y0, t, p, control, atol)

    def sensitivities(
        self, y0: Floats, columns: Floats, by_parameter: Sequence[int], t: Floats, p: Floats, control: Control
    ) -> tuple[Floats, Floats]:
        """Return the states at all times, and their sensitivities, (times, columns, size).

        Args:
            y0: initial state, (size,).
            columns: sensitivities at the first time, (columns, size).
            by_parameter: parameters that the last columns differentiate with respect to.
            t: times, (times,).
            p: parameters.
            control: method and tolerances.
        """
        n, by, plain = self.size, list(by_parameter), len(columns) - len(by_parameter)
        if control.method in METHODS_HERE:
            start = np.concatenate([y0, columns.reshape(-1)])[:, np.newaxis]
            scaled = [k for k in by for _ in range(n // self.base.size)]
            system = self.augmented(plain, tuple(by))
            found = system.together(start, t[:, np.newaxis], p[:, np.newaxis], control, scaled)
            return found[:, :n, 0], found[:, n:, 0].reshape(len(t), -1, n)
        if n * (1 + len(columns)) <= _COMPILED:
            together = self.augmented(plain, tuple(by)).rates

            def rates(s: float, z: Floats) -> Any:
                return together(s, z, p)
        else:
            slopes = self.slopes

            def rates(s: float, z: Floats) -> Any:
                values, matrices = slopes(s, z[:n], p)
                return _equations(values, matrices, z[n:].reshape(-1, n), by)

        scales = np.concatenate([np.ones(plain), np.abs(p[by])])
        scales[scales == 0.0] = 1.0
        tolerances = np.tile(control.tolerances(self.base.size), n // self.base.size)
        atol = np.concatenate([tolerances, (tolerances / scales[:, np.newaxis]).reshape(-1)])
        start = np.concatenate([y0, columns.reshape(-1)])
        integrated = self._integrated(rates, start, t, p, control, atol)
        return integrated[:, :n], integrated[:, n:].reshape(len(t), -1, n)

    # Numbers of many problems ------------------------------------------------------------------------------------

    @cached_property
    def _operations(self) -> int:
        """Estimated number of operations of a step of the methods for many problems."""
        n = self.base.size
        if self.size > _LARGE:
            return sys.maxsize
        pattern = np.ones((n, n), bool)
        if n > _SMALL:
            pattern = compiled_derivative(self.base, JACOBIAN, self.name, 1).sparsity(*self.base.examples).toarray()
        if np.count_nonzero(pattern) > _FULL:
            return sys.maxsize
        tape = Tape(int(np.count_nonzero(pattern)) + n)
        entries = np.full((n, n), tape.constant(0.0))
        entries[pattern] = np.arange(n, tape.inputs)
        entries[np.arange(n), np.arange(n)] = np.arange(n)
        Diagonal(tape, entries.tolist())
        return _STAGES * (len(self._tape) + _STAGES * self.size) + len(tape)

    def points_together(self, method: str) -> int:
        """Return the number of problems from which on they are integrated together."""
        if method in METHODS_HERE:
            return 1
        operations, a_problem = self._operations, _A_PROBLEM if self.base is self else _WITH_SENSITIVITIES
        return max(_FEWEST_TOGETHER, operations // a_problem) if operations <= _MOST_TOGETHER else sys.maxsize

    def lanes(self, method: str, scaled: tuple[int, ...]) -> Lanes:
        """Return the compiled steps of a method; for the arguments, see `Lanes`."""
        if (method, scaled) not in self._lanes:
            self._lanes[method, scaled] = Lanes(self, METHODS_IN_LANES[method](), scaled)
        return self._lanes[method, scaled]

    def together(self, y0: Floats, t: Floats, p: Floats, control: Control, scaled: Sequence[int] = ()) -> Floats:
        """Return the states of many problems at all their times, (times, size, problems).

        Args:
            y0: initial states, (size, problems).
            t: times, (times, problems).
            p: parameters, (parameters, problems).
            control: tolerances, and the method that a single problem would have.
            scaled: parameters by whose magnitudes the absolute tolerances of the last blocks of states are divided.

        Raises:
            IntegrationError: if a problem does not reach its last time.
            ArgumentError: for times that are not in order.
            SizeError: if a step is too long to be written out.
        """
        base = self.base.size
        if not self.size:
            return np.empty((len(t), *y0.shape))
        if self._operations > _MOST_TOGETHER:
            raise SizeError(
                f"a step of {control.method} for {self.name} is about {self._operations:,} operations, which are "
                f'written out; expected at most {_MOST_TOGETHER:,}. method="Radau" integrates it'
            )
        steps = np.diff(t, axis=0)
        wrong = ((steps < 0).any(axis=0) & (steps > 0).any(axis=0)) | np.isinf(t).any(axis=0)
        if wrong.any() and control.failure != "nan":
            check_times(t[:, np.argmax(wrong)], self.name)
        problems = Problems(y0, np.where(wrong, np.nan, t), p)
        blocks = (*[-1] * (self.size // base - len(scaled)), *scaled)
        atol, most = control.tolerances(base).copy(), float(control.max_steps)
        methods = _IN_LANES.get(control.method, (control.method,))
        for method in methods:
            left, is_last = problems.left, method == methods[-1]
            if len(left):
                self.lanes(method, blocks).run(problems, left, atol, control.rtol, most, leaves_stiff=not is_last)
        (failed,) = np.nonzero(problems.events)
        if len(failed) and control.failure != "nan":
            self._explain(problems, int(failed[0]), control)
        problems.states[:, :, failed] = np.nan
        return problems.states

    def _explain(self, problems: Problems, k: int, control: Control) -> NoReturn:
        """Raise the error of a problem that was given up."""
        why = "too many steps" if problems.events[k] == TOO_MANY else "the step gets too small"
        if not np.isfinite(self.rates(problems.t[k], problems.y[:, k].copy(), problems.p[:, k].copy())).all():
            why = f"{self.name} returns numbers that are not finite there"
        self.failed(problems.t[k], problems.times[:, k], control, why)

    # Numbers of one problem --------------------------------------------------------------------------------------

    def _integrated(
        self, rates: Callable[[float, Floats], Any], start: Floats, t: Floats, p: Floats, control: Control, atol: Floats
    ) -> Floats:
        """Return the solution of the equations at all times, (times, equations), with or without sensitivities.

        Raises:
            IntegrationError: if the integration does not reach the last time.
            ArgumentError: for times that are not in order.
        """
        check_times(t, self.name)
        if not all(np.isfinite(each).all() for each in (start, t, p)):
            return np.full((len(t), len(start)), np.nan)
        if t[0] == t[-1] or not start.size:
            return np.tile(start, (len(t), 1))
        run = _by_lsoda if control.method == "LSODA" else _by_solve_ivp
        solution: Floats = run(self, rates, start, t, p, control, atol)
        return solution

    def failed(self, t: Any, span: Floats, control: Control, why: str) -> NoReturn:
        """Raise the error of an integration that failed.

        Raises:
            IntegrationError: always.
        """
        at = "" if t is None else f" at t = {float(t):.9g}"
        raise IntegrationError(
            f"the integration of y' = {self.name}(t, y, …) by {control.method} ended{at}, between t = {span[0]:.9g} "
            f"and {span[-1]:.9g}: {why}. Expected a solution that exists and is smooth up to the last time: check "
            f"{self.name}, its parameters and y0, or allow rtol > {control.rtol:g} or max_steps > "
            f'{control.max_steps}; failure="nan" returns NaN instead'
        )

    def blocks(self, equations: int, p: Floats) -> Callable[[float, Floats], Floats]:
        """Return a function that computes the Jacobian's diagonal blocks as bands, (bands, equations)."""
        base, (lower, upper) = self.base, self.base.bands
        n, by_state = base.size, base.by_state
        distance = np.subtract.outer(np.arange(n), np.arange(n))
        rows, columns = np.nonzero((distance <= lower) & (distance >= -upper))
        into = (upper + rows - columns, columns)
        copies = (1, equations // n)

        def matrix(s: float, z: Floats) -> Floats:
            band = np.zeros((lower + upper + 1, n))
            band[into] = by_state(s, z[:n], p)[rows, columns]
            return np.tile(band, copies)

        return matrix


def _of_many(system: System) -> Callable[..., Any]:
    """Return the rates of a system as a function of the times, states and parameters of many problems."""

    def rates(t: Floats, y: Floats, p: Floats) -> Any:
        return system.rates.batch(t, np.ascontiguousarray(y), p, in_axes=(0, 1, 1), transposed=True)

    return rates


def _equations(rates: Any, matrices: Any, columns: Any, by_parameter: Sequence[int]) -> Any:
    """Return the rates of states and sensitivities, flat, for numbers or traced values.

    Args:
        rates: rates of the states.
        matrices: Jacobians with respect to the state, and to the parameters if some are selected.
        columns: sensitivities, (columns, size).
        by_parameter: parameters that the last columns differentiate with respect to.
    """
    column_rates = columns @ matrices[0].T
    if by_parameter:
        plain = len(columns) - len(by_parameter)
        further = matrices[1][:, list(by_parameter)].T
        column_rates = np.concatenate([column_rates[:plain], column_rates[plain:] + further])
    return np.concatenate([rates, column_rates.reshape(-1)])


# Integrators ---------------------------------------------------------------------------------------------------------


def check_times(t: Floats, name: str) -> None:
    """Raise an error for times that are not in order, or infinite.

    Raises:
        ArgumentError: for such times.
    """
    steps = np.diff(t)
    if (steps < 0).any() and (steps > 0).any():
        raise ArgumentError(f"t for {name} is {np.array2string(t, threshold=12)}; expected times in order, up or down")
    if np.isinf(t).any():
        raise ArgumentError(f"t for {name} is {np.array2string(t, threshold=12)}; expected finite times")


class _NotFiniteError(Exception):
    """A rate is not finite; the argument is the time."""


class _TooManyError(Exception):
    """The right-hand side was evaluated too often; the argument is the time."""


def _by_lsoda(
    system: System, rates: Any, start: Floats, t: Floats, p: Floats, control: Control, atol: Floats
) -> Floats:
    """Return states by LSODA from SciPy's ODEPACK, which switches between Adams methods and BDF."""
    from scipy import integrate

    odeint: Any = integrate.odeint  # its type stubs lack some arguments
    zeros, last = np.zeros(len(start)), t[0]

    def checked(s: float, z: Floats) -> Any:
        nonlocal last
        rate, last = rates(s, z), s
        if not math.isfinite(rate @ zeros):  # LSODA would continue with NaN as a state
            raise _NotFiniteError(s)
        return rate

    n, lower, upper = system.base.size, None, None
    matrix: Any
    if len(start) == n and 2 * sum(system.base.bands) >= n:
        by_state = system.base.by_state
        matrix = lambda s, z: by_state(s, z, p)  # noqa: E731  # the form that SciPy takes
    else:
        lower, upper = system.base.bands
        matrix = system.blocks(len(start), p)
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            states, report = odeint(
                checked,
                start,
                t,
                Dfun=matrix,
                ml=lower,
                mu=upper,
                tfirst=True,
                full_output=True,
                rtol=control.rtol,
                atol=atol,
                mxstep=control.max_steps,
            )
    except _NotFiniteError as error:
        system.failed(error.args[0], t, control, f"{system.name} returns numbers that are not finite there")
    if "success" not in report["message"] or not np.isfinite(states).all():
        system.failed(last, t, control, report["message"].rstrip("."))
    solution: Floats = states
    return solution


def _by_solve_ivp(
    system: System, rates: Any, start: Floats, t: Floats, p: Floats, control: Control, atol: Floats
) -> Floats:
    """Return states by a method of `scipy.integrate.solve_ivp`."""
    times, where = np.unique(t, return_inverse=True)
    times, where = (times, where) if t[0] < t[-1] else (times[::-1], len(times) - 1 - where)
    solution = _solve_ivp(system, rates, start, (t[0], t[-1]), p, control, atol, t_eval=times)
    states: Floats = solution.y.T[where]
    return states


def _solve_ivp(
    system: System,
    rates: Any,
    start: Floats,
    span: tuple[float, float],
    p: Floats,
    control: Control,
    atol: Floats,
    dense_output: bool = False,
    **further: Any,
) -> Any:
    """Return the result of `scipy.integrate.solve_ivp`.

    Raises:
        IntegrationError: if the integration fails.
    """
    from scipy import integrate
    from scipy.sparse import dia_array

    solve_ivp: Any = integrate.solve_ivp

    method = "Radau" if control.method in METHODS_HERE else control.method
    left = _PER_STEP * control.max_steps * max(len(further.get("t_eval", ())), 1)

    last = span[0]

    def counted(s: float, z: Floats) -> Any:
        nonlocal left, last
        left, last = left - 1, s
        if left < 0:
            raise _TooManyError(s)
        return rates(s, z)

    implicit: dict[str, Any] = {}
    if METHODS.get(method, False) and "jac" not in further:
        lower, upper = system.base.bands
        bands, size = system.blocks(len(start), p), len(start)
        offsets = np.arange(upper, -lower - 1, -1)
        implicit["jac"] = lambda s, z: dia_array((bands(s, z), offsets), shape=(size, size)).tocsc()
    ends = np.array(span)
    try:
        with _LOCK, warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            options = {"rtol": control.rtol, "atol": atol, "dense_output": dense_output, **implicit, **further}
            solution = solve_ivp(counted, span, start, method, **options)
    except _TooManyError as error:
        system.failed(error.args[0], ends, control, "too many steps")
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        system.failed(None, ends, control, f"{type(error).__name__}: {error}")
    if not solution.success or not np.isfinite(solution.y).all():
        system.failed(last, ends, control, str(solution.message).rstrip("."))
    return solution


# Calls of programs ---------------------------------------------------------------------------------------------------


class Solution(Call):
    """States at all times, as a function of the initial state, the times and the parameters, flat."""

    def __init__(self, system: System, times: int, control: Control) -> None:
        super().__init__(control.failure == "nan")
        self.system, self.times, self.control = system, times, control
        self._adjoints: dict[Any, Adjoint] = {}
        self.name = f"the solution of {system.name}"
        self.argument_count = system.size + times + system.parameters
        self.result_count = times * system.size

    def split(self, x: Any) -> tuple[Any, Any, Any]:
        """Return the initial state, times and parameters in a flat array of arguments, numeric or traced."""
        n = self.system.size
        return x[:n], x[n : n + self.times], x[n + self.times :]

    def computed(self, x: Floats) -> Floats:
        """Return the states at all times, by integration."""
        y0, t, p = self.split(x)
        return self.system.states(y0, t, p, self.control)

    @property
    def points_together(self) -> int:  # type: ignore[override]
        """Number of points of a batch from which on they are computed together."""
        return self.system.points_together(self.control.method)

    def computed_together(self, x: Floats) -> Floats:
        """Return the states at all times of many problems, by integration."""
        y0, t, p = self.split(x)
        return self.system.together(y0, t, p, self.control)

    def slopes(self, columns: tuple[int, ...]) -> Opaque:
        """Return the sensitivities as a function of the same arguments."""
        return Sensitivities(self, columns)

    def product(self, by: tuple[int, ...], count: int, is_transposed: bool) -> Opaque | None:
        """Return the adjoint equations if they are much fewer than the variational ones, else None; see `Opaque`."""
        n, times = self.system.size, self.times
        equations = n * sum(k <= n or k >= n + times for k in by)
        if not is_transposed or equations < _VARIATIONAL * (1 + count * (times - 1)):
            return None
        return self._adjoints.setdefault((by, count), Adjoint(self, by, count))

    def states(self, y0: Any, t: Any, p: Any) -> Any:
        """Record the states as traced values, (times, size)."""
        return self.recorded(np.concatenate([y0, t, p])).reshape(self.times, self.system.size)


class Sensitivities(Call):
    """Columns of the Jacobian of a solution with respect to arguments at some positions: (times, size, columns)."""

    def __init__(self, solution: Solution, columns: tuple[int, ...]) -> None:
        super().__init__(solution.returns_nan)
        self._solution, self.control = solution, solution.control
        self.name = f"the sensitivities of {solution.system.name}"
        self.argument_count = solution.argument_count
        self.result_count = solution.result_count * len(columns)
        n, times = solution.system.size, solution.times
        self._columns = columns
        # integrated columns: with respect to the initial state and time, then to parameters
        self._by_start = tuple(k for k in columns if k <= n)
        self._by_parameter = tuple(k - n - times for k in columns if k >= n + times)
        self._carried = [*self._by_start, *(k + n + times for k in self._by_parameter)]

    def computed(self, x: Floats) -> Floats:
        """Return the sensitivities, by integrating the variational equations."""
        system = self._solution.system
        y0, t, p = self._solution.split(x)
        start = self._start(system.rates, y0, t, p)
        if start:
            states, sensitivities = system.sensitivities(y0, np.stack(start), self._by_parameter, t, p, self.control)
        else:
            states, sensitivities = system.states(y0, t, p, self.control), np.empty((len(t), 0, system.size))
        return np.stack(self._arranged(system.rates, states, sensitivities, t, p), axis=2)

    @property
    def points_together(self) -> int:  # type: ignore[override]
        """Number of points of a batch from which on they are computed together."""
        equations, method = self._solution.system.size * (1 + len(self._carried)), self.control.method
        return self._equations.points_together(method) if equations <= _COMPILED else sys.maxsize

    @cached_property
    def _equations(self) -> System:
        """The system with its variational equations."""
        return self._solution.system.augmented(len(self._by_start), self._by_parameter)

    def computed_together(self, x: Floats) -> Floats:
        """Return the sensitivities of many problems, by integrating the variational equations."""
        system = self._solution.system
        y0, t, p = self._solution.split(x)
        n, start = system.size, self._start(_of_many(system), y0, t, p)
        scaled = [k for k in self._by_parameter for _ in range(n // system.base.size)]
        found = self._equations.together(np.concatenate([y0, *start]), t, p, self.control, scaled)
        columns = found[:, n:].reshape(len(t), len(start), *y0.shape)
        return np.stack(self._arranged(_of_many(system), found[:, :n], columns, t, p), axis=2)

    def slopes(self, columns: tuple[int, ...]) -> Opaque:
        """Return the derivative of a program that calls the solution of the variational equations."""
        return RecordedFunction(
            self._called, self.name, self.argument_count, self.result_count, self.returns_nan, self.points_together
        ).slopes(columns)

    def _called(self, x: Any) -> Any:
        """Return the result of `computed` for traced values, flattened."""
        solution = self._solution
        system, n = solution.system, solution.system.size
        y0, t, p = solution.split(x)
        start = self._start(system, y0, t, p)
        augmented_states = Solution(self._equations, solution.times, self.control).states(
            np.concatenate([y0, *start]), t, p
        )
        columns = augmented_states[:, n:].reshape(solution.times, len(start), n)
        return np.stack(self._arranged(system, augmented_states[:, :n], columns, t, p), axis=2).reshape(-1)

    def _start(self, rates: Callable[..., Any], y0: Any, t: Any, p: Any) -> list[Any]:
        """Return sensitivities at the first time, (size,) each, for numbers or traced values, or for many problems.

        Arrays of many problems have a further axis, here and in `_arranged`.
        """
        n = self._solution.system.size
        units = np.eye(n).reshape(n, n, *[1] * (y0.ndim - 1))
        return [
            *(-rates(t[0], y0, p) if k == n else np.broadcast_to(units[k], y0.shape) for k in self._by_start),
            *(np.zeros(y0.shape) for _ in self._by_parameter),
        ]

    def _arranged(self, rates: Callable[..., Any], states: Any, sensitivities: Any, t: Any, p: Any) -> list[Any]:
        """Return the requested columns, (times, size) each, in their order."""
        n, times = self._solution.system.size, self._solution.times
        columns = []
        for k in self._columns:
            if n <= k < n + times:
                at = k - n
                here = np.eye(times)[at].reshape(-1, *[1] * (states.ndim - 1)) * rates(t[at], states[at], p)[np.newaxis]
                columns.append(here + sensitivities[:, self._carried.index(k)] if k == n else here)
            else:
                columns.append(sensitivities[:, self._carried.index(k)])
        return columns


class Adjoint(Call):
    """Weights times the Jacobian of all states: λ' = -∂f/∂yᵀ·λ, integrated from the last time to the first.

    States between times come from the integrator's dense output. At each time, its weights are added to λ. The
    derivative with respect to the initial state is the final λ, and with respect to the parameters the integral of
    ∂f/∂pᵀ·λ. The integral is not an equation of the system, since there may be many parameters. It is a sum over Gauss
    nodes in each step, which are computed together.

    Args:
        solution: solution of the system.
        by: positions of the differentiated arguments.
        count: number of rows of weights, which follow the arguments.
    """

    def __init__(self, solution: Solution, by: tuple[int, ...], count: int) -> None:
        super().__init__(solution.returns_nan)
        self._solution, self._by, self._count = solution, list(by), count
        self._by_parameters = max(by) >= solution.system.size + solution.times
        self.name, self._taken = f"the adjoint of {solution.name}", solution.argument_count
        self.argument_count = self._taken + count * solution.result_count
        self.result_count = count * len(by)

    def computed(self, x: Floats) -> Floats:
        """Integrate forward once, and backward for each row of weights."""
        system, control = self._solution.system, self._solution.control
        y0, t, p = self._solution.split(x[: self._taken])
        check_times(t, system.name)
        if not np.isfinite(x).all():
            return np.full(self.result_count, np.nan)
        if control.method == "LSODA":
            system.states(y0, t, p, control)  # this compiled code finds early failures quickly
        n, states, path = system.size, np.tile(y0, (len(t), 1)), None
        if t[0] != t[-1]:
            jacobian = _with_jacobian(control, lambda s, y: system.by_state(s, y, p), n, *system.bands)
            rates, atol = (lambda s, y: system.rates(s, y, p)), control.tolerances(n)
            whole = replace(control, max_steps=control.max_steps * len(t))
            path = _solve_ivp(system, rates, y0, (t[0], t[-1]), p, whole, atol, True, **jacobian).sol
            states = path(t).T
        weights = x[self._taken :].reshape(self._count, len(t), n)
        return np.stack([self._pulled(each, states, t, p, path) for each in weights])[:, self._by]

    def _pulled(self, weights: Floats, states: Floats, t: Floats, p: Floats, path: Any) -> Floats:
        """Return derivatives of the weighted sum of all states with respect to all arguments.

        Args:
            weights: weights of all states, (times, size).
            states: states at all times, (times, size).
            t: times, (times,).
            p: parameters.
            path: states as a function of time; None if all times are equal.
        """
        system, control = self._solution.system, self._solution.control
        n, (lower, upper), (by_state, by_parameters) = system.size, system.bands, system.pulled
        adjoint, total = np.zeros(n), np.zeros(len(p))
        jacobian = _with_jacobian(control, lambda s, _: -system.by_state(s, path(s), p).T, n, upper, lower)

        def rates(s: float, z: Floats) -> Any:
            return -by_state(s, path(s), p, z)

        by_times = np.array([w @ system.rates(s, y, p) for w, s, y in zip(weights, t, states, strict=True)])
        for k in range(len(t) - 1, 0, -1):
            adjoint = adjoint + weights[k]
            if t[k] == t[k - 1] or not adjoint.any():
                continue
            atol = np.full(n, 1e-2 * control.rtol * np.abs(adjoint).max())
            back = _solve_ivp(system, rates, adjoint, (t[k], t[k - 1]), p, control, atol, True, **jacobian)
            adjoint = back.y[:, -1]
            steps = np.diff(back.t)[:, np.newaxis]
            nodes, lengths = (back.t[:-1, np.newaxis] + steps * _NODES).reshape(-1), (steps * _WEIGHTS).reshape(-1)
            for first in range(0, len(nodes) if self._by_parameters else 0, most := 1 + _ENTRIES // max(len(p), 1)):
                at, dt = nodes[first : first + most], lengths[first : first + most]
                total -= dt @ by_parameters.batch(at, path(at).T, p, back.sol(at).T, in_axes=(0, 0, None, 0))
        by_times[0] = -adjoint @ system.rates(t[0], states[0], p)
        return np.concatenate([adjoint + weights[0], by_times, total])


def _with_jacobian(
    control: Control, matrix: Callable[..., Floats], size: int, lower: int, upper: int
) -> dict[str, Any]:
    """Return options of `solve_ivp` with a banded Jacobian, a function of time and state, for implicit methods."""
    if control.method != "LSODA" or 2 * (lower + upper) >= size:
        return {"jac": matrix} if METHODS.get(control.method, True) else {}

    def banded(s: float, y: Floats) -> Floats:
        full, band = matrix(s, y), np.zeros((lower + upper + 1, size))
        for d in range(-lower, upper + 1):
            band[upper - d, max(d, 0) : size + min(d, 0)] = np.diagonal(full, d)
        return band

    return {"jac": banded, "lband": lower, "uband": upper}


class EventTime(Call):
    """The first time at which a function of time and state is zero, as a function of a system's arguments, flat.

    The derivative follows from the implicit function theorem. Let G(s, x) be the function on the solution at time s;
    the derivative is -∂G/∂x divided by ∂G/∂s at the event. It is recorded, and the time in it is a call of this
    function again.

    Args:
        solution: solution of the system, at two times.
        event: the function, as a system with one rate, of the same state and parameters.
        direction: 1 or -1 if the function has to rise or to fall, as in `scipy.integrate.solve_ivp`; else 0.
    """

    def __init__(self, solution: Solution, event: System, direction: float) -> None:
        super().__init__(solution.returns_nan)
        self._solution, self._event, self._direction, self.control = solution, event, direction, solution.control
        self.name = f"the event of {solution.system.name}"
        self.argument_count, self.result_count = solution.argument_count, 1

    def computed(self, x: Floats) -> Floats:
        """Return the time of the event, found during integration and corrected to the integrated states."""
        system, event, control = self._solution.system, self._event.rates, self.control
        y0, t, p = self._solution.split(x)
        check_times(t, system.name)
        if not np.isfinite(x).all():
            return np.full(1, np.nan)

        def crossing(s: float, y: Floats) -> float:
            return float(event(s, y, p)[0])

        vars(crossing).update(terminal=True, direction=self._direction)
        atol = control.tolerances(system.size)
        solution = _solve_ivp(
            system, lambda s, y: system.rates(s, y, p), y0, (t[0], t[1]), p, control, atol, events=[crossing]
        )
        if not len(solution.t_events[0]):
            system.failed(None, t, control, f"{self._event.name} does not become zero")
        time = float(solution.t_events[0][0])
        slopes, by_time = self._event.slopes, self._event.program(JACOBIAN, 0)
        for _ in range(_EVENT_STEPS):
            state = system.states(y0, np.array([t[0], time]), p, control)[-1]
            value, matrices = slopes(time, state, p)
            by_state = matrices[0]
            step = float(value[0] / (by_time(time, state, p)[0] + by_state[0] @ system.rates(time, state, p)))
            if not math.isfinite(step) or abs(step) <= 4.0 * math.ulp(time) or abs(step) > abs(t[1] - t[0]):
                break
            time -= step
        return np.array([time])

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Apply the implicit function theorem; the derivative with respect to the last time is zero."""
        by_time, by_rest = compiled_derivative(self._at, JACOBIAN, self.name, (0, 1))(self.recorded(x)[0], x)
        by_rest = by_rest * (np.arange(self.argument_count) != self._solution.system.size + 1)
        return (-by_rest / by_time)[list(columns)]

    def _at(self, s: Any, x: Any) -> Any:
        """Return the function on the solution at a time, for traced values."""
        return self._event(s, self._state(s, x), self._solution.split(x)[2])[0]

    def _state(self, s: Any, x: Any) -> Any:
        """Return the state at a time, for traced values."""
        y0, t, p = self._solution.split(x)
        return self._solution.states(y0, np.concatenate([t[:1], s.reshape(1)]), p)[1]

    def event(self, x: Any) -> tuple[Any, Any]:
        """Record the time of the event and the state at that time, as traced values."""
        time = self.recorded(x)[0]
        return time, self._state(time, x)
