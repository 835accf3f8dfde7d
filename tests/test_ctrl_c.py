"""Ctrl-C at any moment of a preparation ends it soon, and leaves nothing behind that later calls stumble over."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from contexts import counted

import accumulus as acc
from accumulus import forks
from accumulus.deadline import interruptible
from accumulus.targets.c import c_target

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals as on Unix")

#: Moments at which each preparation is interrupted.
MOMENTS: int = 3


def chain(x):
    y = x
    for k in range(12):
        y = np.array([y[1] * np.sin(y[0]), y[0] - 0.1 * y[2] * y[1], np.exp(-y[0] * y[0]) + x[k % 3]])
    return y


def decides(x):
    return np.where(x > 0.5, np.sin(x), x * x[0]) if x[0] < 1.0 else x * x[1]


def long_arrays(x):
    y = np.sin(np.roll(x, 1) * x)
    return y * np.exp(-np.roll(y, 2)) + np.sum(x)


CHAIN, LONG = np.array([0.3, 0.7, 0.2]), np.linspace(0.1, 0.9, 500)
#: Name → function, point, what is asked for, and options.
CASES = {
    "fast": (chain, CHAIN, acc.jacobian, {"effort": "fast"}),
    "balanced": (chain, CHAIN, acc.jacobian, {"effort": "balanced"}),
    "thorough": (chain, CHAIN, acc.jacobian, {"effort": "thorough", "time_limit": 0.25}),
    "no time": (chain, CHAIN, acc.jacobian, {"time_limit": 0}),
    "exact": (chain, CHAIN, acc.jacobian, {"method": "exact-vertex", "time_limit": 0.25}),
    "numpy": (chain, CHAIN, acc.jacobian, {"target": "numpy"}),
    "c": (chain, CHAIN, acc.jacobian, {"target": "c"}),
    "hessian": (lambda x: np.sum(chain(x)), CHAIN, acc.hessian, {}),
    "decisions": (decides, CHAIN, acc.jacobian, {}),
    "long arrays": (long_arrays, LONG, acc.jacobian, {"sparse": "csr"}),
    "function": (chain, CHAIN, acc.compile, {}),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    function, point, asks, options = CASES[request.param]
    return lambda: asks(function, **options), point


def numbers(result):
    return result.toarray() if hasattr(result, "toarray") else result


@pytest.mark.sampled(2)
def test_interrupted_preparations_leave_nothing_behind(case, tmp_path):
    make, point = case
    expected = numbers(make()(point))
    calls = counted(lambda: make()(point), sys.maxsize)
    locks = list(forks._LOCKS)
    heard = 0
    for moment in range(MOMENTS):
        derivative = make()
        for path in tmp_path.rglob("*"):  # nothing is taken from the cache
            if path.is_file():
                path.unlink()
        try:
            counted(lambda call=derivative: call(point), int((moment + 0.5) / MOMENTS * calls))
        except KeyboardInterrupt:
            heard += 1
        assert all(is_free(lock._lock) for lock in locks)
        assert not [path for path in tmp_path.rglob("*") if ".tmp" in path.name]
        np.testing.assert_allclose(numbers(derivative(point)), expected, rtol=1e-9)
    assert heard >= MOMENTS // 2  # a search takes as many steps as there is time for


def is_free(lock):
    """Return True if another thread can acquire the lock."""
    return interruptible_in_thread(lambda: lock.acquire(blocking=False) and (lock.release() or True))


def interruptible_in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_calls_that_run_no_python_are_left_at_once():
    goes_on, done = threading.Event(), threading.Event()

    def waits():
        signal.raise_signal(signal.SIGINT)  # in whichever thread: the main one hears it
        goes_on.wait()
        done.set()

    with pytest.raises(KeyboardInterrupt):
        interruptible(waits)
    assert not done.is_set()
    goes_on.set()
    assert done.wait(60)


def test_calls_return_and_raise_unchanged():
    assert interruptible(divmod, 7, 2) == (3, 1)
    assert interruptible(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod, 7, 0)
    assert interruptible_in_thread(lambda: interruptible(threading.get_ident) == threading.get_ident())


def test_the_c_compiler_is_ended_with_its_children(tmp_path, monkeypatch):
    pid, command = tmp_path / "pid", tmp_path / "cc"
    command.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {pid}\nkill -INT {os.getpid()}\nwait\n")
    command.chmod(0o755)
    monkeypatch.setenv("CC", str(command))
    with pytest.raises(KeyboardInterrupt):
        c_target.shared_library("int x;", tmp_path / "x.so")
    started = int(pid.read_text())
    for _ in range(1000):
        if is_over(started):
            break
        time.sleep(0.01)
    assert is_over(started)


def is_over(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
