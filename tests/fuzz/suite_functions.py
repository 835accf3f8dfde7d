"""Functions of packages, as their users call them: thermodynamics, orbits, geodesics, weather, statistics, colours …

Each entry makes a function of an array of numbers, and a point. The packages are those of requirements/suites.txt.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

Made = tuple[Callable[..., Any], Any]
#: "package.function" → a function that imports the package, and returns a function and a point.
FUNCTIONS: Final[dict[str, Callable[[], Made]]] = {}


def entry(make: Callable[[], Made]) -> Callable[[], Made]:
    FUNCTIONS[make.__name__.replace("_of_", ".")] = make
    return make


def of(package: str, point: list[float], **calls: Callable[[Any, Any], Any]) -> None:
    """Enter functions of the package's module, and of an array of numbers."""
    for name, call in calls.items():

        def make(call: Callable[[Any, Any], Any] = call) -> Made:
            module = importlib.import_module(package)
            return lambda x: call(module, x), np.array(point)

        FUNCTIONS[f"{package}.{name}"] = make


# Water, gases and equations of state
of("iapws", [300.0, 0.5], water=lambda m, x: [m.IAPWS97(T=x[0], P=x[1]).h, m.IAPWS97(T=x[0], P=x[1]).s])
of(
    "iapws.iapws97",
    [450.0, 2.0],
    region1=lambda m, x: m._Region1(x[0], x[1])["h"],
    region2=lambda m, x: m._Region2(x[0] + 100.0, 0.1 * x[1])["v"],
    saturation=lambda m, x: m._PSat_T(x[0]),
    boiling=lambda m, x: m._TSat_P(x[1]),
    viscosity=lambda m, x: m._Viscosity(900.0 + x[1], x[0]),
)
of(
    "chemicals",
    [320.0, 1.2e5],
    antoine=lambda m, x: m.Antoine(x[0], A=10.1, B=1800.0, C=-40.0),
    lee_kesler=lambda m, x: m.Lee_Kesler(x[0], 617.1, 36e5, 0.299),
    rackett=lambda m, x: m.Rackett(x[0], 369.83, 4248000.0, 0.2763),
    watson=lambda m, x: m.Watson(x[0], 33468.0, 298.15, 507.0),
    poling=lambda m, x: m.TRCCp(x[0], 4.0, 7.65e5, 720.0, 3.565, -0.052, -1.55e6, 52.0, 201.0),
)
of(
    "chemicals.virial",
    [510.0, 4e6],
    tsonopoulos=lambda m, x: m.BVirial_Tsonopoulos(x[0], 425.2, 38e5, 0.193),
    pitzer=lambda m, x: m.BVirial_Pitzer_Curl(x[0], 425.2, x[1], 0.193),
)
of(
    "fluids",
    [1.5, 0.02, 5e4],
    reynolds=lambda m, x: m.Reynolds(D=x[1], rho=1000.0, V=x[0], mu=1e-3),
    haaland=lambda m, x: m.Haaland(Re=x[2], eD=0.001),
    colebrook=lambda m, x: m.Colebrook(x[2], 0.001),
    swamee=lambda m, x: m.Swamee_Jain_1976(x[2], 0.001),
    drag=lambda m, x: m.Stokes(0.1 * x[0]),
    laminar=lambda m, x: m.friction_laminar(x[2]),
    nozzle=lambda m, x: m.isentropic_work_compression(T1=300.0 * x[0], k=1.4, P1=1e5, P2=3e5),
)
of(
    "ht",
    [1.1, 0.4, 310.0],
    gnielinski=lambda m, x: m.conv_internal.turbulent_Gnielinski(1e4 * x[0], x[1] + 0.5, 0.02),
    lmtd=lambda m, x: m.LMTD(x[2] + 90.0, x[2] + 40.0, x[2] - 20.0, x[2] + 10.0),
    radiation=lambda m, x: m.q_rad(emissivity=x[1], T=x[2], T2=280.0),
    fin=lambda m, x: m.fin_efficiency_Kern_Kraus(0.0254 * x[0], 0.05715 * x[0], 0.003, 200.0, 58.0),
)
of(
    "thermo.eos",
    [299.0, 1e6],
    peng_robinson=lambda m, x: m.PR(Tc=507.6, Pc=3025000.0, omega=0.2975, T=x[0], P=x[1]).V_l,
    van_der_waals=lambda m, x: m.VDW(Tc=507.6, Pc=3025000.0, T=x[0], P=x[1]).V_l,
)
of(
    "psychrolib",
    [30.0, 0.4],
    vapour=lambda m, x: (m.SetUnitSystem(m.SI), m.GetSatVapPres(x[0]))[1],
    ratio=lambda m, x: m.GetHumRatioFromRelHum(x[0], x[1], 101325.0),
    enthalpy=lambda m, x: m.GetMoistAirEnthalpy(x[0], 0.01 * x[1]),
    dew=lambda m, x: m.GetTDewPointFromRelHum(x[0], x[1]),
    wet_bulb=lambda m, x: m.GetTWetBulbFromRelHum(x[0], x[1], 101325.0),
)
# Orbits, geodesics, maps
of("sgp4.propagation", [0.5], _gstime=lambda m, x: m.gstime(2458849.5 + x[0]))
of(
    "geographiclib.geodesic",
    [40.6, -73.8, 51.6, -0.5],
    inverse=lambda m, x: m.Geodesic.WGS84.Inverse(x[0], x[1], x[2], x[3])["s12"],
    direct=lambda m, x: m.Geodesic.WGS84.Direct(x[0], x[1], x[2], 1e5)["lat2"],
)
of(
    "pymap3d",
    [42.0, -82.0, 200.0],
    ecef=lambda m, x: list(m.geodetic2ecef(x[0], x[1], x[2])),
    enu=lambda m, x: list(m.geodetic2enu(x[0] + 0.1, x[1], x[2], 42.0, -82.0, 0.0)),
    aer=lambda m, x: list(m.geodetic2aer(x[0] + 0.1, x[1], x[2], 42.0, -82.0, 0.0)),
    geodetic=lambda m, x: list(m.ecef2geodetic(1e6 + x[0], -5e6 + x[1], 4e6 + x[2])),
    ned=lambda m, x: list(m.geodetic2ned(x[0] + 0.1, x[1], x[2], 42.0, -82.0, 0.0)),
    vincenty=lambda m, x: list(m.vincenty.vdist(x[0], x[1], 43.0, -80.0)),
    haversine=lambda m, x: m.haversine.anglesep(x[1], x[0], -80.0, 43.0),
)


