"""Recording of both branches of an `if` on a traced value, joined by selects.

Before a branch runs, its variables are saved; its writes to arrays, lists, dicts and objects are logged in a journal.
Afterwards everything is restored, and the next branch runs. At the end variables and writes are joined by selects on
the condition: numbers, arrays entry by entry, containers item by item. This fails if a branch raises, decides on a
value itself, has side effects or is too long, or if the writes do not match. Then everything is restored, and the
condition is answered as at the given point and kept as a guard (`accumulus.frontends.decisions`).

A variable whose values do not match has no value after the `if`, since usually none is needed. If code needs it, the
function is recorded again without merging this `if`. The same happens if an array is changed after its entries became
part of a joined array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.errors import EndlessRecordingError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.decisions import UnmergeableError
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.journal import (
    STATE,
    Facts,
    Journal,
    MergedWriteError,
    RecordedAnewError,
    SavedEntries,
    Site,
    WrittenContainer,
    facts_of,
    implied_truth,
    memory_of,
    note,
    note_entries,
)
from accumulus.frontends.numpy.operands import concrete, constants, depends, holds_complex, references_of
from accumulus.frontends.numpy.scalars import Traced, TracedBoolean

# Joining the values of two branches -----------------------------------------------------------------------------------


class MismatchedBranchesError(Exception):
    """Error for values of two branches that cannot be joined."""


class _Missing:
    """Type of the value that marks unset variables."""

    def __repr__(self) -> str:
        return "undefined"


MISSING: Final = _Missing()
#: Types of constants for which equal values are identical.
_ATOMS: Final = (str, bytes, type(None), range, slice, complex, type(Ellipsis))


class Snapshot(NamedTuple):
    """A mutable object and a copy of its content at the end of a branch."""

    value: Any
    content: Any


def snapshot_of(value: Any) -> Any:
    """Return a snapshot of `value`, with a copy of its content if it is mutable."""
    if isinstance(value, TracedArray):
        return Snapshot(value, TracedArray(value.tape, value.references.copy(), boolean=value.boolean))
    if type(value) is np.ndarray:
        return Snapshot(value, value.copy())
    if type(value) is list or isinstance(value, tuple):
        return Snapshot(value, [snapshot_of(item) for item in value])
    if type(value) is dict:
        return Snapshot(value, {key: snapshot_of(item) for key, item in value.items()})
    return value


class Joiner:
    """Join of the values of two branches; the same pair of objects always gives the same joined object.

    Args:
        condition: traced truth value that selects the values of the first branch.

    Attributes:
        arrays: arrays whose entries are now part of other arrays, too.
    """

    def __init__(self, condition: TracedBoolean) -> None:
        self.condition = condition
        self.arrays: list[TracedArray] = []
        self._joined_values: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def join(self, one: Any, other: Any) -> Any:
        """Return the joined value of two snapshots, as `snapshot_of` returns them.

        Raises:
            MismatchedBranchesError: if they differ in anything but numbers.
        """
        a = one.value if type(one) is Snapshot else one
        b = other.value if type(other) is Snapshot else other
        if a is b or b is MISSING:
            return a
        if a is MISSING:
            return b
        key = id(a), id(b)
        if key not in self._joined_values:
            first = one.content if type(one) is Snapshot else one
            second = other.content if type(other) is Snapshot else other
            self._joined_values[key] = a, b, self._joined(a, b, first, second)
        return self._joined_values[key][2]

    def _joined(self, a: Any, b: Any, first: Any, second: Any) -> Any:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.ndim or b.ndim):
            result = self._arrays(first, second)
            self.arrays += [x for x in (a, b, result) if isinstance(x, TracedArray)]
            return result
        if _is_number(a) and _is_number(b):
            return self._numbers(first, second)
        if type(a) is type(b):
            if isinstance(a, _ATOMS) and a == b:
                return a
            if isinstance(a, list | tuple) and len(a) == len(b):
                items = [self.join(x, y) for x, y in zip(first, second, strict=True)]
                return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
            if type(a) is dict and list(a) == list(b):
                return {key: self.join(first[key], second[key]) for key in first}
        raise MismatchedBranchesError

    def _numbers(self, a: Any, b: Any) -> Any:
        if _is_truth(a) != _is_truth(b) or holds_complex(a) != holds_complex(b):
            raise MismatchedBranchesError
        if not isinstance(a, Traced) and not isinstance(b, Traced) and _is_same(a, b):
            return a
        chosen = np.where(self.condition, a, b)  # type: ignore[call-overload]
        return chosen.item() if isinstance(chosen, np.ndarray) else chosen

    def _arrays(self, a: Any, b: Any) -> Any:
        if a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b"):
            raise MismatchedBranchesError
        tape = self.condition.tape
        parts = []
        for array in (a, b):
            if isinstance(array, TracedArray):
                parts.append(array)
            elif array.dtype == np.float64:
                parts.append(TracedArray(tape, constants(tape, array)))
            else:
                raise MismatchedBranchesError
        return self.entries(*parts)

    def references(self, array: TracedArray, a: Any, b: Any) -> Any:
        """Return the joined references of the same entries of an array after both branches."""
        if np.array_equal(a, b):
            return a
        merged = self.entries(array._like(np.asarray(a)), array._like(np.asarray(b))).references
        return merged if isinstance(a, np.ndarray) else merged.item()

    def contents(self, one: Any, other: Any) -> Any:
        """Return the joined content of a container after both branches.

        Raises:
            MismatchedBranchesError: if the contents differ in anything but numbers.
        """
        a = one.content if type(one) is Snapshot else one
        b = other.content if type(other) is Snapshot else other
        if isinstance(a, list) and len(a) == len(b):
            return [self.join(x, y) for x, y in zip(a, b, strict=True)]
        if isinstance(a, dict) and list(a) == list(b):
            return {key: self.join(a[key], b[key]) for key in a}
        if isinstance(a, set) and a == b:
            return a
        if isinstance(a, np.ndarray) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return a
        raise MismatchedBranchesError

    def entries(self, a: TracedArray, b: TracedArray) -> TracedArray:
        """Return the joined array of two with the same shape and kind; only entries that differ need a select.

        Raises:
            MismatchedBranchesError: for different tapes or kinds.
        """
        if a.tape is not b.tape or a.boolean != b.boolean:
            raise MismatchedBranchesError
        differ = a.references != b.references
        if not differ.any():
            return a._like(a.references.copy())
        if not differ.shape or differ.all():
            return a._like(self._selected(a, b))
        references = a.references.copy()
        references[differ] = self._selected(a._like(a.references[differ]), b._like(b.references[differ]))
        return a._like(references)

    def _selected(self, a: TracedArray, b: TracedArray) -> Any:
        chosen = np.where(self.condition, a, b)  # type: ignore[call-overload]
        return references_of(a.tape, chosen, a.boolean).reshape(a.shape)


def _is_number(value: Any) -> bool:
    if isinstance(value, Traced | np.ndarray):
        shape: tuple[int, ...] = value.shape  # type: ignore[union-attr]  # which all traced values have
        return not shape
    return isinstance(value, bool | int | float | np.bool_ | np.floating | np.integer)


def _is_truth(value: Any) -> bool:
    return bool(value.boolean) if isinstance(value, Traced) else isinstance(value, bool | np.bool_)


def _is_same(a: Any, b: Any) -> bool:
    """Return True if constants have the same type and value, where NaN equals NaN and signs of zero count."""
    return type(a) is type(b) and repr(a) == repr(b)


def truth_of(value: Any) -> Any:
    """Return the truth of a condition: a traced truth value, or a plain boolean if it is known."""
    if isinstance(value, Traced):
        if not depends(value):
            return bool(np.asarray(concrete(value)))
        if isinstance(value.entries, int) or value.entries.size == 1:
            scalar = value.item() if isinstance(value, TracedArray) else value
            truth = scalar if scalar.boolean else scalar != 0.0
            if not isinstance(truth, TracedBoolean):
                return bool(truth)
            answer = implied_truth(truth.tape, truth.reference)
            return truth if answer is None else answer
    return bool(value)


#: Maximum number of operations of a branch, of nested branches, and of attempts to merge one `if`. Merged branches are
#: computed at every point: larger numbers make programs slower and take longer to record; with smaller ones, more
#: decisions are cases of their own.
MOST_OPERATIONS: Final = 5_000
MOST_DEPTH: Final = 60
MOST_FAILURES: Final = 3
#: Maximum number of branches of one `if` within each other, as in a recursion: each level doubles the work of all below
#: it. A larger number records deeper recursions as one program, and takes time in those that are deeper still.
MOST_IN_ITSELF: Final = 5
#: Fewest operations of branches that are not taken for which a decision may be guarded because of them, see
#: `_guard_one_sided`. With a smaller number, short programs have more cases; with a larger one, points of the short
#: branch take longer.
FEWEST_ONE_SIDED: Final = 1_000
#: Maximum number of attempts to record one function, the last without merging: more take time for functions that keep
#: failing, fewer merge no decision although most could be.
MOST_ATTEMPTS: Final = 4


class Effects:
    """Writes of a branch: entries and containers, each with the value that it replaced."""

    __slots__ = ("containers", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[SavedEntries, SavedEntries]] = []
        self.containers: dict[int, tuple[WrittenContainer, WrittenContainer]] = {}

    @classmethod
    def of(cls, journal: Journal) -> Effects:
        """Return the writes of a branch from its journal, and restore the values from before."""
        effects = cls()
        effects.entries = [(entries.now(), entries) for entries in journal.entries]
        for key, before in journal.containers.items():
            now = WrittenContainer(before.container, snapshot_of(before.container.copy()))
            effects.containers[key] = now, before
        journal.undo()
        return effects

    def joined(self, other: Effects, joiner: Joiner) -> Effects:
        """Return the joined writes of this branch and another."""
        result = Effects()
        places = [now for now, _ in (*self.entries, *other.entries)]
        for one, two in zip(self._at(places), other._at(places), strict=True):
            content = joiner.references(one.array, one.content, two.content)
            result.entries.append((one._replace(content=content), one.now()))
        for key in self.containers | other.containers:
            before = (self.containers.get(key) or other.containers[key])[1]
            a, b = (e.containers[key][0].content if key in e.containers else before.content for e in (self, other))
            content = joiner.contents(a, b)
            result.containers[key] = before._replace(content=content), before
        return result

    def _at(self, places: list[SavedEntries]) -> list[SavedEntries]:
        """Return the contents that some entries would have after these writes."""
        for now, _ in self.entries:
            now.put()
        contents = [entries.now() for entries in places]
        for _, before in reversed(self.entries):
            before.put()
        return contents

    def write(self) -> None:
        """Apply the writes, and log them in the enclosing branch if there is one."""
        for now, _ in self.entries:
            note_entries(now.array, now.index)
            now.put()
        for after, _ in self.containers.values():
            note(after.container)
            content = after.content.value if type(after.content) is Snapshot else after.content
            after._replace(content=content).put()


class Branches:
    """The branches of one decision while they are recorded, each with its journal."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.conditions: list[Any] = []
        self.outcomes: list[tuple[Any, Effects]] = []
        self._refusal = ACTIVE.refusal
        self._journal = Journal(site)
        self._length = 0
        self._lengths: list[int] = []  # number of operations of each branch
        self._is_open = False
        #: Facts that hold where all conditions so far are false.
        self._false: Facts = {}
        #: Memory shared by joins before the decision, and by joins inside of the branches that have ended.
        self._shared: dict[int, Any] = {}
        self._shared_within: dict[int, Any] = {}

    def open(self, condition: Any) -> None:
        """Begin the first branch.

        Raises:
            UnmergeableError: if branches are nested too deeply, or the decision in itself.
        """
        self._length = len(condition.tape)
        STATE.journals.append(self._journal)
        self.take(condition)
        ACTIVE.merging += 1
        self._is_open = True
        self._shared = STATE.shared.copy()
        in_itself = sum(journal.site == self.site for journal in STATE.journals)
        if len(STATE.journals) > MOST_DEPTH or in_itself > MOST_IN_ITSELF:
            raise UnmergeableError

    def end_branch(self, values: Any) -> None:
        """End a branch with these values, and restore the state before it.

        Raises:
            UnmergeableError: if the branch was too long.
        """
        length = len(self.conditions[0].tape)
        if length - self._length > MOST_OPERATIONS:
            raise UnmergeableError
        self._lengths.append(length - self._length)
        self._length = length
        self._shared_within |= STATE.shared
        STATE.shared = self._shared.copy()
        outcome = snapshot_of(values)
        self.outcomes.append((outcome, Effects.of(self._journal)))
        self._journal.entries, self._journal.containers = [], {}
        if len(self.outcomes) == len(self.conditions):
            self._false |= facts_of(self._journal.tape, self.conditions[-1].reference, False)
        self._journal.facts = self._false

    def take(self, condition: Any) -> None:
        """Begin the branch of one more condition, which is true in it."""
        self.conditions.append(condition)
        self._journal.tape = condition.tape
        self._journal.facts = self._false | facts_of(condition.tape, condition.reference, True)

    def close(self) -> None:
        """End the branches, and restore the state before them."""
        if not self._is_open:
            return
        self._is_open = False
        self._journal.undo()
        STATE.shared = self._shared
        assert STATE.journals[-1] is self._journal
        STATE.journals.pop()
        ACTIVE.merging -= 1
        if STATE.journals:
            STATE.journals[-1].fresh |= self._journal.fresh

    def give_up(self) -> None:
        """End the branches without a result, and count the failure."""
        self.close()
        STATE.failures[self.site] = STATE.failures.get(self.site, 0) + 1
        ACTIVE.refusal = self._refusal

    def join(self, choose: Callable[[Joiner, Any, Any], Any]) -> Any:
        """Return the values of all branches joined by `choose`, pair by pair, and apply their joined writes.

        Raises:
            UnmergeableError: if values or writes do not match.
        """
        values, effects = self.outcomes[-1]
        shared: list[TracedArray] = []
        for condition, (one, written) in reversed(list(zip(self.conditions, self.outcomes, strict=False))):
            joiner = Joiner(condition)
            try:
                values = choose(joiner, one, values)
                effects = written.joined(effects, joiner)
            except MismatchedBranchesError:
                raise UnmergeableError from None
            shared += joiner.arrays
        self.close()
        if not STATE.journals and sum(self._lengths) >= FEWEST_ONE_SIDED:
            STATE.long.setdefault(self.site, []).append((self.conditions, self._lengths))
        STATE.shared |= self._shared_within
        effects.write()
        for array in shared:
            memory = memory_of(array.references)
            STATE.shared[id(memory)] = memory, self.site
        STATE.merged = True
        return values


