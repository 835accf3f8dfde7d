"""Memory of large results: it serves the next ones once no array uses it, and never before."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import accumulus as acc
from accumulus.targets import kernel
from accumulus.targets.kernel import aligned

SHAPE, DTYPE = (1 << 17,), np.dtype(np.float64)
has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
pytestmark = pytest.mark.skipif(not has_lock, reason="nothing is kept without Python's global lock")


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(kernel, "_BLOCKS", [])


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_serves_the_next_result_once_no_array_uses_it():
    first = aligned(SHAPE, DTYPE)
    at = address(first)
    assert at % 64 == 0
    view = first[5:10]
    del first
    second = aligned(SHAPE, DTYPE)
    assert not np.may_share_memory(view, second)
    del view
    assert address(aligned(SHAPE, DTYPE)) == at


@pytest.mark.parametrize("hold", [memoryview, lambda x: x.T, lambda x: x.view(np.int64), np.ndarray.__iter__, iter])
def test_whatever_holds_a_result_keeps_its_memory(hold):
    result = aligned(SHAPE, DTYPE)
    at, held = address(result), hold(result)
    del result
    assert address(aligned(SHAPE, DTYPE)) != at
    del held
    assert at in [address(aligned(SHAPE, DTYPE)) for _ in range(3)]


def test_little_memory_is_kept(monkeypatch):
    monkeypatch.setattr(kernel, "MOST_KEPT", 5 << 20)
    held = [aligned(SHAPE, DTYPE) for _ in range(12)]
    assert len({address(each) for each in held}) == 12
    assert sum(map(len, kernel._BLOCKS)) <= 5 << 20
    monkeypatch.setattr(kernel, "MOST_KEPT", 1 << 28)
    held += [aligned(SHAPE, DTYPE) for _ in range(12)]
    assert len(kernel._BLOCKS) == kernel.PIECES
    small, large = aligned((5000,), DTYPE), aligned((kernel.MOST_KEPT // 8 + 1,), DTYPE)
    assert len(kernel._BLOCKS) == kernel.PIECES
    assert small.shape, large.shape == ((5000,), (kernel.MOST_KEPT // 8 + 1,))


def test_results_of_batches_that_are_held_stay_as_they_are():
    jacobian, X = acc.jacobian(lambda x: x[0] * x), np.random.default_rng(0).normal(size=(20_000, 4))
    held = [jacobian.batch(k * X) for k in range(1, 5)]
    for _ in range(5):
        jacobian.batch(X)
    for k, array in enumerate(held, 1):
        np.testing.assert_array_equal(array, jacobian.batch(k * X))


def test_threads_never_share_memory():
    wrong = []

    def work(number):
        for turn in range(200):
            array = aligned(SHAPE, DTYPE)
            array[:100] = number
            array[-100:] = turn
            if not ((array[:100] == number).all() and (array[-100:] == turn).all()):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
