"""Progress of a long preparation: records for a user's function, else a line on a terminal or a bar in a notebook."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console


#: Seconds of a preparation after which progress is shown; earlier if it is expected to take longer. With more, the user
#: waits without a sign; with fewer, bars flash.
PATIENCE: Final = 2.0
#: Seconds between two updates of a bar: more let it lag, fewer wake a thread more often.
_TICK: Final = 0.5
#: Maximum filled fraction of a bar, since the seconds are an estimate.
_ALMOST: Final = 0.95


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a preparation.

    Attributes:
        stage: "trace", "linearize", "plan", "emit", "optimise" or "compile"; "batch" for a batch in parts.
        seconds: seconds since the call began.
        cost: cost of the best plan so far, under the objective; None if unknown.
        points: points of a batch that are done; None in a preparation.
        expected: estimate of the remaining seconds; None if there is none, or it is short.

    >>> import accumulus as acc
    >>> stages = []
    >>> slope = acc.jacobian(lambda x: x**2, progress=lambda progress: stages.append(progress.stage))(3.0)
    >>> stages[0]
    'trace'
    """

    stage: str
    seconds: float
    cost: int | None = None
    points: int | None = None
    expected: float | None = None


class ProgressLine:
    """A line on a terminal, or a bar in a notebook, that names the current stage and disappears at the end.

    Args:
        subject: name of the function or batch that is prepared.
        console: console of the line; by default the error stream, if it is a terminal.
        shown: True shows it at once, as separate lines if there is neither terminal nor notebook. False never shows it.
            None shows it after `PATIENCE` seconds, or as soon as more than that is expected.
    """

    def __init__(self, subject: str, console: Console | None = None, shown: bool | None = None) -> None:
        self._subject, self._console, self._shown = subject, console, shown
        self._stage = self._note = ""
        self._began, self._expected = 0.0, 0.0
        self._display: _Terminal | _Notebook | _Lines | None = None
        self._timer: threading.Timer | None = None
        self._is_open = False
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressLine:
        # without a terminal, neither a thread nor Rich is needed
        self._is_open = self._shown is not False and (
            self._shown or self._console is not None or _is_terminal() or _is_notebook()
        )
        if self._shown:
            self.show()
        elif self._is_open:
            self._wait(PATIENCE)
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._is_open = False
            if self._timer is not None:
                self._timer.cancel()
            if self._display is not None:
                self._display.stop()
            self._timer = self._display = None

    def update(self, stage: str) -> None:
        """Show the current stage."""
        with self._lock:
            self._stage = stage
            if self._display is not None:
                self._display.update(self._text(), self._done())

    def expect(self, seconds: float, note: str) -> None:
        """Show an estimate of the remaining seconds, and advice on how to make the preparation faster."""
        with self._lock:
            self._began, self._expected, self._note = time.monotonic(), seconds, note
            if self._display is not None:
                self._display.update(self._text(), self._done())
        if seconds > PATIENCE:
            self.show()

    def show(self) -> None:
        """Begin to display, unless the preparation has already ended."""
        with self._lock:
            if self._is_open and self._display is None:
                if self._console is None and _is_notebook():
                    self._display = _Notebook()
                    self._wait(_TICK)
                else:
                    self._display = _Terminal.on(self._console, self._text()) or (_Lines() if self._shown else None)
                if self._display is not None:
                    self._display.update(self._text(), self._done())

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._tick)
        self._timer.daemon = True
        self._timer.start()

    def _tick(self) -> None:
        self.show()
        with self._lock:
            if isinstance(self._display, _Notebook):
                self._display.update(self._text(), self._done())
                self._wait(_TICK)

    def _done(self) -> float | None:
        """Return the fraction of the expected seconds that has passed; None without an estimate."""
        return min(_ALMOST, (time.monotonic() - self._began) / self._expected) if self._expected else None

    def _text(self) -> str:
        return f"accumulus: {self._subject}: {self._stage}" + (f"; {self._note}" if self._note else "")


class _Terminal:
    """Rich's status line on a terminal."""

    def __init__(self, console: Console, text: str) -> None:
        from rich.markup import escape

        self._escape = escape
        self._status = console.status(escape(text))
        self._status.start()

    @classmethod
    def on(cls, console: Console | None, text: str) -> _Terminal | None:
        """Return the line on a console; None if the console is not a terminal."""
        from rich.console import Console

        console = Console(stderr=True) if console is None else console
        return cls(console, text) if console.is_terminal else None

    def update(self, text: str, done: float | None) -> None:
        del done
        self._status.update(self._escape(text))

    def stop(self) -> None:
        self._status.stop()


class _Notebook:
    """A progress bar in a notebook, updated in place."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle: Any = display(HTML(""), display_id=True)

    def update(self, text: str, done: float | None) -> None:
        from html import escape

        value = "" if done is None else f' value="{done:.2f}"'
        self._handle.update(self._html(f'<progress max="1"{value}></progress> {escape(text)}'))

    def stop(self) -> None:
        self._handle.update(self._html(""))


class _Lines:
    """Separate lines on the error stream, for requested progress without a terminal or notebook."""

    def update(self, text: str, done: float | None) -> None:
        del done
        print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        pass


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _is_notebook() -> bool:
    """Return True if this process is the kernel of a notebook, without importing anything."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
