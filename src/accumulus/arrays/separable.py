"""Hessians of partially separable programs: sums of loops, each planned as one scalar function.

The Lagrangian of an optimal-control problem is a sum of one term for each stage, and so is an energy over elements. The
adjoints of the results of such loops do not depend on the variables, so the Hessian is the sum of the Hessians of

    ψ(leaves) = Σ_r w_r · φ_r(leaves)

over all instances of all bodies φ, where w are the adjoints (Griewank and Toint 1982). Each ψ is planned as a scalar
function is, on a graph with a mirror, so only one triangle is computed; no derivative between arrays is formed. The
plan's size and the time it takes do not depend on the number of instances.

Plans of bodies and the sum of entries are verified exactly. The passing of adjoints and entries between bodies is
compared with differences of the function and of its gradient, at the recording's points. If they differ, derivatives
are accumulated between arrays instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries, Products, sorted_entries
from accumulus.arrays.verification import verify_derivatives
from accumulus.context import Context
from accumulus.elimination.emit import emit
from accumulus.elimination.gradient_graph import is_mirrored, linearize_gradient
from accumulus.graph.linearize import linearize
from accumulus.search.find import find_plan
from accumulus.tape.columns import Column, column, references_in
from accumulus.tape.fusion import Map, fuse
from accumulus.tape.interpreter import copied, evaluate
from accumulus.tape.live import depending
from accumulus.tape.moving import Moving
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

Integers = NDArray[np.int64]
#: Largest number of values that a result may depend on, for second derivatives with respect to it to be passed on to
#: these entry by entry: shifted and scaled variables have one. Entries grow with its square; with fewer, functions of
#: differences of two variables are not separable.
MOST_BEHIND: Final = 2
#: Steps of differences relative to the inputs; agreement at one is enough, since there may be a kink within a step.
#: Larger steps meet more kinks, smaller ones lose digits to rounding; each costs two evaluations.
STEPS: Final = 1e-4, 1e-5, 1e-6
#: Tolerances of differences: relative to the magnitudes that are added, and, for rounding, to the largest value. Larger
#: ones accept wrong derivatives, smaller ones reject right ones, which are then computed in a slower way.
TRUNCATION: Final = 1e-2
ROUNDING: Final = 1e-11
#: Golden ratio's fraction; its multiples modulo 1 give signs without a pattern.
GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class SeparableHessian:
    """A program that computes a number, its gradient, and the lower triangle of its Hessian."""

    tape: Program
    value: int  # reference of the number
    gradient: Integers  # reference of each derivative
    # positions among the differentiated inputs, in row-column order, with column ≤ row; and references of the values
    rows: Integers
    columns: Integers
    values: Integers
    products: int  # scalar products and sums between bodies

    def times(self, tangent: NDArray[np.float64], entries: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product of a vector and the symmetric matrix with these entries in its lower triangle."""
        product = np.zeros(len(tangent))
        np.add.at(product, self.rows, entries * tangent[self.columns])
        apart = self.rows != self.columns
        np.add.at(product, self.columns[apart], (entries * tangent[self.rows])[apart])
        return product


def separable_hessian(
    program: Program, inputs: Integers, context: Context, points: NDArray[np.float64]
) -> SeparableHessian | None:
    """Return the Hessian of a program's only output; None if it is not a sum of loops over the inputs alone.

    Args:
        program: program with one output.
        inputs: inputs to differentiate with respect to.
        context: options and deadline.
        points: points of the function's domain, (points, inputs).

    Raises:
        VerificationError: if the result differs from the Hessian in the exact check.
    """
    maps = fuse(program)
    if len(program.outputs) != 1 or not all(each.is_sum or each.is_body for each in maps):
        return None
    sweep = _Sweep(program, inputs, context, maps)
    if not all(map(sweep.add, reversed(maps))):
        return None
    hessian = sweep.hessian()
    return hessian if _agrees(hessian, program, inputs, points) else None


