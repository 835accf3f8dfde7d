"""Run a tape by interpreting it: the slow, obvious reference that every compiled target is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.tape.operations import INPUT, OPERATIONS
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
    # constants count down from the end, after the values that are still to come
    values: list[Any] = [None] * len(tape) + [number(value) for value in reversed(tape.constants)]
    # the product makes NumPy's numbers of Python's, which raise where IEEE gives infinity or NaN
    values[: tape.inputs] = inputs if arithmetic is not None else [np.multiply(1.0, x) for x in inputs]
    used = set(tape.codes) - {INPUT}
    rows = {code: OPERATIONS[code] for code in used}
    runs = {code: row.by_numpy if arithmetic is None else arithmetic[row.name] for code, row in rows.items()}
    arity = {code: row.arity for code, row in rows.items()}
    codes, first, second, third = tape.codes, tape.first, tape.second, tape.third
    with np.errstate(all="ignore"):
        for reference in range(tape.inputs, len(tape)):
            code = codes[reference]
            run, count = runs[code], arity[code]
            if count == 1:
                values[reference] = run(values[first[reference]])
            elif count == 2:
                values[reference] = run(values[first[reference]], values[second[reference]])
            else:
                arguments = first[reference], second[reference], third[reference]
                values[reference] = run(*(values[argument] for argument in arguments))
    return [values[reference] for reference in tape.outputs]
