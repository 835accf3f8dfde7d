"""Random contractions against `numpy.einsum`."""

from __future__ import annotations

import string

import numpy as np
from agreement import assert_agrees
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    letters = string.ascii_letters[: draw(st.integers(1, 4))]
    lengths = {letter: draw(st.integers(1, 3)) for letter in letters}
    terms = draw(st.lists(st.text(letters, max_size=3), min_size=1, max_size=3))
    stack = draw(st.sampled_from([(), (2,), (2, 1)]))
    dots = [draw(st.booleans()) for _ in terms]
    shapes = [(stack if dot else ()) + tuple(lengths[i] for i in term) for term, dot in zip(terms, dots, strict=True)]
    used = sorted({letter for term in terms for letter in term})
    result = "".join(draw(st.permutations(used))[: draw(st.integers(0, len(used)))])
    text = ",".join("..." * dot + term for term, dot in zip(terms, dots, strict=True))
    arrow = draw(st.booleans()) or any(term.count(i) > 1 for term in terms for i in term)
    return (f"{text}->{'...' * any(dots)}{result}" if arrow else text), shapes


@given(contraction=contractions(), constant=st.integers(-1, 2), seed=st.integers(0, 99))
def test_einsum(contraction, constant, seed):
    subscripts, shapes = contraction
    generator = np.random.default_rng(seed)
    arrays = [generator.integers(-4, 5, shape) / 2.0 for shape in shapes]

    def f(*traced):
        operands = [arrays[k] if k == constant else operand for k, operand in enumerate(traced)]
        return np.einsum(subscripts, *operands)

    assert_agrees(f, arrays)


@given(
    a=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    b=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    inner=st.integers(1, 3),
)
def test_products_of_any_dimensions(a, b, inner):
    x, y = np.ones((*a[:-1], inner)) * 0.5, np.ones((*b[:-2], inner, *b[-1:]) if len(b) > 1 else (inner,)) * 1.5
    assert_agrees(np.dot, [x, y])
    assert_agrees(lambda x: (np.inner(x, x[..., ::-1]), np.tensordot(x, x, 0), np.outer(x, x)), [x])