@entry
def sgp4_of_propagate() -> Made:
    from sgp4.earth_gravity import wgs72
    from sgp4.io import twoline2rv
    from sgp4.propagation import sgp4

    satellite = twoline2rv(
        "1 25544U 98067A   19343.69339541  .00001764  00000-0  38792-4 0  9991",
        "2 25544  51.6439 211.2001 0007417  17.6667  85.6398 15.50103472202482",
        wgs72,
    )
    return lambda x: np.array(sgp4(satellite, x[0])[0]), np.array([125.0])


# Sun, wind, air
of(
    "pvlib.irradiance",
    [0.6, 35.0, 40.0],
    erbs=lambda m, x: m.erbs(1000.0 * x[0], x[1], 150)["dni"],
    aoi=lambda m, x: m.aoi(30.0, 180.0, x[1], 170.0 + x[2]),
    haydavies=lambda m, x: m.haydavies(30.0, 180.0, 100.0 * x[0], 800.0, 1400.0, x[1], 180.0),
    klucher=lambda m, x: m.klucher(30.0, 180.0, 100.0 * x[0], 700.0, x[1], 180.0),
    isotropic=lambda m, x: m.isotropic(x[1], 100.0 * x[0]),
)
of(
    "pvlib.pvsystem",
    [0.5, 1.2],
    diode=lambda m, x: m.i_from_v(30.0 * x[0], 7.0, 6e-7, 0.1, 20.0, 0.5 * x[1]),
    iam=lambda m, x: m.iam.ashrae(60.0 * x[0], 0.05),
    desoto=lambda m, x: list(
        m.calcparams_desoto(900.0 * x[0], 40.0 * x[1], 0.003, 1.5, 8.0, 1e-9, 400.0, 0.3, 1.121, -0.0002677)
    )[:4],
)
of(
    "pvlib.temperature",
    [800.0, 20.0, 3.0],
    sapm=lambda m, x: m.sapm_cell(x[0], x[1], x[2], -3.47, -0.0594, 3),
    pvsyst=lambda m, x: m.pvsyst_cell(x[0], x[1], x[2]),
    faiman=lambda m, x: m.faiman(x[0], x[1], x[2]),
    ross=lambda m, x: m.ross(x[0], x[1], 45.0),
)
of(
    "pvlib.atmosphere",
    [0.4, 1.3],
    pressure=lambda m, x: m.alt2pres(1000.0 * x[0]),
    airmass=lambda m, x: m.get_relative_airmass(50.0 * x[0]),
    kasten=lambda m, x: m.kasten96_lt(x[1], 1.0, 0.1),
    water=lambda m, x: m.gueymard94_pw(20.0 * x[1], 60.0 * x[0]),
)
of(
    "windpowerlib.density",
    [2.0, 290.0],
    barometric=lambda m, x: m.barometric(101330.0, 10.0, 100.0 * x[0], x[1]),
    ideal=lambda m, x: m.ideal_gas(101330.0, 10.0, 100.0 * x[0], x[1]),
)
of(
    "windpowerlib.wind_speed",
    [5.0, 0.2],
    logarithmic=lambda m, x: m.logarithmic_profile(x[0], 10.0, 100.0, x[1]),
    hellman=lambda m, x: m.hellman(x[0], 10.0, 100.0),
)
# Optics, colours, spectra
of(
    "tmm",
    [1.5, 0.1],
    layers=lambda m, x: m.coh_tmm(
        "s", [1.0, x[0], 2.2 + 0.3j, 1.0], [float("inf"), 100.0, 300.0, float("inf")], x[1], 500.0
    )["R"],
    p_light=lambda m, x: m.coh_tmm(
        "p", [1.0, x[0], 2.2 + 0.3j, 1.0], [float("inf"), 100.0, 300.0, float("inf")], x[1], 500.0
    )["T"],
)
of(
    "colour",
    [0.2, 0.4, 0.3],
    lab=lambda m, x: m.XYZ_to_Lab(x),
    srgb=lambda m, x: m.XYZ_to_sRGB(x),
    luv=lambda m, x: m.XYZ_to_Luv(x),
    difference=lambda m, x: m.delta_E(100.0 * x, np.array([25.0, 30.0, 20.0])),
    oklab=lambda m, x: m.XYZ_to_Oklab(x),
    hsv=lambda m, x: m.RGB_to_HSV(x),
)
of(
    "lmfit.lineshapes",
    [1.2, 0.3, 0.7],
    gaussian=lambda m, x: m.gaussian(np.linspace(0, 2, 7), *x),
    lorentzian=lambda m, x: m.lorentzian(np.linspace(0, 2, 7), *x),
    voigt=lambda m, x: m.voigt(np.linspace(0, 2, 7), *x),
    pearson=lambda m, x: m.pearson7(np.linspace(0, 2, 7), *x, 2.0),
    breit=lambda m, x: m.breit_wigner(np.linspace(0, 2, 7), *x),
    doniach=lambda m, x: m.doniach(np.linspace(0, 2, 7), *x, 0.3),
    skewed=lambda m, x: m.skewed_gaussian(np.linspace(0, 2, 7), *x, 0.5),
    damped=lambda m, x: m.damped_oscillator(np.linspace(0.1, 2, 7), *x),
    moffat=lambda m, x: m.moffat(np.linspace(0, 2, 7), *x, 1.5),
    students=lambda m, x: m.students_t(np.linspace(0, 2, 7), *x),
    logistic=lambda m, x: m.step(np.linspace(0, 2, 7), *x, form="logistic"),
    split=lambda m, x: m.split_lorentzian(np.linspace(0, 2, 7), *x, 0.4),
    exgaussian=lambda m, x: m.expgaussian(np.linspace(0, 2, 7), *x, 0.8),
)
of(
    "astropy.modeling.models",
    [1.0, 0.2, 0.5],
    gaussian=lambda m, x: m.Gaussian1D.evaluate(np.linspace(0, 1, 5), *x),
    lorentz=lambda m, x: m.Lorentz1D.evaluate(np.linspace(0, 1, 5), *x),
    compound=lambda m, x: (m.Gaussian1D(1.0, 0.2, 0.5) + m.Linear1D(0.1, 0.2)).evaluate(
        np.linspace(0, 1, 5), *x, 0.1 * x[0], x[1]
    ),
    voigt=lambda m, x: m.Voigt1D(method="humlicek2").evaluate(np.linspace(0, 1, 5), *x, 0.4),
    sersic=lambda m, x: m.Sersic1D.evaluate(np.linspace(0.5, 1, 5), *x),
    powerlaw=lambda m, x: m.BrokenPowerLaw1D.evaluate(np.linspace(0.1, 1, 5), *x, 1.5),
    moffat=lambda m, x: m.Moffat1D.evaluate(np.linspace(0, 1, 5), *x, 1.5),
    ricker=lambda m, x: m.RickerWavelet1D.evaluate(np.linspace(0, 1, 5), *x),
    drude=lambda m, x: m.Drude1D.evaluate(np.linspace(0.1, 1, 5), *x),
    king=lambda m, x: m.KingProjectedAnalytic1D.evaluate(np.linspace(0.1, 1, 5), *x),
)
of(
    "astropy.cosmology",
    [0.5, 70.0, 0.3],
    distance=lambda m, x: m.FlatLambdaCDM(H0=70, Om0=0.3).comoving_distance(x[0]).value,
    age=lambda m, x: m.FlatLambdaCDM(H0=70, Om0=0.3).efunc(x[0]),
)
# Statistics, finance, attitude
of(
    "nelson_siegel_svensson",
    [0.03, -0.01, 0.02, 1.5],
    curve=lambda m, x: m.NelsonSiegelCurve(x[0], x[1], x[2], tau=x[3])(np.array([1.0, 5.0, 10.0])),
)
of(
    "arch.univariate.recursions_python",
    [0.1, 0.2, 0.6],
    garch=lambda m, x: m.garch_recursion_python(
        x,
        np.linspace(0.1, 1, 9) ** 2,
        np.sign(np.sin(np.arange(9.0))),
        np.zeros(9),
        1,
        0,
        1,
        9,
        0.5,
        np.tile([0.0, 100.0], (9, 1)),
    ),
)
of(
    "ahrs.common.orientation",
    [0.1, 0.2, 0.3],
    to_matrix=lambda m, x: m.rpy2q(x),
    rotation=lambda m, x: m.ecompass(x + 1.0, np.array([0.3, 0.1, 0.9])),
)
of("filterpy.common", [0.3, 0.5], noise=lambda m, x: m.Q_discrete_white_noise(2, x[0], x[1]))
of("uncertainties.umath", [0.3, 1.2], sine=lambda m, x: m.sin(x[0]) * m.exp(x[1]))


