"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

A body is compiled once for the kinds of columns that it takes, whatever their lengths and places: the addresses of
operands, of tables of indices and of results are given with each call. Results that other loops take are in one
array of numbers, the workspace; what is returned is stored in the arrays that are returned, where that can be.

Sums are loops of their own; terms of a sum are added lane by lane, and the lanes at the end. Recurrences are computed
step by step: lanes where a step has instances enough, and narrow steps in one call, one instance after the other. One
function, which is handed a table of calls, calls all loops; of long loops several threads may compute a part each.
Products of matrices are BLAS's, between loops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.cache import digest
from accumulus.errors import SizeError
from accumulus.tape.blocks import BlockTape
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.live import as_written, time_of
from accumulus.tape.operations import SECONDS
from accumulus.tape.tape import Tape, to_bytes
from accumulus.targets.kernel import FEWEST_POINTS, MINIMUM_WORK, MOVING, CompiledLoops, Unit, pool
from accumulus.targets.llvm.host import compile_modules, host
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.library import Code, Library, load, objects, store, version
from accumulus.targets.llvm.module import Text
from accumulus.targets.llvm.vectors import POISON, Vectors
from accumulus.targets.nests import Entries, MatrixProduct, Nest, Nests, Place

# Functions: one a body, one for sums, and what calls them in their order ----------------------------------------------

#: Functions that sum terms that lie next to each other, and that find them by a table.
SUMS: Final = ("sums_next", "sums_table")
#: The function that makes calls, each a row of four words: function, addresses, first instance, the one after the last.
DRIVER: Final = "run"
#: How the instances of a body find an operand: next to each other, backwards, the same for all, or by a table.
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
UNIFORM: Final = "uniform"
TABLE: Final = "table"
#: A result of which each instance has a place of its own, by a table.
SCATTERED: Final = "scattered"
#: Of every function: where the addresses are, the first instance, and the one after the last.
ARGUMENTS: Final = "ptr %at, i64 %first, i64 %stop"


def kind_of(operands: Column) -> str:
    """Kind of address by which the instances of a body find an operand."""
    if isinstance(operands, Range):
        return {1: FORWARD, -1: BACKWARD, 0: UNIFORM}[operands.step]
    return TABLE


class _Leaves:
    """Writes the loads of a body's inputs; a layout, as `Instructions` takes one."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Start a function."""
        self._vectors = vectors

    def load(self, variable: int) -> dict[int, str]:
        """The vector of one input."""
        v, kind = self._vectors, self._kinds[variable]
        if kind == UNIFORM:
            return {variable: v.splat(f"%p{variable}", 0)}
        if kind == FORWARD:
            at = v.let(f"getelementptr double, ptr %p{variable}, i64 %i")
            return {variable: v.load(at, 0)}
        if kind == BACKWARD:
            back = v.let(f"sub i64 {1 - v.lanes}, %i")
            at = v.let(f"getelementptr double, ptr %p{variable}, i64 {back}")
            loaded = v.load(at, 0)
            reverse = ", ".join(f"i32 {k}" for k in reversed(range(v.lanes)))
            return {
                variable: v.let(f"shufflevector {v.type} {loaded}, {v.type} {POISON}, <{v.lanes} x i32> <{reverse}>")
            }
        table = v.let(f"getelementptr i32, ptr %p{variable}, i64 %i")
        if v.lanes == 1:
            index = v.let(f"load i32, ptr {table}, align 4")
            at = v.let(f"getelementptr double, ptr %w, i32 {index}")
            return {variable: v.load(at, 0)}
        indices = v.let(f"load <{v.lanes} x i32>, ptr {table}, align 4")
        places = v.let(f"getelementptr double, ptr %w, <{v.lanes} x i32> {indices}")
        every = ", ".join(["i1 true"] * v.lanes)
        return {
            variable: v.let(
                f"call {v.type} @llvm.masked.gather.v{v.lanes}f64.v{v.lanes}p0(<{v.lanes} x ptr> {places}, i32 8, "
                f"<{v.lanes} x i1> <{every}>, {v.type} {POISON})"
            )
        }


