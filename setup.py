"""Builds the package with the code of its kernels; everything else is said in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithKernels(build_py):
    """Compiles the kernels into the source tree, from where they are packed, or used by an editable installation."""

    def run(self) -> None:
        """Compile what is not there yet, then do what is usual."""
        sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
        from accumulus.native.sources import build

        build()
        super().run()


setup(cmdclass={"build_py": BuildWithKernels})
