"""For all tests and doctests: plans are searched for, never recalled from the user's cache or kept there."""

from __future__ import annotations

import os
import sys

import pytest

# for processes that tests start, too; those that test the cache switch it on again
os.environ["ACCUMULUS_CACHE_PLANS"] = "0"
# so do these share bytecode: without it each of them would compile the sources anew, for longer than most of them run
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(autouse=True)
def _as_of_a_user(doctest_namespace):
    """Functions of doctests are recorded and watched as those of users' modules are."""
    doctest_namespace["__name__"] = "example"
