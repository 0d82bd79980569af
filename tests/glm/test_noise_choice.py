"""The cheapest noise against Monte Carlo of the objective; held-out scores against refits and simulated releases."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.glm.releases import noise_choice
from dosimeter.glm.releases.choice_sample import ChoiceSample, sample_rows
from dosimeter.glm.releases.cross_validation import cross_validate, fold_of
from dosimeter.glm.releases.noise_choice import CHOSEN, EQUALISED, ISOTROPIC, SHAPED, choose, expected_loss_increase

RNG = np.random.default_rng(3)
N, D = 120, 3
X = RNG.normal(size=(N, D)) * np.array([1.0, 1.0, 0.2])
X[:, 1] += 0.9 * X[:, 0]
SCORE = X @ np.array([1.0, -0.5, 2.0]) + 0.7 * RNG.normal(size=N)
TARGETS = {
    "squared": (glm.Squared(), SCORE),
    "logistic": (glm.Logistic(), (SCORE > 0).astype(float)),
    "poisson": (glm.Poisson(), RNG.poisson(np.exp(SCORE / 3)).astype(float)),
}
L2 = 0.01


def objective(loss, y, w):
    m = X @ w[:-1] + w[-1]
    return float(np.sum(loss.value(m, y)) + N * L2 / 2 * w[:-1] @ w[:-1])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("options", [{}, {"reweighting_rounds": 2}, {"noise_shape": "hessian"}])
def test_the_expected_loss_is_the_mean_of_simulated_releases(name, options):
    loss, y = TARGETS[name]
    if "noise_shape" in options and name != "squared":
        return
    best = glm.fit(X, y, loss, L2, intercept=True)
    # Small noise: for losses other than the squared the rule is of second order.
    planned = glm.plan(X, y, loss, L2, scale=0.02, intercept=True, **options)
    rng = np.random.default_rng(0)
    if isinstance(planned.noise, CorrelatedGaussian):
        draws = rng.multivariate_normal(np.zeros(D + 1), planned.noise.covariance, 4000)
    else:
        draws = 0.02 * rng.normal(size=(4000, D + 1))
    # Antithetic pairs: the linear term, which dominates the spread of a reweighted fit, cancels exactly.
    values = [[objective(loss, y, planned.fit.w + s * b) for s in (1, -1)] for b in draws]
    means = np.array([sum(pair) / 2 for pair in values]) - objective(loss, y, best.w)
    error = means.std() / np.sqrt(len(means))
    assert abs(expected_loss_increase(planned, best, X) * N - means.mean()) <= 4 * error + 2e-3 * abs(means.mean())


@pytest.mark.parametrize("name", TARGETS)
def test_the_least_expected_loss_is_chosen_and_stated(name):
    loss, y = TARGETS[name]
    choice = choose(X, y, loss, L2, 2.0, intercept=True)
    assert choice.plan.highest <= 2.0
    assert choice.loss_increases[choice.kind] == min(choice.loss_increases.values())
    assert CHOSEN in choice.plan.not_covered
    assert (SHAPED in choice.loss_increases) is (name == "squared")
    assert (SHAPED in choice.not_tried) is (name != "squared")
    for kind in choice.loss_increases:
        forced = {ISOTROPIC: {}, SHAPED: {"noise_shape": "hessian"}, EQUALISED: {"reweighting_rounds": 3}}[kind]
        alone = glm.plan(X, y, loss, L2, max_dose=2.0, intercept=True, **forced)
        assert expected_loss_increase(alone, glm.fit(X, y, loss, L2, intercept=True), X) == pytest.approx(
            choice.loss_increases[kind], rel=1e-9
        )
    looser = choice.route(4.0, None)
    assert looser.settings["scale"] < choice.plan.settings["scale"]


def test_a_law_without_a_shape_leaves_it_out():
    loss, y = TARGETS["squared"]
    assert SHAPED in choose(X, y, loss, L2, 2.0, law=dm.Laplace, intercept=True).not_tried


def test_the_rows_of_a_person_are_left_out_together():
    owners = [f"p{i // 3}" for i in range(N)]
    fold = fold_of(N, owners)
    assert sorted(set(fold.tolist())) == [0, 1, 2, 3, 4]
    assert all(len({int(fold[i]) for i in range(N) if owners[i] == p}) == 1 for p in set(owners))
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 3
    with pytest.raises(Refusal, match="at least two people"):
        fold_of(4, ["a"] * 4)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", [ISOTROPIC, SHAPED, EQUALISED])
def test_the_expected_score_is_that_of_simulated_releases_on_rows_left_out(name, kind):
    if kind == SHAPED and name != "squared":
        return
    loss, y = TARGETS[name]
    expected = cross_validate(X, y, loss, lambda n: L2, kind=kind, rounds=2)
    fold, scale, rng = fold_of(N, None), 0.15, np.random.default_rng(1)
    scores = []
    margins = np.zeros((4000, N))
    for k in range(5):
        out, into = fold == k, fold != k
        if kind == EQUALISED:
            fit = glm.irfil(X[into], y[into], loss, L2, rounds=2, tolerance=0.0, intercept=True).fit
        else:
            fit = glm.fit(X[into], y[into], loss, L2, intercept=True)
        draws = rng.normal(size=(4000, D + 1))
        if kind == SHAPED:
            design = np.column_stack([X[into], np.ones(into.sum())])
            H = design.T @ design + into.sum() * L2 * np.diag([1.0] * D + [0.0])
            draws = draws @ np.linalg.cholesky(np.linalg.inv(H)).T
        w = fit.w + scale * draws
        margins[:, out] = w[:, :-1] @ X[out].T + w[:, -1:]
    for m in margins:
        if name == "squared":
            scores.append(1 - np.sum((y - m) ** 2) / np.sum((y - y.mean()) ** 2))
        elif name == "logistic":
            scores.append(np.mean((m > 0) == (y > 0.5)))
        else:
            from sklearn.metrics import d2_tweedie_score

            scores.append(d2_tweedie_score(y, np.exp(m), power=1))
    error = np.std(scores) / np.sqrt(len(scores))
    assert abs(expected.score(scale) - np.mean(scores)) < 4 * error
    if name == "squared":  # the effect is strong enough for 120 rows
        assert expected.score(0.0) > expected.base
    assert expected.score(1e3) < expected.base


def test_a_coin_does_not_beat_even_classes():
    """Learned on the folds, the larger class of the others is the smaller one here, and a coin would look good."""
    loss, even = glm.Logistic(), np.arange(N) % 2.0
    scores = cross_validate(X, even, loss, lambda n: L2, kind=ISOTROPIC)
    assert scores.base == 0.5
    assert scores.score(1e6) == pytest.approx(0.5, abs=1e-3)
    assert cross_validate(X, TARGETS["squared"][1], glm.Squared(), lambda n: L2, kind=ISOTROPIC).base == 0.0


def test_a_law_without_a_formula_is_simulated():
    loss, y = TARGETS["logistic"]
    scores = cross_validate(X, y, loss, lambda n: L2, kind=ISOTROPIC)
    exact = scores.score(0.5)
    # Laplace noise of the same variance moves a margin of four weights similarly.
    assert scores.score(0.5 / np.sqrt(2), dm.Laplace) == pytest.approx(exact, abs=0.05)


def large_table(kind, n=3000, seed=0):
    """Tables on which each kind is the cheapest."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 4))
    if kind == SHAPED:
        table[:, 1] += 3 * table[:, 0]
        table[:, 3] *= 0.05
    if kind == EQUALISED:
        table *= np.where(rng.random(n) < 0.05, 5.0, 1.0)[:, None]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    y = table @ np.array([1.0, -1.0, 0.5, 0.2]) + rng.normal(size=n)
    return table, y, {"intercept": True, "scaled": np.ones(4, dtype=bool)}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", [ISOTROPIC, SHAPED, EQUALISED])
