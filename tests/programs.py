"""Random programs as plain lists of instructions, which can be run without a tape and built onto one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from inside import BY_NAME

from accumulus import Tape

#: Operations that are exact on fractions.
RATIONAL: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "negative": lambda x: -x,
    "power": lambda x, y: x ** int(y),
    "abs": abs,
    "sign": lambda x: Fraction((x > 0) - (x < 0)),
    "minimum": min,
    "maximum": max,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "logical_and": lambda x, y: x and y,
    "logical_or": lambda x, y: x or y,
    "logical_not": lambda x: not x,
    "select": lambda condition, x, y: x if condition else y,
}
NUMPY: dict[str, Callable[..., Any]] = {name: row.evaluate for name, row in BY_NAME.items() if name != "input"}
SMOOTH = (
    *("add", "subtract", "multiply", "divide", "negative", "power", "sqrt", "cbrt", "hypot", "exp", "expm1", "exp2"),
    *("log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "erf", "erfc"),
)


@dataclass(frozen=True)
class Program:
    """Values are numbered: inputs first, then constants, then one for each step (operation, arguments)."""

    inputs: int
    constants: tuple[float, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[int, ...]

    def values(
        self, inputs: Sequence[Any], arithmetic: Mapping[str, Callable[..., Any]], number: Callable[[float], Any]
    ) -> list[Any]:
        """All values, by the definition of each step."""
        values = [*inputs, *map(number, self.constants)]
        for name, arguments in self.steps:
            values.append(arithmetic[name](*(values[k] for k in arguments)))
        return values

    def run(self, *arguments: Any) -> list[Any]:
        """Values of the outputs."""
        values = self.values(*arguments)
        return [values[k] for k in self.outputs]

    def write(self, tape: Tape) -> list[int]:
        """The program on a tape: references of the outputs."""
        references = [*range(self.inputs), *map(tape.constant, self.constants)]
        for name, arguments in self.steps:
            references.append(tape.apply(name, *(references[k] for k in arguments)))
        return [references[k] for k in self.outputs]

    def tape(self) -> Tape:
        """A tape of its own."""
        tape = Tape(self.inputs)
        tape.outputs = self.write(tape)
        return tape


@st.composite
def programs(
    draw: Callable[..., Any],
    operations: Iterable[str] = tuple(NUMPY),
    constants: Sequence[float] = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0),
    exponents: Sequence[float] = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0),
    inputs: int = 3,
    steps: int = 15,
) -> Program:
    """Programs over the operations; the second argument of power is one of `exponents`."""
    # special functions are tested one by one: the oracle of many digits does not converge wherever programs lead
    names = sorted(name for name in operations if not BY_NAME[name].special)
    all_constants = (*constants, *exponents)
    reals = [*range(inputs + len(constants))]
    powers = [*range(reals[-1] + 1, inputs + len(all_constants))]
    booleans: list[int] = []
    program = []
    for value in range(inputs + len(all_constants), inputs + len(all_constants) + draw(st.integers(1, steps))):
        possible = [name for name in names if booleans or "boolean" not in BY_NAME[name].arguments]
        name = draw(st.sampled_from(possible))
        arguments = [
            draw(st.sampled_from(booleans if kind == "boolean" else reals)) for kind in BY_NAME[name].arguments
        ]
        if name == "power":
            arguments[1] = draw(st.sampled_from(powers))
        program.append((name, tuple(arguments)))
        (booleans if BY_NAME[name].result == "boolean" else reals).append(value)
    outputs = draw(st.lists(st.sampled_from(reals[::-1]), min_size=1, max_size=3))
    return Program(inputs, all_constants, tuple(program), tuple(outputs))


def numpy_values(program: Program, point: Sequence[float]) -> list[Any]:
    """All values of the program in floating point, without any simplification."""
    return program.values([np.float64(x) for x in point], NUMPY, np.float64)


def small_fraction(value: float) -> bool:
    """Return True if a constant of a tape is one of the program's; a folded third is rounded, as in any program."""
    return math.isfinite(value) and Fraction(value).denominator <= 2**40 and abs(value) < 2**40
