"""What is known of programs that were rewritten by value, for reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accumulus.show.tables import counted

if TYPE_CHECKING:
    from accumulus.resubstitution.by_value import ByValue
    from accumulus.resubstitution.identities import Identity

__all__ = ["ByValueFacts"]

#: Identities that are printed, and characters of each.
PRINTED: Final = 3
WIDTH: Final = 76


@dataclass(frozen=True, slots=True)
class ByValueFacts:
    """A program that was rewritten by value.

    Attributes:
        outputs: of the program, and how many of them are `proved` to be what they were.
        error: the probability that one of these is not, at most.
        tested: complex points at which all outputs were tested.
        values, definitions: that programs were chosen from, if the cheapest of these is known or bounded.
        excess: by which part the program costs more than any of them, at most.
        identities: that the program relies on.
        unexplained: values for which none was found.
    """

    outputs: int
    proved: int
    error: float
    tested: int
    values: int = 0
    definitions: int = 0
    excess: float | None = None
    identities: tuple[Identity, ...] = ()
    unexplained: int = 0

    @classmethod
    def of(cls, by_value: ByValue) -> ByValueFacts:
        """The facts; proves and tests the program, which takes a moment."""
        proof = by_value.proof
        values, definitions = (0, 0) if by_value.least is None else by_value.least[:2]
        counts = len(proof.outputs), sum(proof.outputs), proof.error, by_value.tested
        found = tuple(by_value.identities)
        return cls(*counts, values, definitions, by_value.excess, found, by_value.unexplained)

    def rows(self) -> list[tuple[str, str]]:
        """Names and texts for the report."""
        same = f"tested at {counted(self.tested, 'point')}"
        if self.proved:
            which = "proved" if self.proved == self.outputs else f"{self.proved} of {self.outputs} proved"
            same = f"{which} (error < {_power(self.error)}), all {same}"
        rows = [("same results", same)]
        if self.excess is not None:
            among = f"by {counted(self.definitions, 'definition')} of {counted(self.values, 'value')}"
            dearer = f"at most {100 * self.excess:.1f} % dearer than the cheapest program {among}"
            rows.append(("by value", dearer if self.excess else f"no program {among} is cheaper"))
        return [*rows, *self._identities()]

    def _identities(self) -> list[tuple[str, str]]:
        """How many there are, and the first of them."""
        if not self.identities and not self.unexplained:
            return []
        proved = sum(each.is_proved for each in self.identities)
        count = f"{len(self.identities)}, proved: {proved}"
        if self.unexplained:
            count += f"; tested only: {counted(self.unexplained, 'value')}"
        first = [("", _shortened(str(each))) for each in self.identities[:PRINTED]]
        more = [("", f"… and {len(self.identities) - PRINTED} more")] if len(self.identities) > PRINTED else []
        return [("identities", count), *first, *more]


def _shortened(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _power(error: float) -> str:
    """The power of ten above a probability.

    >>> _power(3e-21)
    '1e-20'
    """
    _, power = f"{error:.0e}".split("e")
    return f"1e{int(power) + 1}"
