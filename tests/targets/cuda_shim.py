"""CUDA source as C++ for this processor, and a stand-in for CuPy that launches it so.

The threads of a warp are coroutines: each runs until the warp synchronises or until its end, then the next one does.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

#: What C++ has to be told to take a kernel as a function.
SHIM = """
#include <cmath>
#include <vector>
#include <ucontext.h>
using namespace std;
#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
static struct { unsigned x; } blockIdx, blockDim, threadIdx, gridDim;
static ucontext_t warp, lanes[32];
static void __syncwarp() {
    const unsigned thread = threadIdx.x;
    swapcontext(&lanes[thread % 32], &warp);
    threadIdx.x = thread;
}
"""
LAUNCH = """
static struct { MEMBERS } given;
static unsigned running;
static bool ended[32];
static void lane() {
    f(PASSED);
    ended[running] = true;
}
extern "C" void launch(unsigned blocks, unsigned threads, PARAMETERS) {
    given = { NAMES };
    static vector<char> stacks(32 << 20);
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (unsigned first = 0; first < threads; first += 32) {
            const unsigned count = threads - first < 32 ? threads - first : 32;
            for (unsigned k = 0; k < count; k++) {
                getcontext(&lanes[k]);
                lanes[k].uc_stack.ss_sp = &stacks[k << 20];
                lanes[k].uc_stack.ss_size = 1 << 20;
                lanes[k].uc_link = &warp;
                makecontext(&lanes[k], lane, 0);
                ended[k] = false;
            }
            for (bool more = true; more;) {
                more = false;
                for (running = 0; running < count; running++) {
                    if (ended[running]) continue;
                    threadIdx.x = first + running;
                    swapcontext(&warp, &lanes[running]);
                    more |= !ended[running];
                }
            }
        }
}
"""
#: Compiled kernels by their text.
_KNOWN: dict[str, Any] = {}
_FOLDER = tempfile.TemporaryDirectory()


def compiled(text, *defined):
    """The launch of the kernel f, with some macros defined: blocks, threads, arguments."""
    key = (text, defined)
    if key not in _KNOWN:
        head = re.search(r'extern "C" __global__ void f\((.*?)\) \{', text, re.S).group(1)
        head = re.sub(r"#ifdef (\w+)(.*?)#endif", lambda m: m[2] if m[1] in defined else "", head, flags=re.S)
        parameters = re.sub(r"\s+", " ", head.replace("__restrict__", "")).strip()
        names = re.findall(r"(\w+) ?(?:,|$)", parameters)
        launch = LAUNCH.replace("PARAMETERS", parameters).replace("NAMES", ", ".join(names))
        launch = launch.replace("MEMBERS", parameters.replace(",", ";") + ";")
        launch = launch.replace("PASSED", ", ".join(f"given.{name}" for name in names))
        whole = "".join(f"#define {name}\n" for name in defined) + SHIM + text + launch
        path = Path(_FOLDER.name, hashlib.sha256(whole.encode()).hexdigest()[:20])
        path.with_suffix(".cpp").write_text(whole)
        # later standards' cmath has special functions, which take longer to read than a kernel to compile
        command = [
            "g++",
            "-std=c++14",
            "-O1",
            "-w",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            f"{path}.cpp",
            "-o",
            str(path),
        ]
        subprocess.run(command, check=True)
        kinds = [ctypes.c_void_p if "*" in each else ctypes.c_longlong for each in parameters.split(",")]
        function = ctypes.CDLL(str(path)).launch
        function.argtypes = [ctypes.c_uint, ctypes.c_uint, *kinds]
        _KNOWN[key] = function
    return _KNOWN[key]


def gpu():
    """CuPy, if there is a GPU."""
    try:
        import cupy
    except ImportError:
        return None
    try:
        return cupy if cupy.cuda.runtime.getDeviceCount() else None
    except cupy.cuda.runtime.CUDARuntimeError:
        return None


#: What kernels run on: the processor, and a GPU if there is one.
MACHINES = ("processor", *(["gpu"] if gpu() else []))


def cupy_for(machine):
    """CuPy for a GPU, or a stand-in for the processor."""
    return fake() if machine == "processor" else gpu()


class ndarray:  # as CuPy calls it
    """An array that is nobody's but the GPU's."""

    def __init__(self, memory):
        self._memory = memory

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    ndim = property(lambda self: self._memory.ndim)
    T = property(lambda self: ndarray(self._memory.T))

    def __getitem__(self, index):
        return ndarray(self._memory[index])

    def reshape(self, shape):
        return ndarray(self._memory.reshape(shape))

    def __array__(self, *_):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class _Error(RuntimeError):
    pass


class _CompileError(Exception):
    pass


def fake(devices=1, free=1 << 30, longest=10**9):
    """A module that does what CuPy does, as far as kernels are launched.

    Args:
        devices: how many GPUs there are; an error of CUDA for None.
        free: bytes of memory.
        longest: largest number of lines that are compiled.
    """
    module: Any = ModuleType("cupy")
    module.launches = []

    def count():
        if devices is None:
            raise _Error("cudaErrorInsufficientDriver: CUDA driver version is insufficient")
        return devices

    class RawModule:
        def __init__(self, code, options=()):
            if code.count("\n") > longest:
                raise _CompileError("too much local data")
            assert options[0] == "--fmad=false"
            self._code, self._defined = code, [option.removeprefix("-D") for option in options[1:]]

        def get_function(self, name):
            assert name == "f"
            return lambda grid, block, args: launch(self._code, self._defined, grid, block, args)

    def launch(code, defined, grid, block, args):
        assert len(grid) == len(block) == 1
        assert grid[0] > 0
        for each in args:
            if isinstance(each, ndarray):
                assert each._memory.flags.c_contiguous
            else:
                assert type(each) is np.int64
        module.launches.append((grid[0], block[0], args))
        compiled(code, *defined)(
            *(grid[0], block[0]), *(x._memory.ctypes.data if isinstance(x, ndarray) else int(x) for x in args)
        )

    def asarray(x):
        return x if isinstance(x, ndarray) else ndarray(np.array(x))

    def contiguous(x, dtype=None):
        return ndarray(np.ascontiguousarray(x._memory, dtype).reshape(x.shape))

    module.ndarray, module.RawModule, module.asarray, module.ascontiguousarray = ndarray, RawModule, asarray, contiguous
    module.empty = lambda shape, dtype: ndarray(np.full(shape, 7.25, dtype))
    module.asnumpy = lambda x: x._memory.copy()
    module.moveaxis = lambda x, one, other: ndarray(np.moveaxis(x._memory, one, other))
    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceCount=count,
        getDeviceProperties=lambda k: {"multiProcessorCount": 8, "maxThreadsPerMultiProcessor": 1024},
        CUDARuntimeError=_Error,
        memGetInfo=lambda: (free, 2 * free),
    )
    module.cuda = SimpleNamespace(runtime=runtime, compiler=SimpleNamespace(CompileException=_CompileError))
    return module
