"""What is known of a program that was rewritten by value, beside what it costs; looked into when somebody asks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from accumulus.errors import VerificationError
from accumulus.rewriting.canonical import canonical
from accumulus.tape.tape import Tape

if TYPE_CHECKING:
    from accumulus.resubstitution.exact import Least
    from accumulus.resubstitution.identities import Identity
    from accumulus.resubstitution.proofs import Proof
    from accumulus.rewriting.equivalence import Verification

__all__ = ["ByValue"]

#: Points at which a program is tested for each way in which its comparisons come out; at least; and where these are.
POINTS: Final = 8
FEWEST_POINTS: Final = 16
REACHES: Final = (1.0, 6.0, 3.0)
#: A seed that no other check has.
SEED: Final = 103


class ByValue:
    """A program, and the one that it was made from.

    Args:
        given: a tape as it was given to the optimiser.
        tape: what the optimiser made of it.
        kept_outputs: that many of the first outputs are computed as they were.
        least: what is known of all choices among the definitions of the last round.
    """

    def __init__(self, given: Tape, tape: Tape, kept_outputs: int = 0, least: Least | None = None) -> None:
        self.least = least
        self._given, self._tape, self._kept_outputs = given, tape, kept_outputs

    @property
    def excess(self) -> float | None:
        """How much more the program costs than any choice of definitions must, as a part of that; None if not known.

        An addition is 1, a division or root 3, a function 5, a change of sign nothing.
        """
        if self.least is None or not self.least.bound:
            return None
        from accumulus.resubstitution.definitions import PRICES

        tape = self._tape
        cost = sum(PRICES[code] for code in tape.codes[tape.inputs :])
        return max(0.0, cost / self.least.bound - 1.0)

    @cached_property
    def base(self) -> Tape:
        """The given tape in canonical form."""
        return canonical(self._given, self._kept_outputs)

    @cached_property
    def proof(self) -> Proof:
        """Which outputs are proved to be what they were."""
        from accumulus.resubstitution.proofs import prove

        return prove(self.base, self._tape)

    @property
    def identities(self) -> list[Identity]:
        """Those that the program relies on, but for those that are seen when short formulas are multiplied out."""
        return self._identities[0]

    @property
    def unexplained(self) -> int:
        """How many values are computed in another way for which no identity was found that is short enough."""
        return self._identities[1]

    @cached_property
    def _identities(self) -> tuple[list[Identity], int]:
        import numpy as np

        from accumulus.resubstitution.identities import identities
        from accumulus.resubstitution.points import points_of
        from accumulus.resubstitution.values import Values

        if self._choices is None or not self.base.operations:
            return [], 0
        try:
            check = self._verified
        except VerificationError:  # which `tested` does not keep to itself
            return [], 0
        points = points_of(self.base, None, np.random.default_rng(SEED))
        # where the laws of exponentials and of sums of angles have been needed, these are seen
        values = Values(self.base, check, points, self._kept_outputs)
        made = values.read(self._tape)
        return ([], 0) if made is None else identities(values, made)

    @property
    def tested(self) -> int:
        """Tests all outputs at complex points, other ones than those of the search; at how many.

        Raises:
            VerificationError: if one of them is wrong.
        """
        return self._verified.points

    @cached_property
    def _verified(self) -> Verification:
        from accumulus.rewriting.equivalence import verify_by_any

        kept, choices = self._kept_outputs, self._choices
        at = {} if choices is None else {"choices": choices, "reaches": REACHES}
        return verify_by_any(self.base, self._tape, SEED, kept_outputs=kept, **at)

    @cached_property
    def _choices(self) -> list[dict[int, bool]] | None:
        """How comparisons of the given program come out, for each point of a check; None if there are too many."""
        from accumulus.resubstitution.proofs import MOST_COMPARISONS
        from accumulus.rewriting.equivalence import all_choices

        choices = all_choices(self.base, MOST_COMPARISONS)
        return choices and choices * max(POINTS, -(-FEWEST_POINTS // len(choices)))
