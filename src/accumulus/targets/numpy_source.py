"""The `numpy` target: plain NumPy source, one line an operation. Slow, and readable; it needs nothing but NumPy.

The function takes every argument as an array of its shape, with one more axis, of points, behind if it differs from
point to point. It returns one array for each segment, of shape (length,) or (length, points).
"""

from __future__ import annotations

import math
import re
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from keyword import iskeyword
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.operations import BY_NAME, OPERATIONS, helpers
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Kernel, Segment, Shape
from accumulus.targets.schedule import Group, groups, order
from accumulus.targets.target import Target
from accumulus.text import printable

__all__ = ["TARGET", "Labels", "NumPyKernel", "source"]

#: Intermediate values of a batch are held for as many points at a time as fill this many bytes.
WORKING_MEMORY: Final = 32 << 20
#: What operations are called.
_OPERATION: Final = re.compile(r"t\d+")
_SELECT: Final = BY_NAME["select"].code
_TEMPLATES: Final = tuple(operation.numpy for operation in OPERATIONS)


@dataclass(frozen=True, slots=True)
class Labels:
    """What is written beside a program, for those who read it.

    Attributes:
        parameters: names of the arguments; none for x, or a0, a1, …
        values: of operations, what they compute.
        entries: of each array that is returned, what each of its entries is; fewer, or none, where nothing is known.
    """

    parameters: tuple[str, ...] = ()
    values: Mapping[int, str] = field(default_factory=dict)
    entries: tuple[tuple[str, ...], ...] = ()

    def entry(self, array: int, position: int) -> str:
        """What is at a position of an array; empty if that is not known."""
        found = self.entries[array] if array < len(self.entries) else ()
        return found[position] if position < len(found) else ""


def source(
    tape: Tape,
    segments: tuple[Segment, ...],
    dtype: str,
    arguments: Sequence[Shape],
    name: str = "f",
    exact: frozenset[int] = frozenset(),
    labels: Labels | None = None,
) -> str:
    """A Python module with the function `name`, as text. It takes x, or a0, a1, … if there are several arguments.

    Args:
        labels: names of its arguments, and comments.

    Raises:
        ArgumentError: if `name` is not a Python identifier.
    """
    del exact  # NumPy rounds every operation
    labels = labels or Labels()
    arrays, parameters = _array_names(segments), _parameters(arguments, name)
    entries = [f"x{i}" for i in range(tape.inputs)]
    if labels.parameters:
        parameters, entries = _named(labels.parameters, arguments, {*arrays, name})
    body = _unpacked(arguments, parameters, entries)
    for array, segment in zip(arrays, segments, strict=True):
        body.append(f'{array} = np.zeros(({segment.length}, *points), "{dtype}")')
    constants = [_literal(value) for value in tape.constants]
    inputs = tape.inputs

    def spelled(reference: int) -> str:
        if reference < 0:
            return constants[-1 - reference]
        return entries[reference] if reference < inputs else f"t{reference}"

    def chosen(reference: int) -> str:
        # a choice of two numbers is one of doubles, if they do not say what they are
        text = spelled(reference)
        return f"np.{dtype}({text})" if reference < 0 and dtype != "float64" else text

    for step in order(tape, groups(tape, segments, 1)):
        if not isinstance(step, Group):
            write = chosen if tape.codes[step] == _SELECT else spelled
            text = _TEMPLATES[tape.codes[step]].format(*map(write, tape.arguments(step)))
            body.append(_commented(f"t{step} = {text}", labels.values.get(step, "")))
        elif not step.is_zero:
            (reference,) = step.references
            assert reference is not None
            line = f"{arrays[step.segment]}[{step.start}] = {spelled(reference)}"
            body.append(_commented(line, labels.entry(step.segment, step.start)))
    body.append(f"return {', '.join(arrays)}{',' * (len(arrays) == 1)}" if arrays else "return ()")
    text = "\n".join(body)
    called = "".join(f"\n\n{each}" for each in helpers(text))
    imports = "import numpy as np\n"
    if "special." in called + text:
        imports += "from scipy import special\n"
    return f"{imports}{called}\n\ndef {name}({', '.join(parameters)}):\n{textwrap.indent(text, '    ')}\n"


def _parameters(arguments: Sequence[Shape], name: str) -> list[str]:
    if not name.isidentifier() or iskeyword(name):
        raise ArgumentError(f"{name!r} is not a name that a Python function can have")
    return ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]


def _loops(tape: Any, maps: Any, segments: Any, arguments: Sequence[Shape], name: str) -> str:
    """As `source`, of a program over arrays, at one point."""
    from accumulus.targets.numpy_loops import loop_module

    parameters = _parameters(arguments, name)
    return loop_module(tape, maps, segments, list(zip(parameters, map(math.prod, arguments), strict=True)), name)


