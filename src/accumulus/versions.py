"""Versions of the code that made something: what is in the cache is found again by the same code only."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import numpy as np

#: What of a processor Linux tells that decides which instructions it has.
_TELLING: Final = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)


def code_version(packages: Iterable[str], folders: Iterable[str]) -> str:
    """The versions of other packages, and of what is in folders of this one: its files, by size and time of change.

    Reading the files would take longer than all the rest of a look-up.
    """
    parts = [f"{np.__version__} {platform.machine()} {platform.python_implementation()} {platform.python_version()}"]
    parts += map(version_of, packages)
    root = Path(__file__).parent
    for folder in folders:
        # a package that was moved would no longer count, and the cache would outlive its code
        assert (root / folder).is_dir(), f"accumulus has no folder {folder}"
        for place, _, files in sorted(os.walk(root / folder)):
            for file in sorted(files):
                if file.endswith(".py"):
                    known = os.stat(os.path.join(place, file))
                    parts.append(f"{place.removeprefix(str(root))}/{file} {known.st_size} {known.st_mtime_ns}")
    return "\n".join(parts)


@cache
def version_of(package: str) -> str:
    """The version of an installed package; empty if there is none of that name."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from its sources, or not installed
        return ""


@cache
def processor() -> str:
    """The processor and its features, in the words of the system, or of LLVM where that has none."""
    try:
        # the first of the processors, which all are the same
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 14).split("\n\n")[0]
    except OSError:
        first = ""
    told = [line for line in first.splitlines() if line.partition(":")[0].strip() in _TELLING]
    if len(told) > 1:
        return "\n".join(told)
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def digest(parts: Iterable[bytes]) -> str:
    """Return a hash of several strings of bytes, 32 hexadecimal digits."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        # lengths, so that nothing can move from one part to the next
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()
