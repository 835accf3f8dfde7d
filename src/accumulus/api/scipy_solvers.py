"""Recording of calls of SciPy's solvers that depend on traced values, by arguments or through functions.

Each call is recorded as an opaque call of SciPy's own solver on the compiled equations, so values equal SciPy's.
Derivatives of solutions of differential equations are those of `accumulus.odeint`; derivatives of roots and integrals
are those of `accumulus.programs.root_finding`. A call is refused if its values would differ from SciPy's, or if its
derivatives would be less accurate than the solver; the message shows the call to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import signature
from types import FunctionType
from typing import Any, Final
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from accumulus.api.odes import odeint
from accumulus.errors import ConvergenceError
from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.location import cells
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.bodies import Place
from accumulus.frontends.numpy.custom import call_block
from accumulus.frontends.numpy.operands import depends, references_of
from accumulus.frontends.trees import Leaf
from accumulus.programs.equations import Equations, Floats, decided, in_row, recorded_equations
from accumulus.programs.kinds import COMPILED, JACOBIAN
from accumulus.programs.root_finding import Integral, Root, slope, stationary
from accumulus.tape.tape import from_bytes, to_bytes

#: Number of systems of equations whose programs are cached: more take memory, fewer prepare programs again.
_MOST_CACHED: Final = 64
#: Maximum step of Newton's method at a minimum, relative to 1 + |x|. SciPy's tolerances are 1e-5 and 1e-8. With a
#: larger number, minima at a bound pass as stationary; with a smaller one, loose tolerances are refused.
_FLAT: Final = 1e-3
#: Names of tolerances of solvers, and the largest of their defaults except for `xatol`: solvers may stop at another
#: number if the function is rounded in another way.
_TOLERANCES: Final = ("xtol", "rtol", "tol", "xatol", "ftol")
_TOLERANCE: Final = 1e-7
#: Arguments with numbers to start from, which may be traced.
_STARTS: Final = ("a", "b", "bracket", "bounds", "x0", "x1")
#: Explicit methods of `solve_ivp`, whose steps need no Jacobian.
_EXPLICIT: Final = ("RK23", "RK45", "DOP853")


def record_solver_call(name: str, tape: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Record a call of one of SciPy's solvers, and return its results as traced values.

    Returns:
        `NotImplemented` if neither the arguments nor the functions among them depend on traced values.

    Raises:
        TraceError: if an option or the equations cannot be recorded.
    """
    record = _SOLVERS[name]
    try:
        bound = signature(record).bind(tape, *arguments, **keywords)
    except TypeError as error:
        if not _depends([*arguments, *keywords.values()]):
            return NotImplemented
        raise refuse(f"{name}: {error}. Arguments that can be recorded: {_names(record)}.") from None
    return record(*bound.args, **bound.kwargs)


def _names(record: Callable[..., Any]) -> str:
    return ", ".join(list(signature(record).parameters)[1:])


def _depends(values: Sequence[Any]) -> bool:
    """Return True if an object, or a variable that a function closes over, depends on traced values."""
    functions = [each for each in values if isinstance(each, FunctionType)]
    return depends([*values, *(cell.cell_contents for each in functions for cell in cells(each))])


def _equations(
    tape: Any, function: Callable[..., Any], shape: tuple[int, ...], args: Any, *further: Any
) -> tuple[Equations, NDArray[np.int64], tuple[Place, ...]] | None:
    """Return the equations for a flat unknown, the traced values that they close over, and the shapes of their results.

    Args:
        tape: tape that is being recorded.
        function: user's function of the unknown.
        shape: shape of the unknown.
        args: further arguments of the function.
        further: other traced values in the solver's call.

    Returns:
        None if nothing depends on traced values.
    """
    args = _as_tuple(args)
    earlier_refusal, is_traced = ACTIVE.refusal, _depends([function, *args, *further])
    try:
        recorded_function = decided(function)
        body = recorded_equations(
            lambda y: recorded_function(y, *args), function, [(Leaf(), [(shape, False)])], tape, _name(function)
        )
    except Exception:
        if is_traced:
            raise
        ACTIVE.refusal = earlier_refusal  # nothing is traced: SciPy calls the function on numbers
        return None
    if not is_traced and not len(body.taken):
        return None
    return (
        _equations_of(to_bytes(body.tape), int(np.prod(shape)) if shape else None, _name(function)),
        body.taken,
        body.results,
    )


