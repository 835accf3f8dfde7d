"""What is known of programs that were rewritten by value, for reports."""

from __future__ import annotations

from dataclasses import dataclass

from accumulus.resubstitution.by_value import ByValue
from accumulus.show.tables import counted

__all__ = ["ByValueFacts"]


@dataclass(frozen=True, slots=True)
class ByValueFacts:
    """A program that was rewritten by value.

    Attributes:
        outputs: of the program, and how many of them are `proved` to be what they were.
        error: the probability that one of these is not, at most.
        tested: complex points at which all outputs were tested.
    """

    outputs: int
    proved: int
    error: float
    tested: int

    @classmethod
    def of(cls, by_value: ByValue) -> ByValueFacts:
        """The facts; proves and tests the program, which takes a moment."""
        proof = by_value.proof
        return cls(len(proof.outputs), sum(proof.outputs), proof.error, by_value.tested)

    def rows(self) -> list[tuple[str, str]]:
        """Names and texts for the report."""
        tested = f"tested at {counted(self.tested, 'point')}"
        if not self.proved:
            return [("same results", tested)]
        which = "proved" if self.proved == self.outputs else f"{self.proved} of {self.outputs} proved"
        return [("same results", f"{which} (error < {_power(self.error)}), all {tested}")]


def _power(error: float) -> str:
    """The power of ten above a probability.

    >>> _power(3e-21)
    '1e-20'
    """
    _, power = f"{error:.0e}".split("e")
    return f"1e{int(power) + 1}"
