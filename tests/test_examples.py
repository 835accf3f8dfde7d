"""The examples, end to end: every method's Jacobian of every function that people are shown, against complex steps."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import accumulus as acc

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from functions import all_examples
from peers import complex_step

EXAMPLES = {example.name: example for example in all_examples()}
POINTS = 5


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", acc.methods())
@pytest.mark.parametrize("name", EXAMPLES)
def test_jacobians_of_the_examples(name, method):
    example = EXAMPLES[name]
    X = example.sample(POINTS, seed=3)
    reference = complex_step.jacobian(example)
    expected = np.array([reference(x) for x in X])
    scale = np.abs(expected).max(axis=2, keepdims=True)
    values, jacobians = acc.value_and_jacobian(example.function, method=method, effort="fast", target="numpy").batch(X)
    np.testing.assert_allclose(values, [example.function(x) for x in X], rtol=1e-12)
    assert (np.abs(jacobians - expected) <= 1e-11 * scale).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_pass_the_check(name):
    example = EXAMPLES[name]
    report = acc.check(example.function, example.sample(1, seed=5)[0], points=5, time_limit=0.2)
    assert report.passed, str(report)
    assert {"recording, function", "batch, one by one"} <= {f.name for f in report.findings if f.compared}
