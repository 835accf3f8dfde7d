"""Processes that are forked while other threads compile and record, and first calls from many threads at once."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import accumulus as acc
from accumulus.forks import Lock

FORKING = """
import os, signal, sys, threading, time, warnings
import numpy as np, accumulus as acc

warnings.simplefilter("ignore")  # of forks in a process with threads
shared = acc.jacobian(lambda x: np.sin(x) * x[0])

def make(k):
    def f(x):
        y = np.zeros(3)
        for i in range(3):
            y[i] = np.sin(x[i] * k) * x[0] / (1.0 + x[i - 1] ** 2) + k
        return y
    return f

def work(k):
    while True:
        k += 1.0
        acc.jacobian(make(k), cache=False)(np.ones(3))
        shared(np.ones(int(k * 7) % 40 + 1))

for k in range(3):
    threading.Thread(target=work, args=(k * 1e4,), daemon=True).start()
end = time.monotonic() + 240
for k in range(10):
    time.sleep(0.02)
    child = os.fork()
    if not child:
        signal.alarm(100)
        x = np.array([0.3, 0.5, 0.7])
        assert type(np.zeros(3)) is np.ndarray and type(make.__globals__["np"]) is type(os)
        f = make(0.5 + k)
        J = acc.jacobian(f, cache=False)(x)
        for j in range(3):
            up, down = x.copy(), x.copy()
            up[j] += 1e-6
            down[j] -= 1e-6
            np.testing.assert_allclose(J[:, j], (f(up) - f(down)) / 2e-6, rtol=1e-5, atol=1e-7)
        assert shared(np.ones(50 + k)).shape == (50 + k, 50 + k)
        shared.batch(np.ones((1000, 2)))
        os._exit(0)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            sys.exit(f"child {k} hangs")
        time.sleep(0.005)
    if status:
        sys.exit(f"child {k}: status {status}")
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_children_that_are_forked_during_compilation():
    ran = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=False, timeout=300)
    assert ran.stdout.startswith("done"), ran.stderr


IMPORTING = """
import os, signal, sys, threading
import accumulus
from accumulus.forks import held_in_forks

lock, inside = threading.RLock(), threading.Event()
held_in_forks(lock, lambda: None)
sys.path.append(sys.argv[1])
accumulus.__path__.append(sys.argv[1])
importing = threading.Thread(target=__import__, args=(sys.argv[2],), daemon=True)
importing.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    child_has = __import__(sys.argv[2], fromlist=["done"])
    os._exit(0 if child_has.done else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("name", ["accumulus.half_imported", "half_imported"])
def test_a_fork_while_another_thread_imports(name, tmp_path):
    """Locks that the import needs are guarded for forks, too; imports of other packages are not waited for."""
    (tmp_path / "half_imported.py").write_text(
        "import time, __main__\n__main__.inside.set()\ntime.sleep(0.3)\nwith __main__.lock:\n    done = True\n"
    )
    command = [sys.executable, "-c", IMPORTING, str(tmp_path), name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout == "0\n", ran.stderr


HELD = """
import os, signal, sys, threading
import accumulus as acc
from accumulus.forks import Lock

signal.alarm(60)
lock, held, done = Lock(), threading.Event(), threading.Event()

def hold():
    with lock:
        held.set()
        done.wait()

is_own = sys.argv[1] == "own"
if is_own:
    lock.__enter__()
else:
    threading.Thread(target=hold, daemon=True).start()
    held.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    if is_own:
        lock.__exit__(None, None, None)
    free = []
    other = threading.Thread(target=lambda: free.append(lock.__enter__()), daemon=True)
    other.start()
    other.join(20)
    os._exit(0 if free else 1)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("thread", ["own", "other"])
def test_a_lock_that_is_held_during_a_fork(thread):
    command = [sys.executable, "-W", "ignore", "-c", HELD, thread]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout == "0\n", ran.stderr


CACHED = """
import os, signal, threading
import accumulus as acc

signal.alarm(60)
lock = vars(acc.DifferentiationGraph)["out_edges"].lock
taken = threading.Event()

def hold():
    with lock:
        taken.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
taken.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if acc.DifferentiationGraph([("y", "x")]).out_edges else 1)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cached properties have no lock")
def test_cached_properties_are_free_in_a_child():
    command = [sys.executable, "-W", "ignore", "-c", CACHED]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout == "0\n", ran.stderr


def test_copies_of_a_lock_are_free():
    lock = Lock()
    with lock, lock:
        for other in (copy.copy(lock), copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):
            entered = []
            thread = threading.Thread(target=lambda entered=entered, other=other: entered.append(other.__enter__()))
            thread.start()
            thread.join(20)
            assert entered


def test_first_calls_from_many_threads():
    derivative = acc.value_and_jacobian(lambda x: np.cumsum(np.tanh(x) * x[0]), cache=False)
    start, results = threading.Barrier(12), []

    def call(k):
        x = np.linspace(0.1, 0.2 + k, 4 + k % 3)
        start.wait()
        results.append((x, derivative(x), derivative.batch(np.stack([x, x]))))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    for x, (value, jacobian), (values, jacobians) in results:
        np.testing.assert_allclose(value, np.cumsum(np.tanh(x) * x[0]), rtol=1e-13)
        h = 1e-30
        for j in range(len(x)):
            z = x.astype(complex)
            z[j] += 1j * h
            np.testing.assert_allclose(jacobian[:, j], np.cumsum(np.tanh(z) * z[0]).imag / h, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(values, np.stack([value] * 2), rtol=1e-13)
        np.testing.assert_allclose(jacobians, np.stack([jacobian] * 2), rtol=1e-12, atol=1e-15)
