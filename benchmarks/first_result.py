"""Seconds from a function to its first Jacobian at one point, for one tool, in this process: run by the group `first`.

Usage: python first_result.py accumulus|jax|casadi example [example …]; prints JSON {example: seconds}.

Imports are done and caches warm: one small function of its own goes through the tool first.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from functions import Example
from peers import NotInstalled, casadi_functions, jax_batch, require

First = Callable[[Example], Any]


def main(tool: str, names: list[str]) -> int:
    """Print the seconds of each example."""
    try:
        first = TOOLS[tool]()
    except NotInstalled as missing:
        print(json.dumps({"missing": str(missing)}))
        return 0
    seconds = {}
    for name in names:
        example = Example(name)
        _ = example.function, example.point, example.outputs
        start = time.perf_counter()
        first(example)
        seconds[name] = time.perf_counter() - start
    print(json.dumps({"seconds": seconds}))
    return 0


def _accumulus() -> First:
    import library

    library.first_result(lambda x: np.sin(x) * x[0], np.ones(2))
    return lambda example: library.first_result(example.function, example.point)


def _jax() -> First:
    jax = jax_batch.load()

    def run(function: Callable[[Any], Any], x: Any) -> Any:
        return jax.jit(jax.jacfwd(function))(x).block_until_ready()

    run(lambda x: jax.numpy.sin(x) * x[0], np.ones(2))
    return lambda example: run(jax_batch.function(example), example.point)


def _casadi() -> First:
    ca = require("casadi")

    def run(example: Example) -> Any:
        symbolic = casadi_functions.Symbolic.of(example)
        return ca.Function("jacobian", [symbolic.x], [ca.cse(symbolic.J)])(example.point)

    run(Example("roe_flux"))
    return run


TOOLS: dict[str, Callable[[], First]] = {"accumulus": _accumulus, "jax": _jax, "casadi": _casadi}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