def _agrees(hessian: SeparableHessian, program: Program, inputs: Integers, points: NDArray[np.float64]) -> bool:
    """Return True if differences of the function and its gradient agree with the gradient and the Hessian.

    Each has to agree at one of the steps; entries that are not finite count as agreeing.
    """
    gradient = slice(1, 1 + len(inputs))
    signs = np.where(np.arange(len(inputs)) * GOLDEN % 1.0 < 0.5, -1.0, 1.0)
    differs = np.ones(1 + len(inputs), bool)
    for k, step in enumerate(STEPS):
        point = points[k % len(points)]
        ahead, behind = point.copy(), point.copy()
        ahead[inputs] += step * signs * np.maximum(np.abs(point[inputs]), 1.0)
        behind[inputs] -= step * signs * np.maximum(np.abs(point[inputs]), 1.0)
        after, before = (evaluate(hessian.tape, each) for each in (ahead, behind))
        tangent = (ahead - behind)[inputs]
        with np.errstate(all="ignore"):
            here = (after + before) / 2  # the value at the middle, up to the square of the step
            slopes, entries = here[gradient], here[gradient.stop :]
            differences = np.append(evaluate(program, ahead) - evaluate(program, behind), (after - before)[gradient])
            products = np.append(slopes @ tangent, hessian.times(tangent, entries))
            magnitudes = np.append(np.abs(slopes) @ np.abs(tangent), hessian.times(np.abs(tangent), np.abs(entries)))
            rounding = np.append(np.abs(here[0]), np.full(len(slopes), np.abs(slopes).max(initial=0.0)))
            differs &= np.abs(differences - products) > TRUNCATION * magnitudes + ROUNDING * rounding
        if not differs.any():
            return True
    return False


