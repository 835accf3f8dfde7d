"""Entries of sparse matrices in order: as NumPy's sorts have them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import column

from accumulus.arrays.entries import joined, sorted_entries
from accumulus.tape.program import references_in

SIZES = st.sampled_from([0, 1, 2, 5, 40, 70, 300])


def sequence(generator, rows, columns, count):
    """Columns of entries, as ranges or one by one."""
    kinds = generator.integers(0, 3, 3)
    made = []
    for kind, most in zip(kinds, (rows, columns, 10**6), strict=True):
        if kind == 0:
            made.append(generator.integers(0, most, count))
        elif kind == 1 and most >= count:
            made.append(np.arange(count)[:: generator.choice([-1, 1])] + generator.integers(0, most - count + 1))
        else:
            made.append(np.full(count, generator.integers(0, most)))
    return tuple(column(each) for each in made)


@settings(max_examples=75, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_entries_are_sorted_and_taken_together(counts, rows, columns, seed):
    generator = np.random.default_rng(seed)
    first = int(generator.integers(0, 5))
    entries = [sequence(generator, rows, columns, count) for count in counts]
    taken = []

    def sums(terms, offsets):
        taken.extend(terms[begin:end].tolist() for begin, end in pairwise(offsets))
        return -10 - np.arange(len(offsets) - 1)

    shifted = [(column(references_in(heads) + first), tails, values) for heads, tails, values in entries]
    actual = sorted_entries(shifted, first, rows, sums)

    expected = {}
    for heads, tails, values in entries:
        positions = zip(*(references_in(each).tolist() for each in (heads, tails, values)), strict=True)
        for row, at, value in positions:
            expected.setdefault((row, at), []).append(value)
    positions = sorted(expected)
    assert list(zip(actual.rows().tolist(), actual.columns.tolist(), strict=True)) == positions
    several = [expected[position] for position in positions if len(expected[position]) > 1]
    assert taken == several  # terms in the order in which they are given
    numbers = iter(range(-10, -10 - len(several), -1))
    assert actual.values.tolist() == [
        expected[position][0] if len(expected[position]) == 1 else next(numbers) for position in positions
    ]


@pytest.mark.parametrize("order", ["sorted", "reversed", "random", "equal"])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 65, 1000, 5000])
def test_long_rows_are_sorted(order, count):
    columns = {
        "sorted": np.arange(count),
        "reversed": np.arange(count)[::-1].copy(),
        "random": np.random.default_rng(1).permutation(count),
        "equal": np.zeros(count, np.int64),
    }[order]
    entries = [(column(np.zeros(count, np.int64)), columns, np.arange(count))]
    result = sorted_entries(entries, 0, 1, lambda terms, offsets: offsets[:-1] - len(terms))
    if order == "equal" and count > 1:
        assert (result.columns.tolist(), result.values.tolist()) == ([0], [-count])
    else:
        np.testing.assert_array_equal(result.columns, np.arange(count) if order != "equal" else columns)
        np.testing.assert_array_equal(result.values, np.argsort(columns, kind="stable"))


@settings(max_examples=50, deadline=None)
@given(SIZES, SIZES, st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_positions_in_both_are_paired(outer, inner, size, seed):
    generator = np.random.default_rng(seed)
    one, other = generator.integers(0, size, outer), generator.integers(0, size, inner)
    left, right = joined(one, other, size)
    pairs = [(k, l) for k in range(outer) for l in range(inner) if one[k] == other[l]]
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == pairs
