"""User functions read from their source: decisions on values become calls of whoever records them.

`syntax` transforms the syntax tree of one function, `exits` moves what follows an early exit into the other branch and
has flags in the place of exits from loops, and `conversion` finds the source and compiles the result. They know of no
library: what the calls do is handed in by name, see `accumulus.frontends.numpy.calling`.
"""
