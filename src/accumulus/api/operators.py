"""Jacobians as linear operators, for SciPy's iterative solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from accumulus.api.asked import Asked, derivative, shows_arguments
from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.programs.derivative import Derivative
from accumulus.programs.kinds import LINEAR_OPERATOR

__all__ = ["Linearizations", "linear_operator"]


class Linearizations:
    """A function that returns the Jacobian of another at its arguments, as a `JacobianOperator`.

    Records, plans and compiles when it is first called with arguments of new shapes, as a `Derivative` does.

    Args:
        derivative: whose programs return operators.
    """

    def __init__(self, derivative: Derivative) -> None:
        self._derivative = derivative
        self.__name__ = derivative.__name__
        self.__doc__ = derivative.__doc__
        self.__wrapped__ = derivative.__wrapped__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The Jacobian at one point, as an operator.

        Raises:
            ArgumentError: while a function is recorded: operators are no arrays, and cannot be part of it.
        """
        if ACTIVE.tape is not None:
            raise ArgumentError(
                f"{self.__name__} was called in a function that is recorded; expected numbers: of traced values use "
                "acc.jvp and acc.vjp, which become part of the function"
            )
        return self._derivative(*arguments, **keywords)

    def __repr__(self) -> str:
        return repr(self._derivative)


@shows_arguments
def linear_operator(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[Asked]
) -> Linearizations:
    """The Jacobian of `f` as a linear operator of SciPy, as a function of the same arguments.

    At a point the operator is computed once; a product with it then takes a multiplication for each edge that is left
    of the differentiation graph, of which as many are eliminated as lowers that: never more than the Jacobian has
    nonzeros. Of long arrays, which become loops, it is the sparse Jacobian.

    Args:
        f: as for `jacobian`.
        argnums: position or positions of the arguments to differentiate by. The operator's rows are the entries of all
            results, its columns those of these arguments, both in C order and one after the other.
        asked: the names and options of `jacobian`, but for `sparse`.

    Returns:
        A function of the arguments of `f` that returns a ``scipy.sparse.linalg.LinearOperator`` of shape (entries of
        the results, entries of the arguments), with `value`, what `f` returns there, and the cost of a product,
        `multiplications`, beside the `nonzeros` of the Jacobian.

    Raises:
        ArgumentError: for `sparse`; at a call within a function that is recorded; else as `jacobian`.
        TraceError: as `jacobian`.
        SizeError: of long arrays, if the nonzeros of the Jacobian do not fit into memory.

    >>> import numpy as np
    >>> weights = np.arange(1.0, 7.0)
    >>> A = linear_operator(lambda x: x + weights * np.sin(weights @ x))(np.zeros(6))
    >>> A.shape, A @ np.ones(6), A.T @ np.ones(6)
    ((6, 6), array([ 22.,  43.,  64.,  85., 106., 127.]), array([ 22.,  43.,  64.,  85., 106., 127.]))
    >>> A.value, A.multiplications, A.nonzeros
    (array([0., 0., 0., 0., 0., 0.]), 11, 36)
    """
    if asked.get("sparse") is not None:
        raise ArgumentError(f"sparse is {asked['sparse']!r} for linear_operator, which makes no matrix; expected none")
    # of long arrays the factors are the nonzeros
    return Linearizations(derivative(f, LINEAR_OPERATOR, argnums, {**asked, "sparse": "csr"}))
