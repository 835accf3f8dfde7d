"""The front end of SymPy: its expressions are written down as they stand, and nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import sympy as sp

from accumulus.frontends.calls import as_called
from accumulus.frontends.recorder import Inputs, Recorder, References
from accumulus.frontends.sympy.model import Model
from accumulus.frontends.sympy.numbers import evaluated
from accumulus.frontends.sympy.places import Places
from accumulus.frontends.sympy.writing import Writer
from accumulus.tape.tape import Tape

__all__ = ["RECORDER"]


class _Expressions(Recorder):
    """Takes a `sympy.Lambda`, and a `Model`."""

    def takes(self, function: object) -> bool:
        return isinstance(function, sp.Lambda | Model)

    def run(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        function, arguments, inputs = as_called(function, arguments, inputs)
        model = _model(function)
        given = [
            np.asarray(argument, float) if references is None else references
            for argument, references in zip(arguments, inputs, strict=True)
        ]
        writer = Writer(tape, Places(model, given))
        return model.map(lambda entries: np.array(writer.references(entries), np.int64))

    def references(self, tape: Tape, leaf: Any) -> References | None:
        return np.asarray(leaf)

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        function, arguments, _ = as_called(function, arguments)
        return evaluated(_model(function), arguments)

    def holds(self, function: Any) -> object:
        return ()


def _model(function: Any) -> Model:
    return function if isinstance(function, Model) else Model(function.signature, function.expr)


RECORDER: Final = _Expressions()
