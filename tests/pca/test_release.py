"""The private second moment: the law of its noise, its true cost, and unusual tables."""

from __future__ import annotations

import copy
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import dosimeter as dm
from dosimeter.core.engine import LocalEngine
from dosimeter.core.notion import Standing
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.components import second_moment
from dosimeter.pca.mechanism import true_sensitivity
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace
from dosimeter.pca.published_mechanisms import AnalyzeGauss, LaplaceAdvanced, LaplaceScalar, LaplaceVector
from dosimeter.pca.release import release
from dosimeter.pca.sensitivity import NEIGHBOURS

PUBLISHED = [LaplaceScalar(1.0), LaplaceVector(1.0), LaplaceAdvanced(1.0, 1e-3), AnalyzeGauss(0.9, 1e-3)]
SOUND = [
    make
    for neighbours in NEIGHBOURS
    for make in (
        AnalyticGaussian(1.0, 1e-3, neighbours),
        LaplaceJoint(1.0, neighbours),
        LaplaceSplit(1.0, 1e-3, neighbours),
        LaplaceSplit(1.0, 0.0, neighbours),
        PLDLaplace(1.0, 1e-3, neighbours),
    )
]
WIDTHS = np.geomspace(0.1, 10.0, 40)
BOX = Bounds(-WIDTHS, WIDTHS)
ROWS = 60
X = np.random.default_rng(0).uniform(-1.2, 1.2, size=(ROWS, 40)) * WIDTHS


def release_within_norm(mechanism, rows=X, **options):
    N = len(rows) if mechanism.relation == "add-or-remove-one" else None
    return release(rows, mechanism, **{"bounds": BOX, "n_samples": N, **options})


def noise_in_units(mechanism, releases, rng):
    """Noise over its scale, entry by entry of the lower triangle, from many releases of one table."""
    lower = np.tril_indices(40)
    A = second_moment(BOX.over(40).clip(X).rows)
    private_releases = [release_within_norm(mechanism, rng=rng) for _ in range(releases)]
    return np.concatenate([((m.second_moment - A) / m.scales)[lower] for m in private_releases])


def scale_error(units, law):
    """How far the mean of |x| is from that of the law, in its standard errors: sharper on a scale than the cdf is."""
    mean, square = (integrate.quad(lambda x, k=k: 2 * x**k * float(law.pdf(x)), 0, 50)[0] for k in (1, 2))
    return (np.abs(units).mean() - mean) * math.sqrt(units.size / (square - mean**2))


@pytest.mark.parametrize("mechanism", PUBLISHED + SOUND[:5], ids=repr)
def test_the_noise_has_its_law_and_its_scale_and_a_scale_five_percent_off_is_rejected(mechanism):
    units = noise_in_units(mechanism, 60, np.random.default_rng(7))  # 49,200 draws
    law = mechanism.law(1.0)
    assert stats.kstest(units, law.cdf).pvalue > 1e-6  # wrong once in a million
    assert abs(scale_error(units, law)) < 5
    for wrong in (0.95, 1.05):
        assert abs(scale_error(units / wrong, law)) > 6
    other = dm.Laplace(1.0) if isinstance(law, dm.Gaussian) else dm.Gaussian(1.0)
    assert stats.kstest(units, other.cdf).pvalue < 1e-6


def test_the_noise_of_a_release_from_the_operating_system_has_the_same_law():
    units = noise_in_units(AnalyticGaussian(1.0, 1e-3), 60, None)  # 49,200 draws
    assert stats.kstest(units, dm.Gaussian(1.0).cdf).pvalue > 1e-11
    assert abs(scale_error(units, dm.Gaussian(1.0))) < 7


def test_entries_are_independent_but_for_the_mirror():
    mechanism, rng = LaplaceJoint(1.0), np.random.default_rng(3)
    small = X[:, :3]
    box = Bounds(-WIDTHS[:3], WIDTHS[:3])
    drawn = [release(small, mechanism, bounds=box, rng=rng).second_moment for _ in range(1000)]
    for S in drawn[:50]:
        np.testing.assert_array_equal(S, S.T)
    entries = np.array([S[np.tril_indices(3)] for S in drawn])
    correlation = np.corrcoef(entries.T)[np.tril_indices(6, -1)]
    assert np.abs(correlation).max() < 5.5 / math.sqrt(1000)  # 15 of them: wrong once in 1.7 million