@entry
def statsmodels_of_logit() -> Made:
    from statsmodels.discrete.discrete_model import Logit

    t = np.linspace(-1.0, 1.0, 30)
    data = np.column_stack([np.ones(30), t, np.sin(5.0 * t)])
    return Logit((np.sin(9.0 * t) > 0).astype(float), data).loglike, np.array([0.1, 0.2, 0.3])


@entry
def statsmodels_of_poisson() -> Made:
    from statsmodels.discrete.discrete_model import Poisson

    t = np.linspace(-1.0, 1.0, 30)
    data = np.column_stack([np.ones(30), t, np.sin(5.0 * t)])
    return Poisson(np.round(3.0 + 2.0 * np.sin(9.0 * t)), data).loglike, np.array([0.1, 0.2, 0.3])


@entry
def statsmodels_of_probit() -> Made:
    from statsmodels.discrete.discrete_model import Probit

    t = np.linspace(-1.0, 1.0, 30)
    return Probit((np.sin(9.0 * t) > 0).astype(float), np.column_stack([np.ones(30), t])).loglike, np.array([0.1, 0.2])


@entry
def statsmodels_of_gamma_glm() -> Made:
    import statsmodels.api as sm

    t = np.linspace(-1.0, 1.0, 30)
    model = sm.GLM(
        1.5 + np.sin(3.0 * t), np.column_stack([np.ones(30), t]), family=sm.families.Gamma(sm.families.links.Log())
    )
    return lambda x: model.loglike(x, scale=0.7), np.array([0.1, 0.2])


@entry
def lifelines_of_weibull() -> Made:
    from lifelines import WeibullFitter

    fitter, t = WeibullFitter(), np.linspace(0.2, 4.0, 15)
    return lambda x: fitter._cumulative_hazard(x, t), np.array([1.5, 1.2])


@entry
def lifelines_of_log_logistic() -> Made:
    from lifelines import LogLogisticFitter

    fitter, t = LogLogisticFitter(), np.linspace(0.2, 4.0, 15)
    return lambda x: fitter._cumulative_hazard(x, t), np.array([1.5, 1.2])


@entry
def ase_of_lennard_jones() -> Made:
    from ase import Atoms
    from ase.calculators.lj import LennardJones

    atoms = Atoms("Ar4", positions=np.array([[0, 0, 0], [1.1, 0, 0], [0, 1.2, 0], [0.1, 0.2, 1.15]]))

    def energy(x: Any) -> Any:
        atoms.positions = x
        atoms.calc = LennardJones()
        return atoms.get_potential_energy()

    return energy, atoms.positions.copy()
