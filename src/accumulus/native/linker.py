"""A small linker: it loads the object code of one module into this process without loading LLVM.

Importing llvmlite takes longer than everything else that a second process does for a function whose code is cached. The
linker lays the code's sections side by side in memory of their own, and fills in missing distances and addresses.

It reads position-independent ELF files for x86-64 in the small code model, which LLVM is asked for here. It raises
`UnknownObjectError` for anything else, and LLVM's own linker takes over.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, version 1.0, chapter 4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_HEADER: Final = np.dtype(
    [
        *(("magic", "S4"), ("rest", "V12"), ("type", "<u2"), ("machine", "<u2"), ("more", "V20"), ("sections", "<u8")),
        *(("flags", "<u4"), ("sizes", "V6"), ("section_size", "<u2"), ("count", "<u2"), ("names", "<u2")),
    ]
)
_SECTION: Final = np.dtype(
    [
        *(("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8")),
        *(("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")),
    ]
)
_SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION: Final = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_ELF, _RELOCATABLE, _X86_64 = b"\x7fELF", 1, 62
#: Types of sections, their flags, and the section number of external symbols.
_SYMBOLS, _RELOCATIONS, _CLEARED = 2, 4, 8
_WRITABLE, _IN_MEMORY, _THREAD_LOCAL = 1, 2, 0x400
_OUTSIDE: Final = 0
#: Kinds of relocations: an address, a distance, the distance to a callee, the distance to a slot with an address.
_ADDRESS, _DISTANCE, _CALL, _SLOTS = 1, 2, 4, (9, 41, 42)
#: A jump to the address in a slot, followed by the distance to the slot.
_JUMP: Final = b"\xff\x25"
_STUB: Final = 8


class UnknownObjectError(Exception):
    """The object code has an unknown construct, or the system refuses to load it."""


def is_supported() -> bool:
    """Return True if the linker supports this machine."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and ctypes.sizeof(ctypes.c_void_p) == 8


@cache
def _process() -> Any:
    return ctypes.CDLL(None)


@cache
def _vector_mathematics() -> Any:
    """Return glibc's vector mathematics, which not every process loads; None if there is none."""
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


@cache
def address_of(name: str) -> int:
    """Return the address of a function of this process's libraries, or of glibc's vector mathematics; 0 for none."""
    for library in (_process, _vector_mathematics):
        try:
            return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    return 0


class Linked:
    """Code in memory, as long as this object lives.

    Args:
        image: the object file.
        exports: names of functions and variables whose addresses are requested.
        imports: addresses of external names; functions of the C library are found without.

    Attributes:
        addresses: addresses of the exports, by name.

    Raises:
        UnknownObjectError: if the object file or the system is not supported.
    """

    __slots__ = ("_memory", "addresses")

    def __init__(self, image: bytes, exports: Iterable[str], imports: Mapping[str, int]) -> None:
        try:
            file = _File(image)
            self._memory, base, places = _linked(file, imports)
        except (ValueError, IndexError, OSError) as error:
            raise UnknownObjectError(f"this object file is not as expected: {error}") from error
        addresses_of = {file.name(k): base + places[k] for k in file.named if k in places}
        missing = [name for name in exports if name not in addresses_of]
        if missing:
            raise UnknownObjectError(f"the object file does not have {', '.join(missing)}")
        self.addresses = {name: addresses_of[name] for name in exports}


class _File:
    """Contents of an object file."""

    def __init__(self, image: bytes) -> None:
        header = np.frombuffer(image, _HEADER, 1)[0]
        if (header["magic"], header["type"], header["machine"]) != (_ELF, _RELOCATABLE, _X86_64):
            raise UnknownObjectError("this is not an object file for x86-64")
        self._image = image
        self.sections = np.frombuffer(image, _SECTION, int(header["count"]), int(header["sections"]))
        (table,) = np.flatnonzero(self.sections["type"] == _SYMBOLS).tolist()
        self.symbols = self._read(table, _SYMBOL)
        self._names = self.content(int(self.sections["link"][table]))
        self.named = np.flatnonzero(self.symbols["name"]).tolist()
        self.foreign = [k for k in self.named if self.symbols["section"][k] == _OUTSIDE]

    def content(self, section: int) -> bytes:
        """Return the bytes of a section in the file."""
        header = self.sections[section]
        if header["type"] == _CLEARED:
            return b""
        content = self._image[int(header["offset"]) :][: int(header["size"])]
        if len(content) != header["size"]:
            raise UnknownObjectError("the object file is cut off")
        return content

    def name(self, symbol: int) -> str:
        """Return the name of a symbol."""
        start = int(self.symbols["name"][symbol])
        return self._names[start : self._names.index(b"\0", start)].decode()

    def in_memory(self, *, writable: bool) -> list[int]:
        """Return the loaded sections that are writable, or those that are not."""
        flags = self.sections["flags"]
        if (flags & _THREAD_LOCAL).any():
            raise UnknownObjectError("the object file has variables of threads")
        chosen = (flags & _IN_MEMORY != 0) & (flags & _WRITABLE != 0 if writable else flags & _WRITABLE == 0)
        return np.flatnonzero(chosen).tolist()

    def relocations(self, placed: Mapping[int, int]) -> NDArray[Any]:
        """Return relocations of the loaded sections; offsets in memory."""
        tables = [np.empty(0, _RELOCATION)]
        for table in np.flatnonzero(self.sections["type"] == _RELOCATIONS).tolist():
            target = int(self.sections["info"][table])
            if target in placed:
                relocations = self._read(table, _RELOCATION).copy()
                if (relocations["offset"] > self.sections["size"][target]).any():
                    raise UnknownObjectError("the object file has relocations beside its sections")
                relocations["offset"] += np.uint64(placed[target])
                tables.append(relocations)
        return np.concatenate(tables)

    def _read(self, section: int, kind: np.dtype[Any]) -> NDArray[Any]:
        return np.frombuffer(self.content(section), kind)


