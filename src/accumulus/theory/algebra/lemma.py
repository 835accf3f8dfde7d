"""Lemma 1 of the notes as a check: a set that multiplies s1·s2 and also s1·(s2 + Δ) can be made cheaper.

The lemma says that in a set of least cost two factors that have a direct relation never have an indirect one without
a further factor: no s1(s2 + Δ), no (Δ + s1)s2. `lemma1_violations` finds such pairs, also (Δ + s1)(s2 + Δ'), which the
notes leave out, and builds the cheaper set: what used s1·s2 uses s1·(s2 + Δ) instead, so the product s1·s2 goes; and
the paths over s1 and Δ that come with it are taken out of wherever the set had them before (``"rewriting"``).

The notes' proof takes them out of a sibling s1·Δ in the same parenthesis. They need not be there: the same paths may be
bracketed as (…s1)(Δ…), or Δ may be cut in the middle, and be shared with others that stay. In general, a value v
without the paths R is built like v: of a sum every term without its part of R; of a product l·r, where R is not all
pairs of some left with all right paths, one product for each group of left paths that lose the same right paths.
Where that takes at least as many products as go, the notes' proof does not cover the set; then vertex elimination in
Markowitz's order is tried (``"elimination"``), and if that is no cheaper either the violation carries no cheaper set.
Whether a set of least cost can look like that is not settled here.

Works on explicit paths: exponential in general, limited to `limit` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final, Literal

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.algebra.relations import Face, Joint, Relation, joints, relation_of
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, SUM, ValueProgram, program_of

__all__ = ["Violation", "lemma1_violations"]

_LIMIT: Final = 20_000

Path = tuple[int, ...]
#: A path through a value, and whether the product that replaces another stands for it.
_Item = tuple[Path, bool]


@dataclass(frozen=True)
class Violation:
    """Two factors that a set multiplies directly, and also through a parenthesis that only adds.

    Attributes:
        face: the two factors s1, s2.
        relation: the indirect relation s1|s2.
        cost: products of the set, what stands twice counted once.
        cheaper: a verified set of the same path sums with fewer products, if the construction finds one.
        cheaper_cost: its products.
        by: how it was found.
    """

    face: Face
    relation: Relation
    cost: int
    cheaper: ExpressionSet | None
    cheaper_cost: int | None
    by: Literal["rewriting", "elimination"] | None

    def __str__(self) -> str:
        found = (
            "no cheaper set found" if self.cheaper is None else f"{self.cheaper_cost} instead of {self.cost} products"
        )
        return f"{self.face} is multiplied and stands in parentheses as {self.relation}: {found}"


def lemma1_violations(
    subject: ExpressionSet | Accumulation, graph: DifferentiationGraph | None = None, limit: int = _LIMIT
) -> tuple[Violation, ...]:
    """The pairs of factors that break Lemma 1, each with a cheaper set.

    Raises:
        ExpressionError: if the graph has more than `limit` paths.

    >>> violation, *_ = lemma1_violations(ExpressionSet.parse("∂y/∂x = a*(b + c)*d; ∂y/∂z = a*b*e + a*c*e"))
    >>> print(violation)
    ⟨a, b⟩ is multiplied and stands in parentheses as a|b: 3 instead of 6 products
    >>> print(violation.cheaper)
    s1 = a*(b + c)
    ∂y/∂x = s1*d
    ∂y/∂z = s1*e
    """
    program = program_of(subject, graph)
    neighbours = {
        pair
        for v in program.live()
        if program.kinds[v] == PRODUCT
        for pair in zip(program.operands[v], program.operands[v][1:], strict=False)
    }
    found: dict[tuple[int, int], Joint] = {}
    for joint in joints(program):
        pair = (joint.left, joint.right)
        # a product with 1 costs nothing
        costs = pair in neighbours and not any(program.units[v] for v in pair)
        if costs and not joint.direct and _only_added(program, joint) is not None:
            found.setdefault(pair, joint)
    if found:
        paths = _path_count(program)
        if paths > limit:
            raise ExpressionError(f"the graph has {paths} paths; expected at most {limit} to build cheaper sets from")
    cost = program.multiplications
    violations = []
    for pair, joint in found.items():
        by: Literal["rewriting", "elimination"] = "rewriting"
        cheaper = _rewritten(program, joint)
        if cheaper.multiplications >= cost:
            by, cheaper = "elimination", program_of(eliminate_vertices(program.graph, _markowitz(program.graph)))
        less = cheaper.multiplications < cost
        violations.append(
            Violation(
                Face(*map(program.expression, pair)),
                relation_of(program, joint),
                cost,
                _verified(cheaper) if less else None,
                cheaper.multiplications if less else None,
                by if less else None,
            )
        )
    return tuple(violations)


def _rewritten(program: ValueProgram, joint: Joint) -> ValueProgram:
    """The program without the product of the joint's two values, which the product with the sums replaces."""
    # both products on their own, whatever else they are factors of
    wide = _only_added(program, joint)
    assert wide is not None
    result = ValueProgram(program.graph)
    value = {v: v for v in program.live() if program.kinds[v] == LABEL}
    for v in program.live():
        operands = [value[operand] for operand in program.operands[v]]
        if program.kinds[v] == PRODUCT:
            for left, right in (wide, (joint.left, joint.right)):
                pairs = zip(program.operands[v], program.operands[v][1:], strict=False)
                k = next((k for k, pair in enumerate(pairs) if pair == (left, right)), None)
                if k is not None and len(operands) == len(program.operands[v]):
                    operands[k : k + 2] = [result.product(operands[k : k + 2])]
            while len(operands) > 1:
                operands[:2] = [result.product(operands[:2])]
            value[v] = operands[0]
        elif program.kinds[v] != LABEL:
            value[v] = result.sum(operands)
    result.entries = {key: value[v] for key, v in program.entries.items()}
    old = result.product([value[joint.left], value[joint.right]])
    new = result.product([value[v] for v in wide])
    return _Rewriting(result, old, new).result