def _commented(line: str, comment: str) -> str:
    return f"{line}  # {printable(comment)}" if comment else line


def _named(wanted: Sequence[str], shapes: Sequence[Shape], taken: set[str]) -> tuple[list[str], list[str]]:
    """Names of parameters and of their entries, after those that are wanted: no two the same, and none of `taken`."""
    taken = taken | {"np", "special", "points", "_ierfcx"}

    def free(name: str) -> str:
        while name in taken or iskeyword(name) or _OPERATION.fullmatch(name):
            name += "_"
        taken.add(name)
        return name

    parameters = [free(name) for name in wanted]
    entries = [
        free(f"{parameter}{'_' * bool(_OPERATION.match(f'{parameter}0'))}{'_'.join(map(str, index))}")
        if shape
        else parameter
        for parameter, shape in zip(parameters, shapes, strict=True)
        for index in np.ndindex(shape)
    ]
    return parameters, entries


def _unpacked(shapes: Sequence[Shape], parameters: Sequence[str], entries: Sequence[str]) -> list[str]:
    """Names for the entries of all arguments, and the axis of points, if there is one."""
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
            *begin, end = _wrapped(f"({', '.join(names)}{',' * (size == 1)})")
            lines += [*begin, f"{end} = {flat}"]  # only within the parentheses may a line end
    axes = [f"np.shape({parameter})[{len(shape)}:]" for shape, parameter in zip(shapes, parameters, strict=True)]
    return [*lines, f"points = {axes[0]}" if len(axes) == 1 else f"points = np.broadcast_shapes({', '.join(axes)})"]


def _array_names(segments: Iterable[Segment]) -> list[str]:
    names: list[str] = []
    for segment in segments:
        name = re.sub(r"\W", "_", segment.name)
        # x3, t3 and a3 are the program's own
        if not name.isidentifier() or iskeyword(name) or re.fullmatch(r"[xta]\d*|np|special|points", name):
            name = f"_{name}"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 100, subsequent_indent="    ", break_long_words=False)


def _literal(value: float) -> str:
    if math.isnan(value):
        return "np.nan"
    if math.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)


class NumPyKernel(Kernel):
    """Kernel that runs the emitted NumPy source."""

    def __init__(
        self,
        tape: Tape,
        segments: tuple[Segment, ...],
        dtype: str,
        arguments: tuple[Shape, ...],
        exact: frozenset[int] = frozenset(),
        cache: bool = False,
    ) -> None:
        del exact, cache  # NumPy rounds every operation, and its source is quickly compiled
        start = time.perf_counter()
        self.arguments, self.segments, self.dtype = arguments, segments, np.dtype(dtype)
        self._tape = tape
        self.source = source(tape, segments, dtype, arguments)
        emitted = time.perf_counter()
        scope: dict[str, Any] = {"__name__": __name__}
        exec(compile(self.source, "<accumulus>", "exec"), scope)
        self._function: Callable[..., tuple[NDArray[Any], ...]] = scope["f"]
        self.seconds = {"emit": emitted - start, "compile": time.perf_counter() - emitted}
        self._block = max(64, WORKING_MEMORY // (self.dtype.itemsize * (len(tape) + 1)))

    def __reduce__(self) -> tuple[Any, ...]:
        return NumPyKernel, (self._tape, self.segments, str(self.dtype), self.arguments)

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point: an array of its shape for each argument → one of shape (length,) for each segment."""
        given = self._point(x)
        with np.errstate(all="ignore"):
            return self._function(*given)

    def run(
        self,
        X: Sequence[NDArray[Any]],
        out: Sequence[NDArray[Any]],
        first: int,
        last: int,
        transposed: bool = False,
        zeroed: bool = False,
        shared: tuple[bool, ...] = (),
    ) -> None:
        """Compute points first … last-1 of a batch."""
        del zeroed  # the emitted function makes its own arrays
        alike = shared or (False,) * len(X)
        points_last = [x if same or transposed else np.moveaxis(x, 0, -1) for x, same in zip(X, alike, strict=True)]
        for start in range(first, last, self._block):
            block = slice(start, min(start + self._block, last))
            with np.errstate(all="ignore"):
                results = self._function(
                    *(x if same else x[..., block] for x, same in zip(points_last, alike, strict=True))
                )
            for array, result in zip(out, results, strict=True):
                if transposed:
                    array[:, block] = result
                else:
                    array[block] = result.T


TARGET: Final = Target(NumPyKernel, source, comment="#", loop_source=_loops)