@dataclass(frozen=True, slots=True)
class Body:
    """Code that is compiled once for all loops over one body."""

    name: str  # of the function
    tape: Tape  # of one instance
    kinds: tuple[str, ...]  # how operands are found
    stores: tuple[str, ...]  # how results are stored
    sensitive: int  # how many of these, the first, are computed as they stand

    def written(self, vectors: Vectors, leaves: Any, functions: Functions) -> tuple[list[str], list[str]]:
        """Write the operations of instances: the loads of addresses, and the names of results."""
        body = self.tape
        exact = frozenset(reference for reference, mark in enumerate(as_written(body, self.sensitive)) if mark)
        instructions = Instructions(body, vectors, leaves, functions, {}, contract=True, exact=exact)
        for reference in range(body.inputs, len(body)):
            instructions.operation(reference)
        results = []
        for output in body.outputs:
            value = instructions.value(output)
            if body.is_boolean(output):
                value = vectors.let(f"uitofp {vectors.mask} {value} to {vectors.type}")
            results.append(value)
        pointers = [f"p{k}" for k in range(body.inputs)] + [f"r{k}x" for k in range(len(body.outputs))]
        pointers += [f"t{k}x" for k, kind in enumerate(self.stores) if kind == SCATTERED]
        opening = ["%w = load ptr, ptr %at"]
        for k, pointer in enumerate(pointers, 1):
            opening += [f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}"]
        return opening, results


def _loop(given: Body, functions: Functions) -> list[str]:
    """A function that computes instances, as many as a vector has lanes or more; the last vector may overlap."""
    vectors = Vectors(functions.lanes, "float64")
    opening, results = given.written(vectors, _Leaves(given.kinds), functions)
    for k, value in enumerate(results):
        _store(vectors, given.stores[k], k, value)
    lanes = functions.lanes
    return [
        f'define void @{given.name}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        f"%last = sub i64 %stop, {lanes}",
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %start ], [ %following, %next ]",
        *vectors.lines,
        "br label %next",
        "next:",
        # the last vector begins where it ends with the last instance; those computed twice have the same results
        f"%on = add i64 %i, {lanes}",
        "%beyond = icmp sgt i64 %on, %last",
        "%following = select i1 %beyond, i64 %last, i64 %on",
        "%over = icmp eq i64 %i, %last",
        "br i1 %over, label %done, label %loop",
        "done:",
        "ret void",
        "}",
    ]


def _store(vectors: Vectors, kind: str, k: int, value: str) -> None:
    """Store the vector of one result."""
    v = vectors
    if kind == FORWARD:
        v.store(value, v.let(f"getelementptr double, ptr %r{k}x, i64 %i"), 0)
        return
    table = v.let(f"getelementptr i32, ptr %t{k}x, i64 %i")
    indices = v.let(f"load <{v.lanes} x i32>, ptr {table}, align 4")
    for lane in range(v.lanes):
        index = v.let(f"extractelement <{v.lanes} x i32> {indices}, i32 {lane}")
        at = v.let(f"getelementptr double, ptr %r{k}x, i32 {index}")
        entry = v.let(f"extractelement {v.type} {value}, i32 {lane}")
        v.lines.append(f"store double {entry}, ptr {at}, align 8")


