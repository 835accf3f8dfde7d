"""Recordings of Taylor coefficients of a function along a path of its arguments.

Loops stay loops: each body becomes the recurrences of its Taylor coefficients, for all of its instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.implicit import newton_steps
from accumulus.errors import ArgumentError
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, together
from accumulus.programs.derivation import has_attached
from accumulus.programs.derived import checked_attached, derived
from accumulus.programs.graphs import entries_of_seeds, inputs_of
from accumulus.programs.kinds import JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.tape.blocks import CHOLESKY, GATHER, LOG_DETERMINANT, MATMUL, SCATTER, SOLVE, SPARSE_PRODUCT, Opaque
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.fusion import Map, fuse
from accumulus.tape.interpreter import copied
from accumulus.tape.live import has_rules, of_all_orders, unattached
from accumulus.tape.moving import Moving
from accumulus.tape.passes import moved
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape
from accumulus.tape.taylor import taylor_coefficients

Integers = NDArray[np.int64]


def taylor_recording(
    recording: Recording, selection: Selection, preparation: Preparation, points: NDArray[np.float64] | None = None
) -> Recording:
    """Return a recording of the values and Taylor coefficients of a recording, with the same arguments.

    Args:
        recording: recording whose further arguments are coefficients.
        selection: arguments that are expanded, with the order.
        preparation: name, options, deadline and stages.
        points: points where the recording holds, (points, inputs).

    Raises:
        ArgumentError: if attached derivatives belong neither to the operations nor to solutions of equations.
    """
    order, values = selection.seed_count, recording.results
    if not recording.program.is_straight and not has_attached(recording.program):
        made, coefficients = _of_equations(recording, recording.program, selection, preparation)
    else:
        tape, coefficients = _of_body(recording.written_out(), selection, preparation, points)
        made = Program.of(tape)
    made_outputs = made.outputs
    outputs, first, shapes = [made_outputs[:values]], 0, list(recording.result_shapes)
    for shape in recording.result_shapes:
        last = first + math.prod(shape)
        outputs.append(coefficients[:, first:last].reshape(-1))
        first = last
        shapes.append(shape if selection.several is None else (order, *shape))
    made.outputs = np.concatenate([*outputs, made_outputs[values:]])
    return recording.returning(made, shapes, together([recording.structure, recording.structure]))


def _of_body(
    recording: Recording, selection: Selection, preparation: Preparation, points: NDArray[np.float64] | None
) -> tuple[Tape, Integers]:
    """Return a tape with the outputs of a recording, and the coefficients of its results, (order, results)."""
    values, order = recording.results, selection.seed_count
    inputs = inputs_of(recording, selection.positions)
    with preparation.stage("linearize"):
        recording = recording.computing(of_all_orders(recording.tape))
        steps = newton_steps(recording.tape, points)
        keeping = steps is not None
        if steps is None:
            steps = checked_attached(recording, inputs, preparation.name, points)
    paths = dict(zip(inputs.tolist(), entries_of_seeds(recording, selection).T.tolist(), strict=True))
    if steps or has_rules(recording.tape):
        return _by_derivatives(recording, paths, order, preparation, points)
    with preparation.stage("linearize"):
        # lasting derivatives have separate series, after the series of the values
        tape = unattached(recording.tape, keeping=keeping)[0].copy()
        results, guards = tape.outputs[:values], tape.outputs[values:]
        tape.outputs = results
        coefficients = taylor_coefficients(tape, paths, order)
        tape.outputs = [*results, *guards]
        tape, places = unattached(tape)
        return tape, moved(np.array(coefficients, np.int64).reshape(-1, order), places).T


def _by_derivatives(
    recording: Recording,
    paths: dict[int, list[int]],
    order: int,
    preparation: Preparation,
    points: NDArray[np.float64] | None,
) -> tuple[Tape, Integers]:
    """Return the tape and the coefficients of its results as repeated derivatives with respect to t.

    It works at every order for solutions of equations, by any solver.
    """
    scalars, values = recording.tape, recording.results
    along = Tape(1 + scalars.inputs)
    at = []
    for k in range(scalars.inputs):
        shift = along.constant(0.0)
        for coefficient in reversed(paths.get(k, [])):
            shift = along.multiply(0, along.add(shift, coefficient + 1))
        at.append(along.add(k + 1, shift))
    along.outputs = copied(scalars, along, at)[:values]
    slices = slice(0, 1), slice(1, along.inputs)
    current = Recording(Program.of(along), ((), (scalars.inputs,)), slices, ((values,),), Leaf())
    near = None if points is None else np.insert(points, 0, 0.0, axis=1)
    tape, coefficients = scalars.copy(), []
    for k in range(1, order + 1):
        current = derived(current, JACOBIAN, Selection.of(0), preparation, near)
        slopes = copied(current.tape, tape, [tape.constant(0.0), *range(scalars.inputs)])
        share = tape.constant(1.0 / math.factorial(k))
        coefficients.append([tape.multiply(share, slope) for slope in slopes])
    return tape, np.array(coefficients, np.int64).reshape(order, -1)


# Recordings with loops ------------------------------------------------------------------------------------------------


def _of_equations(
    recording: Recording, program: Program, selection: Selection, preparation: Preparation
) -> tuple[Program, Integers]:
    """Return loops with the outputs of a recording, and the coefficients; for programs without attached derivatives."""
    order, values = selection.seed_count, recording.results
    with preparation.stage("linearize"):
        writing = _Writing(program, order)
        writing.note(inputs_of(recording, selection.positions), entries_of_seeds(recording, selection))
        for each in fuse(program):
            with writing.made.located(program.lines_of(each.blocks)):
                writing.add(each)
    writing.made.outputs = writing.moving.at(program.outputs)
    return writing.made, np.stack([writing.at(program.outputs[:values], k) for k in range(1, order + 1)])


class _Writing:
    """Program of Taylor coefficients under construction, with references to the coefficients of each value."""

    def __init__(self, program: Program, order: int) -> None:
        self.original, self.order = program, order
        self.made = Program(program.inputs, signed_zeros=program.signed_zeros)
        self.moving = Moving(program, self.made, np.arange(program.inputs))
        self._zero = self.made.constant(0.0)
        self._coefficients = np.full((order, len(program)), self._zero, np.int64)
        #: True for values that vary along the path.
        self._moves = np.zeros(len(program), bool)

    def note(self, references: Integers, coefficients: Any) -> None:
        """Store the coefficients of t, t², … of some values, with a row for each power."""
        self._coefficients[:, references] = coefficients
        self._moves[references] = True

    def at(self, references: Integers, k: int) -> Integers:
        """Return the coefficients of t^k of some values; for k = 0, the values."""
        if not k:
            return self.moving.at(references)
        coefficients: Integers = np.where(
            references < 0, self._zero, self._coefficients[k - 1, np.maximum(references, 0)]
        )
        return coefficients

    def _is_moving(self, references: Integers) -> bool:
        return bool(self._moves[references[references >= 0]].any())

    def add(self, each: Map) -> None:
        """Add a map and its coefficients to the program."""
        if each.is_sum:
            self._add_sums(each)
        elif each.shape is not None:
            self._add_of_matrices(each)
        elif each.steps is not None:
            self._add_recurrence(each)
        else:
            self._add_body(each)

    def _add_sums(self, each: Map) -> None:
        block = self.original.blocks[each.blocks[0]]
        assert block.offsets is not None
        terms = references_in(block.operands[0])
        self.moving.note(block.start, self.made.sums(self.moving.at(terms), block.offsets))
        if self._is_moving(terms):
            powers = range(1, self.order + 1)
            self.note(block.results.references, [self.made.sums(self.at(terms, k), block.offsets) for k in powers])

    def _add_of_matrices(self, each: Map) -> None:
        block = self.original.blocks[each.blocks[0]]
        assert block.shape is not None
        operands = [references_in(operand) for operand in block.operands]
        add: dict[int, Callable[..., list[Integers]]] = {
            MATMUL: self._add_product, SOLVE: self._add_solutions, LOG_DETERMINANT: self._add_determinant,
            CHOLESKY: self._add_factor
        }  # fmt: skip
        if isinstance(block.opaque, SparseSystem):
            coefficients = self._add_sparse_solutions(block.opaque, block.shape, *operands)
        elif block.opaque is not None and not isinstance(block.opaque, SparseMatrix):
            coefficients = self._called(block.opaque, operands[0], self.order)
        elif block.code in (GATHER, SCATTER, SPARSE_PRODUCT):
            by = [self.at(each, 0) for each in operands[1:]]
            parts = [self.at(operands[0], k) for k in range(self.order + 1 if self._is_moving(operands[0]) else 1)]
            coefficients = [
                self.made.of_matrices(block.code, block.shape, [operand, *by], block.opaque) for operand in parts
            ]
            coefficients += [np.full(len(coefficients[0]), self._zero)] * (self.order + 1 - len(coefficients))
        else:
            if block.code not in add:
                raise ArgumentError(
                    f"Taylor coefficients of {FACTORISATIONS[block.code].name} of large matrices are not implemented; "
                    "use derivatives along directions, as acc.jvp of acc.jvp"
                )
            coefficients = add[block.code](block.shape, *operands)
        self.moving.note(block.start, coefficients[0])
        if any(map(self._is_moving, operands)):
            self.note(block.results.references, coefficients[1:])

    def _add_product(self, shape: tuple[int, int, int], left: Integers, right: Integers) -> list[Integers]:
        m, inner, n = shape
        coefficients = []
        for k in range(self.order + 1):
            terms = [
                self.made.matmul(self.at(left, j).reshape(m, inner), self.at(right, k - j).reshape(inner, n)).ravel()
                for j in range(k + 1)
                if (not j or self._is_moving(left)) and (j == k or self._is_moving(right))
            ]
            total = terms[0] if terms else np.full(m * n, self._zero)
            for term in terms[1:]:
                total = self.made.apply("add", total, term)
            coefficients.append(total)
        return coefficients

    def _add_solutions(self, shape: tuple[int, int, int], matrix: Integers, sides: Integers) -> list[Integers]:
        """Add X of A·X = B: with the coefficients of A and B, X_k is A⁻¹·(B_k - A_1·X_(k-1) - … - A_k·X_0)."""
        _, n, m = shape
        matrices = [self.at(matrix, k).reshape(n, n) for k in range(self.order + 1)]
        return self._solved(matrices, [self.at(sides, k).reshape(n, m) for k in range(self.order + 1)])

    def _add_sparse_solutions(
        self, system: SparseSystem, shape: tuple[int, int, int], data: Integers, sides: Integers
    ) -> list[Integers]:
        """Add X of A·X = B for a sparse A."""
        _, n, m = shape
        order = np.argsort(system.rows, kind="stable")
        rows, starts = np.unique(system.rows[order], return_index=True)
        ends = np.arange(m)[:, np.newaxis] * len(order) + starts  # for each column of the product in turn

        def product(entries: Integers, x: Integers) -> Integers:
            terms = self.made.apply("multiply", entries[order], x.T[:, system.columns[order]])
            products = np.full((m, n), self._zero)
            products[:, rows] = self.made.sums(terms.reshape(-1), np.append(ends, terms.size)).reshape(m, -1)
            return products.T

        entries = [self.at(data, k) for k in range(self.order + 1)]
        return self._solved(
            entries,
            [self.at(sides, k).reshape(n, m) for k in range(self.order + 1)],
            partial(self.made.sparse_solve, system),
            product,
        )

    def _solved(
        self,
        matrices: list[Integers],
        sides: list[Integers],
        solve: Callable[[Integers, Integers], Integers] | None = None,
        product: Callable[[Integers, Integers], Integers] | None = None,
    ) -> list[Integers]:
        solve, product = solve or self.made.solve, product or self.made.matmul
        solutions: list[Integers] = []
        for k in range(self.order + 1):
            rest = sides[k]
            for j in range(1, k + 1):
                if (matrices[j] != self._zero).any():
                    rest = self.made.apply("subtract", rest, product(matrices[j], solutions[k - j]))
            is_zero = bool((rest == self._zero).all())
            solutions.append(rest if is_zero else solve(matrices[0], rest))
        return [each.reshape(-1) for each in solutions]

    def _add_determinant(self, shape: tuple[int, int, int], matrix: Integers) -> list[Integers]:
        """Add sign and logarithm of |A|: k·l_k is the sum of j·trace(W_(k-j)·A_j) for 1 ≤ j ≤ k, where W is A⁻¹."""
        n = shape[0]
        matrices = [self.at(matrix, k).reshape(n, n) for k in range(self.order + 1)]
        coefficients = [np.array(self.made.log_determinant(matrices[0]), np.int64)]
        if not self._is_moving(matrix):
            return coefficients
        unit = self.made.constant_array(np.eye(n))
        zeros = np.full((n, n), self._zero)
        inverses = [each.reshape(n, n).T for each in self._solved(matrices, [unit, *[zeros] * self.order])]
        for k in range(1, self.order + 1):
            total = self._zero
            for j in range(1, k + 1):
                products = self.made.apply("multiply", inverses[k - j].reshape(-1), matrices[j].reshape(-1))
                trace = int(self.made.sums(products, [0, n * n])[0])
                share = self.made.multiply(trace, self.made.constant(j / k))
                total = share if total == self._zero else self.made.add(total, share)
            coefficients.append(np.array([self._zero, total]))
        return coefficients

    def _add_factor(self, shape: tuple[int, int, int], matrix: Integers) -> list[Integers]:
        """Add the coefficients of L, where L·Lᵀ = A.

        L_k is L_0·Φ(L_0⁻¹·R·L_0⁻ᵀ). Φ takes the lower triangle with half the diagonal, and R is A_k minus the products
        of L_1, …, L_(k-1).
        """
        n, made = shape[0], self.made
        factors = [made.cholesky(self.at(matrix, 0).reshape(n, n))]
        halved = made.constant_array(np.tri(n) - 0.5 * np.eye(n))
        for k in range(1, self.order + 1 if self._is_moving(matrix) else 1):
            rest = self.at(matrix, k).reshape(n, n)
            for j in range(1, k):
                rest = made.apply("subtract", rest, made.matmul(factors[j], factors[k - j].T))
            half = made.solve(factors[0], rest)
            whole = made.solve(factors[0], half.T).T
            factors.append(made.matmul(factors[0], made.apply("multiply", whole, halved)))
        return [each.reshape(-1) for each in factors]

    def _called(self, opaque: Opaque, numbers: Integers, order: int) -> list[Integers]:
        """Add y = f(x) up to an order: k·y_k is the sum of j·J_(k-j)·x_j for 1 ≤ j ≤ k, with J the Jacobian at x."""
        coefficients = [self.made.call(opaque, self.at(numbers, 0))]
        arguments = numbers[1:]
        if not order or not self._is_moving(arguments):
            return coefficients + [np.full(len(coefficients[0]), self._zero)] * order
        shape = opaque.result_count, opaque.argument_count
        slopes = [each.reshape(shape) for each in self._called(opaque.derivative, numbers, order - 1)]
        for k in range(1, order + 1):
            total = np.full(len(coefficients[0]), self._zero)
            for j in range(1, k + 1):
                product = self.made.matmul(slopes[k - j], self.at(arguments, j).reshape(-1, 1)).reshape(-1)
                share = self.made.apply("multiply", product, self.made.constant(j / k))
                total = share if j == 1 else self.made.apply("add", total, share)
            coefficients.append(total)
        return coefficients

    def _expanded(self, each: Map, active: list[int]) -> Tape:
        """Return a body followed by the coefficients of its outputs.

        Its inputs are the leaves, followed by the coefficients of the active ones.
        """
        leaves = len(each.leaves)
        tape = Tape(leaves + self.order * len(active), signed_zeros=self.original.signed_zeros)
        outputs = copied(each.body, tape, range(leaves))
        paths = {
            leaf: list(range(leaves + self.order * k, leaves + self.order * (k + 1))) for k, leaf in enumerate(active)
        }
        tape.outputs = outputs
        coefficients = taylor_coefficients(tape, paths, self.order)
        tape.outputs = [*outputs, *(entry for entries in coefficients for entry in entries)]
        return tape

    def _columns(self, each: Map, active: list[int]) -> list[Column]:
        leaves = [self.moving.column_at(leaf) for leaf in each.leaves]
        parts = [references_in(each.leaves[leaf]) for leaf in active]
        return [*leaves, *(column(self.at(values, k)) for values in parts for k in range(1, self.order + 1))]

    def _add_body(self, each: Map) -> None:
        active = [k for k, leaf in enumerate(each.leaves) if self._is_moving(references_in(leaf))]
        columns = self._columns(each, active) or [Range(0, 0, each.count)]
        results = self.made.extend(self._expanded(each, active), columns)
        count = len(each.starts)
        for k, start in enumerate(each.starts):
            self.moving.note(start, results[k])
            rows = results[count + self.order * k : count + self.order * (k + 1)]
            if any(self.made.uniform(row) != 0.0 for row in rows):
                self.note(np.arange(start, start + each.count), [references_in(row) for row in rows])

    def _add_recurrence(self, each: Map) -> None:
        block, count = self.original.blocks[each.blocks[0]], each.count
        active = []
        for k, leaf in enumerate(each.leaves):
            references = references_in(leaf)
            is_own = (references >= block.start) & (references < block.start + block.size)
            if is_own.any() or self._is_moving(references):
                active.append(k)
        outputs = len(each.starts)

        def operands(results: list[Range]) -> list[Column]:
            for k, start in enumerate(each.starts):
                self.moving.note(start, results[k])
                rows = results[outputs + self.order * k : outputs + self.order * (k + 1)]
                self.note(np.arange(start, start + count), [row.references for row in rows])
            return self._columns(each, active)

        assert each.steps is not None
        operands(self.made.scan(self._expanded(each, active), operands, each.steps))
