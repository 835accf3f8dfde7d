"""Value and Jacobian of six functions, derived, written and tuned by hand: what the compiled programs have to match.

Each module has a function `value_and_jacobian(x)` of one sequence of numbers: straight-line arithmetic and functions of
`np` on scalars. It returns the values of f and the entries of the Jacobian that are not zero by structure, by (output,
input). The mathematics is what somebody who knows the field would use: reciprocals and products are shared, columns
that are opposite are one, values are taken from entries of the Jacobian, theorems of the field are used where they
shorten the way (the left Jacobian of rotations, Roe's property of his averages,
S e^(-qT) φ(d1) = K e^(-rT) φ(d2) of Black and Scholes). Programs for the same without such
theorems are beside them: what algebra and the chain rule reach.

What counts is counted by running the function on scalars that note every operation: see `counting`. Whatever is
computed from constants alone does not count, nor do copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from counting import Kind, Tally
from functions import Example, all_in
from hand import (
    black_scholes,
    dh_arm,
    pollu,
    quaternion_rotation,
    reprojection,
    reprojection_by_chain_rule,
    roe_flux,
    roe_flux_by_chain_rule,
)

#: The best, by the name of the example.
PROGRAMS: Mapping[str, ModuleType] = {
    "pollu": pollu,
    "reprojection": reprojection,
    "roe_flux": roe_flux,
    "black_scholes": black_scholes,
    "dh_arm": dh_arm,
    "quaternion_rotation": quaternion_rotation,
}
#: The best without theorems of the field, where there is such a program.
BY_CHAIN_RULE: Mapping[str, ModuleType] = {
    "pollu": pollu,
    "reprojection": reprojection_by_chain_rule,
    "roe_flux": roe_flux_by_chain_rule,
}


def functions() -> list[Example]:
    """Functions that are measured against programs by hand only, and are in no mean."""
    return all_in(Path(__file__).resolve().parent / "functions")


Results = tuple[Sequence[Any], Mapping[tuple[int, int], Any]]


def evaluate(
    program: ModuleType, example: Example, x: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values (outputs,) and the whole Jacobian (outputs, inputs) at a point (inputs,)."""
    values, entries = program.value_and_jacobian(list(x))
    jacobian = np.zeros((example.outputs, example.inputs))
    for place, entry in entries.items():
        jacobian[place] = entry
    return np.array(values), jacobian


def tally(program: ModuleType, example: Example) -> Tally:
    """Operations of a program for an example, by kind."""
    made: list[Kind] = []
    program.value_and_jacobian([Noted(value, made) for value in example.point])
    return Tally.of(made)


KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("add", "subtract", "multiply", "absolute", "sign"), "arithmetic"),
    **dict.fromkeys(("sin", "cos", "exp", "log", "erfc"), "function"),
    "divide": "division",
    "sqrt": "root",
    "negative": "sign",
}


class Noted(NDArrayOperatorsMixin):
    """A number that writes down the kind of every operation on it."""

    def __init__(self, value: float, made: list[Kind]) -> None:
        self.value = value
        self.made = made

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *arguments: Any) -> Noted:
        self.made.append(KINDS[ufunc.__name__])
        return Noted(ufunc(*(a.value if isinstance(a, Noted) else a for a in arguments)), self.made)
