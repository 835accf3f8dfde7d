"""Runs docs/tutorial.ipynb, and writes it as a page of the site, with what its cells show.

A cell shows the value of its last expression, as Jupyter would. `make docs` writes the page; the tests run the cells.
"""

from __future__ import annotations

import ast
import json
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from accumulus.show import explorer

TUTORIAL = Path(__file__).parent / "tutorial.ipynb"


def cells() -> Iterator[tuple[str, str]]:
    """The kind and the text of each cell."""
    for cell in json.loads(TUTORIAL.read_text(encoding="utf-8"))["cells"]:
        yield cell["cell_type"], "".join(cell["source"])


def run(text: str, scope: dict[str, Any], k: int) -> Any:
    """Run cell `k`, and return the value of its last expression; None if it ends otherwise."""
    name = f"cell {k}"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    tree = ast.parse(text, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with mock.patch.object(explorer, "_in_notebook", return_value=True):
        exec(compile(tree, name, "exec"), scope)
        return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), scope)


def shown(value: Any) -> str:
    """HTML of a value, as a notebook shows it; empty for None."""
    for name in ("_repr_html_", "_repr_svg_"):
        text = getattr(value, name, lambda: None)()
        if text is not None:
            return str(text)
    return "" if value is None else f"<pre>{explorer.escaped(repr(value))}</pre>"


def main(folder: Path) -> None:
    """Write tutorial.md, with displays that are long as files beside it."""
    parts, scope = [], {"__name__": "tutorial"}
    for k, (kind, text) in enumerate(cells()):
        if kind == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        value = run(text, scope, k)
        if isinstance(value, explorer.Inline):
            (folder / f"tutorial-{k}.html").write_text(value.html, encoding="utf-8", newline="\n")
            frame = f'src="tutorial-{k}.html" width="100%" height="{value.height}" style="border: 0"'
            parts.append(f"<iframe {frame}></iframe>")
        elif html := shown(value):
            parts.append(html)
    (folder / "tutorial.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8", newline="\n")
