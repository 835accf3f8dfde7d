"""The kinds of derivatives, a row each: what is recorded and differentiated, and what is returned.

One `Derivative` calls them, one `Program` compiles them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["COMPILED", "GRADIENT", "JACOBIAN", "VALUE_AND_GRADIENT", "VALUE_AND_JACOBIAN", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is made of a function.

    Attributes:
        name: of the function of `accumulus` that makes it.
        title: what it is, for reports.
        values: whether the function's own results are returned, before derivatives.
        derivatives: whether derivatives are.
        of_number: whether the function has to return one number.
    """

    name: str
    title: str
    values: bool = False
    derivatives: bool = True
    of_number: bool = False


JACOBIAN: Final = Kind("jacobian", "Jacobian")
VALUE_AND_JACOBIAN: Final = Kind("value_and_jacobian", "Value and Jacobian", values=True)
GRADIENT: Final = Kind("gradient", "Gradient", of_number=True)
VALUE_AND_GRADIENT: Final = Kind("value_and_gradient", "Value and gradient", values=True, of_number=True)
COMPILED: Final = Kind("compile", "Value", values=True, derivatives=False)
