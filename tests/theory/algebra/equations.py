"""The equations of the notes as text. dv1/dv7 of figure (b) means ∂v1/∂v9: a slip."""

from __future__ import annotations

from figures import edges

from accumulus import DifferentiationGraph
from accumulus.theory.algebra.sets import ExpressionSet

A_SIMPLE = ExpressionSet.parse("∂v1/∂v7 = (e1*e3 + e2*e4)*(e5*e7 + e6*e8)")
A_FULL = ExpressionSet.parse("∂v1/∂v7 = e1*e3*e5*e7 + e1*e3*e6*e8 + e2*e4*e5*e7 + e2*e4*e6*e8")
B_SIMPLE = ExpressionSet.parse(
    "∂v1/∂v9 = e1*(e3*e7*e11 + e4*(e8*e11 + e9*e12)) + e2*(e6*e10*e12 + e5*(e8*e11 + e9*e12))"
)
D_SIMPLE = ExpressionSet.parse("∂v1/∂v9 = (e1*e3*e7 + (e1*e4 + e2*e5)*e8)*e11 + (e2*e6*e10 + (e1*e4 + e2*e5)*e9)*e12")
B_REFERENCE = ExpressionSet.parse("""
    s1 = e8*e11 + e9*e12
    ∂v1/∂v9 = e1*(e3*e7*e11 + e4*s1) + e2*(e6*e10*e12 + e5*s1)
""")
#: (eq:s1) to (eq:v-3_v11), in the form with references.
SIX = ExpressionSet.parse("""
    s1 = e3*e7
    s2 = e6*e10
    s4 = e8*e11 + e9*e12
    s5 = e18*(s1*e11 + e4*s4)
    s6 = e19*(s2*e12 + e5*s4)
    ∂v_{-2}/∂v_{12} = e18*(s1 + e4*e8)*e15
    ∂v_{-2}/∂v_{13} = e18*e4*e9*e16
    ∂v_{-2}/∂v_{10} = s5*e13
    ∂v_{-2}/∂v_{11} = s5*e14
    ∂v_{-3}/∂v_{13} = e19*(e5*e9 + s2)*e16
    ∂v_{-3}/∂v_{12} = e19*e5*e8*e15
    ∂v_{-3}/∂v_{10} = s6*e13
    ∂v_{-3}/∂v_{11} = s6*e14
""")
#: The same, in the form written out.
SIX_FULL = ExpressionSet.parse("""
    ∂v-2/∂v12 = e18*(e3*e7 + e4*e8)*e15
    ∂v-2/∂v13 = e18*e4*e9*e16
    ∂v-2/∂v10 = e18*(e3*e7*e11 + e4*(e8*e11 + e9*e12))*e13
    ∂v-2/∂v11 = e18*(e3*e7*e11 + e4*(e8*e11 + e9*e12))*e14
    ∂v-3/∂v13 = e19*(e5*e9 + e6*e10)*e16
    ∂v-3/∂v12 = e19*e5*e8*e15
    ∂v-3/∂v10 = e19*(e6*e10*e12 + e5*(e8*e11 + e9*e12))*e13
    ∂v-3/∂v11 = e19*(e6*e10*e12 + e5*(e8*e11 + e9*e12))*e14
""")
#: A cheaper set for the same graph: from the roots to v7 and v8 first, then to v9.
CHEAPER = ExpressionSet.parse("""
    s1 = e18*e4;              s2 = e19*e5
    a7 = e18*e3*e7 + s1*e8;   a8 = s1*e9
    b7 = s2*e8;               b8 = e19*e6*e10 + s2*e9
    a9 = a7*e11 + a8*e12;     b9 = b7*e11 + b8*e12
    ∂v-2/∂v12 = a7*e15; ∂v-2/∂v13 = a8*e16; ∂v-2/∂v10 = a9*e13; ∂v-2/∂v11 = a9*e14
    ∂v-3/∂v12 = b7*e15; ∂v-3/∂v13 = b8*e16; ∂v-3/∂v10 = b9*e13; ∂v-3/∂v11 = b9*e14
""")


def six_graph() -> DifferentiationGraph:
    """fig:multi-root-terminal-factorization (e) with labels on all edges and v4, v6 kept."""
    drawn = edges("fig:multi-root-terminal-graph", "a")
    return DifferentiationGraph([edge for edge in drawn if edge[2] not in ("e0", "e17", "e1", "e2")])
