"""Linear systems and determinants as scalar operations on a tape.

The program must be correct at every point, so it cannot branch on values while it is recorded:

* up to 3×3, cofactors: no branch is needed, and the program is shortest;
* above, first the *singletons*: equations that have one unknown left, and unknowns that one equation has left, as in
  UMFPACK (T. A. Davis, *ACM Trans. Math. Softw.* 30, 2004). A triangular matrix has no others, in any order of its rows
  and columns. They need no choice of pivots;
* for the rest, the *core*, cofactors or Gaussian elimination with partial pivoting, in which each exchange of rows is a
  `select` of every entry (``n³/3`` products and as many selects, besides the right-hand sides). Structural zeros are
  never pivots and cost nothing. The columns of an inverse are the solutions for the unit vectors;
* a core that is positive semidefinite by its form (`accumulus.tape.definite`) needs no exchanges, and half of its
  elimination is the other half.

If values determine the pivots, the elimination is not differentiated. The solution of A·x = b is an implicit function
with dx = A⁻¹·(db - dA·x), computed by the factors of the elimination. This costs less than half of the derivatives of
the elimination and all its selects. Only plans for which it is cheaper form the inverse, so that a product with a
direction takes n² products in addition to the elimination.

A determinant is a polynomial, with derivatives at singular matrices, too. In all other functions, a singular matrix
gives infinities or NaN where NumPy raises `LinAlgError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.definite import is_semidefinite
from accumulus.tape.tape import Tape

#: Number of rows up to which a determinant is differentiated by minors. Each further row doubles the operations; with
#: fewer, derivatives of singular matrices of more rows are undefined.
MOST_MINORS: Final = 8
#: Number that replaces a pivot of 0: a larger one changes results of matrices with small entries; with a smaller one,
#: reciprocals of products overflow.
TINY: Final = 1e-150
#: A matrix or vector of references.
Rows = list[list[int]]


def solutions(tape: Tape, a: Rows, b: Rows, banded: bool = False) -> Rows:
    """Return the solutions of a·x = b, a row for each unknown.

    Args:
        tape: tape to record on.
        a: references of the matrix, (n, n).
        b: references of the right-hand sides, (n, k).
        banded: if True, differentiate the elimination itself, because an inverse has no bands.
    """
    if len(a) <= 3:
        return _core_solutions(tape, a, b, banded)
    order = Order.of(_pattern(tape, a))
    found: dict[int, list[int]] = {}

    def left(i: int) -> list[int]:
        """Return the right-hand sides of an equation without the terms of the unknowns that are found."""
        terms = [(a[i][j], xs) for j, xs in found.items() if not _is_zero(tape, a[i][j])]
        return [
            tape.subtract(side, tape.sum(tape.multiply(entry, xs[k]) for entry, xs in terms)) if terms else side
            for k, side in enumerate(b[i])
        ]

    def substitute(singletons: Iterable[tuple[int, int]]) -> None:
        for i, j in singletons:
            reciprocal = tape.divide(tape.constant(1.0), a[i][j])
            found[j] = [tape.multiply(side, reciprocal) for side in left(i)]

    substitute(order.first)
    core = [[a[i][j] for j in order.columns] for i in order.rows]
    found |= zip(order.columns, _core_solutions(tape, core, [left(i) for i in order.rows], banded), strict=True)
    substitute(reversed(order.last))
    return [found[j] for j in range(len(a))]


def _taken(left: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the entries that are alone in their rows, one after the other; their rows and columns become empty."""
    singletons = []
    while (single := np.flatnonzero(left.sum(axis=1) == 1)).size:
        i = int(single[0])
        j = int(np.flatnonzero(left[i])[0])
        left[i], left[:, j] = False, False
        singletons.append((i, j))
    return singletons


