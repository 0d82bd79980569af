"""(ε, δ) against the exact privacy loss of the finite channel: neighbours are two votes of one teacher."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.core.notion import Standing
from dosimeter.pate.accounting import (
    _by_losses,
    _by_orders,
    _parts,
    epsilon,
    epsilon_by_rdp,
    event_dose,
    pure_epsilon,
    zcdp_rho,
)
from dosimeter.pate.adversary import channels
from dosimeter.pate.threshold import Threshold

PURE = [Laplace(2.0), Gumbel(2.0), Exponential(2.0), LogisticNoise(2.0)]
OTHERS = [list(v) for n in (2, 5, 9) for v in itertools.product(range(n + 1), repeat=3) if sum(v) == n][::3]
EDGES = [[3, 3, 0], [4, 4, 4], [10, 9, 0], [6, 0, 0], [9, 8, 0]]


def pairs(noise: Density, threshold: Threshold | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """P(· | v⁻ + δ_a) and P(· | v⁻ + δ_b) for many v⁻ and all a, b."""
    tables = channels(np.array(OTHERS + EDGES), noise, threshold)
    return [(P[a], P[b]) for P in tables for a, b in itertools.permutations(range(3), 2)]


def several(P: np.ndarray, k: int) -> np.ndarray:
    """k independent outputs together."""
    joint = np.ones(1)
    for _ in range(k):
        joint = (joint[:, None] * P).ravel()
    return joint


def delta_at(P: np.ndarray, Q: np.ndarray, eps: float) -> float:
    """The hockey stick: Σ max(0, P - e^ε Q), the definition of δ."""
    return float(np.maximum(P - math.exp(eps) * Q, 0.0).sum())


@pytest.mark.parametrize("noise", PURE, ids=repr)
def test_the_pure_epsilon_covers_every_pair_and_half_of_it_does_not(noise: Density) -> None:
    worst = max(float(np.log(P / Q).max()) for P, Q in pairs(noise))
    assert worst <= pure_epsilon(noise) * (1 + 1e-9)
    assert worst > 0.5 * pure_epsilon(noise)  # this refutes γ alone, the figure for counts that only grow


@pytest.mark.parametrize("noise", [*PURE, Gaussian(2.0), Gaussian(6.0)], ids=repr)
@pytest.mark.parametrize("k", [1, 3])
def test_the_epsilon_of_each_delta_covers_the_exact_loss_of_the_channel(noise: Density, k: int) -> None:
    for delta in (1e-2, 1e-4, 1e-7):
        eps = epsilon(k, noise, delta).epsilon
        assert max(delta_at(several(P, k), several(Q, k), eps) for P, Q in pairs(noise)) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("threshold_noise", [Laplace(1.5), Gaussian(2.5)], ids=repr)
@pytest.mark.parametrize("noise", [Laplace(2.0), Gaussian(2.0), Gumbel(2.0)], ids=repr)
def test_refusals_are_covered_too(noise: Density, threshold_noise: Density) -> None:
    threshold = Threshold(6, threshold_noise)
    for k, delta in ((1, 1e-3), (2, 1e-5)):
        eps = epsilon(k, noise, delta, threshold=threshold).epsilon
        worst = max(delta_at(several(P, k), several(Q, k), eps) for P, Q in pairs(noise, threshold))
        assert worst <= delta * (1 + 1e-9)
        assert eps > epsilon(k, noise, delta).epsilon


@pytest.mark.parametrize("threshold_noise", [Laplace(1.5), Gaussian(2.5)], ids=repr)
def test_the_refusal_alone_attains_what_it_is_charged(threshold_noise: Density) -> None:
    """A vote that reveals nothing (scale 1e5), a threshold half-way between the neighbours: the best possible test.

    At ε = 0 the refusal's δ is that of the law moved by one vote; a smaller move would promise less.
    """
    P = channels([[6, 0, 0]], Laplace(1e5), Threshold(6.5, threshold_noise))[0]
    exact_delta = delta_at(P[0], P[1], 0.0)
    assert exact_delta == pytest.approx(2 * float(threshold_noise.cdf(0.5)) - 1, rel=1e-4)
    threshold = Threshold(6.5, threshold_noise)
    assert epsilon(1, Laplace(1e5), exact_delta * 0.99, threshold=threshold).epsilon > 1e-3
    assert epsilon(1, Laplace(1e5), exact_delta * 1.001, threshold=threshold).epsilon < 1e-3


@pytest.mark.parametrize("gamma", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("shift", [1, 2])
def test_a_label_with_gumbel_noise_has_the_renyi_divergences_of_its_range_and_nearly_all_of_them(
    gamma: float, shift: int
) -> None:
    """Every histogram of few votes, all ways to move them, orders to 200: a softmax by hand, Σ Pᵅ Q^(1-α) directly."""
    rho, closest = zcdp_rho(Gumbel(1 / gamma), shift), 0.0
    for n, m in ((6, 2), (6, 3), (4, 4)):
        histograms = [v for v in itertools.product(range(n + 1), repeat=m) if sum(v) == n]
        for v, w in itertools.permutations(histograms, 2):
            if sum(abs(a - b) for a, b in zip(v, w, strict=True)) > 2 * shift:
                continue
            p, q = (gamma * np.array(x) - np.log(np.exp(gamma * np.array(x)).sum()) for x in (v, w))
            for order in (1.01, 2.0, 8.0, 50.0, 200.0):
                terms = order * p + (1 - order) * q
                divergence = (np.log(np.exp(terms - terms.max()).sum()) + terms.max()) / (order - 1)
                assert divergence <= rho * order * (1 + 1e-9)
                closest = max(closest, divergence / (rho * order))
    # With much noise the worst pair, two classes at equal odds, attains the bound; γ²/2 · order / 2 would fail here.
    assert closest > (0.99 if gamma * shift < 0.2 else 0.7 if gamma * shift < 1.5 else 0.3)


@pytest.mark.parametrize(("k", "gamma"), [(40, 0.5), (50, 0.2), (1000, 0.05), (1000, 0.5), (2000, 0.025)])
def test_the_figure_of_gumbel_noise_lies_between_the_exact_one_of_two_classes_and_half_the_pure_one(
    k: int, gamma: float
) -> None:
    """Two classes at equal odds: k labels are a binomial number, and δ at ε is a finite sum."""
    delta = 1e-5
    figure = epsilon(k, Gumbel(1 / gamma), delta)
    j, p = np.arange(k + 1), 1 / (1 + math.exp(-gamma))  # the odds move from e^-γ to e^γ
    pmf = [binom.logpmf(j, k, share) for share in (p, 1 - p)]

    def exact(eps: float) -> float:
        return float(np.maximum(np.exp(pmf[0]) - np.exp(pmf[1] + eps), 0.0).sum())

    assert exact(figure.epsilon) <= delta
    assert exact(figure.epsilon / 1.25) > delta  # a fifth less would be too small
    # The worst mechanism with the same pure ε: k randomised responses.
    charged = event_dose(k, Gumbel(1 / gamma)).epsilon(delta) if k <= 50 else math.inf
    assert figure.epsilon < 0.55 * charged
    assert figure.method == "bounded range, by Rényi orders"


def test_the_gaussian_figure_is_that_of_a_move_by_root_two_and_of_no_less() -> None:
    """Two classes, equal counts: the label is the best test between the neighbours, so δ at ε = 0 is attained.

    A sensitivity of 1 (a histogram in which one count grows) would promise less than the channel shows.
    """
    from dp_accounting import gaussian_mechanism

    sigma = 3.0
    P = channels([[5, 5]], Gaussian(sigma))[0]
    exact_delta = delta_at(P[0], P[1], 0.0)
    phi = 0.5 * math.erfc(-math.sqrt(2) / (2 * sigma) / math.sqrt(2))
    assert exact_delta == pytest.approx(2 * phi - 1, rel=1e-10)
    assert epsilon(1, Gaussian(sigma), exact_delta * 1.001).epsilon == pytest.approx(0.0, abs=1e-3)
    assert epsilon(1, Gaussian(sigma), exact_delta * 0.99).epsilon > 1e-3
    assert gaussian_mechanism.get_epsilon_gaussian(sigma, exact_delta * 0.99) == 0.0  # what a move by 1 would claim


def test_the_gaussian_figure_is_the_analytic_one_of_all_queries_together() -> None:
    from dp_accounting import gaussian_mechanism

    for k, sigma, delta in ((1, 2.0, 1e-3), (2000, 40.0, 1e-5), (100, 200.0, 1e-6)):
        analytic = gaussian_mechanism.get_epsilon_gaussian(sigma / math.sqrt(2 * k), delta)
        by_losses = epsilon(k, Gaussian(sigma), delta).epsilon
        assert analytic <= by_losses <= analytic * 1.001


def test_renyi_orders_lie_between_the_loss_distribution_and_the_classical_conversion() -> None:
    """2,000 queries at σ = 40, δ = 1e-5: λ/σ² per query and min λk/σ² + log(1/δ)/(λ - 1) are known to give 8.84.

    dp-accounting converts more tightly. With the multiplier σ, a move by 1, it would give 5.4, which is too small.
    """
    by_orders = epsilon_by_rdp(2000, Gaussian(40.0), 1e-5).epsilon
    assert epsilon(2000, Gaussian(40.0), 1e-5).epsilon < by_orders < 8.84


def test_two_laplace_mechanisms_are_closer_than_the_worst_pure_one_and_never_above_it() -> None:
    k, delta = 200, 1e-6
    laplace, pure = epsilon(k, Laplace(50.0), delta).epsilon, epsilon(k, Exponential(50.0), delta).epsilon
    assert laplace < 0.8 * pure
    assert pure < k * pure_epsilon(Gumbel(50.0))


def test_delta_zero_adds_pure_epsilons() -> None:
    assert epsilon(10, Laplace(20.0), 0).epsilon == pytest.approx(1.0)
    assert epsilon(10, Laplace(20.0), 0, threshold=Threshold(5, Laplace(10.0))).epsilon == pytest.approx(2.0)
    with pytest.raises(CannotMeasure, match="δ > 0"):
        epsilon(10, Gaussian(20.0), 0)
    with pytest.raises(CannotMeasure, match="δ > 0"):
        epsilon(10, Laplace(20.0), 0, threshold=Threshold(5, Gaussian(10.0)))


@pytest.mark.parametrize("noise", [Laplace(20.0), Gaussian(30.0), Exponential(20.0)], ids=repr)
@pytest.mark.parametrize("threshold_noise", [None, Laplace(15.0), Gaussian(25.0)], ids=repr)
def test_the_event_reads_under_replace_one_as_the_figure_does(noise: Density, threshold_noise: Density | None) -> None:
    """The same number from the accountant's events: equal for Gaussians, not smaller for the others."""
    threshold = None if threshold_noise is None else Threshold(6, threshold_noise)
    by_event = event_dose(30, noise, threshold=threshold).epsilon(1e-5)
    figure = epsilon(30, noise, 1e-5, threshold=threshold).epsilon
    assert by_event >= figure * (1 - 1e-3)
    if isinstance(noise, Gaussian) and not isinstance(threshold_noise, Laplace):
        assert by_event == pytest.approx(figure, rel=5e-3)
    both = event_dose(30, noise, threshold=threshold) + event_dose(30, noise, threshold=threshold)
    assert both.epsilon(1e-5) > by_event


