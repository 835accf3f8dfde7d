"""The compiled kernel against the same functions as Python."""

from unittest import mock

import numpy as np
import pytest
import test_recurrences
import test_rolled_loops
from inside import interpret, record
from rolling import rolling

from accumulus.repetition import cones, roll
from accumulus.repetition.compiled import cones_kernel


def as_python(state, mode):
    """Replace `cones._perform` by the kernel as Python."""
    state.mode = mode
    interpret(cones_kernel.run_cones, state)


def contents(blocks):
    """All that a program is."""
    columns = [
        (
            block.code,
            block.start,
            block.count,
            [np.asarray(getattr(each, "references", each)).tolist() for each in block.operands],
        )
        for block in blocks.blocks
    ]
    return columns, blocks.constants.tolist(), blocks.outputs.tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [*test_rolled_loops.FUNCTIONS, *test_recurrences.FUNCTIONS])
def test_machine_code_agrees_with_python(function):
    tape = record(function, [test_rolled_loops.X]).tape
    with rolling(levels=3):
        expected = roll.rolled(tape)
        with mock.patch.object(cones, "_perform", as_python):
            actual = roll.rolled(tape)
    assert (actual is None) == (expected is None)
    if expected is not None:
        assert contents(actual) == contents(expected)
