"""Batches beyond memory: of arrays on disk in parts, of Dask arrays chunk by chunk."""

import subprocess
import sys

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError
from accumulus.programs import batches

POINTS = np.random.default_rng(1).uniform(0.1, 1.0, (103, 4))
SCALES = np.random.default_rng(2).uniform(0.1, 1.0, 103)


def f(scale, x, table):
    return {"a": scale * np.sin(x) * x[0], "b": table @ x[:3] + scale}


TABLE = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.5]])


def leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for child in tree for leaf in leaves(child)] if isinstance(tree, list | tuple) else [tree]


# On disk ---------------------------------------------------------------------------------------------------------


def on_disk(path, array):
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=array.dtype, shape=array.shape)
    mapped[:] = array
    mapped.flush()
    return np.lib.format.open_memmap(path, mode="r")


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(batches, "PART", 8 * 10 * 20)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_maps_are_read_and_written_in_parts(small_parts, tmp_path, dtype, threads, monkeypatch):
    X = on_disk(tmp_path / "x.npy", POINTS.astype(dtype))
    out = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=float, shape=(103, 4, 4))
    chunks = []
    convert = batches.Arguments._converted
    monkeypatch.setattr(
        batches.Arguments, "_converted", lambda self, x, k: (chunks.append(x.nbytes), convert(self, x, k))[1]
    )
    progress = []
    jac = acc.jacobian(lambda x: np.sin(x) * x[0], progress=progress.append)
    actual = jac.batch(X, out=out, threads=threads)
    assert np.shares_memory(actual, out)
    assert max(chunks) <= batches.PART
    expected = acc.jacobian(lambda x: np.sin(x) * x[0]).batch(np.array(X, float))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    done = [each.points for each in progress if each.stage == "batch"]
    assert done == sorted(done)
    assert done[-1] == 103
    assert len(done) > 10


def test_several_arguments_axes_and_results(small_parts, tmp_path):
    X = on_disk(tmp_path / "x.npy", np.ascontiguousarray(POINTS.T))
    jac = acc.value_and_jacobian(f, argnums=(0, 1))
    expected = jac.batch(SCALES, POINTS, TABLE, in_axes=(0, 0, None))
    actual = jac.batch(SCALES, X, TABLE, in_axes=(0, 1, None))
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sparse_batches_of_memory_maps(small_parts, tmp_path):
    X = on_disk(tmp_path / "x.npy", POINTS)
    jac = acc.jacobian(lambda x: np.sin(x[1:]) * x[:-1], sparse="csr")
    expected = jac.batch(POINTS)
    out = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=float, shape=expected.data.shape)
    actual = jac.batch(X, out=out)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.data)
    np.testing.assert_array_equal(actual[5].toarray(), expected[5].toarray())


def test_no_points_on_disk_are_no_results(tmp_path):
    out = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=float, shape=(0, 4, 4))
    assert acc.jacobian(np.sin).batch(np.empty((0, 4)), out=out).shape == (0, 4, 4)


def test_wrong_arrays_on_disk_are_refused(tmp_path):
    jac = acc.jacobian(np.sin)
    with pytest.raises(ArgumentError, match="expected an array of float64"):
        jac.batch(
            on_disk(tmp_path / "x.npy", POINTS),
            out=np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=float, shape=(103, 4)),
        )


