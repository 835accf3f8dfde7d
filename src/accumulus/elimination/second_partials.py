"""Second derivatives of single operations, from the expressions of the first in the table of operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from accumulus.elimination.emit import emit
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.linearize import linearize, partial_of
from accumulus.rewriting.canonical import canonical
from accumulus.tape.partials import check_orders
from accumulus.tape.tape import Tape

__all__ = ["second_partial", "written"]


@cache
def second_partial(code: int, first: int, second: int) -> Tape | None:
    """A tape of the arguments of an operation whose one output is its second derivative; None where that is 0.

    Args:
        first, second: positions of the arguments; both have a derivative.
    """
    template, label = partial_of(code, first)
    template = template.copy()
    template.outputs = [label]
    found = linearize(template, [second])
    if found.rows[0] < 0:
        return None
    graph = found.graph
    reverse = [v for v in reversed(graph.topological_order) if v in set(graph.intermediates)]
    made = emit(eliminate_vertices(graph, reverse))
    del made.outputs[0]
    return canonical(made)


def written(tape: Tape, template: Tape, arguments: Sequence[int]) -> int:
    """The output of a template, recorded with these arguments."""
    values = list(arguments)

    def reference(k: int) -> int:
        return tape.constant(template.value_of(k)) if k < 0 else values[k]

    for k in range(template.inputs, len(template)):
        values.append(tape.apply_code(template.codes[k], [reference(a) for a in template.arguments(k)]))
        if values[-1] >= 0:
            check_orders(tape, values[-1])
    return reference(template.outputs[0])
