"""A function that returns the Jacobian of another as a linear operator; what `linear_operator` returns."""

from __future__ import annotations

from typing import Any

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.programs.derivative import Derivative

__all__ = ["Linearizations"]


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
