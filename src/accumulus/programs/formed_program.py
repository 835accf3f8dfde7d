"""A program that is called as the user's function is: with containers and keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import Restructured
from accumulus.programs.axes import InAxes
from accumulus.programs.forms import Forms, axes_of_numbers
from accumulus.programs.program import Program

__all__ = ["FormedProgram"]


class FormedProgram:
    """A `Program` for arguments of one structure; whatever is not here is the program's own.

    Args:
        program: for the numbers in the arguments, by position.
        forms: of the function.
        call: the structure.
    """

    def __init__(self, program: Program, forms: Forms, call: Restructured) -> None:
        self.program = program
        self._forms, self._structure = forms, call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # not there yet, while it is unpickled
            raise AttributeError(name)
        return getattr(self.program, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Derivatives at one point."""
        return self.program(*self._numbers(arguments, keywords))

    def nonzeros(self, *arguments: Any, **keywords: Any) -> Any:
        """As a call, with the values of the structural nonzeros, see `Program.nonzeros`."""
        return self.program.nonzeros(*self._numbers(arguments, keywords))

    def batch(
        self,
        *arguments: Any,
        in_axes: InAxes = "auto",
        out: Any = None,
        threads: int | None = None,
        transposed: bool = False,
        **keywords: Any,
    ) -> Any:
        """Derivatives at many points, see `Derivative.batch`."""
        numbers = self._numbers(arguments, keywords)
        axes = axes_of_numbers(self._structure, numbers, in_axes, transposed, self.program.name)
        return self.program.batch(*numbers, in_axes=axes, out=out, threads=threads, transposed=transposed)

    def _numbers(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[Any]:
        call, numbers = self._forms.of(arguments, keywords)
        if call is None or call.key != self._structure.key:
            raise ArgumentError(
                f"the arguments of {self.program.name} have another structure, or other constants, than those that "
                "this program was compiled for"
            )
        return numbers
