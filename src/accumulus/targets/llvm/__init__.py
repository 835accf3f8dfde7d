"""The `llvm` target: vector IR written as text, compiled in the process, one SIMD lane a point."""
