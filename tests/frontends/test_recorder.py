"""Another front end is one module and one row: formulas in reverse Polish notation get all that functions have."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, MismatchError, TraceError
from accumulus.frontends.active import refuse
from accumulus.frontends.location import CodePosition
from accumulus.frontends.recorder import FRONT_ENDS, Recorder


@dataclass
class Formula:
    """Such as ``"x 2 * sin"``: of an array x, entry by entry; `wrong` is what is recorded in its place."""

    text: str
    wrong: str | None = None


class Formulas(Recorder):
    def takes(self, function):
        return isinstance(function, Formula)

    def run(self, function, tape, arguments, inputs):
        self._text = function.wrong or function.text
        (references,) = inputs
        operations = {"*": tape.multiply, "+": tape.add, "sin": lambda a: tape.apply("sin", a)}
        return np.array(
            [self._computed(self._text, x, tape.constant, operations) for x in references.ravel().tolist()]
        ).reshape(references.shape)

    def references(self, tape, leaf):
        return leaf

    def evaluate(self, function, arguments):
        operations = {"*": np.multiply, "+": np.add, "sin": np.sin}
        return self._computed(function.text, arguments[0], float, operations)

    def holds(self, function):
        return ()

    def position(self):
        return CodePosition("formula", 1, "formula", self._text)

    @staticmethod
    def _computed(text, x, constant, operations):
        stack = []
        for word in text.split():
            if word == "x":
                stack.append(x)
            elif word in operations:
                arity = 1 if word == "sin" else 2
                operands = [stack.pop() for _ in range(arity)]
                stack.append(operations[word](*operands[::-1]))
            elif word.isdecimal():
                stack.append(constant(float(word)))
            else:
                raise refuse(f"There is no {word}.")
        return stack.pop()


@pytest.fixture(autouse=True)
def formulas(monkeypatch):
    module = ModuleType("formulas_front_end")
    module.RECORDER = Formulas()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    rows = {module.__name__: module.__name__, **FRONT_ENDS}
    FRONT_ENDS.clear()
    FRONT_ENDS.update(rows)
    yield
    del FRONT_ENDS[module.__name__]


X = np.array([[0.5, 1.0], [2.0, -1.0]])


def test_derivatives_of_a_formula():
    jac = acc.value_and_jacobian(Formula("x 2 * sin x +"))
    value, jacobian = jac(X)
    np.testing.assert_allclose(value, np.sin(2 * X) + X)
    np.testing.assert_allclose(jacobian, np.diag(2 * np.cos(2 * X.ravel()) + 1).reshape(2, 2, 2, 2), atol=1e-15)
    assert jac.batch(np.ones((5, 3)))[1].shape == (5, 3, 3)


def test_a_formula_is_traced_and_checked():
    assert acc.trace(Formula("x x *"), X).tape.operations == 4
    assert acc.check(Formula("x x * sin"), X).passed


def test_a_wrong_recording_is_detected_by_independent_means():
    with pytest.raises(MismatchError, match="gives"):
        acc.jacobian(Formula("x x *", wrong="x x +"))(X)


def test_errors_name_the_position_from_the_front_end():
    with pytest.raises(TraceError, match="formula, line 1, in formula:\n    x cos\nThere is no cos"):
        acc.jacobian(Formula("x cos"))(X)


def test_functions_are_still_recorded_and_nothing_else_is():
    np.testing.assert_allclose(acc.jacobian(np.sin)(0.5), np.cos(0.5))
    with pytest.raises(ArgumentError, match="expected a function"):
        acc.jacobian("x x *")
