"""heyoka's batch integrator on many initial value problems: Taylor's method in the lanes of vectors.

It runs in an environment of its own, which `make bench-peers` makes. This file is also the program that runs there.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from cases.ensembles import OTHERS, TOLERANCE
from peers.elsewhere import answered


def integrated(name: str, count: int, seed: int, turns: int) -> tuple[float, Any]:
    """Return seconds of an integration of all problems, and their last states, (states, problems).

    Raises:
        NotInstalled: without heyoka, or if it fails.
    """
    answer = answered("peers.heyoka_ensembles", name, count, seed, turns)
    return answer["seconds"], np.array(answer["last"])


# In heyoka's environment ---------------------------------------------------------------------------------------------


def main(name: str, count: str, seed: str, turns: str) -> None:
    """Print seconds and last states as JSON; all problems, in groups as large as its vectors."""
    import heyoka  # type: ignore[import-not-found]

    ensemble, lanes = OTHERS[name], heyoka.recommended_simd_size()
    p = ensemble.drawn(int(count), int(seed)).T
    variables = heyoka.make_vars(*(f"y{k}" for k in range(len(ensemble.y0))))
    rates = ensemble.rates(heyoka, heyoka.time, variables, heyoka.par)
    start = np.tile(ensemble.y0[:, np.newaxis], lanes)
    integrator = heyoka.taylor_adaptive_batch(
        [*zip(variables, rates, strict=True)], start, tol=TOLERANCE, pars=np.zeros((len(p), lanes))
    )
    grid = np.tile(ensemble.times[:, np.newaxis], lanes)
    seconds = []
    for _ in range(int(turns)):
        begin, last = time.perf_counter(), []
        for first in range(0, p.shape[1], lanes):
            integrator.state[:] = start
            integrator.pars[:] = p[:, first : first + lanes]
            integrator.set_time(ensemble.times[0])
            last.append(integrator.propagate_grid(grid)[1][-1])
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": float(np.median(seconds)), "last": np.concatenate(last, axis=1).tolist()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
