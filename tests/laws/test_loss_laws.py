"""Every law of a loss, on every registered loss and on two that only this file knows.

The two are robust regression (pseudo-Huber) and Weibull regression with the log link. Neither is canonical: their
labels enter the gradient through c = -d²l/dm dy. Oracles: the loss differentiated in 40 digits, and refits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints

import mpmath as mp
import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters.coefficients import Coefficients
from dosimeter.cli.attack import inversion, membership
from dosimeter.cli.fix import fix
from dosimeter.cli.measure import measure
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import no_noise
from dosimeter.glm.attacks.membership import removal
from dosimeter.glm.losses.loss import is_registered
from dosimeter.glm.losses.positive_losses import PowerVariance
from dosimeter.models.accuracy_frontier import EXACT, frontier
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_release import release_table
from dosimeter.tables.table import Table
from tests.glm import problems
from tests.glm.problems import DIGITS, FORMULAS, targets


@dataclass(frozen=True)
class PseudoHuber(glm.ScalarLoss):
    """δ²(√(1 + u²) - 1), u = (m - y)/δ: a square near 0, linear far out."""

    delta: float = 1.5

    name = "pseudo-huber"
    target = glm.TargetKind.NUMBER
    score_name = "R²"

    def _root(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.hypot(1.0, (m - y) / self.delta)

    def check(self, y: FloatArray) -> None:
        """Accepts any finite target."""

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return (m - y) ** 2 / (1 + self._root(m, y))

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return (m - y) / self._root(m, y)

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return self._root(m, y) ** -3.0

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return self.curvature(m, y)

    def link(self, y: FloatArray) -> FloatArray:
        return y

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.zeros_like(y), np.ones_like(y)

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        return self.delta * row_norm

    def score(self, m: FloatArray, y: FloatArray) -> float:
        return 1.0 - float(np.sum((y - m) ** 2) / np.sum((y - y.mean()) ** 2))


SHAPE = 2.0


@dataclass(frozen=True)
class Weibull(glm.ScalarLoss):
    """Weibull regression of shape 2 with the log link, (y e⁻ᵐ)² + 2m, y > 0."""

    name = "weibull"
    target = glm.TargetKind.NUMBER
    score_name = "D²"
    default_model = "WeibullRegressor(alpha=1.0)"
    penalised_mean = True

    def check(self, y: FloatArray) -> None:
        if (y <= 0).any():
            raise Refusal("Weibull needs targets > 0")

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return (y * np.exp(-m)) ** SHAPE + SHAPE * m

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return -SHAPE * np.expm1(SHAPE * (np.log(y) - m))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return SHAPE**2 * (y * np.exp(-m)) ** SHAPE

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return SHAPE**2 * y ** (SHAPE - 1) * np.exp(-SHAPE * m)

    def link(self, y: FloatArray) -> FloatArray:
        return np.log(y)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.zeros_like(y), np.ones_like(y)

    def score(self, m: FloatArray, y: FloatArray) -> float:
        def deviance(m: FloatArray) -> float:
            return float(np.sum(self.value(m, y) - self.value(np.log(y), y)))

        return 1.0 - deviance(m) / deviance(np.full_like(y, np.log(np.mean(y**SHAPE)) / SHAPE))


NEW: dict[glm.ScalarLoss, Callable[..., Any]] = {
    PseudoHuber(): lambda f, m, y: mp.mpf(1.5) ** 2 * (mp.sqrt(1 + ((m - y) / mp.mpf(1.5)) ** 2) - 1),
    Weibull(): lambda f, m, y: (y * f.exp(-m)) ** 2 + 2 * m,
}
every_loss = pytest.mark.parametrize("loss", [*FORMULAS, *NEW], ids=lambda loss: loss.description)
every_new_loss = pytest.mark.parametrize("loss", list(NEW), ids=lambda loss: loss.name)
MARGINS = (-20.0, -3.0, -0.5, 0.0, 0.7, 4.0, 20.0)
INSIDE = (0.01, 0.4, 0.9, 1.0, 1.7, 4.0, 20.0)
"""Margins for a link that is defined for positive ones only."""


@pytest.fixture
def known() -> Iterator[None]:
    """The new losses are registered for one test; nothing in the package is changed."""
    for loss in NEW:
        glm.register(type(loss))
    yield
    for loss in NEW:
        del glm.LOSSES[loss.name]


def targets_of(loss: glm.ScalarLoss) -> tuple[float, ...]:
    """Targets that the loss has a value for."""
    if loss.target is glm.TargetKind.TWO_CLASSES:
        return 0.0, 1.0, 0.3
    try:
        loss.check(np.zeros(1))
    except Refusal:
        return 0.5, 1.0, 7.0
    return (0.5, 1.0, 7.0) if loss.lowest_margin == 0 else (0.0, 1.0, 7.0)


def points(loss: glm.ScalarLoss) -> tuple[FloatArray, FloatArray]:
    m, y = np.meshgrid(INSIDE if loss.lowest_margin == 0 else MARGINS, targets_of(loss))
    return m.ravel(), y.ravel()


def table(loss: glm.ScalarLoss, n: int = 60, d: int = 3) -> tuple[FloatArray, FloatArray]:
    """X (n, d) and targets that suit the loss."""
    if loss not in NEW:
        return problems.table(loss, n, d)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    m = X @ np.linspace(1.0, -0.5, d)
    return X, np.exp(m) * rng.weibull(SHAPE, n) if isinstance(loss, Weibull) else m + rng.standard_t(3, n)


def derivative(loss: glm.ScalarLoss, orders: tuple[int, int]) -> FloatArray:
    """The loss as it is typed in the row, differentiated in 40 digits."""
    formula = {**FORMULAS, **NEW}[loss]
    with mp.workdps(40):
        return np.array(
            [
                float(mp.diff(lambda m, y: formula(DIGITS, m, y), (mp.mpf(a), mp.mpf(b)), orders))
                for a, b in zip(*points(loss), strict=True)
            ]
        )


def test_every_loss_has_a_row() -> None:
    missing = [name for name, kind in glm.LOSSES.items() if kind() not in FORMULAS]
    assert not missing, f"add a row to FORMULAS of tests/glm/problems.py for {', '.join(missing)}"


@every_loss
def test_its_derivatives_are_those_of_its_value(loss: glm.ScalarLoss) -> None:
    m, y = points(loss)
    wanted = derivative(loss, (0, 0))
    np.testing.assert_allclose(loss.value(m, y), wanted, rtol=1e-12, atol=1e-12)
    # Below 1e-9 the definition itself, in 40 digits and differences of 1e-13, says no more.
    np.testing.assert_allclose(loss.residual(m, y), derivative(loss, (1, 0)), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(loss.curvature(m, y), derivative(loss, (2, 0)), rtol=1e-8, atol=1e-13)


@every_loss
def test_its_curvature_has_the_sign_it_declares_and_its_scoring_curvature_is_positive(loss: glm.ScalarLoss) -> None:
    m, y = points(loss)
    a = loss.curvature(m, y)
    if not loss.convex:
        assert (a < 0).any()
    elif loss.has_kinks:
        assert (a >= 0).all()
        assert (a == 0).any()
    else:
        assert ((a > 0) | (derivative(loss, (2, 0)) == 0.0)).all()  # zero only where it is below the smallest float64
    if loss.has_kinks or not loss.convex:
        assert (loss.scoring_curvature(m, y) > 0).all()


@every_loss
def test_its_curvature_jumps_at_the_stated_distance_and_not_before(loss: glm.ScalarLoss) -> None:
    m, y = points(loss)
    distance = loss.distance_to_kink(m, y)
    assert np.isfinite(distance).all() if loss.has_kinks else np.isinf(distance).all()
    if loss.has_kinks:
        inside = [loss.curvature(m + sign * 0.999 * distance, y) == loss.curvature(m, y) for sign in (-1, 1)]
        outside = [loss.curvature(m + sign * 1.001 * distance, y) == loss.curvature(m, y) for sign in (-1, 1)]
        assert all(same.all() for same in inside)
        assert not (outside[0] & outside[1]).any()


@every_loss
def test_its_third_derivative_is_the_slope_of_its_curvature_or_is_refused(loss: glm.ScalarLoss) -> None:
    m, y = points(loss)
    if type(loss).third is glm.ScalarLoss.third:
        with pytest.raises(CannotMeasure, match=loss.name):
            loss.third(m, y)
    else:
        np.testing.assert_allclose(loss.third(m, y), derivative(loss, (3, 0)), rtol=1e-7, atol=1e-12)


@every_loss
def test_the_target_enters_the_gradient_as_declared(loss: glm.ScalarLoss) -> None:
    m, y = points(loss)
    wanted = -derivative(loss, (1, 1))
    np.testing.assert_allclose(loss.target_derivative(m, y), wanted, rtol=1e-8, atol=1e-12)
    assert not loss.canonical or np.allclose(wanted, 1.0, rtol=1e-8)


@every_loss
def test_the_rise_of_the_residual_is_a_difference(loss: glm.ScalarLoss) -> None:
    m, y = points(loss)
    for t in (-0.4, 0.0, 2.0):
        rise = loss.residual_change(m, np.full_like(m, t), y)
        after, before = loss.residual(m + t, y), loss.residual(m, y)
        np.testing.assert_array_less(np.abs(rise - (after - before)), 1e-14 * (1 + np.abs(after) + np.abs(before)))


@every_loss
def test_a_row_whose_loss_rises_both_ways_is_fixed_and_no_other(loss: glm.ScalarLoss) -> None:
    """`recession`: with sign s the loss does not rise as s m grows; a fixed row's rises in both directions."""
    y = np.array(targets_of(loss))
    sign, fixed = loss.recession(y)
    formula = {**FORMULAS, **NEW}[loss]
    for direction in (1.0,) if loss.lowest_margin == 0 else (-1.0, 1.0):
        with mp.workdps(200):
            near, far = (
                np.array([formula(DIGITS, mp.mpf(direction * size), mp.mpf(v)) for v in y]) for size in (12.0, 20.0)
            )
        np.testing.assert_array_equal(far <= near, (sign == direction) & (fixed == 0))