@pytest.mark.parametrize("mechanism", PUBLISHED + SOUND, ids=repr)
def test_a_neighbour_gets_the_same_noise_and_the_difference_is_the_row(mechanism):
    """The same random bits on two neighbouring tables: any difference beyond the row would be an undeclared leak."""
    changed = X.copy()
    changed[7] = -X[7]
    changed[7, 3] = 50.0  # beyond its bound
    other = changed if mechanism.relation == "replace-one" else np.delete(X, 7, axis=0)
    first, second = (
        release(rows, mechanism, bounds=BOX, n_samples=ROWS, rng=np.random.default_rng(5)) for rows in (X, other)
    )
    np.testing.assert_array_equal(first.scales, second.scales)
    assert first.release.recipe == second.release.recipe
    assert first.remarks == second.remarks
    box = BOX.over(40)
    moved = (second_moment(box.clip(rows).rows, n=ROWS) for rows in (X, other))
    expected = next(moved) - next(moved)
    error = (first.second_moment - second.second_moment - expected) / first.scales
    assert np.abs(error).max() <= 2.0**-16 * 1.001  # one step of the grid
    move = ((first.second_moment - second.second_moment) * ROWS)[np.tril_indices(40)]
    assert np.abs(move).max() > 0
    assert np.linalg.norm(expected[np.tril_indices(40)] * ROWS) <= true_sensitivity(mechanism, box, ROWS).l2


@pytest.mark.parametrize("mechanism", SOUND, ids=repr)
@pytest.mark.parametrize(
    "bounds", [Bounds(-1.0, 1.0), Bounds(5.0, 6.0, centre=0.0), Bounds(row_norm=2.0), Bounds(-1.0, 1.0, row_norm=1.0)]
)
def test_sound_mechanisms_keep_their_budget_and_do_not_waste_it(mechanism, bounds):
    rows = np.random.default_rng(1).uniform(-1, 1, size=(ROWS, 6))
    private_pca = release_within_norm(mechanism, rows, bounds=bounds)
    assert private_pca.holds
    assert private_pca.standing is Standing.UPPER_BOUND
    assert private_pca.epsilon() <= 1.0 + 1e-9
    if not isinstance(mechanism, LaplaceSplit):  # which overpays for a loose theorem
        assert private_pca.epsilon() > 0.999


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_gaussian_budget_is_exact_by_quadrature_at_the_worst_pair(neighbours):
    C, N, epsilon, delta = 2.0, 50, 1.5, 1e-4
    sigma = AnalyticGaussian(epsilon, delta, neighbours).scales(Bounds(row_norm=C).over(3), N)[0, 0]
    # The worst pair by hand: C e₁ against nothing, or against C e₂.
    shift = C**2 / N * (math.sqrt(2) if neighbours == "replace-one" else 1.0) / sigma
    with mpmath.workdps(30):

        def gap(x):
            return mpmath.npdf(x, shift, 1) - mpmath.exp(epsilon) * mpmath.npdf(x, 0, 1)

        crossing = epsilon / shift + shift / 2
        real = mpmath.quad(gap, [crossing, crossing + 2, crossing + 8, mpmath.inf])
    assert real == pytest.approx(delta, rel=1e-6)
    assert real <= delta


@pytest.mark.parametrize("mechanism", [LaplaceJoint(0.8), LaplaceSplit(0.8)], ids=repr)
def test_pure_privacy_holds_for_densities_at_corner_pairs(mechanism):
    box, N = Bounds(-1.0, 1.0).over(3), 20
    b = mechanism.scales(box, N)[np.tril_indices(3)]
    corners = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, -1).T
    each = np.einsum("ni,nj->nij", corners, corners)[:, *np.tril_indices(3)] / N
    shifts = (each[:, None] - each[None]).reshape(-1, 6)
    # The log ratio of two Laplace densities is at most Σ |shift|/b, and equals it on one side of both.
    assert (np.abs(shifts) / b).sum(axis=1).max() <= 0.8


