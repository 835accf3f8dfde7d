"""The kernel of the `llvm` target: it compiles variants of its program when they are needed, and calls them.

The modules that emit and compile code are imported only when something has to be compiled: if all code is cached,
loading LLVM would take longer than everything else.

Programs for one point share some code: access to Python objects, and the elementary functions.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.cache import digest_of_parts
from accumulus.errors import CompileError
from accumulus.forks import Lock
from accumulus.targets.kernel import Batch, Call, Kernel, Made, Unit, UsualCall
from accumulus.targets.llvm.library import (
    EITHER,
    FRESH,
    LOOPS,
    POINTS,
    TAKEN,
    UNPACK,
    Library,
    MachineCode,
    builtin,
    check_supported,
    code_key,
    load_code,
    objects,
    store_code,
    version,
)

if TYPE_CHECKING:
    from accumulus.targets.llvm.module import Variant


# Shared code of programs for one point --------------------------------------------------------------------------------


_LOADED: Final[dict[str, Library]] = {}
_LOCK: Final = Lock()


def needs_from_outside(code: MachineCode, dtype: np.dtype[Any]) -> dict[str, int]:
    """Return addresses of imports, for code of a dtype, that are not in a library of this process.

    Raises:
        CompileError: if the shared code cannot be compiled or linked in this process.
    """
    shared = shared_library(dtype).addresses if UNPACK in code.imports else {}
    return {**objects(dtype), **shared}


def shared_library(dtype: np.dtype[Any]) -> Library:
    """Return the code that all programs for one type of numbers share."""
    name = str(dtype)
    with _LOCK:
        if name not in _LOADED:
            key = digest_of_parts([version(), f"shared by programs of {name}".encode()])
            cached = load_code(key)
            library = None
            if cached is not None:
                with suppress(CompileError):  # a library that it imports from is missing
                    library = _linked(cached, dtype)
            if library is None:
                code = _compiled(dtype)
                library = _linked(code, dtype)
                store_code(key, code)
            _LOADED[name] = library
        return _LOADED[name]


class MakesResults(Kernel):
    """Kernel whose results are made, or taken from the caller, in machine code."""

    def making(self, compute: Callable[..., Any], made: Made) -> Callable[..., Any]:
        """Return a built-in function; see `Kernel.making`."""
        shared = shared_library(self.dtype)
        return builtin("computed", shared.addresses[FRESH], self._state(compute, made, None), compute, shared)

    def taking(
        self, compute: Callable[..., Any], made: Made, otherwise: Callable[..., Any], usual: UsualCall | None = None
    ) -> Callable[..., Any]:
        """Return a built-in function; see `Kernel.taking`."""
        shared, state = shared_library(self.dtype), self._state(compute, made, usual)
        return builtin("computed", shared.addresses[TAKEN], state, compute, otherwise, shared, usual)

    def _state(self, compute: Callable[..., Any], made: Made, usual: UsualCall | None) -> NDArray[np.int64]:
        """Return the words of `accumulus.targets.llvm.shared_code.RESULTS_STATE`."""
        results, dtype = len(made.shapes), self.dtype
        words = [id(compute), len(self.arguments), results, dtype.num, made.guarded, made.in_tuple, made.points]
        if usual is None:
            words += [0] * len(UsualCall._fields)
        else:
            words += [usual.leading, usual.axes, usual.most, usual.most_given]
            words += [id(usual.in_axes), id(usual.transposed), usual.alone]
        for k, shape in enumerate(made.shapes):
            words += [made.as_numbers and not shape and k < results - made.guarded, len(shape), *shape]
        return np.array(words, np.int64)


def _linked(code: MachineCode, dtype: np.dtype[Any]) -> Library:
    return Library(code, code.exports, objects(dtype))


def _compiled(dtype: np.dtype[Any]) -> MachineCode:
    from accumulus.targets.llvm.host import compile_ir
    from accumulus.targets.llvm.instructions import Functions
    from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS
    from accumulus.targets.llvm.module import in_module
    from accumulus.targets.llvm.shared_code import unpacking

    functions = Functions(1, str(dtype))
    exports = [UNPACK, LOOPS, POINTS, FRESH, TAKEN, EITHER]
    if dtype == np.float64:
        for function in dict.fromkeys(function for function, _ in VECTOR_FUNCTIONS.values()):
            functions.define(function)
            exports.append(function.name)
    text = functions.text(visible=True)
    lines, names = unpacking(dtype.itemsize)
    image = compile_ir(in_module([*text, *lines]))
    return MachineCode(((image, ()),), (*sorted(functions.imported), *names), {}, tuple(exports))


# The kernel -----------------------------------------------------------------------------------------------------------

#: Number of entries that are stored across vector boundaries before code for that alignment is compiled. By then they
#: have cost a fraction of the time to compile. With fewer, short use pays for code that it hardly uses; with more, long
#: use stays slow for longer.
ENTRIES_BEFORE_REALIGNMENT: Final = 50_000_000


@dataclass(slots=True)
class _Compiled:
    """Code for one kind of batch."""

    batch: Callable[..., Any]  # function that Python calls
    library: Library  # memory of the code
    changes: dict[str, Any]  # differences from the variant that suits the program
    realigned: list[Library]  # code with the same order for other alignments of the results
    slow_entries: int = 0  # number of entries stored without such code where it would have been faster


class LLVMKernel(MakesResults):
    """Kernel of machine code, in several variants, each compiled when it is first needed.

    Code for one point has a single lane, and the bits of a batch: it takes a fraction of the time to compile, and less
    time to run than filling the other lanes. LLVM optimises it less unless it is long. The other variants are for
    batches: in C order or transposed, with or without writing structural zeros, and by shared arguments. Concurrent
    calls from several threads are safe. The code's memory is freed with the kernel.

    Args:
        unit: the program.
        variant: how to compile batches, without the cache; by default the variant that suits machine and program.
    """

    def __init__(self, unit: Unit, variant: Variant | None = None) -> None:
        check_supported()
        super().__init__(unit)
        self.seconds["load"] = 0.0
        self._lock = Lock()
        self._fixed_variant = variant
        self._cache = unit.cache and variant is None
        self._none_shared = (False,) * len(self.arguments)
        #: Code of batches, by (shared arguments, transposed, zeroed).
        self._batches: dict[tuple[tuple[bool, ...], bool, bool], _Compiled] = {}
        self._lengths = unit.lengths
        self._one_point: Callable[..., Any] | None = None

    @cached_property
    def _variant(self) -> Variant:
        """Variant for batches in C order."""
        return self._suited(transposed=False)

    @cached_property
    def _variant_transposed(self) -> Variant:
        """Variant for transposed batches."""
        return self._suited(transposed=True)

    def _suited(self, transposed: bool, single: bool = False) -> Variant:
        from accumulus.targets.llvm.module import tune

        suited = self._fixed_variant or tune(self._tape, self.segments, self._unit.dtype, transposed, single=single)
        return replace(suited, exact=suited.exact.union(self._unit.exact))

    @property
    def source(self) -> str:  # type: ignore[override]
        """The LLVM IR of the code for batches in C order."""
        from accumulus.targets.llvm.module import module

        return str(module(self._unit, self._variant).text)

    @property
    def lanes(self) -> int:  # type: ignore[override]
        """Number of points that the code for batches computes at once."""
        return self._variant.lanes

    def prepare(self, call: Call, shared: Sequence[bool] = ()) -> None:
        """Compile the code for a kind of call, if that is not done yet."""
        if call == "point":
            self.point()
        else:
            self._batch(tuple(shared), call == "transposed", False)

    def point(self) -> Callable[..., Any]:
        """Return the compiled function for one point; see `Kernel.point`."""
        if self._one_point is None:
            with self._lock:
                self._one_point = self._one_point or self._compile_one_point()
        return self._one_point

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Compute the results at one point: an array (length,) for each segment, from an array for each argument."""
        compute = self.point()
        out = tuple([np.empty(length, self.dtype) for length in self._lengths])
        if compute(*x, *out) is NotImplemented:
            self.compute(self._point(x), out)
        return out

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point; see `Kernel.compute`."""
        self.point()(*[_plain(entry, self.dtype) for entry in arguments], *results)

    def _compile_one_point(self) -> Callable[..., Any]:
        changes = {"lanes": 1, "critical_path": False, "offsets": (), "single": True}
        library = self._loaded(("point",), changes)
        if library is None and self._fixed_variant is not None:
            from accumulus.targets.llvm.module import runs_in_one_lane

            # batches of other widths may call other functions
            if not runs_in_one_lane(self._tape, self._unit.dtype):
                library = self._batch((), False, False).library
        library = library or self._compile(("point",), changes)
        return builtin("point", library.addresses["point"], library)

    def many(self, shared: tuple[bool, ...], transposed: bool) -> Callable[..., Any]:
        """Return the compiled function for batches; see `Kernel.many`."""
        return self._batch(shared, transposed, False).batch

    def misaligned(self, shared: tuple[bool, ...], transposed: bool) -> Callable[[Sequence[NDArray[Any]]], None]:
        """Return a function of results that were stored across vector boundaries; see `Kernel.misaligned`."""
        compiled, longest = self._batch(shared, transposed, False), max(self._lengths, default=0)

        def note(out: Sequence[NDArray[Any]]) -> None:
            compiled.slow_entries += len(out[0]) * longest
            if compiled.slow_entries >= ENTRIES_BEFORE_REALIGNMENT and not compiled.realigned:
                self._note_misaligned(compiled, out, 0)

        return note

    def batch(
        self,
        *X: NDArray[Any],
        shared: Sequence[bool] = (),
        out: Sequence[NDArray[Any]] | None = None,
        threads: int = 1,
        transposed: bool = False,
        zeroed: bool = False,
    ) -> tuple[NDArray[Any], ...]:
        """Compute a batch, see `Kernel.batch`; with `out` and a single thread, compiled code checks the arrays."""
        alike = tuple(map(bool, shared)) or self._none_shared
        is_valid = len(alike) == len(self.arguments) and not all(alike)
        if is_valid and out is not None and threads == 1 and self._have_shapes(out, transposed):
            compiled = self._batch(alike, transposed, zeroed)
            answer = compiled.batch(*X, *out)
            if answer is Ellipsis:
                self._note_misaligned(compiled, out, len(out[0]))
            if answer is not NotImplemented:
                return tuple(out)
        return super().batch(*X, shared=shared, out=out, threads=threads, transposed=transposed, zeroed=zeroed)

    def _have_shapes(self, out: Sequence[NDArray[Any]], transposed: bool) -> bool:
        """Return True if `out` has an array of the right length for each segment, and not too many points."""
        if len(out) != len(self._lengths):
            return False
        axis, most = 0 if transposed else 1, self.most_points
        return all(
            type(array) is np.ndarray
            and array.ndim == 2
            and array.shape[axis] == length
            and array.shape[1 - axis] <= most
            for array, length in zip(out, self._lengths, strict=True)
        )

    def address(self) -> int:
        """Return the address of the function for batches in C order, for callers in machine code.

        It takes the addresses of all arguments (consecutive points) and of all result arrays, the first point, the
        point after the last, and the number of points. It returns 0, or 1 if memory ran out. It is valid as long as
        this kernel lives.
        """
        return self._batch((), False, False).library.addresses["run"]

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch."""
        X, out, shared, transposed, zeroed = batch
        compiled = self._batch(shared, transposed, zeroed)
        answer = compiled.batch(*X, *out, first, last)
        if answer is NotImplemented:
            # a subclass of arrays, such as a memory map, or another object for the same dtype
            plain = [_plain(array, self.dtype) for array in (*X, *out)]
            answer = compiled.batch(*plain, first, last)
        if answer is Ellipsis:
            self._note_misaligned(compiled, out, last - first)

    def _batch(self, shared: tuple[bool, ...], transposed: bool, zeroed: bool) -> _Compiled:
        """Return the code for batches of one kind; compile it if needed."""
        key = shared or self._none_shared, transposed, zeroed
        code = self._batches.get(key)
        if code is not None:
            return code
        with self._lock:
            code = self._batches.get(key)
            if code is None:
                changes = {"shared": key[0], "transposed": transposed, "zeroed": zeroed}
                exports = ("batch", "other", "run", *(() if transposed else ("point",)))
                library = self._loaded(exports, changes) or self._compile(exports, changes)
                batch = builtin("batch", library.addresses["batch"], library)
                code = self._batches[key] = _Compiled(batch, library, changes, [])
            return code

    def _loaded(self, exports: tuple[str, ...], changes: dict[str, Any]) -> Library | None:
        """Return the code from the cache; None if there is none."""
        if not self._cache:
            return None
        start = time.perf_counter()
        code = load_code(code_key(self._unit, changes))
        library = None
        if code is not None:
            with suppress(CompileError):  # a library that it imports from is missing
                library = Library(code, exports, needs_from_outside(code, self.dtype))
        self.seconds["load"] += time.perf_counter() - start
        return library

    def _compile(self, exports: tuple[str, ...], changes: dict[str, Any]) -> Library:
        """Compile code, store it in the cache if that is enabled, and return it."""
        from accumulus.targets.llvm.host import compile_modules
        from accumulus.targets.llvm.module import module

        start = time.perf_counter()
        if changes.get("single"):
            suited = self._suited(transposed=False, single=True)
        else:
            suited = self._variant_transposed if changes.get("transposed") else self._variant
        emitted = module(self._unit, replace(suited, **changes))
        middle = time.perf_counter()
        images = compile_modules(emitted.text.modules(), quick=emitted.is_short)
        code = MachineCode(images, emitted.imports, emitted.tables)
        library = Library(code, exports, needs_from_outside(code, self.dtype))
        self.seconds["emit"] += middle - start
        self.seconds["compile"] += time.perf_counter() - middle
        if self._cache:
            store_code(code_key(self._unit, changes), code)
        return library

    def _note_misaligned(self, compiled: _Compiled, out: Sequence[NDArray[Any]], points: int) -> None:
        """Count results stored across vector boundaries, and compile code for their alignment once that pays."""
        with self._lock:
            compiled.slow_entries += points * max(self._lengths)
            if compiled.slow_entries < ENTRIES_BEFORE_REALIGNMENT or compiled.realigned:
                return
            lanes, size = self._variant.lanes, self._variant.size
            offsets = tuple(array.ctypes.data // size % lanes for array in out)
            offsets += (0,) * (len(self._lengths) - len(out))  # without the truth values of guards
            changes = compiled.changes | {"offsets": offsets}
            library = self._loaded(("run",), changes) or self._compile(("run",), changes)
            compiled.realigned.append(library)
            pointer = ctypes.c_void_p.from_address(compiled.library.addresses["other"])
            pointer.value = library.addresses["run"]


def _plain(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    return array.view(dtype, np.ndarray)
