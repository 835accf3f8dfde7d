"""The table of operations, the tape, its derivatives, its interpreter and its optimiser."""
