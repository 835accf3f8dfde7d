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
from copy import copy
from functools import cache, cached_property
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
from accumulus.tape.live import comparisons_before, comparisons_of, signed_zeros
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
#: Factor on the number of points for outputs with roots that exist at some points alone. A larger one takes time, a
#: smaller one leaves outputs as they were since too few points are left by chance.
SPARE: Final = 1.5
#: Largest number of values of a tape at all points, and of points: more take time and memory, fewer leave outputs with
#: many roots of roots and of squares as they were.
MOST_VALUES: Final = 1 << 20
#: Number of points, besides one per root, at which roots are seen to be independent: with fewer, these may count as
#: dependent by chance, more take time.
OF_SQUARES: Final = 16
#: Number of times that inputs are drawn again whose roots within roots do not exist in a field: each exists at three of
#: four points. More take time for tapes with nested roots, fewer leave some without the law of their square.
DRAWN: Final = 12
#: Number of samples of doubles for tapes in which bits matter: of about half of all points, another order of operations
#: leaves the same bits. More take time, fewer take values that are rounded otherwise for the same.
SAMPLES: Final = 24
#: Number of points with random outcomes of comparisons, at which those are found that have to be 0 or 1; largest number
#: of comparisons; number of values that are computed for all outputs; and largest number of points for all combinations
#: of outcomes. More take time, fewer leave programs as they were in which many selects have been joined.
DECIDED: Final = 64
MOST_COMPARED: Final = 60
MOST_DECIDED: Final = 1 << 22
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
    lacks_root: NDArray[np.bool_]  # True where a root that a value needs does not exist in the field, (places, points)


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
        nonnegative: references of values of the tape that are known not to be negative: the root of a product of them
            is that of its factors.
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
        nonnegative: Sequence[int] = (),
    ) -> None:
        self.sums_of_angles = sums_of_angles
        has_roots = _SQRT in tape.codes or _POWER in tape.codes
        self.count = count or (OF_ROOTS if has_roots else POINTS)
        matter = not _JUMPS.isdisjoint(tape.codes) if bits_matter is None else bits_matter
        self._samples = SAMPLES if matter else 0
        #: Rows of values that are known not to be negative.
        self._nonnegative: set[bytes] = set()
        self._original, self._known = tape, nonnegative
        #: Residues of roots that are made of others, by those of the radicands in the original tape.
        self._roots: dict[bytes, tuple[Integers, Integers]] = {}
        #: Keys of comparisons and their outcomes, (keys, points), if these are decided.
        self._decided: tuple[Integers, Integers] | None = None
        self._which: Integers
        self._at: Integers
        self._seeds: Integers
        self._inputs, self._modulo = tape.inputs, np.array([*primes(seed % _SETS), SMALL_PRIME], np.int64)
        #: Values of the tape where roots are those of no others, if they are known.
        self._plain: Run | None = None
        self._draw(seed, self.count, has_small)
        #: Number of points that a proof needs for each output, or 0 if it needs too many.
        self.needed = [1 if count else self.count] * len(tape.outputs)
        if has_roots and count is None:
            self.needed = points_needed(self.for_roots([tape], seed))
            self.count = max(self.needed, default=0) or OF_ROOTS
            self._draw(seed, self.count, has_small)
        is_missing = has_roots and self._let_roots_exist(tape, seed)
        if is_missing and count is None and (more := self._enough(tape)) > self.count:
            self.count = more
            self._draw(seed, self.count, has_small)
            self._let_roots_exist(tape, seed)
        self._know_nonnegative()

    def _let_roots_exist(self, tape: Tape, seed: int) -> bool:
        """Draw inputs of roots again that do not exist, as long as fewer are missing then; return True if any were."""
        run, missing, _ = self._run(tape)
        if not missing.any():
            self._plain = run
            return False
        places = [r for r in range(tape.inputs, len(tape)) if _is_root(tape, r)]
        roots, radicands = np.array(places, np.int64), np.array(tape.first, np.int64)[places]
        needs = _inputs_of(tape)[places].T.astype(np.float64)
        draw = np.random.default_rng([seed, 0xD4A3])
        fails = run.lacks_root[roots] & ~run.lacks_root[radicands]
        for _ in range(DRAWN):
            left = np.flatnonzero(missing)
            if not len(left):
                break
            other = copy(self)
            other._seeds, other._which = self._seeds[left], self._which[left]
            again = needs @ fails[:, left] > 0.0
            other._at = np.where(again, draw.integers(other.modulo, size=again.shape), self._at[:, left])
            run, now, _ = other._run(tape)
            better = now <= missing[left]
            taken = left[better]
            self._at[:, taken], missing[taken] = other._at[:, better], now[better]
            fails[:, taken] = (run.lacks_root[roots] & ~run.lacks_root[radicands])[:, better]
        return True

    def _enough(self, tape: Tape) -> int:
        """Return how many points have as many as outputs need at which their roots exist; 0 if that is too many."""
        exists = 1.0 - self._run(tape)[0].lacks_root[tape.outputs].mean(axis=1)
        return max(enough(self.needed, exists.tolist(), tape), default=0)

    def for_roots(self, tapes: Sequence[Tape], seed: int) -> list[Side]:
        """Return tapes with their values at more points than they have roots, which exist at some points alone."""
        roots = sum(_is_root(tape, r) for tape in tapes for r in range(tape.inputs, len(tape)))
        at = copy(self)
        at._draw(seed, max(OF_ROOTS, min(roots + OF_SQUARES, most_points(tapes[0]))), has_small=False)
        at._know_nonnegative()
        runs = [at._run(tape)[0] for tape in tapes]
        return [Side(tape, run, at._factors(tape, run), at.modulo) for tape, run in zip(tapes, runs, strict=True)]

    def with_roots(self, tapes: Sequence[Tape], seed: int) -> tuple[list[int], list[float]]:
        """Return how many points each output of tapes needs, and the share of points at which its roots exist.

        Args:
            tapes: tapes with the same outputs.
            seed: seed of the points for this.
        """
        sides = self.for_roots(tapes, seed)
        lacking = np.any([each.run.lacks_root[each.tape.outputs] for each in sides], axis=0)
        return points_needed(sides), (1.0 - lacking.mean(axis=1)).tolist()

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
        self._decided, self._plain = None, None
        for _ in comparisons:
            # comparisons of what depends on others
            keys, first = np.unique(self._run(tape)[2][list(comparisons)], return_index=True)
            if self._decided is not None and np.array_equal(keys, self._decided[0]):
                break
            self._decided = keys, outcomes[first]
        self._know_nonnegative()

    def _draw(self, seed: int, count: int, has_small: bool) -> None:
        """Draw points, in turns of each prime."""
        self._plain = None
        generator = np.random.default_rng([seed, 0x5EED])
        self._which = np.resize(np.arange(PRIMES), count)
        if has_small:
            self._which[0] = PRIMES
        self._seeds = generator.integers(1 << 62, size=count)
        self._at = generator.integers(self.modulo, size=(self._inputs, count))
        signs = generator.choice([-1.0, 1.0], size=(self._inputs, self._samples))
        self._doubles = signs * generator.uniform(0.5, 1.5, (self._inputs, self._samples))

    def run(self, tape: Tape) -> Run:
        """Return the values of a tape."""
        run = self._plain if tape is self._original and self._plain is not None else self._run(tape)[0]
        if not self._nonnegative or _SQRT not in tape.codes:
            return run
        keys = rows_as_bytes(run)
        radicands = {tape.first[r] for r in range(tape.inputs, len(tape)) if tape.codes[r] == _SQRT}
        # one value has one root, whatever it is a product of
        given = {a: self._roots[keys[a]] for a in radicands if keys[a] in self._roots}
        factors = {a: parts for a, parts in self._factors(tape, run).items() if a not in given}
        return self._run(tape, factors, given)[0] if factors or given else run

    def _know_nonnegative(self) -> None:
        """Note the residues of values that are known not to be negative, and of roots of their products."""
        if not self._known:
            return
        tape, run, self._roots = self._original, self._run(self._original)[0], {}
        keys = rows_as_bytes(run)
        self._nonnegative = {keys[k] for k in self._known}
        factors = self._factors(tape, run)
        made = self._run(tape, factors)[0] if factors else run
        for r in range(tape.inputs, len(tape)):
            if tape.codes[r] == _SQRT and tape.first[r] in factors:
                self._roots.setdefault(keys[tape.first[r]], (made.real[r], made.imaginary[r]))

    def _factors(self, tape: Tape, run: Run) -> dict[int, tuple[int, int, int]]:
        """Return factors of radicands that are products, or quotients, of values which are not negative.

        Returns:
            By the reference of the radicand: the references of its factors, and 1 for a product, -1 for a quotient.
        """
        if not self._nonnegative:
            return {}
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
        self,
        tape: Tape,
        factors: Mapping[int, tuple[int, int, int]] = MappingProxyType({}),
        given: Mapping[int, tuple[Integers, Integers]] = MappingProxyType({}),
    ) -> tuple[Run, Integers, Integers]:
        """Return the values of a tape, the number of roots that do not exist at each point, and keys of comparisons.

        Args:
            tape: the tape.
            factors: radicands whose roots are those of two factors; see `_factors`.
            given: residues of the roots of radicands.
        """
        size, places, points = len(tape), len(tape) + len(tape.constants), len(self._which)
        rows, constants = rows_of(tape), np.array(tape.constants[::-1], np.float64)
        roots = _apart(places, places, factors, given)
        terms = _terms(tape) if self.sums_of_angles else {}
        angles = _apart(places, max(places, int(roots[0].max(initial=0)) + 1), terms)
        total = max(places, int(roots[0].max(initial=0)) + 1, int(angles[0].max(initial=0)) + 1)
        real, imaginary, lacking = np.zeros((3, total, points), np.int64)
        doubles = np.zeros((places, self._samples))
        real[: tape.inputs], doubles[: tape.inputs] = self._at, self._doubles
        real[size:places] = constant_residues(constants.tolist(), tape.folding, self._modulo.tolist())[:, self._which]
        doubles[size:] = constants[:, np.newaxis]
        for r, root in given.items():
            real[roots[0][r]], imaginary[roots[0][r]] = root
            roots[1][r] = KNOWN
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
            lacking=lacking.reshape(-1),
            doubles=doubles.reshape(-1),
            keys=keys,
            known=known,
            known_count=len(known),
            outcomes=outcomes.reshape(-1),
            constants=constants,
        )
        kernel("rewriting.exact")(state.address)
        return Run(real[:places], imaginary[:places], doubles, is_truth, lacking[:places] != 0), missing, keys


