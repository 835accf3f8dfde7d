"""Interpreter of programs, scalar ones and those over arrays, for many domains.

A *domain* defines values and operations on them: floating-point numbers, numbers with error bounds, residues,
intervals, SymPy expressions, references of another program. It is a small class with a method for each operation or
kind of operation. `run` does everything else: the order, operands and constants, sums, matrix operations, and
recurrences step by step. `NUMBERS`, NumPy's arithmetic, is the slow reference for every compiled target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import compress, islice
from types import CodeType, MappingProxyType
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.blocks import CHOLESKY, GATHER, LOG_DETERMINANT, SCATTER, SOLVE, Block, Opaque
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.factorisations import FACTORISATIONS, Factorisation
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, INPUT, OPERATIONS, Operation, helpers
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import TAKES_TRUTH, Tape

Integers = NDArray[np.int64]
_EQUAL, _NOT_EQUAL = (BY_NAME[name].code for name in ("equal", "not_equal"))
#: Positions of the arguments of each operation that are truth values.
_TRUTHS: Final = [frozenset(np.flatnonzero(taken).tolist()) for taken in TAKES_TRUTH]
#: Function that computes an operation, and its number of operands; 0 if it takes program, place and operands.
Rule = tuple[Callable[..., Any], int]
#: Shape of a product of matrices: (m, k, n), of an m × k matrix and a k × n one.
Shape = tuple[int, int, int]


class Domain:
    """Kind of values, with the operations on them.

    The rule of an operation is the method with the name of its row in the table, else the method with the name of its
    kind (`Operation.kind`), else `function`. The last two receive the row before the operands. Rules named in `located`
    receive the program and the reference, or the block, first.

    Attributes:
        located: names of operations and kinds whose rules need their place in the program.
        parts: number of arrays that represent values in programs over arrays; a tuple of arrays if it is not 1.
    """

    located: frozenset[str] = frozenset()
    parts: int = 1

    def number(self, number: Any) -> Any:
        """Return the value of a constant, or the values of an array of constants."""
        return number

    def numbers(self, numbers: Sequence[float]) -> Iterable[Any]:
        """Return the values of several constants."""
        return map(self.number, numbers)

    def rule(self, row: Operation) -> Callable[..., Any]:
        """Return the function that computes an operation from the values of its arguments."""
        name = self._name(row)
        method: Callable[..., Any] = getattr(self, name)
        return method if name == row.name else partial(method, row)

    def _name(self, row: Operation) -> str:
        return row.name if hasattr(self, row.name) else row.kind if hasattr(self, row.kind) else "function"

    def rules(self, codes: Iterable[int]) -> dict[int, Rule]:
        """Return the rule of each operation, and its number of operands: 0 if it needs its place."""
        rule_of: dict[int, Rule] = {}
        for code in codes:
            if code != INPUT:
                row = OPERATIONS[code]
                rule_of[code] = self.rule(row), 0 if self.located and self._name(row) in self.located else row.arity
        return rule_of

    def function(self, row: Operation, *operands: Any) -> Any:
        """Compute an operation that has no other rule."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for {row.name}")

    def routine(self, body: Tape) -> Callable[..., Sequence[Any]]:
        """Return the function that computes the outputs of a body with many instances from the values of its inputs."""
        rules, numbers, begin = self.rules(set(body.codes)), list(self.numbers(body.constants[::-1])), body.inputs

        def compute(*operands: Any) -> Sequence[Any]:
            values = [*operands, *[None] * body.operations, *numbers]
            advance(body, rules, values, range(begin, len(body)))
            return [values[output] for output in body.outputs]

        return compute

    def sums(self, terms: Any, offsets: Integers) -> Any:
        """Compute the sums of segments of a column; `offsets` holds the start of each, and the end of the last."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for sums")

    def of_matrices(self, block: Block) -> Callable[..., Any]:
        """Return the rule of a matrix operation or a call, a function of the operands and the shape."""
        if block.code in FACTORISATIONS:
            return partial(self.factorise, FACTORISATIONS[block.code])
        if isinstance(block.opaque, SparseSystem):
            return partial(self.sparse_solve, block.opaque)
        if isinstance(block.opaque, SparseMatrix):
            return partial(self.sparse_product, block.opaque)
        if block.opaque is not None:
            return partial(self.call, block.opaque)
        if block.code == LOG_DETERMINANT:
            return self.log_determinant
        if block.code == CHOLESKY:
            return self.cholesky
        if block.code in (GATHER, SCATTER):
            return self.gather if block.code == GATHER else self.scatter
        return self.solve if block.code == SOLVE else self.matmul

    def matmul(self, left: Any, right: Any, shape: Shape) -> Any:
        """Compute a product of matrices, row by row."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for products of matrices")

    def solve(self, matrix: Any, sides: Any, shape: Shape) -> Any:
        """Compute the solutions of a system of equations, row by row."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for systems of equations")

    def log_determinant(self, matrix: Any, shape: Shape) -> Any:
        """Compute the sign of a determinant and the logarithm of its magnitude."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for determinants")

    def cholesky(self, matrix: Any, shape: Shape) -> Any:
        """Compute the lower factor of a symmetric matrix, row by row."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for factors of matrices")

    def gather(self, matrix: Any, indices: Any, shape: Shape) -> Any:
        """Take rows of a matrix by indices."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for rows by indices")

    def scatter(self, terms: Any, indices: Any, shape: Shape) -> Any:
        """Add rows at indices."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for sums by indices")

    def factorise(self, row: Factorisation, matrix: Any, shape: Shape) -> Any:
        """Compute the parts of a factorisation, concatenated."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for {row.name}")

    def sparse_solve(self, system: SparseSystem, data: Any, sides: Any, shape: Shape) -> Any:
        """Compute the solutions of a system with a sparse matrix, row by row."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for systems with sparse matrices")

    def sparse_product(self, matrix: SparseMatrix, x: Any, shape: Shape) -> Any:
        """Compute the product of a constant sparse matrix and a matrix, row by row."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for products with sparse matrices")

    def call(self, opaque: Opaque, numbers: Any, shape: Shape) -> Any:
        """Compute the results of an opaque function."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for opaque functions")


def run(program: Tape | Program, domain: Domain, inputs: Any) -> Any:
    """Return the values of a program's outputs.

    Args:
        program: program to run.
        domain: interpretation of its operations.
        inputs: value of each input; for a program over arrays, one value that contains all of them.

    >>> class Depths(Domain):
    ...     def number(self, number):
    ...         return 0
    ...     def function(self, row, *operands):
    ...         return 1 + max(operands)
    >>> tape = Tape(1)
    >>> tape.outputs = [tape.add(tape.apply("exp", 0), tape.constant(2.0))]
    >>> run(tape, Depths(), [0])
    [2]
    """
    tape = program.scalars
    if tape is None:
        return resume(program, domain, inputs).read(program.outputs)  # type: ignore[arg-type]
    computed = values(tape, domain, inputs)
    return [computed[output] for output in tape.outputs]


class Partial(Domain):
    """A domain with undefined values, None: an operation on them is undefined, too, except a selection."""

    def rule(self, row: Operation) -> Callable[..., Any]:
        """Return the rule of an operation; it is not called for undefined operands."""
        compute = super().rule(row)
        if row.name == "select":
            return compute
        if row.arity > 2 or self._name(row) in self.located:
            return lambda *operands: None if None in operands else compute(*operands)
        if row.arity == 1:
            return lambda x: None if x is None else compute(x)
        return lambda x, y: None if x is None or y is None else compute(x, y)


# Scalars -------------------------------------------------------------------------------------------------------------


def values(tape: Tape, domain: Domain, inputs: Iterable[Any], live: Iterable[int] | None = None) -> list[Any]:
    """Return the values of a tape's inputs, operations and constants, each at its reference.

    Args:
        tape: tape to run.
        domain: interpretation of its operations.
        inputs: value of each input.
        live: truth value for each reference, True if it is computed; None for all.
    """
    # constants come last, since their references count from the end; the operations are still to be computed
    computed = [*inputs, *[None] * tape.operations, *domain.numbers(tape.constants[::-1])]
    references: Iterable[int] = range(tape.inputs, len(tape))
    if live is not None:
        references = compress(references, islice(live, tape.inputs, None))
    advance(tape, domain.rules(set(tape.codes)), computed, references)
    return computed


def advance(
    tape: Tape, rules: Mapping[int, Rule], values: MutableMapping[int, Any] | list[Any], references: Iterable[int]
) -> None:
    """Compute some operations in order; all their other arguments have to be computed already."""
    codes, first, second, third = tape.codes, tape.first, tape.second, tape.third
    for reference in references:
        rule, arity = rules[codes[reference]]
        if arity == 1:
            values[reference] = rule(values[first[reference]])
        elif arity == 2:
            values[reference] = rule(values[first[reference]], values[second[reference]])
        elif arity == 3:
            values[reference] = rule(values[first[reference]], values[second[reference]], values[third[reference]])
        else:
            values[reference] = rule(tape, reference, *[values[a] for a in tape.arguments(reference)])


# Arrays --------------------------------------------------------------------------------------------------------------


#: Number of sums from which on, and of terms up to which, sums are added term by term, in the order of compiled loops.
#: Fewer sums and more terms make more calls of NumPy for less work; the opposite leaves more results that differ in the
#: last digits from those of compiled loops.
MANY_SUMS: Final = 256
FEW_TERMS: Final = 16


class Memory:
    """Values of a program over arrays in rows: constants, the last one first, followed by inputs and results.

    Args:
        program: program over arrays.
        domain: interpretation of its operations.
        initial: values of the inputs and of results that are known already.

    Attributes:
        parts: an array of all rows for each part of a value.
    """

    def __init__(self, program: Program, domain: Domain, initial: Any) -> None:
        constants = program.constants[::-1]
        self._first, self._is_one = len(constants), domain.parts == 1
        leading, numbers = (
            ((initial,), (domain.number(constants),)) if self._is_one else (initial, domain.number(constants))
        )
        self.parts: list[NDArray[np.float64]] = []
        for component, number in zip(leading, numbers, strict=True):
            points = component.shape[1:]
            rows = np.empty((len(constants) + len(program), *points))
            rows[: self._first] = number.reshape(-1, *(1,) * len(points))
            rows[self._first : self._first + len(component)] = component
            self.parts.append(rows)

    def read(self, operands: Column, *, is_whole: bool = True) -> Any:
        """Return the values of a column; unless `is_whole`, a single row stands for equal values."""
        if isinstance(operands, Range) and (operands.step == 1 or (operands.step == 0 and not is_whole)):
            begin = self._first + operands.start
            index: Any = slice(begin, begin + (operands.count if operands.step else 1))
        else:
            index = self._first + references_in(operands)
        return self.parts[0][index] if self._is_one else self.at(index)

    def at(self, index: Any) -> Any:
        """Return the values in rows at an index."""
        return self.parts[0][index] if self._is_one else tuple(component[index] for component in self.parts)

    def write(self, start: int, count: int, results: Any) -> None:
        """Store results from reference `start` on."""
        rows = slice(self._first + start, self._first + start + count)
        if self._is_one:
            self.parts[0][rows] = results
        else:
            for component, value in zip(self.parts, results, strict=True):
                component[rows] = value

    def results(self) -> Any:
        """Return the values of all inputs and results."""
        return self.at(slice(self._first, None))

    def run_steps(self, block: Block, domain: Domain) -> None:
        """Compute the results of a recurrence, step by step."""
        assert block.body is not None
        assert block.steps is not None
        compute, steps, count = domain.routine(block.body), block.steps, block.count
        columns: list[Integers] = [self._first + references_in(operands) for operands in block.operands]
        start = self._first + block.start
        tables = [
            component[start : start + block.size].reshape(-1, count, *component.shape[1:]) for component in self.parts
        ]
        read, is_one = self.parts[0].__getitem__ if self._is_one else self.at, self._is_one
        spans: Iterable[Any]
        if len(steps) == count + 1:  # one instance for each step: compute with numbers instead of arrays of one entry
            spans = range(count)
            taken = zip(*(places.tolist() for places in columns), strict=True) if columns else iter([()] * count)
        else:
            spans = [slice(*ends) for ends in zip(steps[:-1].tolist(), steps[1:].tolist(), strict=True)]
            taken = (tuple(places[span] for places in columns) for span in spans)
        if isinstance(domain, _Floats) and isinstance(spans, range):
            tables[0][:] = domain.steps(self.parts[0], columns, start, block)
            return
        for span, places in zip(spans, taken, strict=True):
            results = compute(*map(read, places))
            if is_one:
                for row, value in zip(tables[0], results, strict=True):
                    row[span] = value
            else:
                for output, value in enumerate(results):
                    for table, component in zip(tables, value, strict=True):
                        table[output][span] = component


def resume(program: Program, domain: Domain, initial: Any, first: int = 0, memory: Any = Memory) -> Any:
    """Return the values of a program, after computing its blocks from `first` on.

    Args:
        program: program over arrays.
        domain: interpretation of its operations.
        initial: values of the inputs and of the results of earlier blocks.
        first: number of the first block to compute.
        memory: class of the store of values.
    """
    blocks = program.blocks[first:]  # before the memory is made, since this may end a loop that is recorded
    held = memory(program, domain, initial)
    rules: dict[int, Rule] = {}
    for block in blocks:
        if block.body is not None:
            held.run_steps(block, domain)
            continue
        if block.offsets is not None:
            results = domain.sums(held.read(block.operands[0]), block.offsets)
        elif block.shape is not None:
            results = domain.of_matrices(block)(*map(held.read, block.operands), block.shape)
        else:
            if block.code not in rules:
                rules |= domain.rules([block.code])
            rule, arity = rules[block.code]
            operands = [held.read(each, is_whole=False) for each in block.operands]
            results = rule(*operands) if arity else rule(program, block, *operands)
        held.write(block.start, block.size, results)
    return held


# Domains -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    """Return the code of a text; those of a loop's iterations are equal."""
    return compile(text, "<operations>", "exec")


