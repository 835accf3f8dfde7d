"""The vector functions that are written out, against arithmetic with forty digits."""

from __future__ import annotations

import math
import shutil

import mpmath
import numpy as np
import pytest
from kernels import assert_same, whole

from accumulus import Tape
from accumulus.targets import compile_tape
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS
from accumulus.targets.llvm.module import Variant

pytestmark = pytest.mark.skipif(not host().fused, reason="this processor has no fused multiply-add")
RANDOM = np.random.default_rng(0)
COUNT = 1500
#: units in the last place
BOUND = 3.2


def spread(low, high, count=COUNT):
    """Random numbers of either sign with exponents from low to high."""
    return RANDOM.choice([-1.0, 1.0], count) * 10.0 ** RANDOM.uniform(low, high, count)


def near(centres, distance, count=COUNT):
    """Numbers that close to one of the centres, relatively."""
    return RANDOM.choice(centres, count) * (1 + distance * RANDOM.uniform(-1, 1, count))


ANGLES = [spread(-10, 0), RANDOM.uniform(-10, 10, COUNT), spread(0, 9), near(np.arange(1, 999) * np.pi / 2, 1e-16)]
SINES = [RANDOM.uniform(-1, 1, COUNT), spread(-10, 0), 1 - 10.0 ** RANDOM.uniform(-16, 0, COUNT), near([0.5], 1e-9)]
TANGENTS = [spread(-10, 1), spread(-300, 300), near(np.tan([np.pi / 8, np.pi / 4, 3 * np.pi / 8]), 1e-9)]
POINTS = {
    "sin": ANGLES,
    "cos": ANGLES,
    "exp": [spread(-10, 0), RANDOM.uniform(-745, 709.7, COUNT), near(np.arange(1, 99) * np.log(2) / 2, 1e-9)],
    "log": [np.abs(spread(-307, 307)), near([1.0], 1e-5), near([0.5**0.5, 2**0.5, 1.0], 1e-2)],
    "tanh": [spread(-10, 0), RANDOM.uniform(-23, 23, COUNT)],
    "asin": SINES,
    "acos": SINES,
    "atan": TANGENTS,
    "atan2": [
        (spread(-10, 10), spread(-10, 10)),
        (RANDOM.normal(size=COUNT), RANDOM.normal(size=COUNT)),
        (spread(-150, 150), spread(-150, 150)),
        (near([1.0, -1.0], 1e-8), near([1.0, 2**0.5 - 1, -(2**0.5) - 1], 1e-8)),
    ],
    "power": [
        (RANDOM.uniform(0.1, 10, COUNT), RANDOM.uniform(-5, 5, COUNT)),
        (RANDOM.uniform(0.5, 2, COUNT), RANDOM.uniform(-900, 900, COUNT)),
        (np.abs(spread(-300, 300)), RANDOM.uniform(-1, 1, COUNT)),
        (near([1.0], 1e-9), spread(0, 10)),
    ],
}


def test_points_cover_every_function():
    names = {"pow" if name == "power" else name for name in POINTS}
    assert names | {"fmod"} == VECTOR_FUNCTIONS.keys()


@pytest.mark.parametrize("name", POINTS)
def test_errors_are_a_few_units_in_the_last_place(name):
    exact = getattr(mpmath, name)
    worst, checked = 0.0, []
    for group in POINTS[name]:
        arguments = group if isinstance(group, tuple) else (group,)
        tape = Tape(len(arguments))
        tape.outputs = [tape.apply(name, *range(len(arguments)))]
        kernel = LLVMKernel(Unit(tape, whole(1)), variant=Variant(host().vector_bytes // 8))
        assert "accumulus_" in kernel.source
        actual = kernel.batch(np.stack(arguments, axis=1))[0][:, 0]
        checked.append((np.stack(arguments, axis=1), actual))
        with mpmath.workdps(40):
            for value, *args in zip(actual.tolist(), *(a.tolist() for a in arguments), strict=True):
                truth = exact(*map(mpmath.mpf, args))
                unit = np.spacing(max(abs(float(truth)), 2.0**-1022))
                worst = max(worst, float(abs(mpmath.mpf(value) - truth) / unit))
    assert worst < BOUND
    if any(map(shutil.which, ("cc", "gcc", "clang"))):
        # points for which there are other means stand among the others, and some tiles have none
        special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -2e9, 710.0, -740.0])
        pairs = np.stack(np.meshgrid(special, special), axis=-1).reshape(-1, 2)[:, : tape.inputs]
        ours = compile_tape(tape, whole(1), "c")
        every = np.concatenate([points for points, _ in checked])
        every[:: len(every) // len(pairs)][: len(pairs)] = pairs
        for points, expected in [*checked, (every, kernel.batch(every)[0][:, 0])]:
            assert_same(ours.batch(points)[0][:, 0], expected, ulps=4)


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler here")
def test_powers_of_negative_numbers_in_c():
    tape = Tape(2)
    tape.outputs = [tape.apply("power", 0, 1)]
    y = np.concatenate([RANDOM.integers(-30, 30, COUNT), RANDOM.uniform(-5, 5, 100), 2.0**53 + np.arange(100)])
    x = -np.concatenate([RANDOM.uniform(0.3, 3, len(y) - 100), 1 + 1e-14 * RANDOM.uniform(size=100)])
    result = compile_tape(tape, whole(1), "c").batch(np.stack([x, y], axis=1))[0][:, 0]
    with np.errstate(invalid="ignore"):
        assert_same(result, np.power(x, y), ulps=4)


def test_remainders_are_exact():
    """Whatever the quotient: rounded to a whole number, next to one, far beyond the last place, below 1."""
    y = spread(-20, 20)
    pairs = [
        (spread(-10, 10), y),
        (np.rint(spread(0, 15)) * y, y),
        (np.nextafter(np.rint(spread(0, 15)) * y, RANDOM.choice([-np.inf, np.inf], COUNT)), y),
        (spread(14, 18) * y, y),
        (spread(-308, 308), spread(-308, 308)),
        (spread(-320, -308), spread(-320, -308)),
        (np.rint(spread(0, 3)) * 0.1, RANDOM.choice([0.1, -0.1, 0.2, 0.3, 0.7], COUNT)),
    ]
    x, y = (np.concatenate(each) for each in zip(*pairs, strict=True))
    tape = Tape(2)
    tape.outputs = [tape.apply("fmod", 0, 1)]
    actual = LLVMKernel(Unit(tape, whole(1))).batch(np.stack([x, y], axis=1))[0][:, 0]
    expected = np.array([math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    np.testing.assert_array_equal(actual.view(np.int64), expected.view(np.int64))
