"""Functions and methods of other libraries while a function is recorded.

NumPy's protocols hand over universal functions (``scipy.special.erf``), which need nothing here. All else is replaced
for the time of a recording. *Functions* (``scipy.special.logsumexp``) are replaced by name where the user's code finds
them, as functions of NumPy are: see `accumulus.frontends.numpy.patching`; SciPy's own modules keep them. *Methods*
(``PPoly.__call__``, and so every spline, wherever it comes from) are replaced in their class, since objects of it may
be reached in any way; they are no compiled code's business. Rows of SciPy are in `accumulus.frontends.scipy`, those of
`math` and `cmath` in `mathematics` and `complex_numbers`.

No library is imported for that: a row is resolved once the user has loaded its module. A replacement that is called
without a traced argument, or in a thread that does not record, calls the original.

To add one, write a function that takes the tape and the arguments of the original, under the decorator `borrows`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import MethodType, ModuleType
from typing import Any, Final, NamedTuple

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.location import in_library
from accumulus.frontends.numpy.arrays import as_constant
from accumulus.frontends.numpy.operands import concrete, depends
from accumulus.frontends.numpy.table import ArrayFunction, load_rows

#: Module → name in it → what records it: tape, then the arguments of the original, the object first for a method.
BORROWED: Final[dict[str, dict[str, Callable[..., Any]]]] = {}
#: Plain numbers, which depend on nothing.
_NUMBERS: Final = frozenset({bool, float, int})
#: Functions among them that are not recorded, since that has a reason to be told.
REFUSED: Final[set[str]] = set()
#: Modules whose rows have been resolved.
_resolved: Final[set[str]] = set()


class BorrowedFunction(NamedTuple):
    """A function of a loaded module, and how its calls are recorded."""

    original: Callable[..., Any]
    replacement: Callable[..., Any]


class Method(NamedTuple):
    """A method: the class, its name there, and what takes its place while something is recorded."""

    owner: type
    name: str
    replacement: Any


#: The flag of classes that are compiled, as some are in older versions of SciPy: their methods stay.
IMMUTABLE: Final = 1 << 8
#: The methods of loaded classes.
METHODS: Final[list[Method]] = []


def borrows(module: str, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function as what records ``module.name``, for each of the names.

    Args:
        module: the public module, such as "scipy.special"; it need not be there.
        names: of functions ("logsumexp"), and of methods with their class ("PPoly.__call__") or with an object of the
            class ("norm.pdf"). Names that the installed SciPy does not have are passed over.
    """

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        rows = BORROWED.setdefault(module, {})
        for name in names:
            assert name not in rows, f"{module}.{name} has two rows"
            rows[name] = record
        return record

    return enter


def refuses(module: str, reason: str, *names: str) -> None:
    """Enter functions that are not recorded, and why: what comes after "… is not recorded: "."""
    for name in names:
        full = f"{module}.{name}"
        REFUSED.add(full)
        BORROWED.setdefault(module, {})[name] = functools.partial(_refuse, full, reason)


def _refuse(name: str, reason: str, tape: Any, *arguments: Any, **keywords: Any) -> Any:
    raise refuse(f"{name} of values that depend on the function's arguments is not recorded: {reason}")


def newly_loaded() -> Iterator[tuple[ModuleType, list[BorrowedFunction]]]:
    """The modules of the table that have been loaded since this was last called, and their functions.

    Their methods are entered into `METHODS`. Packages that such a module is in come after it, without rows.
    """
    load_rows()
    for module_name in BORROWED.keys() - _resolved:
        module = sys.modules.get(module_name)
        if module is None or getattr(module.__spec__, "_initializing", False):
            continue
        _resolved.add(module_name)
        rows = []
        for name, record in BORROWED[module_name].items():
            owner, _, method = name.rpartition(".")
            if not owner:
                original = getattr(module, name, None)
                if original is not None:
                    rows.append(BorrowedFunction(original, _function(original, record)))
            elif hasattr(module, owner):
                found = getattr(module, owner)
                _enter_method(found if isinstance(found, type) else type(found), method, record)
        yield module, rows
        package = module_name.rpartition(".")[0]
        while package and package not in _resolved:
            _resolved.add(package)
            yield sys.modules[package], []
            package = package.rpartition(".")[0]


def bound(method: MethodType) -> MethodType:
    """A bound method that was taken before its class was changed, ``norm.pdf``, as it is now; others as they are."""
    now = getattr(type(method.__self__), getattr(method.__func__, "__name__", ""), None)
    if getattr(now, "__wrapped__", None) is method.__func__ and any(now is row.replacement for row in METHODS):
        return MethodType(now, method.__self__)  # type: ignore[arg-type]  # a row's replacement is a function
    return method


def _enter_method(owner: type, name: str, record: Callable[..., Any]) -> None:
    holder = next((base for base in owner.__mro__ if name in vars(base)), None)
    if holder is None or owner.__flags__ & IMMUTABLE:
        return
    original = vars(holder)[name]
    if isinstance(original, classmethod | staticmethod):
        METHODS.append(Method(owner, name, type(original)(_function(original.__func__, record))))
    else:
        METHODS.append(Method(owner, name, _function(original, record)))


def _function(original: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
    row = ArrayFunction(original, record)

    def function(*arguments: Any, **keywords: Any) -> Any:
        tape = ACTIVE.tape
        if tape is None:
            return original(*arguments, **keywords)
        if not keywords and _NUMBERS.issuperset(map(type, arguments)):
            result = original(*arguments)  # as fast as may be: loops over constants call functions of `math`
            if type(result) in _NUMBERS:
                return result
        if depends(arguments) or depends(keywords):
            return row(tape, arguments, keywords)
        result = original(*map(concrete, arguments), **concrete(keywords))
        return result if in_library(sys._getframe(1)) else as_constant(tape, result)

    return functools.update_wrapper(function, original)
