"""What a rewritten program has to keep of the original one: the one place that decides if it may be used.

Its outputs have to be the same expressions (`accumulus.rewriting.equivalence`), to be numbers wherever those of the
original are (`accumulus.rewriting.domains`), and to be nearly as accurate at real points
(`accumulus.rewriting.rounding`). Whatever finds a shorter program, by whatever numbers, asks here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.errors import VerificationError
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.domains import Assumed, Domains
from accumulus.rewriting.equivalence import DifferentError, IncomparableError, Verification, with_expressions_of
from accumulus.rewriting.roots import forms_of_roots
from accumulus.rewriting.rounding import WORSE, Limits, RealPoints, Reals, points_of
from accumulus.tape.live import depending
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import DIVIDE, MULTIPLY, Tape

#: Number of times that outputs which may not be used are computed as before. More take time, fewer leave whole programs
#: unchanged.
RESTORED: Final = 4
_SQRT: Final = BY_NAME["sqrt"].code


class Original:
    """A program that others are compared with.

    Args:
        tape: the program; it notes the exact values of folded constants.
        context: options: the seed of the points, and the dtype.
        points: points of the domain, (points, inputs), or None.
        kept_outputs: number of leading outputs that must be equal to the last bit.
        sums_of_angles: if True, programs may use the addition theorems of angles, which are known to one unit in the
            last place.
        bits_matter: False if what reaches comparisons is known to be rounded as written, or only decides derivatives at
            kinks, as the sign of an absolute value.
        gradients: of the last outputs, the results and inputs of derivatives, as for `Limits`.
        assumed: what holds of its inputs in all calls. It is a part of the proofs of programs, and of their guards.

    Raises:
        ValueError: if something is assumed of other inputs than the program has.
    """

    def __init__(
        self,
        tape: Tape,
        context: Context,
        points: Reals | None,
        kept_outputs: int = 0,
        *,
        sums_of_angles: bool = False,
        bits_matter: bool | None = None,
        gradients: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
        assumed: Assumed = (),
    ) -> None:
        self._gradients = gradients
        if len(assumed) not in (0, tape.inputs):
            raise ValueError(f"{len(assumed)} inputs have assumptions, and the tape has {tape.inputs}")
        self._assumed = assumed
        self._seed, self._dtype = context.options.seed, context.options.dtype
        self._points, self._kept_outputs, self._sums_of_angles = points, kept_outputs, sums_of_angles
        self._bits_matter = bits_matter
        #: The program in canonical form.
        self.start = canonical(tape, kept_outputs)

    @cached_property
    def verification(self) -> Verification:
        """Its values at points of finite fields."""
        return self.verified(self._seed)

    def verified(self, seed: int, **options: Any) -> Verification:
        """Return its values at other points; options are those of `Verification`."""
        return Verification(
            self.start,
            seed,
            kept_outputs=self._kept_outputs,
            nonnegative=self._nonnegative,
            sums_of_angles=self._sums_of_angles,
            bits_matter=self._bits_matter,
            **options,
        )

    @cached_property
    def _nonnegative(self) -> list[int]:
        """Factors of radicands that are not negative wherever an output that needs roots is a number."""
        tape = self.start
        radicands = {tape.first[r] for r in range(tape.inputs, len(tape)) if tape.codes[r] == _SQRT}
        factors: set[int] = set()
        for r in range(len(tape) - 1, tape.inputs - 1, -1):
            if r in radicands and tape.codes[r] in (MULTIPLY, DIVIDE):
                factors |= set(tape.arguments(r))
                radicands |= factors
        if radicands:  # other programs may have roots of their products
            factors.update(k for k, name in enumerate(self._assumed) if name)
        if not factors:
            return []
        rooted = np.flatnonzero(~self._are_without_roots).tolist()
        return self._signs.nonnegative((k for k in factors if k >= 0), rooted)

    @cached_property
    def _signs(self) -> Domains:
        """The conditions of its outputs, where roots of products are not those of factors."""
        return Domains(self.start, Verification(self.start, self._seed), self._assumed)

    @cached_property
    def _are_without_roots(self) -> NDArray[np.bool_]:
        """Mask of outputs that need no roots, and so may be numbers where the others are none."""
        tape = self.start
        roots = [r for r in range(tape.inputs, len(tape)) if tape.codes[r] == _SQRT]
        reached = np.frombuffer(depending(tape, roots), np.bool_)
        outputs = np.array(tape.outputs, np.int64)
        without: NDArray[np.bool_] = (outputs < 0) | ~reached[np.maximum(outputs, 0)]
        return without

    @cached_property
    def _without_signs(self) -> Verification:
        """Values for outputs without roots, where only what is never negative is known not to be."""
        tape = _of_outputs(self.start, self._are_without_roots)
        always = self._signs.nonnegative(self._nonnegative, ()) if self._assumed else []
        return Verification(
            tape,
            self._seed,
            nonnegative=always,
            sums_of_angles=self._sums_of_angles,
            bits_matter=self._bits_matter,
        )

    @cached_property
    def shortened(self) -> Tape:
        """The program with roots in another form, by what is assumed, if that is no longer, and accepted."""
        if not self._assumed or self._kept_outputs:
            return self.start
        most = self.start.operations
        made = min(forms_of_roots(self.start, self._nonnegative), key=lambda form: form.operations, default=self.start)
        try:
            restored = self.restored(made, self.start) if made.operations <= most else None
        except VerificationError:
            restored = None
        return restored if restored is not None and restored.operations <= most else self.start

    def check(self, made: Tape) -> None:
        """Check that the outputs of a program are the same expressions.

        Raises:
            DifferentError: if an output is another one.
            IncomparableError: if none is, but some cannot be compared.
        """
        self.verification.check(made)
        if self._nonnegative and self._are_without_roots.any():
            places = np.flatnonzero(self._are_without_roots)
            try:
                self._without_signs.check(_of_outputs(made, self._are_without_roots))
            except (DifferentError, IncomparableError) as error:
                raise type(error)(places[list(error.outputs)].tolist()) from None

    @cached_property
    def domains(self) -> Domains:
        """The conditions that its outputs need."""
        return Domains(self.start, self.verification, self._assumed)

    @cached_property
    def points(self) -> RealPoints:
        """Real points at which rounding is judged."""
        draw = np.random.default_rng(self._seed)
        at = points_of(self.start, self._points, draw, self._dtype, assumed=self._assumed)
        return at._replace(span=at.span._replace(has_rounded_angles=self._sums_of_angles))

    @cached_property
    def limits(self) -> Limits:
        """Limits on rounding errors at these points."""
        return Limits.of(self.start, self.points, self._gradients)

    def faults(self, made: Tape, times: float = WORSE) -> list[int]:
        """Return the outputs of a program that may not be used: each is wider, less accurate, or not known to be equal.

        Args:
            made: the program.
            times: largest growth of a bound on a rounding error.

        Raises:
            DifferentError: if an output is another expression, and another number, of the same constants.
        """
        try:
            self.check(made)
        except IncomparableError as error:
            return list(error.outputs)
        except DifferentError as error:
            # functions of numbers are folded to new ones, which are not exact; and equal numbers may lack a proof
            assert self.start.folding is not None
            known = set(map(abs, self.start.constants)) | self.start.folding.fractions.keys()
            are_new = not known.issuperset(map(abs, made.constants))
            if not are_new and not set(error.outputs).isdisjoint(self.limits.worse(made, math.inf)):
                raise
            return list(error.outputs)
        return sorted({*self.domains.wider(made), *self.limits.worse(made, times)})

    def is_same(self, made: Tape) -> bool:
        """Return True if all outputs of a program are the same expressions."""
        try:
            self.check(made)
        except VerificationError:
            return False
        return True

    def accepts(self, made: Tape, times: float = WORSE) -> bool:
        """Return True if all outputs of a program may be used."""
        try:
            return not self.faults(made, times)
        except VerificationError:
            return False

    def restored(self, made: Tape, before: Tape, faults: Sequence[int] | None = None) -> Tape | None:
        """Return a program with the outputs that may not be used computed as before; None if none may be used.

        Args:
            made: the program.
            before: accepted program.
            faults: outputs of the program that may not be used, if these are known.

        Raises:
            DifferentError: as `faults` does.
        """
        for _ in range(RESTORED):
            faults = self.faults(made) if faults is None else faults
            if not faults:
                return made
            if len(faults) == len(made.outputs):
                return None
            made, faults = canonical(with_expressions_of(before, made, faults), self._kept_outputs), None
        return None


def _of_outputs(tape: Tape, chosen: NDArray[np.bool_]) -> Tape:
    """Return the tape with some of its outputs."""
    made = tape.copy()
    made.outputs = [output for output, taken in zip(tape.outputs, chosen.tolist(), strict=True) if taken]
    return made
