"""The front end of SymPy: expressions and matrices of them, with the symbols that are their arguments.

`model` holds what is recorded, `writing` emits it by its tables; `tracer` is the recorder, and evaluates
expressions by SymPy's own means, for the comparison. `expressions` is the way back, from a tape to SymPy.
"""
