"""Every array function of the registry, against NumPy on points drawn by Hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees
from function_cases import CASES, program
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import accumulus as acc
from accumulus.frontends import supported

SOURCES = [source for sources in CASES.values() for source in sources]

#: Multiples of 1/64: sums and products of a few are exact, so that ties and jumps are where NumPy has them.
ENTRIES = st.integers(-128, 128).map(lambda k: k / 64.0)


def array(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=ENTRIES, fill=st.nothing())


#: Functions that are decided at the given point: see test_ordering.py.
DECIDED = (
    "argmax argmin argpartition argsort argwhere bincount compress digitize extract flatnonzero lexsort nonzero "
    "partition searchsorted sort unique"
)


def test_every_function_has_a_case():
    decided = {f"np.{name}" for name in DECIDED.split()}
    assert {name for name in supported() if name.startswith("np.")} - decided == set(CASES)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=max(5, settings.default.max_examples // 10))
@given(v=array(3), A=array(3, 3), M=array(2, 4), s=ENTRIES)
def test_agrees_with_numpy(source, v, A, M, s):
    assert_agrees(program(source), [v, A, M, s])


@pytest.mark.parametrize("name", CASES)
def test_passes_the_check(name):
    cases = [program(source) for source in CASES[name]]
    generator = np.random.default_rng(11)
    arguments = [generator.normal(size=shape) for shape in ((3,), (3, 3), (2, 4))]
    report = acc.check(
        lambda v, A, M, s: [case(v, A, M, s) for case in cases],
        *arguments,
        0.75,
        points=2,
        target="numpy",
        optimise=False,
        time_limit=0.0,
    )
    assert report.passed, str(report)
    assert report.points - report.skipped >= 3
