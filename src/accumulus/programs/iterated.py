"""Loops over arrays as calls: the program of one iteration is compiled, and run again and again.

A loop of many iterations over long arrays has too many blocks to be differentiated one by one. `with_loops` replaces it
by a call of a `LoopCall`, whose iteration is a compiled program. Products with its Jacobian are calls, too: `Forward`
runs products of an iteration along the carries; `Backward` runs the gradient of an iteration backward through the
carries, which a run forward has stored. All these calls can be written as blocks again, for source text and files. A
gradient that is differentiated again calls the iterations backward as a loop of its own, with the same products.

Source: A. Griewank and A. Walther, Evaluating Derivatives, 2008 (reverse mode of evolutions).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, together
from accumulus.options import Options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import has_attached, loop_nest
from accumulus.programs.derived import derived
from accumulus.programs.kinds import COMPILED, GRADIENT, JVP, DerivativeKind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.repetition import iterations
from accumulus.tape.blocks import Opaque
from accumulus.tape.columns import column, references_in
from accumulus.tape.interpreter import outputs_at
from accumulus.tape.moving import expanded, replayed
from accumulus.tape.program import Program
from accumulus.targets.kernel import CallRows, reused

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
T = TypeVar("T", np.float64, np.int64)
#: Largest number of directions or weights for which iterations run, once for each. With more, calls of the loops take
#: longer than operations that are written out; with fewer, these operations take longer to prepare.
MOST_FACTORS: Final = 16
#: Steps of the differences that products are compared with, relative to the arguments; agreement at one is enough. The
#: tolerances are relative to the magnitudes that are added, and, for rounding, to the results. Larger tolerances accept
#: wrong products, smaller ones write out iterations whose products are right.
STEPS: Final = (1e-5, 1e-7)
TRUNCATION, ROUNDING = 1e-4, 1e-12
#: Relative tolerance for products by runs forward and backward, to the terms that are added: a larger one accepts wrong
#: products, a smaller one writes out iterations whose rounding grows.
BOTH_WAYS: Final = 1e-7
#: Relative tolerance for the equality of values: a larger one accepts other values, a smaller one writes out iterations
#: that differ by rounding alone.
CLOSE: Final = 1e-9


def with_loops(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation
) -> Recording | None:
    """Return the recording with a call in place of its longest loop; None if there is none, or derivatives need more.

    Values are compared with those of the recording at the points of the preparation, and products with weights with
    differences.
    """
    program, points = recording.program, preparation.points
    if points is None or not suits(recording, kind, selection, preparation.options):
        return None
    is_backward = _is_backward(recording, kind, selection)
    with preparation.stage("trace"):
        if has_repeated(program):
            made, loops = _with_calls(program, preparation.options, is_backward)
        else:
            repeated = iterations.iterations_of(program)
            if repeated is None:
                return None
            loops = [LoopCall.of(repeated, preparation.options, is_backward)]
            made = iterations.with_call(program, repeated, loops[0])
        made = _bound(made)
    with preparation.stage("plan"):
        one, other = (outputs_at(each, points) for each in (made, program))
        size = np.abs(other[np.isfinite(other)]).max(initial=0.0)
        if not np.allclose(one, other, rtol=CLOSE, atol=CLOSE * size, equal_nan=True):
            return None
        for loop in loops:
            example = loop.forget()
            assert example is not None
            loop.example = example
    return replace(recording, program=made)


def has_repeated(program: Program) -> bool:
    """Return True if a program calls loops that are interpreted, as they are recorded."""
    return any(type(each) is iterations.Repeated for each in program.calls)


def without_repeated(recording: Recording) -> Recording:
    """Return a recording with the iterations of recorded loops as blocks."""
    if not has_repeated(recording.program):
        return recording
    return replace(recording, program=expanded(recording.program))


def _with_calls(program: Program, options: Options, is_backward: bool) -> tuple[Program, list[LoopCall]]:
    """Return a program with compiled loops in place of those that are interpreted, and the loops."""
    blocks, loops = [], []
    for block in program.blocks:
        loop = block.opaque
        if type(loop) is iterations.Repeated:
            used = loop.every, loop.final
            loops.append(LoopCall(loop.body, loop.count, loop.sizes, used, options, is_backward))
            blocks.append(replace(block, opaque=loops[-1]))
        else:
            blocks.append(block)
    made = Program.of_blocks(program.inputs, program, blocks, program.lines)
    made.outputs = program.outputs
    return made, loops


def _bound(program: Program) -> Program:
    """Return a program in which constants are no arguments of loops, but part of them."""
    blocks = list(program.blocks)
    for k, block in enumerate(blocks):
        if not isinstance(block.opaque, LoopCall):
            continue
        condition, *arguments = np.split(references_in(block.operands[0]), [1])
        constant = arguments[0] < 0
        if constant.any():
            block.opaque.bind(constant, program.values_of(arguments[0][constant]))
            left = np.concatenate([condition, arguments[0][~constant]])
            shape = 1, len(left), block.opaque.result_count
            blocks[k] = replace(block, operands=(column(left),), shape=shape)
    made = Program.of_blocks(program.inputs, program, blocks, program.lines)
    made.outputs = program.outputs
    return made


def gradient_by_loops(
    recording: Recording, kind: DerivativeKind, first: DerivativeKind, selection: Selection, preparation: Preparation
) -> Recording | None:
    """Return the gradient of a recording as calls of loops, to be differentiated along directions; None without loops.

    Raises:
        SizeError: if it has to be written out.
    """
    if kind.seeds is not Seeds.TANGENTS or selection.seed_count > MOST_FACTORS:
        return None
    if has_attached(recording.program):
        return None
    calling = with_loops(recording, first, selection, preparation)
    if calling is None:
        return None
    gradient = derived(calling, first, selection.whole, preparation, in_loops=True, by_products=True)
    return replace(gradient, program=expanded(gradient.program, "reopen"))


def suits(recording: Recording, kind: DerivativeKind, selection: Selection, options: Options) -> bool:
    """Return True if derivatives of this kind need few products with the Jacobian."""
    if options.target != "llvm" or options.dtype != "float64" or options.exact_order or kind.first is not None:
        return False
    if kind.factored or kind.seeds is Seeds.SERIES or selection.places is not None:
        return False
    if options.sparse is not None:  # a call's Jacobian counts as full
        return False
    if kind.has_seeds:
        return selection.seed_count <= MOST_FACTORS
    return not kind.derivatives or min(recording.results, _columns(recording, selection)) <= MOST_FACTORS


def _is_backward(recording: Recording, kind: DerivativeKind, selection: Selection) -> bool:
    """Return True if derivatives take fewer products with weights than with directions."""
    if kind.has_seeds:
        return kind.seeds is Seeds.COTANGENTS
    return recording.results <= _columns(recording, selection)


def _columns(recording: Recording, selection: Selection) -> int:
    return sum(math.prod(recording.argument_shapes[k] or ()) for k in selection.positions)


class _Called:
    """A function from one flat array to another that programs call, see `accumulus.tape.blocks.Opaque`.

    Arguments and results may have a further axis, of points in the lanes of vectors.
    """

    name: str
    argument_count: int
    result_count: int

    def computed(self, numbers: Floats) -> Floats:
        """Return the results for arguments."""
        raise NotImplementedError

    def __call__(self, numbers: Floats) -> Floats:
        """Return the results if the condition, the first number, holds; else NaN."""
        if not numbers[0]:
            return np.full(self.result_count, np.nan)
        return self.computed(np.ascontiguousarray(numbers[1:]))

    def in_lanes(self, numbers: Floats) -> Floats:
        """Return the results of points in lanes, (results, points), for (1 + arguments, points)."""
        results = self.computed(numbers[1:])
        results[:, numbers[0] == 0.0] = np.nan
        return results

    @property
    def repeated(self) -> list[CompiledProgram]:
        """The compiled programs that it repeats."""
        raise NotImplementedError

    @property
    def fills_lanes(self) -> bool:
        """True if several points can be computed together."""
        return all(each.kernel.fills_lanes for each in self.repeated)

    @property
    def numbers_kept(self) -> int:
        """Number of numbers that a run keeps for each point."""
        return self.argument_count + self.result_count

    @property
    def text(self) -> int:
        """Number of operations in the programs that it repeats."""
        return sum(each.tape.text for each in self.repeated)

    @property
    def derivative(self) -> Opaque:
        """The whole Jacobian, see `derivative_by`."""
        return self.derivative_by(tuple(range(self.argument_count)))

    def derivative_by(self, columns: tuple[int, ...]) -> Opaque:
        """Return the function of some columns of the Jacobian.

        Raises:
            SizeError: if it has too many rows.
        """
        raise SizeError(f"the Jacobian of {self.name} is not formed; expected products with a few rows of weights")


@dataclass(frozen=True, slots=True, eq=False)
class RunMemory:
    """Memory of a run through all iterations; rows are iterations.

    Attributes:
        carries: carries before each iteration, and after the last.
        used: values that are used outside of the loop.
        slopes: derivatives of the carries, or with respect to these.
        used_slopes: derivatives of the values that are used outside, or weights of these.
        whole: arguments of the loop, constants included; empty if there are none of these.
    """

    carries: Floats
    used: Floats
    slopes: Floats
    used_slopes: Floats
    whole: Floats

    @classmethod
    def of(cls, loop: LoopCall, points: tuple[int, ...]) -> RunMemory:
        """Return memory for a loop; `points` is the shape of points in lanes."""
        carry, used = loop.returned
        carries, used_values, slopes, used_slopes = (
            np.empty((loop.count + more, size, *points)) for more, size in 2 * [(1, carry), (0, used)]
        )
        return cls(carries, used_values, slopes, used_slopes, _spread_over(points, loop.constants))

    @property
    def points(self) -> tuple[int, ...]:
        """Shape of the points in lanes."""
        return self.carries.shape[2:]


class LoopCall(_Called, iterations.Repeated):
    """Iterations of a loop that are compiled, as a function of the first carry, the varying and the common values.

    Args:
        body: program of an iteration, see `accumulus.repetition.iterations.Iterations`.
        count: number of iterations.
        sizes: sizes of the carry, of the varying values of an iteration, and of the common values.
        used: number of values of each iteration that are results, and of further ones of the last iteration.
        options: options of the derivative.
        is_backward: True if its products are with weights, False if they are with directions.
    """

    accuracy = 0.0
    at_points: Any = None  # it runs at one point after the other

    def __init__(
        self,
        body: Program,
        count: int,
        sizes: tuple[int, int, int],
        used: tuple[int, int],
        options: Options,
        is_backward: bool = False,
    ) -> None:
        super().__init__(body, count, sizes, used)
        self.is_backward = is_backward
        self.options = replace(
            options.alone, progress=False, check=False, watch=False, sparse=None, check_finite=False, threads=1
        )
        self._products: dict[tuple[tuple[int, ...], int], LoopProducts] = {}
        self._matrices: dict[tuple[int, ...], Matrix] = {}
        #: Numbers of arguments, constants included; places of those that are no constants; and all constants, with 0 in
        #: these places, if there are any.
        self.whole_count, self.free = self.argument_count, np.arange(self.argument_count)
        self.constants = np.empty(0)
        #: Arguments at which backward runs are compared with differences.
        self.example = np.zeros(self.argument_count)
        #: Arguments and memory of the last call, until a backward run takes them; and memory that no call uses.
        self._last: list[tuple[Floats, RunMemory]] = []
        self._unused: dict[tuple[int, ...], list[RunMemory]] = defaultdict(list)

    @classmethod
    def of(cls, iterated: iterations.Iterations, options: Options, is_backward: bool = True) -> LoopCall:
        """Return the loop that was found in a program."""
        sizes = len(iterated.carry), iterated.varying.shape[1], len(iterated.common)
        return cls(
            iterated.body, iterated.count, sizes, (iterated.every.shape[1], len(iterated.final)), options, is_backward
        )

    def bind(self, constant: NDArray[np.bool_], values: Floats) -> None:
        """Let some of the arguments be constants from now on, which are no arguments of calls any more."""
        self.free, self.constants = np.flatnonzero(~constant), np.zeros(self.whole_count)
        self.constants[constant] = values
        self.argument_count, self.example = len(self.free), np.zeros(len(self.free))

    def whole(self, numbers: Floats, memory: RunMemory) -> Floats:
        """Return the arguments with the constants, in the memory of a run if there are any."""
        if not len(self.constants):
            return numbers
        memory.whole[self.free] = numbers
        return memory.whole

    def whole_references(self, made: Program, numbers: Integers) -> Integers:
        """Return references of the arguments with the constants."""
        if not len(self.constants):
            return numbers
        whole = np.array(made.constant_array(self.constants))
        whole[self.free] = numbers
        return whole

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_last": [], "_unused": defaultdict(list), "_products": {}, "_matrices": {}}

    @property
    def returned(self) -> tuple[int, int]:
        """Numbers of entries of the next carry, and of the values used outside."""
        return self.sizes[0], self.every + self.final

    @property
    def cut_short(self) -> str:
        """Stage in which the clock ended a search for the program of an iteration; or empty."""
        return self.forward.cut_short

    @cached_property
    def forward(self) -> CompiledProgram:
        """The compiled program of an iteration: the next carry, and the values used outside."""
        return _compiled(self.body, self.sizes, self.returned, COMPILED, Selection.of(()), self.options, self.name)

    @property
    def repeated(self) -> list[CompiledProgram]:
        """The program of an iteration."""
        return [self.forward]

    @property
    def numbers_kept(self) -> int:
        """Arguments and results, and those of each iteration."""
        return self.whole_count + super().numbers_kept + 2 * (self.count + 1) * sum(self.returned)

    def computed(self, numbers: Floats) -> Floats:
        """Run all iterations, and return the values that are used outside."""
        self.forget()
        memory = self._ran(numbers)
        self._last.append((numbers.copy(), memory))
        return self.gathered(memory.used)

    def spread(self, results: NDArray[Any], used: NDArray[Any], zero: float) -> None:
        """Store numbers for all results in the rows of the iterations; `zero` for values that are no results."""
        used[:-1, self.every :] = zero
        every = results[: self.count * self.every]
        used[:, : self.every] = every.reshape(self.count, self.every, *results.shape[1:])
        used[-1, self.every :] = results[self.count * self.every :]

    def _ran(self, numbers: Floats) -> RunMemory:
        """Run all iterations, and return the memory with their results."""
        points = numbers.shape[1:]
        memory = reused(self._unused[points], lambda: RunMemory.of(self, points))
        carry, varying, common = self.split(self.whole(numbers, memory))
        memory.carries[0] = carry
        arguments = [CallRows(memory.carries), CallRows(varying), CallRows(common, step=0)]
        self.forward.kernel.repeat(self.count, arguments, [CallRows(memory.carries, 1), CallRows(memory.used)])
        return memory

    def forget(self) -> Floats | None:
        """Forget the results of the last call, and return its arguments; None if there was none."""
        try:
            numbers, memory = self._last.pop()
        except IndexError:
            return None
        self.rest(memory)
        return numbers

    def carried(self, numbers: Floats) -> RunMemory:
        """Return the memory with the carries for some arguments, which the caller hands back by `rest`.

        The results of the last call are used once if it had these arguments, as the values of a program before its
        derivatives have.
        """
        with suppress(IndexError):
            before, memory = self._last.pop()
            if np.array_equal(before, numbers):
                return memory
            self.rest(memory)
        return self._ran(numbers)

    def rest(self, memory: RunMemory) -> None:
        """Take back memory for another call."""
        self._unused[memory.points].append(memory)

    def product(self, by: tuple[int, ...], count: int, is_transposed: bool) -> LoopProducts | None:
        """Return the products with some rows of weights, or of directions; None for others and for too many.

        Raises:
            SizeError: if they differ from differences.
        """
        if count > MOST_FACTORS or is_transposed != self.is_backward:
            return None
        products = self._products.get((by, count))
        if products is None:
            products = self._products[by, count] = (Backward if is_transposed else Forward)(self, by, count)
            if not products.agrees(self.example):
                raise SizeError(f"{products.name} differs from differences; expected a loop that is written out")
        return products

    def derivative_by(self, columns: tuple[int, ...]) -> Opaque:
        """Return the function of some columns of the Jacobian, by products with unit weights or directions."""
        count = self.result_count if self.is_backward else len(columns)
        products = self.product(columns, count, self.is_backward)
        if products is None:
            return super().derivative_by(columns)
        return self._matrices.setdefault(columns, Matrix(products))

    @cached_property
    def with_carries(self) -> LoopCall:
        """The loop that also returns the next carry of each iteration, before its own results."""
        body, carry = Program(self.body.inputs), self.sizes[0]
        outputs = replayed(self.body, body, np.arange(body.inputs))
        body.outputs = np.concatenate([outputs[:carry], outputs])
        call = LoopCall(body, self.count, self.sizes, (carry + self.every, self.final), self.options)
        call.free, call.constants, call.argument_count = self.free, self.constants, self.argument_count
        call.example = self.example
        return call

    def replay(self, made: Program, numbers: Integers) -> Integers:
        """Write all iterations as blocks; see `Repeated.replay`."""
        return self.replayed(made, self.whole_references(made, numbers[1:]))[1]

    def reopen(self, made: Program, numbers: Integers) -> Integers:
        """Write a call of the loop that can be differentiated again and again, and return references of its results."""
        return self.reopened(made, numbers)[1]

    def reopened(self, made: Program, numbers: Integers) -> tuple[Integers, Integers]:
        """Write the call of `reopen`; return references of carries, (iterations + 1, values), and of the results."""
        carry = self.sizes[0]
        results = made.call(self.with_carries, numbers)
        every = results[: self.count * (carry + self.every)].reshape(self.count, -1)
        first = self.whole_references(made, numbers[1 : 1 + self.argument_count])[np.newaxis, :carry]
        carries = np.concatenate([first, every[:, :carry]])
        return carries, np.concatenate([every[:, carry:].reshape(-1), results[every.size :]])


class LoopProducts(_Called):
    """Products of the Jacobian of a loop: with directions of the arguments, or with weights of the results.

    Args:
        loop: the loop.
        by: positions of the differentiated arguments.
        count: number of rows of factors, which follow the loop's arguments.
        sizes: number of entries of a row of factors, and of its product.
        way: "forward" or "backward".
    """

    def __init__(self, loop: LoopCall, by: tuple[int, ...], count: int, sizes: tuple[int, int], way: str) -> None:
        self.loop, self.by, self.count = loop, np.array(by, np.int64), count
        self.name, self.title = f"the {way} run of {loop.name}", f"{loop.title}, {way}"
        self.argument_count, self.result_count = loop.argument_count + count * sizes[0], count * sizes[1]
        ends = np.cumsum([0, loop.sizes[0], loop.count * loop.sizes[1], loop.sizes[2]])
        #: Places of the differentiated arguments among all, constants included.
        self.places = loop.free[self.by]
        #: Arguments of an iteration to differentiate with respect to: the carry, and others if needed.
        self.taken = (0, *(k for k in (1, 2) if ((self.places >= ends[k]) & (self.places < ends[k + 1])).any()))

    @cached_property
    def step(self) -> CompiledProgram:
        """The compiled products of an iteration."""
        raise NotImplementedError

    @property
    def operations(self) -> int:
        """Number of operations of all iterations."""
        return self.count * self.loop.count * self.step.operations

    @property
    def cut_short(self) -> str:
        """Stage in which the clock ended a search for the products of an iteration; or empty."""
        return self.step.cut_short

    @property
    def repeated(self) -> list[CompiledProgram]:
        """The program of an iteration, and its products."""
        return [self.loop.forward, self.step]

    @property
    def numbers_kept(self) -> int:
        """Those of the loop, and arguments and results."""
        return self.loop.numbers_kept + super().numbers_kept

    def computed(self, numbers: Floats) -> Floats:
        """Run once for each row of factors."""
        loop = self.loop
        arguments = numbers[: loop.argument_count]
        memory = loop.carried(arguments)
        _, varying, common = loop.split(loop.whole(arguments, memory))
        rows = numbers[loop.argument_count :].reshape(self.count, -1, *numbers.shape[1:])
        products = [self.run(row, memory, varying, common) for row in rows]
        loop.rest(memory)
        return np.concatenate(products)

    def run(self, factors: Floats, memory: RunMemory, varying: Floats, common: Floats) -> Floats:
        """Return the product with a row of factors, after a run of the loop that has filled the memory."""
        raise NotImplementedError

    def replay(self, made: Program, numbers: Integers) -> Integers:
        """Write all iterations as blocks, and return the references of the products."""
        loop = self.loop
        arguments = loop.whole_references(made, numbers[1 : 1 + loop.argument_count])
        carries, _ = loop.replayed(made, arguments)
        _, varying, (common,) = loop.split(arguments)
        inputs = [np.concatenate([*each, common]) for each in zip(carries[:-1], varying, strict=True)]
        rows = numbers[1 + loop.argument_count :].reshape(self.count, -1)
        return np.concatenate([self.written(made, row, inputs) for row in rows])

    def written(self, made: Program, factors: Integers, inputs: list[Integers]) -> Integers:
        """Write the product with a row of factors as blocks; `inputs` are those of each iteration."""
        raise NotImplementedError

    def replayed(self, made: Program, inputs: Integers) -> list[Integers]:
        """Write the products of one iteration as blocks, and return references of its result arrays."""
        outputs, rows = replayed(self.step.tape, made, inputs), []
        for segment in self.step.kernel.segments:
            rows.append(np.full(segment.length, made.constant(0.0)))
            rows[-1][segment.positions] = outputs[segment.outputs]
        return rows

    def agrees(self, arguments: Floats) -> bool:
        """Return True if the products agree with differences of the loop's results, or with products the other way.

        Differences across kinks, or of values that vary within their steps, disagree with derivatives. Runs forward and
        backward share the recorded iteration and nothing else.
        """
        with np.errstate(all="ignore"):  # where values are not finite, the products do not agree
            return self._agrees(arguments)

    def _agrees(self, arguments: Floats) -> bool:
        loop, draw = self.loop, np.random.default_rng(0)
        weights = draw.uniform(0.5, 1.0, (self.count, loop.result_count))
        directions = np.zeros((self.count, len(arguments)))
        signs = draw.choice([-1.0, 1.0], (self.count, len(self.by)))
        directions[:, self.by] = signs * np.maximum(np.abs(arguments[self.by]), 1.0)
        products = self.contracted(arguments, weights, directions[:, self.by])
        scale = weights @ np.abs(loop.computed(arguments))
        agree = np.zeros(self.count, bool)
        for step in STEPS:
            ahead, behind = (
                np.stack([loop.computed(arguments + side * step * each) for each in directions]) for side in (1, -1)
            )
            differences = (weights * (ahead - behind)).sum(axis=1) / (2.0 * step)
            bound = TRUNCATION * np.abs(products).sum(axis=1) + ROUNDING / step * scale
            agree |= np.abs(differences - products.sum(axis=1)) <= bound
        if np.isfinite(products).all() and not agree.all():
            other = self.other_way.contracted(arguments, weights, directions[:, self.by])
            size = np.abs(products).sum(axis=1) + np.abs(other).sum(axis=1)
            agree = np.abs(other.sum(axis=1) - products.sum(axis=1)) <= BOTH_WAYS * size
        loop.forget()
        return bool(np.isfinite(products).all() and agree.all())

    @property
    def other_way(self) -> LoopProducts:
        """The products of the same arguments with directions for these with weights, and the reverse."""
        raise NotImplementedError

    def contracted(self, arguments: Floats, weights: Floats, directions: Floats) -> Floats:
        """Return terms whose sums are weights times the Jacobian times directions, row by row."""
        raise NotImplementedError


class Backward(LoopProducts):
    """Weights times the Jacobian of a loop: the gradient of an iteration runs backward through the stored carries."""

    def __init__(self, loop: LoopCall, by: tuple[int, ...], count: int) -> None:
        super().__init__(loop, by, count, (loop.result_count, len(by)), "backward")

    @cached_property
    def step(self) -> CompiledProgram:
        """The gradient of the weighted sum of an iteration's results; weights of the carry and of the others follow."""
        loop = self.loop
        sizes = *loop.sizes, *loop.returned
        return _compiled(self.weighted, sizes, None, GRADIENT, Selection.of(self.taken), loop.options, self.name)

    @property
    def weighted(self) -> Program:
        """The weighted sum of an iteration's results; its last inputs are the weights."""
        body = self.loop.body
        inputs, size = body.inputs, len(body.outputs)
        program = Program(inputs + size)
        outputs = replayed(body, program, np.arange(inputs))
        products = program.apply("multiply", outputs, np.arange(inputs, inputs + size))
        program.outputs = program.sums(products, [0, size])
        return program

    def run(self, factors: Floats, memory: RunMemory, varying: Floats, common: Floats) -> Floats:
        """Return derivatives of the weighted sum of all results."""
        loop, last, slopes = self.loop, self.loop.count - 1, memory.slopes
        whole = np.zeros((loop.whole_count, *memory.points))
        _, by_varying, by_common = loop.split(whole)
        slopes[-1] = 0.0
        loop.spread(factors, memory.used_slopes, 0.0)
        results = [CallRows(slopes, last, -1), CallRows(by_varying, last, -1), CallRows(by_common, step=0, adds=True)]
        arguments = [
            CallRows(memory.carries, last, -1),
            CallRows(varying, last, -1),
            CallRows(common, step=0),
            CallRows(slopes, last + 1, -1),
            CallRows(memory.used_slopes, last, -1),
        ]
        self.step.kernel.repeat(loop.count, arguments, [results[k] for k in self.taken])
        whole[: loop.sizes[0]] = slopes[0]
        return whole[self.places]

    def written(self, made: Program, factors: Integers, inputs: list[Integers]) -> Integers:
        """Write the iterations backward."""
        loop, zero = self.loop, made.constant(0.0)
        used = np.empty((loop.count, loop.every + loop.final), np.int64)
        loop.spread(factors, used, zero)
        sizes = loop.sizes[0], (loop.count, loop.sizes[1]), loop.sizes[2]
        slopes: list[Integers] = [np.full(size, zero) for size in sizes]
        for k in range(loop.count - 1, -1, -1):
            rows = self.replayed(made, np.concatenate([inputs[k], slopes[0], used[k]]))
            for argument, row in zip(self.taken, rows, strict=True):
                if argument == 1:
                    slopes[1][k] = row
                else:
                    slopes[argument] = row if argument == 0 else made.apply("add", slopes[argument], row)
        return np.concatenate([each.reshape(-1) for each in slopes])[self.places]

    @cached_property
    def as_loop(self) -> LoopCall:
        """The iterations backward, as a loop.

        Its carry has derivatives with respect to the carry, and sums of those with respect to the common values. Its
        varying values are the original carry and varying values, and weights of the values that are used outside.

        Raises:
            SizeError: if values have attached derivatives, which derivatives of derivatives may lack.
        """
        loop = self.loop
        (carry, varying, common), used = loop.sizes, loop.every + loop.final
        recording = _recorded(self.weighted, (*loop.sizes, carry, used), None)
        with Preparation(self.name, loop.options) as preparation:
            gradient = derived(recording, GRADIENT, Selection.of(self.taken), preparation, in_loops=True)
        if has_attached(loop.body):
            raise SizeError(f"{loop.name} has values with attached derivatives; expected operations alone")
        sums = common * (2 in self.taken)
        starts = np.cumsum([0, carry, sums, carry, varying, used, common])
        body = Program(int(starts[-1]))
        weights, before, carried, varied, outside, shared = (
            np.arange(first, last) for first, last in pairwise(starts.tolist())
        )
        outputs = replayed(gradient.program, body, np.concatenate([carried, varied, shared, weights, outside]))
        by_carry, by_varying, by_common = np.split(outputs, np.cumsum([carry, varying * (1 in self.taken)]))
        if sums:
            by_common = body.apply("add", before, by_common)
        following = np.concatenate([by_carry, by_common])
        body.outputs = np.concatenate([following, by_varying, following])
        sizes = carry + sums, carry + varying + used, common
        call = LoopCall(body, loop.count, sizes, (len(by_varying), carry + sums), loop.options)
        memory = loop.carried(loop.example)
        _, values, same = loop.split(loop.whole(loop.example, memory))
        rows = np.concatenate([memory.carries[:-1], values, np.ones((loop.count, used))], axis=1)[::-1]
        call.example = np.concatenate([np.zeros(carry + sums), rows.reshape(-1), same[0]])
        loop.rest(memory)
        return call

    def reopen(self, made: Program, numbers: Integers) -> Integers:
        """Write calls of loops that can be differentiated again and again, and return references of the products."""
        loop, end, zero = self.loop, 1 + self.loop.argument_count, made.constant(0.0)
        carries, _ = loop.reopened(made, numbers[:end])
        _, varying, (common,) = loop.split(loop.whole_references(made, numbers[1:end]))
        used, products = np.empty((loop.count, loop.every + loop.final), np.int64), []
        begin = np.full(self.as_loop.sizes[0], zero)
        for weights in numbers[end:].reshape(self.count, -1):
            loop.spread(weights, used, zero)
            rows = np.concatenate([carries[:-1], varying, used], axis=1)[::-1]
            results = made.call(self.as_loop, np.concatenate([numbers[:1], begin, rows.reshape(-1), common]))
            by_varying, by_carry, by_common = np.split(
                results, np.cumsum([loop.count * self.as_loop.every, loop.sizes[0]])
            )
            whole = np.full(loop.whole_count, zero)
            by_varying = by_varying.reshape(loop.count, -1)[::-1]
            parts = loop.split(whole)
            for part, derivatives in zip(parts, (by_carry, by_varying, by_common), strict=True):
                if derivatives.size:
                    part[...] = derivatives
            products.append(whole[self.places])
        return np.concatenate(products)

    @property
    def other_way(self) -> LoopProducts:
        """The products with directions."""
        return Forward(self.loop, tuple(self.by.tolist()), self.count)

    def contracted(self, arguments: Floats, weights: Floats, directions: Floats) -> Floats:
        """Return the products with weights, times directions."""
        return self.computed(np.concatenate([arguments, weights.reshape(-1)])).reshape(self.count, -1) * directions


