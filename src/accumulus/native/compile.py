"""Compilation of a kernel from Python to LLVM code for any processor; only this module needs Numba.

The code has one external function. It is optimised as far as possible without knowing the processor;
`accumulus.native.machine` compiles it for the processor on which it runs.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any, Final, get_type_hints

import llvmlite.binding as llvm
import numba

from accumulus.native import lowering
from accumulus.native.decorators import compile_with
from accumulus.native.sources import entry_of

#: Name of the external function.
SYMBOL: Final = "kernel"

# Numba's calling convention: addresses of result and exception, then the arguments; returns a status.
_DEFINITION: Final = re.compile(
    r"^define [^@\n]*i32 @([\w.$]*run_[\w.$]*)"
    r"\([^%\n]*%retptr, [^%\n]*%excinfo, i64 [^%\n]*%arg\.state\)",
    re.MULTILINE,
)


def write_code(subject: str) -> None:
    """Write a kernel's code to standard output."""
    compile_with(lowering)
    sys.stdout.buffer.write(llvm_code(subject))


def llvm_code(subject: str) -> bytes:
    """Return the LLVM bitcode of a kernel."""
    module, entry = entry_of(subject)
    return code_of(getattr(importlib.import_module(module), entry))


def code_of(function: Callable[[Any], int]) -> bytes:
    """Return the LLVM bitcode of a kernel's entry function, and of its callees."""
    options: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    kind = lowering.type_of(get_type_hints(function)["state"])
    dispatcher: Any = numba.njit(numba.types.int64(kind), **options)(function)
    text = dispatcher.inspect_llvm()[dispatcher.signatures[0]]
    match = _DEFINITION.search(text)
    assert match, "this version of Numba calls functions in another way"
    program = llvm.parse_assembly(text)
    for value in (*program.global_variables, *program.functions):
        if value.name == match[1]:
            value.linkage, value.name = "external", SYMBOL
        elif not value.is_declaration:
            value.linkage = "internal"
    _optimise(program)
    code: bytes = program.as_bitcode()
    return code


def _optimise(program: Any) -> None:
    """Run all passes that do not depend on the processor; vector widths do."""
    llvm.initialize_native_target()
    any_processor = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(cpu="", features="", opt=3)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(any_processor, tuning)
    builder.getModulePassManager().run(program, builder)