class Merge:
    """An `if` on traced values while it runs, see `accumulus.frontends.source.syntax`.

    Attributes:
        values: values of its variables for the next run of the `if`, or after it.
        finished: True if the values are final.
        answer: answer to a condition that is not evaluated again.
        decided: traced truth values of conditions on data, by their position, see
            `accumulus.frontends.numpy.python_loops.decided_here`.
    """

    __slots__ = (
        *("_before", "_branches", "_first", "_guards", "_is_new", "_names", "_site"),
        *("answer", "decided", "finished", "values"),
    )

    def __init__(self, site: Site, variables: dict[str, Any]) -> None:
        self._site = site
        self._names: tuple[str, ...] = site[3:]
        self._before = {name: variables.get(name, MISSING) for name in self._names}
        self._branches: Branches | None = None
        self._first = 0
        self._is_new = False
        self._guards = not mergeable(site)
        self.values = self._before
        self.finished = False
        self.answer = False
        self.decided: dict[Site, Any] = {}
        if not self._guards:
            self._branches = Branches(site)

    def opens(self, position: int) -> bool:
        """Return True if the condition at this position must be evaluated."""
        self.answer = self._guards and position == self._first and bool(self._branches and self._branches.conditions[0])
        return position > self._first

    def ask(self, condition: Any, position: int) -> bool:
        """Answer a traced condition: True when first asked; its truth, kept as a guard, if this `if` is not merged."""
        branches = self._branches
        if self._guards or branches is None:
            return bool(condition)
        if branches.conditions:
            branches.take(condition)
        else:
            self._first = position
            branches.open(condition)
        self._is_new = True
        return True

    def done(self, variables: dict[str, Any]) -> bool:
        """End a branch; return True if there is nothing left to record and variables keep their values."""
        branches = self._branches
        if self._guards or branches is None:
            return True
        branches.end_branch({name: variables.get(name, MISSING) for name in self._names})
        if self._is_new:
            self._is_new = False
            self.values = self._before
        else:
            self.values = branches.join(self._joined)
            self._guards = True
            self.finished = True
        return False

    def _joined(self, joiner: Joiner, one: Any, other: Any) -> Any:
        """Return the joined variables of two branches; variables that do not match become unset."""
        values = {}
        for name, first, second in zip(self._names, one.content.values(), _contents(other).values(), strict=True):
            try:
                values[name] = joiner.join(first, second)
            except MismatchedBranchesError:
                if name == "@result":
                    raise
                values[name] = MISSING
                STATE.suspects.add(self._site)
        return values

    def caught(self, error: BaseException) -> bool:
        """Return True if the `if` runs again after an exception, with a guard on its condition.

        Raises:
            UnmergeableError: if the `if` is itself inside of a branch.
        """
        branches = self._branches
        if self._guards or branches is None:
            return False
        self._guards = True
        if not branches.conditions:  # no condition was recorded yet
            return False
        branches.give_up()
        if not isinstance(error, Exception | UnmergeableError) or isinstance(error, EndlessRecordingError):
            return False
        if ACTIVE.merging:
            raise UnmergeableError from error
        self.values = self._before
        return True


