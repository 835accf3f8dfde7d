"""Roots of equations, differentiated by the implicit function theorem.

Source: A. Griewank and A. Walther, Evaluating Derivatives, 2008, chapter 15.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, Final

import numpy as np

from accumulus.api.jacobians import compile as compiled
from accumulus.errors import ArgumentError, ConvergenceError, unknown_name
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.kinds import numbers_in
from accumulus.frontends.location import name_of
from accumulus.frontends.recorder import holder_of, is_plain
from accumulus.frontends.trees import flatten

#: Default of an argument that was not passed.
MISSING: Final = object()
#: Parameters in the signature of a call; all arguments are positional.
_FORM: Final = (("guess", Parameter.POSITIONAL_OR_KEYWORD), ("parameters", Parameter.VAR_POSITIONAL))


def implicit(
    residual: Callable[..., Any], *, steps: int = 10, rtol: float = 1e-5, atol: float = 1e-8, **unknown: Any
) -> ImplicitFunction:
    """Return the function y(p, …) for which ``residual(y, p, …)`` is zero, as a function of (guess, p, …).

    Call it on numbers, or within functions that are compiled and differentiated. A compiled function takes exactly
    `steps` steps of Newton's method from the guess, at every point. Derivatives of any order follow from the implicit
    function theorem: -(∂r/∂y)⁻¹·∂r/∂p at the root. The iteration is not differentiated, and derivatives with respect to
    the guess are zero.

    To differentiate a root that another solver has computed, pass it as the guess, with ``steps=1``.

    Args:
        residual: function of y and of any number of parameters. y has the structure and shapes of the guess. The
            residual returns as many real numbers as y has, in arrays or containers of any shape, and is written with
            functions of NumPy or JAX. A NumPy function may use traced values of an enclosing function, which then
            become parameters, too.
        steps: number of Newton steps. Each evaluates the residual and its Jacobian and solves a linear system.
        rtol: relative tolerance. The last two steps of each unknown y must be at most ``atol + rtol * abs(y)``.
            Newton's method squares the error at each step, so that only rounding errors remain after the last one.
        atol: absolute tolerance, in units of y.
        **unknown: must be empty; any other option raises an `UnknownNameError`.

    Returns:
        A function of a guess and the parameters.

    Raises:
        ArgumentError: if `steps` is not a positive integer or a tolerance not a positive number; at the call, for a
            guess that does not consist of real numbers, for numbers of equations and unknowns that differ, for
            keywords, or for a wrong number of parameters.
        UnknownNameError: for any other option.
        SizeError: if the steps, which are unrolled, would take more than five million operations.
        ConvergenceError: at a call on finite numbers, if the steps do not reach a root, or the Jacobian is singular
            there. Compiled code returns NaN at these points, in y and in all values that depend on it.
        TraceError: if the residual cannot be recorded, or has a branch on y that cannot be recorded as a selection
            of values.

    >>> import numpy as np
    >>> import accumulus as acc
    >>> kepler = acc.implicit(lambda E, M, e: E - e * np.sin(E) - M)
    >>> print(f"{kepler(1.0, 1.0, 0.1):.12f}")
    1.088597752398
    >>> slope = acc.gradient(lambda M: kepler(M, M, 0.1))
    >>> print(f"{slope(1.0):.12f}")
    1.048627827636
    >>> slope.batch(np.linspace(0.0, 3.0, 1000)).shape
    (1000,)
    """
    if unknown:
        raise unknown_name("option of implicit", next(iter(unknown)), ("steps", "rtol", "atol"))
    return ImplicitFunction(residual, steps, rtol, atol)


class ImplicitFunction:
    """Function of a guess and of the residual's parameters that returns the root; the result of `implicit`."""

    def __init__(self, residual: Callable[..., Any], steps: int, rtol: float, atol: float) -> None:
        if not callable(residual):
            raise ArgumentError(f"residual is {residual!r:.60}; expected a function of unknowns and parameters")
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
            raise ArgumentError(f"steps is {steps!r}; expected a whole number, at least 1")
        for name, value in {"rtol": rtol, "atol": atol}.items():
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < value < np.inf:
                raise ArgumentError(f"{name} is {value!r}; expected a positive number")
        self.__name__ = f"implicit({name_of(residual)})"
        self.holder = holder_of(residual)
        self._signature = _signature(residual)
        self.__signature__ = Signature([Parameter(name, kind) for name, kind in _FORM])
        if not is_plain(residual):  # it becomes a derivative within the recording
            residual = compiled(residual, check=False, optimise=False, effort="fast")
        self._residual, self._steps, self._rtol, self._atol = residual, int(steps), float(rtol), float(atol)
        self._compiled = compiled(self, check=False, optimise=False, effort="fast")

    def __call__(self, guess: Any = MISSING, *parameters: Any, **keywords: Any) -> Any:
        """Return the root near a guess, in the structure of the guess."""
        if keywords or guess is MISSING:
            description = ", ".join(keywords) if keywords else "no arguments"
            raise ArgumentError(
                f"{self.__name__} is called with {'keywords ' * bool(keywords)}{description}; expected a guess, and "
                f"the parameters of its residual by position: {self._form()}"
            )
        if ACTIVE.tape is not None:
            self._check_count(1 + len(parameters))
            for path, leaf in flatten((guess, *parameters))[1]:
                numbers_in(leaf, f"argument {path} of {self.__name__}")  # of JAX's arrays, only concrete ones pass
            from accumulus.programs.newton import root  # only processes with an implicit function need it

            return root(
                self._residual, guess, parameters, self.__name__, steps=self._steps, rtol=self._rtol, atol=self._atol
            )
        if self in ACTIVE.explained:  # solving would record it again, and meet the same error
            return self._residual(guess, *parameters)
        solution = self._compiled(guess, *parameters)
        if not _is_finite(solution) and _is_finite((guess, *parameters)):
            raise ConvergenceError(
                f"{self.__name__} found no root in {self._steps} steps from {guess!r:.200}: the steps did not "
                f"converge to rtol = {self._rtol:g} and atol = {self._atol:g}, or the Jacobian is singular. Pass a "
                "better guess or more steps, or use a root from another solver as the guess"
            )
        return solution

    def _check_count(self, count: int) -> None:
        """Raise an `ArgumentError` if the residual does not take this number of arguments."""
        if self._signature is None:
            return
        try:
            self._signature.bind(*range(count))
        except TypeError:
            raise ArgumentError(
                f"{self.__name__} is called with a guess and {count - 1} parameters; expected {self._form()}"
            ) from None

    def _form(self) -> str:
        """Return the form of a call, for messages."""
        names = ["…"] if self._signature is None else [*map(str, self._signature.parameters.values())][1:]
        return f"(guess{''.join(f', {name}' for name in names)})"


def _signature(function: Callable[..., Any]) -> Signature | None:
    """Return the signature of a function, or None if Python cannot determine it."""
    try:
        return signature(function)
    except (TypeError, ValueError):
        return None


def _is_finite(tree: Any) -> bool:
    """Return True if all floating-point numbers in containers are finite."""
    arrays = [np.asarray(leaf) for _, leaf in flatten(tree)[1] if leaf is not None]
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
