"""One variable that a function reads: its value, then and now, and the fastest comparison of many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import zip_longest
from keyword import iskeyword
from operator import attrgetter, is_, itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.observed import UNCHANGING

#: Maximum number of entries that are compared one by one in compiled code, in half the time of a loop. More take time
#: to compile, fewer take time in every call.
SPELLED: Final = 32
#: Maximum number of characters of a value in a message.
LONGEST_SHOWN: Final = 30
#: Exceptions from reading a variable that no longer exists.
GONE: Final = (AttributeError, LookupError, ValueError, RuntimeError)
#: Stands for the value of a variable that does not exist.
ABSENT: Final = object()


class Comparison(Enum):
    """Comparison of a saved value of a variable with its present one."""

    SAME = "the very same object"
    ENTRIES = "a container of the very same objects"
    EQUAL = "equal contents"


class Variable(NamedTuple):
    """A variable that a function can read, entries of a container or namespace, or contents."""

    # function that reads the variable, and the object that it reads from
    read: Callable[[Any], Any]
    owner: Any
    saved: Any  # the saved value
    label: str  # its name in the user's code, as in "model.gains"
    way: Comparison = Comparison.SAME  # how it is compared
    keys: tuple[Any, ...] | None = None  # keys of the entries, for labels
    is_named: bool = False  # True if these are attributes

    def label_of(self, key: Any) -> str:
        """Return the name of an entry in the user's code."""
        if self.is_named:
            return f"{self.label}.{key}" if self.label else str(key)
        return f"{self.label}[{key!r:.40}]"

    def now(self) -> Any:
        """Return the present value, entries as a tuple; `ABSENT` or missing entries if it is gone."""
        with suppress(*GONE):
            content = self.read(self.owner)
            return tuple(content) if self.way is Comparison.ENTRIES else content
        if isinstance(self.owner, Mapping) and self.keys is not None:
            return tuple([self.owner.get(key, ABSENT) for key in self.keys])
        return () if self.way is Comparison.ENTRIES else ABSENT

    def is_unchanged(self) -> bool:
        """Return True if the present value equals the saved one under `way`."""
        now = self.now()
        if self.way is Comparison.EQUAL:
            return bool(now == self.saved)
        if self.way is Comparison.SAME:
            return now is self.saved
        return len(now) >= len(self.saved) and all(map(is_, now, self.saved))

    def since(self, before: Any) -> set[int]:
        """Return the positions of entries that differ from an earlier `now`; 0 stands for any other value."""
        now = self.now()
        if self.way is Comparison.ENTRIES:
            pairs = zip_longest(before, now, fillvalue=ABSENT)
            return {k for k, (one, other) in enumerate(pairs) if one is not other and k < len(self.saved)}
        return set() if now is before or (self.way is Comparison.EQUAL and bool(now == before)) else {0}

    def put_back(self, is_left: Callable[[Any], bool]) -> None:
        """Give the variable, or entries, the saved values again where the present ones are left from a recording."""
        if self.way is Comparison.EQUAL or not self.saved_by_key:
            return
        present = self.now() if self.way is Comparison.ENTRIES else (self.now(),)
        for (key, before), now in zip(self.saved_by_key.items(), present, strict=False):
            if now is not before and is_left(now):
                with suppress(*GONE, TypeError):
                    if isinstance(self.read, attrgetter):
                        setattr(self.owner, key, before)
                    else:
                        self.owner[key] = before

    @property
    def saved_by_key(self) -> dict[Any, Any]:
        """The saved values by the names or keys that they are read with; empty if there are none."""
        if isinstance(self.read, attrgetter | itemgetter):
            keys = self.read.__reduce__()[1]
            return dict(zip(keys, self.saved if self.way is Comparison.ENTRIES else (self.saved,), strict=False))
        return {} if self.keys is None else dict(zip(self.keys, self.saved, strict=False))

    def changes(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each changed variable, and a text that adds its old and new value if these are short."""
        if self.is_unchanged():
            return
        now = self.now()
        if self.way is Comparison.ENTRIES:
            for k, (one, other) in enumerate(zip(self.saved, now, strict=False)):
                if one is not other:
                    label = self.label if self.keys is None else self.label_of(self.keys[k])
                    yield label, _change(label, one, other)
        elif self.read in (len, list):
            before, after = (len(x) if self.read is list else x for x in (self.saved, now))
            yield self.label, f"{self.label} ({before} items, now {after})" if before != after else self.label
        else:
            yield self.label, _change(self.label, self.saved, now)


def comparison_of(variables: Iterable[Variable], others: Callable[[], bool] | None = None) -> Callable[[], bool]:
    """Return a function that returns True if all variables have their saved values, and may raise `GONE`.

    It is compiled from one expression: a loop over readers would take five times as long, in every call. `others` is a
    function that is called first, for other variables.
    """
    scope: dict[str, Any] = {"__name__": __name__, "all": all, "map": map, "is_": is_, "others": others}
    terms = [] if others is None else ["others()"]
    for k, each in enumerate(sorted(variables, key=lambda each: each.way is not Comparison.SAME)):
        scope |= {f"read{k}": each.read, f"owner{k}": each.owner, f"saved{k}": each.saved}
        kind, now = type(each.read), f"read{k}(owner{k})"
        names: Any = each.read.__reduce__()[1] if kind in (attrgetter, itemgetter) else ()
        if kind is itemgetter and (each.way is Comparison.SAME or 1 < len(names) <= SPELLED):
            held = (each.saved,) if each.way is Comparison.SAME else each.saved
            for j, (name, value) in enumerate(zip(names, held, strict=True)):
                scope |= {f"key{k}_{j}": name, f"held{k}_{j}": value}
                terms.append(f"owner{k}[key{k}_{j}] is held{k}_{j}")
            continue
        if kind is attrgetter and len(names) == 1 and names[0].isidentifier() and not iskeyword(names[0]):
            now = f"owner{k}.{names[0]}"
        elif each.read is np.ndarray.tobytes and type(each.owner) is np.ndarray:
            now = f"owner{k}.tobytes()"
        if each.way is Comparison.SAME:
            terms.append(f"{now} is saved{k}")
        elif each.way is Comparison.EQUAL:
            terms.append(f"{now} == saved{k}")
        else:
            terms.append(f"all(map(is_, {now}, saved{k}))")
    return eval(f"lambda: {' and '.join(terms) or True}", scope)  # type: ignore[no-any-return]


def _change(label: str, before: Any, now: Any) -> str:
    """Return a variable's name, with its old and new value if these are short."""
    texts = ["gone" if value is ABSENT else _shown(value) for value in (before, now)]
    return label if "" in texts or texts[0] == texts[1] else f"{label} ({texts[0]}, now {texts[1]})"


def _shown(value: Any) -> str:
    """Return the text of a number, a truth value or a short string; an empty text for other values."""
    text = repr(value) if isinstance(value, UNCHANGING) else ""
    return text if len(text) <= LONGEST_SHOWN else ""
