"""Report of a check: one row for each comparison, with the worst deviation and where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.show.tables import amount, counted, plain_text, table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType


Floats = NDArray[np.float64]


@dataclass(slots=True)
class Finding:
    """One comparison, and the worst of what it found."""

    name: str  # what was compared with what
    compared: int = 0  # how many numbers
    failed: int = 0  # how many of them differ by more than is allowed
    deviation: float = 0.0  # the largest difference, relative to what is allowed at its place
    difference: float = 0.0  # the same, as it is
    where: str = ""  # its place: entry and arguments
    reason: str = ""  # the likely reason, where there is one

    def add(
        self,
        one: Floats,
        other: Floats,
        allowed: Floats,
        where: Callable[[int], str],
        reason: Callable[[int], str] = lambda _: "",
    ) -> None:
        """Compare two arrays; what is no finite number on either side is left out.

        Args:
            one, other: flat arrays.
            allowed: by how much they may differ.
            where, reason: what to say of an entry.
        """
        with np.errstate(all="ignore"):
            apart = np.abs(one - other)
            usable = np.isfinite(apart) & np.isfinite(allowed)
            ratio = np.where(usable, np.where(apart > 0, apart / allowed, 0.0), -1.0)
        self.compared += int(usable.sum())
        self.failed += int((ratio > 1.0).sum())
        worst = int(ratio.argmax()) if ratio.size else 0
        if ratio.size and ratio[worst] > self.deviation:
            self.deviation, self.difference = float(ratio[worst]), float(apart[worst])
            if ratio[worst] > 1.0:
                self.where = f"{where(worst)}: {one[worst]:.17g} and {other[worst]:.17g}"
                self.reason = reason(worst) or "No rounding explains it."

    @property
    def passed(self) -> bool:
        """Return True if nothing differs by more than is allowed."""
        return self.failed == 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Report of `accumulus.check`. Printable.

    Attributes:
        name: of the function.
        findings: one for each comparison.
        points: arguments at which the function was tried.
        skipped: those of them at which it raised, or returned no real numbers.
        cases: in how many ways it decides on values there.
    """

    name: str
    findings: tuple[Finding, ...]
    points: int
    skipped: int
    cases: int = 1

    @property
    def passed(self) -> bool:
        """Return True if all comparisons did."""
        return all(finding.passed for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, fit for JSON."""
        findings = [{**asdict(finding), "passed": finding.passed} for finding in self.findings]
        return {**asdict(self), "findings": findings, "passed": self.passed}

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        title = f"{self.name}: {'passed' if self.passed else 'FAILED'}"
        tried = f"Tried at {counted(self.points, 'point')}" + (f" in {self.cases} cases" if self.cases > 1 else "")
        tried += f", of which {amount(self.skipped)} gave no real numbers." if self.skipped else "."
        rows = [
            (
                finding.name,
                amount(finding.compared),
                amount(finding.failed),
                f"{finding.difference:.2g}",
                f"{finding.deviation:.2g}",
            )
            for finding in self.findings
        ]
        parts: list[RenderableType] = [Text(title, style="bold"), Text(tried), ""]
        parts += [table(("compared", "numbers", "failed", "worst", "of allowed"), rows)]
        for finding in self.findings:
            if finding.reason:
                parts += ["", Text(f"{finding.name}: {finding.where}\n  {finding.reason}")]
        return Group(*parts)

    def _repr_html_(self) -> str:
        from accumulus.show.tables import as_html

        return as_html(self.__rich__())

    def __str__(self) -> str:
        return plain_text(self.__rich__())