@pytest.mark.parametrize("mechanism", [PLDLaplace(1.0, 1e-2), PLDLaplace(1.0, 1e-2, "add-or-remove-one")])
def test_the_budget_by_accounting_holds_for_simulated_losses_at_the_worst_row(mechanism):
    box, N, draws = Bounds(-1.0, 1.0).over(4), 20, 400_000
    lower = np.tril_indices(4)
    b = mechanism.scales(box, N)[lower]
    # More than any pair can do: every entry moves by its full sensitivity at once.
    shift = true_sensitivity(mechanism, box, 0 + N).entries[lower] / N
    x = np.random.default_rng(0).laplace(size=(draws, len(b)))
    losses = (np.abs(x - shift / b) - np.abs(x)).sum(axis=1)

    def delta_at(epsilon):
        terms = np.maximum(-np.expm1(epsilon - losses), 0.0)
        return terms.mean(), terms.std() / math.sqrt(draws)

    real, error = delta_at(1.0)
    assert real <= 1e-2 + 5 * error
    short, error = delta_at(0.95)
    assert short > 1e-2 + 5 * error


@pytest.mark.parametrize("mechanism", [m for m in PUBLISHED + SOUND if m.relation == "add-or-remove-one"], ids=repr)
def test_dp_accounting_gives_the_event_of_the_dose_the_same_cost(mechanism):
    rows = np.random.default_rng(1).uniform(-1, 1, size=(ROWS, 6))
    private_pca = release_within_norm(mechanism, rows, bounds=Bounds(-1.0, 1.0))
    assert private_pca.dose.adjacency == mechanism.relation
    assert private_pca.dose.epsilon(1e-3) == pytest.approx(private_pca.epsilon(1e-3), rel=2e-3)


def test_dp_accounting_gives_the_gaussian_event_of_a_replaced_row_the_same_cost():
    for mechanism in (AnalyticGaussian(1.0, 1e-3), AnalyzeGauss(0.9, 1e-3)):
        private_pca = release_within_norm(mechanism)
        assert private_pca.dose.epsilon(1e-3) == pytest.approx(private_pca.epsilon(1e-3), rel=2e-3)


@pytest.mark.parametrize("bounds", [Bounds(-1.0, 1.0), Bounds(row_norm=1.0)])
def test_the_event_is_as_good_as_the_cost_at_the_budget(bounds):
    rows = np.random.default_rng(1).uniform(-1, 1, size=(ROWS, 12))
    for mechanism in (PLDLaplace(1.0, 1e-3, "add-or-remove-one"), LaplaceJoint(1.0, "add-or-remove-one")):
        private_pca = release_within_norm(mechanism, rows, bounds=bounds)
        assert private_pca.dose.epsilon(1e-3) <= 1.002


def test_accounting_uses_one_joint_query_if_that_is_less_noise():
    box = Bounds(row_norm=1.0).over(30)
    priced, joint = PLDLaplace(1.0, 1e-6).scales(box, 100), LaplaceJoint(1.0).scales(box, 100)
    assert (priced <= joint).all()
    assert np.ptp(priced) == 0


def test_less_noise_never_costs_less():
    costs = [release_within_norm(AnalyticGaussian(e, 1e-4)).epsilon(1e-6) for e in (0.1, 0.5, 2.0, 10.0)]
    assert costs == sorted(costs)
    scales = [release_within_norm(PLDLaplace(e, 1e-4)).scales[0, 0] for e in (0.1, 0.5, 2.0, 10.0)]
    assert scales == sorted(scales, reverse=True)


def test_the_best_split_is_never_noisier_than_either_composition_and_accounting_never_noisier_than_it():
    box = Bounds(-1.0, 1.0).over(14)
    for epsilon in (0.1, 1.0, 51.0, 52.0, 1e3):
        naive = LaplaceSplit(epsilon).scales(box, 100)
        split = LaplaceSplit(epsilon, 1e-3).scales(box, 100)
        priced = PLDLaplace(epsilon, 1e-3).scales(box, 100)
        assert (split <= naive).all()
        assert (priced <= split * (1 + 1e-12)).all()


def test_a_row_norm_makes_the_joint_query_half_a_d_times_quieter_than_one_query_per_entry():
    box, d = Bounds(row_norm=1.0).over(20), 20
    joint, split = LaplaceJoint(1.0, "add-or-remove-one"), LaplaceSplit(1.0, 0.0, "add-or-remove-one")
    ratio = split.scales(box, 100)[1, 0] / joint.scales(box, 100)[1, 0]
    assert ratio == pytest.approx(d / 2, rel=1e-9)