def _core_solutions(tape: Tape, a: Rows, b: Rows, banded: bool) -> Rows:
    """Return the solutions of a system without singletons, or of few equations; see `solutions`."""
    n = len(a)
    if n <= 3:
        adjugate, determinant = _cofactors(tape, a)
        columns = list(zip(*b, strict=True))
        return [
            [tape.divide(tape.sum(map(tape.multiply, row, column)), determinant) for column in columns]
            for row in adjugate
        ]
    solutions = [row.copy() for row in b]
    triangular = _Triangular(tape, a, solutions)
    triangular.substitute_back(solutions)
    # an inverse has no bands; without exchanges, no value determined a pivot
    if banded or not (triangular.exchanges or triangular.is_definite):
        return solutions
    return _implicit(tape, a, b, solutions, triangular)


class Order(NamedTuple):
    """The order in which a system is solved, as pairs of an equation and an unknown, by position.

    >>> Order.of(np.tril(np.ones((3, 3), bool)))
    Order(first=[(0, 0), (1, 1), (2, 2)], rows=[], columns=[], last=[])
    """

    first: list[tuple[int, int]]  # equations with one unknown that is not found before
    rows: list[int]  # equations and unknowns of the core
    columns: list[int]
    last: list[tuple[int, int]]  # unknowns that neither the core nor later equations have, to be found from the end

    @classmethod
    def of(cls, pattern: NDArray[np.bool_]) -> Order:
        """Return the order for a matrix with these structural nonzeros."""
        left = pattern.copy()
        first, last = _taken(left), [(i, j) for j, i in _taken(left.T)]
        rows, columns = (sorted({*range(len(left))} - {pair[k] for pair in first + last}) for k in (0, 1))
        return cls(first, rows, columns, last)

    @property
    def sign(self) -> int:
        """Sign of the permutation that leads from the unknowns to their equations."""
        unknown_of = dict([*self.first, *zip(self.rows, self.columns, strict=True), *self.last])
        waiting, sign = set(unknown_of), 1
        while waiting:
            k = waiting.pop()
            while (k := unknown_of[k]) in waiting:  # along a cycle
                waiting.remove(k)
                sign = -sign
        return sign


def products(pattern: NDArray[np.bool_]) -> int:
    """Return the number of products of the elimination of a matrix with these structural nonzeros, for any pivots."""
    order = Order.of(pattern)
    count = int(np.count_nonzero(pattern)) - int(np.count_nonzero(pattern[np.ix_(order.rows, order.columns)]))
    left = pattern[np.ix_(order.rows, order.columns)]
    for k in range(len(left) if len(left) > 3 else 0):
        below = k + np.flatnonzero(left[k:, k])
        reached = np.flatnonzero(left[below].any(axis=0))  # any of these rows may become the pivot
        left[np.ix_(below, reached)] = True
        count += len(below) * int(np.count_nonzero(reached > k))
    return count


def _implicit(tape: Tape, a: Rows, b: Rows, solutions: Rows, triangular: _Triangular) -> Rows:
    """Return the solutions x with the derivatives of A⁻¹·(b - A·x) for constant A⁻¹ and x: dx is A⁻¹·(db - dA·x).

    A⁻¹ is not formed: the residual passes through the elimination's constant factors, as the right-hand side did. If x
    is A⁻¹, it is multiplied by x.
    """
    columns = list(zip(*[[_fixed(tape, x) for x in row] for row in solutions], strict=True))
    steps = [
        [
            tape.subtract(side, tape.sum(map(tape.multiply, row, column)))
            for side, column in zip(sides, columns, strict=True)
        ]
        for row, sides in zip(a, b, strict=True)
    ]
    unit_vectors = [[tape.constant(float(i == j)) for j in range(len(a))] for i in range(len(a))]
    if b == unit_vectors:
        # constant weights are no copies of solutions (`accumulus.elimination.implicit`)
        inverse = [[_fixed(tape, _fixed(tape, x)) for x in row] for row in solutions]
        columns = list(zip(*steps, strict=True))
        steps = [[tape.sum(map(tape.multiply, row, column)) for column in columns] for row in inverse]
    else:
        triangular.solve_as_constant(steps)
    return [
        [tape.apply("attach", x, step) for x, step in zip(*rows, strict=True)]
        for rows in zip(solutions, steps, strict=True)
    ]


