"""Gain of each source of values and each step of resubstitution: operations with all of them, over those without."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import accumulus as acc
import library
from accumulus.programs import rewritten
from accumulus.resubstitution import optimise, relations, resubstitute
from functions import Example, held_out
from groups import Settings
from tables import Row, Table

#: Seconds of the search.
PATIENCE = 3.0


def _none(*_: Any, **__: Any) -> None:
    """Stand in for a source that finds nothing."""


#: By the name of what is left out, the attributes that are replaced, and by what.
WITHOUT: Mapping[str, list[tuple[Any, str, Any]]] = {
    "helpers": [(resubstitute, "with_helpers", _none)],
    "linear relations": [(relations, "with_relations", _none), (rewritten, "with_relations", _none)],
    "sums of angles": [(relations, "with_sums_of_angles", _none), (rewritten, "with_sums_of_angles", _none)],
    "laws of exponentials": [(resubstitute, "EXPONENTIALS", {})],
    "multiplied out": [(optimise, "FACTORS", ())],
}


def table(settings: Settings) -> Table:
    """A row for each, with means over the suite and over the functions held out, and the functions that win most."""
    sets = {"suite": settings.functions, "held out": tuple(held_out())}
    every = sets["suite"] + sets["held out"]
    whole = {name: _operations(example) for name, example in _named(every)}
    rows = []
    for name, changes in WITHOUT.items():
        cells: dict[str, object] = {"without": name}
        with ExitStack() as stack:
            for place, attribute, instead in changes:
                stack.enter_context(patch.object(place, attribute, instead))
            lost = {
                name: _operations(example) / whole[name] for each in sets.values() for name, example in _named(each)
            }
        for of, functions in sets.items():
            cells[of] = f"{geometric_mean(lost[name] for name, _ in _named(functions)):.4f}"
        most = sorted(lost, key=lambda name: -lost[name])[:3]
        rows.append(Row(cells | {"most": ", ".join(f"{name} {lost[name]:.3f}" for name in most)}))
    notes = [f"effort='thorough', time_limit={PATIENCE:g}; above 1, operations without it are more"]
    return Table("sources", "Operations without a part of resubstitution, over those with all", rows, notes)


def _named(functions: tuple[Example, ...]) -> list[tuple[str, Example]]:
    return [(example.name, example) for example in functions]


@library.processor_clock()
def _operations(example: Example) -> int:
    program = acc.value_and_jacobian(example.function, effort="thorough", time_limit=PATIENCE, cache=False)
    return program.compile(example.point).operations
