"""Machine code of kernels: compiled from LLVM code once for each machine, cached, and loaded afterwards.

Kernels are written in Python and compiled by Numba when the package is built (`accumulus.native.compile`). Compiling
their LLVM code for this processor takes some tenths of a second for all kernels of a search. The result is cached
(`accumulus.cache`) under a key of the kernel's source, the version of LLVM and the processor.

Where nothing can be cached, each process compiles for itself. Damaged files are ignored.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

from accumulus.cache import fetch, processor, store, version_of
from accumulus.errors import CompileError
from accumulus.forks import Lock
from accumulus.native.linker import Linked, UnknownObjectError, is_supported
from accumulus.native.sources import digest, llvm_codes

#: A kernel: a function of the address of its state. It runs without the GIL.
Kernel = Callable[[int], int]

#: Seconds after which a message says that kernels are being compiled.
_PATIENCE: Final = 0.5
_NOTICE: Final = "accumulus: finishing its kernels for this processor; this is done once on a machine"
#: Name of the external function in the code.
_SYMBOL: Final = "kernel"

# Numba's calling convention: addresses of result and exception, then the arguments; returns a status.
_SIGNATURE: Final = (ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

#: Owners of the kernels' code; without them it would be freed.
_OWNERS: Final[list[Any]] = []
_LOADED: Final[dict[str, Kernel]] = {}
_ADDRESSES: Final[dict[str, int]] = {}
_LOCK: Final = Lock()


def kernel(subject: str) -> Kernel:
    """Return a kernel as machine code.

    Args:
        subject: "package.name", see `accumulus.native.sources.entry_of`.
    """
    loaded = _LOADED.get(subject)
    if loaded is None:
        prepare(subject)
        loaded = _LOADED[subject]
    return loaded


def kernel_with_gil(subject: str, state: int) -> Callable[[], int]:
    """Return a kernel of one state that keeps the GIL while it runs, to read memory of Python's objects.

    A thread may get the result of a later call in another thread.
    """
    prepare(subject)
    function = ctypes.PYFUNCTYPE(*_SIGNATURE)(_ADDRESSES[subject])
    result, exception = ctypes.c_int64(), ctypes.c_void_p()
    to_result, to_exception = ctypes.byref(result), ctypes.byref(exception)

    def call() -> int:
        function(to_result, to_exception, state)
        return result.value

    return call


def prepare(*subjects: str) -> None:
    """Load kernels; compile and cache those that are not cached yet."""
    if _LOADED.keys() >= set(subjects):
        return
    with _LOCK:
        unloaded = [subject for subject in dict.fromkeys(subjects) if subject not in _LOADED]
        codes = {subject: code for subject in unloaded if (code := fetch("kernels", _key(subject))) is not None}
        missing = [subject for subject in unloaded if subject not in codes]
        if missing:
            with _announced():
                for subject, llvm_code in llvm_codes(missing).items():
                    codes[subject] = _finished(llvm_code)
                    store("kernels", _key(subject), codes[subject])
        for subject, code in codes.items():
            _ADDRESSES[subject] = _address(code)
            _LOADED[subject] = _called(_ADDRESSES[subject])


def _key(subject: str) -> str:
    return f"{subject}-{hashlib.sha256(f'{digest(subject)} {_processor()}'.encode()).hexdigest()[:32]}"


@cache
def _processor() -> str:
    """Return the processor, and the compiler for it."""
    return f"{version_of('llvmlite')} {sys.platform} {processor()}"


def _finished(code: bytes) -> bytes:
    """Return object code for this machine from optimised LLVM code."""
    import llvmlite.binding as llvm

    machine = _target_machine()
    try:
        program = llvm.parse_bitcode(code)
    except RuntimeError as error:
        raise CompileError(
            f"the package's kernels were built with a newer LLVM than {'.'.join(map(str, llvm.llvm_version_info))} "
            f"({' '.join(str(error).split())}); install the package again, or a newer llvmlite"
        ) from None
    program.triple = llvm.get_process_triple()
    program.data_layout = str(machine.target_data)
    finished: bytes = machine.emit_object(program)
    return finished


@cache
def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return _new_machine()


def _new_machine() -> Any:
    import llvmlite.binding as llvm

    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
        codemodel="jitdefault",
    )


def _called(address: int) -> Kernel:
    function = ctypes.CFUNCTYPE(*_SIGNATURE)(address)

    def call(state: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = function(ctypes.byref(result), ctypes.byref(exception), state)
        assert status == 0, f"a search kernel stopped with status {status}"
        return result.value

    return call


def _address(code: bytes) -> int:
    """Return the address of the kernel in loaded code."""
    if is_supported():
        with suppress(UnknownObjectError):
            linked = Linked(code, (_SYMBOL,), {})
            _OWNERS.append(linked)
            return linked.addresses[_SYMBOL]
    import llvmlite.binding as llvm

    _target_machine()  # LLVM has to be initialised
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _OWNERS.append(engine)
    address: int = engine.get_function_address(_SYMBOL)
    return address


@cache
def _announce() -> None:
    """Report once a process that kernels are compiled on demand."""
    print(_NOTICE, file=sys.stderr, flush=True)


@contextmanager
def _announced() -> Iterator[None]:
    """Report on the error stream if compiling takes long."""
    timer = threading.Timer(_PATIENCE, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
