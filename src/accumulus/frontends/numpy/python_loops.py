"""Loops of Python that repeat the same operations: some iterations are recorded, the others by their data alone.

After two iterations with equal events there is a body of the loop (`accumulus.frontends.numpy.iteration_bodies`). From
then on events are not recorded. Their operands are compared with those that are expected, numbers and references that
vary are kept, and the results have references in advance. The function runs as before, since these are references of
traced values as any other. Whatever is not expected ends the loop: the program gets a call of a
`accumulus.repetition.recorded_loops.RecordedLoop`, and recording goes on as usual.

The program ends such a loop itself before anything else is recorded on it, and before its blocks are read
(`Program.promised`), so that no operation is missed.

If iterations decide in different ways on numbers, the decision becomes a traced truth value, and both branches are
recorded, as for decisions on traced values. New facts like this one begin the recording anew, so that nearly all
iterations are in one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import ACTIVE, LoopFactError
from accumulus.frontends.inner import LongBodyError
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.iteration_bodies import (
    NUMBERS,
    Expected,
    FactsOfLoop,
    InputKind,
    Iteration,
    IterationBody,
    RecordedCall,
    SingleOperand,
    Site,
    UnfitError,
    append_leaves,
    are_same_numbers,
    decision,
    is_number,
    is_silent,
    kept,
    listed_entries,
    rebuilt,
)
from accumulus.frontends.numpy.journal import STATE
from accumulus.frontends.numpy.merging import Merge, mergeable
from accumulus.frontends.numpy.scalars import TracedScalar
from accumulus.repetition.recorded_loops import RecordedLoop
from accumulus.tape.program import Program

#: Least number of iterations, and of operations in all of them, from which on a loop is recorded as one. Fewer leave
#: recurrences that take longer than straight-line code, more write out long loops.
FEWEST: Final = 16
FEWEST_OPERATIONS: Final = 1_000
#: Number of operations of a loop from which on its iterations are expected to go on, if their number is not known. With
#: fewer, more short loops are found to be short at their end, and written out then; more write out more iterations.
FEWEST_WITHOUT_END: Final = 1_000
#: Largest number of times that a loop ends before its last iteration: more try again where iterations differ often,
#: fewer write out loops of few different parts.
MOST_ENDINGS: Final = 8
#: Largest number of recordings that begin anew because of new facts, and of facts: more record functions whose
#: iterations differ several times, fewer leave loops of several parts.
MOST_RECORDINGS: Final = 8
MOST_KNOWN: Final = 100

Integers = NDArray[np.int64]
_CONDITIONS: Final = NUMBERS | {bool}
_FOLDED: Final = (float, np.float64)


class PythonLoop:
    """A loop of Python while it runs.

    Args:
        program: program that is recorded.
        length: number of iterations; None if it is not known.
        facts: what is known of it from an earlier recording, or another run.
    """

    def __init__(self, program: Program, length: int | None, facts: FactsOfLoop) -> None:
        self.program, self.length, self.facts = program, length, facts
        self._around = ACTIVE.loop
        self._turns = self._endings = 0
        #: Decisions of the present iteration and of the last one, by their position in the source.
        self._answers: dict[Site, list[bool]] = {}
        self._before: dict[Site, list[bool]] = {}
        #: The iteration whose events are kept, if any; the last complete ones; the first one, if its events were kept;
        #: and the length of the program before the iteration, and after the last event.
        self._recorded: Iteration | None = None
        self._complete: list[Iteration] = []
        self._first: Iteration | None = None
        self._start = self._end = len(program)
        self._grown = 0  # number of operations of the last iteration with any
        self._is_inside = False  # of an event
        # while iterations are expected: the body, the number of complete iterations, the position of the next event,
        # and numbers and references that vary, a row for each iteration
        self._body: IterationBody | None = None
        self._count = self._position = 0
        self._numbers: list[list[float]] = []
        self._references: list[list[int]] = []

    # Iterations -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Begin an iteration."""
        self._turns += 1
        for site in self._answers.keys() & self._before.keys():
            if self._answers[site] != self._before[site]:
                self._note_undecided(site)
        if self._turns == 2:  # what is decided in another way at first alone has no part in all others
            self._answers = {}
        self._before, self._answers = self._answers or self._before, {}
        if self._body is not None:
            if self._position == len(self._body.events):
                self._count += 1
                self._position = 0
                return
            if not self._position:  # without events, as if it were none
                return
            self.close()
        grown, self._start = len(self.program) - self._start, len(self.program)
        self._grown = grown or self._grown
        if self._recorded is None:
            self._complete = [] if grown else self._complete
        elif grown or self._recorded.events or not self._recorded.is_fit:
            is_fit = self._recorded.is_fit and len(self.program) == self._end and not ACTIVE.merging
            self._complete = [*self._complete[-1:], self._recorded] if is_fit else []
            self._endings += not is_fit
            self._first = self._recorded if is_fit and self._turns == 2 else self._first
        self._recorded = None
        is_first = self._turns == 1 and self._around is None and self.length is not None
        if self._endings >= MOST_ENDINGS or not (is_first or (self._turns > 1 and self._are_many(self._grown))):
            ACTIVE.loop = self._around
        elif not self._begins():
            self._recorded, self._end, ACTIVE.loop = Iteration(len(self.program)), len(self.program), self

    def _are_many(self, operations: int) -> bool:
        """Return True if iterations of so many operations take so long that the next ones should not be recorded."""
        if self.length is None:
            return operations * self._turns >= FEWEST_WITHOUT_END
        return operations * (self.length - self._turns) >= FEWEST_OPERATIONS

    def _begins(self) -> bool:
        """Expect the next iterations to be like the last ones, if these are alike; return False otherwise."""
        if len(self._complete) < 2 or not self._complete[0].is_like(self._complete[1]):
            return False
        refusal, ACTIVE.loop = ACTIVE.refusal, None
        try:
            first = self._first if self._turns == 4 else None
            self._body = IterationBody(self.program, self._complete[0], self._complete[1], self.facts, first)
        except (LongBodyError, Exception):  # recorders raise what they like where numbers have become values
            if self._complete[0] is self._first:  # which may differ from all others
                del self._complete[0]
                return False
            self._endings = MOST_ENDINGS
            ACTIVE.loop = self._around
            return True
        finally:
            ACTIVE.refusal = refusal
        self.program.begin_loops()
        self._count = self._position = 0
        self._numbers, self._references, self._complete = [], [], []
        self.program.promised = ACTIVE.loop = self
        return True

    def end(self) -> None:
        """End the loop."""
        if ACTIVE.tape is not self.program:  # an exception has ended the recording, and Python its generator later
            return
        if self._body is not None:
            self.close()
        ACTIVE.loop = self._around

    # Decisions on numbers ---------------------------------------------------------------------------------------------

    def decided(self, site: Site, answer: bool, merged: Site) -> Any:
        """Return the answer of a decision on numbers, or a traced truth value if iterations decide in different ways.

        Args:
            site: position of the decision.
            answer: the answer.
            merged: position of the statement or expression that decides.
        """
        answers = self._answers.setdefault(site, [])
        answers.append(answer)
        if self._body is not None and site not in self.facts.undecided:
            before = self._before.get(site, [])
            if len(answers) > len(before) or before[len(answers) - 1] != answer:
                self._note_undecided(site)
                self._begin_anew()
                self.close()
        is_traced = site in self.facts.undecided and mergeable(merged) and not STATE.failures.get(merged, 0)
        return self.recorded(self.program, decision, float(not answer)) if is_traced and not self._is_inside else answer

    def _note_undecided(self, site: Site) -> None:
        if site not in self.facts.undecided:
            self.facts.undecided.add(site)
            self.facts.known.clear()  # since there will be other events

    def _begin_anew(self) -> None:
        """Begin the recording anew, with new facts, unless most iterations have been recorded.

        Raises:
            LoopFactError: to do so.
        """
        self._endings -= 1
        is_early = self.length is not None and 2 * self._turns < self.length
        if is_early and self.facts.recordings < MOST_RECORDINGS and not ACTIVE.trying:
            self.facts.recordings += 1
            raise LoopFactError

    # Events -----------------------------------------------------------------------------------------------------------

    def recorded(self, tape: Any, record: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of ``record(tape, *arguments)``, which is recorded unless it was expected."""
        if self._is_inside or tape is not self.program:
            return record(tape, *arguments)
        if self._body is not None:
            result = self._expected(self._body, record, arguments)
            return record(tape, *arguments) if result is None else result
        iteration = self._recorded
        if iteration is None or not iteration.is_fit:
            return record(tape, *arguments)
        form: list[Any] = []
        leaves: list[Any] = []
        iteration.is_fit = len(tape) == self._end
        try:
            append_leaves(tape, arguments, form, leaves)
        except UnfitError:
            form.clear()
        before = [*map(kept, leaves)]
        self._is_inside = True
        try:
            result = record(tape, *arguments)
        finally:
            self._is_inside = False
        if type(result) in _FOLDED and any(not is_number(leaf) for leaf in leaves):
            # a constant in this iteration, since data are 0 or 1
            program: Any = tape
            result = TracedScalar(program, program.constant(float(result)))
        if len(tape) > self._end or not is_silent(result, leaves):
            self._end = len(tape)
            try:
                if not form:
                    raise UnfitError
                iteration.events.append(RecordedCall(record, arguments, form, before, tape, result))
            except UnfitError:
                iteration.is_fit = False
        return result

    def _expected(self, body: IterationBody, record: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return the result of an event that was expected; None for any other call."""
        position, k = self._position, self._count
        tape: Any = self.program
        if position == len(body.events):
            return None
        event = body.events[position]
        if event.record is not record and event.record != record:
            return None
        single = body.single[position]
        if single is not None:
            made = self._single(body, event, single, arguments)
            if made is not None:
                return made
        leaves = event.leaves_of(tape, arguments)
        if leaves is None:
            return None
        numbers: list[float] = []
        references: list[int] = []
        for place, (leaf, expected) in enumerate(zip(leaves, body.expected[position], strict=True)):
            if not self._takes(leaf, expected, numbers, references):
                self._note_known(place, leaf)
                return None
        self._take(numbers, references)
        results = body.results[position]

        def make(like: Any, expected: Expected | None) -> Any:
            if expected is None:
                return like
            made = expected.at(k)
            return (
                type(like)(tape, made)
                if isinstance(made, int)
                else TracedArray(tape, made.copy(), boolean=like.boolean)
            )

        return rebuilt(event.result, iter(results), make)

    def _single(
        self, body: IterationBody, event: RecordedCall, single: tuple[SingleOperand, ...], arguments: tuple[Any, ...]
    ) -> Any:
        """Return the result of an expected event with single operands, as most are; None if it may be another one."""
        operands: Sequence[Any] = arguments
        if event.in_tuple:
            if arguments[0] is not event.arguments[0] or arguments[2]:
                return None
            operands = arguments[1]
        if len(operands) != len(single):
            return None
        tape, k = self.program, self._count
        numbers: list[float] = []
        references: list[int] = []
        operand: Any
        for operand, (kind, is_traced, varies, first, start, step) in zip(operands, single, strict=True):
            if type(operand) is not kind:
                return None
            if is_traced:
                if operand.tape is not tape:
                    return None
                reference = operand.reference
                if varies:
                    if reference >= body.base + k * body.size:
                        return None
                    references.append(reference)
                elif reference != (start + k * step if k else first):
                    return None
            elif varies:
                try:
                    numbers.append(float(operand))
                except OverflowError:  # an integer beyond the range of doubles
                    return None
            elif operand != first or not operand:  # zeros have signs
                return None
        self._take(numbers, references)
        (result,) = body.results[self._position - 1]
        assert result is not None
        return type(event.result)(tape, result.start + k * result.step if k else result.first)

    def _take(self, numbers: list[float], references: list[int]) -> None:
        """Keep the numbers and references that vary of an event, and go on to the next one."""
        if not self._position:
            self._numbers.append(numbers)
            self._references.append(references)
        else:
            self._numbers[-1] += numbers
            self._references[-1] += references
        self._position += 1

    def _takes(self, leaf: Any, expected: Expected, numbers: list[float], references: list[int]) -> bool:
        """Return True if a leaf is as expected, and add what varies to the numbers or references."""
        kind = type(leaf)
        if kind is int:
            if not expected.varies:
                return leaf == (wanted := expected.at(self._count)) or self._are_same(leaf, wanted)
            references.append(leaf)
            return self._is_earlier(leaf)
        if kind is float:
            if not expected.has_varying:
                return are_same_numbers(leaf, expected.first)
            numbers.append(leaf)
            return True
        fixed = ~expected.varies if expected.has_varying else ...
        if is_number(leaf):
            if expected.has_varying:
                numbers += leaf[expected.varies].tolist()
            return are_same_numbers(leaf[fixed], expected.first[fixed])
        wanted = expected.at(self._count)
        if expected.has_varying:
            taken = leaf[expected.varies]
            references += taken.tolist()
            if not self._is_earlier(taken):
                return False
        return not (leaf[fixed] != wanted[fixed]).any() or self._are_same(leaf[fixed], wanted[fixed])

    def _is_earlier(self, references: Any) -> bool:
        """Return True for references of constants, values from outside, and values of earlier iterations."""
        assert self._body is not None
        is_earlier = references < self._body.base + self._count * self._body.size
        return bool(is_earlier if type(references) is int else is_earlier.all())

    def _are_same(self, one: Any, other: Any) -> bool:
        """Return True for equal references, and for those of constants of one value, bit by bit."""
        one, other = np.atleast_1d(one), np.atleast_1d(other)
        differs = one != other
        if (one[differs] >= 0).any() or (other[differs] >= 0).any():
            return False
        values, expected = (self.program.values_of(each[differs]) for each in (one, other))
        return values.tobytes() == expected.tobytes()

    def _note_known(self, place: int, leaf: Any) -> None:
        """Note that numbers vary that were thought to be the same, or which values are taken instead of others."""
        body, at = self._body, (self._position, place)
        assert body is not None
        known: Any = True
        if not is_number(leaf):
            references = listed_entries(leaf)
            listed = self.facts.known.get(at) or [None] * len(references)
            wanted = listed_entries(body.expected[self._position][place].at(self._count))
            known = [
                before if one == other else body.source_at(one, self._count)
                for before, one, other in zip(listed, references, wanted, strict=True)
            ]
        if self.facts.known.get(at) != known and len(self.facts.known) < MOST_KNOWN:
            self.facts.known[at] = known
            if type(leaf) is float:  # what was the same number until now is likely to vary with it
                number = body.expected[self._position][place].first
                for k, event in enumerate(body.events):
                    self.facts.known |= {(k, other): True for other in event.positions_of(number)}
            self._begin_anew()

    # The end of the loop ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write the iterations so far to the program, which is recorded as usual from now on."""
        body, count, position = self._body, self._count, self._position
        assert body is not None
        self._body = self.program.promised = None
        self._count = self._position = 0
        self._endings += 1
        if position == len(body.events):
            count, position = count + 1, 0
        if count:
            self._write(body, 0, count)
        if position:
            self._write(body, count, 1)
        self._start = len(self.program)

    def _write(self, body: IterationBody, first: int, count: int) -> None:
        """Write some iterations as a call; values that the last one has not reached are not used."""
        program = self.program
        before = 0 if first else len(body.recorded)
        rows = np.array([*map(body.row_of, body.recorded[:before])], np.int64).reshape(before, len(body.inputs))
        outside = np.concatenate([rows, self._table(body, first, count)])
        start = body.base + (first - before) * body.size
        # values of the iterations that were recorded are computed again
        again: dict[int, int] = {}
        for k, iteration in enumerate(body.recorded[:before]):
            again |= {reference: k * body.size + slot for reference, slot in body.computed_by(iteration).items()}
        own = np.where(outside >= start, outside - start, -1)
        for place, each in enumerate(body.inputs):
            if each.kind is InputKind.CARRIED and before:
                turns = np.arange(1, len(outside))
                own[1:, place] = (turns - 1) * body.size + each.slot
            elif each.kind is InputKind.REFERENCE:
                taken = zip(outside[:, place].tolist(), own[:, place].tolist(), strict=True)
                own[:, place] = [again.get(reference, position) for reference, position in taken]
        condition, is_long = program.constant(1.0), program.is_long
        with program.located(frozenset().union(*(event.line for event in body.events))):
            loop = RecordedLoop(body.finished(), own, again)
            results = program.call(loop, np.append(condition, np.where(own < 0, outside, condition).reshape(-1)))
        program.is_long = is_long  # which depends on the operations of all loops
        assert results[0] == start

    def _table(self, body: IterationBody, first: int, count: int) -> Integers:
        """Return the references of the inputs of some iterations."""
        turns = np.arange(first, first + count)
        outside = np.empty((count, len(body.inputs)), np.int64)
        varying: list[tuple[InputKind, Sequence[Sequence[float]]]] = [
            (InputKind.NUMBER, self._numbers),
            (InputKind.REFERENCE, self._references),
        ]
        for kind, rows in varying:
            places = [k for k, each in enumerate(body.inputs) if each.kind is kind]
            table = np.zeros((count, len(places)), float if kind is InputKind.NUMBER else np.int64)
            for k, row in enumerate(rows[first : first + count]):
                table[k, : len(row)] = row
            for place, values in zip(places, np.ascontiguousarray(table.T), strict=True):
                outside[:, place] = self.program.constant_array(values) if kind is InputKind.NUMBER else values
        for place, each in enumerate(body.inputs):
            if each.kind is InputKind.COMMON:
                outside[:, place] = each.reference
            elif each.kind is InputKind.CARRIED:
                before = body.base + (turns - 1) * body.size + each.slot
                outside[:, place] = np.where(turns == 0, each.reference, before)
        return outside

    # What programs ask of values with references in advance -----------------------------------------------------------

    @property
    def base(self) -> int:
        """The first reference in advance."""
        assert self._body is not None
        return self._body.base

    def maker(self, reference: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the code and the arguments of a value's operation, see `Program.operation`.

        None if an argument has no reference.
        """
        body = self._body
        assert body is not None
        k, slot = divmod(reference - body.base, body.size)
        made = body.operations[slot]
        arguments = [self._reference_of(body, argument, k) for argument in body.tape.arguments(made)]
        if not arguments or None in arguments:
            return None
        return body.tape.operation(made).code, tuple([each for each in arguments if each is not None])

    def _reference_of(self, body: IterationBody, reference: int, k: int) -> int | None:
        """Return the reference in the program of a value of the body in iteration `k`; None if it has none."""
        if reference < 0:
            return self.program.constant(body.tape.value_of(reference))
        if reference >= body.tape.inputs:
            slot = body.slots.get(reference)
            return None if slot is None else body.base + k * body.size + slot
        taken = body.inputs[reference]
        if taken.kind is InputKind.CARRIED and k:
            return body.base + (k - 1) * body.size + taken.slot
        return taken.reference if taken.kind in (InputKind.CARRIED, InputKind.COMMON) else None


# Calls in transformed code --------------------------------------------------------------------------------------------


class _PlainLoop:
    """A loop that is recorded iteration by iteration."""

    def turn(self) -> None:
        """Begin an iteration."""

    def end(self) -> None:
        """End the loop."""


_PLAIN: Final = _PlainLoop()


def decided_here(site: Site, condition: Any, merged: Site | None = None, merge: Merge | None = None) -> Any:
    """Return a condition within a loop; as a traced truth value if iterations decide it in different ways.

    Args:
        site: position of the condition.
        condition: the condition.
        merged: position of the ``if`` statement, if it is part of one.
        merge: the statement, if it runs again for another branch. A condition has one truth value in all runs.
    """
    loop = ACTIVE.loop
    if loop is None or type(condition) not in _CONDITIONS:
        return condition
    if merge is None:
        return loop.decided(site, bool(condition), merged or site)
    if site not in merge.decided:
        merge.decided[site] = loop.decided(site, bool(condition), merged or site)
    return merge.decided[site]


def while_loop(site: Site) -> PythonLoop | _PlainLoop:
    """Return the loop of a ``while`` statement that begins."""
    return _begun(site, None) if _may_be_one() else _PLAIN


def iterations(site: Site, iterable: Iterable[Any]) -> Iterable[Any]:
    """Return the iterable of a ``for`` statement, whose iterations may be recorded as one."""
    if not _may_be_one():
        return iterable
    length = length_of(iterable)
    if length is not None and length < FEWEST:
        return iterable
    return _turns(iterable, _begun(site, length))


def _may_be_one() -> bool:
    """Return True if a loop that begins now may be recorded as one."""
    program = ACTIVE.tape
    return type(program) is Program and program.may_loop and not ACTIVE.merging and program.promised is None


def _begun(site: Site, length: int | None) -> PythonLoop:
    if ACTIVE.loop is not None:
        ACTIVE.loop.facts.has_loops = True
    return PythonLoop(ACTIVE.tape, length, ACTIVE.tape.loop_facts.setdefault(site, FactsOfLoop()))


def length_of(iterable: Any) -> int | None:
    """Return the number of items of an iterable, if it is known before the iteration."""
    if type(iterable) in (zip, enumerate):
        parts = iterable.__reduce__()[1]
        lengths = [length_of(part) for part in (parts if type(iterable) is zip else parts[:1])]
        return min([each for each in lengths if each is not None], default=None)
    try:
        hint = length_hint(iterable, -1)
    except Exception:  # of the user's class, whose iterator may do without
        return None
    return None if hint < 0 else hint


def _turns(iterable: Iterable[Any], loop: PythonLoop) -> Iterator[Any]:
    try:
        for item in iterable:
            loop.turn()
            yield item
    finally:
        loop.end()