def _sums(name: str, lanes: int, table: bool) -> list[str]:
    """A function that sums segments: of terms next to each other, or found by a table."""
    v = f"<{lanes} x double>"
    if table:
        several = [
            "%t = getelementptr i32, ptr %terms, i64 %j",
            f"%x = load <{lanes} x i32>, ptr %t, align 4",
            f"%p = getelementptr double, ptr %w, <{lanes} x i32> %x",
            f"%y = call {v} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr> %p, i32 8, "
            f"<{lanes} x i1> <{', '.join(['i1 true'] * lanes)}>, {v} poison)",
        ]
    else:
        several = ["%p = getelementptr double, ptr %terms, i64 %j", f"%y = load {v}, ptr %p, align 8"]
    joined, left, half = [], "%sum0.next", lanes // 2
    while half:  # the order is written out, so that it is the same everywhere: one half to the other
        whole = f"<{2 * half} x double>"
        for part, first in (("low", 0), ("high", half)):
            chosen = ", ".join(f"i32 {k}" for k in range(first, first + half))
            joined.append(f"%{part}{half} = shufflevector {whole} {left}, {whole} poison, <{half} x i32> <{chosen}>")
        joined.append(f"%left{half} = fadd <{half} x double> %low{half}, %high{half}")
        left, half = f"%left{half}", half // 2
    joined.append(f"%left = extractelement <1 x double> {left}, i32 0")
    wide = [*several, f"%sum0.next = fadd {v} %sum0, %y"]
    return summing(name, "double", lanes, [v], wide, joined, term("double", "oy", "%k", table))


def term(kind: str, name: str, index: str, table: bool) -> list[str]:
    """Load the term of an index, a number or the vector of many points."""
    found = [f"%{name}.p = getelementptr {kind}, ptr %terms, i64 {index}"]
    if table:
        found = [
            f"%{name}.t = getelementptr i32, ptr %terms, i64 {index}",
            f"%{name}.x = load i32, ptr %{name}.t, align 4",
            f"%{name}.p = getelementptr {kind}, ptr %w, i32 %{name}.x",
        ]
    return [*found, f"%{name} = load {kind}, ptr %{name}.p, align 8"]


def summing(
    name: str, kind: str, step: int, partial: Sequence[str], wide: list[str], joined: list[str], one: list[str]
) -> list[str]:
    """A function that sums segments: so many terms in a turn, as partial sums, then the others one by one.

    Args:
        kind: of a sum, a number or the vector of many points.
        step: terms of a turn.
        partial: kinds of the partial sums, ``%sum0``, ``%sum1``, ….
        wide: adds the terms from ``%j`` on to these, as ``%sum0.next``, ….
        joined: adds these up, as ``%left``.
        one: loads term ``%k``, as ``%oy``.
    """
    pointers = [
        line
        for k, pointer in enumerate(("terms", "offsets", "results"), 1)
        for line in (f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}")
    ]
    return [
        f'define void @{name}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        "%w = load ptr, ptr %at",
        *pointers,
        "br label %segment",
        "segment:",
        "%s = phi i64 [ %first, %start ], [ %s.next, %closed ]",
        "%o = getelementptr i64, ptr %offsets, i64 %s",
        "%begin = load i64, ptr %o",
        "%s.next = add i64 %s, 1",
        "%o.next = getelementptr i64, ptr %offsets, i64 %s.next",
        "%end = load i64, ptr %o.next",
        "%length = sub i64 %end, %begin",
        f"%whole = and i64 %length, {-step}",
        "%vectors.end = add i64 %begin, %whole",
        "%some = icmp ne i64 %whole, 0",
        "br i1 %some, label %wide, label %narrow",
        "wide:",
        "%j = phi i64 [ %begin, %segment ], [ %j.next, %wide ]",
        *(f"%sum{k} = phi {v} [ zeroinitializer, %segment ], [ %sum{k}.next, %wide ]" for k, v in enumerate(partial)),
        *wide,
        f"%j.next = add i64 %j, {step}",
        "%more = icmp slt i64 %j.next, %vectors.end",
        "br i1 %more, label %wide, label %joined",
        "joined:",
        *joined,
        f"%joint = fadd {kind} zeroinitializer, %left",
        "br label %narrow",
        "narrow:",
        f"%before = phi {kind} [ zeroinitializer, %segment ], [ %joint, %joined ]",
        "%rest = icmp slt i64 %vectors.end, %end",
        "br i1 %rest, label %single, label %closed",
        "single:",
        "%k = phi i64 [ %vectors.end, %narrow ], [ %k.next, %single ]",
        f"%so.far = phi {kind} [ %before, %narrow ], [ %so.next, %single ]",
        *one,
        f"%so.next = fadd {kind} %so.far, %oy",
        "%k.next = add i64 %k, 1",
        "%further = icmp slt i64 %k.next, %end",
        "br i1 %further, label %single, label %closed",
        "closed:",
        f"%total = phi {kind} [ %before, %narrow ], [ %so.next, %single ]",
        f"%r = getelementptr {kind}, ptr %results, i64 %s",
        f"store {kind} %total, ptr %r, align 8",
        "%ends = icmp eq i64 %s.next, %stop",
        "br i1 %ends, label %done, label %segment",
        "done:",
        "ret void",
        "}",
    ]


