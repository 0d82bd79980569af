"""scikit-learn's own records of what it kept (support_, n_samples_fit_, labels_) are the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import DBSCAN, AffinityPropagation, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import GradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, LocalOutlierFactor, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from dosimeter.scan import scan
from dosimeter.tables.table import Table
from tests.scan.people import CITY, NAMES, X, Y, at, dumped, scanned, table

SCALERS = [StandardScaler(), MinMaxScaler((-1, 3)), MaxAbsScaler(), RobustScaler(), StandardScaler(with_mean=False)]


def _rows(support) -> list[int]:
    return sorted((np.asarray(support) + 1).tolist())


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
@pytest.mark.parametrize("machine", [SVC(), NuSVC(), SVR(), OneClassSVM(nu=0.2)], ids=lambda m: type(m).__name__)
def test_the_rows_found_are_the_support_vectors(scaler, machine, tmp_path: Path) -> None:
    model = make_pipeline(scaler, machine).fit(X, Y)
    found = scanned(model, tmp_path, table())
    assert list(found.named) == _rows(model[-1].support_)
    one = at(found, "steps[1].support_vectors_")
    assert (one.severity, one.certainty, one.count) == ("rows", "matched", len(model[-1].support_))
    assert one.match.how.endswith("by steps[0]")
    assert one.match.by_accident < 1e-20


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_rows_are_found_whatever_the_order_of_the_columns_and_the_precision(width, tmp_path: Path) -> None:
    model = SVC().fit(X[:, ::-1].astype(width), Y)
    found = scanned(model, tmp_path, table())
    assert list(found.named) == _rows(model.support_)
    assert at(found, "support_vectors_").match.exact == (width == np.float64)


def test_sparse_support_vectors_are_found(tmp_path: Path) -> None:
    thin = np.where(np.median(X, axis=0) < X, X, 0.0)
    model = SVC().fit(sparse.csr_matrix(thin), Y)
    found = scanned(model, tmp_path, Table.of(dict(zip(NAMES, thin.T, strict=True))))
    assert list(found.named) == _rows(model.support_)


EVERYBODY = [
    (KNeighborsClassifier(), "_fit_X"),
    (KNeighborsClassifier(algorithm="kd_tree"), "_fit_X"),
    (KNeighborsClassifier(algorithm="ball_tree"), "_fit_X"),
    (NearestNeighbors(), "_fit_X"),
    (LocalOutlierFactor(), "_fit_X"),
    (KernelRidge(kernel="rbf"), "X_fit_"),
    (KernelPCA(3, kernel="rbf"), "X_fit_"),
    (GaussianProcessRegressor(), "X_train_"),
    (KernelDensity(), "tree_[0]"),
]


@pytest.mark.parametrize(("model", "place"), EVERYBODY, ids=lambda one: str(one)[:40])
def test_models_that_keep_everybody_are_found_to(model, place, tmp_path: Path) -> None:
    found = scanned(make_pipeline(StandardScaler(), model).fit(X, Y), tmp_path, table())
    assert list(found.named) == list(range(1, len(X) + 1))
    assert at(found, f"steps[1].{place}").match.found == len(X)


def test_without_a_table_the_same_rows_are_known_by_their_names(tmp_path: Path) -> None:
    for model, place in EVERYBODY:
        found = scanned(make_pipeline(StandardScaler(), model).fit(X, Y), tmp_path)
        one = at(found, f"steps[1].{place}")
        assert found.rows_inside
        assert (one.certainty, one.count, one.match) == ("known", len(X), None)
        assert found.named == ()


def test_rows_are_found_behind_a_projection_and_a_normaliser(tmp_path: Path) -> None:
    for before in (make_pipeline(StandardScaler(), PCA(6, whiten=True)), make_pipeline(Normalizer("l1"))):
        found = scanned(
            make_pipeline(*(step for _, step in before.steps), KNeighborsClassifier()).fit(X, Y), tmp_path, table()
        )
        assert list(found.named) == list(range(1, len(X) + 1))


def test_rows_are_found_behind_a_column_transformer_by_the_columns_that_tell(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=NAMES).assign(city=CITY)
    before = ColumnTransformer(
        [("n", StandardScaler(), list(NAMES[:9])), ("c", OneHotEncoder(sparse_output=False), ["city"])]
    )
    found = scanned(make_pipeline(before, KNeighborsClassifier()).fit(frame, Y), tmp_path, table(city=CITY))
    assert list(found.named) == list(range(1, len(X) + 1))
    assert "column by column (9 of" in at(found, "steps[1]._fit_X").match.how


@pytest.mark.parametrize("keeper", [SVC(), KNeighborsClassifier()])
def test_rows_of_few_numbers_beside_many_levels_are_more_than_an_accident(keeper, tmp_path: Path) -> None:
    import pandas as pd

    rng = np.random.default_rng(2)
    whole = {
        "age": rng.integers(20, 90, 600),
        "pressure": rng.integers(90, 160, 600),
        "fat": rng.integers(120, 290, 600),
    }
    labels = {"sex": rng.choice(["f", "m"], 600), "visit": rng.integers(0, 300, 600).astype(str)}
    frame, ill = pd.DataFrame({**whole, **labels}), rng.random(600) < 0.3
    before = ColumnTransformer([("c", OneHotEncoder(), [*labels]), ("n", StandardScaler(), [*whole])])
    model = make_pipeline(before, keeper).fit(frame, ill)
    support = model[-1].support_ if isinstance(keeper, SVC) else np.arange(600)
    people = {name: frame[name].to_numpy() for name in frame}
    found = scanned(model, tmp_path, Table.of(people))
    assert list(found.named) == _rows(support)
    (met,) = [one.match for one in found.findings if one.severity == "rows" and one.match and one.match.of > 100]
    assert met.beyond_accident
    assert met.by_accident < met.found
    # The same columns, put together anew: nobody's rows, and what agrees does so by accident.
    anew = {name: rng.permutation(column) if name in whole else column for name, column in people.items()}
    assert scanned(model, tmp_path, Table.of(anew)).named == ()


def test_rows_chosen_as_examples_are_rows(tmp_path: Path) -> None:
    scaled = StandardScaler().fit_transform(X)
    people = Table.of(dict(zip(NAMES, scaled.T, strict=True)))
    dense = DBSCAN(eps=4).fit(scaled)
    assert list(scanned(dense, tmp_path, people).named) == _rows(dense.core_sample_indices_)
    chosen = AffinityPropagation(random_state=0).fit(scaled)
    assert list(scanned(chosen, tmp_path, people).named) == _rows(chosen.cluster_centers_indices_)
    landmarks = Nystroem(n_components=12, random_state=0).fit(scaled)
    assert list(scanned(landmarks, tmp_path, people).named) == _rows(landmarks.component_indices_)


def test_the_centre_of_a_cluster_of_one_is_that_row(tmp_path: Path) -> None:
    model = KMeans(40, n_init=1, random_state=0).fit(X)
    alone = [k for k in range(40) if (model.labels_ == k).sum() == 1]
    assert alone
    one = at(scanned(model, tmp_path), "cluster_centers_", "groups of one")
    assert (one.severity, one.count) == ("rows", len(alone))
    found = scanned(model, tmp_path, table())
    assert list(found.named) == _rows([i for i, k in enumerate(model.labels_) if k in alone])


def test_a_class_of_one_gives_its_row_as_a_mean(tmp_path: Path) -> None:
    y = np.where(np.arange(len(X)) == 41, 2, Y)
    found = scanned(GaussianNB().fit(X, y), tmp_path, table())
    assert found.named == (42,)


def test_the_extremes_name_those_who_hold_them_alone(tmp_path: Path) -> None:
    coarse = np.clip(np.floor(10 * X / X.max(axis=0)), 2, 9)  # shared extremes and some of one person's alone
    people = Table.of(dict(zip(NAMES, coarse.T, strict=True)))
    found = scanned(MinMaxScaler().fit(coarse), tmp_path, people)
    assert not found.rows_inside
    for name, extreme in (("data_min_", coarse.min(axis=0)), ("data_max_", coarse.max(axis=0))):
        holders = [np.flatnonzero(coarse[:, j] == extreme[j]) for j in range(coarse.shape[1])]
        one = at(found, name)
        assert one.severity == "values of single people"
        assert set(one.match.rows) == {int(row) + 1 for rows in holders for row in rows}
        assert set(one.match.alone) == {int(rows[0]) + 1 for rows in holders if len(rows) == 1}
        assert {len(rows) == 1 for rows in holders} == ({False} if name == "data_min_" else {False, True})


def test_declared_bounds_are_told_from_peoples_values(tmp_path: Path) -> None:
    import pandas as pd

    places = ("data_min_", "data_max_", "data_range_", "scale_", "min_")
    ends = pd.DataFrame([X.min(axis=0) - np.pi / 9, X.max(axis=0) + np.pi / 9], columns=NAMES)
    for declared in (ends, ends.to_numpy()):
        found = scanned(MinMaxScaler().fit(declared), tmp_path, table())
        assert {at(found, one).remark for one in places} == {"none is a value of this table"}
        assert all("declared beforehand" in at(found, one).why for one in places)
        assert all(at(found, one).match is None for one in places)
    own = scanned(MinMaxScaler().fit(X), tmp_path, table())
    assert at(own, "data_min_").match.found == at(own, "data_min_").match.of
    assert "declared" not in at(own, "data_min_").why
    assert all("none" not in at(own, one).remark for one in places)
    # One end of one column taken from the table is enough.
    ends.iloc[0, 4] = X[:, 4].min()
    assert at(scanned(MinMaxScaler().fit(ends), tmp_path, table()), "data_range_").remark == ""
    assert "unless they were declared" in at(scanned(MinMaxScaler().fit(ends), tmp_path), "data_min_").why


def test_means_are_called_exact_only_where_they_are_the_tables(tmp_path: Path) -> None:
    own = at(scanned(StandardScaler().fit(X), tmp_path, table()), "mean_")
    assert own.why.startswith("exact, without noise")
    for people in (None, table()):
        strange = at(scanned(StandardScaler().fit(X + 1.0), tmp_path, people), "mean_")
        assert "exact" not in strange.why
        assert "without noise" in strange.why


def test_quantiles_that_are_somebodys_value_are_counted(tmp_path: Path) -> None:
    model = QuantileTransformer(n_quantiles=len(X)).fit(X)
    one = at(scanned(model, tmp_path, table()), "quantiles_")
    assert (one.severity, one.match.found) == (
        "values of single people",
        sum(len(np.unique(X[:, j])) for j in range(30)),
    )


def test_means_are_compared_with_the_tables_own(tmp_path: Path) -> None:
    found = scanned(PCA(3).fit(X), tmp_path, table())
    assert at(found, "mean_").remark == "this table's own"
    assert at(found, "n_samples_").severity == "statistics"
    other = scanned(PCA(3).fit(X[:-1]), tmp_path, table())
    assert at(other, "mean_").remark == ""
    assert not found.rows_inside


def test_a_level_that_one_person_holds_names_their_row(tmp_path: Path) -> None:
    levels = CITY[:, None]
    for made in (levels, levels.astype(str)):
        for encoder in (OneHotEncoder(), OrdinalEncoder()):
            one = at(scanned(encoder.fit(made), tmp_path, table(city=CITY)), "categories_[0]")
            assert (one.severity, one.count, one.match.found, one.match.alone) == ("lists", 4, 4, (8,))


def test_a_word_that_one_person_used_names_their_row(tmp_path: Path) -> None:
    notes = np.array(["fever and cough"] * len(X), dtype=object)
    notes[100] = "fever since Reykjavik"
    one = at(scanned(CountVectorizer().fit(notes), tmp_path, table(note=notes)), "vocabulary_")
    assert (one.severity, one.count, one.match.alone) == ("lists", 5, (101,))


def test_leaves_of_one_person_are_counted_over_the_forest(tmp_path: Path) -> None:
    forest = RandomForestClassifier(6, random_state=0).fit(X, Y)
    trees = [tree.tree_ for tree in forest.estimators_]
    alone = sum(int(((t.children_left == -1) & (t.n_node_samples == 1)).sum()) for t in trees)
    inner = sum(int((t.children_left != -1).sum()) for t in trees)
    found = scanned(forest, tmp_path)
    assert at(found, "estimators_[*].tree_.nodes", "leaves").count == alone
    assert at(found, "estimators_[*].tree_.nodes", "thresholds").count == inner
    assert not found.rows_inside
    for model in (IsolationForest(n_estimators=5, random_state=0), GradientBoostingClassifier(n_estimators=5)):
        assert any("leaves of one person" in one.what for one in scanned(model.fit(X, Y), tmp_path).findings)


def test_a_linear_model_has_no_rows(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    found = scanned(model, tmp_path, table())
    assert not found.rows_inside
    assert {one.severity for one in found.findings} == {"statistics", "lists"}


def test_rows_that_were_noised_or_shuffled_are_not_matched(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for mutant in (X * (1 + 1e-6 * rng.normal(size=X.shape)), rng.permuted(X, axis=0), X + 1.0):
        found = scanned(KNeighborsClassifier().fit(mutant, Y), tmp_path, table())
        assert found.named == ()
        assert found.rows_inside  # by its name: somebody's rows, not this table's
        assert at(found, "_fit_X").remark == "none of this table's rows"
    assert scanned(KNeighborsClassifier().fit(X, Y), tmp_path, table()).named != ()


def test_half_of_the_rows_from_elsewhere_leaves_the_other_half_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    mixed = np.where(np.arange(len(X))[:, None] % 2 == 0, X, rng.permuted(X, axis=0))
    found = scanned(make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(mixed, Y), tmp_path, table())
    assert list(found.named) == list(range(1, len(X) + 1, 2))


def test_nothing_is_constructed_not_even_an_unknown_type(tmp_path: Path) -> None:
    import skops.io

    class Stranger:
        def __init__(self) -> None:
            self.kept_ = X[:50]

        def __setstate__(self, state) -> None:
            raise AssertionError("constructed")

    (tmp_path / "m.skops").write_bytes(skops.io.dumps(Stranger()))
    assert scan(tmp_path / "m.skops", table()).named == tuple(range(1, 51))
    assert scan(tmp_path / "m.skops").findings[0].certainty == "possible"


def test_our_own_releases_have_no_rows(tmp_path: Path) -> None:
    from dosimeter.estimators import PrivatePCA
    from dosimeter.models.linear_release import repair

    private = PrivatePCA(3, epsilon=2.0, lower=X.min(axis=0), upper=X.max(axis=0)).fit(X).released_
    people = table(city=CITY)
    fixed = repair(people, "ill", scale=0.5, l2=0.01, nominal=("city",)).model
    for model in (private, fixed):
        path = dumped(model, tmp_path)
        assert not scan(path).rows_inside
        found = scan(path, people)
        assert not found.rows_inside
        assert found.named == ()
        assert all(one.remark != "this table's own" for one in found.findings)
