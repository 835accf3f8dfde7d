"""Compiled programs as machine-code functions: their addresses, and callers that bypass Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accumulus.errors import ArgumentError, CompileError, unknown_name
from accumulus.targets.llvm.callers import CALLBACKS, callback
from accumulus.targets.llvm.llvm_kernel import LLVMKernel

if TYPE_CHECKING:
    from scipy import LowLevelCallable

    from accumulus.targets import Kernel


Shape = tuple[int, ...]
#: Maximum number of results that a callback stores on the stack: more may overflow the stacks of threads, fewer refuse
#: functions that SciPy could call.
MOST_ON_STACK: Final = 1 << 15
_C_TYPES: Final = {"float64": "double", "float32": "float"}


class NativeFunction:
    """A program's machine code as a C function.

    The code lives as long as this object, or an object obtained from it; an address alone does not keep it alive.
    Several threads may call it at the same time. It does not check its arguments: they have to be C-contiguous, of the
    program's dtype, with one point after the other, and results must not overlap anything.

    In Numba's nopython code, the object itself is a function of arguments at one point that returns new results, and
    `batch` is one of arguments with a leading axis of points.

    Args:
        kernel: kernel of the program.
        shapes: stored shapes of its results at one point.
        name: name of the function, for messages.
        guarded: True if the last array of the kernel holds the truth values of the guards.
        points: True for the function of many points.

    Raises:
        CompileError: if the program has no such function: for other targets, and for loops over long arrays.
    """

    def __init__(
        self, kernel: Kernel, shapes: Sequence[Shape], name: str, *, guarded: bool, points: bool = False
    ) -> None:
        if not isinstance(kernel, LLVMKernel):
            raise CompileError(
                f"the program of {name} has no address: it is not straight-line machine code. Expected target='llvm', "
                "and a function without loops over long arrays"
            )
        self._kernel, self._name, self._guarded, self._points = kernel, name, guarded, points
        self._shapes = [*shapes, ()] if guarded else list(shapes)

    @property
    def address(self) -> int:
        """Address of the C function, see `declaration`."""
        return self._kernel.address()

    @property
    def declaration(self) -> str:
        """Return the declaration of the function for C or cffi.

        It takes all arguments, then all results, the first point to compute, the end of the points to compute
        (exclusive), and the number of points. It returns 0, or 1 if memory ran out. If the function decides on values,
        the last result is 1 at points where the program holds, else 0, and the other results are undefined there.
        """
        number = _C_TYPES[str(self._kernel.dtype)]
        arguments = [f"const {number} *x{k}" for k in range(len(self._kernel.arguments))]
        results = [f"{number} *r{k}" for k in range(len(self._shapes))]
        return f"int32_t run({', '.join([*arguments, *results])}, int64_t first, int64_t last, int64_t points)"

    @cached_property
    def ctypes(self) -> Any:
        """The function for `ctypes`: pointers and three numbers → 0, or 1 if memory ran out."""
        pointers = [ctypes.c_void_p] * (len(self._kernel.arguments) + len(self._shapes))
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, *[ctypes.c_int64] * 3)(self.address)
        function.owner = self._kernel
        return function

    @cached_property
    def batch(self) -> NativeFunction:
        """The function of many points, for Numba's nopython code."""
        shapes = self._shapes[:-1] if self._guarded else self._shapes
        return NativeFunction(self._kernel, shapes, self._name, guarded=self._guarded, points=True)

    def low_level_callable(self, kind: str = "quad", entry: int = 0) -> LowLevelCallable:
        """Return a function that SciPy calls without going through Python.

        Args:
            kind: "quad" for `scipy.integrate.quad` and `nquad`, whose variables are the entries of all arguments in
                order; "ndimage" for `scipy.ndimage.generic_filter`, whose windows are these entries.
            entry: index of the returned number among the entries of all results.

        Raises:
            UnknownNameError: for another kind.
            ArgumentError: if there is no such entry, the program is not of float64, or its results do not fit on the
                stack.
        """
        if kind not in CALLBACKS:
            raise unknown_name("kind of callable", kind, CALLBACKS)
        lengths = [prod(shape) for shape in self._shapes]
        entries = sum(lengths) - self._guarded
        if type(entry) is not int or not 0 <= entry < entries:
            raise ArgumentError(f"entry is {entry!r}; the results of {self._name} have {entries} entries")
        if self._kernel.dtype != np.float64 or entries > MOST_ON_STACK:
            raise ArgumentError(
                f"the program of {self._name} returns {entries:,} numbers of {self._kernel.dtype}; SciPy calls "
                f"functions of float64, with at most {MOST_ON_STACK:,} results here"
            )
        from scipy import LowLevelCallable

        chosen, kernel = CALLBACKS[kind], self._kernel
        library = callback(chosen, self.address, kernel.arguments, lengths, entry, guarded=self._guarded)
        types = {
            "quad": (ctypes.c_double, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
            "ndimage": (ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_void_p),
        }
        function: Any = ctypes.CFUNCTYPE(*types[kind])(library.addresses["callback"])
        function.owner = library, kernel
        return LowLevelCallable(function, signature=chosen.signature)

    @cached_property
    def _dispatcher(self) -> Any:
        """Function that Numba compiles, kept here because Numba's types do not hold a reference to it."""
        from numba import njit

        return njit(self._for_numba())

    @property
    def _numba_type_(self) -> Any:
        # Numba's protocol for objects of unknown types
        from numba import types

        return types.Dispatcher(self._dispatcher)

    def _for_numba(self) -> Any:
        """Return a function for Numba that checks shapes, allocates results, and calls the machine code."""
        kernel, points = self._kernel, self._points
        names = [f"x{k}" for k in range(len(kernel.arguments))]
        refused = f"raise ValueError('an argument of {self._shown} has another shape than it was compiled for')"
        lines, pointers = [f"def function({', '.join(names)}):"], []
        if points:
            lines.append(f"    count = {names[0]}.shape[0]")
        for name, shape in zip(names, kernel.arguments, strict=True):
            whole = f"({'count, ' if points else ''}{''.join(f'{size}, ' for size in shape)})"
            if shape or points:
                lines += [
                    f"    if {name}.shape != {whole}:",
                    f"        {refused}",
                    f"    {name}_ = np.ascontiguousarray(np.asarray({name}, dtype))",
                ]
            else:
                lines += [f"    {name}_ = np.empty(1, dtype)", f"    {name}_[0] = {name}"]
            pointers.append(f"{name}_.ctypes")
        results = [f"r{k}" for k in range(len(self._shapes))]
        for name, shape in zip(results, self._shapes, strict=True):
            sizes = ("count",) * points + tuple(map(str, shape))
            lines.append(f"    {name} = np.empty(({''.join(f'{size}, ' for size in sizes or ('1',))}), dtype)")
            pointers.append(f"{name}.ctypes")
        last = "count" if points else "1"
        lines += [
            f"    if run({', '.join(pointers)}, 0, {last}, {last}) != 0:",
            "        raise MemoryError('memory ran out')",
        ]
        if self._guarded:
            lines += [
                f"    if not np.all({results.pop()} > 0.0):",
                f"        raise ValueError('{self._shown} takes another branch here than where it was recorded')",
            ]
        returned = [
            name if shape or points else f"{name}[0]" for name, shape in zip(results, self._shapes, strict=False)
        ]
        lines.append(f"    return {', '.join(returned)}")
        scope = {"__name__": __name__, "np": np, "dtype": kernel.dtype.type, "run": self.ctypes}
        exec("\n".join(lines), scope)
        return scope["function"]

    @property
    def _shown(self) -> str:
        """The name, with characters that are not allowed in source text replaced."""
        return "".join(letter if letter.isalnum() or letter == "_" else "?" for letter in self._name)
