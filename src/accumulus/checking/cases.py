"""Points of a check parted by how the function decides there, and further ones on both sides of borders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from accumulus.checking.check_report import Finding
from accumulus.frontends.agreement import where_it_holds
from accumulus.frontends.points import as_inputs
from accumulus.frontends.recorder import Recording

__all__ = ["at_borders", "by_case", "merged"]

#: Cases of one check, at most; points of others are left out.
MOST_CASES: Final = 6
#: Borders that are looked for, at most, and halvings of the way to a point in another case.
MOST_BORDERS: Final = 4
HALVINGS: Final = 60
#: How far from a border derivatives are compared with differences, of the way to the point that was given.
BESIDE: Final = 0.02

Point = Sequence[Any]


def holds(recording: Recording, point: Point) -> bool:
    """Whether a recording holds at a point."""
    return bool(where_it_holds(recording, as_inputs(point, recording.argument_shapes)[np.newaxis])[0])


def by_case(
    recordings: Sequence[Recording], points: Sequence[Point], again: Callable[[Point], Recording]
) -> list[tuple[Recording, list[Point]]]:
    """The points of each case, each with its recording.

    Args:
        recordings: that are known, that of the first point first.
        points: to be parted.
        again: records the function at a point; what it raises there leaves the point to the first case, where it counts
            as one at which the function has no values.
    """
    cases: list[tuple[Recording, list[Point]]] = [(recording, []) for recording in recordings]
    for point in points:
        own = next((members for known, members in cases if holds(known, point)), None)
        if own is None and len(cases) < MOST_CASES:
            try:
                cases.append((again(point), []))
            except Exception:
                own = cases[0][1]
            else:
                own = cases[-1][1]
        (cases[0][1] if own is None else own).append(point)
    return cases


def at_borders(cases: Sequence[tuple[Recording, Sequence[Point]]]) -> list[Point]:
    """Points right on both sides of borders of the first case, and beside them."""
    recording, (given, *_) = cases[0]
    shapes = recording.argument_shapes
    found: list[Point] = []

    def between(one: Point, other: Point, share: float) -> Point:
        return [
            a if shape is None else np.float64((1.0 - share) * a + share * b) if shape == () else a + share * (b - a)
            for a, b, shape in zip(one, other, shapes, strict=True)
        ]

    for _, members in cases[1 : 1 + MOST_BORDERS]:
        inside, outside = given, members[0]
        for _ in range(HALVINGS):
            middle = between(inside, outside, 0.5)
            if holds(recording, middle):
                inside = middle
            else:
                outside = middle
        found += [inside, outside, between(inside, given, BESIDE), between(outside, members[0], BESIDE)]
    return found


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of one name as one, with the worst of them."""
    by_name: dict[str, Finding] = {}
    for each in findings:
        known = by_name.setdefault(each.name, Finding(each.name))
        known.compared += each.compared
        known.failed += each.failed
        if each.deviation > known.deviation:
            known.deviation, known.difference = each.deviation, each.difference
            known.where, known.reason = each.where, each.reason
    return tuple(by_name.values())