def test_on_a_large_table_a_sample_finds_the_kind_that_the_whole_table_would(kind, seed, monkeypatch):
    table, y, options = large_table(kind, seed=seed)
    whole = choose(table, y, glm.Squared(), 1e-3, 0.05, **options)
    for limit in noise_choice.WORK:
        monkeypatch.setitem(noise_choice.WORK, limit, noise_choice._work(limit, (600, 4), 3, False))
    sampled = choose(table, y, glm.Squared(), 1e-3, 0.05, **options)
    assert sampled.plan.highest <= 0.05
    best = min(whole.loss_increases.values())
    assert sampled.loss_increases[sampled.kind] == pytest.approx(best, rel=1e-9)
    # What was tried on the whole table has the same exact cost, and nothing that was tried is cheaper.
    for tried, cost in sampled.loss_increases.items():
        assert cost == pytest.approx(whole.loss_increases[tried], rel=1e-9)
    assert sampled.loss_increases[sampled.kind] == min(sampled.loss_increases.values())
    assert all("on a sample of 600 rows it costs more" in reason for reason in sampled.not_tried.values())
    assert sampled.not_tried or kind != SHAPED


def test_a_kind_that_is_too_slow_even_so_is_not_tried(monkeypatch):
    table, y, options = large_table(EQUALISED)
    for limit in noise_choice.WORK:
        monkeypatch.setitem(noise_choice.WORK, limit, noise_choice._work(limit, (600, 4), 3, False))
        monkeypatch.setitem(noise_choice.MOST, limit, 1.0)
    assert set(choose(table, y, glm.Squared(), 1e-3, 0.05, **options).not_tried.values()) == {noise_choice.SLOW}
    monkeypatch.undo()
    for limit in noise_choice.WORK:
        monkeypatch.setitem(noise_choice.WORK, limit, 1.0)
    assert set(choose(table, y, glm.Squared(), 1e-3, 0.05, **options).not_tried.values()) == {noise_choice.SLOW}