@pytest.mark.parametrize("threshold_noise", [None, Gaussian(25.0)], ids=repr)
def test_the_gaussian_event_of_several_votes_reads_as_the_figure_does(threshold_noise: Density | None) -> None:
    """Written for one vote instead of three: 71 % less; with the threshold 34 % (labels) or 23 % (threshold) less."""
    threshold = None if threshold_noise is None else Threshold(6, threshold_noise)
    by_event = event_dose(30, Gaussian(30.0), threshold=threshold, shift=3).epsilon(1e-5)
    assert by_event == pytest.approx(epsilon(30, Gaussian(30.0), 1e-5, threshold=threshold, shift=3).epsilon, rel=5e-3)


@pytest.mark.parametrize("threshold_noise", [None, Laplace(15.0), Gaussian(25.0)], ids=repr)
@pytest.mark.parametrize("noise", [Laplace(20.0), LogisticNoise(20.0)], ids=repr)
def test_the_other_events_of_several_votes_are_not_below_the_figure(
    noise: Density, threshold_noise: Density | None
) -> None:
    threshold = None if threshold_noise is None else Threshold(6, threshold_noise)
    by_event = event_dose(30, noise, threshold=threshold, shift=3).epsilon(1e-5)
    assert by_event >= epsilon(30, noise, 1e-5, threshold=threshold, shift=3).epsilon * (1 - 1e-3)