def _linked(file: _File, imports: Mapping[str, int]) -> tuple[mmap.mmap, int, dict[int, int]]:
    """Return the memory with the code, its address, and the offsets of symbols in it."""
    addresses = {k: _address(file.name(k), imports) for k in file.foreign}
    placed: dict[int, int] = {}
    # code and constants, stubs for calls that lead out of it, slots with addresses; writable sections on other pages
    stubs = _placed(file, placed, 0, writable=False)
    slots = stubs + _STUB * len(file.symbols)
    writable = _rounded(slots + 8 * len(file.symbols), mmap.PAGESIZE)
    memory = mmap.mmap(-1, max(_placed(file, placed, writable, writable=True), mmap.PAGESIZE))
    code = np.frombuffer(memory, np.uint8)
    base = code.ctypes.data

    for section, offset in placed.items():
        content = np.frombuffer(file.content(section), np.uint8)
        code[offset : offset + len(content)] = content
    places = {
        k: placed[section] + int(file.symbols["value"][k])
        for k, section in enumerate(file.symbols["section"].tolist())
        if section in placed
    }
    addresses |= {k: base + offset for k, offset in places.items()}
    for k in addresses:
        stub, slot = stubs + _STUB * k, slots + 8 * k
        code[stub : stub + 6] = np.frombuffer(_JUMP + (slot - stub - 6).to_bytes(4, "little", signed=True), np.uint8)
        code[slot : slot + 8] = np.frombuffer(addresses[k].to_bytes(8, "little"), np.uint8)

    missing = file.relocations(placed)
    kinds, symbols, addends = missing["kind"], missing["symbol"], missing["addend"]
    where = missing["offset"].astype(np.int64)
    at = np.full(len(file.symbols), -1, np.int64)
    at[list(places)] = list(places.values())
    direct = (kinds == _DISTANCE) | (kinds == _CALL)
    targets = np.where(direct, at[symbols], slots + 8 * symbols.astype(np.int64))
    targets = np.where((kinds == _CALL) & (targets < 0), stubs + _STUB * symbols.astype(np.int64), targets)
    absolute = kinds == _ADDRESS
    full = np.zeros(len(file.symbols), np.int64)
    full[list(addresses)] = list(addresses.values())
    # `np.isin` would import NumPy's masked arrays
    in_slots = np.logical_or.reduce([kinds == slot for slot in _SLOTS])
    if not ((direct | absolute | in_slots) & (full[symbols] != 0)).all():
        raise UnknownObjectError(f"the object file has relocations of the kinds {sorted(set(kinds.tolist()))}")
    if (targets < 0).any():
        raise UnknownObjectError("the object file reads what is not in it")
    _write(code, where[~absolute], (targets + addends - where)[~absolute].astype("<i4"))
    _write(code, where[absolute], (full[symbols] + addends)[absolute].astype("<i8"))

    if _process().mprotect(ctypes.c_void_p(base), ctypes.c_size_t(writable), mmap.PROT_READ | mmap.PROT_EXEC):
        raise UnknownObjectError("the system does not let memory of this process be executed")
    return memory, base, places


def _placed(file: _File, placed: dict[int, int], start: int, *, writable: bool) -> int:
    """Lay sections side by side; return their end."""
    for section in file.in_memory(writable=writable):
        start = placed[section] = _rounded(start, max(int(file.sections["align"][section]), 1))
        start += int(file.sections["size"][section])
    return _rounded(start, 16)


def _write(code: NDArray[np.uint8], where: NDArray[np.int64], numbers: NDArray[Any]) -> None:
    width = numbers.itemsize
    code[where[:, None] + np.arange(width)] = numbers.view(np.uint8).reshape(-1, width)


def _address(name: str, imports: Mapping[str, int]) -> int:
    address = imports.get(name) or address_of(name)
    if not address:
        raise UnknownObjectError(f"nothing is called {name}")
    return address


def _rounded(size: int, unit: int) -> int:
    return size + -size % unit
