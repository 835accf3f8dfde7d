"""Conversion of structures of arguments and results, and the constants in them, to data and back.

Numbers, text, tuples and similar objects are stored by value, floating-point numbers bit for bit. Classes and members
of enumerations are stored by name. Reading imports nothing: a class has to exist already, in a module that the process
has imported, or be passed by the caller. A file therefore cannot choose which code runs.

A container is described by its kind and its number of elements, keys or names. Reading opens an example container, as
calls do, so that the container equals that of a call; objects are made without calling their constructors.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import is_dataclass
from enum import Enum
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np

from accumulus.errors import ArgumentError, FileError
from accumulus.frontends.calls import constant_key
from accumulus.frontends.kinds import as_nested_lists
from accumulus.frontends.trees import Branch, Constant, Container, Leaf, Structure, opened
from accumulus.shipping.data_files import Arrays, Fields

# Constants ------------------------------------------------------------------------------------------------------------


_KINDS_OF_ARRAYS: Final = "biufc"


def constant_as_data(value: Any, subject: str, arrays: Arrays) -> Any:
    """Return a constant as data.

    Args:
        value: constant to write.
        subject: name of the constant, for messages.
        arrays: arrays of the file, to which arrays are added.

    Raises:
        ArgumentError: for an object that a file cannot store.
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
        return {type(value).__name__: [constant_as_data(each, subject, arrays) for each in value]}
    if isinstance(value, type):
        return {"class": _class_path(value, subject)}
    if isinstance(value, Enum):
        return {"member": [*_class_path(type(value), subject), value.name]}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS_OF_ARRAYS:
        return {"numpy": arrays.add(value), "number": isinstance(value, np.generic)}
    raise ArgumentError(
        f"{subject} is a {type(value).__module__}.{type(value).__qualname__}, which a file of a derivative cannot "
        "hold; expected numbers, text, None, tuples of those, classes and members of enumerations"
    )


def _class_path(kind: type, subject: str) -> list[str]:
    if "<locals>" in kind.__qualname__:
        raise ArgumentError(
            f"{subject} needs the class {kind.__qualname__}, which is defined inside of a function and cannot be "
            "imported; define it at the top of its module"
        )
    if kind is type(None):  # no module has it under the name that it gives
        return ["types", "NoneType"]
    return [kind.__module__, kind.__qualname__]


class AllowedClasses:
    """The classes that a file may name.

    Args:
        classes: classes from the caller, in addition to classes of imported modules.
    """

    def __init__(self, classes: Iterable[type] = ()) -> None:
        self._by_name = {kind.__qualname__: kind for kind in classes}

    def find(self, path: Any) -> type:
        """Return the class with a module and name, without running code.

        Raises:
            FileError: if there is no such class.
        """
        if not isinstance(path, list) or len(path) != 2 or not all(isinstance(segment, str) for segment in path):
            raise FileError(f"a class is described by {shortened(path)}; expected its module and name")
        module, name = path
        if name in self._by_name:
            return self._by_name[name]
        member: Any = sys.modules.get(module)
        if member is not None:
            for segment in name.split("."):
                member = getattr(member, "__dict__", {}).get(segment)
        if not isinstance(member, type):
            raise FileError(
                f"the derivative needs the class {shortened(name)} of the module {shortened(module)}, which cannot be "
                "imported; import it before the file is loaded, or pass it: acc.load(path, classes=[…])"
            )
        return member