def _contents(values: Any) -> Any:
    return values.content if type(values) is Snapshot else values


def mergeable(site: Site) -> bool:
    """Return True if an `if` at this position may be merged, since it has not failed too often."""
    return ACTIVE.decisions is not None and not STATE.off and STATE.failures.get(site, 0) < MOST_FAILURES


def begin_merge(merge: Merge | None, site: Site, variables: dict[str, Any]) -> Merge:
    """Return the `Merge` of an `if` on a traced condition: the open one, or a new one."""
    return Merge(site, variables) if merge is None else merge


def either(site: Site, condition: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Return the value of `one` where a traced condition holds, else the value of `other`."""
    if mergeable(site):
        branches = Branches(site)
        try:
            branches.open(condition)
            branches.end_branch([one()])
            branches.end_branch([other()])
            return branches.join(lambda joiner, a, b: joiner.join(_one(a), _one(b)))
        except BaseException as error:
            branches.give_up()
            if not isinstance(error, Exception | UnmergeableError) or isinstance(error, EndlessRecordingError):
                raise
            if ACTIVE.merging:
                raise UnmergeableError from error
    return one() if condition else other()


def _one(values: Any) -> Any:
    return values.content[0] if type(values) is Snapshot and type(values.value) is list else values


def _guard_one_sided(tape: Any) -> bool:
    """Return True if decisions are guarded from now on, since merging them more than doubles the work of the path.

    That is so for a decision that is taken once, and has a long branch which is not taken. Each decision of a loop
    would double the number of cases instead.
    """
    one_sided = []
    for site, merges in STATE.long.items():
        conditions, lengths = merges[0]
        if len(merges) == 1 and all(condition.tape is tape for condition in conditions):
            truths = ACTIVE.decisions.values(np.array([condition.reference for condition in conditions]))
            taken = next((k for k, truth in enumerate(truths) if truth), len(conditions))
            one_sided.append((sum(lengths) - lengths[taken], site))
    total = len(tape)
    path = total - sum(length for length, _ in one_sided)
    guarded = False
    for length, site in sorted(one_sided, reverse=True):
        if length >= FEWEST_ONE_SIDED and total > 2 * path:
            STATE.failures[site], total, guarded = MOST_FAILURES, total - length, True
    return guarded


def recorded(run: Callable[[], Any]) -> Any:
    """Return the result of `run`; if merges turn out to be impossible or too long, run it again without them."""
    before = vars(STATE).copy()
    STATE.reset()
    decisions = ACTIVE.decisions
    try:
        attempt, off = 0, False
        while True:
            STATE.off = off or attempt == MOST_ATTEMPTS - 1
            try:
                result = run()
                if attempt or not STATE.long or not _guard_one_sided(decisions.tape):
                    return result
                attempt = 1
            except RecordedAnewError as error:
                attempt += isinstance(error, MergedWriteError)  # a loop that is too long fails only once
                STATE.failures[error.site] = MOST_FAILURES
            except EndlessRecordingError:
                raise
            except Exception:
                if not STATE.merged:
                    raise
                attempt += 1
                STATE.failures |= dict.fromkeys(STATE.suspects, MOST_FAILURES)
                off = not STATE.suspects
            failures = STATE.failures
            STATE.reset()
            STATE.failures = failures
            decisions.guards.clear()
            ACTIVE.refusal = None
    finally:
        vars(STATE).update(before)


def outside() -> None:
    """Declare a side effect that cannot be undone.

    Raises:
        UnmergeableError: in a branch.
    """
    if ACTIVE.merging:
        raise UnmergeableError
