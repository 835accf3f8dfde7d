"""Values that no program has: found where they are planted, all that there are, and of use to the choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import RATIONAL, SMOOTH, programs

from accumulus.deadline import FOREVER
from accumulus.resubstitution.compiled.pairs_kernel import HELPER_KEY_BITS
from accumulus.resubstitution.resubstitute import MOST_HELPED, MOST_HELPERS, Resubstitution, with_helpers
from accumulus.resubstitution.values import Values, points_of
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.equivalence import Verification, all_choices
from accumulus.tape.interpreter import evaluate
from accumulus.tape.tape import DIVIDE, Tape

POINT = [0.7, -1.3, 2.1, 0.4]
#: What is planted, at that point.
PLANTED = {
    "sum": 0.7**2 + 1.3**2,
    "difference": 0.7**2 - 1.3**2,
    "product": 0.7**2 * 1.3**2,
    "quotient": 0.7**2 + 1.3**2,
}


def planted(pattern: str) -> Tape:
    """Two results that are cheaper by a value of which there is none; of squares, so that sums do not cancel."""
    tape = Tape(4)
    x, y, z, w = (tape.multiply(k, k) for k in range(4))
    if pattern == "sum":
        tape.outputs = [tape.add(x, tape.add(y, z)), tape.add(y, tape.add(x, w))]
    elif pattern == "difference":
        tape.outputs = [tape.subtract(x, tape.add(y, z)), tape.subtract(tape.add(w, x), y)]
    elif pattern == "product":
        tape.outputs = [tape.multiply(x, tape.multiply(y, z)), tape.multiply(y, tape.multiply(x, w))]
    else:  # (x + y) z / w, of which z / w is not there
        scaled = tape.divide(tape.add(tape.multiply(x, z), tape.multiply(y, z)), w)
        tape.outputs = [scaled, tape.add(y, tape.add(x, w))]
    return tape


def values_of(base: Tape, seed: int = 0) -> tuple[Values, Verification]:
    """Return the values of a program and the points at which it ran."""
    choices = all_choices(base, 4)
    check = Verification(base, seed, choices=choices * -(-8 // len(choices)), reaches=(1.0, 6.0, 3.0))
    return Values(base, check, points_of(base, None, np.random.default_rng(seed))), check


@pytest.mark.parametrize("pattern", PLANTED)
@pytest.mark.parametrize("seed", range(3))
def test_planted_patterns_are_detected(pattern, seed):
    tape = canonical(planted(pattern))
    values, _ = values_of(tape)
    helped = with_helpers(values, values.base, seed)
    assert any(abs(abs(value) - abs(PLANTED[pattern])) < 1e-12 for value in evaluate(helped, POINT))
    # the program is there, too, so that helpers are read with it
    assert len(helped) == len(tape) + len(helped.outputs)


@pytest.mark.parametrize("pattern", ["sum", "product", "quotient"])
def test_programs_are_cheaper_by_them(pattern):
    base = canonical(planted(pattern))
    search = Resubstitution(base, 0, None, 0)
    without = search.cheapest([base], 10_000, FOREVER, 0)
    helped = search.cheapest([base], 10_000, FOREVER, 0, has_helpers=True)
    assert without.operations == base.operations
    assert helped.operations < base.operations
    np.testing.assert_allclose(evaluate(helped, POINT), evaluate(base, POINT), rtol=1e-14)


def test_nothing_that_loses_digits_is_made_by_them():
    tape = Tape(4)
    x, y, z, w = range(4)
    # (x + y) + z loses what x + (y + z) has where y + z cancels
    tape.outputs = [tape.add(x, tape.add(y, z)), tape.add(y, tape.add(x, w))]
    base = canonical(tape)
    search = Resubstitution(base, 0, None, 0)
    assert search.cheapest([base], 10_000, FOREVER, 0, has_helpers=True).operations == base.operations


def keys(numbers):
    """Return the keys of the kernel."""
    with np.errstate(all="ignore"):
        sizes = np.abs(np.asarray(numbers, float))
        bits = (sizes.view(np.int64) + (1 << (HELPER_KEY_BITS - 1))) >> HELPER_KEY_BITS
        return np.where((sizes > 1e-12) & (sizes < 1e12), bits, 0).tolist()


@settings(max_examples=20)
@given(
    program=st.one_of(
        programs(RATIONAL, constants=(1.0, 2.0), steps=12),
        programs(SMOOTH, constants=(0.5,), steps=12),
        programs(("add", "multiply", "divide", "less", "select"), constants=(), inputs=3, steps=12),
    ),
    seed=st.integers(0, 3),
)
def test_all_that_there_are_by_plain_python(program, seed):
    tape = canonical(program.tape())
    choices = all_choices(tape, 4)
    if choices is None or not tape.operations:
        return
    values, check = values_of(tape, seed)
    helped = with_helpers(values, values.base, seed)
    nodes = sorted({abs(n) for n in values.base.meanings} & set(values.sampled.tolist()) - {0, *values.numbers})
    real, imaginary = values.at_complex_point(np.array(nodes, np.int64), seed)
    at = dict(zip(nodes, (real + 1j * imaginary).tolist(), strict=True))
    divisors = {abs(each.arguments[1]) for each in values.definitions if each.code == DIVIDE}
    wishes: dict[int, set[int]] = {}
    for v, k in itertools.permutations(at, 2):
        if not values.is_leaf[v]:
            wished = [at[v] - at[k], at[v] + at[k], at[v] / at[k]] + [at[v] * at[k]] * (k in divisors)
            for key in keys([z.real for z in wished]):
                wishes.setdefault(key, set()).add(v)
    there = {0, *keys(real)}
    made = {
        key
        for i, j in itertools.combinations_with_replacement(at, 2)
        for key in keys([(at[i] * at[j]).real] + [(at[i] + at[j]).real, (at[i] - at[j]).real] * (i != j))
        if key not in there and len(wishes.get(key, ())) > 1
    }
    run = check.run(helped) if helped is not None else None
    results = [] if run is None else [abs(run.real[r, seed % check.points]) for r in helped.outputs]
    made = sorted(made)
    # what is on the border of two keys may have either, or be there twice
    near = [any(abs(key - other) <= 1 for key in made) for other in keys(results)]
    assert all(near)
    assert len(results) >= min(len(made), MOST_HELPERS)


def test_large_programs_are_looked_through_in_part():
    tape = Tape(4)
    references = list(range(4))
    rng = np.random.default_rng(0)
    while len(references) < MOST_HELPED + 100:
        a, b = rng.choice(references, 2).tolist()
        references.append(tape.apply("sin", a) if len(references) % 3 == 2 else tape.apply("add", a, b))
        references = sorted(set(references))
    tape.outputs = references[-50:]
    base = canonical(tape)
    values, _ = values_of(base)
    helped = with_helpers(values, values.base, 1)
    assert helped is not None
    assert 0 < len(helped.outputs) <= MOST_HELPERS
