"""Front end for SymPy: expressions and matrices, as functions of their symbols.

`model` describes expressions with their symbols, and `writing` emits them to a tape by tables. `tracer` is the
recorder; it also evaluates expressions with SymPy, for the comparison. `expressions` converts a tape to SymPy
expressions.
"""
