"""Compile all kernels that the package ships; the build of the package runs this."""

from accumulus.native.sources import build

build()