class _Numbers(Domain):
    """NumPy's double precision, elementwise: numbers, or arrays of points."""

    def number(self, number: Any) -> Any:
        """Return NumPy's numbers, since Python's raise errors where IEEE 754 gives infinity or NaN."""
        return np.float64(number)

    def rule(self, row: Operation) -> Callable[..., Any]:
        """Return NumPy's function."""
        return row.by_numpy

    def routine(self, body: Tape) -> Callable[..., Sequence[Any]]:
        """Return a function compiled from Python source, which is faster than going through tables."""
        return self._compiled(body, np)

    def _compiled(self, body: Tape, functions: Any) -> Callable[..., Sequence[Any]]:
        """Return the function that computes a body's outputs by functions with NumPy's names."""
        names = {f"c{k}": np.float64(value) for k, value in enumerate(body.constants)}

        def name(reference: int) -> str:
            return f"t{reference}" if reference >= 0 else f"c{-1 - reference}"

        lines = [f"def function({', '.join(f't{k}' for k in range(body.inputs))}):"]
        for reference in range(body.inputs, len(body)):
            formula = body.operation(reference).numpy.format(*map(name, body.arguments(reference)))
            lines.append(f"    t{reference} = {formula}")
        lines.append(f"    return ({''.join(f'{name(output)}, ' for output in body.outputs)})")
        scope: dict[str, Any] = {"__name__": __name__, "np": functions, **names}
        text = "\n".join(lines)
        text = "\n".join([*helpers(text), text])
        if "special." in text:
            from scipy import special

            scope["special"] = special
        exec(_compiled(text), scope)  # the text comes from the table alone
        return scope["function"]  # type: ignore[no-any-return]

    def sums(self, terms: Any, offsets: Integers) -> Any:
        """Add terms in NumPy's order; many short sums from left to right, as compiled loops do."""
        starts, lengths = offsets[:-1], np.diff(offsets)
        most = int(lengths.max())
        if len(starts) < MANY_SUMS or most > FEW_TERMS:
            return np.add.reduceat(terms, starts, axis=0)
        total = terms[starts]
        for k in range(1, most):
            longer = lengths > k
            if longer.all():
                total += terms[starts + k]
            else:
                total[longer] += terms[starts[longer] + k]
        return total

    def matmul(self, left: Any, right: Any, shape: Shape) -> Any:
        """Multiply matrices, at one point or at many.

        >>> print(NUMBERS.matmul(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 1.0]), (2, 2, 1)))
        [12. 34.]
        """
        m, k, n = shape
        return _first(np.matmul(_last(left, m, k), _last(right, k, n)))

    def solve(self, matrix: Any, sides: Any, shape: Shape) -> Any:
        """Solve systems, at one point or at many; NaN at all points if one of the matrices is singular.

        >>> print(NUMBERS.solve(np.array([2.0, 0.0, 1.0, 1.0]), np.array([4.0, 5.0]), (2, 2, 1)))
        [2. 3.]
        """
        _, n, m = shape
        try:
            return _first(np.linalg.solve(_last(matrix, n, n), _last(sides, n, m)))
        except np.linalg.LinAlgError:
            return np.full((n * m, *matrix.shape[1:]), np.nan)

    def log_determinant(self, matrix: Any, shape: Shape) -> Any:
        """Compute the sign and logarithm of a determinant by NumPy's slogdet, at one point or at many."""
        return np.stack(np.linalg.slogdet(_last(matrix, *shape[:2])))

    def cholesky(self, matrix: Any, shape: Shape) -> Any:
        """Factorise matrices, at one point or at many; return NaN if one of them is not positive definite."""
        try:
            return _first(np.linalg.cholesky(_last(matrix, *shape[:2])))
        except np.linalg.LinAlgError:
            return np.full(matrix.shape, np.nan)

    def gather(self, matrix: Any, indices: Any, shape: Shape) -> Any:
        """Take rows of matrices, at one point or at many.

        >>> print(NUMBERS.gather(np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0]), (2, 3, 1)))
        [3. 1.]
        """
        m, k, n = shape
        rows = np.take_along_axis(_last(matrix, k, n), whole_indices(_last(indices, m, 1), k), axis=-2)
        return _first(rows)

    def scatter(self, terms: Any, indices: Any, shape: Shape) -> Any:
        """Add rows of matrices, at one point or at many, from the first term to the last.

        >>> print(NUMBERS.scatter(np.array([1.0, 2.0]), np.array([1.0, 1.0]), (2, 2, 1)))
        [0. 3.]
        """
        m, k, n = shape
        added = _last(terms, k, n).reshape(-1, k, n)
        places = whole_indices(_last(indices, k, 1), m).reshape(-1, k)
        sums = np.zeros((len(added), m, n))
        for total, rows, at in zip(sums, added, places, strict=True):
            np.add.at(total, at, rows)
        return _first(sums.reshape(*terms.shape[1:], m, n))

    def factorise(self, row: Factorisation, matrix: Any, shape: Shape) -> Any:
        """Factorise matrices, at one point or at many; NaN if LAPACK fails."""
        try:
            return np.moveaxis(row.flat(_last(matrix, *shape[:2])), -1, 0)
        except np.linalg.LinAlgError:
            return np.full((sum(row.sizes(*shape[:2])), *matrix.shape[1:]), np.nan)

    def sparse_solve(self, system: SparseSystem, data: Any, sides: Any, shape: Shape) -> Any:
        """Solve sparse systems, one point after the other; NaN where a matrix is singular."""
        _, n, m = shape
        solutions = np.full((n * m, *sides.shape[1:]), np.nan)
        for point in np.ndindex(sides.shape[1:]):
            at = (slice(None), *point)
            with suppress(RuntimeError):
                solutions[at] = system.solve(data[at], sides[at].reshape(n, m), warns=False).reshape(-1)
        return solutions

    def sparse_product(self, matrix: SparseMatrix, x: Any, shape: Shape) -> Any:
        """Multiply, at one point or at many, adding the entries of a row in order."""
        m, k, n = shape
        return (matrix.stored @ x.reshape(k, -1)).reshape(m * n, *x.shape[1:])

    def call(self, opaque: Opaque, numbers: Any, shape: Shape) -> Any:
        """Call an opaque function, one point after the other."""
        if numbers.ndim == 1:
            return opaque(numbers)
        if (at_points := getattr(opaque, "at_points", None)) is not None:
            return at_points(numbers)
        results = [opaque(point) for point in numbers.reshape(len(numbers), -1).T]
        return np.array(results).reshape(-1, shape[2]).T.reshape(shape[2], *numbers.shape[1:])


