"""Conversion of programs to data and back: code to be compiled again, and the layout of results."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import FileError
from accumulus.frontends.decisions import Guard
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import leaf_paths
from accumulus.options import COUNTED, Objective, Options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import Derivation, Facts
from accumulus.programs.kinds import DerivativeKind
from accumulus.programs.results import Results
from accumulus.programs.selection import Selection
from accumulus.programs.sparse import Nonzeros, SparsePattern
from accumulus.shipping.data_files import Arrays, Fields
from accumulus.shipping.structures import Constants, structure_as_data, structure_from_data
from accumulus.shipping.tapes import scalars_from_data, tape_as_data, tape_from_data
from accumulus.show.methods import MethodCosts, costs_of
from accumulus.tape.fusion import fuse
from accumulus.tape.moving import expanded
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment
from accumulus.targets.target import Code
from accumulus.text import printable

#: Options of running programs; all others concern the search for a program.
_RUNNING: Final = ("sparse", "target", "dtype", "threads", "check_finite", "most_cases", "cache")


def options_as_data(options: Options) -> dict[str, Any]:
    """Return the options of running programs as data."""
    return {name: getattr(options, name) for name in _RUNNING}


def options_from_data(record: Fields) -> Options:
    """Return the options that data describe, with default options of the search.

    Raises:
        FileError: for an unknown option, or an invalid value of one.
    """
    if set(record.data) != set(_RUNNING):
        raise FileError(f"{record.subject} has the options {', '.join(map(str, record.data))}; expected other ones")
    return Options.of(**record.data)


def program_as_data(program: CompiledProgram, arrays: Arrays) -> dict[str, Any]:
    """Return a program as data.

    Raises:
        ArgumentError: if its results contain objects that a file cannot store.
    """
    recording, results, subject = program.recording, program._results, f"the result of {program.name}"
    guarded, code = program.is_guarded, program.code.expanded()
    data: dict[str, Any] = {
        "argument_shapes": [None if shape is None else list(shape) for shape in recording.argument_shapes],
        "result_shapes": [list(shape) for shape in recording.result_shapes],
        "structure": structure_as_data(recording.structure, subject, arrays),
        "guards": [[guard.file, guard.line, guard.source, guard.answer] for guard in recording.guards],
        # the function's own operations decide between cases at their border, where compiled guards may all fail
        "function": tape_as_data(expanded(recording.program), arrays) if guarded else None,
        "tape": tape_as_data(code.tape, arrays),
        "segments": [_segment_as_data(segment, arrays) for segment in results.segments],
        "shapes": [list(shape) for shape in results.shapes],
        "patterns": [
            {"shape": list(pattern.shape), "rows": arrays.add(pattern.rows), "columns": arrays.add(pattern.columns)}
            for pattern in results.fixed_patterns("a file")
        ],
        "returned": structure_as_data(results.structure, subject, arrays),
        "derivatives": structure_as_data(results._jacobian, subject, arrays),
        "operations": program.operations,
        "facts": _facts_as_data(program),
        **_forms_of(code, arrays),
    }
    return data


def _forms_of(code: Code, arrays: Arrays) -> dict[str, Any]:
    """Return the data of code in addition to its tape: exact operations, or bodies of loops."""
    if code.has_loops:
        return {"bodies": [tape_as_data(body, arrays) for body in code.bodies]}
    return {"exact": arrays.add(sorted(code.exact), np.int64)}


def _facts_as_data(program: CompiledProgram) -> dict[str, Any]:
    """Return the facts about a program for its report; of its plans, the costs."""
    facts = program.facts
    found = facts.found
    if found is None and facts.bodies:
        found = costs_of(facts.bodies), facts.bodies[0].plan.objective
    plan: dict[str, Any] | None = None
    if found is not None:
        costs, objective = found
        plan = {str(name): costs.cost(name) for name in COUNTED}
        plan |= {"method": costs.method, "lower_bound": costs.lower_bound, "objective": str(objective)}
    return {
        "jacobian_shape": list(facts.jacobian_shape),
        "nonzeros": facts.nonzeros,
        "products": facts.products,
        "theorem": facts.theorem or "",
        "cut_short": program.cut_short,
        "plan": plan,
    }


def _facts_from_data(record: Fields) -> Facts:
    """Return the facts that data describe.

    Raises:
        FileError: if they do not.
    """
    rows, columns, *more = record.shape(record.data.get("jacobian_shape"))
    found = None
    if record.data.get("plan") is not None:
        plan = record.record("plan")
        costs = {name: plan.number(name) for name in COUNTED}
        bound = None if plan.data.get("lower_bound") is None else plan.number("lower_bound")
        found = (
            MethodCosts(printable(plan.text("method")), **costs, lower_bound=bound),
            Objective.of(plan.text("objective")),
        )
    if more:
        raise FileError(f"{record.subject} has a Jacobian of more than two axes")
    return Facts(
        (rows, columns),
        record.number("nonzeros"),
        products=record.number("products"),
        theorem=printable(record.text("theorem")),
        found=found,
    )


def _segment_as_data(segment: Segment, arrays: Arrays) -> dict[str, Any]:
    data: dict[str, Any] = {"length": segment.length}
    for name in ("outputs", "positions"):
        chosen = getattr(segment, name)
        data[name] = [chosen.start, chosen.stop] if isinstance(chosen, slice) else arrays.add(chosen, np.int64)
    return data


class _SavedResults(Results):
    """The saved layout of results.

    Args:
        record: data of the program.
        options: options of the derivative.
        code: code whose outputs are results and the truth value of guards.
        outputs: number of outputs that are results.
        constants: reader of constants in structures.
    """

    def __init__(self, record: Fields, options: Options, code: Code, outputs: int, constants: Constants) -> None:
        self.dtype, self._join = np.dtype(options.dtype), None
        self._jacobian = structure_from_data(record.data.get("derivatives"), record, constants)
        self.structure = structure_from_data(record.data.get("returned"), record, constants)
        self.segments = [_segment(each, outputs) for each in record.records("segments")]
        self.shapes = [record.shape(shape) for shape in record.items("shapes")]
        self._patterns = [_pattern(each, options) for each in record.records("patterns")]
        leaves = [sum(1 for _ in leaf_paths(each)) for each in (self.structure, self._jacobian)]
        dense = len(self.shapes) - len(self._patterns)
        lengths = [(len(pattern),) for pattern in self._patterns]
        if (
            len(self.segments) != len(self.shapes)
            or leaves[0] != len(self.shapes)
            or self.shapes[dense:] != lengths
            or len(self._patterns) not in ((leaves[1],) if options.sparse else (0,))
            or [math.prod(shape) for shape in self.shapes] != [segment.length for segment in self.segments]
        ):
            raise FileError(f"{record.subject} has results whose shapes, positions and structure do not fit each other")
        record.check_fits(sum(segment.length for segment in self.segments))


def _segment(record: Fields, outputs: int) -> Segment:
    length = record.number("length", most=1 << 48)
    chosen = {name: _selected(record, name, bound) for name, bound in (("outputs", outputs), ("positions", length))}
    counts = {len(range(each.start, each.stop)) if isinstance(each, slice) else len(each) for each in chosen.values()}
    if len(counts) > 1:
        raise FileError(f"{record.subject} has outputs and positions of outputs in different numbers")
    positions = chosen["positions"]
    if not isinstance(positions, slice) and len(np.unique(positions)) < len(positions):
        raise FileError(f"{record.subject} has two outputs at one position")
    return Segment(length, chosen["outputs"], positions)


def _selected(record: Fields, name: str, bound: int) -> NDArray[np.intp] | slice:
    value = record.data.get(name)
    if isinstance(value, list):
        if len(value) == 2 and all(type(n) is int for n in value) and 0 <= value[0] <= value[1] <= bound:
            return slice(*value)
    else:
        positions = record.array(name).astype(np.intp)
        if not len(positions) or (positions.min() >= 0 and positions.max() < bound):
            return positions
    raise FileError(f"'{name}' of {record.subject} are not from 0 to {bound - 1}")


def _pattern(record: Fields, options: Options) -> SparsePattern:
    sizes = record.shape(record.data.get("shape"))
    rows, columns = (record.array(name) for name in ("rows", "columns"))
    if (
        options.sparse is None
        or len(sizes) != 2
        or len(rows) != len(columns)
        or max(sizes) >= 1 << 31
        or any(
            len(each) and not 0 <= int(each.min()) <= int(each.max()) < size
            for each, size in zip((rows, columns), sizes, strict=True)
        )
    ):
        raise FileError(f"{record.subject} is not a pattern of a sparse matrix")
    record.check_fits(sum(sizes))  # SciPy's matrices have a number for each row or column
    pattern, order = SparsePattern.ordered(
        rows.astype(np.int32), columns.astype(np.int32), (sizes[0], sizes[1]), options.sparse
    )
    places = pattern.rows.astype(np.int64) * sizes[1] + pattern.columns
    if order is not None or len(np.unique(places)) < len(places):
        raise FileError(f"{record.subject} has nonzeros in another order than its format has")
    return pattern


def program_from_data(
    record: Fields, name: str, kind: DerivativeKind, options: Options, constants: Constants
) -> CompiledProgram:
    """Return the program from a file, to be compiled at its first call.

    Args:
        record: data of the program.
        name: name of the function.
        kind: kind of its derivatives.
        options: options of the derivative.
        constants: reader of constants in structures.

    Raises:
        FileError: if the data do not describe a valid program.
    """
    shapes = tuple([None if each is None else record.shape(each) for each in record.items("argument_shapes")])
    sizes = [0 if shape is None else math.prod(shape) for shape in shapes]
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    guards = tuple([_guard(each, record) for each in record.items("guards")])
    tape = tape_from_data(record.record("tape"))
    if tape.inputs != sum(sizes):
        raise FileError(f"{record.subject} has {tape.inputs} inputs, and arguments of {sum(sizes)} entries")
    structure = structure_from_data(record.data.get("structure"), record, constants)
    result_shapes = tuple(map(record.shape, record.items("result_shapes")))
    if sum(1 for _ in leaf_paths(structure)) != len(result_shapes):
        raise FileError(f"{record.subject} has {len(result_shapes)} shapes of results; its structure has others")
    function = Program.of(Tape(tape.inputs))
    if not guards and record.data.get("function") is not None:
        raise FileError(f"{record.subject} has operations for guards that it does not have")
    if guards:
        function = tape_from_data(record.record("function"))
        results = sum(map(math.prod, result_shapes))
        if function.inputs != tape.inputs or len(function.outputs) != results + len(guards) or not len(tape.outputs):
            raise FileError(f"{record.subject} has guards that differ from those of its function")
    slices = tuple([slice(end - size, end) for end, size in zip(ends, sizes, strict=True)])
    code, facts = _code(tape, record, options), record.record("facts")
    derivation = Derivation(
        Recording(function, shapes, slices, result_shapes, structure, guards=guards),
        kind,
        Selection((), structure),
        code,
        Nonzeros(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.intp)),
        _facts_from_data(facts),
        cut_short=facts.text("cut_short"),
    )
    laid_out = _SavedResults(record, options, code, len(tape.outputs) - bool(guards), constants)
    program = CompiledProgram(name, options, derivation, laid_out, {})
    program.operations = record.number("operations")
    program.compile()
    return program


def _code(tape: Program, record: Fields, options: Options) -> Code:
    """Return the code of a program from a file, with the saved exact operations or bodies."""
    if tape.scalars is not None:
        exact = record.array("exact").tolist()
        if any(not before < reference < len(tape) for before, reference in pairwise([-1, *exact])):
            raise FileError(f"{record.subject} names exact operations that do not exist, or not in their order")
        return Code(tape.scalars, exact)
    if options.dtype != "float64":
        raise FileError(f"{record.subject} has loops in {options.dtype}; expected float64")
    maps = fuse(tape)
    bodies = [each for each in maps if each.is_body]
    saved_bodies = [scalars_from_data(each, in_loop=True) for each in record.records("bodies")]
    if [(len(each.leaves), len(each.body.outputs)) for each in bodies] != [
        (body.inputs, len(body.outputs)) for body in saved_bodies
    ]:
        raise FileError(f"{record.subject} has bodies that differ from those of its blocks")
    for each, body in zip(bodies, saved_bodies, strict=True):
        each.body = body
    return Code(tape, maps=maps)


def _guard(data: Any, record: Fields) -> Guard:
    kinds = [str, int, str, str]
    if not isinstance(data, list) or [type(each) for each in data] != kinds:
        raise FileError(
            f"{record.subject} has an invalid guard; expected the fields {', '.join(f.name for f in fields(Guard))}"
        )
    file, line, source, answer = data
    return Guard(printable(file), line, printable(source), printable(answer))
