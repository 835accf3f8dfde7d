"""Random graphs: any, in layers, in bands, and series-parallel ones with edges that spoil them."""

from __future__ import annotations

import numpy as np

from accumulus.graph.generators.draws import Draws, Integers, fraction, whole
from accumulus.graph.generators.generator import assembled, generator
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["banded", "layered", "random_dag", "series_parallel"]


@generator
def random_dag(
    intermediates: int = 24, edges: int = 60, inputs: int = 4, outputs: int = 4, seed: int = 0
) -> DifferentiationGraph:
    """Random edges between any two vertices, each as likely as the others, all on paths from outputs to inputs.

    First every vertex gets one edge that leaves it and one that enters it, as far as it needs them; then edges are
    added until there are as many as wanted.

    Args:
        edges: more than intermediates, and no more than there are pairs; where the first edges are more than that,
            these are all.
    """
    inner = whole("intermediates", intermediates, least=0)
    below = whole("inputs", inputs) + inner
    count = below + whole("outputs", outputs)
    # vertex v may depend on the first reach[v]; all pairs are numbered one after the other
    reach = np.minimum(np.arange(count), below)
    reach[:inputs] = 0
    before = np.concatenate([[0], np.cumsum(reach)])
    pairs = int(before[-1])
    wanted = whole("edges", edges, least=inner + 1, most=pairs)
    draws = Draws(seed)

    dependents = np.arange(inputs, count)
    chosen = before[dependents] + draws.below(reach[dependents])
    entered = np.zeros(below, bool)
    entered[chosen - before[dependents]] = True
    lonely = np.flatnonzero(~entered)
    lowest = np.maximum(lonely + 1, inputs)
    chosen = np.concatenate([chosen, before[lowest + draws.below(count - lowest)] + lonely])
    if 2 * wanted > pairs:
        chosen = _first(np.concatenate([chosen, draws.permutation(pairs)]), max(wanted, len(chosen)))
    while len(chosen) < wanted:
        more = draws.below(pairs, wanted - len(chosen) + 64)
        chosen = _first(np.concatenate([chosen, more]), wanted)
    chosen.sort()
    sources = np.searchsorted(before, chosen, "right") - 1
    return assembled(sources, chosen - before[sources], count)


@generator
def layered(layers: int = 8, width: int = 8, degree: int = 2, seed: int = 0) -> DifferentiationGraph:
    """Layers of equal width, each vertex depending on random ones of the layer below, all of which are used.

    Args:
        layers: of intermediates, between one of inputs and one of outputs.
        degree: how many vertices each depends on.
    """
    layers, width = whole("layers", layers, least=0), whole("width", width)
    degree = whole("degree", degree, most=width)
    draws = Draws(seed)
    times = layers + 1
    own = np.concatenate([draws.permutation(width) for _ in range(times)])
    others = draws.distinct(width - 1, degree - 1, times * width)
    others += others >= own[:, None]
    columns = np.sort(np.concatenate([own[:, None], others], axis=1), axis=1)
    vertices = width + np.arange(times * width)
    layer_below = width * (vertices // width - 1)
    return assembled(np.repeat(vertices, degree), (columns + layer_below[:, None]).ravel(), (times + 1) * width)


@generator
def banded(intermediates: int = 50, bandwidth: int = 4, density: float = 1.0, seed: int = 0) -> DifferentiationGraph:
    """Each vertex depends on the one before it, and on others before that within the bandwidth, by chance.

    Args:
        bandwidth: each vertex depends on the one before it, and by chance on those up to so many places before.
        density: probability of each of these further edges.
    """
    last = whole("intermediates", intermediates, least=0) + 1
    bandwidth, density = whole("bandwidth", bandwidth), fraction("density", density)
    draws = Draws(seed)
    vertices = np.arange(last + 1)
    sources, targets = [vertices[1:]], [vertices[:-1]]
    for distance in range(2, min(bandwidth, last) + 1):
        kept = vertices[distance:][draws.chances(density, last + 1 - distance)]
        sources.append(kept)
        targets.append(kept - distance)
    return assembled(np.concatenate(sources), np.concatenate(targets), last + 1)


@generator
def series_parallel(edges: int = 100, noise: int = 0, seed: int = 0) -> DifferentiationGraph:
    """A series-parallel graph of one output and one input, grown at random, and edges that spoil it, if wanted.

    Optimum without noise: one product for each intermediate. Grown from one edge by putting a vertex on an edge, or
    beside it, half of the times each.

    Args:
        edges: without the noise.
        noise: further edges between any two vertices that are not joined yet.
    """
    edges = whole("edges", edges)
    draws = Draws(seed)
    places: list[int] = draws.bits(edges).tolist()
    beside: list[bool] = draws.chances(0.5, edges).tolist()
    sources, targets, count = [0], [1], 2
    following = [1, 0]  # all vertices from the output to the input, each before those that it depends on
    for place, strand in zip(places, beside, strict=True):
        if len(sources) == edges:
            break
        k = place % len(sources)
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
    wanted = edges + whole("noise", noise, least=0, most=count * (count - 1) // 2 - edges)
    number = [0] * count
    v = 0
    for k in range(count - 1, -1, -1):
        number[v] = k
        v = following[v]
    renumbered = np.array(number)
    return _with_more(renumbered[sources] * count + renumbered[targets], count, wanted, draws)


def _with_more(codes: Integers, count: int, wanted: int, draws: Draws) -> DifferentiationGraph:
    """More edges, each from a vertex to one of a smaller number, until there are as many as wanted."""
    if 4 * wanted > count * (count - 1) // 2:
        above, below = np.tril_indices(count, -1)
        every = above * count + below
        codes = _first(np.concatenate([codes, every[draws.permutation(len(every))]]), wanted)
    while len(codes) < wanted:
        ends = draws.below(count, 2 * (wanted - len(codes) + 64)).reshape(2, -1)
        ends = ends[:, ends[0] != ends[1]]
        codes = _first(np.concatenate([codes, ends.max(axis=0) * count + ends.min(axis=0)]), wanted)
    return assembled(codes // count, codes % count, count)


def _first(codes: Integers, count: int) -> Integers:
    """The first so many different ones, in their order."""
    _, places = np.unique(codes, return_index=True)
    return codes[np.sort(places)[:count]]
