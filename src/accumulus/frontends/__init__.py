"""A function written for NumPy, run once on traced values, becomes a tape.

`record` runs it. The values are in `scalars` and `arrays`, what NumPy's functions do with them in tables
(`elementwise`, `ufuncs`, `structure`, `reductions`, `products`, `linalg`, `functions`), what ``np.zeros`` and the like
make in `creation`, how the user's code finds that in `patching`, and the errors that name the user's line in `location`
and `refusals`.
"""

from accumulus.frontends.record import Recording, record
from accumulus.frontends.registry import supported

__all__ = ["Recording", "record", "supported"]
