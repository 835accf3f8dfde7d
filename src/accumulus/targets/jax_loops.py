"""JAX source of programs over arrays: operations on whole arrays, and recurrences as `jax.lax.fori_loop`.

A body is computed for all of its instances at once, each of its inputs an array with an entry for each instance: a part
of an array that is there, or what a table finds in one or several of them. Steps of a recurrence that are equally wide
are turns of a loop over the array of its results; others are computed instance by instance.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CompileError
from accumulus.tape.blocks import BlockTape, Column, Range, references_in
from accumulus.tape.fusion import Map
from accumulus.tape.helpers import helpers
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import LongSegment

__all__ = ["BodyWriter", "Loops", "loop_lines", "module"]


#: Pieces of arrays, at most, that are joined; of more, entries are found in a table.
MOST_PIECES: Final = 16


class BodyWriter:
    """Writes a tape's operations, each a line.

    Args:
        tape: what is written.
        inputs: expressions of its inputs.

    Attributes:
        library: what the array library is called in the text.
    """

    library = "jnp"

    def __init__(self, tape: Tape, inputs: Sequence[str]) -> None:
        self._tape, self._inputs = tape, inputs

    def value(self, reference: int) -> str:
        """Name of a value, or a number."""
        if reference >= 0:
            return self._inputs[reference] if reference < self._tape.inputs else f"t{reference}"
        number = self._tape.value_of(reference)
        if math.isnan(number):
            return f"{self.library}.nan"
        if math.isinf(number):
            return f"{self.library}.inf" if number > 0 else f"-{self.library}.inf"
        return repr(number) if math.copysign(1.0, number) > 0 else f"({number!r})"

    def template(self, code: int) -> str | None:
        """How an operation is spelled; None if the library does not have it."""
        return OPERATIONS[code].jax or None

    def lines(self) -> list[str]:
        """One for each operation that an output needs.

        Raises:
            CompileError: for an operation that JAX does not have.
        """
        tape, needed = self._tape, set(self._tape.outputs)
        found = []
        for reference in range(len(tape) - 1, tape.inputs - 1, -1):
            if reference not in needed:
                continue
            needed.update(tape.arguments(reference))
            template = self.template(tape.codes[reference])
            if template is None:
                raise CompileError(
                    f"JAX has no {tape.operation(reference).name}; expected operations that it has, or target='c' or "
                    "'llvm', which have all"
                )
            found.append(f"t{reference} = {template.format(*map(self.value, tape.arguments(reference)))}")
        return found[::-1]


def module(name: str, parameters: Sequence[str], tables: Sequence[str], lines: Sequence[str]) -> str:
    """The text of a module with a function."""
    text = "\n".join(lines)
    called = [each.replace("np.", "jnp.") for each in helpers(text)]
    imports = ["import jax", *(["import numpy as np"] if tables or "np.array(" in text.replace("jnp.", "") else [])]
    imports.append("import jax.numpy as jnp")
    if "special." in "".join([text, *called]):
        imports.append("from jax.scipy import special")
    listed = ", ".join(parameters)
    begin = [f"real = jnp.result_type({listed}, float)" if parameters else "real = jnp.result_type(float)"]
    begin += [f"{each} = jnp.asarray({each}, real)" for each in parameters]
    body = textwrap.indent("\n".join([*begin, text]), "    ")
    return "\n".join([*imports, "", *called, *tables, "", f"def {name}({listed}):", body, ""])


def loop_lines(
    tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], arguments: Sequence[tuple[str, int]]
) -> tuple[list[str], list[str]]:
    """Constant tables, and the lines of the function's body; arguments are names and lengths."""
    return Loops(tape, maps, segments, arguments).written()