def _as_tuple(args: Any) -> tuple[Any, ...]:
    """Return further arguments as a tuple; like SciPy, wrap a single argument that is not a tuple."""
    return args if isinstance(args, tuple) else (args,)


def _shape(tape: Any, unknowns: Any) -> tuple[int, ...]:
    """Return the shape that SciPy gives to unknowns; a number becomes an array of one entry."""
    return np.shape(references_of(tape, unknowns) if depends(unknowns) else unknowns) or (1,)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


@lru_cache(maxsize=_MOST_CACHED)
def _equations_of(rows: bytes, size: int | None, name: str) -> Equations:
    return Equations(from_bytes(rows), (size,), name)


# Differential equations ----------------------------------------------------------------------------------------------


def _solve_ivp(
    tape: Any,
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = (),
    rtol: float = 1e-3,
    atol: Any = 1e-6,
) -> Any:
    """Record the solution at given times by an explicit method."""
    args = _as_tuple(() if args is None else args)
    size = 1 + _shape(tape, y0)[0]
    if _equations(tape, lambda z: fun(z[0], z[1:], *args), (size,), (), list(args), t_span, y0, t_eval) is None:
        return NotImplemented
    name = getattr(method, "__name__", method)
    write = f"acc.odeint(f, y0, t{', *args' if args else ''}, method={name!r}, rtol={rtol}, atol={atol})"
    if t_eval is None or dense_output:
        raise refuse(
            "scipy.integrate.solve_ivp is recorded only with t_eval=…: without it, it returns the ends of its steps, "
            f"which depend on values. Write {write}, with y0 at the first of the times t."
        )
    if events is not None:
        raise refuse(f"scipy.integrate.solve_ivp is recorded without events. Write {write[:-1]}, event=g).")
    if name not in _EXPLICIT:
        raise refuse(
            f"scipy.integrate.solve_ivp is recorded with the explicit methods {', '.join(_EXPLICIT)}: steps of {name} "
            f"depend on how its Jacobian is computed. Write {write}, with y0 at the first of the times t."
        )
    times = TracedArray(tape, in_row(tape, t_span[0], t_eval, t_span[1]))
    start = TracedArray(tape, references_of(tape, y0).reshape(-1))
    states = odeint(fun, start, times, *args, method=name, rtol=rtol, atol=atol)[1:-1]
    return _result(t=t_eval, y=states.T, sol=None, t_events=None, y_events=None, status=0)


def _result(**values: Any) -> Any:
    from scipy.optimize import OptimizeResult

    made: Any = OptimizeResult
    return made(success=True, message="found by the compiled program", **values)


def _odeint(tape: Any, func: Callable[..., Any], y0: Any, t: Any, args: Any = (), *further: Any, **options: Any) -> Any:
    """Refuse LSODA, whose steps depend on how it obtains its Jacobian, if the call depends on traced values."""
    args = _as_tuple(args)
    right_side = (lambda y: func(0.0, y, *args)) if options.get("tfirst") else (lambda y: func(y, 0.0, *args))
    if _equations(tape, right_side, _shape(tape, y0), (), list(args), y0, t) is None:
        return NotImplemented
    raise refuse(
        "scipy.integrate.odeint is not recorded: its steps depend on how its Jacobian is computed. Write "
        f"acc.odeint(f, y0, t{', *args' * bool(args)}) with f(t, y, …): it is the same integrator, with the compiled "
        "Jacobian."
    )


# Integrals -----------------------------------------------------------------------------------------------------------


