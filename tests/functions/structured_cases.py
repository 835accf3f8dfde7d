"""Functions of arrays with their derivatives along directions: what a case is, and reference numbers by mpmath.

Of f along X + t·V the Taylor coefficients of orders 0 to 4 are compared, for several directions V. A case says

* `name`: unique; what stands before a parenthesis or a blank is the name in the front end's table.
* `function`: of a vector, which it reshapes, a vector.
* `exact`: the same in mpmath, of a list of numbers a list, of as many digits as `mp.dps` says.
* `points`: vectors X of equal lengths; `directions`: vectors V, the same for all points, by default two.
* `normwise`: whether errors are those of matrices, as LAPACK's are: each entry is off by a unit of the largest one; if
  not, by a unit of its own magnitude.
* `allowances`: units that are allowed at some points (by position) and orders.

The scale of a coefficient is its own magnitude and how far it moves by a unit of relative error of X and V: the root
mean square over random signs of these errors, the largest over the results where the case is normwise.
`docs/numerics.md` says what is allowed.

    python tests/functions/structured_cases.py [NAME…]      computes the numbers that are missing, or these anew
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))
from derivative_cases import DATA, LARGEST_ORDER, UNITS, mp, mpf

#: Modules with a table of cases.
TABLES: Final = ("linear_algebra", "rotations", "pieces_and_sums")
_FILE: Final = DATA / "structured.npz"
_STEP: Final = mpf(10) ** -15
_SHIFT: Final = mpf(10) ** -30
_DIGITS: Final = 150
_SAMPLES: Final = 4


@dataclass(frozen=True)
class Structured:
    """One function of a vector; see the module."""

    name: str
    function: Callable[[Any], Any]
    exact: Callable[[list[Any]], Sequence[Any]]
    points: Sequence[Any]
    directions: Sequence[Any] | None = None
    normwise: bool = False
    #: (position of the point or None for all, lowest order, units)
    allowances: Sequence[tuple[int | None, int, float]] = ()
    #: Nested derivatives and Hessians are compared, too.
    nested: bool = True

    @property
    def table_name(self) -> str:
        """The name without remarks."""
        return self.name.partition(" ")[0]

    def along(self) -> list[np.ndarray]:
        """The directions: the first one has entries that all differ, the second one is a unit vector."""
        n = np.size(self.points[0])
        if self.directions is not None:
            return [np.asarray(v, float) for v in self.directions]
        dense = np.round(np.cos(np.arange(1.0, n + 1.0) * 1.7) + 0.3, 3)
        return [dense, *([np.eye(n)[n // 2]] if n > 1 else [])]

    def units(self, point: int, order: int) -> float:
        """Units of error that are allowed."""
        return max([UNITS, *(u for at, least, u in self.allowances if at in (None, point) and order >= least)])


def all_structured() -> list[Structured]:
    """The cases of all tables."""
    return [case for table in TABLES for case in import_module(table).CASES]


@cache
def _loaded() -> dict[str, np.ndarray]:
    with np.load(_FILE) as file:
        return dict(file)


def expected_of(case: Structured) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their scales, (points, directions, orders, results).

    Raises:
        AssertionError: for points that are not those of the case.
    """
    stored = _loaded()
    command = f"run python tests/functions/structured_cases.py '{case.name}'"
    assert case.name in stored, f"{case.name} has no reference numbers: {command}"
    assert np.array_equal(stored[f"{case.name}:at"], _key(case)), f"the points of {case.name} are others: {command}"
    numbers = stored[case.name].astype(float)
    return numbers[0], stored[f"{case.name}:scale"].astype(float)


def _key(case: Structured) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in (*case.points, *case.along())]).astype(float)


def _computed(case: Structured) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    values, scales = [], []
    with mp.workdps(_DIGITS):
        for X in case.points:
            for V in case.along():
                x, v = [mpf(float(e)) for e in np.ravel(X)], [mpf(float(e)) for e in V]
                found = _coefficients(case, x, v)
                size = [max(map(abs, x))] * len(x) if case.normwise else [abs(e) for e in x]
                moved = []
                for _ in range(_SAMPLES):
                    signs = generator.choice([-1, 1], (2, len(x))).tolist()
                    x1 = [e + _SHIFT * s * int(d) for e, s, d in zip(x, size, signs[0], strict=True)]
                    v1 = [e * (1 + _SHIFT * int(d)) for e, d in zip(v, signs[1], strict=True)]
                    other = _coefficients(case, x1, v1)
                    moved.append(
                        [
                            [(a - b) / _SHIFT for a, b in zip(*pair, strict=True)]
                            for pair in zip(other, found, strict=True)
                        ]
                    )
                mean = np.sqrt(np.mean(np.square(np.array(moved, float)), axis=0))
                numbers = np.array([[float(e) if abs(e) > 1e-24 else 0.0 for e in row] for row in found])
                scale = np.abs(numbers) + mean
                scale = np.maximum(scale, 1e-13 * scale.max())  # references are no better where derivatives are 0
                if case.normwise:
                    scale = np.broadcast_to(scale.max(axis=1, keepdims=True), scale.shape)
                values.append(numbers)
                scales.append(scale)
    shape = (len(case.points), len(case.along()), LARGEST_ORDER + 1, -1)
    return np.reshape(values, shape), np.reshape(scales, shape)


def _coefficients(case: Structured, x: list[Any], v: list[Any]) -> list[list[Any]]:
    """By differences of values around: their error is the square of the step."""
    f = {}
    for j in range(-2, 3):
        f[j] = list(case.exact([a + j * _STEP * b for a, b in zip(x, v, strict=True)]))
    weights = {
        0: {0: mpf(1)},
        1: {-2: mpf(1) / 12, -1: -mpf(2) / 3, 1: mpf(2) / 3, 2: -mpf(1) / 12},
        2: {-2: -mpf(1) / 24, -1: mpf(2) / 3, 0: -mpf(5) / 4, 1: mpf(2) / 3, 2: -mpf(1) / 24},
        3: {-2: -mpf(1) / 12, -1: mpf(1) / 6, 1: -mpf(1) / 6, 2: mpf(1) / 12},
        4: {-2: mpf(1) / 24, -1: -mpf(1) / 6, 0: mpf(1) / 4, 1: -mpf(1) / 6, 2: mpf(1) / 24},
    }
    return [
        [sum(w * f[j][i] for j, w in weights[k].items()) / _STEP**k for i in range(len(f[0]))] for k in sorted(weights)
    ]


def main(names: list[str]) -> None:
    """Write what is missing."""
    before = dict(np.load(_FILE)) if _FILE.exists() else {}
    after = {}
    for case in all_structured():
        parts = [case.name, f"{case.name}:scale", f"{case.name}:at"]
        if (
            all(part in before for part in parts)
            and np.array_equal(before[parts[2]], _key(case))
            and case.name not in names
        ):
            after |= {part: before[part] for part in parts}
            continue
        start = time.perf_counter()
        values, scales = _computed(case)
        after |= {
            parts[0]: values[np.newaxis],
            parts[1]: np.maximum(scales, 1e-37).astype(np.float32),
            parts[2]: _key(case),
        }
        print(f"{case.name}: {values.size} numbers, {time.perf_counter() - start:.1f} s", flush=True)
    np.savez_compressed(_FILE, **after)


if __name__ == "__main__":
    import structured_cases

    structured_cases.main(sys.argv[1:])
