"""Table of operations, the tape, its derivatives, its interpreter, and passes over it."""
