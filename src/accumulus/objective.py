"""The objectives by which plans and programs are judged, and all that follows from the choice of one."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from accumulus.errors import UnknownNameError, unknown_name

#: What is said to whoever asks for an objective that earlier versions had.
TIME_WAS_REMOVED: Final = (
    "objective 'time' was removed: on average its programs were no faster. Use 'operations', which is what the "
    "compiled functions minimise"
)


class Objective(StrEnum):
    """A cost to minimise; equal to its name, and written as it.

    >>> Objective.of("operations").on_tape
    True
    >>> Objective.FMA == "fma"
    True
    """

    #: Every product, as the literature counts them.
    FMA = "fma"
    #: Products but those with ±1 and of two constants.
    MULTIPLICATIONS = "multiplications"
    #: Operations of the emitted tape.
    OPERATIONS = "operations"

    @classmethod
    def of(cls, name: str) -> Objective:
        """The objective of that name.

        Raises:
            UnknownNameError: if there is none.
        """
        try:
            return cls(name)
        except ValueError:
            if name == "time":
                raise UnknownNameError(TIME_WAS_REMOVED) from None
            raise unknown_name("objective", name, [known.value for known in cls]) from None

    @property
    def on_tape(self) -> bool:
        """Return True if it is counted on the emitted tape, where equal operations are one and values count, too."""
        return self is Objective.OPERATIONS

    @property
    def of_eliminations(self) -> Objective:
        """Return the objective that searches of eliminations, which know no tape, minimise for it."""
        return Objective.FMA if self is Objective.FMA else Objective.MULTIPLICATIONS

    @property
    def every_product(self) -> bool:
        """Return True if products that are free, with ±1 or of two constants, count as well."""
        return self is Objective.FMA

    def ranked(self, fma: int, multiplications: int) -> tuple[int, int]:
        """The counts in the order in which they decide between two eliminations: its own, then the one that breaks
        ties."""
        return (fma, multiplications) if self.every_product else (multiplications, fma)
