"""The changes in docs/extending.md do what the page says: each is applied to a copy of the sources, and used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def apply(change: str, folder: Path) -> None:
    """Change a file as a diff without line numbers says, whose lines have to be there, once."""
    head, *lines = change.splitlines()
    path = folder / head.removeprefix("--- ")
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if before:
        assert text.count(before) == 1, f"{path.name} does not have these lines once:\n{before}"
    else:
        assert not text, f"{path.name} is there already"
    path.write_text(text.replace(before, after) if before else after, encoding="utf-8")


def test_page_has_a_section_for_each_table():
    assert list(SECTIONS) == ["An operation", "A method", "A target", "A front end", "An objective"]


@pytest.mark.parametrize("section", SECTIONS)
def test_change_does_what_the_page_says(section, tmp_path):
    changes = re.findall(r"^```diff\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    (lines,) = re.findall(r"^```python\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}

    def use():
        return subprocess.run(
            [sys.executable, "-c", lines], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert changes
    assert use().returncode != 0, "what the lines use is there without the change"
    for change in changes:
        apply(change, tmp_path)
    done = use()
    assert done.returncode == 0, done.stderr
