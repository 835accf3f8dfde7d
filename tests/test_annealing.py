"""Shared parts of all annealing: cooling, slices, and rounds until they stall."""

from __future__ import annotations

import math
from itertools import islice
from types import SimpleNamespace

import pytest
from inside import Deadline

from accumulus.annealing import rounds, seed_of, slices, thresholds


class Kernel(SimpleNamespace):
    """Cools at each visit, as kernels do; a slice is so many visits."""

    def visit(self, visits: int) -> int:
        made = min(visits, self.slice)
        for _ in range(made):
            self.temperature *= self.cooling
        self.made += made
        return made


@pytest.mark.parametrize("slice_", [1, 7, 1000])
def test_a_run_cools_from_hot_to_cold_wherever_it_is_cut(slice_):
    kernel = Kernel(slice=slice_, made=0)
    cuts = sum(1 for _ in slices(kernel, kernel.visit, 100, 2.0, 0.05, unit=3.0))
    assert (cuts, kernel.made) == (math.ceil(100 / slice_), 100)
    assert kernel.temperature == pytest.approx(3 * 0.05)


def test_a_run_for_which_less_work_is_left_cools_faster():
    kernel, deadline = Kernel(slice=10, made=0), Deadline(60.0, work=5.05)
    for _ in slices(kernel, kernel.visit, 1000, 2.0, 0.05, 3.0, deadline, 0.1):
        pass
    assert kernel.made == 50
    assert kernel.temperature == pytest.approx(3 * 0.05)
    assert deadline.left == pytest.approx(0.05)
    assert not list(slices(kernel, kernel.visit, 1000, 2.0, 0.05, 3.0, deadline, 0.1))
    assert kernel.made == 50


def test_no_visits_no_slice():
    kernel = Kernel(slice=10, made=0)
    assert not list(slices(kernel, kernel.visit, 0, 2.0, 0.05))


@pytest.mark.parametrize(("stalls", "gain", "number"), [(0, 0.0, 1), (1, 0.0, 3), (2, 0.0, 6), (1, 0.15, 2)])
def test_rounds_end_when_they_stall(stalls, gain, number):
    costs, done = [100, 80, 70, 70, 60, 60, 60], []
    for k in rounds(stalls, lambda: costs[len(done)], gain):
        done.append(k)
    assert done == list(range(number))


def test_rounds_that_may_stall_for_ever_do_not_end():
    assert len(list(islice(rounds(math.inf, lambda: 1), 50))) == 50


def test_seeds_and_thresholds():
    seeds = {seed_of(a, b) for a in range(30) for b in range(30)}
    assert len(seeds) == 900
    assert all(0 < seed < 1 << 62 for seed in seeds)
    assert thresholds(1024).mean() == pytest.approx(1.0, abs=1e-3)  # as that of -log(u)
