"""The question for one graph: is there a least program that face elimination can follow?

By Proposition 1 of the notes, in the form proven in `accumulus.theory.algebra.running_order`, a program can run as face
elimination at its own cost exactly if its elimination dependencies are acyclic. So the least number of face
eliminations exceeds the least number of products if and only if every least program is circular. Either is searched for
on its own; a shortest sequence is turned into its expressions, whose dependencies are checked to be acyclic.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.face import eliminate_faces
from accumulus.errors import ExpressionError, VerificationError
from accumulus.graph.derive import derive
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.registry import get
from accumulus.theory.algebra.dependencies import elimination_dependencies
from accumulus.theory.algebra.sequence import elimination_sequence
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.exact.proof import Proof
from accumulus.theory.research.minimum import true_minimum

__all__ = ["Verdict", "decide", "shortest_faces"]

Face = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a graph.

    Attributes:
        minimum: bounds of the least number of products of any program; equal if it is known.
        faces: bounds of the least number of face eliminations.
        verdict: "acyclic": both are equal, and `program` is a least program whose dependencies are acyclic;
            "circular": faces need more, so every least program, as `program` is, is circular; "open": not decided.
        program: expressions of a verified program of `minimum[1]` products.
        sequence: faces in the order of elimination, `faces[1]` of them, numbered as `accumulus.elimination.face` does.
        steps: nodes of the search for the minimum.
    """

    minimum: tuple[int, int]
    faces: tuple[int, int]
    verdict: Literal["acyclic", "circular", "open"]
    program: str
    sequence: tuple[Face, ...]
    steps: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def decide(graph: DifferentiationGraph, steps: int = 1_000_000) -> Verdict:
    """Compare the least program with the shortest face elimination.

    Args:
        graph: all of its labels are taken for variables, none for 1.
        steps: nodes of the search for programs, and eliminations tried by that for faces, at most; a search that is not
            through by then gives bounds.

    Raises:
        GraphError: if the graph is too large to be searched.

    >>> lion = [("a", 1), ("b", 1), (1, 2), (1, "x5"), (2, "x5"), (2, "x1"), (2, "x2"), (2, "x3")]
    >>> found = decide(DifferentiationGraph(lion))
    >>> found.minimum, found.faces, found.verdict
    ((11, 11), (11, 11), 'acyclic')
    """
    least = true_minimum(graph, steps=steps)
    sequence = _followed(least.accumulation)
    lowest = least.lower
    if sequence is None or len(sequence) > lowest:
        lowest, found = shortest_faces(graph, at_least=lowest, moves=steps)
        sequence = found if sequence is None else min(found, sequence, key=len)
    run = eliminate_faces(graph, sequence)
    if sum(run.steps.is_product) != len(sequence):
        raise VerificationError("a face elimination took more or fewer products than its sequence is long")
    best = run if least.accumulation is None or least.upper == len(sequence) else least.accumulation
    best.verify()
    minimum = least.lower, sum(best.steps.is_product)
    verdict: Literal["acyclic", "circular", "open"] = "open"
    if minimum[0] == len(sequence):
        verdict = "acyclic"
        if not elimination_dependencies(best).is_acyclic:
            raise VerificationError(
                f"the dependencies of a face elimination of {graph.name} are circular; this contradicts the theorem "
                "of accumulus.theory.algebra.running_order. Please report the graph"
            )
    elif minimum[1] < lowest:
        verdict = "circular"
    expressions = ExpressionSet.from_accumulation(best)
    return Verdict(
        minimum,
        (lowest, len(sequence)),
        verdict,
        "; ".join(str(expressions).splitlines()),
        tuple(sequence),
        least.steps,
    )


def shortest_faces(graph: DifferentiationGraph, at_least: int = 0, moves: int = sys.maxsize) -> tuple[int, list[Face]]:
    """The shortest sequence of face eliminations that branch and bound finds (`accumulus.theory.exact.line_optima`).

    Args:
        at_least: a bound that is known; a sequence that is no longer is the result.
        moves: eliminations tried, at most.

    Returns:
        A number that no sequence is shorter than, and a sequence; it is that long if the moves sufficed.

    >>> lion = [("a", 1), ("b", 1), (1, 2), (1, "x5"), (2, "x5"), (2, "x1"), (2, "x2"), (2, "x3")]
    >>> shortest_faces(DifferentiationGraph(lion))[0]
    11
    """
    if (graph.sizes > 1).any():  # faces are counted, whatever they cost
        edges = zip(graph.sources.tolist(), graph.targets.tolist(), range(len(graph.sources)), strict=True)
        graph = derive(graph, graph.vertices, graph.roots, graph.terminals, edges)
    order = get("markowitz")(graph, Options(objective=Objective.FMA)).order
    assert order is not None
    proof = Proof(graph, Objective.FMA, order)
    proof.raise_bound("face", at_least)
    for _ in proof.search_sequences("face", moves):
        pass
    return proof.bound("face"), proof.faces()


def _followed(program: Accumulation | None) -> list[Face] | None:
    """The faces that compute a program, if its dependencies are acyclic."""
    if program is None:
        return None
    try:
        return list(elimination_sequence(program).faces)
    except ExpressionError:
        return None
