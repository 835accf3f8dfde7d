"""The kernel of the `llvm` target: compiles a variant of the program when it is first needed, and calls it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Kernel, Segment
from accumulus.targets.llvm.host import compile_ir
from accumulus.targets.llvm.program import Module, Variant, module
from accumulus.targets.llvm.python_abi import builtin, check_supported, objects

__all__ = ["LLVMKernel", "source"]


def source(tape: Tape, segments: tuple[Segment, ...], dtype: str = "float64", name: str = "f") -> str:
    """The LLVM IR that a kernel for C-ordered batches is compiled from; `name` is not used in it."""
    del name
    return module(tape, segments, Variant.of_host(dtype)).text


class LLVMKernel(Kernel):
    """Kernel of machine code.

    Code for C-ordered points is compiled at once, code for transposed ones when it is first asked for. Calls from
    several threads at a time are safe: a kernel holds no state but its code.
    """

    def __init__(
        self, tape: Tape, segments: tuple[Segment, ...], dtype: str, *, variant: Variant | None = None
    ) -> None:
        check_supported()
        self.inputs, self.segments, self.dtype = tape.inputs, segments, np.dtype(dtype)
        self.seconds = {"write": 0.0, "compile": 0.0}
        self._tape = tape
        self._base = Variant.of_host(dtype) if variant is None else variant
        self._batches: dict[tuple[bool, bool], Callable[..., None]] = {}
        self._lock = threading.Lock()
        addresses, library = self._compile(self._base, ("batch", "point"))
        self._batches[False, False] = builtin("batch", addresses["batch"], library)
        self._point = builtin("point", addresses["point"], library)
        self._empty = partial(np.empty, dtype=self.dtype)
        self._lengths = [segment.length for segment in segments]

    def _compile(self, variant: Variant, exports: tuple[str, ...]) -> tuple[dict[str, int], object]:
        start = time.perf_counter()
        written = module(self._tape, self.segments, variant)
        middle = time.perf_counter()
        library = compile_ir(written.text, exports, self._imports(written))
        self.seconds["write"] += middle - start
        self.seconds["compile"] += time.perf_counter() - middle
        if not hasattr(self, "source"):
            self.source = written.text
        return library.addresses, library

    def _imports(self, written: Module) -> list[tuple[str, int]]:
        known = objects(self.dtype)
        return [(name, known.get(name) or llvm.address_of_symbol(name)) for name in written.imports]

    def __call__(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point: array of shape (inputs,) → one array of shape (length,) for each segment."""
        out = tuple(map(self._empty, self._lengths))
        if self._point(x, *out) is NotImplemented:
            x = np.ascontiguousarray(x, self.dtype)
            if x.shape != (self.inputs,):
                raise ArgumentError(f"a point of shape {x.shape} was given; expected ({self.inputs},)")
            # a plain array: a subclass, or another object of an equal dtype, was refused
            self._point(np.array(x, self.dtype, subok=False).astype(self.dtype.char), *out)
        return out

    def run(
        self,
        X: NDArray[Any],
        out: tuple[NDArray[Any], ...],
        first: int,
        last: int,
        transposed: bool,
        zeroed: bool,
    ) -> None:
        """Compute points first … last-1 of a batch."""
        batch = self._batches.get((transposed, zeroed))
        if batch is None:
            batch = self._batch(transposed, zeroed)
        batch(X, *out, first, last, X.shape[-1] if transposed else len(X))

    def _batch(self, transposed: bool, zeroed: bool) -> Callable[..., None]:
        key = (transposed, zeroed)
        with self._lock:
            if key not in self._batches:
                base = self._base
                variant = Variant(
                    base.lanes, base.dtype, transposed, zeroed, base.contract, base.part_size
                )
                addresses, library = self._compile(variant, ("batch",))
                self._batches[key] = builtin("batch", addresses["batch"], library)
        return self._batches[key]
