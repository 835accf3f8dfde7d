"""Undo log of the writes in a branch that is recorded, to arrays and containers.

All code that changes an array of references calls `note_entries` first, and transformed code calls `note` before it
changes a list, dict, set, plain array or object. Outside of branches nothing is logged.

The journal also has the facts about comparisons that hold in a branch.
"""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.decisions import UnmergeableError

# Facts of comparisons -------------------------------------------------------------------------------------------------
#
# Facts end the recursion of a function that calls itself for the opposite sign (``if v < 0: return -current(-v)``), and
# a condition that is repeated inside of its branch costs nothing.
#
# Keys are names of operations with their operands, without signs that both sides share: constants by value, other
# operands by reference. A false comparison never implies that another one is true, because comparisons with NaN are
# false.

Key = tuple[Any, ...]
Facts = dict[Key, bool]


def _key_of(tape: Any, reference: int) -> Key:
    """Return the key of a truth value."""
    if reference < tape.inputs:
        return (reference,)
    name = tape.operation(reference).name
    if name not in ("equal", "less", "less_equal", "not_equal"):
        return (reference,)
    a, b = (_term(tape, argument) for argument in tape.arguments(reference))
    # -a < -b is b < a; the sign of a constant can always be changed
    if all(sign < 0 or kind == "constant" for sign, kind, _ in (a, b)) and -1 in (a[0], b[0]):
        (_, *one), (_, *other) = (_opposite(term) for term in (b, a))
    else:
        one, other = list(a), list(b)
        if a[0] > 0 and b[0] > 0:
            one, other = list(a[1:]), list(b[1:])
    return (name, tuple(one), tuple(other))


def _term(tape: Any, reference: int) -> tuple[int, str, float]:
    """Return the sign, kind and value of an operand."""
    if reference < 0:
        return 1, "constant", tape.value_of(reference) + 0.0
    if reference >= tape.inputs and tape.operation(reference).name == "negative":
        return -1, "reference", tape.arguments(reference)[0]
    return 1, "reference", reference


def _opposite(term: tuple[int, str, float]) -> tuple[int, str, float]:
    sign, kind, value = term
    return (1, kind, -value + 0.0) if kind == "constant" else (-sign, kind, value)


def facts_of(tape: Any, reference: int, truth: bool) -> Facts:
    """Return the facts that follow if a truth value is true, or false."""
    facts: Facts = {(reference,): truth}
    if reference < tape.inputs:
        return facts
    name, arguments = tape.operation(reference).name, tape.arguments(reference)
    if name == "logical_not":
        return facts | facts_of(tape, arguments[0], not truth)
    if name == ("logical_and" if truth else "logical_or"):
        return facts | facts_of(tape, arguments[0], truth) | facts_of(tape, arguments[1], truth)
    key = _key_of(tape, reference)
    facts[key] = truth
    if len(key) == 3:
        _, a, b = key
        ways = {
            ("less", True): [("less_equal", a, b, True), ("less", b, a, False), ("less_equal", b, a, False)],
            ("less_equal", True): [("less", b, a, False)],
            ("less_equal", False): [("less", a, b, False)],
        }
        facts |= {(n, x, y): t for n, x, y, t in ways.get((name, truth), [])}
    return facts


# The journal ----------------------------------------------------------------------------------------------------------

#: Maximum number of items of a container, or of entries of a plain array, that are copied: more take time and memory in
#: each branch, fewer leave more decisions unmerged.
MOST_ITEMS: Final = 100_000

Site = tuple[Any, ...]