class Loops:
    """Writes a program over arrays.

    Attributes:
        library: what the array library is called in the text.
        real: the dtype of numbers there.
    """

    library = "jnp"
    real = "real"

    def __init__(
        self,
        tape: BlockTape,
        maps: Sequence[Map],
        segments: Sequence[LongSegment],
        arguments: Sequence[tuple[str, int]],
    ) -> None:
        self._tape, self._maps, self._segments = tape, maps, segments
        #: Arrays that are there, by the reference of their first entry.
        self._names: dict[int, str] = {}
        self._lines: list[str] = []
        self._tables: dict[bytes, str] = {}
        self._texts: list[str] = []
        self._values = tape.constants
        first = 0
        for name, length in arguments:
            if length:
                self._names[first] = name
                self._lines.append(f"{name} = {self.library}.ravel({name})")
            first += length

    def written(self) -> tuple[list[str], list[str]]:
        """Constant tables, and the lines of the function's body."""
        for number, each in enumerate(each for each in self._maps if each.count and each.results):
            self._lines += self._comment(each)
            if each.steps is not None:
                self._recurrence(number, each)
            elif each.is_body:
                inputs = [self._column(column) for column in each.leaves]
                self._lines += [f"p{k} = {text}" for k, text in enumerate(inputs)]
                write = self._writer(each.body, len(inputs))
                self._lines += write.lines()
                for start, output in zip(each.starts, each.body.outputs, strict=True):
                    self._store(start, self._filled(write.value(output), each.count))
            else:
                self._block(each)
        results = []
        for k, segment in enumerate(self._segments):
            results.append(f"r{k}")
            references = self._tape.outputs[segment.outputs]
            if not len(references):
                self._lines.append(f"r{k} = {self.library}.zeros({segment.length}, {self.real})")
            elif segment.is_filled:
                self._lines.append(f"r{k} = {self._returned(references)}")
            else:
                positions = segment.positions
                places = np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions
                table = self._table(np.asarray(places, np.int64))
                self._scatter(f"r{k}", segment.length, table, self._spread(references))
        self._lines.append(f"return ({''.join(f'{each}, ' for each in results)})")
        return self._texts, self._lines

    # What other array libraries say otherwise ------------------------------------------------------------------------

    def _comment(self, each: Map) -> list[str]:
        """Lines before a map."""
        return []

    def _writer(self, body: Tape, inputs: int) -> BodyWriter:
        return BodyWriter(body, [f"p{k}" for k in range(inputs)])

    def _filled(self, value: str, count: int) -> str:
        """An array of numbers, given one or as many numbers or truth values."""
        return f"jnp.broadcast_to(jnp.asarray({value}, real), ({count},))"

    def _spread(self, operands: Column) -> str:
        """What all instances take, an entry for each."""
        return f"{self.library}.broadcast_to({self._column(operands)}, ({len(operands)},))"

    def _returned(self, references: NDArray[np.int64]) -> str:
        return f"jnp.asarray({self._spread(references)}, real)"

    def _scatter(self, result: str, length: int, table: str, values: str) -> None:
        self._lines.append(f"{result} = jnp.zeros({length}, real).at[{table}].set({values})")

    def _product(self, left: str, right: str) -> str:
        return f'jnp.matmul({left}, {right}, precision="highest")'

    def _segment_sums(self, terms: str, offsets: NDArray[np.int64]) -> str:
        owners = self._table(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
        return f"jax.ops.segment_sum({terms}, {owners}, {len(offsets) - 1})"

    def _turns(self, number: int, lines: list[str], values: list[str], each: Map, width: int) -> None:
        """A loop over the steps of a recurrence, whose lines compute the values of one step."""
        wide = [f"jnp.broadcast_to(jnp.asarray({value}, real), ({width},))" for value in values]
        step = [f"at = step * {width} + np.arange({width})", *lines]
        step.append(f"return own.at[:, at].set(jnp.stack([{', '.join(wide)}]))")
        self._lines += [f"def step{number}(step, own):", *(f"    {line}" for line in step), ""]
        begin = f"jnp.zeros(({len(values)}, {each.count}), real)"
        self._lines.append(f"own{number} = jax.lax.fori_loop(0, {each.count // width}, step{number}, {begin})")

    def _taken(self, table: str) -> str:
        return f"jnp.ravel(own)[jnp.asarray({table})[at]]"

    def _own_or(self, mask: str, own: str, other: str) -> str:
        return f"jnp.where(jnp.asarray({mask})[at] == 1, {own}, {other})"

    # Maps -----------------------------------------------------------------------------------------------------------

    def _store(self, start: int, value: str) -> None:
        self._names[start] = f"v{start}"
        self._lines.append(f"v{start} = {value}")

    def _block(self, each: Map) -> None:
        block = self._tape.blocks[each.blocks[0]]
        if block.shape is not None:
            m, k, n = block.shape
            left, right = (
                f"{self.library}.reshape({self._spread(column)}, {shape})"
                for column, shape in zip(block.operands, ((m, k), (k, n)), strict=True)
            )
            self._store(block.start, f"{self.library}.ravel({self._product(left, right)})")
            return
        assert block.offsets is not None
        text = self._spread(block.operands[0])
        widths = np.diff(block.offsets)
        if (widths == widths[0]).all():
            table = f"{self.library}.reshape({text}, ({block.count}, {widths[0]}))"
            self._store(block.start, f"{self.library}.sum({table}, axis=1)")
        else:
            self._store(block.start, self._segment_sums(text, block.offsets))

    def _recurrence(self, number: int, each: Map) -> None:
        steps, count = each.steps, each.count
        assert steps is not None
        widths = np.diff(steps)
        width = int(widths[0]) if (widths == widths[0]).all() else 1
        own = {start: k for k, start in enumerate(each.starts)}
        lines: list[str] = []
        for k, column in enumerate(each.leaves):
            references = references_in(column)
            places = np.full(count, -1, np.int64)
            for start, output in own.items():
                inside = (references >= start) & (references < start + count)
                places[inside] = references[inside] - start + output * count
            if (places < 0).all():
                self._lines.append(f"c{number}_{k} = {self._spread(column)}")
                lines.append(f"p{k} = c{number}_{k}[at]")
                continue
            # what is not its own is found at the first place, and not taken
            outside = np.where(places < 0, references, -1 if not (places < 0).any() else references[places < 0][0])
            table = self._table(np.maximum(places, 0))
            if (places >= 0).all():
                lines.append(f"p{k} = {self._taken(table)}")
                continue
            self._lines.append(f"c{number}_{k} = {self._spread(outside)}")
            mask = self._table((places >= 0).astype(np.int64))
            lines.append(f"p{k} = {self._own_or(mask, self._taken(table), f'c{number}_{k}[at]')}")
        write = self._writer(each.body, len(each.leaves))
        lines += write.lines()
        self._turns(number, lines, [write.value(output) for output in each.body.outputs], each, width)
        for start, output in own.items():
            self._store(start, f"own{number}[{output}]")

    # Operands --------------------------------------------------------------------------------------------------------

    def _table(self, numbers: NDArray[np.int64] | NDArray[np.float64]) -> str:
        """The name of an array of constants."""
        key = str(numbers.dtype).encode() + numbers.tobytes()
        if key not in self._tables:
            self._tables[key] = f"_TABLE{len(self._tables)}"
            runs = _runs(numbers) if numbers.dtype != float and len(numbers) > 2 else None
            if runs is not None:
                text = f"np.r_[{', '.join(runs)}]"
            else:
                entries = ", ".join(map(repr, numbers.tolist())).replace("nan", "np.nan").replace("inf", "np.inf")
                text = "\n".join(textwrap.wrap(f"np.array([{entries}])", 110, subsequent_indent="    "))
            self._texts.append(f"{self._tables[key]} = {text}")
        return self._tables[key]

    def _column(self, operands: Column) -> str:
        """The expression of what all instances take; one number may stand for all."""
        references = references_in(operands)
        constant = references < 0
        if constant.all():
            values = self._values[-1 - references]
            same = (values.view(np.int64) == values[:1].view(np.int64)).all()
            return self._table(values[:1] if same else values)
        starts = np.array(sorted(self._names), np.int64)
        owners = np.where(constant, -1, np.searchsorted(starts, references, side="right") - 1)
        found = np.unique(owners).tolist()
        if len(found) == 1:
            name, places = self._names[int(starts[found[0]])], references - starts[found[0]]
            return self._part(name, places, isinstance(operands, Range) and operands.step == 0)
        pieces = _pieces(references, owners)
        if pieces is not None:
            listed = [
                self._table(self._values[-1 - piece]) if owner < 0 else self._slice(int(starts[owner]), piece)
                for owner, piece in pieces
            ]
            return f"{self.library}.concatenate([{', '.join(listed)}])"
        parts, places, size = [], np.empty(len(references), np.int64), 0
        for owner in found:
            inside = owners == owner
            if owner < 0:
                unique, where = np.unique(references[inside], return_inverse=True)
                places[inside] = size + where
                parts.append(self._table(self._values[-1 - unique]))
                size += len(unique)
                continue
            first = int(references[inside].min())
            stop = int(references[inside].max()) + 1
            start = int(starts[owner])
            places[inside] = size + references[inside] - first
            parts.append(f"{self._names[start]}[{first - start}:{stop - start}]")
            size += stop - first
        joined = f"{self.library}.concatenate([{', '.join(parts)}])"
        if np.array_equal(places, np.arange(size)):
            return joined
        return f"{joined}[{self._table(places)}]"

    def _part(self, name: str, places: NDArray[np.int64], single: bool) -> str:
        first, last = int(places[0]), int(places[-1])
        if single or len(places) == 1:
            return f"{name}[{first}:{first + 1}]"
        if np.array_equal(places, np.arange(first, first + len(places))):
            return f"{name}[{first}:{last + 1}]"
        if np.array_equal(places, np.arange(first, first - len(places), -1)):
            return f"{self.library}.flip({name}[{last}:{first + 1}])"
        parts = _pieces(places, np.zeros(len(places), np.int64))
        if parts is not None:
            listed = ", ".join(f"{name}[{part[0]}:{part[-1] + 1}]" for _, part in parts)
            return f"{self.library}.concatenate([{listed}])"
        return f"{name}[{self._table(places)}]"

    def _slice(self, start: int, references: NDArray[np.int64]) -> str:
        return f"{self._names[start]}[{references[0] - start}:{references[-1] - start + 1}]"


def _pieces(references: NDArray[np.int64], owners: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]] | None:
    """References as pieces of arrays that follow each other, each with its owner; None if these are many."""
    apart = (np.diff(references) != 1) & (owners[1:] >= 0)  # of constants any are one table
    ends = np.flatnonzero(apart | (np.diff(owners) != 0)) + 1
    if len(ends) >= min(MOST_PIECES, len(references) - 1):
        return None
    return [(int(owners[first]), references[first:last]) for first, last in pairwise([0, *ends, len(references)])]


def _runs(numbers: NDArray[Any]) -> list[str] | None:
    """Whole numbers as slices, one after the other; None if these are many."""
    steps = np.diff(numbers)
    texts: list[str] = []
    first = 0
    while first < len(numbers):
        if len(texts) == MOST_PIECES:
            return None
        step = int(steps[first]) if first < len(steps) else 0
        changes = np.flatnonzero(steps[first:] != step)
        last = first + int(changes[0]) if len(changes) else len(numbers) - 1
        if step == 0 or last - first < 2:
            if step == 0 and last > first:
                return None
            texts.append(str(int(numbers[first])))
            first += 1
            continue
        stop = int(numbers[last]) + (1 if step > 0 else -1)
        if min(int(numbers[first]), int(numbers[last]), stop) < 0:
            return None  # slices count negative ends from somewhere else
        texts.append(f"{int(numbers[first])}:{stop}" + (f":{step}" if step != 1 else ""))
        first = last + 1
    return texts
