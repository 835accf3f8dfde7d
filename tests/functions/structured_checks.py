"""What is wrong with the derivatives of functions of arrays: all kinds and targets, against references.

python tests/functions/structured_checks.py [NAME…]        all cases, or these, in all targets
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))
from derivative_cases import LARGEST_ORDER
from structured_cases import Structured, all_structured, expected_of

import accumulus as acc

_UNIT: Final = 2.0**-52
_OPTIONS: Final[dict[str, Any]] = {"effort": "fast", "time_limit": 0.0, "cache": False, "check": False}
#: The largest error: in units, the point, the direction, the order, the kind.
Worst = tuple[float, int, int, int, str]


def is_among(case: Structured, target: str, part: int = 10) -> bool:
    """Whether a case is among the fixed tenth that the ordinary tests go through."""
    return hashlib.sha256(f"{case.name} {target}".encode()).digest()[0] % part == 0


def check_structured(case: Structured, target: str) -> tuple[int, list[Worst], Worst]:
    """How many numbers were compared, those that are wrong, and the worst one."""
    expected, scales = expected_of(case)
    count, wrong, worst = 0, [], (0.0, 0, 0, 0, "")
    with np.errstate(all="ignore"):
        for kind, place, order, found in _computed(case, target):
            point, direction = place
            wanted, scale = expected[point, direction, order], scales[point, direction, order]
            if kind == "hessian":
                wanted, scale = wanted.sum(), scale.sum()
            error = np.abs(np.ravel(found) - wanted) / (_UNIT * np.maximum(scale, 1e-37))
            units = float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))
            count += np.size(wanted)
            each = (units, point, direction, order, kind)
            worst = max(worst, each)
            if units > case.units(point, order):
                wrong.append(each)
    return count, wrong, worst


def _computed(case: Structured, target: str) -> Iterator[tuple[str, tuple[int, int], int, Any]]:
    """A kind, the places of the point and the direction, an order, and coefficients."""
    f, along = case.function, case.along()
    X = np.array([np.ravel(p) for p in case.points], float)
    n, directions = X.shape[1], len(along)
    places = [(p, d) for p in range(len(X)) for d in range(directions)]
    points, rays = X[[p for p, _ in places]], np.array([along[d] for _, d in places])
    series = np.zeros((len(places), LARGEST_ORDER, n))
    series[:, 0] = rays
    value, coefficients = acc.taylor(f, target=target, **_OPTIONS).batch((points,), (series,))
    for k, place in enumerate(places):
        yield "taylor", place, 0, value[k]
        for order in range(1, LARGEST_ORDER + 1):
            yield "taylor", place, order, coefficients[k, order - 1]
    jacobians = acc.jacobian(f, target=target, **_OPTIONS).batch(X)
    for k, (p, d) in enumerate(places):
        yield "jacobian", places[k], 1, np.reshape(jacobians[p], (-1, n)) @ along[d]
    if not case.nested or target != "llvm":
        return
    hessians = acc.hessian(lambda x: np.sum(f(x)), target=target, **_OPTIONS)
    for p, x in enumerate(X):
        H = hessians(x)
        for d, v in enumerate(along):
            yield "hessian", (p, d), 2, v @ H @ v / 2.0

    def ray(t: Any, x: Any, v: Any) -> Any:
        return f(x + t * v)

    derivative = ray
    for order in range(1, LARGEST_ORDER + 1):
        derivative = acc.jacobian(derivative, **_OPTIONS)
        factorial = float(np.prod(np.arange(1, order + 1)))
        for k, place in enumerate(places):
            if order >= 2:
                yield "nested", place, order, derivative(0.0, points[k], rays[k]) / factorial


def main(names: list[str]) -> int:
    """Print what is wrong, and return how many derivatives are."""
    compared = failures = 0
    for case in all_structured():
        for target in ("llvm", "numpy", "c"):
            if not names or case.name in names:
                count, wrong, worst = check_structured(case, target)
                compared, failures = compared + count, failures + len(wrong)
                print(f"{case.name}, {target}: {worst[0]:.3g} units at most", *wrong[:3], flush=True)
    print(f"{compared:,} derivatives compared, {failures:,} wrong")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
