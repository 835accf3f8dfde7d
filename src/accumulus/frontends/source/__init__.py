"""Source transformation of user functions: decisions on values become calls of the recorder.

`syntax` transforms the syntax tree of one function. `exits` moves the statements after an early exit into the other
branch, and replaces exits from loops by flags. `conversion` finds the source and compiles the result. These modules do
not depend on a library: they receive the functions to call by name, see `accumulus.frontends.numpy.calling`.
"""