@every_loss
def test_a_fit_scores_higher_than_one_answer_for_everyone(loss: glm.ScalarLoss, known: None) -> None:
    X, y = table(loss, 400)
    margin = glm.fit(X, y, loss, 0.01, intercept=True).margin
    assert 0.0 <= loss.base_score(y) < loss.score(margin, y) <= 1.0
    assert loss.score(-margin, y) < loss.base_score(y)
    assert loss.expected_score(margin, y, np.zeros(400)) == pytest.approx(loss.score(margin, y), rel=1e-12)


@pytest.mark.parametrize(
    "loss", [loss for loss in FORMULAS if loss in (type(loss)(), glm.Tweedie(0.0))], ids=lambda loss: loss.description
)
def test_the_expected_score_is_the_mean_over_noise(loss: glm.ScalarLoss) -> None:
    rng = np.random.default_rng(2)
    m = rng.normal(size=50) if loss.lowest_margin != 0 else rng.uniform(0.5, 2.0, 50)
    y, variance = targets(loss, 2 * m, rng), rng.uniform(0.1, 0.4, 50)
    if not loss.has_expected_score:
        with pytest.raises(CannotMeasure, match=loss.name):
            loss.expected_score(m, y, variance)
        return
    scores = [loss.score(m + np.sqrt(variance) * rng.standard_normal(50), y) for _ in range(20_000)]
    error = np.std(scores) / np.sqrt(len(scores))
    assert abs(loss.expected_score(m, y, variance) - np.mean(scores)) < 5 * error
    squares, s = rng.uniform(0.5, 2.0, 50), 0.3
    assert loss.score_curve(m, y, squares, 1.7)(s) == pytest.approx(loss.expected_score(m, y, s * s * 1.7 * squares))


