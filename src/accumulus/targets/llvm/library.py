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
from accumulus.versions import code_version, processor

__all__ = ["Code", "Library", "key_of", "load", "store", "version"]


@dataclass(frozen=True, slots=True)
class Code:
    """Compiled code that is not linked yet.

    Attributes:
        image: an object file.
        imports: names of the functions and variables that it needs from outside.
        tables: arrays that it reads, by name.
        exports: names of functions that other code calls.
    """

    image: bytes
    imports: tuple[str, ...]
    tables: Mapping[str, NDArray[Any]]
    exports: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """All of it, for the cache."""
        tables = [(name, table.dtype.str, table.shape) for name, table in self.tables.items()]
        names = {"imports": self.imports, "exports": self.exports}
        head = json.dumps({**names, "tables": tables, "image": len(self.image)}).encode()
        return b"".join([head, b"\n", self.image, *(table.tobytes() for table in self.tables.values())])

    @classmethod
    def from_bytes(cls, content: bytes) -> Code:
        """The code that `to_bytes` was called on."""
        text, _, rest = content.partition(b"\n")
        head = json.loads(text)
        image, at = rest[: head["image"]], head["image"]
        tables = {}
        for name, kind, shape in head["tables"]:
            count = int(np.prod(shape, dtype=np.int64))
            # copied, so that entries lie where processors like them
            tables[name] = np.frombuffer(rest, kind, count, at).reshape(shape).copy()
            at += tables[name].nbytes
        return cls(image, tuple(head["imports"]), tables, tuple(head["exports"]))


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
        self._linked: Any = None
        if is_supported():
            with suppress(UnknownObjectError):
                self._linked = Linked(code.image, exports, imports)
        if self._linked is None:
            from accumulus.targets.llvm.host import LinkedByLLVM

            self._linked = LinkedByLLVM(code.image, exports, imports, code.imports)
        self.addresses: dict[str, int] = self._linked.addresses


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
    return f"{code_version(('accumulus', 'llvmlite'), ('tape', 'targets', 'native'))}\n{processor()}".encode()
