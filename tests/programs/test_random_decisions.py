"""Random programs that decide on values, at points of all their cases, against dual numbers that just run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accumulus as acc
from accumulus.frontends.numpy import merging


@dataclass(frozen=True)
class Dual:
    """A number with its derivatives by two inputs."""

    value: float
    slopes: np.ndarray

    def __add__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value + other.value, self.slopes + other.slopes)

    def __sub__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value - other.value, self.slopes - other.slopes)

    def __mul__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value * other.value, self.value * other.slopes + other.value * self.slopes)

    def sin(self) -> Dual:
        return Dual(np.sin(self.value), np.cos(self.value) * self.slopes)

    def __lt__(self, other: Any) -> bool:
        return self.value < dual(other).value

    def __le__(self, other: Any) -> bool:
        return self.value <= dual(other).value

    def __int__(self) -> int:
        return int(self.value)


def dual(number: Any) -> Dual:
    return number if isinstance(number, Dual) else Dual(float(number), np.zeros(2))


REGISTERS = st.integers(0, 3)
SIMPLE = st.tuples(st.sampled_from(["add", "sub", "mul", "sin"]), REGISTERS, REGISTERS, REGISTERS)
DECIDED = st.one_of(
    st.tuples(st.sampled_from(["less", "less_equal"]), REGISTERS, REGISTERS, SIMPLE, SIMPLE),
    st.tuples(st.just("halve"), REGISTERS, st.sampled_from([0.25, 0.5])),
    st.tuples(st.just("whole"), REGISTERS, REGISTERS),
    st.tuples(st.just("greatest"), REGISTERS),
)
PROGRAMS = st.lists(st.one_of(SIMPLE, DECIDED), min_size=1, max_size=7)


def run(program, x):
    """Run a program on two numbers of any kind."""
    registers = [x[0], x[1], x[0] + 0.5, x[1] - 0.25]
    for step in program:
        do(step, registers)
    return registers


def do(step, registers):
    name, *rest = step
    if name in ("less", "less_equal"):
        a, b, one, other = rest
        lower, upper = registers[a], registers[b]
        if (lower < upper) if name == "less" else (lower <= upper):
            do(one, registers)
        else:
            do(other, registers)
    elif name == "halve":
        (a, share), turns = rest, 0
        while not registers[a] < 1.0 and turns < 6:
            registers[a] = registers[a] * share
            turns += 1
    elif name == "whole":
        a, b = rest
        if registers[b] < 3.0 and not registers[b] < -3.0:
            registers[a] = registers[a] * int(registers[b])
    elif name == "greatest":
        (a,) = rest
        position = 0
        for k in range(1, 4):
            if registers[position] < registers[k]:
                position = k
        registers[a] = registers[position] * 1.0
    elif name == "sin":
        a, b, _ = rest
        registers[a] = np.sin(registers[b]) if not isinstance(registers[b], Dual) else registers[b].sin()
    else:
        a, b, c = rest
        left, right = registers[b], registers[c]
        registers[a] = left + right if name == "add" else left - right if name == "sub" else left * right * 0.5


@pytest.mark.parametrize("merged", [False, True])
@settings(max_examples=6, deadline=None)
@given(program=PROGRAMS, seed=st.integers(0, 99))
def test_slopes_are_those_of_the_way_taken(merged, program, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.uniform(-4, 4, (12, 2)), rng.integers(-3, 4, (8, 2)) / 2])  # among them ties, and borders
    expected = []
    for x in X:
        inputs = [Dual(float(x[0]), np.array([1.0, 0.0])), Dual(float(x[1]), np.array([0.0, 1.0]))]
        expected.append([(dual(r).value, dual(r).slopes) for r in run(program, inputs)])
    values = np.array([[value for value, _ in row] for row in expected])
    slopes = np.array([[slope for _, slope in row] for row in expected])
    with pytest.MonkeyPatch.context() as patch:
        if not merged:
            patch.setattr(merging, "mergeable", lambda site: False)
        jac = acc.value_and_jacobian(lambda x: np.array(run(program, x)), time_limit=0.0, target="numpy")
        found_values, found_slopes = jac.batch(X)
        again = jac.batch(X[::-1])
        ones = [jac(x) for x in X[:4]]
    for actual in (found_values, again[0][::-1]):
        np.testing.assert_allclose(actual, values, rtol=1e-12, atol=1e-12)
    for actual in (found_slopes, again[1][::-1]):
        np.testing.assert_allclose(actual, slopes, rtol=1e-11, atol=1e-11)
    for k, (value, slope) in enumerate(ones):
        np.testing.assert_allclose(value, values[k], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(slope, slopes[k], rtol=1e-11, atol=1e-11)
