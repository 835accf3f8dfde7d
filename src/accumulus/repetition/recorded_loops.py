"""Loops that a recorder found while it recorded them: one iteration as a body, with the operands of all iterations.

A recorder that has seen some equal iterations records the others by their data alone. Their values have references in
advance: those that iteration `k` computes are consecutive, from ``start + k * size`` on. In the program the loop is one
call of a `RecordedLoop`, which `with_recurrences` replaces by a recurrence once it is known which values are used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.repetition.iterations import FEWEST_BLOCKS, FEWEST_WITH_CALLS, Repeated, apart, is_called
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.interpreter import Copy, copied, outputs_at
from accumulus.tape.moving import Moving, replayed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ADD: Final = BY_NAME["add"].code
#: Least number of iterations that are written as a recurrence: fewer take longer to prepare than their operations.
FEWEST: Final = 16
#: Least number of operations before a recurrence that are instances of their own: fewer take longer in memory than they
#: gain as independent ones.
FEWEST_APART: Final = 8
#: Largest number of references of the values of all iterations: more take memory, fewer leave more loops to be called.
MOST_REFERENCES: Final = 50_000_000
#: Reference of results that are not written.
UNWRITTEN: Final = np.iinfo(np.int64).min


class RecordedLoop:
    """A loop as a function of all values from outside that its iterations take, iteration after iteration.

    Args:
        body: one iteration, as operations on numbers or on arrays; its outputs are different operations.
        own: for each iteration and input of the body, the position of an earlier result of the loop (results of each
            iteration are consecutive), or -1 for a value from outside, (iterations, inputs).
        again: references of values that were recorded before the loop, with the positions of the same results.
    """

    def __init__(self, body: Tape | Program, own: Integers, again: Mapping[int, int]) -> None:
        self.body, self.own, self.again = body, own, again
        self.count, self.size = len(own), len(body.outputs)
        self.name = f"a loop of {self.count:,} iterations"
        self.argument_count, self.result_count = own.size, self.count * self.size

    @property
    def operations(self) -> int:
        """Number of operations of all iterations."""
        return self.count * self.body.operations

    def __call__(self, numbers: Floats) -> Floats:
        """Return all results; the first number is the condition of calls, see `accumulus.tape.blocks.Opaque`."""
        program = Program(self.argument_count)
        inputs = np.arange(self.argument_count).reshape(self.own.shape)
        program.outputs = self.write(program, inputs, np.ones((self.count, self.size), bool))
        return outputs_at(program, numbers[np.newaxis, 1:])[:, 0]

    @property
    def derivative(self) -> NoReturn:
        """Raise an error, since derivatives are those of the recurrence."""
        raise SizeError(f"{self.name} is not written as a recurrence yet")

    def write(self, made: Program, outside: Integers, is_used: NDArray[np.bool_]) -> Integers:
        """Write the loop, and return the references of its results, `UNWRITTEN` for those that nothing uses.

        Args:
            made: program to write to.
            outside: references of the values from outside, in the places of `own`.
            is_used: mask of the results that are used outside, (iterations, results).
        """
        if isinstance(self.body, Program):
            return _with_arrays(self, self.body, made, outside, is_used)
        results, body = np.full((self.count, self.size), UNWRITTEN), self.body
        chosen = self._computed(body, np.flatnonzero(is_used.any(axis=0)).tolist())
        outputs = [body.outputs[slot] for slot in chosen]
        if self.count < FEWEST:
            taken, part = _part(body, outputs, ())
            for k in range(self.count):
                own = self.own[k, taken]
                inputs = np.where(own < 0, outside[k, taken], results.reshape(-1)[own])
                results[k, chosen] = copied(part, made, inputs.tolist())
            return results.reshape(-1)
        parts = _Parts(self, body, made, outside, chosen, is_used)
        parts.write()
        for slot, output in zip(chosen, outputs, strict=True):
            if output in parts.values:
                results[:, slot] = parts.values[output]
        for output, total in parts.totals.items():
            results[-1, body.outputs.index(output)] = total
        return results.reshape(-1)

    def _computed(self, body: Tape, slots: list[int]) -> list[int]:
        """Return the results of an iteration that some results need, in all iterations, in order."""
        chosen: set[int] = set()
        while chosen != {*chosen, *slots}:
            chosen |= {*slots}
            taken, _ = _part(body, [body.outputs[slot] for slot in sorted(chosen)], ())
            own = self.own[:, taken]
            slots = np.unique(own[own >= 0] % self.size).tolist()
        return sorted(chosen)


def _part(body: Tape, outputs: Sequence[int], known: Collection[int]) -> tuple[list[int], Tape]:
    """Return the part of a body that computes some values from others, and the references of its inputs.

    Args:
        body: the body.
        outputs: references of the values.
        known: references of values that are inputs of the part, besides the inputs of the body.
    """
    needed: set[int] = set()
    taken: set[int] = set()
    waiting = [*outputs]
    while waiting:
        reference = waiting.pop()
        if reference in known or 0 <= reference < body.inputs:
            taken.add(reference)
        elif reference >= 0 and reference not in needed:
            needed.add(reference)
            waiting += body.arguments(reference)
    inputs = sorted(taken)
    part = Tape(len(inputs), signed_zeros=body.signed_zeros)
    writing = Copy(body, part, {reference: k for k, reference in enumerate(inputs)})
    for reference in sorted(needed):
        writing.record(reference)
    part.outputs = [writing[output] for output in outputs]
    return inputs, part


class _Parts:
    """A loop while it is written in parts: what does not change, independent instances, a recurrence, and sums.

    Args:
        loop: the loop.
        body: its body.
        made: program to write to.
        outside: references of the values from outside, in the places of ``loop.own``.
        chosen: positions of the results to write.
        is_used: mask of the results that are used outside, (iterations, results).

    Attributes:
        values: references in `made` of values of the body in all iterations, by their references in the body.
        totals: references of values that are sums over all iterations, after the last one.
    """

    def __init__(
        self,
        loop: RecordedLoop,
        body: Tape,
        made: Program,
        outside: Integers,
        chosen: Sequence[int],
        is_used: NDArray[np.bool_],
    ) -> None:
        self.loop, self.made, self.body, self.count = loop, made, body, loop.count
        self.own, self.outside, self.chosen, self.is_used = loop.own, outside, chosen, is_used
        self.taken, _ = _part(self.body, [self.body.outputs[slot] for slot in chosen], ())
        self.carried = [k for k in self.taken if (self.own[:, k] >= 0).any()]
        self.values: dict[int, Integers] = {}
        places: dict[bytes, Integers] = {}
        for k in {*self.taken} - {*self.carried}:  # equal columns are one
            references = np.ascontiguousarray(outside[:, k])
            self.values[k] = places.setdefault(references.tobytes(), references)
        self.totals: dict[int, int] = {}

    def write(self) -> None:
        """Write all parts."""
        body = self.body
        sums = self._sums()
        recurrent = {k for k in self.carried if k not in {begin for begin, _ in sums.values()}}
        slots = {
            int(slot) for k in recurrent for slot in np.unique(self.own[:, k][self.own[:, k] >= 0] % self.loop.size)
        }
        handed_on = [body.outputs[slot] for slot in sorted(slots)]
        others = [body.outputs[slot] for slot in self.chosen if slot not in slots and body.outputs[slot] not in sums]
        ends = [*handed_on, *others, *(term for _, term in sums.values())]
        self._write_invariants(ends)
        depends = self._depending(recurrent)
        inside = self._needed(handed_on)
        first = [k for k in inside if k not in depends]
        if len(first) >= FEWEST_APART:
            self._write_instances(self._crossing(first, [k for k in inside if k in depends]))
        if recurrent:
            after = self._needed([end for end in ends if end >= body.inputs])
            crossing = self._crossing([k for k in inside if k in depends], [k for k in after if k not in inside])
            ends_inside = [end for end in others if end in inside]
            self._write_recurrence(sorted({*handed_on, *crossing, *ends_inside}), recurrent)
        self._write_instances([end for end in ends if end not in self.values])
        if sums:
            added = [
                np.append(
                    self.outside[0, begin],
                    self.values[term] if term >= 0 else np.full(self.count, self.made.constant(body.value_of(term))),
                )
                for begin, term in sums.values()
            ]
            offsets = np.arange(len(sums) + 1) * (self.count + 1)
            self.totals |= zip(sums, self.made.sums(np.concatenate(added), offsets).tolist(), strict=True)

    def _sums(self) -> dict[int, tuple[int, int]]:
        """Return values that are sums over the iterations so far, with the input of the last sum, and the term."""
        body, turns = self.body, np.arange(self.count)
        needed = self._needed([body.outputs[slot] for slot in self.chosen])
        uses = Counter(a for k in needed for a in body.arguments(k))
        sums = {}
        for k in self.carried:
            slot = int(self.own[-1, k] % self.loop.size)
            if (self.own[:, k] != np.where(turns > 0, (turns - 1) * self.loop.size + slot, -1)).any():
                continue
            total = body.outputs[slot]
            terms = [*body.arguments(total)]
            is_sum = body.codes[total] == _ADD and terms.count(k) == 1 and uses[k] == 1 and not uses[total]
            if is_sum and not self.is_used[:-1, slot].any():
                terms.remove(k)
                sums[total] = k, terms[0]
        return sums

    def _needed(self, ends: Iterable[int]) -> list[int]:
        """Return the operations that values need and that are not written, in order."""
        needed: set[int] = set()
        waiting = [*ends]
        while waiting:
            k = waiting.pop()
            if k >= self.body.inputs and k not in needed and k not in self.values:
                needed.add(k)
                waiting += self.body.arguments(k)
        return sorted(needed)

    def _depending(self, inputs: Collection[int]) -> set[int]:
        """Return the operations that depend on some inputs."""
        depends = {*inputs}
        for k in range(self.body.inputs, len(self.body)):
            if not depends.isdisjoint(self.body.arguments(k)):
                depends.add(k)
        return depends

    def _crossing(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """Return the operations of the first part that the second one takes.

        Truth values, which a body would take as numbers, are computed again.
        """
        computed, taken = {*first}, set[int]()
        waiting = [a for k in second for a in self.body.arguments(k)]
        seen: set[int] = set()
        while waiting:
            k = waiting.pop()
            if k in computed and k not in seen:
                seen.add(k)
                if self.body.is_boolean(k):
                    waiting += self.body.arguments(k)
                else:
                    taken.add(k)
        return sorted(taken)

    def _write_invariants(self, ends: Sequence[int]) -> None:
        """Write what all iterations compute from the same values once."""
        same = {k for k in self.values if (self.values[k] == self.values[k][0]).all()}
        needed = self._needed(ends)
        for k in needed:
            if all(a < 0 or a in same for a in self.body.arguments(k)):
                same.add(k)
        found = self._crossing([k for k in needed if k in same], [k for k in needed if k not in same])
        inputs, part = _part(self.body, found, ())
        values = copied(part, self.made, [int(self.values[k][0]) for k in inputs])
        self.values |= {k: np.full(self.count, value) for k, value in zip(found, values, strict=True)}

    def _write_instances(self, outputs: Sequence[int]) -> None:
        """Write independent instances, which compute values for all iterations."""
        if not outputs:
            return
        inputs, part = _part(self.body, outputs, self.values)
        produced = self.made.loop(part, [column(self.values[k]) for k in inputs], self.count)
        self.values |= {k: references_in(each) for k, each in zip(outputs, produced, strict=True)}

    def _write_recurrence(self, outputs: Sequence[int], recurrent: Collection[int]) -> None:
        """Write the recurrence that computes values; its `recurrent` inputs are values of earlier iterations."""
        inputs, part = _part(self.body, outputs, self.values)
        positions = {self.body.outputs[slot]: slot for slot in self.chosen}
        results = np.full((self.count, self.loop.size), UNWRITTEN)

        def earlier(k: int) -> Integers:
            own = self.own[:, k]
            return np.where(own < 0, self.outside[:, k], results.reshape(-1)[own])

        def operands(ranges: list[Range]) -> Sequence[Column]:
            for output, produced in zip(outputs, ranges, strict=True):
                self.values[output] = produced.references
                if output in positions:
                    results[:, positions[output]] = produced.references
            columns = [earlier(k) if k in recurrent else self.values[k] for k in inputs]
            return [column(np.ascontiguousarray(each)) for each in columns]

        self.made.scan(part, operands, np.arange(self.count + 1))
        self.values |= {k: earlier(k) for k in recurrent}


def _with_arrays(
    loop: RecordedLoop, body: Program, made: Program, outside: Integers, is_used: NDArray[np.bool_]
) -> Integers:
    """Write a loop over arrays as a call, or its iterations one after the other; see `RecordedLoop.write`."""
    results, count, size = np.full((loop.count, loop.size), UNWRITTEN), loop.count, loop.size
    chosen, taken = _computed_by_arrays(loop, body, is_used)
    totals = _totals_of_arrays(loop, body, taken, is_used)
    if totals is not None and count * len(body) <= MOST_REFERENCES:
        ends = [int(body.outputs[slot]) for slot in chosen if slot not in totals]
        values = _instances_of_arrays(body, made, [*ends, *(term for _, term in totals.values())], outside)
        if values is not None:
            results[:, [slot for slot in chosen if slot not in totals]] = values[:, : len(ends)]
            begins = [begin for begin, _ in totals.values()]
            added = np.concatenate([outside[:1, begins], values[:, len(ends) :]]).T
            if len(totals):
                results[-1, [*totals]] = made.sums(added.reshape(-1), np.arange(len(totals) + 1) * (count + 1))
            return results.reshape(-1)
    own, outside = loop.own[:, taken], outside[:, taken]
    slots = own[-1] % size
    before = np.arange(-1, count - 1)[:, np.newaxis] * size + slots
    is_carried = (own >= 0).any(axis=0)
    is_regular = ((own == np.where(before < 0, -1, before)) | ~is_carried).all()
    fewest = FEWEST_WITH_CALLS if any(map(is_called, body.blocks)) else FEWEST_BLOCKS
    if not is_regular or count * len(body.blocks) < fewest:
        reduced = copy(body)
        reduced.outputs = body.outputs[chosen]
        inputs = np.full(body.inputs, made.constant(0.0))
        for k in range(count):
            inputs[taken] = np.where(own[k] < 0, outside[k], results.reshape(-1)[own[k]])
            results[k, chosen] = replayed(reduced, made, inputs, joins=True)
        return results.reshape(-1)
    varies = ~is_carried & (outside != outside[0]).any(axis=0)
    parts = [np.flatnonzero(each) for each in (is_carried, varies, ~is_carried & ~varies)]
    carry, varying, common = parts
    every = np.flatnonzero(is_used[:-1].any(axis=0))
    final = np.setdiff1d(np.flatnonzero(is_used[-1]), every)
    whole = Program(len(taken))
    inputs = np.full(body.inputs, whole.constant(0.0))
    inputs[taken[np.concatenate(parts)]] = np.arange(len(taken))
    reduced = copy(body)
    reduced.outputs = body.outputs[np.concatenate([slots[carry], every, final])]
    whole.outputs = replayed(reduced, whole, inputs)
    sizes = len(carry), len(varying), len(common)
    repeated = Repeated(whole, count, sizes, (len(every), len(final)))
    arguments = np.concatenate([outside[0, carry], outside[:, varying].reshape(-1), outside[0, common]])
    produced = made.call(repeated, np.append(made.constant(1.0), apart(made, arguments)))
    results[:, every] = produced[: count * len(every)].reshape(count, -1)
    results[-1, final] = produced[count * len(every) :]
    return results.reshape(-1)


def _totals_of_arrays(
    loop: RecordedLoop, body: Program, taken: Integers, is_used: NDArray[np.bool_]
) -> dict[int, tuple[int, int]] | None:
    """Return results that are sums over the iterations so far: result → input with the last sum, and the term.

    None if iterations take other values of earlier ones.
    """
    uses: Counter[int] = Counter()
    for block in body.blocks:
        if block.body is None or block.count > 1:
            uses.update(reference for each in block.operands for reference in references_in(each).tolist())
        else:  # scalar operations, which take inputs and each other within the body
            places = [int(references_in(each)[0]) for each in block.operands]
            outputs = {output: block.start + k for k, output in enumerate(block.body.outputs)}
            for k in range(block.body.inputs, len(block.body)):
                taken_here = [a for a in block.body.arguments(k) if a >= 0]
                uses.update(places[a] if a < block.body.inputs else outputs.get(a, -1) for a in taken_here)
    totals, before = {}, np.arange(-1, loop.count - 1) * loop.size
    for k in taken.tolist():
        own = loop.own[:, k]
        if (own < 0).all():
            continue
        slot = int(own[-1] % loop.size)
        total = int(body.outputs[slot])
        terms = [*body.arguments(total)]
        is_sum = body.operation(total).name == "add" and terms.count(k) == 1 and uses[k] == 1 and not uses[total]
        if not is_sum or is_used[:-1, slot].any() or (own != np.where(before < 0, -1, before + slot)).any():
            return None
        terms.remove(k)
        totals[slot] = k, terms[0]
    return totals


def _instances_of_arrays(body: Program, made: Program, ends: Sequence[int], outside: Integers) -> Integers | None:
    """Write the blocks of a program once for all iterations, and return the references of values, (iterations, values).

    What is the same in all iterations is computed once. None for programs with recurrences or matrices.
    """
    reduced = copy(body)
    reduced.outputs = np.array(ends, np.int64)
    needed = [block for block, is_needed in zip(body.blocks, reduced.needed(), strict=True) if is_needed]
    if any(block.shape is not None or (block.steps is not None and len(block.steps) > 2) for block in needed):
        return None
    count, constants = len(outside), made.constant_array(np.append(0.0, body.constants[::-1]))
    table = np.empty((count, len(body)), np.int64)
    table[:, : body.inputs] = outside

    def at(operands: Column) -> Integers:
        references = references_in(operands)
        return np.where(references < 0, constants[np.minimum(references, -1)], table[:, references])

    for block in needed:
        operands = [at(each) for each in block.operands]
        if all((each == each[:1]).all() for each in operands):
            operands = [each[:1] for each in operands]
        columns, times = [column(np.ascontiguousarray(each).reshape(-1)) for each in operands], len(operands[0])
        if block.body is not None:
            produced = [references_in(each) for each in made.loop(block.body, columns, times * block.count)]
            rows = np.concatenate([each.reshape(times, -1) for each in produced], axis=1)
        elif block.offsets is not None:
            shifts = np.arange(times)[:, np.newaxis] * block.offsets[-1]
            offsets = np.append((shifts + block.offsets[:-1]).reshape(-1), times * block.offsets[-1])
            rows = made.sums(references_in(columns[0]), offsets).reshape(times, -1)
        else:
            rows = made.apply_code(block.code, columns).references.reshape(times, -1)
        table[:, block.start : block.start + block.size] = rows
    return at(np.array(ends, np.int64))


def _computed_by_arrays(loop: RecordedLoop, body: Program, is_used: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Return the results of an iteration that some results need, in all iterations, and the inputs that these take."""
    reduced, chosen = copy(body), np.flatnonzero(is_used.any(axis=0))
    while True:
        reduced.outputs = body.outputs[chosen]
        needed = [block for block, is_needed in zip(body.blocks, reduced.needed(), strict=True) if is_needed]
        columns = [np.empty(0, np.int64), *(references_in(each) for block in needed for each in block.operands)]
        taken = np.unique(np.concatenate(columns))
        taken = taken[(taken >= 0) & (taken < body.inputs)]
        own = loop.own[:, taken]
        more = np.union1d(chosen, own[own >= 0] % loop.size)
        if len(more) == len(chosen):
            return chosen, taken
        chosen = more


