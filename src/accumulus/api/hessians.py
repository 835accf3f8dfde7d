"""Second derivatives: `hessian`, `value_gradient_hessian` and `hessian_of_lagrangian`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from accumulus.api.asked import (
    AskedOfMatrix,
    GivenOfMatrix,
    derivative,
    options_and_choice,
    shows_arguments_and_choice,
    shows_choice,
)
from accumulus.api.jacobians import compile as compiled
from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import name_of
from accumulus.frontends.recorder import holder_of, recorder_of
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.programs.kinds import HESSIAN, VALUE_GRADIENT_HESSIAN

__all__ = ["hessian", "hessian_of_lagrangian", "value_gradient_hessian"]


@shows_arguments_and_choice
def hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, **asked: Unpack[AskedOfMatrix]
) -> Derivative:
    """Hessian of a function that returns one number, in the shape and structure of ``jax.hessian``.

    It is the Jacobian of the gradient's recording, of which one triangle is computed and stored at both places.

    Args:
        f, argnums, argnames, static_argnums, static_argnames, options: as for `jacobian`; with several arguments there
            is a block for each pair. `sparse` gives SciPy matrices (entries of argument × entries of argument).
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
    """Like `hessian`, but returns (value of f, gradient, Hessian), computed together. Same options.

    >>> import numpy as np
    >>> value, gradient, hessian = value_gradient_hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist(), hessian.tolist()
    (9.0, [3.0, 12.0], [[6.0, 0.0], [0.0, 12.0]])
    """
    return derivative(f, VALUE_GRADIENT_HESSIAN, argnums, asked)


@shows_choice
def hessian_of_lagrangian(f: Callable[..., Any], g: Callable[..., Any], **options: Unpack[GivenOfMatrix]) -> Derivative:
    """Hessian of sigma·f + multipliers·g by the first argument: a function of (x, sigma, multipliers).

    The convention of Ipopt. `f` returns one number, and `g`, the constraints, a number or an array, to which
    `multipliers` has the same shape. What follows in a call, (x, sigma, multipliers, p, …), are further arguments of
    both: f(x, p, …), g(x, p, …).

    Args:
        f, g: as for `jacobian`.
        options: those of `jacobian`.

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
        self._parts = compiled(f), compiled(g)

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
