"""The documentation says what is there: its examples run, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import accumulus as acc
from accumulus.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


LINES = "".join(blocks(TEXTS["README.md"], "console")).splitlines()
COMMANDS = [line.split("#")[0].split()[1:] for line in LINES if line.startswith("accumulus ")]


def test_examples_of_the_readme_run(capsys):
    scope = {}
    examples = blocks(TEXTS["README.md"], "python")
    assert len(examples) >= 2
    for example in examples:
        exec(example, scope)
    assert "Jacobian of pendulum" in capsys.readouterr().out
    np.testing.assert_allclose(scope["program"](np.zeros(2), 0.2)[0][:, 0], [0.0, -9.81])


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_of_the_readme_run(arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    if "--output" in arguments:
        arguments = [*arguments[: arguments.index("--output") + 1], str(tmp_path / "output")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    folder = ROOT if page == "README.md" else ROOT / "docs"
    for target in re.findall(r"\]\(([^)#]+)", TEXTS[page]):
        assert target.startswith("https://") or (folder / target).exists(), target


@pytest.mark.parametrize("page", TEXTS)
def test_names_exist(page):
    for name in re.findall(r"\bacc\.(\w+)", TEXTS[page]):
        assert hasattr(acc, name), name
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", TEXTS[page]):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target
    for path in re.findall(r"`((?:src|docs|tests|requirements|examples|benchmarks)/[\w/.]*)`", TEXTS[page]):
        assert (ROOT / path).exists(), path
