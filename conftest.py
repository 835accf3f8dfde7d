"""For all tests and doctests: plans are searched for, never recalled from the user's cache or kept there."""

from __future__ import annotations

import os

# for processes that tests start, too; those that test the cache switch it on again
os.environ["ACCUMULUS_CACHE_PLANS"] = "0"
