"""Time from a function to its first Jacobian at one point: trace, plan, compile, run.

Every measurement is a process of its own in which imports are done and one small function went through; the processes
of the tools alternate. JAX with `jit(jacfwd)`; CasADi with its virtual machine, for information. The very first use of
accumulus on a machine is a process that finds an empty cache; it is compared with the next one in seconds of CPU.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from groups import Settings
from tables import Goal, Row, Table

SCRIPT = Path(__file__).resolve().parents[1] / "first_result.py"
PROCESSES = 3
FRACTION_OF_JAX = 0.2
FIRST_USE_SECONDS = 3.0
TOOLS = ("accumulus", "jax", "casadi")


def table(settings: Settings) -> Table:
    """One row an example, then the first use on a machine."""
    names = [example.name for example in settings.examples]
    samples: dict[str, dict[str, list[float]]] = {tool: {} for tool in TOOLS}
    missing: set[str] = set()
    for _ in range(PROCESSES):
        for tool in TOOLS:
            answer = _process(tool, names)
            if "missing" in answer:
                missing.add(answer["missing"])
                continue
            for name, seconds in answer["seconds"].items():
                samples[tool].setdefault(name, []).append(seconds)
    rows = [_row(name, samples) for name in names]
    extra = _first_use(names[0])
    cells = {"example": "very first use on a machine (CPU)", "accumulus ms": 1e3 * extra}
    rows.append(Row(cells, Goal(FIRST_USE_SECONDS, extra, unit=" s more")))
    title = f"From function to first Jacobian (ms, medians of {PROCESSES} processes)"
    return Table("first", title, rows, sorted(missing))


def _row(name: str, samples: dict[str, dict[str, list[float]]]) -> Row:
    median = {tool: statistics.median(times[name]) for tool, times in samples.items() if name in times}
    cells: dict[str, object] = {"example": name}
    cells |= {f"{tool} ms": 1e3 * seconds for tool, seconds in median.items()}
    fraction = median["accumulus"] / median["jax"] if "jax" in median else None
    return Row(cells, Goal(FRACTION_OF_JAX, fraction, unit=" of JAX"))


def _process(tool: str, names: list[str], **environment: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), tool, *names]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def _first_use(name: str) -> float:
    """Seconds of CPU that a process and those that it starts take longer with an empty cache than with a full one."""
    seconds = []
    with tempfile.TemporaryDirectory(prefix="first-use-") as empty:
        for _ in range(2):
            start = _used()
            _process("accumulus", [name], ACCUMULUS_CACHE=empty)
            seconds.append(_used() - start)
    return seconds[0] - seconds[1]


def _used() -> float:
    """Seconds of CPU that processes have taken which this one started, and which have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
