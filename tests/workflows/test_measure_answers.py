"""`measure` of a model that only answers queries, against refits of the whole pipeline and the score itself."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dosimeter as dm
from dosimeter import glm
from dosimeter.cli.main import run
from dosimeter.results.editions import external

SIGMA, STEP = 0.2, 1e-4
NAMES = ("age", "bmi")


def people(n=40, seed=5):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(50, 10, n), rng.normal(25, 4, n)])
    y = (X[:, 0] + rng.normal(0, 8, n) > 50).astype(float)
    return X, y, [f"p{i // 2}" for i in range(n)]


def frame(X, **more):
    return {name: X[:, j] for j, name in enumerate(NAMES)} | more


QUERIES = np.array([[40.0, 22.0], [55.0, 30.0], [48.0, 27.0]])


def refits(answers, X, person, ids, y=None):
    """(answers, unknowns) central differences over the cells, and the target if given, of one person's rows."""
    columns = []
    for row in [i for i, who in enumerate(ids) if who == person]:
        for j in range(X.shape[1] + (y is not None)):
            both = []
            for sign in (1, -1):
                moved, target = X.copy(), None if y is None else y.copy()
                if j < X.shape[1]:
                    moved[row, j] += sign * STEP
                else:
                    target[row] += sign * STEP
                both.append(answers(moved, target))
            columns.append((both[0] - both[1]) / (2 * STEP))
    return np.column_stack(columns)


def test_a_person_of_a_given_pipeline_has_the_figure_of_refits_through_its_scaler():
    X, y, ids = people()

    def fitted(table, target):
        model = make_pipeline(StandardScaler(), Ridge(alpha=2.0))
        return model.fit(table, target)

    target = X[:, 0] / 10 + y
    leak = dm.measure(
        fitted(X, target), X, target, person=ids, noise=dm.Gaussian(SIGMA), release="predictions", queries=QUERIES
    )
    assert leak.not_covered == ()
    for person in ("p0", "p7"):
        J = refits(lambda t, v: fitted(t, v).predict(QUERIES), X, person, ids, target)
        assert leak.persons[person] == pytest.approx(np.linalg.norm(J, 2) / SIGMA, rel=1e-5)


