"""Machine code of kernels: compiled by Numba once a machine, loaded without Numba from then on.

Importing Numba takes longer than most searches do, and compiling takes seconds. A kernel needs none of it when it runs,
so its object code is kept (`accumulus.cache`) under a key of its source, the compiler's version and the processor, and
loaded with llvmlite. Where there is none yet, the
kernels that are wanted are compiled side by side, in processes of their own.

A file that is damaged is compiled again. Where nothing can be written, or no process be started, each process compiles
for itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from accumulus.cache import load, store

__all__ = ["Kernel", "kernel", "prepare"]

#: A kernel: a function of the address of its block. It runs without the GIL.
Kernel = Callable[[int], int]

#: Files that the code of a kernel is made from, beside these; those of searches borrow from "order".
_SOURCES: Final = ("{}_kernel.py", "{}_slots.py", "order_kernel.py", "order_slots.py")
_SHARED: Final = ("memory.py", "machine.py")
#: Seconds of compilation after which a line says what takes so long.
_PATIENCE: Final = 0.5
_CHILD: Final = (
    f"import sys; from {__name__} import compile_kernel; sys.stdout.buffer.write(compile_kernel(sys.argv[1]))"
)
_NOTICE: Final = "accumulus: preparing its search kernels; this takes a few seconds, once on this machine"

#: The function that a kernel is called by has one of these names.
_ENTRIES: Final = ("anneal", "prove", "perform")

# Numba's own convention: result and exception by address, then the arguments; returns a status.
_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_DEFINITION: Final = re.compile(
    rf"^define [^@\n]*i32 @([\w.$]*(?:{'|'.join(_ENTRIES)})[\w.$]*)"
    r"\([^%\n]*%retptr, [^%\n]*%excinfo, i64 [^%\n]*%arg\.block\)",
    re.MULTILINE,
)

# engines own the code that kernels run; dropping one would free it
_ENGINES: Final[list[Any]] = []
_LOADED: Final[dict[str, Kernel]] = {}


def kernel(subject: str) -> Kernel:
    """The function `anneal`, `prove` or `perform` of a kernel as machine code.

    Args:
        subject: "room.name" for the module ``accumulus.room.compiled.name_kernel``.
    """
    found = _LOADED.get(subject)
    if found is None:
        prepare(subject)
        found = _LOADED[subject]
    return found


def prepare(*subjects: str) -> None:
    """Load kernels; those that are not stored yet are compiled side by side, and stored if that is possible."""
    wanted = [subject for subject in dict.fromkeys(subjects) if subject not in _LOADED]
    codes = {subject: code for subject in wanted if (code := _stored(subject)) is not None}
    missing = [subject for subject in wanted if subject not in codes]
    if missing:
        with _announced():
            compiled = dict(zip(missing, _compiled_apart(missing), strict=True))
        for subject, code in compiled.items():
            store("kernels", _key(subject), code)
        codes |= compiled
    for subject, code in codes.items():
        _LOADED[subject] = _load(code)


def _stored(subject: str) -> bytes | None:
    return load("kernels", _key(subject))


def _key(subject: str) -> str:
    import llvmlite
    import llvmlite.binding as llvm

    digest = hashlib.sha256()
    room, name = subject.split(".")
    here = Path(__file__).parent
    paths = [here.parent / room / "compiled" / source.format(name) for source in _SOURCES]
    for path in [*filter(Path.exists, paths), *(here / source for source in _SHARED)]:
        digest.update(path.read_bytes())
    features = llvm.get_host_cpu_features().flatten()
    digest.update(f"{llvmlite.__version__} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}".encode())
    return f"{subject}-{digest.hexdigest()[:32]}"


def _checked(code: bytes) -> bytes | None:
    return code if code[:32] == hashlib.sha256(code[32:]).digest() else None


def _compiled_apart(subjects: Sequence[str]) -> list[bytes]:
    """Code of the kernels, each compiled in a process of its own; in this one where that fails."""
    # Numba need not optimise every helper for itself; the whole kernel is optimised in the end
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NUMBA_OPT": "0", "NUMBA_DISABLE_JIT": "0"}
    processes: list[subprocess.Popen[bytes] | None] = []
    try:
        for subject in subjects:
            command = [sys.executable or "python", "-c", _CHILD, subject]
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | environment,
                )
            except OSError:
                process = None
            processes.append(process)
        outputs = [process.communicate()[0] if process else b"" for process in processes]
    finally:
        for process in processes:
            if process and process.poll() is None:
                process.kill()
    return [_checked(code) or compile_kernel(subject) for subject, code in zip(subjects, outputs, strict=True)]


def compile_kernel(subject: str) -> bytes:
    """Checksum, symbol and object code of a kernel, by way of Numba's LLVM code."""
    import llvmlite.binding as llvm
    import numba

    options: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    module = importlib.import_module("accumulus.{}.compiled.{}_kernel".format(*subject.split(".")))
    function = next(getattr(module, name) for name in _ENTRIES if hasattr(module, name))
    dispatcher: Any = numba.njit(numba.types.int64(numba.types.int64), **options)(function)
    text = dispatcher.inspect_llvm()[dispatcher.signatures[0]]
    found = _DEFINITION.search(text)
    assert found, "this version of Numba calls functions in another way"
    program = llvm.parse_assembly(text)
    machine = _target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(program, builder)
    rest: bytes = found[1].encode() + b"\n" + machine.emit_object(program)
    return hashlib.sha256(rest).digest() + rest


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


def _load(code: bytes) -> Kernel:
    import llvmlite.binding as llvm

    symbol, _, program = code[32:].partition(b"\n")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(program))
    engine.finalize_object()
    _ENGINES.append(engine)
    function = _PROTOTYPE(engine.get_function_address(symbol.decode()))

    def call(block: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = function(ctypes.byref(result), ctypes.byref(exception), block)
        assert status == 0, f"a search kernel stopped with status {status}"
        return result.value

    return call


@contextmanager
def _announced() -> Iterator[None]:
    """Say on the error stream what takes so long, if it does."""
    timer = threading.Timer(_PATIENCE, lambda: print(_NOTICE, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
