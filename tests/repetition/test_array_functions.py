"""Every recorded array function, written out and rolled: the same values and derivatives as not."""

import function_cases
import numpy as np
import pytest
from inside import evaluate, flatten, record
from rolling import rolling

import accumulus as acc
from accumulus import Tape
from accumulus.repetition import roll

SOURCES = [source for sources in function_cases.CASES.values() for source in sources]
X = np.random.default_rng(6).uniform(0.2, 1.5, 21)


def function_of(source):
    code = compile(source, "<case>", "eval")

    def f(x):
        scope = {
            **vars(function_cases),
            "v": x[:3],
            "A": x[3:12].reshape(3, 3),
            "M": x[12:20].reshape(2, 4),
            "s": x[20],
        }
        result = eval(code, scope)
        return [np.where(leaf, 1.0, 0.0) if np.asarray(leaf).dtype == bool else leaf for _, leaf in flatten(result)[1]]

    return f


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", SOURCES)
def test_values_are_the_same(source):
    tape = record(function_of(source), [X]).tape
    assert isinstance(tape, Tape)
    with rolling():
        blocks = roll.rolled(tape)
    if blocks is None:
        # nothing is computed, or by rotations, of which each takes the results of the last
        assert max(tape.outputs, default=-1) < tape.inputs or tape.operations > 900
    else:
        actual, expected = evaluate(blocks, X), np.array(evaluate(tape, list(X)), float)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "source",
    [source for name in ("np.linalg.solve", "np.linalg.det", "np.linalg.inv") for source in function_cases.CASES[name]],
)
def test_derivatives_are_the_same(source):
    f = function_of(source)
    with rolling():
        result = acc.jacobian(f, effort="fast", cache=False)(X)
    for one, other in zip(result, acc.jacobian(f, effort="fast", cache=False)(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
