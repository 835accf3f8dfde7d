"""Measured weights: sensible however noisy the clock is, and kept. No test asks how long anything took."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumulus.tape.evaluate import evaluate
from accumulus.tape.weights import FREE, NAMES, kept, typical, weights
from accumulus.targets.llvm import measure as module
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.measure import measured_weights

CASES = module._cases()


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """A cache of its own, and programs that run but once."""
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "TURNS", 1)
    monkeypatch.setattr(module, "SECONDS_PER_TURN", 0.0)
    monkeypatch.setattr(module, "WARM_UP", 0.0)
    monkeypatch.setattr(module, "LONG", module.SHORT + 1)
    monkeypatch.setattr(module, "LONG_CALLS", module.SHORT_CALLS + 1)


def test_weights_are_measured_once(quick, monkeypatch):
    assert kept() is None
    measured = measured_weights()
    assert measured.source == "measured"
    assert measured.fused == host().fused
    assert f"{host().vector_bytes // 8} doubles" in measured.machine
    assert kept() == weights() == measured

    # not again, unless told to
    monkeypatch.setattr(module, "_differences", lambda cases: dict.fromkeys(cases, 20.0))
    assert measured_weights() == measured
    again = measured_weights(again=True)
    assert again != measured
    assert again.operations["add"] == 20
    assert kept() == weights() == again


def test_every_operation_is_a_case():
    assert set(NAMES) - FREE <= CASES.keys()
    for name, case in CASES.items():
        assert set(case.rest) <= CASES.keys() - {name}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_step_is_the_operation_and_its_rest(name):
    """What is subtracted is what else is in the step, and each step is new work."""
    case = CASES[name]
    counted = {"fma": ["multiply", "add"], "sincos": ["sin", "cos"]}
    own = counted.get(name, [name])
    rest = [part for other in case.rest for part in counted.get(other, [other])]
    for steps in (4, 7):
        tape = module._program(case, steps)
        found = [row.name for row in map(tape.operation, range(tape.inputs, len(tape)))]
        for part in {*own, *rest} - ({"less"} if name == "select" else set()):
            assert found.count(part) == case.values * steps * (own + rest).count(part), part


@pytest.mark.parametrize("name", sorted(CASES))
def test_arguments_stay_in_the_domain_and_results_finite(name):
    case = CASES[name]
    tape = module._program(case, module.LONG_CALLS if case.calls else module.LONG)
    X = module._points(case)
    assert X.shape == (tape.inputs, module.POINTS)
    tape.outputs = list(range(len(tape)))
    values = evaluate(tape, X)
    for reference in range(tape.inputs, len(tape)):
        row = tape.operation(reference)
        assert np.isfinite(values[reference]).all()
        for argument, (low, high) in zip(tape.arguments(reference), row.domain, strict=True):
            assert (low <= values[argument]).all(), row.name
            assert (values[argument] <= high).all(), row.name


times = st.floats(-50.0, 5000.0, allow_nan=False)


@given(data=st.data())
def test_weights_make_sense_however_noisy_the_clock_is(data):
    drawn = {name: data.draw(times) for name in CASES}
    found = module._weights(drawn, CASES)  # refuses what contradicts itself
    least = min(weight for name, weight in found.operations.items() if name not in FREE)
    assert least >= max(1, round(module.LEAST * (drawn["add"] + drawn["subtract"]) / 2))
    assert found.operations["add"] == found.operations["subtract"]


def test_times_without_noise_come_back():
    w = typical().operations
    own = {**w, "fma": typical().fma, "sincos": typical().sincos}
    steps = {name: own[name] + sum(own[part] for part in case.rest) for name, case in CASES.items()}
    found = module._weights(steps, CASES)
    floor = round(w["add"] / 2)
    assert found.operations == {name: weight if name in FREE else max(weight, floor) for name, weight in w.items()}
    assert (found.fma, found.sincos) == (typical().fma, typical().sincos)
