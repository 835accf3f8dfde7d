"""Intervals of programs over arrays hold for whatever they are given."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inside import Program, column, evaluate

from accumulus.arrays.intervals import MOST, Intervals

NAMES = [
    "add", "subtract", "multiply", "divide", "negative", "abs", "sqrt", "log", "exp", "minimum", "maximum", "tanh",
    "sin", "erf", "less", "floor", "select", "sums", "matmul", "constants",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(NAMES), min_size=1, max_size=12))
@example(28935, ["multiply", "multiply", "add", "add", "multiply", "multiply"])  # squares that overflow
def test_values_are_in_their_intervals(seed, names):
    rng = np.random.default_rng(seed)
    tape = Program(4)
    arrays = [np.arange(4)]
    for name in names:
        a, b, c = (arrays[rng.integers(len(arrays))] for _ in range(3))
        if name == "constants":
            arrays.append(
                tape.constant_array(
                    rng.choice([-2.0, 0.0, 1.0, 3.0, np.inf, np.nan], 4, p=[0.2, 0.1, 0.3, 0.3, 0.05, 0.05])
                )
            )
        elif name == "sums":
            arrays.append(np.concatenate([tape.sums(np.concatenate([a, b]), [0, 2, 5, 8]), c[:1]]))
        elif name == "matmul":
            arrays.append(tape.matmul(a.reshape(2, 2), b.reshape(2, 2)).ravel())
        elif name == "select":
            arrays.append(tape.apply("select", tape.apply("less", a, b), b, c))
        else:
            arity = 2 if name in ("add", "subtract", "multiply", "divide", "minimum", "maximum", "less") else 1
            arrays.append(tape.apply(name, *(a, b)[:arity]))
    intervals = Intervals(tape)
    inputs = rng.choice([-1.0, 0.0, 1.0, 800.0, 1e30, -1e30, 0.3], (4, 50))
    for array in arrays:
        tape.outputs = array
        values = evaluate(tape, inputs)
        if intervals.is_finite(column(array)):
            assert not np.isnan(values).any() or abs(values[np.isfinite(values)]).max(initial=0.0) > 1e200
        result = intervals.of(column(array))
        if result is not None and not np.isnan(values).any():
            low, high = result
            # products are taken to be finite, however large: a bound of that size is none
            assert low <= -MOST or (values >= low - 1e-9 * abs(low)).all()
            assert high >= MOST or (values <= high + 1e-9 * abs(high)).all()


def test_the_logistic_function_is_finite():
    tape = Program(3)
    x = np.arange(3)
    exponentials = tape.apply("exp", tape.apply("negative", x))
    logistic = tape.apply("divide", tape.constant(1.0), tape.apply("add", tape.constant(1.0), exponentials))
    intervals = Intervals(tape)
    assert intervals.is_finite(column(logistic))
    assert not intervals.is_finite(column(exponentials))
    assert not intervals.is_finite(column(tape.apply("divide", tape.constant(1.0), x)))
    assert not intervals.is_finite(column(tape.apply("sqrt", x)))
    assert not intervals.is_finite(column(tape.constant_array(np.array([1.0, np.nan]))))
