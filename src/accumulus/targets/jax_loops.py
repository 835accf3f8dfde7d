"""JAX source of programs over arrays: operations on whole arrays, and recurrences as `jax.lax.fori_loop`.

A body is computed for all of its instances at once, each of its inputs an array with an entry for each instance: a part
of an array that is there, or what a table finds in one or several of them. Steps of a recurrence that are equally wide
are turns of a loop over the array of its results; others are computed instance by instance.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CompileError
from accumulus.tape.blocks import BlockTape, Column, Range, references_in
from accumulus.tape.fusion import Map
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.block_kernel import LongSegment

__all__ = ["BodyWriter", "loop_lines", "module"]


#: Of SciPy's special functions, those that JAX does not have, and one that it calls otherwise.
_MISSING = ("erfcinv", "j0", "j1", "y0", "y1", "jv", "yv", "iv", "ive", "k0", "k1", "k0e", "k1e")
_OTHERWISE = ("special.psi(", "special.digamma(")


@cache
def _template(code: int) -> str | None:
    """How an operation is spelled for JAX; None if it does not have it."""
    text = OPERATIONS[code].numpy
    if any(f"special.{each}(" in text for each in _MISSING):
        return None
    return text.replace("np.", "jnp.").replace(*_OTHERWISE)


class BodyWriter:
    """Writes a tape's operations, each a line.

    Args:
        tape: what is written.
        inputs: expressions of its inputs.
    """

    def __init__(self, tape: Tape, inputs: Sequence[str]) -> None:
        self._tape, self._inputs = tape, inputs

    def value(self, reference: int) -> str:
        """Name of a value, or a number."""
        if reference >= 0:
            return self._inputs[reference] if reference < self._tape.inputs else f"t{reference}"
        number = self._tape.value_of(reference)
        if math.isnan(number):
            return "jnp.nan"
        if math.isinf(number):
            return "jnp.inf" if number > 0 else "-jnp.inf"
        return repr(number) if math.copysign(1.0, number) > 0 else f"({number!r})"

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
            template = _template(tape.codes[reference])
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
    imports = ["import jax", *(["import numpy as np"] if tables or "np.array(" in text.replace("jnp.", "") else [])]
    imports.append("import jax.numpy as jnp")
    if "special." in text:
        imports.append("from jax.scipy import special")
    listed = ", ".join(parameters)
    begin = [f"real = jnp.result_type({listed}, float)" if parameters else "real = jnp.result_type(float)"]
    begin += [f"{each} = jnp.asarray({each}, real)" for each in parameters]
    body = textwrap.indent("\n".join([*begin, text]), "    ")
    return "\n".join([*imports, "", *tables, "", f"def {name}({listed}):", body, ""])


def loop_lines(
    tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], arguments: Sequence[tuple[str, int]]
) -> tuple[list[str], list[str]]:
    """Constant tables, and the lines of the function's body; arguments are names and lengths."""
    return _Loops(tape, maps, segments, arguments).written()


