"""A tape as bytes and back: for the cache, and for keys of plans and code that are made from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["digest", "from_bytes", "to_bytes"]

_ARITY: Final = np.array([operation.arity for operation in OPERATIONS])
#: Numbers at the beginning: inputs, references, constants, outputs.
_HEAD: Final = 4


def to_bytes(tape: Tape) -> bytes:
    """Everything that a tape says: inputs, operations, constants bit for bit, outputs; equal tapes have equal bytes."""
    rows = np.zeros((len(tape), 4), "<i4")
    rows[:, 0] = np.frombuffer(bytes(tape.codes), np.uint8)
    rows[:, 1], rows[:, 2] = tape.first, tape.second
    rows[list(tape.third), 3] = list(tape.third.values())
    head = np.array([tape.inputs, len(tape), len(tape.constants), len(tape.outputs)], "<i8")
    rest = np.array(tape.constants, "<f8"), np.array(tape.outputs, "<i8"), rows
    return b"".join(array.tobytes() for array in (head, *rest))


def from_bytes(content: bytes) -> Tape:
    """The tape that `to_bytes` was given, with the same references.

    Raises:
        ValueError: if the bytes are not those of a tape: of another length, with operations that do not exist, or that
            come before their arguments.
    """
    inputs, size, constants, outputs = np.frombuffer(content, "<i8", _HEAD).tolist()
    if min(inputs, size - inputs, constants, outputs) < 0:
        raise ValueError("the bytes are not those of a tape")
    if len(content) != 8 * (_HEAD + constants + outputs) + 16 * size:
        raise ValueError(f"{len(content)} bytes are more or fewer than a tape has that begins in this way")
    kept = np.frombuffer(content, "<f8", constants, 8 * _HEAD)
    found = np.frombuffer(content, "<i8", outputs, 8 * (_HEAD + constants))
    rows = np.frombuffer(content, "<i4", 4 * size, 8 * (_HEAD + constants + outputs)).reshape(-1, 4).astype(np.int64)
    _check(inputs, rows, constants)
    if outputs and not (found.min() >= -constants and found.max() < size):
        raise ValueError("the tape has outputs that are not on it")
    return Tape.of_rows(inputs, rows, kept.tolist(), found.tolist())


def digest(parts: Iterable[bytes]) -> str:
    """A hash of several strings of bytes, 32 hexadecimal digits."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        # lengths, so that nothing can move from one part to the next
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def _check(inputs: int, rows: NDArray[np.int64], constants: int) -> None:
    codes = rows[:, 0]
    if codes[:inputs].any() or (codes < 0).any() or (codes >= len(OPERATIONS)).any() or not codes[inputs:].all():
        raise ValueError("the tape has operations that do not exist")
    before = np.arange(len(rows))[:, None]
    taken = np.arange(3) < _ARITY[codes][:, None]
    if (taken & ((rows[:, 1:] >= before) | (rows[:, 1:] < -constants))).any():
        raise ValueError("the tape has operations that come before their arguments")