class Forward(LoopProducts):
    """The Jacobian of a loop times directions: the products of an iteration run forward along the carries."""

    def __init__(self, loop: LoopCall, by: tuple[int, ...], count: int) -> None:
        super().__init__(loop, by, count, (len(by), loop.result_count), "forward")

    @cached_property
    def step(self) -> CompiledProgram:
        """The products of an iteration's Jacobian with directions of its arguments, which follow these."""
        loop = self.loop
        sizes = *loop.sizes, *(loop.sizes[k] for k in self.taken)
        program = Program(sum(sizes))
        program.outputs = replayed(loop.body, program, np.arange(loop.body.inputs))
        selection = replace(Selection.of(self.taken), seeds=tuple(range(3, len(sizes))))
        kind = replace(JVP, values=False)
        return _compiled(program, sizes, loop.returned, kind, selection, loop.options, self.name)

    def run(self, factors: Floats, memory: RunMemory, varying: Floats, common: Floats) -> Floats:
        """Return derivatives of all results along a direction."""
        loop, slopes = self.loop, memory.slopes
        whole = np.zeros((loop.whole_count, *memory.points))
        whole[self.places] = factors
        slopes[0], along_varying, along_common = loop.split(whole)
        directions = [CallRows(slopes), CallRows(along_varying), CallRows(along_common, step=0)]
        arguments = [
            CallRows(memory.carries),
            CallRows(varying),
            CallRows(common, step=0),
            *(directions[k] for k in self.taken),
        ]
        self.step.kernel.repeat(loop.count, arguments, [CallRows(slopes, 1), CallRows(memory.used_slopes)])
        return loop.gathered(memory.used_slopes)

    def written(self, made: Program, factors: Integers, inputs: list[Integers]) -> Integers:
        """Write the iterations forward."""
        loop = self.loop
        whole = np.full(loop.whole_count, made.constant(0.0))
        whole[self.places] = factors
        slopes, along_varying, (along_common,) = loop.split(whole)
        used = np.empty((loop.count, loop.every + loop.final), np.int64)
        for k in range(loop.count):
            directions = slopes, along_varying[k], along_common
            slopes, used[k] = self.replayed(made, np.concatenate([inputs[k], *(directions[k] for k in self.taken)]))
        return loop.gathered(used)

    @property
    def other_way(self) -> LoopProducts:
        """The products with weights."""
        return Backward(self.loop, tuple(self.by.tolist()), self.count)

    def contracted(self, arguments: Floats, weights: Floats, directions: Floats) -> Floats:
        """Return the products with directions, times weights."""
        return self.computed(np.concatenate([arguments, directions.reshape(-1)])).reshape(self.count, -1) * weights


