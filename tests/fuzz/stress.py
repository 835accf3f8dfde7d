"""What happens beside a computation: threads that share a derivative, forks and kills in the middle of something.

Each part is bounded by a count and by a clock, and returns what went wrong, one line each. Processes are ended by their
own numbers only.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import accumulus as acc

#: Seconds after which something hangs.
PATIENCE: Final = 60.0
#: Bytes that memory may grow by, whatever the rounds: the allocator's own.
GROWTH: Final = 8 << 20

_WRITER: Final = """
import sys, numpy as np, accumulus as acc
k = int(sys.argv[1])
print("begun", flush=True)
for j in range(k, k + 20):
    jac = acc.jacobian(lambda x: np.array([np.sin(x[0]) * x[1] + j, x[0] ** (2 + j % 5)]), time_limit=0.05)
    J = jac(np.array([0.5, 2.0]))
    n = 2 + j % 5
    true = [[2.0 * np.cos(0.5), np.sin(0.5)], [n * 0.5 ** (n - 1), 0.0]]
    assert np.allclose(J, true, rtol=1e-12), (j, J)
print("done", flush=True)
"""


def threads(rounds: int, seed: int) -> list[str]:
    """Many threads call one derivative that is not compiled yet, at points of several shapes, alone and in batches."""
    failures: list[str] = []
    draw = np.random.default_rng(seed)
    for _ in range(rounds):
        jacobian = acc.value_and_jacobian(lambda x: np.cumsum(np.sin(x) * x[0]), time_limit=0.02, cache=False)
        points = [draw.normal(size=size) for size in (2, 3, 5)]
        begin = threading.Barrier(8)

        def work(k: int, jacobian: Any = jacobian, points: Any = points, begin: Any = begin) -> None:
            begin.wait()
            for turn in range(30):
                x = points[(k + turn) % len(points)]
                if turn % 3:
                    value, slopes = jacobian(x)
                else:
                    values, matrices = jacobian.batch(np.stack([x] * 40), threads=1 + turn % 2)
                    value, slopes = values[turn], matrices[turn]
                if not np.allclose(value, np.cumsum(np.sin(x) * x[0]), rtol=1e-12, atol=1e-14):
                    failures.append(f"a thread got the value {value} at {x}")
                step = 1e-30
                true = np.cumsum(
                    np.sin(x + 1j * step * np.eye(x.size)) * (x[0] + 1j * step * np.eye(x.size)[:, :1]), axis=1
                )
                if not np.allclose(slopes, true.imag.T / step, rtol=1e-11, atol=1e-13):
                    failures.append(f"a thread got the Jacobian {slopes} at {x}")

        def guarded(k: int, work: Callable[[int], None] = work) -> None:
            try:
                work(k)
            except Exception as error:
                failures.append(f"{type(error).__name__} in a thread: {error}")

        workers = [threading.Thread(target=guarded, args=(k,), daemon=True) for k in range(8)]
        for worker in workers:
            worker.start()
        end = time.monotonic() + PATIENCE
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))
        if any(worker.is_alive() for worker in workers):
            return [*failures, "a thread hangs"]
    return failures


def forks(rounds: int, seed: int) -> list[str]:
    """Processes forked while another thread prepares a derivative prepare one of their own, and call their parent's."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return []
    failures = []
    rng = random.Random(seed)
    ready = acc.jacobian(lambda x: np.sin(x) * x[0], time_limit=0.02, cache=False)
    ready(np.ones(3))
    for _ in range(rounds):
        stop = threading.Event()

        def compile_on(stop: threading.Event = stop) -> None:
            k = 0
            while not stop.is_set():
                k += 1
                acc.jacobian(lambda x, k=k: np.exp(x) * k, time_limit=0.02, cache=False)(np.ones(1 + k % 4))

        thread = threading.Thread(target=compile_on, daemon=True)
        thread.start()
        time.sleep(rng.uniform(0.0, 0.1))
        child = os.fork()
        if not child:
            _in_child(ready)
        stop.set()
        failures += _ended(child)
        thread.join(PATIENCE)
    return failures


def _in_child(ready: Any) -> None:
    """Does its work and ends this process at once, without what its parent wants done at the end."""
    code = 1
    try:
        x = np.array([1.0, 2.0, 3.0])
        J = ready(x)
        own = acc.jacobian(lambda y: y * y * y, time_limit=0.02, cache=False)(x)
        good = np.allclose(own, np.diag(3 * x * x)) and np.allclose(np.diag(J)[1:], np.cos(x[1:]))
        code = 0 if good else 2
    finally:
        os._exit(code)


def _ended(child: int) -> list[str]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return [] if code == 0 else [f"a forked process ended with {code}"]
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return ["a forked process hangs"]


def kills(rounds: int, seed: int) -> list[str]:
    """Processes that fill one cache are killed at any moment; others that use it then get what is right."""
    failures = []
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        environment = os.environ | {"ACCUMULUS_CACHE": folder, "ACCUMULUS_CACHE_PLANS": "1"}

        def writer(k: int) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [sys.executable, "-c", _WRITER, str(k)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

        with writer(0) as first:  # the kernels are there then
            output, errors = first.communicate(timeout=5 * PATIENCE)
        if "done" not in output:
            return [f"a process that fills an empty cache failed: {errors[-300:]}"]
        for k in range(rounds):
            with writer(20 * k) as victim:
                assert victim.stdout is not None
                victim.stdout.readline()
                time.sleep(rng.uniform(0.0, 1.0))
                victim.kill()
            if rng.random() < 0.5:
                _damage(Path(folder), rng)
            with writer(20 * k) as reader:
                try:
                    output, errors = reader.communicate(timeout=5 * PATIENCE)
                except subprocess.TimeoutExpired:
                    reader.kill()
                    return [*failures, "a process hangs on a cache that another was killed over"]
            if "done" not in output:
                failures.append(f"a process failed over a cache that another was killed over: {errors[-300:]}")
    return failures


def _damage(folder: Path, rng: random.Random) -> None:
    """Cut a file off, or change a byte of it."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    if not files:
        return
    path = rng.choice(sorted(files))
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        content = content[: rng.randrange(len(content))]
    else:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def files(rounds: int, seed: int) -> list[str]:
    """Memory stays flat over 20 saves and loads a round, and over 20,000 calls of what was loaded."""
    jacobian = acc.value_and_jacobian(lambda x: np.cumsum(np.sin(x) * x[0]), sparse="csr", time_limit=0.02)
    draw = np.random.default_rng(seed)
    point = draw.normal(size=4)
    value, matrix = jacobian(point)
    failures, sizes = [], []
    with tempfile.TemporaryDirectory(prefix="files-") as folder:
        path = Path(folder, "jacobian")
        for _ in range(max(rounds, 2)):
            for _ in range(20):
                acc.save(jacobian, path)
                loaded = acc.load(path)
                found = loaded(point)
                if not (np.array_equal(found[0], value) and np.array_equal(found[1].data, matrix.data)):
                    failures.append(f"a loaded derivative got {found} at {point}")
            for _ in range(20_000):
                loaded(point)
            gc.collect()
            sizes.append(_resident())
    growth = sizes[-1] - sizes[len(sizes) // 4]
    if growth > GROWTH:
        failures.append(f"{growth >> 20} MiB more after {len(sizes)} rounds of saving, loading and calling")
    return failures


def _resident() -> int:
    """Bytes of memory that this process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


PARTS: Final[dict[str, Callable[[int, int], list[str]]]] = {
    "threads": threads,
    "forks": forks,
    "kills": kills,
    "files": files,
}
