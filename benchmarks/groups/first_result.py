"""Time from a function to its first Jacobian at one point, no plan or code kept: trace, plan, compile, run.

Every measurement is a process of its own in which imports are done and one small function went through; the processes
of the tools alternate. JAX with `jit(jacfwd)` and `jit(jacrev)`, of which the faster counts; CasADi with its virtual
machine, for information.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from groups import Settings
from groups.ratios import mean, worst
from peers.jax_batch import MODES
from tables import Goal, Row, Table

SCRIPT: Final = Path(__file__).resolve().parents[1] / "first_result.py"
PROCESSES: Final = 3
MEAN_REACH, NOWHERE_ABOVE = 0.2, 0.35
TOOLS: Final = ("accumulus", *MODES, "casadi")
#: Seconds that a process may take for a function.
PATIENCE: Final = 60.0


def table(settings: Settings) -> Table:
    """One row a function, then mean and worst of the fractions of JAX."""
    names = [example.name for example in settings.functions]
    samples: dict[str, dict[str, list[float]]] = {tool: {} for tool in TOOLS}
    remarks: set[str] = set()
    for _ in range(PROCESSES):
        for tool in TOOLS:
            answer = process(tool, names)
            if "missing" in answer:
                remarks.add(answer["missing"])
                continue
            remarks |= {f"{tool}, {name}: {why[:100]}" for name, why in answer["failed"].items()}
            for name, seconds in answer["seconds"].items():
                samples[tool].setdefault(name, []).append(seconds)
    rows, ratios = [], {}
    for name in names:
        median = {tool: statistics.median(times[name]) for tool, times in samples.items() if name in times}
        jax = min((median[mode] for mode in MODES if mode in median), default=None)
        ratio = None if jax is None or "accumulus" not in median else median["accumulus"] / jax
        if ratio is not None:
            ratios[name] = ratio
        cells: dict[str, object] = {"function": name}
        cells |= {f"{tool} ms": 1e3 * median[tool] if tool in median else "failed" for tool in TOOLS}
        rows.append(Row(cells, Goal(NOWHERE_ABOVE, ratio, unit=" of JAX")))
    rows += mean(ratios, MEAN_REACH) + worst(ratios, NOWHERE_ABOVE)
    title = f"From function to first Jacobian (ms, medians of {PROCESSES} processes)"
    return Table("first", title, rows, sorted(remarks))


def process(tool: str, names: Sequence[str], **environment: str) -> dict[str, Any]:
    """Return the output of `first_result.py` in a separate process with further variables in its environment.

    Raises:
        RuntimeError: if it failed or took too long.
    """
    command = [sys.executable, str(SCRIPT), tool, *names]
    limit = PATIENCE * (1 + len(names))
    try:
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)} was not done after {limit:.0f} s") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
