"""Multiplication relations between factors, the elimination dependencies that follow from them, and Lemma 1.

**Relations.** Two factors of an expression set have a *direct* relation, s1·s2, if they are neighbours in a product,
and an *indirect* relation if a parenthesis is between them (the notes, section "Multi-Root or Multi-Terminal"):

    s1|s2s3      in s1(s2s3 + Δ): s2 is multiplied by s3 first
    s3s1|s2      in (Δ + s3s1)s2: s1 is multiplied by s3 first
    s3s1|s2s4    in (Δ + s3s1)(s2s4 + Δ'): both
    s1|s2        in s1(s2 + Δ) or (Δ + s1)s2 or (Δ + s1)(s2 + Δ'): the parenthesis only adds

The Δ may be missing, since shared values are parentheses as well: every use of a reference opens one. docs/notes.md,
section 6, explains the cases that the notes leave out, and the conditions that relations put on the order of
elimination.

**Dependencies (Lemma 2).** An elimination dependency is a face that has to be eliminated before another. For the
relation s1|s2s3 the face ⟨s1,s2⟩ waits for ⟨s2,s3⟩; for s3s1|s2s4 it waits for one of ⟨s3,s1⟩ and ⟨s2,s4⟩. In an
expression set, by the theorem of `accumulus.theory.algebra.values`, also every value waits for its operands, and a sum
waits for every other product or sum that uses one of its terms. A node waits for one alternative of each of its
conditions. Such conditions are monotone. So to remove nodes without open conditions gives, in linear time, an order of
all nodes, or leaves the nodes that wait for each other in cycles.

**Lemma 1.** `lemma1_violations` finds s1(s2 + Δ), (Δ + s1)s2 and (Δ + s1)(s2 + Δ') in sets that also have the product
s1·s2, and builds the cheaper set by ``"rewriting"``. Users of s1·s2 use s1·(s2 + Δ) instead, which saves the product
s1·s2. The additional paths, over s1 and Δ, are removed from the places that had them before. A value v without the
paths R is built like v. For a sum, R is removed from every term. For a product l·r, there is one product for each group
of left paths that lose the same right paths. If this takes at least as many products as it saves, the notes' proof does
not cover the set. Then vertex elimination in Markowitz's order is tried (``"elimination"``); if it is not cheaper
either, the violation has no cheaper set.

The construction enumerates paths, which is exponential in general; `limit` is the largest number of paths.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Final, Literal

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.vertex import eliminate_vertices, markowitz_order
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import Objective
from accumulus.theory.algebra.expression import Expression, Product, Sum, Symbol, fail, plain_name, postorder
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, SUM, ValueProgram, bracketed, value_program

_FACTOR: Final = re.compile(r"\s*[*·]?\s*([^\W\d_]+(?:_\{-?\w+\}|_?\d+)?[′']*)\s*")


@dataclass(frozen=True, slots=True)
class Face:
    """Edge of the line graph: two values that are neighbours on a path."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"⟨{self.left}, {self.right}⟩"


