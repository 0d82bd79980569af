"""[Zari22]: parts of the reproduction on made-up tables, its numbers against independent ones, and all of it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from dosimeter.cli.main import run
from dosimeter.reproductions import zari22
from dosimeter.reproductions import zari22_attack as attack
from dosimeter.reproductions import zari22_claims as claims
from dosimeter.reproductions import zari22_private as private
from dosimeter.reproductions import zari22_scales as scales
from dosimeter.reproductions import zari22_trade as trade
from dosimeter.reproductions.html_page import page
from dosimeter.reproductions.zari22_data import TableStudy, standardise, studies

SIZES = {"Adult": 14, "Census": 13, "LFW": 18, "MNIST": 20}


@pytest.fixture(scope="module")
def four():
    """Small tables under the four names: independent columns of different widths."""
    tables = []
    for name, d in SIZES.items():
        rng = np.random.default_rng(d)
        X = standardise(rng.standard_normal((400, d)) ** (3 if name == "MNIST" else 1) * rng.uniform(0.1, 5, d))
        tables.append(TableStudy(name, X, (30, 60), 60, trials=3))
    return tuple(tables)


@pytest.fixture(scope="module")
def private_studies(four):
    return {study.name: private.private_study(study, quick=True) for study in four}


def test_members_and_strangers_are_never_the_same_rows_and_the_same_every_time(four):
    for study in four:
        for trial in range(3):
            members, strangers, _ = study.split(60, trial)
            common = {tuple(row) for row in members} & {tuple(row) for row in strangers}
            assert not common
            assert members.shape == strangers.shape == (60, study.d)
            np.testing.assert_array_equal(members, study.split(60, trial)[0])
        assert not np.array_equal(study.split(60, 0)[0], study.split(60, 1)[0])


def test_the_interval_is_students_with_the_tabulated_quantile():
    values = np.random.default_rng(0).normal(0.5, 0.1, 10)
    deviation = np.sqrt(np.sum((values - values.mean()) ** 2) / 9)
    assert attack.half_interval(values) == pytest.approx(2.262 * deviation / np.sqrt(10), rel=3e-4)  # t of 9 degrees


def test_the_interval_holds_the_true_mean_in_about_95_of_100_cases():
    rng = np.random.default_rng(3)
    draws = rng.normal(0.6, 0.05, (4000, 10))
    inside = np.mean([abs(row.mean() - 0.6) <= attack.half_interval(row) for row in draws])
    assert abs(inside - 0.95) < 0.0138  # four standard errors
    short = np.mean([abs(row.mean() - 0.6) <= 0.85 * attack.half_interval(row) for row in draws])
    assert abs(short - 0.95) > 0.0138


def test_a_curve_is_that_of_explicit_projectors(four):
    from sklearn.metrics import roc_auc_score

    study = four[0]
    curve = attack.curve(study, 60)
    members, strangers, _ = study.split(60, 0)
    values, V = np.linalg.eigh(members.T @ members / 60)
    V = V[:, np.argsort(values)[::-1]]
    rows, labels = np.vstack([members, strangers]), np.repeat([1, 0], 60)
    for k in (1, 7, 13):
        residual = rows - rows @ V[:, :k] @ V[:, :k].T
        assert curve.by_k[k - 1, 0] == pytest.approx(roc_auc_score(labels, -(residual**2).sum(axis=1)), abs=1e-12)
    assert curve.by_k[-1, 0] == 0.5


def test_chance_is_what_two_groups_of_strangers_give(four):
    """Both groups drawn from outside the members: the band must contain their mean of largest AUCs."""
    from dosimeter import pca

    study = four[3]
    band = attack.curve(study, 60).chance
    rng = np.random.default_rng(8)
    means = []
    for _ in range(60):
        largest = []
        for _ in range(3):
            rows = study.X[rng.permutation(len(study.X))[:180]]
            largest.append(pca.auc_by_components(pca.components_of(rows[:60], centred=False), rows[60:120], rows[120:]))
        means.append(np.mean([aucs.max() for aucs in largest]))
    error = np.sqrt(np.var(band) / len(band) + np.var(means) / len(means))
    assert abs(np.mean(means) - band.mean()) < 4 * error
    assert attack.curve(study, 30).mean > np.quantile(band, 0.95)  # thirty rows of twenty columns are distinguishable


def test_noise_without_data_captures_what_random_directions_do(private_studies):
    """At ε = 1 the noise of the vector query dominates these tables: q must be that of the control, known exactly."""
    excess = np.concatenate(
        [study.outcome(private.VECTOR, 1.0).energy - study.control for study in private_studies.values()]
    )
    assert abs(excess.mean()) < 4 * excess.std(ddof=1) / np.sqrt(len(excess))
    excess_with_data = np.concatenate(
        [study.outcome(private.VECTOR, 1e4).energy - study.control for study in private_studies.values()]
    )
    assert excess_with_data.mean() > 4 * excess_with_data.std(ddof=1) / np.sqrt(len(excess_with_data))
    for study in private_studies.values():
        assert study.outcome(private.VECTOR, 1e7).q == pytest.approx(1, abs=1e-3)
        assert study.gain(1.0) == pytest.approx(1)
        assert study.gain(float(study.control.mean())) == 0


def test_noise_and_bounds_are_those_of_the_release(four):
    """The same scales as `pca.release`, and draws that follow the distribution: a scale 5 % off would be noticed."""
    from dosimeter.pca.release import release

    study = four[3]
    members = study.split(60, 0)[0]
    for name in ("naive", "vector", "advanced", "Analyze Gauss"):
        mechanism, bounds = private._MECHANISMS[name](study, 1.0)
        private_release = release(members, mechanism, bounds=bounds, rng=np.random.default_rng(0))
        np.testing.assert_array_equal(private_release.scales, mechanism.scales(bounds.over(study.d), study.N))
        rng = np.random.default_rng(1)
        draws = np.array([private.mirrored_noise(mechanism, private_release.scales, rng) for _ in range(400)])
        np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
        unit = (draws / private_release.scales)[:, *np.tril_indices(study.d)]
        size, error = np.abs(unit).mean(), 4 * np.abs(unit).std() / np.sqrt(unit.size)
        expected = 1.0 if name != "Analyze Gauss" else np.sqrt(2 / np.pi)  # E|x| of Laplace(1) and of N(0, 1)
        assert abs(size - expected) < error < 0.05 * expected


def test_the_crossings_are_the_known_ones(golden):
    known = json.loads((golden / "pca" / "pca.json").read_text())["crossover"]
    by_d = {entry["d"]: float(entry["eps_star"]) for entry in known if float(entry["delta"]) == scales.DELTA}
    for name, d, delta in (("Adult", 14, 1e-3), ("LFW", 450, 1e-3), ("MNIST", 784, 1e-3), ("Census", 13, 1 / 500)):
        study = TableStudy(name, np.zeros((2, d)), (1,), round(1 / delta))
        _, row = scales._study_rows(study)
        assert row.ok
        expected = by_d[d] if name != "Census" else 44.5
        assert 10**row.ours == pytest.approx(expected, rel=1e-9 if name != "Census" else 1e-3)


def test_the_rows_by_formula_hold_or_say_why(four):
    all_rows = [
        *scales._composition_rows(),
        *scales._gauss_rows(),
        *scales._laplace_rows(four),
        *scales._not_covered_rows(),
    ]
    assert not [row.figure for row in all_rows if not row.ok and not row.why]
    by_name = {row.figure: row for row in all_rows}
    assert not by_name["5.3 advanced composition introduces less noise when ε' < ε/α"].ok
    assert by_name["figure 4: naive composition introduces less noise in a region above a curve"].ok
    assert by_name["5.2 Δ(q_ii) in units of Λ_i²/N, a column in [5, 6] that was not centred"].ours == pytest.approx(11)
    assert not by_name["Table 1, Analyze Gauss at ε = 10 is (ε, δ)-differentially private as stated"].ok


def test_eq_2_is_loose_as_a_monte_carlo_of_the_privacy_loss_shows():
    """ε at δ of α Laplace entries by simulation of E(1 - e^(ε - L))⁺, an oracle that composes nothing."""
    from dosimeter.pca.calibration import eps_prime, laplace_epsilon

    alpha, delta = 105, scales.DELTA
    r = eps_prime(1.0, delta, alpha)
    x = np.random.default_rng(0).laplace(0, 1 / r, (200_000, alpha))
    loss = r * (np.abs(x - 1) - np.abs(x)).sum(axis=1)
    epsilon_reported = laplace_epsilon({r: alpha}, delta)

    def delta_at(epsilon):
        excess = np.maximum(0, -np.expm1(epsilon - loss))
        return excess.mean(), 4 * excess.std() / np.sqrt(len(loss))

    mean, error = delta_at(epsilon_reported)
    assert abs(mean - delta) < error
    mean, error = delta_at(0.93 * epsilon_reported)
    assert mean - error > delta  # a value 7 % lower would be caught


def outcome(auc, q):
    auc, q = np.asarray(auc, dtype=float), np.asarray(q, dtype=float)
    return private.Outcome(np.repeat(auc[:, None], 3, axis=1), q)


def made_up(study, naive, vector, advanced, gauss, control=0.4):
    """A table whose mechanisms have the same outcome at every ε."""
    wide, narrow = (1.0, 1e2, 1e4, 1e6, 1e7), (0.01, 1.0)
    cells = {
        (name, e): result
        for name, result in (("naive", naive), ("vector", vector), ("advanced", advanced))
        for e in wide
    }
    cells |= {("Analyze Gauss", e): gauss for e in narrow}
    return private.PrivateStudy(study, cells, np.full(3, 0.9), np.full(3, 5.0), np.full(3, control), np.full(19, 0.51))


def test_claims_depend_on_the_outcomes_and_not_on_the_names(four):
    adult = four[0]
    low, high = outcome([0.51, 0.52, 0.53], [0.5, 0.51, 0.52]), outcome([0.71, 0.72, 0.73], [0.8, 0.81, 0.82])
    same = made_up(adult, low, low, low, low)
    apart = made_up(adult, high, low, low, high)
    assert claims._vector_row(same).ok
    assert not claims._vector_row(apart).ok
    assert claims._vector_row(apart).why
    assert claims._marginal_row(same).ok
    assert not claims._marginal_row(apart).ok
    assert claims._marginal_row(apart).why is None  # nothing explains that: it must show up
    assert not claims._low_privacy_row(same).ok
    assert claims._low_privacy_row(apart).ok
    assert claims._same_utility_row(same).ok
    assert not claims._same_utility_row(apart).ok
    assert claims._gauss_utility_row(apart).ok  # 0.81 is two thirds of the way from 0.4 to 1
    assert not claims._gauss_utility_row(same).ok
    assert claims._laplace_utility_row(made_up(adult, low, low, low, high)).ok
    assert not claims._laplace_utility_row(same).ok


def test_a_crossing_is_seen_only_if_both_sides_are_near(four):
    """LFW: 5.3 has the curves cross at 1e5. Advanced above naive up to an ε, naive above advanced from the next."""
    low, high = outcome([0.51, 0.52, 0.53], [0.5] * 3), outcome([0.61, 0.62, 0.63], [0.5] * 3)

    def crossing(last, first):
        study = made_up(four[2], low, low, low, low)
        for e in study.grid("naive"):
            study.outcomes["advanced", e] = high if e <= last else low
            study.outcomes["naive", e] = high if e >= first else low
        return claims._meeting_row(study)

    assert crossing(1e4, 1e6).ok
    assert not crossing(1e2, 1e7).ok  # five powers of ten apart: luck at either end
    assert not crossing(1.0, 1e2).ok  # sharp, but elsewhere
    assert not crossing(0.0, 1e6).ok  # advanced is never above


def curve_of(study, auc):
    """A curve with these AUCs (r, trials) at k = 1, ..., r."""
    from dosimeter.pca.membership import MembershipByComponents
    from dosimeter.pca.null_distribution import NullBand

    null = NullBand(np.full((9, len(auc) + 1), 0.5))
    runs = tuple(MembershipByComponents(np.append(0.5, column), None, 1, null) for column in np.asarray(auc).T)
    return attack.AttackCurve(study, study.N, runs)


def test_an_increase_of_the_auc_with_k_has_to_be_seen(four):
    rng = np.random.default_rng(0)
    up = np.linspace(0.5, 0.9, 12)[:, None] + rng.normal(0, 0.01, (12, 3))
    row = attack._rises_row("Adult", (curve_of(four[0], up),))
    assert row.ok
    assert "± " in row.measured
    back = up.copy()
    back[9:] = [[0.8] * 3, [0.65] * 3, [0.5] * 3]  # judging each step by its interval is not enough: the last is 1/2
    assert not attack._rises_row("Adult", (curve_of(four[0], back),)).ok
    # As for Adult with three trials: no step falls beyond its interval, and the curve ends where it started.
    small = np.array([0.5, 0.505, 0.515, 0.524, 0.51, 0.5])[:, None] + rng.normal(0, 0.02, (6, 3))
    small[-1] = 0.5
    row = attack._rises_row("Adult", (curve_of(four[0], small),))
    steps = np.diff(small, axis=0)
    assert not any(step.mean() + attack.half_interval(step) < 0 for step in steps)
    assert not row.ok
    assert row.why


def test_the_peak_of_pure_luck_is_not_above_the_rest():
    """40 numbers around 1/2, five trials: at the others' k the peak is above in 2.5 %, at its own far more often."""
    from scipy.stats import binom

    rng, tables = np.random.default_rng(1), 400
    by_others_peak = by_own_peak = 0
    for _ in range(tables):
        auc = 0.5 + rng.normal(0, 0.01, (40, 5))
        by_others_peak += attack.above(attack._peaks(auc), np.full(5, 0.5))
        by_own_peak += attack.above(auc[auc.mean(axis=1).argmax()], np.full(5, 0.5))
    assert by_others_peak <= binom.ppf(1 - 1e-6, tables, 0.05)
    assert by_own_peak > binom.ppf(1 - 1e-6, tables, 0.05)


