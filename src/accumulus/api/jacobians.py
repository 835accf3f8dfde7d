"""Derivatives as matrices: Jacobians, gradients and Hessians; and compiled functions without derivatives.

Sources: U. Naumann, Optimal accumulation of Jacobian matrices by elimination methods on the dual computational graph,
Mathematical Programming 99, 2004; for Hessians R. M. Gower and M. P. Mello, A new framework for the computation of
Hessians, Optimization Methods and Software 27, 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from accumulus.api.common_options import (
    DerivativeOptions,
    MatrixOptions,
    SelectionOptions,
    dense,
    derivative,
    options_and_choice,
    shows_arguments,
    shows_arguments_and_choice,
    shows_choice,
)
from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import name_of
from accumulus.frontends.recorder import holder_of, recorder_of
from accumulus.options import OptionKeywords, refuses, shows_options
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.programs.kinds import (
    COMPILED,
    GRADIENT,
    HESSIAN,
    JACOBIAN,
    VALUE_AND_GRADIENT,
    VALUE_AND_JACOBIAN,
    VALUE_GRADIENT_HESSIAN,
)


@shows_arguments_and_choice
def jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[MatrixOptions]
) -> Derivative:
    """Return the Jacobian of `f`, as a function of the same arguments.

    Results have the shapes of ``jax.jacobian``: an array of shape (result shape, argument shape) for every array that
    `f` returns, in the same structure. Several arguments give a tuple with one entry for each. An argument that is a
    container gives a container of the same kind.

    Args:
        f: function of numbers, NumPy arrays, and containers of those (lists, tuples, dicts, data classes, registered
            classes, see `accumulus.register`) that returns the same.
        argnums: position or positions of the arguments to differentiate with respect to; by default the first argument,
            unless `argnames` is passed.
        argnames: name or names of the arguments to differentiate with respect to. With both, the derivatives with
            respect to named arguments come last.
        static_argnums: positions of arguments that are passed to `f` unchanged when it is recorded, such as sizes and
            bounds.
        static_argnames: names of such arguments.
        on: manifold of the argument (`accumulus.manifolds`), for the derivative in its tangent space. For several
            arguments, one manifold for all, or an entry for each; for a container, a container of these. None for
            arguments without a manifold.
        into: manifold of the result, in the same form; the derivative is then in the tangent space of the result, too.
        rows: selected rows of the Jacobian: distinct positions, counted in C order over all results; a slice; or a
            mask. None for all. Only the selected rows and columns are computed. They are returned as one matrix of
            shape (rows, columns), of all results with respect to all arguments.
        columns: selected columns, in the same form, counted over all differentiated arguments.
        entries: selected entries: a pair (row positions, column positions), for which an array of shape (entries,) is
            returned; or a SciPy matrix, whose stored entries are selected, in its order. With `sparse`, a matrix of the
            full size is returned, with these entries stored.
        banded: pair (number of diagonals below the main one, number above it). Entry (i, j) of the matrix is returned
            at (above + i - j, j) of an array with a row for each diagonal, the format of `scipy.linalg.solve_banded`
            and LSODA.
        sparse: True or "csr", "csc", "coo" for SciPy matrices (entries of result × entries of argument) with the
            structural nonzeros only. Batches then return a `SparseBatch`.
        method: one of `accumulus.methods()`.
        objective: "operations" (of the compiled program), "multiplications", "fma", or "code size": plans with the
            fewest operations, and C that ``gcc -Os`` compiles to the fewest bytes, for embedded targets.
        time_limit: limit, in seconds, of planning and rewriting together. They end earlier when they no longer improve,
            or after an amount of work that takes an idle core half of the limit. 0 gives the best greedy plan.
            Recording, emitting, verifying and compiling do not count.
        effort: "fast", "balanced" or "thorough".
        seed: seed of the search. The same seed and time limit give the same program, unless the report says that the
            search was cut short.
        threads: number of threads that share the points of a batch, or the work of one point with long arrays.
        target: "llvm"; "numpy", readable source; or "c", compiled by the C compiler of this machine.
        dtype: "float64" or "float32" for the compiled code and its results.
        check_finite: if True, raise `ArgumentError` for NaN or infinite arguments; else they propagate as in IEEE 754.
        check: if True, compare the recording with `f` on numbers, at the arguments of the first call and at two points
            near them. `f` then runs three more times for each shape of its arguments.
        optimise: if True, rewrite the program to fewer or cheaper operations, see `accumulus.optimise`. The default is
            True for float64 and False for float32, whose range reordered products may leave.
        exact_order: if True, keep the arithmetic of `f` in its written order. Values of `f`, and their uses in
            derivatives, are rounded as in `f`, operation by operation. Only operations that derivatives add are
            rewritten.
        guards: treatment of branches on values of the arguments (``if x > 0``, ``while``, ``int(x)``, sorting) that are
            not recorded as selections. "cases" records `f` once for each combination of decisions that occurs and
            compiles a program for each, which checks by itself that it applies; "error" refuses such branches.
        most_cases: largest number of programs for arguments of one shape.
        watch: if True, compare the global and closed-over variables that `f` reads with their values at the recording,
            at each call, and record `f` again after a change. If False, calls are faster if there are many variables,
            and changes go unnoticed.
        assume: what holds of all entries of an argument in all calls, as ``{"x": "positive"}``: "positive",
            "nonnegative" or "nonzero", by name or position of the argument. Rewriting may then use it: √(x·x) is x.
            Arguments are checked at the first call, and at all points of the first batch; later calls are not checked,
            and results for other arguments may be wrong. NaN violates nothing. A derivative inside of another recorded
            function does not use it.
        cache: if True, load the plan, the rewritten program and the machine code from the cache on disk if it holds
            them for the same function and options; else store them there.
        executor: a `concurrent.futures.Executor` or Dask ``Client`` that shares in the search, see `accumulus.plan`.
        iterations: limit of the search, see `accumulus.plan`.
        progress: function that is called with a `Progress` when a stage of the preparation begins, and during searches.
            By default, a preparation of more than two seconds reports its stage on a terminal or in a notebook, with
            advice on how to make it faster. True shows the report at once and everywhere, False never.

    Warns:
        NaNWarning: at the first call, if all entries of a result are NaN or zero, and not all zero.

    Raises:
        ArgumentError, UnknownNameError: for an option that is not one of the above; at the first call, for arguments of
            a wrong kind or that violate `assume`, for rows, columns or entries that do not exist, and for a Jacobian
            with entries outside of the band.
        TraceError: at the first call, if `f` cannot be recorded, naming file and line; or if the recording computes
            other values than `f`, naming both.
        TooManyCasesError: if `f` decides in more ways than `most_cases`, naming the lines.
        CaseError: for a batch, if results have other shapes at some points than at others.
        KeyboardInterrupt: at the first call, if Ctrl-C is pressed during the preparation; nothing is kept.

    >>> import numpy as np
    >>> jac = jacobian(lambda x: np.array([x[0] * x[1], np.sin(x[0])]))
    >>> print(jac(np.array([0.0, 2.0])))
    [[2. 0.]
     [1. 0.]]
    >>> jac.batch(np.ones((1000, 2))).shape
    (1000, 2, 2)
    """
    return derivative(f, JACOBIAN, argnums, options)


@shows_arguments_and_choice
def value_and_jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[MatrixOptions]
) -> Derivative:
    """Return the pair (value of f, Jacobian), computed together, with the options of `jacobian`.

    The value has the shape and structure that `f` returns, the Jacobian those of `jacobian`; errors are the same.

    >>> value, slope = value_and_jacobian(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    return derivative(f, VALUE_AND_JACOBIAN, argnums, options)


@shows_arguments
def gradient(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[DerivativeOptions]
) -> Derivative:
    """Return the gradient of a function that returns one number, in the shape of the argument; options as `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number.

    >>> import numpy as np
    >>> gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return derivative(f, GRADIENT, argnums, options)


@shows_arguments
def value_and_gradient(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[DerivativeOptions]
) -> Derivative:
    """Return the pair (value of f, gradient), computed together, with the options of `jacobian`.

    The value is a number; the gradient has the shape of the argument. Errors are those of `gradient`.

    >>> import numpy as np
    >>> value, slope = value_and_gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    return derivative(f, VALUE_AND_GRADIENT, argnums, options)


@refuses("sparse")
@shows_options
def compile(  # noqa: A001  # named as in the field
    f: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[OptionKeywords],
) -> Derivative:
    """Return `f` rewritten to fewer operations and compiled, as a function of the same arguments.

    The result has the values and the structure of `f`. For batches, cases, reports and options, see `jacobian`.

    Args:
        f: function as for `jacobian`.
        static_argnums: positions of static arguments, as for `jacobian`.
        static_argnames: names of static arguments, as for `jacobian`.
        options: options of `jacobian`, except `sparse`.

    Raises:
        ArgumentError: for `sparse`; and as `jacobian`.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> step = compile(lambda x, h: {"next": x + h * np.sin(x), "rate": np.sin(x)})
    >>> step(np.zeros(2), 0.1)
    {'next': array([0., 0.]), 'rate': array([0., 0.])}
    >>> step.batch(np.zeros((100, 2)), 0.1)["next"].shape
    (100, 2)
    """
    forms = Forms(f, name_of(f), (), None, static_argnums, static_argnames)
    return Derivative(f, COMPILED, forms, dense(COMPILED, options))


# Second derivatives ---------------------------------------------------------------------------------------------------


@shows_arguments_and_choice
def hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[MatrixOptions]
) -> Derivative:
    """Return the Hessian of a function that returns one number, in the shape and structure of ``jax.hessian``.

    It is the Jacobian of the recorded gradient; one triangle is computed and stored twice.

    Args:
        f: function as for `jacobian`, which returns one number.
        argnums: positions of arguments, as for `jacobian`; with several arguments there is a block for each pair.
        on: manifold, as for `jacobian`; the derivative is the Hessian of f(retract(x, δ)) with respect to δ at δ = 0.
        rows: selected rows, as for `jacobian`, of the Hessian with respect to all arguments.
        columns: selected columns, in the same form.
        entries: selected entries, as for `jacobian`.
        banded: selected band, as for `jacobian`.
        argnames: names of the arguments to differentiate with respect to, as for `jacobian`.
        static_argnums: positions of static arguments, as for `jacobian`.
        static_argnames: names of static arguments, as for `jacobian`.
        options: options of `jacobian`. `sparse` gives SciPy matrices (entries of argument × entries of argument).

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number, or has custom derivatives that are not
            those of its operations.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return derivative(f, HESSIAN, argnums, options)


@shows_arguments_and_choice
def value_gradient_hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[MatrixOptions]
) -> Derivative:
    """Return (value of f, gradient, Hessian), computed together, with the options of `hessian`.

    For an argument of shape s, their shapes are (), s and s + s. Errors are those of `hessian`.

    >>> import numpy as np
    >>> value, gradient, hessian = value_gradient_hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist(), hessian.tolist()
    (9.0, [3.0, 12.0], [[6.0, 0.0], [0.0, 12.0]])
    """
    return derivative(f, VALUE_GRADIENT_HESSIAN, argnums, options)


@shows_choice
def hessian_of_lagrangian(
    f: Callable[..., Any], g: Callable[..., Any], **options: Unpack[SelectionOptions]
) -> Derivative:
    """Return the Hessian of sigma·f + multipliers·g with respect to x: a function of (x, sigma, multipliers).

    This is Ipopt's convention. `multipliers` has the shape of the result of `g`. Further arguments of a call (x, sigma,
    multipliers, p, …) are passed to both functions: f(x, p, …), g(x, p, …).

    Args:
        f: objective, a function as for `jacobian` that returns one number.
        g: constraints, a function as for `jacobian` that returns a number or an array.
        options: options of `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number, or the multipliers do not have the
            shape of the result of `g`; and as `hessian`.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> curvature = hessian_of_lagrangian(lambda x: x[0] * x[1], lambda x: np.array([x[0] ** 2, x[1] ** 3]))
    >>> curvature(np.array([1.0, 2.0]), 1.0, np.array([0.5, 0.25]))
    array([[1., 1.],
           [1., 3.]])
    """
    lagrangian = _Lagrangian(f, g)
    forms = Forms(lagrangian, lagrangian.__name__, 0, None, (), ())
    return Derivative(lagrangian, HESSIAN, forms, *options_and_choice(HESSIAN, options))


class _Lagrangian:
    """sigma·f + multipliers·g as a function of (x, sigma, multipliers, …)."""

    def __init__(self, f: Callable[..., Any], g: Callable[..., Any]) -> None:
        self.__name__ = f"lagrangian of {name_of(f)} and {name_of(g)}"
        self._functions = f, g
        self.holder = holder_of(f), holder_of(g)
        #: The functions as parts of enclosing recordings, for any arguments.
        self._terms = compile(f), compile(g)

    def __call__(self, x: Any, sigma: Any, multipliers: Any, *parameters: Any) -> Any:
        if ACTIVE.tape is None:
            value, constraints = (recorder_of(term).evaluate(term, (x, *parameters)) for term in self._functions)
        else:
            value, constraints = (term(x, *parameters) for term in self._terms)
        names = [name_of(function) for function in self._functions]
        constraints = np.asarray(constraints) if isinstance(constraints, list | tuple) else constraints
        if np.shape(value):
            raise ArgumentError(
                f"{names[0]} returns shape {np.shape(value)}; expected one number, the objective, which sigma "
                "multiplies"
            )
        if np.shape(constraints) != np.shape(multipliers):
            raise ArgumentError(
                f"multipliers have shape {np.shape(multipliers)}, and the constraints that {names[1]} returns have "
                f"shape {np.shape(constraints)}; expected one multiplier for each constraint"
            )
        return sigma * value + np.sum(multipliers * constraints)
