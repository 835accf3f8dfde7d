"""The command line: ``accumulus plan``, ``compare``, ``emit``, ``build``, ``methods``, ``cache``.

Standard output carries the requested output, the error stream everything else. Exit codes: 0 done, 1 an error of
accumulus or of the user's file, 2 a command that makes no sense, 130 stopped with Ctrl-C.
"""

from accumulus.cli import commands  # noqa: F401  # they register themselves
from accumulus.cli.application import app, main

__all__ = ["app", "main"]
