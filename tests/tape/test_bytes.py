"""Tapes as bytes: the same tape comes back, and whatever is not one is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from strategies import tapes

from accumulus import Tape
from accumulus.tape.tape import from_bytes, to_bytes


def same(tape, other):
    return to_bytes(tape) == to_bytes(other)


@given(tape=tapes())
def test_a_tape_comes_back(tape):
    again = from_bytes(to_bytes(tape))
    assert same(again, tape)
    # what is on it already is found, so that it can be written on
    for reference in range(tape.inputs, len(tape)):
        assert again.apply_code(tape.codes[reference], tape.arguments(reference)) == tape.copy().apply_code(
            tape.codes[reference], tape.arguments(reference)
        )


def test_constants_bit_for_bit():
    tape = Tape(1)
    tape.outputs = [tape.constant(value) for value in (0.0, -0.0, np.nan, np.inf, 5e-324, 0.1)]
    again = from_bytes(to_bytes(tape))
    assert np.array(again.constants).tobytes() == np.array(tape.constants).tobytes()


def example():
    tape = Tape(2)
    product = tape.multiply(0, tape.constant(3.0))
    tape.outputs = [tape.select(tape.apply("less", 0, 1), product, 1), -1]
    return tape


def test_bytes_that_are_cut_off():
    content = to_bytes(example())
    for length in range(len(content)):
        with pytest.raises(ValueError, match=r"bytes|buffer"):
            from_bytes(content[:length])
    with pytest.raises(ValueError, match="more or fewer"):
        from_bytes(content + b"\0")


#: Where numbers of the example begin: the head, one constant, two outputs, five rows.
OUTPUTS, ROWS = 8 * 5, 8 * 7


@pytest.mark.parametrize(
    ("where", "number", "message"),
    [
        (0, struct.pack("<q", -1), "not those of a tape"),
        (8, struct.pack("<q", 1 << 60), "more or fewer"),
        (OUTPUTS, struct.pack("<q", 5), "outputs"),
        (OUTPUTS, struct.pack("<q", -2), "outputs"),
        (ROWS, struct.pack("<i", 3), "do not exist"),
        (ROWS + 32, struct.pack("<i", 0), "do not exist"),
        (ROWS + 32, struct.pack("<i", 255), "do not exist"),
        (ROWS + 32, struct.pack("<i", -1), "do not exist"),
        (ROWS + 36, struct.pack("<i", 2), "before their arguments"),
        (ROWS + 36, struct.pack("<i", -2), "before their arguments"),
        (ROWS + 64 + 12, struct.pack("<i", 4), "before their arguments"),
    ],
)
def test_numbers_that_cannot_be(where, number, message):
    content = to_bytes(example())
    with pytest.raises(ValueError, match=message):
        from_bytes(content[:where] + number + content[where + len(number) :])
