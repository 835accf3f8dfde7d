"""``python -m accumulus``, the same as the command ``accumulus``."""

from accumulus.cli import main

main()
