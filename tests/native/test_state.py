"""States of kernels: as machine code and as Python, the same."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import state_example
from state_example import Everything, Pair, made, told

from accumulus.native.state import Integers, Records, State, interpret
from accumulus.native.words import undo


def test_machine_code_agrees_with_python():
    done = subprocess.run([sys.executable, state_example.__file__], capture_output=True, text=True, check=True)
    compiled = [json.loads(line) for line in done.stdout.splitlines()]
    expected = []
    for seed in range(3):
        state = made(seed)
        result = interpret(state_example.run_example, state)
        expected.append(json.loads(json.dumps(told(result, state))))
    assert compiled == expected
    assert expected[0] != expected[1]


def test_undone_writes_restore_the_state():
    state, before = made(), made()
    interpret(lambda inside: (state_example.tried(inside, 1) and undo(inside, 0)) or 0, state)
    assert told(0, state) == told(0, before)


def test_fields_are_where_they_are_declared():
    assert [field.position for field in Everything.fields.values()] == list(range(len(Everything.fields)))
    assert list(Everything.fields)[:3] == ["log", "logged", "count"]  # the bases' fields come first
    assert Everything.fields["boxes"].axes == (2, 3)
    assert Everything.fields["pairs"].kind is Pair
    assert made().factor == 1.5


def test_numbers_and_arrays_are_the_callers():
    class Small(State):
        values: Integers
        count: int = 2
        heat: float = 0.5

    values = np.arange(3)
    state = Small(values=values)
    assert (state.count, state.heat) == (2, 0.5)
    assert state.values is values
    state.count, state.heat = 7, 2.5
    words = np.frombuffer((state._words.tobytes()), np.int64)
    assert words[0] == values.ctypes.data
    assert (words[1], words[2:].view(np.float64)[0]) == (7, 2.5)
    state.values = other = np.zeros(2, np.int64)
    assert state._words[0] == other.ctypes.data
    fixed = np.arange(4)[1:]
    fixed.flags.writeable = False
    for other in (np.arange(5)[2:], np.zeros((2, 3), np.int64), np.zeros(0, np.int64), fixed):
        state.values = other
        assert state._words[0] == other.ctypes.data
    assert state.address == state._words.ctypes.data


def test_a_state_is_made_whole():
    class Small(State):
        values: Integers
        count: int

    with pytest.raises(AssertionError, match=r"\['values'\] of Small"):
        Small(count=1)
    with pytest.raises(AssertionError, match="has no"):
        Small(count=1, values=np.zeros(1, np.int64), other=3)
    with pytest.raises(AssertionError):
        Small(count=1, values=np.zeros(1, np.int32))
    with pytest.raises(AssertionError):
        Small(count=1, values=np.zeros((4, 4), np.int64)[:, 1])


def test_records_hold_numbers_of_both_kinds():
    pairs = Records.zeros(Pair, 2)
    pairs[1].left, pairs[1].weight = -3, 0.25
    assert (pairs[1].left, pairs[1].weight, pairs[1].right, pairs[0].left) == (-3, 0.25, 0, 0)
    assert pairs[1:][0].left == -3
    assert pairs.words.tolist() == [0, 0, 0, -3, np.float64(0.25).view(np.int64), 0]