@dataclass(frozen=True, slots=True)
class Relation:
    """A direct or indirect multiplication relation of two factors.

    Attributes:
        before: the left factor; before it, if there is one, the factor by which it is multiplied first.
        after: the right factor; after it, if there is one, the factor by which it is multiplied first.
        direct: True if no parenthesis is between the two factors.

    >>> relation = Relation.parse("s1|s2s3")
    >>> print(relation.face, "awaits", *relation.awaits)
    ⟨s1, s2⟩ awaits ⟨s2, s3⟩
    """

    before: tuple[Expression, ...]
    after: tuple[Expression, ...]
    direct: bool = False

    @classmethod
    def parse(cls, text: str) -> Relation:
        """Read a relation in the notes' spelling: ``s1|s2s3``, ``s3s1|s2``, ``s3s1|s2s4``, ``s1|s2``, direct ``s1s2``.

        Raises:
            ExpressionError: if the text is not a relation; the message points at the first wrong character.
        """
        sides: list[list[Expression]] = [[]]
        position = 0
        while position < len(text):
            if text[position] == "|" and len(sides) == 1 and sides[0]:
                sides.append([])
                position += 1
                continue
            match = _FACTOR.match(text, position)
            if match is None or len(sides[-1]) == 2:
                fail(text, position, "expected a relation such as s1|s2s3, s3s1|s2 or, direct, s1s2")
            sides[-1].append(Symbol(plain_name(match[1])))
            position = match.end()
        if len(sides) == 1 and len(sides[0]) == 2:
            return cls((sides[0][0],), (sides[0][1],), direct=True)
        if len(sides) == 1 or not sides[1]:
            fail(text, len(text), "expected a relation such as s1|s2s3, s3s1|s2 or, direct, s1s2")
        return cls(tuple(sides[0]), tuple(sides[1]))

    @property
    def face(self) -> Face:
        """The two factors."""
        return Face(self.before[-1], self.after[0])

    @property
    def awaits(self) -> tuple[Face, ...]:
        """Alternatives: one of these faces has to be eliminated before the relation's face; () if there is none."""
        sides = (side for side in (self.before, self.after) if len(side) == 2)
        return tuple(Face(*side) for side in sides)

    def __str__(self) -> str:
        sides = (
            "*".join(f"({factor})" if isinstance(factor, (Sum, Product)) else str(factor) for factor in side)
            for side in (self.before, self.after)
        )
        return ("*" if self.direct else "|").join(sides)


@dataclass(frozen=True, slots=True)
class Joint:
    """A place in a program where two values are neighbours on a path.

    Attributes:
        left, right: the two values.
        product: the product in which the paths of the two sides meet.
        left_next, right_next: the values that use `left` and `right`; `product` for a value that is a factor of it.
        left_factor, right_factor: the other factor in `left_next` and `right_next`; None if this is a sum or `product`.
    """

    left: int
    right: int
    product: int
    left_next: int
    right_next: int
    left_factor: int | None = None
    right_factor: int | None = None

    @property
    def direct(self) -> bool:
        """Return True if both values are factors of `product`."""
        return self.left_next == self.right_next == self.product


#: A value at one end of another value, the value that uses it there, and the other factor in that, or None.
_End = tuple[int, int, int | None]


def joints(program: ValueProgram) -> Iterator[Joint]:
    """Yield every place in the program where two values are neighbours on a path."""
    rights, lefts = _ends(program, -1), _ends(program, 0)
    for product in program.live():
        if program.kinds[product] != PRODUCT:
            continue
        factors = program.operands[product]
        for one, other in pairwise(factors):
            for left, left_next, left_factor in ((one, product, None), *rights[one]):
                for right, right_next, right_factor in ((other, product, None), *lefts[other]):
                    yield Joint(left, right, product, left_next, right_next, left_factor, right_factor)


def relations(subject: ExpressionSet | Accumulation, graph: DifferentiationGraph | None = None) -> tuple[Relation, ...]:
    """Return all multiplication relations of a set, direct ones first.

    The relations are between labels, references and sums, also inside references and unnamed products. Factors have the
    names of ``value_program(subject, graph).definitions()``. Time is quadratic in the depth of parentheses.

    >>> expressions = ExpressionSet.parse("e18*(e3*e7 + e4*e8)*e15")
    >>> print(*relations(expressions), sep="; ")
    e3*e7; e4*e8; e18*(e3*e7 + e4*e8); (e3*e7 + e4*e8)*e15; e18|e3*e7; e18|e4*e8; e3*e7|e15; e4*e8|e15
    """
    program = value_program(subject, graph)
    distinct = dict.fromkeys(relation_of(program, joint) for joint in joints(program))
    named = (one for one in distinct if not any(isinstance(end, Product) for end in (one.before[-1], one.after[0])))
    return tuple(sorted(named, key=lambda relation: not relation.direct))


