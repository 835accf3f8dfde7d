"""The `numpy` target, and the printer of Python that computes on arrays; `jax_source` has JAX's spelling.

A function of numbers has a line for each operation. The emitted function takes every argument as an array of its shape,
with an axis of points at the end if it differs from point to point. It returns one array for each segment, of shape
(length,) or (length, points). It is slow but readable, and needs only NumPy.

Programs over arrays are loop nests (`accumulus.targets.nests`) at one point. A body is computed for all instances at
once; each of its inputs is an array with an entry for each instance: part of an existing array, or entries that a table
selects from one or several arrays. Steps of equal width of a recurrence are iterations of a loop over the array of its
results; otherwise it is computed instance by instance.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from keyword import iskeyword
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, CompileError
from accumulus.tape.blocks import (
    CHOLESKY,
    GATHER,
    LOG_DETERMINANT,
    MATMUL,
    SCATTER,
    SOLVE,
    SPARSE_PRODUCT,
    operand_shapes,
)
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, OPERATIONS, helpers
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Batch, InterpretedKernel, Segment, Shape, SourceKernel, Unit
from accumulus.targets.nests import Nest, check_written, nests_of
from accumulus.targets.schedule import ResultGroup, groups, order
from accumulus.targets.target import Target
from accumulus.text import printable

#: Bytes of intermediate values that a batch holds at a time, which limits the points that are computed together. More
#: leave the cache, less makes more calls of NumPy for the same points.
WORKING_MEMORY: Final = 32 << 20
#: Largest number of pieces of arrays that are joined; a table selects entries of more pieces. More pieces make longer
#: source and more copies, fewer gather entries one by one.
MOST_PIECES: Final = 16
#: Names of operations.
_OPERATION: Final = re.compile(r"t\d+")
_SELECT: Final = BY_NAME["select"].code
_LINE: Final = 110


@dataclass(frozen=True, slots=True)
class Comments:
    """Comments in a program, for human readers."""

    parameters: tuple[str, ...] = ()  # names of the arguments; x, or a0, a1, … if empty
    values: Mapping[int, str] = field(default_factory=dict)  # name of the value that an operation computes
    # meaning of each entry of each returned array; shorter or empty if unknown
    entries: tuple[tuple[str, ...], ...] = ()

    def entry(self, array: int, position: int) -> str:
        """Return the name of the entry at a position of an array; empty if unknown."""
        names = self.entries[array] if array < len(self.entries) else ()
        return names[position] if position < len(names) else ""


def numpy_module(unit: Unit, name: str = "f", labels: Comments | None = None) -> str:
    """Return a Python module with the function `name`, as text; it takes x, or a0, a1, … for several arguments.

    Args:
        unit: program to write.
        name: name of the function.
        labels: names of its arguments, and comments.

    Raises:
        ArgumentError: if `name` is not a Python identifier.
    """
    if unit.maps is not None:
        return _loops(unit, name)
    labels = labels or Comments()
    arrays, parameters = _array_names(unit.segments), function_parameters(unit.shapes, name)
    entries = [f"x{i}" for i in range(unit.tape.inputs)]
    if labels.parameters:
        parameters, entries = _named(labels.parameters, unit.shapes, {*arrays, name})
    body = _unpacked(unit.shapes, parameters, entries)
    for array, length in zip(arrays, unit.lengths, strict=True):
        body.append(f'{array} = np.zeros(({length}, *points), "{unit.dtype}")')
    write = _PointPrinter(unit.tape, entries, unit.dtype)
    for step in order(unit.tape, groups(unit.tape, unit.segments, 1)):
        if not isinstance(step, ResultGroup):
            body.append(_commented(write.line(step), labels.values.get(step, "")))
        elif not step.is_zero:
            (reference,) = step.references
            assert reference is not None
            line = f"{arrays[step.segment]}[{step.start}] = {write.value(reference)}"
            body.append(_commented(line, labels.entry(step.segment, step.start)))
    body.append(f"return {', '.join(arrays)}{',' * (len(arrays) == 1)}" if arrays else "return ()")
    text = "\n".join(body)
    called = "".join(f"\n\n{each}" for each in helpers(text))
    imports = "\n".join(_imports(text, called))
    return f"{imports}\n{called}\n\ndef {name}({', '.join(parameters)}):\n{textwrap.indent(text, '    ')}\n"


def _imports(*texts: str) -> list[str]:
    """Return the imports that the texts of a module need."""
    special = ["from scipy import special"] if any("special." in text for text in texts) else []
    return ["import numpy as np", *special]


def function_parameters(arguments: Sequence[Shape], name: str) -> list[str]:
    """Return names of the parameters of a function.

    Raises:
        ArgumentError: if `name` is not a Python identifier.
    """
    if not name.isidentifier() or iskeyword(name):
        raise ArgumentError(f"{name!r} is not a name that a Python function can have")
    return ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]


def _loops(unit: Unit, name: str) -> str:
    """Return the source of a program over arrays at one point; arguments as for `numpy_module`."""
    parameters = function_parameters(unit.shapes, name)
    tables, lines = ArrayPrinter(unit, parameters).written()
    text = "\n".join(lines)
    called = helpers(text)
    head = f"def {name}({', '.join(parameters)}):"
    return "\n".join([*_imports(text, *called), "", *called, *tables, "", head, textwrap.indent(text, "    "), ""])


def _commented(line: str, comment: str) -> str:
    return f"{line}  # {printable(comment)}" if comment else line


def _named(requested: Sequence[str], shapes: Sequence[Shape], taken: set[str]) -> tuple[list[str], list[str]]:
    """Return distinct names of parameters and entries, based on the requested ones and different from `taken`."""
    taken = taken | {"np", "special", "points", "_ierfcx", "_complex"}

    def free(name: str) -> str:
        while name in taken or iskeyword(name) or _OPERATION.fullmatch(name):
            name += "_"
        taken.add(name)
        return name

    parameters = [free(name) for name in requested]
    entries = [
        free(f"{parameter}{'_' * bool(_OPERATION.match(f'{parameter}0'))}{'_'.join(map(str, index))}")
        if shape
        else parameter
        for parameter, shape in zip(parameters, shapes, strict=True)
        for index in np.ndindex(shape)
    ]
    return parameters, entries


def _unpacked(shapes: Sequence[Shape], parameters: Sequence[str], entries: Sequence[str]) -> list[str]:
    """Return lines that name the entries of all arguments, and the axis of points, if there is one."""
    lines: list[str] = []
    rest: Iterator[str] = iter(entries)
    for shape, parameter in zip(shapes, parameters, strict=True):
        size = math.prod(shape)
        names = list(islice(rest, size))
        flat = (
            parameter if len(shape) < 2 else f"np.reshape({parameter}, ({size}, *np.shape({parameter})[{len(shape)}:]))"
        )
        if not shape:
            lines += [f"{names[0]} = {parameter}"] * (names[0] != parameter)
        elif names:
            *begin, end = wrapped_lines(f"({', '.join(names)}{',' * (size == 1)})")
            lines += [*begin, f"{end} = {flat}"]  # only within the parentheses may a line end
    axes = [f"np.shape({parameter})[{len(shape)}:]" for shape, parameter in zip(shapes, parameters, strict=True)]
    return [*lines, f"points = {axes[0]}" if len(axes) == 1 else f"points = np.broadcast_shapes({', '.join(axes)})"]


def _array_names(segments: Iterable[Segment]) -> list[str]:
    names: list[str] = []
    for segment in segments:
        name = re.sub(r"\W", "_", segment.name)
        # names such as x3, t3 and a3 are reserved for the program
        if not name.isidentifier() or iskeyword(name) or re.fullmatch(r"[xta]\d*|np|special|points", name):
            name = f"_{name}"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def wrapped_lines(line: str, width: int = 100) -> list[str]:
    """Return a long statement as several lines."""
    return textwrap.wrap(line, width, subsequent_indent="    ", break_long_words=False)


# Bodies ---------------------------------------------------------------------------------------------------------------


class BodyPrinter:
    """Printer of a tape's operations, one per line.

    Args:
        tape: the operations.
        inputs: expressions of its inputs.

    Attributes:
        library: name of the array library in the text.
        spelling: field of the table of operations that has the library's spelling.
    """

    library = "np"
    spelling = "numpy"

    def __init__(self, tape: Tape, inputs: Sequence[str]) -> None:
        self._tape, self._inputs = tape, inputs

    def value(self, reference: int) -> str:
        """Return the name of a value, or a number."""
        if reference >= 0:
            return self._inputs[reference] if reference < self._tape.inputs else f"t{reference}"
        number = self._tape.value_of(reference)
        if math.isnan(number):
            return f"{self.library}.nan"
        if math.isinf(number):
            return f"{self.library}.inf" if number > 0 else f"-{self.library}.inf"
        return repr(number) if math.copysign(1.0, number) > 0 else self.negative(number)

    def negative(self, number: float) -> str:
        """Return the text of a negative number."""
        return f"({number!r})"

    def template(self, code: int) -> str:
        """Return the spelling of an operation; empty if the library does not have it."""
        return str(getattr(OPERATIONS[code], self.spelling))

    def line(self, reference: int) -> str:
        """Return the line of one operation.

        Raises:
            CompileError: for an operation that the library does not have.
        """
        template = self.template(self._tape.codes[reference])
        if not template:
            raise CompileError(
                f"JAX has no {self._tape.operation(reference).name}; expected operations that it has, or target='c' or "
                "'llvm', which have all"
            )
        return f"t{reference} = {template.format(*map(self.value, self._tape.arguments(reference)))}"

    def lines(self) -> list[str]:
        """Return the lines of the operations that outputs need."""
        tape, live = self._tape, needed(self._tape)
        return [self.line(reference) for reference in range(tape.inputs, len(tape)) if live[reference]]


class _PointPrinter(BodyPrinter):
    """Printer of a function of numbers, in which constants have no dtype except in choices."""

    def __init__(self, tape: Tape, inputs: Sequence[str], dtype: str) -> None:
        super().__init__(tape, inputs)
        self._dtype = dtype

    def negative(self, number: float) -> str:
        """Return the text of a negative number."""
        return repr(number)

    def line(self, reference: int) -> str:
        """Return the line of one operation."""
        tape = self._tape
        if tape.codes[reference] != _SELECT or self._dtype == "float64":
            return super().line(reference)
        # a choice between two untyped numbers is a double
        chosen = [f"np.{self._dtype}({self.value(a)})" if a < 0 else self.value(a) for a in tape.arguments(reference)]
        return f"t{reference} = {self.template(_SELECT).format(*chosen)}"


# Programs over arrays -------------------------------------------------------------------------------------------------


#: Names of the results of operations on matrices.
_OF_MATRICES: Final = {
    MATMUL: "products", SOLVE: "solutions", LOG_DETERMINANT: "parts of a determinant", CHOLESKY: "entries of a factor",
    GATHER: "entries of rows by indices", SCATTER: "sums by indices", SPARSE_PRODUCT: "products with a sparse matrix"
}  # fmt: skip


class ArrayPrinter:
    """Printer of the loop nests of a program over arrays; a subclass has the forms that differ in JAX.

    Args:
        unit: the program.
        parameters: names of the function's arguments.

    Attributes:
        bodies: class that prints bodies, with the name of the array library.
        real: dtype of numbers in the text.
        filled: form of an array filled with one number, or converted from numbers or truth values.
        returned: form of a result as a new array.
        forms: forms of operations on matrices, by code.
        taken: form of results of earlier steps of a recurrence.
        chosen: form of these where a mask is 1, and of other values elsewhere.
        scattered: lines that make a result with values at the positions of a table.
    """

    bodies: type[BodyPrinter] = BodyPrinter
    real = "float"
    filled = "np.full({count}, {value}, float)"  # truth values become numbers
    returned = "np.array({value}, float)"  # not a view of an argument
    forms: ClassVar[dict[int, str]] = {
        MATMUL: "{0} @ {1}",
        SOLVE: "np.linalg.solve({0}, {1})",
        LOG_DETERMINANT: "np.array(np.linalg.slogdet({0}))",
        CHOLESKY: "np.linalg.cholesky({0})",
        GATHER: "{0}[{1}[:, 0].astype(int) % {k}]",
        SCATTER: "np.transpose([np.bincount({1}[:, 0].astype(int) % {m}, each, {m}) for each in np.transpose({0})])",
        SPARSE_PRODUCT: (
            "np.transpose([np.bincount({rows}, {entries} * each[{columns}], {m}) for each in np.transpose({0})])"
        ),
    }
    taken = "np.ravel(own)[{table}[at]]"
    chosen = "np.where({mask}[at] == 1, {own}, {other})"
    scattered: tuple[str, ...] = ("{result} = np.zeros({length})", "{result}[{table}] = {values}")

    def __init__(self, unit: Unit, parameters: Sequence[str]) -> None:
        self._tape, self._nests, self._segments = unit.tape, nests_of(unit.tape, unit.maps or ()), unit.segments
        self.library = self.bodies.library
        check_written(self._nests, "Python", has_factors=True)
        #: Names of existing arrays, by the reference of their first entry.
        self._names: dict[int, str] = {}
        self._lines: list[str] = []
        self._tables: dict[bytes, str] = {}
        self._texts: list[str] = []
        self._values = unit.tape.constants
        first = 0
        for name, length in zip(parameters, map(math.prod, unit.shapes), strict=True):
            if length:
                self._names[first] = name
                self._lines.append(f"{name} = {self.library}.ravel({name})")
            first += length

    def written(self) -> tuple[list[str], list[str]]:
        """Return constant tables, and the lines of the function's body."""
        for number, nest in enumerate(self._nests):
            self._lines += self._comment(nest)
            if nest.steps is not None:
                self._recurrence(number, nest)
            elif nest.body is not None:
                inputs = [self._column(column) for column in nest.loads]
                self._lines += [f"p{k} = {text}" for k, text in enumerate(inputs)]
                write = self.bodies(nest.body, [f"p{k}" for k in range(len(inputs))])
                self._lines += write.lines()
                for start, output in zip(nest.starts, nest.body.outputs, strict=True):
                    self._store(start, self.filled.format(value=write.value(output), count=nest.count))
            elif nest.shape is not None:
                self._of_matrices(nest, nest.shape)
            else:
                assert nest.offsets is not None
                self._sums(nest, nest.offsets)
        results = []
        for k, segment in enumerate(self._segments):
            results.append(f"r{k}")
            references = self._tape.outputs[segment.outputs]
            if not len(references):
                self._lines.append(f"r{k} = {self.library}.zeros({segment.length}, {self.real})")
            elif segment.is_filled:
                self._lines.append(f"r{k} = {self.returned.format(value=self._spread(references))}")
            else:
                positions = segment.positions
                places = np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions
                table = self._table(np.asarray(places, np.int64))
                fields = {"result": f"r{k}", "length": segment.length, "values": self._spread(references)}
                self._lines += [line.format(table=table, **fields) for line in self.scattered]
        self._lines.append(f"return ({''.join(f'{each}, ' for each in results)})")
        return self._texts, self._lines

    # Forms that differ in JAX ----------------------------------------------------------------------------------------

    def _comment(self, nest: Nest) -> list[str]:
        """Return lines before a nest."""
        lines = sorted((os.path.basename(file), line) for file, line in self._tape.lines_of(nest.blocks))
        places = ", ".join(f"{file}:{line}" for file, line in lines[:3]) + (", …" if len(lines) > 3 else "")
        noun = "sums" if nest.body is None else "entries" if nest.steps is None else "steps"
        if nest.shape is not None:
            noun = _OF_MATRICES.get(nest.code) or FACTORISATIONS[nest.code].name
        return ["", f"# {nest.count:,} {noun}" + (f", {places}" if places else "")]

    def _spread(self, operands: Column) -> str:
        """Return an operand with one entry for each instance, even if all instances share it."""
        references = references_in(operands)
        # constants may be equal under several references, and are one number then
        if len(references) > 1 and (references != references[0]).any() and not (references < 0).all():
            return self._column(operands)
        return self._broadcast(operands)

    def _broadcast(self, operands: Column) -> str:
        return f"{self.library}.broadcast_to({self._column(operands)}, ({len(operands)},))"

    def _segment_sums(self, terms: str, offsets: NDArray[np.int64]) -> str:
        return f"np.add.reduceat({terms}, {self._table(offsets[:-1])})"

    def _turns(self, number: int, lines: list[str], values: list[str], count: int, width: int) -> None:
        """Write a loop over the steps of a recurrence, whose lines compute the values of one step."""
        array = f"own{number}"
        self._lines += [
            f"own = {array} = np.zeros(({len(values)}, {count}))",
            f"for at in range(0, {count}, {width}):",
            f"    at = slice(at, at + {width})",
            *(f"    {line}" for line in lines),
            *(f"    own[{k}, at] = {value}" for k, value in enumerate(values)),
        ]

    # Nests ----------------------------------------------------------------------------------------------------------

    def _store(self, start: int, value: str) -> None:
        self._names[start] = f"v{start}"
        self._lines.append(f"v{start} = {value}")

    def _of_matrices(self, nest: Nest, shape: tuple[int, int, int]) -> None:
        m, k, n = shape
        matrices = [
            f"{self.library}.reshape({self._spread(column)}, {each})"
            for column, each in zip(
                nest.loads, operand_shapes(nest.code, shape, nest.opaque, len(nest.loads)), strict=True
            )
        ]
        if nest.code in FACTORISATIONS:
            parts = FACTORISATIONS[nest.code].text.format(*matrices, library=self.library)
            self._store(nest.starts[0], f"{self.library}.concatenate([{self.library}.ravel(part) for part in {parts}])")
            return
        tables: dict[str, str] = {}
        if isinstance(nest.opaque, SparseMatrix):
            held = {
                "rows": nest.opaque.rows,
                "columns": nest.opaque.columns.astype(int),
                "entries": nest.opaque.entries,
            }
            tables = {name: self._table(array) for name, array in held.items()}
        text = self.forms[nest.code].format(*matrices, m=m, k=k, n=n, **tables)
        self._store(nest.starts[0], f"{self.library}.ravel({text})")

    def _sums(self, nest: Nest, offsets: NDArray[np.int64]) -> None:
        text = self._spread(nest.loads[0])
        widths = np.diff(offsets)
        if (widths == widths[0]).all():
            table = f"{self.library}.reshape({text}, ({nest.count}, {widths[0]}))"
            self._store(nest.starts[0], f"{self.library}.sum({table}, axis=1)")
        else:
            self._store(nest.starts[0], self._segment_sums(text, offsets))

    def _recurrence(self, number: int, nest: Nest) -> None:
        body, steps, count = nest.body, nest.steps, nest.count
        assert body is not None
        assert steps is not None
        widths = np.diff(steps)
        width = int(widths[0]) if (widths == widths[0]).all() else 1
        output_of = {start: k for k, start in enumerate(nest.starts)}
        lines: list[str] = []
        for k, column in enumerate(nest.loads):
            references = references_in(column)
            places = np.full(count, -1, np.int64)
            for start, output in output_of.items():
                inside = (references >= start) & (references < start + count)
                places[inside] = references[inside] - start + output * count
            if (places < 0).all():
                self._lines.append(f"c{number}_{k} = {self._spread(column)}")
                lines.append(f"p{k} = c{number}_{k}[at]")
                continue
            # references to other arrays read the first place, and the mask discards that value
            outside = np.where(places < 0, references, -1 if not (places < 0).any() else references[places < 0][0])
            table = self._table(np.maximum(places, 0))
            if (places >= 0).all():
                lines.append(f"p{k} = {self.taken.format(table=table)}")
                continue
            self._lines.append(f"c{number}_{k} = {self._spread(outside)}")
            mask = self._table((places >= 0).astype(np.int64))
            own_value, other = self.taken.format(table=table), f"c{number}_{k}[at]"
            lines.append(f"p{k} = {self.chosen.format(mask=mask, own=own_value, other=other)}")
        write = self.bodies(body, [f"p{k}" for k in range(len(nest.loads))])
        lines += write.lines()
        self._turns(number, lines, [write.value(output) for output in body.outputs], count, width)
        for start, output in output_of.items():
            self._store(start, f"own{number}[{output}]")

    # Operands --------------------------------------------------------------------------------------------------------

    def _table(self, numbers: NDArray[np.int64] | NDArray[np.float64]) -> str:
        """Return the name of an array of constants."""
        key = str(numbers.dtype).encode() + numbers.tobytes()
        if key not in self._tables:
            self._tables[key] = f"_TABLE{len(self._tables)}"
            runs = _runs(numbers) if numbers.dtype != float and len(numbers) > 2 else None
            if runs is not None:
                text = f"np.r_[{', '.join(runs)}]"
            else:
                entries = ", ".join(map(repr, numbers.tolist())).replace("nan", "np.nan").replace("inf", "np.inf")
                text = "\n".join(textwrap.wrap(f"np.array([{entries}])", _LINE, subsequent_indent="    "))
            self._texts.append(f"{self._tables[key]} = {text}")
        return self._tables[key]

    def _column(self, operands: Column) -> str:
        """Return the expression of the operands of all instances; one number may stand for all."""
        references = references_in(operands)
        constant = references < 0
        if constant.all():
            values = self._values[-1 - references]
            same = (values.view(np.int64) == values[:1].view(np.int64)).all()
            return self._table(values[:1] if same else values)
        starts = np.array(sorted(self._names), np.int64)
        owners = np.where(constant, -1, np.searchsorted(starts, references, side="right") - 1)
        distinct = np.unique(owners).tolist()
        if len(distinct) == 1:
            name, places = self._names[int(starts[distinct[0]])], references - starts[distinct[0]]
            return self._slice_of(name, places, isinstance(operands, Range) and operands.step == 0)
        pieces = _pieces(references, owners)
        if pieces is not None:
            listed = [
                self._table(self._values[-1 - piece]) if owner < 0 else self._slice(int(starts[owner]), piece)
                for owner, piece in pieces
            ]
            return f"{self.library}.concatenate([{', '.join(listed)}])"
        parts, places, size = [], np.empty(len(references), np.int64), 0
        for owner in distinct:
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

    def _slice_of(self, name: str, places: NDArray[np.int64], single: bool) -> str:
        first, last = int(places[0]), int(places[-1])
        if single or len(places) == 1:
            return f"{name}[{first}:{first + 1}]"
        if np.array_equal(places, np.arange(first, first + len(places))):
            return f"{name}[{first}:{last + 1}]"
        if np.array_equal(places, np.arange(first, first - len(places), -1)):
            return f"{self.library}.flip({name}[{last}:{first + 1}])"
        parts = _pieces(places, np.zeros(len(places), np.int64))
        if parts is not None:
            listed = ", ".join(f"{name}[{piece[0]}:{piece[-1] + 1}]" for _, piece in parts)
            return f"{self.library}.concatenate([{listed}])"
        return f"{name}[{self._table(places)}]"

    def _slice(self, start: int, references: NDArray[np.int64]) -> str:
        return f"{self._names[start]}[{references[0] - start}:{references[-1] - start + 1}]"


