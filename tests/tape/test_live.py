"""Needed operations of a tape, compared with a search from its outputs."""

from __future__ import annotations

import loops
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import programs

from accumulus import Tape
from accumulus.tape import live
from accumulus.tape.live import needed, unattached
from accumulus.tape.operations import BY_NAME


@pytest.mark.parametrize("few", [0, live._FEW], ids=["by the kernel", "in Python"])
@given(program=programs(), data=st.data())
def test_dependences_of_outputs(few, program, data):
    tape = program.tape()
    some = data.draw(st.lists(st.sampled_from(tape.outputs)))
    for outputs in (None, some):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(live, "_FEW", few)
            marks = needed(tape, outputs)
        assert len(marks) == len(tape)
        assert {r for r in range(tape.inputs, len(tape)) if marks[r]} == loops.needed(tape, outputs)


def test_a_tape_of_nothing():
    tape = Tape(0)
    tape.outputs = [tape.constant(2.0)]
    assert needed(tape) == bytearray()
    assert needed(Tape(2)) == bytearray(2)


@given(programs(set(BY_NAME) - {"input"} | {"attach"}, steps=12))
def test_attached_derivatives_go(program):
    tape = program.tape()
    result, moved = unattached(tape)
    assert str(result) == str(loops.unattached(tape))
    assert "attach" not in str(result)
    assert [moved[output] if output >= 0 else output for output in tape.outputs] == result.outputs
