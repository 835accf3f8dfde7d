"""The functions that operations are counted on: that they are what their sources say, and have the right Jacobians."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import accumulus as acc

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import all_examples, held_out, suite
from peers import complex_step, high_precision

HELD_OUT = {example.name: example for example in held_out()}
SUITE = {example.name: example for example in suite()} | HELD_OUT
POINTS = 8


def at_sample(name, points=POINTS):
    """The function, sample points, and the Jacobians there by complex steps."""
    example = SUITE[name]
    X = example.sample(points, seed=5)
    jacobian = complex_step.jacobian(example)
    return example.function, X, np.array([jacobian(x) for x in X])


def test_the_suite_is_large_and_its_names_are_unique():
    assert len(HELD_OUT) == 10
    assert len(SUITE) == len(suite()) + len(HELD_OUT) >= 24
    assert not SUITE.keys() & {example.name for example in all_examples()}


@pytest.mark.parametrize("name", SUITE)
def test_points_are_sensible(name):
    example = SUITE[name]
    X = example.sample(200, seed=1)
    assert X.shape == (200, example.inputs)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert len(np.unique(X, axis=0)) == 200
    np.testing.assert_array_equal(X, example.sample(200, seed=1))
    assert not np.array_equal(X, example.sample(200, seed=2))
    with np.errstate(all="raise"):
        for x in (*X, example.point):
            value = example.function(x)
            assert value.shape == (example.outputs,)
            assert np.isfinite(value).all()


@pytest.mark.parametrize("name", SUITE)
def test_functions_are_neither_trivial_nor_huge(name):
    assert 25 <= acc.trace(SUITE[name].function, SUITE[name].point).tape.operations <= 400


@pytest.mark.parametrize("name", SUITE)
def test_jacobians_agree_with_complex_steps(name):
    f, X, expected = at_sample(name)
    values, jacobians = acc.value_and_jacobian(f, effort="fast", target="numpy").batch(X)
    np.testing.assert_allclose(values, [f(x) for x in X], rtol=1e-11, atol=1e-300)
    assert np.isfinite(expected).all()
    scale = np.abs(expected).max(axis=2, keepdims=True)
    assert (np.abs(jacobians - expected) <= 1e-11 * scale).all()


@pytest.mark.parametrize("name", SUITE)
def test_complex_steps_agree_with_many_digits(name):
    _, X, actual = at_sample(name, 1)
    true = high_precision.jacobian(SUITE[name])(X[0]).astype(float)
    scale = np.abs(true).max(axis=1, keepdims=True)
    assert (np.abs(actual[0] - true) <= 1e-11 * scale).all()


# What each must obey, whatever its formulas look like -------------------------------------------------------------


def test_burning_keeps_the_atoms():
    f, X, J = at_sample("hydrogen_combustion")
    hydrogen = np.array([2.0, 0.0, 2.0, 1.0, 0.0, 1.0, 1.0, 2.0])
    oxygen = np.array([0.0, 2.0, 1.0, 0.0, 1.0, 1.0, 2.0, 2.0])
    for x, jacobian in zip(X, J, strict=True):
        for atoms in (hydrogen, oxygen):
            assert abs(atoms @ f(x)) <= 1e-13 * np.abs(f(x)).max()
            assert (np.abs(atoms @ jacobian) <= 1e-12 * np.abs(jacobian).max(axis=0)).all()


def test_the_amplifier_starts_as_the_test_set_says():
    # at the initial voltages all but the currents of the two resistors at the signal balance
    f = SUITE["transistor_amplifier"].function
    balanced = np.array([0.0, 3.0, 3.0, 6.0, 3.0, 3.0, 6.0, 0.0])
    currents = f(balanced, time=0.0)
    np.testing.assert_allclose(currents[[0, 1, 3, 4, 6, 7]], 0.0, atol=1e-18)
    np.testing.assert_allclose(currents[[2, 5]], 3.0 / 9000.0)


def test_a_camera_without_distortion_is_a_pinhole():
    f, X, _ = at_sample("brown_camera")
    for x in X:
        x[11:16] = 0.0
        seen = Rotation.from_quat(x[:4], scalar_first=True).apply(x[16:19]) + x[4:7]
        np.testing.assert_allclose(f(x), x[7:9] * seen[:2] / seen[2] + x[9:11], rtol=1e-12)


def test_distortion_moves_points_as_brown_says():
    f, X, _ = at_sample("brown_camera")
    for x in X:
        plain = x.copy()
        plain[11:16] = 0.0
        a, b = (f(plain) - x[9:11]) / x[7:9]
        k1, k2, k3, p1, p2 = x[11:16]
        r2 = a**2 + b**2
        shift = np.array([a, b]) * (k1 * r2 + k2 * r2**2 + k3 * r2**3)
        shift += [2 * p1 * a * b + p2 * (r2 + 2 * a**2), p1 * (r2 + 2 * b**2) + 2 * p2 * a * b]
        np.testing.assert_allclose((f(x) - f(plain)) / x[7:9], shift, rtol=1e-9, atol=1e-12)


def test_a_pose_that_was_measured_has_no_error():
    f, X, _ = at_sample("relative_pose")
    measured = np.array([0.98, 0.02, -0.06, 0.188])
    for x in X:
        first = Rotation.from_quat(x[3:7], scalar_first=True)
        second = first * Rotation.from_quat(measured, scalar_first=True)
        x[7:10] = x[:3] + first.apply([0.9, 0.2, -0.1])
        x[10:14] = second.as_quat(scalar_first=True)
        np.testing.assert_allclose(f(x), 0.0, atol=1e-12)
        # a small further turn shows as itself, in the second pose's frame
        turned = second * Rotation.from_rotvec([1e-6, -2e-6, 3e-6])
        x[10:14] = turned.as_quat(scalar_first=True) * np.linalg.norm(measured)
        error = f(x)[3:] * np.sign(x[10:14] @ second.as_quat(scalar_first=True))
        np.testing.assert_allclose(error, [1e-6, -2e-6, 3e-6], rtol=1e-2)


@pytest.mark.parametrize("name", ["rusanov_flux", "van_leer_flux"])
def test_fluxes_of_equal_states_are_the_exact_flux(name):
    f, X, _ = at_sample(name)
    for x in X:
        one = x[: x.size // 2]
        if name == "rusanov_flux":
            density, velocity, energy = one[0], one[1:4] / one[0], one[4]
            pressure = 0.4 * (energy - 0.5 * density * velocity @ velocity)
            normal = np.array([0.48, 0.6, 0.64])
            speed = velocity @ normal
            momentum = one[1:4] * speed + pressure * normal
            exact = [density * speed, *momentum, (energy + pressure) * speed]
        else:
            density, u, v, pressure = one
            energy = pressure / 0.4 + 0.5 * density * (u**2 + v**2)
            exact = [density * u, density * u**2 + pressure, density * u * v, u * (energy + pressure)]
        np.testing.assert_allclose(f(np.concatenate([one, one])), exact, rtol=1e-12, atol=1e-13)


def test_a_free_satellite_keeps_its_angular_momentum_but_for_gravity():
    example = SUITE["satellite_attitude"]
    inertia = example.function.__globals__["INERTIA"]
    wheel = example.function.__globals__["WHEEL_INERTIA"]
    for x in example.sample(POINTS, seed=5):
        rates = example.function(x)
        attitude, spin, wheels = x[:3], x[3:6], x[6:9]
        # down and the gravity's torque, through another representation of the attitude
        turn = Rotation.from_mrp(attitude).as_matrix().T
        down = turn[:, 2]
        torque = 3.0 * 1.1e-3**2 * np.cross(down, inertia @ down)
        momentum = inertia @ spin + wheel * (spin + wheels)
        change = inertia @ rates[3:6] + wheel * (rates[3:6] + rates[6:9])
        np.testing.assert_allclose(change, torque - np.cross(spin, momentum), rtol=1e-9, atol=1e-12)
        # the attitude turns with the spin
        step = Rotation.from_mrp(attitude) * Rotation.from_rotvec(1e-7 * spin)
        np.testing.assert_allclose((step.as_mrp() - attitude) / 1e-7, rates[:3], rtol=1e-4, atol=1e-8)


def test_a_car_that_goes_straight_goes_straight():
    f = SUITE["vehicle"].function
    rates = f(np.array([1.0, 2.0, 0.5, 20.0, 0.0, 0.0, 0.0, 180.0 + 0.42 * 400.0]))
    np.testing.assert_allclose(rates, [20.0 * np.cos(0.5), 20.0 * np.sin(0.5), 0.0, 0.0, 0.0, 0.0], atol=1e-13)
    # and turns to the side to which it steers, pushed by no more than friction gives
    turning = f(np.array([0.0, 0.0, 0.0, 20.0, 0.0, 0.0, 0.05, 0.0]))
    assert turning[5] > 0.0
    assert 0.0 < turning[4] < 0.95 * 9.81


def test_gravity_is_the_gradient_of_a_harmonic_potential():
    f, X, J = at_sample("gravity_field")
    for x, jacobian in zip(X, J, strict=True):
        np.testing.assert_allclose(jacobian, jacobian.T, rtol=1e-9, atol=1e-18)
        assert abs(np.trace(jacobian)) <= 1e-13 * np.abs(jacobian).max()
        # without harmonics it would be Newton's; with them it differs by what J2 allows
        newton = -398600.4415 * x / np.linalg.norm(x) ** 3
        assert 1e-5 < np.linalg.norm(f(x) - newton) / np.linalg.norm(newton) < 5e-3


def test_gravity_has_the_known_effect_of_the_flattening():
    # zonal term of degree 2 on the equator and over the pole; all others together are a hundredth of it
    f = SUITE["gravity_field"].function
    j2, radius, gm, r = 1.0826360e-3, 6378.1363, 398600.4415, 7000.0
    extra = 1.5 * j2 * (radius / r) ** 2
    equator = np.mean([-f(np.array([r * np.cos(a), r * np.sin(a), 0.0])) @ [np.cos(a), np.sin(a), 0.0]
                       for a in np.arange(8) * np.pi / 4])  # fmt: skip
    pole = np.mean([-f(np.array([0.0, 0.0, s * r])) @ [0.0, 0.0, s] for s in (1.0, -1.0)])
    assert equator * r**2 / gm - 1.0 == pytest.approx(extra, rel=0.01)
    assert pole * r**2 / gm - 1.0 == pytest.approx(-2.0 * extra, rel=0.01)


def test_greeks_are_the_derivatives_of_the_price():
    f, X, J = at_sample("black_scholes")
    for x, jacobian in zip(X, J, strict=True):
        price, strike, years, rate, dividend, _ = x
        call, put, delta, gamma, vega, theta, rho = f(x)
        parity = price * np.exp(-dividend * years) - strike * np.exp(-rate * years)
        assert call - put == pytest.approx(parity, abs=1e-11)
        np.testing.assert_allclose(jacobian[0, [0, 5, 2, 3]], [delta, vega, -theta, rho], rtol=1e-9)
        assert jacobian[2, 0] == pytest.approx(gamma, rel=1e-9)


def test_sabr_at_the_money_and_without_skew():
    f, X, _ = at_sample("sabr")
    strikes = SUITE["sabr"].function.__globals__["STRIKES"]
    for x in X:
        # beta = 1 and hardly any volatility of volatility: Black's model with volatility alpha
        volatilities = f(np.array([x[0], x[1], x[2], 1.0, 0.0, 1e-6]))
        np.testing.assert_allclose(volatilities, x[2], rtol=1e-6)
        forward, years, alpha, beta, rho, nu = x
        forward = strikes[2] * (1.0 + 1e-7)
        level = forward ** (1.0 - beta)
        correction = (1 - beta) ** 2 / 24 * (alpha / level) ** 2 + rho * beta * nu * alpha / level / 4
        correction += (2 - 3 * rho**2) / 24 * nu**2
        expected = alpha / level * (1.0 + correction * years)
        assert f(np.array([forward, *x[1:]]))[2] == pytest.approx(expected, rel=1e-5)


def test_the_network_is_three_layers():
    f, X, J = at_sample("neural_network")
    W, b = f.__globals__["WEIGHTS"], f.__globals__["BIASES"]
    for x, jacobian in zip(X, J, strict=True):
        first = np.tanh(W[0] @ x + b[0])
        second = np.tanh(W[1] @ first + b[1])
        np.testing.assert_allclose(jacobian, W[2] * (1 - second**2) @ W[1] * (1 - first**2) @ W[0], rtol=1e-9)


def test_cyclic_has_its_known_root_and_symmetry():
    f, X, _ = at_sample("cyclic")
    for x in X:
        np.testing.assert_allclose(f(np.roll(x, 2)), f(x), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(f(x[::-1]), f(x), rtol=1e-10, atol=1e-13)
    # the powers of a root of unity, each the quotient of neighbours: a root of the cyclic equations of even order
    root = np.exp(1j * np.pi / 6.0) * np.exp(1j * np.pi / 3.0) ** np.arange(6)
    np.testing.assert_allclose(f(root), 0.0, atol=1e-12)


def test_a_rational_spline_moves_with_its_points_and_reproduces_splines():
    from scipy.interpolate import BSpline

    f, X, J = at_sample("nurbs_point")
    knots = np.array([-1.0, 0.0, 1.0, 2.0, 3.5, 4.0, 5.5, 6.0])
    for x, jacobian in zip(X, J, strict=True):
        shift = np.tile([1.0, -2.0, 0.5], 4)
        moved = x.copy()
        moved[1:13] += shift
        np.testing.assert_allclose(f(moved), f(x) + shift[:3], rtol=1e-12, atol=1e-12)
        weights, points = x[13:], x[1:13].reshape(4, 3)
        above = BSpline(knots, weights[:, None] * points, 3)(x[0])
        np.testing.assert_allclose(f(x), above / BSpline(knots, weights, 3)(x[0]), rtol=1e-11)
        # a common factor of the weights does nothing
        np.testing.assert_allclose(jacobian[:, 13:] @ weights, 0.0, atol=1e-12)


def test_orbits_have_the_energy_and_momentum_of_their_elements():
    f, X, _ = at_sample("orbital_elements")
    for x in X:
        axis, eccentricity, inclination = x[:3]
        position, velocity = f(x)[:3], f(x)[3:]
        gm, r = 398600.4418, np.linalg.norm(position)
        assert velocity @ velocity / 2 - gm / r == pytest.approx(-gm / (2 * axis), rel=1e-10)
        momentum = np.cross(position, velocity)
        assert momentum @ momentum == pytest.approx(gm * axis * (1 - eccentricity**2), rel=1e-10)
        assert momentum[2] / np.linalg.norm(momentum) == pytest.approx(np.cos(inclination), abs=1e-12)
        to_perigee = np.cross(velocity, momentum) / gm - position / r
        assert np.linalg.norm(to_perigee) == pytest.approx(eccentricity, rel=1e-9)
        node = np.array([np.cos(x[3]), np.sin(x[3]), 0.0])
        assert to_perigee @ node / eccentricity == pytest.approx(np.cos(x[4]), abs=1e-9)
        assert position @ to_perigee / (r * eccentricity) == pytest.approx(np.cos(x[5]), abs=1e-9)


def test_geodetic_coordinates_lead_back_to_the_point():
    f, X, _ = at_sample("geodetic")
    flattening = 1 / 298.257223563
    e2 = flattening * (2 - flattening)
    for x in X:
        latitude, longitude, height = f(x)
        normal = 6378137.0 / np.sqrt(1 - e2 * np.sin(latitude) ** 2)
        across = (normal + height) * np.cos(latitude)
        back = [across * np.cos(longitude), across * np.sin(longitude), (normal * (1 - e2) + height) * np.sin(latitude)]
        np.testing.assert_allclose(back, x, rtol=0, atol=1e-5)


def test_the_arm_turns_its_tool_about_its_joints():
    f, X, J = at_sample("dh_arm")
    for x, jacobian in zip(X, J, strict=True):
        rotation = f(x)[3:].reshape(3, 3)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-13)
        assert np.linalg.det(rotation) == pytest.approx(1.0)
        # each column of the Jacobian is a rotation about an axis of unit length that moves the position alike
        for column in jacobian.T:
            spin = column[3:].reshape(3, 3) @ rotation.T
            np.testing.assert_allclose(spin, -spin.T, atol=1e-12)
            axis = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
            assert np.linalg.norm(axis) == pytest.approx(1.0)
            assert abs(axis @ column[:3]) <= 1e-12
    # the published table, stretched out: all angles zero
    np.testing.assert_allclose(f(np.zeros(6))[:3], [-0.81725, -0.10915 - 0.0823, 0.089159 - 0.09465], atol=1e-12)


def test_stars_keep_momentum_and_attract_as_newton_says():
    f, X, J = at_sample("four_body")
    masses = np.array([1.0, 0.7, 1.3, 0.4])
    for x, jacobian in zip(X, J, strict=True):
        accelerations, positions = f(x).reshape(4, 3), x.reshape(4, 3)
        np.testing.assert_allclose(masses @ accelerations, 0.0, atol=1e-13)
        np.testing.assert_allclose(np.cross(positions, masses[:, None] * accelerations).sum(axis=0), 0.0, atol=1e-13)
        # forces are minus the gradient of an energy, so their Jacobian is symmetric
        stiffness = np.repeat(masses, 3)[:, None] * jacobian
        np.testing.assert_allclose(stiffness, stiffness.T, atol=1e-12)
        towards = positions - positions[0]
        distance = np.linalg.norm(towards[1:], axis=1)
        expected = (masses[1:] / distance**3) @ towards[1:]
        np.testing.assert_allclose(accelerations[0], expected, rtol=1e-11)


def test_rubber_has_an_energy_and_no_stress_at_rest():
    f, X, J = at_sample("neo_hookean")
    np.testing.assert_allclose(f(np.eye(3).ravel()), 0.0, atol=1e-15)
    for x, tangent in zip(X, J, strict=True):
        F, P = x.reshape(3, 3), f(x).reshape(3, 3)
        inverse = np.linalg.inv(F).T
        expected = 0.4 * (F - inverse) + 1.1 * np.log(np.linalg.det(F)) * inverse
        np.testing.assert_allclose(P, expected, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(P @ F.T, F @ P.T, atol=1e-13)
        np.testing.assert_allclose(tangent, tangent.T, atol=1e-12)


def test_fugacities_are_the_derivatives_of_one_energy():
    f, X, J = at_sample("peng_robinson")
    for x, jacobian in zip(X, J, strict=True):
        # ∂ ln f_i/∂n_j is symmetric at fixed temperature and volume, and R T Σ n_i ∂ ln f_i/∂V = V ∂p/∂V
        np.testing.assert_allclose(jacobian[1:, 2:], jacobian[1:, 2:].T, rtol=1e-8, atol=1e-10)
        left = 8.314462618 * x[0] * x[2:] @ jacobian[1:, 1]
        assert left == pytest.approx(x[1] * jacobian[0, 1], rel=1e-8)
    # a thin gas is ideal: fugacities are partial pressures
    thin = np.array([300.0, 1e3, 0.6, 0.3, 0.1])
    pressure = f(thin)[0]
    assert pressure == pytest.approx(8.314462618 * 300.0 / 1e3, rel=1e-5)
    np.testing.assert_allclose(np.exp(f(thin)[1:]), thin[2:] * pressure, rtol=1e-5)


def test_nobody_is_lost_in_an_epidemic():
    f, X, J = at_sample("epidemic")
    for x, jacobian in zip(X, J, strict=True):
        rates = f(x).reshape(5, 2)
        np.testing.assert_allclose(rates.sum(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(jacobian.reshape(5, 2, 14).sum(axis=0), 0.0, atol=1e-11)
        assert (rates[0] < 0.003 * x[8:10]).all()  # infections take away from the susceptible


def test_the_axon_rests():
    f = SUITE["hodgkin_huxley"].function
    # the known resting gates at -65 mV, without the current that is sent in
    rates = f(np.array([-65.0, 0.0529325, 0.5961208, 0.3176769]))
    np.testing.assert_allclose(rates[1:], 0.0, atol=1e-6)
    assert rates[0] == pytest.approx(10.0, abs=2e-2)


# Functions that were held out --------------------------------------------------------------------------------------


def test_activities_obey_gibbs_and_duhem():
    f, X, J = at_sample("activity_coefficients")
    for x, jacobian in zip(X, J, strict=True):
        np.testing.assert_allclose(x[:3] @ jacobian[:, :3], 0.0, atol=1e-12)
        # of the mixture's size nothing depends
        np.testing.assert_allclose(f(np.array([*(2.0 * x[:3]), x[3]])), f(x), rtol=1e-12)
        # the pure substance is ideal
        np.testing.assert_allclose(f(np.array([1.0, 0.0, 0.0, x[3]]))[0], 0.0, atol=1e-14)


def test_a_solar_cell_without_losses_gives_its_light_current():
    f = SUITE["solar_cell"].function
    measured = f.__globals__["CURRENTS"]
    np.testing.assert_allclose(f(np.array([9.0, -200.0, 0.0, 1e300, 1.0])), 9.0 - measured, rtol=1e-12)
    # the diode takes as much again for each factor e of its voltage
    one, two = (f(np.array([9.0, -21.0 + k, 0.0, 1e300, 1.0])) for k in (0.0, 1.0))
    np.testing.assert_allclose((9.0 - measured - two)[1:], np.e * (9.0 - measured - one)[1:], rtol=1e-9)


def test_a_transistor_is_the_same_from_both_sides():
    f, X, _ = at_sample("transistor_model")
    for x in X:
        gate, drain, source, specific = x
        turned = f(np.array([gate, source, drain, specific]))
        current, forward, reverse = f(x)
        np.testing.assert_allclose(turned[1:], [reverse, forward], rtol=1e-12)
        modulation = 0.06 * (drain - source)
        np.testing.assert_allclose(turned[0] / (1.0 - modulation), -current / (1.0 + modulation), rtol=1e-12)
    # in weak inversion the current grows tenfold with some 60 mV and more of the gate
    low, high = (f(np.array([gate, 0.8, 0.0, -13.0]))[0] for gate in (0.30, 0.31))
    assert 60.0 < 10.0 / np.log10(high / low) < 100.0


def test_thin_films_of_no_thickness_are_not_there():
    f, X, _ = at_sample("thin_films")
    for x in X:
        bare = f(np.array([0.0, 0.0, 0.0, *x[3:]]))
        assert bare[0] == pytest.approx((0.52 / 2.52) ** 2, rel=1e-12)
        # half a wave is as good as nothing, a quarter of it squares the index
        wavelength, index = x[6], x[3]
        half = f(np.array([wavelength / (2.0 * index), 0.0, 0.0, *x[3:]]))
        assert half[0] == pytest.approx(bare[0], rel=1e-9)
        quarter = f(np.array([wavelength / (4.0 * index), 0.0, 0.0, *x[3:]]))
        assert quarter[0] == pytest.approx(((1.52 - index**2) / (1.52 + index**2)) ** 2, rel=1e-9)


def test_light_around_a_black_hole_moves_as_hamilton_says():
    f, X, _ = at_sample("kerr_geodesic")

    def hamiltonian(r, theta, p_r, p_theta, energy, momentum, spin):
        sigma, delta = r**2 + spin**2 * np.cos(theta) ** 2, r**2 - 2.0 * r + spin**2
        along, across = (
            (r**2 + spin**2) * energy - spin * momentum,
            momentum / np.sin(theta) - spin * energy * np.sin(theta),
        )
        return (delta * p_r**2 + p_theta**2 + across**2 - along**2 / delta) / (2.0 * sigma)

    for x in X:
        # light: of the size of p_θ that is left
        x[2] *= 0.01
        size = -2.0 * (x[0] ** 2 + x[6] ** 2 * np.cos(x[1]) ** 2) * hamiltonian(*x[:3], 0.0, *x[4:])
        if size <= 0.0:
            continue
        x[3] = np.sqrt(size)
        slopes = [hamiltonian(*(x + 1e-30j * (np.arange(7) == k))).imag / 1e-30 for k in range(6)]
        expected = [-slopes[4], slopes[2], slopes[3], slopes[5], -slopes[0], -slopes[1]]
        np.testing.assert_allclose(f(x), expected, rtol=1e-9, atol=1e-12)


def test_the_map_keeps_angles():
    f, X, J = at_sample("transverse_mercator")
    squared = 1.0 / 298.257223563 * (2.0 - 1.0 / 298.257223563)
    for x, jacobian in zip(X, J, strict=True):
        isometric = (1.0 - squared) / (1.0 - squared * np.sin(x[0]) ** 2) / np.cos(x[0])
        np.testing.assert_allclose(jacobian[0, 1], jacobian[1, 0] / isometric, rtol=1e-9)
        np.testing.assert_allclose(-jacobian[1, 1], jacobian[0, 0] / isometric, rtol=1e-7, atol=1e-3)
    # the quarter of a meridian, as published for this ellipsoid
    assert f(np.array([np.pi / 2 - 1e-9, 0.0]))[1] == pytest.approx(0.9996 * 10001965.729, abs=0.02)


def test_feed_has_the_atoms_that_it_has():
    f, X, _ = at_sample("reforming_equilibrium")
    tiny = -200.0
    np.testing.assert_allclose(f(np.array([0.0, np.log(3.0), tiny, tiny, tiny, 1000.0, 1.0]))[:3], 0.0, atol=1e-14)
    for x in X:  # a higher pressure drives reforming back, and leaves the shift alone
        more = f(x + np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        assert more[3] > f(x)[3]
        assert more[4] == f(x)[4]


def test_turbulence_at_rest_only_decays():
    f, X, _ = at_sample("turbulence_sources")
    for x in X:
        k, omega = x[:2]
        rates = f(np.array([k, omega, *np.zeros(8)]))
        np.testing.assert_allclose(rates[0], -0.09 * 1.2 * k * omega, rtol=1e-12)
        np.testing.assert_allclose(rates[2], 1.2 * k / omega, rtol=1e-12)
        # produced is no more than ten times what is destroyed
        assert f(x)[0] <= 9.0 * 0.09 * 1.2 * k * omega * (1.0 + 1e-12)


def test_white_is_as_light_as_can_be():
    f = SUITE["color_appearance"].function
    white = np.array([95.05, 100.0, 108.88])
    lightness, *opponents = f(white * (1.0 + np.array([1e-9, 0.0, -1e-9])))
    assert lightness == pytest.approx(100.0, abs=1e-6)
    np.testing.assert_allclose(opponents, 0.0, atol=2.0)
    red, green = (f(np.array(color))[1] for color in ([60.0, 40.0, 20.0], [20.0, 40.0, 20.0]))
    assert red > 0.0 > green


def test_kinases_are_neither_made_nor_lost():
    f, X, J = at_sample("signalling_cascade")
    kinds = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1, 1]])
    for x, jacobian in zip(X, J, strict=True):
        np.testing.assert_allclose(kinds @ f(x), 0.0, atol=1e-14)
        np.testing.assert_allclose(kinds @ jacobian, 0.0, atol=1e-15)
