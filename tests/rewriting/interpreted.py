"""The optimiser's kernel run as Python, on memory that is checked, and what must be true of a network after any move.

The text of `rewrite_kernel` is executed with a stand-in for `accumulus.native.memory`: the same functions on one list
of words. So a kernel whose text was changed runs without being compiled, and cannot reach memory that is not its own.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from accumulus.native.machine import kernel
from accumulus.rewriting import network as network_module
from accumulus.rewriting.compiled import rewrite_slots as slot
from accumulus.rewriting.network import Network
from accumulus.tape.operations import BY_NAME, OPERATIONS

SOURCE = (Path(network_module.__file__).parent / "compiled" / "rewrite_kernel.py").read_text(encoding="utf-8")
#: Words of memory for one network of some hundred operations.
WORDS = 1_500_000
#: Words that a call of the kernel may read; what reads more does not end.
PATIENCE = 30_000_000
INPUT = BY_NAME["input"].code
MASK = (1 << 64) - 1


class OutOfMemory(Exception):
    """A kernel reached for memory that is not its own, or went on for ever."""


class Arena:
    """One array that all arrays of a network are parts of, so that addresses can be checked."""

    def __init__(self) -> None:
        self.words = np.zeros(WORDS, np.int64)
        self.base = self.words.ctypes.data
        self.used = 1  # so that no array has address 0

    def take(self, count: int) -> np.ndarray:
        part = self.words[self.used : self.used + count]
        assert len(part) == count, "the arena is too small for this network"
        self.used += count
        return part


def block_in(arena: Arena) -> type:
    """A stand-in for `accumulus.native.block.Block` whose arrays are parts of an arena."""

    class Block:
        def __init__(self, slots: int) -> None:
            self.integers = arena.take(slots)
            self.floats = self.integers.view(np.float64)
            self.address = self.integers.ctypes.data
            self._arrays: dict[int, Any] = {}

        def point(self, place: int, array: Any) -> Any:
            own = arena.take(array.size)
            own[:] = array.reshape(-1).view(np.int64)
            self._arrays[place] = own.view(array.dtype).reshape(array.shape)
            self.integers[place] = own.ctypes.data
            return self._arrays[place]

        def array(self, place: int) -> Any:
            return self._arrays[place]

    return Block


def memory(arena: Arena, patience: int = PATIENCE) -> ModuleType:
    """A stand-in for `accumulus.native.memory` over an arena."""
    words, floats = memoryview(arena.words), memoryview(arena.words.view(np.float64))
    start, left = arena.base >> 3, patience
    integer, real = struct.Struct("q"), struct.Struct("d")

    def place(address: int, position: int) -> int:
        nonlocal left
        left -= 1
        found = (address >> 3) - start + position
        if found <= 0 or left < 0 or address & 7:
            raise OutOfMemory(f"address {address}, position {position}")
        return found

    def get(address: int, position: int) -> int:
        nonlocal left
        left -= 1
        found = (address >> 3) - start + position
        if found <= 0 or left < 0 or address & 7:
            raise OutOfMemory(f"address {address}, position {position}")
        return words[found]

    def put(address: int, position: int, value: int) -> None:
        if not -(1 << 63) <= value < 1 << 63:  # wraps as machine integers do
            value = (value + (1 << 63) & MASK) - (1 << 63)
        words[place(address, position)] = value

    def random_bits(state: int) -> int:
        x = get(state, 0) & MASK
        x ^= x >> 12
        x = (x ^ x << 25) & MASK
        x ^= x >> 27
        put(state, 0, x)
        return x * 0x2545F4914F6CDD1D & MASK

    def copy(to: int, source: int, count: int) -> None:
        if count:
            a, b = place(to, 0), place(source, 0)
            words[a : a + count] = words[b : b + count]

    def put_float(address: int, position: int, value: float) -> None:
        floats[place(address, position)] = value

    module: Any = ModuleType("accumulus.native.memory")
    module.get, module.put, module.random_bits, module.copy, module.put_float = get, put, random_bits, copy, put_float
    module.get_float = lambda address, position: floats[place(address, position)]
    module.bits_of = lambda value: integer.unpack(real.pack(value))[0]
    # NumPy's number, because Python's raises where IEEE gives infinity
    module.float_of = lambda bits: np.float64(real.unpack(integer.pack(bits))[0])
    module.shifted_right = lambda bits, places: (bits & MASK) >> places
    module.compiled = lambda function: function
    module.whole = int
    return module


@cache
def _code(text: str) -> CodeType:
    return compile(text, "rewrite_kernel.py", "exec")


def functions(text: str, arena: Arena, patience: int = PATIENCE) -> SimpleNamespace:
    """The functions of a kernel's text, run as Python on the arena."""
    scope: dict[str, Any] = {"__name__": "interpreted_kernel"}
    with mock.patch.dict(sys.modules, {"accumulus.native.memory": memory(arena, patience)}):
        exec(_code(text), scope)
    return SimpleNamespace(**scope)


@contextmanager
def running(
    text: str | None,
    patience: int = PATIENCE,
    after: Callable[[Network], None] | None = None,
    reference: str = SOURCE,
) -> Iterator[None]:
    """Let networks run on a kernel's text, or on the compiled kernel if that is None, each in an arena of its own.

    Args:
        patience: words that each network may read.
        after: called with each network after each call of its kernel.
        reference: a text that finds nodes in the table where this one puts them.
    """

    class Checked(Network):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self.arena, self.reference = Arena(), reference

            def prepared(subject: str) -> Any:
                if text is None:
                    return kernel(subject)
                run = functions(text, self.arena, patience).anneal

                def call(block: int) -> int:
                    with np.errstate(all="ignore"):
                        return run(block)

                return call

            with (
                mock.patch.object(network_module, "Block", block_in(self.arena)),
                mock.patch.object(network_module, "kernel", prepared),
            ):
                super().__init__(*arguments, **options)
            if after is not None:
                after(self)

        def _search(self, *arguments: Any) -> int:
            tried = super()._search(*arguments)
            if after is not None:
                after(self)
            return tried

    with mock.patch("accumulus.rewriting.optimise.Network", Checked), mock.patch(f"{__name__}.Network", Checked):
        yield


