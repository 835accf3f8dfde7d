"""Free memory, checked before large arrays are made: systems that overcommit memory kill processes later."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from accumulus.errors import SizeError

#: Size in bytes up to which free memory is not checked: a larger one may run out of memory without an explanation, a
#: smaller one reads the system's files more often.
SMALL: Final = 1 << 28
_MEMINFO: Final = Path("/proc/meminfo")
_GROUP: Final = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Return the bytes of memory that this process can still allocate; None if the system does not report it."""
    limits = [limit for limit in (_of_machine(), _of_group(), _of_process()) if limit is not None]
    return max(min(limits), 0) if limits else None


def installed() -> int | None:
    """Return the bytes of memory of the machine; None if the system does not report it."""
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def check_fits(size: int, subject: str, instead: str) -> None:
    """Raise an error for arrays that need more bytes than are free.

    Args:
        size: required memory, in bytes.
        subject: name of the arrays and their number of entries, for the message.
        instead: advice for the message.

    Raises:
        SizeError: if the memory does not suffice.
    """
    if size <= SMALL:
        return
    capacity = available()
    if capacity is not None and size > capacity:
        raise SizeError(
            f"{subject} would take {of_bytes(size)}, and {of_bytes(capacity)} of memory are free; {instead}"
        )


def of_bytes(size: int) -> str:
    """Return a number of bytes as text with a unit.

    >>> of_bytes(3 * 2**40), of_bytes(2**30 + 2**29)
    ('3 TiB', '1.5 GiB')
    """
    for unit, power in (("PiB", 50), ("TiB", 40), ("GiB", 30)):
        if size >= 1 << power:
            return f"{size / 2**power:.3g} {unit}"
    return f"{size / 2**20:.3g} MiB"


def _of_machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return installed()


def _of_group() -> int | None:
    """Return the bytes left to the container's control group; its reclaimable file cache counts as free."""
    with suppress(OSError, ValueError):
        limit, used = (int((_GROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        statistics = dict(line.split() for line in (_GROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return limit - used + int(statistics.get("inactive_file", 0))
    return None


def _of_process() -> int | None:
    """Return the bytes left under the limit of the address space."""
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return limit - pages * resource.getpagesize()
    return None
