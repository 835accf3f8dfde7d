"""Regular graphs: chains, stars, bands, layers, time steps. What they cost at least is known of some of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.graph.generators.draws import Draws, Integers, whole
from accumulus.graph.generators.generator import assembled, generator
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["butterfly", "chain", "dense_layers", "matrix_chain", "star", "stencil"]


@generator
def chain(intermediates: int = 100) -> DifferentiationGraph:
    """One path from the output to the input: deep, and every order costs the same.

    Optimum: one product for each intermediate.
    """
    last = whole("intermediates", intermediates, least=0) + 1
    vertices = np.arange(last + 1)
    return assembled(vertices[1:], vertices[:-1], last + 1)


@generator
def star(inputs: int = 10, outputs: int = 10) -> DifferentiationGraph:
    """One intermediate between all inputs and all outputs: few edges, a full Jacobian.

    Optimum: inputs · outputs.
    """
    hub = whole("inputs", inputs)
    leaves = hub + 1 + np.arange(whole("outputs", outputs))
    sources = np.concatenate([np.full(hub, hub), leaves])
    targets = np.concatenate([np.arange(hub), np.full(outputs, hub)])
    return assembled(sources, targets, hub + 1 + outputs)


@generator
def stencil(points: int | Sequence[int] = 20, steps: int = 5, periodic: bool = False) -> DifferentiationGraph:
    """Explicit time steps on a grid: each point depends on itself and its neighbours one step before.

    Args:
        points: along each axis: a number, or several for a grid of several dimensions.
        steps: of time; the values before the first are the inputs, those after the last the outputs.
        periodic: whether the last point of an axis is a neighbour of its first; else it has one neighbour fewer.
    """
    shape = tuple(whole("points", n) for n in ([points] if isinstance(points, (int, np.integer)) else points))
    if not shape:
        raise ArgumentError(f"points is {points!r}; expected a number for each axis of the grid, of at least one")
    steps = whole("steps", steps)
    grid = np.arange(np.prod(shape)).reshape(shape)
    columns = [np.stack([grid.ravel(), grid.ravel()])]
    for axis, length in enumerate(shape):
        here = np.moveaxis(grid, axis, 0)
        near = np.roll(here, -1, axis=0) if periodic else here[1:]
        here = here[: len(near)]
        if length > 1:
            columns.append(np.stack([here.ravel(), near.ravel()]))
            columns.append(np.stack([near.ravel(), here.ravel()]))
    # on a periodic axis of two points both neighbours are one
    ends = np.unique(np.concatenate(columns, axis=1), axis=1)
    return _repeated(ends[0], ends[1], grid.size, steps)


@generator
def butterfly(stages: int = 4) -> DifferentiationGraph:
    """The fast Fourier transform's graph: 2ᵏ points, each stage joins pairs twice as far apart as the one before."""
    stages = whole("stages", stages, most=24)
    points = np.arange(1 << stages)
    sources, targets = [], []
    for stage in range(stages):
        for partner in (points, points ^ (1 << stage)):
            sources.append(points + (stage + 1) * len(points))
            targets.append(partner + stage * len(points))
    return assembled(np.concatenate(sources), np.concatenate(targets), (stages + 1) * len(points))


@generator
def matrix_chain(sizes: int | Sequence[int] = 9, largest: int = 50, seed: int = 0) -> DifferentiationGraph:
    """A product of dense matrices: a path of vector-valued vertices.

    Optimum, for vertices, edges and faces alike: that of the matrix chain product, by dynamic programming (Godbole
    1973).

    Args:
        sizes: of the vectors, from the output to the input; or how many, each then random from 1 to `largest`.
    """
    lengths = _lengths("sizes", sizes, largest, seed)
    vertices = np.arange(len(lengths))
    return assembled(vertices[1:], vertices[:-1], len(lengths), sizes=lengths[::-1])


@generator
def dense_layers(widths: int | Sequence[int] = 6, largest: int = 8, seed: int = 0) -> DifferentiationGraph:
    """Layers of scalars, each vertex depending on all of the layer below: a chain of dense local Jacobians.

    Args:
        widths: of the layers, from the output to the input; or how many, each then random from 1 to `largest`.
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


def _lengths(name: str, given: int | Sequence[int], largest: int, seed: int) -> list[int]:
    if isinstance(given, (int, np.integer)):
        count = whole(name, given, least=2)
        drawn: list[int] = (1 + Draws(seed).below(whole("largest", largest), count)).tolist()
        return drawn
    lengths = [whole(f"{name}[{k}]", length) for k, length in enumerate(given)]
    if len(lengths) < 2:
        raise ArgumentError(f"{name} is {given!r}; expected at least two, of the output and of the input")
    return lengths


def _repeated(sources: Integers, targets: Integers, width: int, times: int) -> DifferentiationGraph:
    """The same edges from each layer of so many vertices to the one below it."""
    offsets = width * np.repeat(np.arange(times), len(sources))
    return assembled(np.tile(sources, times) + offsets + width, np.tile(targets, times) + offsets, (times + 1) * width)
