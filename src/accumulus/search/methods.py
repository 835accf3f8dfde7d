"""All methods, registered; import from here.

>>> print(*methods())
forward reverse markowitz vertex edge face relative-markowitz lowest-fill-in lmmd momr markowitz-edge
relative-markowitz-edge lowest-fill-in-edge lmmd-edge momr-edge markowitz-face momr-face forward-factorization
backward-factorization both-sides-factorization
middle-factorization dstar local-jacobians pages exact-vertex exact-edge exact-face auto
"""

from __future__ import annotations

from typing import Any

# They register themselves, in this order.
# isort: off
from accumulus.search import greedy, vertex, sequences, heuristics, procedures  # noqa: F401
from accumulus.search.exact import eliminations  # noqa: F401
from accumulus.search import auto  # noqa: F401

# isort: on
from accumulus.search.options import Effort, Options
from accumulus.search.registry import Found, Method, get, methods, register

__all__ = ["Effort", "Found", "Method", "Options", "check_options", "get", "methods", "register"]


def check_options(method: str, time_limit: float, effort: str, seed: int) -> None:
    """Check the options of a search before there is a graph.

    Raises:
        UnknownNameError: for an unknown method or effort.
        ArgumentError: for a value of a wrong type or out of range.
    """
    get(method)
    options: Any = {"time_limit": time_limit, "effort": effort, "seed": seed}
    Options(**options)
