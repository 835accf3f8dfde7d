"""NumPy is as it was after every recording, and while other threads record."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import ModuleType

import borrowed_helpers
import numpy as np
import pytest
from agreement import assert_agrees
from contexts import counted
from scipy.spatial import distance

from accumulus.errors import TraceError
from accumulus.frontends import record
from accumulus.frontends.numpy import patching
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.replacements import REPLACEMENTS


def state():
    modules = [np, np.linalg, borrowed_helpers, sys.modules[__name__]]
    return [{name: id(value) for name, value in vars(module).items()} for module in modules], builtins.__import__


def test_numpy_is_restored():
    before = state()
    record(borrowed_helpers.from_items, [np.ones(3)])
    assert state() == before
    with pytest.raises(ZeroDivisionError):
        record(lambda x: 1 // 0, [1.0])
    assert state() == before
    with pytest.raises(TraceError):
        record(float, [1.0])
    assert state() == before
    with pytest.raises(KeyboardInterrupt):
        record(lambda x: (_ for _ in ()).throw(KeyboardInterrupt), [1.0])
    assert state() == before


def test_closures_are_restored():
    make = np.zeros

    def f(x):
        out = make(1)
        out[0] = x
        return out

    record(f, [1.0])
    assert f.__closure__[0].cell_contents is np.zeros


def test_a_name_that_was_rebound_meanwhile_stays():
    def f(x):
        borrowed_helpers.make = len
        return x

    try:
        record(f, [1.0])
        assert borrowed_helpers.make is len
    finally:
        borrowed_helpers.make = np.zeros


def test_replacements_look_like_the_originals():
    for original, replacement in REPLACEMENTS.values():
        if callable(original):
            assert replacement.__name__ == original.__name__
            assert replacement.__module__ == original.__module__


def test_numpy_outside_of_the_recorded_thread_is_plain():
    made, recording, done = [], threading.Event(), threading.Event()

    def other():
        recording.wait(10)
        made.extend([np.zeros(2), np.array([1.0]), np.linalg.norm([3.0, 4.0])])
        done.set()

    def f(x):
        recording.set()
        assert done.wait(10)
        out = np.zeros(2)
        assert type(out) is TracedArray
        out[0] = x
        return out

    thread = threading.Thread(target=other)
    thread.start()
    record(f, [1.0])
    thread.join()
    assert [type(made[0]), type(made[1]), made[2]] == [np.ndarray, np.ndarray, 5.0]


def test_many_threads_record_at_once():
    before = state()

    def one(k):
        def f(x):
            out = np.zeros(20)
            for i in range(20):
                out[i] = k * x[i % 3] + borrowed_helpers.filled(x, 3)[i % 3]
            return out

        assert_agrees(f, [np.array([1.0, 2.0, 3.0]) + k])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(40)))
    assert state() == before


def test_libraries_keep_plain_arrays():
    library = ModuleType("scipy.imagined")
    exec("import numpy as np\ndef knots():\n    return np.linspace(0.0, 1.0, 3)\n", vars(library))

    def f(x):
        assert type(library.knots()) is np.ndarray
        assert type(np.linspace(0.0, 1.0, 3)) is TracedArray
        return x

    record(f, [1.0])


def test_compiled_extensions_keep_numpy():
    # NumPy's generators call np.empty from compiled code, which takes the result for an array without asking
    def f(x):
        return x * np.random.default_rng(0).normal(np.array([1.0, 2.0]))

    def g(x):
        assert type(np.empty(1)) is TracedArray
        assert type(sys.modules["numpy"].empty(1)) is np.ndarray
        return x

    assert_agrees(f, [2.0])
    record(g, [1.0])


def test_imports_that_the_function_runs():
    def f(x):
        import numpy
        import numpy as renamed
        from numpy import zeros
        from numpy.linalg import norm

        a, b, c = numpy.zeros(1), renamed.zeros(1), zeros(1)
        a[0], b[0], c[0] = x, 2 * x, 3 * x
        return a + b + c + norm([x, 1.0]) + numpy.linalg.norm([x, x])

    assert_agrees(f, [2.0])


def test_numpy_as_an_argument_or_an_attribute():
    def argument(x, xp):
        out = xp.zeros(1)
        out[0] = xp.linalg.norm([x, x])
        return out

    def default(x, xp=np, *, make=np.zeros):
        return argument(x, xp) + make(1) + xp.ones(1)

    class Model:
        def __init__(self):
            self.xp = np

        def rhs(self, x):
            return argument(x, self.xp)

    model = Model()
    assert_agrees(default, [2.0])
    assert_agrees(model.rhs, [2.0])
    assert model.xp is np
    assert default.__defaults__ == (np,)
    assert default.__kwdefaults__ == {"make": np.zeros}
    assert record(argument, [2.0, np]).tape.operations > 0
    assert record(argument, [2.0, np]).tape.operations > 0


class Metric:
    """An object that holds a function of SciPy, and one that closes over it."""

    def __init__(self):
        self.distance = distance.euclidean
        self.closing = closing(distance.euclidean)

    def between(self, u, v):
        return self.distance(u, v)


def closing(function):
    def closed(u, v):
        return 2 * function(u, v)

    return closed


METRIC = Metric()
CLOSING = closing(distance.euclidean)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: CLOSING(x[:2], x[2:]),
        lambda x: METRIC.closing(x[:2], x[2:]),
        lambda x: METRIC.between(x[:2], x[2:]),
        lambda x: sum(CLOSING(u, v) for u, v in [(x[:2], x[2:])]),
    ],
)
def test_functions_in_closures_and_objects_that_globals_hold(function):
    assert_agrees(function, [np.array([0.3, -1.0, 2.0, 0.5])])
    assert METRIC.distance is distance.euclidean


def test_functions_compiled_by_numba_run_as_python():
    numba = pytest.importorskip("numba")

    @numba.njit
    def helper(x):
        out = np.zeros(2)
        for i in range(2):
            out[i] = x[i] * (i + 1) if i > 0 else x[0]
        return out

    @numba.njit
    def compiled(x):
        return helper(x) + helper(np.array([1.0, 2.0]))

    point = np.array([0.5, 2.0])
    assert_agrees(compiled, [point])
    assert_agrees(lambda x: helper(x) + compiled.py_func(x), [point])
    np.testing.assert_array_equal(helper(point), [0.5, 4.0])


def test_modules_that_are_imported_while_recording(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text(
        "from numpy import zeros\nTABLE = zeros(2)\ndef f(x):\n    out = zeros(2)\n    out[0] = x\n    return out\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def late(x):
        import imported_late

        return imported_late.f(x)

    try:
        assert_agrees(late, [2.0])
        import imported_late

        assert imported_late.zeros is np.zeros
        assert type(imported_late.TABLE) is np.ndarray
        assert_agrees(imported_late.f, [2.0])
    finally:
        sys.modules.pop("imported_late", None)


INSTALLED = """
import numpy as np