def _exact_root(number: float, folding: Folding | None) -> Any:
    """Return the root of a positive number, or of what it stands for, if that is a fraction; otherwise None."""
    from fractions import Fraction  # few processes need it

    exact: Any = Fraction(number) if folding is None and math.isfinite(number) else folding and folding.of(number)
    if not isinstance(exact, Fraction):
        return None
    root = Fraction(math.isqrt(exact.numerator), math.isqrt(exact.denominator))
    return root if root * root == exact else None


def _inputs_of(tape: Tape) -> NDArray[np.bool_]:
    """Return True where a reference depends on an input, (references, inputs)."""
    depends = np.zeros((len(tape), tape.inputs), bool)
    np.fill_diagonal(depends, True)
    for r in range(tape.inputs, len(tape)):
        depends[r] = depends[[a for a in tape.arguments(r) if a >= 0]].any(axis=0)
    return depends


def _is_root(tape: Tape, r: int) -> bool:
    """Return True for a square root, as such or in a power."""
    return tape.codes[r] == _SQRT or (
        tape.codes[r] == _POWER and tape.second[r] < 0 and abs(tape.value_of(tape.second[r])) % 1.0 == 1 / 2
    )


def most_points(tape: Tape) -> int:
    """Return the largest number of points for a tape."""
    return max(OF_ROOTS, min(MOST_POINTS, MOST_VALUES // (len(tape) + 1)))


def enough(needed: Sequence[int], shares: Sequence[float], tape: Tape) -> list[int]:
    """Return for each output a number of points that has those that it needs, or 0 if that is too large.

    Args:
        needed: numbers of points that the outputs need.
        shares: shares of points at which their roots exist.
        tape: the tape.
    """
    most = most_points(tape)
    numbers = [
        math.ceil((n if share == 1.0 else SPARE * n) / share) if share else 0
        for n, share in zip(needed, shares, strict=True)
    ]
    return [n if n <= most else 0 for n in numbers]


def radicands(tape: Tape, run: Run) -> set[bytes]:
    """Return what a tape takes square roots of, as such or in powers, as bytes of residues."""
    return {_row(run, tape.first[r]) for r in range(tape.inputs, len(tape)) if _is_root(tape, r)}


def _row(run: Run, r: int) -> bytes:
    """Return the residues of a value as bytes."""
    return bytes(run.real[r].tobytes() + run.imaginary[r].tobytes())


class Side(NamedTuple):
    """A tape with its values, and the radicands whose roots are those of two factors; see `Points._factors`."""

    tape: Tape
    run: Run
    factors: Mapping[int, tuple[int, int, int]]
    modulo: Integers

    def lacks_square(self, r: int, a: int) -> NDArray[np.bool_]:
        """Return True for each point at which a root's radicand, or factor of it, is no square."""
        real, is_number = self.run.real[a], not self.run.imaginary[a].any()
        if a == self.tape.first[r]:
            lacks: NDArray[np.bool_] = self.run.imaginary[r] != 0 if is_number else self.run.lacks_root[r]
            return lacks
        return np.array([pow(x, p // 2, p) == p - 1 for x, p in zip(real.tolist(), self.modulo.tolist(), strict=True)])

    def radicands_of(self, r: int) -> list[int]:
        """Return the radicand of a root, or its factors if their roots make it, but for squares of fractions."""
        waiting, found, seen = [self.tape.first[r]], [], set[int]()
        while waiting:
            a = waiting.pop()
            if a in seen:
                continue
            seen.add(a)
            if a in self.factors:
                waiting += self.factors[a][:2]
            elif a >= 0 or not self.factors or not _exact_root(self.tape.value_of(a), self.tape.folding):
                found.append(a)
        return found


def points_needed(sides: Sequence[Side]) -> list[int]:
    """Return the number of points that prove outputs of tapes equal, or 0 if too many are needed.

    Args:
        sides: tapes with the same outputs, and their values.
    """
    return [OF_DEPENDENT[n] if n < len(OF_DEPENDENT) else 0 for n in dependent_roots(sides)]


def dependent_roots(sides: Sequence[Side]) -> list[int]:
    """Return for each output the number of roots whose signs may depend on those of others.

    Signs of roots can be turned one by one if no product of radicands is a square: not of numbers, for those that have
    no imaginary part, and not of what their roots make, for the others. If a product is a square, an even number of its
    factors is none at every point: none modulo p, where a root has an imaginary part; or none at all.

    Args:
        sides: tapes with the same outputs, and their values at more points than there are roots.
    """
    bits: dict[bytes, int] = {}  # of radicands: a bit for each point at which it is no square
    levels: dict[bytes, int] = {}  # of roots within roots; -1 for a root that does not exist everywhere
    cones: list[frozenset[bytes]] = [frozenset()] * len(sides[0].tape.outputs)
    for side in sides:
        tape, run = side.tape, side.run
        level = [0] * (len(tape) + len(tape.constants))
        reached: list[frozenset[bytes]] = [frozenset()] * len(level)
        for r in range(tape.inputs, len(tape)):
            arguments = tape.arguments(r)
            level[r] = max(level[a] for a in arguments)
            roots = {reached[a] for a in arguments} - {frozenset()}
            reached[r] = next(iter(roots)) if len(roots) == 1 else frozenset().union(*roots)
            if _is_root(tape, r):
                level[r] = level[arguments[0]] + 1
                for a in side.radicands_of(r):
                    key, is_number = _row(run, a), not run.imaginary[a].any()
                    is_known = not run.lacks_root[a].any() and (run.real[a] != UNDEFINED).all()
                    is_known &= is_number or a == arguments[0]
                    if key not in bits:
                        bits[key] = int.from_bytes(np.packbits(side.lacks_square(r, a)).tobytes(), "big")
                    found = (0 if is_number else level[r]) if is_known else -1
                    levels[key] = min(levels.get(key, found), found)
                    reached[r] |= {key}
        cones = [cone | reached[output] for cone, output in zip(cones, tape.outputs, strict=True)]

    def dependent(roots: Iterable[bytes]) -> int:
        bases: dict[int, list[int]] = {}
        count = 0
        for key in roots:
            basis, reduced = bases.setdefault(levels[key], []), bits[key]
            for each in basis:
                reduced = min(reduced, reduced ^ each)
            if reduced and levels[key] >= 0:
                basis.append(reduced)
            else:
                count += 1
        return count

    most = sides[0].run.real.shape[1] - OF_SQUARES
    if len(bits) <= most and not dependent(sorted(bits)):
        return [0] * len(cones)
    known: dict[frozenset[bytes], int] = {}
    for cone in cones:
        if cone not in known:
            known[cone] = dependent(sorted(cone)) if len(cone) <= most else len(OF_DEPENDENT)
    return [known[cone] for cone in cones]


def _apart(
    places: int, first: int, parts: Mapping[int, tuple[int, int, int]], others: Iterable[int] = ()
) -> tuple[Integers, Integers, Integers]:
    """Return places for what is needed of values apart, and those of the two parts that each is made of; 0 for none.

    Args:
        places: number of places of values.
        first: first place that is free.
        parts: by reference: references of both parts, and the sign of the second; 0 if there is only one, and it is
            negative.
        others: further references with something apart.
    """
    at, one_at, other_at = np.zeros((3, places), np.int64)
    apart = {each % places for r, (one, other, _) in parts.items() for each in (r, one, other)}
    needed = sorted(apart.union(each % places for each in others))
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
            tape,
            seed,
            count,
            has_small=has_small,
            sums_of_angles=sums_of_angles,
            bits_matter=self._matter,
            nonnegative=nonnegative,
        )
        deadline.check(RUN[0] + RUN[1] * self.points * len(tape))
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

    def _differ_for_outcomes(self, other: Tape, outputs: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return those outputs of another tape that differ for some outcomes of comparisons, and those that may."""
        comparisons = comparisons_of(self._tape) if self._matter is not False else []
        if not comparisons:
            return list(outputs), []
        alike: dict[int, list[int]] = {}
        for k in outputs:
            output = self._tape.outputs[k]
            alike.setdefault(self._comparisons_before[output] if output >= 0 else 0, []).append(k)
        different, unknown = list[int](), list[int]()
        most, left = (MOST_POINTS // self.points).bit_length() - 1, MOST_DECIDED
        for mask, group in sorted(alike.items(), key=lambda each: each[0].bit_count()):  # the cheapest first
            decided = [r for k, r in enumerate(comparisons) if mask >> k & 1]
            rounds = DECIDED * len(decided) * len(self._tape)
            if most < len(decided) <= MOST_COMPARED and rounds <= left:
                decided, left = self._needed_outcomes(other, group, decided), left - rounds
            exhaustive = (self.points << len(decided)) * len(self._tape)
            if len(decided) > most or exhaustive > left:
                unknown += group
                continue
            left -= exhaustive
            # a few points with random outcomes come first, since most outputs that differ do so there
            are_many = exhaustive > DECIDED * len(self._tape)
            if (
                not decided
                or (are_many and not self._are_equal_with(other, group, decided))
                or not self._are_equal_with(other, group, decided, exhaustive=True)
            ):
                different += group
        return different, unknown

    @cached_property
    def _comparisons_before(self) -> list[int]:
        return comparisons_before(self._tape)

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
        at = Points(
            self._tape,
            self._seed,
            count,
            sums_of_angles=self._at.sums_of_angles,
            bits_matter=True,
            nonnegative=self._nonnegative,
        )
        p, k = np.arange(count)[np.newaxis, :], np.arange(len(comparisons))[:, np.newaxis]
        draw = np.random.default_rng(self._seed)
        outcomes = p >> k & 1 if exhaustive else draw.integers(2, size=(len(comparisons), count))
        at.decide(self._tape, comparisons, outcomes)
        one, two = at.run(self._tape), at.run(other)
        first, second = np.array(self._tape.outputs)[list(outputs)], np.array(other.outputs)[list(outputs)]
        seen = ~one.lacks_root[first] & ~two.lacks_root[second]
        same = _same_residues(one, first, two, second) & (one.real[first] != UNDEFINED)
        # of all points with the same outcomes, one at least
        ways = 1 << len(comparisons) if exhaustive else 1
        return bool((same | ~seen).all() and seen.reshape(len(outputs), -1, ways).any(axis=1).all())

    def equal(self, other: Tape) -> NDArray[np.bool_]:
        """Return True for each output of another tape that is defined at all points and what it was, (outputs,)."""
        first, second = np.array(self._tape.outputs, np.int64), np.array(other.outputs, np.int64)
        is_defined = self._run.real[first] != UNDEFINED
        same: NDArray[np.bool_] = (is_defined & _same_residues(self._run, first, self.run(other), second)).all(axis=1)
        kept = _same_bits(self._run.doubles[first], self.run(other).doubles[second])
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
        one, two = self._run, self.run(other)
        needed = self._at.needed
        if self._count is None and not radicands(other, two) <= radicands(tape, one):
            needed, shares = self._at.with_roots([tape, other], self._seed)
            if (larger := max(enough(needed, shares, tape), default=0)) > self.points:
                verification = Verification(
                    tape,
                    self._seed,
                    kept_outputs=self._kept_outputs,
                    count=larger,
                    nonnegative=self._nonnegative,
                    sums_of_angles=self._at.sums_of_angles,
                    bits_matter=self._matter,
                )
                verification._at.needed = needed
                verification.check(other)
                return
        first, second = np.array(tape.outputs, np.int64), np.array(other.outputs, np.int64)
        seen = (one.real[first] != UNDEFINED) & ~one.lacks_root[first] & ~two.lacks_root[second]
        is_little = (seen.sum(axis=1) < needed) | (np.array(needed, np.int64) == 0)
        changed = ~_same_bits(one.doubles[first], two.doubles[second])
        changed[self._kept_outputs :] = False
        different = (seen & ~_same_residues(one, first, two, second)).any(axis=1)
        if different.any():
            differ, unknown = self._differ_for_outcomes(other, np.flatnonzero(different).tolist())
            different[:] = False
            different[differ] = True
            is_little[unknown] = True
        if changed.any():
            raise DifferentError(np.flatnonzero(changed).tolist(), "though it was to be kept to the last bit")
        if different.any():
            raise DifferentError(np.flatnonzero(different).tolist())
        if is_little.any():
            # outputs that cannot be compared at enough points need equal expressions
            _, moved = _side_by_side(tape, other)
            differ = [k for k in np.flatnonzero(is_little).tolist() if moved[k] != tape.outputs[k]]
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
