"""A kernel that uses all that kernels have. Run as a script, it prints what its machine code does."""

from __future__ import annotations

import json
from typing import Annotated

import numpy as np

if __name__ == "__main__":
    from accumulus.native import lowering
    from accumulus.native.decorators import compile_with

    compile_with(lowering)

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Halves, Integers, Record, Records, Undoable
from accumulus.native.words import (
    bit,
    bits_of,
    copy,
    copy_many,
    float_of,
    logged,
    lowest,
    population,
    random_bits,
    scattered,
    shifted_right,
    undo,
    without_lowest,
    wrapped,
)


class Pair(Record):
    left: int
    weight: float
    right: int


class Sized(Undoable):
    """The base of the state, which some of the functions are for."""

    count: int


class Everything(Sized):
    order: Integers
    rows: Annotated[Integers, Axes(3)]
    boxes: Annotated[Integers, Axes(2, 3)]
    sums: Floats
    pairs: Records[Pair]
    random: Integers
    words: Integers
    many: int
    results: Integers
    halves: Annotated[Halves, Axes(2)]
    factor: float = 1.5
    total: int = 0


@compiled
def rotated(state: Sized, array: Integers, by: int) -> int:
    """Logged by the base class's fields; a part of an array."""
    first = array[0]
    for k in range(state.count - 1):
        array[k] = array[k + 1]
    array[state.count - 1] = first + by
    return first


@compiled
def both(a: int, b: int) -> tuple[int, int]:
    return max(a, b), min(a, b)


@compiled
def heaviest(pairs: Records[Pair], count: int) -> Pair:
    best = pairs[0]
    for k in range(1, count):
        if pairs[k].weight > best.weight:
            best = pairs[k]
    return best


@compiled
def tried(state: Everything, k: int) -> int:
    """Written through the log, and read back."""
    safe = logged(state)
    safe.order[k] += 100
    safe.rows[k, 2] = state.order[k] * 2
    safe.boxes[k, 1, 2] -= 5
    safe.total = safe.total + 1
    safe.factor *= 2.0
    return safe.rows[k, 2] + safe.logged


def run_example(state: Everything) -> int:
    result = rotated(state, state.order[1:], 7)
    for k in range(state.count):
        pair = state.pairs[k]
        pair.left, pair.weight = k, pair.weight + 0.5 * k
        state.sums[k] = state.factor * pair.weight + state.pairs[k].right
        state.boxes[k, 1, 0] = state.rows[k, 1]
    heaviest(state.pairs[1:], state.count - 1).right += 1
    log = state.logged
    result += tried(state, 0) + tried(state, 1)
    undo(state, log + 6)
    state.logged = 0  # what was written stays
    result += tried(state, 2)
    undo(state, 0)
    result += state.total * 1_000
    larger, smaller = both(state.order[0], state.order[1])
    state.total = larger * 100 + smaller
    for k in range(state.many):
        word = state.words[k]
        state.results[11 * k] = population(word)
        state.results[11 * k + 1] = lowest(word) if word else -1
        state.results[11 * k + 2] = shifted_right(word, k % 64)
        state.results[11 * k + 3] = wrapped(word * 0x2545F4914F6CDD1D)
        state.results[11 * k + 4] = bits_of(0.1 * k)
        state.results[11 * k + 5] = int(float_of(bits_of(1.0 + k)) * 4)
        state.results[11 * k + 6] = random_bits(state.random)
        state.results[11 * k + 7] = word >> 3
        state.results[11 * k + 8] = bit(k * 63 // (state.many - 1)) ^ ~bit(63)
        state.results[11 * k + 9] = without_lowest(word)
        state.results[11 * k + 10] = scattered(word)
    for k in range(1, state.many):
        state.halves[k, 1] = state.halves[k - 1, 0] * 1_000_003 % 2_000_000_011
        state.halves[k, 0] = -state.halves[k, 1]
    result += state.halves[1, 0] * 4
    copy(state.results[11 * state.many :], state.words, state.many)
    copy_many(state.results[12 * state.many :], state.results, state.many)
    return result


def made(seed: int = 0) -> Everything:
    """A state with numbers of all kinds."""
    draw = np.random.default_rng(seed)
    words = draw.integers(-(1 << 63), (1 << 63) - 1, 12)
    words[:4] = 0, -1, 1, -(1 << 63)
    pairs = Records.zeros(Pair, 4)
    for k in range(4):
        pairs[k].weight, pairs[k].right = 0.25 * k, 10 * k
    return Everything(
        count=3,
        order=draw.integers(0, 50, 5),
        rows=draw.integers(0, 50, (2, 2, 3)),
        boxes=draw.integers(0, 50, (4, 2, 3)),
        sums=np.zeros(4),
        pairs=pairs,
        random=draw.integers(1, 1 << 60, 1),
        words=words,
        many=len(words),
        results=np.zeros(13 * len(words), np.int64),
        halves=draw.integers(1, 1 << 31, (len(words), 2), np.int32),
        log=np.zeros(100, np.int64),
    )


def told(result: int, state: Everything) -> dict[str, object]:
    """All that a run leaves behind, but for the log."""
    numbers = {name: getattr(state, name) for name, field in state.fields.items() if field.axes is None}
    arrays = ("order", "rows", "boxes", "sums", "random", "results", "halves")
    floats = state.pairs.words.view(np.float64).tolist()
    return numbers | {name: getattr(state, name).tolist() for name in arrays} | {"result": result, "pairs": floats}


if __name__ == "__main__":
    from accumulus.native.compile import code_of
    from accumulus.native.machine import _address, _called, _finished

    kernel = _called(_address(_finished(code_of(run_example))))
    for seed in range(3):
        state = made(seed)
        print(json.dumps(told(kernel(state.address), state)))
