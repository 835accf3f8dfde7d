"""A tape as a function of JAX's arrays, which JAX compiles, for any device, and differentiates.

One operation of JAX for each of the tape, spelled as the table of operations spells it for NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from accumulus.errors import ArgumentError
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment

__all__ = ["jax_function"]


def jax_function(tape: Tape, segments: Sequence[Segment], dtype: str) -> Callable[..., tuple[Any, ...]]:
    """What a tape computes.

    Returns:
        A function of the arrays of all arguments at one point that returns an array of shape (length,) for each
        segment.

    Raises:
        ArgumentError: at the call, for an operation that JAX does not have.
    """
    import jax.numpy as jnp
    import numpy as np

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
            for output, place in zip(segment.outputs, segment.positions, strict=True):
                entries[place] = jnp.asarray(at(tape.outputs[output]), kind)
            results.append(jnp.stack(entries) if entries else jnp.zeros(0, kind))
        return tuple(results)

    return compute


@cache
def _spelled(code: int) -> Callable[..., Any]:
    """An operation of the table as a function of JAX's arrays."""
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
        except AttributeError as error:
            raise ArgumentError(f"JAX has no {row.name}: {error}; expected operations that it has") from error

    return call
