"""Small products of matrices kept as large ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from accumulus.frontends.numpy import products


@contextmanager
def small_matrices(smallest: int = 1) -> Iterator[None]:
    """Let products of matrices of so many products of entries be kept, however short their sums are."""
    with (
        mock.patch.object(products, "SMALLEST_MATRICES", smallest),
        mock.patch.object(products, "SHORTEST_TERMS", 1),
    ):
        yield
