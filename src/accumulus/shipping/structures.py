"""Structures of arguments and results as data and back.

A container is told by its kind, and by what makes one of its parts: how many there are, keys, or names. It is made by
opening an example, as calls do, so that it is equal to what calls find. Classes are found, never imported, see
`accumulus.shipping.values`; objects are made without their constructors.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import is_dataclass
from reprlib import repr as shortened
from typing import Any, Final

from accumulus.errors import ArgumentError, FileError
from accumulus.frontends.calls import constant_key
from accumulus.frontends.containers import Container, opened
from accumulus.frontends.kinds import as_nested_lists
from accumulus.frontends.trees import Branch, Constant, Leaf, Structure
from accumulus.shipping.data_files import Arrays, Record
from accumulus.shipping.values import Constants, written

__all__ = ["structure_as_data", "structure_from_data"]

_DICTS: Final = {"dict": dict, "OrderedDict": OrderedDict}


def structure_as_data(structure: Structure, what: str, arrays: Arrays) -> Any:
    """A structure as data.

    Args:
        what: it is the structure of, for messages.

    Raises:
        ArgumentError: for a container, or a constant, that no file can hold.
    """
    if isinstance(structure, Leaf):
        if structure.written not in (None, as_nested_lists):
            raise ArgumentError(
                f"{what} holds a table, or an array of another library, which a file of a derivative cannot hold; "
                "expected numbers and NumPy arrays in lists, tuples, dicts and data classes"
            )
        return "array" if structure.written is None else "list of numbers"
    if isinstance(structure, Constant):
        # a part that is fixed by its container is told apart by that
        fixed = isinstance(structure.key, type)
        key = written(structure.key, what, arrays) if fixed else None
        return {"constant": written(structure.value, what, arrays), "of": key}
    return {
        **_container_as_data(structure.container, what, arrays),
        "parts": [structure_as_data(part, what, arrays) for part in structure.parts],
    }


def _container_as_data(container: Container, what: str, arrays: Arrays) -> dict[str, Any]:
    kind, count = container.kind, len(container.labels)
    if kind is type(None):
        return {"kind": "None"}
    if kind in (list, tuple):
        return {"kind": kind.__name__}
    if kind in _DICTS.values():
        return {"kind": kind.__name__, "keys": [written(k, what, arrays) for k in container.build([0.0] * count)]}
    place = written(kind, what, arrays)["class"]
    if container.attributes:
        return {"kind": "object", "class": place, "names": [label[1:] for label in container.labels]}
    if issubclass(kind, list | tuple) and container.rest is None:
        return {"kind": "sequence", "class": place}
    raise ArgumentError(
        f"{what} holds a {kind.__qualname__}, which a file of a derivative cannot hold; expected lists, tuples, named "
        "tuples, dicts, data classes and attrs classes"
    )


def structure_from_data(data: Any, within: Record, constants: Constants) -> Structure:
    """The structure that data describe.

    Raises:
        FileError: if they describe none, or need a class that is not there.
    """
    if data in ("array", "list of numbers"):
        return Leaf() if data == "array" else Leaf(as_nested_lists)
    if isinstance(data, dict) and data.keys() == {"constant", "of"}:
        value = constants.read(data["constant"], within)
        key = constants.read(data["of"], within)
        return Constant(constant_key(value, within.what) if key is None else key, value)
    record = Record(data, f"a structure of {within.what}", within.arrays)
    parts = tuple([structure_from_data(part, within, constants) for part in record.data.get("parts") or ()])
    container = _container(record, parts, constants)
    if len(container.labels) != len(parts):
        raise FileError(f"a {container.kind.__name__} of {within.what} has {len(parts)} parts; it cannot have as many")
    return Branch(container, parts)


def _container(record: Record, parts: tuple[Structure, ...], constants: Constants) -> Container:
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
        found = constants.read({"class": record.data.get("class")}, record)
        example = _object(found, parts, record) if kind == "object" else _sequence(found, count)
    else:
        raise FileError(f"a structure has the kind {shortened(kind)}, which does not exist")
    opened_example = opened(example)
    if opened_example is None:
        raise FileError(f"{type(example).__qualname__} is no container in this process; expected one as it was")
    return opened_example[0]


def _object(kind: Any, parts: tuple[Structure, ...], record: Record) -> Any:
    names = record.items("names")
    if not (is_dataclass(kind) or hasattr(kind, "__attrs_attrs__")) or not all(isinstance(n, str) for n in names):
        raise FileError(f"{kind.__qualname__} is neither a data class nor an attrs class, as it was")
    if len(names) != len(parts):
        raise FileError(f"an object of {kind.__qualname__} has {len(names)} names for {len(parts)} parts")
    made = object.__new__(kind)
    for name, part in zip(names, parts, strict=True):
        if name.startswith("__"):
            raise FileError(f"an object of {kind.__qualname__} has the attribute {shortened(name)}; expected none")
        # what is constant decides how the object is opened
        object.__setattr__(made, name, part.value if isinstance(part, Constant) else 0.0)
    return made


def _sequence(kind: Any, count: int) -> Any:
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [0.0] * count)
    if issubclass(kind, list):
        made = list.__new__(kind)
        list.__init__(made, [0.0] * count)
        return made
    raise FileError(f"{kind.__qualname__} is neither a list nor a tuple, as it was")