# ---------------------------------------------------------------- two losses that only this file knows


@every_new_loss
def test_a_loss_that_is_not_registered_is_refused_and_names_those_that_are(loss: glm.ScalarLoss) -> None:
    X, y = table(loss)
    assert not is_registered(loss)
    with pytest.raises(Refusal, match=r"one of Squared\(\), Logistic\(\), Poisson\(\), Probit\(\), .*Softmax"):
        glm.fit(X, y, loss, 0.1)


@every_new_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_a_new_loss_is_fitted_and_its_jacobian_is_the_derivative_of_refits(
    loss: glm.ScalarLoss, intercept: bool, known: None
) -> None:
    X, y = table(loss)

    def weights(X: FloatArray, y: FloatArray) -> FloatArray:
        return glm.fit(X, y, loss, 0.05, intercept=intercept).w

    fit = glm.fit(X, y, loss, 0.05, intercept=intercept)
    assert fit.gradient_norm < 1e-10
    ours = glm.measure(fit, X, y, dm.Gaussian(1.0)).jacobian.dense(np.array([4]))[0]
    h, columns = 1e-5, []
    for j in range(X.shape[1]):
        up, down = X.copy(), X.copy()
        up[4, j] += h
        down[4, j] -= h
        columns.append((weights(up, y) - weights(down, y)) / (2 * h))
    up, down = y.copy(), y.copy()
    up[4] += h
    down[4] -= h
    columns.append((weights(X, up) - weights(X, down)) / (2 * h))
    np.testing.assert_allclose(ours, np.column_stack(columns), rtol=1e-6, atol=1e-9)


