"""Shorter programs that fail as a program of `scales` does: `--only` prints what is left of one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
from checking import at_once
from joined import joined
from scale_checks import Case, checks
from scales import NAME, needed_lines

#: Programs that are tried.
TRIES: Final = 150


def shrunk(case: Case, number: int, kind: str) -> Case:
    """Return a shorter case with an outcome of the same kind: fewer results and points, variables as inputs."""
    tries, best = TRIES, case
    for smaller in (_fewer_outputs, _with_inputs, _fewer_outputs, _with_inputs):
        found = True
        while found and tries > 0:
            found = False
            for other in smaller(best):
                tries -= 1
                if _is(kind, other, number):
                    best, found = other, True
                    break
                if tries <= 0:
                    break
    for name in list(best.points):
        fewer = {key: x for key, x in best.points.items() if key != name}
        if fewer and _is(kind, other := replace(best, points=fewer), number):
            best = other
    return best


def _is(kind: str, case: Case, number: int) -> bool:
    with joined():
        (outcome,) = at_once([checks(case.again(), number)])
    return outcome.kind == kind


def _parts(source: str) -> tuple[list[str], list[str]]:
    """The lines between the first and the last, and the results."""
    lines = [line.strip() for line in source.splitlines()]
    return lines[2:-1], NAME.findall(lines[-1])


def _made(case: Case, lines: list[str], outputs: list[str], inputs: list[str], points: dict[str, Any]) -> Case:
    lines = needed_lines(lines, outputs)
    used = {name for line in [*lines, *outputs] for name in NAME.findall(line.partition(" = ")[2] or line)}
    kept = [k for k, name in enumerate(inputs) if name in used]
    points = {name: [x[k] for k in kept] for name, x in points.items()}
    left = ", ".join(inputs[k] for k in kept) + "," * (len(kept) == 1)
    body = "\n    ".join([f"{left} = x", *lines, f"return np.stack([{', '.join(outputs)}])"])
    first = points.pop("to prepare")
    program = replace(case.program, source=f"def f(x):\n    {body}\n", inputs=len(kept), outputs=len(outputs))
    return replace(case, program=program, points=points, first=first)


def _inputs(case: Case) -> list[str]:
    return NAME.findall(case.program.source.splitlines()[1])


def _fewer_outputs(case: Case) -> Iterator[Case]:
    lines, outputs = _parts(case.program.source)
    points = {"to prepare": case.first, **case.points}
    if len(outputs) > 2:
        yield _made(case, lines, outputs[::2], _inputs(case), points)
        yield _made(case, lines, outputs[1::2], _inputs(case), points)
    for k in range(len(outputs) if len(outputs) > 1 else 0):
        yield _made(case, lines, [*outputs[:k], *outputs[k + 1 :]], _inputs(case), points)


def _with_inputs(case: Case) -> Iterator[Case]:
    """With a variable of a number as one more input, at all points what it is there."""
    lines, outputs = _parts(case.program.source)
    inputs, points = _inputs(case), {"to prepare": case.first, **case.points}
    for k in random.Random(0).sample(range(len(lines)), len(lines)):
        name = lines[k].partition(" = ")[0]
        if name in outputs:
            continue
        with np.errstate(all="ignore"):
            values = {of: _value(lines[: k + 1], inputs, x) for of, x in points.items()}
        if any(np.ndim(value) or not np.isfinite(value) for value in values.values()):
            continue
        moved = {of: [*x, float(values[of])] for of, x in points.items()}
        yield _made(case, lines[:k] + lines[k + 1 :], outputs, [*inputs, name], moved)


def _value(lines: list[str], inputs: list[str], x: list[float]) -> Any:
    scope: dict[str, Any] = {"np": np, **dict(zip(inputs, map(np.float64, x), strict=True))}
    try:
        exec("\n".join(lines), scope)
    except np.linalg.LinAlgError:
        return np.nan
    return scope[lines[-1].partition(" = ")[0]]
