"""Front end for Python functions of NumPy arrays, which run once on traced values."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.calls import Restructured, function_of
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.calling import called, forget
from accumulus.frontends.numpy.merging import recorded
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.patching import patched, replaced
from accumulus.frontends.numpy.scalars import Traced, TracedScalar
from accumulus.frontends.numpy.table import BORROWED, FUNCTIONS, REFUSED, function_name, load_rows
from accumulus.frontends.recorder import Inputs, Recorder, References
from accumulus.tape.tape import Tape


class _Tracer(Recorder):
    def takes(self, function: object) -> bool:
        return callable(function)

    def run(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        def run(call: Callable[[Any], Any]) -> Any:
            return _run(function, tape, arguments, inputs, call)

        with patched(function_of(function)):
            if ACTIVE.decisions is None:
                return run(lambda called: called)
            try:
                return recorded(lambda: run(called))
            finally:
                forget()

    def run_nested(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        decides = ACTIVE.decisions is not None
        with patched(function_of(function)):
            return _run(function, tape, arguments, inputs, called if decides else lambda called: called)

    def references(self, tape: Tape, leaf: Any) -> References | None:
        if isinstance(leaf, np.ndarray):
            return references_of(tape, leaf) if leaf.dtype.kind in "fiubO" else None
        if getattr(leaf, "is_complex", False):
            return None
        is_real = isinstance(leaf, Traced | numbers.Real | np.bool_) and not isinstance(leaf, np.complexfloating)
        return references_of(tape, leaf) if is_real else None


def _run(
    function: Any,
    tape: Tape,
    arguments: Sequence[Any],
    inputs: Inputs,
    call: Callable[[Any], Any],
) -> Any:
    """Run a function on traced values; `call` maps the function to the one to call."""
    traced: Sequence[Any] = [
        replaced(argument) if references is None else _traced(tape, argument, references)
        for argument, references in zip(arguments, inputs, strict=True)
    ]
    operands, keywords = function.arguments(traced, replaced) if isinstance(function, Restructured) else (traced, {})
    return call(replaced(function_of(function)))(*operands, **keywords)


def _traced(tape: Tape, argument: Any, references: References) -> Traced:
    if isinstance(argument, np.ndarray):
        return TracedArray(tape, references)
    return TracedScalar(tape, int(references))


def supported() -> list[str]:
    """Return the names of recorded functions, except elementwise universal functions of NumPy and SciPy.

    >>> {"np.all", "math.sin"} <= set(supported())
    True
    """
    load_rows(everything=True)
    borrowed = {f"{module}.{name}" for module, rows in BORROWED.items() for name in rows} - REFUSED
    return sorted([*map(function_name, FUNCTIONS), *borrowed])


RECORDER: Final = _Tracer()
