"""The `numpy` target: plain NumPy source, one line an operation. Slow, and readable; it needs nothing but NumPy.

The function takes x of shape (inputs,) or (inputs, points), and returns one array for each segment, of shape (length,)
or (length, points).
"""

from __future__ import annotations

import math
import re
import textwrap
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Kernel, Segment
from accumulus.targets.schedule import Group, groups, order

__all__ = ["NumPyKernel", "source"]

#: Intermediate values of a batch are held for as many points at a time as fill this many bytes.
WORKING_MEMORY: Final = 32 << 20
_TEMPLATES: Final = tuple(operation.numpy for operation in OPERATIONS)


def source(tape: Tape, segments: tuple[Segment, ...], dtype: str = "float64", name: str = "f") -> str:
    """A Python module with the function `name`, as text.

    Raises:
        ArgumentError: if `name` is not a Python identifier.
    """
    if not name.isidentifier():
        raise ArgumentError(f"{name!r} is not a name that a Python function can have")
    arrays = _array_names(segments)
    body: list[str] = []
    if tape.inputs:
        names = [f"x{i}" for i in range(tape.inputs)]
        body += _wrapped(f"({', '.join(names)}{',' * (tape.inputs == 1)}) = x")
    body.append("points = np.shape(x)[1:]")
    for array, segment in zip(arrays, segments, strict=True):
        body.append(f'{array} = np.zeros(({segment.length}, *points), "{dtype}")')
    constants = [_literal(value) for value in tape.constants]
    inputs = tape.inputs

    def spelled(reference: int) -> str:
        if reference < 0:
            return constants[-1 - reference]
        return f"x{reference}" if reference < inputs else f"t{reference}"

    for step in order(tape, groups(tape, segments, 1)):
        if not isinstance(step, Group):
            text = _TEMPLATES[tape.codes[step]].format(*map(spelled, tape.arguments(step)))
            body.append(f"t{step} = {text}")
        elif not step.is_zero:
            (reference,) = step.references
            assert reference is not None
            body.append(f"{arrays[step.segment]}[{step.start}] = {spelled(reference)}")
    body.append(f"return {', '.join(arrays)}{',' * (len(arrays) == 1)}" if arrays else "return ()")
    text = "\n".join(body)
    imports = "import numpy as np\n"
    if "special." in text:
        imports += "from scipy import special\n"
    return f"{imports}\n\ndef {name}(x):\n{textwrap.indent(text, '    ')}\n"


def _array_names(segments: Iterable[Segment]) -> list[str]:
    names: list[str] = []
    for segment in segments:
        name = re.sub(r"\W", "_", segment.name)
        # x3 and t3 are the program's own
        if not name.isidentifier() or re.fullmatch(r"[xt]\d*|np|special|points", name):
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

    def __init__(self, tape: Tape, segments: tuple[Segment, ...], dtype: str) -> None:
        start = time.perf_counter()
        self.inputs, self.segments, self.dtype = tape.inputs, segments, np.dtype(dtype)
        self._tape = tape
        self.source = source(tape, segments, dtype)
        written = time.perf_counter()
        scope: dict[str, Any] = {}
        exec(compile(self.source, "<accumulus>", "exec"), scope)
        self._function: Callable[[NDArray[Any]], tuple[NDArray[Any], ...]] = scope["f"]
        self.seconds = {"write": written - start, "compile": time.perf_counter() - written}
        self._block = max(64, WORKING_MEMORY // (self.dtype.itemsize * (len(tape) + 1)))

    def __reduce__(self) -> tuple[Any, ...]:
        return NumPyKernel, (self._tape, self.segments, str(self.dtype))

    def __call__(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point: array of shape (inputs,) → one array of shape (length,) for each segment."""
        x = np.asarray(x, self.dtype)
        if x.shape != (self.inputs,):
            raise ArgumentError(f"a point of shape {x.shape} was given; expected ({self.inputs},)")
        with np.errstate(all="ignore"):
            return self._function(x)

    def run(
        self,
        X: NDArray[Any],
        out: tuple[NDArray[Any], ...],
        first: int,
        last: int,
        transposed: bool,
        zeroed: bool,
    ) -> None:
        """Compute points first … last-1 of a batch."""
        del zeroed  # the emitted function makes its own arrays
        for start in range(first, last, self._block):
            block = slice(start, min(start + self._block, last))
            with np.errstate(all="ignore"):
                results = self._function(X[:, block] if transposed else X[block].T)
            for array, result in zip(out, results, strict=True):
                if transposed:
                    array[:, block] = result
                else:
                    array[block] = result.T