def driver() -> list[str]:
    """A function that makes so many calls one after the other, each a row: function, addresses, instances."""
    return [
        f"define void @{DRIVER}(ptr %calls, i64 %count) nounwind {{",
        "start:",
        "%some = icmp sgt i64 %count, 0",
        "br i1 %some, label %call, label %done",
        "call:",
        "%k = phi i64 [ 0, %start ], [ %k.next, %call ]",
        "%row = getelementptr { ptr, ptr, i64, i64 }, ptr %calls, i64 %k",
        "%words = load { ptr, ptr, i64, i64 }, ptr %row, align 8",
        *(f"%word{k} = extractvalue {{ ptr, ptr, i64, i64 }} %words, {k}" for k in range(4)),
        "call void %word0(ptr %word1, i64 %word2, i64 %word3)",
        "%k.next = add i64 %k, 1",
        "%more = icmp slt i64 %k.next, %count",
        "br i1 %more, label %call, label %done",
        "done:",
        "ret void",
        "}",
    ]


def compiled(bodies: Sequence[Body], lanes: int, cache: bool) -> Library:
    """Loops over bodies, loops of sums, and what calls them all."""
    functions = Functions(lanes, "float64")

    def others() -> tuple[list[str], list[str]]:
        vector = f"<{lanes} x double>"
        gather = f"{vector} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {vector})"
        sums = [*_sums(SUMS[0], lanes, table=False), *_sums(SUMS[1], lanes, table=True)]
        return [f"declare {gather}"], [*sums, *driver()]

    return library_of("maps", bodies, functions, lambda body: _loop(body, functions), cache, SUMS, others)


def library_of(
    kind: str,
    bodies: Sequence[Body],
    functions: Functions,
    loop: Callable[[Body], list[str]],
    cache: bool,
    sums: Sequence[str],
    others: Callable[[], tuple[list[str], list[str]]],
) -> Library:
    """Compile a function for each body, and what is beside them, or take them from the cache.

    Args:
        kind: of functions, which the cache tells apart.
        functions: that they call.
        loop: what is written for a body.
        sums: names of the functions that sum.
        others: declarations, and functions that no body has.
    """
    parts = [
        repr((functions.lanes, [(body.name, body.kinds, body.stores, body.sensitive) for body in bodies])).encode()
    ]
    parts += [to_bytes(body.tape) for body in bodies]
    key = digest([version(), kind.encode(), *parts])
    code = load(key) if cache else None
    if code is None:
        loops = {body.name: loop(body) for body in bodies}
        declarations, beside = others()
        images = compile_modules(Text([*functions.text(), *declarations], loops, beside).modules())
        code = Code(images, tuple(sorted(functions.imported)), {})
        if cache:
            store(key, code)
    return Library(code, [*(body.name for body in bodies), *sums, DRIVER], objects(np.dtype(float)))


# Where numbers are while a program runs: in one array, the workspace --------------------------------------------------

#: Numbers in the workspace, at most: tables of indices have 32 bits.
MOST: Final = 2**31
#: References that are looked at at once.
PART: Final = 1 << 16


