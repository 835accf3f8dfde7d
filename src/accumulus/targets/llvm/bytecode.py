"""Tables of operations and a machine-code loop that runs them, for programs that take long to compile.

A compiler takes some 60 microseconds for an operation, this kernel less than one. The loop decodes the operation of
each row and executes it on vectors whose lanes are points. Values are in slots of memory, which are reused as soon as
they are free. A call takes up to ten times as long as one of compiled code. When calls have taken as long as
compilation would, the program is compiled, with every operation rounded separately, so that results stay the same to
the bit.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.cache import digest_of_parts
from accumulus.forks import Lock
from accumulus.native.machine import kernel
from accumulus.tape.live import needed
from accumulus.tape.operations import INPUT, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape
from accumulus.targets.compiled.slots_kernel import SlotsState
from accumulus.targets.kernel import Batch, Kernel, Unit, aligned, indices
from accumulus.targets.llvm.host import compile_ir, host
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.library import Library, MachineCode, load_code, objects, store_code, version
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.llvm.module import in_module, runs_in_one_lane
from accumulus.targets.llvm.vectors import Vectors, unless, when

#: Seconds that a compiler takes for an operation, and length, in operations, of the longest program that is compiled:
#: the compiler needs two kilobytes for each. A larger time interprets slowly for longer, a smaller one compiles
#: programs that are called a few times; a greater length may exceed the memory.
COMPILING: Final = 6e-5
LONGEST_COMPILED: Final = 1_000_000
#: Entries of a row: the operation, the slot of its result, and the slots of its arguments.
WIDTH: Final = 5

_Run = Callable[[int, int, int], None]


class BytecodeKernel(Kernel):
    """Kernel of a table of operations; every operation is rounded separately."""

    lanes: int

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        tape, dtype, cache = unit.tape, unit.dtype, unit.cache
        self._rows, slots, self._slot_count = _assembled(tape)
        self._constants = np.array(tape.constants, self.dtype)
        outputs = slots(np.array(tape.outputs, np.int64))
        self._results = [
            (outputs[indices(each.outputs)], indices(each.positions), each.length) for each in self.segments
        ]
        self.lanes = host().vector_bytes // self.dtype.itemsize
        #: Number of lanes for a single point: one if that gives the same bits as more.
        self._single = 1 if runs_in_one_lane(tape, dtype) else self.lanes
        special = tuple(sorted(code for code in set(tape.codes) if OPERATIONS[code].special))
        self._runs = {lanes: _interpreter(lanes, dtype, special, cache)[0] for lanes in (self._single, self.lanes)}
        #: Unused workspaces, by their lanes.
        self._idle: dict[int, list[NDArray[Any]]] = {lanes: [] for lanes in self._runs}
        #: Seconds that calls may take before the program is compiled, and the compiled kernel.
        self._patience = COMPILING * len(self._rows) if len(self._rows) <= LONGEST_COMPILED else float("inf")
        self._compiled: Kernel | None = None
        self._lock = Lock()

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point; see `Kernel.compute`."""
        if self._compiled is not None:
            self._compiled.compute(arguments, results)
            return
        inputs = np.concatenate([entry.reshape(-1) for entry in arguments])
        values = self._run(np.repeat(inputs.reshape(-1, 1), self._single, axis=1))
        for array, (slots, positions, length) in zip(results, self._results, strict=True):
            if len(positions) < length:
                array[:] = 0
            array[positions] = values[slots, 0]
        self._idle[self._single].append(values)

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch, a vector of points at a time."""
        if self._compiled is not None:
            return self._compiled.run(batch, first, last)
        if not batch.zeroed:
            for array in batch.out:
                array[batch.at(slice(first, last))] = 0
        for start in range(first, last, self.lanes):
            points = slice(start, min(start + self.lanes, last))
            count = points.stop - start
            inputs = np.empty((self._tape.inputs, self.lanes), self.dtype)
            at = 0
            for x, same, shape in zip(batch.arguments(points), batch.shared, self.arguments, strict=True):
                rows = slice(at, at + int(np.prod(shape, dtype=np.int64)))
                at = rows.stop
                if same:
                    inputs[rows] = x.reshape(-1, 1)
                else:
                    chosen = x.reshape(-1, count) if batch.transposed else x.reshape(count, -1).T
                    inputs[rows, :count] = chosen
                    inputs[rows, count:] = chosen[:, :1]
            values = self._run(inputs)
            for array, (slots, positions, _) in zip(batch.out, self._results, strict=True):
                if batch.transposed:
                    array[positions, points] = values[slots, :count]
                else:
                    array[points, positions] = values[slots, :count].T
            self._idle[self.lanes].append(values)
            if self._compiled is not None and points.stop < last:
                return self._compiled.run(batch, points.stop, last)
        return None

    def _run(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return a workspace after computing all operations in it."""
        lanes = inputs.shape[1]
        idle = self._idle[lanes]
        try:
            values = idle.pop()
        except IndexError:
            values = aligned((self._slot_count, lanes), self.dtype)
            values[self._tape.inputs : self._tape.inputs + len(self._constants)] = self._constants[:, None]
        values[: self._tape.inputs] = inputs
        start = time.perf_counter()
        self._runs[lanes](self._rows.ctypes.data, len(self._rows), values.ctypes.data)
        self._patience -= time.perf_counter() - start
        if self._patience < 0:
            self._compile()
        return values

    def _compile(self) -> None:
        """Compile the program, unless another thread does so."""
        with self._lock:
            if self._compiled is None:
                every = frozenset(range(self._tape.inputs, len(self._tape)))
                self._compiled = LLVMKernel(replace(self._unit, exact=every))


