"""Registers: the model against a slow count of its own definition, orders against their promises, and real programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import assert_same, expected, whole
from strategies import programs, tapes

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.llvm import program as llvm_program
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.kernel import LLVMKernel
from accumulus.targets.llvm.program import PART_SIZE, Variant, pressure_of
from accumulus.targets.llvm.tuning import LONGEST_ORDERED, tune, values_in_registers
from accumulus.targets.pressure import Exchange, Pressure, most_alive, pressure
from accumulus.targets.schedule import Group, groups, handed_on, order, order_by_registers, parts

CALLS = frozenset(row.code for row in OPERATIONS if row.llvm.startswith("@"))


def steps_of(program):
    results = groups(program.tape, program.segments, 1)
    return results, list(order(program.tape, results))


def lives(tape, steps):
    """Of each computed value, when it is made and when it is used, the step's own number."""
    made, used = {}, {}
    for at, step in enumerate(steps):
        group = isinstance(step, Group)
        for reference in set(step.references if group else tape.arguments(step)):
            if reference is not None and reference >= tape.inputs:
                used.setdefault(reference, []).append(at)
        if not group:
            made[step] = at
    return made, used


def fewest_moves(tape, steps, registers):
    """Stores and loads where the value whose next use is furthest goes, looked up anew each time."""
    _, used = lives(tape, steps)
    held, stored, loads = set(), set(), 0

    def evict(at, keep):
        while len(held) > registers and held - keep:
            gone = max(held - keep, key=lambda r: (min(u for u in used[r] if u > at), -r))
            held.remove(gone)
            stored.add(gone)

    for at, step in enumerate(steps):
        group = isinstance(step, Group)
        now = {r for r in (step.references if group else tape.arguments(step)) if r is not None and r >= tape.inputs}
        loads += len(now - held)
        held |= now
        evict(at, now)
        held = {r for r in held if used[r][-1] > at}
        if not group and step in used:
            held.add(step)
            evict(at, set())
    return len(stored), loads


@given(program=programs(), registers=st.integers(3, 8))
def test_the_model_is_its_definition(program, registers):
    tape = program.tape
    _, steps = steps_of(program)
    found = pressure(tape, [steps], registers)
    made, used = lives(tape, steps)
    alive = [sum(made[r] <= at < used[r][-1] for r in used) for at in range(len(steps))]
    assert found.most_alive == max(alive, default=0)
    assert (found.stores, found.loads) == fewest_moves(tape, steps, registers)
    assert found.moves == found.stores + found.loads


@given(program=programs(), exchange=st.sampled_from([None, 1, 2, 8]))
def test_more_registers_never_cost_more(program, exchange):
    _, steps = steps_of(program)
    rows = None if exchange is None else Exchange(exchange, [segment.length for segment in program.segments])
    moves = [pressure(program.tape, [steps], count, rows, CALLS).moves for count in (3, 4, 6, 10, 100)]
    assert moves == sorted(moves, reverse=True)
    free = pressure(program.tape, [steps], 1000, rows)
    assert free.moves == 0
    if free.most_alive >= 3:
        assert pressure(program.tape, [steps], free.most_alive, rows).moves == 0


def test_results_of_rows_wait_for_their_neighbours():
    tape = Tape(1)
    tape.outputs = [tape.add(0, tape.constant(float(k + 1))) for k in range(16)]
    results = groups(tape, whole(16), 1)
    steps = list(order(tape, results))
    assert pressure(tape, [steps], 32).most_alive == 1
    assert pressure(tape, [steps], 32, Exchange(8, [16])).most_alive == 9  # and the input, until its last use
    # rows that begin anywhere in a vector: an entry may wait for the seven behind it
    assert pressure(tape, [steps], 32, Exchange(8, [17])).most_alive == 9


def test_inputs_of_rows_come_together():
    tape = Tape(16)
    tape.outputs = [tape.sum(range(16))]
    steps = list(order(tape, groups(tape, whole(1), 1)))
    assert pressure(tape, [steps], 32).most_alive == 1
    assert pressure(tape, [steps], 32, Exchange(8, [1])).most_alive == 9


def test_calls_leave_nothing_in_registers():
    tape = Tape(1)
    kept = tape.add(0, tape.constant(1.0))
    sine, cosine = tape.apply("sin", 0), tape.apply("cos", 0)
    tape.outputs = [tape.multiply(kept, tape.multiply(sine, cosine))]
    steps = [kept, sine, cosine, len(tape) - 2, len(tape) - 1, Group(0, 0, tuple(tape.outputs))]
    assert pressure(tape, [steps], 32) == Pressure(32, 3, 0, 0)
    # the sum is kept over two calls, the sine over one
    assert pressure(tape, [steps], 32, calls=CALLS) == Pressure(32, 3, 2, 2)
    assert pressure(tape, [steps], 32, calls=CALLS, partners={sine: cosine, cosine: sine}) == Pressure(32, 3, 1, 1)


