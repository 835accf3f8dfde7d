"""Models that decide on values, each as people write it, and again without a decision, to compare with.

The points of each cross all its cases, or with ``alike=True`` go one way.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

#: Of the circuit: nodes, diodes and transistors, and what each is between.
NODES: Final = 20
_PLACES: Final = np.random.default_rng(0)
DIODES: Final = [tuple(_PLACES.choice(NODES, 2, replace=False).tolist()) for _ in range(30)]
TRANSISTORS: Final = [tuple(_PLACES.choice(NODES, 3, replace=False).tolist()) for _ in range(10)]
THERMAL, LEAKAGE, LIMIT, BREAKDOWN = 0.02585, 1e-12, 0.8, -5.0
THRESHOLD, GAIN, MODULATION = 0.7, 2e-3, 0.02


def diode(v: Any) -> Any:
    """Current through a diode: continued by its tangent where the exponential would overflow, and broken down."""
    if v > LIMIT:
        slope = LEAKAGE / THERMAL * math.exp(LIMIT / THERMAL)
        return LEAKAGE * (math.exp(LIMIT / THERMAL) - 1.0) + slope * (v - LIMIT)
    if v < BREAKDOWN:
        return -LEAKAGE * (1.0 + (BREAKDOWN - v) / THERMAL)
    return LEAKAGE * (math.exp(v / THERMAL) - 1.0)


def transistor(gate: Any, drain: Any, source: Any) -> Any:
    """Drain current of a field-effect transistor: cut off, linear, saturated; drain and source may change places."""
    sign = 1.0
    if drain < source:
        drain, source, sign = source, drain, -1.0
    over, across = gate - source - THRESHOLD, drain - source
    if over <= 0:
        current = 0.0
    elif across < over:
        current = GAIN * (over - across / 2.0) * across
    else:
        current = GAIN / 2.0 * over**2 * (1.0 + MODULATION * (across - over))
    return sign * current


def circuit(v: Any) -> Any:
    """Currents into the nodes at voltages v, shape (20,)."""
    into = 1e-3 * (2.0 - v)
    for a, b in DIODES:
        current = diode(v[a] - v[b])
        into[a] -= current
        into[b] += current
    for gate, drain, source in TRANSISTORS:
        current = transistor(v[gate], v[drain], v[source])
        into[drain] -= current
        into[source] += current
    return into


def circuit_by_hand(v: Any) -> Any:
    """Return the same with np.where."""
    into = 1e-3 * (2.0 - v)
    for a, b in DIODES:
        across = v[a] - v[b]
        slope = LEAKAGE / THERMAL * math.exp(LIMIT / THERMAL)
        high = LEAKAGE * (math.exp(LIMIT / THERMAL) - 1.0) + slope * (across - LIMIT)
        low = -LEAKAGE * (1.0 + (BREAKDOWN - across) / THERMAL)
        between = LEAKAGE * (np.exp(across / THERMAL) - 1.0)
        current = np.where(across > LIMIT, high, np.where(across < BREAKDOWN, low, between))
        into[a] -= current
        into[b] += current
    for gate, drain, source in TRANSISTORS:
        swapped = v[drain] < v[source]
        upper, lower = np.where(swapped, v[source], v[drain]), np.where(swapped, v[drain], v[source])
        over, across = v[gate] - lower - THRESHOLD, upper - lower
        linear = GAIN * (over - across / 2.0) * across
        saturated = GAIN / 2.0 * over**2 * (1.0 + MODULATION * (across - over))
        current = np.where(over <= 0, 0.0, np.where(across < over, linear, saturated))
        current = np.where(swapped, -1.0, 1.0) * current
        into[drain] -= current
        into[source] += current
    return into


def voltages(points: int, seed: int = 0) -> np.ndarray:
    """So many points, of shape (points, 20), at which every device is in each of its regions."""
    return np.random.default_rng(seed).uniform(-3.0, 3.0, (points, NODES))


# A controller: a table that is looked up by bisection, a saturation, an integrator that stops at it ----------------

SPEEDS: Final = [0.0, 1.0, 2.5, 4.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0]
GAINS: Final = [4.0, 3.6, 3.1, 2.4, 2.0, 1.7, 1.5, 1.3, 1.2, 1.1]


def gain_at(speed: Any) -> Any:
    """Between the entries of a table, by bisection."""
    low, high = 0, len(SPEEDS) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if speed < SPEEDS[middle]:
            high = middle
        else:
            low = middle
    share = (speed - SPEEDS[low]) / (SPEEDS[high] - SPEEDS[low])
    return (1.0 - share) * GAINS[low] + share * GAINS[high]


def controller(state: Any, wanted: Any) -> Any:
    """Rates of speed, current and integrated error, shape (3,)."""
    speed, current, total = state
    error = wanted - speed
    voltage = gain_at(abs(speed)) * error + total
    limited = max(-12.0, min(12.0, voltage))
    slope = 0.5 * error if limited == voltage else 0.0
    drag = 0.02 * speed * abs(speed)
    return np.array([3.0 * current - drag, (limited - 0.4 * current - 0.8 * speed) / 0.05, slope])


def controller_in_one_case(state: Any, wanted: Any) -> Any:
    """Return the same between 4 and 6, forward, out of saturation."""
    speed, current, total = state
    error = wanted - speed
    share = (speed - 4.0) / 2.0
    voltage = ((1.0 - share) * 2.4 + share * 2.0) * error + total
    return np.array([3.0 * current - 0.02 * speed * speed, (voltage - 0.4 * current - 0.8 * speed) / 0.05, 0.5 * error])


def controllers(points: int, seed: int = 0, *, alike: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Points that cross all intervals of the table, in and out of saturation; or that are all alike."""
    generator = np.random.default_rng(seed)
    speed = generator.uniform(4.1, 5.9, points) if alike else generator.uniform(-20.0, 20.0, points)
    wanted = speed + generator.uniform(-1.0, 1.0, points) if alike else generator.uniform(-20.0, 20.0, points)
    return np.stack([speed, generator.normal(size=points), generator.normal(size=points)], axis=1), wanted


