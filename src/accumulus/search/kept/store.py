"""Plans that have been found, kept on disk: who asks the same again pays for looking it up.

A plan is kept under a hash of everything that decides it: the graph (`accumulus.search.kept.hashing`), the method and
every option of the search, seed and time limit among them, and the version of the code that searches. So what is
recalled is what a search would have found, and "same seed, same plan" holds with and without. Where the time limit
ended the search, and the plan depends on how fast the machine was, it is what the first search found in that time. A
search that was interrupted is not kept.

Each plan is a file in the folder ``plans`` of the cache directory, a line with a checksum above one of JSON. It is
written beside its place and then moved there, so that whoever reads it meanwhile, or is killed while writing it, leaves
or finds a whole file. What is read is checked and verified as a plan file is; what is damaged is dropped and made
again. Reading a file marks it as used; when all together are larger than `LIMIT`, those that were not used for longest
are dropped.

Where nothing can be written, a `CacheWarning` says so, and plans are found as without.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accumulus.errors import CacheWarning, PlanError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import cache_directory
from accumulus.search.kept.files import VERSION, read_found, written_found
from accumulus.search.kept.hashing import graph_hash, search_version
from accumulus.search.options import Options
from accumulus.tape.weights import weights

if TYPE_CHECKING:
    from accumulus.search.plan import Plan

__all__ = ["LIMIT", "SWITCH", "is_on", "key_of", "recall", "remember"]

#: Environment variable that switches the memory off for a process, if it is 0.
SWITCH: Final = "ACCUMULUS_CACHE_PLANS"
#: Bytes that all plans may take on disk together.
LIMIT = 256 << 20
#: What a file takes on disk is a multiple of this.
_BLOCK: Final = 4096
#: Of the limit, what is left when plans are dropped.
_KEPT: Final = 0.75
#: Seconds after which a file that somebody began to write is taken for left behind.
_ABANDONED: Final = 3600.0
#: Part of the limit that a process writes before it looks at the folder again.
_UNSEEN: Final = 1 / 16

#: Bytes that this process has written to each folder since it looked at all of its files.
_written: dict[Path, int] = {}


def is_on() -> bool:
    """Whether plans are kept in this process."""
    return os.environ.get(SWITCH) != "0"


def key_of(graph: DifferentiationGraph, method: str, options: Options) -> str | None:
    """The hash under which the plan is kept; None if an option cannot be written down."""
    given: dict[str, object] = {}
    for option in fields(options):
        if option.name == "progress":
            continue
        value = getattr(options, option.name)
        if option.name == "executor":
            # that a search is shared decides its parts; who does which does not matter
            value = value is not None
        # numbers of NumPy are written as the numbers that they are
        value = value.item() if hasattr(value, "item") else value
        if not isinstance(value, (str, int, float, type(None))):
            return None
        # 1 second and 1.0 are one, as they are equal
        given[option.name] = float(value) if isinstance(value, int) and option.name == "time_limit" else value
    if options.objective == "time":  # what was measured on the machine decides
        given["weights"] = json.dumps(weights().to_dict(), sort_keys=True)
    everything = json.dumps([VERSION, search_version(), graph_hash(graph), method, given], sort_keys=True)
    return hashlib.blake2b(everything.encode(), digest_size=16).hexdigest()


def recall(key: str, graph: DifferentiationGraph) -> Plan | None:
    """The plan for `graph` that is kept under the key, verified; None if there is none, or none that is right."""
    try:
        path = _folder() / f"{key}.plan"
        content = path.read_bytes()
    except OSError:
        return None
    try:
        checksum, text = content.split(b"\n", 1)
        if checksum != _checksum(key, text):
            raise PlanError("the checksum is wrong")
        data = json.loads(text)
        if not isinstance(data, dict):
            raise PlanError("it is not an object")
        plan = read_found(data, graph)
    except (PlanError, ValueError, RecursionError):
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        os.utime(path)
    return plan


def remember(key: str, plan: Plan) -> None:
    """Keep a plan under the key, or warn that it cannot be kept."""
    text = json.dumps(written_found(plan), separators=(",", ":")).encode()
    content = _checksum(key, text) + b"\n" + text
    if _occupied(len(content)) > LIMIT * _KEPT:
        return
    folder: Path | None = None
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(suffix=".part", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, folder / f"{key}.plan")
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _make_room(folder, len(content))
    except OSError as error:
        warnings.warn(
            f"plans cannot be kept in {folder or 'a cache directory'}: {error.strerror or error}; the plan is there "
            f"all the same. Name a folder that can be written in ACCUMULUS_CACHE, or switch this off: {SWITCH}=0, "
            "or cache=False",
            CacheWarning,
            stacklevel=3,
        )


def _folder() -> Path:
    try:
        return cache_directory() / "plans"
    except RuntimeError as error:  # the user has no home directory
        raise OSError(str(error)) from None


def _checksum(key: str, text: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + text, digest_size=16).hexdigest().encode()


def _make_room(folder: Path, written: int) -> None:
    """Drop the plans that were not used for longest, if all together are too large.

    A process looks at all files when it writes its first plan, and then after each sixteenth of the limit.
    """
    unseen = _written.get(folder)
    if unseen is not None and unseen + _occupied(written) < LIMIT * _UNSEEN:
        _written[folder] = unseen + _occupied(written)
        return
    _written[folder] = 0
    plans: list[tuple[int, int, str]] = []
    now = time.time()
    with os.scandir(folder) as entries:
        for entry in entries:
            # another process may drop the same files
            with suppress(FileNotFoundError):
                status = entry.stat()
                if entry.name.endswith(".plan"):
                    plans.append((status.st_mtime_ns, _occupied(status.st_size), entry.path))
                elif entry.name.endswith(".part") and now - status.st_mtime > _ABANDONED:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in plans)
    if total <= LIMIT:
        return
    for _, size, path in sorted(plans):
        if total <= LIMIT * _KEPT:
            break
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def _occupied(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