def test_the_skewed_claim_is_judged_over_all_epsilon(four):
    """Vector much better at the last ε with little variance, worse at the one before with much: does not hold."""
    same = outcome([0.5] * 3, [0.5, 0.51, 0.52])
    studies_by_name = {study.name: made_up(study, same, same, same, same) for study in four}
    most = max(
        studies_by_name,
        key=lambda n: (lambda s: s.std() / s.mean())(
            studies_by_name[n].study.box.over(studies_by_name[n].study.d).spread
        ),
    )
    cells = studies_by_name[most].outcomes
    cells["vector", 1e7] = outcome([0.5] * 3, [0.70, 0.71, 0.72])
    assert claims._skew_row(studies_by_name).ok
    cells["naive", 1e6] = outcome([0.5] * 3, [0.52, 0.72, 0.57])  # above in each trial, and not beyond the interval
    row = claims._skew_row(studies_by_name)
    assert not claims.above(cells["naive", 1e6].energy, cells["vector", 1e6].energy)
    assert not row.ok
    assert row.why
    assert "naive better at ε = 1e+06" in row.measured
    cells["vector", 1e7] = cells["naive", 1e6] = same
    assert not claims._skew_row(studies_by_name).ok  # better nowhere


def test_figure_6_is_in_numbers_and_compares_at_equal_attacks(four):
    low, high = outcome([0.505, 0.506, 0.507], [0.5, 0.51, 0.52]), outcome([0.71, 0.72, 0.73], [0.8, 0.81, 0.82])
    study = made_up(four[0], low, low, low, low)
    study.outcomes["vector", 1e7] = high
    study.outcomes["vector", 1e6] = outcome([0.508] * 3, [0.6, 0.61, 0.62])
    study.outcomes["advanced", 1e7] = outcome([0.505, 0.506, 0.507], [0.8, 0.81, 0.82])
    study.outcomes["naive", 1e7] = outcome([0.71, 0.72, 0.73], [0.5, 0.51, 0.52])
    rows = {row.figure.split(":")[0]: row for row in trade.rows({"Adult": study})}
    assert len(rows) == 4
    assert rows["figure 6 Adult, vector"].ok
    assert (
        "at most 0.510, the level of chance: q = 0.610 (ε = 1e+06); at random 0.400"
        in rows["figure 6 Adult, vector"].measured
    )
    assert "0.720 ± 0.025 and 0.810 ± 0.025 at ε = 1e+07" in rows["figure 6 Adult, vector"].measured
    reasons = [rows[f"figure 6 Adult, {name}"].why for name in ("advanced", "naive", "Analyze Gauss")]
    assert not any(rows[f"figure 6 Adult, {name}"].ok for name in ("advanced", "naive", "Analyze Gauss"))
    assert len(set(reasons)) == 3
    assert all(reasons)
    assert trade.outcomes_at_chance(study, "vector", 0.4) == {}
    assert list(trade.outcomes_at_chance(study, "vector", 0.51)) == [1.0, 1e2, 1e4, 1e6]