class Constants:
    """Reader of constants.

    Args:
        classes: classes that constants may name.
    """

    def __init__(self, classes: AllowedClasses) -> None:
        self._classes = classes

    def read(self, data: Any, within: Fields) -> Any:
        """Return the constant that data describe.

        Raises:
            FileError: if the data do not describe a constant.
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
            raise FileError(f"{shortened(data)} in {within.subject} is not a constant") from None

    def _tagged(self, data: Any, within: Fields) -> Any:
        if isinstance(data, dict) and len(data) == 1:
            ((tag, held),) = data.items()
            if tag == "float":
                return float.fromhex(held)
            if tag == "complex":
                return complex(*(float.fromhex(number) for number in held))
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
        raise FileError(f"{shortened(data)} in {within.subject} is not a constant")


# Structures -----------------------------------------------------------------------------------------------------------


_DICTS: Final = {"dict": dict, "OrderedDict": OrderedDict}


def structure_as_data(structure: Structure, subject: str, arrays: Arrays) -> Any:
    """Return a structure as data.

    Args:
        structure: structure to write.
        subject: owner of the structure, for messages.
        arrays: arrays of the file, to which arrays are added.

    Raises:
        ArgumentError: for a container, or a constant, that a file cannot store.
    """
    if isinstance(structure, Leaf):
        if structure.written not in (None, as_nested_lists):
            raise ArgumentError(
                f"{subject} holds a table, or an array of another library, which a file of a derivative cannot hold; "
                "expected numbers and NumPy arrays in lists, tuples, dicts and data classes"
            )
        return "array" if structure.written is None else "list of numbers"
    if isinstance(structure, Constant):
        # elements that their container keeps constant have their type as key
        fixed = isinstance(structure.key, type)
        key = constant_as_data(structure.key, subject, arrays) if fixed else None
        return {"constant": constant_as_data(structure.value, subject, arrays), "of": key}
    return {
        **_container_as_data(structure.container, subject, arrays),
        "parts": [structure_as_data(child, subject, arrays) for child in structure.parts],
    }


def _container_as_data(container: Container, subject: str, arrays: Arrays) -> dict[str, Any]:
    kind, count = container.kind, len(container.labels)
    if kind is type(None):
        return {"kind": "None"}
    if kind in (list, tuple):
        return {"kind": kind.__name__}
    if kind in _DICTS.values():
        return {
            "kind": kind.__name__,
            "keys": [constant_as_data(k, subject, arrays) for k in container.build([0.0] * count)],
        }
    class_path = constant_as_data(kind, subject, arrays)["class"]
    if container.attributes:
        return {"kind": "object", "class": class_path, "names": [label[1:] for label in container.labels]}
    if issubclass(kind, list | tuple) and container.rest is None:
        return {"kind": "sequence", "class": class_path}
    raise ArgumentError(
        f"{subject} holds a {kind.__qualname__}, which a file of a derivative cannot hold; expected lists, tuples, "
        "named tuples, dicts, data classes and attrs classes"
    )


def structure_from_data(data: Any, within: Fields, constants: Constants) -> Structure:
    """Return the structure that data describe.

    Raises:
        FileError: if the data do not describe a structure, or need an unknown class.
    """
    if data in ("array", "list of numbers"):
        return Leaf() if data == "array" else Leaf(as_nested_lists)
    if isinstance(data, dict) and data.keys() == {"constant", "of"}:
        value = constants.read(data["constant"], within)
        key = constants.read(data["of"], within)
        return Constant(constant_key(value, within.subject) if key is None else key, value)
    record = Fields(data, f"a structure of {within.subject}", within.arrays)
    parts = tuple([structure_from_data(child, within, constants) for child in record.data.get("parts") or ()])
    container = _container(record, parts, constants)
    if len(container.labels) != len(parts):
        raise FileError(
            f"a {container.kind.__name__} of {within.subject} has {len(parts)} parts; it cannot have as many"
        )
    return Branch(container, parts)


def _container(record: Fields, parts: tuple[Structure, ...], constants: Constants) -> Container:
    kind, count = record.text("kind"), len(parts)
    example: Any
    if kind == "None":
        example = None
    elif kind in ("list", "tuple"):
        example = ([0.0] if kind == "list" else (0.0,)) * count
    elif kind in _DICTS:
        keys = [constants.read(key, record) for key in record.items("keys")]
        try:
            example = _DICTS[kind].fromkeys(keys, 0.0)
        except TypeError:
            raise FileError(f"{shortened(keys)} are no keys of a dict") from None
    elif kind in ("object", "sequence"):
        container_class = constants.read({"class": record.data.get("class")}, record)
        example = _object(container_class, parts, record) if kind == "object" else _sequence(container_class, count)
    else:
        raise FileError(f"a structure has the kind {shortened(kind)}, which does not exist")
    opened_example = opened(example)
    if opened_example is None:
        raise FileError(
            f"{type(example).__qualname__} is not a registered container in this process; register it as before it "
            "was saved"
        )
    return opened_example[0]


def _object(kind: Any, parts: tuple[Structure, ...], record: Fields) -> Any:
    names = record.items("names")
    if not (is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")) or not all(isinstance(n, str) for n in names):
        raise FileError(f"{kind.__qualname__} is neither a data class nor an attrs class; it was one when it was saved")
    if len(names) != len(parts):
        raise FileError(f"an object of {kind.__qualname__} has {len(names)} names for {len(parts)} parts")
    made = object.__new__(kind)
    for name, child in zip(names, parts, strict=True):
        if name.startswith("__"):
            raise FileError(f"an object of {kind.__qualname__} has the attribute {shortened(name)}; expected none")
        # the values of constants determine how the object is opened
        object.__setattr__(made, name, child.value if isinstance(child, Constant) else 0.0)
    return made


def _sequence(kind: Any, count: int) -> Any:
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [0.0] * count)
    if issubclass(kind, list):
        made = list.__new__(kind)
        list.__init__(made, [0.0] * count)
        return made
    raise FileError(f"{kind.__qualname__} is neither a list nor a tuple; it was one when it was saved")
