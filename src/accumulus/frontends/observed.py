"""Observation of the Python code that runs in a thread: whose code it is, what it is passed, what it reads outside.

`Observed` is a profiler (`sys.setprofile`). It finds special methods, functions that no name leads to, and calls of
compiled functions that read data outside of Python, for `accumulus.frontends.captured`.
"""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import LIBRARIES, fields_in, is_foreign, is_library_code
from accumulus.frontends.source.nodes import MARK

#: Maximum number of calls of one function whose objects are examined: more make the observed run slower, fewer miss
#: objects that only later calls use.
MOST_CALLS: Final = 100
#: Types of values that never change. A `numpy.void` may be a row of an array that changes.
UNCHANGING: Final = (
    *(bool, int, float, complex, str, bytes, type(None)),
    *(np.number, np.bool_, np.character, np.datetime64),
)
#: Names that give code access to all attributes of an object, or to attributes that it does not name.
ALL_ATTRIBUTES: Final = frozenset(
    (
        *("__dict__", "__dir__", "__getattribute__", "asdict", "astuple", "attrgetter", "dir", "Formatter", "getattr"),
        *("getattr_static", "getmembers", "hasattr", "vars", "vformat"),
    )
)
#: Modules whose functions return different values from call to call, or read data outside of Python.
OUTSIDE: Final = frozenset(
    (
        *("_datetime", "_io", "_random", "_socket", "_sqlite3", "ctypes", "datetime", "decimal", "io", "mmap"),
        *("multiprocessing", "nt", "posix", "random", "secrets", "select", "socket", "sqlite3", "subprocess", "time"),
        *("urllib", "uuid"),
    )
)
#: Modules of which this holds for functions that the user's code calls itself; others call them, too.
_INTERPRETER: Final = frozenset(("_locale", "_thread", "gc", "locale", "sys"))
#: Modules of the standard library that read files, clocks and the interpreter for their own purposes, and those of them
#: that do so for the user's code if it calls them itself.
_BESIDE: Final = frozenset(("importlib", "inspect", "linecache", "logging", "threading", "traceback", "warnings"))
_ASKED: Final = _BESIDE - {"logging", "warnings"}
#: Packages that this one calls for its own purposes. Calls from the user's code are watched.
_OWN: Final = frozenset(("dask", "distributed", "networkx", "optree", "platformdirs", "rich", "typer"))
#: Modules of the standard library with classes that keep their contents in attributes.
HOLDING: Final = frozenset(
    (
        *("_collections_abc", "_weakrefset", "argparse", "collections", "configparser", "enum", "functools"),
        *("os", "string", "types", "weakref"),
    )
)
#: Built-in functions that read objects which the code does not name.
READERS: Final = frozenset({"eval", "exec", "globals", "input", "locals", "open"})


