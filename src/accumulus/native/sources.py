"""Which kernels there are, and what their code is made from."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["PACKAGE", "digest", "subjects"]

#: The folder of this package.
PACKAGE: Final = Path(__file__).resolve().parents[1]
#: What makes code from a kernel, besides what the kernel imports.
_MAKERS: Final = ("accumulus.native.compile", "accumulus.native.lowering")
_IMPORT: Final = re.compile(r"^[ \t]*(?:from|import) (accumulus\.[\w.]+)(?: import \(?([\w, ]*))?", re.MULTILINE)


def subjects() -> list[str]:
    """All kernels: "package.name" for the module ``accumulus.package.compiled.name_kernel``."""
    found = PACKAGE.glob("*/compiled/*_kernel.py")
    return sorted(f"{path.parts[-3]}.{path.stem.removesuffix('_kernel')}" for path in found)


@cache
def digest(subject: str) -> str:
    """A hash of all sources that the code of a kernel is made from, 64 hexadecimal digits.

    Those are the kernel's module and what it imports from this library; what these import in turn counts only where it
    is compiled, too. A table of operations that a kernel takes a number from counts as it stands.
    """
    package, name = subject.split(".")
    waiting = [f"accumulus.{package}.compiled.{name}_kernel", *_MAKERS]
    known: dict[str, bytes] = {}
    while waiting:
        module = waiting.pop()
        if module in known:
            continue
        text, imports = _module(module)
        if text is not None:
            known[module] = text
            waiting += imports
    everything = hashlib.sha256()
    for module, text in sorted(known.items()):
        everything.update(f"{module} {len(text)}\n".encode())
        everything.update(text)
    return everything.hexdigest()


@cache
def _module(module: str) -> tuple[bytes | None, tuple[str, ...]]:
    """The source of a module, None if there is no such file; and what it may import, if it is compiled."""
    try:
        text = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_bytes()
    except OSError:
        return None, ()
    if ".compiled." not in module and ".native." not in module:
        return text, ()
    imports = []
    for found, names in _IMPORT.findall(text.decode()):
        # "from package import module" names the module last
        imports += [found, *(f"{found}.{each.strip()}" for each in names.split(",") if each.strip())]
    return text, tuple(imports)
