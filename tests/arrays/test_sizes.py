"""Results that do not fit into memory raise an error before anything long begins, and long programs issue a warning."""

import linecache
import os
import re
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import accumulus as acc
from accumulus import memory
from accumulus.errors import LongProgramWarning, SizeError
from accumulus.frontends import written_out
from accumulus.frontends.numpy import python_loops
from accumulus.programs import preparation
from accumulus.tape import program as sizes


@pytest.fixture
def one_gibibyte(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2**30)


def squares(x):
    return np.roll(x, 1) * x


def never(*_, **__):
    raise AssertionError("something long has begun")


def test_dense_jacobians_that_do_not_fit_are_refused(one_gibibyte, monkeypatch):
    monkeypatch.setattr("accumulus.arrays.jacobian.differentiate", never)
    with pytest.raises(SizeError, match=r"100,000 × 100,000 entries, would take 74\.5 GiB.*sparse=\"csr\""):
        acc.jacobian(squares, cache=False)(np.ones(100_000))


def test_dense_jacobians_of_short_programs_that_do_not_fit_are_refused(one_gibibyte):
    with pytest.raises(SizeError, match="13,000 × 13,000"):
        acc.jacobian(squares, cache=False)(np.ones(13_000))


def test_batches_that_do_not_fit_are_refused(one_gibibyte):
    X = np.broadcast_to(np.ones(1000), (200, 1000))
    jac = acc.jacobian(squares, cache=False)
    with pytest.raises(SizeError, match=r"at 200 points, would take 1\.49 GiB.*out="):
        jac.batch(X)
    jac(X[0])
    with pytest.raises(SizeError, match=r"200,000,000 entries of the results of 200 points"):
        jac.batch(X)


def test_functions_whose_arrays_do_not_fit_are_refused(one_gibibyte):
    def pairs(x):
        return np.sum(np.sin(x[:, None] - x[None, :]), axis=1)

    with pytest.raises(SizeError, match=r"arrays of shape 8000 × 8000 that is recorded would take 1\.43 GiB"):
        acc.jacobian(pairs, cache=False)(np.ones(8_000))


def test_programs_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "SMALL", 2**20)
    monkeypatch.setattr(memory, "available", lambda: 2**21)
    with pytest.raises(SizeError, match=r"results of the operations of <lambda> would take 3\.05 MiB"):
        acc.jacobian(lambda x: np.sum(x * x), cache=False, sparse=True)(np.ones(100_000))


def test_exhausted_memory_raises(monkeypatch):
    def f(x):
        raise MemoryError("no more")

    with pytest.raises(SizeError, match=r"while .*f.* was recorded with a traced array of shape \(3,\): no more"):
        acc.jacobian(f)(np.ones(3))

    def differentiate(*_, **__):
        raise MemoryError("no more")

    monkeypatch.setattr("accumulus.arrays.jacobian.differentiate", differentiate)
    with pytest.raises(SizeError, match="stage 'plan' of preparing the derivative of squares: no more"):
        acc.jacobian(squares, sparse=True, cache=False)(np.ones(100_000))


def test_size_errors_stay_as_they_are():
    made = preparation.Preparation("f", acc.jacobian(squares)._options)
    with pytest.raises(SizeError, match=r"^mine$"), made.stage("plan"):
        raise SizeError("mine")


def test_available_memory_is_read():
    available = memory.available()
    assert available is None or available > 2**20
    assert sizes.LARGE * 8 < memory.SMALL
    memory.check_fits(10, "nothing", "")


