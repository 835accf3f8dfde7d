"""Seeded generators of test graphs: public as ``accumulus.graphs``, and used alike by tests, documentation, benchmarks.

Same arguments, same graph, on every machine and in every version; a graph's name is the call that makes it. Vertices
are numbered, inputs first unless a generator says otherwise; an edge runs from the vertex that depends to the one it
depends on. Every vertex is on a path from an output to an input. A million edges take a few seconds.

`generators()` lists them, `generate(name, …)` calls one by its name; `with_labels` and `with_sizes` draw labels and
sizes for a graph.

>>> print(*generators())
lion bat gadgets random_dag layered banded series_parallel chain star stencil butterfly matrix_chain dense_layers
"""

from accumulus.graph.generators.gadgets import bat, gadgets, lion
from accumulus.graph.generators.generator import Generator, generate, generators, get
from accumulus.graph.generators.irregular import banded, layered, random_dag, series_parallel
from accumulus.graph.generators.regular import butterfly, chain, dense_layers, matrix_chain, star, stencil
from accumulus.graph.generators.relabelling import with_labels, with_sizes

__all__ = [
    "Generator",
    "banded",
    "bat",
    "butterfly",
    "chain",
    "dense_layers",
    "gadgets",
    "generate",
    "generators",
    "get",
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
