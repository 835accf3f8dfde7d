"""The `llvm` target: vector IR written as text and compiled in the process, with one SIMD lane per point."""
