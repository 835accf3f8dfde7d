"""Operations of functions of full n×n matrices, the values alone, as they are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import accumulus as acc
from groups import Settings
from tables import Row, Table

SIZES: Final = (2, 3, 4, 5, 6, 8)


def _both(pair: tuple[Any, Any]) -> Any:
    return np.concatenate([np.ravel(part) for part in pair])


FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "cholesky": np.linalg.cholesky,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "qr": lambda a: _both(np.linalg.qr(a)),
    "lstsq": lambda a: np.linalg.lstsq(a, np.arange(1.0, len(a) + 1.0), rcond=None)[0],
    "eigvalsh": np.linalg.eigvalsh,
    "eigh": lambda a: _both(np.linalg.eigh(a)),
    "svdvals": np.linalg.svdvals,
    "pinv": np.linalg.pinv,
}


def table(settings: Settings) -> Table:
    """One row a function, one column a size."""
    rows = []
    for name, f in FUNCTIONS.items():
        counts = {}
        for n in SIZES:
            root = 3.0 * np.eye(n) + 0.3 * np.random.default_rng(settings.seed).normal(size=(n, n))
            # signs of vectors are LAPACK's choice, so the recording is not compared
            program = acc.compile(f, optimise=False, check=False, cache=False).compile(root @ root.T)
            counts[str(n)] = program.operations
        rows.append(Row({"function": name} | counts))
    return Table("matrices", "Operations of functions of n×n matrices, values alone", rows)