def test_a_published_mechanism_says_what_its_claim_is_worth():
    private_pca = release(X, AnalyzeGauss(10.0, 1e-3), bounds=Bounds(row_norm=1.0))
    assert not private_pca.holds
    assert private_pca.epsilon() > 10.0
    assert any("is not proved" in remark for remark in private_pca.remarks)
    assert any("√2/N" in remark for remark in private_pca.remarks)
    quiet = release(X, LaplaceScalar(1.0), bounds=BOX)
    assert quiet.holds
    assert quiet.epsilon() < 1.0  # Λ_iΛ_j is twice the most a centred entry can move, and four times on the diagonal


def test_the_published_scale_away_from_zero_is_caught():
    private_pca = release(np.full((30, 2), 5.5), LaplaceScalar(1.0), bounds=Bounds(5.0, 6.0, centre=0.0))
    assert private_pca.epsilon() == pytest.approx((2 * 11 + 11) / 3, rel=1e-6)
    assert not private_pca.holds


def test_a_published_column_without_width_gets_no_noise_and_no_claim():
    flat = Bounds([1.0, 0.0], [1.0, 1.0], centre=0.0)
    private_pca = release(np.tile([1.0, 0.3], (10, 1)), LaplaceScalar(1.0), bounds=flat)
    assert private_pca.epsilon() == math.inf
    assert not private_pca.holds
    assert private_pca.dose.epsilon(1e-3) == math.inf


def test_without_bounds_nothing_is_released_and_with_private_false_it_says_so():
    with pytest.raises(dm.Refusal, match="private=False"):
        release(X, AnalyticGaussian(1.0, 1e-3))
    private_pca = release(X, AnalyticGaussian(1.0, 1e-3), private=False)
    assert private_pca.standing is Standing.UNACCOUNTED
    assert not private_pca.holds
    for text in (repr(private_pca), repr(private_pca.release), " ".join(private_pca.remarks)):
        assert "not private" in text


def test_the_number_of_rows_is_public_only_where_it_cannot_differ():
    hidden = AnalyticGaussian(1.0, 1e-3, "add-or-remove-one")
    with pytest.raises(dm.Refusal, match="n_samples"):
        release(X, hidden, bounds=BOX)
    assert release(X, hidden, bounds=BOX, n_samples=50).n_samples == 50
    with pytest.raises(dm.Refusal, match="twice"):
        release(X, hidden, bounds=BOX, n_samples=29)
    loud = release(X, hidden, bounds=BOX, private=False)
    assert loud.standing is Standing.UNACCOUNTED
    with pytest.raises(dm.Refusal, match="60 rows"):
        release(X, AnalyticGaussian(1.0, 1e-3), bounds=BOX, n_samples=61)


@pytest.mark.parametrize("mechanism", PUBLISHED + SOUND, ids=repr)
def test_unusual_tables_give_finite_components(mechanism):
    rng = np.random.default_rng(0)
    thin = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    constant = thin.copy()
    constant[:, 2] = 3.0
    for rows in (thin, constant, thin[:3], np.zeros((5, 6)), np.full((4, 6), 2.0), thin[:, :1], thin[:1]):
        private_pca = release_within_norm(mechanism, rows, bounds=Bounds(-4.0, 4.0))
        V = private_pca.components.vectors
        np.testing.assert_allclose(V.T @ V, np.eye(len(V)), atol=1e-12)
        assert (private_pca.components.values >= 0).all()


def test_a_column_that_cannot_vary_is_named_and_stays_zero_with_one_query_per_entry():
    rows = np.random.default_rng(0).uniform(size=(30, 3))
    private_pca = release(rows, LaplaceSplit(1.0), bounds=Bounds([0.0, 0.5, 0.0], [1.0, 0.5, 1.0]))
    assert (private_pca.second_moment[1] == 0).all()
    assert any("columns 1 cannot vary" in remark for remark in private_pca.remarks)
    assert private_pca.components.rank == 2


def test_fewer_rows_than_columns_are_reported():
    few = release(X[:5], AnalyticGaussian(1.0, 1e-3), bounds=BOX)
    assert any("5 rows have at most that many directions" in remark for remark in few.remarks)
    assert not any("directions" in remark for remark in release_within_norm(AnalyticGaussian(1.0, 1e-3)).remarks)


