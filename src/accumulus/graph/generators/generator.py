"""The table of generators: name → function → what it makes. Each adds itself, and names its graphs by the call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, unknown_name
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["Generator", "assembled", "generate", "generator", "generators", "get"]

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Generator:
    """A registered generator; call it with its function's arguments."""

    name: str
    description: str
    function: Callable[..., DifferentiationGraph]

    @property
    def parameters(self) -> dict[str, Any]:
        """Names of the arguments, and their defaults."""
        return {name: given.default for name, given in inspect.signature(self.function).parameters.items()}

    def __call__(self, **arguments: Any) -> DifferentiationGraph:
        """The graph for these arguments; `ArgumentError` for one that the function does not have."""
        unknown = sorted(arguments.keys() - self.parameters)
        if unknown:
            raise ArgumentError(f"{self.name} takes no argument {unknown[0]!r}; expected {', '.join(self.parameters)}")
        return self.function(**arguments)


_GENERATORS: Final[dict[str, Generator]] = {}


def generator(function: Callable[P, DifferentiationGraph]) -> Callable[P, DifferentiationGraph]:
    """Decorator that adds a function to the table under its name; the first line of its docstring describes it."""
    signature = inspect.signature(function)
    name = function.__name__

    @functools.wraps(function)
    def made(*arguments: P.args, **options: P.kwargs) -> DifferentiationGraph:
        graph = function(*arguments, **options)
        given = signature.bind(*arguments, **options).arguments
        graph.name = f"{name}({', '.join(f'{key}={value}' for key, value in given.items())})"
        return graph

    _GENERATORS[name] = Generator(name, (inspect.getdoc(function) or name).splitlines()[0], made)
    return made


def get(name: str) -> Generator:
    """The generator of that name, or `UnknownNameError`."""
    if not isinstance(name, str) or name not in _GENERATORS:
        raise unknown_name("generator", name, _GENERATORS)
    return _GENERATORS[name]


def generate(name: str, **arguments: Any) -> DifferentiationGraph:
    """A graph by the name of its generator.

    Raises:
        UnknownNameError: for an unknown name; the message lists those that there are.
        ArgumentError: for an argument that the generator does not have, or a value that it refuses.

    >>> generate("star", inputs=3, outputs=2)
    DifferentiationGraph('star(inputs=3, outputs=2)', 2 roots, 1 intermediates, 3 terminals, 5 edges)
    """
    return get(name)(**arguments)


def generators() -> dict[str, str]:
    """The registered generators: name → what it makes."""
    return {made.name: made.description for made in _GENERATORS.values()}


def assembled(
    sources: NDArray[np.int64] | Sequence[int],
    targets: NDArray[np.int64] | Sequence[int],
    count: int,
    sizes: Sequence[int] | NDArray[np.int64] | None = None,
) -> DifferentiationGraph:
    """Graph of `count` numbered vertices, each with an edge.

    Those that no edge enters are its roots, those that none leaves its terminals.
    """
    entered = np.bincount(targets, minlength=count) > 0
    left = np.bincount(sources, minlength=count) > 0
    assert (entered | left).all(), "a vertex without edges is neither an output nor an input"
    return DifferentiationGraph.from_arrays(
        sources,
        targets,
        vertices=range(count),
        roots=np.flatnonzero(~entered).tolist(),
        terminals=np.flatnonzero(~left).tolist(),
        sizes=sizes,
    )