def _fixed(tape: Tape, entry: int) -> int:
    return tape.apply("attach", entry, tape.constant(0.0))


def _cofactors(tape: Tape, a: Rows) -> tuple[Rows, int]:
    """Return the adjugate and the determinant of a matrix with up to three rows."""
    n = len(a)
    if n == 0:
        return [], tape.constant(1.0)
    if n == 1:
        return [[tape.constant(1.0)]], a[0][0]
    if n == 2:
        (p, q), (r, s) = a
        return [[s, tape.negative(q)], [tape.negative(r), p]], _minor(tape, p, q, r, s)
    adjugate = [
        [
            # cyclic indices give the minor with its sign
            _minor(tape, *(a[(j + u) % 3][(i + v) % 3] for u in (1, 2) for v in (1, 2)))
            for j in range(3)
        ]
        for i in range(3)
    ]
    return adjugate, tape.sum(tape.multiply(a[0][j], adjugate[j][0]) for j in range(3))


def _minor(tape: Tape, p: int, q: int, r: int, s: int) -> int:
    return tape.subtract(tape.multiply(p, s), tape.multiply(q, r))


class _Triangular:
    """A matrix made upper triangular by elimination with partial pivoting, together with the right-hand sides `b`.

    Args:
        tape: tape to record on.
        a: references of the matrix.
        b: references of the right-hand sides, which are changed in place.
        steps: number of columns to eliminate; by default all. With fewer, a pivot may be 0, if all entries below are.

    Attributes:
        is_definite: True if the matrix is positive semidefinite by its form, so that no rows are exchanged.
        rows: the triangular matrix; below its diagonal, the factors by which rows were subtracted.
        exchanges: triples (k, i, condition) of rows exchanged where the condition holds; always if it is None.
        sign: sign of the permutation.
        divisors: the pivots; if not all columns are eliminated, a pivot of 0 is replaced by `TINY`.
    """

    def __init__(self, tape: Tape, a: Rows, b: Rows, steps: int | None = None) -> None:
        self.tape = tape
        self.rows = [row.copy() for row in a]
        self.sign = tape.constant(1.0)
        self.exchanges: list[tuple[int, int, int | None]] = []
        self.divisors: list[int] = []
        self._reciprocals: list[int] = []
        #: Factors of each column, by row at the time of its elimination.
        self._factors: list[dict[int, int]] = []
        n = len(a)
        one, zero = tape.constant(1.0), tape.constant(0.0)
        self._steps = n if steps is None else steps
        self.is_definite = is_semidefinite(tape, a)
        for k in range(self._steps):
            for i in range(k + 1, n):
                if self.is_definite:
                    self.rows[i][k] = self.rows[k][i]  # what is left of the matrix stays symmetric
                else:
                    self._exchange(b, k, i)
            pivot = self.rows[k][k]
            if steps is not None:
                tiny = tape.select(tape.apply("equal", pivot, zero), tape.constant(TINY), zero)
                pivot = tape.add(pivot, tiny)
            self.divisors.append(pivot)
            self._reciprocals.append(tape.divide(one, pivot))
            self._factors.append({})
            for i in range(k + 1, n):
                if not self._is_zero(i, k):
                    factor = tape.multiply(self.rows[i][k], self._reciprocals[k])
                    self.rows[i][k] = self._factors[k][i] = factor
                    self._subtract(self.rows, i, factor, k, i if self.is_definite else k + 1)
                    self._subtract(b, i, factor, k, 0)

        for k in range(self._steps, n if self.is_definite else 0):
            for i in range(k + 1, n):
                self.rows[i][k] = self.rows[k][i]

    def substitute_back(self, b: Rows) -> None:
        """Replace the right-hand sides of the triangular systems by the solutions."""
        tape, n = self.tape, len(self.rows)
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                self._subtract(b, i, self.rows[i][j], j, 0)
            b[i] = [tape.multiply(entry, self._reciprocals[i]) for entry in b[i]]

    def inverse(self) -> Rows:
        """Return the inverse of the matrix, by up to n³ products: of the factors first; columns are exchanged last."""
        tape, n = self.tape, len(self.rows)
        result = [[tape.constant(float(i == j)) for j in range(n)] for i in range(n)]
        for k in range(n):
            for i in range(k + 1, n):
                self._subtract(result, i, self.rows[i][k], k, 0)
        self.substitute_back(result)
        for k, i, condition in reversed(self.exchanges):
            for row in result:
                row[k], row[i] = self._exchanged(condition, row[k], row[i])
        return result

    def solve_as_constant(self, b: Rows) -> None:
        """Replace right-hand sides by solutions, with zero derivatives with respect to the matrix."""
        tape, n = self.tape, len(self.rows)
        fixed = [[_fixed(tape, entry) for entry in row] for row in self.rows]
        reciprocals = [_fixed(tape, entry) for entry in self._reciprocals]
        for k, i, condition in self.exchanges:
            self._exchange_rows(b, k, i, condition)
        for k in range(n):
            for i in range(k + 1, n):
                self._subtract(b, i, fixed[i][k], k, 0)
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                self._subtract(b, i, fixed[i][j], j, 0)
            b[i] = [tape.multiply(entry, reciprocals[i]) for entry in b[i]]

    def determinant(self, pivots: Sequence[int]) -> int:
        """Return the product of the pivots and of the remaining minor, with the sign of the permutation."""
        product, steps = self.sign, self._steps
        for pivot in pivots[:steps]:
            product = self.tape.multiply(product, pivot)
        return self.tape.multiply(product, _cofactors(self.tape, [row[steps:] for row in self.rows[steps:]])[1])

    def polynomial(self, a: Rows) -> int:
        """Return a value with the derivatives of all orders of the determinant of `a`, even where pivots are 0.

        With L held constant in derivatives of every order, the result is the determinant of B = L⁻¹·P·A. Below the
        diagonal, B is zero but has derivatives, so little remains of it after differentiation. Above `MOST_MINORS`
        rows, the first rows are eliminated, whose pivots must not be 0.
        """
        tape, n, one, zero = self.tape, len(a), self.tape.constant(1.0), self.tape.constant(0.0)
        rows = [row.copy() for row in a]
        for k in range(self._steps):  # exchange just before each step, so that factors are not exchanged
            for _, i, condition in (each for each in self.exchanges if each[0] == k):
                self._exchange_rows(rows, k, i, condition)
            for i, factor in self._factors[k].items():
                self._subtract(rows, i, tape.apply("attach", factor, one), k, 0)
        for i in range(n):
            for j, entry in enumerate(rows[i]):
                value = zero if j < min(i, self._steps) else self.rows[i][j]
                held = tape.apply("attach", value, one) if value >= 0 else value
                rows[i][j] = tape.add(held, tape.apply("attach", zero, entry)) if entry >= 0 else held
        product = self.sign
        for k in range(n - MOST_MINORS):
            product = tape.multiply(product, rows[k][k])
            for i in range(k + 1, n):
                if not _is_zero(tape, rows[i][k]):
                    self._subtract(rows, i, tape.divide(rows[i][k], rows[k][k]), k, k + 1)
        first = max(n - MOST_MINORS, 0)
        return tape.multiply(product, _minors(tape, [row[first:] for row in rows[first:]]))

    def _subtract(self, rows: Rows, i: int, factor: int, k: int, first: int) -> None:
        """Subtract `factor` times row k from row i, from column `first` on."""
        tape, from_, row = self.tape, rows[i], rows[k]
        for j in range(first, len(row)):
            from_[j] = tape.subtract(from_[j], tape.multiply(factor, row[j]))

    def _exchange(self, b: Rows, k: int, i: int) -> None:
        """Exchange the rows k and i where this gives the larger pivot."""
        tape, rows = self.tape, self.rows
        if self._is_zero(i, k):
            return
        condition = None
        if not self._is_zero(k, k):
            condition = tape.apply("less", tape.apply("abs", rows[k][k]), tape.apply("abs", rows[i][k]))
        for matrix in (rows, b):
            self._exchange_rows(matrix, k, i, condition)
        negative = tape.negative(self.sign)
        self.sign = negative if condition is None else tape.select(condition, negative, self.sign)
        self.exchanges.append((k, i, condition))

    def _exchange_rows(self, rows: Rows, k: int, i: int, condition: int | None) -> None:
        """Exchange the rows k and i where a condition holds."""
        for j in range(len(rows[k])):
            rows[k][j], rows[i][j] = self._exchanged(condition, rows[k][j], rows[i][j])

    def _exchanged(self, condition: int | None, x: int, y: int) -> tuple[int, int]:
        if condition is None:
            return y, x
        return self.tape.select(condition, y, x), self.tape.select(condition, x, y)

    def _is_zero(self, i: int, k: int) -> bool:
        return _is_zero(self.tape, self.rows[i][k])


