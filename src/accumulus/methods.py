"""The table of all methods: name, description and module of each.

A method's module is imported at the first request for the method (`accumulus.search.registry.get`), so that planning
with other methods does not wait for it. The module registers the method under its name in this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accumulus.errors import unknown_name


@dataclass(frozen=True, slots=True)
class MethodEntry:
    """A row of the table.

    Attributes:
        description: description of the method, one line.
        module: module that registers the method.
        starts_from: methods whose plans it starts from; its own plans are never worse.
    """

    description: str
    module: str
    starts_from: tuple[str, ...] = ()


#: Module that proves that no plan is cheaper than a given one.
PROOFS: Final = "accumulus.theory.exact.eliminations"

# modules of the families of methods
_ORDERS, _PAIRS = "accumulus.search.vertex_orders", "accumulus.search.symmetric"
_SEQUENCES: Final = "accumulus.theory.methods.edges_and_faces"
_GREEDY, _FACTORS = "accumulus.theory.methods.heuristics", "accumulus.theory.methods.factorize"

#: Simplest first; each method follows the methods that it starts from.
METHODS: Final[dict[str, MethodEntry]] = {
    "forward": MethodEntry("eliminates from the inputs to the outputs, as forward mode does", _ORDERS),
    "reverse": MethodEntry("eliminates from the outputs to the inputs, as reverse mode does", _ORDERS),
    "markowitz": MethodEntry("always eliminates what is cheapest at the moment", _ORDERS),
    "vertex": MethodEntry(
        "anneals the order in which vertices are eliminated", _ORDERS, ("forward", "reverse", "markowitz")
    ),
    "edge-pushing": MethodEntry("eliminates values from the last to the first, each with its adjoint", _PAIRS),
    "symmetric": MethodEntry(
        "anneals the order of values, each eliminated with its adjoint", _PAIRS, ("vertex", "edge-pushing")
    ),
    "edge": MethodEntry("eliminates edges, beginning with the best vertex order", _SEQUENCES, ("vertex",)),
    "face": MethodEntry("eliminates faces, beginning with the best vertex order", _SEQUENCES, ("edge",)),
    "relative-markowitz": MethodEntry("greedy vertices: fewest products beyond those of any order", _GREEDY),
    "lowest-fill-in": MethodEntry("greedy vertices: fewest new edges", _GREEDY),
    "lmmd": MethodEntry("greedy vertices: fewest products and growth of other degrees", _GREEDY),
    "momr": MethodEntry("greedy vertices: largest reduction of all degrees", _GREEDY),
    "markowitz-edge": MethodEntry("greedy edges: fewest products", _GREEDY),
    "relative-markowitz-edge": MethodEntry("greedy edges: fewest products beyond those of any order", _GREEDY),
    "lowest-fill-in-edge": MethodEntry("greedy edges: fewest new edges", _GREEDY),
    "lmmd-edge": MethodEntry("greedy edges: fewest products and growth of other degrees", _GREEDY),
    "momr-edge": MethodEntry("greedy edges: largest reduction of all degrees", _GREEDY),
    "markowitz-face": MethodEntry("greedy faces: a face where there are fewest", _GREEDY),
    "momr-face": MethodEntry("greedy faces: largest reduction of the number of faces", _GREEDY),
    "forward-factorization": MethodEntry("splits vertices from the outputs on, to chains and blocks", _FACTORS),
    "backward-factorization": MethodEntry("splits vertices from the inputs on, to chains and blocks", _FACTORS),
    "both-sides-factorization": MethodEntry("splits vertices from both ends, a level at a time", _FACTORS),
    "middle-factorization": MethodEntry("splits vertices from the middle of the graph on", _FACTORS),
    "dstar": MethodEntry("D*: factors the graphs of all entries at their dominators", "accumulus.theory.methods.dstar"),
    "local-jacobians": MethodEntry(
        "multiplies Jacobians between levels, best bracketed", "accumulus.theory.methods.local_jacobians"
    ),
    "pages": MethodEntry("parts the paths into pages that are accumulated locally", "accumulus.theory.methods.pages"),
    "exact-vertex": MethodEntry("the best vertex elimination, proven if there is time", PROOFS, ("vertex",)),
    "exact-edge": MethodEntry("the best edge elimination, proven if there is time", PROOFS, ("edge", "exact-vertex")),
    "exact-face": MethodEntry("the best face elimination, proven if there is time", PROOFS, ("face", "exact-edge")),
    "auto": MethodEntry("the best of all methods", "accumulus.search.registry"),
}


def methods() -> dict[str, str]:
    """Return a dict from method names to descriptions, simplest method first.

    >>> print(*methods())
    forward reverse markowitz vertex edge-pushing symmetric edge face relative-markowitz lowest-fill-in lmmd momr
    markowitz-edge
    relative-markowitz-edge lowest-fill-in-edge lmmd-edge momr-edge markowitz-face momr-face forward-factorization
    backward-factorization both-sides-factorization
    middle-factorization dstar local-jacobians pages exact-vertex exact-edge exact-face auto
    """
    return {name: entry.description for name, entry in METHODS.items()}


def check_method(name: object) -> None:
    """Raise an error for an unknown method.

    Raises:
        UnknownNameError: for an unknown name; the message lists the known ones.
    """
    if not isinstance(name, str) or name not in METHODS:
        raise unknown_name("method", name, METHODS)
