"""The front end of Python functions of NumPy arrays: run once, on traced values in the place of numbers."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.patching import patched, replaced
from accumulus.frontends.numpy.scalars import Traced, TracedScalar
from accumulus.frontends.numpy.table import FUNCTIONS, function_name
from accumulus.frontends.recorder import Recorder, References
from accumulus.tape.tape import Tape

__all__ = ["RECORDER", "supported"]


class _Tracer(Recorder):
    def takes(self, function: object) -> bool:
        return callable(function)

    def run(
        self,
        function: Any,
        tape: Tape,
        arguments: Sequence[Any],
        inputs: Sequence[References | None],
    ) -> Any:
        traced = [
            replaced(argument) if references is None else _traced(tape, argument, references)
            for argument, references in zip(arguments, inputs, strict=True)
        ]
        with patched(function):
            return replaced(function)(*traced)

    def references(self, tape: Tape, leaf: Any) -> References | None:
        if isinstance(leaf, np.ndarray):
            return references_of(tape, leaf) if leaf.dtype.kind in "fiubO" else None
        is_real = isinstance(leaf, Traced | numbers.Real | np.bool_) and not isinstance(leaf, np.complexfloating)
        return references_of(tape, leaf) if is_real else None


def _traced(tape: Tape, argument: Any, references: References) -> Traced:
    if isinstance(argument, np.ndarray):
        return TracedArray(tape, references)
    return TracedScalar(tape, int(references))


def supported() -> list[str]:
    """Names of the array functions that are recorded, apart from NumPy's elementwise universal functions.

    >>> supported()[:3]
    ['np.all', 'np.amax', 'np.amin']
    """
    return sorted(map(function_name, FUNCTIONS))


RECORDER: Final = _Tracer()
