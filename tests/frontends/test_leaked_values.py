"""Traced values that are kept by one recording, and used in another, after it has ended, or by another thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import special

import accumulus as acc
from accumulus.errors import AccumulusError, TraceError

x0 = np.array([0.5, 0.25])


def kept(kind):
    """A value that a recording has left behind."""
    results = []

    def keep(value):
        results.append(value)
        return value

    functions = {
        "number": (lambda x: keep(2.0 * x), 1.5),
        "truth": (lambda x: np.where(keep(x > 0), x, 0.0), 1.5),
        "array": (lambda x: keep(2.0 * x), np.ones(2)),
        "argument": (lambda x: keep(x) * 2.0, np.ones(2)),
        "complex": (lambda x: keep(2j * x).imag, np.ones(2)),
        "long": (lambda x: keep(np.sin(x)).sum(), np.linspace(0.0, 1.0, 30_000)),
        "body": (lambda x: acc.map(lambda u: keep(2.0 * u), x), np.ones(2)),
        "nested": (lambda x: 1.0 * acc.gradient(lambda u: keep(2.0 * u) * u)(x), 2.0),
    }
    function, point = functions[kind]
    acc.compile(function, cache=False, check=False)(point)
    return results[0]


KINDS = ("number", "truth", "array", "argument", "complex", "long", "body", "nested")
USES = {
    "+": lambda x, k: x + k,
    "reflected": lambda x, k: k + x,
    "-": lambda x, k: -k * x,
    "itself": lambda x, k: k * k,
    "<": lambda x, k: np.where(k == k, x, 2.0 * x),
    "np.sin": lambda x, k: np.sin(k) * x,
    "np.sum": lambda x, k: np.sum(k) * x,
    "np.stack": lambda x, k: np.stack([k, k]),
    "method": lambda x, k: k.sum() * x,
    "item": lambda x, k: np.ravel(k)[0] * x,
    "special": lambda x, k: special.gamma(k) * x,
    "float": lambda x, k: float(np.ravel(k)[0]) * x,
    "if": lambda x, k: x if np.all(k == k) else 2.0 * x,
    "filled": lambda x, k: np.concatenate([x, np.ravel(k)]),
    "map": lambda x, k: acc.map(lambda u: u * np.sum(k), x),
    "nested": lambda x, k: acc.gradient(lambda u: u * np.sum(k))(x[0]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", USES)
def test_values_of_another_recording_raise(kind, name):
    k = kept(kind)
    with pytest.raises(AccumulusError):
        acc.compile(lambda x: USES[name](x, k), cache=False)(x0)
    with pytest.raises(AccumulusError):  # and on numbers
        USES[name](x0, k)


@pytest.mark.parametrize("kind", KINDS)
def test_leaked_values_can_be_returned_printed_or_used(kind, capsys):
    k = kept(kind)
    with pytest.raises(TraceError):
        acc.compile(lambda x: k, cache=False)(x0)
    assert "Traced" in repr(k) or "Complex" in repr(k)
    errors = []

    def use():
        try:
            k + 1.0
        except TraceError as error:
            errors.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "recording has ended" in errors[0]


def test_what_a_recording_has_left_in_a_dict_is_taken_out():
    cache = {}

    def f(x):
        if "table" not in cache:
            cache["table"] = 2.0 * x
        return cache["table"] * np.sum(x)

    derivative = acc.jacobian(f, check=False, cache=False)
    for x in (x0, np.ones(3)):
        np.testing.assert_allclose(derivative(x), 2.0 * (np.sum(x) * np.eye(len(x)) + np.outer(x, np.ones(len(x)))))
        assert not cache
