"""CUDA source as C++ for this processor, and a stand-in for CuPy that launches it so: threads are turns of loops."""

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
using namespace std;
#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
static struct { unsigned x; } blockIdx, blockDim, threadIdx, gridDim;
"""
LAUNCH = """
extern "C" void launch(unsigned blocks, unsigned threads, PARAMETERS) {
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) f(NAMES);
}
"""
#: Compiled kernels by their text.
_KNOWN: dict[str, Any] = {}
_FOLDER = tempfile.TemporaryDirectory()


def compiled(text):
    """The launch of the kernel f: blocks, threads, arguments."""
    if text not in _KNOWN:
        head = re.search(r'extern "C" __global__ void f\((.*?)\) \{', text, re.S).group(1)
        parameters = re.sub(r"\s+", " ", head)
        names = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
        whole = SHIM + text + LAUNCH.replace("PARAMETERS", parameters).replace("NAMES", names)
        path = Path(_FOLDER.name, hashlib.sha256(text.encode()).hexdigest()[:20])
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
        _KNOWN[text] = function
    return _KNOWN[text]


class ndarray:  # as CuPy calls it
    """An array that is nobody's but the GPU's."""

    def __init__(self, memory):
        self._memory = memory

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    T = property(lambda self: ndarray(self._memory.T))

    def __getitem__(self, index):
        return ndarray(self._memory[index])

    def reshape(self, shape):
        return ndarray(self._memory.reshape(shape))

    def __array__(self, *_):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class _Error(RuntimeError):
    pass


def fake(devices=1, free=1 << 30):
    """A module that does what CuPy does, as far as kernels are launched.

    Args:
        devices: how many GPUs there are; an error of CUDA for None.
        free: bytes of memory.
    """
    module: Any = ModuleType("cupy")
    module.launches = []

    def count():
        if devices is None:
            raise _Error("cudaErrorInsufficientDriver: CUDA driver version is insufficient")
        return devices

    class RawModule:
        def __init__(self, code, options=()):
            assert options == ("--fmad=false",)
            self._code = code

        def get_function(self, name):
            assert name == "f"
            return lambda grid, block, args: launch(self._code, grid, block, args)

    def launch(code, grid, block, args):
        assert len(grid) == len(block) == 1
        assert grid[0] > 0
        for each in args:
            if isinstance(each, ndarray):
                assert each._memory.flags.c_contiguous
            else:
                assert type(each) is np.int64
        module.launches.append((grid[0], block[0], args))
        compiled(code)(
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
    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=_Error, memGetInfo=lambda: (free, 2 * free))
    module.cuda = SimpleNamespace(runtime=runtime)
    return module
