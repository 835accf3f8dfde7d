"""Takes the pictures of docs/explorer.md: `make screenshots`, which needs Chromium."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import accumulus as acc

FOLDER = Path(__file__).parent / "explorer"


def reaction(state: np.ndarray) -> np.ndarray:
    """A function with shared parts, short enough to be seen as a whole."""
    rate = state[0] * np.exp(state[1])
    heat = rate * np.sin(state[1]) / state[2]
    return np.array([rate - heat, heat * state[2]])


def main() -> None:
    """Take them all."""
    FOLDER.mkdir(exist_ok=True)
    jac = acc.jacobian(reaction)
    jac(np.ones(3))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = jac.show(Path(folder) / "page.html")
        costs = jac.report().show(Path(folder) / "costs.html")
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=theme)
            tab.goto(page.as_uri())
            tab.wait_for_selector(".transport")
            tab.evaluate("explorer.goTo(4)")
            tab.wait_for_timeout(500)
            tab.screenshot(path=FOLDER / f"explorer-{theme}.png")
            tab.goto(costs.as_uri())
            tab.wait_for_selector(".flame")
            tab.screenshot(path=FOLDER / f"report-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
