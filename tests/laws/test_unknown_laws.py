"""An unknown law, loss, notion, cohort or event has no accounting: it is refused wherever one is chosen by its kind,
even if it is derived from a known one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dosimeter import glm
from dosimeter.core.accounts import _part
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.density import Density
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Gumbel, Laplace
from dosimeter.core.notion import FISHER
from dosimeter.federated import accountant
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.files.dose_file import _to_dict
from dosimeter.ledger.composition import _loss
from dosimeter.noise_addition.release import release
from dosimeter.pate import accounting
from dosimeter.pate.accounting import epsilon, epsilon_by_rdp, event_dose, pure_epsilon, zcdp_rho
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.budget import plan
from dosimeter.pate.doses import dose, public_bound
from dosimeter.pate.label import label
from dosimeter.pate.leakage import _excess, _wins, leakage, win_probabilities
from dosimeter.pate.threshold import Threshold, threshold_bound, threshold_leakage
from dosimeter.pate.votes import Votes
from dosimeter.reports.verdicts import change


@dataclasses.dataclass(frozen=True)
class Uniform(Density):
    """On [-width, width]: log-concave, but with no ε at all."""

    width: float
    log_concave = True
    regular = False
    _parameter = "width"
    _unit_variance = 1 / 3
    _unit_information = math.inf

    def _logpdf(self, z: Any) -> Any:
        return np.where(np.abs(z) <= 1, -math.log(2), -np.inf)

    def _cdf(self, z: Any) -> Any:
        return np.clip((z + 1) / 2, 0, 1)

    def _logcdf(self, z: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(self._cdf(z))

    def _score(self, z: Any) -> Any:
        return np.zeros_like(z)

    def _quantile(self, u: Any) -> Any:
        return 2 * u - 1

    def _draw(self, rng: np.random.Generator, size: Any) -> Any:
        return rng.uniform(-1, 1, size)


class Narrow(Laplace):
    """Laplace by its class, half as wide by its density."""

    def _logpdf(self, z: Any) -> Any:
        return super()._logpdf(2 * z) + math.log(2)


class Thin(Gaussian):
    """Gaussian by its class, half as wide by its density."""

    def _logpdf(self, z: Any) -> Any:
        return super()._logpdf(2 * z) + math.log(2)


class Steep(Gumbel):
    """Gumbel by its class."""


STRANGE = [Uniform(2.0), Narrow(2.0), Thin(2.0), Steep(2.0)]
VOTES = Votes(np.random.default_rng(1).integers(0, 3, (9, 4)), 3)
AT = Threshold(3, Laplace(2.0))


def _forced(law: Density) -> Threshold:
    """A threshold whose noise was replaced without its checks."""
    threshold = Threshold(3, Laplace(2.0))
    object.__setattr__(threshold, "noise", law)
    return threshold


OF_VOTES: dict[str, Callable[[Any], Any]] = {
    "public bound": lambda law: public_bound(4, 3, law),
    "bound": lambda law: data_independent_bound(3, law),
    "leakage": lambda law: leakage([[4, 3, 2]], law),
    "integrals of the leakage": lambda law: _excess(np.zeros((1, 2), dtype=np.int64), None, law, 1),
    "integrals of winning": lambda law: _wins(np.zeros((1, 2), dtype=np.int64), None, law),
    "chances": lambda law: win_probabilities([[4, 3, 2]], law),
    "dose": lambda law: dose(VOTES, law),
    "label": lambda law: label(VOTES, law),
    "plan": lambda law: plan("1 nat", 4, 3, law=type(law)),
    "pure epsilon": pure_epsilon,
    "epsilon": lambda law: epsilon(4, law, 1e-5),
    "epsilon by distributions": lambda law: accounting._parts(law, None, 4, 1),
    "epsilon by Rényi orders": lambda law: epsilon_by_rdp(4, law, 1e-5),
    "zero-concentrated": zcdp_rho,
    "event": lambda law: event_dose(4, law),
    "a threshold": lambda law: Threshold(3, law),
    "bound of a threshold": lambda law: threshold_bound(3, Laplace(2.0), _forced(law)),
    "epsilon of a threshold": lambda law: epsilon(4, Laplace(2.0), 1e-5, threshold=_forced(law)),
    "epsilon of a threshold under Gumbel": lambda law: accounting._by_orders(Gumbel(2.0), _forced(law), 4, 1, 1e-5),
    "event of a threshold": lambda law: event_dose(4, Laplace(2.0), threshold=_forced(law)),
    "leakage under a threshold": lambda law: threshold_leakage([[4, 3, 2]], law, AT),
}


@pytest.mark.parametrize("law", STRANGE, ids=repr)
@pytest.mark.parametrize("figure", OF_VOTES)
def test_a_vote_under_a_law_that_is_not_known_has_no_figure(figure: str, law: Density) -> None:
    with pytest.raises(Refusal):
        OF_VOTES[figure](law)


rng = np.random.default_rng(3)
X = rng.normal(size=(40, 2))
y = X @ [1.0, -1.0] + rng.normal(size=40)
FIT = glm.fit(X, y, glm.Squared(), l2=0.1)


class Wide(CorrelatedGaussian):
    """Correlated by its class."""


@pytest.mark.parametrize("law", [Thin(2.0), Uniform(2.0), Wide(np.eye(2))], ids=["Thin", "Uniform", "Wide"])
def test_weights_under_a_law_that_is_not_known_have_no_membership_no_epsilon_and_no_image(law: Any) -> None:
    with pytest.raises(CannotMeasure):
        glm.membership(FIT, X, y, law)
    with pytest.raises(CannotMeasure):
        glm.differential_privacy(FIT, X, y, law, row_norm=10.0, target_bound=10.0)
    with pytest.raises(Refusal):
        glm.measure(FIT, X, y, law).of_linear_map(np.eye(2)[:1])


@pytest.mark.parametrize("law", STRANGE, ids=repr)
def test_a_law_that_is_not_known_is_not_drawn(law: Density) -> None:
    with pytest.raises(Refusal):
        release({"w": np.zeros(2)}, law, kind="weights", settings={})


class Huber(glm.Squared):
    """Squared by its class, linear far out."""

    def residual(self, m: Any, y: Any) -> Any:
        return np.clip(m - y, -1, 1)


@pytest.mark.parametrize("loss", [Huber(), object(), "squared"])
def test_a_loss_that_is_not_known_is_not_fitted(loss: Any) -> None:
    with pytest.raises(Refusal, match="loss must be one of"):
        glm.fit(X, y, loss, l2=0.1)


class Twice(PoissonSampling):
    """Every client with probability m/K, and once more."""


@pytest.mark.parametrize(
    "figure",
    [
        lambda spent, cohort: accountant.epsilon(spent, cohort, 1e-5),
        lambda spent, cohort: accountant.delta(spent, cohort, 1.0),
        lambda spent, cohort: accountant.epsilon_by_renyi(spent, cohort, 1e-5),
        lambda spent, cohort: accountant.event_of(spent, cohort),
    ],
)
def test_a_way_of_asking_clients_that_is_not_known_has_no_price(figure: Any) -> None:
    with pytest.raises(Refusal, match="cannot be accounted"):
        figure([accountant.Spend(5, 1.0, 3)], Twice(10))


def test_an_event_that_is_not_known_has_no_price() -> None:
    from dp_accounting import ZCDpEvent

    from dosimeter.core.dose import _replacement

    with pytest.raises(Refusal, match="ZCDpEvent"):
        _loss(ZCDpEvent(0.1), False)
    with pytest.raises(Refusal, match="ZCDpEvent"):
        _replacement(ZCDpEvent(0.1))
    with pytest.raises(Refusal, match="adjacency"):
        EventDose(ZCDpEvent(0.1), "person", "zero-out-one")


def test_a_notion_that_is_not_known_is_not_booked_and_not_written() -> None:
    notion = dataclasses.replace(FISHER, name="surprise")
    strange = Dose(notion, "person", ("ann",), np.array([0.1]))
    with pytest.raises(Refusal, match="no account for surprise"):
        _to_dict(strange)
    with pytest.raises(Refusal, match="no account for surprise"):
        _part(strange)


def test_neighbours_that_are_not_known_are_not_put_into_words() -> None:
    with pytest.raises(Refusal, match="zero-out-one"):
        change("row", "zero-out-one")