def _quad(
    tape: Any,
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
) -> Any:
    """Return an integral and the estimate of its error."""
    traced = _equations(tape, func, (), args, a, b)
    if traced is None:
        return NotImplemented
    equations, taken, _ = traced
    if full_output or len(equations.examples) != 2 or equations.results != 1:
        raise refuse(
            "scipy.integrate.quad is recorded without full_output, for functions that return one number; "
            f"{_name(func)} returns {equations.results}."
        )
    options = (("epsabs", float(epsabs)), ("epsrel", float(epsrel)), ("limit", int(limit)))
    operands = np.concatenate([in_row(tape, a, b), taken])
    value, error = call_block(tape, _integral(equations, options), operands).tolist()
    return make(tape, value), make(tape, error)


@lru_cache(maxsize=_MOST_CACHED)
def _integral(equations: Equations, options: Any) -> Integral:
    return Integral(equations, options)


# Roots ---------------------------------------------------------------------------------------------------------------


def _of_one(name: str, tape: Any, *arguments: Any, **keywords: Any) -> Any:
    """Record the result of a solver for functions of a number, or of each entry of an array."""
    import scipy.optimize

    settings = signature(getattr(scipy.optimize, name)).bind(*arguments, **keywords).arguments
    function, args = settings.pop(next(iter(settings))), _as_tuple(settings.pop("args", ()))
    slopes = {key: settings.pop(key) for key in ("fprime", "fprime2") if settings.get(key)}
    starts = {key: settings.pop(key) for key in _STARTS if settings.get(key) is not None}
    residual = function
    if name == "fixed_point":
        residual = lambda y, *further: function(y, *further) - y  # noqa: E731
    elif True in slopes.values():
        residual = lambda y, *further: function(y, *further)[0]  # noqa: E731
    shape = np.shape(references_of(tape, starts["x0"])) if name in ("newton", "fixed_point") else ()
    traced = _equations(tape, residual, shape, args, *starts.values())
    if traced is None:
        return NotImplemented
    if settings.pop("full_output", False) or settings.pop("disp", True) is not True or depends(settings):
        raise refuse(f"scipy.optimize.{name} is recorded without full_output and disp, and with constant options.")
    if shape and "fprime2" in slopes:
        raise refuse("scipy.optimize.newton is recorded with fprime2 of numbers only.")
    equations, taken, _ = traced
    sizes = tuple((key, np.shape(references_of(tape, start))) for key, start in starts.items())
    conditions = equations
    if name == "minimize_scalar":
        _check_count(equations, 1)
        conditions = _slope(equations)
    find = partial(_found_of_one, name, equations, sizes, tuple(slopes), shape, settings)
    found = _root(tape, find, conditions, int(np.prod(shape)), in_row(tape, *starts.values()), taken, settings)
    x = make(tape, found.reshape(shape) if shape else int(found[0]))
    if name == "root_scalar":
        return _result(root=x, converged=True, flag="converged")
    return _result(x=x, fun=function(x, *args)) if name == "minimize_scalar" else x


def _found_of_one(
    name: str,
    equations: Equations,
    sizes: Sequence[tuple[str, tuple[int, ...]]],
    slopes: Sequence[str],
    shape: tuple[int, ...],
    settings: dict[str, Any],
    start: Floats,
    p: Floats,
) -> Any:
    """Return the result of a solver for functions of a number, or of the entries of an array.

    Args:
        name: name of SciPy's solver.
        equations: function of the unknown; for `minimize_scalar`, its derivative is zero at the result.
        sizes: names and shapes of the arguments in `start`.
        slopes: names of the derivatives, compiled ones, that the solver takes.
        shape: shape of the unknown.
        settings: other arguments of the solver.
        start: entries of the arguments that may be traced.
        p: parameters of the equations.

    Raises:
        ConvergenceError: if it fails, or if the derivative of a minimum is not zero.
    """
    import scipy.optimize

    def called(program: Any) -> Callable[[Any], Any]:
        if shape:
            return lambda y: np.asarray(program(np.ravel(y), p)).reshape(shape)
        return lambda y: float(program(float(y), p)[0])

    ends = np.cumsum([int(np.prod(size)) for _, size in sizes], dtype=int)
    given: dict[str, Any] = {
        key: part.reshape(size)[()] for (key, size), part in zip(sizes, np.split(start, ends), strict=False)
    }
    function = called(equations.program(COMPILED))
    if "fprime" in slopes:
        slope = equations.program(JACOBIAN, 0)
        given["fprime"] = (lambda y: np.diagonal(slope(np.ravel(y), p)).reshape(shape)) if shape else called(slope)
    if "fprime2" in slopes:
        given["fprime2"] = called(_slope(equations).program(JACOBIAN, 0))
    objective = (lambda y: function(y) + y) if name == "fixed_point" else function
    try:
        with catch_warnings():
            if name == "newton":
                simplefilter("error", RuntimeWarning)  # of entries of an array that did not converge
            result = getattr(scipy.optimize, name)(objective, **given, **settings)
    except (RuntimeError, RuntimeWarning, ValueError) as error:
        raise _no_root(name, equations, start, str(error)) from None
    if name == "minimize_scalar":
        _check_stationary(equations, result, given.get("bounds"), start, p)
        return result.x
    if name == "root_scalar" and not result.converged:
        raise _no_root(name, equations, start, result.flag)
    return result.root if name == "root_scalar" else result


