"""Every array function of the registry, against NumPy on points drawn by Hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees
from differences import differences
from function_cases import CASES, program
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import accumulus as acc
from accumulus.frontends import supported
from accumulus.frontends.trees import flatten

SOURCES = [source for sources in CASES.values() for source in sources]

#: Multiples of 1/64: sums and products of a few are exact, so that ties and jumps are where NumPy has them.
ENTRIES = st.integers(-128, 128).map(lambda k: k / 64.0)


def array(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=ENTRIES, fill=st.nothing())


#: Entries of the arguments v, A, M and s.
SIZES = (3, 9, 8, 1)
#: Functions that are decided at the given point: see test_ordering.py.
DECIDED = (
    "argmax argmin argpartition argsort argwhere bincount compress digitize extract flatnonzero lexsort nonzero "
    "partition searchsorted sort unique"
)
#: Functions that programs of operations alone cannot call: see test_complex_spectra.py.
CALLED_BACK = "roots"


def test_every_function_has_a_case():
    elsewhere = {f"np.{name}" for name in (DECIDED + " " + CALLED_BACK).split()}
    assert {name for name in supported() if name.startswith("np.")} - elsewhere == set(CASES)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=max(1, settings.default.max_examples // 25))
@given(points=st.lists(st.tuples(array(3), array(3, 3), array(2, 4), ENTRIES), min_size=3, max_size=3))
def test_agrees_with_numpy(source, points):
    assert_agrees(program(source), *points)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_differences(name):
    cases = [program(source) for source in CASES[name]]
    x = np.random.default_rng(11).normal(size=sum(SIZES))
    x = np.round(x, 2) + 0.0012  # not beside a jump of what rounds

    def function(v, A, M, s):
        return [case(v, A, M, s) for case in cases]

    def flat(x):
        return np.concatenate([np.ravel(leaf).astype(float) for _, leaf in flatten(function(*parts_of(x)))[1]])

    derivative = acc.jacobian(
        function, argnums=(0, 1, 2, 3), target="numpy", optimise=False, effort="fast", time_limit=0.0
    )
    blocks = [np.reshape(leaf, (-1, SIZES[k % 4])) for k, (_, leaf) in enumerate(flatten(derivative(*parts_of(x)))[1])]
    actual = np.concatenate([np.concatenate(blocks[k : k + 4], axis=1) for k in range(0, len(blocks), 4)])
    with np.errstate(all="ignore"):
        expected = differences(flat, x)
    finite = np.isfinite(expected)
    scale = 1.0 + np.abs(expected[finite]).max(initial=0.0)
    np.testing.assert_allclose(actual[finite], expected[finite], rtol=1e-7, atol=1e-8 * scale)


def parts_of(x):
    v, A, M, s = np.split(x, np.cumsum(SIZES)[:-1])
    return v, A.reshape(3, 3), M.reshape(2, 4), float(s[0])
