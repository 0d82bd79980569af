"""Columns that the others predict: in the patients of the demo, cholesterol is a sum of three others."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.noise import Gaussian
from dosimeter.datasets.demo import DERIVED, TARGET, diabetes
from dosimeter.models.column_control import NEARLY, explain_table
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_attack import invert
from dosimeter.results.measurement import Measurement
from dosimeter.tables.table import Table


def by_scikit_learn(table, name):
    """R² of scikit-learn's regression on the other columns and squares of the numbers, corrected for how many."""
    from sklearn.linear_model import LinearRegression

    parts = []
    for other in table.names:
        if other == name:
            continue
        column = table[other]
        if table.kind(other) == "text":
            parts.append((column == sorted(set(column))[1]).astype(float))
        else:
            z = (column - column.mean()) / column.std()
            parts += [z, z**2]
    X, y = np.column_stack(parts), table[name].astype(float)
    r2 = LinearRegression().fit(X, y).score(X, y)
    return 1.0 - (1.0 - r2) * (len(y) - 1) / (len(y) - X.shape[1] - 1)


def test_r2_of_each_column_of_the_patients_is_that_of_scikit_learn():
    table = diabetes()
    predictions = explain_table(table, table.names)
    for name in table.names:
        if table.kind(name) != "text":
            assert predictions[name].r2 == pytest.approx(by_scikit_learn(table, name), abs=1e-8)


def test_cholesterol_follows_from_the_others_and_is_found():
    """The formula first, to a thousandth of its spread; then R², without knowing the formula."""
    table = diabetes()
    formula = table["ldl"] + table["hdl"] + np.exp(table["log_triglycerides"]) / 5
    assert np.std(table["cholesterol"] - formula) < 1e-3 * table["cholesterol"].std()
    predictions = explain_table(table, table.names)
    assert {name for name, prediction in predictions.items() if prediction.r2 >= NEARLY} == {
        "cholesterol",
        "ldl",
        "hdl",
    }


@pytest.mark.parametrize("name", ["age", "bmi", "blood_pressure", "ldl", "hdl", "log_triglycerides", "glucose"])
def test_no_column_of_the_demo_follows_from_the_others(name):
    """By a forest, which sees what least squares does not: out of sample, half of each column's spread is left."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import cross_val_score

    table = diabetes().drop(DERIVED)
    others = [c for c in table.names if c not in (name, "sex")]
    X = np.column_stack([*(table[c] for c in others), table["sex"] == "code 1"])
    forest = RandomForestRegressor(60, random_state=0)
    assert cross_val_score(forest, X, table[name], cv=5).mean() < 0.75


def test_the_showcase_is_no_column_that_the_rest_gives_away():
    """On the whole table the largest η is cholesterol's, which anyone who knows the rest can compute."""
    table = diabetes().drop(DERIVED)
    result = Measurement.of(fit_table(table, TARGET, noise=Gaussian(1.0)).leakage, table)
    assert result.meaning.column == result.columns[0].column == "sex"
    assert not [note for note in result.remarks if "follow" in note]
    table = diabetes()
    result = Measurement.of(fit_table(table, TARGET, noise=Gaussian(1.0)).leakage, table)
    assert result.meaning.column not in ("cholesterol", "ldl", "hdl")
    assert not result.meaning.nearly_given
    by_name = {column.column: column for column in result.columns}
    assert by_name["cholesterol"].nearly_given
    assert by_name["cholesterol"].without_release < by_name["cholesterol"].least_deviation
    assert any(note.startswith("cholesterol, ldl, hdl follow from the other columns") for note in result.remarks)


