"""Functions of every kind, and digests of the programs that come of them; run as a script, it prints these as JSON.

    python tests/same_programs.py '[["fast", "small"], ["plans", "markowitz"]]'

No clock runs meanwhile, so that nothing is cut short however busy the machine is.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accumulus as acc
from accumulus import deadline, methods

#: Options by effort: the usual work, thorough programs some rounds of it only; and much time for that.
SPARE = 10.0
EFFORTS: dict[str, dict[str, Any]] = {
    "fast": {"effort": "fast", "time_limit": SPARE},
    "balanced": {"effort": "balanced", "time_limit": SPARE},
    "thorough": {"effort": "thorough", "time_limit": 0.2 * SPARE},
}


@contextmanager
def clock(now: Callable[[], float]) -> Iterator[None]:
    """Let searches read this clock, and do what they do in a tenth of the time limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "time", SimpleNamespace(monotonic=now))
        patch.setattr(deadline, "WORK", deadline.WORK / SPARE)
        yield


def small(x):
    return np.array([np.sin(x[0]) * x[1] * x[2], x[0] * x[1] + x[2] ** 2])


def steps(count):
    def f(y):
        def slope(y):
            return np.array([y[1], (1 - y[0] ** 2) * y[1] - y[0] + np.sin(y[0])])

        for _ in range(count):
            a = slope(y)
            b = slope(y + 0.05 * a)
            y = y + 0.1 * (a + b) / 2
        return y

    return f


def bodies(x):
    """Each body pulls each other."""
    p, forces = x.reshape(-1, 2), []
    for i in range(len(p)):
        force = np.zeros(2)
        for j in range(len(p)):
            if i != j:
                d = p[j] - p[i]
                force = force + d / (d @ d + 0.01) ** 1.5
        forces.append(force)
    return np.concatenate(forces)


def energy(x):
    return np.sum(np.sin(x[:-1] * x[1:]) * x[1:]) + np.exp(x[0] * x[-1])


def long(x):
    y = np.sin(x) * x
    return y[1:] * y[:-1] + np.exp(-x[1:])


def scanned(x):
    return np.cumsum(np.sin(x) * x)


def decided(x):
    y = x[0] * x[1] if x[0] > 0.5 else x[1] * x[2] + x[0]
    return np.array([y * np.exp(x[2]), y - np.abs(x[1]), np.maximum(x[0], x[2]) * y])


def nested(x):
    slope = acc.jacobian(small)(x)
    return (slope @ slope.T).ravel()


#: name → derivative of some options, and the arguments that it is compiled at.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "small": (lambda **o: acc.jacobian(small, **o), (np.array([0.3, 0.7, 1.1]),)),
    "middle": (lambda **o: acc.jacobian(steps(12), **o), (np.array([2.0, 0.1]),)),
    "pairs": (lambda **o: acc.value_and_jacobian(bodies, **o), (np.linspace(0.1, 2.0, 10) ** 2,)),
    "large": (lambda **o: acc.jacobian(steps(120), **o), (np.array([2.0, 0.1]),)),
    "hessian": (lambda **o: acc.hessian(energy, **o), (np.linspace(0.1, 1.0, 5),)),
    "hvp": (lambda **o: acc.hvp(energy, **o), ((np.linspace(0.1, 1.0, 5),), (np.ones(5),))),
    "jvp": (lambda **o: acc.jvp(bodies, **o), ((np.linspace(0.1, 2.0, 8) ** 2,), (np.ones(8),))),
    "sparse": (lambda **o: acc.jacobian(long, sparse="csr", **o), (np.linspace(0.1, 1.0, 40),)),
    "loops": (lambda **o: acc.jacobian(long, sparse="csr", **o), (np.linspace(0.1, 1.0, 4000),)),
    "scan": (lambda **o: acc.gradient(lambda x: scanned(x)[-1], **o), (np.linspace(0.1, 1.0, 3000),)),
    "cases": (lambda **o: acc.jacobian(decided, **o), (np.array([0.9, 0.7, 1.1]),)),
    "float32": (lambda **o: acc.jacobian(bodies, dtype="float32", **o), (np.linspace(0.1, 2.0, 8) ** 2,)),
    "nested": (lambda **o: acc.jacobian(nested, **o), (np.array([0.3, 0.7, 1.1]),)),
}


def compiled(name: str, effort: str, **options: Any) -> Any:
    """The program of a case."""
    made, arguments = CASES[name]
    return made(**EFFORTS[effort], **options).compile(*arguments)


def digest(program: Any) -> str:
    """Of all that is computed, and in which order."""
    return hashlib.blake2b(program.source("c").encode(), digest_size=8).hexdigest()


#: All cases in each effort, and the plans of all methods.
ALL = [(effort, name) for effort in EFFORTS for name in CASES] + [("plans", method) for method in methods()]


def digests(effort: str, name: str, **options: Any) -> dict[str, str]:
    """Of a case by its name, or of the plans of a method; "cut short" where that is so."""
    if effort == "plans":
        return plans(name, **options)
    program = compiled(name, effort, **options)
    return {name: f"cut short at {program.cut_short}" if program.cut_short else digest(program)}


def plans(method: str, **options: Any) -> dict[str, str]:
    """Plans of a method, as their steps."""
    graph = acc.trace(bodies, np.linspace(0.1, 2.0, 6) ** 2).linearize()
    results = {}
    for effort in ("fast", "balanced"):
        made = acc.plan(graph, method, effort=effort, time_limit=SPARE, **options)
        steps = repr((made.method, made.order, list(made.accumulation.steps)))
        digested = hashlib.blake2b(steps.encode(), digest_size=8).hexdigest()
        results[f"{method} {effort}"] = "cut short" if made.cut_short else digested
    return results


if __name__ == "__main__":
    with clock(lambda: 0.0):
        json.dump([digests(*pair) for pair in json.loads(sys.argv[1])], sys.stdout)
