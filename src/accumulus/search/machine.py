"""Machine code of the search kernels: compiled by Numba once a machine, loaded without Numba from then on.

Importing Numba takes longer than most searches. A kernel needs none of it when it runs, so its object code is kept in the user's cache
directory (``ACCUMULUS_CACHE``, or the system's place for caches) under a key of its source, the
compiler's version and the processor, and loaded with llvmlite. A file that is damaged, or belongs to another key, is compiled
again; where nothing can be written, every process compiles.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

__all__ = ["cache_directory", "kernel"]

#: Files that the code of the kernel "order" is made from, for instance.
_SOURCES: Final = ("{}_kernel.py", "{}_slots.py", "memory.py", "machine.py")
#: Seconds of compilation after which a line says what takes so long.
PATIENCE: Final = 0.5
_NOTICE: Final = "accumulus: preparing its search kernels; this takes a few seconds, once on this machine"

# Numba's own convention: result and exception by address, then the arguments; returns a status.
_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_DEFINITION: Final = r"^define [^@\n]*i32 @([\w.$]*{name}[\w.$]*)\([^%\n]*%retptr, [^%\n]*%excinfo, i64 [^%\n]*%arg\.block\)"

# engines own the code that kernels run; dropping one would free it
_ENGINES: Final[list[Any]] = []


@cache
def kernel(subject: str, name: str) -> Callable[[int], int]:
    """The function `name` of ``accumulus.search.<subject>_kernel``, as a function of the address of its block.

    It runs without the GIL.
    """
    path = cache_directory() / f"{subject}-{_key(subject)}.bin"
    symbol, code = _read(path) or (None, b"")
    if symbol is None:
        symbol, code = _compile(subject, name)
        _write(path, symbol, code)
    return _load(symbol, code)


def cache_directory() -> Path:
    """Where this package keeps what it can make again."""
    given = os.environ.get("ACCUMULUS_CACHE")
    if given:
        return Path(given)
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "accumulus" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "accumulus"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "accumulus"


def _key(subject: str) -> str:
    import llvmlite
    import llvmlite.binding as llvm

    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update((folder / source.format(subject)).read_bytes())
    features = llvm.get_host_cpu_features().flatten()
    digest.update(f"{llvmlite.__version__} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}".encode())
    return digest.hexdigest()[:24]


def _compile(subject: str, name: str) -> tuple[str, bytes]:
    """Symbol and object code, by way of Numba's LLVM code."""
    import importlib

    import llvmlite.binding as llvm

    with _announced():
        import numba

        function = getattr(importlib.import_module(f"accumulus.search.{subject}_kernel"), name)
        signature = numba.types.int64(numba.types.int64)
        options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        dispatcher = numba.njit(signature, **options)(function)
        text = dispatcher.inspect_llvm(dispatcher.signatures[0])
        found = re.search(_DEFINITION.format(name=name), text, re.MULTILINE)
        assert found, "this version of Numba calls functions in another way"
        program = llvm.parse_assembly(text)
        program.verify()
        return found[1], bytes(_target_machine().emit_object(program))


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


def _load(symbol: str, code: bytes) -> Callable[[int], int]:
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)
    function = _PROTOTYPE(engine.get_function_address(symbol))

    def call(block: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = function(ctypes.byref(result), ctypes.byref(exception), block)
        assert status == 0, f"a search kernel stopped with status {status}"
        return result.value

    return call


def _read(path: Path) -> tuple[str, bytes] | None:
    """Symbol and code from a file that `_write` wrote completely, else None."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, rest = data[:32], data[32:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    symbol, _, code = rest.partition(b"\n")
    return symbol.decode(), code


def _write(path: Path, symbol: str, code: bytes) -> None:
    """Write the file as a whole or not at all; whoever reads it meanwhile sees the old one or the new one."""
    rest = symbol.encode() + b"\n" + code
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(rest).digest() + rest)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)


@contextmanager
def _announced() -> Iterator[None]:
    """Say on the error stream what takes so long, if it does."""
    timer = threading.Timer(PATIENCE, lambda: print(_NOTICE, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
