"""Kernels run as Python from their texts, and what must be true of the optimiser's network after any move.

The texts of a kernel and of its parts are executed as modules of their own, so that texts that were changed run without
being compiled. The optimiser's kernel runs on memory that is checked.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest import mock

import numpy as np
from inside import BY_NAME, OPERATIONS, interpret

import accumulus
from accumulus.native.machine import kernel
from accumulus.native.state import Records
from accumulus.rewriting import optimise as network_module
from accumulus.rewriting.compiled.rewrite_nodes import CONSTANT, OUTPUT
from accumulus.rewriting.optimise import Network
from accumulus.tape.live import seeing_zero_signs

PACKAGE = Path(accumulus.__file__).parent


def texts(package: str, **modules: str) -> Mapping[str, str]:
    """The texts of compiled modules of a package, by a name for each, each after those that it imports."""
    folder = PACKAGE / package / "compiled"
    return {name: (folder / f"{module}.py").read_text(encoding="utf-8") for name, module in modules.items()}


#: The texts of the optimiser's kernel.
SOURCES = texts("rewriting", nodes="rewrite_nodes", kernel="rewrite_kernel")
#: Words that a network may read; what reads more does not end.
PATIENCE = 30_000_000


class OutOfMemory(Exception):
    """A kernel reached for memory that is not its own, or went on for ever."""


class Checked:
    """An array that is read and written from its beginning on, so many times.

    Args:
        words: a view of the array; where it ends, it raises `IndexError`.
        patience: how many more words of this and other arrays may be read, (1,).
    """

    def __init__(self, words: Any, patience: list[int]) -> None:
        self.words, self.patience = words, patience

    def _look(self, index: Any) -> None:
        self.patience[0] -= 1
        if self.patience[0] < 0 or (index if type(index) is int else min(index)) < 0:
            raise OutOfMemory(f"index {index}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            self._look(index.start)
            return Checked(self.words[index], self.patience)
        self._look(index)
        return self.words[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._look(index)
        self.words[index] = value


def changed(sources: Mapping[str, str], text: str, replacement: str) -> Mapping[str, str]:
    """The texts with another in place of one that is there once, and nowhere else."""
    results = [part for part, source in sources.items() for _ in range(source.count(text))]
    assert len(results) == 1, f"this text is in the kernel {len(results)} times: {text}"
    return {**sources, results[0]: sources[results[0]].replace(text, replacement)}


@cache
def _code(module: str, text: str) -> CodeType:
    return compile(text, f"{module.rpartition('.')[2]}.py", "exec")


def executed(package: str, sources: Mapping[str, str], prefix: str = "") -> Mapping[str, Any]:
    """The modules of a kernel's texts, which import each other."""
    made: dict[str, Any] = {part: ModuleType(f"accumulus.{package}.compiled.{prefix}{part}") for part in sources}
    with mock.patch.dict(sys.modules, {module.__name__: module for module in made.values()}):
        for part, text in sources.items():
            exec(_code(made[part].__name__, text), made[part].__dict__)
    return made


@contextmanager
def on_texts(
    user: ModuleType,
    package: str,
    sources: Mapping[str, str] | None,
    states: str,
    before: Callable[[Any], None] = lambda inside: None,
) -> Iterator[None]:
    """Let a module that calls kernels run them as Python on texts, or compiled if they are None.

    Args:
        user: module that has `kernel`, and the classes of states.
        package: package of the kernels.
        sources: texts of the modules; the last one has the functions that call kernels.
        states: names of the classes of states.
        before: called with what the kernel sees of a state.
    """
    if sources is None:
        yield
        return
    *_, entries = executed(package, sources).values()
    made: dict[int, Any] = {}

    def noted(kind: Any) -> Any:
        def state(**fields: Any) -> Any:
            one = kind(**fields)
            made[one.address] = one
            return one

        return state

    def prepared(subject: str) -> Any:
        entry = getattr(entries, f"run_{subject.rpartition('.')[2]}", None)

        def run(inside: Any) -> int:
            before(inside)
            with np.errstate(all="ignore"):
                return entry(inside)

        return kernel(subject) if entry is None else lambda address: interpret(run, made[address])

    kinds = {name: noted(getattr(user, name)) for name in states.split()}
    with mock.patch.multiple(user, kernel=prepared, **kinds):
        yield


def modules(sources: Mapping[str, str]) -> Mapping[str, Any]:
    """The modules of the optimiser's kernel."""
    return executed("rewriting", sources, "rewrite_")


