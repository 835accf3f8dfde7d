"""Other threads: they have their own values of some variables, and change others while a function is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import queue
import sys
import threading
import time

import numpy as np
import pytest
from held_values import OPTIONS, WAYS, Local, Model, X, agree, put, restored, scoped, set_k

import accumulus as acc
from accumulus.errors import AccumulusError
from accumulus.frontends.record import record


@pytest.fixture
def thread():
    """Return a function that calls another one in another thread, which lives until the test ends."""
    calls, ended = queue.Queue(), queue.Queue()

    def work():
        while (call := calls.get()) is not None:
            try:
                ended.put((call(), None))
            except BaseException as error:
                ended.put((None, error))

    worker = threading.Thread(target=work)
    worker.start()

    def run(call):
        calls.put(call)
        result, error = ended.get()
        if error is not None:
            raise error
        return result

    yield run
    calls.put(None)
    worker.join()


#: Functions of this package, before and after which another thread changes a value: the recording, the comparison.
MOMENTS = {
    "before recording": ("accumulus.programs.watched", "record", True),
    "after recording": ("accumulus.frontends.record", "verify_recording", True),
    "after comparing": ("accumulus.programs.watched", "record", False),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", WAYS)
def test_changes_by_other_threads_are_not_those_of_the_function(name, moment, thread, monkeypatch, tmp_path):
    with restored(monkeypatch, tmp_path):
        check(name, moment, thread, monkeypatch)


def check(name, moment, thread, monkeypatch):
    """Raise if a change at this moment is neither seen later nor said."""
    f, change = WAYS[name]()
    module, attribute, is_first = MOMENTS[moment]
    waiting = [lambda: thread(change)]
    original = getattr(sys.modules[module], attribute)

    def changing(*arguments, **keywords):
        if is_first and waiting:
            waiting.pop()()
        result = original(*arguments, **keywords)
        if waiting:
            waiting.pop()()
        return result

    monkeypatch.setattr(sys.modules[module], attribute, changing)
    derivative = acc.compile(f, **OPTIONS)
    with contextlib.suppress(AccumulusError):
        derivative(X)
    assert not waiting
    said = ()
    with contextlib.suppress(AccumulusError):
        said = derivative.report().unwatched
    assert agree(derivative, f) or said, f"{name} is stale, and nothing was said"


# Threads and contexts ------------------------------------------------------------------------------------------------


def of_local(held):
    held.k = 2.0
    return lambda x: held.k * x * x, lambda value: setattr(held, "k", value)


def of_variable(held):
    held.set(2.0)
    return lambda x: held.get() * x * x, held.set


def of_local_in_an_object():
    held = Model(threading.local())
    held.k.k = 2.0
    return lambda x: getattr(held.k, "K".lower()) * x * x, lambda value: setattr(held.k, "k", value)


def of_list_in_a_local():
    held = threading.local()
    held.k = [2.0]
    return lambda x: held.k[0] * x * x, lambda value: setattr(held, "k", [value])


def of_missing_attribute():
    held = threading.local()
    return lambda x: getattr(held, "k", 2.0) * x * x, lambda value: setattr(held, "k", value)


def of_default_of_a_variable():
    held = contextvars.ContextVar("held", default=2.0)
    return lambda x: held.get() * x * x, held.set


def of_both():
    held, other = threading.local(), Model()
    held.k = 2.0
    return lambda x: held.k * other.k / 2.0 * x * x, lambda value: setattr(held, "k", value)


BY_THREAD = {
    "local": lambda: of_local(threading.local()),
    "own local": lambda: of_local(Local()),
    "local in an object": of_local_in_an_object,
    "list in a local": of_list_in_a_local,
    "missing attribute": of_missing_attribute,
    "variable": lambda: of_variable(contextvars.ContextVar("held")),
    "default of a variable": of_default_of_a_variable,
    "local and attribute": of_both,
}


def in_a_dict(f):
    derivative = acc.jacobian(lambda held: f(held["x"]), **OPTIONS)
    return lambda: np.diag(derivative({"x": X})["x"]) / X / 2.0


def with_buffers(f):
    derivative = acc.jacobian(f, **OPTIONS)
    return lambda: np.diag(derivative(X, out=np.empty((2, 2)))) / X / 2.0


def in_a_batch(f):
    derivative = acc.jacobian(f, **OPTIONS)
    return lambda: np.diag(derivative.batch(np.stack([X, X]))[1]) / X / 2.0


def of_nonzeros(f):
    derivative = acc.jacobian(f, sparse="csr", **OPTIONS)
    return lambda: derivative.nonzeros(X) / X / 2.0


def of_calls(f):
    derivative = acc.jacobian(f, **OPTIONS)
    return lambda: np.diag(derivative(X)) / X / 2.0


#: Ways to call a derivative of a function k x²; each returns k, twice.
CALLED = {"call": of_calls, "dict": in_a_dict, "out": with_buffers, "batch": in_a_batch, "nonzeros": of_nonzeros}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("name", BY_THREAD)
def test_each_thread_and_context_has_its_own_values(name, called, thread, monkeypatch):
    f, write = BY_THREAD[name]()
    recorded = []
    monkeypatch.setattr("accumulus.programs.watched.record", lambda *a, **k: recorded.append(1) or record(*a, **k))
    read = CALLED[called](f)

    def in_a_context(value):
        def run():
            write(value)
            return read()

        return contextvars.copy_context().run(run)

    assert read().tolist() == [2.0, 2.0]
    assert thread(lambda: in_a_context(5.0)).tolist() == [5.0, 5.0]
    assert read().tolist() == [2.0, 2.0]
    once = len(recorded)
    for _ in range(3):
        assert thread(lambda: in_a_context(5.0)).tolist() == [5.0, 5.0]
        assert read().tolist() == [2.0, 2.0]
    assert len(recorded) == once or name == "list in a local", "recorded again for values that it was recorded with"
    write(7.0)
    assert read().tolist() == [7.0, 7.0]
    assert thread(lambda: in_a_context(5.0)).tolist() == [5.0, 5.0]


@pytest.mark.parametrize("name", ["local", "own local"])
def test_threads_that_call_first_at_once_have_their_own_values(name):
    f, write = BY_THREAD[name]()
    for repetition in range(20):
        derivative, values = acc.compile(f, **OPTIONS), [repetition + 1.0, repetition + 2.0, repetition + 3.0]
        barrier, wrong = threading.Barrier(len(values)), []

        def run(value, derivative=derivative, barrier=barrier, wrong=wrong):
            write(value)
            barrier.wait()
            for _ in range(30):
                result = derivative(X)
                if not np.allclose(result, value * X * X):
                    wrong.append((value, result))

        threads = [threading.Thread(target=run, args=(value,)) for value in values]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not wrong


def test_tasks_have_their_own_values():
    f, write = BY_THREAD["variable"]()
    derivative = acc.compile(f, **OPTIONS)

    async def task(value):
        write(value)
        for _ in range(5):
            await asyncio.sleep(0)
            np.testing.assert_allclose(derivative(X), value * X * X)

    async def tasks():
        await asyncio.gather(*[task(float(value)) for value in range(1, 7)])

    asyncio.run(tasks())


# Changes by other threads while a function is recorded ----------------------------------------------------------------


def steps(x):
    """Take a while, so that other threads run meanwhile."""
    for _ in range(200):
        x = x * 1.0001
    return x


def flipped(name):
    """A function and one that flips what it reads."""
    if name == "global":
        f, scope = scoped("def f(x): return k * steps(x) * k", steps=steps, k=2.0)
        return f, lambda: scope.update(k=7.0 - scope["k"])
    if name == "attribute":
        held = Model()
        return lambda x: held.k * steps(x) * held.k, lambda: set_k(held, 7.0 - held.k)
    if name == "entry":
        held = [2.0]
        return lambda x: held[0] * steps(x) * held[0], lambda: put(0, 7.0 - held[0])(held)
    held = np.array([2.0])
    return lambda x: held[0] * steps(x) * held[0], lambda: put(0, 7.0 - held[0])(held)


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize("often", [1, 40])
@pytest.mark.parametrize("name", ["global", "attribute", "entry", "array"])
def test_results_are_not_stale_after_another_thread_flips_a_value(name, often):
    """Threads make first calls while another one flips a value, once at some time or all the time."""
    stale = []
    for repetition in range(19):  # with both numbers and four ways, more than 150
        f, flip = flipped(name)
        derivatives = [acc.compile(f, **OPTIONS) for _ in range(2)]

        def call(derivative):
            with contextlib.suppress(AccumulusError):
                derivative(X)

        def flips(repetition=repetition, flip=flip):
            for _ in range(often):
                time.sleep(0.0015 * repetition / often)
                flip()

        threads = [threading.Thread(target=flips), *[threading.Thread(target=call, args=(d,)) for d in derivatives]]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        stale += [repetition for derivative in derivatives if not np.allclose(derivative(X), f(X))]
    assert not stale


def of_counter():
    held = Model(0)

    def f(x):
        held.k += 1
        return 2.0 * x

    return f


def of_memory():
    held = {}

    def f(x):
        held[len(held)] = 1.0
        return 2.0 * x

    return f


def of_last():
    held = Model()

    def f(x):
        held.k = np.zeros(2)
        return 2.0 * x

    return f


@pytest.mark.parametrize("make", [of_counter, of_memory, of_last])
def test_changes_by_the_function_are_known_beside_other_threads(make, thread, monkeypatch):
    recorded = []
    monkeypatch.setattr("accumulus.programs.watched.record", lambda *a, **k: recorded.append(1) or record(*a, **k))
    thread(lambda: None)
    f = make()
    derivative = acc.compile(f, **OPTIONS)
    derivative(X)
    assert len(derivative.report().changed) == 1
    for _ in range(3):
        f(X)
        thread(lambda: f(X))
        derivative(X)
    assert len(recorded) == 1


def test_a_copy_watches_for_itself():
    held = Model()
    original = acc.compile(lambda x: held.k * x, **OPTIONS)
    original(X)
    for value in (5.0, 7.0):
        copied = copy.copy(original)
        held.k = value
        np.testing.assert_array_equal(copied(X), value * X)
        np.testing.assert_array_equal(original(X), value * X)
        held.k = value + 1.0
        copied = copy.copy(original)
        np.testing.assert_array_equal(copied(X), (value + 1.0) * X)
        np.testing.assert_array_equal(original(X), (value + 1.0) * X)
