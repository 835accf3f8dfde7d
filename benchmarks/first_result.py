"""Seconds from a function to its first Jacobian at one point, for one tool, in this process: run by `groups`.

Usage: python first_result.py TOOL function [function …]; prints JSON {"seconds": {function: seconds}}, the same of
the processor in "processor", and why there are none of a function in "failed".

Imports are done, and but for the tool "cached" one small function of its own goes through the tool first. "accumulus"
neither loads from the cache nor stores there; "cached" does both. "importing" is the imports of accumulus alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functions import Example, all_examples, suite
from peers import NotInstalled, casadi_functions, jax_batch, require

First = Callable[[Example], Any]


def main(tool: str, names: list[str]) -> int:
    """Print the seconds of each function."""
    known = {example.name: example for example in (*all_examples(), *suite())}
    try:
        first = TOOLS[tool]()
    except NotInstalled as missing:
        print(json.dumps({"missing": str(missing)}))
        return 0
    seconds, processor, failed = {}, {}, {}
    for name in names:
        example = known[name]
        _ = example.function, example.point, example.outputs
        start, begun = time.perf_counter(), time.process_time()
        try:
            first(example)
        except Exception as error:  # a peer may not know a function; the table says so
            failed[name] = f"{type(error).__name__}: {error}"
        else:
            seconds[name] = time.perf_counter() - start
            processor[name] = time.process_time() - begun
    print(json.dumps({"seconds": seconds, "processor": processor, "failed": failed}))
    return 0


def _accumulus() -> First:
    import library

    library.first_result(lambda x: np.sin(x) * x[0], np.ones(2))
    return lambda example: library.first_result(example.function, example.point)


def _cached() -> First:
    import accumulus as acc

    jacobian = acc.jacobian  # imports what derivatives need
    return lambda example: jacobian(example.function)(example.point)


def _importing() -> First:
    import accumulus as acc

    return lambda _: acc.jacobian


def _jax(mode: jax_batch.Mode) -> First:
    jax = jax_batch.load()

    def run(function: Callable[[Any], Any], x: Any) -> Any:
        return jax.jit(getattr(jax, mode)(function))(x).block_until_ready()

    run(lambda x: jax.numpy.sin(x) * x[0], np.ones(2))
    return lambda example: run(jax_batch.function(example), example.point)


def _casadi() -> First:
    ca = require("casadi")

    def run(example: Example) -> Any:
        symbolic = casadi_functions.Symbolic.of(example)
        return ca.Function("jacobian", [symbolic.x], [ca.cse(symbolic.J)])(example.point)

    run(Example("roe_flux"))
    return run


TOOLS: dict[str, Callable[[], First]] = {
    "accumulus": _accumulus,
    "cached": _cached,
    "importing": _importing,
    **{mode: partial(_jax, mode) for mode in jax_batch.MODES},
    "casadi": _casadi,
}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
