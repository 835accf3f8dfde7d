"""Derivatives of any kind up to their graph, to be planned by hand, and compiled by that plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from accumulus.frontends.recorder import Recording
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization
from accumulus.options import Options
from accumulus.programs.choice import graph_of
from accumulus.programs.derivation import straight_line
from accumulus.programs.derivative import Derivative
from accumulus.programs.kinds import Kind
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.selection import Selection
from accumulus.search.plan import Plan

__all__ = ["Posed", "posed"]


@dataclass(frozen=True, slots=True)
class Posed:
    """A derivative that is left to be planned.

    Attributes:
        recording: of what is differentiated, written out entry by entry: of a Hessian, the gradient.
        linearization: with the graph that a plan is for.
        seconds: time of each stage so far.
    """

    name: str
    recording: Recording
    kind: Kind
    selection: Selection
    linearization: Linearization
    options: Options
    seconds: dict[str, float]

    @property
    def graph(self) -> DifferentiationGraph:
        """Return the graph that a plan is for."""
        return self.linearization.graph

    def compile(self, plan: Plan) -> Program:
        """The program by a plan for this graph, which is verified first.

        Raises:
            VerificationError: if the plan does not compute the derivatives of that graph.
        """
        plan.verify()
        with Preparation(self.name, self.options) as preparation:
            given = self.linearization, plan
            found = straight_line(self.recording, self.kind, self.selection, preparation, given=given)
            program = Program.of(found, preparation)
        program.seconds = {**self.seconds, "plan": plan.seconds, **program.seconds}
        return program


def posed(derivative: Derivative, examples: Sequence[Any]) -> Posed:
    """Return the derivative for arguments of these shapes, left to be planned.

    Raises:
        TraceError, ArgumentError: as a call with these arguments.
    """
    form, numbers = derivative._form_of(examples, {})
    with Preparation(form._name, form._options) as preparation:
        recorded = form._recorded(numbers, preparation)
        recording, linearization = graph_of(recorded)
    return Posed(
        form._name,
        recording,
        form._kind,
        recorded.selection,
        linearization,
        form._options,
        preparation.seconds,
    )
