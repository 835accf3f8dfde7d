"""The `jax` language: a function of JAX's arrays as source, for `jax.jit`, `jax.vmap` and `jax.grad`, on any device.

One operation of JAX for each of the tape, spelled as the table of operations spells it for NumPy. It computes in the
precision of its arguments. Programs over arrays are operations on whole arrays (`accumulus.targets.jax_loops`).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any, Final, NoReturn

from accumulus.errors import ArgumentError, CompileError
from accumulus.tape.tape import Tape
from accumulus.targets.jax_loops import BodyWriter, loop_lines, module
from accumulus.targets.kernel import Segment, Shape
from accumulus.targets.target import Target

__all__ = ["TARGET", "source"]

#: Structural zeros are written by themselves if at most one of so many entries is none.
SPARSE: Final = 8
_LINE: Final = 110


def source(
    tape: Tape,
    segments: tuple[Segment, ...],
    dtype: str,
    arguments: Sequence[Shape],
    name: str = "f",
    exact: frozenset[int] = frozenset(),
) -> str:
    """A Python module with the function `name`, as text: of the arguments at one point, to a tuple of flat arrays.

    Raises:
        ArgumentError: if `name` is not a Python identifier.
        CompileError: for an operation that JAX does not have.
    """
    del dtype, exact  # of the arguments; XLA rounds as it likes
    parameters = _parameters(arguments, name)
    lines = []
    first = 0
    for shape, parameter in zip(arguments, parameters, strict=True):
        size = math.prod(shape)
        names = [f"x{i}" for i in range(first, first + size)]
        first += size
        if names:
            lines += _wrapped(f"({', '.join(names)},) = jnp.ravel({parameter})")
    write = BodyWriter(tape, [f"x{i}" for i in range(tape.inputs)])
    lines += write.lines()
    results = []
    for k, segment in enumerate(segments):
        values = [write.value(tape.outputs[output]) for output in segment.outputs]
        places = list(segment.positions)
        results.append(f"r{k}")
        if values and len(values) * SPARSE < segment.length:
            stored = f"jnp.array([{', '.join(values)}], real)"
            lines += _wrapped(f"r{k} = jnp.zeros({segment.length}, real).at[np.array({places})].set({stored})")
            continue
        given = dict(zip(places, values, strict=True))
        entries = ", ".join(given.get(place, "0.0") for place in range(segment.length))
        lines += _wrapped(f"r{k} = jnp.array([{entries}], real)")
    lines.append(f"return ({''.join(f'{each}, ' for each in results)})")
    return module(name, parameters, [], lines)


def _parameters(arguments: Sequence[Shape], name: str) -> list[str]:
    if not name.isidentifier() or iskeyword(name):
        raise ArgumentError(f"{name!r} is not a name that a Python function can have")
    return ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _LINE, subsequent_indent="    ", break_long_words=False)


def _loops(tape: Any, maps: Any, segments: Any, arguments: Sequence[Shape], name: str) -> str:
    """As `source`, of a program over arrays."""
    parameters = _parameters(arguments, name)
    tables, lines = loop_lines(tape, maps, segments, list(zip(parameters, map(math.prod, arguments), strict=True)))
    return module(name, parameters, tables, lines)


def _compile(*_: Any) -> NoReturn:
    raise CompileError(
        "target 'jax' is source alone: write it with Program.source('jax') or `accumulus emit --target jax`; for "
        "derivatives inside of JAX use accumulus.jax, for compiled code target='llvm'"
    )


TARGET: Final = Target(_compile, source, comment="#", loop_source=_loops)
