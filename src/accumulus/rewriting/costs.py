"""What the optimiser minimises: operations, or time, of a tape; and what it goes by while it searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from accumulus.errors import unknown_name
from accumulus.objective import TapeObjective
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.tape.weights import weights

__all__ = ["FUSED", "TAPE_OBJECTIVES", "UNIT", "TapeObjective", "cost_of", "search_weights"]

TAPE_OBJECTIVES: Final[tuple[TapeObjective, ...]] = get_args(TapeObjective)

#: What an addition weighs in a search.
UNIT: Final = 64
#: What slow operations weigh where operations are counted, in additions: programs are to be fast as well as short. With
#: these the suite of benchmarks needs as few operations as with equal weights, and fewer divisions.
_SLOWER: Final[Mapping[str, int]] = {"divide": 3, "sqrt": 3}
_CALL: Final = 5
#: What a sum and a product that only it uses weigh less together. A target that fuses them runs them as one, but they
#: are two operations.
_CREDIT: Final = 16
#: The key of that among the weights.
FUSED: Final = "sum with product"


def cost_of(tape: Tape, objective: TapeObjective) -> int:
    """Cost of a tape without dead operations: how many operations it has, or picoseconds a point.

    Raises:
        UnknownNameError: for another objective.
    """
    if objective not in TAPE_OBJECTIVES:
        raise unknown_name("objective", objective, TAPE_OBJECTIVES)
    return tape.operations if objective == "operations" else weights().cost(tape)


def search_weights(objective: TapeObjective) -> dict[str, int]:
    """What operations weigh in a search, an addition about `UNIT`; signs nothing, since most vanish in the end.

    Under `FUSED`: what a sum and a product that only it uses weigh less together.
    """
    if objective == "time":
        measured = weights()
        scale = UNIT / measured.operations["add"]
        found = {name: max(1, round(scale * weight)) for name, weight in measured.operations.items()}
        pair = measured.operations["add"] + measured.operations["multiply"]
        found[FUSED] = round(scale * (pair - measured.fma)) if measured.fused else 0
    else:
        found = {row.name: UNIT for row in OPERATIONS if row.arity}
        for row in OPERATIONS:
            if row.arity:
                found[row.name] *= _SLOWER.get(row.name, _CALL if row.llvm.startswith("@") else 1)
        found[FUSED] = _CREDIT
    return found | {"negative": 0, "attach": 0}
