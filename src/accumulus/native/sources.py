"""The list of kernels, and the sources that their code is made from."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from enum import EnumType
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from accumulus.errors import CompileError

#: The folder of this package.
PACKAGE: Final = Path(__file__).resolve().parents[1]
#: Modules that compile kernels; a kernel's code depends on them, too.
_MAKERS: Final = ("accumulus.native.compile", "accumulus.native.lowering")
#: The function that calls a kernel, and the kernel's name in its package.
_ENTRY: Final = re.compile(r"^def run_(\w+)\(", re.MULTILINE)
_IMPORT: Final = re.compile(r"^[ \t]*(?:from|import) (accumulus\.[\w.]+)(?: import \(?([\w, ]*))?", re.MULTILINE)


def subjects() -> list[str]:
    """Return all kernels: "package.name", as `entry_of` finds them."""
    return sorted(
        f"{path.parts[-3]}.{name}"
        for path in PACKAGE.glob("*/compiled/*_kernel.py")
        for name in _ENTRY.findall(path.read_text(encoding="utf-8"))
    )


def entry_of(subject: str) -> tuple[str, str]:
    """Return the module of a kernel, and the name of the function that calls it.

    The kernel "package.name" is the function ``run_name`` of a module ``accumulus.package.compiled.…_kernel``.

    Raises:
        KeyError: if there is no such function.
    """
    package, name = subject.split(".")
    folder = PACKAGE / package / "compiled"
    for path in [folder / f"{name}_kernel.py", *sorted(folder.glob("*_kernel.py"))]:
        if path.exists() and f"\ndef run_{name}(" in path.read_text(encoding="utf-8"):
            return f"accumulus.{package}.compiled.{path.stem}", f"run_{name}"
    raise KeyError(subject)


@cache
def digest(subject: str) -> str:
    """Return a hash of all sources that a kernel's code depends on, 64 hexadecimal digits.

    Those are the kernel's module and the compiled modules of this library that it imports. Of other modules, the hash
    includes the values that a kernel uses: constants, and codes of the table of operations, to which rows can be added.
    """
    waiting = [entry_of(subject)[0], *_MAKERS]
    texts: dict[str, bytes] = {}
    while waiting:
        module = waiting.pop()
        if module in texts:
            continue
        text, imports = _module(module)
        if text is not None:
            texts[module] = text
            waiting += imports
    everything = hashlib.sha256()
    for module, text in sorted(texts.items()):
        everything.update(f"{module} {len(text)}\n".encode())
        everything.update(text)
    return everything.hexdigest()


@cache
def _module(module: str) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the source of a module with the values it takes from others, or None, and its imports."""
    try:
        text = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
    except OSError:
        return None, ()
    imports, values = [], ""
    # every process looks at all sources; few lines can be imports
    lines = "\n".join(line for line in text.splitlines() if "accumulus." in line)
    for imported, listed in _IMPORT.findall(lines):
        names = [each.strip() for each in listed.split(",") if each.strip()]
        if ".compiled" in imported or ".native" in imported:
            # "from package import module" names the module last
            imports += [imported, *(f"{imported}.{each}" for each in names)]
        else:
            values += "".join(f"{imported}.{name} {_taken(imported, name, text)}\n" for name in names)
    return (text + values).encode(), tuple(imports)


def _taken(module: str, name: str, text: str) -> str:
    """Return the text of a value that a kernel takes from a module: codes of table rows, a constant, or the source."""
    value: Any = getattr(import_module(module), name)
    rows = re.findall(rf'\b{name}\["(\w+)"\]\.code', text) if f'{name}["' in text else []
    if rows and len(rows) + 1 == len(re.findall(rf"\b{name}\b", text)):  # one occurrence is the import
        return repr([(row, value[row].code) for row in sorted(set(rows))])
    if isinstance(value, EnumType):
        return repr({name: int(value[name]) for name in value.__members__})
    constant = isinstance(value, int | float | str | tuple)
    return repr(value) if constant else PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text("utf-8")


# Code that is ready --------------------------------------------------------------------------------------------------
#
# LLVM code of kernels: shipped with the package, or compiled from a changed source.
#
# A built package holds the code of every kernel beside a digest of its sources. If the sources have changed, the code
# is compiled again, which needs Numba and takes seconds. That happens in separate processes, isolated from the
# environment: they do not look for modules in the current directory, ignore environment variables of Python and Numba,
# and use only the absolute entries of this process's path.

#: Folder of the shipped code, filled by the package's setup script.
FOLDER: Final = PACKAGE / "native" / "shipped"
_SUFFIX: Final = ".kernel"
_CHILD: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; from accumulus.native.compile import write_code; write_code(sys.argv[1])"
)


def shipped(subject: str) -> bytes | None:
    """Return the shipped LLVM bitcode of a kernel; None if there is none, or the kernel's source has changed."""
    try:
        made_from, _, code = (FOLDER / f"{subject}{_SUFFIX}").read_bytes().partition(b"\n")
    except OSError:
        return None
    return code if made_from == digest(subject).encode() else None


def llvm_codes(kernels: Iterable[str]) -> dict[str, bytes]:
    """Return the LLVM bitcode of kernels, by name; kernels that are not shipped are compiled, in parallel.

    Raises:
        CompileError: if a kernel cannot be compiled.
    """
    codes = {subject: shipped(subject) for subject in kernels}
    missing = [subject for subject, code in codes.items() if code is None]
    if missing:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            codes |= dict(zip(missing, pool.map(_compiled_apart, missing), strict=True))
    return {subject: code for subject, code in codes.items() if code is not None}


def build() -> None:
    """Compile all kernels whose sources have changed, and remove the code of kernels that no longer exist."""
    FOLDER.mkdir(exist_ok=True)
    kernels = subjects()
    for subject, code in llvm_codes(kernels).items():
        path = FOLDER / f"{subject}{_SUFFIX}"
        if shipped(subject) is None:
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_bytes(digest(subject).encode() + b"\n" + code)
            temporary.replace(path)
    for path in FOLDER.glob(f"*{_SUFFIX}"):
        if path.name.removesuffix(_SUFFIX) not in kernels:
            path.unlink()


def _compiled_apart(subject: str) -> bytes:
    """Compile a kernel in a separate process; return its LLVM bitcode."""
    import subprocess

    ours = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    # the whole kernel is optimised at the end, so helpers need not be
    ours["NUMBA_OPT"] = "0"
    command = [sys.executable or "python", "-I", "-S", "-c", _CHILD, subject, *_path()]
    try:
        # Numba reads a file of settings in the current directory, which must not be the user's
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=ours, cwd=PACKAGE, check=False
        )
    except OSError as error:
        raise CompileError(
            f"the kernel {subject} cannot be compiled: {command[0]!r} does not start ({error})"
        ) from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"status {done.returncode}"
        raise CompileError(
            f"the kernel {subject} is not shipped as its source is here, and cannot be compiled ({reason!r}); install "
            "the package again, or Numba, which compiles it"
        )
    return done.stdout


def _path() -> list[str]:
    """Return the absolute directories of the module path, without the current directory."""
    root = str(PACKAGE.parent)
    entries = [entry for entry in sys.path if os.path.isabs(entry) and (entry == root or not _is_here(entry))]
    return entries if root in entries else [*entries, root]


def _is_here(entry: str) -> bool:
    try:
        return os.path.samefile(entry, os.curdir)
    except OSError:
        return False
