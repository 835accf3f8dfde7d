"""JSON from files that anybody may have written: read whole, within limits, as strictly as the format is defined.

Besides what the parser itself refuses: an object with one key twice, of which a parser keeps one silently; numbers that
no float64 holds; files larger than `LARGEST_FILE`, and what is no file.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

from accumulus.errors import AccumulusError

#: Bytes of a file; a graph of a million edges takes about a tenth.
LARGEST_FILE: Final = 1 << 28
#: No number of a vertex, edge or reference is larger.
LARGEST_NUMBER: Final = (1 << 31) - 1


class _OddError(ValueError):
    """Valid for Python's parser, and refused here."""


def parsed_json(path: str | PathLike[str], error: type[AccumulusError], *, infinite: bool) -> Any:
    """Return what a JSON file holds.

    Args:
        error: what to raise.
        infinite: whether ``NaN``, ``Infinity`` and ``-Infinity`` are numbers, as Python writes them.

    Raises:
        error: if it is not JSON; the message names the file and the place.
        OSError: if it cannot be read.
    """
    return json_of(read_bytes(path, error), path, error, infinite=infinite)


def json_of(content: bytes, path: str | PathLike[str], error: type[AccumulusError], *, infinite: bool) -> Any:
    """Return what JSON in a file holds; arguments and errors are those of `parsed_json`."""

    def constant(word: str) -> float:
        if not infinite:
            raise _OddError(f"{word} is no number of JSON; expected one")
        return float(word)

    try:
        text = content.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=constant)
    except _OddError as odd:
        raise error(f"{path}: {odd}") from None
    except (ValueError, RecursionError) as reason:
        raise error(f"{path} is not a JSON file: {reason}") from None


def read_bytes(path: str | PathLike[str], error: type[AccumulusError]) -> bytes:
    """The content of a file that is not too large, and a file."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{Path(path)} is not a file with content of its own; expected one")
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise error(f"{Path(path)} is larger than {LARGEST_FILE >> 20} MB; expected a smaller file")
    return content


def check_keys(data: Mapping[str, Any], known: tuple[str, ...], what: str, error: type[AccumulusError]) -> None:
    """Refuse keys that are not known, since one that is misspelt would be overlooked."""
    for key in data:
        if key not in known:
            raise error(f"{what} has the unknown key {shortened(key)}; expected {', '.join(known)}")


def whole_numbers(
    given: Any, what: str, below: int, error: type[AccumulusError], length: int | None = None
) -> list[int]:
    """A list of whole numbers from 0 to below − 1."""
    if (
        not isinstance(given, list)
        or (length is not None and len(given) != length)
        or not all(type(number) is int and 0 <= number < below for number in given)
    ):
        many = "" if length is None else f"{length} "
        raise error(f"'{what}' is {shortened(given)}; expected a list of {many}whole numbers from 0 to {below - 1}")
    return given


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a file, each of whose keys is there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        key, times = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _OddError(f"the key {shortened(key)} is there {times} times in one object; expected once")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _OddError(f"the number {shortened(text)} is beyond what a float64 holds; expected a smaller one")
    return value