def determinant(tape: Tape, a: Rows) -> int:
    """Return the determinant by elimination, with derivatives of a polynomial, which divide by no pivot.

    First derivatives are computed by the elimination, with a tiny number in place of pivots of 0.
    """
    if len(a) <= 3:
        return _cofactors(tape, a)[1]
    order = Order.of(_pattern(tape, a))
    if order.first or order.last:
        factors = [a[i][j] for i, j in (*order.first, *order.last)]
        product = determinant(tape, [[a[i][j] for j in order.columns] for i in order.rows])
        for factor in factors:
            product = tape.multiply(product, factor)
        return product if order.sign > 0 else tape.negative(product)
    triangular = _Triangular(tape, a, [[] for _ in a], steps=len(a) - 2)
    value = triangular.determinant([row[k] for k, row in enumerate(triangular.rows)])
    if not (triangular.exchanges or triangular.is_definite) or value < 0:
        return value
    of_all_orders = tape.apply("attach", value, triangular.polynomial(a))
    return tape.apply("attach", of_all_orders, triangular.determinant(triangular.divisors))


def _minors(tape: Tape, rows: Rows) -> int:
    """Return a determinant from all minors of the last rows: by 2ⁿ·n/2 products and their sums, without divisions."""
    minors = {0: tape.constant(1.0)}
    for row in reversed(rows):
        terms: dict[int, list[int]] = {}
        for columns, minor in minors.items():
            for j, entry in enumerate(row):
                if not columns >> j & 1 and not _is_zero(tape, entry):
                    term = tape.multiply(entry, minor)
                    before = (columns & ((1 << j) - 1)).bit_count()
                    terms.setdefault(columns | 1 << j, []).append(tape.negative(term) if before % 2 else term)
        minors = {columns: tape.sum(each) for columns, each in terms.items()}
    return minors.get((1 << len(rows)) - 1, tape.constant(0.0))


