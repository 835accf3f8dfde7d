"""The examples of docs/shipping.md run, one after the other, in a folder of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

PAGE = (Path(__file__).parents[2] / "docs" / "shipping.md").read_text(encoding="utf-8")


def test_examples_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # where its classes are
    scope = vars(page)
    for example in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(example, scope)
    assert "from a file" in capsys.readouterr().out
