"""Recorded functions, step by step: `trace` and the class `Trace`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from accumulus.errors import ArgumentError, unknown_name
from accumulus.frontends.calls import Restructured
from accumulus.frontends.location import name_of
from accumulus.frontends.record import record
from accumulus.frontends.recorder import Recording
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization, linearize
from accumulus.graph.pictures import LARGEST, to_svg
from accumulus.options import GUARDS, Options, refuse_assumptions
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import straight_line
from accumulus.programs.forms import Forms, requested_arguments, settled_function
from accumulus.programs.graphs import linearize_arguments
from accumulus.programs.kinds import JACOBIAN, VALUE_AND_JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection, arranged, checked_argnums, static_positions
from accumulus.search.plan import Plan, graph_hash
from accumulus.tape.tape import Tape


def trace(
    f: Callable[..., Any],
    *examples: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    check: bool = True,
    guards: str = "cases",
    **keywords: Any,
) -> Trace:
    """Run `f` once on traced arrays and record its operations.

    Args:
        f: function as for `jacobian`.
        examples: example arguments of the right shapes. Their values matter only where `f` branches on them. Strings,
            None, booleans and other objects that are not numbers are passed to `f` unchanged.
        static_argnums: positions of numbers that are passed to `f` unchanged (sizes, loop bounds).
        static_argnames: names of such numbers.
        check: if True, compare the recording with `f` on numbers, at the examples and at two points near them.
        guards: with "cases", a branch of `f` on values is recorded as the examples take it, and compiled programs raise
            a `CaseError` at points that take another one. "error" refuses such branches.
        keywords: example arguments by keyword.

    Returns:
        The recording. Values that do not depend on the arguments, such as global variables, are recorded as constants
        with their values in this one run.

    Raises:
        TraceError: if `f` cannot be recorded, naming file and line; or if the recording computes other values than `f`,
            naming both.
        ArgumentError: if an example is not a number or array of real numbers.
        UnknownNameError: for an unknown value of `guards`.

    >>> import numpy as np
    >>> t = trace(lambda x: np.sin(x[0]) * x[1], np.zeros(2))
    >>> t.tape.operations
    2
    """
    if guards not in GUARDS:
        raise unknown_name("way of guards", guards, GUARDS)
    decides = guards == "cases"
    forms = Forms(f, name_of(f), None, None, static_argnums, static_argnames)
    call, numbers = forms.of(examples, keywords)
    if call is not None:
        return Trace(
            f, record(settled_function(call, numbers, check=check), numbers, check=check, decides=decides), call
        )
    static = static_positions(forms.static_positions, len(numbers))
    return Trace(f, record(f, numbers, static, check=check, decides=decides))


class Trace:
    """A recorded function: its tape, its graphs, and its compiled programs.

    >>> import numpy as np, accumulus as acc
    >>> recording = acc.trace(lambda x: np.array([x[0] * x[1], np.sin(x[0] * x[1])]), np.ones(2))
    >>> graph = recording.linearize()
    >>> recording.compile(acc.plan(graph))(np.array([0.0, 2.0])).tolist()
    [[2.0, 0.0], [2.0, 0.0]]
    >>> recording.selection(0).positions
    (0,)
    """

    def __init__(self, f: Callable[..., Any], recording: Recording, call: Restructured | None = None) -> None:
        self.name = name_of(f)
        self._function, self._call = f, call
        self.recording = recording
        self._linearizations: dict[Selection, Linearization] = {}

    @property
    def tape(self) -> Tape:
        """Return the operations of the function."""
        return self.recording.tape

    def __repr__(self) -> str:
        program = self.recording.program
        return f"<trace of {self.name}, {len(program) - program.inputs:,} operations>"

    def _repr_html_(self) -> str:
        from accumulus import text
        from accumulus.show.bodies import operations_by_kind
        from accumulus.show.tables import counted, shape_text

        recording = self.recording
        rows = [
            ("arguments", ", ".join(map(shape_text, recording.argument_shapes))),
            ("results", ", ".join(map(shape_text, recording.result_shapes))),
            ("recorded", counted(self.tape.operations, "operation")),
            ("of these", ", ".join(f"{kind} {count}" for kind, count in operations_by_kind(self.tape).items())),
        ]
        parts = [text.paragraph(f"Trace of {self.name}", bold=True)]
        picture = None
        # larger graphs have no picture
        if self.tape.operations <= LARGEST[0]:
            picture = to_svg(linearize(self.tape, name=self.name).graph)
        return text.stacked(*parts, text.facts(rows), picture or "")

    def linearize(
        self, argnums: int | Sequence[int] | None = None, *, argnames: str | Sequence[str] | None = None
    ) -> DifferentiationGraph:
        """Return the graph of all results with respect to the arguments, by default all numeric ones."""
        key = self.selection(argnums, argnames)
        if key not in self._linearizations:
            self._linearizations[key] = linearize_arguments(self.recording, key, self.name)
        return self._linearizations[key].graph

    def compile(
        self,
        plan: Plan,
        target: str = "llvm",
        output: Literal["dense", "csr", "csc", "coo"] = "dense",
        *,
        values: bool = False,
        **options: Any,
    ) -> CompiledProgram:
        """Compile the Jacobian by `plan`.

        The plan is verified before compilation.

        Args:
            plan: plan of a graph that `linearize` returned, or of an equal one.
            target: "llvm"; "numpy", readable source; or "c", compiled by the C compiler of this machine.
            output: "dense" for arrays; "csr", "csc" or "coo" for SciPy matrices.
            values: if True, the program returns the function's values before the Jacobian.
            options: options of `jacobian` that do not select a plan. Objective, effort, seed and time limit are those
                of the plan by default.

        Raises:
            ArgumentError: if the plan is not for a graph that this trace's `linearize` returned, or an equal one; or if
                an option is out of range, or would select another plan.
            UnknownNameError: for an unknown option, or an unknown name as its value.
            VerificationError: if the plan does not compute the Jacobian of that graph.
        """
        if "check" in options:
            raise ArgumentError(
                "check was given together with a recording; pass it to acc.trace, which makes the recording"
            )
        planned = sorted({"method", "iterations", "executor"}.intersection(options))
        if planned:
            raise ArgumentError(
                f"{planned[0]} was given together with a plan; pass it to acc.plan, which makes the plan"
            )
        selection, linearization = self._linearization_of(plan)
        plan.verify()
        # rewriting uses the plan's own options
        of_plan = {name: getattr(plan, name) for name in ("objective", "effort", "seed", "time_limit")}
        chosen = Options.of(**{"sparse": None if output == "dense" else output, "target": target, **of_plan, **options})
        refuse_assumptions(options, f"a program by a plan of {self.name}", "whose calls are not checked against it")
        with Preparation(self.name, chosen) as preparation:
            kind, graph_and_plan = VALUE_AND_JACOBIAN if values else JACOBIAN, (linearization, plan)
            return CompiledProgram.of(
                straight_line(self.recording, kind, selection, preparation, planned=graph_and_plan), preparation
            )

    def _linearization_of(self, plan: Plan) -> tuple[Selection, Linearization]:
        """Return the arguments and linearization of the plan's graph, or of an equal graph."""
        graph = plan.accumulation.graph
        entries = list(self._linearizations.items())
        same = [entry for entry in entries if entry[1].graph is graph]
        if not same:
            target = graph_hash(graph)
            same = [entry for entry in entries if graph_hash(entry[1].graph) == target]
        if not same:
            raise ArgumentError("the plan is for another graph; expected one made from this trace's linearize()")
        return same[0]

    def selection(
        self, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None
    ) -> Selection:
        """Return the differentiated arguments: by default all numeric ones; a single one is not wrapped in a tuple."""
        differentiated: int | str | Sequence[int | str] | None = None
        if argnums is not None or argnames is not None:
            differentiated = requested_arguments(self._function, argnums, argnames)
        if self._call is not None:
            if differentiated is None:
                places = [*range(len(self._call.positional)), *self._call.keywords]
                differentiated = [argument for argument in places if self._call.place_of(argument)[1]]
            return arranged(self._call, _alone(differentiated), self.name)
        shapes = self.recording.argument_shapes
        if differentiated is None:
            differentiated = [k for k, shape in enumerate(shapes) if shape is not None]
        return checked_argnums(_alone(differentiated), shapes, self.name)


def _alone(differentiated: Any) -> Any:
    """Return the element of a sequence of one; any other value unchanged."""
    return (
        differentiated[0] if isinstance(differentiated, list | tuple) and len(differentiated) == 1 else differentiated
    )
