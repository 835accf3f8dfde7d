"""The deadline: work that is counted, and a clock that stands still until it is told to move."""

import math

import pytest

from accumulus.deadline import WORK, Deadline, OutOfTimeError


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_work_ends_it_and_the_rest_is_never_negative():
    clock = Clock()
    deadline = Deadline(2.0, clock)
    assert deadline.left == WORK * 2.0
    deadline.check()
    deadline.spend(1.5)
    assert deadline.left == 0.0
    assert deadline.passed
    assert not deadline.cut_short
    with pytest.raises(OutOfTimeError):
        deadline.check()


def test_the_clock_changes_nothing_until_it_has_run_out():
    clock = Clock()
    deadline = Deadline(2.0, clock)
    clock.time += 1.9
    assert (deadline.left, deadline.passed) == (WORK * 2.0, False)
    assert deadline.part(0.5).left == WORK
    deadline.enter("plan")
    clock.time += 0.2
    assert not deadline.cut_short
    assert deadline.passed
    assert (deadline.left, deadline.cut_short) == (WORK * 2.0, "plan")
    deadline.enter("optimise")
    assert deadline.passed
    assert deadline.cut_short == "plan"


def test_searches_ended_by_work_are_not_cut_short_on_any_clock():
    clock = Clock()
    deadline = Deadline(2.0, clock)
    clock.time += 5.0
    deadline.spend(2.0)
    assert deadline.passed
    assert not deadline.cut_short


def test_no_time_is_passed_at_once_and_infinite_time_never():
    clock = Clock()
    nothing = Deadline(0.0, clock)
    assert nothing.passed
    assert not nothing.cut_short
    endless = Deadline(math.inf, clock)
    clock.time += 1e9
    endless.spend(1e9)
    assert not endless.part(0.5).passed
    assert endless.within(3.0).left == 3.0


def test_parts_share_the_work_and_are_never_later_than_the_whole():
    clock = Clock()
    whole = Deadline(4.0, clock, work=4.0)
    share = whole.part(0.25)
    assert (share.left, share.clock_left) == (1.0, 2.5)
    assert whole.within(9.0).left == 4.0
    share.spend(1.0)
    assert share.passed
    assert (whole.left, whole.passed) == (3.0, False)
    clock.time += 3.0
    assert whole.part(0.5).left == 1.5
    clock.time += 1.0
    assert whole.part(0.5).passed
    assert share.cut_short == whole.cut_short == "search"


def test_work_adds_up_the_same_whether_it_is_done_or_recalled():
    done, recalled = Deadline(1.0), Deadline(1.0)
    for _ in range(10):
        done.spend(0.1 / 3)
    recalled.recall(done.spent)
    assert recalled.left == done.left


def test_paused_time_is_not_counted_by_any_of_them():
    clock = Clock()
    whole = Deadline(4.0, clock)
    share = whole.part(0.5)
    with share.paused(), whole.paused():
        clock.time += 10.0
        assert whole.clock_left == 4.0
    assert (whole.clock_left, share.clock_left) == (4.0, 3.0)
    clock.time += 3.0
    assert share.passed
    assert not whole.passed


def test_a_search_within_a_pause_is_counted():
    clock = Clock()
    deadline = Deadline(4.0, clock)
    with deadline.running():
        clock.time += 1.0
    with deadline.paused():
        clock.time += 10.0
        with deadline.running():
            clock.time += 1.0
            assert deadline.clock_left == 2.0
        clock.time += 10.0
        assert deadline.clock_left == 2.0
    clock.time += 1.0
    assert deadline.clock_left == 1.0


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