@every_new_loss
def test_removing_a_row_is_a_refit_without_it(loss: glm.ScalarLoss, known: None) -> None:
    X, y = table(loss)
    fit = glm.fit(X, y, loss, 0.05)
    ours = removal(fit, X, y)
    for row in (0, 11, 30):
        weight = np.ones(len(X))
        weight[row] = 0.0
        np.testing.assert_allclose(
            ours[row], glm.fit(X, y, loss, 0.05, sample_weight=weight).w - fit.w, rtol=1e-6, atol=1e-10
        )


@every_new_loss
def test_a_new_loss_is_planned_scored_on_people_left_out_and_measured_by_its_name(
    loss: glm.ScalarLoss, known: None
) -> None:
    X, y = table(loss)
    planned = glm.plan(X, y, loss, 0.05, max_dose=0.5)
    assert planned.settings["loss"] == loss.description
    assert glm.measure(planned.fit, X, y, planned.noise).examples.max() <= 0.5
    held_out = glm.cross_validate(X, y, loss, lambda n: 0.05, kind="isotropic")
    assert held_out.name == loss.score_name
    assert held_out.base == 0.0
    # Without a formula for the expectation, releases are simulated.
    assert held_out.score(0.5) < held_out.score(0.05) < held_out.score(0.0)
    named = Table.of({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "target": y})
    fitted = fit_table(named, "target", l2=0.05, noise=dm.Gaussian(0.5), loss=loss.name)
    assert fitted.leakage.fit.loss == loss
    assert fitted.score == pytest.approx(loss.score(fitted.leakage.fit.margin, y))
    assert fitted.leakage.target_unit == pytest.approx(y.std())
    curve = frontier(fitted.leakage)
    assert curve is not None
    assert curve.score_name == loss.score_name
    assert curve.score_is != EXACT
    w = glm.fit(X, y, loss, 0.05).w
    bare = Coefficients(loss.name, l2=0.05, intercept=None, coef=dict(zip("abc", w.tolist(), strict=True)))
    frame = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    leak = dm.measure(bare, Table.of(frame), y, noise=dm.Gaussian(1.0))
    wanted = glm.measure(glm.fit(X, y, loss, 0.05), X, y, dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.leak.examples, wanted.examples, rtol=1e-9)


def test_the_default_penalty_and_the_sensitivity_are_the_loss_s_own(known: None) -> None:
    assert glm.penalty(Weibull(), 50).l2 == 1.0
    assert "WeibullRegressor" in glm.penalty(Weibull(), 50).source
    with pytest.raises(Refusal, match="pseudo-huber has no default penalty: pass l2="):
        glm.penalty(PseudoHuber(), 50)
    X, y = table(PseudoHuber())
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    event = glm.differential_privacy(glm.fit(X, y, PseudoHuber(), 0.5), X, y, dm.Gaussian(1.0), row_norm=1.0)
    assert event.epsilon(1e-5) > 0
    X, y = table(Weibull())
    with pytest.raises(CannotMeasure, match="no bound on the gradient of the weibull loss is known"):
        glm.differential_privacy(glm.fit(X, y, Weibull(), 0.5), X, y, dm.Gaussian(1.0), row_norm=10.0)