@pytest.mark.parametrize("noise", [Laplace(20.0), Gaussian(30.0), LogisticNoise(20.0)], ids=repr)
def test_votes_held_together_cost_as_one_vote_at_that_fraction_of_the_scale(noise: Density) -> None:
    together = epsilon(5, noise, 1e-5, shift=4).epsilon
    assert together == pytest.approx(epsilon(5, noise.with_scale(noise.scale / 4), 1e-5).epsilon, rel=1e-6)


def test_the_figure_says_what_it_is() -> None:
    figure = epsilon(3, Laplace(20.0), 1e-5)
    assert (figure.adjacency, figure.standing) == ("replace-one", Standing.UPPER_BOUND)
    assert "one teacher's partition replaced" in repr(figure)
    assert "upper bound" in repr(figure)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2, float("nan"), True, "1e-5"])
def test_bad_deltas_are_refused(delta: object) -> None:
    with pytest.raises(Refusal, match="delta"):
        epsilon(3, Laplace(20.0), delta)  # type: ignore[arg-type]


def test_noise_without_an_epsilon_is_refused() -> None:
    with pytest.raises(CannotMeasure):
        epsilon(3, no_noise, 1e-5)  # type: ignore[arg-type]
    with pytest.raises(CannotMeasure, match="no pure"):
        pure_epsilon(Gaussian(1.0))
    with pytest.raises(CannotMeasure, match="Gaussian"):
        epsilon_by_rdp(3, Laplace(1.0), 1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [1e-5, 1e-18, 1e-30])