def relation_of(program: ValueProgram, joint: Joint) -> Relation:
    """Return the relation of the factors at a joint."""
    sides = (joint.left_factor, joint.left), (joint.right, joint.right_factor)
    before, after = (tuple(program.expression(v) for v in side if v is not None) for side in sides)
    return Relation(before, after, joint.direct)


def _ends(program: ValueProgram, side: int) -> dict[int, tuple[_End, ...]]:
    """Return the values nested at the right (-1) or left (0) end of each value, outermost first."""
    ends: dict[int, tuple[_End, ...]] = {}
    for v in postorder(program.entries.values(), lambda value: program.operands[value]):
        operands = program.operands[v]
        nested: dict[_End, None] = {}
        if program.kinds[v] == PRODUCT:
            outer, inner = (operands[-1], operands[-2]) if side else (operands[0], operands[1])
            nested[outer, v, inner] = None
            nested.update(dict.fromkeys(ends[outer]))
        else:
            for term in operands:
                nested[term, v, None] = None
                nested.update(dict.fromkeys(ends[term]))
        ends[v] = tuple(nested)
    return ends


# Dependencies (Lemma 2) ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TermMerge:
    """Merge of the terms of a sum."""

    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"merge of {' + '.join(map(str, self.terms))}"


Node = Face | TermMerge


