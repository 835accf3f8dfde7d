"""Compiled code from tapes: a registry of targets, each of which turns a tape into a `Kernel`."""

from accumulus.targets.kernel import Call, Kernel, Segment, Shape
from accumulus.targets.registry import check_target, compile_tape, emit_source, targets

__all__ = ["Call", "Kernel", "Segment", "Shape", "check_target", "compile_tape", "emit_source", "targets"]
