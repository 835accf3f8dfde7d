"""Rotations by vectors and by quaternions, whose derivatives a theorem gives.

The rotation matrix of a vector w of length θ is R = c I + s [w] + v w wᵀ, with c = cos θ, s = sin θ / θ and
v = (1 - cos θ) / θ², where [w] x = w × x (Rodrigues). If y = R x, then

    dy = φ × y + R dx,    φ = L dw,    L = s I + v [w] + e w wᵀ,    e = (1 - s) / θ².

L is the left Jacobian of rotations (J. Solà, J. Deray, D. Atchuthan, A micro Lie theory for state estimation in
robotics, 2018, equation (145)). The graph of a program for y has paths through the angle, the axis and its products
with x instead. They lead to the same derivatives, but no order of elimination finds the short form. `with_rotations`
returns programs with other local derivatives, attached to y: their graphs have vertices for φ. R dx is computed as the
program computes R x, or with the entries of R; either may be shorter.

A quaternion q = (a, u) of any length, divided by its length, is a rotation with

    φ = 2 / |q|² · (a du - u da + u × du),

the vector part of 2 q̇ q* in the same reference. A unit quaternion that is not divided by its length is none: its
formulas are polynomials with other derivatives.

Rotations are found numerically. The program runs at random points. For each sum of three squares, of the entries of w,
or four, of q, R x is computed for triples of values x, and looked up among the values of the program. So it does not
matter whether a program has Rodrigues' formula, a matrix or a quaternion.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.interpreter import Copy, outputs_at
from accumulus.tape.live import depending, needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, MULTIPLY, SELECT, Tape

#: Number of random points. More take time, fewer find equal values by chance, which the verification of the derivatives
#: refuses.
POINTS: Final = 16
#: Relative difference up to which values are equal: a larger one finds equal values by chance, a smaller one misses
#: those of values with cancellation.
EQUAL: Final = 1e-9
#: Largest number of values that triples are formed of: the number of triples is its cube.
MOST_FACTORS: Final = 24
#: The angle of a rotation, in multiples of the length of the vector: quaternions may be of half a vector.
_ANGLES: Final = (1.0, 2.0)
#: Squared angle up to which e is a series for vectors that may be defined at angle 0, and its coefficients: the
#: remainder is below rounding.
_NEAR: Final = 4.0
_SERIES: Final = [(-1.0) ** k / math.factorial(2 * k + 3) for k in range(12)]
_SINE, _COSINE, _ROOT = (BY_NAME[name].code for name in ("sin", "cos", "sqrt"))
#: Operations with cases that are not looked at: a value that depends on the length by one of them does not count.
_OTHER_CASES: Final = frozenset(BY_NAME[name].code for name in ("minimum", "maximum", "floor", "ceil", "sign", "fmod"))
#: Entries of triples that are the numbers 1 and 0 instead of values of the program.
_ONE, _ZERO = -1, -2

Reals = NDArray[np.float64]


class _Dependent(NamedTuple):
    """Values that depend on the sum of the squares of some entries."""

    square: int  # reference of the sum
    targets: NDArray[np.int64]  # references of the values that depend on it
    by_cases: NDArray[np.bool_]  # True for the references of those that depend on it by cases


class _Vector(NamedTuple):
    """A rotation vector r = scale · w."""

    entries: tuple[int, ...]  # references of w
    scale: float
    at: Reals  # r at the points, (3, points)
    of_length: _Dependent

    @classmethod
    def of(cls, entries: tuple[int, ...], values: Reals, of_length: _Dependent) -> Iterator[_Vector]:
        """Yield the vectors of which w may be a multiple."""
        for scale in (sign * size for size in _ANGLES for sign in (1.0, -1.0)):
            yield cls(entries, scale, scale * values[list(entries)], of_length)

    @property
    def matrices(self) -> Reals:
        """The rotation matrices, (3, 3, points)."""
        angle = _lengths(self.at)
        return _combined_at(np.cos(angle), np.sin(angle) / angle, (1.0 - np.cos(angle)) / angle**2, self.at)

    def of_half(self) -> tuple[Reals, ...]:
        """Return sin(θ/2)/θ and cos(θ/2) at the points, which a program needs that is defined at angle 0."""
        angles = _lengths(self.at)
        return np.sin(angles / 2.0) / angles, np.cos(angles / 2.0)


class _Quaternion(NamedTuple):
    """A quaternion (a, scale · u), divided by its length."""

    entries: tuple[int, ...]  # references of a and u
    scale: float  # 1; or -1 for the conjugate
    at: Reals  # (a, scale · u) at the points, (4, points)
    of_length: _Dependent

    @classmethod
    def of(cls, entries: tuple[int, ...], values: Reals, of_length: _Dependent) -> Iterator[_Quaternion]:
        """Yield the quaternions with these entries, with the scalar first or last, and their conjugates."""
        for ordered, scale in itertools.product((entries, (entries[-1], *entries[:-1])), (1.0, -1.0)):
            yield cls(ordered, scale, values[list(ordered)] * np.array([[1.0], *[[scale]] * 3]), of_length)

    @property
    def matrices(self) -> Reals:
        """The rotation matrices, (3, 3, points)."""
        scalar, vector = self.at[0], self.at[1:]
        twice = 2.0 / (self.at**2).sum(axis=0)
        return _combined_at(twice * scalar**2 - 1.0, twice * scalar, twice, vector)

    def of_half(self) -> None:
        """Return None: no quaternion has a rotation at length 0."""


class _Turned(NamedTuple):
    """Values that are a rotated vector: y = R x."""

    rotation: _Vector | _Quaternion
    before: tuple[int, ...]  # references of x, or _ONE and _ZERO
    after: tuple[tuple[int, int], ...]  # references of y, and their signs
    is_smooth: bool  # True if y depends on the length by cases, so that it may be defined at angle 0


def with_rotations(tape: Tape, results: int | None = None) -> list[Tape]:
    """Return programs with derivatives attached to rotated vectors, each in another form; none if there are none.

    The values are computed as before. The derivatives are right to first order only.

    Args:
        tape: program to differentiate.
        results: number of its outputs that are differentiated; the others are conditions that hold at all points. None
            for all.

    >>> tape = Tape(3)
    >>> angle = tape.apply("sqrt", tape.sum([tape.multiply(k, k) for k in range(3)]))
    >>> cosine, sine = tape.apply("cos", angle), tape.divide(tape.apply("sin", angle), angle)
    >>> bend = tape.divide(tape.subtract(tape.constant(1.0), cosine), tape.multiply(angle, angle))
    >>> x, y, z = (tape.multiply(bend, tape.multiply(2, k)) for k in range(3))
    >>> tape.outputs = [tape.add(x, tape.multiply(sine, 1)), tape.subtract(y, tape.multiply(sine, 0))]
    >>> tape.outputs.append(tape.add(cosine, z))  # the third column of a rotation matrix
    >>> [len(made.outputs) for made in with_rotations(tape)]
    [3]
    """
    least = len("xyz") if {_SINE, _COSINE, _ROOT}.issubset(tape.codes) else len("wxyz")
    is_square = np.array(tape.first) == np.array(tape.second)
    if np.count_nonzero(is_square & (np.frombuffer(tape.codes, np.uint8) == MULTIPLY)) < least:  # the usual case
        return []
    with np.errstate(all="ignore"):  # lengths may be zero at the points
        search = _Search(tape, tape.outputs[:results])
        turned = list(search.turned(least))
        has_factors = any(max(each.before) >= 0 for each in turned)
        return [_attached(search, turned, by_matrix) for by_matrix in (False, True)[: 1 + has_factors] if turned]


# Search --------------------------------------------------------------------------------------------------------------


class _Search:
    """Rotated vectors among the values of a program.

    Args:
        tape: the program.
        outputs: outputs whose values are searched.
    """

    def __init__(self, tape: Tape, outputs: Sequence[int]) -> None:
        self.tape = tape
        self._is_needed = np.frombuffer(needed(tape, outputs), bool)

    @cached_property
    def _values(self) -> Reals:
        """Values of all references at random points, (references, points)."""
        everything = self.tape.copy()
        everything.outputs = list(range(len(everything)))
        return outputs_at(everything, np.random.default_rng(0).normal(size=(POINTS, everything.inputs)))

    def turned(self, least: int) -> Iterator[_Turned]:
        """Yield all vectors that are rotated by this number of values, or more."""
        tape = self.tape
        codes = np.frombuffer(tape.codes, np.uint8)
        for square in np.flatnonzero(self._is_needed & (codes == ADD)).tolist():
            entries = _squares(tape, square)
            if entries is not None and len(entries) >= least:
                yield from self._turned_by(square, entries)

    def find(self, among: _Dependent, wanted: Reals, *, by_cases: bool = False) -> tuple[int, int] | None:
        """Return a value that depends on a length, and its sign; None if there is none.

        Args:
            among: values that depend on the length.
            wanted: the value at the points.
            by_cases: True for a value that depends on the length by cases.
        """
        targets = among.targets
        sizes, size = np.abs(self._values[targets, 0]), abs(wanted[0])
        begin, end = np.searchsorted(sizes, [size * (1.0 - EQUAL), size * (1.0 + EQUAL)])
        for reference in targets[begin:end].tolist():
            for sign in (1, -1):
                is_equal = np.allclose(sign * self._values[reference], wanted, rtol=EQUAL, atol=EQUAL)
                if is_equal and (among.by_cases[reference] or not by_cases):
                    return reference, sign
        return None

    def _turned_by(self, square: int, entries: tuple[int, ...]) -> Iterator[_Turned]:
        """Yield the vectors that are rotated by three or four values, whose squares have a sum."""
        values = self._values
        depends, by_cases = self._depending(square)
        targets = np.flatnonzero(depends)
        targets = targets[np.argsort(np.abs(values[targets, 0]), kind="stable")]
        of_length = _Dependent(square, targets, by_cases)
        factors = sorted(self._factors(square, depends).difference(entries))[:MOST_FACTORS]
        units = np.where(np.eye(3, dtype=bool), _ONE, _ZERO)
        triples = np.concatenate([np.array(factors, np.int64)[_permutations(len(factors))], units])
        # the last two rows are those of _ZERO and _ONE
        values_of = np.concatenate([values, np.zeros((1, POINTS)), np.ones((1, POINTS))])
        kind: type[_Vector | _Quaternion] = _Vector if len(entries) == len("xyz") else _Quaternion
        for rotation in kind.of(entries, values, of_length):
            of_half = rotation.of_half()
            has_smooth = of_half is not None and all(self.find(of_length, each, by_cases=True) for each in of_half)
            matrices = rotation.matrices
            # most triples have no entry of the right size at the first point
            sizes, near = np.abs(values[targets, 0]), np.abs(values_of[triples, 0] @ matrices[:, :, 0].T)
            begins, ends = (np.searchsorted(sizes, near * (1.0 + side * EQUAL)) for side in (-1, 1))
            for k in np.flatnonzero((begins < ends).all(axis=1)).tolist():
                before = tuple(triples[k].tolist())
                after = np.einsum("ijp,jp->ip", matrices, values_of[triples[k]])
                found = [each for entry in after if (each := self.find(of_length, entry)) is not None]
                is_smooth = any(by_cases[reference] for reference, _ in found)
                is_after = all(reference > max(before) for reference, _ in found)
                if len(found) == len(after) and is_after and (has_smooth or not is_smooth):
                    yield _Turned(rotation, before, tuple(found), is_smooth)

    def _depending(self, square: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return True for needed values that depend on a value, and for those that depend on it by cases.

        Values that depend on it by cases count only if random points meet all cases: in a case that none of them
        meets, a value may have other derivatives.
        """
        tape, values = self.tape, self._values
        depends = np.frombuffer(depending(tape, [square]), bool) & self._is_needed
        by_cases, unmet = np.zeros((2, len(tape)), bool)
        for k in np.flatnonzero(depends).tolist():
            arguments = [a for a in tape.arguments(k) if a >= 0]
            if tape.codes[k] == SELECT and depends[arguments[0]]:
                met, by_cases[k] = values[arguments[0]] != 0.0, True
                unmet[k] = met.all() or not met.any()
            unmet[k] |= tape.codes[k] in _OTHER_CASES
            by_cases[k] |= by_cases[arguments].any()
            unmet[k] |= unmet[arguments].any()
        return depends & ~unmet, by_cases

    def _factors(self, square: int, depends: NDArray[np.bool_]) -> set[int]:
        """Return values that do not depend on the length, and are multiplied by values that do."""
        tape = self.tape
        return {
            other
            for k in range(square + 1, len(tape))
            if tape.codes[k] == MULTIPLY
            for one, other in itertools.permutations(tape.arguments(k))
            if min(one, other) >= 0 and depends[one] and not depends[other]
        }