def test_bounds_smaller_than_the_data_clip_and_the_share_is_internal():
    private_pca = release(10 * X, AnalyticGaussian(1e6, 1e-3), bounds=BOX)
    assert private_pca.clipped_share == 1.0
    assert (np.diag(private_pca.second_moment) <= WIDTHS**2 + 7.5 * private_pca.scales[0, 0]).all()
    assert second_moment(10 * X)[39, 39] > WIDTHS[39] ** 2 + 100 * private_pca.scales[0, 0]


def test_a_missing_value_is_refused_with_its_cell():
    holed = X.copy()
    holed[11, 2] = np.nan
    with pytest.raises(dm.Refusal, match=r"X\[11, 2\]"):
        release(holed, AnalyticGaussian(1.0, 1e-3), bounds=BOX)


@pytest.mark.parametrize("rows", [np.zeros((0, 3)), np.zeros(3), [["a", "b"]]], ids=["empty", "flat", "text"])
def test_anything_but_a_table_is_refused(rows):
    with pytest.raises(dm.Refusal):
        release(rows, AnalyticGaussian(1.0, 1e-3), bounds=Bounds(0.0, 1.0))


@pytest.mark.parametrize("epsilon", [1e5, 1e7])
def test_budgets_as_wide_as_the_papers_are_drawn_on_a_coarser_public_grid(epsilon):
    many = np.random.default_rng(0).uniform(0, 1, size=(20_000, 4))
    for mechanism in (LaplaceScalar(epsilon), AnalyticGaussian(min(epsilon, 1e6), 1e-3), LaplaceJoint(epsilon)):
        private_pca = release(many, mechanism, bounds=Bounds(0.0, 1.0))
        A = second_moment(many - 0.5)
        assert np.abs(private_pca.second_moment - A).max() < 40 * private_pca.scales.max() + 1e-9


def test_the_release_goes_through_copies_and_names_its_public_constants():
    public_release = copy.deepcopy(release_within_norm(AnalyticGaussian(1.0, 1e-3)).release)
    settings = dict(public_release.recipe.settings)
    assert settings["mechanism"] == "AnalyticGaussian"
    assert (settings["epsilon"], settings["delta"], settings["neighbours"]) == (1.0, 1e-3, "replace-one")
    assert set(public_release.values) == {"second_moment", "centre", "lower", "upper"}


def test_blocks_make_no_difference(monkeypatch):
    from importlib import import_module

    private = import_module("dosimeter.pca.release")

    whole = release_within_norm(AnalyticGaussian(1.0, 1e-3), rng=np.random.default_rng(0))
    monkeypatch.setattr(private, "rows_per_block", lambda d: 7)
    parts = release_within_norm(AnalyticGaussian(1.0, 1e-3), rng=np.random.default_rng(0))
    np.testing.assert_allclose(parts.second_moment, whole.second_moment, atol=2.0**-15 * whole.scales.max())
    assert parts.clipped_share == pytest.approx(whole.clipped_share)


def test_the_engine_runs_the_sum():
    class Elsewhere(LocalEngine):
        def sum_over(self, blocks, f):
            calls.append(type(self).__name__)
            return super().sum_over(blocks, f)

    calls: list[str] = []
    there = release_within_norm(AnalyticGaussian(1.0, 1e-3), rng=np.random.default_rng(0), engine=Elsewhere())
    here = release_within_norm(AnalyticGaussian(1.0, 1e-3), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(there.second_moment, here.second_moment)
    assert calls == ["Elsewhere"]


def test_a_table_that_cannot_vary_within_its_bounds_costs_nothing_under_gaussian_noise() -> None:
    private_pca = release(np.ones((4, 2)), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(1.0, 1.0))
    assert private_pca.epsilon() == 0.0
    assert private_pca.holds
    assert private_pca.dose.epsilon(1e-6) == 0.0
    assert not private_pca.second_moment.any()


def test_a_constant_column_off_the_centre_has_a_cost_and_does_not_overflow() -> None:
    X = np.random.default_rng(0).uniform(size=(50, 3))
    private_pca = release(X, LaplaceSplit(1.0, 1e-6), bounds=Bounds([0.0, 1.0, 0.0], 1.0, centre=0.0))
    assert private_pca.holds