def _used(program: Program) -> NDArray[np.bool_]:
    """Return the mask of the values that outputs need, where loops compute again what was recorded before them."""
    is_used = np.zeros(len(program), bool)

    def use(references: Integers) -> None:
        is_used[references[references >= 0]] = True

    use(program.outputs)
    for block in reversed(program.blocks):
        loop = block.opaque
        if isinstance(loop, RecordedLoop):
            again, places = np.array([*loop.again.items()], np.int64).reshape(-1, 2).T
            is_used[block.start + places[is_used[again]]] = True
            is_used[again] = False
        if is_used[block.start : block.start + block.size].any():
            for operands in block.operands:
                use(references_in(operands))
    return is_used


def with_recurrences(program: Program) -> Program:
    """Return the program with recurrences in place of its calls of recorded loops."""
    if not any(isinstance(each, RecordedLoop) for each in program.calls):
        return program
    is_used = _used(program)
    made = Program(program.inputs, signed_zeros=program.signed_zeros)
    moving = Moving(program, made, np.arange(program.inputs))
    for block, lines in zip(program.blocks, program.lines, strict=True):
        used = is_used[block.start : block.start + block.size]
        loop = block.opaque
        if not used.any():
            continue
        with made.located(lines):
            if isinstance(loop, RecordedLoop):
                outside = moving.at(references_in(block.operands[0]))[1:].reshape(loop.own.shape)
                results = loop.write(made, outside, used.reshape(loop.count, loop.size))
                written = np.flatnonzero(results != UNWRITTEN)
                moving.note_each(block.start + written, results[written])
                again = [(one, results[k]) for one, k in loop.again.items() if results[k] != UNWRITTEN]
                if again:
                    moving.note_each(*np.array(again, np.int64).T)
            elif block.body is not None and block.count == 1:
                places = np.flatnonzero(used)
                inputs, part = _part(block.body, [block.body.outputs[k] for k in places.tolist()], ())
                columns = [moving.column_at(block.operands[k]) for k in inputs]
                produced = [references_in(each)[0] for each in made.loop(part, columns, 1)]
                moving.note_each(block.start + places, np.array(produced, np.int64))
            else:
                moving.copy(block)
    made.outputs = moving.at(program.outputs)
    made.unrolled, made.copies = program.unrolled, program.copies
    made.is_long = program.is_long
    made.folded_zero_signs, made.has_linear_algebra = program.folded_zero_signs, program.has_linear_algebra
    return made
