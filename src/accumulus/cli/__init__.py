"""The command line: ``accumulus plan``, ``compare``, ``emit``, ``show``, ``check``, ``build``, ``methods``, ``cache``.

Standard output carries the requested output, the error stream everything else. Exit codes: 0 for success, 1 for an
error of accumulus or of the user's file, 2 for an invalid command, 130 after Ctrl-C.
"""

from accumulus.cli import commands  # noqa: F401  # importing registers them
from accumulus.cli.application import app, main

__all__ = ["app", "main"]