PROGRAM = """
import resource, sys
import numpy as np
import accumulus as acc
acc.jacobian(lambda x: np.sin(x) * x[0]).batch(np.ones((10, 50)))
jac = acc.jacobian(lambda x: np.sin(x) * x[0])
X = np.lib.format.open_memmap(sys.argv[1], mode="w+", dtype=np.float32, shape=(60_000, 50))
X[:] = np.linspace(0.0, 1.0, 50)
out = np.lib.format.open_memmap(sys.argv[2], mode="w+", dtype=float, shape=(60_000, 50, 50))
from accumulus.programs import batches
batches.PART = 1 << 23
from pathlib import Path
data = lambda: int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (data() + (200 << 20), resource.RLIM_INFINITY))
jac.batch(X, out=out, threads=1)
print(out[-1, 3, 0] == out[0, 3, 0] != 0.0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux's means")
def test_more_than_a_limit_of_memory_is_processed(tmp_path):
    """1.2 gigabytes of results where 200 megabytes may be had."""
    command = [sys.executable, "-c", PROGRAM, tmp_path / "x.npy", tmp_path / "out.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


# Dask ------------------------------------------------------------------------------------------------------------

array = pytest.importorskip("dask.array", reason="Dask is not installed; pip install accumulus[dask]")


@pytest.mark.parametrize("chunks", [(10, 2), (103, 4), ((3, 100), (1, 3))])
def test_chunks_of_points_become_chunks_of_results(chunks):
    jac = acc.jacobian(lambda x: np.sin(x) * x[0])
    result = jac.batch(array.from_array(POINTS, chunks=chunks))
    assert isinstance(result, array.Array)
    assert result.shape == (103, 4, 4)
    assert result.dtype == float
    np.testing.assert_array_equal(result.compute(), jac.batch(POINTS))


def test_nothing_is_computed_before_compute_is_called():
    seen = []

    def block(x):
        seen.append(len(x))
        return x

    X = array.from_array(POINTS, chunks=(10, 4)).map_blocks(block, dtype=float, meta=np.empty((0, 0)))
    result = acc.jacobian(lambda x: np.sin(x) * x[0]).batch(X)
    assert sum(seen) <= 10  # the first point
    chunk = result[95:].compute(scheduler="synchronous")
    assert sum(seen) <= 40
    np.testing.assert_array_equal(chunk, acc.jacobian(lambda x: np.sin(x) * x[0]).batch(POINTS[95:]))


def test_large_results_have_more_chunks(monkeypatch):
    monkeypatch.setattr(batches, "CHUNK", 8 * 16 * 7)
    result = acc.jacobian(lambda x: np.sin(x) * x[0]).batch(array.from_array(POINTS, chunks=(100, 4)))
    assert max(result.chunks[0]) <= 7
    np.testing.assert_array_equal(result, acc.jacobian(lambda x: np.sin(x) * x[0]).batch(POINTS))


def test_several_lazy_arguments_and_results():
    jac = acc.value_and_jacobian(f, argnums=(0, 1))
    expected = jac.batch(SCALES, POINTS, TABLE, in_axes=(0, 0, None))
    lazy = array.from_array(np.ascontiguousarray(POINTS.T), chunks=(2, 30))
    for table in (TABLE, array.from_array(TABLE)):
        actual = jac.batch(SCALES, lazy, table, in_axes=(0, 1, None))
        for one, other in zip(leaves(actual), leaves(expected), strict=True):
            assert one.shape == other.shape
            np.testing.assert_array_equal(one.compute(scheduler="threads"), other)


def test_sparse_lazy_batches():
    jac = acc.jacobian(lambda x: np.sin(x[1:]) * x[:-1], sparse="csr")
    actual, expected = jac.batch(array.from_array(POINTS, chunks=(20, 4))), jac.batch(POINTS)
    assert isinstance(actual.data, array.Array)
    assert len(actual) == 103
    np.testing.assert_array_equal(actual.data.compute(), expected.data)
    np.testing.assert_array_equal(actual[7].toarray(), expected[7].toarray())
    np.testing.assert_array_equal(actual[3:5].toarray(), expected[3:5].toarray())


def test_long_arrays_are_chunks_of_points_too():
    def stencil(u):
        return np.roll(u, 1) * u

    X = np.random.default_rng(3).normal(size=(5, 60_000))
    jac = acc.jacobian(stencil, sparse="csr")
    np.testing.assert_array_equal(jac.batch(array.from_array(X, chunks=(2, 10_000))).data, jac.batch(X).data)


def test_a_cluster_computes_them():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed; pip install accumulus[dask]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        jac = acc.jacobian(lambda x: np.sin(x) * x[0])
        result = jac.batch(array.from_array(POINTS, chunks=(10, 4)))
        np.testing.assert_allclose(result.compute(), jac.batch(POINTS), rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda jac, X: jac.batch(X, out=np.empty((103, 4, 4))), "out was given for a batch of Dask arrays"),
        (lambda jac, X: jac.batch(X, transposed=True), "transposed was given"),
        (lambda jac, X: jac.batch(X[X[:, 0] > 0.5]), "unknown shape.*compute_chunk_sizes"),
        (lambda jac, X: jac.batch(X.astype(complex)), "complex128"),
        (lambda jac, X: jac.batch(X[0], in_axes=None), "no argument of"),
    ],
)
def test_dask_arrays_that_cannot_be_are_refused(call, message):
    with pytest.raises(ArgumentError, match=message):
        call(acc.jacobian(lambda x: np.sin(x) * x[0]), array.from_array(POINTS, chunks=(10, 4)))


def test_no_points_of_a_dask_array():
    result = acc.jacobian(lambda x: np.sin(x) * x[0]).batch(array.from_array(POINTS[:0], chunks=(10, 4)))
    assert result.compute().shape == (0, 4, 4)


def test_dask_is_not_imported_without_its_arrays():
    code = (
        "import sys, numpy as np, accumulus as acc; acc.jacobian(np.sin).batch(np.ones((3, 2)));"
        "print(any(name.partition('.')[0] == 'dask' for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