def _assembled(tape: Tape) -> tuple[NDArray[np.int32], Callable[[NDArray[np.int64]], NDArray[np.int64]], int]:
    """Return the table of operations, a function from references to slots, and the number of slots."""
    inputs, constants = tape.inputs, len(tape.constants)
    live = np.frombuffer(needed(tape), np.uint8)[inputs:].astype(bool)
    rows = rows_of(tape, inputs)[live]
    count = len(rows)
    index = np.full(len(tape), -1)  # number of each operation among the needed ones
    index[inputs:][live] = np.arange(count)
    arity = np.array([row.arity for row in OPERATIONS])[rows[:, 0]]
    arguments = rows[:, 1:].copy()
    is_argument = np.arange(3) < arity[:, None]
    computed = is_argument & (arguments >= inputs)
    waits_for = np.full((count, 3), -1)
    waits_for[computed] = index[arguments[computed]]
    last = np.full(count, count)
    last[waits_for[computed]] = 0
    np.maximum.at(last, waits_for[computed], np.nonzero(computed)[0])
    outputs = np.array(tape.outputs, np.int64)
    last[index[outputs[outputs >= inputs]]] = count
    state = SlotsState(
        count=count,
        arguments=waits_for.reshape(-1),
        last=last,
        slots=np.zeros(count, np.int64),
        free=np.zeros(count + 1, np.int64),
        used=inputs + constants,
    )
    used = int(kernel("targets.slots")(state.address))
    slot_of = state.slots

    def slots(references: NDArray[np.int64]) -> NDArray[np.int64]:
        indices = np.where(references < 0, inputs - 1 - references, references)
        indices[references >= inputs] = slot_of[index[references[references >= inputs]]]
        return indices

    table = np.zeros((count, WIDTH), np.int32)
    table[:, 0], table[:, 1] = rows[:, 0], slot_of
    table[:, 2:][is_argument] = slots(arguments[is_argument])
    return table, slots, used


def _operation(code: int, vectors: Vectors, functions: Functions) -> None:
    """Write the instructions of one operation on the slots that a row names."""
    row = OPERATIONS[code]
    tape = Tape(row.arity)
    zero = tape.constant(0.0)
    arguments = [  # truth values are stored as numbers
        tape.apply("not_equal", k, zero) if kind == "boolean" else k for k, kind in enumerate(row.arguments)
    ]
    result = tape.apply_code(code, arguments)

    def load(variable: int) -> dict[int, str]:
        return {variable: vectors.load(_slot(vectors, 2 + variable), 0)}

    instructions = Instructions(tape, vectors, load, functions)
    for reference in range(tape.inputs, len(tape)):
        instructions.operation(reference)
    value = instructions.value(result)
    if row.result == "boolean":
        value = vectors.let(f"uitofp {vectors.mask} {value} to {vectors.type}")
    vectors.store(value, _slot(vectors, 1), 0)


def _slot(v: Vectors, field: int) -> str:
    """Return the pointer to the slot that a field of the row names."""
    number = v.let(f"getelementptr i32, ptr %row, i64 {field}")
    slot = v.let(f"load i32, ptr {number}, align 4")
    return v.let(f"getelementptr {v.type}, ptr %w, i32 {slot}")


def _text(lanes: int, dtype: str, special: tuple[int, ...]) -> tuple[list[str], Functions]:
    functions = Functions(lanes, dtype)
    vectors = Vectors(lanes, dtype)
    codes = [row.code for row in OPERATIONS if row.code != INPUT and (row.code in special or not row.special)]
    for code in codes:
        vectors.lines.append(f"case{code}:")
        _operation(code, vectors, functions)
        vectors.lines.append("br label %next")
    lines = [
        'define void @run(ptr %rows, i64 %count, ptr %w) nounwind "prefer-vector-width"="512" {',
        "start:",
        *when("some", "icmp sgt i64 %count, 0", "loop", "done"),
        "%k = phi i64 [ 0, %start ], [ %after, %next ]",
        f"%begin = mul i64 %k, {WIDTH}",
        "%row = getelementptr i32, ptr %rows, i64 %begin",
        "%code = load i32, ptr %row, align 4",
        f"switch i32 %code, label %next [ {' '.join(f'i32 {code}, label %case{code}' for code in codes)} ]",
        *vectors.lines,
        "next:",
        "%after = add i64 %k, 1",
        *unless("more", "icmp slt i64 %after, %count", "loop", "done"),
        "ret void",
        "}",
    ]
    return [*functions.text(), *lines], functions


@cache
def _interpreter(lanes: int, dtype: str, special: tuple[int, ...], cached: bool) -> tuple[_Run, Library]:
    """Return the function that runs tables of operations, with the special functions named, and its library."""
    key = digest_of_parts([version(), b"bytecode", repr((lanes, dtype, special)).encode()])
    code = load_code(key) if cached else None
    if code is None:
        lines, functions = _text(lanes, dtype, special)
        code = MachineCode(((compile_ir(in_module(lines)), ()),), tuple(sorted(functions.imported)), {})
        if cached:
            store_code(key, code)
    library = Library(code, ["run"], objects(np.dtype(dtype)))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return prototype(library.addresses["run"]), library
