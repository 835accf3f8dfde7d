"""Instruments for open questions of the theory; nothing else in the package needs them."""
