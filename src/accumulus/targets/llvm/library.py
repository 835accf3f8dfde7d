"""Machine code of a program: as it leaves the compiler, in the cache, and as it runs.

The machine code of a program depends on the tape, the result arrays, the shapes of the arguments, the variant, the
versions of the code that writes and compiles, and the processor. A hash of all these is the key of the code in the
cache (`accumulus.cache`), so that a second process emits no text and loads no LLVM. Cached code has no addresses: it
names the functions and tables that it uses, and every process links it anew.
"""

from __future__ import annotations

import functools
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus import cache
from accumulus.native.linker import Linked, UnknownObjectError, is_supported
from accumulus.tape.bytes import digest, to_bytes
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment, Shape
from accumulus.versions import processor

__all__ = ["Code", "Image", "Library", "key_of", "load", "store", "version"]


#: An object file, and names of functions in it that other code calls.
Image = tuple[bytes, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Code:
    """Compiled code that is not linked yet.

    Attributes:
        images: object files, each with the names of functions that are exported or called by the last.
        imports: names of the functions and variables that it needs from outside.
        tables: arrays that it reads, by name.
        exports: names of functions that other code calls.
    """

    images: tuple[Image, ...]
    imports: tuple[str, ...]
    tables: Mapping[str, NDArray[Any]]
    exports: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """All of it, for the cache."""
        tables = [(name, table.dtype.str, table.shape) for name, table in self.tables.items()]
        names = {"imports": self.imports, "exports": self.exports}
        images = [(len(image), names) for image, names in self.images]
        head = json.dumps({**names, "tables": tables, "images": images}).encode()
        contents = (image for image, _ in self.images)
        return b"".join([head, b"\n", *contents, *(table.tobytes() for table in self.tables.values())])

    @classmethod
    def from_bytes(cls, content: bytes) -> Code:
        """The code that `to_bytes` was called on."""
        text, _, rest = content.partition(b"\n")
        head = json.loads(text)
        images, tables, at = [], {}, 0
        for size, names in head["images"]:
            images.append((rest[at : at + size], tuple(names)))
            at += size
        for name, kind, shape in head["tables"]:
            count = int(np.prod(shape, dtype=np.int64))
            # copied, so that entries lie where processors like them
            tables[name] = np.frombuffer(rest, kind, count, at).reshape(shape).copy()
            at += tables[name].nbytes
        return cls(tuple(images), tuple(head["imports"]), tables, tuple(head["exports"]))


class Library:
    """Compiled code in memory, as long as this object lives.

    Args:
        code: the compiled code.
        exports: functions and variables whose addresses are wanted.
        objects: addresses of imports that are not functions of a library of this process, by name.

    Attributes:
        addresses: of the exports, by name.

    Raises:
        CompileError: if the code cannot be linked in this process.
    """

    __slots__ = ("__weakref__", "_linked", "_tables", "addresses")

    def __init__(self, code: Code, exports: Sequence[str], objects: Mapping[str, int]) -> None:
        imports = {name: objects[name] for name in code.imports if name in objects}
        imports |= {name: table.ctypes.data for name, table in code.tables.items()}
        self._tables = code.tables  # as long as code may read them
        apart = {name for _, names in code.images[:-1] for name in names}
        found: dict[str, int] = {}
        self._linked: list[Any] = []
        for image, names in (*code.images[:-1], (code.images[-1][0], [name for name in exports if name not in apart])):
            self._linked.append(_linked(image, names, imports | found, code.imports))
            found |= self._linked[-1].addresses
        self.addresses: dict[str, int] = found


def _linked(image: bytes, exports: Sequence[str], imports: Mapping[str, int], names: Sequence[str]) -> Any:
    """An object file in memory, linked by this package, or where it cannot by LLVM."""
    if is_supported():
        with suppress(UnknownObjectError):
            return Linked(image, exports, imports)
    from accumulus.targets.llvm.host import LinkedByLLVM

    return LinkedByLLVM(image, exports, imports, names)


def key_of(
    tape: Tape,
    arguments: Sequence[Shape],
    segments: Sequence[Segment],
    dtype: str,
    exact: Iterable[int],
    changes: Mapping[str, object],
) -> str:
    """The key of a program's code for one purpose.

    Args:
        tape, arguments, segments, dtype, exact: as for `LLVMKernel`.
        changes: attributes in which its variant differs from the tuned one, by name.
    """
    return digest(
        [
            version(),
            to_bytes(tape),
            *(
                bytes(array("q", positions))
                for segment in segments
                for positions in (segment.outputs, segment.positions)
            ),
            bytes(array("q", sorted(exact))),
            repr((arguments, [segment.length for segment in segments], dtype, sorted(changes.items()))).encode(),
        ]
    )


def load(key: str) -> Code | None:
    """The code in the cache under a key; None if there is none."""
    content = cache.load("programs", key)
    try:
        return None if content is None else Code.from_bytes(content)
    except (ValueError, KeyError, TypeError):
        return None


def store(key: str, code: Code) -> None:
    """Store code in the cache, if the cache can be used."""
    cache.store("programs", key, code.to_bytes())


@functools.cache
def version() -> bytes:
    """Versions of the code that compiles, and the processor: the part of a key that is the same for all programs."""
    return cache.version("programs") + f"\n{processor()}".encode()