def whole_indices(numbers: Any, rows: int) -> NDArray[np.int64]:
    """Return integer indices of rows, modulo the number of rows; arbitrary ones for NaN."""
    with np.errstate(invalid="ignore"):
        indices: NDArray[np.int64] = np.asarray(numbers).astype(np.int64)
    return indices if not indices.size or (indices.min() >= 0 and indices.max() < rows) else indices % rows


def _last(entries: Any, rows: int, columns: int) -> Any:
    """Return matrices, with points on the leading axes, from entries on the first axis."""
    return np.moveaxis(entries, 0, -1).reshape(*entries.shape[1:], rows, columns)


def _first(matrices: Any) -> Any:
    """Return entries on the first axis, from matrices with points on the leading axes."""
    return np.moveaxis(matrices.reshape(*matrices.shape[:-2], -1), -1, 0)


NUMBERS: Final = _Numbers()


class _Mathematics:
    """Functions of Python's floats, by NumPy's names: the module `math` where it has them, else NumPy."""

    sqrt, exp, log, log1p, expm1, hypot = math.sqrt, math.exp, math.log, math.log1p, math.expm1, math.hypot
    sin, cos, tan, sinh, cosh, tanh = math.sin, math.cos, math.tan, math.sinh, math.cosh, math.tanh
    arcsin, arccos, arctan, arctan2, abs = math.asin, math.acos, math.atan, math.atan2, abs

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def where(condition: float, x: float, y: float) -> float:
        return x if condition else y

    @staticmethod
    def power(x: float, y: float) -> float:
        return x**y if x > 0.0 else float(np.power(x, y))

    @staticmethod
    def minimum(x: float, y: float) -> float:
        return x if x < y or math.isnan(x) else y

    @staticmethod
    def maximum(x: float, y: float) -> float:
        return x if x > y or math.isnan(x) else y


