"""NumPy source of programs over arrays: operations on whole arrays, a line each, and loops over steps of recurrences.

It is written as that of JAX, but for what NumPy does in place. The function takes and returns one point.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape, Column, references_in
from accumulus.tape.fusion import Map
from accumulus.tape.helpers import helpers
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.jax_loops import BodyWriter, Loops
from accumulus.targets.kernel import LongSegment

__all__ = ["loop_module"]


def loop_module(
    tape: BlockTape,
    maps: Sequence[Map],
    segments: Sequence[LongSegment],
    arguments: Sequence[tuple[str, int]],
    name: str,
) -> str:
    """A module with the function `name`, of arrays to a tuple of flat ones; arguments are names and lengths."""
    tables, lines = _NumPyLoops(tape, maps, segments, arguments).written()
    text = "\n".join(lines)
    called = helpers(text)
    imports = ["import numpy as np", *(["from scipy import special"] if "special." in "".join([text, *called]) else [])]
    head = f"def {name}({', '.join(name for name, _ in arguments)}):"
    return "\n".join([*imports, "", *called, *tables, "", head, textwrap.indent(text, "    "), ""])


class _NumPyWriter(BodyWriter):
    library = "np"

    def template(self, code: int) -> str:
        return OPERATIONS[code].numpy


class _NumPyLoops(Loops):
    library = "np"
    real = "float"

    def _comment(self, each: Map) -> list[str]:
        lines = sorted((os.path.basename(file), line) for file, line in self._tape.lines_of(each.blocks))
        places = ", ".join(f"{file}:{line}" for file, line in lines[:3]) + (", …" if len(lines) > 3 else "")
        what = "products" if each.shape else "sums" if each.is_sum else "steps" if each.steps is not None else "entries"
        return ["", f"# {each.count:,} {what}" + (f", {places}" if places else "")]

    def _writer(self, body: Tape, inputs: int) -> BodyWriter:
        return _NumPyWriter(body, [f"p{k}" for k in range(inputs)])

    def _filled(self, value: str, count: int) -> str:
        return f"np.full({count}, {value}, float)"  # truth values become numbers

    def _spread(self, operands: Column) -> str:
        references = references_in(operands)
        if len(references) > 1 and (references != references[0]).any():
            return self._column(operands)
        return super()._spread(operands)

    def _returned(self, references: NDArray[np.int64]) -> str:
        return f"np.array({self._spread(references)}, float)"  # of its own, not a view of an argument

    def _scatter(self, result: str, length: int, table: str, values: str) -> None:
        self._lines += [f"{result} = np.zeros({length})", f"{result}[{table}] = {values}"]

    def _product(self, left: str, right: str) -> str:
        return f"{left} @ {right}"

    def _segment_sums(self, terms: str, offsets: NDArray[np.int64]) -> str:
        return f"np.add.reduceat({terms}, {self._table(offsets[:-1])})"

    def _turns(self, number: int, lines: list[str], values: list[str], each: Map, width: int) -> None:
        own = f"own{number}"
        self._lines += [
            f"own = {own} = np.zeros(({len(values)}, {each.count}))",
            f"for at in range(0, {each.count}, {width}):",
            f"    at = slice(at, at + {width})",
            *(f"    {line}" for line in lines),
            *(f"    own[{k}, at] = {value}" for k, value in enumerate(values)),
        ]

    def _taken(self, table: str) -> str:
        return f"np.ravel(own)[{table}[at]]"

    def _own_or(self, mask: str, own: str, other: str) -> str:
        return f"np.where({mask}[at] == 1, {own}, {other})"
