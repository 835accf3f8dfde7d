"""Roe's flux by hand, by the chain rule alone: 6 inputs, 3 outputs, a full Jacobian.

The same as `hand.roe_flux`, without Roe's property of his averages. Two of the example's three waves have the speed
|u|; with a² for (h - u²/2) / -2 the dissipation becomes

    |u| (Δρ, u Δρ + η, u²/2 Δρ + u η - 2 Δp) + z (1, u + a, h + u a),    η = ρ Δv.

Source of the flux: see `examples/roe_flux.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def value_and_jacobian(q: Sequence[Any]) -> tuple[Sequence[Any], Mapping[tuple[int, int], Any]]:
    """Flux (3), and the entries of its Jacobian; q as that of the example, which has GAMMA = 0.5."""
    rho_l, m_l, e_l, rho_r, m_r, e_r = q

    v_l, v_r = m_l / rho_l, m_r / rho_r
    mv_l, mv_r = m_l * v_l, m_r * v_r
    p_l, p_r = 0.25 * mv_l - 0.5 * e_l, 0.25 * mv_r - 0.5 * e_r
    h_l, h_r = (e_l + p_l) / rho_l, (e_r + p_r) / rho_r

    root_l, root_r = np.sqrt(rho_l), np.sqrt(rho_r)
    share_l = root_l / (root_l + root_r)
    share_r = 1.0 - share_l
    u = share_l * v_l + share_r * v_r
    h = share_l * h_l + share_r * h_r
    half_u = 0.5 * u
    a = np.sqrt(half_u * half_u - 0.5 * h)
    fast = u + a
    top = h + u * a

    d_rho, d_p = rho_r - rho_l, p_r - p_l
    inverse = 1.0 / a
    up, down = root_r / root_l, root_l / root_r
    eta = root_l * root_r * (v_r - v_l)
    pressure = d_p * inverse
    kappa = (eta + pressure) * inverse
    slow_speed, fast_speed = np.abs(u), np.abs(fast)
    spread = 0.25 * (slow_speed - fast_speed)
    drag = 0.5 * slow_speed
    z = spread * kappa

    jump_m = u * d_rho + eta
    jump_e = half_u * (jump_m + eta) - (d_p + d_p)
    dragged, dragged_m = drag * d_rho, drag * jump_m

    values = [
        0.5 * (m_l + m_r) - dragged + z,
        0.5 * (p_l + mv_l + p_r + mv_r) - dragged_m + z * fast,
        0.5 * (m_l * h_l + m_r * h_r) - drag * jump_e + z * top,
    ]

    # z by u and h, through a, and by ρ Δv and Δp; the first row's part of the |u| Δρ is added to that by u
    minus_half_inverse = -0.5 * inverse
    z_eta = spread * inverse
    push = minus_half_inverse * z_eta
    quarter = -0.25 * kappa
    slow_sign = np.sign(u)
    turned = quarter * np.sign(fast)
    z_a = turned - z_eta * (kappa + pressure * inverse)
    minus_a_u, a_h = half_u * minus_half_inverse, 0.5 * minus_half_inverse
    sign = -0.5 * slow_sign
    z_u = turned - quarter * slow_sign - z_a * minus_a_u + sign * d_rho
    z_h = z_a * a_h

    # what rows two and three have beside fast and top times the first
    minus_z_a_u = z * minus_a_u
    second_u, second_h = sign * (jump_m - fast * d_rho) + z - minus_z_a_u - dragged, z * a_h
    third_u, third_h = sign * (jump_e - top * d_rho) + z * a - u * minus_z_a_u - dragged_m, z + u * second_h

    drag_u = drag * u
    drag_u2 = drag_u * half_u
    half_sum_v = 0.5 * (v_l + v_r)

    c_l = share_l / rho_l
    half_c_l, half_v_l = 0.5 * c_l, 0.5 * v_l
    half_square_l = half_v_l * v_l
    above_l = h_l + half_square_l
    above_h_l = above_l + h
    u_rho_l = half_c_l * (v_l + u)
    slide_l, swept_l = z_eta * up, z_h * half_c_l
    first_e_l = swept_l - push
    first_m_l = z_u * c_l - slide_l + v_l * (swept_l + push)
    first_rho_l = half_sum_v * slide_l - z_u * u_rho_l - swept_l * above_h_l - half_square_l * push
    dragged_l = drag * up
    dragged_u_l = u * dragged_l
    second_l, third_l = second_h * half_c_l, third_h * half_c_l

    c_r = share_r / rho_r
    half_c_r, half_v_r = 0.5 * c_r, 0.5 * v_r
    half_square_r = half_v_r * v_r
    above_r = h_r + half_square_r
    above_h_r = above_r + h
    u_rho_r = half_c_r * (v_r + u)
    slide_r, swept_r = z_eta * down, z_h * half_c_r
    first_e_r = swept_r + push
    first_m_r = z_u * c_r + slide_r + v_r * (swept_r - push)
    first_rho_r = half_square_r * push - half_sum_v * slide_r - z_u * u_rho_r - swept_r * above_h_r
    dragged_r = drag * down
    dragged_u_r = u * dragged_r
    second_r, third_r = second_h * half_c_r, third_h * half_c_r

    jacobian = {
        (0, 0): first_rho_l + drag,
        (0, 1): first_m_l + 0.5,
        (0, 2): first_e_l,
        (0, 3): first_rho_r - drag,
        (0, 4): first_m_r + 0.5,
        (0, 5): first_e_r,
        (1, 0): fast * first_rho_l
        - second_u * u_rho_l
        - second_l * above_h_l
        - 1.25 * half_square_l
        + (drag_u - dragged_l * half_sum_v),
        (1, 1): fast * first_m_l + second_u * c_l + (second_l + 1.25) * v_l + dragged_l,
        (1, 2): fast * first_e_l + second_l - 0.25,
        (1, 3): fast * first_rho_r
        - second_u * u_rho_r
        - second_r * above_h_r
        - 1.25 * half_square_r
        - (drag_u - dragged_r * half_sum_v),
        (1, 4): fast * first_m_r + second_u * c_r + (second_r + 1.25) * v_r - dragged_r,
        (1, 5): fast * first_e_r + second_r - 0.25,
        (2, 0): top * first_rho_l
        - third_u * u_rho_l
        - third_l * above_h_l
        - half_v_l * (above_l - 0.5 * half_square_l)
        + (drag_u2 - dragged_u_l * half_sum_v + drag * half_square_l),
        (2, 1): top * first_m_l + third_u * c_l + third_l * v_l + 0.5 * above_l + (dragged_u_l - drag * v_l),
        (2, 2): top * first_e_l + third_l + 0.5 * half_v_l + drag,
        (2, 3): top * first_rho_r
        - third_u * u_rho_r
        - third_r * above_h_r
        - half_v_r * (above_r - 0.5 * half_square_r)
        - (drag_u2 - dragged_u_r * half_sum_v + drag * half_square_r),
        (2, 4): top * first_m_r + third_u * c_r + third_r * v_r + 0.5 * above_r - (dragged_u_r - drag * v_r),
        (2, 5): top * first_e_r + third_r + 0.5 * half_v_r - drag,
    }
    return values, jacobian