def test_figure_1_is_in_numbers(four):
    curve = attack.curve(four[0], 60)
    row = attack._drawn_curve_row("Adult", curve)
    auc = curve.by_k
    assert f"k = {len(auc)}: {auc.max(axis=0).mean():.3f} ± " in row.measured
    assert "by itself 0.500 ± 0.000" in row.measured  # all fourteen components
    assert row.measured.count("k = ") == 5
    assert row.ok
    flat = attack._drawn_curve_row("Adult", curve_of(four[0], np.full((5, 3), 0.5)))
    assert not flat.ok
    assert flat.why


def test_everything_runs_on_small_tables_and_every_figure_is_drawn(four, private_studies, monkeypatch):
    monkeypatch.setattr(zari22, "studies", lambda data, quick: four)
    monkeypatch.setattr(zari22, "private_study", lambda study, quick: private_studies[study.name])
    reproduction = zari22.reproduction(None, quick=True)
    assert [figure.name for figure in reproduction.figures] == [f"Figure {k}" for k in range(1, 7)]
    text = page(reproduction)
    specs = [json.loads(spec) for spec in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)]
    assert len(specs) == 8 + 8 + 4 + 1 + 8 + 4
    assert all(layer["data"]["values"] for spec in specs for layer in spec["layer"])
    figures = [row.figure for row in reproduction.report.rows]
    assert len(set(figures)) == len(figures)
    for start in (
        "4.2",
        "4.3",
        "figure 1",
        "5.2",
        "Table 1",
        "figure 2a",
        "figure 2b",
        "figure 3",
        "figure 4",
        "figure 5",
        "figure 6",
    ):
        assert any(figure.startswith(start) for figure in figures)
    assert all(
        row.measured
        for row in reproduction.report.rows
        if row.paper == 1.0 and row.tolerance == 0 and "Δ(q_ii)" not in row.figure
    )