def _check_stationary(equations: Equations, result: Any, bounds: Any, start: Floats, p: Floats) -> None:
    """Check that the derivative is zero at a minimum, which it is not at a bound or at a kink.

    Raises:
        ConvergenceError: if it is not.
    """
    slopes, x = _slope(equations), float(result.x)
    slope, curvature = slopes.program(COMPILED)(x, p)[0], slopes.program(JACOBIAN, 0)(x, p)[0]
    with np.errstate(all="ignore"):
        nearest = x - np.float64(slope) / curvature  # the zero of the derivative, by a step of Newton's method
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    is_near = abs(nearest - x) <= _FLAT * (1.0 + abs(x)) and low <= nearest <= high
    if not (result.success and is_near):
        why = str(result.message) if not result.success else "the derivative is not zero there (a bound, or a kink)"
        raise _no_root("minimize_scalar", equations, start, why)


def _check_count(conditions: Equations, unknowns: int) -> None:
    if conditions.results != unknowns:
        raise refuse(
            f"{conditions.name} returns {conditions.results} numbers for {unknowns} unknowns; expected one number for "
            "each unknown."
        )


def _root(
    tape: Any,
    find: Callable[[Floats, Floats], Any],
    conditions: Equations,
    unknowns: int,
    start: NDArray[np.int64],
    taken: NDArray[np.int64],
    options: dict[str, Any],
) -> NDArray[np.int64]:
    _check_count(conditions, unknowns)
    tolerances = {**(options.get("options") or {}), **options}
    accuracy = max([_TOLERANCE, *(float(tolerances[key]) for key in _TOLERANCES if tolerances.get(key) is not None)])
    return call_block(tape, Root(find, conditions, unknowns, len(start), accuracy), np.concatenate([start, taken]))


def _near(
    name: str,
    tape: Any,
    function: Callable[..., Any],
    x0: Any,
    args: Any,
    jacobian: Any,
    options: dict[str, Any],
    refusal: str | None = None,
) -> Any:
    """Record the result of a solver that starts from a guess.

    Args:
        name: name of SciPy's solver.
        tape: tape that is being recorded.
        function: user's function of the unknown.
        x0: guess.
        args: further arguments of the function.
        jacobian: True for the compiled Jacobian; else the solver's own argument.
        options: options of the solver.
        refusal: conditions of recording that this call violates, for the error message; None if it violates none.

    Returns:
        The flat unknowns, a function that evaluates the equations there, and the shape of the unknowns;
        `NotImplemented` if nothing depends on traced values.
    """
    shape = _shape(tape, x0)
    traced = _equations(tape, function, shape, args, x0)
    if traced is None:
        return NotImplemented
    if refusal is not None:
        raise refuse(f"scipy.optimize.{name} is recorded {refusal}")
    (equations, taken, _), n = traced, int(np.prod(shape))
    conditions = _stationary(equations, n) if name == "least_squares" else equations
    find = partial(_root_near, name, equations, jacobian, options)
    x = TracedArray(tape, _root(tape, find, conditions, n, in_row(tape, x0), taken, options))
    return x, lambda: equations(x, TracedArray(tape, taken)), shape


