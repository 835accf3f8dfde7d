"""Recording of functions as tapes: `record`, and the front ends that it dispatches to (`recorder.FRONT_ENDS`)."""

from accumulus.frontends.numpy.tracer import supported  # the front end that is always needed comes with the package
from accumulus.frontends.record import record
from accumulus.frontends.recorder import Recording

__all__ = ["Recording", "record", "supported"]
