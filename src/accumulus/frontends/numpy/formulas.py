"""Formulas of NumPy's functions on references: how other front ends write what has no row of its own on the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accumulus.frontends.numpy.operands import entries_of, of_kind
from accumulus.frontends.numpy.scalars import make_scalar
from accumulus.tape.tape import Tape


def by_formula(tape: Tape, formula: Callable[..., Any], arguments: Sequence[int]) -> int:
    """Reference of what a function of NumPy's functions gives, recorded as Python functions are.

    >>> tape = Tape(2)
    >>> tape.outputs = [by_formula(tape, lambda x, y: np.hypot(x, y) - 1.0, [0, 1])]
    >>> print(tape)
    t2 = hypot(x0, x1)
    t3 = add(-1.0, t2)
    return t3
    """
    value = formula(*(make_scalar(tape, argument, tape.is_boolean(argument)) for argument in arguments))
    return int(np.asarray(entries_of(tape, value)[0]).item())


def as_real(tape: Tape, reference: int) -> int:
    """A number: 1 or 0 for a truth value."""
    return int(of_kind(tape, reference, True, boolean=False)) if tape.is_boolean(reference) else reference


def as_truth(tape: Tape, reference: int) -> int:
    """A truth value: of a number, whether it is not 0."""
    if reference < 0:
        return tape.constant(float(tape.value_of(reference) != 0))
    return reference if tape.is_boolean(reference) else int(of_kind(tape, reference, False, boolean=True))
