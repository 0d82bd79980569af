"""A release records its grid, and a simulation is marked as such."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, no_noise
from dosimeter.noise_addition import grid_of, release

VALUES = {"coef": np.array([[0.5, -1.0], [2.0, 0.0]]), "intercept": np.array(0.25)}


def test_the_recipe_holds_noise_settings_grid_and_what_is_not_covered() -> None:
    released = release(VALUES, Gaussian(0.1), kind="weights", settings={"l2": 0.01}, not_covered=["sigma was tuned"])
    assert dict(released.recipe.settings) == {"l2": 0.01, "grid": grid_of(Gaussian(0.1))}
    assert released.recipe.noise == "Gaussian(sigma=0.1)"
    assert released.recipe.not_covered == ("sigma was tuned",)
    assert not released.recipe.simulation
    assert "simulation" not in repr(released)
    assert {name: value.shape for name, value in released.values.items()} == {"coef": (2, 2), "intercept": ()}
    assert np.abs(released.values["coef"] - VALUES["coef"]).max() < 1.5  # 15 scales
    assert np.abs(released.values["intercept"] - 0.25) < 1.5


def test_a_seeded_release_is_stamped_as_a_simulation() -> None:
    first, second = (
        release(VALUES, Gaussian(0.1), kind="weights", settings={}, rng=np.random.default_rng(3)) for _ in range(2)
    )
    assert first.recipe.simulation
    assert "simulation, not for release" in repr(first)
    assert np.array_equal(first.values["coef"], second.values["coef"])


def test_two_releases_of_the_same_values_are_two_draws() -> None:
    first, second = (release({"coef": np.zeros(50)}, Gaussian(0.1), kind="weights", settings={}) for _ in range(2))
    assert (first.values["coef"] == second.values["coef"]).sum() < 10  # a coincidence has probability 4e-6


def test_correlated_noise_runs_over_the_values_in_their_order() -> None:
    """The intercept's noise is the coefficient's times a thousand, up to a little."""
    L = np.array([[1.0, 0.0], [1000.0, 0.01]])
    noise = CorrelatedGaussian(L @ L.T)
    for _ in range(5):
        released = release({"coef": [1.0], "intercept": 2.0}, noise, kind="weights", settings={})
        assert abs((released.values["intercept"] - 2) - 1000 * (released.values["coef"][0] - 1)) < 0.01 * 15
    with pytest.raises(Refusal, match="3 values"):
        release({"coef": [1.0, 2.0], "intercept": 2.0}, noise, kind="weights", settings={})


def test_a_grid_may_be_passed_and_is_recorded() -> None:
    released = release(VALUES, Gaussian(0.1), kind="weights", settings={}, grid=0.25)
    assert released.recipe.settings["grid"] == 0.25
    assert not (released.values["coef"] % 0.25).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": no_noise}, "nothing to draw"),
        ({"values": {}}, "nothing to release"),
        ({"values": {"coef": [np.nan]}}, "finite"),
        ({"settings": {"grid": 1.0}}, "grid="),
        ({"settings": {"x": [1]}}, "plain public constants"),
        ({"not_covered": "one string"}, "list of sentences"),
        ({"rng": 5}, "Generator"),
    ],
)
def test_a_bad_release_is_refused(change: dict[str, object], message: str) -> None:
    good = {"values": VALUES, "noise": Gaussian(0.1), "kind": "weights", "settings": {}}
    with pytest.raises(Refusal, match=message):
        release(**{**good, **change})  # type: ignore[arg-type]
