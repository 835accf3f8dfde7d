"""Hypothesis strategies: random programs over the whole table of operations, and how their results are laid out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from inside import OPERATIONS, Segment

from accumulus import Tape

ROWS = [row for row in OPERATIONS if row.arity and not row.special]
#: Rows whose results IEEE arithmetic defines to the last bit.
EXACT = frozenset(row.name for row in ROWS if not row.llvm.startswith("@")) | {"fmod"}
CONSTANTS = (0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, 1e-3, 7.0, 1e6)


@dataclass(frozen=True)
class Program:
    """A tape with the layout of its results."""

    tape: Tape
    segments: tuple[Segment, ...]

    def __repr__(self) -> str:
        return f"Program(inputs={self.tape.inputs}, segments={self.segments})\n{self.tape}"


@st.composite
def tapes(draw, max_inputs=5, max_operations=25, names=None):
    """Tapes with outputs: operations, inputs and constants, some of them several times, or none at all.

    Args:
        names: of the operations to draw from; all by default.
    """
    tape = Tape(draw(st.integers(0, max_inputs)))
    rows = ROWS if names is None else [row for row in ROWS if row.name in names]
    reals = [*range(tape.inputs), *(tape.constant(value) for value in CONSTANTS)]
    booleans: list[int] = []
    for _ in range(draw(st.integers(0, max_operations))):
        row = draw(st.sampled_from(rows))
        if "boolean" in row.arguments and not booleans:
            continue
        # late references make deep programs
        operands = [booleans if kind == "boolean" else reals for kind in row.arguments]
        arguments = [pool[-1 - min(draw(st.integers(0, 40)), len(pool) - 1)] for pool in operands]
        result = tape.apply(row.name, *arguments)
        if tape.is_boolean(result):
            booleans.append(result)
        elif row.result == "real" or result >= 0:
            reals.append(result)
    tape.outputs = draw(st.lists(st.sampled_from(reals), max_size=12)) if reals else []
    return tape


@st.composite
def layouts(draw, tape, max_segments=3):
    """Result arrays for a tape's outputs, with structural zeros in between, long runs of them at times."""
    segments = []
    for _ in range(draw(st.integers(0, max_segments))):
        count = len(tape.outputs)
        outputs = draw(st.lists(st.integers(0, count - 1), max_size=20)) if count else []
        spread = draw(st.sampled_from([0, 0, 3, 200]))
        length = len(outputs) + draw(st.integers(0, spread))
        positions = draw(st.permutations(range(length))) if length <= 40 else None
        if positions is None:
            start = draw(st.integers(0, length - len(outputs)))
            positions = range(start, start + len(outputs))
        segments.append(Segment(length, tuple(outputs), tuple(positions[: len(outputs)])))
    return tuple(segments)


@st.composite
def programs(draw, max_inputs=5, max_operations=25, names=None):
    """A random tape with a random layout of its outputs."""
    tape = draw(tapes(max_inputs, max_operations, names))
    return Program(tape, draw(layouts(tape)))


ORDINARY = st.floats(-8.0, 8.0, allow_nan=False, width=32)
SPECIAL = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 1e300, -1e300, 1e9, 0.5])


@st.composite
def points(draw, count, inputs, dtype="float64", special=True):
    """Points (count, inputs): rows of a few drawn numbers, repeated in shuffled order."""
    numbers = st.one_of(ORDINARY, SPECIAL) if special else ORDINARY
    pool = draw(st.lists(numbers, min_size=1, max_size=10))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    with np.errstate(over="ignore"):
        return random.choice(np.array(pool), (count, inputs)).astype(dtype)