def _pattern(tape: Tape, a: Rows) -> NDArray[np.bool_]:
    """Return True for entries that are no structural zeros."""
    return np.array([[not _is_zero(tape, entry) for entry in row] for row in a])


def _is_zero(tape: Tape, reference: int) -> bool:
    return reference < 0 and tape.value_of(reference) == 0.0


def lower_factor(tape: Tape, a: Rows) -> Rows:
    """Return the Cholesky factor of a symmetric matrix, read from its lower triangle; NaN if it is not definite."""
    zero = tape.constant(0.0)
    factor = [[zero] * len(a) for _ in a]
    for j, pivots in enumerate(factor):
        for i in range(j, len(a)):
            total = tape.sum(map(tape.multiply, factor[i][:j], pivots[:j])) if j else zero
            left = tape.apply("subtract", a[i][j], total) if j else a[i][j]
            factor[i][j] = tape.apply("sqrt", left) if i == j else tape.divide(left, pivots[j])
    return factor


def logarithm(tape: Tape, a: Rows) -> tuple[int, int]:
    """Return the sign and the logarithm of a determinant, whose derivative is the trace of A⁻¹·dA."""
    zero = tape.constant(0.0)
    order = Order.of(_pattern(tape, a)) if a else Order([], [], [], [])
    core = [[a[i][j] for j in order.columns] for i in order.rows]
    triangular = _Triangular(tape, core, [[] for _ in core])
    pivots = [row[k] for k, row in enumerate(triangular.rows)]
    of_core = tape.sum(tape.apply("log", tape.apply("abs", pivot)) for pivot in pivots)
    if triangular.exchanges or triangular.is_definite:
        weights = [[tape.apply("attach", entry, zero) for entry in row] for row in triangular.inverse()]
        size = range(len(core))
        of_core = tape.apply(
            "attach", of_core, tape.sum(tape.multiply(weights[j][i], core[i][j]) for i in size for j in size)
        )
    factors = [a[i][j] for i, j in (*order.first, *order.last)]
    sign, singular = triangular.sign if order.sign > 0 else tape.negative(triangular.sign), zero
    for factor in (*pivots, *factors):
        sign = tape.multiply(sign, tape.apply("sign", factor))
        singular = tape.logical_or(singular, tape.apply("equal", factor, zero))
    logarithm = tape.sum([of_core, *(tape.apply("log", tape.apply("abs", factor)) for factor in factors)])
    return tape.select(singular, zero, sign), tape.select(singular, tape.constant(-np.inf), logarithm)


