"""The kernel of the `llvm` target: compiles variants of its program as they are needed, and calls them."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Call, Kernel, Segment
from accumulus.targets.llvm.host import Library, compile_ir
from accumulus.targets.llvm.program import Variant, module, pressure_of
from accumulus.targets.llvm.python_abi import builtin, check_supported, objects
from accumulus.targets.llvm.tuning import runs_in_one_lane
from accumulus.targets.pressure import Pressure

__all__ = ["LLVMKernel", "source"]

#: Code for results that start elsewhere in a vector is compiled once this many entries were written the slow way. By
#: then that has cost a fraction of the time that compiling takes.
ENTRIES_BEFORE_REALIGNMENT: Final = 50_000_000


def source(tape: Tape, segments: tuple[Segment, ...], dtype: str = "float64", name: str = "f") -> str:
    """The LLVM IR that a kernel for C-ordered batches is compiled from; `name` does not occur in it."""
    del name
    return module(tape, segments, Variant.of(tape, segments, dtype)).text


@dataclass(slots=True)
class _Compiled:
    """Code for one memory order.

    Attributes:
        batch: the function that Python calls.
        library: the memory that the code is in.
        others: code of the same order for results that start elsewhere in a vector.
        slow_entries: how many entries were written without such code where it would have been quicker.
    """

    batch: Callable[..., Any]
    library: Library
    variant: Variant
    others: list[Library]
    slow_entries: int = 0


class LLVMKernel(Kernel):
    """Kernel of machine code, in up to five variants, each compiled when it is first needed.

    Code for one point has a single lane where that gives the same bits: it takes a fraction of the time to compile, and
    less time to run than filling the other lanes. The other variants are for batches: in C order or transposed,
    structural zeros written or not. Calls from several threads at a time are safe. Memory for code is given back with
    the kernel.

    Args:
        exact: references of operations that are not fused with others.
        variant: how to compile batches; by default as suits the machine and the program.
    """

    def __init__(
        self,
        tape: Tape,
        segments: tuple[Segment, ...],
        dtype: str,
        exact: frozenset[int] = frozenset(),
        *,
        variant: Variant | None = None,
    ) -> None:
        check_supported()
        self.inputs, self.segments, self.dtype = tape.inputs, segments, np.dtype(dtype)
        self.seconds = {"write": 0.0, "compile": 0.0}
        self._tape = tape
        self._exact = exact
        self._lock = threading.RLock()
        suited = Variant.of(tape, segments, dtype) if variant is None else variant
        self._variant = replace(suited, exact=suited.exact | exact)
        self._compiled: dict[tuple[bool, bool], _Compiled] = {}
        self._in_rows: _Compiled | None = None
        self._lengths = [segment.length for segment in segments]
        self._one_point: Callable[[NDArray[Any]], tuple[NDArray[Any], ...]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # machine code does not travel: it is compiled again where it is wanted, as suits the machine there
        return LLVMKernel, (self._tape, self.segments, str(self.dtype), self._exact)

    @property
    def source(self) -> str:  # type: ignore[override]
        """The LLVM IR of the code for batches in C order."""
        return module(self._tape, self.segments, self._variant).text

    @property
    def lanes(self) -> int:
        """How many points the code for batches computes at once."""
        return self._variant.lanes

    def pressure(self) -> Pressure:
        """What the code for batches in C order needs of the registers."""
        return pressure_of(self._tape, self.segments, self._variant)

    def prepare(self, call: Call) -> None:
        """Compile the code for one point, or for batches in C order, if that is not done yet."""
        with self._lock:
            if call == "batch":
                self._in_rows = self._order(False, False)
            elif self._one_point is None:
                self._one_point = self._compile_one_point()

    def __call__(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point: array of shape (inputs,) → one array of shape (length,) for each segment."""
        if self._one_point is None:
            self.prepare("point")
            assert self._one_point is not None
        return self._one_point(x)

    def _compile_one_point(self) -> Callable[[NDArray[Any]], tuple[NDArray[Any], ...]]:
        """What a call does, with nothing left to look up."""
        if runs_in_one_lane(self._tape, self._variant.dtype):
            library = self._compile(replace(self._variant, lanes=1, urgent=False, phases=(), single=True), ("point",))
        else:
            library = self._order(False, False).library
        compute = builtin("point", library.addresses["point"], library)
        lengths, inputs, dtype = self._lengths, self.inputs, self.dtype
        empty = np.empty if dtype == np.float64 else partial(np.empty, dtype=dtype)

        def general(x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
            out = tuple(map(empty, lengths))
            if compute(x, *out) is NotImplemented:
                given = np.ascontiguousarray(x, dtype)
                if given.shape != (inputs,):
                    raise ArgumentError(f"a point of shape {given.shape} was given; expected ({inputs},)")
                compute(_plain(given, dtype), *out)
            return out

        # calls with a known number of arguments take half the time
        if len(lengths) == 1:
            (length,) = lengths

            def one(x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
                result = empty(length)
                return (result,) if compute(x, result) is None else general(x)

            return one
        if len(lengths) == 2:
            first_length, second_length = lengths

            def two(x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
                first, second = empty(first_length), empty(second_length)
                return (first, second) if compute(x, first, second) is None else general(x)

            return two
        return general

    def attempt(self, X: NDArray[Any], out: NDArray[Any]) -> bool:
        """Compute a batch in C order on this thread; see `Kernel.attempt`."""
        if self._in_rows is None:
            self.prepare("batch")
        compiled = self._in_rows
        assert compiled is not None
        answer = compiled.batch(X, out)  # refuses what it cannot take
        if answer is None:
            return True
        if answer is Ellipsis:
            self._note_misaligned(compiled, (out,), len(X))
            return True
        return False

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
        compiled = self._compiled.get((transposed, zeroed)) or self._order(transposed, zeroed)
        answer = compiled.batch(X, *out, first, last)
        if answer is NotImplemented:
            # a subclass of arrays, such as a memory map, or a second object for the same dtype
            plain = [_plain(array, self.dtype) for array in (X, *out)]
            answer = compiled.batch(*plain, first, last)
        if answer is Ellipsis:
            self._note_misaligned(compiled, out, last - first)

    def _order(self, transposed: bool, zeroed: bool) -> _Compiled:
        with self._lock:
            known = self._compiled.get((transposed, zeroed))
            if known is not None:
                return known
            variant = replace(self._variant, transposed=transposed, zeroed=zeroed)
            library = self._compile(variant, ("batch", "other", *(() if transposed else ("point",))))
            batch = builtin("batch", library.addresses["batch"], library)
            return self._compiled.setdefault((transposed, zeroed), _Compiled(batch, library, variant, []))

    def _compile(self, variant: Variant, exports: tuple[str, ...]) -> Library:
        start = time.perf_counter()
        written = module(self._tape, self.segments, variant)
        middle = time.perf_counter()
        known = objects(self.dtype)
        imports = [(name, known.get(name) or llvm.address_of_symbol(name)) for name in written.imports]
        library = compile_ir(written.text, exports, imports)
        self.seconds["write"] += middle - start
        self.seconds["compile"] += time.perf_counter() - middle
        return library

    def _note_misaligned(self, compiled: _Compiled, out: tuple[NDArray[Any], ...], points: int) -> None:
        """Count results that lie beside the boundaries of vectors, and compile code for them once that pays."""
        with self._lock:
            compiled.slow_entries += points * max(self._lengths)
            if compiled.slow_entries < ENTRIES_BEFORE_REALIGNMENT or compiled.others:
                return
            lanes, size = self._variant.lanes, self._variant.size
            phases = tuple(array.ctypes.data // size % lanes for array in out)
            library = self._compile(replace(compiled.variant, phases=phases), ("run",))
            compiled.others.append(library)
            place = ctypes.c_void_p.from_address(compiled.library.addresses["other"])
            place.value = library.addresses["run"]


def _plain(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    return array.view(dtype, np.ndarray)
