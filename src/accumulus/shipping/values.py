"""Constants as data and back: what arguments and results hold besides numbers that are computed.

Numbers, text, tuples and the like are written as they are, floating-point numbers bit for bit. Of classes and members
of enumerations a file has the names alone. Reading imports nothing: a class has to be there already, in a module that
the process has imported, or be given by the caller; so a file cannot choose what code is run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import Enum
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np

from accumulus.errors import ArgumentError, FileError
from accumulus.shipping.data_files import Arrays, Record

__all__ = ["Classes", "Constants", "written"]

_KINDS_OF_ARRAYS: Final = "biufc"


def written(value: Any, what: str, arrays: Arrays) -> Any:
    """A constant as data.

    Args:
        what: it is, for messages.

    Raises:
        ArgumentError: for what no file can hold.
    """
    if value is None or isinstance(value, bool) or type(value) in (int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if type(value) is bytes:
        return {"bytes": value.hex()}
    if type(value) in (tuple, list, frozenset):
        return {type(value).__name__: [written(each, what, arrays) for each in value]}
    if isinstance(value, type):
        return {"class": _place(value, what)}
    if isinstance(value, Enum):
        return {"member": [*_place(type(value), what), value.name]}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS_OF_ARRAYS:
        return {"numpy": arrays.add(value), "number": isinstance(value, np.generic)}
    raise ArgumentError(
        f"{what} is a {type(value).__module__}.{type(value).__qualname__}, which a file of a derivative cannot hold; "
        "expected numbers, text, None, tuples of those, classes and members of enumerations"
    )


def _place(kind: type, what: str) -> list[str]:
    if "<locals>" in kind.__qualname__:
        raise ArgumentError(
            f"{what} needs the class {kind.__qualname__}, which is defined inside of a function, so that nobody else "
            "finds it; define it at the top of its module"
        )
    return [kind.__module__, kind.__qualname__]


class Classes:
    """The classes that a file may name.

    Args:
        given: by the caller, besides those of modules that are imported.
    """

    def __init__(self, given: Iterable[type] = ()) -> None:
        self._given = {kind.__qualname__: kind for kind in given}

    def find(self, place: Any) -> type:
        """The class at a place, without running anything.

        Raises:
            FileError: if there is none.
        """
        if not isinstance(place, list) or len(place) != 2 or not all(isinstance(part, str) for part in place):
            raise FileError(f"a class is told by {shortened(place)}; expected its module and name")
        module, name = place
        if name in self._given:
            return self._given[name]
        found: Any = sys.modules.get(module)
        if found is not None:
            for part in name.split("."):
                found = getattr(found, "__dict__", {}).get(part)
        if not isinstance(found, type):
            raise FileError(
                f"the derivative needs the class {shortened(name)} of the module {shortened(module)}, which is not "
                "there; import it before the file is loaded, or hand it over: acc.load(path, classes=[…])"
            )
        return found


class Constants:
    """Reads constants.

    Args:
        classes: that they may name.
    """

    def __init__(self, classes: Classes) -> None:
        self._classes = classes

    def read(self, data: Any, within: Record) -> Any:
        """The constant that data describe.

        Raises:
            FileError: if they describe none.
        """
        if data is None or isinstance(data, bool) or type(data) is int:
            return data
        if isinstance(data, str):
            return sys.intern(data)  # compiled readers compare by identity
        try:
            return self._tagged(data, within)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{shortened(data)} in {within.what} is no constant") from None

    def _tagged(self, data: Any, within: Record) -> Any:
        if isinstance(data, dict) and len(data) == 1:
            ((tag, held),) = data.items()
            if tag == "float":
                return float.fromhex(held)
            if tag == "complex":
                return complex(*(float.fromhex(part) for part in held))
            if tag == "bytes":
                return bytes.fromhex(held)
            if tag in ("tuple", "list", "frozenset") and isinstance(held, list):
                parts = [self.read(each, within) for each in held]
                return tuple(parts) if tag == "tuple" else parts if tag == "list" else frozenset(parts)
            if tag == "class":
                return self._classes.find(held)
            if tag == "member" and isinstance(held, list) and len(held) == 3:
                kind = self._classes.find(held[:2])
                if issubclass(kind, Enum) and isinstance(held[2], str) and held[2] in kind.__members__:
                    return kind.__members__[held[2]]
        if isinstance(data, dict) and data.keys() == {"numpy", "number"}:
            position = data["numpy"]
            if type(position) is int and 0 <= position < len(within.arrays):
                array = within.arrays[position].copy()
                return array[()] if data["number"] else array
        raise FileError(f"{shortened(data)} in {within.what} is no constant")
