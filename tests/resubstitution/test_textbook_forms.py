"""Derivatives with short forms in textbooks: the default effort needs hardly more operations, without a theorem."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc


def softmax(x):
    powers = np.exp(x)
    return powers / np.sum(powers)


def softmax_by_textbook(x):
    """∂p_i/∂x_j = p_i (δ_ij - p_j)."""
    p = softmax(x)
    return p, np.diag(p) - np.outer(p, p)


def logsumexp(x):
    return np.log(np.sum(np.exp(x)))


def logsumexp_by_textbook(x):
    powers = np.exp(x)
    total = np.sum(powers)
    return np.log(total), powers / total


def length(x):
    return np.sqrt(x @ x)


def length_by_textbook(x):
    size = np.sqrt(x @ x)
    return size, x / size


def direction(x):
    return x / np.sqrt(x @ x)


def direction_by_textbook(x):
    """∂u/∂x = (I - u uᵀ) / |x|."""
    inverse = 1.0 / np.sqrt(x @ x)
    u = x * inverse
    return u, np.eye(len(x)) * inverse - np.outer(u * inverse, u)


def weighted_mean(x):
    weights, values = x[:5], x[5:]
    return np.sum(weights * values) / np.sum(weights)


def weighted_mean_by_textbook(x):
    """Of a quotient of sums: ∂m/∂w = (v - m) / W and ∂m/∂v = w / W."""
    weights, values = x[:5], x[5:]
    inverse = 1.0 / np.sum(weights)
    mean = np.sum(weights * values) * inverse
    return mean, np.concatenate([(values - mean) * inverse, weights * inverse])


def determinant(x):
    return np.linalg.det(x.reshape(3, 3))


def determinant_by_textbook(x):
    """By the adjugate."""
    rows = x.reshape(3, 3)
    cofactors = np.array([np.cross(rows[(i + 1) % 3], rows[(i + 2) % 3]) for i in range(3)])
    return rows[0] @ cofactors[0], cofactors.ravel()


def inverse(x):
    return np.linalg.inv(x.reshape(3, 3)).ravel()


def inverse_by_textbook(x):
    """∂B/∂A_kl = - B_ik B_lj."""
    b = np.linalg.inv(x.reshape(3, 3))
    return b.ravel(), -np.einsum("ik,lj->ijkl", b, b).reshape(9, 9)


def solution(x):
    return np.linalg.solve(x[:9].reshape(3, 3), x[9:])


def solution_by_textbook(x):
    """dy = B (db - dA y)."""
    b = np.linalg.inv(x[:9].reshape(3, 3))
    y = b @ x[9:]
    return y, np.concatenate([-np.multiply.outer(b, y).reshape(3, 9), b], axis=1)


#: Functions, their textbook forms, and numbers of variables.
FORMS = {
    softmax: (softmax_by_textbook, 5),
    logsumexp: (logsumexp_by_textbook, 5),
    length: (length_by_textbook, 4),
    direction: (direction_by_textbook, 4),
    weighted_mean: (weighted_mean_by_textbook, 10),
    determinant: (determinant_by_textbook, 9),
    inverse: (inverse_by_textbook, 9),
    solution: (solution_by_textbook, 12),
}


@pytest.mark.parametrize("function", FORMS)
def test_derivatives_take_hardly_more_operations_than_textbook_forms(function):
    textbook, size = FORMS[function]
    x = np.random.default_rng(0).uniform(0.5, 1.5, size)
    x[: 9 * (size >= 9) : 4] += 2.0  # matrices of a good condition
    made = acc.value_and_jacobian(function, cache=False).compile(x)
    value, slopes = made(x)
    expected, by_x = textbook(x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slopes, by_x, rtol=1e-11, atol=1e-12)
    assert made.operations <= 1.11 * acc.compile(textbook, cache=False).compile(x).operations
