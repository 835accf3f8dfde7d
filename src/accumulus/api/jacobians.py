"""Jacobians, gradients, and functions themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from accumulus.api.asked import Asked, AskedOfMatrix, dense, derivative, shows_arguments, shows_arguments_and_choice
from accumulus.frontends.location import name_of
from accumulus.options import Given, shows_options
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.programs.kinds import COMPILED, GRADIENT, JACOBIAN, VALUE_AND_GRADIENT, VALUE_AND_JACOBIAN

__all__ = ["compile", "gradient", "jacobian", "value_and_gradient", "value_and_jacobian"]


@shows_arguments_and_choice
def jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[AskedOfMatrix]
) -> Derivative:
    """Jacobian of `f`, as a function of the same arguments.

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
        objective: "operations" (of the compiled program), "multiplications" or "fma".
        time_limit: seconds for planning and rewriting together, at most; they stop earlier when they no longer improve,
            or after the work that takes an idle core half of that. 0 gives the best greedy plan. What has to be
            done anyway is not counted: recording, emitting, verifying, compiling.
        effort: "fast", "balanced" or "thorough".
        seed: of the search. Same seed and time limit, same program, unless the report says that it was cut short.
        threads: how many threads share the points of a batch, or the work of one point where arrays are long.
        target: "llvm"; "numpy", readable source; "c", by the C compiler of this machine.
        dtype: "float64" or "float32" for the compiled code and its results.
        check_finite: raise `ArgumentError` for NaN or infinite arguments. Without, they propagate as IEEE 754 says.
        check: compare what was recorded with `f` on numbers, at the arguments of the first call and at two points
            around them: `f` runs three times more for each shape of its arguments.
        optimise: whether the program's operations are rewritten to fewer or cheaper ones, see `accumulus.optimise`. By
            default in float64 only: products in another order may leave the range of float32.
        exact_order: leave the arithmetic of `f` itself as it is written: its values, and all that derivatives take from
            them, are rounded as in `f`, operation by operation. Only what derivatives add is rewritten.
        guards: what becomes of decisions that `f` takes on values of its arguments (``if x > 0``, ``while``,
            ``int(x)``, sorting) where they are not recorded as choices: "cases" records `f` for each way in which it
            decides, when it is met, and has a program for each, which checks by itself that it is the right one;
            "error" refuses them.
        most_cases: how many programs there may be for arguments of one shape.
        cache: whether the plan, the rewritten program and the machine code are taken from the cache on disk, if they
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
    """Like `jacobian`, but returns the pair (value of f, Jacobian), computed together. Same options.

    >>> value, slope = value_and_jacobian(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    return derivative(f, VALUE_AND_JACOBIAN, argnums, asked)


@shows_arguments
def gradient(f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[Asked]) -> Derivative:
    """Gradient of a function that returns one number: shaped as the argument. Same options as `jacobian`.

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
    """Like `gradient`, but returns the pair (value of f, gradient), computed together. Same options.

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
    """`f` itself, rewritten to fewer operations and compiled, as a function of the same arguments.

    What it returns is `f`'s result, in the same structure. Batches, cases, reports and options are those of `jacobian`.

    Args:
        f, static_argnums, static_argnames: as for `jacobian`.
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
