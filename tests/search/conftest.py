"""Shared by the tests of the search."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def graph_folder() -> Path:
    """Where the public test graphs are."""
    return Path(__file__).parents[1] / "data" / "graphs"
