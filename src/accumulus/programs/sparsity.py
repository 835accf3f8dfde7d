"""Where derivatives can be other than zero, found from a recording: nothing is compiled, no derivative is computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from accumulus.errors import ArgumentError, SizeError
from accumulus.frontends.recorder import Recording
from accumulus.graph.degrees import index_domains
from accumulus.graph.graph import are_wanted
from accumulus.graph.linearize import Linearization
from accumulus.programs.choice import Recorded, graph_of
from accumulus.programs.derived_blocks import LongResults, differentiated, recording_of_blocks
from accumulus.programs.nonzeros import Nonzeros
from accumulus.programs.seeds import inputs_of
from accumulus.tape.blocks import BlockTape

__all__ = ["sparsity_of"]


def sparsity_of(recorded: Recorded) -> Any:
    """A SciPy matrix of True at the structural nonzeros, or several in the structure of the derivatives.

    Raises:
        ArgumentError: for products with a Jacobian, which have no pattern of its own.
    """
    kind = recorded.kind
    if kind.has_seeds or not kind.derivatives:
        raise ArgumentError(f"{kind.name} returns arrays without a pattern; expected a Jacobian, gradient or Hessian")
    recorded = recorded._replace(selection=recorded.selection.whole)
    recording, nonzeros = _of_blocks(recorded) or _of_scalars(recorded)
    kind = replace(kind, values=False)
    results = LongResults(recording, nonzeros, recorded.selection, kind=kind, sparse="csr", dtype=np.dtype(bool))
    return results.rebuild([np.ones(segment.length, bool) for segment in results.segments], None)


def _of_blocks(recorded: Recorded) -> tuple[Recording, Nonzeros] | None:
    """What is differentiated, and the nonzeros of that, of long arrays; None where these are to be written out."""
    recording, kind, selection, preparation, *_ = recorded
    if not isinstance(recording.tape, BlockTape):
        return None
    try:
        own = recording if kind.first is None else recording_of_blocks(recording, kind.first, selection, preparation)
        if own is None:
            return None
        return own, differentiated(own, kind, selection, preparation.context).nonzeros
    except SizeError:
        return None


def _of_scalars(recorded: Recorded) -> tuple[Recording, Nonzeros]:
    """The same of what is written out entry by entry."""
    recording, found = graph_of(recorded)
    nonzeros = Nonzeros.of(found, _connected(found))
    if found.graph.mirror is None:
        return recording, nonzeros
    inputs = inputs_of(recording, recorded.selection.positions)
    return recording, nonzeros.mirrored(inputs, recording.results - len(inputs))


def _connected(linearization: Linearization) -> list[tuple[int, int]]:
    """Roots and terminals, by position, that a path joins: of a graph with a mirror those of one triangle."""
    graph = linearization.graph
    domains, size = index_domains(graph), len(graph.terminals) // 8 + 1
    pairs = []
    for row, root in enumerate(graph.roots):
        bits = np.frombuffer(domains[root].to_bytes(size, "little"), np.uint8)
        columns = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        pairs.append(np.stack([np.full(len(columns), row), columns], axis=1))
    places = np.concatenate([*pairs, np.zeros((0, 2), np.int64)]).astype(np.int64)
    return [(row, column) for row, column in places[are_wanted(graph, places)].tolist()]
