"""Tools for open questions of the theory; the rest of the library does not depend on them."""