@pytest.mark.parametrize("noise", [Laplace(0.001), Laplace(10.0), Gumbel(10.0)])
def test_epsilon_is_never_above_the_pure_one(noise: Density, delta: float) -> None:
    """Almost no noise, or a δ below what a grid of losses leaves out, must not give an infinite ε."""
    assert epsilon(8, noise, delta).epsilon <= 8 * 2 / noise.scale
    threshold = Threshold(5.0, Laplace(0.002))
    assert epsilon(8, noise, delta, threshold=threshold).epsilon <= 8 * (2 / noise.scale + 1 / 0.002) * (1 + 1e-12)


def test_losses_beyond_float64_are_unbounded_and_no_error() -> None:
    assert epsilon(50, Laplace(10.0), 1e-5, threshold=Threshold(5.0, Gaussian(1e-6))).epsilon == math.inf
    assert event_dose(1, Laplace(0.001)).event.events[0].events[0].noise_parameter == 0


@pytest.mark.parametrize("delta", [0.0, 1.0, 2.0, -0.1, math.nan, True])
def test_renyi_orders_take_a_delta_between_0_and_1(delta: float) -> None:
    with pytest.raises(Refusal, match="delta"):
        epsilon_by_rdp(5, Gaussian(1.0), delta)


@pytest.mark.parametrize("noise", [*PURE, Gaussian(2.0)], ids=repr)
@pytest.mark.parametrize("threshold", [None, Threshold(3, Laplace(1.5)), Threshold(3, Gaussian(2.5))], ids=repr)
def test_rényi_orders_cover_the_exact_loss_of_the_channel_and_what_the_distributions_say(
    noise: Density, threshold: Threshold | None
) -> None:
    """They stand in for the distributions of very many queries; here both are known."""
    for delta in (1e-2, 1e-5):
        by_orders = _by_orders(noise, threshold, 3, 1, delta)
        exact = max(delta_at(several(P, 3), several(Q, 3), by_orders) for P, Q in pairs(noise, threshold))
        assert exact <= delta * (1 + 1e-9)
    k = 2000
    loose, tight = _by_orders(noise, threshold, k, 1, 1e-5), _by_losses(_parts(noise, threshold, k, 1), 1e-5)
    assert loose >= tight * 0.999 or type(noise) is Gumbel  # whose bounded range the distributions do not know
    assert loose <= 2 * tight


@pytest.mark.parametrize("noise", [Laplace(1000.0), Gumbel(1000.0), Exponential(1000.0), Gaussian(1000.0)], ids=repr)
def test_a_hundred_million_queries_have_an_epsilon(noise: Density) -> None:
    """At least the mean of the loss, by the central limit; at most adding up."""
    k = 10**8
    guarantee = epsilon(k, noise, 1e-5)
    # k replaced votes with Gaussian noise have exactly the loss N(k/σ², 2k/σ²); other laws have no smaller ε here.
    assert 50 < guarantee.epsilon < 2 * k / 1000
    assert guarantee.epsilon < 400