REFUSED: dict[str, tuple[Callable[[glm.ScalarLoss, FloatArray, FloatArray], Any], str]] = {
    "equalised doses": (
        lambda loss, X, y: glm.plan(X, y, loss, 0.05, scale=0.5, reweighting_rounds=2),
        "for canonical losses, and {} is not",
    ),
    "shaped noise": (
        lambda loss, X, y: glm.plan(X, y, loss, 0.05, scale=0.5, noise_shape="hessian"),
        "the Hessian of the {} loss depends on the weights",
    ),
    "the black box": (
        lambda loss, X, y: glm.black_box(
            glm.fit(X, y, loss, 0.05), X, y, glm.Candidates.grid(0, [-1.0, 0.0, 1.0]), np.zeros((2, 3))
        ),
        "is for the losses squared, gamma, .*, softmax, not {}",
    ),
    "a released model": (
        lambda loss, X, y: release_table(
            Table.of({"a": X[:, 0], "b": X[:, 1], "y": y}), "y", max_dose=1.0, l2=0.1, loss=loss.name
        ),
        r"a {}.* model is measured but not released here, because no estimator .*: use one of the losses squared, log",
    ),
}


@every_new_loss
@pytest.mark.parametrize("figure", REFUSED)
def test_what_is_not_derived_for_it_is_refused_by_name(loss: glm.ScalarLoss, figure: str, known: None) -> None:
    attempt, text = REFUSED[figure]
    with pytest.raises(CannotMeasure, match=text.format(loss.name)):
        attempt(loss, *table(loss))


def test_its_name_is_known_where_losses_are_named(known: None) -> None:
    named = Table.of({"a": [1.0, 2.0, 3.0], "y": ["no", "yes", "no"]})
    with pytest.raises(Refusal, match=r"use auto, squared, logistic, poisson, .*, pseudo-huber, weibull, softmax"):
        fit_table(named, "y", noise=no_noise, loss="hubert")
    with pytest.raises(Refusal, match=r"holds text: use the loss logistic or .*softmax"):
        fit_table(named, "y", noise=no_noise, loss="weibull")


@pytest.mark.parametrize("verb", [measure, fix, inversion, membership], ids=lambda verb: verb.__name__)
def test_the_help_names_every_loss(verb: Any) -> None:
    """The help is typed by hand, because reading LOSSES would import scipy for every `--help`."""
    (option,) = get_type_hints(verb, include_extras=True)["loss"].__metadata__
    assert all(name in option.help for name in glm.LOSSES)


def test_a_loss_that_lacks_something_is_not_registered() -> None:
    class Nameless(glm.Squared):
        canonical = False

    class Half(glm.ScalarLoss):
        name = "half"

    with pytest.raises(Refusal, match=r"Nameless .* lacks target_derivative"):
        glm.register(Nameless)
    with pytest.raises(Refusal, match=r"Half .* lacks target, score_name, check, curvature"):
        glm.register(Half)

    class Again(glm.Squared):
        """Squared by its name."""

    with pytest.raises(Refusal, match="already registered as 'squared'"):
        glm.register(Again)
    assert glm.register(glm.Squared) is glm.Squared


WITHOUT_CANCELLATION = [
    loss
    for loss in FORMULAS
    if (loss.target is glm.TargetKind.TWO_CLASSES and not loss.has_kinks)
    or (isinstance(loss, PowerVariance) and loss.link_function == "log")
]


@pytest.mark.parametrize("loss", WITHOUT_CANCELLATION, ids=lambda loss: loss.description)
def test_its_residual_is_relatively_exact_where_the_fit_is_good(loss: glm.ScalarLoss) -> None:
    """Classes far on their own side, and a mean within 1e-6 of its target: `mean - target` would keep few digits."""
    if loss.target is glm.TargetKind.TWO_CLASSES:
        m, y = np.array([3.0, 6.0, 20.0, -3.0, -6.0, -20.0]), np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    else:
        y = np.array([0.5, 1.0, 7.0, 1e4])
        m = np.log(y) + 1e-6
    with mp.workdps(400):
        wanted = [
            mp.diff(lambda u, v: FORMULAS[loss](DIGITS, u, v), (mp.mpf(a), mp.mpf(b)), (1, 0))
            for a, b in zip(m, y, strict=True)
        ]
    # The margin itself is rounded: ε |m| over its distance of 1e-6 from the target.
    tolerance = 1e-13 if loss.target is glm.TargetKind.TWO_CLASSES else 4e-16 * 10 / 1e-6
    for ours, exact in zip(loss.residual(m, y), wanted, strict=True):
        if abs(exact) > 1e-300:
            assert abs(mp.mpf(float(ours)) / exact - 1) < tolerance
