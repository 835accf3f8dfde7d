"""How the property tests draw their examples: Hypothesis profiles, and one seed a run that replays it.

A plain run draws the same examples every time, so that it tells of a change and not of luck; ``--hypothesis-profile
fuzz`` draws many more, new ones at every run. ``pytest --hypothesis-seed=N`` repeats the run that printed N.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings

# Compilation makes single examples slow, on busy machines very slow: no deadlines.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # before Hypothesis reads the option, and before worker processes are given a copy of all options
    if config.getoption("hypothesis_seed", None) is None:
        fuzzing = config.getoption("hypothesis_profile", None) == "fuzz"
        config.option.hypothesis_seed = str(random.randrange(10**9)) if fuzzing else "0"


def pytest_terminal_summary(terminalreporter, config):
    seed = config.option.hypothesis_seed
    terminalreporter.write_line(f"Hypothesis seed {seed}: repeat with pytest --hypothesis-seed={seed}")