class RecordedAnewError(BaseException):
    """Signal that an `if` was merged that cannot be merged, so that the function is recorded again.

    It is not an `Exception`, so that the user's code does not catch it.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.site = site


class MergedWriteError(RecordedAnewError):
    """Signal a change of an array whose entries are in a joined array, which would not see the change."""


class SavedEntries(NamedTuple):
    """Saved entries of an array: the array, its references, an index, and the references at the index."""

    array: Any
    references: Any
    index: Any
    content: Any

    def put(self) -> None:
        """Restore the entries."""
        self.references[self.index] = self.content

    def now(self) -> SavedEntries:
        """Return a copy with the present content of the same entries."""
        content = self.references[self.index]
        return self._replace(content=content.copy() if isinstance(content, np.ndarray) else content)


class WrittenContainer(NamedTuple):
    """A saved list, dict, set or plain array, and its content."""

    container: Any
    content: Any

    def put(self) -> None:
        """Restore the content."""
        if isinstance(self.container, list):
            self.container[:] = self.content
        elif isinstance(self.container, np.ndarray):
            self.container[...] = self.content
        else:
            self.container.clear()
            self.container.update(self.content)


class Journal:
    """Undo log of a branch: every write and the value that it replaced.

    Args:
        site: position of the decision.
    """

    __slots__ = ("containers", "entries", "facts", "fresh", "site", "tape")

    def __init__(self, site: Site) -> None:
        self.site = site
        self.entries: list[SavedEntries] = []
        self.containers: dict[int, WrittenContainer] = {}
        #: Containers and iterators created in the branch, by identity; no other code refers to them.
        self.fresh: dict[int, Any] = {}
        #: Tape of the facts, and the facts about its truth values that hold in the branch.
        self.tape: Any = None
        self.facts: Facts = {}

    def undo(self) -> None:
        """Restore all saved values."""
        for entries in reversed(self.entries):
            entries.put()
        for container in self.containers.values():
            container.put()


class _State(threading.local):
    """State of merging in this thread: open branches, failures and shared arrays."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Restore the initial state."""
        #: Journals of the open branches, outermost first.
        self.journals: list[Journal] = []
        #: True if merging is switched off; number of failed merges of each `if`, by its position.
        self.off = False
        self.failures: dict[Site, int] = {}
        #: True if anything was merged; positions at which a variable was left without a value.
        self.merged = False
        self.suspects: set[Site] = set()
        #: Conditions and numbers of operations of merges with long branches, by position.
        self.long: dict[Site, list[tuple[list[Any], list[int]]]] = {}
        #: Memory of arrays whose entries are in joined arrays, by identity, with the position of the merge.
        self.shared: dict[int, tuple[Any, Site]] = {}


STATE: Final = _State()


def made(value: Any) -> None:
    """Register a container or iterator as created in the innermost branch."""
    if STATE.journals:
        STATE.journals[-1].fresh[id(value)] = value


def is_fresh(value: Any) -> bool:
    """Return True if an object was created in the innermost branch."""
    return bool(STATE.journals) and id(value) in STATE.journals[-1].fresh


def note(container: Any) -> None:
    """Save the content of a container before a branch changes it.

    Raises:
        UnmergeableError: if it has too many items.
    """
    if STATE.journals and not is_fresh(container):
        containers = STATE.journals[-1].containers
        if id(container) not in containers:
            if np.size(container) > MOST_ITEMS if isinstance(container, np.ndarray) else len(container) > MOST_ITEMS:
                raise UnmergeableError
            containers[id(container)] = WrittenContainer(container, container.copy())


def note_entries(array: Any, index: Any) -> None:
    """Save entries of a traced array before a branch changes them."""
    if STATE.journals:
        STATE.journals[-1].entries.append(SavedEntries(array, array.references, index, None).now())


def implied_truth(tape: Any, reference: int) -> bool | None:
    """Return the truth of a value that the facts of open branches imply; None if they imply none."""
    if not STATE.journals:
        return None
    key = _key_of(tape, reference)
    for journal in reversed(STATE.journals):
        if journal.tape is tape:
            truth = journal.facts.get((reference,), journal.facts.get(key))
            if truth is not None:
                return truth
    return None


def check_not_shared(references: Any) -> None:
    """Check that the memory of an array is not part of a joined array.

    Raises:
        MergedWriteError: if it is, so that the function is recorded again.
    """
    if STATE.shared:
        shared = STATE.shared.get(id(memory_of(references)))
        if shared is not None:
            raise MergedWriteError(shared[1])


def memory_of(references: Any) -> Any:
    """Return the array that owns the memory of a view."""
    while isinstance(references.base, np.ndarray):
        references = references.base
    return references