def test_a_sample_is_drawn_by_positions_and_persons_alone():
    owners = [f"p{k // 3}" for k in range(300)]
    rows = sample_rows(300, owners, 60)
    assert rows.tolist() == sample_rows(300, [f"other-{k // 3}" for k in range(300)], 60).tolist()
    assert len(rows) == 60
    assert all(3 * (row // 3) + i in rows for row in rows.tolist() for i in range(3))
    assert len(sample_rows(1000, None, 77)) == 77
    assert len(sample_rows(10, ["one"] * 10, 3)) == 10
    table, y, options = large_table(SHAPED, n=200)
    weight, known = np.arange(200.0) + 1, np.zeros((200, 4), dtype=bool)
    sample = ChoiceSample.of(table, y, options | {"groups": [k // 2 for k in range(200)], "sample_weight": weight,
                                                  "known": known}, 50)  # fmt: skip
    chosen = sample_rows(200, [k // 2 for k in range(200)], 50)
    np.testing.assert_array_equal(sample.y, y[chosen])
    np.testing.assert_array_equal(sample.options["sample_weight"], weight[chosen])
    np.testing.assert_allclose(sample.X.std(axis=0), 1.0, rtol=1e-12)
    # A unit of an unknown is the same move of the raw column.
    np.testing.assert_allclose(
        np.diagonal(sample.options["input_map"]) * table[chosen].std(axis=0), np.ones(4), rtol=1e-12
    )
    assert sample.growth == 4.0


def test_a_table_whose_sample_says_nothing_is_released_all_the_same(monkeypatch):
    table, y, options = large_table(SHAPED, n=400)
    table[:, 2] = 0.0
    table[sorted(set(range(400)) - set(sample_rows(400, None, 100).tolist()))[0], 2] = 1.0
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    for limit in noise_choice.WORK:
        monkeypatch.setitem(noise_choice.WORK, limit, noise_choice._work(limit, (100, 4), 3, False))
    choice = choose(table, y, glm.Squared(), 1e-2, 1.0, **options)
    assert choice.kind == ISOTROPIC
    assert all("a sample of the rows does not tell" in reason for reason in choice.not_tried.values())
