"""Derivatives as matrices: Jacobians, gradients, Hessians; and functions themselves, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from accumulus.api.asked import (
    Asked,
    AskedOfMatrix,
    GivenOfMatrix,
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
from accumulus.options import Given, shows_options
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
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[AskedOfMatrix]
) -> Derivative:
    """Return the Jacobian of `f`, as a function of the same arguments.

    Results are shaped as those of ``jax.jacobian``: for every array that `f` returns, an array of shape (result shape,
    argument shape), in the same structure; a tuple of them, one for each argument, if there are several; a container of
    the same kind, where the argument is one.

    Args:
        f: a function of numbers, NumPy arrays, and containers of those (lists, tuples, dicts, data classes, what
            `accumulus.register` has) that returns the same.
        argnums: position or positions of the arguments to differentiate by; the first, if no `argnames` are given.
        argnames: their names, one or several; with both, derivatives by those named come last.
        static_argnums, static_argnames: positions and names of what is passed to `f` as it is when it is recorded:
            sizes, bounds.
        on: the manifold of the argument, of `accumulus.manifolds`, for the derivative in its tangent space; for several
            arguments one for all, or an entry for each; for a container a container of these. None for numbers.
        into: the same for what `f` returns: the derivative is in the tangent space of the result, too.
        rows, columns: what of the Jacobian is wanted: positions, counted in C order over all results and over all
            arguments that it is by, each once; a slice; or a mask. Only the work for these is done, and what is
            returned is one matrix, (rows, columns), of all results by all arguments. None for all rows or columns.
        entries: the same for single entries: a pair (positions of rows, of columns), of which an array of shape
            (entries,) is returned; or a SciPy matrix, for the entries that it stores, in its order. With `sparse`, a
            matrix of the size of the whole one is returned, with these stored.
        banded: (diagonals below the main one, above it): entry (i, j) of the same matrix is returned at
            (above + i - j, j) of an array with a row for each diagonal, as `scipy.linalg.solve_banded` and LSODA take
            it.
        sparse: True or "csr", "csc", "coo" for SciPy matrices (entries of result × entries of argument) with the
            structural nonzeros only. Batches then return a `SparseBatch`.
        method: one of `accumulus.methods()`.
        objective: "operations" (of the compiled program), "multiplications", "fma", or "code size": plans of the fewest
            operations, and C that takes the fewest bytes by ``gcc -Os``, for embedded targets.
        time_limit: seconds for planning and rewriting together, at most; they stop earlier when they no longer improve,
            or after the work that takes an idle core half of that. 0 gives the best greedy plan. What has to be
            done anyway is not counted: recording, emitting, verifying, compiling.
        effort: "fast", "balanced" or "thorough".
        seed: seed of the search. Same seed and time limit, same program, unless the report says that it was cut short.
        threads: how many threads share the points of a batch, or the work of one point where arrays are long.
        target: "llvm"; "numpy", readable source; "c", by the C compiler of this machine.
        dtype: "float64" or "float32" for the compiled code and its results.
        check_finite: raise `ArgumentError` for NaN or infinite arguments. Without, they propagate as IEEE 754 says.
        check: compare what was recorded with `f` on numbers, at the arguments of the first call and at two points
            around them: `f` runs three times more for each shape of its arguments.
        optimise: True if the program's operations are rewritten to fewer or cheaper ones, see `accumulus.optimise`. By
            default in float64 only: products in another order may leave the range of float32.
        exact_order: leave the arithmetic of `f` itself as it is written: its values, and all that derivatives take from
            them, are rounded as in `f`, operation by operation. Only what derivatives add is rewritten.
        guards: what becomes of decisions that `f` takes on values of its arguments (``if x > 0``, ``while``,
            ``int(x)``, sorting) where they are not recorded as choices: "cases" records `f` for each way in which it
            decides, when it is met, and has a program for each, which checks by itself that it is the right one;
            "error" refuses them.
        most_cases: how many programs there may be for arguments of one shape.
        watch: True if what `f` reads, global variables and closures among it, is compared at each call with what it was
            when `f` was recorded, which is recorded anew if it has changed. Without, calls are quicker where there is
            much of it, and changes are not seen.
        cache: True if the plan, the rewritten program and the machine code are taken from the cache on disk, if they
            were made before for the same function and options, and stored there if not.
        executor: a `concurrent.futures.Executor` or Dask ``Client`` that shares in the search, see `accumulus.plan`.
        iterations: of the search, see `accumulus.plan`.
        progress: called with a `Progress` when a stage of the preparation begins, and while it searches. Without, a
            preparation that takes, or is expected to take, more than two seconds says on a terminal or in a notebook
            what it is doing and what would make it quick. True shows that at once wherever it is, False says nothing.

    Raises:
        ArgumentError, UnknownNameError: for an option that is not one of the above; at the first call for arguments of
            a wrong kind.
        TraceError: at the first call, if `f` cannot be recorded, naming file and line; or if its recording computes
            something else than `f` does, naming values.
        TooManyCasesError: if `f` decides in more ways than `most_cases`, naming the lines.
        ArgumentError: at the first call, for rows, columns or entries that there are not, or a Jacobian with entries
            outside of the band.
        CaseError: for a batch, if results have other shapes at some points than at others.
        KeyboardInterrupt: at the first call, for Ctrl-C while the program is prepared; nothing of it is kept.

    >>> import numpy as np
    >>> jac = jacobian(lambda x: np.array([x[0] * x[1], np.sin(x[0])]))
    >>> print(jac(np.array([0.0, 2.0])))
    [[2. 0.]
     [1. 0.]]
    >>> jac.batch(np.ones((1000, 2))).shape
    (1000, 2, 2)
    """
    return derivative(f, JACOBIAN, argnums, asked)


@shows_arguments_and_choice
def value_and_jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[AskedOfMatrix]
) -> Derivative:
    """Return the pair (value of f, Jacobian), computed together, with the options of `jacobian`.

    >>> value, slope = value_and_jacobian(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    return derivative(f, VALUE_AND_JACOBIAN, argnums, asked)


@shows_arguments
def gradient(f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[Asked]) -> Derivative:
    """Return the gradient of a function that returns one number, shaped as the argument; options as `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number.

    >>> import numpy as np
    >>> gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return derivative(f, GRADIENT, argnums, asked)


@shows_arguments
def value_and_gradient(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[Asked]
) -> Derivative:
    """Return the pair (value of f, gradient), computed together, with the options of `jacobian`.

    >>> import numpy as np
    >>> value, slope = value_and_gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    return derivative(f, VALUE_AND_GRADIENT, argnums, asked)


@shows_options
def compile(  # noqa: A001  # what it does
    f: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Return `f` rewritten to fewer operations and compiled, as a function of the same arguments.

    It returns the results of `f`, in the same structure. Batches, cases, reports and options are those of `jacobian`.

    Args:
        f: function as for `jacobian`.
        static_argnums: positions of static arguments, as for `jacobian`.
        static_argnames: names of static arguments, as for `jacobian`.
        options: those of `jacobian`, but for `sparse`.

    Raises:
        ArgumentError: for `sparse`; else as `jacobian`.
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
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[AskedOfMatrix]
) -> Derivative:
    """Return the Hessian of a function that returns one number, in the shape and structure of ``jax.hessian``.

    It is the Jacobian of the gradient's recording; one triangle is computed and stored twice.

    Args:
        f: function as for `jacobian`, which returns one number.
        argnums: positions of arguments, as for `jacobian`; with several arguments there is a block for each pair.
        argnames: their names, as for `jacobian`.
        static_argnums: positions of static arguments, as for `jacobian`.
        static_argnames: names of static arguments, as for `jacobian`.
        options: options of `jacobian`. `sparse` gives SciPy matrices (entries of argument × entries of argument).
        on: as for `jacobian`; the Hessian is that of f(retract(x, δ)) with respect to δ at δ = 0.
        rows, columns, entries, banded: as for `jacobian`, of the Hessian of all arguments.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number, or has derivatives of its own that are
            not those of its operations.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return derivative(f, HESSIAN, argnums, asked)


@shows_arguments_and_choice
def value_gradient_hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[AskedOfMatrix]
) -> Derivative:
    """Return (value of f, gradient, Hessian), computed together, with the options of `hessian`.

    >>> import numpy as np
    >>> value, gradient, hessian = value_gradient_hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist(), hessian.tolist()
    (9.0, [3.0, 12.0], [[6.0, 0.0], [0.0, 12.0]])
    """
    return derivative(f, VALUE_GRADIENT_HESSIAN, argnums, asked)


@shows_choice
def hessian_of_lagrangian(f: Callable[..., Any], g: Callable[..., Any], **options: Unpack[GivenOfMatrix]) -> Derivative:
    """Return the Hessian of sigma·f + multipliers·g in the first argument: a function of (x, sigma, multipliers).

    This is Ipopt's convention. `multipliers` has the shape of what `g` returns. Further arguments of a call (x, sigma,
    multipliers, p, …) are passed to both: f(x, p, …), g(x, p, …).

    Args:
        f: objective, a function as for `jacobian` that returns one number.
        g: constraints, a function as for `jacobian` that returns a number or an array.
        options: options of `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number, or multipliers have another shape than
            what `g` returns; and as `hessian`.
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
        #: The same as parts of other recordings, whatever they are functions of.
        self._parts = compile(f), compile(g)

    def __call__(self, x: Any, sigma: Any, multipliers: Any, *parameters: Any) -> Any:
        if ACTIVE.tape is None:
            value, constraints = (recorder_of(part).evaluate(part, (x, *parameters)) for part in self._functions)
        else:
            value, constraints = (part(x, *parameters) for part in self._parts)
        names = [name_of(function) for function in self._functions]
        constraints = np.asarray(constraints) if isinstance(constraints, list | tuple) else constraints
        if np.shape(value):
            raise ArgumentError(f"{names[0]} returns shape {np.shape(value)}; expected one number, which sigma weights")
        if np.shape(constraints) != np.shape(multipliers):
            raise ArgumentError(
                f"multipliers have shape {np.shape(multipliers)}, and what {names[1]} returns {np.shape(constraints)}; "
                "expected a multiplier for each constraint"
            )
        return sigma * value + np.sum(multipliers * constraints)
