"""The frontends room: a function written for NumPy, run once on traced values, becomes a tape.

`record` runs it. The values are in `traced`, what NumPy's functions do with them in tables (`elementwise`, `ufuncs`,
`structure`, `reductions`, `products`, `linalg`, `functions`), what ``np.zeros`` and the like make in `creation`, and
where the user's code is named in an error in `location` and `refusals`.
"""

from accumulus.frontends.record import Recording, record
from accumulus.frontends.registry import supported

__all__ = ["Recording", "record", "supported"]
