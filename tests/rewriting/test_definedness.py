"""Programs that a case defines at a point stay defined there when they are rewritten."""

from __future__ import annotations

import numpy as np
import pytest
from contexts import within
from inside import DIVIDE, MULTIPLY, evaluate, with_folding

import accumulus as acc
from accumulus import Tape
from accumulus.resubstitution.optimise import rewrite
from accumulus.rewriting import optimise as optimiser
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.rounding import points_of_cases
from accumulus.tape.passes import rows_of

W, X = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -0.7])


def turned(w, x):
    angle = np.sqrt(w @ w)
    axis = w / angle
    y = np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1.0 - np.cos(angle)) * (axis @ x) * axis
    y = np.where(w @ w > 0.0, y, x + np.cross(w, x))
    return y[:2] / y[2]


def unit(q):
    length = np.sqrt(q[:3] @ q[:3])
    u = q[:3] / length if length > 1e-12 else q[:3]
    return np.array([u @ q[3:], np.exp(u[0]) * q[3], u[1] * u[2] * q[4]])


def sinc(q):
    y = np.sin(q[0]) / q[0] if q[0] != 0.0 else 1.0
    return np.array([y * q[1] * q[2], y**2 + q[1], np.cos(y * q[2])])


def friction(q):
    speed = np.sqrt(q[:3] @ q[:3])
    return np.where(speed > 1e-12, -q[3] * q[:3] / speed * np.tanh(speed / q[4]), -q[3] * q[:3] / q[4])


def logistic(x):
    """The usual form that does not overflow; algebra makes both branches the same."""
    return np.where(x > 0.0, 1.0 / (1.0 + np.exp(-x)), np.exp(x) / (1.0 + np.exp(x))) * x[::-1]


def entropy(p):
    terms = np.where(p > 0.0, p * np.log(p), 0.0)
    return np.array([terms.sum() + p[0] * p[1], terms[0] * p[1], terms[2] ** 2])


def two_bodies(q):
    d = q[:3] - q[3:]
    return np.where(d @ d > 0.0, d / np.sqrt(d @ d) ** 3, 0.0 * d) + 0.1 * q[:3]


def logarithm(q):
    length = np.sqrt(q[:3] @ q[:3])
    return np.where(length > 1e-10, 2.0 * np.arctan2(length, q[3]) * q[:3] / length, 2.0 * q[:3] / q[3])


def bounded_norm(q):
    length = np.maximum(np.sqrt(q[:3] @ q[:3]), 1e-9)
    u = q[:3] / length
    return np.array([u @ q[3:], np.exp(u[0]) * q[3], u[1] * u[2] * q[4]])


def clipped(q):
    p = np.clip(q[:3], 1e-6, 1.0 - 1e-6)
    return np.array([(p * np.log(p)).sum() * q[3], p[0] * np.log(p[0] / p[1]) * q[4], np.log(p[0]) * p[0] * p[1]])


def without_overflow(x):
    e = np.exp(np.minimum(x, 50.0))
    return e / (1.0 + e) * x[::-1] + e / (1.0 + e) ** 2


#: Functions, a point where they are recorded, and one where only a case or a bound defines them.
FUNCTIONS = {
    "a turned vector": (lambda q: turned(q[:3], q[3:]), np.concatenate([W, X]), np.concatenate([0.0 * W, X])),
    "a unit vector": (unit, np.concatenate([W, X]), np.concatenate([0.0 * W, X])),
    "sinc": (sinc, W, np.array([0.0, 1.0, 2.0])),
    "friction": (friction, np.array([*W, 0.4, 0.1]), np.array([0.0, 0.0, 0.0, 0.4, 0.1])),
    "logistic": (logistic, np.array([1.0, 2.0]), np.array([1000.0, -1000.0])),
    "entropy": (entropy, np.array([0.3, 0.4, 0.2]), np.array([0.3, 0.4, 0.0])),
    "two bodies": (two_bodies, np.concatenate([W, X]), np.concatenate([X, X])),
    "a bounded norm": (bounded_norm, np.concatenate([W, X]), np.concatenate([0.0 * W, X])),
    "clipped": (clipped, np.array([0.3, 0.2, 0.6, 1.0, 2.0]), np.array([1000.0, -1000.0, 0.0, 1.0, 2.0])),
    "without overflow": (without_overflow, np.array([1.0, 2.0]), np.array([1000.0, -1000.0])),
    "a logarithm": (logarithm, np.array([*W, 0.8]), np.array([0.0, 0.0, 0.0, 0.9])),
}
OPTIONS = {"fast": {}, "balanced": {}, "thorough": {"time_limit": 0.5}}


