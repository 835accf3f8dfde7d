"""An epidemic in two age groups: 10 states and 4 parameters in, the rates of the 10 states out.

Susceptible, exposed, infectious, hospitalised and recovered people of each group; contacts within and between groups;
immunity wanes. Fitting its parameters to case numbers needs both Jacobians.

Source: the SEIR model with classes as in M. J. Keeling, P. Rohani, Modeling Infectious Diseases in Humans and Animals,
chapters 2 and 3. Rates per day.
"""

import numpy as np

CONTACTS = np.array([[1.6, 0.5], [0.4, 0.9]])
INCUBATION, WANING, DISCHARGE = 0.2, 0.003, 0.1
SUSCEPTIBILITY = np.array([0.8, 1.0])
SEVERITY = np.array([0.01, 0.12])


def epidemic(state_and_parameters):
    """Rates of change of S, E, I, H, R (2 each); after them: transmission, recovery, detection, isolation."""
    S, E, I, H, R = state_and_parameters[:10].reshape(5, 2)
    transmission, recovery, detection, isolation = state_and_parameters[10:]
    living = S + E + I + H + R
    infectious = (1.0 - detection * isolation) * I / living
    force = transmission * SUSCEPTIBILITY * (CONTACTS @ infectious)
    infections = force * S
    return np.concatenate(
        [
            WANING * R - infections,
            infections - INCUBATION * E,
            INCUBATION * E - recovery * I,
            SEVERITY * recovery * I - DISCHARGE * H,
            (1.0 - SEVERITY) * recovery * I + DISCHARGE * H - WANING * R,
        ]
    )


def example_point():
    """The beginning of a wave, in thousands of people."""
    people = [700.0, 250.0, 12.0, 4.0, 9.0, 3.0, 0.2, 0.3, 60.0, 20.0]
    return np.array([*people, 0.25, 0.14, 0.4, 0.6])


def sample(points, seed=0):
    """Random states and parameters within a third of the example point: array (points, 14)."""
    return example_point() * np.random.default_rng(seed).uniform(0.67, 1.33, (points, 14))