class _Loops:
    """Writes a program over arrays."""

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
                self._lines.append(f"{name} = jnp.ravel({name})")
            first += length

    def written(self) -> tuple[list[str], list[str]]:
        for number, each in enumerate(each for each in self._maps if each.count and each.results):
            if each.steps is not None:
                self._recurrence(number, each)
            elif each.is_body:
                inputs = [self._column(column) for column in each.leaves]
                self._lines += [f"p{k} = {text}" for k, text in enumerate(inputs)]
                write = BodyWriter(each.body, [f"p{k}" for k in range(len(inputs))])
                self._lines += write.lines()
                for start, output in zip(each.starts, each.body.outputs, strict=True):
                    value = f"jnp.broadcast_to(jnp.asarray({write.value(output)}, real), ({each.count},))"
                    self._store(start, value)
            else:
                self._block(each)
        results = []
        for k, segment in enumerate(self._segments):
            results.append(f"r{k}")
            references = self._tape.outputs[segment.outputs]
            found = f"jnp.broadcast_to({self._column(references)}, ({len(references)},))" if len(references) else ""
            if not found:
                self._lines.append(f"r{k} = jnp.zeros({segment.length}, real)")
            elif segment.is_filled:
                self._lines.append(f"r{k} = jnp.asarray({found}, real)")
            else:
                positions = segment.positions
                places = np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions
                table = self._table(np.asarray(places, np.int64))
                self._lines.append(f"r{k} = jnp.zeros({segment.length}, real).at[{table}].set({found})")
        self._lines.append(f"return ({''.join(f'{each}, ' for each in results)})")
        return self._texts, self._lines

    def _store(self, start: int, value: str) -> None:
        self._names[start] = f"v{start}"
        self._lines.append(f"v{start} = {value}")

    def _block(self, each: Map) -> None:
        block = self._tape.blocks[each.blocks[0]]
        if block.shape is not None:
            m, k, n = block.shape
            left, right = (
                f"jnp.reshape(jnp.broadcast_to({self._column(column)}, ({len(column)},)), {shape})"
                for column, shape in zip(block.operands, ((m, k), (k, n)), strict=True)
            )
            self._store(block.start, f'jnp.ravel(jnp.matmul({left}, {right}, precision="highest"))')
            return
        assert block.offsets is not None
        (terms,) = block.operands
        text = f"jnp.broadcast_to({self._column(terms)}, ({len(terms)},))"
        widths = np.diff(block.offsets)
        if (widths == widths[0]).all():
            self._store(block.start, f"jnp.sum(jnp.reshape({text}, ({block.count}, {widths[0]})), axis=1)")
        else:
            owners = self._table(np.repeat(np.arange(block.count), widths))
            self._store(block.start, f"jax.ops.segment_sum({text}, {owners}, {block.count})")

    def _recurrence(self, number: int, each: Map) -> None:
        steps, count, outputs = each.steps, each.count, len(each.starts)
        assert steps is not None
        widths = np.diff(steps)
        width = int(widths[0]) if (widths == widths[0]).all() else 1
        own = {start: k for k, start in enumerate(each.starts)}
        lines = [f"at = step * {width} + np.arange({width})"]
        for k, column in enumerate(each.leaves):
            references = references_in(column)
            places = np.full(count, -1, np.int64)
            for start, output in own.items():
                inside = (references >= start) & (references < start + count)
                places[inside] = references[inside] - start + output * count
            if (places < 0).all():
                self._lines.append(f"c{number}_{k} = jnp.broadcast_to({self._column(column)}, ({count},))")
                lines.append(f"p{k} = c{number}_{k}[at]")
                continue
            # what is not its own is found at the first place, and not taken
            outside = np.where(places < 0, references, -1 if not (places < 0).any() else references[places < 0][0])
            table = self._table(np.maximum(places, 0))
            if (places >= 0).all():
                lines.append(f"p{k} = jnp.ravel(own)[jnp.asarray({table})[at]]")
                continue
            self._lines.append(f"c{number}_{k} = jnp.broadcast_to({self._column(outside)}, ({count},))")
            mask = self._table((places >= 0).astype(np.int64))
            taken = f"jnp.ravel(own)[jnp.asarray({table})[at]]"
            lines.append(f"p{k} = jnp.where(jnp.asarray({mask})[at] == 1, {taken}, c{number}_{k}[at])")
        write = BodyWriter(each.body, [f"p{k}" for k in range(len(each.leaves))])
        lines += write.lines()
        values = [
            f"jnp.broadcast_to(jnp.asarray({write.value(output)}, real), ({width},))" for output in each.body.outputs
        ]
        lines.append(f"return own.at[:, at].set(jnp.stack([{', '.join(values)}]))")
        self._lines += [f"def step{number}(step, own):", *(f"    {line}" for line in lines), ""]
        turns = count // width
        self._lines.append(
            f"own{number} = jax.lax.fori_loop(0, {turns}, step{number}, jnp.zeros(({outputs}, {count}), real))"
        )
        for start, output in own.items():
            self._store(start, f"own{number}[{output}]")

    # Operands --------------------------------------------------------------------------------------------------------

    def _table(self, numbers: NDArray[np.int64] | NDArray[np.float64]) -> str:
        """The name of an array of constants."""
        key = str(numbers.dtype).encode() + numbers.tobytes()
        if key not in self._tables:
            self._tables[key] = f"_TABLE{len(self._tables)}"
            steps = np.unique(np.diff(numbers)) if numbers.dtype != float and len(numbers) > 2 else np.empty(0)
            if len(steps) == 1 and steps[0]:
                step = int(steps[0])
                text = f"np.arange({numbers[0]}, {int(numbers[-1]) + (1 if step > 0 else -1)}, {step})"
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
        joined = f"jnp.concatenate([{', '.join(parts)}])"
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
            return f"jnp.flip({name}[{last}:{first + 1}])"
        return f"{name}[{self._table(places)}]"