@contextmanager
def running(
    sources: Mapping[str, str] | None,
    patience: int = PATIENCE,
    after: Callable[[Network], None] | None = None,
    reference: Mapping[str, str] = SOURCES,
) -> Iterator[None]:
    """Let networks run on a kernel's texts, or on the compiled kernel if they are None.

    Args:
        patience: words that each network may read.
        after: called with each network after each call of its kernel.
        reference: texts that find nodes in the table where these put them.
    """

    class Watched(Network):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self.reference, left = reference, [patience]

            def prepared(subject: str) -> Any:
                if sources is None:
                    return kernel(subject)
                run = modules(sources)["kernel"].run_rewrite

                def on_checked(inside: Any) -> int:
                    for name, value in vars(inside).items():
                        if isinstance(value, memoryview):
                            setattr(inside, name, Checked(value, left))
                        elif isinstance(value, Records):
                            value.words = Checked(value.words, left)
                    return run(inside)

                return lambda _: interpret(on_checked, self._state)

            with mock.patch.object(network_module, "kernel", prepared):
                super().__init__(*arguments, **options)
            if after is not None:
                after(self)

        def _search(self, *arguments: Any) -> int:
            tried = super()._search(*arguments)
            if after is not None:
                after(self)
            return tried

    with mock.patch("accumulus.rewriting.optimise.Network", Watched), mock.patch(f"{__name__}.Network", Watched):
        yield


def state(network: Any) -> dict[str, Any]:
    """All that a network holds, without the log of writes, and how many moves the clock has left to the last call."""
    values = {name: getattr(network._state, name) for name in network._state.fields if name not in ("log", "visits")}
    return {name: np.copy(value.words if isinstance(value, Records) else value) for name, value in values.items()}


def check(network: Any) -> None:
    """Assert all that is said of a network between two moves: counts, lists, table, cost, and that it has no cycle."""
    now = network._state
    count = now.next
    codes, rows = now.codes[:count].tolist(), now.arguments[:count].tolist()
    signs, uses, heads, freed = (array[:count].tolist() for array in (now.signs, now.uses, now.heads, now.freed))
    nexts, previous = (array[: 3 * count].tolist() for array in (now.nexts, now.previous))
    prices, inputs = now.weights.tolist(), network._tape.inputs
    arity = {row.code: row.arity for row in OPERATIONS} | {CONSTANT: 0, OUTPUT: 1}
    live = [n for n in range(1, count) if uses[n]]
    first = now.first_output
    outputs = [n for n in live if codes[n] == OUTPUT]
    assert outputs == [*range(first, first + len(network._tape.outputs))], "outputs live, and stay where they are"

    entries: dict[int, list[int]] = {n: [] for n in live}
    for n in live:
        assert signs[n] in (-1, 1) or codes[n] == OUTPUT
        assert not freed[n], f"node {n} is in use and free"
        for k in range(arity[codes[n]]):
            assert abs(rows[n][k]) in entries, f"node {n} needs node {rows[n][k]}, which is dead"
            entries[abs(rows[n][k])].append(3 * n + k)
    held = {*range(1, 4), *range(4, 4 + inputs), *outputs}
    held |= {abs(n) for n in now.meanings[seeing_zero_signs(network._tape)].tolist()}  # for life
    for n in live:
        assert uses[n] == len(entries[n]) + (n in held), f"uses of node {n}"
        listed, entry, before = [], heads[n], 0
        while entry:
            assert previous[entry] == before, f"list of uses of node {n}"
            listed.append(entry)
            assert len(listed) <= len(entries[n]), f"list of uses of node {n}"
            entry, before = nexts[entry], entry
        assert sorted(listed) == sorted(entries[n]), f"list of uses of node {n}"

    definitions = Counter((codes[n], *rows[n]) for n in live if codes[n] != OUTPUT)
    assert all(times == 1 for times in definitions.values()), "two nodes compute the same"
    defined = [n for n in live if codes[n] != OUTPUT]
    assert sorted(n for n in now.table.tolist() if n) == defined, "what the table holds"
    lookup = modules(network.reference)["nodes"].lookup
    assert not interpret(lambda inside: sum(lookup(inside, codes[n], *rows[n]) != n for n in defined), now), (
        "nodes that are not found"
    )
    add, multiply = BY_NAME["add"].code, BY_NAME["multiply"].code
    # sums that take up a product which nothing else uses
    taking = [
        n for n in live if codes[n] == add and any(codes[abs(a)] == multiply and uses[abs(a)] == 1 for a in rows[n][:2])
    ]
    if now.credit:
        assert [n for n in live if now.fused[n]] == taking, "sums with products"
    total = sum(prices[codes[n]] for n in live if codes[n] != CONSTANT)
    assert now.cost == total - len(taking) * now.credit, "cost"
    free = now.free[: now.free_count].tolist()
    assert sorted(free) == [n for n in range(1, count) if freed[n]], "free numbers"
    if first > 4 + inputs:  # else there is nothing to rewrite
        assert now.logged == now.touched_count == now.queue_count == 0
    assert not now.queued.any()

    frozen = {n: (codes[n], *rows[n]) for n in live if now.frozen[n]}
    assert frozen == vars(network).setdefault("frozen", frozen), "what must stay as it is"
    waiting = {n: arity[codes[n]] for n in live}
    ready = [n for n, number in waiting.items() if number == 0]
    for n in ready:
        for entry in entries[n]:
            waiting[entry // 3] -= 1
            if waiting[entry // 3] == 0:
                ready.append(entry // 3)
    assert len(ready) == len(live), "a cycle"
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
