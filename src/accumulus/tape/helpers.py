"""Functions of the table of operations that neither NumPy nor SciPy has, as source for NumPy.

Programs that are written as NumPy, or as JAX, have the text of those that they call before them.
"""

from __future__ import annotations

from typing import Final

__all__ = ["helpers"]

# exp(x²) iⁿerfc x, by the formulas of `accumulus.targets.llvm.special_functions`, with the same coefficients; numbers
# of single precision stay in their range
_IERFCX: Final = """\
def _ierfcx(n, x):
    \"\"\"exp(x²) times the n-fold integral of erfc from x to infinity, for whole n from 0 to 12.\"\"\"
    a = np.abs(x)
    near = np.minimum(a, 1e15)
    root = np.sqrt(near * near + 27.0)
    step = 1.0 / (near + root)
    argument, after = 2.0 * near / root - 1.0, 0.0
    for coefficient in (
            1.441488977756048e-12, 3.0644818956949956e-12, -1.2940596460685005e-12,
            -1.4663007006854974e-12, 1.8425095996970145e-11, 4.226961320756448e-11,
            7.303055850105455e-11, 1.969025636044891e-10, 5.536707142274961e-10,
            1.4293649759617555e-09, 4.358625918624633e-09, 1.0760557125717529e-08,
            3.6442294992371066e-08, 1.1088018577406288e-07, 2.631225743267316e-07,
            1.5823587376381678e-06, 2.2273919232128857e-06, 1.7811810955058632e-05,
            9.20717193721944e-05, -7.496714342803235e-05, 0.0043861988673423325,
            0.00022630661731264638, 0.9953483404981377,
    ):
        after = after * argument + coefficient
    scale = np.where(1e15 < a, 0.5 / np.maximum(a, 1.0), step)
    now = right = 1.0
    for k in range(13, 0, -1):
        after, now = now, 2.0 * near * step * now + 2.0 * k * step * step * after
        if k > 1:
            right = np.where(n < k - 1, now, right * scale)
    right = right * (1.1283791670955126 * scale / now)
    before, now = 1.1283791670955126, special.erfcx(x)
    left, slope = now, 2.0 * np.maximum(-x, 0.0)
    for k in range(1, 13):
        before, now = now, (before + slope * now) / (2.0 * k)
        left = np.where(n < k, left, now)
    return np.where(x < 0.0, left, right)
"""
_ALL: Final = {"_ierfcx(": _IERFCX}


def helpers(text: str) -> list[str]:
    """Definitions of what a text in Python calls."""
    return [definition for call, definition in _ALL.items() if call in text]
