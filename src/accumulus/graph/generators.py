"""Seeded generators of test graphs: public as ``accumulus.graphs``, and used by tests, documentation and benchmarks.

The same arguments give the same graph on every machine and in every version; a graph's name is the call that makes it.
Vertices are numbered, inputs first unless a generator says otherwise. An edge runs from a dependent vertex to its
dependency. Every vertex is on a path from an output to an input. A million edges take a few seconds.

`generators()` lists the generators, and `generate(name, …)` calls one by name. `with_labels` and `with_sizes` draw
random labels and sizes for a graph.

>>> print(*generators())
lion bat gadgets random_dag layered banded series_parallel chain star stencil butterfly matrix_chain dense_layers
>>> lion()
DifferentiationGraph('lion()', 4 roots, 2 intermediates, 2 terminals, 8 edges)
>>> [len(graph.sources) for graph in (bat(), bat(vectors=True), gadgets("bat", count=2), random_dag(9, 20))]
[12, 9, 24, 20]
>>> [len(graph.sources) for graph in (layered(3, 4), banded(8), series_parallel(8), chain(3), star(2, 2))]
[32, 30, 8, 4, 4]
>>> [len(graph.sources) for graph in (stencil(4, 2), butterfly(2), matrix_chain(3), dense_layers((2, 3, 2)))]
[20, 16, 2, 12]
>>> generator_named("chain").parameters, with_sizes(chain(3), largest=4).sizes.tolist()
({'intermediates': 100}, [4, 1, 2, 1, 4])

**Random numbers** come from SplitMix64, which is the same on every machine and in every version. NumPy guarantees its
streams within one version only, and Python guarantees only some of its functions; a seed in a paper or a bug report has
to reproduce the graph. SplitMix64 adds an odd constant and mixes the sum (Steele, Lea and Flood, Fast splittable
pseudorandom number generators, 2014). Number k of a stream depends on the seed and k alone, so a block of numbers takes
a few array operations.

**Gadgets** are small graphs on which vertex, edge and face elimination differ. The lion and the bat are as in the
examples of the public ADMission planner (STCE, RWTH Aachen). Naumann compares the three kinds of elimination (Optimal
accumulation of Jacobian matrices by elimination methods on the dual computational graph, 2004). Optimal numbers of
products:

| graph | vertices | edges | faces |
| --- | --- | --- | --- |
| lion | 12 | 11 | 11 |
| bat | 24 | 23 | 22 with vectors, at most 22 without |

With `vectors` the pairs 0a and 0b, 1a and 1b, 3a and 3b, 6a and 6b are one vertex of two entries each, and elimination
cannot separate the two entries.

**Regular graphs.** The docstring of a generator gives the optimum where it is known.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, ParamSpec

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, unknown_name
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.state import Integers

__all__ = [
    "Generator",
    "banded",
    "bat",
    "butterfly",
    "chain",
    "dense_layers",
    "gadgets",
    "generate",
    "generator_named",
    "generators",
    "layered",
    "lion",
    "matrix_chain",
    "random_dag",
    "series_parallel",
    "star",
    "stencil",
    "with_labels",
    "with_sizes",
]


# Random numbers ------------------------------------------------------------------------------------------------------


#: Constants of SplitMix64.
_STEP: Final = 0x9E3779B97F4A7C15
_MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


class Draws:
    """A stream of random numbers.

    Args:
        seed: any whole number; different seeds give independent streams.

    >>> Draws(0).below(10, 5).tolist()
    [7, 2, 3, 8, 9]
    """

    def __init__(self, seed: int) -> None:
        digest = hashlib.blake2b(str(whole_number("seed", seed, minimum=None)).encode(), digest_size=8).digest()
        self._at = int.from_bytes(digest, "little")

    def bits(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words of 64 random bits."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP) + np.uint64(self._at)
        self._at = (self._at + count * _STEP) % (1 << 64)
        for shift, factor in _MIX:
            steps = (steps ^ (steps >> np.uint64(shift))) * np.uint64(factor)
        return steps

    def below(self, bounds: int | Integers, count: int | None = None) -> Integers:
        """Return integers from 0 to bound − 1: `count` of them for one bound, one for each bound of an array.

        The relative difference between the probabilities of two numbers is at most bound · 2⁻⁶⁴.
        """
        many = len(bounds) if isinstance(bounds, np.ndarray) else count or 0
        result: Integers = (self.bits(many) % np.asarray(bounds, np.uint64)).astype(np.int64)
        return result

    def chances(self, probability: float, count: int) -> NDArray[np.bool_]:
        """Return `count` random truth values, each True with the given probability."""
        return (self.bits(count) >> np.uint64(11)) < np.uint64(round(probability * (1 << 53)))

    def permutation(self, count: int) -> Integers:
        """Return the numbers 0 … count − 1 in random order."""
        return np.argsort(self.bits(count), kind="stable")

    def distinct(self, bound: int, count: int, rows: int) -> Integers:
        """Return `rows` rows of `count` distinct numbers below `bound` (Floyd's algorithm; Bentley 1987)."""
        one_of = np.empty((rows, count), np.int64)
        for k, last in enumerate(range(bound - count, bound)):
            drawn = self.below(last + 1, rows)
            taken = (one_of[:, :k] == drawn[:, None]).any(axis=1)
            one_of[:, k] = np.where(taken, last, drawn)
        return one_of


def whole_number(name: str, value: Any, minimum: int | None = 1, most: int | None = None) -> int:
    """Return the value as an int, or raise `ArgumentError` if it is not a whole number within the bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"{name} is {value!r}; expected a whole number")
    if (minimum is not None and value < minimum) or (most is not None and value > most):
        bounds = f"of at least {minimum}" if most is None else f"from {minimum} to {most}"
        raise ArgumentError(f"{name} is {value}; expected a whole number {bounds}")
    return int(value)


def fraction(name: str, value: Any) -> float:
    """Return the value as a float, or raise `ArgumentError` if it is not a probability."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ArgumentError(f"{name} is {value!r}; expected a number from 0 to 1")
    return float(value)


# The table -----------------------------------------------------------------------------------------------------------


P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Generator:
    """A registered generator, called with its function's keyword arguments."""

    name: str
    description: str
    function: Callable[..., DifferentiationGraph]

    @property
    def parameters(self) -> dict[str, Any]:
        """Names of the arguments with their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(self.function).parameters.items()}

    def __call__(self, **arguments: Any) -> DifferentiationGraph:
        """Return the graph for these arguments, or raise `ArgumentError` for an unknown argument."""
        unknown = sorted(arguments.keys() - self.parameters)
        if unknown:
            raise ArgumentError(f"{self.name} takes no argument {unknown[0]!r}; expected {', '.join(self.parameters)}")
        return self.function(**arguments)


_GENERATORS: Final[dict[str, Generator]] = {}


def generator(function: Callable[P, DifferentiationGraph]) -> Callable[P, DifferentiationGraph]:
    """Register a function under its name; the first line of its docstring becomes the description."""
    signature = inspect.signature(function)
    name = function.__name__

    @functools.wraps(function)
    def made(*arguments: P.args, **options: P.kwargs) -> DifferentiationGraph:
        graph = function(*arguments, **options)
        bound = signature.bind(*arguments, **options).arguments
        graph.name = f"{name}({', '.join(f'{key}={value}' for key, value in bound.items())})"
        return graph

    summary = (inspect.getdoc(function) or name).splitlines()[0].removeprefix("Return ")
    _GENERATORS[name] = Generator(name, summary[0].upper() + summary[1:], made)
    return made


def generator_named(name: str) -> Generator:
    """Return the generator of that name.

    Raises:
        UnknownNameError: if there is none.
    """
    if not isinstance(name, str) or name not in _GENERATORS:
        raise unknown_name("generator", name, _GENERATORS)
    return _GENERATORS[name]


def generate(name: str, **arguments: Any) -> DifferentiationGraph:
    """Return a graph by the name of its generator.

    Raises:
        UnknownNameError: for an unknown name; the message lists the registered names.
        ArgumentError: for an unknown argument, or a value that the generator refuses.

    >>> generate("star", inputs=3, outputs=2)
    DifferentiationGraph('star(inputs=3, outputs=2)', 2 roots, 1 intermediates, 3 terminals, 5 edges)
    """
    return generator_named(name)(**arguments)


def generators() -> dict[str, str]:
    """Return the descriptions of the registered generators by name."""
    return {made.name: made.description for made in _GENERATORS.values()}


def assembled(
    sources: NDArray[np.int64] | Sequence[int],
    targets: NDArray[np.int64] | Sequence[int],
    count: int,
    sizes: Sequence[int] | NDArray[np.int64] | None = None,
) -> DifferentiationGraph:
    """Return a graph of `count` numbered vertices, all of them with edges.

    Vertices without incoming edges are its roots, vertices without outgoing edges its terminals.
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


# Gadgets -------------------------------------------------------------------------------------------------------------


SHAPES: Final = ("apart", "chain", "tree")


@dataclass(frozen=True, slots=True)
class _Gadget:
    """Edges from dependent to dependency, and number of entries of each vertex, inputs first."""

    edges: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    def split(self) -> _Gadget:
        """Return the gadget with one scalar vertex for each entry."""
        first = np.cumsum([0, *self.sizes]).tolist()
        entries = [range(first[v], first[v + 1]) for v in range(len(self.sizes))]
        edges = tuple((j, i) for source, target in self.edges for j in entries[source] for i in entries[target])
        return _Gadget(edges, (1,) * first[-1])


_LION: Final = _Gadget(((1, 0), (2, 1), (5, 1), (3, 2), (4, 2), (5, 2)), (2, 1, 1, 2, 1, 1))
_BAT: Final = _Gadget(
    ((2, 0), (3, 1), (4, 2), (4, 3), (5, 2), (7, 3), (5, 4), (6, 4), (7, 4)), (2, 2, 1, 1, 1, 1, 2, 1)
)
_GADGETS: Final = {"lion": _LION, "bat": _BAT}


@generator
def lion(vectors: bool = False) -> DifferentiationGraph:
    """Return a small graph on which eliminating edges is better than any order of vertices: 11 products, not 12."""
    return gadgets("lion", 1, "apart", vectors)


@generator
def bat(vectors: bool = False) -> DifferentiationGraph:
    """Return a small graph on which edges are better than vertices, and faces better than edges: 24, 23, at most 22."""
    return gadgets("bat", 1, "apart", vectors)


@generator
def gadgets(kind: str = "lion", count: int = 4, shape: str = "chain", vectors: bool = False) -> DifferentiationGraph:
    """Return many lions or bats: apart, in a chain, or in a binary tree.

    The optimum of separate gadgets is `count` times the optimum of one.

    Args:
        kind: "lion" or "bat".
        count: number of gadgets.
        shape: "apart"; "chain", in which the first input of each gadget is the last output of the previous one; or
            "tree", in which the first input of each gadget is an output of its parent, the last output for one child
            and the first for the other.
        vectors: if True, use vector-valued vertices (see the module), else one vertex for each entry.

    Raises:
        UnknownNameError: for an unknown kind.
        ArgumentError: for an unknown shape, or a `count` below 1.
    """
    if kind not in _GADGETS:
        raise unknown_name("kind of gadget", kind, _GADGETS)
    count = whole_number("count", count)
    if shape not in SHAPES:
        raise ArgumentError(f"shape is {shape!r}; expected {' or '.join(map(repr, SHAPES))}")
    gadget = _GADGETS[kind] if vectors else _GADGETS[kind].split()
    width = len(gadget.sizes)
    vertices = np.arange(count * width).reshape(count, width)
    if shape != "apart" and count > 1:
        left = {source for source, _ in gadget.edges}
        entered = {target for _, target in gadget.edges}
        # an input may only be joined to an output of the same size
        first = next(v for v in range(width) if v not in left)
        outputs = [v for v in range(width) if v not in entered and gadget.sizes[v] == gadget.sizes[first]]
        child = np.arange(1, count)
        parent, output = (child - 1, -1) if shape == "chain" else ((child - 1) // 2, -(child % 2))
        vertices[1:, first] = vertices[parent, np.array(outputs)[output]]
    ends = np.array(gadget.edges)
    # joined vertices have left gaps in the numbering
    _, (sources, targets) = np.unique(vertices[:, ends.T].transpose(1, 0, 2).reshape(2, -1), return_inverse=True)
    sizes = np.tile(gadget.sizes, count)[np.unique(vertices)]
    return assembled(sources, targets, len(sizes), sizes)


# Random graphs -------------------------------------------------------------------------------------------------------


@generator
def random_dag(
    intermediates: int = 24, edges: int = 60, inputs: int = 4, outputs: int = 4, seed: int = 0
) -> DifferentiationGraph:
    """Return random edges between any two vertices, each as likely as the others, all on paths from outputs to inputs.

    Every vertex first gets the outgoing or incoming edges that put it on a path; then edges are added up to `edges`.

    Args:
        intermediates: number of intermediates.
        edges: number of edges; more than `intermediates`, and at most the number of pairs of vertices. The graph has
            more edges if the initial edges are more.
        inputs: number of inputs.
        outputs: number of outputs.
        seed: seed of the random numbers.
    """
    inner = whole_number("intermediates", intermediates, minimum=0)
    below = whole_number("inputs", inputs) + inner
    count = below + whole_number("outputs", outputs)
    # vertex v may depend on the first reach[v] vertices; all pairs are numbered consecutively
    reach = np.minimum(np.arange(count), below)
    reach[:inputs] = 0
    before = np.concatenate([[0], np.cumsum(reach)])
    pairs = int(before[-1])
    total = whole_number("edges", edges, minimum=inner + 1, most=pairs)
    draws = Draws(seed)

    dependents = np.arange(inputs, count)
    chosen = before[dependents] + draws.below(reach[dependents])
    entered = np.zeros(below, bool)
    entered[chosen - before[dependents]] = True
    lonely = np.flatnonzero(~entered)
    lowest = np.maximum(lonely + 1, inputs)
    chosen = np.concatenate([chosen, before[lowest + draws.below(count - lowest)] + lonely])
    if 2 * total > pairs:
        chosen = _first(np.concatenate([chosen, draws.permutation(pairs)]), max(total, len(chosen)))
    while len(chosen) < total:
        more = draws.below(pairs, total - len(chosen) + 64)
        chosen = _first(np.concatenate([chosen, more]), total)
    chosen.sort()
    sources = np.searchsorted(before, chosen, "right") - 1
    return assembled(sources, chosen - before[sources], count)


@generator
def layered(layers: int = 8, width: int = 8, degree: int = 2, seed: int = 0) -> DifferentiationGraph:
    """Return layers of equal width, each vertex depending on random ones of the layer below, all of which are used.

    Args:
        layers: number of layers of intermediates, between a layer of inputs and a layer of outputs.
        width: number of vertices of each layer.
        degree: number of vertices that each vertex depends on.
        seed: seed of the random numbers.
    """
    layers, width = whole_number("layers", layers, minimum=0), whole_number("width", width)
    degree = whole_number("degree", degree, most=width)
    draws = Draws(seed)
    times = layers + 1
    first = np.concatenate([draws.permutation(width) for _ in range(times)])
    rest = draws.distinct(width - 1, degree - 1, times * width)
    rest += rest >= first[:, None]
    columns = np.sort(np.concatenate([first[:, None], rest], axis=1), axis=1)
    vertices = width + np.arange(times * width)
    layer_below = width * (vertices // width - 1)
    return assembled(np.repeat(vertices, degree), (columns + layer_below[:, None]).ravel(), (times + 1) * width)


@generator
def banded(intermediates: int = 50, bandwidth: int = 4, density: float = 1.0, seed: int = 0) -> DifferentiationGraph:
    """Return a graph in which each vertex depends on the one before it, and by chance on others in the bandwidth.

    Args:
        intermediates: number of intermediates.
        bandwidth: largest distance, in vertex numbers, of a dependency.
        density: probability of each edge other than the edges between consecutive vertices.
        seed: seed of the random numbers.
    """
    last = whole_number("intermediates", intermediates, minimum=0) + 1
    bandwidth, density = whole_number("bandwidth", bandwidth), fraction("density", density)
    draws = Draws(seed)
    vertices = np.arange(last + 1)
    sources, targets = [vertices[1:]], [vertices[:-1]]
    for distance in range(2, min(bandwidth, last) + 1):
        drawn = vertices[distance:][draws.chances(density, last + 1 - distance)]
        sources.append(drawn)
        targets.append(drawn - distance)
    return assembled(np.concatenate(sources), np.concatenate(targets), last + 1)


@generator
def series_parallel(edges: int = 100, noise: int = 0, seed: int = 0) -> DifferentiationGraph:
    """Return a random series-parallel graph of one output and one input, with edges of noise that spoil it.

    The optimum without noise is one product for each intermediate. The graph grows from one edge: each step puts a
    vertex on an edge or beside it, with probability 1/2 each.

    Args:
        edges: number of edges without the noise.
        noise: number of additional edges between vertices that are not joined.
        seed: seed of the random numbers.
    """
    edges = whole_number("edges", edges)
    draws = Draws(seed)
    places: list[int] = draws.bits(edges).tolist()
    beside: list[bool] = draws.chances(0.5, edges).tolist()
    sources, targets, count = [0], [1], 2
    following = [1, 0]  # linked list of all vertices in topological order, from the output to the input
    for position, strand in zip(places, beside, strict=True):
        if len(sources) == edges:
            break
        k = position % len(sources)
        j, i = sources[k], targets[k]
        if strand and len(sources) + 2 <= edges:
            sources.append(j)
            targets.append(count)
        else:
            targets[k] = count
        sources.append(count)
        targets.append(i)
        following.append(following[j])
        following[j] = count
        count += 1
    total = edges + whole_number("noise", noise, minimum=0, most=count * (count - 1) // 2 - edges)
    number = [0] * count
    v = 0
    for k in range(count - 1, -1, -1):
        number[v] = k
        v = following[v]
    renumbered = np.array(number)
    return _with_more(renumbered[sources] * count + renumbered[targets], count, total, draws)


def _with_more(codes: Integers, count: int, total: int, draws: Draws) -> DifferentiationGraph:
    """Return the graph of these edges and random ones, each to a vertex of a smaller number, `total` edges in all."""
    if 4 * total > count * (count - 1) // 2:
        above, below = np.tril_indices(count, -1)
        every = above * count + below
        codes = _first(np.concatenate([codes, every[draws.permutation(len(every))]]), total)
    while len(codes) < total:
        ends = draws.below(count, 2 * (total - len(codes) + 64)).reshape(2, -1)
        ends = ends[:, ends[0] != ends[1]]
        codes = _first(np.concatenate([codes, ends.max(axis=0) * count + ends.min(axis=0)]), total)
    return assembled(codes // count, codes % count, count)


def _first(codes: Integers, count: int) -> Integers:
    """Return the first distinct numbers, up to `count`, in their order."""
    _, places = np.unique(codes, return_index=True)
    return codes[np.sort(places)[:count]]


# Regular graphs ------------------------------------------------------------------------------------------------------


@generator
def chain(intermediates: int = 100) -> DifferentiationGraph:
    """Return one path from the output to the input: deep, and every order costs the same.

    Optimum: one product for each intermediate.
    """
    last = whole_number("intermediates", intermediates, minimum=0) + 1
    vertices = np.arange(last + 1)
    return assembled(vertices[1:], vertices[:-1], last + 1)


@generator
def star(inputs: int = 10, outputs: int = 10) -> DifferentiationGraph:
    """Return one intermediate between all inputs and all outputs: few edges, a full Jacobian.

    Optimum: inputs · outputs.
    """
    hub = whole_number("inputs", inputs)
    leaves = hub + 1 + np.arange(whole_number("outputs", outputs))
    sources = np.concatenate([np.full(hub, hub), leaves])
    targets = np.concatenate([np.arange(hub), np.full(outputs, hub)])
    return assembled(sources, targets, hub + 1 + outputs)


@generator
def stencil(points: int | Sequence[int] = 20, steps: int = 5, periodic: bool = False) -> DifferentiationGraph:
    """Return explicit time steps on a grid: each point depends on itself and its neighbours one step before.

    Args:
        points: number of points of a one-dimensional grid, or the number along each axis.
        steps: number of time steps; the values before the first step are the inputs, the values after the last step
            the outputs.
        periodic: if True, the first and the last point of each axis are neighbours.

    Raises:
        ArgumentError: for a number of points or steps below 1, or too many.
    """
    shape = tuple(whole_number("points", n) for n in ([points] if isinstance(points, (int, np.integer)) else points))
    if not shape:
        raise ArgumentError(f"points is {points!r}; expected a number for each axis of the grid, of at least one")
    steps = whole_number("steps", steps)
    grid = np.arange(np.prod(shape)).reshape(shape)
    columns = [np.stack([grid.ravel(), grid.ravel()])]
    for axis, length in enumerate(shape):
        here = np.moveaxis(grid, axis, 0)
        near = np.roll(here, -1, axis=0) if periodic else here[1:]
        here = here[: len(near)]
        if length > 1:
            columns.append(np.stack([here.ravel(), near.ravel()]))
            columns.append(np.stack([near.ravel(), here.ravel()]))
    # on a periodic axis of two points both neighbours are the same point
    ends = np.unique(np.concatenate(columns, axis=1), axis=1)
    # the same edges from each layer to the one below it
    offsets = grid.size * np.repeat(np.arange(steps), ends.shape[1])
    sources, targets = (np.tile(side, steps) + offsets for side in ends)
    return assembled(sources + grid.size, targets, (steps + 1) * grid.size)


@generator
def butterfly(stages: int = 4) -> DifferentiationGraph:
    """Return the fast Fourier transform's graph: 2ᵏ points; each stage joins pairs twice as far apart as the last."""
    stages = whole_number("stages", stages, most=24)
    points = np.arange(1 << stages)
    sources, targets = [], []
    for stage in range(stages):
        for partner in (points, points ^ (1 << stage)):
            sources.append(points + (stage + 1) * len(points))
            targets.append(partner + stage * len(points))
    return assembled(np.concatenate(sources), np.concatenate(targets), (stages + 1) * len(points))


@generator
def matrix_chain(sizes: int | Sequence[int] = 9, largest: int = 50, seed: int = 0) -> DifferentiationGraph:
    """Return a product of dense matrices: a path of vector-valued vertices.

    The optimum of vertex, edge and face elimination is the optimum of the matrix chain product, by dynamic programming
    (Godbole 1973).

    Args:
        sizes: sizes of the vectors, from the output to the input; or their number, with random sizes from 1 to
            `largest`.
        largest: largest random size.
        seed: seed of the random sizes.
    """
    lengths = _lengths("sizes", sizes, largest, seed)
    vertices = np.arange(len(lengths))
    return assembled(vertices[1:], vertices[:-1], len(lengths), sizes=lengths[::-1])


@generator
def dense_layers(widths: int | Sequence[int] = 6, largest: int = 8, seed: int = 0) -> DifferentiationGraph:
    """Return layers of scalars, each vertex depending on all of the layer below: a chain of dense local Jacobians.

    Args:
        widths: widths of the layers, from the output to the input; or their number, with random widths from 1 to
            `largest`.
        largest: largest random width.
        seed: seed of the random widths.
    """
    lengths = _lengths("widths", widths, largest, seed)[::-1]
    first = list(accumulate(lengths, initial=0))
    sources, targets = [], []
    for k in range(1, len(lengths)):
        above = first[k] + np.arange(lengths[k])
        below = first[k - 1] + np.arange(lengths[k - 1])
        sources.append(np.repeat(above, len(below)))
        targets.append(np.tile(below, len(above)))
    return assembled(np.concatenate(sources), np.concatenate(targets), first[-1])


def _lengths(name: str, requested: int | Sequence[int], largest: int, seed: int) -> list[int]:
    if isinstance(requested, (int, np.integer)):
        count = whole_number(name, requested, minimum=2)
        drawn: list[int] = (1 + Draws(seed).below(whole_number("largest", largest), count)).tolist()
        return drawn
    lengths = [whole_number(f"{name}[{k}]", length) for k, length in enumerate(requested)]
    if len(lengths) < 2:
        raise ArgumentError(f"{name} is {requested!r}; expected at least two, of the output and of the input")
    return lengths


# Labels and sizes ----------------------------------------------------------------------------------------------------


_VALUES: Final = {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}


def with_labels(
    graph: DifferentiationGraph, one: float = 0.2, minus_one: float = 0.1, constant: float = 0.1, seed: int = 0
) -> DifferentiationGraph:
    """Return the graph with random labels: 1, −1, constants of unknown value, and variables otherwise.

    1 and −1 are drawn only between vertices of one size.

    Args:
        graph: graph to label.
        one: probability of the label 1.
        minus_one: probability of the label −1.
        constant: probability of a constant; the three probabilities add up to at most 1.
        seed: seed of the random labels.

    Raises:
        ArgumentError: if a probability is not from 0 to 1, or the three add up to more than 1.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    >>> [Kind(kind).name for kind in with_labels(graph, one=1.0, minus_one=0.0, constant=0.0).kinds]
    ['ONE', 'ONE']
    """
    shares = [fraction("one", one), fraction("minus_one", minus_one), fraction("constant", constant)]
    if sum(shares) > 1 + 1e-12:
        raise ArgumentError(f"the shares of labels are {', '.join(map(str, shares))}; expected a sum of at most 1")
    draws = Draws(seed)
    count = len(graph.sources)
    kinds = np.full(count, Kind.VARIABLE, np.uint8)
    same_size = graph.sizes[graph.sources] == graph.sizes[graph.targets]
    left = 1.0
    for kind, share in zip((Kind.ONE, Kind.MINUS_ONE, Kind.CONSTANT), shares, strict=True):
        # probability among the labels that are still free, for a probability of `share` among all labels
        free = draws.chances(min(1.0, share / left) if left > 0 else 0.0, count) & (kinds == Kind.VARIABLE)
        # 1 and −1 are multiples of the identity, which join only vertices of the same size
        kinds[free & (same_size if kind < Kind.CONSTANT else True)] = kind
        left -= share
    constants = {e: _VALUES[Kind(int(kinds[e]))] for e in np.flatnonzero(kinds < Kind.CONSTANT).tolist()}
    return _changed(graph, kinds, constants, graph.sizes)


def with_sizes(graph: DifferentiationGraph, largest: int = 10, seed: int = 0) -> DifferentiationGraph:
    """Return the graph with vertices of 1 to `largest` entries, drawn by `seed`; all labels are variable."""
    sizes = 1 + Draws(seed).below(whole_number("largest", largest), len(graph.vertices))
    return _changed(graph, np.full(len(graph.sources), Kind.VARIABLE, np.uint8), {}, sizes)


def _changed(
    graph: DifferentiationGraph, kinds: NDArray[np.uint8], constants: dict[int, float], sizes: NDArray[np.int64]
) -> DifferentiationGraph:
    return DifferentiationGraph.from_arrays(
        graph.sources,
        graph.targets,
        kinds,
        vertices=graph.vertices,
        roots=graph.roots,
        terminals=graph.terminals,
        constants=constants,
        sizes=sizes,
        name=graph.name,
    )
