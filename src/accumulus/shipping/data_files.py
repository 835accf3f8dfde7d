"""Files of plain data and arrays: a header, JSON, and the numbers.

The header has the name of the format, its version, a hash of everything after it, and the length of the JSON. The hash
detects truncated or damaged files. An attacker can compute it, too, so everything that is read is checked before use
(`Fields`).
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import FileError, SizeError
from accumulus.graph.files import json_of, read_bytes
from accumulus.memory import check_fits

MAGIC: Final = b"accumulus derivative\n"
#: Version of the format. Increase it for a change that older versions would misread.
VERSION: Final = 1
#: Version, hash, length of the JSON.
_HEAD: Final = struct.Struct("<I32sQ")
#: Alignment of arrays, in bytes.
_ALIGNMENT: Final = 8
#: Types of arrays, by their names in files.
_TYPES: Final = {
    dtype.str: dtype
    for code in ("?", *np.typecodes["AllInteger"], *np.typecodes["AllFloat"])
    for dtype in [np.dtype(code).newbyteorder("<")]
}
_MOST_AXES: Final = 32
#: Bound on the entries of a shape whose axes of length 0 are left out: NumPy refuses arrays of 2⁶³ bytes, also empty
#: ones. A larger one raises NumPy's error when results are allocated, a smaller one refuses no array that fits memory.
_MOST_ENTRIES: Final = 1 << 58


class Arrays:
    """The arrays of a file to be written; data refer to them by position."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.table: list[list[Any]] = []
        self._size = 0

    def add(self, array: Any, dtype: Any = None) -> int:
        """Add an array and return its position."""
        contiguous = np.ascontiguousarray(array, dtype)
        self.table.append([contiguous.dtype.newbyteorder("<").str, list(np.shape(array)), self._size])
        content = contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False).tobytes()
        content += bytes(-len(content) % _ALIGNMENT)
        self._parts.append(content)
        self._size += len(content)
        return len(self.table) - 1

    def bytes(self) -> bytes:
        """Return all arrays as bytes, one after the other."""
        return b"".join(self._parts)


class Fields:
    """JSON object of a file; its getters return values of the right kind, or raise a `FileError`.

    Args:
        data: the object.
        subject: name of the object, for messages.
        arrays: arrays of the file.
    """

    def __init__(self, data: Any, subject: str, arrays: Sequence[NDArray[Any]]) -> None:
        if not isinstance(data, dict):
            raise FileError(f"{subject} is {shortened(data)}; expected an object")
        self.data, self.subject, self.arrays = data, subject, arrays

    def _wrong(self, name: str, expected: str) -> FileError:
        return FileError(f"'{name}' of {self.subject} is {shortened(self.data.get(name))}; expected {expected}")

    def text(self, name: str) -> str:
        """Return text."""
        value = self.data.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def number(self, name: str, minimum: int = 0, most: int = 1 << 62) -> int:
        """Return an integer in a range."""
        value = self.data.get(name)
        if type(value) is not int or not minimum <= value <= most:
            raise self._wrong(name, f"a whole number from {minimum} to {most}")
        return value

    def truth(self, name: str) -> bool:
        """Return a boolean."""
        value = self.data.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def items(self, name: str) -> list[Any]:
        """Return a list."""
        value = self.data.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value

    def record(self, name: str) -> Fields:
        """Return an object within this one."""
        return Fields(self.data.get(name), f"'{name}' of {self.subject}", self.arrays)

    def records(self, name: str) -> list[Fields]:
        """Return a list of objects."""
        return [Fields(each, f"'{name}' {k} of {self.subject}", self.arrays) for k, each in enumerate(self.items(name))]

    def array(self, name: str, kinds: str = "i") -> NDArray[Any]:
        """Return an array with one axis, of dtypes of the given kinds."""
        position = self.data.get(name)
        if type(position) is not int or not 0 <= position < len(self.arrays):
            raise self._wrong(name, f"the position of one of {len(self.arrays)} arrays")
        row = self.arrays[position]
        if row.ndim != 1 or row.dtype.kind not in kinds:
            raise FileError(f"'{name}' of {self.subject} is an array of {row.dtype} {row.shape}; expected a row")
        return row

    def shape(self, value: Any) -> tuple[int, ...]:
        """Return a shape from its JSON form."""
        if (
            not isinstance(value, list)
            or len(value) > _MOST_AXES
            or any(type(n) is not int or n < 0 for n in value)
            or math.prod(filter(None, value)) > _MOST_ENTRIES
        ):
            raise FileError(f"{self.subject} has the shape {shortened(value)}; expected whole numbers")
        return tuple(value)

    def check_fits(self, numbers: int) -> None:
        """Raise a `FileError` if so many numbers, which the object needs in memory, take more than is free."""
        try:
            check_fits(8 * numbers, self.subject, "expected a smaller program")
        except SizeError as error:
            raise FileError(str(error)) from None


def write_data(path: str | PathLike[str], data: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a complete file, or none.

    Raises:
        OSError: if the file cannot be written.
    """
    import json

    text = json.dumps({**data, "arrays": arrays.table}, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(len(MAGIC) + _HEAD.size + len(text)) % _ALIGNMENT)
    body = text + arrays.bytes()
    content = MAGIC + _HEAD.pack(VERSION, _digest(len(text), body), len(text)) + body
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def read_data(path: str | PathLike[str]) -> Fields:
    """Return the content of a file.

    Raises:
        FileError: if the file was not written by `write_data`, or has changed since.
        OSError: if the file cannot be read.
    """
    content = read_bytes(path, FileError)
    start = len(MAGIC) + _HEAD.size
    if not content.startswith(MAGIC) or len(content) < start:
        raise FileError(f"{path} was not written by accumulus.save; expected a file that was")
    version, digest, length = _HEAD.unpack_from(content, len(MAGIC))
    if version != VERSION:
        raise FileError(
            f"{path}: its form has version {version}, this accumulus reads {VERSION}; save the derivative again with "
            "this version"
        )
    body = content[start:]
    if digest != _digest(length, body) or length > len(body):
        raise FileError(f"{path} was changed since it was written, or is incomplete; save the derivative again")
    data = json_of(body[:length], path, FileError, infinite=False)
    whole = Fields(data, "the file", ())
    arrays: list[NDArray[Any]] = []
    at = length
    for entry in whole.items("arrays"):
        arrays.append(_array(entry, body, at, length))
        at += arrays[-1].nbytes + -arrays[-1].nbytes % _ALIGNMENT
    if at != len(body):
        raise FileError(f"the file has {len(body) - at} bytes after its arrays; expected none")
    whole.arrays = tuple(arrays)
    return whole


def _digest(length: int, body: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<IQ", VERSION, length) + body).digest()


def _array(entry: Any, body: bytes, at: int, start: int) -> NDArray[Any]:
    """Return the array at a place, which an entry of the table describes; arrays follow each other from `start` on."""
    if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str):
        raise FileError(f"an array is described by {shortened(entry)}; expected its type, shape and position")
    name, sizes, position = entry
    dtype = _TYPES.get(name)
    if dtype is None:
        raise FileError(f"an array has the type {shortened(name)}; expected one of {', '.join(_TYPES)}")
    shape = Fields({}, "an array", ()).shape(sizes)
    count = math.prod(shape)
    if type(position) is not int or position != at - start or count * dtype.itemsize > len(body) - at:
        raise FileError("an array is not where the one before it ends, or reaches beyond the end of the file")
    array = np.frombuffer(body, dtype, count, at).reshape(shape)
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise FileError("an array has truth values that are neither 0 nor 1")
    return array
