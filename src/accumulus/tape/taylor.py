"""Taylor arithmetic: the coefficients of a tape's outputs along a path of its inputs, by recurrences.

Along a path x(t) = Σ x_k·t^k each value is a series v(t) = Σ v_k·t^k. Sums, products, quotients, selections and
non-integer powers have specific recurrences. All other operations follow from their row in the table, by v' = Σ
φ'(x)·x':

    k·v_k = Σ_j j·x_j·p_{k-j},    p = φ'(x)

where p is an expression in x and v. Its own series is computed in the same way, as far as needed; sine and cosine thus
share theirs. If p is c/q, as for logarithms, roots and arc functions, this is one convolution, of v' with q. Each
operation takes O(order²) products (Griewank and Walther, Evaluating Derivatives, 2008, chapter 13); special functions
whose derivatives are further special functions take several operations for each of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.partials import partial
from accumulus.tape.tape import Tape

_OWN_RULES: Final = ("add", "subtract", "negative", "multiply", "divide", "select")


def taylor_coefficients(tape: Tape, series: Mapping[int, Sequence[int]], order: int) -> list[list[int]]:
    """Return coefficients of t, t², … for each output of a tape, recorded on that tape.

    Args:
        tape: tape without attached derivatives.
        series: references of `order` coefficients for each input that varies along the path.
        order: largest power of t.

    Raises:
        TraceError: if an argument that has to be a constant, like the order of a Bessel function, depends on the path.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("exp", 0)]
    >>> found = taylor_coefficients(tape, {0: [1, tape.constant(0.0)]}, 2)
    >>> tape.outputs += found[0]
    >>> from accumulus.tape.interpreter import evaluate
    >>> [float(entry) for entry in evaluate(tape, [0.0, 2.0])]
    [1.0, 2.0, 2.0]
    """
    outputs = list(tape.outputs)
    arithmetic = _Arithmetic(tape, series)
    arithmetic.run(outputs, order)
    return [[arithmetic.at(output, k) for k in range(1, order + 1)] for output in outputs]


class _Arithmetic:
    """The series of the values on a tape."""

    def __init__(self, tape: Tape, series: Mapping[int, Sequence[int]]) -> None:
        self._tape, self._zero = tape, tape.constant(0.0)
        #: Truth value for each value: 1 if it varies along the path.
        self._moves = bytearray(k in series for k in range(tape.inputs))
        self._series: dict[int, list[int]] = {k: [k, *coefficients] for k, coefficients in series.items()}
        #: For each operation, pairs of a partial derivative and its argument, for the arguments that vary.
        self._partials: dict[int, list[tuple[int, int]]] = {}

    def at(self, value: int, k: int) -> int:
        """Return the coefficient of t^k."""
        if not k:
            return value
        return self._series[value][k] if self._is_moving(value) else self._zero

    def run(self, outputs: Sequence[int], order: int) -> None:
        """Compute the coefficients of some values up to an order."""
        tape, needs = self._tape, self._needs(outputs, order)
        for value in needs:
            self._series[value] = [value]
        for k in range(1, order + 1):
            for value in sorted(needs):
                if needs[value] >= k:
                    self._series[value].append(self._coefficient(tape.operation(value).name, value, k))

    def _needs(self, outputs: Sequence[int], order: int) -> dict[int, int]:
        """Return the highest coefficient that each operation needs; record the partial derivatives required for it."""
        tape, needed = self._tape, dict[int, int]()
        waiting = [(output, order) for output in outputs]
        while waiting:
            value, k = waiting.pop()
            if k <= needed.get(value, 0) or not self._is_moving(value) or value < tape.inputs:
                continue
            needed[value] = k
            waiting += [(argument, k) for argument in tape.arguments(value)]
            if tape.operation(value).name not in _OWN_RULES and self._power(value) is None:
                if value not in self._partials:
                    self._partials[value] = self._written(value)
                for slope, _ in self._partials[value]:
                    quotient = self._quotient(value)
                    waiting.append((slope if quotient is None else quotient[1], k - 1))
        return needed

    def _is_moving(self, value: int) -> bool:
        tape, moves = self._tape, self._moves
        for k in range(len(moves), len(tape)):
            row = OPERATIONS[tape.codes[k]]
            moves.append(set(row.partials) != {None} and any(a >= 0 and moves[a] for a in tape.arguments(k)))
        return value >= 0 and bool(moves[value])

    def _written(self, value: int) -> list[tuple[int, int]]:
        tape = self._tape
        partials = []
        for position, argument in enumerate(tape.arguments(value)):
            if self._is_moving(argument):
                slope = partial(tape, value, position)
                if slope is not None:
                    partials.append((slope, argument))
        return partials

    def _quotient(self, value: int) -> tuple[int, int] | None:
        """Return the constant c and the value q if the only partial derivative is c/q; else None."""
        tape, partials = self._tape, self._partials[value]
        if len(partials) != 1:
            return None
        ((slope, _),) = partials
        if slope < tape.inputs or tape.operation(slope).name != "divide":
            return None
        c, q = tape.arguments(slope)
        return (c, q) if self._is_moving(q) and not self._is_moving(c) else None

    def _power(self, value: int) -> float | None:
        """Return the exponent of a power if it is a non-integer constant; else None."""
        tape = self._tape
        if tape.operation(value).name != "power" or tape.arguments(value)[1] >= 0:
            return None
        exponent = tape.value_of(tape.arguments(value)[1])
        return None if exponent.is_integer() else exponent

    def _coefficient(self, name: str, value: int, k: int) -> int:
        tape, at = self._tape, self.at
        x, *rest = tape.arguments(value)
        if name in ("add", "subtract"):
            return tape.apply(name, at(x, k), at(rest[0], k))
        if name == "negative":
            return tape.negative(at(x, k))
        if name == "multiply":
            return self._convolved(x, rest[0], range(k + 1), k)
        if name == "divide":
            y = rest[0]
            return tape.divide(tape.subtract(at(x, k), self._convolved(value, y, range(k), k)), y)
        if name == "select":
            return tape.select(x, at(rest[0], k), at(rest[1], k))
        share = tape.constant(1.0 / k)
        exponent = self._power(value)
        if exponent is not None:
            grown = tape.multiply(tape.constant(exponent), self._convolved(x, value, range(1, k + 1), k, weighted=True))
            lower = self._convolved(value, x, range(1, k), k, weighted=True)
            term = tape.divide(tape.multiply(share, tape.subtract(grown, lower)), x)
            # at a base of 0, the recurrence is 0/0
            leading = math.prod(exponent - j for j in range(k))
            at_zero = tape.constant(0.0 if k < exponent else math.copysign(math.inf, leading))
            return tape.select(tape.apply("equal", x, self._zero), at_zero, term)
        quotient = self._quotient(value)
        if quotient is not None:
            c, q = quotient
            ((_, moving),) = self._partials[value]  # for atan2 it may be the second argument
            lower = tape.multiply(share, self._convolved(value, q, range(1, k), k, weighted=True))
            return tape.divide(tape.subtract(tape.multiply(c, at(moving, k)), lower), q)
        terms = [
            self._convolved(argument, slope, range(1, k + 1), k, weighted=True)
            for slope, argument in self._partials[value]
        ]
        return tape.multiply(share, tape.sum(terms))

    def _convolved(self, a: int, b: int, powers: range, k: int, *, weighted: bool = False) -> int:
        """Return the sum of a_j·b_{k-j}, or of j·a_j·b_{k-j}."""
        tape, terms = self._tape, []
        for j in powers:
            one, other = self.at(a, j), self.at(b, k - j)
            if self._zero not in (one, other):
                weighed = tape.multiply(tape.constant(float(j)), one) if weighted else one
                terms.append(tape.multiply(weighed, other))
        return tape.sum(terms) if terms else self._zero
