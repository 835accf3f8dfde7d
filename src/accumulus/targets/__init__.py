"""Compiled code from tapes: each target turns a tape into a `Kernel`."""

from accumulus.targets.kernel import DTYPES, Batch, Call, Kernel, Segment, Shape
from accumulus.targets.target import check_target, compile_tape, emit_source, languages, target_of, targets

__all__ = [
    "DTYPES",
    "Batch",
    "Call",
    "Kernel",
    "Segment",
    "Shape",
    "check_target",
    "compile_tape",
    "emit_source",
    "languages",
    "target_of",
    "targets",
]
