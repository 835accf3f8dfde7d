"""The list of kernels, and the sources that their code is made from."""

from __future__ import annotations

import hashlib
import re
from enum import EnumType
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

#: The folder of this package.
PACKAGE: Final = Path(__file__).resolve().parents[1]
#: What makes code from a kernel, besides what the kernel imports.
_MAKERS: Final = ("accumulus.native.compile", "accumulus.native.lowering")
#: Functions that kernels are called by.
_ENTRY: Final = re.compile(r"^def perform(?:_(\w+))?\(", re.MULTILINE)
_IMPORT: Final = re.compile(r"^[ \t]*(?:from|import) (accumulus\.[\w.]+)(?: import \(?([\w, ]*))?", re.MULTILINE)


def subjects() -> list[str]:
    """Return all kernels: "package.name", as `entry_of` finds them."""
    found = []
    for path in PACKAGE.glob("*/compiled/*_kernel.py"):
        for name in _ENTRY.findall(path.read_text(encoding="utf-8")):
            found.append(f"{path.parts[-3]}.{name or path.stem.removesuffix('_kernel')}")
    return sorted(found)


def entry_of(subject: str) -> tuple[str, str]:
    """Return the module of a kernel, and the function in it.

    "package.name" is `perform` of ``accumulus.package.compiled.name_kernel``, or ``perform_name``
    of another module there, where several are a chapter.
    """
    package, name = subject.split(".")
    folder = PACKAGE / package / "compiled"
    own = folder / f"{name}_kernel.py"
    for path in [own] * own.exists() + sorted(folder.glob("*_kernel.py")):
        text = path.read_text(encoding="utf-8")
        for entry in re.finditer(_ENTRY, text):
            if entry[1] == name or (not entry[1] and path == own):
                return f"accumulus.{package}.compiled.{path.stem}", entry[0].removeprefix("def ").removesuffix("(")
    raise KeyError(subject)


@cache
def digest(subject: str) -> str:
    """A hash of all sources that the code of a kernel is made from, 64 hexadecimal digits.

    Those are the kernel's module and what it imports from this library that is compiled, too. Of other modules the
    values count that a kernel takes: constants, and codes of the table of operations, to which rows can be added.
    """
    waiting = [entry_of(subject)[0], *_MAKERS]
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
    """The source of a module with the values that it takes from others, None if there is none; and what it imports."""
    try:
        text = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
    except OSError:
        return None, ()
    imports, values = [], ""
    for found, listed in _IMPORT.findall(text):
        names = [each.strip() for each in listed.split(",") if each.strip()]
        if ".compiled" in found or ".native" in found:
            # "from package import module" names the module last
            imports += [found, *(f"{found}.{each}" for each in names)]
        else:
            values += "".join(f"{found}.{name} {_taken(found, name, text)}\n" for name in names)
    return (text + values).encode(), tuple(imports)


def _taken(module: str, name: str, text: str) -> str:
    """Part of another module's value that a kernel takes: codes of rows of a table, a constant, or its module."""
    value: Any = getattr(import_module(module), name)
    rows = re.findall(rf'\b{name}\["(\w+)"\]\.code', text)
    if len(rows) + 1 == len(re.findall(rf"\b{name}\b", text)):  # and the import
        return repr([(row, value[row].code) for row in sorted(set(rows))])
    if isinstance(value, EnumType):
        return repr({name: int(value[name]) for name in value.__members__})
    constant = isinstance(value, int | float | str | tuple)
    return repr(value) if constant else PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text("utf-8")
