"""Functions that users call.

The steps from a function to its Jacobian. `Trace` offers them one at a time; `Derivative` runs all of them at the first
call with arguments of new shapes:

1. `record` runs the function once and keeps its operations as a tape (`accumulus.frontends`).
2. `linearize` adds the partial derivatives of every operation. They are the edges of the tape's differentiation graph
   (`accumulus.graph`).
3. `plan` searches for an order of eliminating the graph's inner vertices that takes few products, and verifies it
   (`accumulus.search`, `accumulus.elimination`).
4. `emit` adds the products and their sums to the tape, and `optimise` rewrites the tape to fewer operations
   (`accumulus.elimination`, `accumulus.rewriting`).
5. `compile_tape` compiles the tape to machine code (`accumulus.targets`). A `CompiledProgram` packs the arguments and
   shapes the results (`accumulus.programs`).
"""
