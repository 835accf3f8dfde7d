"""The optimiser for programs over arrays: each body once, however many instances it has."""

from __future__ import annotations

from collections.abc import Sequence

from accumulus.context import Context
from accumulus.resubstitution.optimise import rewrite
from accumulus.tape.bytes import digest, to_bytes
from accumulus.tape.fusion import Map
from accumulus.tape.tape import Tape

__all__ = ["optimise_bodies"]


def optimise_bodies(maps: Sequence[Map], context: Context) -> None:
    """Put cheaper bodies in the place of those of the maps, those that run most often first; equal ones are one."""
    known: dict[str, Tape] = {}
    for each in sorted(maps, key=lambda each: each.count * each.body.operations, reverse=True):
        if each.body.operations:
            key = digest([to_bytes(each.body), str(each.sensitive).encode()])
            if key not in known:
                known[key] = rewrite(each.body, context, kept_outputs=each.sensitive)
            each.body = known[key]
