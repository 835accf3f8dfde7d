"""Derivatives before anything is compiled: graphs to plan by hand, and sparsity patterns."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accumulus.errors import ArgumentError, SizeError
from accumulus.frontends.recorder import Recording
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization
from accumulus.options import Options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import differentiated, straight_line
from accumulus.programs.derived import derived
from accumulus.programs.graphs import connected, inputs_of
from accumulus.programs.kinds import DerivativeKind
from accumulus.programs.lowering import Recorded, cheaper_form, graph_of
from accumulus.programs.preparation import Preparation
from accumulus.programs.results import Results
from accumulus.programs.selection import Selection
from accumulus.programs.sparse import Nonzeros
from accumulus.search.plan import Plan


@dataclass(frozen=True, slots=True)
class Posed:
    """A derivative that is still to be planned."""

    name: str
    recording: Recording  # recording of the differentiated function, written out; for a Hessian, of the gradient
    kind: DerivativeKind
    selection: Selection
    linearization: Linearization  # with the graph to plan
    options: Options
    seconds: dict[str, float]  # time of each stage so far

    @property
    def graph(self) -> DifferentiationGraph:
        """Return the graph to plan."""
        return self.linearization.graph

    @classmethod
    def of(cls, recorded: Recorded) -> Posed:
        """Return the derivative to be planned for a recording."""
        recording, linearization = graph_of(recorded)
        made = recorded.preparation
        return cls(made.name, recording, recorded.kind, recorded.selection, linearization, made.options, made.seconds)

    def compile(self, plan: Plan) -> CompiledProgram:
        """Return the program for a plan of this graph, which is verified first.

        Raises:
            VerificationError: if the plan does not compute the derivatives of that graph.
        """
        plan.verify()
        with Preparation(self.name, self.options) as preparation:
            planned = self.linearization, plan
            derivation = straight_line(self.recording, self.kind, self.selection, preparation, planned=planned)
            program = CompiledProgram.of(derivation, preparation)
        program.seconds = {**self.seconds, "plan": plan.seconds, **program.seconds}
        return program


# Sparsity patterns ----------------------------------------------------------------------------------------------------


def sparsity_of(recorded: Recorded) -> Any:
    """Return a SciPy matrix of True at the structural nonzeros, or several in the structure of the derivatives.

    Raises:
        ArgumentError: for products with a Jacobian, which have no pattern, and for values alone.
    """
    kind = recorded.kind
    if kind.has_seeds or not kind.derivatives:
        raise ArgumentError(f"{kind.name} returns arrays without a pattern; expected a Jacobian, gradient or Hessian")
    recorded = recorded._replace(selection=recorded.selection.whole)
    recording, nonzeros = _derived(recorded)
    kind = replace(kind, values=False)
    results = Results(recording, nonzeros, recorded.selection, kind=kind, sparse="csr", dtype=np.dtype(bool))
    return results.rebuild([np.ones(segment.length, bool) for segment in results.segments], None)


def _derived(recorded: Recorded) -> tuple[Recording, Nonzeros]:
    """Return the recording to differentiate and the nonzeros of its derivatives, of loops where they fit."""
    recording, kind, selection, preparation, *_ = recorded
    recording = cheaper_form(recording, kind, selection, preparation)
    if not recording.program.is_straight:
        with suppress(SizeError):
            if kind.first is not None:
                recording = derived(recording, kind.first, selection, preparation, in_loops=True)
            return recording, differentiated(recording, kind, selection, preparation.context).nonzeros
    recording, linearization = graph_of(recorded)
    nonzeros = Nonzeros.of(linearization, connected(linearization))
    if linearization.graph.mirror is None:
        return recording, nonzeros
    inputs = inputs_of(recording, selection.positions)
    return recording, nonzeros.mirrored(inputs, recording.results - len(inputs))
