"""Programs as data and back: what is needed to compile them again and to arrange what they return."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import FileError, SizeError
from accumulus.frontends.decisions import Guard
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import paths
from accumulus.memory import check_fits
from accumulus.options import Options
from accumulus.programs.arguments import Arguments
from accumulus.programs.array_program import ArrayProgram, compiled_loops
from accumulus.programs.guarded import Ran
from accumulus.programs.kinds import Kind
from accumulus.programs.program import Program
from accumulus.programs.results import Results
from accumulus.programs.sparse import SparsePattern
from accumulus.shipping.data_files import Arrays, Record
from accumulus.shipping.loaded_report import LoadedReport
from accumulus.shipping.structures import structure_as_data, structure_from_data
from accumulus.shipping.tapes import scalars_from_data, tape_as_data, tape_from_data
from accumulus.shipping.values import Constants
from accumulus.tape.blocks import BlockTape
from accumulus.tape.fusion import fuse
from accumulus.tape.tape import Tape
from accumulus.targets import Kernel, Segment, compile_tape
from accumulus.targets.block_kernel import LongSegment

__all__ = ["LoadedProgram", "options_as_data", "options_from_data", "program_as_data"]

#: Options that say how a program runs; the others say how it was found.
_RUNNING: Final = ("sparse", "target", "dtype", "threads", "check_finite", "most_cases", "cache")


def options_as_data(options: Options) -> dict[str, Any]:
    """The options by which programs run."""
    return {name: getattr(options, name) for name in _RUNNING}


def options_from_data(record: Record) -> Options:
    """The options that data describe; those of the search are the defaults.

    Raises:
        FileError: for what is no option, or no value of one.
    """
    if set(record.data) != set(_RUNNING):
        raise FileError(f"{record.what} has the options {', '.join(map(str, record.data))}; expected other ones")
    return Options.of(**record.data)


def program_as_data(program: Program, arrays: Arrays) -> dict[str, Any]:
    """A program as data.

    Raises:
        ArgumentError: if its results hold what no file can.
    """
    recording, results, what = program.recording, program._results, f"the result of {program.name}"
    guarded = program.is_guarded
    tape: Tape | BlockTape = program.tape
    data: dict[str, Any] = {
        "argument_shapes": [None if shape is None else list(shape) for shape in recording.argument_shapes],
        "result_shapes": [list(shape) for shape in recording.result_shapes],
        "structure": structure_as_data(recording.structure, what, arrays),
        "guards": [[guard.file, guard.line, guard.source, guard.answer] for guard in recording.guards],
        # what says exactly where guards hold, for points at the border of two cases
        "function": tape_as_data(recording.tape, arrays) if guarded else None,
        "tape": tape_as_data(tape, arrays),
        "segments": [_segment_as_data(segment, arrays) for segment in results.segments],
        "shapes": [list(shape) for shape in results.shapes],
        "patterns": [
            {
                "shape": list(pattern.shape),
                "rows": arrays.add(pattern.rows),
                "columns": arrays.add(pattern.columns),
            }
            for pattern in results._patterns
        ],
        "returned": structure_as_data(results.structure, what, arrays),
        "derivatives": structure_as_data(results._jacobian, what, arrays),
        "operations": program.operations,
        "found": _found(program),
    }
    if isinstance(program, ArrayProgram):
        data["bodies"] = [tape_as_data(each.body, arrays) for each in program.maps if each.is_body]
    else:
        data["exact"] = arrays.add(sorted(program._exact), np.int64)
    return data


def _found(program: Program) -> dict[str, Any]:
    """How the program was found, as far as it says so."""
    plan = getattr(program, "plan", None)
    found = {name: getattr(plan, name) for name in ("method", "objective", "cost", "lower_bound")} if plan else {}
    return found | {"cut_short": program.cut_short} if program.cut_short else found


def _segment_as_data(segment: Segment, arrays: Arrays) -> dict[str, Any]:
    data: dict[str, Any] = {"length": segment.length}
    for name in ("outputs", "positions"):
        chosen = getattr(segment, name)
        data[name] = [chosen.start, chosen.stop] if isinstance(chosen, slice) else arrays.add(chosen, np.int64)
    return data


class _SavedResults(Results):
    """The layout of results as it was saved.

    Args:
        record: of the program.
        outputs: that its tape has for results.
    """

    def __init__(self, record: Record, options: Options, outputs: int, constants: Constants, *, long: bool) -> None:
        self._dtype, self._long = np.dtype(options.dtype), long
        self._jacobian = structure_from_data(record.data.get("derivatives"), record, constants)
        self.structure = structure_from_data(record.data.get("returned"), record, constants)
        self.segments = [_segment(each, outputs, long) for each in record.records("segments")]
        self.shapes = [record.shape(shape) for shape in record.items("shapes")]
        self._patterns = [_pattern(each, options) for each in record.records("patterns")]
        leaves = [sum(1 for _ in paths(each)) for each in (self.structure, self._jacobian)]
        dense = len(self.shapes) - len(self._patterns)
        lengths = [(len(pattern),) for pattern in self._patterns]
        if (
            len(self.segments) != len(self.shapes)
            or leaves[0] != len(self.shapes)
            or self.shapes[dense:] != lengths
            or len(self._patterns) not in ((leaves[1],) if options.sparse else (0,))
            or [math.prod(shape) for shape in self.shapes] != [segment.length for segment in self.segments]
        ):
            raise FileError(f"{record.what} has results whose shapes, places and structure do not fit each other")
        try:
            check_fits(sum(8 * segment.length for segment in self.segments), record.what, "expected smaller results")
        except SizeError as error:
            raise FileError(str(error)) from None

    def _segment(self, length: int, outputs: NDArray[np.intp], places: NDArray[np.intp]) -> Segment:
        if self._long:
            return LongSegment(length, outputs, places)
        return super()._segment(length, outputs, places)


def _segment(record: Record, outputs: int, long: bool) -> Segment:
    length = record.number("length", most=1 << 48)
    chosen = {name: _chosen(record, name, bound) for name, bound in (("outputs", outputs), ("positions", length))}
    counts = {len(range(each.start, each.stop)) if isinstance(each, slice) else len(each) for each in chosen.values()}
    if len(counts) > 1:
        raise FileError(f"{record.what} has more outputs than places for them, or fewer")
    if long:
        positions = chosen["positions"]
        if not isinstance(positions, slice) and len(np.unique(positions)) < len(positions):
            raise FileError(f"{record.what} has two outputs in one place")
        return LongSegment(length, chosen["outputs"], positions)
    listed = [np.arange(e.start, e.stop) if isinstance(e, slice) else e for e in chosen.values()]
    return Segment(length, tuple(listed[0].tolist()), tuple(listed[1].tolist()))


def _chosen(record: Record, name: str, bound: int) -> NDArray[np.intp] | slice:
    value = record.data.get(name)
    if isinstance(value, list):
        if len(value) == 2 and all(type(n) is int for n in value) and 0 <= value[0] <= value[1] <= bound:
            return slice(*value)
    else:
        found = record.array(name).astype(np.intp)
        if not len(found) or (found.min() >= 0 and found.max() < bound):
            return found
    raise FileError(f"'{name}' of {record.what} are not from 0 to {bound - 1}")


def _pattern(record: Record, options: Options) -> SparsePattern:
    sizes = record.shape(record.data.get("shape"))
    rows, columns = (record.array(name).astype(np.int32) for name in ("rows", "columns"))
    if options.sparse is None or len(sizes) != 2 or len(rows) != len(columns) or max(sizes) >= 1 << 31:
        raise FileError(f"{record.what} is no pattern of a sparse matrix")
    inside = all(
        not len(each) or (each.min() >= 0 and each.max() < size)
        for each, size in zip((rows, columns), sizes, strict=True)
    )
    found, order = SparsePattern.ordered(rows, columns, (sizes[0], sizes[1]), options.sparse)
    places = found.rows.astype(np.int64) * sizes[1] + found.columns
    if not inside or order is not None or len(np.unique(places)) < len(places):
        raise FileError(f"{record.what} has nonzeros outside of the matrix, or in another order than its format has")
    return found


class LoadedProgram(Program):
    """A program from a file: compiled when it is called, not planned.

    Args:
        record: the data.
        name: of the function.
        kind: of its derivatives.
        constants: reads those in structures.

    Raises:
        FileError: if the data describe no program.
    """

    def __init__(self, record: Record, name: str, kind: Kind, options: Options, constants: Constants) -> None:
        self.name, self.kind, self.options = name, kind, options
        shapes = tuple([None if each is None else record.shape(each) for each in record.items("argument_shapes")])
        sizes = [0 if shape is None else math.prod(shape) for shape in shapes]
        ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
        guards = tuple([_guard(each, record) for each in record.items("guards")])
        tape = tape_from_data(record.record("tape"))
        if tape.inputs != sum(sizes):
            raise FileError(f"{record.what} has {tape.inputs} inputs, and arguments of {sum(sizes)} entries")
        structure = structure_from_data(record.data.get("structure"), record, constants)
        result_shapes = tuple(map(record.shape, record.items("result_shapes")))
        if sum(1 for _ in paths(structure)) != len(result_shapes):
            raise FileError(f"{record.what} has {len(result_shapes)} shapes of results; its structure has others")
        function: Tape | BlockTape = Tape(tape.inputs)
        if guards:
            function = tape_from_data(record.record("function"))
            results = sum(map(math.prod, result_shapes))
            if function.inputs != tape.inputs or len(function.outputs) != results + len(guards):
                raise FileError(f"{record.what} has guards that are not those of its function")
        self.recording = Recording(
            function,
            shapes,
            tuple([slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]),
            result_shapes,
            structure,
            guards=guards,
        )
        self.seconds, self.from_cache, self.ran = {}, [], Ran()
        self.operations = record.number("operations")
        self.found = record.record("found").data
        self.cut_short = str(self.found.get("cut_short", ""))
        self._arguments = Arguments(name, shapes, np.dtype(options.dtype), options.check_finite)
        outputs = len(tape.outputs) - bool(guards)
        self._results = _SavedResults(record, options, outputs, constants, long=isinstance(tape, BlockTape))
        self.tape = tape  # type: ignore[assignment]  # of a program over arrays it has blocks
        self.kernel = self._kernel_of(tape, record)

    def _kernel_of(self, tape: Tape | BlockTape, record: Record) -> Kernel:
        options, shapes = self.options, self._arguments.numeric_shapes
        segments: Any = self._segments()
        if isinstance(tape, Tape):
            exact = record.array("exact").tolist()
            if any(not 0 <= reference < len(tape) for reference in exact):
                raise FileError(f"{record.what} has exact operations that are not there")
            return compile_tape(
                tape,
                segments,
                target=options.target,
                dtype=options.dtype,
                exact=exact,
                arguments=shapes,
                cache=options.caches,
            )
        if options.dtype != "float64":
            raise FileError(f"{record.what} has loops in {options.dtype}; expected float64")
        maps = fuse(tape)
        bodies = [each for each in maps if each.is_body]
        known = [scalars_from_data(each, in_loop=True) for each in record.records("bodies")]
        if [(len(each.leaves), len(each.body.outputs)) for each in bodies] != [
            (body.inputs, len(body.outputs)) for body in known
        ]:
            raise FileError(f"{record.what} has bodies that are not those of its blocks")
        for each, body in zip(bodies, known, strict=True):
            each.body = body
        return compiled_loops(tape, maps, segments, shapes, options)

    def report(self) -> LoadedReport:  # type: ignore[override]
        """What is known of the program."""
        recording = self.recording
        return LoadedReport(
            self.name,
            [shape for shape in recording.argument_shapes if shape is not None],
            self._results.shapes,
            self.operations,
            self.options.target,
            self.options.dtype,
            {name: value for name, value in self.found.items() if value is not None},
        )


def _guard(data: Any, record: Record) -> Guard:
    kinds = [str, int, str, str]
    if not isinstance(data, list) or [type(each) for each in data] != kinds:
        raise FileError(f"{record.what} has a guard that is none; expected {', '.join(f.name for f in fields(Guard))}")
    return Guard(*data)
