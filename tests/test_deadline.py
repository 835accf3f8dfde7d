"""The deadline, by a clock that stands still until it is told to move."""

import math

import pytest

from accumulus.deadline import Deadline, OutOfTimeError


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_a_deadline_passes_and_is_never_negative():
    clock = Clock()
    deadline = Deadline(2.0, clock)
    assert deadline.left == 2.0
    deadline.check()
    clock.time += 5.0
    assert deadline.left == 0.0
    assert deadline.passed
    with pytest.raises(OutOfTimeError):
        deadline.check()


def test_no_time_is_passed_at_once_and_infinite_time_never():
    clock = Clock()
    assert Deadline(0.0, clock).passed
    endless = Deadline(math.inf, clock)
    clock.time += 1e9
    assert not endless.part(0.5).passed
    assert endless.within(3.0).left == 3.0


def test_parts_are_never_later_than_the_whole():
    clock = Clock()
    whole = Deadline(4.0, clock)
    assert whole.part(0.25).left == 1.0
    assert whole.within(9.0).left == 4.0
    clock.time += 3.0
    assert whole.part(0.5).left == 0.5


def test_what_is_paused_is_not_counted_by_any_of_them():
    clock = Clock()
    whole = Deadline(4.0, clock)
    part = whole.part(0.5)
    with part.paused(), whole.paused():
        clock.time += 10.0
        assert whole.left == 4.0
    assert (whole.left, part.left) == (4.0, 2.0)
    clock.time += 2.0
    assert part.passed
    assert not whole.passed


def test_the_clock_goes_on_after_an_error():
    clock = Clock()
    deadline = Deadline(1.0, clock)

    def fails():
        with deadline.paused():
            clock.time += 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    clock.time += 1.0
    assert deadline.passed