def filled(x):
    out = np.zeros(2)
    out[0], out[1] = x, x * x
    return out

def made(x):
    out = make(2)
    out[0] = x
    return out
"""


def test_installed_packages_are_looked_at_again_when_they_have_more(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_helpers.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(folder)
    helpers = importlib.import_module("installed_helpers")
    monkeypatch.setitem(sys.modules, "installed_helpers", helpers)
    for _ in range(3):
        assert_agrees(helpers.filled, [2.0])
        assert helpers.np is np
    helpers.make = np.ones
    for _ in range(2):
        assert_agrees(helpers.made, [2.0])
        assert helpers.make is np.ones
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: assert_agrees(helpers.filled, [k]), np.arange(1.0, 20.0).tolist()))
    assert (helpers.np, helpers.make) == (np, np.ones)


def test_an_interrupt_at_any_moment_leaves_nothing_replaced():
    def run():
        record(lambda x: np.linalg.norm(x) * np.sin(x), [np.ones(3)])

    import_, norm = builtins.__import__, np.linalg.norm
    calls = counted(run, 0, patching.__file__)
    assert calls > 100
    for at in [*range(1, 60), *range(60, calls - 60, 17), *range(calls - 60, calls + 1)]:
        with suppress(KeyboardInterrupt):
            counted(run, at, patching.__file__)
        assert builtins.__import__ is import_
        assert np.linalg.norm is norm
        assert not patching._restorers
        assert not patching._recordings