def test_functions_hand_on_through_memory():
    tape = Tape(1)
    a = tape.add(0, tape.constant(1.0))
    b = tape.multiply(a, a)
    tape.outputs = [tape.add(a, b)]
    last = [len(tape) - 1, Group(0, 0, tuple(tape.outputs))]
    assert pressure(tape, [[a, b, *last]], 32).moves == 0
    assert pressure(tape, [[a, b], last], 32) == Pressure(32, 2, 2, 2)
    assert pressure(tape, [[a], [b], last], 32) == Pressure(32, 2, 2, 3)


@given(program=programs(max_operations=40), registers=st.integers(1, 12))
def test_the_order_by_registers_is_an_order(program, registers):
    tape = program.tape
    results, usual = steps_of(program)
    other = list(order_by_registers(tape, results, registers))
    assert [step for step in other if isinstance(step, Group)] == results
    operations = [step for step in other if not isinstance(step, Group)]
    assert sorted(operations) == sorted(step for step in usual if not isinstance(step, Group))
    known = set(range(tape.inputs))
    for step in other:
        used = step.references if isinstance(step, Group) else tape.arguments(step)
        assert all(reference is None or reference < 0 or reference in known for reference in used)
        if not isinstance(step, Group):
            known.add(step)
    assert other == list(order_by_registers(tape, results, registers))


@given(program=programs(max_operations=40))
def test_alive_values_are_counted_as_in_the_model(program):
    _, steps = steps_of(program)
    # without inputs and with results that are stored at once they are the same
    made, used = lives(program.tape, steps)
    alive = [sum(made[r] < at <= used[r][-1] for r in used) for at in range(len(steps))]
    assert most_alive(program.tape, steps) == max(alive, default=0)


@given(program=programs(max_operations=40), size=st.integers(1, 9))
def test_what_parts_hand_on_is_what_their_frame_holds(program, size):
    tape = program.tape
    _, steps = steps_of(program)
    pieces, _ = parts(tape, steps, size, 1)
    moves = 0
    for piece in pieces:
        used, made = set(), set()
        for step in piece.steps:
            used |= set(step.references if isinstance(step, Group) else tape.arguments(step))
            made |= set() if isinstance(step, Group) else {step}
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
    variant = Variant.of(tape, segments, "float64")
    assert variant.steps is not None
    usual = replace(variant, steps=None)
    results = groups(tape, segments, 1)
    assert handed_on(tape, variant.steps, PART_SIZE) < 0.75 * handed_on(tape, list(order(tape, results)), PART_SIZE)
    assert pressure_of(tape, segments, variant).moves < pressure_of(tape, segments, usual).moves

    # the same results, whichever way they are computed
    X = np.random.default_rng(0).uniform(0.2, 0.4, (19, 3))
    wanted = expected(tape, segments, X)[0]
    kernel = LLVMKernel(tape, segments, "float64", variant=replace(variant, contract=False))
    assert_same(kernel.batch(X)[0], wanted)
    assert_same(kernel.batch(np.ascontiguousarray(X.T), transposed=True)[0].T, wanted)
    assert_same(kernel(X[3])[0], wanted[3])
    # one point and a batch round alike, fused products too
    kernel = LLVMKernel(tape, segments, "float64")
    assert_same(kernel(X[3])[0], kernel.batch(X)[0][3])


def test_short_programs_and_very_long_ones_are_left_alone():
    short, long = recurrence(10), recurrence(LONGEST_ORDERED // 5 + 1)
    assert Variant.of(short, whole(3), "float64").steps is None
    assert long.operations > LONGEST_ORDERED
    assert not tune(long, whole(3), "float64").crowded


def test_an_order_that_hands_on_no_less_is_not_taken(monkeypatch):
    monkeypatch.setattr(llvm_program, "WORTH_IT", 0.0)
    assert Variant.of(recurrence(400), whole(3), "float64").steps is None


@given(data=st.data())
def test_programs_in_any_given_order(data):
    program = data.draw(programs())
    tape = program.tape
    results = groups(tape, program.segments, 1)
    steps = tuple(order_by_registers(tape, results, data.draw(st.integers(1, 6))))
    variant = Variant(host().vector_bytes // 8, contract=False)
    X = np.random.default_rng(0).uniform(-2, 2, (9, tape.inputs))
    usual, other = (
        LLVMKernel(tape, program.segments, "float64", variant=replace(variant, steps=given)).batch(X)
        for given in (None, steps)
    )
    for a, b in zip(usual, other, strict=True):
        assert_same(a, b)


@given(tape=tapes())
def test_kernels_tell_what_they_need(tape):
    kernel = LLVMKernel(tape, whole(len(tape.outputs)), "float64")
    needs = kernel.pressure()
    assert kernel.lanes == Variant.of(tape, kernel.segments, "float64").lanes
    assert needs.registers == values_in_registers(kernel.lanes, 8)
    assert needs.stores <= needs.loads
    assert needs.most_alive <= len(tape)


@pytest.mark.parametrize(("lanes", "size"), [(8, 8), (16, 8), (4, 8), (16, 4), (1, 8)])
def test_wide_values_take_several_registers(lanes, size):
    registers = values_in_registers(lanes, size)
    assert registers * max(1, lanes * size // host().vector_bytes) == host().registers
