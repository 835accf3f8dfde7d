"""Code as people write it: functions of `make bench ARGS=cliffs`, in NumPy's words and in JAX's.

The formulas of GradBench's problems (github.com/gradbench/gradbench) and of common models are written anew, with loops,
linear algebra and containers where users have them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy

#: The reach of GradBench's problems by JAX's first result, see `Case`.
TWICE: Final = (2.0, 0.0)


class Words(NamedTuple):
    """Names in the text of a function: NumPy's modules, loops in Python and our gradients; or JAX's.

    Attributes:
        fixed_count: JAX's loop of as many iterations as its last argument says, from `step` and a state.
        stacked: JAX's scan, of which only the results of all iterations are returned.
        rotation: its class of rotations.
    """

    np: Any
    special: Any
    linalg: Any
    scan: Callable[..., Any]
    while_loop: Callable[..., Any]
    gradient: Callable[..., Any]
    vmap: Callable[..., Any] | None = None
    fixed_count: Callable[..., Any] | None = None
    stacked: Callable[..., Any] | None = None
    rotation: Any = None


class Case(NamedTuple):
    """A function, its arguments, and what is asked of it.

    Attributes:
        write: makes the function in the words of a library.
        arguments: the first is differentiated with respect to.
        asks: a name of `OURS`.
        goal: seconds in which the first result is to be there.
        of_jax: the same by JAX's first result, as a factor and seconds to add; the larger of both counts.
        jax: whether the text is JAX's, too.
        peer: makes the function as JAX's users write it, if that is another text.
        differences: the same derivative by differences, where JAX has no such text.
        read: what reads the constants once that every derivative has to read.
        others: further arguments of the same shapes with other indices, one call of each after the other.
    """

    write: Callable[[Words], Callable[..., Any]]
    arguments: tuple[Any, ...]
    asks: str = "gradient"
    goal: float = 1.0
    of_jax: tuple[float, float] = (0.0, 0.0)
    jax: bool = True
    differences: Callable[..., Any] | None = None
    read: Callable[..., Any] | None = None
    others: tuple[tuple[Any, ...], ...] = ()
    peer: Callable[[Words], Callable[..., Any]] | None = None


def random(seed: int = 0) -> numpy.random.Generator:
    """Numbers that are the same every time."""
    return numpy.random.default_rng(seed)