def _permutations(count: int) -> NDArray[np.int64]:
    """Return all triples of different numbers below a count, (triples, 3)."""
    first, second, third = triples = np.indices((count,) * 3).reshape(3, -1)
    permutations: NDArray[np.int64] = triples[:, (first != second) & (second != third) & (third != first)].T
    return permutations


def _squares(tape: Tape, reference: int) -> tuple[int, ...] | None:
    """Return the values whose squares are added, if they are three or four different ones."""
    terms: list[int] = []
    waiting = [reference]
    while waiting and len(terms) + len(waiting) <= len("wxyz"):
        term = waiting.pop()
        if term < tape.inputs:
            return None
        first, *others = tape.arguments(term)
        if tape.codes[term] == ADD:
            waiting += [first, *others]
        elif tape.codes[term] == MULTIPLY and first == others[0]:
            terms.append(first)
        else:
            return None
    return tuple(sorted(terms)) if not waiting and len("xyz") <= len(set(terms)) == len(terms) else None


def _lengths(vectors: Reals) -> Reals:
    """Return the lengths of vectors (3, points)."""
    lengths: Reals = np.sqrt((vectors**2).sum(axis=0))
    return lengths


def _combined_at(one: Reals, skew: Reals, outer: Reals, vectors: Reals) -> Reals:
    """Return the matrices one · I + skew · [r] + outer · r rᵀ for vectors (3, points), as (3, 3, points)."""
    x, y, z = skew * vectors
    zero = np.zeros_like(x)
    turn = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]])
    matrices: Reals = one * np.eye(3)[:, :, np.newaxis] + turn + outer * vectors[:, np.newaxis] * vectors
    return matrices


