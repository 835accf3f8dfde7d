"""Stages of programs by value with one mistake each: what they make is right and costs no more, or is not taken.

Definitions that are wrong are caught by what rounding is taken to do to them alone, and by the verification of the
whole program alone. Where neither looks, wrong programs come out: the mistakes are mistakes.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from contexts import within
from inside import ADD, DIVIDE, MULTIPLY, Original, canonical, evaluate, with_folding
from programs import RATIONAL

from accumulus.deadline import FOREVER
from accumulus.resubstitution.extraction import Extraction
from accumulus.resubstitution.resubstitute import Resubstitution, cost
from accumulus.resubstitution.universe import Rounding
from accumulus.resubstitution.values import Values

sys.path.append(str(Path(__file__).parents[1] / "rewriting"))

from expressions import written

TEXTS = (
    "a*b*c - a*b*d + (a*c - a*d) * (b - d), a - b - c, (a - c) * b",
    "(a + b) * (a - b) + c * c, (a - c) * (b - d), (a - c) * (a - d), a * a - b * b",
    "a / (b * c) + d / (b * c) - a / b, (b / (c / d)) / a, a * d / b",
)
POINTS = tuple(tuple(Fraction(n, 7) for n in row) for row in ((3, 5, 11, -13), (-2, 9, 4, 17), (23, -6, 8, 5)))
CODES = {ADD: MULTIPLY, MULTIPLY: ADD, DIVIDE: MULTIPLY}


def turned(rows, inputs):
    rows[:, -1] *= -1


def of_another_operation(rows, inputs):
    for row in rows:
        row[1] = CODES.get(int(row[1]), row[1])


def of_another_value(rows, inputs):
    is_plain = np.isin(rows[:, 1], list(CODES))
    rows[is_plain, 2] = np.resize(inputs, is_plain.sum())


def mistaken(mistake, monkeypatch):
    """Definitions that pairing finds are wrong; returns how many were, each time."""
    pair, count = Values.pair, []

    def wrong(self, stop):
        length = len(self.definitions)
        pair(self, stop)
        rows = self.definitions.rows[length:]
        some = rows.copy()
        mistake(some, sorted(self.inputs))
        count.append(int((some != rows).any(axis=1).sum()))
        rows[:] = some

    monkeypatch.setattr(Values, "pair", wrong)
    return count


def no_excess(self, table, numbers, slack):
    return np.zeros(len(numbers))


def never_worse(self, tape, times):
    return False


def blind_to_excess(monkeypatch):
    monkeypatch.setattr(Rounding, "excess", no_excess)


def blind_to_digits(monkeypatch):
    monkeypatch.setattr(Rounding, "is_worse", never_worse)


def unverified(monkeypatch):
    monkeypatch.setattr(Original, "is_same", lambda self, made: True)


def is_right(text, seed=0):
    """Return True if one round makes a program with the same exact values that costs no more."""
    base = canonical(with_folding(written(text)))
    search = Resubstitution(Original(base, within(seed=seed), None), 0, seed)
    result = search.cheapest([base], 5000, FOREVER, seed)
    assert cost(result) <= cost(base)
    pairs = []
    for point in POINTS:
        try:
            pairs.append([evaluate(tape, point, RATIONAL, Fraction) for tape in (base, result)])
        except ZeroDivisionError:
            return False
    return all(expected == actual for expected, actual in pairs)


MISTAKES = (turned, of_another_operation, of_another_value)
BLIND = {
    "nothing": (),
    "excess": (blind_to_excess,),
    "digits": (blind_to_excess, blind_to_digits),
    "programs": (blind_to_digits, unverified),
}


@pytest.mark.parametrize("blind", BLIND)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_definitions_are_not_taken(mistake, blind, monkeypatch):
    count = mistaken(mistake, monkeypatch)
    for each in BLIND[blind]:
        each(monkeypatch)
    assert all(is_right(text) for text in TEXTS)
    assert all(count)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_where_nothing_looks_they_are_taken(mistake, monkeypatch):
    mistaken(mistake, monkeypatch)
    for each in (blind_to_excess, blind_to_digits, unverified):
        each(monkeypatch)
    assert not all(is_right(text) for text in TEXTS)


@pytest.mark.parametrize("blind", [None, blind_to_digits, unverified])
def test_choices_that_are_changed_after_the_search_are_not_taken(blind, monkeypatch):
    best, count = Extraction.best, []

    def wrong(self):
        result = best(self)
        value = max(result)
        count.append(value)
        return result | {value: result[value]._replace(sign=-result[value].sign)}

    monkeypatch.setattr(Extraction, "best", wrong)
    if blind is not None:
        blind(monkeypatch)
    assert all(is_right(text) for text in TEXTS)
    assert count
