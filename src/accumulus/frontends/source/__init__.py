"""Transformation of the user's functions from their source: decisions on values become calls of the recorder.

`syntax` transforms the syntax tree of one function, `exits` moves what follows an early exit into the other branch and
has flags in the place of exits from loops, and `conversion` finds the source and compiles the result. They do not
depend on a library: the functions to call are passed by name, see `accumulus.frontends.numpy.calling`.
"""