def test_probabilities_of_a_given_logistic_pipeline_have_the_figure_of_refits():
    X, y, ids = people()

    def fitted(table):
        steps = StandardScaler(), LogisticRegression(C=0.7, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
        return make_pipeline(*steps).fit(table, y)

    options = {"person": ids, "noise": dm.Laplace(SIGMA), "release": "predictions", "known_target": True}
    leak = dm.measure(fitted(X), X, y, queries=QUERIES, **options)
    for person in ("p1", "p12"):
        J = refits(lambda t, _: fitted(t).predict_proba(QUERIES)[:, 1], X, person, ids)
        assert leak.persons[person] == pytest.approx(np.linalg.norm(J, 2) / SIGMA, rel=1e-4)


def test_queries_of_labels_and_numbers_are_encoded_as_the_table_is():
    rng = np.random.default_rng(8)
    n = 60
    table = {"age": rng.normal(50, 10, n), "ward": rng.choice(["n", "s", "w"], n), "cost": rng.gamma(2.0, size=n)}
    queries = {"ward": ["w", "n"], "age": [44.0, 61.0], "remark": ["not", "read"]}
    own = dm.measure(table, target="cost", release="predictions", queries=queries, noise=dm.Gaussian(1.0), l2=0.0)
    import pandas as pd

    encode = make_column_transformer((OneHotEncoder(drop="first"), ["ward"]), remainder="passthrough")
    X = pd.DataFrame({name: table[name] for name in ("ward", "age")})
    model = make_pipeline(encode, LinearRegression()).fit(X, table["cost"])
    given = dm.measure(
        model, X, table["cost"], release="predictions", queries=pd.DataFrame({k: queries[k] for k in ("ward", "age")}),
        noise=dm.Gaussian(1.0), unit="sd",
    )  # fmt: skip
    # The same least squares in two coordinates: answers, and what they leak, do not depend on these.
    np.testing.assert_allclose(own.labels, given.labels, rtol=1e-7)
    np.testing.assert_allclose(own.cell("age"), given.cell("age"), rtol=1e-7)
    np.testing.assert_allclose(own.cell("ward"), given.cell("ward"), rtol=1e-7)


def test_the_figure_is_the_mean_square_of_the_score_of_simulated_answers():
    X, y, _ = people(30, seed=2)
    y = X[:, 1] + y
    model = LinearRegression().fit(X, y)
    leak = dm.measure(model, X, y, noise=dm.LogisticNoise(0.3), release="predictions", queries=QUERIES)
    rng, row, noise = np.random.default_rng(1), 4, dm.LogisticNoise(0.3)
    moved = [y.copy(), y.copy()]
    moved[0][row] += STEP
    moved[1][row] -= STEP
    here = model.predict(QUERIES)
    up, down = (LinearRegression().fit(X, target).predict(QUERIES) for target in moved)
    answers = here + rng.logistic(0.0, 0.3, (400_000, 3))
    score = (noise.logpdf(answers - up) - noise.logpdf(answers - down)).sum(axis=1) / (2 * STEP)
    square = score**2
    error = square.std() / np.sqrt(len(square))
    assert abs(square.mean() - leak.labels[row] ** 2) < 6 * error
    assert 6 * error < 0.05 * square.mean()


def test_k_answers_to_one_query_leak_the_root_of_k_as_much():
    X, y, ids = people()
    model = LogisticRegression().fit(X, y)
    options = {"person": ids, "noise": dm.Gaussian(0.1), "release": "predictions"}
    once, often = (dm.measure(model, X, y, queries=np.repeat(QUERIES[:1], k, axis=0), **options) for k in (1, 9))
    np.testing.assert_allclose(list(often.persons.values()), 3 * np.array(list(once.persons.values())), rtol=1e-9)


def test_labels_leak_no_more_than_margins_and_say_what_they_are():
    X, y, _ = people()
    three = np.digitize(X[:, 0], [45, 55]).astype(float)
    options = {"noise": dm.Gaussian(0.5), "release": "predictions", "queries": QUERIES}
    for target, standing in ((y, "exact"), (three, "upper bound")):
        model = LogisticRegression(C=0.01).fit(X, target)
        labels, margins = (dm.measure(model, X, target, answer=answer, **options) for answer in ("labels", "margins"))
        assert np.all(labels.examples <= margins.examples * (1 + 1e-9))
        assert labels.result().answers.standing == standing
    gumbel = dm.measure(model, X, three, answer="labels", **(options | {"noise": dm.Gumbel(0.5)}))
    assert gumbel.result().answers.standing == "exact"


def test_exact_answers_are_unbounded_and_count_what_is_left():
    X, y, _ = people()
    model = LinearRegression().fit(X, y)
    for rows, left in ((QUERIES[:1], 2), (QUERIES[[0, 0]], 2), (QUERIES[:2], 1), (QUERIES, 0)):
        leak = dm.measure(model, X, y, release="predictions", queries=rows)
        result = leak.result(limit=1.0)
        assert np.all(np.isinf(leak.examples[leak.leak.unscaled_examples > 0]))
        assert (result.bounded, result.answers.left, result.verdict.within) == (False, left, False)
    line = np.outer([0.1, 0.5, 0.9], QUERIES[0]) + np.outer([0.9, 0.5, 0.1], QUERIES[1])
    assert dm.measure(model, X, y, release="predictions", queries=line).independent == 2
    far = X * 1e-3 + 1e3
    shifted = dm.measure(LinearRegression().fit(far, y), far, y, release="predictions", queries=QUERIES * 1e-3 + 1e3)
    assert shifted.independent == 3


def test_a_poisson_model_and_declared_bounds_are_answered_too():
    X, y, ids = people()
    counts = np.round(X[:, 0] / 10)
    model = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X / 50, counts)
    leak = dm.measure(model, X / 50, counts, noise=dm.Gaussian(0.1), release="predictions", queries=QUERIES / 50)
    assert leak.result().model.loss == "poisson"
    bounds = {"age": (0, 120), "bmi": (10, 60), "ill": ["0", "1"]}
    table = frame(X, ill=y, who=np.array(ids, dtype=object))
    fitted = dm.measure(
        table, target="ill", person="who", bounds=bounds, noise=dm.Gaussian(0.1), release="predictions",
        queries=frame(QUERIES),
    )  # fmt: skip
    assert fitted.standing.value == "exact"
    assert fitted.result().not_covered == []


def test_the_external_edition_holds_what_the_queries_and_settings_say_alone():
    X, y, ids = people()
    shown = []
    for shift in (0.0, 7.0):
        moved = X.copy()
        moved[3] += shift
        table = frame(moved, ill=y, who=np.array(ids, dtype=object))
        leak = dm.measure(
            table, target="ill", person="who", noise=dm.Gaussian(0.1), release="predictions", queries=frame(QUERIES)
        )
        public = external(leak.result(limit=1000.0)).to_dict()
        shown.append(public)
        assert public["answers"] == {
            "answer": "predictions", "queries": 3, "parameters": 3, "independent": 3, "left": 0, "standing": "exact",
        }  # fmt: skip
        assert "dose" not in public
    assert shown[0] == shown[1]