def test_the_standardised_census_gives_the_known_attack(papers_data, golden):
    from dosimeter import pca
    from dosimeter.datasets.papers import census

    known = {entry["name"]: entry for entry in json.loads((golden / "pca" / "pca.json").read_text())["attack"]}
    X = standardise(census(papers_data)[1])
    members, strangers = X[::2], X[1::2]
    auc = pca.auc_by_components(pca.components_of(members), members, strangers)
    np.testing.assert_allclose(auc, known["census_std_540"]["auc_for_k_0_to_rank"][1:], atol=1e-6)


def test_no_data_is_refused_in_one_line(tmp_path, capsys):
    assert run(["reproduce", "zari22", "--data", str(tmp_path)]) == 2
    assert run(["reproduce", "zari22", "--quick", "--data", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.slow
@pytest.mark.paper
@pytest.mark.parametrize("quick", [True, False])
def test_every_row_holds_or_says_why(quick, papers_data, tmp_path, capsys):
    path = tmp_path / "page.html"
    options = ["--data", str(papers_data), "--json", "-", "-q", "--html", str(path), *(["--quick"] if quick else [])]
    assert run(["reproduce", "zari22", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["name"] == "zari22"
    rows = {row["figure"]: row for row in report["rows"]}
    assert all(row["ok"] or row["why"] for row in rows.values())
    for name in ("LFW", "MNIST"):
        assert rows[f"4.3 {name}: the AUC reaches 0.9 when N = 1,000"]["ok"]
        assert not rows[f"4.3 {name}: the AUC increases with k"]["ok"]
    assert not rows["figure 3 MNIST: vector query and naive composition protect the same, having the same budget"]["ok"]
    assert path.read_text().count('class="chart"') == 33


@pytest.mark.slow
@pytest.mark.paper
def test_the_tables_have_the_printed_sizes(papers_data):
    assert all(row.ok or row.why for row in zari22.size_rows(studies(papers_data)))
