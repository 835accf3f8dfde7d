"""Entries as columns are the mapping that they stand for."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from accumulus.elimination.accumulation import JacobianEntries, columns_of

PLAIN = {(0, 1): 4, (0, 3): 2, (2, 0): 9}


@pytest.fixture
def entries():
    return JacobianEntries(np.array([2, 0, 0]), np.array([0, 3, 1]), np.array([9, 2, 4]))


def test_they_are_a_mapping_in_row_major_order(entries):
    assert entries == PLAIN
    assert PLAIN == entries
    assert list(entries) == list(PLAIN)
    assert list(entries.items()) == list(PLAIN.items())
    assert list(entries.values()) == list(PLAIN.values())
    assert entries[0, 3] == 2
    assert (1, 1) not in entries
    assert len(entries) == 3
    assert repr(entries) == repr(PLAIN)
    assert all(type(number) is int for position in entries for number in position)


def test_columns_are_those_of_the_plain_mapping(entries):
    for one, other in zip(columns_of(entries), columns_of(PLAIN), strict=True):
        assert one.tolist() == other.tolist()


def test_none_are_a_mapping_too():
    nothing = np.zeros(0, np.int64)
    assert JacobianEntries(nothing, nothing, nothing) == {}


def test_a_position_cannot_occur_twice():
    with pytest.raises(AssertionError):
        JacobianEntries(np.array([1, 0, 1]), np.array([2, 0, 2]), np.array([1, 2, 3]))


def test_they_travel(entries):
    assert pickle.loads(pickle.dumps(entries)) == PLAIN
