"""Iterations of loops over arrays: what is found, and that the call computes what the blocks do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import Program, evaluate
from rolling import iterating

from accumulus.options import Options
from accumulus.programs.iterated import LoopCall
from accumulus.repetition.iterations import iterations_of, with_call
from accumulus.tape.moving import expanded

SIZE = 6


@pytest.fixture(autouse=True)
def short():
    with iterating():
        yield


def program_of(step, count, size=SIZE, inputs=SIZE, every=False):
    """Return a program that applies a step of (program, state, iteration) to its first inputs again and again."""
    program, state, states = Program(inputs), np.arange(size), []
    for k in range(count):
        state = step(program, state, k)
        states.append(state)
    program.outputs = np.concatenate(states if every else states[-1:])
    return program


def squared(program, x, _):
    return program.apply("multiply", x, np.roll(x, 1))


def test_a_loop_has_a_carry_varying_and_common_values():
    def step(program, x, k):
        scaled = program.apply("multiply", x, program.constant(1.5 + k))  # differs from one iteration to the next
        return program.apply("add", np.roll(scaled, 1), np.arange(SIZE, 2 * SIZE))  # the same in all

    loop = iterations_of(program_of(step, 20, inputs=2 * SIZE))
    assert (loop.count, len(loop.body.blocks)) == (20, 2)
    np.testing.assert_array_equal(loop.carry, np.arange(SIZE))
    np.testing.assert_array_equal(loop.common, np.arange(SIZE, 2 * SIZE))
    assert loop.varying.shape == (20, 1)
    assert loop.every.shape == (20, 0)
    assert len(loop.final) == SIZE


def test_values_used_outside_are_returned_for_every_iteration():
    loop = iterations_of(program_of(squared, 20, every=True))
    assert loop.every.shape == (20, SIZE)
    assert not len(loop.final)


def test_the_begin_of_an_iteration_hands_on_the_fewest_values():
    def step(program, x, _):
        wide = program.apply("sin", np.concatenate([x, x[::-1], x]))
        return program.sums(program.apply("multiply", wide, wide), np.arange(0, 3 * SIZE + 1, 3))

    assert len(iterations_of(program_of(step, 20)).carry) == SIZE


@pytest.mark.parametrize(
    "step",
    [
        lambda program, x, k: program.apply("sin" if k % 7 == 3 else "cos", x),  # the longest run is too short
        lambda program, x, k: program.apply("multiply", x, np.arange(SIZE) + max(SIZE * (k - 2), 0)),
        lambda program, x, k: program.apply("multiply", x, np.roll(x, k)),
    ],
    ids=["other operations", "older values", "other places"],
)
def test_iterations_that_differ_are_no_loop(step):
    assert iterations_of(program_of(step, 12)) is None


def test_programs_of_few_blocks_are_not_searched(monkeypatch):
    monkeypatch.setattr("accumulus.repetition.iterations.FEWEST_BLOCKS", 21)
    assert iterations_of(program_of(squared, 20)) is None
    assert iterations_of(program_of(squared, 21)) is not None


OPERATIONS = st.sampled_from(["sin", "tanh", "multiply", "add", "subtract", "maximum", "sums", "constant", "input"])


@settings(max_examples=25)
@given(
    st.lists(st.tuples(OPERATIONS, st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6),
    st.integers(9, 14),
    st.booleans(),
    st.integers(0, 2),
)
def test_random_loops_are_computed_as_the_blocks_are(operations, count, every, first):
    def step(program, x, k):
        values = [x]
        for name, one, other in operations:
            a, b = np.roll(values[one % len(values)], one), np.roll(values[other % len(values)], other)
            if name in ("sin", "tanh"):
                values.append(program.apply(name, a))
            elif name == "sums":
                values.append(program.sums(np.repeat(a, 2), 2 * np.arange(SIZE + 1)))
            elif name == "constant":
                values.append(program.apply("add", a, program.constant(float(k % 5) / 8.0 + 0.1)))
            elif name == "input":
                values.append(program.apply("multiply", a, np.arange(SIZE) + SIZE * (1 + (k * one) % 3)))
            else:
                values.append(program.apply(name, a, b))
        if k < first:  # the first iterations have another form
            return program.apply("cos", values[-1])
        return program.apply("tanh", values[-1])

    program = program_of(step, count, inputs=4 * SIZE, every=every)
    x = np.random.default_rng(count).uniform(-1.0, 1.0, 4 * SIZE)
    expected = evaluate(program, x)
    loop = iterations_of(program)
    assume(loop is not None)
    made = with_call(program, loop, LoopCall.of(loop, Options()))
    np.testing.assert_allclose(evaluate(made, x), expected, rtol=1e-12, atol=1e-14)
    written = expanded(made)
    assert all(block.opaque is None for block in written.blocks)
    np.testing.assert_array_equal(evaluate(written, x), expected)
