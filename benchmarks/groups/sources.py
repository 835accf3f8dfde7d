"""What each part of resubstitution wins: operations without it, over those with all of it.

The parts that the default effort has are measured there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import accumulus as acc
import library
from accumulus.programs import derivation, graphs, rewritten
from accumulus.resubstitution import optimise
from accumulus.resubstitution.values import Values
from accumulus.tape import systems
from functions import Example, held_out
from groups import Settings, symforce
from hand import functions as by_hand
from tables import Row, Table

#: Seconds of the search.
PATIENCE = 3.0
EFFORTS: Mapping[str, Mapping[str, Any]] = {
    "balanced": {"cache": False},
    "thorough": {"cache": False, "effort": "thorough", "time_limit": PATIENCE},
}


def _none(*_: Any, **__: Any) -> None:
    """Stand in for a source that finds nothing."""


#: By the name of what is left out: the efforts that have it, and the attributes that are replaced, each with by what.
WITHOUT: Mapping[str, tuple[tuple[str, ...], list[tuple[Any, str, Any]]]] = {
    "resubstitution": (("balanced",), [(optimise, "BRIEF", (1, 0))]),
    "programs multiplied out": (("balanced",), [(optimise, "from_polynomials", _none)]),
    "pairs of values": (("balanced", "thorough"), [(Values, "pair", _none)]),
    "sums of angles": (
        ("thorough",),
        [(optimise, "with_sums_of_angles", _none), (rewritten, "with_sums_of_angles", _none)],
    ),
    "rotations": (("balanced", "thorough"), [(graphs, "with_rotations", lambda *_: [])]),
    "definite matrices": (("balanced", "thorough"), [(systems, "is_semidefinite", lambda *_: False)]),
    "other orders": (("thorough",), [(derivation, "alternatives_for", lambda *_: ())]),
}


def table(settings: Settings) -> Table:
    """A row for each part and effort, with means over the groups, and the functions that lose most."""
    groups = {
        "suite": _of_examples((*settings.functions, *by_hand())),
        "held out": _of_examples(tuple(held_out())),
        "SymForce": {name: (prepare, arguments) for name, (prepare, arguments, _) in symforce.cases().items()},
    }
    rows = []
    with library.processor_clock():
        for effort, options in EFFORTS.items():
            whole = {group: _operations(functions, options) for group, functions in groups.items()}
            for name, (efforts, changes) in WITHOUT.items():
                if effort in efforts:
                    with ExitStack() as stack:
                        for place, attribute, instead in changes:
                            stack.enter_context(patch.object(place, attribute, instead))
                        lost = {
                            group: {key: made / whole[group][key] for key, made in _operations(fs, options).items()}
                            for group, fs in groups.items()
                        }
                    rows.append(_row(name, effort, lost))
    notes = [f"thorough: time_limit={PATIENCE:g}. Above 1, operations without it are more."]
    return Table("sources", "Operations without a part of resubstitution, over those with all", rows, notes)


Function = tuple[Callable[..., Any], tuple[Any, ...]]


def _of_examples(examples: tuple[Example, ...]) -> dict[str, Function]:
    def prepared(example: Example) -> Callable[..., Any]:
        return lambda **options: acc.value_and_jacobian(example.function, **options)

    return {example.name: (prepared(example), (example.point,)) for example in examples}


def _operations(functions: Mapping[str, Function], options: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: library.tally(prepare(**options).compile(*arguments).tape).operations
        for name, (prepare, arguments) in functions.items()
    }


def _row(name: str, effort: str, lost: Mapping[str, Mapping[str, float]]) -> Row:
    cells: dict[str, object] = {"without": name, "effort": effort}
    cells |= {group: f"{geometric_mean(ratios.values()):.4f}" for group, ratios in lost.items()}
    every = {key: ratio for ratios in lost.values() for key, ratio in ratios.items()}
    most = sorted(every, key=lambda key: -every[key])[:2]
    return Row(cells | {"most": "; ".join(f"{key} {every[key]:.3f}" for key in most)})