class Diagonal:
    """Factors of a sparse matrix, with pivots on its diagonal in the order that keeps most zeros.

    The order is Markowitz's, a choice by the pattern alone. Pivots are not compared with other entries, so the matrix
    has to be dominated by its diagonal, or the caller has to judge the solutions.

    Source: H. M. Markowitz, The elimination form of the inverse and its application to linear programming, Management
    Science 3, 1957.

    Args:
        tape: tape to record on.
        a: references of the matrix.

    >>> tape = Tape(2)
    >>> zero = tape.constant(0.0)
    >>> factors = Diagonal(tape, [[0, 1, 1], [1, 0, zero], [1, zero, 0]])
    >>> factors.order, len(factors.solve(tape, [0, 1, 1]))  # the full row is the last pivot, so that no zero is lost
    ([1, 0, 2], 3)
    """

    def __init__(self, tape: Tape, a: Rows) -> None:
        rows = [{j: entry for j, entry in enumerate(row) if not _is_zero(tape, entry)} for row in a]
        columns: list[set[int]] = [{i for i, row in enumerate(rows) if j in row} for j in range(len(a))]
        #: Pivots, the first one first.
        self.order: list[int] = []
        #: For each pivot: its reciprocal, the factors of the rows below by row, and the entries to its right by column.
        self._steps: list[tuple[int, dict[int, int], dict[int, int]]] = []
        left, zero, one = set(range(len(a))), tape.constant(0.0), tape.constant(1.0)
        while left:
            k = min(left, key=lambda k: ((len(rows[k]) - 1) * (len(columns[k]) - 1), k))
            left.remove(k)
            reciprocal = tape.divide(one, rows[k].pop(k, zero))
            columns[k].discard(k)
            factors = {i: tape.multiply(rows[i].pop(k), reciprocal) for i in sorted(columns[k])}
            for i, factor in factors.items():
                for j, entry in rows[k].items():
                    rows[i][j] = tape.subtract(rows[i].get(j, zero), tape.multiply(factor, entry))
                    columns[j].add(i)
            for j in rows[k]:
                columns[j].discard(k)
            self.order.append(k)
            self._steps.append((reciprocal, factors, rows[k]))

    def solve(self, tape: Tape, b: Sequence[int]) -> list[int]:
        """Return references of the solution for a right-hand side, recorded on the tape or one that continues it."""
        x = [*b]
        for k, (_, factors, _) in zip(self.order, self._steps, strict=True):
            for i, factor in factors.items():
                x[i] = tape.subtract(x[i], tape.multiply(factor, x[k]))
        for k, (reciprocal, _, entries) in zip(reversed(self.order), reversed(self._steps), strict=True):
            for j, entry in entries.items():
                x[k] = tape.subtract(x[k], tape.multiply(entry, x[j]))
            x[k] = tape.multiply(x[k], reciprocal)
        return x