class WorkspaceLayout:
    """A zero, constants, the last first, inputs, then the results that are kept, in their order.

    Args:
        tape: the program; -1 - the number of constants stands for the zero.
        kept: how many results follow from some references on; nobody asks for the places of others.

    Attributes:
        first: place of the first input.
        size: of the workspace.

    Raises:
        SizeError: if it has too many numbers.
    """

    def __init__(self, tape: BlockTape, kept: Mapping[int, int]) -> None:
        counts = np.array([kept[start] for start in sorted(kept)], np.int64)
        self._starts = np.array([0, *sorted(kept)], np.int64)
        self.first = 1 + len(tape.constants)
        places = self.first + tape.inputs + np.cumsum(counts) - counts
        #: What is added to references from each start on.
        self._shifts = np.concatenate([[self.first], places - self._starts[1:]])
        self.size = self.first + tape.inputs + int(counts.sum())
        if self.size >= MOST:
            raise SizeError(f"{self.size:,} numbers between loops; index tables have room for {MOST:,}")

    def place(self, reference: int) -> int:
        """Place of the value of a reference."""
        return reference + int(self._shifts[self._owner(reference)])

    def table(self, operands: Column) -> NDArray[np.int32] | None:
        """Places of the values of a column; None for ranges, whose values are next to each other, too."""
        if isinstance(operands, Range):
            return None
        table = np.empty(len(operands), np.int32)
        for first in range(0, len(operands), PART):
            part = operands[first : first + PART]
            low, high = self._owner(int(part.min())), self._owner(int(part.max()))
            if low == high:
                shifts = self._shifts[low]
            else:
                shifts = self._shifts[np.maximum(np.searchsorted(self._starts, part, side="right") - 1, 0)]
            np.add(part, shifts, out=table[first : first + PART], casting="unsafe")
        return table

    def _owner(self, reference: int) -> int:
        return max(int(np.searchsorted(self._starts, reference, side="right")) - 1, 0)


# Programs -------------------------------------------------------------------------------------------------------------

