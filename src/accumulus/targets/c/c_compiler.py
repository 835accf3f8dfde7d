"""The machine's C compiler: which one it is, and shared libraries from it."""

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
from pathlib import Path
from typing import Any, Final

from accumulus.errors import CompileError
from accumulus.interrupts import interruptible

#: What results depend on.
LANGUAGE: Final = ("-std=c99", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
#: How hard it tries.
FLAGS: tuple[str, ...] = ("-O3", "-march=native")
#: Lines of a compiler's message that errors show.
_LINES: Final = 8


def compiler() -> list[str]:
    """The command: that of the variable CC, of this Python, or cc, gcc or clang.

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
        CompileError: if there is no compiler, or it refuses.
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
    """Return what a command returns and says; Ctrl-C ends it and the compilers that it started."""
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
    """A shared library that is compiled, loaded, and unloaded when it is dropped.

    Raises:
        CompileError: if it cannot be compiled or loaded.
    """

    def __init__(self, text: str) -> None:
        self._library: Any = None
        # nobody else may write where it is loaded from; once it is loaded, the file is not needed
        with tempfile.TemporaryDirectory(prefix="accumulus-", ignore_cleanup_errors=True) as folder:
            path = Path(folder, "program.so")
            shared_library(text, path)
            try:
                self._library = ctypes.CDLL(str(path))
            except OSError as error:
                raise CompileError(f"what the C compiler made cannot be loaded: {error}") from error

    def function(self, name: str) -> Any:
        """One of its functions, which returns nothing. It keeps nothing alive."""
        found = self._library[name]
        found.restype = None
        return found

    def __del__(self) -> None:
        close = getattr(_PROCESS, "dlclose", None)
        if self._library is not None and close is not None:
            close(ctypes.c_void_p(self._library._handle))


_PROCESS: Final = None if sys.platform == "win32" else ctypes.CDLL(None)
