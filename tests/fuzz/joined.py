"""C of many random programs in one file, which one run of the compiler makes a library of.

A run of gcc takes longer than everything else that is done for a small program. Here kernels of C wait until the first
of them is called; then all that wait are compiled at once, with the identifiers of each under a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest import mock

from accumulus.errors import CompileError
from accumulus.targets.c import c_target

#: As in the tests; -O3, which users get, takes four times as long, and is for one part of a run in several.
QUICK = ("-O1", "-march=native", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
ALL = ("-O3", *QUICK[1:])
_LOADED = c_target.Loaded


class Waiting:
    """A library that is compiled with all others that wait, when the first function of one of them is called."""

    queue: ClassVar[list[Waiting]] = []
    runs: ClassVar[int] = 0

    def __init__(self, text: str) -> None:
        self.text = text
        self._library: tuple[Any, str] | None = None
        self.queue.append(self)

    def function(self, name: str) -> Any:
        """Return one of its functions, which are made when they are called."""
        return _Function(self, name)

    def loaded(self, name: str) -> Any:
        """Return one of its compiled functions."""
        if self._library is None:
            self._compile()
        if self._library is None:  # it, or another beside it, cannot be compiled
            self._library = _LOADED(self.text), "f"
        library, prefix = self._library
        return library.function(prefix + name.removeprefix("f"))

    def _compile(self) -> None:
        joined, type(self).queue[:] = list(self.queue), []
        texts = [re.sub(r"\b([fF])(?=_|\b)", rf"\g<1>{k}", each.text) for k, each in enumerate(joined)]
        Waiting.runs += 1
        try:
            library = _LOADED("\n".join(texts))
        except CompileError:
            return
        for k, each in enumerate(joined):
            each._library = library, f"f{k}"


class _Function:
    def __init__(self, library: Waiting, name: str) -> None:
        self._library, self._name, self._made = library, name, None
        self.argtypes: Any = None

    def __call__(self, *given: Any) -> None:
        if self._made is None:
            self._made = self._library.loaded(self._name)
            self._made.argtypes = self.argtypes
        self._made(*given)


@contextmanager
def joined(flags: tuple[str, ...] = QUICK) -> Iterator[None]:
    """Let kernels of C wait for each other."""
    Waiting.queue.clear()
    with mock.patch.object(c_target, "Loaded", Waiting), mock.patch.object(c_target, "FLAGS", flags):
        yield
    Waiting.queue.clear()