class Observed:
    """Record of the Python code that runs in this thread within a ``with`` block, and of the objects passed to it.

    If another profiler is active, it is left alone and nothing is recorded.
    """

    def __init__(self) -> None:
        #: The user's code with its global variables, by identity.
        self.codes: dict[int, tuple[CodeType, dict[str, Any]]] = {}
        self.objects: dict[int, weakref.ref[Any]] = {}
        #: Names of called functions that read data outside of Python.
        self.outside: set[str] = set()
        #: Names of attributes in formats, and of `ALL_ATTRIBUTES`, that the code may have under another name.
        self.names: set[str] = set()
        #: Number of calls of each code object; library code, with True if its calls are inspected for the user's code.
        self._calls: dict[int, int] = {}
        self._library_codes: dict[int, tuple[CodeType, bool]] = {}
        #: Code that runs for imports, for the garbage collector and for this package.
        self._beside: dict[int, CodeType] = {}
        self._around: Observed | None = None
        self._runs = False

    def __enter__(self) -> Observed:
        before = sys.getprofile()
        self._around = getattr(before, "__self__", None) if inspect.ismethod(before) else None
        self._runs = before is None or isinstance(self._around, Observed)
        if self._runs:
            sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._runs:
            return
        around = self._around
        sys.setprofile(None if around is None else around._see)
        if around is not None:
            around.add(self)

    def add(self, other: Observed) -> None:
        """Add the observations of another `Observed`."""
        self.codes |= other.codes
        self.objects |= other.objects
        self.outside |= other.outside
        self.names |= other.names

    def existing_objects(self) -> list[Any]:
        """Return the objects that still exist; the others were temporaries of the run."""
        return [value for ref in self.objects.values() if (value := ref()) is not None]

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        if ACTIVE.is_opaque:
            return
        code = frame.f_code
        key = id(code)
        if event == "call":
            count = self._calls.get(key, 0)
            if count >= MOST_CALLS:
                return
            self._calls[key] = count + 1
            if not count:
                scope = frame.f_globals
                top = str(scope.get("__name__")).partition(".")[0]
                if is_library_code(code, scope) or is_foreign(top) or top.startswith("namedtuple_"):
                    self._library_codes[key] = code, top not in (_BESIDE | LIBRARIES | {"accumulus"})
                    self._calls[key] = 0 if top in HOLDING | _ASKED else MOST_CALLS
                elif any(name.startswith(MARK) for name in (*code.co_freevars, *code.co_varnames)):
                    self._library_codes[key], self._calls[key] = (code, True), MOST_CALLS  # the original runs, too
                elif self._is_beside(frame, top):
                    self._beside[key], self._calls[key] = code, 0
                    return
                else:
                    self.codes[key] = code, scope
            if key in self._library_codes and frame.f_back is not None and id(frame.f_back.f_code) in self.codes:
                top = str(frame.f_globals.get("__name__")).partition(".")[0]
                if (
                    top in _ASKED and code.co_name[0].islower()
                ):  # statements call others, which begin with an underscore
                    self.outside.add(f"{top}.{code.co_name}")
            if self._calls[key] < MOST_CALLS and code.co_argcount and (key in self.codes or self._is_called(frame)):
                local = frame.f_locals
                for name in code.co_varnames[: code.co_argcount]:
                    held = local.get(name)
                    if not issubclass(type(held), (*UNCHANGING, np.ndarray, type)) and id(held) not in self.objects:
                        with suppress(TypeError):  # lists have no weak references
                            self.objects[id(held)] = weakref.ref(held)
        elif event == "c_call" and (
            key in self.codes or (self._library_codes.get(key, (code, False))[1] and self._is_called(frame))
        ):
            module = str(getattr(argument, "__module__", None) or "")
            name, top = getattr(argument, "__qualname__", ""), module.partition(".")[0]
            if key in self.codes:
                text, last = getattr(argument, "__self__", None), getattr(argument, "__name__", "")
                self.names.update(fields_in(text) if isinstance(text, str) else {last} & ALL_ATTRIBUTES)
            is_others = (bool(top) and not is_foreign(top)) or top in _INTERPRETER
            if (is_others and key in self.codes) or top in OUTSIDE or (top == "builtins" and name in READERS):
                self.outside.add(f"{module}.{name}".removeprefix("builtins."))

    def _is_beside(self, frame: FrameType, top: str) -> bool:
        """Return True if code runs for an import, the garbage collector or this package instead of the function."""
        code, back = frame.f_code, frame.f_back
        if code.co_name == "__del__" or any(getattr(each, "__code__", None) is code for each in gc.callbacks):
            return True
        while back is not None and id(back.f_code) not in self.codes:
            caller = str(back.f_globals.get("__name__")).partition(".")[0]
            if caller in ("importlib", "_frozen_importlib") or id(back.f_code) in self._beside:
                return True
            if caller not in sys.stdlib_module_names:
                return caller == "accumulus" and top in _OWN
            back = back.f_back
        return False

    def _is_called(self, frame: FrameType) -> bool:
        """Return True if the user's code calls this frame, directly or through inspected library code."""
        back = frame.f_back
        while back is not None and self._library_codes.get(id(back.f_code), (None, False))[1]:
            back = back.f_back
        return back is not None and id(back.f_code) in self.codes
