"""Every stage of programs by value with one mistake: the test that is there for the stage fails.

Where a later stage refuses what a mistake makes, as `test_stage_mutants` shows, it has to be blind here, too.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import test_angles
import test_by_value
import test_identities
import test_proofs
from inside import BY_NAME, MULTIPLY, Original, Points
from test_stage_mutants import blind_to_digits, blind_to_excess, never_worse, no_excess

from accumulus.errors import VerificationError
from accumulus.resubstitution import angles, proofs
from accumulus.resubstitution.extraction import Extraction
from accumulus.resubstitution.universe import Conditions, Rounding
from accumulus.rewriting import acceptance, equivalence
from accumulus.rewriting.rounding import RealPoints
from accumulus.tape.live import comparisons_of


class Mutant(NamedTuple):
    """A stage with a mistake, and the test that has to fail.

    Attributes:
        changes: `(object, name, replacement)`.
        test: what passes without them.
        blind: stages that would refuse what the mistake makes; without these alone, the test passes.
    """

    changes: tuple
    test: object
    blind: tuple = ()


class OneWay(Points):
    """Points at which all comparisons of the first tape have the outcome 1."""

    outcome = 1

    def __init__(self, tape, *rest, **options):
        super().__init__(tape, *rest, **options)
        comparisons = comparisons_of(tape)
        self.decide(tape, comparisons, np.zeros((len(comparisons), self.count), np.int64))

    def decide(self, tape, comparisons, outcomes):
        super().decide(tape, comparisons, np.full_like(outcomes, self.outcome))


class OtherWay(OneWay):
    """The same, with the outcome 0."""

    outcome = 0


class OfOneSign(Points):
    """Points that are all the same, so that each root has one sign."""

    def _draw(self, seed, count, has_small):
        super()._draw(seed, count, has_small)
        for array in (self._at, self._seeds, self._which):
            array[...] = array[..., :1]


def of_squares(self, tape, *rest):
    squares = tape.copy()
    for r in range(tape.inputs, len(tape)):
        if tape.codes[r] == BY_NAME["power"].code:
            squares.codes[r], squares.second[r] = MULTIPLY, tape.first[r]
    return run_of_points(self, squares, *rest)


run_of_points = Points._run


def near_one(tape, points, rng, dtype="float64", assumed=()):
    at = 1.0 + 0.01 * rng.normal(size=(30, tape.inputs))
    everywhere = np.ones(len(at), bool)
    return RealPoints(at, everywhere, everywhere, everywhere)


def smaller(x, y, z):
    return x.less(y).select(x, y)


def as_it_began(self, visits, deadline, hot=0.0):
    pass


MUTANTS = {
    "points: all are near 1": Mutant(
        ((acceptance, "points_of", near_one),),
        test_by_value.test_digits_are_preserved_near_cancellation,
    ),
    "values: roots have one sign": Mutant(
        ((equivalence, "Points", OfOneSign),),
        partial(test_by_value.test_identities_on_a_part_of_the_domain_are_not_taken, "cosine"),
        (blind_to_excess, blind_to_digits),
    ),
    "values: comparisons come out in one way": Mutant(
        ((equivalence, "Points", OneWay),),
        partial(test_by_value.test_identities_on_a_part_of_the_domain_are_not_taken, "select"),
        (blind_to_excess, blind_to_digits),
    ),
    "conditions: none matter": Mutant(
        ((Conditions, "allow", lambda self, rows: np.ones(len(rows), bool)),),
        test_by_value.test_nothing_is_divided_by_possible_zeros,
        (blind_to_excess, blind_to_digits),
    ),
    "rounding: small numbers may lose digits": Mutant(
        ((Rounding, "excess", no_excess), (Rounding, "is_worse", never_worse)),
        test_by_value.test_digits_are_preserved_near_cancellation,
    ),
    "rounding: large numbers may lose digits": Mutant(
        ((Rounding, "excess", no_excess), (Rounding, "is_worse", never_worse)),
        test_by_value.test_digits_of_a_conjugate_are_preserved_far_from_zero,
    ),
    "angles: what nearly holds does": Mutant(
        ((angles, "EQUAL", 1e-6),),
        test_angles.test_expressions_that_are_no_function_of_a_sum,
    ),
    "extraction: the first choice stays": Mutant(
        ((Extraction, "anneal", as_it_began),),
        test_by_value.test_values_of_several_programs_are_selected_together,
    ),
    "proofs: roots have one sign": Mutant(
        ((equivalence, "Points", OfOneSign),),
        test_proofs.test_roots_of_which_a_product_is_a_square_have_all_signs,
    ),
    "proofs: all powers are squares": Mutant(
        ((Points, "_run", of_squares),),
        partial(test_proofs.test_false_identities_are_not_proved, lambda x, *_: x**4, lambda x, *_: x**5),
    ),
    "proofs: comparisons come out in one way": Mutant(
        ((equivalence, "Points", OneWay),),
        partial(test_proofs.test_false_identities_are_not_proved, smaller, lambda x, *_: x),
    ),
    "identities: comparisons come out in one way": Mutant(
        ((proofs, "Points", OtherWay),),
        test_identities.test_no_branch_is_overlooked,
    ),
    "tests: nothing is known not to be negative": Mutant(
        ((Original, "_nonnegative", ()),),
        test_identities.test_identities_of_positive_numbers_are_tested,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_test_of_the_stage_fails(name, monkeypatch):
    changes, test, blind = MUTANTS[name]
    for change in blind:
        change(monkeypatch)
    test()
    for change in changes:
        monkeypatch.setattr(*change)
    with pytest.raises((AssertionError, VerificationError)):
        test()