class Matrix(_Called):
    """Columns of the Jacobian of a loop, row by row, from products with unit factors.

    Args:
        products: products with as many rows of weights as there are results, or of directions as there are columns.
    """

    def __init__(self, products: LoopProducts) -> None:
        self.products, self.name = products, f"the Jacobian of {products.loop.name}"
        self.title = products.title
        self.argument_count, self.result_count = products.loop.argument_count, products.result_count
        self.operations, self.cut_short = products.operations, products.cut_short

    @property
    def repeated(self) -> list[CompiledProgram]:
        """The programs of the products."""
        return self.products.repeated

    @property
    def numbers_kept(self) -> int:
        """Those of the products."""
        return self.products.numbers_kept

    def computed(self, numbers: Floats) -> Floats:
        """Run with unit factors."""
        factors = _spread_over(numbers.shape[1:], np.eye(self.products.count).reshape(-1))
        return self._arranged(self.products.computed(np.concatenate([numbers, factors])))

    def replay(self, made: Program, numbers: Integers) -> Integers:
        """Write the iterations as blocks, and return the references of the results."""
        factors = made.constant_array(np.eye(self.products.count)).reshape(-1)
        return self._arranged(self.products.replay(made, np.concatenate([numbers, factors])))

    def reopen(self, made: Program, numbers: Integers) -> Integers:
        """Write calls of loops that can be differentiated again and again, and return references of the results.

        Raises:
            SizeError: if the matrix is computed from directions.
        """
        if not isinstance(self.products, Backward):
            raise SizeError(f"{self.name} is computed from directions; expected products with weights")
        factors = made.constant_array(np.eye(self.products.count)).reshape(-1)
        return self.products.reopen(made, np.concatenate([numbers, factors]))

    def _arranged(self, products: NDArray[T]) -> NDArray[T]:
        """Return products row by row of the Jacobian."""
        if isinstance(self.products, Backward):
            return products
        rows = products.reshape(self.products.count, -1, *products.shape[1:])
        return rows.swapaxes(0, 1).reshape(products.shape)


