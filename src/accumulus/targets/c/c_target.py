"""The `c` target: kernels of C99, compiled by the machine's compiler and called through ctypes."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import interruptible
from accumulus.errors import CompileError
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_source import CSource
from accumulus.targets.kernel import Batch, Floats, SourceKernel, reused
from accumulus.targets.target import Target


class CKernel(SourceKernel):
    """Kernel of compiled C, whose machine code is not cached; only the `llvm` target does that."""

    def _emit(self) -> str:
        written = CSource(replace(self._unit, compact=False))
        self.lanes = written.tile
        return written.text

    def _compile(self) -> None:
        #: Number of entries of each array at one point.
        self._sizes = [*map(prod, self.arguments), *self._unit.lengths]
        self._library = Loaded(self.source)
        arrays = len(self._sizes)
        self._one = self._library.function("f")
        self._one.argtypes = [ctypes.c_void_p] * arrays
        self._many = self._library.function("f_strided")
        self._many.argtypes = [ctypes.c_size_t] + [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t] * arrays
        self._all = self._library.function("f_batch")
        self._all.argtypes = [ctypes.c_size_t] + [ctypes.c_void_p] * arrays

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point; see `Kernel.compute`."""
        self._one(*map(_address, (*arguments, *results)))

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch."""
        X, out, shared, transposed, _ = batch
        if not (first or transposed or any(shared)):
            self._all(last, *map(_address, (*X, *out)))
            return
        alike = (*shared, *(False,) * len(out))
        layout: list[int] = []
        for array, size, same in zip((*X, *out), self._sizes, alike, strict=True):
            point, entry = (0, 1) if same else (1, array.shape[-1]) if transposed else (size, 1)
            layout += [_address(array) + first * point * array.itemsize, point, entry]
        self._many(last - first, *layout)


def _address(array: NDArray[Any]) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # five times as fast as the array's interface
    except (TypeError, ValueError, BufferError):  # empty, read-only, or not in C order
        address: int = array.__array_interface__["data"][0]
        return address


# Programs over arrays -------------------------------------------------------------------------------------------------


class CLoops(SourceKernel):
    """Kernel of loops in C, which clear the result arrays that need it.

    Raises:
        CompileError: if there is no C compiler, or compilation fails.
    """

    fewest_points = 1

    def _emit(self) -> str:
        written = LoopSource(self._unit)
        self._work = written.work
        return written.text

    def _compile(self) -> None:
        self._library = Loaded(self.source)
        self._one = self._library.function("f")
        self._one.argtypes = [ctypes.c_void_p] * (len(self.arguments) + len(self.segments) + 1)
        self._idle: list[Floats] = []

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point on one thread; see `Kernel.compute`."""
        work = reused(self._idle, lambda: np.empty(self._work))
        self._one(*map(_address, (*arguments, *results, work)))
        self._idle.append(work)


#: Seconds that the machine's compiler takes for an operation: 0.8e-3 in chains to 3.6e-3 where nothing repeats,
#: measured by `make bench ARGS=estimates` with gcc 12. Estimates above the true time announce waits that do not come,
#: estimates below miss long ones.
COMPILING: Final = 1.8e-3

TARGET: Final = Target(
    lambda unit: CKernel(unit) if unit.maps is None else CLoops(unit),
    lambda unit, name: (CSource if unit.maps is None else LoopSource)(unit, name).text,
    comment="//",
    seconds=lambda operations: COMPILING * operations,
)


# The compiler --------------------------------------------------------------------------------------------------------
#
# The machine's C compiler, and shared libraries from it.

#: Options that results depend on.
LANGUAGE: Final = ("-std=c99", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
#: Options for optimisation.
FLAGS: tuple[str, ...] = ("-O3", "-march=native")
#: Largest number of lines of a compiler's message in an error.
_LINES: Final = 8


def compiler() -> list[str]:
    """Return the compiler's command: from the variable CC, from this Python's build, or cc, gcc or clang.

    Raises:
        CompileError: if there is none.
    """
    built_with = sysconfig.get_config_var("CC") or ""
    for command in (os.environ.get("CC", ""), built_with, "cc", "gcc", "clang"):
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
    raise CompileError(
        "there is no C compiler: neither the variable CC names one, nor is cc, gcc or clang on the PATH; install one "
        "(Debian: apt install gcc; macOS: xcode-select --install), or use target='llvm', which needs none"
    )


def shared_library(text: str, path: Path, more: tuple[str, ...] = ()) -> None:
    """Compile C to a shared library.

    Raises:
        CompileError: if there is no compiler, or compilation fails.
    """
    source = path.with_suffix(".c")
    source.write_text(text, encoding="utf-8")
    shared = ("-dynamiclib",) if sys.platform == "darwin" else ("-shared",)
    command = [*compiler(), *FLAGS, *LANGUAGE, *more, "-fPIC", *shared, str(source), "-o", str(path), "-lm"]
    returned, errors = _run(command)
    if returned:
        said = "\n".join(errors.decode(errors="replace").splitlines()[:_LINES])
        raise CompileError(
            f"{shlex.join(command[:-4])} ended with {returned}; set CC to another compiler, or use "
            f"target='llvm'. It said:\n{said}"
        )


def _run(command: Sequence[str]) -> tuple[int, bytes]:
    """Return the exit status and the error output of a command; Ctrl-C ends it and the processes that it started."""
    started: list[subprocess.Popen[bytes]] = []
    interrupted = threading.Event()

    def run() -> tuple[int, bytes]:
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=pipe, start_new_session=True) as process:
            started.append(process)
            if interrupted.is_set():
                _end(process)
            _, errors = process.communicate()
            return process.returncode, errors

    try:
        return interruptible(run)
    except BaseException:
        interrupted.set()
        for process in started:
            _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    elif process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Loaded:
    """A shared library that is compiled and loaded on creation, and unloaded on deletion.

    Raises:
        CompileError: if it cannot be compiled or loaded.
    """

    def __init__(self, text: str) -> None:
        self._library: Any = None
        # only this user may write to the folder; the file is not needed after loading
        with tempfile.TemporaryDirectory(prefix="accumulus-", ignore_cleanup_errors=True) as folder:
            path = Path(folder, "program.so")
            shared_library(text, path)
            try:
                self._library = ctypes.CDLL(str(path))
            except OSError as error:
                raise CompileError(f"the library that the C compiler made cannot be loaded: {error}") from error

    def function(self, name: str) -> Any:
        """Return one of its functions, without a return value; the function does not keep the library alive."""
        symbol = self._library[name]
        symbol.restype = None
        return symbol

    def __del__(self) -> None:
        close = getattr(_PROCESS, "dlclose", None)
        if self._library is not None and close is not None:
            close(ctypes.c_void_p(self._library._handle))


_PROCESS: Final = None if sys.platform == "win32" else ctypes.CDLL(None)