class _Floats(_Numbers):
    """Numbers at one point, with recurrences step by step in Python's floats, ten times as fast as NumPy's numbers.

    Their functions may differ from NumPy's in the last digits.
    """

    def steps(
        self, rows: NDArray[np.float64], columns: Sequence[Integers], start: int, block: Block
    ) -> NDArray[np.float64]:
        """Return the results of a recurrence of one instance a step, (outputs, instances).

        Args:
            rows: all values so far, by row.
            columns: rows of the operands, for each input of the body.
            start: row of the first result.
            block: the recurrence.
        """
        assert block.body is not None
        count, size = block.count, block.size
        at = np.array(columns, np.int64).reshape(len(columns), count)
        own = (at >= start) & (at < start + size)
        outside, positions = np.unique(at[~own], return_inverse=True)
        at[own] -= start
        at[~own] = size + positions
        taken, known = at.T.tolist(), rows[outside]

        def run_on(values: Any, compute: Callable[..., Sequence[Any]]) -> NDArray[np.float64]:
            value_at, places = values.__getitem__, range(0, size, count)
            for k, operands in enumerate(taken):
                for place, value in zip(places, compute(*map(value_at, operands)), strict=True):
                    values[place + k] = value
            return np.array(values[:size], np.float64).reshape(-1, count)

        try:
            return run_on([0.0] * size + known.tolist(), self._compiled(block.body, _Mathematics()))
        except (ArithmeticError, ValueError, TypeError):  # where IEEE 754 gives infinity or NaN
            return run_on(np.concatenate([np.zeros(size), known]), self.routine(block.body))


