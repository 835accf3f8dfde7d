"""Entries of the arguments that symbols stand for: references to the tape, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp
from numpy.typing import NDArray
from sympy.matrices.expressions.matexpr import MatrixElement

from accumulus.errors import ArgumentError
from accumulus.frontends.active import refuse
from accumulus.frontends.sympy.model import Model


class Places:
    """The arguments of a model as arrays of whatever stands for their entries.

    Raises:
        ArgumentError: for another number of arguments, or one of another shape.
    """

    def __init__(self, model: Model, arrays: Sequence[NDArray[Any]]) -> None:
        if len(arrays) != len(model.arguments):
            raise ArgumentError(f"{len(arrays)} arguments are given; expected {len(model.arguments)}: {model.text}")
        self.text = model.text
        self._of_symbol: dict[Any, Any] = {}
        self._of_name: dict[Any, NDArray[Any]] = {}
        for position, (argument, array) in enumerate(zip(model.arguments, arrays, strict=True)):
            if not argument.takes(array.shape):
                wanted = f"shape {argument.shape}" if argument.shape is not None else f"{len(argument.symbols)} entries"
                raise ArgumentError(
                    f"argument {position} has shape {array.shape}; expected {wanted}, for {argument.text}"
                )
            if argument.is_name:
                self._of_name[argument.symbols[0]] = array
            else:
                self._of_symbol.update(zip(argument.symbols, array.ravel().tolist(), strict=True))

    def add(self, symbol: Any, place: Any) -> None:
        """Let `place` stand for one symbol more."""
        self._of_symbol[symbol] = place

    def of(self, node: Any) -> Any:
        """Return what stands for a symbol; None for one that is no argument.

        Raises:
            TraceError: for an entry that an array does not have.
        """
        found = self._of_symbol.get(node)
        if found is not None or not self._of_name or not isinstance(node, sp.Indexed | MatrixElement):
            return found
        base = node.base if isinstance(node, sp.Indexed) else node.parent
        array, index = self._of_name.get(base), node.indices
        if array is None:
            return None
        if len(index) != array.ndim or not all(
            i.is_Integer and -size <= i < size for i, size in zip(index, array.shape, strict=True)
        ):
            raise refuse(
                f"{node} is not an entry of {base}, which is given as an array of shape {array.shape}; expected whole "
                "numbers as indices."
            )
        return array[tuple(map(int, index))].item()
