"""The machine that code is compiled for: its vectors, its vector mathematics, and LLVM's code generator and linker.

A linker places a program's code and constants in one piece of memory, so that it can use the small code model
(constants are addressed relative to the code) at any address. If `accumulus.native.linker` does not support the system,
LLVM's JITLink is used. One linker and one code generator serve the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Final

import llvmlite.binding as llvm

from accumulus.errors import CompileError
from accumulus.forks import Lock

_LOCK: Final = Lock()
_NAMES: Final = count()
#: Options of LLVM's code generator: no second scheduling after register allocation, and dependencies between memory
#: accesses are summarised from a hundred on. Without these options, compile time grows with the square of the length of
#: blocks of loads and stores. The code is equally fast.
_OPTIONS: Final = ("-disable-post-ra", "-dag-maps-huge-region=100", "-dag-maps-reduction-size=50")
#: Optimisation level of LLVM's code generator, 0 to 3: a higher one takes longer to compile, a lower one makes slower
#: code.
_LEVEL: Final = 2
#: Prefixes of the names of x86 machines.
_X86: Final = ("x86_64", "i686")
#: Letter of an instruction set in the names of glibc's vector functions, by bytes of a vector.
_X86_LETTERS: Final = {16: "b", 32: "d", 64: "e"}


@dataclass(frozen=True, slots=True)
class Host:
    """Properties of the machine that programs rely on."""

    # triple, layout: LLVM's name for the machine, and its data layout
    triple: str
    layout: str
    vector_bytes: int  # width of the vector registers
    fused: bool  # True if one instruction multiplies and adds
    letter: str  # letter of the instruction set in the names of glibc's vector functions; empty if there are none

    @property
    def is_x86(self) -> bool:
        """True for x86; on other machines LLVM's quick compilation selects other instructions, and fuses none."""
        return self.triple.startswith(_X86)

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 16 if self.is_x86 and self.vector_bytes < 64 else 32


@cache
def host() -> Host:
    """Return the properties of this machine; LLVM is initialised on the first call."""
    features = llvm.get_host_cpu_features()
    triple = llvm.get_process_triple()
    x86 = triple.startswith(_X86)
    if x86:
        wide = features.get("avx512f") and features.get("avx512dq") and features.get("avx512vl")
        vector_bytes = 64 if wide else 32 if features.get("avx2") else 16
    else:
        vector_bytes = 16
    fused = bool(features.get("fma")) if x86 else triple.startswith(("aarch64", "arm64"))
    try:
        llvm.load_library_permanently("libmvec.so.1")
        letter = _X86_LETTERS[vector_bytes] if x86 else ""
    except RuntimeError:
        letter = ""
    return Host(triple, str(_machine(_LEVEL).target_data), vector_bytes, fused, letter)


@cache
def last_cache() -> int:
    """Return the bytes of the last cache, as the system knows it; else those of a common one."""
    for name in ("SC_LEVEL4_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE"):
        if name in getattr(os, "sysconf_names", ()) and (size := os.sysconf(name)) > 0:
            return size
    return 1 << 25


@cache
def vector_symbol(function: str, arity: int, lanes: int, dtype: str) -> str | None:
    """Return the name of glibc's vector version of a function of the C library; None if there is none.

    The names follow the x86 vector function ABI: ``_ZGVdN4v_sin`` takes and returns four doubles.
    """
    machine = host()
    size = 8 if dtype == "float64" else 4
    if not machine.letter or lanes * size != machine.vector_bytes:
        return None
    suffix = "" if dtype == "float64" else "f"
    name = f"_ZGV{machine.letter}N{lanes}{'v' * arity}_{function}{suffix}"
    return name if llvm.address_of_symbol(name) else None


@cache
def _set_up() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for option in _OPTIONS:  # LLVM ignores options that this version does not have
        llvm.set_option("accumulus", option)


@cache
def _machine(level: int) -> Any:
    """Return LLVM's code generator; level 0 does little register allocation and scheduling."""
    try:
        return _new_machine(level)
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot make code for this machine ({error}); use target='numpy'") from error


def _new_machine(level: int) -> Any:
    _set_up()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(_new_machine(_LEVEL), use_jit_link=True)


class LinkedByLLVM:
    """The counterpart of `accumulus.native.linker.Linked` for every system that LLVM supports.

    Args:
        image: the object file.
        exports: functions and variables whose addresses are needed.
        imports: addresses of imports that are not functions of a library of this process, by name.
        names: names of all imports.

    Attributes:
        addresses: addresses of the exports, by name.

    Raises:
        CompileError: if LLVM cannot link the code.
    """

    __slots__ = ("_tracker", "addresses")

    def __init__(self, image: bytes, exports: Iterable[str], imports: Mapping[str, int], names: Iterable[str]) -> None:
        exports = tuple(exports)
        builder = llvm.JITLibraryBuilder().add_object_img(image)
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in names:
            if name not in imports:
                builder.import_symbol(name, llvm.address_of_symbol(name) or 0)
        try:
            with _LOCK:
                self._tracker = builder.link(_linker(), f"accumulus{next(_NAMES)}")
        except RuntimeError as error:
            raise CompileError(f"LLVM cannot link the program, which is a bug: {error}") from error
        self.addresses = {name: self._tracker[name] for name in exports}


def compile_modules(
    modules: Iterable[tuple[str, tuple[str, ...]]], *, quick: bool = False
) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """Return object files of modules, compiled in turn so that Ctrl-C works in between; see `compile_ir`."""
    return tuple((compile_ir(text, quick=quick), names) for text, names in modules)


def compile_ir(text: str, *, quick: bool = False) -> bytes:
    """Return the object file of a module.

    Args:
        text: LLVM IR of a module.
        quick: if True, compile in a third of the time. Arithmetic is the same, including fused products and sums, but
            values are moved to memory and back more often: straight-line code, as for one point, runs a few per cent
            longer; loops run much longer.

    Raises:
        CompileError: if LLVM rejects the module, which is a bug of this package.
    """
    with _LOCK:
        machine = _machine(0 if quick and host().is_x86 else _LEVEL)
        try:
            image: bytes = machine.emit_object(llvm.parse_assembly(text))
        except RuntimeError as error:
            raise CompileError(f"LLVM refuses the program, which is a bug: {error}") from error
    return image
