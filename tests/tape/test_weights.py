"""The table of what operations cost, and the time of whole tapes by it."""

from __future__ import annotations

from hypothesis import given
from strategies import tapes

from accumulus import Tape
from accumulus.tape.live import time_of
from accumulus.tape.operations import BY_NAME, FUSED, IN_SEARCH, LATENCY, OPERATIONS, TIME, UNIT


def test_every_operation_has_a_row():
    assert len(TIME) == len(LATENCY) == len(OPERATIONS)
    assert IN_SEARCH.keys() == {FUSED, *(row.name for row in OPERATIONS)}
    for row in OPERATIONS:
        free = row.name in ("input", "attach")
        assert (TIME[row.code] == 0) == (LATENCY[row.code] == 0) == free, row.name
        assert (IN_SEARCH[row.name] == 0) == (free or row.name == "negative"), row.name


def test_slow_operations_are_slow_everywhere():
    add = BY_NAME["add"].code
    for row in OPERATIONS:
        if row.name in ("divide", "sqrt") or row.llvm.startswith("@"):
            assert TIME[row.code] > TIME[add]
            assert LATENCY[row.code] > LATENCY[add]
            assert IN_SEARCH[row.name] > IN_SEARCH["add"] == UNIT


@given(tape=tapes())
def test_the_time_of_a_tape_is_that_of_its_needed_operations(tape):
    live, stack = set(), list(tape.outputs)
    while stack:
        reference = stack.pop()
        if reference >= tape.inputs and reference not in live:
            live.add(reference)
            stack += tape.arguments(reference)
    names = {(tape.operation(r).name, tape.arguments(r)) for r in live}
    cosines = [arguments for name, arguments in names if name == "cos" and ("sin", arguments) in names]
    expected = sum(TIME[tape.codes[r]] for r in live) - len(cosines) * TIME[BY_NAME["cos"].code]
    assert time_of(tape) == expected


def test_empty_tapes_take_no_time():
    assert time_of(Tape(0)) == time_of(Tape(3)) == 0
