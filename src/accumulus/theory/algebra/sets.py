"""Sets of expressions connected by references, and references for repeated subexpressions.

**Sets.** An `ExpressionSet` has an expression for every nonzero of the Jacobian, and for every reference s_k that these
use. A repeated expression is computed repeatedly, a reference is computed once. So the notes' two forms of the same
derivative, with and without s_1, cost 10 and 12 products. `shared` makes a reference of every repeated subexpression;
`inlined` replaces every reference by its expression.

To convert an accumulation, every step with one use becomes part of the expression that uses it, and every other step
becomes a reference. Only the order of the steps and the brackets of products with several factors are lost. If brackets
can change the cost, with vectors or constants, a right factor that is a product becomes a reference, too. Linear time.

**Sharing.** Values are numbered by structure (hash-consing, with references resolved). So equal factors, equal terms,
and references with equal definitions are one value. Then neighbouring factors that several products have in common
become a value, the most frequent pair first, as D* shares common parts of paths (Guenter 2007, section 4). A value with
one use is written in place. No rule increases the number of products. Products are not distributed over sums, and sums
are not searched for common parts, so this finds only repetitions in the set as written. Time: O(n log n) in the size of
the written set.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import count
from accumulus.errors import ExpressionError, unknown_name
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.search.plan import Plan
from accumulus.theory.algebra.expression import (
    Entry,
    Expression,
    Product,
    Reference,
    Symbol,
    edge_names,
    equivalent,
    fail,
    folded,
    fresh_names,
    latex_name,
    nodes,
    operands,
    parse,
    plain_name,
    postorder,
    product_of_factors,
    quoted,
    statements,
    sum_of_terms,
    word_counts,
)
from accumulus.theory.algebra.matching import match, shared_graph, simple_accumulation, split_graph

if TYPE_CHECKING:
    import sympy


#: Largest number of references and entries of a set that a notebook shows as formulas.
LONGEST_SHOWN = 60
#: Largest size of an inlined set: a larger one may exhaust memory, a smaller one refuses sets that fit.
_LARGEST = 10_000_000


@dataclass(frozen=True)
class ExpressionSet:
    """Expressions of the Jacobian's nonzeros, and the references that they use.

    Args:
        references: definitions by name, in any order; the set stores them in topological order.
        entries: expressions by (name of the root, name of the terminal).

    Raises:
        ExpressionError: if a reference is not defined, or depends on itself.

    >>> expressions = ExpressionSet.parse('''
    ...     s1 = e8*e11 + e9*e12
    ...     ∂v1/∂v9 = e1*(e3*e7*e11 + e4*s1) + e2*(e6*e10*e12 + e5*s1)
    ... ''')
    >>> expressions.cost("fma"), expressions.inlined().cost("fma")
    (10, 12)
    >>> print(expressions.inlined())
    ∂v1/∂v9 = e1*(e3*e7*e11 + e4*(e8*e11 + e9*e12)) + e2*(e5*(e8*e11 + e9*e12) + e6*e10*e12)
    >>> graph = expressions.to_graph()
    >>> accumulation = expressions.to_accumulation(graph)
    >>> ExpressionSet.from_accumulation(accumulation).equivalent(expressions), expressions.words()
    (True, 6)
    >>> simple = ExpressionSet.parse("a*b + a*c")
    >>> print(ExpressionSet.from_graph(simple.to_graph()))
    ∂y/∂x = a*(b + c)
    >>> simple.latex().splitlines()[1].partition("&= ")[2], simple.sympy()[1]["y", "x"]
    ('a b + a c', a*b + a*c)
    """

    references: Mapping[str, Expression]
    entries: Mapping[Entry, Expression]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", dict(self.entries))
        object.__setattr__(self, "references", _in_order(self.references, self.entries))

    @classmethod
    def parse(cls, text: str) -> ExpressionSet:
        """Return a set from text: one statement a line, ``s1 = …`` for a reference, ``∂y/∂x = …`` for an entry.

        An expression without a left side is the entry ∂y/∂x. `accumulus.theory.algebra.expression` defines the grammar.

        Raises:
            ExpressionError: if the text is malformed (the message points at the character), or if a name is defined
                twice, not defined, or defined by itself (the message names it).
        """
        if not isinstance(text, str):
            raise ExpressionError(f"{type(text).__name__} {text!r} was given; expected text")
        parsed = list(statements(text))
        names = {statement.key for statement in parsed if isinstance(statement.key, str)}
        references: dict[str, Expression] = {}
        entries: dict[Entry, Expression] = {}
        for statement in parsed:
            expression = parse(text, names, start=statement.start, stop=statement.stop)
            key = ("y", "x") if statement.key is None else statement.key
            if key in references or key in entries:
                shown = key if isinstance(key, str) else f"∂{key[0]}/∂{key[1]}"
                fail(text, statement.start, f"{shown} is defined a second time; expected each once")
            if isinstance(key, str):
                references[key] = expression
            else:
                entries[key] = expression
        if not entries:
            raise ExpressionError("the text has no entry; expected an expression, or lines such as ∂y/∂x = e1*e2")
        return cls(references, entries)

    @classmethod
    def from_accumulation(cls, accumulation: Accumulation) -> ExpressionSet:
        """Return the accumulation as expressions of the labels that `edge_names` names."""
        return cls._written(accumulation, edge_names(accumulation.graph), _bracketing_matters(accumulation))

    @classmethod
    def _written(cls, accumulation: Accumulation, names: Sequence[str], bracketed: bool) -> ExpressionSet:
        """Return the set of an accumulation; if `bracketed`, keep right factors that are products as references."""
        graph, steps = accumulation.graph, accumulation.steps
        first = steps.edges
        fresh = fresh_names("s", set(names))
        uses, spliced, factors = _spliced(accumulation, bracketed)
        values: dict[int, Expression] = {e: Symbol(name) for e, name in enumerate(names)}
        references: dict[str, Expression] = {}
        for step in range(len(steps)):
            reference = first + step
            if not uses[reference] or reference in spliced:
                continue
            # all operands of nested sums, or of nested products
            parts: list[Expression] = []
            stack = [steps.right[step], steps.left[step]]
            while stack:
                operand = stack.pop()
                if operand in spliced and steps.is_product[operand - first] == steps.is_product[step]:
                    stack += (steps.right[operand - first], steps.left[operand - first])
                else:
                    parts.append(values[operand])
            value: Expression = product_of_factors(parts) if steps.is_product[step] else sum_of_terms(parts)
            if uses[reference] > 1 or reference in factors:
                name = next(fresh)
                references[name] = value
                value = Reference(name)
            values[reference] = value
        entries = {
            (graph.vertices[graph.roots[row]], graph.vertices[graph.terminals[column]]): values[reference]
            for (row, column), reference in accumulation.entries.items()
        }
        return cls(references, entries)

    @classmethod
    def from_graph(cls, graph: DifferentiationGraph) -> ExpressionSet:
        """Return the nested expressions of a simple graph.

        In a simple graph, the paths from each root to each terminal form a series-parallel graph of their own. Edges
        with equal labels have equal symbols.

        Raises:
            ExpressionError: if the graph is not simple; the message names a vertex of a complex block. For such graphs
                use `from_accumulation`.
        """
        return cls._written(simple_accumulation(graph), edge_names(graph, apart=False), bracketed=False)

    def to_accumulation(self, graph: DifferentiationGraph) -> Accumulation:
        """Return the accumulation of `graph` that computes the expressions, products from left to right.

        Symbols are the names of the graph's edges (`edge_names`). Unit edges on a path may be omitted.

        Raises:
            ExpressionError: if the graph lacks a label or a vertex, factors do not meet, terms have different ends, or
                a path is missing or counted more than once; the message names the part.
        """
        return match(self.references, self.entries, graph)

    def to_graph(self, symbols: Literal["shared", "split"] = "shared") -> DifferentiationGraph:
        """Return the differentiation graph of the expressions: each product a path, each sum a block.

        Args:
            symbols: with ``"shared"``, all occurrences of a symbol are one edge, and references are resolved. The
                result is the graph of the accumulation, up to the names of vertices. With ``"split"``, every occurrence
                of a symbol or a reference is an edge of its own, as in the notes' drawings of factorized graphs; roots
                and terminals are shared. The result is a simple graph.

        Raises:
            ExpressionError: for ``"shared"``, if no graph has these path sums; the message names a cycle, or a path
                that is missing or counted twice.
            UnknownNameError: for any other value of `symbols`.
        """
        constructions = {"shared": shared_graph, "split": split_graph}
        if symbols not in constructions:
            raise unknown_name("way to draw symbols", symbols, constructions)
        return constructions[symbols](self.references, self.entries)

    def cost(self, objective: str = "fma", graph: DifferentiationGraph | None = None) -> int:
        """Return the cost of the set as written, counted on its accumulation.

        Args:
            objective: name of the objective.
            graph: graph with the sizes of vertices and the kinds of labels; by default `to_graph()`.
        """
        return count(self.to_accumulation(self.to_graph() if graph is None else graph), objective)

    @cached_property
    def multiplications(self) -> int:
        """Number of products as written, which is the `cost` under ``"fma"`` for scalars."""
        return sum(expression.multiplications for expression in (*self.references.values(), *self.entries.values()))

    def inlined(self) -> ExpressionSet:
        """Return the set with every reference replaced by its definition.

        Raises:
            ExpressionError: if the result would have more than ten million nodes.
        """

        def combine(node: Expression, parts: list[tuple[Expression, int]]) -> tuple[Expression, int]:
            if isinstance(node, Reference):
                return parts[0]
            inner = [expression for expression, _ in parts]
            made = product_of_factors(inner) if isinstance(node, Product) else sum_of_terms(inner) if inner else node
            return made, 1 + sum(size for _, size in parts)

        values = folded([*self.references.values(), *self.entries.values()], combine, self.references)
        written = sum(values[expression][1] for expression in self.entries.values())
        if written > _LARGEST:
            raise ExpressionError(f"without references the set has {written} labels; expected at most {_LARGEST}")
        return ExpressionSet({}, {key: values[expression][0] for key, expression in self.entries.items()})

    def shared(self) -> ExpressionSet:
        """Return the set with a reference for every repeated subexpression.

        The number of products as written never increases. References that are equal, or used once, are resolved. With
        vector-valued vertices this loses their brackets, and the cost may increase.

        >>> print(ExpressionSet.parse("a*(b*c + d)*e + a*(b*c + d)*f").shared())
        s1 = a*(b*c + d)
        ∂y/∂x = s1*e + s1*f
        """
        values = _Values(self.references, self.entries)
        values.pair_up()
        return ExpressionSet(*values.written(self.references, self.entries))

    def equivalent(self, other: ExpressionSet) -> bool:
        """Return True if both have the same entries, equal as noncommutative polynomials."""
        mine, theirs = _by_plain_name(self.entries), _by_plain_name(other.entries)
        return mine.keys() == theirs.keys() and all(
            equivalent(mine[key], theirs[key], self.references, other.references) for key in mine
        )

    def words(self) -> int:
        """Return the number of paths in the entries, with multiplicity."""
        counts = word_counts(self.entries.values(), self.references)
        return sum(counts[expression] for expression in self.entries.values())

    def latex(self) -> str:
        """Return the set as a LaTeX ``align*`` environment, a line for each expression."""
        lines = [f"{latex_name(name)} &= {definition.latex()}" for name, definition in self.references.items()]
        for (root, terminal), expression in self.entries.items():
            derivative = f"\\frac{{\\partial {latex_name(str(root))}}}{{\\partial {latex_name(str(terminal))}}}"
            lines.append(f"{derivative} &= {expression.latex()}")
        return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"

    def _repr_latex_(self) -> str | None:
        if len(self.references) + len(self.entries) > LONGEST_SHOWN:
            return None
        return (
            self.latex().replace("\\begin{align*}", "$$\\begin{aligned}").replace("\\end{align*}", "\\end{aligned}$$")
        )

    def sympy(self) -> tuple[list[tuple[sympy.Symbol, sympy.Expr]], dict[Entry, sympy.Expr]]:
        """Return the set in SymPy: replacements in the form of ``sympy.cse``, and the entries.

        Raises:
            ExpressionError: if SymPy is not installed.
        """
        replacements: Any = [
            (Reference(name).sympy(), definition.sympy()) for name, definition in self.references.items()
        ]
        return replacements, {key: expression.sympy() for key, expression in self.entries.items()}

    def __str__(self) -> str:
        lines = [f"{quoted(name)} = {definition}" for name, definition in self.references.items()]
        for (root, terminal), expression in self.entries.items():
            lines.append(f"∂{_vertex(root)}/∂{_vertex(terminal)} = {expression}")
        return "\n".join(lines)


def expressions(plan: Plan) -> ExpressionSet:
    """Return a plan as expressions: one for every nonzero, with references for values that are used more than once.

    Args:
        plan: plan for a graph whose vertices are numbers, as `accumulus.plan` returns it.

    >>> import accumulus as acc
    >>> graph = acc.DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
    >>> print(expressions(acc.plan(graph, order=["b", "a"])))
    s1 = e3*e4
    ∂y/∂x = e1*s1
    ∂z/∂x = e2*s1
    """
    return ExpressionSet.from_accumulation(plan.accumulation)


def _in_order(references: Mapping[str, Expression], entries: Mapping[Entry, Expression]) -> dict[str, Expression]:
    """Return the references in topological order: definitions before their uses."""
    used: dict[str, tuple[str, ...]] = {}
    for name, expression in [*references.items(), *(("", entry) for entry in entries.values())]:
        inner = [node.name for node in postorder([expression], operands) if isinstance(node, Reference)]
        used[name] = tuple(sorted(inner))
        for unknown in inner:
            if unknown not in references:
                raise ExpressionError(f"reference {unknown!r} is used but not defined; defined: {sorted(references)}")
    order = list(postorder(references, lambda name: used[name]))
    position = {name: k for k, name in enumerate(order)}
    for name in references:
        late = next((inner for inner in used[name] if position[inner] >= position[name]), None)
        if late is not None:
            raise ExpressionError(f"reference {late!r} depends on itself; expected each to use only others")
    return {name: references[name] for name in order}


def _bracketing_matters(accumulation: Accumulation) -> bool:
    """Return True if brackets can change the cost: if there are vectors, or constants, whose products are free."""
    graph = accumulation.graph
    if (graph.sizes != 1).any() or (graph.kinds == Kind.CONSTANT).any():
        return True
    fixed = [kind != Kind.VARIABLE for kind in graph.kinds.tolist()]
    for is_product, left, right in accumulation.steps:
        fixed.append(fixed[left] and fixed[right])
        if fixed[-1] and not is_product:  # a sum of units
            return True
    return False


def uses_of(accumulation: Accumulation) -> tuple[list[int], list[int]]:
    """Return the number of uses of each reference by live steps and entries, and its first live user, −1 for none.

    A step is live if an entry depends on it.
    """
    steps = accumulation.steps
    first = steps.edges
    uses = [0] * (first + len(steps))
    user = [-1] * (first + len(steps))
    for reference in accumulation.entries.values():
        uses[reference] += 1
    for step in reversed(range(len(steps))):
        if uses[first + step]:
            for operand in (steps.left[step], steps.right[step]):
                uses[operand] += 1
                user[operand] = step
    return uses, user


def _spliced(accumulation: Accumulation, bracketed: bool) -> tuple[list[int], set[int], set[int]]:
    """Return the uses of each reference, the set of spliced references, and the set of right factors that are kept.

    A reference with one use is spliced into a step of its kind: a product into a product, a sum into a sum. If
    `bracketed`, a product that is the right factor is kept instead.
    """
    steps = accumulation.steps
    first = steps.edges
    uses, user = uses_of(accumulation)
    spliced = {
        first + step
        for step in range(len(steps))
        if uses[first + step] == 1
        and user[first + step] >= 0
        and steps.is_product[user[first + step]] == steps.is_product[step]
    }
    factors = {k for k in spliced if bracketed and steps.is_product[k - first] and steps.right[user[k]] == k}
    return uses, spliced - factors, factors


def _by_plain_name(entries: Mapping[Entry, Expression]) -> dict[tuple[str, str], Expression]:
    return {(plain_name(root), plain_name(terminal)): expression for (root, terminal), expression in entries.items()}


def _vertex(name: Hashable) -> str:
    shown = plain_name(name)
    return shown if re.fullmatch(r"[\w′'-]+", shown) else f"`{shown}`"


# Sharing -------------------------------------------------------------------------------------------------------------


Pair = tuple[int, int]


class _Values:
    """Numbered values: symbols, products and sums of values."""

    def __init__(self, references: Mapping[str, Expression], entries: Mapping[Entry, Expression]) -> None:
        self.symbols: dict[int, Symbol] = {}
        self.products: dict[int, list[int]] = {}
        self.sums: dict[int, list[int]] = {}
        self.numbers: dict[Expression, int] = {}
        numbered: dict[tuple[object, ...], int] = {}
        used: Counter[int] = Counter()
        for node in nodes(entries.values(), references):
            if isinstance(node, Reference):
                self.numbers[node] = self.numbers[references[node.name]]
                continue
            inner = [self.numbers[operand] for operand in operands(node)]
            key = (type(node), *(inner if isinstance(node, Product) else sorted(inner))) if inner else (node,)
            self.numbers[node] = numbered.setdefault(key, len(numbered))
            if len(numbered) > len(self.symbols) + len(self.products) + len(self.sums):
                used.update(inner)
                table = self.products if isinstance(node, Product) else self.sums
                if isinstance(node, Symbol):
                    self.symbols[self.numbers[node]] = node
                else:
                    table[self.numbers[node]] = inner
        used.update(self.numbers[entry] for entry in entries.values())
        # a product whose only use is another product is spliced into it
        parts = {number for number, factors in self.products.items() for number in factors if used[number] == 1}
        spliced = parts.intersection(self.products)
        for number, factors in self.products.items():
            self.products[number] = [
                member for factor in factors for member in (self.products[factor] if factor in spliced else [factor])
            ]
        for number in spliced:
            del self.products[number]

    def pair_up(self) -> None:
        """Replace pairs of neighbouring factors that occur in several products by new values."""
        where: dict[Pair, set[int]] = {}
        for number, factors in self.products.items():
            for pair in pairwise(factors):
                where.setdefault(pair, set()).add(number)
        heap = [(-len(places), pair) for pair, places in where.items() if len(places) > 1]
        heapq.heapify(heap)
        fresh = 1 + max([*self.symbols, *self.products, *self.sums, *self.numbers.values()])
        while heap:
            count, pair = heapq.heappop(heap)
            places = where.get(pair, set())
            if len(places) < 2:
                continue
            if len(places) != -count:
                heapq.heappush(heap, (-len(places), pair))
                continue
            # if one of the products is just this pair, the others use it
            value = next((number for number in sorted(places) if len(self.products[number]) == 2), fresh)
            if value == fresh:
                fresh += 1
            touched: set[Pair] = set()
            for number in sorted(places - {value}):
                touched |= self._replace(number, pair, value, where)
            if value not in self.products:
                self.products[value] = list(pair)
            where[pair] = {value}
            for new_pair in touched:
                if len(where.get(new_pair, ())) > 1:
                    heapq.heappush(heap, (-len(where[new_pair]), new_pair))

    def _replace(self, number: int, pair: Pair, value: int, where: dict[Pair, set[int]]) -> set[Pair]:
        """Replace the pair by the value in a product, and return the pairs that are new there."""
        old = self.products[number]
        new: list[int] = []
        for factor in old:
            if new and (new[-1], factor) == pair:
                new[-1] = value
            else:
                new.append(factor)
        for gone in pairwise(old):
            where[gone].discard(number)
        self.products[number] = new
        added = set(pairwise(new))
        for there in added:
            where.setdefault(there, set()).add(number)
        return added

    def written(
        self, references: Mapping[str, Expression], entries: Mapping[Entry, Expression]
    ) -> tuple[dict[str, Expression], dict[Entry, Expression]]:
        """Return references for products and sums that are used more than once, and the entries."""
        parts: dict[int, list[int]] = {**{number: [] for number in self.symbols}, **self.products, **self.sums}
        roots = [self.numbers[entry] for entry in entries.values()]
        order = list(postorder(roots, lambda number: parts[number]))
        uses = Counter(roots)
        for number in order:
            uses.update(parts[number])
        names: dict[int, str] = {}
        for name, definition in references.items():
            if definition in self.numbers:
                names.setdefault(self.numbers[definition], name)
        fresh = fresh_names("s", {symbol.name for symbol in self.symbols.values()}.union(references))
        values: dict[int, Expression] = {}
        shared: dict[str, Expression] = {}
        for number in order:
            over = [values[operand] for operand in parts[number]]
            if not over:
                values[number] = self.symbols[number]
                continue
            values[number] = product_of_factors(over) if number in self.products else sum_of_terms(over)
            if uses[number] > 1 and len(over) > 1:
                name = names.get(number) or next(fresh)
                shared[name] = values[number]
                values[number] = Reference(name)
        return shared, {key: values[self.numbers[entry]] for key, entry in entries.items()}