def _spread_over(points: tuple[int, ...], numbers: Floats) -> Floats:
    """Return a copy of numbers with an axis of points in lanes, which all have the same."""
    if not points:
        return numbers.copy()
    return np.broadcast_to(numbers.reshape(-1, *[1] * len(points)), (len(numbers), *points)).copy()


def _recorded(program: Program, sizes: Sequence[int], results: tuple[int, int] | None) -> Recording:
    """Return a recording of a program of flat arguments; see `_compiled`."""
    ends = np.cumsum([0, *sizes]).tolist()
    shapes = tuple([(size,) for size in sizes])
    slices = tuple([slice(first, first + size) for first, size in zip(ends, sizes, strict=False)])
    result_shapes = ((),) if results is None else tuple([(size,) for size in results])
    structure = Leaf() if results is None else together([Leaf()] * len(results))
    return Recording(program, shapes, slices, result_shapes, structure)


def _compiled(
    program: Program,
    sizes: Sequence[int],
    results: tuple[int, int] | None,
    kind: DerivativeKind,
    selection: Selection,
    options: Options,
    name: str,
) -> CompiledProgram:
    """Return a compiled program of flat arguments.

    Args:
        program: program over arrays.
        sizes: numbers of entries of the arguments.
        results: numbers of entries of the results; None for a number.
        kind: kind of derivatives.
        selection: arguments to differentiate with respect to, and directions.
        options: options of the program.
        name: name for messages.
    """
    recording = _recorded(program, sizes, results)
    with Preparation(name, options) as preparation:
        return CompiledProgram.of(loop_nest(recording, kind, selection, preparation), preparation)
