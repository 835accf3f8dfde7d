"""Writes the pages of the site into build/pages, from which `make docs` builds it.

They are those of this folder, with the README as front page. Links to sources, which the site does not have, become the
paths that they name.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import animated
import notebook

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = ROOT / "build" / "pages"


def page(text: str) -> str:
    """The text of a page, without links out of the site."""
    return re.sub(r"\[([^]]*)\]\((?:\.\./)+((?:src|tests|benchmarks|examples)/[^)]*)\)", r"\1 (`\2`)", text)


def main() -> None:
    """Write them all, anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / "README.md", PAGES / "index.md")
    notebook.main(PAGES)
    for path in PAGES.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        if path.name == "index.md":
            text = text.replace("](docs/", "](")
        text = text.replace("../README.md", "index.md").replace("tutorial.ipynb)", "tutorial.md)")
        path.write_text(page(text), encoding="utf-8", newline="\n")
    animated.main(PAGES / "animated")


if __name__ == "__main__":
    main()
