"""Kinds of derivatives, one row each: the function that is differentiated, and the results that are returned.

One `Derivative` calls every kind, one `CompiledProgram` compiles it, and every kind can be recorded within other
functions. A new kind is a row here, and a function in `accumulus.api` that documents its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final


class Seeds(Enum):
    """Factors that multiply the Jacobian as part of the graph; the Jacobian is formed only where this is cheaper."""

    #: No factors: the derivative is the Jacobian itself.
    NONE = "none"
    #: Directions in the arguments: J·v.
    TANGENTS = "tangents"
    #: Taylor coefficients of a path of the arguments; no Jacobian is formed.
    SERIES = "series"
    #: Weights of the results: w·J.
    COTANGENTS = "cotangents"


@dataclass(frozen=True, slots=True)
class DerivativeKind:
    """Kind of derivatives: the derivatives that are returned, and their form.

    Attributes:
        name: name of the function of `accumulus` that makes it.
        title: description, for reports.
        values: True if the results of the differentiated function are returned before derivatives.
        derivatives: True if derivatives are returned.
        of_number: True if the function has to return one number.
        seeds: kind of the factors that multiply the derivatives.
        first: kind of the derivative that is recorded and then differentiated in place of the function.
        skipped: number of leading leaves of that derivative's result that are not differentiated.
        symmetric: True if the derivative is a Hessian, so that one triangle is enough.
        factored: True if the derivative is a linear operator, computed by factors of the Jacobian.
    """

    name: str
    title: str
    values: bool = False
    derivatives: bool = True
    of_number: bool = False
    seeds: Seeds = Seeds.NONE
    first: DerivativeKind | None = None
    skipped: int = 0
    symmetric: bool = False
    factored: bool = False

    @property
    def has_seeds(self) -> bool:
        """Return True if directions or weights are among the arguments."""
        return self.seeds is not Seeds.NONE

    @property
    def order(self) -> int:
        """Order of the derivatives: 1, or 2 if derivatives are differentiated."""
        return 1 if self.first is None else 2

    @property
    def noun(self) -> str:
        """Return the name of results in source text: the last word of the kind's name."""
        return self.name.rpartition("_")[2]

    @property
    def is_matrix(self) -> bool:
        """Return True if derivatives are matrices whose rows, columns and entries may be selected."""
        return self.derivatives and not (self.of_number or self.has_seeds or self.factored)

    @property
    def needs_number(self) -> bool:
        """Return True if the function itself has to return one number."""
        return self.of_number if self.first is None else self.first.needs_number


JACOBIAN: Final = DerivativeKind("jacobian", "Jacobian")
VALUE_AND_JACOBIAN: Final = DerivativeKind("value_and_jacobian", "Value and Jacobian", values=True)
GRADIENT: Final = DerivativeKind("gradient", "Gradient", of_number=True)
VALUE_AND_GRADIENT: Final = DerivativeKind("value_and_gradient", "Value and gradient", values=True, of_number=True)
COMPILED: Final = DerivativeKind("compile", "Value", values=True, derivatives=False)
JVP: Final = DerivativeKind(
    "jvp", "Value and product of the Jacobian with directions", values=True, seeds=Seeds.TANGENTS
)
VJP: Final = DerivativeKind(
    "vjp", "Value and product of weights with the Jacobian", values=True, seeds=Seeds.COTANGENTS
)
TAYLOR: Final = DerivativeKind(
    "taylor", "Value and Taylor coefficients", values=True, derivatives=False, seeds=Seeds.SERIES
)
HVP: Final = DerivativeKind("hvp", "Product of the Hessian with directions", seeds=Seeds.TANGENTS, first=GRADIENT)
HESSIAN: Final = DerivativeKind("hessian", "Hessian", first=GRADIENT, symmetric=True)
LINEAR_OPERATOR: Final = DerivativeKind("linear_operator", "Value and factors of the Jacobian", factored=True)
VALUE_GRADIENT_HESSIAN: Final = DerivativeKind(
    "value_gradient_hessian",
    "Value, gradient and Hessian",
    values=True,
    first=VALUE_AND_GRADIENT,
    skipped=1,
    symmetric=True,
)

#: All kinds, by name.
KINDS: Final = {
    kind.name: kind
    for kind in (
        *(JACOBIAN, VALUE_AND_JACOBIAN, GRADIENT, VALUE_AND_GRADIENT, COMPILED, JVP, VJP, TAYLOR, HVP, HESSIAN),
        *(LINEAR_OPERATOR, VALUE_GRADIENT_HESSIAN),
    )
}


def in_tangent_spaces(kind: DerivativeKind) -> DerivativeKind:
    """Return the kind of a function that computes derivatives in tangent spaces."""
    return replace(COMPILED, name=kind.name, title=f"{kind.title} in tangent spaces")