@pytest.mark.sampled(3, each="name effort")
@pytest.mark.parametrize("effort", OPTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", [0, 2])
def test_programs_and_derivatives_are_defined_where_those_as_written_are(name, effort, seed, monkeypatch):
    monkeypatch.setattr("accumulus.programs.graphs.with_rotations", lambda *_: [])  # whose program is another
    f, point, case = FUNCTIONS[name]
    for make in (acc.compile, acc.jacobian):
        plain, short = (
            make(f, cache=False, **options)
            for options in ({"optimise": False}, {"effort": effort, "seed": seed, **OPTIONS[effort]})
        )
        short(point)  # prepared without the case
        expected = plain(case)
        is_defined = np.isfinite(expected)
        assert is_defined.all() or f is bounded_norm  # whose derivative has the slope of a root at 0
        np.testing.assert_allclose(short(case)[is_defined], expected[is_defined], rtol=1e-9, atol=1e-12)


def test_points_are_zeros_and_far_ones():
    at = points_of_cases(5, np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    for zero in ([0, 0, 0, 0, 0], [1, 0, 3, 4, 5], [1, 0, 0, 0, 5], [1, 2, -1000, 4, 5], [1000] * 5):
        assert zero in at.tolist()
    assert points_of_cases(2, None).tolist()[:3] == [[0, 0], [0, 1], [1, 0]]
    assert points_of_cases(2, np.ones((1, 7))).shape[1] == 2
    assert len(points_of_cases(1000, None)) < 60


def with_case():
    """x if x == 0, else x² / x, as a tape; and y · x."""
    tape = Tape(2)
    quotient = tape.divide(tape.multiply(0, 0), 0)
    tape.outputs = [tape.select(tape.apply("equal", 0, tape.constant(0.0)), 0, tape.apply("sin", quotient))]
    tape.outputs.append(tape.multiply(tape.outputs[0], 1))
    return tape


def with_bound():
    """x / max(|x|, 1e-9), as a tape; and y times it."""
    tape = Tape(2)
    bounded = tape.apply("maximum", tape.apply("abs", 0), tape.constant(1e-9))
    tape.outputs = [tape.divide(0, bounded)]
    tape.outputs.append(tape.multiply(tape.outputs[0], 1))
    return tape


@pytest.mark.parametrize("made", [with_case, with_bound])
def test_programs_are_accepted_themselves_and_no_less_defined_ones(made):
    original = Original(with_folding(made()), within(), None)
    assert original.accepts(original.start)
    assert original.accepts(canonical(original.start.copy()))
    for k in range(2):
        other = as_written_times(original.start, k)
        assert original.faults(other) == [k]
        restored = original.restored(other, original.start)
        assert restored is not None
        assert evaluate(restored, [0.0, 3.0]) == evaluate(original.start, [0.0, 3.0])


def as_written_times(tape, k):
    """A tape with an output that is multiplied by x / x, as it is written."""
    rows = np.concatenate([rows_of(tape), [[DIVIDE, 0, 0, 0], [MULTIPLY, tape.outputs[k], len(tape), 0]]])
    outputs = list(tape.outputs)
    outputs[k] = len(tape) + 1
    other = Tape.of_rows(tape.inputs, rows, tape.constants, outputs)
    other.folding = tape.folding
    return other


@pytest.mark.parametrize("effort", ["fast", "balanced", "thorough"])
@pytest.mark.parametrize("outputs", [(0,), (1,), (0, 1)])
def test_rules_that_leave_a_case_are_refused(effort, outputs, monkeypatch):
    tape, made = with_folding(with_case()), []

    def undefined(best, kept_outputs):
        for k in outputs:
            best = as_written_times(best, k)
        made.append(best)
        return best

    monkeypatch.setattr(optimiser, "with_scaled_forms", undefined)
    result = rewrite(tape, within(effort=effort, time_limit=0.5))
    point = [0.0, 3.0]
    assert evaluate(result, point) == evaluate(tape, point) == [0.0, 0.0]
    assert made
