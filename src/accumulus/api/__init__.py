"""Functions that users call.

The way from a function to its Jacobian, as `Trace` has it step by step, and `Derivative` in one go at the first call
for arguments of new shapes:

1. `record` runs the function once and keeps what it computes as a tape (`accumulus.frontends`).
2. `linearize` adds the partial derivatives of every operation: the tape's differentiation graph, whose edges they are
   (`accumulus.graph`).
3. `plan` searches an order in which to eliminate the graph's inner vertices that takes few products, and verifies these
   (`accumulus.search`, `accumulus.elimination`).
4. `emit` adds the products and their sums to the tape, which `optimise` rewrites to fewer operations
   (`accumulus.elimination`, `accumulus.rewriting`).
5. `compile_tape` makes machine code of it (`accumulus.targets`); a `CompiledProgram` packs arguments and shapes results
   (`accumulus.programs`).
"""