@pytest.mark.parametrize("wrong", ["", "nonsense", "MemAvailable: x kB"])
def test_unreported_memory_counts_as_unlimited(wrong, monkeypatch, tmp_path):
    path = tmp_path / "meminfo"
    path.write_text(wrong)
    monkeypatch.setattr(memory, "_MEMINFO", path)
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert memory._of_machine() is None or memory._of_machine() > 0
    assert memory._of_group() is None
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 200\n")
    assert memory._of_group() == 500


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space, and /proc")
@pytest.mark.parametrize(
    ("case", "said"),
    [
        # as many points and clusters, written out: 390,000 steps
        ("acc.taylor(clustered(100, 100), cache=False)((C,), (C[np.newaxis],))", "operations of f, written out one by"),
        ("acc.jacobian(lambda x: np.roll(x, 1) * x, cache=False)(np.ones(20_000))", "20,000 × 20,000 entries"),
    ],
)
def test_results_that_do_not_fit_raise_before_memory_is_used(case, said):
    """In a process that may have 300 MiB more than it begins with."""
    code = f"""
import resource, numpy as np, accumulus as acc, accumulus.errors
from pathlib import Path

def clustered(points, clusters):
    data = np.random.default_rng(0).normal(size=(points, 3))
    def f(c):
        return np.sum(np.min(np.sum((data[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1))
    return f

C = np.random.default_rng(1).normal(size=(100, 3))
acc.jacobian(lambda x: np.sin(x) * x[0], cache=False)(np.ones(2))
acc.taylor(clustered(3, 2), cache=False, time_limit=0)((C[:2],), (C[np.newaxis, :2],))
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (300 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    {case}
except acc.errors.SizeError as error:
    print(error)
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert said in done.stdout, done.stderr[-2000:]
    assert "of memory are free; " in done.stdout


# Programs that were written out ----------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(written_out, "LONG", 1000)
    monkeypatch.setattr(sizes, "MOST_UNROLLED", 100)
    monkeypatch.setattr(python_loops, "FEWEST_OPERATIONS", 10_000)


def tangled(x):
    generator = np.random.default_rng(0)
    values = list(x)
    for k in range(3_000):
        a, b = generator.integers(0, len(values), 2)
        values.append(values[a] * values[b] if k % 3 else np.sin(values[a]) + values[b])
    return values[-1] + sum(values)


def test_long_programs_say_where_they_come_from(short, monkeypatch):
    monkeypatch.setattr(written_out, "INTERVAL", 1e-4)
    with pytest.warns(LongProgramWarning, match="one by one, since no repetition was found in them") as warned:
        acc.gradient(tangled, cache=False, effort="fast", time_limit=0)(np.linspace(0.1, 0.2, 5))
    (warning,) = [each for each in warned if each.category is LongProgramWarning]
    message = str(warning.message)
    assert "operations of tangled" in message
    assert "acc.map" in message
    assert warning.filename == __file__
    if "most time" in message:
        assert __file__ in message
        assert re.search(r"Turns 3 and 4 of the loop at line \d+ differ first at ", message)
        assert "values, _ = acc.scan(turn, values, np.arange(3000))" in message


def test_long_programs_say_which_line_is_written_out(short):
    def f(x):
        y = np.sin(x) * x
        np.multiply.at(y, np.arange(1_200) // 2, x)
        return y

    jacobian = acc.jacobian(f, sparse=True, cache=False, effort="fast", target="numpy", time_limit=0)
    with pytest.warns(LongProgramWarning, match=r"1,200 operations of .*, most of them at .*np\.multiply\.at\(y, "):
        jacobian(np.linspace(0.1, 1.0, 1_200))


def test_requested_unrolling_issues_no_warning(short):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        acc.trace(tangled, np.linspace(0.1, 0.2, 5))
        acc.jacobian(squares, sparse=True, cache=False)(np.ones(5_000))
        acc.gradient(lambda x: (x @ x) ** 2, cache=False)(np.ones(5_000))  # one product of matrices


def test_the_busiest_line_is_one_of_the_function(monkeypatch):
    monkeypatch.setattr(written_out, "INTERVAL", 1e-4)

    def work():
        total = 0.0
        for k in range(3_000_000):  # the thread that looks needs its turn
            total += k * 0.5
        return total

    with written_out.BusiestLine(True) as busiest:
        work()
    file, line, function = busiest.busiest
    assert (file, function) == (__file__, "work")
    assert "total" in linecache.getline(file, line) or "range" in linecache.getline(file, line)
    with written_out.BusiestLine(False) as nothing:
        work()
    assert nothing.busiest is None


def test_the_busiest_line_is_none_of_the_search(monkeypatch):
    """Starting its thread takes time, on busy machines more than the function."""
    monkeypatch.setattr(written_out, "INTERVAL", 1e-4)
    start = threading.Thread.start

    def slow(thread):
        start(thread)
        time.sleep(0.02)

    monkeypatch.setattr(threading.Thread, "start", slow)
    with written_out.BusiestLine(True) as busiest:
        pass
    assert busiest.busiest is None


def test_sparse_jacobians_of_many_results_are_written_out():
    x = np.linspace(-1.0, 1.0, 600)
    jacobian = acc.jacobian(lambda x: np.outer(x[:300], x[300:]), sparse=True, exact_order=True, cache=False)(x)
    assert jacobian.nnz == 2 * 300**2
    np.testing.assert_array_equal(jacobian.max(), 1.0)
