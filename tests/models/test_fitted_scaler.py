"""`measure` and `fix` on a table whose columns are standardised by the table itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

import dosimeter as dm
from dosimeter.core.notion import Standing
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_release import release_table
from dosimeter.results.measurement import Measurement, Verdict
from dosimeter.tables.table import Table
from tests.glm.whole_pipeline import information, norm, released

RNG = np.random.default_rng(31)
N, L2, SIGMA = 40, 0.05, 0.6
RAW = np.column_stack([RNG.normal(50, 12, N), RNG.normal(27, 4, N)])
RAW[5, 1] = 60.0
SEX = RNG.choice(["f", "m"], N)
Y = RAW @ [0.05, 0.1] + RNG.normal(size=N)
WHO = [f"p{i // 2}" for i in range(N)]


def people(**more):
    return Table.of({"age": RAW[:, 0], "bmi": RAW[:, 1], "y": Y, **more})


def test_persons_are_those_of_the_refitted_pipeline():
    """Two rows, two columns, unknown on each; the label is taken as known."""
    leak = fit_table(people(who=WHO), "y", l2=L2, noise=dm.Gaussian(SIGMA), person="who", include_target=False).leakage
    s = RAW.std(axis=0)
    for person in (0, 2):
        directions = np.zeros((4, N, 2))
        for k, (i, j) in enumerate((i, j) for i in (2 * person, 2 * person + 1) for j in range(2)):
            directions[k, i, j] = s[j]
        I = information(lambda moved: released(RAW + moved, Y, "squared", L2, SIGMA), directions)
        assert leak.persons[f"p{person}"] == pytest.approx(norm(I), rel=1e-6)
    assert leak.standing is Standing.EXACT
    assert not leak.not_covered


def test_in_own_units_a_cell_reads_per_unit():
    sd, raw = (fit_table(people(), "y", l2=L2, noise=dm.Gaussian(SIGMA), unit=u).leakage for u in ("sd", "raw"))
    np.testing.assert_allclose(sd.cells["bmi"], raw.cells["bmi"] * RAW[:, 1].std(), rtol=1e-10)


def test_a_held_scaler_is_named_and_its_floor_is_reported():
    table = people(sex=SEX)
    total, held = (
        fit_table(table, "y", l2=L2, noise=dm.Gaussian(50.0), scaler=scaler).leakage for scaler in ("total", "held")
    )
    assert held.standing is Standing.UNACCOUNTED
    assert any(note.startswith("mean and scale of age, bmi") for note in held.not_covered)
    assert not any(note.startswith("mean and scale") for note in total.not_covered)
    assert any("the levels of sex" in note for note in total.not_covered)
    z = (RAW - RAW.mean(axis=0)) / RAW.std(axis=0)
    floor = np.sqrt(2 * z**2 + 1).max(axis=1) / N
    for leak in (total, held):
        np.testing.assert_allclose(leak.left, floor, rtol=1e-9)
        assert any(f"up to η = {floor.max():.3g} about a row at any noise" in remark for remark in leak.remarks)
    assert held.unit_scale_eta.max() < 0.2 * floor.max() <= total.unit_scale_eta.max()
    limit = float(0.9 * floor.max())
    result = Measurement.of(held, table, limit=limit)
    assert (result.scaler.figures, result.scaler.floor) == ("held", pytest.approx(floor.max()))
    assert result.verdict == Verdict(limit=limit, above=int((floor > limit).sum()), within=False)


def test_noise_for_a_limit_is_found_above_the_floor_only():
    leak = fit_table(people(), "y", l2=L2, noise=dm.no_noise).leakage
    floor = float(leak.left.max())
    scale = leak.scale_for(1.2 * floor)
    again = fit_table(people(), "y", l2=L2, noise=dm.Gaussian(scale)).leakage
    assert again.leak.examples.max() == pytest.approx(1.2 * floor, rel=1e-8)
    assert leak.scale_for(floor) == np.inf
    assert all(need.highest > floor for need in Measurement.of(leak, people()).noise_needed)


@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace, dm.Gumbel])
@pytest.mark.parametrize("known", [dm.Gaussian(0.2), dm.Gumbel(1.0), dm.no_noise])
def test_in_a_large_table_figures_at_other_scales_are_bounded_and_not_below(law, known, monkeypatch):
    leak = fit_table(people(who=WHO), "y", l2=L2, noise=known, person="who").leakage
    for scale in (0.05, 0.2, 1.0, 30.0):
        monkeypatch.setattr("dosimeter.models.table_leakage.WORK", 1e12)
        exact = leak.figures_at(law, scale)
        monkeypatch.setattr("dosimeter.models.table_leakage.WORK", 0)
        bound = leak.figures_at(law, scale)
        assert (bound >= exact * (1 - 1e-12)).all()
        assert (bound <= exact + 2.5 * leak.left * max(1.0, float(np.sqrt(scale**-2)) / 0.05)).all()


@pytest.mark.parametrize("options", [{}, {"noise_shape": "hessian"}, {"reweighting_rounds": 2}, {"law": dm.Laplace}])
def test_fix_keeps_a_limit_above_the_floor_and_refuses_one_below(options):
    table = people(who=WHO)
    release = release_table(table, "y", scale=1e5, l2=L2, person="who", rng=np.random.default_rng(0), **options)
    floor = release.plan.floor
    assert release.doses.max() == pytest.approx(floor, rel=1e-3)
    kept = release_table(table, "y", max_dose=1.3 * floor, l2=L2, person="who", rng=np.random.default_rng(0), **options)
    assert floor < kept.doses.max() <= 1.3 * floor
    for scaler in ("total", "held"):
        with pytest.raises(dm.Refusal, match=r"at any scale.*bounds="):
            release_table(table, "y", max_dose=0.9 * floor, l2=L2, person="who", scaler=scaler, **options)
    bounds = {"age": (0, 120), "bmi": (10, 70), "y": (-100, 100)}
    rng = np.random.default_rng(0)
    plain = {**options, "noise_shape": None}
    public = release_table(table, "y", max_dose=0.9 * floor, l2=L2, person="who", rng=rng, bounds=bounds, **plain)
    assert public.doses.max() <= 0.9 * floor


@pytest.mark.parametrize("options", [{}, {"noise_shape": "hessian"}, {"reweighting_rounds": 2}, {"law": dm.Laplace}])
def test_a_limit_beside_a_held_scaler_is_kept_by_the_weights_in_own_units(options):
    """The file holds folded weights: their figure is that of the refitted pipeline, whatever is held."""
    table, rng = people(), np.random.default_rng(0)
    limit = 1.05 * release_table(table, "y", scale=1.0, l2=L2, rng=rng, **options).plan.floor
    held = release_table(table, "y", max_dose=limit, l2=L2, scaler="held", rng=rng, **options)
    assert held.plan.highest < held.plan.counted <= limit
    scale = held.plan.settings["scale"]
    folded = release_table(table, "y", scale=scale, l2=L2, rng=rng, **options)
    assert folded.doses.max() <= limit
    if not options:
        row, unit = int(np.argmax(folded.doses)), [*RAW.std(axis=0), Y.std()]
        directions = np.zeros((3, N, 3))
        for j in range(3):
            directions[j, row, j] = unit[j]
        I = information(lambda t: released(RAW + t[:, :2], Y + t[:, 2], "squared", L2, scale), directions)
        assert folded.doses[row] == pytest.approx(norm(I), rel=1e-6)


@pytest.mark.parametrize("engine", ["memory", "blocks"])
def test_a_stated_scale_beside_a_held_scaler_is_judged_as_measure_judges_it(engine, tmp_path):
    table, scale = tmp_path / "people.csv", 2.0
    np.savetxt(table, np.column_stack([RAW, Y]), delimiter=",", header="age,bmi,y", comments="", fmt="%.17g")
    held = dm.measure(table, target="y", l2=L2, noise=dm.Gaussian(scale), scaler="held")
    dose, left = float(np.max(held.examples)), float(held.left.max())
    options = {"scale": scale, "l2": L2, "scaler": "held", "even_if_useless": True, "engine": engine}
    for limit, within in ((1.01 * max(dose, left), False), (0.99 * (dose + left), False), (1.01 * (dose + left), True)):
        made = dm.fix(table, "y", max_dose=limit, noise_shape="none", **options)
        assert made.result.within is within
        assert bool(made.artefact) is within
        if within:
            assert held.result(limit=limit).verdict.within


def test_the_scaler_of_a_given_model_is_reported_with_its_floor_and_can_be_measured_through():
    model = make_pipeline(StandardScaler(), Ridge(alpha=N * L2)).fit(RAW, Y)
    held = dm.measure(model, RAW, Y, noise=dm.Gaussian(SIGMA), unit="sd")
    total = dm.measure(model, RAW, Y, noise=dm.Gaussian(SIGMA), unit="sd", scaler="total")
    ours = fit_table(people(), "y", l2=L2, noise=dm.Gaussian(SIGMA)).leakage
    np.testing.assert_allclose(total.leak.examples, ours.leak.examples, rtol=1e-6)
    np.testing.assert_allclose(held.left, ours.left, rtol=1e-9)
    assert held.standing is Standing.UNACCOUNTED
    assert any("which is NOT in the figures" in remark for remark in held.remarks)
    assert any("still holds the fitted scaler" in remark for remark in held.remarks)


def test_a_scaler_of_other_rows_has_no_floor_and_one_of_another_kind_no_total_figure():
    elsewhere = make_pipeline(StandardScaler().fit(RAW[:20]), Ridge(alpha=1.0))
    elsewhere.steps[-1][1].fit(elsewhere[:-1].transform(RAW), Y)
    ranges = make_pipeline(MinMaxScaler(), Ridge(alpha=1.0)).fit(RAW, Y)
    for model in (elsewhere, ranges):
        leak = dm.measure(model, RAW, Y, noise=dm.Gaussian(SIGMA))
        assert (leak.floor is None) == (model is elsewhere)
        assert leak.not_covered
        with pytest.raises(dm.CannotMeasure, match="StandardScaler"):
            dm.measure(model, RAW, Y, noise=dm.Gaussian(SIGMA), scaler="total")
    bare = make_pipeline(StandardScaler(), LinearRegression(fit_intercept=False)).fit(RAW, Y)
    assert dm.measure(bare, RAW, Y, noise=dm.Gaussian(SIGMA)).floor is None
    with pytest.raises(dm.Refusal, match="use total or held"):
        dm.measure(bare, RAW, Y, noise=dm.Gaussian(SIGMA), scaler="half")


def test_an_equalised_model_names_the_units_of_its_reweighting():
    release = release_table(people(), "y", scale=1.0, l2=L2, reweighting_rounds=2, rng=np.random.default_rng(0))
    assert any("in which the reweighting measures" in note for note in release.not_covered)


@pytest.mark.parametrize(("sigma", "scaling"), [(0.3, 1.0), (1000.0, 1.0), (0.3, 4.0), (1000.0, 4.0)])
def test_a_penalised_intercept_behind_a_fitted_scaler_is_measured_through_it(sigma, scaling):
    """liblinear: the exact information of the folded law, by refits of scaler and model; the floor was left out."""
    labels, C, h = (np.median(Y) < Y).astype(float), 0.7, 1e-5
    ridge = np.append(np.full(RAW.shape[1], 1 / C), 1 / (C * scaling**2))

    def law(raw):
        mean, deviation = raw.mean(axis=0), raw.std(axis=0)
        X = np.column_stack([(raw - mean) / deviation, np.ones(len(raw))])
        w = np.zeros(X.shape[1])
        for _ in range(30):
            p = 1 / (1 + np.exp(-X @ w))
            w -= np.linalg.solve((X * (p * (1 - p))[:, None]).T @ X + np.diag(ridge), X.T @ (p - labels) + ridge * w)
        fold = np.block([[np.diag(1 / deviation), np.zeros((len(w) - 1, 1))], [-mean / deviation, 1.0]])
        return fold @ w, sigma**2 * fold @ fold.T

    _, at = law(RAW)
    liblinear = LogisticRegression(solver="liblinear", C=C, intercept_scaling=scaling, tol=1e-12, max_iter=100_000)
    model = make_pipeline(StandardScaler(), liblinear)
    model.fit(RAW, labels)
    total = dm.measure(
        model, RAW, labels, noise=dm.Gaussian(sigma), unit="sd", scaler="total", known_target=True
    ).leak.cells
    for row, column in [(0, 0), (3, 1), (int(np.abs(RAW[:, 0] - RAW[:, 0].mean()).argmax()), 0)]:
        step = np.zeros_like(RAW)
        step[row, column] = h * RAW[:, column].std()
        (up, above), (down, below) = law(RAW + step), law(RAW - step)
        mean, spread = (up - down) / (2 * h), np.linalg.solve(at, above - below) / (2 * h)
        information = mean @ np.linalg.solve(at, mean) + 0.5 * np.trace(spread @ spread)
        assert total[row, column] == pytest.approx(np.sqrt(information), rel=1e-5)


def l1_alone():
    """The penalty of scikit-learn from 1.8 on, and before."""
    return {"l1_ratio": 1.0} if LogisticRegression().get_params()["penalty"] != "l2" else {"penalty": "l1"}


TWO, THREE = np.digitize(Y, [np.median(Y)]), np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
OTHER_ESTIMATORS = {
    "lasso": (lambda: make_pipeline(StandardScaler(), Lasso(alpha=0.01, tol=1e-12, max_iter=100_000)), Y),
    "huber": (lambda: make_pipeline(StandardScaler(), HuberRegressor(tol=1e-10, max_iter=10_000)), Y),
    "discriminants": (lambda: make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()), TWO),
    "one against the rest": (
        lambda: make_pipeline(
            StandardScaler(), OneVsRestClassifier(LogisticRegression(solver="newton-cholesky", tol=1e-12))
        ),
        THREE,
    ),
    "one against the rest by liblinear": (
        lambda: make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(solver="liblinear"))),
        THREE,
    ),
    "squared hinges against the rest": (lambda: make_pipeline(StandardScaler(), LinearSVC(tol=1e-10)), THREE),
    "discriminants of three classes": (lambda: make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()), THREE),
    "several targets": (lambda: make_pipeline(StandardScaler(), Ridge()), np.column_stack([Y, Y**2])),
    "L1 of liblinear": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear", tol=1e-10, **l1_alone())),
        TWO,
    ),
    "a target that is transformed": (
        lambda: TransformedTargetRegressor(make_pipeline(StandardScaler(), Ridge()), func=np.exp, inverse_func=np.log),
        Y / np.abs(Y).max(),
    ),
}


@pytest.mark.parametrize("name", OTHER_ESTIMATORS)
def test_the_floor_of_a_scaler_is_stated_before_every_linear_model(name):
    """√(2z² + 1)/n of the worst cell of a row (docs/explanation/scaler.md, section 2): no limit below it is kept."""
    make, y = OTHER_ESTIMATORS[name]
    model = make().fit(RAW, y)
    leak = dm.measure(model, RAW, y, noise=dm.Gaussian(1e6), unit="sd")
    z = (RAW - RAW.mean(axis=0)) / RAW.std(axis=0)
    outputs = 3 if "three" in name or "rest" in name else y.shape[1] if y.ndim > 1 else 1
    np.testing.assert_allclose(leak.left, np.sqrt(outputs * (2 * z**2 + 1)).max(axis=1) / len(RAW), rtol=1e-6)
    assert not leak.result(limit=0.9 * leak.left.max()).verdict.within
    assert leak.result(limit=1.1 * leak.left.max()).verdict.within


def test_every_output_tells_of_the_scaler_that_all_are_folded_with():
    """½ tr (Σ⁻¹ Σ')² of the folded noise on the weights of two targets, by differences of the fold."""
    h, d = 1e-5, RAW.shape[1]

    def covariance(raw):
        mean, deviation = raw.mean(axis=0), raw.std(axis=0)
        fold = np.block([[np.diag(1 / deviation), np.zeros((d, 1))], [-mean / deviation, 1.0]])
        return np.kron(np.eye(2), fold @ fold.T)

    targets = np.column_stack([Y, Y**2])
    model = make_pipeline(StandardScaler(), Ridge()).fit(RAW, targets)
    leak = dm.measure(model, RAW, targets, noise=dm.Gaussian(1e6), unit="sd", known_target=True)
    for row in (0, 7):
        information = np.zeros((d, d))
        slopes = []
        for column in range(d):
            step = np.zeros_like(RAW)
            step[row, column] = h * RAW[:, column].std()
            change = (covariance(RAW + step) - covariance(RAW - step)) / (2 * h)
            slopes.append(np.linalg.solve(covariance(RAW), change))
        for i in range(d):
            for j in range(d):
                information[i, j] = 0.5 * np.trace(slopes[i] @ slopes[j])
        assert leak.left[row] == pytest.approx(np.sqrt(np.linalg.eigvalsh(information)[-1]), rel=1e-5)


@pytest.mark.parametrize("name", ["one against the rest by liblinear", "squared hinges against the rest"])
def test_several_outputs_are_not_called_total_where_the_scaler_is_held(name):
    """An intercept with a penalty let the figures of the held scaler pass as total ones, and no floor was told."""
    make, y = OTHER_ESTIMATORS[name]
    with pytest.raises(dm.CannotMeasure, match='scaler="total" is for'):
        dm.measure(make().fit(RAW, y), RAW, y, noise=dm.Gaussian(1.0), scaler="total")


def test_columns_that_a_lasso_left_out_have_no_floor():
    X = np.column_stack([RAW[:, 0], np.random.default_rng(0).normal(size=len(RAW))])
    y = RAW[:, 0] / RAW[:, 0].std()
    model = make_pipeline(StandardScaler(), Lasso(alpha=0.3, tol=1e-12)).fit(X, y)
    assert model[-1].coef_[1] == 0.0
    z = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    left = dm.measure(model, X, y, noise=dm.Gaussian(1.0), unit="sd").left
    np.testing.assert_allclose(left, np.sqrt(2 * z**2 + 1) / len(X), rtol=1e-6)


def test_all_rows_of_a_person_share_one_extreme_and_move_it_once():
    """By refits of the scaler: the oldest has three rows, and the range moves with the age, not with each row."""
    people, ages = np.repeat(np.arange(20), 3), np.repeat(np.linspace(20, 80, 20), 3)
    X = np.column_stack([ages, np.random.default_rng(0).normal(size=60)])
    y = ages / 30 + X[:, 1]
    model = make_pipeline(MinMaxScaler(), Ridge()).fit(X, y)
    leak = dm.measure(model, X, y, person=people, noise=dm.Gaussian(1e6), unit="sd")
    h = 1e-6 * ages.std()
    scales = [MinMaxScaler().fit(np.where(ages == 80, ages + s, ages)[:, None]).scale_[0] for s in (h, -h)]
    by_scale = (scales[0] - scales[1]) / 2e-6 / model[0].scale_[0]
    assert leak.left[-1] == pytest.approx(np.sqrt(2) * abs(by_scale), rel=1e-5)


def test_a_model_that_transforms_its_target_is_not_released_and_not_measured_through_its_scaler():
    make, y = OTHER_ESTIMATORS["a target that is transformed"]
    model = make().fit(RAW, y)
    with pytest.raises(dm.CannotMeasure, match="transformed target"):
        dm.measure(model, RAW, y, noise=dm.Gaussian(1.0), scaler="total")
    with pytest.raises(dm.CannotMeasure, match="would predict the transformed values"):
        dm.fix({**{f"x{j}": RAW[:, j] for j in range(RAW.shape[1])}, "y": y}, "y", model=model, scale=1.0)
