"""Functions that are recorded for each shape of their arguments, and the values that they capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from accumulus.errors import MismatchError
from accumulus.frontends.agreement import run_nearby
from accumulus.frontends.captured import Captured, is_changeable
from accumulus.frontends.kinds import Spread
from accumulus.frontends.record import record
from accumulus.frontends.recorder import Recording, holder_of
from accumulus.options import Options
from accumulus.programs.forms import settled_function

#: Maximum number of recordings of a function whose variables other threads change meanwhile. More take longer where
#: threads change them all the time, fewer record again in the next call.
ATTEMPTS: Final = 4


def always() -> bool:
    """Return True: nothing is watched."""
    return True


class Watched:
    """A function whose captured values are watched from its first recording on.

    Args:
        function: user's function of numbers by position.

    Attributes:
        records: True if it can be recorded; a function from a file cannot.
        holder: objects whose attributes are watched for changes.
        captured: values of their variables at the recording; None before it, and if nothing is watched.
    """

    records: bool = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.holder = holder_of(function)
        self._objects: tuple[Any, ...] = ()
        self.captured: Captured | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"captured": None}

    def restructured(self, call: Callable[..., Any]) -> Watched:
        """Return the same for a function of the numbers in containers and keywords."""
        return type(self)(call)

    def record(
        self,
        examples: Sequence[Any],
        static: frozenset[int],
        options: Options,
        *,
        at_once: bool = False,
        opens_indices: bool = False,
    ) -> Recording:
        """Record the function, and watch its captured variables from now on; see `accumulus.frontends.record.record`.

        It is recorded again if other threads have changed variables meanwhile.
        Attributes of objects among the examples are watched, too.
        """
        objects = {id(x): x for x in (*self._objects, *filter(is_changeable, examples))}
        captured = self.captured
        if captured is None or len(objects) > len(self._objects):
            # watched together, since the function's code determines which attributes of the objects matter
            captured = Captured((self.holder, *objects.values()))
        attempts = ATTEMPTS if options.check else 1  # without the check, a call is one recording
        for attempt in range(1, attempts + 1):
            captured.begin()
            function = settled_function(self._function, examples, check=options.check)
            run, ends = partial(run_nearby, function, examples, static, Spread()), attempt == attempts
            try:
                recording = record(
                    function,
                    examples,
                    static,
                    check=options.check,
                    arrays=options.takes_arrays,
                    at_once=at_once,
                    decides=options.guards == "cases",
                    captured=captured,
                    tells=options.progress is not False,
                    opens_indices=opens_indices and options.takes_arrays,
                )
            except MismatchError:
                # code that was found by the run reads other variables, whose changes are not known
                if ends or not (captured.renew() or (captured.is_shared and attempt == 1)):
                    raise
                continue
            if not options.watch or captured.settle(run if options.check else None, ends=ends):
                break
        if options.watch:
            self.captured, self._objects = captured, tuple(objects.values())
        return recording

    @property
    def is_current(self) -> bool:
        """Return True if no watched value has changed since the recording."""
        return self.captured is None or self.captured.is_current()

    @property
    def is_same(self) -> Callable[[], bool]:
        """Return a function that is True if watched values are the very same; see `Captured.is_same`."""
        return always if self.captured is None else self.captured.is_same

    def forget(self) -> None:
        """Forget the watched values; the next recording watches anew."""
        self.captured, self._objects = None, ()

    def summary(self) -> Any:
        """Return the watched values for a comparison in another process; None before the first recording."""
        return None if self.captured is None else self.captured.summary()

    def resumes(self, held: Any) -> bool:
        """Watch again in a copy; return True if the watched values equal those in the summary `held`."""
        self.captured = None if held is None else Captured((self.holder, *self._objects))
        return self.captured is None or self.captured.resumes(held)