def values_near(program: Program, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the outputs of a program over arrays at one point, up to the last digits.

    >>> tape = Program(inputs=3)
    >>> tape.outputs = tape.sums(tape.apply("exp", np.arange(3)), [0, 3])
    >>> print(values_near(tape, np.zeros(3)))
    [3.]
    """
    with np.errstate(all="ignore"):
        return run(program, _Floats(), point)  # type: ignore[no-any-return]


class _OnPath(_Numbers):
    """Numbers at several points, with selections as at the first of them."""

    def rule(self, row: Operation) -> Callable[..., Any]:
        return (lambda c, a, b: a if np.ravel(c)[0] else b) if row.name == "select" else super().rule(row)


ON_PATH: Final = _OnPath()


class _Arithmetic(Domain):
    """Domain with a function for each name of an operation."""

    def __init__(self, arithmetic: Mapping[str, Callable[..., Any]], number: Callable[[float], Any]) -> None:
        self._arithmetic, self._number = arithmetic, number

    def number(self, number: Any) -> Any:
        return self._number(number)

    def rule(self, row: Operation) -> Callable[..., Any]:
        return self._arithmetic[row.name]


@overload
def evaluate(
    program: Tape,
    inputs: Sequence[Any],
    arithmetic: Mapping[str, Callable[..., Any]] | None = None,
    number: Callable[[float], Any] = np.float64,
) -> list[Any]: ...
@overload
def evaluate(program: Program, inputs: NDArray[np.float64]) -> NDArray[np.float64]: ...
def evaluate(
    program: Tape | Program,
    inputs: Any,
    arithmetic: Mapping[str, Callable[..., Any]] | None = None,
    number: Callable[[float], Any] = np.float64,
) -> list[Any] | NDArray[np.float64]:
    """Return the values of a program's outputs.

    Args:
        program: program to evaluate.
        inputs: number, or array of points, for each input; for a program over arrays, an array of shape (inputs,) or
            (inputs, points).
        arithmetic: function for each operation name; by default NumPy's, elementwise. With functions of mpmath or
            Fraction, the same tape runs in high precision or exactly.
        number: function that converts a float constant to a number of that arithmetic.

    Raises:
        ArgumentError: if the number of inputs is wrong.

    >>> tape = Tape(1)
    >>> tape.outputs = [tape.multiply(0, tape.apply("exp", 0))]
    >>> float(evaluate(tape, [0.0])[0])
    0.0
    """
    if len(inputs) != program.inputs:
        raise ArgumentError(f"the tape has {program.inputs} inputs, {len(inputs)} values were given")
    with np.errstate(all="ignore"):
        if arithmetic is not None:
            return run(program, _Arithmetic(arithmetic, number), inputs)  # type: ignore[no-any-return]
        if program.scalars is not None:
            # the product converts Python's numbers, which raise errors where IEEE 754 gives infinity or NaN, to NumPy's
            inputs = [np.multiply(1.0, x) for x in inputs]
        return run(program, NUMBERS, inputs)  # type: ignore[no-any-return]


def outputs_at(tape: Tape | Program, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return all outputs of a program at points of shape (points, inputs), as (outputs, points)."""
    values = np.empty((len(inputs), len(tape.outputs))).T  # the values of each point are contiguous
    if tape.scalars is not None:
        for row, value in zip(values, evaluate(tape.scalars, list(np.ascontiguousarray(inputs.T))), strict=True):
            row[:] = value
    elif any(block.steps is not None or getattr(block.opaque, "at_points", None) for block in tape.blocks):
        # step by step, for all points at once
        values[:] = evaluate(tape, inputs.T)
    else:
        for k, point in enumerate(inputs):
            values[:, k] = evaluate(tape, point)
    return values


# Copies of tapes -----------------------------------------------------------------------------------------------------


class Writing(Domain):
    """References of another program on which operations are recorded; constants come first.

    Args:
        made: program to record on, a `Tape` or a `Program`.
    """

    def __init__(self, made: Any) -> None:
        self.made = made

    def numbers(self, numbers: Sequence[float]) -> Iterable[Any]:
        """Return references of constants, recorded in the original order."""
        return [self.made.constant(number) for number in reversed(numbers)][::-1]

    def rule(self, row: Operation) -> Callable[..., Any]:
        """Return the function that records an operation."""
        return lambda *operands: applied(self.made, row.code, operands)


class Copy:
    """A tape that is recorded again on another one, operation by operation; a constant is recorded when it is used.

    Args:
        tape: tape to copy.
        made: tape to record on.
        values: reference on `made` of each input, and of values that are replaced.

    >>> tape, made = Tape(1), Tape(1)
    >>> square = tape.multiply(0, 0)
    >>> copy = Copy(tape, made, {0: made.negative(0)})
    >>> print(made.name(copy.record(square)), made.operation(copy[square]).name)
    t2 multiply
    """

    def __init__(self, tape: Tape, made: Any, values: Mapping[int, int]) -> None:
        self._tape, self._made, self.values = tape, made, dict(values)

    def __getitem__(self, reference: int) -> int:
        """Return the reference on the other tape of a recorded or replaced value, or of a constant."""
        return self.values[reference] if reference >= 0 else int(self._made.constant(self._tape.value_of(reference)))

    def record(self, reference: int) -> int:
        """Record an operation whose arguments are recorded, and return its reference on the other tape."""
        operands = [self[argument] for argument in self._tape.arguments(reference)]
        made = self.values[reference] = applied(self._made, self._tape.codes[reference], operands)
        return made


def copied(
    tape: Tape,
    made: Any,
    inputs: Iterable[int],
    *,
    replaced: Mapping[int, int] = MappingProxyType({}),
    signed: NDArray[np.bool_] | None = None,
) -> list[int]:
    """Record the operations that a tape's outputs need on another tape, and return the references of the outputs there.

    Args:
        tape: tape to copy.
        made: tape to record on.
        inputs: references on `made` of the tape's inputs.
        replaced: references on `made` of operations that are not recorded again.
        signed: truth value for each reference, True if it is recorded with `signed_zeros`; by default, all
            are recorded as `made` is set.
    """
    copy, live = Copy(tape, made, {**dict(enumerate(inputs)), **replaced}), needed(tape)
    for reference in range(tape.inputs, len(tape)):
        if live[reference] and reference not in replaced:
            if signed is not None:
                made.signed_zeros = bool(signed[reference])
            copy.record(reference)
    if signed is not None:
        made.signed_zeros = False
    return [copy[output] for output in tape.outputs]


def applied(tape: Any, code: int, references: Sequence[int]) -> int:
    """Record an operation of a body on an enclosing tape, where truth values are no longer stored as numbers."""
    operands = list(references)
    for k, reference in enumerate(operands):
        if reference < 0 or k in _TRUTHS[code] or not tape.is_boolean(reference):
            continue
        others = [each for each in references if each != reference]
        if code in (_EQUAL, _NOT_EQUAL) and others and others[0] < 0 and tape.value_of(others[0]) == 0.0:
            return reference if code == _NOT_EQUAL else int(tape.logical_not(reference))
        operands[k] = tape.select(reference, tape.constant(1.0), tape.constant(0.0))
    return int(tape.apply_code(code, operands))
