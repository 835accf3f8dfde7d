"""All methods, registered; import from here.

>>> print(*methods())
forward reverse markowitz vertex edge face relative-markowitz lowest-fill-in lmmd momr markowitz-edge
relative-markowitz-edge lowest-fill-in-edge lmmd-edge momr-edge markowitz-face momr-face forward-factorization
backward-factorization both-sides-factorization
middle-factorization dstar local-jacobians pages exact-vertex exact-edge exact-face auto
"""

from __future__ import annotations

# They register themselves, in this order.
# isort: off
from accumulus.search import greedy, vertex, sequences, heuristics, procedures  # noqa: F401
from accumulus.search.exact import eliminations  # noqa: F401
from accumulus.search import auto  # noqa: F401

# isort: on
from accumulus.search.registry import Found, Method, get, methods, register

__all__ = ["Found", "Method", "get", "methods", "register"]
