"""Every method × every back end on random programs over the whole table, against derivatives in 50 digits.

How far a result may be off is measured, not guessed: the emitted program is run in 50 digits with every operation's
result moved by half a unit in the last place, up or down at random (as in stochastic arithmetic, Vignes 1993), and
the entries may differ from the truth by a small multiple of how far they move.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exact import EXACT, exact_jacobian, exact_values, mp, mpf
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import BY_NAME, Segment, canonical, compile_tape, emit, evaluate, linearize
from programs import programs

from accumulus import Accumulation, Tape, methods, plan
from accumulus.graph.linearize import Linearization

HALF_UNIT = mpf(2) ** -53
SAMPLES = 4
#: libm and libmvec are off by up to 4 units, the interpreter's samples by half a unit an operation.
ALLOWED = 40

#: Programs for each method: there are many methods, and what they share is compiled for each of them.
EXAMPLES = max(1, settings().max_examples * 2 // 5)

POINTS = st.lists(st.integers(-3000, 3000).map(lambda k: k / 1000.0), min_size=3, max_size=3)


def moved(rng: random.Random) -> dict[str, Callable[..., Any]]:
    """Exact arithmetic, but for a relative error of half a unit in the last place in each real result."""

    def wrapped(name: str) -> Callable[..., Any]:
        if BY_NAME[name].result == "boolean" or name == "select":
            return EXACT[name]
        return lambda *arguments: EXACT[name](*arguments) * (1 + rng.choice((-1, 1)) * HALF_UNIT)

    return {name: wrapped(name) for name in EXACT}


def compiled(tape: Tape, target: str, point: list[float]) -> list[float]:
    everything = tuple(range(len(tape.outputs)))
    kernel = compile_tape(tape, [Segment(len(everything), everything, everything)], target=target)
    one = kernel(np.array(point))[0]
    batch = kernel.batch(np.array([point] * 5))[0]
    np.testing.assert_array_equal(batch, np.stack([one] * 5))
    return one.tolist()


def check(result: list[float], truth: list[Any], tape: Tape, point: list[float]) -> None:
    """Each output within ALLOWED times its own sensitivity to rounding."""
    inputs = [mpf(x) for x in point]
    still = evaluate(tape, inputs, EXACT, mpf)
    runs = [evaluate(tape, inputs, moved(random.Random(seed)), mpf) for seed in range(SAMPLES)]
    for k, (got, want) in enumerate(zip(result, truth, strict=True)):
        spread = max(abs(run[k] - still[k]) for run in runs)
        if not (mp.isfinite(want) and mp.isfinite(spread) and abs(want) < 1e200):
            continue
        allowed = ALLOWED * (spread + HALF_UNIT * abs(want)) + mpf(10) ** -290
        assert abs(mpf(got) - want) <= allowed, f"output {k}: {got} instead of {mp.nstr(want, 20)}\n{tape}"


def entries(linearization: Linearization, accumulation: Accumulation, jacobian: list[list[Any]]) -> list[Any]:
    """The true Jacobian's entries in the order of the emitted tape's outputs; all others have to be 0."""
    rows = {root: row for row, root in enumerate(linearization.rows) if root >= 0}
    positions = [(rows[root], linearization.columns[terminal]) for root, terminal in sorted(accumulation.entries)]
    structural = {
        (row, column)
        for row, root in enumerate(linearization.rows)
        for r, terminal in accumulation.entries
        for column in [linearization.columns[terminal]]
        if r == root
    }
    for row, values in enumerate(jacobian):
        for column, value in enumerate(values):
            assert (row, column) in structural or value == 0 or not mp.isfinite(value)
    return [jacobian[row][column] for row, column in positions]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", methods())
@settings(max_examples=EXAMPLES)
@given(program=programs(), point=POINTS)
def test_methods_and_targets_agree_with_the_truth(method, program, point):
    tape = program.tape()
    truth = exact_values(tape, point)
    if not all(mp.isfinite(value) for value in truth):
        return
    jacobian = exact_jacobian(tape, point)
    linearization = linearize(tape)
    actual = plan(linearization.graph, method, time_limit=0.05, iterations=200)
    actual.verify()
    expected = truth + entries(linearization, actual.accumulation, jacobian)
    emitted = emit(actual.accumulation)
    for ready in (emitted, canonical(emitted)):
        check([float(v) for v in evaluate(ready, [np.float64(x) for x in point])], expected, ready, point)
    for target in ("llvm", "numpy"):  # a compiler for each example takes too long; tests/targets holds its target
        check(compiled(ready, target, point), expected, ready, point)
