"""Examples of property tests: Hypothesis profiles, and one seed per run that replays it.

A plain run draws the same examples every time and everywhere, so that it tells of a change and not of luck;
``--hypothesis-profile fuzz`` draws many more, new ones at every run. It also runs all cases of tests that are marked
``sampled(n)``, of which a plain run takes one in n, the same ones every time; of ``sampled(n, each="function target")``
as many more as it takes to have each function and each target, say. ``pytest --hypothesis-seed=N`` repeats the run that
printed N.
"""

from __future__ import annotations

import gc
import os
import random
import signal
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# JAX compiles most references to run them once. Without optimisation, without MLIR's emitters of fusions and as one
# module, that takes half the time. Set before JAX is imported, here and in other processes.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
)

import accumulus
from accumulus.frontends.numpy import patching
from accumulus.targets.c import c_target

# Most tests of compiled C ask what it computes, not how fast; none of it may have warnings.
c_target.FLAGS = ("-O1", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

# Compilation makes single examples slow, on busy machines very slow: no deadlines. Where CI is set, Hypothesis would
# derandomize, which overrules the seed, and elsewhere begin with failures from a database: neither here.
settings.register_profile(
    "default",
    settings.get_profile("default"),
    max_examples=12,
    deadline=None,
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")

#: A program of its own, which `make wheel` runs.
collect_ignore = ["smoke.py"]


def import_everything():
    """Import all of accumulus, and let Hypothesis look at nothing else.

    Some of what is drawn are constants from the sources of all modules that are imported by then. So a test draws the
    same alone, after any other test and in any worker process.
    """
    for module in walk_packages(accumulus.__path__, "accumulus."):
        with suppress(ImportError):  # of what is not installed
            import_module(module.name)
    with suppress(ImportError):  # not public; Hypotheses that do not have it draw no such constants
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: Path(path).is_relative_to(Path(accumulus.__file__).parent)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if not getattr(config.option, "numprocesses", None):  # else workers run the tests, this process none
        gc.disable()  # until everything is imported and collected, of which nothing is garbage
        import_everything()
    # a shell lets what it starts in the background ignore Ctrl-C, which some tests wait for
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # before Hypothesis reads the option, and before worker processes are given a copy of all options
    if config.getoption("hypothesis_seed", None) is None:
        fuzzing = config.getoption("hypothesis_profile", None) == "fuzz"
        config.option.hypothesis_seed = str(random.randrange(10**9)) if fuzzing else "0"


def pytest_collection_modifyitems(config, items):
    """Leave out cases of tests that are marked ``sampled(n)``; not where a case is named, nor where all run."""
    if config.getoption("hypothesis_profile", None) == "fuzz" or any("[" in name for name in config.args):
        return
    cases = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0], mark.args[0], mark.kwargs.get("each", "")].append(item)
    left_out = set()
    for (_, n, each), several in cases.items():
        left_out.update(set(several) - sample(several, -(-len(several) // n), each.split()))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def pytest_collection_finish(session):
    gc.freeze()  # else half a million objects would be walked through again and again
    gc.set_threshold(7_000, 10, 10)  # ten times the default: collections took 2 % of the time
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Let recordings replace NumPy in the modules of this test, of hundreds that are loaded.

    Those are looked at by each recording: for a small function this takes a third of the time.
    """
    if (module := getattr(item, "module", None)) is not None and module not in OWN:
        OWN[:] = [module, *(value for value in vars(module).values() if isinstance(value, ModuleType))]
        patching._listed._count = 0


def is_users(name, module):
    """Return True for a module that may be a user's, but for tests other than the one that runs."""
    return IS_USERS(name, module) and (not name.startswith("test_") or module in OWN)


OWN, IS_USERS = [], patching._is_users
patching._is_users = is_users


def told_apart(value):
    """Return what two values of a parameter differ in: themselves if they are text or numbers, else which object."""
    return value if isinstance(value, str | int | float) else id(value)


def sample(cases, count, parameters):
    """Return so many of the cases, and as many more as it takes to have each value of the parameters at least once."""
    by_chance = sorted(cases, key=lambda item: crc32(item.nodeid.encode()))
    values = {item: {(name, told_apart(item.callspec.params[name])) for name in parameters} for item in by_chance}
    missing, sampled = set().union(*values.values()), set()
    # first cases with values that are missing yet, those with most of them before others
    for expected in range(len(parameters), 0, -1):
        for item in by_chance:
            if len(values[item] & missing) >= expected:
                sampled.add(item)
                missing -= values[item]
    return sampled | set([item for item in by_chance if item not in sampled][: max(0, count - len(sampled))])


@pytest.fixture
def graph_folder():
    """Return the folder of the public test graphs."""
    return Path(__file__).parent / "data" / "graphs"


def pytest_terminal_summary(terminalreporter, config):
    seed = config.option.hypothesis_seed
    terminalreporter.write_line(f"Hypothesis seed {seed}: repeat with pytest --hypothesis-seed={seed}")
