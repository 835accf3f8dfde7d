"""Recording of functions as tapes: `record`, and the front ends behind it, which `recorder` lists."""

from accumulus.frontends.numpy.tracer import supported  # the front end that is always needed comes with the package
from accumulus.frontends.record import record
from accumulus.frontends.recorder import Recording

__all__ = ["Recording", "record", "supported"]