def test_the_control_of_an_attack_knows_everything_else():
    """A column that is the sum of two others is guessed without any weights; one that is not, is not."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 300))
    table = Table.of({"a": a, "b": b, "sum": a + b + 0.05 * c, "c": c, "y": a + c + rng.normal(size=300)})
    options = dict(noise=Gaussian(10.0), trials=5, rng=np.random.default_rng(1))
    derived, free = (invert(table, "y", column, **options) for column in ("sum", "b"))
    assert derived.guesses.control_figure > 0.9
    assert derived.by_prior < 0.2
    table = table.drop(["sum"])
    free = invert(table, "y", "b", **options)
    assert free.guesses.control_figure < 0.3


def test_the_attack_is_no_worse_than_its_control():
    """Weights that say next to nothing leave the guess where it was; weights that say all make it certain."""
    table = diabetes().drop(DERIVED)
    for scale, low, high in ((1e4, 0.0, 0.01), (1e-3, 0.28, 0.31)):
        played = invert(table, TARGET, "sex", noise=Gaussian(scale), trials=20, rng=np.random.default_rng(2))
        gain = played.guesses.figure - played.guesses.control_figure
        assert low - 0.01 <= gain <= high


def test_large_and_wide_tables_are_sampled_and_texts_are_levels():
    rng = np.random.default_rng(3)
    n = 60_000
    kind = rng.integers(3, size=n)
    x = kind * 2.0 + 0.1 * rng.normal(size=n)
    table = Table.of({"kind": np.array(["a", "b", "c"], dtype=object)[kind], "x": x, "noise": rng.normal(size=n)})
    predictions = explain_table(table, table.names)
    assert predictions["x"].r2 > 0.99
    assert predictions["x"].residual_share == pytest.approx(0.1 / x.std(), rel=0.03)
    assert predictions["noise"].r2 < 0.01
    assert predictions["kind"].r2 > 0.5


def test_columns_that_are_noise_follow_from_nothing_however_few_rows_there_are():
    """With 120 columns on 135 rows R² in the sample is above 0.85, and a column was said to follow from the others."""
    rng = np.random.default_rng(11)
    numbers = rng.normal(size=(135, 120))
    predictions = explain_table(Table.of({f"x{j}": x for j, x in enumerate(numbers.T)}), [f"x{j}" for j in range(120)])
    X, y = numbers[:, 1:], numbers[:, 0]
    assert 1 - np.sum((y - np.column_stack([X, np.ones(135)]) @ np.linalg.lstsq(
        np.column_stack([X, np.ones(135)]), y, rcond=None)[0]) ** 2) / np.sum((y - y.mean()) ** 2) > 0.85  # fmt: skip
    assert np.mean([prediction.r2 for prediction in predictions.values()]) < 0.25
    assert max(prediction.r2 for prediction in predictions.values()) < 0.9


def test_a_column_beside_a_category_of_thousands_of_levels_is_predicted_on_thousands_of_rows():
    """400 rows were taken for 5,000 levels, each level then had a row of its own, and R² of pure noise was 0.97."""
    rng = np.random.default_rng(12)
    n = 20_000
    place = np.array([f"z{k}" for k in rng.permutation(np.resize(np.arange(5000), n))], dtype=object)
    table = Table.of({"place": place, "age": rng.normal(50.0, 12.0, n), "ill": rng.integers(0, 2, n).astype(float)})
    predictions = explain_table(table, table.names)
    assert predictions["age"].r2 < 0.03
    assert predictions["age"].residual_share == pytest.approx(1.0, abs=0.02)
    assert predictions["place"].r2 < 0.03


def test_the_work_stays_bounded_on_a_table_with_thousands_of_levels(monkeypatch):
    import dosimeter.models.column_control as module

    rng = np.random.default_rng(4)
    n, shapes = 30_000, []
    many = {f"c{k}": rng.integers(300, size=n).astype(str).astype(object) for k in range(6)}
    table = Table.of({**many, "x": rng.normal(size=n)})
    monkeypatch.setattr(
        module, "explain_columns", lambda Z, blocks, positions: shapes.append(Z.shape) or [None] * len(positions)
    )
    assert set(explain_table(table, table.names).values()) == {None}
    ((rows, columns),) = shapes
    assert columns > 1500
    assert rows * columns**2 <= module.MOST_WORK