def _pieces(references: NDArray[np.int64], owners: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]] | None:
    """Return references as consecutive pieces of arrays, each with its owner; None if there are too many."""
    apart = (np.diff(references) != 1) & (owners[1:] >= 0)  # any constants fit into one table
    ends = np.flatnonzero(apart | (np.diff(owners) != 0)) + 1
    if len(ends) >= min(MOST_PIECES, len(references) - 1):
        return None
    return [(int(owners[first]), references[first:last]) for first, last in pairwise([0, *ends, len(references)])]


def _runs(numbers: NDArray[Any]) -> list[str] | None:
    """Return integers as consecutive slices; None if there are too many."""
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
            return None  # in slices, negative ends count from the end
        texts.append(f"{int(numbers[first])}:{stop}" + (f":{step}" if step != 1 else ""))
        first = last + 1
    return texts


# The kernel -------------------------------------------------------------------------------------------------------


class NumPyKernel(SourceKernel):
    """Kernel that runs the emitted NumPy source, which rounds every operation."""

    def _emit(self) -> str:
        return numpy_module(self._unit)

    def _compile(self) -> None:
        scope: dict[str, Any] = {"__name__": __name__}
        exec(compile(self.source, "<accumulus>", "exec"), scope)
        self._function: Callable[..., tuple[NDArray[Any], ...]] = scope["f"]
        self._block = max(64, WORKING_MEMORY // (self.dtype.itemsize * (len(self._tape) + 1)))

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point; see `Kernel.compute`."""
        with np.errstate(all="ignore"):
            for result, made in zip(results, self._function(*arguments), strict=True):
                result[:] = made

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch."""
        X, shared = batch.X, batch.shared
        if not batch.transposed:  # the emitted function takes points on the last axis
            X = [x if same else np.moveaxis(x, 0, -1) for x, same in zip(X, shared, strict=True)]
        for start in range(first, last, self._block):
            block = slice(start, min(start + self._block, last))
            with np.errstate(all="ignore"):
                results = self._function(*(x if same else x[..., block] for x, same in zip(X, shared, strict=True)))
            batch.store(block, results)


TARGET: Final = Target(
    lambda unit: NumPyKernel(unit) if unit.maps is None else InterpretedKernel(unit), numpy_module, comment="#"
)
