"""Run a tape by interpreting it: the slow, obvious reference that every compiled target is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.tape.tape import Tape

__all__ = ["evaluate"]


def evaluate(
    tape: Tape,
    inputs: Sequence[Any],
    arithmetic: Mapping[str, Callable[..., Any]] | None = None,
    number: Callable[[float], Any] = np.float64,
) -> list[Any]:
    """Values of the tape's outputs.

    Args:
        inputs: one number, or array of points, for each input of the tape.
        arithmetic: a function for each operation name; by default NumPy's, elementwise. With mpmath's or Fraction's
            functions the same tape runs in high precision or exactly.
        number: makes a number of that arithmetic from a float constant.

    Raises:
        ArgumentError: if the number of inputs is wrong.

    >>> tape = Tape(1)
    >>> tape.outputs = [tape.multiply(0, tape.apply("exp", 0))]
    >>> float(evaluate(tape, [0.0])[0])
    0.0
    """
    if len(inputs) != tape.inputs:
        raise ArgumentError(f"the tape has {tape.inputs} inputs, {len(inputs)} values were given")
    constants = [number(value) for value in tape.constants]
    # the product makes NumPy's numbers of Python's, which raise where IEEE gives infinity or NaN
    values: list[Any] = [*inputs] if arithmetic is not None else [np.multiply(1.0, x) for x in inputs]

    def value(reference: int) -> Any:
        return constants[-1 - reference] if reference < 0 else values[reference]

    for reference in range(tape.inputs, len(tape)):
        operation = tape.operation(reference)
        run = operation.evaluate if arithmetic is None else arithmetic[operation.name]
        values.append(run(*map(value, tape.arguments(reference))))
    return [value(reference) for reference in tape.outputs]
