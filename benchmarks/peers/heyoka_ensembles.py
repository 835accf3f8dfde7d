"""heyoka's batch integrator on many initial value problems: Taylor's method in the lanes of vectors.

It runs in an environment of its own, which `make bench-heyoka` makes. This file is also the program that runs there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cases.ensembles import OTHERS, TOLERANCE
from peers import NotInstalled

BENCHMARKS = Path(__file__).resolve().parents[1]
PYTHON = BENCHMARKS.parent / "build" / "heyoka" / "bin" / "python"


def integrated(name: str, count: int, seed: int, turns: int) -> tuple[float, Any]:
    """Return seconds of an integration of all problems, and their last states, (states, problems).

    Raises:
        NotInstalled: without heyoka, or if it fails.
    """
    python = os.environ.get("HEYOKA_PYTHON", str(PYTHON))
    if not Path(python).exists():
        raise NotInstalled("heyoka not installed: make bench-heyoka")
    command = [python, "-m", "peers.heyoka_ensembles", name, str(count), str(seed), str(turns)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BENCHMARKS)
    if run.returncode:
        raise NotInstalled(run.stderr.strip().splitlines()[-1][:60])
    answer = json.loads(run.stdout.splitlines()[-1])
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