# Derivatives ---------------------------------------------------------------------------------------------------------


def _attached(search: _Search, turned: Sequence[_Turned], by_matrix: bool) -> Tape:
    """Return the program with derivatives attached to rotated vectors; if `by_matrix`, with the entries of matrices."""
    tape, made = search.tape, Tape(search.tape.inputs)
    plain, copy = (Copy(tape, made, {k: k for k in range(tape.inputs)}) for _ in range(2))
    for reference in range(tape.inputs, len(tape)):
        plain.record(reference)
    rows = {reference: (each, row) for each in turned for row, (reference, _) in enumerate(each.after)}
    frames: dict[tuple[int, tuple[int, ...], float, bool], _Frame] = {}
    for reference in range(tape.inputs, len(tape)):
        copy.record(reference)
        if reference in rows:
            each, row = rows[reference]
            rotation = each.rotation
            key = rotation.of_length.square, rotation.entries, rotation.scale, each.is_smooth
            if key not in frames:
                frame = _VectorFrame if isinstance(rotation, _Vector) else _QuaternionFrame
                frames[key] = frame(search, made, plain, copy, each)
            slope = made.add(frames[key].by_rotation(each, row), frames[key].by_factors(each, row, by_matrix))
            copy.values[reference] = made.apply("attach", plain[reference], slope)
    made.outputs = [copy[output] for output in tape.outputs]
    return made