# A right-hand side with events in time ----------------------------------------------------------------------------

DOSES: Final = [(0.0, 2.0, 3.0), (6.0, 7.0, 5.0), (12.0, 16.0, 1.0)]


def dosed(y: Any, t: Any) -> Any:
    """Three compartments of a drug that is given at some hours; y of shape (3,)."""
    day = t
    while day >= 24.0:
        day -= 24.0
    rate = 0.0
    for begin, end, dose in DOSES:
        if begin <= day < end:
            rate = dose
    gut, blood, tissue = y
    cleared = 0.8 * blood / (1.2 + blood)
    return np.array([rate - 1.1 * gut, 1.1 * gut - cleared - 0.3 * (blood - tissue), 0.3 * (blood - tissue)])


def dosed_in_one_case(y: Any, t: Any) -> Any:
    """Return the same on the first day, without a dose."""
    del t
    gut, blood, tissue = y
    cleared = 0.8 * blood / (1.2 + blood)
    return np.array([-1.1 * gut, 1.1 * gut - cleared - 0.3 * (blood - tissue), 0.3 * (blood - tissue)])


def hours(points: int, seed: int = 0, *, alike: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Points over three days, or while nothing is given on the first."""
    generator = np.random.default_rng(seed)
    times = generator.uniform(17.0, 23.0, points) if alike else generator.uniform(0.0, 72.0, points)
    return generator.uniform(0.1, 3.0, (points, 3)), times


# A root that is found by a loop -----------------------------------------------------------------------------------


def true_anomaly(orbit: Any) -> Any:
    """Of a body on an ellipse, from mean anomaly and eccentricity: Kepler's equation by Newton's method."""
    mean, eccentricity = orbit
    anomaly = mean if eccentricity < 0.8 else math.pi
    change = 1.0
    while abs(change) > 1e-10:
        change = (anomaly - eccentricity * math.sin(anomaly) - mean) / (1.0 - eccentricity * math.cos(anomaly))
        anomaly = anomaly - change
    half = math.sqrt((1.0 + eccentricity) / (1.0 - eccentricity)) * math.tan(anomaly / 2.0)
    return 2.0 * math.atan(half)


def true_anomaly_in_one_case(orbit: Any) -> Any:
    """Return the same with four steps."""
    mean, eccentricity = orbit
    anomaly = mean
    for _ in range(4):
        change = (anomaly - eccentricity * np.sin(anomaly) - mean) / (1.0 - eccentricity * np.cos(anomaly))
        anomaly = anomaly - change
    half = np.sqrt((1.0 + eccentricity) / (1.0 - eccentricity)) * np.tan(anomaly / 2.0)
    return 2.0 * np.arctan(half)


def steps_of(orbit: Any) -> int:
    """Return the number of iterations of the loop of `true_anomaly`."""
    mean, eccentricity = orbit
    anomaly, change, steps = mean if eccentricity < 0.8 else math.pi, 1.0, 0
    while abs(change) > 1e-10:
        change = (anomaly - eccentricity * math.sin(anomaly) - mean) / (1.0 - eccentricity * math.cos(anomaly))
        anomaly, steps = anomaly - change, steps + 1
    return steps


def orbits(points: int, seed: int = 0, *, alike: bool = False) -> tuple[np.ndarray]:
    """Orbits for which the loop takes from two to seven turns; or four, all of them."""
    generator = np.random.default_rng(seed)
    drawn = np.stack([generator.uniform(0.3, 2.8, points), generator.uniform(0.0, 0.95, points)], axis=1)
    if alike:
        few = drawn[(drawn[:, 1] < 0.7)][:2000]
        few = few[[steps_of(orbit) == 4 for orbit in few]]
        drawn = few[np.arange(points) % len(few)]
    return (drawn,)
