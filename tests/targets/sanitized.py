"""Generated C, run under the sanitizers of the compiler."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from accumulus.targets.c import c_target

SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def numbers_of(text, folder):
    """Return the output of a program as numbers; skip the test if the compiler has no sanitizers."""
    program, source = folder / "f", folder / "f.c"
    source.write_text(text)
    command = [*c_target.compiler(), *c_target.LANGUAGE, *SANITIZERS, str(source), "-o", str(program), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the compiler has no sanitizers: {built.stderr[:200]}")
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), float)
