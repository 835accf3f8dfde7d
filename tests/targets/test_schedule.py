"""Orders of operations against what they promise, and the programs that are compiled in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import assert_same, expected, whole
from strategies import programs

from accumulus import Tape
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm import module
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.llvm.module import LONGEST_ORDERED, PART_SIZE, Variant, tune, values_in_registers
from accumulus.targets.schedule import ResultGroup, cut, groups, handed_on, most_alive, order, order_by_registers


def steps_of(program):
    results = groups(program.tape, program.segments, 1)
    return results, list(order(program.tape, results))


def lives(tape, steps):
    """Of each computed value, when it is made and when it is used, the step's own number."""
    made, used = {}, {}
    for at, step in enumerate(steps):
        group = isinstance(step, ResultGroup)
        for reference in set(step.references if group else tape.arguments(step)):
            if reference is not None and reference >= tape.inputs:
                used.setdefault(reference, []).append(at)
        if not group:
            made[step] = at
    return made, used


@given(program=programs(max_operations=40), registers=st.integers(1, 12))
def test_the_order_by_registers_is_an_order(program, registers):
    tape = program.tape
    results, usual = steps_of(program)
    other = list(order_by_registers(tape, results, registers))
    assert [step for step in other if isinstance(step, ResultGroup)] == results
    operations = [step for step in other if not isinstance(step, ResultGroup)]
    assert sorted(operations) == sorted(step for step in usual if not isinstance(step, ResultGroup))
    ready = set(range(tape.inputs))
    for step in other:
        used = step.references if isinstance(step, ResultGroup) else tape.arguments(step)
        assert all(reference is None or reference < 0 or reference in ready for reference in used)
        if not isinstance(step, ResultGroup):
            ready.add(step)
    assert other == list(order_by_registers(tape, results, registers))


@given(program=programs(max_operations=40))
def test_alive_values_are_counted_from_where_they_are_made_to_their_last_use(program):
    _, steps = steps_of(program)
    made, used = lives(program.tape, steps)
    alive = [sum(made[r] < at <= used[r][-1] for r in used) for at in range(len(steps))]
    assert most_alive(program.tape, steps) == max(alive, default=0)


@given(program=programs(max_operations=40), size=st.integers(1, 9))
def test_values_passed_between_parts_are_in_their_frame(program, size):
    tape = program.tape
    _, steps = steps_of(program)
    pieces, _ = cut(tape, steps, size, 1)
    moves = 0
    for piece in pieces:
        used, made = set(), set()
        for step in piece.steps:
            used |= set(step.references if isinstance(step, ResultGroup) else tape.arguments(step))
            made |= set() if isinstance(step, ResultGroup) else {step}
        moves += len((used - made) & piece.slots.keys()) + len(made & piece.slots.keys())
    assert handed_on(tape, steps, size) == moves


def recurrence(length):
    """A chain whose forward derivatives need each of its values soon: in the order of results, all live until then."""
    tape = Tape(3)
    x, dx = 0, [1, 2]
    for k in range(length):
        factor = tape.subtract(tape.constant(1.5 + k % 5), tape.multiply(x, tape.constant(0.5)))
        dx = [tape.multiply(factor, d) for d in dx]
        x = tape.add(tape.multiply(factor, x), tape.constant(0.1))
    tape.outputs = [x, *dx]
    return tape


def test_long_programs_that_hold_too_much_come_in_another_order():
    tape = recurrence(400)
    segments = whole(3)
    variant = tune(tape, segments, "float64")
    assert variant.steps is not None
    results = groups(tape, segments, 1)
    assert handed_on(tape, variant.steps, PART_SIZE) < 0.75 * handed_on(tape, list(order(tape, results)), PART_SIZE)

    # the same results, whichever way they are computed
    X = np.random.default_rng(0).uniform(0.2, 0.4, (19, 3))
    reference = expected(tape, segments, X)[0]
    kernel = LLVMKernel(Unit(tape, segments), variant=replace(variant, contract=False))
    assert_same(kernel.batch(X)[0], reference)
    assert_same(kernel.batch(np.ascontiguousarray(X.T), transposed=True)[0].T, reference)
    assert_same(kernel(X[3])[0], reference[3])
    # one point and a batch round alike, fused products too
    kernel = LLVMKernel(Unit(tape, segments))
    assert_same(kernel(X[3])[0], kernel.batch(X)[0][3])


def test_short_programs_and_very_long_ones_are_left_alone():
    short, long = recurrence(3), recurrence(LONGEST_ORDERED // 5 + 1)
    assert tune(short, whole(3), "float64").steps is None
    assert long.operations > LONGEST_ORDERED
    assert tune(long, whole(3), "float64").steps is None


def test_an_order_that_hands_on_no_less_is_not_taken(monkeypatch):
    monkeypatch.setattr(module, "WORTH_IT", 0.0)
    assert tune(recurrence(400), whole(3), "float64").steps is None


@given(data=st.data())
def test_programs_in_any_given_order(data):
    program = data.draw(programs())
    tape = program.tape
    results = groups(tape, program.segments, 1)
    steps = tuple(order_by_registers(tape, results, data.draw(st.integers(1, 6))))
    variant = Variant(host().vector_bytes // 8, contract=False)
    X = np.random.default_rng(0).uniform(-2, 2, (9, tape.inputs))
    usual, other = (
        LLVMKernel(Unit(tape, program.segments), variant=replace(variant, steps=order)).batch(X)
        for order in (None, steps)
    )
    for a, b in zip(usual, other, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize(("lanes", "size"), [(8, 8), (16, 8), (4, 8), (16, 4), (1, 8)])
def test_wide_values_take_several_registers(lanes, size):
    registers = values_in_registers(Variant(lanes, "float64" if size == 8 else "float32"))
    assert registers * max(1, lanes * size // host().vector_bytes) == host().registers
