"""Equality of tapes as expressions, in exact arithmetic: evaluation of both at random points of finite fields.

Two outputs are equal if they are the same rational function of *atoms*: of inputs, of functions of these, and of
outcomes of comparisons. Both tapes run modulo random primes at random points (J. T. Schwartz, J. ACM 27, 1980; R.
Zippel, EUROSAM 1979): a rational function of degree d that is not zero is zero at one point with a probability of about
d / 2⁵⁰. A constant is the fraction that its double is, or the exact one that constant folding has rounded to it
(`accumulus.tape.folding`), so nothing is small enough to vanish, and no scale of numbers is left out.

What atoms obey beyond being equal where their arguments are (`compiled.exact_kernel`):

=====================  =================================================================================================
relation               where it holds
=====================  =================================================================================================
f(-a) = -f(a)          odd functions of the table of operations, everywhere; likewise even ones, f(-a) = f(a)
f(a, b) = f(b, a)      commutative operations, everywhere
sin² a + cos² a = 1    for every number a
sin, cos of a ± b      addition theorems, for all numbers a and b, where a program is made of them
(√a)² = a              where √a is a number
√(ab) = √a · √b        where a and b are known not to be negative, wherever the outputs are numbers; likewise √(a/b)
aⁿ⁺ʳ = aⁿ · aʳ         whole n of the sign of r, where both sides are numbers; a½ is √a
e⁰ = 1, log 1 = 0      of the exponentials and logarithms of the table
=====================  =================================================================================================

A square root is one of both roots at random at each point, the same for equal arguments. So √(a²) is neither a nor -a,
and √a · √b is not √(ab) of numbers of any sign: identities that need a sign fail at every other point. What is zero
unless several such roots have a certain sign, as a product of differences √(a²) - a, fails at fewer, so more are used.

A select is c·a + (1 - c)·b with a random number c for each comparison: what is equal for all numbers c is equal in all
branches. Rules that join selects of one condition use that c² = c. So where outputs are not equal for all c, some
comparisons have the outcomes 0 and 1, in all combinations, and the others random numbers as before; outputs that depend
on too many are not rewritten. Values that reach floor, ceil, sign, fmod or a comparison have to be rounded alike: they
are compared as doubles, too, and outcomes depend on the bits of these.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.errors import VerificationError
from accumulus.native.machine import kernel
from accumulus.native.state import Floats, Integers
from accumulus.rewriting.compiled.exact_kernel import KNOWN, TRUTH, ExactState, ResiduesState
from accumulus.rewriting.compiled.fields import PRIME_BITS, SMALL_PRIME, UNDEFINED
from accumulus.tape.folding import Folding
from accumulus.tape.interpreter import copied
from accumulus.tape.live import depending, needed, signed_zeros
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import PROPERTIES, rows_of
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SELECT, SUBTRACT, Tape

#: Number of points. Each divides the chance of a mistake by 2⁵⁰ over the degree, and costs time in proportion.
POINTS: Final = 2
#: Number of points for tapes with square roots, since an identity that needs the sign of a root passes every other
#: point; and numbers for tapes with that many roots whose signs may depend on others, where it passes all points but
#: one of 2ⁿ. More cost time in proportion, fewer accept such an identity by chance; tapes with more such roots are not
#: rewritten.
OF_ROOTS: Final = 32
OF_DEPENDENT: Final = (OF_ROOTS, OF_ROOTS, 80, 168, 344, 700, 1024)
#: Number of points, besides one per root, at which roots are seen to be independent: with fewer, these may count as
#: dependent by chance, more take time.
OF_SQUARES: Final = 16
#: The best points are chosen among this many times as many, if roots within roots do not exist in a field: each exists
#: at every other point. More take time for tapes with nested roots, fewer leave some without the law of their square.
DRAWN: Final = 8
#: Number of samples of doubles for tapes in which bits matter: of about half of all points, another order of operations
#: leaves the same bits. More take time, fewer take values that are rounded otherwise for the same.
SAMPLES: Final = 24
#: Number of points with random outcomes of comparisons, at which those are found that have to be 0 or 1, and largest
#: number of comparisons; and largest number of points for all their combinations. More take time, fewer leave programs
#: as they were in which many selects have been joined.
DECIDED: Final = 64
MOST_COMPARED: Final = 60
MOST_POINTS: Final = 4096
#: Number of random primes in turn: more take time for residues of constants; with one, it may divide a difference.
PRIMES: Final = 2
#: Seconds of work for a run of a tape: a constant, and per operation and point. Estimates above the true time end
#: searches early, estimates below exceed their work.
RUN: Final = (1e-4, 6e-8)
_SQRT, _POWER, _ATTACH, _SIN, _COS = (BY_NAME[name].code for name in ("sqrt", "power", "attach", "sin", "cos"))
#: Operations that are not negative if no argument is.
_OF_NONNEGATIVE: Final = frozenset({ADD, MULTIPLY, DIVIDE})
_JUMPS: Final = frozenset(row.code for row in OPERATIONS if row.jumps)
_IS_TRUTH: Final = np.array([row.result == "boolean" for row in OPERATIONS])
_PROPERTIES: Final = PROPERTIES.copy()
_PROPERTIES[: len(OPERATIONS)] |= TRUTH * _IS_TRUTH


class DifferentError(VerificationError):
    """Error for outputs that are other expressions.

    Attributes:
        outputs: positions of these outputs.
    """

    def __init__(self, outputs: Sequence[int], how: str = "as an expression") -> None:
        super().__init__(
            f"output {outputs[0]} of the optimised tape is not what it was, {how}. This is a mistake of the optimiser; "
            "please report the function"
        )
        self.outputs = tuple(outputs)


class IncomparableError(VerificationError):
    """Error for outputs that are undefined at all points, and whose expressions differ from the original's.

    All other outputs are equal.

    Attributes:
        outputs: positions of these outputs.
    """

    def __init__(self, outputs: Sequence[int]) -> None:
        super().__init__(
            f"output {outputs[0]} of the optimised tape cannot be compared with what it was: at every point tried, "
            "it is undefined, or the tape has too many roots of roots and of squares"
        )
        self.outputs = tuple(outputs)


# Points --------------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """Values of a tape's inputs, operations and, in reverse order, constants."""

    real: Integers  # (places, points), `UNDEFINED` where there is no value
    imaginary: Integers
    doubles: Floats  # (places, samples)
    is_truth: Integers  # 1 for truth values, (places,)


