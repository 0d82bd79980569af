"""A noise that only this file knows: its class, its name in NOISES and its row of laws are enough, and what needs more
refuses it in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import FunctionType
from typing import get_type_hints

import mpmath as mp
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dosimeter as dm
from dosimeter import glm, pate
from dosimeter.cli.fix import fix
from dosimeter.cli.measure import measure
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import NOISES
from dosimeter.estimators import PrivateRidge
from dosimeter.models.accuracy_frontier import frontier
from dosimeter.noise_addition.release import release
from dosimeter.pca.accounting import cost
from dosimeter.pca.bounds import Bounds, Box
from dosimeter.pca.mechanism import Mechanism, true_sensitivity
from dosimeter.workflows.noise_name import noise_class
from tests.laws import test_noise_laws as laws


@dataclass(frozen=True)
class Secant(Density):
    """p(x) = sech(πx/2s) / 2s, the hyperbolic secant: log-concave, with variance s²."""

    s: float

    log_concave = True
    symmetric = True
    _parameter = "s"
    _unit_variance = 1.0
    _unit_information = math.pi**2 / 8

    def _logpdf(self, z: np.ndarray) -> np.ndarray:
        t = math.pi * np.abs(z) / 2
        return -t - np.log1p(np.exp(-2 * t))

    def _cdf(self, z: np.ndarray) -> np.ndarray:
        tail = 2 / math.pi * np.arctan(np.exp(-math.pi * np.abs(z) / 2))
        return np.where(z < 0, tail, 1 - tail)

    def _logcdf(self, z: np.ndarray) -> np.ndarray:
        t = math.pi * np.abs(z) / 2
        e = np.exp(-t)
        below = math.log(2 / math.pi) - t + np.log(np.where(e > 0, np.arctan(e) / np.where(e > 0, e, 1.0), 1.0))
        return np.where(z < 0, below, np.log1p(-2 / math.pi * np.arctan(e)))

    def _score(self, z: np.ndarray) -> np.ndarray:
        return -math.pi / 2 * np.tanh(math.pi * z / 2)

    def _quantile(self, u: np.ndarray) -> np.ndarray:
        return 2 / math.pi * np.where(u < 0.5, 1.0, -1.0) * np.log(np.tan(math.pi / 2 * np.minimum(u, 1 - u)))

    def _draw(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
        return self._quantile(rng.random(size))


RATE = 2 / math.pi
ROW = laws.Row(
    lambda z: mp.sech(mp.pi * z / 2) / 2,
    -26.0,
    26.0,
    ((-400, -1, RATE), (-30, -1, RATE), (-2, -1, RATE), (2, 1, RATE), (30, 1, RATE), (400, 1, RATE)),
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NOISES, "secant", Secant)
    monkeypatch.setitem(laws.ROWS, Secant, ROW)


SUITE = [test for test in vars(laws).values() if isinstance(test, FunctionType) and test.__name__.startswith("test_")]
OF_A_LAW = [test for test in SUITE if test.__code__.co_varnames[: test.__code__.co_argcount] == ("law",)]


@pytest.mark.parametrize("test", OF_A_LAW, ids=lambda test: test.__name__)
def test_every_law_runs_on_it(test: FunctionType, known: None) -> None:
    for scale in (1.0,) if "tails" in test.__name__ or "draws" in test.__name__ else (0.05, 1.0, 40.0):
        test(Secant(scale))


def test_a_noise_without_a_row_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NOISES, "secant", Secant)
    with pytest.raises(AssertionError, match="add a row to ROWS for secant"):
        laws.test_every_noise_has_a_row()


rng = np.random.default_rng(4)
X = rng.normal(size=(60, 3))
y = X @ [1.0, -1.0, 0.5] + rng.normal(size=60)


def test_weights_under_it_are_measured_calibrated_and_planned(known: None) -> None:
    fit = glm.fit(X, y, glm.Squared(), 0.1)
    at_one = glm.measure(fit, X, y, dm.Gaussian(1.0)).examples
    np.testing.assert_allclose(
        glm.measure(fit, X, y, Secant(0.3)).examples, at_one * math.pi / math.sqrt(8) / 0.3, rtol=1e-12
    )
    planned = glm.plan(X, y, glm.Squared(), 0.1, max_dose=0.5, law=Secant)
    assert isinstance(planned.noise, Secant)
    assert 0.25 < glm.measure(fit, X, y, planned.noise).examples.max() <= 0.5  # the scale is rounded up to a ladder
    leak = dm.measure(Ridge(alpha=0.1).fit(X, y), X, y, noise=Secant(0.3))
    steps = frontier(leak, Secant)
    assert steps is not None
    assert steps.score_is == "expected over the noise, exact"


def test_its_name_is_known_to_the_command_line_and_to_the_estimators(known: None) -> None:
    assert noise_class("secant") is Secant
    with pytest.raises(Refusal, match=r"use gaussian, laplace, .*, secant"):
        noise_class("cauchy")
    with pytest.raises(CannotMeasure, match="cannot be drawn"):
        PrivateRidge(noise="secant", scale=0.5, max_dose=None).fit(X, y)


@dataclass(frozen=True)
class SecantMechanism(Mechanism):
    """Noise of the new law on a second moment."""

    law = Secant

    def scales(self, box: Box, N: int) -> np.ndarray:
        return np.full((box.d, box.d), 0.1)


def _second_moment() -> float:
    box, mechanism = Bounds(row_norm=1.0).over(3), SecantMechanism(1.0)
    return cost(mechanism, mechanism.scales(box, 100), true_sensitivity(mechanism, box, 100), 100, 1e-3)


REFUSED = {
    "drawn": lambda: release({"w": np.zeros(2)}, Secant(1.0), kind="weights", settings={}),
    "a vote": lambda: pate.leakage([[4, 3, 2]], Secant(1.0)),
    "a vote's epsilon": lambda: pate.epsilon(4, Secant(1.0), 1e-5),
    "a second moment": _second_moment,
    "a fitted scaler": lambda: glm.measure(
        glm.fit(STANDARD, y, glm.Squared(), 0.1, intercept=True),
        STANDARD,
        y,
        Secant(1.0),
        scaled=np.ones(3, dtype=bool),
    ),
}
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("figure", REFUSED)
def test_what_is_not_derived_for_it_is_refused_in_one_sentence(figure: str, known: None) -> None:
    with pytest.raises(
        CannotMeasure, match=r"^Secant.*: use Gaussian, Laplace|^Secant.*: use Laplace, Gumbel"
    ) as caught:
        REFUSED[figure]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("verb", [measure, fix], ids=lambda verb: verb.__name__)
def test_the_help_names_every_noise_that_has_fisher_information(verb: FunctionType) -> None:
    """The help is typed by hand, because reading NOISES would import scipy for every `--help`."""
    (option,) = get_type_hints(verb, include_extras=True)["noise"].__metadata__
    assert all(name in option.help for name, law in NOISES.items() if law.regular)
