"""The last rows of tables of ratios: their geometric mean (there called mean), and the worst of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from tables import Goal, Row


def mean(ratios: Mapping[str, float], reach: float | None, of: str = "") -> list[Row]:
    """A row with the geometric mean.

    Args:
        ratios: by function; smaller is better.
        reach: what to reach; None to report it.
        of: what the ratios are of, if the table has several.
    """
    label = f"mean of {len(ratios)}{', ' if of else ''}{of}"
    return [_row(label, statistics.geometric_mean(ratios.values()), reach)] if ratios else []


def worst(ratios: Mapping[str, float], reach: float | None, of: str = "") -> list[Row]:
    """A row with the largest ratio and whose it is; arguments as above."""
    name = max(ratios, key=lambda name: ratios[name], default="")
    return [_row(f"worst{', ' if of else ''}{of}: {name}", ratios[name], reach)] if ratios else []


def _row(label: str, value: float, reach: float | None) -> Row:
    cells: dict[str, object] = {"function": label}
    return Row(cells | {"ratio": value}) if reach is None else Row(cells, Goal(reach, value))
