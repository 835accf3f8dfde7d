"""The front end of SymPy: expressions and matrices of them, with the symbols that are their arguments.

`model` holds what is recorded, `writing` emits it by `functions`, its table; `numbers` evaluates it by SymPy's own
means, for the comparison; `tracer` is the recorder. `expressions` is the way back, from a tape to SymPy.
"""
