"""The examples of docs/shipping.md run, one after the other, in a folder of their own."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

from inside import app
from typer.testing import CliRunner

PAGE = (Path(__file__).parents[2] / "docs" / "shipping.md").read_text(encoding="utf-8")


def test_examples_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # where its classes are
    scope = vars(page)
    blocks = re.findall(r"^```(python|console)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    function = re.search(r"^def pendulum.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    Path("pendulum.py").write_text(f"import numpy as np\n\n\n{function[0]}")
    for language, example in blocks:
        if language == "python":
            exec(example, scope)
            continue
        if sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))):
            break
        sys.modules.pop("pendulum", None)
        for line in example.splitlines():
            result = CliRunner().invoke(app, line.split()[1:])
            assert result.exit_code == 0, result.output
        sys.modules.pop("pendulum", None)  # the file; the package has its name
        Path("pendulum.py").unlink()
    assert "from a file" in capsys.readouterr().out
    sys.modules.pop("pendulum", None)
