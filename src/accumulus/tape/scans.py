"""Recurrences of programs over arrays: that nothing is taken before it is there, and their values, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.helpers import helpers
from accumulus.tape.tape import Tape

__all__ = ["body_function", "check_order", "relative", "run_steps"]

#: Where the references of a block's own results begin when blocks that begin at different places are compared.
_OWN: Final = 2**62

Integers = NDArray[np.int64]


def check_order(operands: Sequence[Column], start: int, outputs: int, steps: Integers, constants: int) -> None:
    """Refuse columns in which an instance takes a result of its own step, of a later one, or one that does not exist.

    Args:
        start: reference of the first result.
        outputs: of the body.
        steps: offsets of the instances of each step.
        constants: reference of the last constant.

    Raises:
        ArgumentError: if there is one.
    """
    count = int(steps[-1])
    step_of = np.repeat(np.arange(len(steps) - 1), np.diff(steps))
    for position, operand in enumerate(operands):
        if len(operand) != count:
            raise ArgumentError(f"operand {position} has {len(operand)} entries; expected {count}, one an instance")
        if isinstance(operand, Range) and count:
            ends = operand.start, operand.start + operand.step * (count - 1)
            if constants <= min(ends) and max(ends) < start:
                continue
        references = references_in(operand)
        own = references >= start
        if (references < constants).any() or (references >= start + count * outputs).any():
            raise ArgumentError(f"operand {position} has references to what does not exist")
        wrong = np.flatnonzero(own)[step_of[(references[own] - start) % count] >= step_of[own]]
        if len(wrong):
            raise ArgumentError(
                f"instance {wrong[0]} takes a result of its own step, or of a later one, as operand {position}; "
                "expected results of earlier steps"
            )


def relative(operands: Column, start: int) -> Column:
    """A column whose references to results from `start` on are counted from there."""
    if isinstance(operands, Range):
        ends = operands.start, operands.start + operands.step * (operands.count - 1)
        if max(ends) < start:
            return operands
        if min(ends) >= start:
            return Range(operands.start - start + _OWN, operands.step, operands.count)
    references = references_in(operands)
    return column(np.where(references >= start, references - start + _OWN, references))


def body_function(body: Tape) -> Callable[..., tuple[Any, ...]]:
    """A body as a function of NumPy numbers or arrays: that of its source, which saves the way through tables."""
    names = {f"c{k}": np.float64(value) for k, value in enumerate(body.constants)}

    def name(reference: int) -> str:
        return f"t{reference}" if reference >= 0 else f"c{-1 - reference}"

    lines = [f"def function({', '.join(f't{k}' for k in range(body.inputs))}):"]
    for reference in range(body.inputs, len(body)):
        formula = body.operation(reference).numpy.format(*map(name, body.arguments(reference)))
        lines.append(f"    t{reference} = {formula}")
    lines.append(f"    return ({''.join(f'{name(output)}, ' for output in body.outputs)})")
    scope: dict[str, Any] = {"__name__": __name__, "np": np, **names}
    text = "\n".join(lines)
    text = "\n".join([*helpers(text), text])
    if "special." in text:
        from scipy import special

        scope["special"] = special
    exec(text, scope)  # the table's own text
    return scope["function"]  # type: ignore[no-any-return]


def run_steps(
    body: Tape, places: Sequence[Integers], steps: Integers, values: NDArray[np.float64], results: NDArray[np.float64]
) -> None:
    """Compute the results of a recurrence.

    Args:
        places: where the operands of each instance are among the values, for each input of the body.
        steps: offsets of the instances of each step.
        values: of all that there is, of shape (numbers,) or (numbers, points).
        results: the place of the results among them, a view.
    """
    function, count = body_function(body), int(steps[-1])
    tables = results.reshape(len(body.outputs), count, *results.shape[1:])
    if len(steps) == count + 1:  # numbers, rather than arrays of one
        taken = zip(*(place.tolist() for place in places), strict=True) if places else [()] * count
        for instance, operands in enumerate(taken):
            for table, value in zip(tables, function(*(values[place] for place in operands)), strict=True):
                table[instance] = value
        return
    for begin, end in zip(steps[:-1].tolist(), steps[1:].tolist(), strict=True):
        found = function(*(values[place[begin:end]] for place in places))
        for table, value in zip(tables, found, strict=True):
            table[begin:end] = value
