"""Jacobians as linear operators, for SciPy's iterative solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from accumulus.api.asked import Asked, derivative, shows_arguments
from accumulus.errors import ArgumentError
from accumulus.programs.kinds import LINEAR_OPERATOR
from accumulus.programs.linearizations import Linearizations

__all__ = ["linear_operator"]


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