@dataclass(frozen=True)
class Dependencies:
    """Elimination dependencies between faces and merges.

    Attributes:
        awaits: conditions of each face or merge. A condition is a tuple of alternatives, one of which has to come
            first.
        reasons: explanation of each pair (waiting, awaited), as text.
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
        """Order that meets the dependencies, of all nodes that can be reached; all nodes if there is no cycle."""
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
        """Return True if an order exists that meets all dependencies."""
        return len(self.order) == len(self.awaits)

    @cached_property
    def cycle(self) -> tuple[Node, ...]:
        """Shortest cycle of nodes, each of which waits for the next, the last for the first; () if there is none."""
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
        """Return the cycle as text, with a line for each step; empty if there is none.

                >>> notes = ["s1|s2s3", "s2|s3s4", "s5s3|s4", "s6s5|s3", "s7s6|s5", "s8s7|s6", "s8|s7s1", "s7|s1s2"]
        >>> elimination_dependencies(map(Relation.parse, notes)).explain_cycle().splitlines()[0].strip()
        '⟨s1, s2⟩ waits for ⟨s2, s3⟩: s1|s2*s3'
        """
        pairs = zip(self.cycle, (*self.cycle[1:], *self.cycle[:1]), strict=True)
        return "\n".join(
            f"  {node} waits for {other}" + (f": {self.reasons[node, other]}" if (node, other) in self.reasons else "")
            for node, other in pairs
        )


def elimination_dependencies(subject: ExpressionSet | Accumulation | Iterable[Relation]) -> Dependencies:
    """Return the elimination dependencies of an expression set, an accumulation, or a collection of relations.

    Relations are constraints, as in the notes: every face that they name is assumed to be multiplied. In a set,
    `accumulus.theory.algebra.values.bracketed` brackets the products of more than two factors.

    >>> notes = ["s1|s2s3", "s2|s3s4", "s5s3|s4", "s6s5|s3", "s7s6|s5", "s8s7|s6", "s8|s7s1", "s7|s1s2"]
    >>> dependencies = elimination_dependencies(map(Relation.parse, notes))
    >>> print(" → ".join(map(str, dependencies.cycle)))
    ⟨s1, s2⟩ → ⟨s2, s3⟩ → ⟨s3, s4⟩ → ⟨s5, s3⟩ → ⟨s6, s5⟩ → ⟨s7, s6⟩ → ⟨s8, s7⟩ → ⟨s7, s1⟩
    """
    if isinstance(subject, (ExpressionSet, Accumulation)):
        return program_dependencies(bracketed(value_program(subject)))
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
    """Return the elimination dependencies of a program whose products have two factors."""
    live = program.live()
    nodes: dict[int, Node] = {}
    for v in live:
        if program.kinds[v] != LABEL:
            parts = tuple(program.expression(operand) for operand in program.operands[v])
            nodes[v] = Face(*parts) if program.kinds[v] == PRODUCT else TermMerge(parts)
    awaits: dict[int, dict[tuple[int, ...], None]] = {v: {} for v in nodes}
    reasons: dict[tuple[Node, Node], str] = {}

    def wait(v: int, candidates: Iterable[int], reason: str) -> None:
        alternatives = tuple(dict.fromkeys(candidates))
        awaits[v][alternatives] = None
        for other in alternatives:
            reasons.setdefault((nodes[v], nodes[other]), reason)

    product_of = {program.operands[v]: v for v in nodes if program.kinds[v] == PRODUCT}
    for joint in joints(program):
        face = product_of.get((joint.left, joint.right))
        if face is not None and face != joint.product:
            neighbours = (v for v in (joint.left_next, joint.right_next) if v != joint.product)
            wait(face, neighbours, str(relation_of(program, joint)))
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


def _cycle(stuck: Mapping[Node, tuple[Node, ...]], start: Node, longest: int) -> tuple[Node, ...]:
    """Return the shortest cycle through `start` of at most `longest` nodes, by breadth-first search; () if none."""
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


# Lemma 1 -------------------------------------------------------------------------------------------------------------


#: Largest number of paths for which cheaper sets are constructed; it bounds the time. Not measured.
_LIMIT: Final = 20_000

Path = tuple[int, ...]
#: A path through a value, and True if it belongs to the product that replaces another one.
_Item = tuple[Path, bool]


@dataclass(frozen=True)
class Violation:
    """Violation of Lemma 1: two factors with a product and also an indirect relation without another product.

    Attributes:
        face: the two factors s1, s2.
        relation: the indirect relation s1|s2.
        cost: number of products of the set; repeated products count once.
        cheaper: verified set of the same path sums with fewer products; None if the construction finds none.
        cheaper_cost: number of products of the cheaper set.
        by: construction of the cheaper set.
    """

    face: Face
    relation: Relation
    cost: int
    cheaper: ExpressionSet | None
    cheaper_cost: int | None
    by: Literal["rewriting", "elimination"] | None

    def __str__(self) -> str:
        outcome = (
            "no cheaper set found" if self.cheaper is None else f"{self.cheaper_cost} instead of {self.cost} products"
        )
        return f"{self.face} is multiplied and stands in parentheses as {self.relation}: {outcome}"


def lemma1_violations(
    subject: ExpressionSet | Accumulation, graph: DifferentiationGraph | None = None, limit: int = _LIMIT
) -> tuple[Violation, ...]:
    """Return the violations of Lemma 1, with cheaper sets where the construction finds them.

    Args:
        subject: set of expressions, or an accumulation.
        graph: graph of an expression set; by default its `to_graph()`.
        limit: largest number of paths.

    Raises:
        ExpressionError: if there is a violation and the graph has more than `limit` paths.

    >>> violation, *_ = lemma1_violations(ExpressionSet.parse("∂y/∂x = a*(b + c)*d; ∂y/∂z = a*b*e + a*c*e"))
    >>> print(violation)
    ⟨a, b⟩ is multiplied and stands in parentheses as a|b: 3 instead of 6 products
    >>> print(violation.cheaper)
    s1 = a*(b + c)
    ∂y/∂x = s1*d
    ∂y/∂z = s1*e
    """
    program = value_program(subject, graph)
    neighbours = {
        pair
        for v in program.live()
        if program.kinds[v] == PRODUCT
        for pair in zip(program.operands[v], program.operands[v][1:], strict=False)
    }
    candidates: dict[tuple[int, int], Joint] = {}
    for joint in joints(program):
        pair = (joint.left, joint.right)
        # products with 1 are free
        costs = pair in neighbours and not any(program.units[v] for v in pair)
        if costs and not joint.direct and _only_added(program, joint) is not None:
            candidates.setdefault(pair, joint)
    if candidates:
        counts = program.path_counts()
        paths = sum(counts[entry] for entry in program.entries.values())
        if paths > limit:
            raise ExpressionError(f"the graph has {paths} paths; expected at most {limit} to build cheaper sets from")
    cost = program.multiplications
    violations = []
    for pair, joint in candidates.items():
        face, relation = Face(*map(program.expression, pair)), relation_of(program, joint)
        by: Literal["rewriting", "elimination"] = "rewriting"
        cheaper = _rewritten(program, joint)
        if cheaper.multiplications >= cost:
            order = markowitz_order(program.graph, Objective.FMA)
            assert order is not None
            by, cheaper = "elimination", value_program(eliminate_vertices(program.graph, order[1]))
        if cheaper.multiplications < cost:
            expressions = cheaper.definitions()
            expressions.to_accumulation(program.graph)  # raises if the Jacobian differs
            violations.append(Violation(face, relation, cost, expressions, cheaper.multiplications, by))
        else:
            violations.append(Violation(face, relation, cost, None, None, None))
    return tuple(violations)


def _rewritten(program: ValueProgram, joint: Joint) -> ValueProgram:
    """Return the program in which the joint's product with the sums replaces the product of the two values."""
    # bracket longer products so that both are products of two values
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
    return _replaced(result, old, new)


