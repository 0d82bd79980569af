"""The frontier against releases that are drawn and scored, and against doses that are measured at each scale."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.models import accuracy_frontier as module
from dosimeter.models.accuracy_frontier import frontier
from dosimeter.models.fit_table import fit_table, score
from dosimeter.tables.table import Table

DRAWS = 4000
FAR = 5.0
"""Standard errors between a mean of DRAWS and what is claimed: missed by chance once in 1.7 million comparisons."""


def table_for(kind):
    rng = np.random.default_rng(11)
    age, bmi = rng.normal(50, 10, 150), rng.normal(25, 4, 150)
    linear = 0.05 * age - 0.1 * bmi
    noise = rng.normal(size=150)
    y = {
        "squared": linear + 0.5 * noise,
        "logistic": np.where(linear + noise > np.median(linear), "yes", "no"),
        "poisson": rng.poisson(np.exp(0.3 * linear)),
        "softmax": np.digitize(linear + noise, np.quantile(linear, [0.3, 0.7])).astype(str),
    }[kind]
    return Table.of({"age": age, "bmi": bmi, "y": list(y)})


def leak_for(kind, noise, **options):
    return fit_table(table_for(kind), "y", l2=0.05, noise=noise, loss=kind, **options).leakage


def drawn(leak, noise, rng):
    """Scores of DRAWS releases: weights noised, margins taken, scored."""
    fit, X = leak.fit, leak.design.X
    rows = np.column_stack([X, np.ones(len(X))])
    draws = noise.draw(rng, (DRAWS, *fit.w.shape))
    return np.array([score(fit.loss, rows @ (fit.w + n), fit.y)[1] for n in draws])


EXACT = [
    ("squared", dm.Gaussian, 0.1),
    ("squared", dm.Laplace, 0.1),
    ("squared", dm.LogisticNoise, 0.1),
    ("logistic", dm.Gaussian, 0.6),
    ("softmax", dm.Gaussian, 0.6),
    ("poisson", dm.Gaussian, 0.1),
]


@pytest.mark.parametrize(("kind", "law", "scale"), EXACT)
def test_the_expected_score_is_the_mean_over_releases(kind, law, scale):
    leak = leak_for(kind, law(scale))
    curves = frontier(leak, law, here=scale)
    assert curves.score_is == module.EXACT
    (step,) = [s for s in curves.isotropic if s.scale == scale]
    scores = drawn(leak, law(scale), np.random.default_rng(3))
    error = scores.std(ddof=1) / np.sqrt(DRAWS)
    assert abs(step.score - scores.mean()) < FAR * error
    # A scale that is a fifth off is distinguished, so the comparison can fail.
    wrong = drawn(leak, law(1.2 * scale), np.random.default_rng(3))
    assert abs(step.score - wrong.mean()) > FAR * error


@pytest.mark.parametrize(("kind", "law"), [("softmax", dm.Laplace), ("logistic", dm.Laplace), ("squared", dm.Gumbel)])
def test_what_has_no_closed_form_is_simulated_and_says_so(kind, law):
    leak = leak_for(kind, law(0.2))
    curves = frontier(leak, law, here=0.2)
    assert curves.score_is == f"mean over {module.TRIALS} simulated releases"
    (step,) = [s for s in curves.isotropic if s.scale == 0.2]
    scores = drawn(leak, law(0.2), np.random.default_rng(3))
    assert abs(step.score - scores.mean()) < FAR * scores.std(ddof=1) / np.sqrt(module.TRIALS)


@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace, dm.LogisticNoise])
@pytest.mark.parametrize("bounded", [True, False])
def test_doses_along_the_frontier_are_those_measured_at_each_scale(law, bounded):
    leak = leak_for("squared", law(0.3) if bounded else dm.no_noise)
    for step in frontier(leak, law).isotropic:
        again = leak_for("squared", law(step.scale)).unit_scale_eta
        assert step.highest == pytest.approx(again.max())
        assert step.typical == pytest.approx(np.median(again))


def test_shaped_noise_is_read_with_what_its_shape_leaks():
    leak = leak_for("squared", dm.Gaussian(0.3))
    curves = frontier(leak, dm.Gaussian, here=0.7, here_on="shaped")
    assert 0.7 in [s.scale for s in curves.shaped]
    fit, design = leak.fit, leak.design
    for step in curves.shaped:
        noise = glm.shape_noise(
            fit, design.X, fit.y, c=step.scale ** 2, input_map=design.constant_map * design.spread,
            target_unit=float(np.std(fit.y)), scaled=design.fitted,
        )  # fmt: skip
        assert step.highest == pytest.approx(noise.leakage.examples.max())
    H = np.column_stack([design.X, np.ones(len(design.X))])
    covariance = fit.factor.matrix @ fit.factor.matrix.T * 0.7**2
    draws = np.random.default_rng(2).multivariate_normal(np.zeros(len(fit.w)), covariance, DRAWS)
    scores = np.array([score(fit.loss, H @ (fit.w + n), fit.y)[1] for n in draws])
    (step,) = [s for s in curves.shaped if s.scale == 0.7]
    assert abs(step.score - scores.mean()) < FAR * scores.std(ddof=1) / np.sqrt(DRAWS)


def test_a_simulation_on_some_of_the_rows_says_so_and_is_near_the_one_on_all(monkeypatch):
    leak = leak_for("softmax", dm.Laplace(0.2))
    whole = frontier(leak, dm.Laplace, here=0.2)
    monkeypatch.setattr(module, "ROWS", 75)
    some = frontier(leak, dm.Laplace, here=0.2)
    assert some.score_is.endswith("on 75 of the rows")
    (on_all,), (on_some,) = ([s for s in curves.isotropic if s.scale == 0.2] for curves in (whole, some))
    # Half of 150 rows: a share near 0.7 then has a standard error of about 0.04.
    assert abs(on_all.score - on_some.score) < 5 * 0.04
    assert on_all.score != on_some.score


def test_more_noise_never_means_a_higher_dose_or_a_better_expected_score():
    curves = frontier(leak_for("squared", dm.no_noise))
    for curve in (curves.isotropic, curves.shaped):
        scores, doses = ([getattr(step, name) for step in curve] for name in ("score", "highest"))
        assert scores == sorted(scores, reverse=True)
        assert doses == sorted(doses, reverse=True)
    assert all(s.score <= curves.without_noise for s in curves.isotropic)


def test_persons_with_several_rows_are_read_whole_on_both_curves():
    table = table_for("squared")
    named = Table.of({**{n: table[n] for n in table.names}, "who": [f"p{k // 3}" for k in range(table.n)]})
    leak = fit_table(named, "y", l2=0.05, noise=dm.Gaussian(0.3), person="who").leakage
    curves = frontier(leak, dm.Gaussian, here=0.3)
    (step,) = [s for s in curves.isotropic if s.scale == 0.3]
    assert step.highest == pytest.approx(max(leak.persons.values()))
    rows = frontier(leak_for("squared", dm.Gaussian(0.3)), dm.Gaussian, here=0.3)
    by_row = {s.scale: s for s in rows.isotropic}
    assert step.highest > by_row[0.3].highest


def test_shaped_noise_is_left_out_where_it_would_take_long(monkeypatch):
    monkeypatch.setattr(module, "WORK", 10.0)
    assert frontier(leak_for("squared", dm.Gaussian(0.3))).shaped == ()


def test_steps_that_are_worse_than_useless_are_left_out():
    curves = frontier(leak_for("squared", dm.no_noise))
    assert curves.isotropic
    assert all(s.score >= module.USELESS for s in [*curves.isotropic, *curves.shaped])
