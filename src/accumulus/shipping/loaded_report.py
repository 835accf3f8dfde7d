"""What is known of a program that was loaded: what it costs, and how its plan was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accumulus.text import printable

__all__ = ["LoadedReport"]


@dataclass(frozen=True, slots=True)
class LoadedReport:
    """Report on a program from a file; what other plans would have cost is not known without its function.

    Attributes:
        name: of the function.
        arguments, results: their shapes; of sparse results, the number of nonzeros.
        operations: of the program.
        target, dtype: that it is compiled for.
        found: method, objective, cost and lower bound of the plan, as far as there is one plan.
        cases: how many programs there are for arguments of these shapes.
    """

    name: str
    arguments: Sequence[tuple[int, ...]]
    results: Sequence[tuple[int, ...]]
    operations: int
    target: str
    dtype: str
    found: Mapping[str, Any]
    cases: int = 1

    def __str__(self) -> str:
        listed = {
            "arguments": ", ".join(map(str, self.arguments)),
            "results": ", ".join(map(str, self.results)),
            "operations": f"{self.operations:,}",
            "compiled for": f"{self.target}, {self.dtype}",
            **{name.replace("_", " "): value for name, value in self.found.items()},
            "cases": self.cases,
        }
        width = max(map(len, listed))
        lines = [f"{self.name}, from a file", *(f"  {name:<{width}}  {value}" for name, value in listed.items())]
        return "\n".join(printable(line) for line in lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "name": self.name,
            "arguments": [list(shape) for shape in self.arguments],
            "results": [list(shape) for shape in self.results],
            "operations": self.operations,
            "target": self.target,
            "dtype": self.dtype,
            "found": dict(self.found),
            "cases": self.cases,
        }
