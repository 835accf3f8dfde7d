"""Makes the code of all kernels that the package ships; what building it runs."""

from accumulus.native.sources import build

build()