class _Sweep:
    """Reverse sweep over the bodies of a program.

    Args:
        program: program to differentiate.
        inputs: inputs to differentiate with respect to.
        context: options and deadline.
        maps: bodies of the program, in order.
    """

    def __init__(self, program: Program, inputs: Integers, context: Context, maps: list[Map]) -> None:
        self.original, self.inputs, self.context = program, inputs, context
        self.made = Program(program.inputs)
        self.products = Products(self.made)
        self.moving = Moving(program, self.made, np.arange(program.inputs))
        self.active = np.zeros(len(program), bool)
        self.active[inputs] = True
        for each in maps:
            self._copy(each)
            self._activate(each)
        one = np.array([self.made.constant(1.0)])
        #: Adjoints so far: references of results, and references of the terms of their adjoints.
        self.adjoints: list[tuple[Integers, Integers]] = [(program.outputs.copy(), one)]
        #: Second derivatives so far: pairs of references, and the references of their values.
        self.entries: list[tuple[Integers, Integers, Integers]] = []

    def _copy(self, each: Map) -> None:
        """Copy the blocks of a map to the new program."""
        for position in each.blocks:
            self.moving.copy(self.original.blocks[position])

    def _activate(self, each: Map) -> None:
        """Mark the results that depend on inputs."""
        if each.is_sum:
            block = self.original.blocks[each.blocks[0]]
            assert block.offsets is not None
            terms = self._is_active(block.operands[0])
            self.active[block.start : block.start + block.count] = np.logical_or.reduceat(terms, block.offsets[:-1])
            return
        leaves = [bool(self._is_active(leaf).any()) for leaf in each.leaves]
        depends = _dependent(each.body, leaves)
        for start, on in zip(each.starts, depends, strict=True):
            self.active[start : start + each.count] = on

    def _is_active(self, operands: Column) -> NDArray[np.bool_]:
        references = references_in(operands)
        return (references >= 0) & self.active[np.maximum(references, 0)]

    def _taken(self, start: int, count: int) -> Integers | None:
        """Return references of the adjoints of consecutive results; None if they are all 0."""
        parts = []
        for heads, values in self.adjoints:
            inside = _inside(heads, start, count)
            if inside.any():
                parts.append((heads[inside] - start, values[inside]))
        if not parts:
            return None
        heads, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(heads, kind="stable")
        heads, values = heads[order], values[order]
        first = np.flatnonzero(np.diff(heads, prepend=-1))
        adjoints = np.full(count, self.made.constant(0.0), np.int64)
        adjoints[heads[first]] = self.products.grouped(values, first)
        return adjoints

    def add(self, each: Map) -> bool:
        """Add the derivatives of the output through a map; False if its adjoints depend on the inputs."""
        if each.is_sum:
            return self._add_sum(each)
        if each.steps is not None and len(each.steps) > 2:  # instances depend on each other
            return not any(self.active[start : start + each.count].any() for start in each.starts)
        for row, start in enumerate(each.starts):
            for _ in range(2):  # both ends of an entry may be results of the map
                if not self._hand_on(each, row, start):
                    return False
        weights: list[tuple[int, Column]] = []
        for row, start in enumerate(each.starts):
            if self.active[start : start + each.count].any():
                adjoints = self._taken(start, each.count)
                # truth values have no derivatives
                if adjoints is not None and not each.body.is_boolean(each.body.outputs[row]):
                    weights.append((row, column(adjoints)))
        return not weights or self._add_body(each, weights)

    def _add_sum(self, each: Map) -> bool:
        block = self.original.blocks[each.blocks[0]]
        if any(_inside(end, block.start, block.count).any() for *ends, _ in self.entries for end in ends):
            return False
        adjoints = self._taken(block.start, block.count)
        if adjoints is not None:
            assert block.offsets is not None
            terms = self._is_active(block.operands[0])
            values = np.repeat(adjoints, np.diff(block.offsets))[terms]
            self.adjoints.append((references_in(block.operands[0])[terms], values))
        return True

    def _add_body(self, each: Map, weights: list[tuple[int, Column]]) -> bool:
        count = len(each.leaves)
        body = Tape(count + len(weights))
        values = copied(each.body, body, range(count))
        terms = []
        for k, (row, weight) in enumerate(weights):
            number = self.made.uniform(weight)
            factor = count + k if number is None else body.constant(number)
            terms.append(body.multiply(factor, values[row]))
        body.outputs = [body.sum(terms)]
        if not is_mirrored(body):
            return False
        leaves = [references_in(leaf) for leaf in each.leaves]
        on = [self._is_active(leaf) for leaf in each.leaves]
        active = [k for k in range(count) if on[k].any()]
        linearization = linearize_gradient(body, active)
        graph = linearization.graph
        plan = find_plan(graph, self.context.planning(len(graph.sources)))
        tape = emit(plan.accumulation)
        second = sorted(plan.accumulation.entries)
        columns = [self.moving.column_at(leaf) for leaf in each.leaves]
        outputs = self.made.loop(tape, [*columns, *(weight for _, weight in weights)], each.count)
        for k, leaf in enumerate(active):
            self.adjoints.append((leaves[leaf][on[leaf]], references_in(outputs[1 + k])[on[leaf]]))
        for (k, m), result in zip(second, outputs[1 + len(active) :], strict=True):
            both = on[active[k]] & on[active[m]]
            one, other = (leaves[active[each]][both] for each in (k, m))
            self._enter(one, other, references_in(result)[both], is_diagonal=k == m)
        return True

    def _enter(self, one: Integers, other: Integers, values: Integers, *, is_diagonal: bool) -> None:
        """Add entries of a symmetric matrix; each one also stands for its mirror image."""
        if len(one):
            self.entries.append((one, other, values))
            if not is_diagonal and (same := one == other).any():  # one value may be passed as two leaves
                self.entries.append((one[same], one[same], values[same]))

    def _hand_on(self, each: Map, row: int, start: int) -> bool:
        """Replace a map's result among the second derivatives by its operands; False if it has too many."""
        local = [
            (k, entry)
            for k, entry in enumerate(self.entries)
            if any(_inside(end, start, each.count).any() for end in entry[:2])
        ]
        if not local:
            return True
        slopes = self._slopes(each, row)
        if slopes is None:
            return False
        for k, _ in local:
            self.entries[k] = (np.empty(0, np.int64),) * 3
        for _, (one, other, values) in local:
            first, second = (_inside(end, start, each.count) for end in (one, other))
            left = ~(first | second)
            self._enter(one[left], other[left], values[left], is_diagonal=True)
            square = first & (one == other)
            for at, (leaf, on, slope) in enumerate(slopes):
                for own_end, far_end, chosen in ((one, other, first & ~square), (other, one, second & ~first)):
                    n = own_end[chosen] - start
                    products = self._product(values[chosen], slope, n)[on[n]]
                    self._enter(leaf[n][on[n]], far_end[chosen][on[n]], products, is_diagonal=False)
                n = one[square] - start
                for leaf_too, on_too, slope_too in slopes[at:]:
                    both = on[n] & on_too[n]
                    products = self._product(self._product(values[square], slope, n), slope_too, n)[both]
                    self._enter(leaf[n][both], leaf_too[n][both], products, is_diagonal=leaf is leaf_too)
        self.entries = [entry for entry in self.entries if len(entry[0])]
        return True

    def _product(self, values: Integers, slope: Column | None, instances: Integers) -> Integers:
        """Return values times the slopes of some instances."""
        if slope is None or not len(values):
            return values
        products = self.products.product(column(values), column(references_in(slope)[instances]))
        assert products is not None
        return references_in(products)

    def _slopes(self, each: Map, row: int) -> list[tuple[Integers, NDArray[np.bool_], Column | None]] | None:
        """Return derivatives of a result, (leaf's references, their activity, values); None for too many."""
        body = each.body.copy()
        body.outputs = [each.body.outputs[row]]
        on = [self._is_active(leaf) for leaf in each.leaves]
        active = [k for k, some in enumerate(on) if some.any()]
        linearization = linearize(body, active)
        plan = find_plan(linearization.graph, self.context.planning(len(linearization.graph.sources)))
        entries = sorted(plan.accumulation.entries)
        if len(entries) > MOST_BEHIND:
            return None
        outputs = self.made.loop(
            emit(plan.accumulation), [self.moving.column_at(leaf) for leaf in each.leaves], each.count
        )
        slopes = []
        for (_, terminal), values in zip(entries, outputs[1:], strict=True):
            leaf = linearization.columns[terminal]
            number = self.made.uniform(values)
            if number != 0.0:
                slopes.append((references_in(each.leaves[leaf]), on[leaf], None if number == 1.0 else values))
        return slopes

    def hessian(self) -> SeparableHessian:
        """Return the Hessian that the sweep has summed, after verifying it."""
        program, inputs = self.original, self.inputs
        gradient = self._taken(0, program.inputs)
        zero = self.made.constant(0.0)
        slopes = np.full(len(inputs), zero) if gradient is None else gradient[inputs]
        size, position = len(inputs), np.zeros(program.inputs, np.int64)
        position[inputs] = np.arange(size)
        places = [(position[one], position[other], values) for one, other, values in self.entries]
        lower = [(np.maximum(one, other), np.minimum(one, other), values) for one, other, values in places]
        columns = [(column(one), column(other), column(values)) for one, other, values in lower]
        if columns:
            entries = sorted_entries(columns, 0, size, self.products.sums)
            rows, below, values = entries.rows(), entries.columns, entries.values
        else:
            rows, below, values = (np.empty(0, np.int64) for _ in range(3))
        edges = [Entries(column(one + size), column(other), column(value)) for one, other, value in lower]
        verify_derivatives(
            self.made,
            size,
            [(size, size, [*edges], None)],
            (rows, below, values),
            self.products.rounded,
            self.context.options.seed,
        )
        value = int(self.moving.at(program.outputs)[0])
        self.made.outputs = np.concatenate([[value], slopes, values]).astype(np.int64)
        return SeparableHessian(self.made, value, slopes, rows, below, values, len(values))


def _inside(references: Integers, start: int, count: int) -> NDArray[np.bool_]:
    return (references >= start) & (references < start + count)


def _dependent(body: Tape, leaves: list[bool]) -> list[bool]:
    """Return True for each output of a body that depends on a marked leaf."""
    depends = depending(body, (k for k, is_marked in enumerate(leaves) if is_marked))
    return [output >= 0 and bool(depends[output]) for output in body.outputs]