def test_the_command_line_gives_the_same_figures(tmp_path, capsys):
    X, y, ids = people()
    rows = [f"{i},{a!r},{b!r},{v:g}" for i, (a, b), v in zip(ids, X.tolist(), y, strict=True)]
    table, queries = tmp_path / "people.csv", tmp_path / "queries.csv"
    table.write_text("\n".join(["who,age,bmi,ill", *rows]) + "\n")
    queries.write_text("bmi,age\n" + "".join(f"{b},{a}\n" for a, b in QUERIES))
    command = f"measure {table} --target ill --person who --release predictions --queries {queries} --scale 0.1"
    assert run([*command.split(), "--max-dose", "1e-3", "--json", "-", "-q"]) == 1
    printed = json.loads(capsys.readouterr().out)
    leak = dm.measure(str(table), target="ill", person="who", release="predictions", queries=frame(QUERIES),
                      noise=dm.Gaussian(0.1))  # fmt: skip
    assert printed["schema"] == "dosimeter.answers/3"
    assert printed["dose"]["highest"] == pytest.approx(max(leak.persons.values()), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"queries": QUERIES}, "release"),
        ({"answer": "margins"}, "release"),
        ({"release": "predictions"}, "queries"),
        ({"release": "everything"}, "release"),
        ({"release": "predictions", "queries": QUERIES, "answer": "words"}, "answer"),
        ({"release": "predictions", "queries": QUERIES, "scaler": "held"}, "scaler"),
        ({"release": "predictions", "queries": {"x0": [1.0]}}, "x1"),
        ({"release": "predictions", "queries": np.array([[np.nan, 1.0]])}, "row"),
        ({"release": "predictions", "queries": np.empty((0, 2))}, "queries"),
    ],
)
def test_queries_that_do_not_fit_are_refused_in_one_line(options, needle):
    X, y, _ = people()
    model = LinearRegression().fit(X, y)
    with pytest.raises(dm.Refusal, match=needle):
        dm.measure(model, X, y, noise=dm.Gaussian(0.1), **options)


def test_exact_labels_and_models_without_one_fit_are_refused():
    X, y, _ = people()
    with pytest.raises(dm.CannotMeasure, match="labels"):
        dm.measure(LogisticRegression().fit(X, y), X, y, release="predictions", queries=QUERIES, answer="labels")
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis().fit(X, y)
    with pytest.raises(dm.CannotMeasure):
        dm.measure(model, X, y, noise=dm.Gaussian(1.0), release="predictions", queries=QUERIES)


def test_the_answers_of_the_model_are_the_librarys():
    from dosimeter.models.answering_model import UNIT, AnsweringModel
    from dosimeter.models.given_model import measure_model

    X, y, _ = people()
    three = np.digitize(X[:, 0], [45, 55]).astype(float)
    for target in (y, three):
        model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000)).fit(X, target)
        answering = AnsweringModel.of_given(measure_model(model, X, target, noise=UNIT, answers=True))
        answers = answering.answers(answering.read(QUERIES), glm.Answer.PREDICTIONS)
        expected = model.predict_proba(QUERIES)
        np.testing.assert_allclose(answers, expected if expected.shape[1] > 2 else expected[:, 1:], atol=1e-6)


@pytest.mark.parametrize(
    ("target", "answer", "said"),
    [("ill", "predictions", True), ("ill", "labels", True), ("ill", "margins", False), ("cost", "predictions", False)],
)
def test_answers_that_can_be_flat_are_said_to_be_near_the_table(target, answer, said):
    rng = np.random.default_rng(0)
    people = {"age": rng.normal(50, 9, 30)}
    people["cost"] = people["age"] + rng.normal(0, 9, 30)
    people["ill"] = (people.pop("cost") > 50).astype(float) if target == "ill" else people["cost"]
    if target == "cost":
        del people["ill"]
    leak = dm.measure(
        people,
        target=target,
        release="predictions",
        queries={"age": [40.0, 60.0]},
        noise=dm.Gaussian(1.0),
        answer=answer,
    )
    assert any("sign of a margin" in text for text in leak.result().assumptions) is said


def test_queries_go_through_steps_that_mix_columns():
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import PolynomialFeatures

    X, y, _ = people()
    model = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()).fit(X, y)
    names = [f"x{j}" for j in range(X.shape[1])]
    table = {**dict(zip(names, X.T, strict=True)), "y": y, "who": [f"p{k // 2}" for k in range(len(y))]}
    queries = dict(zip(names, QUERIES.T, strict=True))
    leak = dm.measure(
        model, table, target="y", person="who", release="predictions", queries=queries, noise=dm.Gaussian(1.0)
    )
    np.testing.assert_allclose(
        leak.model.answers(leak.model.read(queries), glm.Answer.PREDICTIONS)[:, 0], model.predict(QUERIES), rtol=1e-6
    )


def test_queries_of_any_size_are_measured_without_a_warning():
    """The square of a query of 1e160 has no float64; warnings are errors here."""
    X, y, ids = people()
    table = {"age": X[:, 0], "bmi": X[:, 1], "cost": y}
    options = {"release": "predictions", "bounds": {"age": (0, 120), "bmi": (0, 60), "cost": (-9, 9)}}
    far = {"age": [1e160, -1e160, 1.0], "bmi": [20.0, 30.0, 25.0]}
    clipped = {"age": [120.0, 0.0, 1.0], "bmi": [20.0, 30.0, 25.0]}
    noised = [
        dm.measure(table, target="cost", person=ids, noise=dm.Gaussian(1.0), queries=queries, **options)
        for queries in (far, clipped)
    ]
    assert noised[0].persons == pytest.approx(noised[1].persons, rel=1e-12)