class _Frame(ABC):
    """A rotation, and values with the derivatives of the vectors that it turns.

    Args:
        search: search for values of the given program.
        made: program to record on.
        plain: the given program there.
        copy: the same with attached derivatives.
        turned: a vector that it turns.
    """

    def __init__(self, search: _Search, made: Tape, plain: Copy, copy: Copy, turned: _Turned) -> None:
        self._search, self._made, self._plain, self._copy = search, made, plain, copy
        self._is_smooth, self._rotation = turned.is_smooth, turned.rotation
        #: The vector r of which R and L are made, with the signs of the rotation.
        self._vector: list[int] = []
        #: Entries with their derivatives, of which φ is the product with L.
        self._changes: list[int] = []
        left = self._prepared()
        #: Values with the derivatives φ.
        self._turn = [
            made.sum([made.multiply(self._fixed(a), b) for a, b in zip(row, self._changes, strict=True)])
            for row in left
        ]

    @abstractmethod
    def _prepared(self) -> list[list[int]]:
        """Set the vector and the entries, and return L."""

    @abstractmethod
    def _coefficients(self) -> tuple[int, int, int]:
        """Return the numbers by which I, [r] and r rᵀ are multiplied in R."""

    def _scaled(self, copy: Copy, references: Sequence[int]) -> list[int]:
        scale = self._made.constant(self._rotation.scale)
        return [self._made.multiply(scale, copy[r]) for r in references]

    def by_rotation(self, turned: _Turned, row: int) -> int:
        """Return a value with the derivative of an entry of y = R x by R."""
        made, (first, second) = self._made, ((row + 1) % 3, (row + 2) % 3)
        after = [self._fixed(self._signed(self._plain[reference], sign)) for reference, sign in turned.after]
        turn = self._turn
        slope = made.subtract(made.multiply(turn[first], after[second]), made.multiply(turn[second], after[first]))
        return self._signed(slope, turned.after[row][1])

    def by_factors(self, turned: _Turned, row: int, by_matrix: bool) -> int:
        """Return a value with the derivative of an entry of y = R x by x."""
        made, (reference, sign) = self._made, turned.after[row]
        factors = [(column, factor) for column, factor in enumerate(turned.before) if factor >= 0]
        if by_matrix:
            terms = [made.multiply(self._fixed(self._matrix[row][k]), self._copy[factor]) for k, factor in factors]
            return self._signed(made.sum(terms), sign)
        if not factors:
            return made.constant(0.0)
        # the value as a function of x alone
        tape = self._search.tape
        linear = {factor: self._copy[factor] for _, factor in factors}
        depends, is_needed = depending(tape, linear), needed(tape, [reference])
        for k in range(tape.inputs, reference + 1):
            if depends[k] and is_needed[k] and k not in linear:
                arguments = tape.arguments(k)
                taken = [linear[a] if a in linear else self._fixed(self._plain[a]) for a in arguments]
                linear[k] = made.apply_code(tape.codes[k], taken)
        return linear[reference]

    @cached_property
    def _matrix(self) -> list[list[int]]:
        """Entries of R, from values of the program where it has them."""
        computed = self._combined(*self._coefficients())
        found = [[self._value(entry) for entry in row] for row in self._rotation.matrices]
        return [
            [entry if value is None else value for entry, value in zip(*rows, strict=True)]
            for rows in zip(computed, found, strict=True)
        ]

    def _combined(self, one: int, skew: int, outer: int) -> list[list[int]]:
        """Return the matrix one · I + skew · [r] + outer · r rᵀ."""
        made, vector = self._made, self._vector
        turned, scaled = ([made.multiply(number, x) for x in vector] for number in (skew, outer))
        matrix = [[one] * 3 for _ in vector]
        for row, column in itertools.product(range(3), repeat=2):
            first, second = sorted((row, column))
            product = made.multiply(scaled[first], vector[second])
            if row == column:
                matrix[row][column] = made.add(one, product)
            else:
                combine = made.add if (row - column) % 3 == 1 else made.subtract
                matrix[row][column] = combine(product, turned[3 - row - column])
        return matrix

    def _value(self, wanted: Reals) -> int | None:
        """Return the value of the program that is given at the points; None if it has none."""
        found = self._search.find(self._rotation.of_length, wanted, by_cases=self._is_smooth)
        return None if found is None else self._signed(self._plain[found[0]], found[1])

    def _fixed(self, reference: int) -> int:
        """Return a value held constant in derivatives."""
        made = self._made
        return made.apply("attach", reference, made.constant(0.0)) if reference >= 0 else reference

    def _signed(self, reference: int, sign: int) -> int:
        return reference if sign > 0 else self._made.negative(reference)


