"""Small tapes as LaTeX, for notebooks: an equation for each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accumulus.tape.tape import Tape

__all__ = ["LONGEST", "to_latex"]

#: Operations of the longest tape that is written.
LONGEST: Final = 60


def to_latex(tape: Tape) -> str | None:
    r"""The tape's operations and outputs as aligned equations; None for a tape longer than `LONGEST`.

    >>> from accumulus.tape.tape import Tape
    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("sin", tape.divide(0, 1))]
    >>> print(to_latex(tape))
    $$\begin{aligned}
    t_{2} &= \frac{x_{0}}{x_{1}} \\
    t_{3} &= \sin\left(t_{2}\right) \\
    y_{0} &= t_{3}
    \end{aligned}$$
    """
    if not 0 < tape.operations + len(tape.outputs) <= LONGEST:
        return None
    lines = [
        f"t_{{{k}}} &= {_operation(tape.operation(k).latex, [_name(tape, a) for a in tape.arguments(k)])}"
        for k in range(tape.inputs, len(tape))
    ]
    lines += [f"y_{{{k}}} &= {_name(tape, reference)}" for k, reference in enumerate(tape.outputs)]
    return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$"


def _operation(latex: str, arguments: list[str]) -> str:
    return latex.format(*arguments) if "{0}" in latex else f"{latex}\\left({', '.join(arguments)}\\right)"


def _name(tape: Tape, reference: int) -> str:
    """An input, an operation, or a constant, which is bracketed where a sign or a power of ten would mislead."""
    if reference >= 0:
        return f"{'x' if reference < tape.inputs else 't'}_{{{reference}}}"
    text = f"{tape.value_of(reference):.15g}"
    if "e" in text:
        digits, power = text.split("e")
        text = rf"{digits} \cdot 10^{{{int(power)}}}"
    return rf"\left({text}\right)" if text.startswith("-") or "cdot" in text else text.replace("inf", r"\infty")
