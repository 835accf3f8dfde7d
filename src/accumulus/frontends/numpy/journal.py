"""Journal of the writes of a branch while it is recorded, so that they can be undone: in arrays, and containers.

All code that changes an array of references calls `note_entries` first, and transformed code calls `note` before it
changes a list, dict, set, plain array or object. Outside of branches nothing is noted.

The journal also has the facts that are known of comparisons within a branch.
"""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.decisions import UnmergeableError

# Facts of comparisons -------------------------------------------------------------------------------------------------
#
# Facts end the recursion of a model that calls itself for the other sign (``if v < 0: return -current(-v)``). A
# condition that is repeated within its branch costs nothing.
#
# Keys are names of operations with their operands, without signs that both sides have: constants by value, all else by
# reference. Nothing follows from a comparison that is false but that it is: NaN compares as nothing.

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
    # -a < -b is b < a; of a constant the sign can always be taken
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
    """Return the facts that follow from a truth value being true, or false."""
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

#: Most items of a container, or entries of a plain array, that are copied.
MOST_ITEMS: Final = 100_000

Site = tuple[Any, ...]


class RecordedAnewError(BaseException):
    """Signal that an `if` was merged and turns out not to be mergeable.

    It is no `Exception`, so that the user's code does not catch it.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.site = site


class MergedWriteError(RecordedAnewError):
    """Signal that an array is changed whose entries went into a joined one, which would not follow."""


class Entries(NamedTuple):
    """Entries of an array: the array, its references, the index, and the references there."""

    array: Any
    references: Any
    index: Any
    content: Any

    def put(self) -> None:
        """Write them."""
        self.references[self.index] = self.content

    def now(self) -> Entries:
        """Return the same entries with their present content."""
        content = self.references[self.index]
        return self._replace(content=content.copy() if isinstance(content, np.ndarray) else content)


class WrittenContainer(NamedTuple):
    """A list, dict, set or plain array, and its content."""

    container: Any
    content: Any

    def put(self) -> None:
        """Let that be in it."""
        if isinstance(self.container, list):
            self.container[:] = self.content
        elif isinstance(self.container, np.ndarray):
            self.container[...] = self.content
        else:
            self.container.clear()
            self.container.update(self.content)


class Journal:
    """Undo log of a branch: everything that it has changed, with the value before."""

    __slots__ = ("containers", "entries", "facts", "fresh", "tape")

    def __init__(self) -> None:
        self.entries: list[Entries] = []
        self.containers: dict[int, WrittenContainer] = {}
        #: Containers and iterators that were made in the branch, by identity: nothing else knows of them.
        self.fresh: dict[int, Any] = {}
        #: Facts about truth values on a tape that hold in the branch.
        self.tape: Any = None
        self.facts: Facts = {}

    def undo(self) -> None:
        """Put everything back."""
        for entries in reversed(self.entries):
            entries.put()
        for container in self.containers.values():
            container.put()


class _State(threading.local):
    """Facts and branches of the recording that is under way in this thread."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Go back to the state before anything is recorded."""
        #: Journals of the branches under way, outermost first.
        self.journals: list[Journal] = []
        #: Whether nothing is merged, or nothing any more; how often each `if` could not be, by its place.
        self.off = False
        self.failures: dict[Site, int] = {}
        #: True if anything was; and the places where a variable has been left without a value.
        self.merged = False
        self.suspects: set[Site] = set()
        #: Memory of arrays whose entries are in joined arrays, too, by identity, and where they were joined.
        self.shared: dict[int, tuple[Any, Site]] = {}


STATE: Final = _State()


def made(value: Any) -> None:
    """Note that a container or iterator was made in a branch; within a branch of that it is from outside."""
    if STATE.journals:
        STATE.journals[-1].fresh[id(value)] = value


def is_fresh(value: Any) -> bool:
    """Return True if it was made in the innermost branch."""
    return bool(STATE.journals) and id(value) in STATE.journals[-1].fresh


def note(container: Any) -> None:
    """Save the content of a container before a branch changes it.

    Raises:
        UnmergeableError: if it holds too much.
    """
    if STATE.journals and not is_fresh(container):
        containers = STATE.journals[-1].containers
        if id(container) not in containers:
            if np.size(container) > MOST_ITEMS if isinstance(container, np.ndarray) else len(container) > MOST_ITEMS:
                raise UnmergeableError
            containers[id(container)] = WrittenContainer(container, container.copy())


def note_entries(array: Any, index: Any) -> None:
    """Note entries of a traced array, before they are changed in a branch."""
    if STATE.journals:
        STATE.journals[-1].entries.append(Entries(array, array.references, index, None).now())


def known(tape: Any, reference: int) -> bool | None:
    """Return the truth value that the branches under way imply; None if they imply none."""
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
    """End the recording if this memory went into a joined array.

    Raises:
        MergedWriteError: if so.
    """
    if STATE.shared:
        shared = STATE.shared.get(id(memory_of(references)))
        if shared is not None:
            raise MergedWriteError(shared[1])


def memory_of(references: Any) -> Any:
    """Return the array that owns the memory of another."""
    while isinstance(references.base, np.ndarray):
        references = references.base
    return references