def state(network: Any) -> dict[int, Any]:
    """All that a network holds, without addresses and the log of writes."""
    block = network._block
    pointers = set(block._arrays)
    found = {place: block.array(place).copy() for place in pointers - {slot.LOG}}
    found[-1] = [int(value) for place, value in enumerate(block.integers) if place not in pointers]
    return found


def check(network: Any) -> None:
    """Assert all that is said of a network between two moves: counts, lists, table, cost, and that it has no circle."""
    block, values = network._block, network._values
    count = int(values[slot.NEXT])
    codes = block.array(slot.CODES)[:count].tolist()
    rows = block.array(slot.ARGUMENTS)[: 3 * count].reshape(-1, 3).tolist()
    signs, uses, heads, freed = (
        block.array(name)[:count].tolist() for name in (slot.SIGNS, slot.USES, slot.HEADS, slot.FREED)
    )
    nexts, previous = (block.array(name)[: 3 * count].tolist() for name in (slot.NEXTS, slot.PREVIOUS))
    prices, inputs = block.array(slot.WEIGHTS).tolist(), network._tape.inputs
    arity = {row.code: row.arity for row in OPERATIONS} | {slot.CONSTANT: 0, slot.OUTPUT: 1}
    live = [n for n in range(1, count) if uses[n]]
    first = int(values[slot.FIRST_OUTPUT])
    outputs = [n for n in live if codes[n] == slot.OUTPUT]
    assert outputs == [*range(first, first + len(network._tape.outputs))], "outputs live, and stay where they are"

    places: dict[int, list[int]] = {n: [] for n in live}
    for n in live:
        assert signs[n] in (-1, 1) or codes[n] == slot.OUTPUT
        assert not freed[n], f"node {n} is in use and free"
        for k in range(arity[codes[n]]):
            assert abs(rows[n][k]) in places, f"node {n} needs node {rows[n][k]}, which is dead"
            places[abs(rows[n][k])].append(3 * n + k)
    held = {*range(1, 4), *range(4, 4 + inputs), *outputs}
    held |= {abs(n) for n in block.array(slot.MEANINGS)[network._seeing].tolist()}  # for life
    for n in live:
        assert uses[n] == len(places[n]) + (n in held), f"uses of node {n}"
        listed, place, before = [], heads[n], 0
        while place:
            assert previous[place] == before, f"list of uses of node {n}"
            listed.append(place)
            assert len(listed) <= len(places[n]), f"list of uses of node {n}"
            place, before = nexts[place], place
        assert sorted(listed) == sorted(places[n]), f"list of uses of node {n}"

    definitions = Counter((codes[n], *rows[n]) for n in live if codes[n] != slot.OUTPUT)
    assert all(times == 1 for times in definitions.values()), "two nodes compute the same"
    table = [n for n in block.array(slot.TABLE).tolist() if n]
    assert sorted(table) == [n for n in live if codes[n] != slot.OUTPUT], "what the table holds"
    find = functions(network.reference, network.arena)
    for n in live:
        if codes[n] != slot.OUTPUT:
            assert find.lookup(block.address, codes[n], *rows[n]) == n, f"node {n} is not found"
    add, multiply = BY_NAME["add"].code, BY_NAME["multiply"].code
    # sums that take up a product which nothing else uses
    taking = [
        n for n in live if codes[n] == add and any(codes[abs(a)] == multiply and uses[abs(a)] == 1 for a in rows[n][:2])
    ]
    if values[slot.CREDIT]:
        assert [n for n in live if block.array(slot.FUSED)[n]] == taking, "sums with products"
    total = sum(prices[codes[n]] for n in live if codes[n] != slot.CONSTANT)
    assert values[slot.COST] == total - len(taking) * values[slot.CREDIT], "cost"
    free = block.array(slot.FREE)[: int(values[slot.FREE_COUNT])].tolist()
    assert sorted(free) == [n for n in range(1, count) if freed[n]], "free numbers"
    if first > 4 + inputs:  # else there is nothing to rewrite
        assert values[slot.LOGGED] == values[slot.TOUCHED_COUNT] == values[slot.QUEUED_COUNT] == 0
    assert not block.array(slot.QUEUED).any()

    frozen = {n: (codes[n], *rows[n]) for n in live if block.array(slot.FROZEN)[n]}
    assert frozen == vars(network).setdefault("frozen", frozen), "what must stay as it is"
    waiting = {n: arity[codes[n]] for n in live}
    ready = [n for n, number in waiting.items() if number == 0]
    for n in ready:
        for place in places[n]:
            waiting[place // 3] -= 1
            if waiting[place // 3] == 0:
                ready.append(place // 3)
    assert len(ready) == len(live), "a circle"
    for n in live:  # normal forms
        code, (a, b, _) = codes[n], rows[n]
        if code == add:
            assert 0 < a <= abs(b)
        elif code == multiply:
            assert 0 < a <= b
        elif code == BY_NAME["divide"].code:
            assert a > 0 < b
        elif code == BY_NAME["select"].code:
            assert a > 0
            assert b > 0