#: Bytes of a row in the table of calls.
ROW: Final = 32
#: Seconds to find a number by a table, roughly.
FINDING: Final = 6e-10

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Calls of a loop, or a product of matrices."""

    function: str  # its name; of products none
    nest: Nest  # what it computes
    seconds: float  # that it takes, roughly

    def parts(self, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """First instance, and the one after the last, of each call, (calls, 2); which calls are of vectors.

        There is one for all instances, or one for each wide step and each stretch of narrow ones.
        """
        steps = np.array([0, self.nest.count]) if self.nest.steps is None else self.nest.steps
        wide = np.diff(steps) >= lanes
        begins = wide.copy()
        begins[1:] |= wide[:-1]
        begins[0] = True
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], len(wide))
        return np.stack([steps[firsts], steps[ends]], axis=1), wide[firsts]

    def shares(self, threads: int) -> NDArray[np.int64]:
        """Calls for threads, as many as are worth it, each of which makes one call; one share if that is none."""
        wanted = min(threads, int(self.seconds / MINIMUM_WORK), self.nest.count // FEWEST_POINTS)
        bounds = [0, self.nest.count]
        if wanted > 1 and self.nest.steps is None:
            parts = np.arange(1, wanted) / wanted
            if self.nest.offsets is None:
                ends = (parts * self.nest.count).astype(np.int64)
            else:
                ends = np.searchsorted(self.nest.offsets, parts * self.nest.offsets[-1])
            # whole cache lines of results each; a share has as many instances as a vector has lanes, or it is none
            ends -= ends % FEWEST_POINTS
            bounds = sorted({0, *ends.tolist(), self.nest.count})
            if bounds[-1] - bounds[-2] < FEWEST_POINTS and len(bounds) > 2:
                del bounds[-2]
        return np.array(list(pairwise(bounds)))


class LLVMLoops(CompiledLoops):
    """A program over arrays as machine code.

    Raises:
        SizeError: if there are too many numbers between loops.
    """

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self._constants = unit.tape.constants[::-1]
        nests = Nests(unit)
        self.cleared = nests.cleared
        self._layout = WorkspaceLayout(unit.tape, nests.kept)
        self._bodies: dict[object, Body] = {}
        self._steps: list[_Step] = []
        for nest in nests.every:
            self._add(nest)
        self._lanes = host().vector_bytes // 8
        # functions of vectors, and of one lane where there are fewer instances than a vector has lanes
        self._libraries: dict[bool, Library] = {}
        for is_wide, width in ((True, self._lanes), (False, 1)):
            loops = [step for step in self._steps if step.nest.shape is None]
            wanted = {step.function for step in loops if (step.parts(self._lanes)[1] == is_wide).any()}
            if wanted:
                bodies = [body for body in self._bodies.values() if body.name in wanted]
                self._libraries[is_wide] = compiled(bodies, width, unit.cache)
        self._run: Any = None
        for library in self._libraries.values():
            self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses[DRIVER])
        self._tables = {id(column): self._layout.table(column) for step in self._steps for column in step.nest.loads}
        self._products = {k: self._product(step) for k, step in enumerate(self._steps) if step.nest.shape is not None}
        self._idle: list[_Workspace] = []

    # What is called -------------------------------------------------------------------------------------------------

    def _add(self, nest: Nest) -> None:
        if nest.body is not None:
            kinds = tuple(map(kind_of, nest.loads))
            stores = (FORWARD if nest.positions is None else SCATTERED,) * len(nest.stores)
            key = (to_bytes(nest.body), kinds, stores, nest.sensitive)
            name = f"map{len(self._bodies)}"
            known = self._bodies.setdefault(key, Body(name, nest.body, kinds, stores, nest.sensitive))
            moving = sum(MOVING if isinstance(column, Range) else FINDING for column in nest.loads)
            moving += MOVING * len(nest.stores)
            self._steps.append(_Step(known.name, nest, nest.count * (SECONDS * time_of(nest.body) + moving)))
        elif nest.shape is not None:
            self._steps.append(_Step("", nest, 0.0))
        else:
            (terms,) = nest.loads
            is_next = isinstance(terms, Range) and terms.step == 1
            if not is_next:
                nest = replace(nest, loads=(references_in(terms),))
            seconds = len(terms) * (SECONDS + (MOVING if is_next else FINDING))
            self._steps.append(_Step(SUMS[not is_next], nest, seconds))

    def _product(self, step: _Step) -> MatrixProduct:
        assert step.nest.shape is not None
        left, right = map(self._places, step.nest.loads)
        constant = [bool((references_in(operands) < 0).all()) for operands in step.nest.loads]
        return MatrixProduct(step.nest.shape, left, right, constant)

    def _places(self, operands: Column) -> Entries:
        if isinstance(operands, Range):
            return self._layout.place(operands.start), operands.step
        table = self._tables[id(operands)]
        assert table is not None
        return table

    # Calls -------------------------------------------------------------------------------------------------------

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int = 1) -> None:
        """Compute one point, see `accumulus.targets.kernel.CompiledLoops`."""
        workspace = self._idle.pop() if self._idle else self._workspace()
        at = self._layout.first
        for argument in arguments:
            end = at + argument.size
            workspace.values[at:end] = argument.reshape(-1)
            at = end
        for place, segment, offset in workspace.returned:
            workspace.addresses[place] = _address(results[segment]) + offset
        for calls, rows, together in workspace.stages(self, threads):
            if not rows:
                workspace.products[calls](results)
            elif together:
                others = [pool().submit(self._run, calls + ROW * row, 1) for row in range(1, rows)]
                self._run(calls, 1)
                for other in others:
                    other.result()
            else:
                self._run(calls, rows)
        self._idle.append(workspace)

    def _workspace(self) -> _Workspace:
        values = np.zeros(self._layout.size)
        values[1 : self._layout.first] = self._constants
        base = _address(values)
        addresses: list[int] = []
        begins: list[int] = []
        returned: list[tuple[int, int, int]] = []
        products: dict[int, Callable[[Sequence[Floats]], None]] = {}
        for k, step in enumerate(self._steps):
            begins.append(len(addresses))
            if k in self._products:
                products[k] = self._products[k].bind(values, self._target(values, step))
                continue
            words, places = self._addresses(step.nest, base)
            returned += [(len(addresses) + at, place.segment, 8 * place.offset) for at, place in places]
            addresses += words
        return _Workspace(values, np.array(addresses, np.int64), begins, returned, products, {})

    def _addresses(self, nest: Nest, base: int, size: int = 8) -> tuple[list[int], list[tuple[int, Place]]]:
        """The addresses that a loop is given, those of the arrays that are returned still 0; and which these are.

        Args:
            base: address of the workspace.
            size: bytes of a number in it.
        """
        words, places = [base], []
        for operands in nest.loads:
            table = self._tables[id(operands)]
            if table is None:
                assert isinstance(operands, Range)
                words.append(base + size * self._layout.place(operands.start))
            else:
                words.append(_address(table))
        if nest.offsets is not None:
            words.append(_address(nest.offsets))
        for result in nest.stores:
            if isinstance(result, Place):
                places.append((len(words), result))
                words.append(0)
            else:
                words.append(base + size * self._layout.place(result))
        if nest.positions is not None:
            words.append(_address(nest.positions))
        return words, places

    def _target(self, values: Floats, step: _Step) -> Callable[[Sequence[Floats]], Floats]:
        """Function that finds the memory a product goes to, given the arrays that are returned."""
        ((result,), size) = step.nest.stores, step.nest.count
        if isinstance(result, Place):
            segment, place = result.segment, slice(result.offset, result.offset + size)
            return lambda results: results[segment][place]
        kept = values[self._layout.place(result) :][:size]
        return lambda results: kept

    def calls(self, workspace: _Workspace, threads: int) -> tuple[NDArray[np.int64], list[tuple[int, int, bool]]]:
        """The table of calls, and stretches of it: address, number of rows, and whether they are made together.

        Products of matrices are stretches of no rows, with the number of the step in the place of an address.
        """
        tables: list[NDArray[np.int64]] = []
        stages: list[tuple[int, int, bool]] = []
        first = _address(workspace.addresses)
        done = 0
        for k, (step, begin) in enumerate(zip(self._steps, workspace.begins, strict=True)):
            if k in self._products:
                stages.append((k, 0, False))
                continue
            parts, wide = step.parts(self._lanes)
            shares = step.shares(threads)
            together = len(shares) > 1
            if together:
                parts, wide = shares, np.ones(len(shares), bool)
            table = np.empty((len(parts), ROW // 8), np.int64)
            for is_wide, library in self._libraries.items():
                table[wide == is_wide, 0] = library.addresses.get(step.function, 0)
            table[:, 1], table[:, 2:] = first + 8 * begin, parts
            tables.append(table)
            if stages and not together and stages[-1][1] and not stages[-1][2]:
                stages[-1] = (stages[-1][0], stages[-1][1] + len(parts), False)
            else:
                stages.append((done, len(parts), together))
            done += len(parts)
        calls = np.concatenate(tables) if tables else np.empty((0, ROW // 8), np.int64)
        at = _address(calls)
        return calls, [(at + ROW * row if count else row, count, together) for row, count, together in stages]


@dataclass(frozen=True, slots=True)
class _Workspace:
    """Memory of one call."""

    values: Floats  # the workspace
    addresses: NDArray[np.int64]  # that loops are given
    begins: list[int]  # where in them those of each step begin
    # which of them are in arrays that are returned: position, segment, and bytes from its beginning
    returned: list[tuple[int, int, int]]
    products: dict[int, Callable[[Sequence[Floats]], None]]  # of matrices, by the numbers of their steps
    tables: dict[int, tuple[NDArray[np.int64], list[tuple[int, int, bool]]]]  # of calls, by the number of threads

    def stages(self, loops: LLVMLoops, threads: int) -> list[tuple[int, int, bool]]:
        """Stretches of the table of calls, see `LLVMLoops.calls`."""
        found = self.tables.get(threads)
        if found is None:
            found = self.tables[threads] = loops.calls(self, threads)
        return found[1]


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
