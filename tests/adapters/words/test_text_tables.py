"""Texts beside other columns, bounds on wide tables, bad input, and results of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters.words import design
from dosimeter.glm.fitting import route
from dosimeter.glm.row_maps.row_chain import ColumnScales, RowChain, RowNorms
from tests.adapters.words.texts import CLASS, NUMBER, PERSON, TEXTS, Array

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(
    {
        "note": TEXTS,
        "age": RNG.normal(50.0, 10.0, len(TEXTS)),
        "ward": RNG.permutation(np.resize(["a", "b", "c"], len(TEXTS))),
        "who": PERSON,
        "y": NUMBER,
    }
)
SEEN = FRAME[["note", "age", "ward"]]


def moved(model: Any, X: Array, other: Array) -> Array:
    """How a ridge regression moves from one design to another, per unit of the difference."""
    h = 1e-4
    ends = [Ridge(model.alpha).fit(X + sign * h * (other - X), NUMBER) for sign in (1, -1)]
    up, down = (np.append(end.coef_, end.intercept_) for end in ends)
    return (up - down) / (2 * h)


@pytest.mark.parametrize("vectorizer", [CountVectorizer(), TfidfVectorizer()], ids=["counts", "tf-idf"])
def test_a_text_beside_numbers_and_categories_has_figures_for_each(vectorizer: Any) -> None:
    columns = make_column_transformer((vectorizer, "note"), (StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"]))
    model = make_pipeline(columns, Ridge(0.7)).fit(SEEN, NUMBER)
    leak, row = dm.measure(model, FRAME, target="y", person="who", noise=dm.Gaussian(1.0)), 6
    X = np.asarray(model[:-1].transform(SEEN))
    X = X if X.ndim else model[:-1].transform(SEEN).toarray()
    older = SEEN.copy()
    older.loc[row, "age"] += 1.0
    change = model[:-1].transform(older)
    change = np.asarray(change.toarray() if sparse.issparse(change) else change)
    assert leak.cell("age")[row] == pytest.approx(np.linalg.norm(moved(model[-1], X, change)), rel=1e-6)
    assert set(leak.columns) == {"note", "age", "ward"}
    assert leak.cells["note"].iloc[row] > leak.words_frame([row], k=1)["eta"].iloc[0] > 0
    assert leak.result().to_html()


def test_two_vectorizers_of_one_text_are_one_source() -> None:
    union = FeatureUnion([("words", TfidfVectorizer()), ("pairs", CountVectorizer(ngram_range=(2, 2), max_features=9))])
    model = make_pipeline(union, LogisticRegression()).fit(TEXTS, CLASS)
    leak = dm.measure(model, TEXTS, CLASS, noise=dm.Gaussian(1.0))
    assert leak.columns == ("text",)
    assert leak.leak.m == len(model[0].get_feature_names_out())


def wide_counts(n: int = 25, d: int = 70) -> tuple[Any, Any, Any]:
    """Counts behind idf and norm: the table, its map, and the target."""
    counts = np.random.default_rng(1).poisson(0.3, (n, d)).astype(float)
    counts[:, 0] += 1.0
    idf = np.random.default_rng(2).uniform(1.0, 3.0, d)
    size = np.linalg.norm(counts * idf, axis=1)
    X = sparse.csr_array(counts * idf / size[:, None])
    every = np.arange(d, dtype=np.intp)
    chain = RowChain.of(every, every, [ColumnScales(idf), RowNorms(X, 1.0 / size, X)])
    return X, glm.RowMap(np.zeros((d, d)), chains=(chain,)), (np.arange(n) % 3 == 0).astype(float)


@pytest.mark.parametrize("route", ["dual", "iterative"])
@pytest.mark.parametrize("include_target", [True, False])
def test_bounds_of_wide_tables_are_never_below_the_exact_figures(route: str, include_target: bool) -> None:
    X, maps, y = wide_counts()
    options = {"include_target": include_target, "input_map": maps}
    exact, bound = (
        glm.measure(glm.fit(X, y, glm.Logistic(), 0.04, intercept=True, route=r), X, y, dm.Gaussian(1.0), **options)
        for r in ("primal", route)
    )
    assert bound.standing.value == "upper bound"
    lower, upper = bound.bracket
    np.testing.assert_array_equal(upper, bound.examples)
    assert (lower <= exact.examples * (1 + 1e-9)).all()
    assert (upper >= exact.examples * (1 - 1e-9)).all()
    assert (upper <= 1.6 * exact.examples).all()
    assert (bound.cells_of([3]) >= exact.cells_of([3]) * (1 - 1e-9)).all()
    groups = [k % 6 for k in range(X.shape[0])]
    figures, bounds = exact.group(groups), bound.group(groups)
    assert all(bounds[g] >= figures[g] * (1 - 1e-9) for g in figures)


@pytest.mark.parametrize("listed", [True, False], ids=["a listed vocabulary", "learned"])
def test_a_vocabulary_beyond_the_exact_route_says_everywhere_that_figures_are_bounds(listed, monkeypatch) -> None:
    words = CountVectorizer().fit(TEXTS).get_feature_names_out() if listed else None
    vectorizer = TfidfVectorizer(vocabulary=words, use_idf=not listed)
    model = make_pipeline(vectorizer, LogisticRegression(tol=1e-10, max_iter=1000)).fit(TEXTS, CLASS)
    options = {"noise": dm.Gaussian(1.0), "person": PERSON}
    exact = dm.measure(model, TEXTS, CLASS, **options)
    monkeypatch.setattr(design, "DIRECT", 1)
    monkeypatch.setattr(route, "choose_route", lambda n, d, sparse=False: route.SolverRoute.ITERATIVE)
    bound = dm.measure(model, TEXTS, CLASS, **options)
    assert exact.leak.standing.value == "exact"
    assert bound.leak.standing.value == "upper bound"
    assert bound.standing.value == ("upper bound" if listed else "unaccounted")
    for reading, loosest in (("examples", 1.6), ("persons", 2.5)):
        figures, bounds = (
            np.asarray(list(v.values()) if isinstance(v, dict) else v)
            for v in (getattr(exact, reading), getattr(bound, reading))
        )
        assert (bounds >= figures * (1 - 1e-9)).all()
        assert (bounds <= loosest * figures).all()
    assert any("are upper bounds" in note for note in bound.notes)
    assert not any("are upper bounds" in note for note in exact.notes)
    assert "are upper bounds" in bound.result(limit=1.0).to_json()
    assert bound.dose().standing is bound.standing


def test_figures_of_rows_behind_a_norm_are_those_of_maps_that_are_written_out() -> None:
    X, maps, y = wide_counts()
    chain = maps.chains[0]
    n, d = X.shape
    dense = glm.RowMap.of(d, d, lambda rows: np.stack([written(chain, row, d) for row in rows.tolist()]))
    wide = glm.measure(glm.fit(X, y, glm.Logistic(), 0.04, route="primal"), X, y, dm.Gaussian(1.0), input_map=maps)
    table = X.toarray()
    plain = glm.measure(glm.fit(table, y, glm.Logistic(), 0.04), table, y, dm.Gaussian(1.0), input_map=dense)
    assert wide.examples == pytest.approx(plain.examples, rel=1e-10)
    assert wide.cells_of(np.arange(n)) == pytest.approx(plain.cells, rel=1e-9, abs=1e-12)
    groups = [k % 4 for k in range(n)]
    for tied in (False, True):
        expected = plain.group(groups, tied_target=tied)
        assert wide.group(groups, tied_target=tied) == pytest.approx(expected, rel=1e-10)
    assert wide.subset(np.arange(n)) == pytest.approx(plain.subset(np.arange(n)), rel=1e-10)


def written(chain: RowChain, row: int, d: int) -> Array:
    """The map of one row as a matrix."""
    return chain.take(np.full(d, row, dtype=np.intp)).transposed(np.eye(d))


def test_a_ridge_classifier_of_two_classes_is_the_same_on_a_sparse_table() -> None:
    rng = np.random.default_rng(4)
    X = sparse.random_array((40, 300), density=0.4, format="csr", rng=rng)
    model = RidgeClassifier(solver="cholesky", fit_intercept=False).fit(X.toarray(), CLASS)
    leak = dm.measure(model, X, CLASS, noise=dm.Gaussian(1.0))
    dense = dm.measure(model, X.toarray(), CLASS, noise=dm.Gaussian(1.0))
    assert leak.examples == pytest.approx(dense.examples, rel=1e-7)
    assert leak.labels == pytest.approx(dense.labels, rel=1e-7)
    assert leak.columns == ("columns",)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([*TEXTS[:-1], None], "no text in row 39"),
        (TEXTS[:-1], "values for 39 rows"),
        (np.zeros((40, 3)), "takes one column of texts"),
        (SEEN, "takes one column of texts"),
        (["", *TEXTS[1:]], "no derivative in row 0"),
    ],
)
def test_tables_that_are_not_the_texts_are_refused(table: Any, message: str) -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, CLASS)
    with pytest.raises(dm.Refusal, match=message):
        dm.measure(model, table, CLASS, noise=dm.Gaussian(1.0))


WIDE = sparse.random_array((40, 300), density=0.05, format="csr", rng=np.random.default_rng(4))


@pytest.mark.parametrize(
    ("y", "loss", "l2", "model"),
    [
        (CLASS[:40], "auto", None, LogisticRegression(tol=1e-9, max_iter=5_000)),
        (np.resize(["a", "b", "c"], 40), "auto", 0.1, LogisticRegression(C=0.25, tol=1e-9, max_iter=5_000)),
        (np.arange(40.0) % 7, "auto", 0.05, Ridge(alpha=2.0)),
        (np.arange(40.0) % 4, "poisson", None, PoissonRegressor(tol=1e-9, max_iter=5_000)),
    ],
    ids=["two classes", "three classes", "numbers", "counts"],
)  # fmt: skip
def test_a_sparse_table_that_is_fitted_here_has_the_figures_of_the_model_of_scikit_learn(
    y: Any, loss: str, l2: float | None, model: Any
) -> None:
    here = dm.measure(WIDE, y=y, loss=loss, l2=l2, noise=dm.Gaussian(1.0))
    given = dm.measure(model.fit(WIDE, y), WIDE, y, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(here.examples, given.examples, rtol=1e-6)


def test_what_a_sparse_table_cannot_be_fitted_with_is_refused() -> None:
    for options, message in (
        ({"target": "ill"}, "no column ill"),
        ({"y": CLASS[:39]}, "39 values for 40 rows"),
        ({"y": np.arange(40.0) + 1.0, "loss": "gamma"}, "loss gamma is not fitted here"),
        ({"y": CLASS[:40], "l2": 0.0}, "above 0"),
        ({"y": np.ones(40)}, "one value only"),
    ):
        with pytest.raises(dm.Refusal, match=message):
            dm.measure(WIDE, noise=dm.Gaussian(1.0), **options)


def test_results_name_the_words_and_what_a_text_figure_covers() -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, CLASS)
    series = pd.Series(TEXTS, name="note")
    leak = dm.measure(model, series, CLASS, person=PERSON, noise=dm.Gaussian(0.1))
    result = leak.result(limit=1.0)
    first = result.words[0]
    assert (first.column, first.eta) == ("note", leak.words_frame([first.row - 1], k=1)["eta"].iloc[0])
    assert result.columns[0].kind == "text"
    text = result.to_text()
    assert "vector of counts" in " ".join(text.split())
    assert any("words of the training texts" in remark for remark in result.remarks)
    assert first.word in result.to_html(edition="internal")
    assert first.word not in result.to_html(edition="external")
    assert list(leak.dose_columns()) == ["person", "eta_in_own_units"]
    assert list(leak.examples.index) == list(series.index)
