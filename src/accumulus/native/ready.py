"""LLVM code of kernels, ready to be finished: shipped with the package, or made from a source that was changed.

A package that was built holds the code of every kernel beside a digest of the sources that it was made from. Where the
sources are others by now, it is made anew, which needs Numba and seconds: in processes of their own, which see no more
of the world than they must. They neither look for modules in the current directory, nor heed environment variables
of Python and Numba, and have the path of this process without what is not absolute.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Final

from accumulus.errors import CompileError
from accumulus.native.sources import PACKAGE, digest, subjects

#: Where the code is shipped; the setup script of the package fills it.
FOLDER: Final = PACKAGE / "native" / "shipped"
_SUFFIX: Final = ".kernel"
_CHILD: Final = "import sys; sys.path[:] = sys.argv[2:]; from accumulus.native.compile import main; main(sys.argv[1])"


def shipped(subject: str) -> bytes | None:
    """LLVM bitcode of a kernel as it was built; None if there is none, or the kernel's source is another by now."""
    try:
        made_from, _, code = (FOLDER / f"{subject}{_SUFFIX}").read_bytes().partition(b"\n")
    except OSError:
        return None
    return code if made_from == digest(subject).encode() else None


def llvm_codes(wanted: Iterable[str]) -> dict[str, bytes]:
    """LLVM bitcode of kernels, by name; what is not shipped is compiled, side by side.

    Raises:
        CompileError: if that cannot be done.
    """
    found = {subject: shipped(subject) for subject in wanted}
    missing = [subject for subject, code in found.items() if code is None]
    if missing:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found |= dict(zip(missing, pool.map(_compiled_apart, missing), strict=True))
    return {subject: code for subject, code in found.items() if code is not None}


def build() -> None:
    """Make the code of all kernels whose sources changed since it was made, and drop that of kernels which are gone."""
    FOLDER.mkdir(exist_ok=True)
    wanted = subjects()
    for subject, code in llvm_codes(wanted).items():
        path = FOLDER / f"{subject}{_SUFFIX}"
        if shipped(subject) is None:
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_bytes(digest(subject).encode() + b"\n" + code)
            temporary.replace(path)
    for path in FOLDER.glob(f"*{_SUFFIX}"):
        if path.name.removesuffix(_SUFFIX) not in wanted:
            path.unlink()


def _compiled_apart(subject: str) -> bytes:
    """Code of a kernel, compiled in a process of its own."""
    import subprocess

    ours = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    # Numba need not optimise every helper for itself; the whole kernel is optimised in the end
    ours["NUMBA_OPT"] = "0"
    command = [sys.executable or "python", "-I", "-S", "-c", _CHILD, subject, *_path()]
    try:
        # Numba reads a file of settings in the current directory: not in the user's
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
    """Directories in which this process finds modules, without the current one and those relative to it."""
    root = str(PACKAGE.parent)
    entries = [entry for entry in sys.path if os.path.isabs(entry) and (entry == root or not _is_here(entry))]
    return entries if root in entries else [*entries, root]


def _is_here(entry: str) -> bool:
    try:
        return os.path.samefile(entry, os.curdir)
    except OSError:
        return False