def _only_added(program: ValueProgram, joint: Joint) -> tuple[int, int] | None:
    """Return the neighbouring factors that are the joint's values or sums with them as terms, nested or not.

    Return None if the joint's product has no such neighbours.
    """

    def has_term(value: int, term: int) -> bool:
        return term in postorder([value], lambda v: program.operands[v] if program.kinds[v] == SUM else ())

    pairs = pairwise(program.operands[joint.product])
    return next((pair for pair in pairs if has_term(pair[0], joint.left) and has_term(pair[1], joint.right)), None)


def _replaced(program: ValueProgram, old: int, new: int) -> ValueProgram:
    """Return the program with `new` in place of `old`, without the paths that would then count twice."""
    items: dict[int, tuple[_Item, ...]] = {}
    # users of the old product get the paths of the new one, so the new one comes first
    for v in dict.fromkeys((*postorder([new], program.operands.__getitem__), *program.live())):
        if program.kinds[v] == LABEL:
            items[v] = (((v,), False),)
        elif v == old:
            items[v] = tuple((path, True) for path, _ in items[new])
        elif program.kinds[v] == PRODUCT:
            left, right = program.operands[v]
            items[v] = tuple((p + q, a or b) for p, a in items[left] for q, b in items[right])
        else:
            items[v] = tuple(item for term in program.operands[v] for item in items[term])
    result = ValueProgram(program.graph)

    @cache
    def made(v: int, removed: frozenset[_Item]) -> int | None:
        """Return the result's value for v without some of its items; None if no item is left."""
        if program.kinds[v] == LABEL:
            return None if removed else v
        if v == old:
            return made(new, frozenset((path, False) for path, _ in removed))
        parts: list[int | None] = []
        if program.kinds[v] == PRODUCT:
            left, right = program.operands[v]
            # left paths, grouped by the right paths that they lose
            groups: dict[frozenset[_Item], list[_Item]] = {}
            for p, a in items[left]:
                lost = frozenset((q, b) for q, b in items[right] if (p + q, a or b) in removed)
                groups.setdefault(lost, []).append((p, a))
            for lost, left_paths in groups.items():
                one, other = made(left, frozenset(items[left]).difference(left_paths)), made(right, lost)
                if one is not None and other is not None:
                    parts.append(result.product([one, other]))
        else:
            parts = [made(term, removed.intersection(items[term])) for term in program.operands[v]]
        left_over = [value for value in parts if value is not None]
        return None if not left_over else left_over[0] if len(left_over) == 1 else result.sum(left_over)

    for key, entry in program.entries.items():
        twice = {path for path, replaced in items[entry] if replaced}
        removed = frozenset((path, False) for path, replaced in items[entry] if not replaced and path in twice)
        value = made(entry, removed)
        assert value is not None
        result.entries[key] = value
    return result
