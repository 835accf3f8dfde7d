"""How the property tests draw their examples: Hypothesis profiles, and one seed a run that replays it.

``pytest --hypothesis-seed=N`` repeats the run that printed N; ``--hypothesis-profile fuzz`` draws many more examples.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings

# Compilation makes single examples slow, on busy machines very slow: no deadlines.
settings.register_profile(
    "default", max_examples=50, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # before Hypothesis reads the option, and before worker processes are given a copy of all options
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.randrange(10**9))


def pytest_terminal_summary(terminalreporter, config):
    seed = config.option.hypothesis_seed
    terminalreporter.write_line(f"Hypothesis seed {seed}: repeat with pytest --hypothesis-seed={seed}")
