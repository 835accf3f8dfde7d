"""Elimination dependencies: which face has to go before which (Lemma 2 of the notes), and cycles among them.

If s1|s2s3 stands in one expression and s1s2 is multiplied in another, then eliminating ⟨s1,s2⟩ while the first is
still in parentheses would break these; ⟨s2,s3⟩ has to go first. For given relations that is all
(`elimination_dependencies`). For an expression set there are three kinds more, by the theorem of
`accumulus.theory.algebra.running_order`:

* s3s1|s2s4, with a parenthesis on both sides, waits for either of ⟨s3,s1⟩ and ⟨s2,s4⟩;
* a sum s2 + Δ is a merge, which needs that s2 and all of Δ have no other faces left: it waits for every other
  product or sum that uses one of its terms;
* a product or sum waits for its own operands.

Lemma 1 is the shortest cycle of these: with s1(s2 + Δ) and s1s2 in one set, ⟨s1,s2⟩ waits for the merge of s2 and Δ,
since until then s1 and s2 are neighbours in parentheses, and the merge for ⟨s1,s2⟩, since it uses s2.

What waits for several things waits for all of them, and for one thing out of each of its lists of alternatives;
such conditions are monotone, so removing whatever waits for nothing finds an order or what is stuck in cycles, in
linear time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from accumulus.elimination.accumulation import Accumulation
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.algebra.expression import Expression
from accumulus.theory.algebra.relations import Face, Relation, joints
from accumulus.theory.algebra.running_order import bracketed
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, ValueProgram, program_of

__all__ = ["Dependencies", "Merge", "elimination_dependencies", "program_dependencies"]


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge of the terms of a sum."""

    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"merge of {' + '.join(map(str, self.terms))}"


Node = Face | Merge


@dataclass(frozen=True)
class Dependencies:
    """A digraph of what waits for what.

    Attributes:
        awaits: by face or merge, its conditions: each a tuple of faces and merges of which one has to go before.
        reasons: by pair (waiting, awaited), in words.
    """

    awaits: Mapping[Node, tuple[tuple[Node, ...], ...]]
    reasons: Mapping[tuple[Node, Node], str] = field(default_factory=dict)

    @cached_property
    def edges(self) -> tuple[tuple[Node, Node], ...]:
        """All pairs (waiting, awaited)."""
        pairs = ((node, other) for node, conditions in self.awaits.items() for group in conditions for other in group)
        return tuple(dict.fromkeys(pairs))

    @cached_property
    def order(self) -> tuple[Node, ...]:
        """An order in which everything can go that is not stuck; all, if the dependencies are acyclic."""
        open_conditions = {node: len(conditions) for node, conditions in self.awaits.items()}
        waiting: dict[Node, list[tuple[Node, int]]] = {}
        for node, conditions in self.awaits.items():
            for k, group in enumerate(conditions):
                for other in group:
                    waiting.setdefault(other, []).append((node, k))
        met: set[tuple[Node, int]] = set()
        order = [node for node, count in open_conditions.items() if count == 0]
        for node in order:
            for condition in waiting.get(node, ()):
                if condition not in met:
                    met.add(condition)
                    open_conditions[condition[0]] -= 1
                    if open_conditions[condition[0]] == 0:
                        order.append(condition[0])
        return tuple(order)

    @property
    def is_acyclic(self) -> bool:
        """Whether there is an order for everything."""
        return len(self.order) == len(self.awaits)

    @cached_property
    def cycle(self) -> tuple[Node, ...]:
        """A shortest cycle among what is stuck, each waiting for the next and the last for the first; () if none."""
        gone = set(self.order)
        stuck = {
            node: tuple(dict.fromkeys(other for group in conditions if gone.isdisjoint(group) for other in group))
            for node, conditions in self.awaits.items()
            if node not in gone
        }
        shortest: tuple[Node, ...] = ()
        for start in stuck:
            cycle = _cycle(stuck, start, len(shortest) or len(stuck) + 1)
            if cycle and (not shortest or len(cycle) < len(shortest)):
                shortest = cycle
            if len(shortest) == 2:
                break
        return shortest

    def explain_cycle(self) -> str:
        """The cycle in words, a line for each step; empty if there is none."""
        pairs = zip(self.cycle, (*self.cycle[1:], *self.cycle[:1]), strict=True)
        return "\n".join(
            f"  {node} waits for {other}" + (f": {self.reasons[node, other]}" if (node, other) in self.reasons else "")
            for node, other in pairs
        )