def _root_near(
    name: str, equations: Equations, jacobian: Any, options: dict[str, Any], start: Floats, p: Floats
) -> Any:
    """Return the solver's result near a start."""
    import scipy.optimize

    program, solver = equations.program(COMPILED), getattr(scipy.optimize, name)
    if jacobian is True:
        matrix = equations.program(JACOBIAN, 0)
        jacobian = lambda y: matrix(y, p)  # noqa: E731  # the form that SciPy takes
    if name == "fsolve":
        unknowns, _, flag, why = solver(lambda y: program(y, p), start, fprime=jacobian, full_output=True, **options)
        success, why = flag == 1, " ".join(why.split())
    else:
        result = solver(lambda y: program(y, p), start, jac=jacobian, **options)
        unknowns, success, why = result.x, result.success, str(result.message)
    if not success:
        raise _no_root(name, equations, start, why)
    return unknowns


def _no_root(solver: str, equations: Equations, start: Floats, why: str) -> ConvergenceError:
    sought = "minimum" if solver == "minimize_scalar" else "root"
    near = f" from {np.array2string(start, threshold=12)}" if len(start) else ""
    return ConvergenceError(f"scipy.optimize.{solver} found no {sought} of {equations.name}{near}: {why}")


def _fsolve(
    tape: Any,
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: int = 0,
    **options: Any,
) -> Any:
    """Find a root near a guess by MINPACK's hybrd, or by hybrj with the compiled Jacobian if `fprime` is passed."""
    options.pop("col_deriv", None)
    refusal = "without full_output, and with constant options." if full_output or depends(options) else None
    solution = _near("fsolve", tape, func, x0, args, True if fprime is not None else None, options, refusal)
    return solution if solution is NotImplemented else solution[0]


def _root_of(
    tape: Any,
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: Any = None,
    options: Any = None,
) -> Any:
    """Find a root near a guess by a method of `scipy.optimize.root`."""
    function = (lambda y, *further: fun(y, *further)[0]) if jac is True else fun
    settings = {"method": method, "tol": tol, "options": options}
    solution = _near("root", tape, function, x0, args, True if callable(jac) else jac, settings)
    if solution is NotImplemented:
        return solution
    x = solution[0].reshape(solution[2])
    return _result(x=x, fun=solution[1](), status=1)


def _least_squares(
    tape: Any,
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: Any = 1e-8,
    xtol: Any = 1e-8,
    gtol: Any = 1e-8,
    x_scale: Any = None,
    loss: str = "linear",
    max_nfev: Any = None,
    args: Any = (),
) -> Any:
    """Record the unbounded minimum of half a sum of squares, as a root of its gradient."""
    options = {"method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "max_nfev": max_nfev}
    options |= {} if x_scale is None else {"x_scale": x_scale}
    refusal = (
        "without bounds, and with loss='linear': where a bound is active the gradient is not zero. Write the "
        "conditions that hold at the solution as a function, and pass it to acc.implicit."
    )
    if loss == "linear" and np.isneginf(bounds[0]).all() and np.isposinf(bounds[1]).all():
        refusal = ""
    solution = _near("least_squares", tape, fun, x0, args, True if callable(jac) else jac, options, refusal or None)
    if solution is NotImplemented:
        return solution
    values = solution[1]()
    return _result(x=solution[0], fun=values, cost=0.5 * np.sum(values**2), status=1)


_stationary: Final = lru_cache(maxsize=_MOST_CACHED)(stationary)
_slope: Final = lru_cache(maxsize=_MOST_CACHED)(slope)

_SOLVERS: Final[dict[str, Callable[..., Any]]] = {
    "solve_ivp": _solve_ivp,
    "odeint": _odeint,
    "quad": _quad,
    "fsolve": _fsolve,
    "root": _root_of,
    "least_squares": _least_squares,
    **{
        name: partial(_of_one, name)
        for name in (
            *("bisect", "brenth", "brentq", "ridder", "toms748"),
            *("newton", "root_scalar", "fixed_point", "minimize_scalar"),
        )
    },
}
