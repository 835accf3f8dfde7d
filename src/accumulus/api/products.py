"""Products with Jacobians and Hessians that are never formed; Taylor coefficients; Jacobians as linear operators.

Source: A. Griewank and A. Walther, Evaluating Derivatives, 2008: chapter 3 for products, chapter 10 for operators with
few multiplications, chapter 13 for Taylor coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never, Unpack

from accumulus.api.common_options import (
    MANIFOLDS,
    DerivativeOptions,
    ManifoldOptions,
    dense,
    derivative,
    manifolds_in,
    shows_arguments,
    shows_manifolds,
)
from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import name_of
from accumulus.options import OptionKeywords, refuses, shows_options, takes_one_function
from accumulus.programs.derivative import Derivative
from accumulus.programs.directions import DirectionForms
from accumulus.programs.kinds import HVP, JVP, LINEAR_OPERATOR, TAYLOR, VJP, DerivativeKind


@refuses("sparse")
@shows_manifolds
def jvp(f: Callable[..., Any], *extra: Never, **options: Unpack[ManifoldOptions]) -> Derivative:
    """Return the value of `f` and its Jacobian times directions, as a function of (primals, tangents).

    A call returns the pair (value, tangent), like ``jax.jvp(f, primals, tangents)``. `primals` is the tuple of all
    arguments. `tangents` has the same structure, with None for constant arguments. An additional leading axis of the
    tangents holds several directions, without `jax.vmap`; the returned tangents then have that axis, too.

    Directions are part of the graph, so a plan may eliminate it forward, in reverse, or in any mixed order.

    Args:
        f: function as for `jacobian`.
        *extra: must be empty; a second positional argument raises an `ArgumentError` that shows the right call.
        options: options of `jacobian`, except `sparse`.
        on: manifolds of the arguments, one for all or one for each, as for `jacobian`.
        into: manifold of the result, as for `jacobian`.

    Raises:
        ArgumentError: for `sparse`; at the call, for tangents of another structure or shape than the primals.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> pushed = jvp(lambda x, a: a * np.sin(x))
    >>> value, tangent = pushed((np.zeros(2), 3.0), (np.array([1.0, 2.0]), None))
    >>> value, tangent
    (array([0., 0.]), array([3., 6.]))
    >>> pushed((np.zeros(2), 3.0), (np.eye(2), None))[1]
    array([[3., 0.],
           [0., 3.]])
    """
    takes_one_function("jvp", "(x,), (v,)", extra)
    return _directed(f, JVP, options)


@refuses("sparse")
@shows_manifolds
def vjp(f: Callable[..., Any], *extra: Never, **options: Unpack[ManifoldOptions]) -> Derivative:
    """Return the value of `f` and weights times its Jacobian, as a function of (primals, cotangents).

    It combines ``value, back = jax.vjp(f, *primals)`` and ``back(cotangents)``. `primals` is the tuple of all
    arguments. `cotangents` has the structure of the result of `f`. A call returns the pair (value, products), with one
    product for each argument, or None for an argument without numbers. An additional leading axis of the cotangents
    holds several weights.

    Args:
        f: function as for `jacobian`.
        *extra: must be empty; a second positional argument raises an `ArgumentError` that shows the right call.
        options: options of `jacobian`, except `sparse`.
        on: manifolds of the arguments, one for all or one for each, as for `jacobian`.
        into: manifold of the result, as for `jacobian`.

    Raises:
        ArgumentError: for `sparse`; at the call, for cotangents of another structure or shape than the results.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> value, (by_x, by_a) = vjp(lambda x, a: a * x**2)((np.array([1.0, 2.0]), 3.0), np.array([1.0, 0.5]))
    >>> by_x, float(by_a)
    (array([6., 6.]), 3.0)
    """
    takes_one_function("vjp", "(x,), (w,)", extra)
    return _directed(f, VJP, options)


@refuses("sparse")
@shows_manifolds
def hvp(f: Callable[..., Any], *extra: Never, **options: Unpack[ManifoldOptions]) -> Derivative:
    """Return the Hessian of a function that returns one number, times directions: a function of (primals, tangents).

    A call computes ``jax.jvp(jax.grad(f), primals, tangents)[1]`` for all arguments that have a tangent. The result has
    their structure, with None where the tangent is None. Several directions are passed as in `jvp`. For the gradient as
    well, call ``accumulus.jvp(accumulus.gradient(f))``.

    Args:
        f: function as for `gradient`.
        *extra: must be empty; a second positional argument raises an `ArgumentError` that shows the right call.
        options: options of `jacobian`, except `sparse`.
        on: manifolds of the arguments, one for all or one for each, as for `jacobian`.
        into: manifold of the result, as for `jacobian`.

    Raises:
        ArgumentError: for `sparse`; at the call, as `jvp`, and if `f` returns anything but one number.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> product = hvp(lambda x: x[0] ** 2 * x[1])
    >>> product((np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    (array([4., 2.]),)
    """
    takes_one_function("hvp", "(x,), (v,)", extra)
    return _directed(f, HVP, options)


@refuses("sparse")
@shows_options
def taylor(f: Callable[..., Any], *extra: Never, **options: Unpack[OptionKeywords]) -> Derivative:
    """Return a function of (primals, series): the value of `f` and its Taylor coefficients along a path.

    With x(t) = x₀ + x₁·t + x₂·t² + …, f(x(t)) is y₀ + y₁·t + y₂·t² + …. `primals` is the tuple of all arguments, x₀.
    `series` has the same structure, with an additional leading axis: x₁, x₂, …, and None for constant arguments. The
    length of that axis is the order. A call returns the pair (y₀, coefficients), with y₁, y₂, … along the first axis.
    The coefficients multiply powers of t; `jax.experimental.jet` uses derivatives instead, k!·x_k and k!·y_k.

    The recurrences of Taylor arithmetic compute them in O(order²) products for each operation. If `f` solves equations
    (`implicit`, large linear systems), the coefficients are computed as repeated derivatives with respect to t.

    Args:
        f: function as for `jacobian`.
        *extra: must be empty; a second positional argument raises an `ArgumentError` that shows the right call.
        options: options of `jacobian`, except `sparse`.

    Raises:
        ArgumentError: for `sparse`; at the call, for series of another structure or shape than the primals.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> value, coefficients = taylor(np.exp)((0.0,), (np.array([1.0, 0.0, 0.0]),))  # of exp(t)
    >>> float(value), coefficients.tolist()
    (1.0, [1.0, 0.5, 0.16666666666666666])
    """
    takes_one_function("taylor", "(x,), (v,)", extra)
    return _directed(f, TAYLOR, options)


def _directed(f: Callable[..., Any], kind: DerivativeKind, options: OptionKeywords | ManifoldOptions) -> Derivative:
    keywords = dict[str, Any](options)
    if kind is not TAYLOR:
        on, into = manifolds_in(keywords)
        if on is not None or into is not None:
            from accumulus.api.tangents import tangent_derivative  # not needed by every process

            return tangent_derivative(f, kind, None, [None, (), ()], dense(kind, keywords), None, on, into)
    return Derivative(
        f, kind, DirectionForms(f, name_of(f), kind), dense(kind, keywords, [] if kind is TAYLOR else MANIFOLDS)
    )


# Linear operators, for iterative solvers of SciPy ---------------------------------------------------------------------


class Linearizations:
    """A function that returns the Jacobian of another function at its arguments, as a `JacobianOperator`.

    The first call with arguments of new shapes records, plans and compiles, as for a `Derivative`.

    Args:
        derivative: derivative whose programs return operators.
    """

    def __init__(self, derivative: Derivative) -> None:
        self._derivative = derivative
        self.__name__ = derivative.__name__
        self.__doc__ = derivative.__doc__
        self.__wrapped__ = derivative.__wrapped__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the Jacobian at one point, as an operator.

        Raises:
            ArgumentError: if called while a function is recorded. Operators are not arrays, so a recording cannot
                contain them.
        """
        if ACTIVE.tape is not None:
            raise ArgumentError(
                f"{self.__name__} was called with traced values, but is bound to one point; inside functions that are "
                "recorded use acc.jvp and acc.vjp"
            )
        return self._derivative(*arguments, **keywords)

    def __repr__(self) -> str:
        return repr(self._derivative)


@refuses("sparse")
@shows_arguments
def linear_operator(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **options: Unpack[DerivativeOptions]
) -> Linearizations:
    """Return the Jacobian of `f` as a SciPy linear operator, as a function of the same arguments.

    The operator is computed once at each point. A product with it takes one multiplication for each edge of the reduced
    differentiation graph. Vertices are eliminated as long as this lowers the number of edges, which never exceeds the
    number of nonzeros of the Jacobian. For long arrays, which become loops, the operator is the sparse Jacobian.

    Args:
        f: function as for `jacobian`.
        argnums: positions of the arguments to differentiate with respect to. The operator's rows are the entries of all
            results, and its columns the entries of these arguments, in C order, one array after the other.
        options: names and options of `jacobian`, except `sparse`.

    Returns:
        A function of the arguments of `f` that returns a ``scipy.sparse.linalg.LinearOperator`` of shape (entries of
        the results, entries of the arguments). Its attribute `value` is the result of `f` at the point,
        `multiplications` the cost of a product, and `nonzeros` the number of nonzeros of the Jacobian.

    Raises:
        ArgumentError: for `sparse`; for a call within a function that is recorded; and as `jacobian`.
        TraceError: as `jacobian`.
        SizeError: for long arrays, if the nonzeros of the Jacobian do not fit into memory.

    >>> import numpy as np
    >>> weights = np.arange(1.0, 7.0)
    >>> A = linear_operator(lambda x: x + weights * np.sin(weights @ x))(np.zeros(6))
    >>> A.shape, A @ np.ones(6), A.T @ np.ones(6)
    ((6, 6), array([ 22.,  43.,  64.,  85., 106., 127.]), array([ 22.,  43.,  64.,  85., 106., 127.]))
    >>> A.value, A.multiplications, A.nonzeros
    (array([0., 0., 0., 0., 0., 0.]), 11, 36)
    """
    if options.get("sparse") is not None:
        raise ArgumentError(
            f"sparse is {options['sparse']!r} for linear_operator, which makes no matrix; leave sparse out"
        )
    # with loops, the operator holds the nonzeros of the sparse Jacobian
    return Linearizations(derivative(f, LINEAR_OPERATOR, argnums, {**options, "sparse": "csr"}))