def elimination_dependencies(
    subject: ExpressionSet | Accumulation | Iterable[Relation], graph: DifferentiationGraph | None = None
) -> Dependencies:
    """The elimination dependencies of an expression set, of an accumulation, or of relations given as such.

    Given relations are taken as a list of what must not be broken, as in the notes: every face that they name is
    taken to be multiplied somewhere. Of a set, products of more than two factors are bracketed as
    `accumulus.theory.algebra.running_order` does.

    >>> notes = ["s1|s2s3", "s2|s3s4", "s5s3|s4", "s6s5|s3", "s7s6|s5", "s8s7|s6", "s8|s7s1", "s7|s1s2"]
    >>> dependencies = elimination_dependencies(map(Relation.parse, notes))
    >>> print(" → ".join(map(str, dependencies.cycle)))
    ⟨s1, s2⟩ → ⟨s2, s3⟩ → ⟨s3, s4⟩ → ⟨s5, s3⟩ → ⟨s6, s5⟩ → ⟨s7, s6⟩ → ⟨s8, s7⟩ → ⟨s7, s1⟩
    """
    if isinstance(subject, (ExpressionSet, Accumulation)):
        return program_dependencies(bracketed(program_of(subject, graph)))
    awaits: dict[Node, dict[tuple[Node, ...], None]] = {}
    reasons: dict[tuple[Node, Node], str] = {}
    for relation in subject:
        conditions = awaits.setdefault(relation.face, {})
        if relation.awaits:
            conditions[relation.awaits] = None
        for other in relation.awaits:
            awaits.setdefault(other, {})
            reasons.setdefault((relation.face, other), str(relation))
    return Dependencies({node: tuple(conditions) for node, conditions in awaits.items()}, reasons)


def program_dependencies(program: ValueProgram) -> Dependencies:
    """The elimination dependencies of a program of products of two."""
    live = program.live()
    nodes: dict[int, Node] = {}
    for v in live:
        if program.kinds[v] != LABEL:
            parts = tuple(program.expression(operand) for operand in program.operands[v])
            nodes[v] = Face(*parts) if program.kinds[v] == PRODUCT else Merge(parts)
    awaits: dict[int, dict[tuple[int, ...], None]] = {v: {} for v in nodes}
    reasons: dict[tuple[Node, Node], str] = {}

    def wait(v: int, others: Iterable[int], reason: str) -> None:
        alternatives = tuple(dict.fromkeys(others))
        awaits[v][alternatives] = None
        for other in alternatives:
            reasons.setdefault((nodes[v], nodes[other]), reason)

    product_of = {program.operands[v]: v for v in nodes if program.kinds[v] == PRODUCT}
    for joint in joints(program):
        face = product_of.get((joint.left, joint.right))
        if face is not None and face != joint.product:
            others = (v for v in (joint.left_next, joint.right_next) if v != joint.product)
            wait(face, others, _reason(program, joint.left, joint.right, joint.left_factor, joint.right_factor))
    uses = program.uses()
    for v in nodes:
        for operand in program.operands[v]:
            if operand in nodes:
                wait(v, [operand], "it is made of it")
            if program.kinds[v] != PRODUCT:
                for other in uses[operand]:
                    if other != v:
                        wait(v, [other], f"which uses {program.expression(operand)} as well")
    return Dependencies({nodes[v]: tuple(tuple(nodes[k] for k in g) for g in awaits[v]) for v in nodes}, reasons)


def _reason(program: ValueProgram, left: int, right: int, left_factor: int | None, right_factor: int | None) -> str:
    def shown(values: Iterable[int | None]) -> tuple[Expression, ...]:
        return tuple(program.expression(v) for v in values if v is not None)

    return str(Relation(shown((left_factor, left)), shown((right, right_factor))))


def _cycle(stuck: Mapping[Node, tuple[Node, ...]], start: Node, longest: int) -> tuple[Node, ...]:
    """The shortest way from `start` back to itself, by breadth."""
    came: dict[Node, Node | None] = {start: None}
    depth = {start: 1}
    queue: deque[Node] = deque([start])
    while queue:
        node = queue.popleft()
        if depth[node] >= longest:
            break
        for other in stuck[node]:
            if other == start:
                way: list[Node] = []
                back: Node | None = node
                while back is not None:
                    way.append(back)
                    back = came[back]
                return tuple(reversed(way))
            if other not in came:
                came[other] = node
                depth[other] = depth[node] + 1
                queue.append(other)
    return ()