class _VectorFrame(_Frame):
    """A rotation by a vector."""

    _rotation: _Vector

    def _prepared(self) -> list[list[int]]:
        made, rotation = self._made, self._rotation
        self._vector = self._scaled(self._plain, rotation.entries)
        self._changes = self._scaled(self._copy, rotation.entries)
        square = self._plain[rotation.of_length.square]
        self._square = made.multiply(made.constant(rotation.scale**2), square)
        self._s, self._v = self._found()
        return self._combined(self._s, self._v, self._last())

    def _found(self) -> tuple[int, int]:
        """Return s and v, from values of the program where it has them."""
        made = self._made
        half, cosine = map(self._value, self._rotation.of_half())
        if half is None or cosine is None:
            angle = made.apply("sqrt", self._square)
            versine = made.subtract(made.constant(1.0), made.apply("cos", angle))
            return made.divide(made.apply("sin", angle), angle), made.divide(versine, self._square)
        twice = made.multiply(made.constant(2.0), half)
        return made.multiply(twice, cosine), made.multiply(twice, half)

    def _last(self) -> int:
        """Return e, defined at angle 0 if the vector may be."""
        made, square = self._made, self._square
        one, rest = made.constant(1.0), made.subtract(made.constant(1.0), self._s)
        if not self._is_smooth:
            return made.divide(rest, square)
        near = made.apply("less_equal", square, made.constant(_NEAR))
        argument, series = made.select(near, square, made.constant(0.0)), made.constant(_SERIES[-1])
        for number in _SERIES[-2::-1]:
            series = made.add(made.constant(number), made.multiply(argument, series))
        return made.select(near, series, made.divide(rest, made.select(near, one, square)))

    def _coefficients(self) -> tuple[int, int, int]:
        made = self._made
        cosine = self._value(np.cos(_lengths(self._rotation.at)))
        if cosine is None:
            cosine = made.subtract(made.constant(1.0), made.multiply(self._v, self._square))
        return cosine, self._s, self._v


class _QuaternionFrame(_Frame):
    """A rotation by a quaternion of any length."""

    _rotation: _Quaternion

    def _prepared(self) -> list[list[int]]:
        made, (scalar, *vector) = self._made, self._rotation.entries
        self._vector = self._scaled(self._plain, vector)
        self._changes = [self._copy[scalar], *self._scaled(self._copy, vector)]
        self._twice = made.divide(made.constant(2.0), self._plain[self._rotation.of_length.square])
        a, x, y, z = (made.multiply(self._twice, entry) for entry in (self._plain[scalar], *self._vector))
        minus = made.negative
        return [[minus(x), a, minus(z), y], [minus(y), z, a, minus(x)], [minus(z), minus(y), x, a]]

    def _coefficients(self) -> tuple[int, int, int]:
        made, scalar = self._made, self._plain[self._rotation.entries[0]]
        skew = made.multiply(self._twice, scalar)
        return made.subtract(made.multiply(skew, scalar), made.constant(1.0)), skew, self._twice