def _only_added(program: ValueProgram, joint: Joint) -> tuple[int, int] | None:
    """The factors where the joint's values meet, if the values are these, or terms, or terms of terms, of these."""
    factors = program.operands[joint.product]
    for pair in pairwise(factors):
        if _is_term(program, joint.left, pair[0]) and _is_term(program, joint.right, pair[1]):
            return pair
    return None


def _is_term(program: ValueProgram, term: int, value: int) -> bool:
    stack = [value]
    while stack:
        value = stack.pop()
        if value == term:
            return True
        if program.kinds[value] == SUM:
            stack += program.operands[value]
    return False


class _Rewriting:
    def __init__(self, program: ValueProgram, old: int, new: int) -> None:
        self.program, self.old, self.new = program, old, new
        self.items: dict[int, tuple[_Item, ...]] = {}
        order = program.live()
        for v in order:
            self.items[v] = self._items(v)
        self.result = ValueProgram(program.graph)
        self.made: dict[tuple[int, frozenset[_Item]], int | None] = {}
        for key, entry in program.entries.items():
            twice = {path for path, replaced in self.items[entry] if replaced}
            removed = frozenset((path, False) for path, replaced in self.items[entry] if not replaced and path in twice)
            value = self._make(entry, removed)
            assert value is not None
            self.result.entries[key] = value

    def _items(self, v: int) -> tuple[_Item, ...]:
        program = self.program
        if program.kinds[v] == LABEL:
            return (((v,), False),)
        if v == self.old:
            # what uses it gets the other product's paths; these are found on the way down
            return tuple((path, True) for path in self._paths(self.new))
        if program.kinds[v] == PRODUCT:
            left, right = program.operands[v]
            return tuple((p + q, a or b) for p, a in self.items[left] for q, b in self.items[right])
        return tuple(item for term in program.operands[v] for item in self.items[term])

    def _paths(self, v: int) -> list[Path]:
        """Paths of a value that does not use the old product."""
        program = self.program
        if program.kinds[v] == LABEL:
            return [(v,)]
        if program.kinds[v] == PRODUCT:
            left, right = program.operands[v]
            return [p + q for p in self._paths(left) for q in self._paths(right)]
        return [path for term in program.operands[v] for path in self._paths(term)]

    def _make(self, v: int, removed: frozenset[_Item]) -> int | None:
        """Value of the result for v without some of its items; None if nothing is left."""
        key = (v, removed)
        if key not in self.made:
            self.made[key] = self._made(v, removed)
        return self.made[key]

    def _made(self, v: int, removed: frozenset[_Item]) -> int | None:
        program, result = self.program, self.result
        if program.kinds[v] == LABEL:
            return None if removed else v
        if v == self.old:
            return self._make(self.new, frozenset((path, False) for path, _ in removed))
        if program.kinds[v] != PRODUCT:
            terms = (self._make(term, removed.intersection(self.items[term])) for term in program.operands[v])
            left_over = [term for term in terms if term is not None]
            return None if not left_over else left_over[0] if len(left_over) == 1 else result.sum(left_over)
        left, right = program.operands[v]
        # left paths by the right paths that they lose
        groups: dict[frozenset[_Item], list[_Item]] = {}
        for p, a in self.items[left]:
            lost = frozenset((q, b) for q, b in self.items[right] if (p + q, a or b) in removed)
            groups.setdefault(lost, []).append((p, a))
        parts = []
        for lost, kept in groups.items():
            one = self._make(left, frozenset(self.items[left]).difference(kept))
            other = self._make(right, lost)
            if one is not None and other is not None:
                parts.append(result.product([one, other]))
        return None if not parts else parts[0] if len(parts) == 1 else result.sum(parts)


def _path_count(program: ValueProgram) -> int:
    counts: dict[int, int] = {}
    for v in program.live():
        if program.kinds[v] == PRODUCT:
            counts[v] = prod(counts[factor] for factor in program.operands[v])
        else:
            counts[v] = sum(counts[term] for term in program.operands[v]) or 1
    return sum(counts[entry] for entry in program.entries.values())


def _verified(program: ValueProgram) -> ExpressionSet:
    expressions = program.definitions()
    expressions.to_accumulation(program.graph)  # raises unless it is the same Jacobian
    return expressions


def _markowitz(graph: DifferentiationGraph) -> list[int]:
    """Intermediates by fewest products at a time, smallest number first."""
    below: list[set[int]] = [set() for _ in graph.vertices]
    above: list[set[int]] = [set() for _ in graph.vertices]
    for e in graph.live_edges.nonzero()[0].tolist():
        below[int(graph.sources[e])].add(int(graph.targets[e]))
        above[int(graph.targets[e])].add(int(graph.sources[e]))
    left, order = set(graph.intermediates), []
    while left:
        v = min(left, key=lambda v: (len(below[v]) * len(above[v]), v))
        left.remove(v)
        order.append(v)
        for j in above[v]:
            below[j].remove(v)
            below[j] |= below[v]
        for i in below[v]:
            above[i].remove(v)
            above[i] |= above[v]
    return order
