"""Values that no program has: found where they are planted, all that there are, and of use to the choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from contexts import within
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import RATIONAL, SMOOTH, programs

from accumulus.deadline import FOREVER
from accumulus.resubstitution.resubstitute import MOST_HELPED, MOST_HELPERS, Resubstitution, with_helpers
from accumulus.resubstitution.values import Values
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.fields import SMALL_PRIME
from accumulus.rewriting.equivalence import Verification
from accumulus.rewriting.rounding import points_of
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
    check = Verification(base, seed, count=3, has_small=True)
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
    search = Resubstitution(Original(base, within(), None), 0, 0)
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
    search = Resubstitution(Original(base, within(), None), 0, 0)
    assert search.cheapest([base], 10_000, FOREVER, 0, has_helpers=True).operations == base.operations


class Residue:
    """A number modulo the small prime, with a square root of -1."""

    def __init__(self, real, imaginary=0):
        self.parts = real % SMALL_PRIME, imaginary % SMALL_PRIME

    def __add__(self, other):
        return Residue(*(x + y for x, y in zip(self.parts, other.parts, strict=True)))

    def __neg__(self):
        return Residue(*(-x for x in self.parts))

    def __sub__(self, other):
        return self + -other

    def __mul__(self, other):
        (a, b), (c, d) = self.parts, other.parts
        return Residue(a * c - b * d, a * d + b * c)

    def __truediv__(self, other):
        c, d = other.parts
        inverse = pow(c * c + d * d, -1, SMALL_PRIME)
        return self * Residue(c * inverse, -d * inverse)

    @property
    def key(self):
        """What it shares with its negative."""
        return min(self.parts, (-self).parts)


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
    if not tape.operations:
        return
    values, check = values_of(tape, seed)
    helped = with_helpers(values, values.base, seed)
    nodes = sorted({abs(n) for n in values.base.meanings} & set(values.sampled.tolist()) - {0, *values.numbers})
    parts = values.at_small_point(np.array(nodes, np.int64))
    at = dict(zip(nodes, map(Residue, *(each.tolist() for each in parts)), strict=True))
    divisors = {abs(each.arguments[1]) for each in values.definitions if each.code == DIVIDE}
    wishes: dict[tuple[int, int], set[int]] = {}
    for v, k in itertools.permutations(at, 2):
        if not values.is_leaf[v]:
            for wished in [at[v] - at[k], at[v] + at[k], at[v] / at[k]] + [at[v] * at[k]] * (k in divisors):
                wishes.setdefault(wished.key, set()).add(v)
    there = {(0, 0), (1, 0), *(each.key for each in at.values())}
    made = {
        each.key
        for i, j in itertools.combinations_with_replacement(at, 2)
        for each in [at[i] * at[j]] + [at[i] + at[j], at[i] - at[j]] * (i != j)
        if each.key not in there and len(wishes.get(each.key, ())) > 1
    }
    run = check.run(helped) if helped is not None else None
    results = [] if run is None else [Residue(int(run.real[r, 0]), int(run.imaginary[r, 0])) for r in helped.outputs]
    assert {each.key for each in results} <= made
    assert len({each.key for each in results}) == len(results) == min(len(made), MOST_HELPERS)


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
