"""Doors to the inside, for tests that are not of the module itself: where something moves, it is changed here alone.

A test imports what is public from `accumulus`, inner names of other packages from here, and further inner names from
the modules that it tests.
"""

from accumulus.cli import app
from accumulus.context import Context
from accumulus.deadline import Deadline
from accumulus.elimination.accumulation import Steps
from accumulus.elimination.edges_and_faces import FaceElimination, eliminate_faces
from accumulus.elimination.emit import count, emit
from accumulus.elimination.vertex import eliminate_vertices, price
from accumulus.frontends.record import record
from accumulus.frontends.trees import flatten
from accumulus.graph.generators import layered
from accumulus.graph.linearize import linearize
from accumulus.native.state import interpret
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.equivalence import Points, Verification
from accumulus.rewriting.rounding import points_of
from accumulus.search.elimination import Elimination
from accumulus.search.registry import get
from accumulus.tape.error_bounds import evaluate_with_bounds
from accumulus.tape.fusion import fuse
from accumulus.tape.interpreter import evaluate, outputs_at
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, IN_SEARCH, OPERATIONS, UNIT
from accumulus.tape.passes import with_folding
from accumulus.tape.program import Program, column
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, to_bytes
from accumulus.targets import Segment, compile_tape, targets
from accumulus.targets.target import Code

__all__ = [
    "ADD",
    "BY_NAME",
    "DIVIDE",
    "IN_SEARCH",
    "MULTIPLY",
    "OPERATIONS",
    "UNIT",
    "Code",
    "Context",
    "Deadline",
    "Elimination",
    "FaceElimination",
    "Original",
    "Points",
    "Program",
    "Segment",
    "Steps",
    "Verification",
    "app",
    "canonical",
    "column",
    "compile_tape",
    "count",
    "eliminate_faces",
    "eliminate_vertices",
    "emit",
    "evaluate",
    "evaluate_with_bounds",
    "flatten",
    "fuse",
    "get",
    "interpret",
    "layered",
    "linearize",
    "needed",
    "outputs_at",
    "points_of",
    "price",
    "record",
    "targets",
    "to_bytes",
    "with_folding",
]
