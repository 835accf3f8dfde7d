"""``python -m accumulus``, the same as the command ``accumulus``."""

from accumulus.cli import main

if __name__ == "__main__":  # processes of `--jobs` import this file under another name
    main()
