"""What the optimiser minimises: operations, or time, of a tape; and what it goes by while it searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from accumulus.errors import unknown_name
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.tape.weights import Weights, weights

__all__ = ["TAPE_OBJECTIVES", "UNIT", "TapeObjective", "cost_of", "search_weights"]

TapeObjective = Literal["operations", "time"]
TAPE_OBJECTIVES: Final[tuple[TapeObjective, ...]] = get_args(TapeObjective)

#: What an addition weighs in a search.
UNIT: Final = 64
#: What slow operations weigh where operations are counted, in additions: programs are to be fast as well as short. With
#: these the suite of benchmarks needs as few operations as with equal weights, and fewer divisions.
_SLOWER: Final[Mapping[str, int]] = {"divide": 3, "sqrt": 3}
_CALL: Final = 5


def cost_of(tape: Tape, objective: TapeObjective) -> int:
    """Cost of a tape without dead operations: how many operations it has, or picoseconds a point.

    Raises:
        UnknownNameError: for another objective.
    """
    if objective not in TAPE_OBJECTIVES:
        raise unknown_name("objective", objective, TAPE_OBJECTIVES)
    return tape.operations if objective == "operations" else weights().cost(tape)


def search_weights(objective: TapeObjective) -> dict[str, int]:
    """What operations weigh in a search, an addition about `UNIT`; signs nothing, since most vanish in the end."""
    found = {row.name: UNIT for row in OPERATIONS if row.arity}
    if objective == "operations":
        for row in OPERATIONS:
            if row.arity:
                found[row.name] *= _SLOWER.get(row.name, _CALL if row.llvm.startswith("@") else 1)
    else:
        found |= _timed(weights())
    return found | {"negative": 0, "attach": 0}


def _timed(measured: Weights) -> dict[str, int]:
    """Measured weights in the unit of the search. Where sums take up products, each weighs half of a pair."""
    pair = {"add", "subtract", "multiply"}
    basic = measured.fma / 2 if measured.fused else float(measured.operations["add"])
    return {
        name: UNIT if name in pair and measured.fused else max(1, round(UNIT * weight / basic))
        for name, weight in measured.operations.items()
    }