class Points:
    """Random points of finite fields, and samples of doubles, at which tapes of the same inputs run.

    Args:
        tape: tape whose roots exist at these points, if possible.
        seed: seed of points, primes and random functions.
        count: number of points; by default as many as make a proof.
        has_small: if True, the first point is in the field of `SMALL_PRIME`, where pairs of values are computed fast.
        sums_of_angles: if True, sines and cosines of sums of angles obey the addition theorem, if the sums are written
            as such; other angles of the same value are other angles.
        bits_matter: if True, outputs are compared as doubles, too; if False, neither these nor what reaches comparisons
            and jumps; None for the latter alone.
    """

    def __init__(
        self,
        tape: Tape,
        seed: int = 0,
        count: int | None = None,
        *,
        has_small: bool = False,
        sums_of_angles: bool = False,
        bits_matter: bool | None = None,
    ) -> None:
        self.sums_of_angles = sums_of_angles
        has_roots = _SQRT in tape.codes or _POWER in tape.codes
        self.count = count or (OF_ROOTS if has_roots else POINTS)
        matter = not _JUMPS.isdisjoint(tape.codes) if bits_matter is None else bits_matter
        self._samples = SAMPLES if matter else 0
        #: Rows of values that are known not to be negative.
        self._nonnegative: set[bytes] = set()
        #: Keys of comparisons and their outcomes, (keys, points), if these are decided.
        self._decided: tuple[Integers, Integers] | None = None
        self._which: Integers
        self._at: Integers
        self._seeds: Integers
        self._inputs, self._modulo = tape.inputs, np.array([*primes(seed % _SETS), SMALL_PRIME], np.int64)
        self._draw(seed, self.count, has_small)
        #: Number of roots of the tape whose signs may depend on those of others.
        self.dependent = 0
        if has_roots and count is None:
            known = radicands(tape, self._run(tape)[0])
            if len(known) + OF_SQUARES > self.count:
                self._draw(seed, len(known) + OF_SQUARES, has_small)
                known = radicands(tape, self._run(tape)[0])
            self.dependent = dependent_roots(known, self.modulo.tolist())
            self.count = OF_DEPENDENT[min(self.dependent, len(OF_DEPENDENT) - 1)]
            if self.count != len(self._which):
                self._draw(seed, self.count, has_small)
        if has_roots and (missing := self._run(tape)[1]).any():
            self._draw(seed, DRAWN * self.count, has_small)
            missing = self._run(tape)[1]
            # the best points, in turns of each prime
            order = np.argsort(missing, kind="stable")
            first = order[np.isin(self._which[order], np.arange(PRIMES))]
            by_prime = [first[self._which[first] == k] for k in range(PRIMES)]
            chosen = np.stack([each[: self.count] for each in by_prime], axis=1).reshape(-1)
            if has_small:
                small = order[self._which[order] == PRIMES]
                chosen = np.concatenate([small[:1], chosen])
            chosen = chosen[: self.count]
            self._at, self._seeds, self._which = self._at[:, chosen], self._seeds[chosen], self._which[chosen]

    @property
    def modulo(self) -> Integers:
        """Prime of each point, (points,)."""
        primes_of_points: Integers = self._modulo[self._which]
        return primes_of_points

    def decide(self, tape: Tape, comparisons: Sequence[int], outcomes: Integers) -> None:
        """Let comparisons have given outcomes, 0 or 1; others have random numbers as before.

        Args:
            tape: tape with comparisons; its operations before them are rounded as in all other tapes.
            comparisons: their references.
            outcomes: their outcomes, (comparisons, points).
        """
        self._decided = None
        for _ in comparisons:
            # comparisons of what depends on others
            keys, first = np.unique(self._run(tape)[2][list(comparisons)], return_index=True)
            if self._decided is not None and np.array_equal(keys, self._decided[0]):
                return
            self._decided = keys, outcomes[first]

    def _draw(self, seed: int, count: int, has_small: bool) -> None:
        """Draw points; if more are drawn than are needed, as many of each prime."""
        generator = np.random.default_rng([seed, 0x5EED])
        self._which = np.resize(np.arange(PRIMES), count)
        if has_small:
            self._which[: 1 if count == self.count else count // (PRIMES + 1)] = PRIMES
        self._seeds = generator.integers(1 << 62, size=count)
        self._at = generator.integers(self.modulo, size=(self._inputs, count))
        signs = generator.choice([-1.0, 1.0], size=(self._inputs, self._samples))
        self._doubles = signs * generator.uniform(0.5, 1.5, (self._inputs, self._samples))

    def run(self, tape: Tape) -> Run:
        """Return the values of a tape."""
        run = self._run(tape)[0]
        if not self._nonnegative or _SQRT not in tape.codes:
            return run
        factors = self._factors(tape, run)
        return self._run(tape, factors)[0] if factors else run

    def know_nonnegative(self, tape: Tape, references: Sequence[int]) -> None:
        """Let values of a tape be known not to be negative: the root of a product of them is that of its factors."""
        if references:
            keys = rows_as_bytes(self._run(tape)[0])
            self._nonnegative.update(keys[k] for k in references)

    def _factors(self, tape: Tape, run: Run) -> dict[int, tuple[int, int, int]]:
        """Return factors of radicands that are products, or quotients, of values which are not negative.

        Returns:
            By the reference of the radicand: the references of its factors, and 1 for a product, -1 for a quotient.
        """
        is_known = [key in self._nonnegative for key in rows_as_bytes(run)]
        for k, constant in enumerate(tape.constants, 1):
            is_known[-k] = constant > 0.0
        for r in range(tape.inputs, len(tape)):  # in other groups, products may be new
            if tape.codes[r] in _OF_NONNEGATIVE and all(is_known[a] for a in tape.arguments(r)):
                is_known[r] = True
        radicands = {tape.first[r] for r in range(tape.inputs, len(tape)) if tape.codes[r] == _SQRT}
        found: dict[int, tuple[int, int, int]] = {}
        for r in range(len(tape) - 1, tape.inputs - 1, -1):
            if r in radicands and tape.codes[r] in (MULTIPLY, DIVIDE):
                one, other = tape.arguments(r)
                if is_known[one] and is_known[other]:
                    found[r] = one, other, 1 if tape.codes[r] == MULTIPLY else -1
                    radicands |= {one, other}
        return found

    def _run(
        self, tape: Tape, factors: Mapping[int, tuple[int, int, int]] = MappingProxyType({})
    ) -> tuple[Run, Integers, Integers]:
        """Return the values of a tape, the number of roots that do not exist at each point, and keys of comparisons.

        Args:
            tape: the tape.
            factors: radicands whose roots are those of two factors; see `_factors`.
        """
        size, places, points = len(tape), len(tape) + len(tape.constants), len(self._which)
        rows, constants = rows_of(tape), np.array(tape.constants[::-1], np.float64)
        roots = _apart(places, places, factors)
        terms = _terms(tape) if self.sums_of_angles else {}
        angles = _apart(places, max(places, int(roots[0].max(initial=0)) + 1), terms)
        total = max(places, int(roots[0].max(initial=0)) + 1, int(angles[0].max(initial=0)) + 1)
        real, imaginary = np.zeros((2, total, points), np.int64)
        doubles = np.zeros((places, self._samples))
        real[: tape.inputs], doubles[: tape.inputs] = self._at, self._doubles
        real[size:places] = constant_residues(constants.tolist(), tape.folding, self._modulo.tolist())[:, self._which]
        doubles[size:] = constants[:, np.newaxis]
        for k in np.flatnonzero(roots[0][size:] > 0).tolist():
            if (root := _exact_root(constants[k].item(), tape.folding)) is not None:
                each = [root.numerator * pow(root.denominator, -1, p) % p for p in self._modulo.tolist()]
                real[roots[0][size + k]], roots[1][size + k] = np.array(each)[self._which], KNOWN
        is_truth = np.zeros(places, np.int64)
        is_truth[:size] = _IS_TRUTH[rows[:, 0]]
        is_truth[size:] = (constants == 0.0) | (constants == 1.0)
        for r in np.flatnonzero((rows[:, 0] == SELECT) | (rows[:, 0] == _ATTACH)).tolist():
            code, first, *branches = rows[r].tolist()
            taken = branches if code == SELECT else [first]
            is_truth[r] = any(is_truth[k] and k >= 0 for k in taken)
        missing, keys = np.zeros(points, np.int64), np.zeros(places, np.int64)
        known, outcomes = (np.zeros(0, np.int64),) * 2 if self._decided is None else self._decided
        state = ExactState(
            points=points,
            samples=self._samples,
            places=places,
            rows=rows,
            properties=_PROPERTIES,
            is_truth=is_truth,
            begin=tape.inputs,
            end=size,
            primes=self.modulo,
            reciprocals=1.0 / self.modulo,
            seeds=self._seeds,
            root_places=roots[0],
            first_roots=roots[1],
            second_roots=roots[2],
            angle_places=angles[0],
            first_terms=angles[1],
            second_terms=angles[2],
            real=real.reshape(-1),
            imaginary=imaginary.reshape(-1),
            missing=missing,
            doubles=doubles.reshape(-1),
            keys=keys,
            known=known,
            known_count=len(known),
            outcomes=outcomes.reshape(-1),
            constants=constants,
        )
        kernel("rewriting.exact")(state.address)
        return Run(real[:places], imaginary[:places], doubles, is_truth), missing, keys


def _exact_root(number: float, folding: Folding | None) -> Any:
    """Return the root of a positive number, or of what it stands for, if that is a fraction; otherwise None."""
    from fractions import Fraction  # few processes need it

    exact: Any = Fraction(number) if folding is None and math.isfinite(number) else folding and folding.of(number)
    if not isinstance(exact, Fraction):
        return None
    root = Fraction(math.isqrt(exact.numerator), math.isqrt(exact.denominator))
    return root if root * root == exact else None


def comparisons_of(tape: Tape) -> list[int]:
    """Return the references of the comparisons that outputs need."""
    live = needed(tape)
    return [
        r for r in range(tape.inputs, len(tape)) if live[r] and _IS_TRUTH[tape.codes[r]] and tape.codes[r] in _JUMPS
    ]


def radicands(tape: Tape, run: Run) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the residues of what a tape takes square roots of, as such or in powers."""
    roots = [
        tape.first[r]
        for r in range(tape.inputs, len(tape))
        if tape.codes[r] == _SQRT
        or (tape.codes[r] == _POWER and tape.second[r] < 0 and abs(tape.value_of(tape.second[r])) % 1.0 == 1 / 2)
    ]
    return {(tuple(run.real[r].tolist()), tuple(run.imaginary[r].tolist())) for r in roots}


def dependent_roots(rows: set[tuple[tuple[int, ...], tuple[int, ...]]], modulo: Sequence[int]) -> int:
    """Return the number of roots of radicands, by their residues, whose signs may depend on those of others.

    Signs of roots can be turned one by one if no product of the radicands is a square. Otherwise, an even number of its
    factors is no square modulo p, at every point. Roots of roots count as dependent.
    """
    basis: list[int] = []
    for real, imaginary in sorted(rows):
        if UNDEFINED in real or any(imaginary):
            continue
        # a bit for each point at which the radicand is no square; those of a product are sums modulo 2
        bits = sum(1 << k for k, (a, p) in enumerate(zip(real, modulo, strict=True)) if pow(a, p // 2, p) == p - 1)
        for reduced in basis:
            bits = min(bits, bits ^ reduced)
        if bits:
            basis.append(bits)
    return len(rows) - len(basis)


def _apart(places: int, first: int, parts: Mapping[int, tuple[int, int, int]]) -> tuple[Integers, Integers, Integers]:
    """Return places for what is needed of values apart, and those of the two parts that each is made of; 0 for none.

    Args:
        places: number of places of values.
        first: first place that is free.
        parts: by reference: references of both parts, and the sign of the second; 0 if there is only one, and it is
            negative.
    """
    at, one_at, other_at = np.zeros((3, places), np.int64)
    needed = sorted({each % places for r, (one, other, _) in parts.items() for each in (r, one, other)})
    at[needed] = first + np.arange(len(needed))
    for r, (one, other, side) in parts.items():
        one_at[r], other_at[r] = (at[one], side * at[other]) if side else (-at[one], 0)
    return at, one_at, other_at


def _terms(tape: Tape) -> dict[int, tuple[int, int, int]]:
    """Return the terms of angles that are sums, differences, negatives or doubles, in the form of `_apart`."""
    waiting = [tape.first[r] for r in range(tape.inputs, len(tape)) if tape.codes[r] in (_SIN, _COS)]
    found: dict[int, tuple[int, int, int]] = {}
    while waiting:
        r = waiting.pop()
        if r < tape.inputs or r in found:
            continue
        code, (one, *others) = tape.codes[r], tape.arguments(r)
        if code in (ADD, SUBTRACT):
            found[r] = one, others[0], 1 if code == ADD else -1
        elif code == NEGATIVE:
            found[r] = one, one, 0
        elif code == MULTIPLY and one < 0 and tape.value_of(one) == 2.0:
            found[r] = others[0], others[0], 1
        else:
            continue
        waiting += found[r][:2]
    return found


def rows_as_bytes(run: Run) -> list[bytes]:
    """Return the residues of each value as bytes: equal values have equal bytes."""
    rows = np.concatenate([run.real, run.imaginary], axis=1)
    width, everything = rows.shape[1] * rows.itemsize, rows.tobytes()
    return [everything[k : k + width] for k in range(0, len(everything), width)]


def constant_residues(numbers: Sequence[float], folding: Folding | None, modulo: Sequence[int]) -> Integers:
    """Return the residues of doubles, or of the fractions that they stand for, (numbers, primes).

    Args:
        numbers: the doubles.
        folding: what constants stand for; None if they stand for themselves.
        modulo: the primes.
    """
    results = np.zeros((len(numbers), len(modulo)), np.int64)
    state = ResiduesState(
        numbers=np.array(numbers, np.float64),
        count=len(numbers),
        primes=np.array(modulo, np.int64),
        reciprocals=1.0 / np.array(modulo),
        points=len(modulo),
        results=results.reshape(-1),
    )
    kernel("rewriting.residues")(state.address)
    for k, number in enumerate(numbers):
        if folding is not None and abs(number) in folding.fractions:
            fraction: Any = folding.of(number)
            results[k] = [fraction.numerator * pow(fraction.denominator, -1, prime) % prime for prime in modulo]
    return results


#: Number of sets of primes that seeds choose from. More sets take time for primality tests in long processes; with
#: one, all tapes share the differences that its primes divide.
_SETS: Final = 16


@cache
def primes(number: int) -> tuple[int, ...]:
    """Return distinct random primes that are 3 modulo 4, between 2 ** (PRIME_BITS - 1) and twice that."""
    generator = random.Random(number)
    found: list[int] = []
    while len(found) < PRIMES:
        candidate = generator.randrange(1 << PRIME_BITS - 1, 1 << PRIME_BITS) | 3
        if is_prime(candidate) and candidate not in found:
            found.append(candidate)
    return tuple(found)


#: These witnesses show that a number below 2⁶⁴ is a prime (Sorenson, Webster, Math. Comp. 86, 2017).
_WITNESSES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Return True for a prime between 37 and 2⁶⁴ that is 3 modulo 4: small divisors, then Miller and Rabin's test."""
    half, ends = number // 2, (1, number - 1)
    return all(number % each for each in _WITNESSES) and all(pow(each, half, number) in ends for each in _WITNESSES)


# Verification --------------------------------------------------------------------------------------------------------


class Verification:
    """Values of a tape at points, against which other tapes are checked.

    The constructor does half of the work, and takes about as long as `check`.

    Args:
        tape: original tape.
        seed: seed of the points.
        kept_outputs: number of leading outputs that must be equal to the last bit.
        deadline: end of the time for this.
        count: number of points; by default as many as make a proof.
        has_small: as for `Points`.
        nonnegative: references of values that are not negative where the outputs are numbers, so that the root of a
            product of two is the product of their roots.
        sums_of_angles, bits_matter: as for `Points`.

    Raises:
        OutOfTimeError: if the deadline passes before the constructor is done.
    """

    def __init__(
        self,
        tape: Tape,
        seed: int = 0,
        *,
        kept_outputs: int = 0,
        deadline: Deadline = FOREVER,
        count: int | None = None,
        has_small: bool = False,
        nonnegative: Sequence[int] = (),
        sums_of_angles: bool = False,
        bits_matter: bool | None = None,
    ) -> None:
        self._tape, self._seed, self._kept_outputs, self._count = tape, seed, kept_outputs, count
        self._nonnegative, self._matter = nonnegative, True if kept_outputs else bits_matter
        self._last: tuple[Tape, Run] | None = None
        self._at = Points(
            tape, seed, count, has_small=has_small, sums_of_angles=sums_of_angles, bits_matter=self._matter
        )
        deadline.check(RUN[0] + RUN[1] * self.points * len(tape))
        self._at.know_nonnegative(tape, nonnegative)
        self._run = self._at.run(tape)

    @property
    def points(self) -> int:
        """Number of points at which tapes are compared."""
        return self._at.count

    @property
    def modulo(self) -> Integers:
        """Prime of each point, (points,)."""
        return self._at.modulo

    def run(self, other: Tape) -> Run:
        """Return the values of another tape at the points; those of the last one are kept."""
        if other is self._tape:
            return self._run
        if self._last is None or self._last[0] is not other:
            self._last = other, self._at.run(other)
        return self._last[1]

    def _differ_for_outcomes(self, other: Tape, outputs: Sequence[int]) -> list[int]:
        """Return those outputs of another tape that differ from the original's for some outcomes of comparisons."""
        comparisons = comparisons_of(self._tape) if self._matter is not False else []
        if not comparisons:
            return list(outputs)
        alike: dict[bytes, list[int]] = {}
        reached = {r: np.frombuffer(depending(self._tape, [r]), np.bool_) for r in comparisons}
        for k in outputs:
            output = self._tape.outputs[k]
            alike.setdefault(bytes(output >= 0 and bool(reached[r][output]) for r in comparisons), []).append(k)
        different: list[int] = []
        for mask, group in alike.items():
            decided = [r for r, is_reached in zip(comparisons, mask, strict=True) if is_reached]
            most = (MOST_POINTS // self.points).bit_length() - 1
            if len(decided) > most:
                decided = self._needed_outcomes(other, group, decided) if len(decided) <= MOST_COMPARED else []
            if not 0 < len(decided) <= most or not self._are_equal_with(other, group, decided, exhaustive=True):
                different += group
        return different

    def _needed_outcomes(self, other: Tape, outputs: Sequence[int], comparisons: Sequence[int]) -> list[int]:
        """Return comparisons whose outcomes have to be 0 or 1 for the outputs to be equal; empty if they differ."""

        def needed_of(known: list[int], candidates: list[int]) -> list[int]:
            """Return the candidates that are needed beside others (U. Junker, QuickXplain, AAAI 2004)."""
            if self._are_equal_with(other, outputs, known):
                return []
            if len(candidates) == 1:
                return candidates
            half = len(candidates) // 2
            second = needed_of(known + candidates[:half], candidates[half:])
            return needed_of(known + second, candidates[:half]) + second

        return needed_of([], list(comparisons)) if self._are_equal_with(other, outputs, comparisons) else []

    def _are_equal_with(
        self, other: Tape, outputs: Sequence[int], comparisons: Sequence[int], *, exhaustive: bool = False
    ) -> bool:
        """Return True if outputs are equal where comparisons have the outcomes 0 and 1: at random, or all of them."""
        count = self.points << len(comparisons) if exhaustive else DECIDED
        at = Points(self._tape, self._seed, count, sums_of_angles=self._at.sums_of_angles, bits_matter=True)
        p, k = np.arange(count)[np.newaxis, :], np.arange(len(comparisons))[:, np.newaxis]
        draw = np.random.default_rng(self._seed)
        outcomes = p >> k & 1 if exhaustive else draw.integers(2, size=(len(comparisons), count))
        at.decide(self._tape, comparisons, outcomes)
        at.know_nonnegative(self._tape, self._nonnegative)
        one, two = at.run(self._tape), at.run(other)
        first, second = np.array(self._tape.outputs)[list(outputs)], np.array(other.outputs)[list(outputs)]
        return bool((_same_residues(one, first, two, second) & (one.real[first] != UNDEFINED)).all())

    def _with_roots(self, new: int, other: Tape) -> Verification:
        """Return values at more points, if another tape has roots that the original has not, and needs them.

        Args:
            new: number of these roots.
            other: the other tape.
        """
        both = Points(self._tape, self._seed, count=len(radicands(self._tape, self._run)) + new + OF_SQUARES)
        rows = radicands(self._tape, both.run(self._tape)) | radicands(other, both.run(other))
        dependent = dependent_roots(rows, both.modulo.tolist())
        count = OF_DEPENDENT[min(dependent, len(OF_DEPENDENT) - 1)]
        if dependent >= len(OF_DEPENDENT):
            raise IncomparableError(range(len(self._tape.outputs)))
        if count <= self.points:
            return self
        return Verification(
            self._tape,
            self._seed,
            kept_outputs=self._kept_outputs,
            count=count,
            nonnegative=self._nonnegative,
            sums_of_angles=self._at.sums_of_angles,
            bits_matter=self._matter,
        )

    def equal(self, other: Tape) -> NDArray[np.bool_]:
        """Return True for each output of another tape that is defined at all points and what it was, (outputs,)."""
        one, two = self._run, self.run(other)
        first, second = np.array(self._tape.outputs, np.int64), np.array(other.outputs, np.int64)
        same: NDArray[np.bool_] = (_same_residues(one, first, two, second) & (one.real[first] != UNDEFINED)).all(axis=1)
        kept = _same_bits(one.doubles[first], two.doubles[second])
        kept[self._kept_outputs :] = True
        return same & kept

    def check(self, other: Tape) -> None:
        """Check that another tape with the same inputs has the same outputs.

        Raises:
            DifferentError: if an output differs; the message names the first one.
            IncomparableError: if none differs, but some cannot be compared.
        """
        tape = self._tape
        if (tape.inputs, len(tape.outputs)) != (other.inputs, len(other.outputs)):
            raise VerificationError(
                f"a tape of {tape.inputs} inputs and {len(tape.outputs)} outputs became one of {other.inputs} and "
                f"{len(other.outputs)}"
            )
        if self._at.dependent >= len(OF_DEPENDENT) and tape.outputs:
            raise IncomparableError(range(len(tape.outputs)))
        one, two = self._run, self.run(other)
        if self._count is None and (new := radicands(other, two) - radicands(tape, one)):
            larger = self._with_roots(len(new), other)
            if larger is not self:
                larger.check(other)
                return
        first, second = np.array(tape.outputs, np.int64), np.array(other.outputs, np.int64)
        is_defined = one.real[first] != UNDEFINED
        changed = ~_same_bits(one.doubles[first], two.doubles[second])
        changed[self._kept_outputs :] = False
        different = (is_defined & ~_same_residues(one, first, two, second)).any(axis=1)
        if different.any():
            differ = self._differ_for_outcomes(other, np.flatnonzero(different).tolist())
            different[:] = False
            different[differ] = True
        if changed.any():
            raise DifferentError(np.flatnonzero(changed).tolist(), "though it was to be kept to the last bit")
        if different.any():
            raise DifferentError(np.flatnonzero(different).tolist())
        seen = is_defined.any(axis=1)
        if not seen.all():
            # outputs that could not be compared at any point need equal expressions
            _, moved = _side_by_side(tape, other)
            differ = [k for k in np.flatnonzero(~seen).tolist() if moved[k] != tape.outputs[k]]
            if differ:
                raise IncomparableError(differ)


def _same_residues(one: Run, first: Integers, two: Run, second: Integers) -> NDArray[np.bool_]:
    """Return True where references of a run have the same values as those of another, (references, points)."""
    same: NDArray[np.bool_] = one.real[first] == two.real[second]
    same &= one.imaginary[first] == two.imaginary[second]
    return same


def _same_bits(one: Floats, two: Floats) -> NDArray[np.bool_]:
    """Return True for rows of the same doubles, zeros of either sign included, or of what is no number."""
    same: NDArray[np.bool_] = ((one == two) | (np.isnan(one) & np.isnan(two))).all(axis=1)
    return same


def with_expressions_of(tape: Tape, other: Tape, outputs: Iterable[int]) -> Tape:
    """Return the second tape with some outputs computed by the first tape's expressions."""
    both, moved = _side_by_side(tape, other)
    both.outputs = moved
    for k in outputs:
        both.outputs[k] = tape.outputs[k]
    return both


def _side_by_side(tape: Tape, other: Tape) -> tuple[Tape, list[int]]:
    """Return both tapes as one, equal operations once, and the references of the second tape's outputs on it."""
    both = tape.copy()
    return both, copied(other, both, range(other.inputs), signed=signed_zeros(other))
