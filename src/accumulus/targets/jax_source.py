"""The `jax` language: source of a function of JAX arrays, for `jax.jit`, `jax.vmap` and `jax.grad`, on any device.

Each operation of the tape becomes one operation of JAX, spelled as the table of operations says. It computes in the
precision of its arguments. Programs over arrays are operations on whole arrays, and recurrences are
`jax.lax.fori_loop`. The printer is NumPy's (`accumulus.targets.numpy_source`), with JAX's spelling where they differ.
`jax_function` calls JAX directly, for `accumulus.jax`, instead of writing source.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, CompileError
from accumulus.tape.blocks import CHOLESKY, GATHER, LOG_DETERMINANT, MATMUL, SCATTER, SOLVE, SPARSE_PRODUCT
from accumulus.tape.columns import Column
from accumulus.tape.operations import OPERATIONS, helpers
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment, Unit
from accumulus.targets.nests import Nest
from accumulus.targets.numpy_source import ArrayPrinter, BodyPrinter, function_parameters, wrapped_lines
from accumulus.targets.target import Target

#: Stored entries are scattered into an array of zeros if they are at most one in this many. With a smaller number,
#: sources scatter entries that an array could list; with a larger one, sources list many zeros.
SPARSE: Final = 8
_LINE: Final = 110


def jax_module(unit: Unit, name: str = "f") -> str:
    """Return a Python module with the function `name`, from one point's arguments to a tuple of flat arrays.

    It computes in the dtype of the arguments, and XLA decides on rounding.

    Raises:
        ArgumentError: if `name` is not a Python identifier.
        CompileError: for an operation that JAX does not have.
    """
    tape, arguments, parameters = unit.tape, unit.shapes, function_parameters(unit.shapes, name)
    if unit.maps is not None:
        return _module(name, parameters, *_JaxArrays(unit, parameters).written())
    lines = []
    first = 0
    for shape, parameter in zip(arguments, parameters, strict=True):
        size = math.prod(shape)
        names = [f"x{i}" for i in range(first, first + size)]
        first += size
        if names:
            lines += wrapped_lines(f"({', '.join(names)},) = jnp.ravel({parameter})", _LINE)
    write = _JaxBodies(tape, [f"x{i}" for i in range(tape.inputs)])
    lines += write.lines()
    results = []
    for k, segment in enumerate(unit.segments):
        values = [write.value(tape.outputs[output]) for output, _ in segment.pairs()]
        places = [place for _, place in segment.pairs()]
        results.append(f"r{k}")
        if values and len(values) * SPARSE < segment.length:
            stored = f"jnp.array([{', '.join(values)}], real)"
            lines += wrapped_lines(
                f"r{k} = jnp.zeros({segment.length}, real).at[np.array({places})].set({stored})", _LINE
            )
            continue
        entry_at = dict(zip(places, values, strict=True))
        entries = ", ".join(entry_at.get(position, "0.0") for position in range(segment.length))
        lines += wrapped_lines(f"r{k} = jnp.array([{entries}], real)", _LINE)
    lines.append(f"return ({''.join(f'{each}, ' for each in results)})")
    return _module(name, parameters, [], lines)


def _module(name: str, parameters: Sequence[str], tables: Sequence[str], lines: Sequence[str]) -> str:
    """Return the text of a module with a function."""
    text = "\n".join(lines)
    called = [each.replace("np.", "jnp.") for each in helpers(text)]
    imports = ["import jax", *(["import numpy as np"] if tables or "np." in text.replace("jnp.", "") else [])]
    imports.append("import jax.numpy as jnp")
    if "special." in "".join([text, *called]):
        imports.append("from jax.scipy import special")
    listed = ", ".join(parameters)
    begin = [f"real = jnp.result_type({listed}, float)" if parameters else "real = jnp.result_type(float)"]
    begin += [f"{each} = jnp.asarray({each}, real)" for each in parameters]
    body = textwrap.indent("\n".join([*begin, text]), "    ")
    return "\n".join([*imports, "", *called, *tables, "", f"def {name}({listed}):", body, ""])


class _JaxBodies(BodyPrinter):
    library = "jnp"
    spelling = "jax"


class _JaxArrays(ArrayPrinter):
    bodies = _JaxBodies
    real = "real"
    filled = "jnp.broadcast_to(jnp.asarray({value}, real), ({count},))"
    returned = "jnp.asarray({value}, real)"
    forms: ClassVar[dict[int, str]] = {
        MATMUL: 'jnp.matmul({0}, {1}, precision="highest")',
        SOLVE: "jnp.linalg.solve({0}, {1})",
        LOG_DETERMINANT: "jnp.stack(jnp.linalg.slogdet({0}))",
        CHOLESKY: "jnp.linalg.cholesky({0})",
        GATHER: "{0}[{1}[:, 0].astype(int) % {k}]",
        SCATTER: "jnp.zeros(({m}, {n}), real).at[{1}[:, 0].astype(int) % {m}].add({0})",
        SPARSE_PRODUCT: "jnp.zeros(({m}, {n}), real).at[{rows}].add({entries}[:, None] * {0}[{columns}])",
    }
    taken = "jnp.ravel(own)[jnp.asarray({table})[at]]"
    chosen = "jnp.where(jnp.asarray({mask})[at] == 1, {own}, {other})"
    scattered = ("{result} = jnp.zeros({length}, real).at[{table}].set({values})",)

    def _comment(self, nest: Nest) -> list[str]:
        return []

    def _spread(self, operands: Column) -> str:
        return self._broadcast(operands)

    def _segment_sums(self, terms: str, offsets: NDArray[np.int64]) -> str:
        owners = self._table(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
        return f"jax.ops.segment_sum({terms}, {owners}, {len(offsets) - 1})"

    def _turns(self, number: int, lines: list[str], values: list[str], count: int, width: int) -> None:
        wide = [self.filled.format(value=value, count=width) for value in values]
        step = [f"at = step * {width} + np.arange({width})", *lines]
        step.append(f"return own.at[:, at].set(jnp.stack([{', '.join(wide)}]))")
        self._lines += [f"def step{number}(step, own):", *(f"    {line}" for line in step), ""]
        begin = f"jnp.zeros(({len(values)}, {count}), real)"
        self._lines.append(f"own{number} = jax.lax.fori_loop(0, {count // width}, step{number}, {begin})")


def jax_function(tape: Tape, segments: Sequence[Segment], dtype: str) -> Callable[..., tuple[Any, ...]]:
    """Return a function of JAX arrays that computes the results of a tape.

    Returns:
        A function of the arrays of all arguments at one point, which returns an array of shape (length,) for each
        segment.

    Raises:
        ArgumentError: when the function is called, for an operation that JAX does not have.
    """
    import jax.numpy as jnp

    def compute(*arguments: Any) -> tuple[Any, ...]:
        kind = np.dtype(dtype)
        inputs = [x.reshape(-1)[k] for x in arguments for k in range(x.size)]
        constants = [np.array(value, kind) for value in tape.constants]
        values: list[Any] = list(inputs)

        def at(reference: int) -> Any:
            return values[reference] if reference >= 0 else constants[-1 - reference]

        for reference in range(tape.inputs, len(tape)):
            values.append(_spelled(tape.codes[reference])(*map(at, tape.arguments(reference))))
        results = []
        for segment in segments:
            entries = [jnp.zeros((), kind)] * segment.length
            for output, position in segment.pairs():
                entries[position] = jnp.asarray(at(tape.outputs[output]), kind)
            results.append(jnp.stack(entries) if entries else jnp.zeros(0, kind))
        return tuple(results)

    return compute


@cache
def _spelled(code: int) -> Callable[..., Any]:
    """Return an operation of the table as a function of JAX's arrays."""
    import jax
    import jax.numpy as jnp

    row = OPERATIONS[code]
    names = [f"a{k}" for k in range(row.arity)]
    source = f"lambda {', '.join(names)}: {row.numpy.format(*names)}"
    written: Callable[..., Any] = eval(
        source, {"__name__": __name__, "np": jnp, "special": jax.scipy.special}
    )  # the table's own text

    def call(*operands: Any) -> Any:
        try:
            return written(*operands)
        except (AttributeError, NameError) as error:
            raise ArgumentError(f"JAX has no {row.name}: {error}; expected operations that it has") from error

    return call


def _compile(*_: Any) -> NoReturn:
    raise CompileError(
        "target 'jax' makes source text only: write it with CompiledProgram.source('jax') or `accumulus emit --target "
        "jax`; for derivatives inside of JAX use accumulus.jax, for compiled code target='llvm'"
    )


TARGET: Final = Target(_compile, jax_module, comment="#")
