"""Compared with scikit-learn's own records of what it stored (support_, n_samples_fit_, labels_)."""

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

from dosimeter.scanner import scan
from dosimeter.tables.table import Table
from tests.scanner.people import CITY, NAMES, X, Y, dump_model, finding_at, scan_model, table

SCALERS = [StandardScaler(), MinMaxScaler((-1, 3)), MaxAbsScaler(), RobustScaler(), StandardScaler(with_mean=False)]


def _rows(support) -> list[int]:
    return sorted((np.asarray(support) + 1).tolist())


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
@pytest.mark.parametrize("machine", [SVC(), NuSVC(), SVR(), OneClassSVM(nu=0.2)], ids=lambda m: type(m).__name__)
def test_the_rows_found_are_the_support_vectors(scaler, machine, tmp_path: Path) -> None:
    model = make_pipeline(scaler, machine).fit(X, Y)
    result = scan_model(model, tmp_path, table())
    assert list(result.matched_rows) == _rows(model[-1].support_)
    finding = finding_at(result, "steps[1].support_vectors_")
    assert (finding.severity, finding.certainty, finding.count) == ("rows", "matched", len(model[-1].support_))
    assert finding.match.view.endswith("by steps[0]")
    assert finding.match.by_accident < 1e-20


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_rows_are_found_whatever_the_order_of_the_columns_and_the_precision(width, tmp_path: Path) -> None:
    model = SVC().fit(X[:, ::-1].astype(width), Y)
    result = scan_model(model, tmp_path, table())
    assert list(result.matched_rows) == _rows(model.support_)
    assert finding_at(result, "support_vectors_").match.exact == (width == np.float64)


def test_sparse_support_vectors_are_found(tmp_path: Path) -> None:
    thin = np.where(np.median(X, axis=0) < X, X, 0.0)
    model = SVC().fit(sparse.csr_matrix(thin), Y)
    result = scan_model(model, tmp_path, Table.of(dict(zip(NAMES, thin.T, strict=True))))
    assert list(result.matched_rows) == _rows(model.support_)


ALL_ROWS_STORED = [
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


@pytest.mark.parametrize(("model", "place"), ALL_ROWS_STORED, ids=lambda finding: str(finding)[:40])
def test_models_that_store_all_rows_are_found(model, place, tmp_path: Path) -> None:
    result = scan_model(make_pipeline(StandardScaler(), model).fit(X, Y), tmp_path, table())
    assert list(result.matched_rows) == list(range(1, len(X) + 1))
    assert finding_at(result, f"steps[1].{place}").match.matched == len(X)


def test_without_a_table_the_same_rows_are_known_by_their_names(tmp_path: Path) -> None:
    for model, place in ALL_ROWS_STORED:
        result = scan_model(make_pipeline(StandardScaler(), model).fit(X, Y), tmp_path)
        finding = finding_at(result, f"steps[1].{place}")
        assert result.rows_inside
        assert (finding.certainty, finding.count, finding.match) == ("known", len(X), None)
        assert result.matched_rows == ()


def test_rows_are_found_behind_a_projection_and_a_normaliser(tmp_path: Path) -> None:
    for before in (make_pipeline(StandardScaler(), PCA(6, whiten=True)), make_pipeline(Normalizer("l1"))):
        result = scan_model(
            make_pipeline(*(step for _, step in before.steps), KNeighborsClassifier()).fit(X, Y), tmp_path, table()
        )
        assert list(result.matched_rows) == list(range(1, len(X) + 1))


def test_rows_are_found_behind_a_column_transformer_by_their_varied_columns(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=NAMES).assign(city=CITY)
    before = ColumnTransformer(
        [("n", StandardScaler(), list(NAMES[:9])), ("c", OneHotEncoder(sparse_output=False), ["city"])]
    )
    result = scan_model(make_pipeline(before, KNeighborsClassifier()).fit(frame, Y), tmp_path, table(city=CITY))
    assert list(result.matched_rows) == list(range(1, len(X) + 1))
    assert "column by column (9 of" in finding_at(result, "steps[1]._fit_X").match.view


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
    result = scan_model(model, tmp_path, Table.of(people))
    assert list(result.matched_rows) == _rows(support)
    (table_match,) = [
        finding.match
        for finding in result.findings
        if finding.severity == "rows" and finding.match and finding.match.total > 100
    ]
    assert table_match.beyond_accident
    assert table_match.by_accident < table_match.matched
    # The same columns recombined: no rows of the table, and what agrees does so by accident.
    recombined = {name: rng.permutation(column) if name in whole else column for name, column in people.items()}
    assert scan_model(model, tmp_path, Table.of(recombined)).matched_rows == ()


def test_rows_chosen_as_examples_are_rows(tmp_path: Path) -> None:
    scaled = StandardScaler().fit_transform(X)
    people = Table.of(dict(zip(NAMES, scaled.T, strict=True)))
    dense = DBSCAN(eps=4).fit(scaled)
    assert list(scan_model(dense, tmp_path, people).matched_rows) == _rows(dense.core_sample_indices_)
    chosen = AffinityPropagation(random_state=0).fit(scaled)
    assert list(scan_model(chosen, tmp_path, people).matched_rows) == _rows(chosen.cluster_centers_indices_)
    landmarks = Nystroem(n_components=12, random_state=0).fit(scaled)
    assert list(scan_model(landmarks, tmp_path, people).matched_rows) == _rows(landmarks.component_indices_)


def test_the_centre_of_a_cluster_of_one_is_that_row(tmp_path: Path) -> None:
    model = KMeans(40, n_init=1, random_state=0).fit(X)
    singletons = [k for k in range(40) if (model.labels_ == k).sum() == 1]
    assert singletons
    finding = finding_at(scan_model(model, tmp_path), "cluster_centers_", "groups of one")
    assert (finding.severity, finding.count) == ("rows", len(singletons))
    result = scan_model(model, tmp_path, table())
    assert list(result.matched_rows) == _rows([i for i, k in enumerate(model.labels_) if k in singletons])


def test_a_class_of_one_gives_its_row_as_a_mean(tmp_path: Path) -> None:
    y = np.where(np.arange(len(X)) == 41, 2, Y)
    result = scan_model(GaussianNB().fit(X, y), tmp_path, table())
    assert result.matched_rows == (42,)


def test_the_extremes_identify_those_who_alone_hold_them(tmp_path: Path) -> None:
    coarse = np.clip(np.floor(10 * X / X.max(axis=0)), 2, 9)  # extremes shared, and some held by one person only
    people = Table.of(dict(zip(NAMES, coarse.T, strict=True)))
    result = scan_model(MinMaxScaler().fit(coarse), tmp_path, people)
    assert not result.rows_inside
    for name, extreme in (("data_min_", coarse.min(axis=0)), ("data_max_", coarse.max(axis=0))):
        holders = [np.flatnonzero(coarse[:, j] == extreme[j]) for j in range(coarse.shape[1])]
        finding = finding_at(result, name)
        assert finding.severity == "values of single people"
        assert set(finding.match.rows) == {int(row) + 1 for rows in holders for row in rows}
        assert set(finding.match.unique_rows) == {int(rows[0]) + 1 for rows in holders if len(rows) == 1}
        assert {len(rows) == 1 for rows in holders} == ({False} if name == "data_min_" else {False, True})


def test_declared_bounds_are_distinguished_from_peoples_values(tmp_path: Path) -> None:
    import pandas as pd

    places = ("data_min_", "data_max_", "data_range_", "scale_", "min_")
    ends = pd.DataFrame([X.min(axis=0) - np.pi / 9, X.max(axis=0) + np.pi / 9], columns=NAMES)
    for declared in (ends, ends.to_numpy()):
        result = scan_model(MinMaxScaler().fit(declared), tmp_path, table())
        assert {finding_at(result, place).remark for place in places} == {"none is a value of this table"}
        assert all("declared in advance" in finding_at(result, place).why for place in places)
        assert all(finding_at(result, place).match is None for place in places)
    own_result = scan_model(MinMaxScaler().fit(X), tmp_path, table())
    assert finding_at(own_result, "data_min_").match.matched == finding_at(own_result, "data_min_").match.total
    assert "declared" not in finding_at(own_result, "data_min_").why
    assert all("none" not in finding_at(own_result, place).remark for place in places)
    # One end of one column taken from the table is enough.
    ends.iloc[0, 4] = X[:, 4].min()
    assert finding_at(scan_model(MinMaxScaler().fit(ends), tmp_path, table()), "data_range_").remark == ""
    assert "unless they were declared" in finding_at(scan_model(MinMaxScaler().fit(ends), tmp_path), "data_min_").why


def test_means_are_called_exact_only_if_they_are_the_tables(tmp_path: Path) -> None:
    own_result = finding_at(scan_model(StandardScaler().fit(X), tmp_path, table()), "mean_")
    assert own_result.why.startswith("exact, without noise")
    for people in (None, table()):
        strange = finding_at(scan_model(StandardScaler().fit(X + 1.0), tmp_path, people), "mean_")
        assert "exact" not in strange.why
        assert "without noise" in strange.why


def test_quantiles_that_are_peoples_values_are_counted(tmp_path: Path) -> None:
    model = QuantileTransformer(n_quantiles=len(X)).fit(X)
    finding = finding_at(scan_model(model, tmp_path, table()), "quantiles_")
    assert (finding.severity, finding.match.matched) == (
        "values of single people",
        sum(len(np.unique(X[:, j])) for j in range(30)),
    )


def test_means_are_compared_with_the_tables_own(tmp_path: Path) -> None:
    result = scan_model(PCA(3).fit(X), tmp_path, table())
    assert finding_at(result, "mean_").remark == "this table's own"
    assert finding_at(result, "n_samples_").severity == "statistics"
    other = scan_model(PCA(3).fit(X[:-1]), tmp_path, table())
    assert finding_at(other, "mean_").remark == ""
    assert not result.rows_inside


def test_a_level_that_one_person_holds_identifies_their_row(tmp_path: Path) -> None:
    levels = CITY[:, None]
    for values in (levels, levels.astype(str)):
        for encoder in (OneHotEncoder(), OrdinalEncoder()):
            finding = finding_at(scan_model(encoder.fit(values), tmp_path, table(city=CITY)), "categories_[0]")
            assert (finding.severity, finding.count, finding.match.matched, finding.match.unique_rows) == (
                "lists",
                4,
                4,
                (8,),
            )


def test_a_word_that_one_person_used_identifies_their_row(tmp_path: Path) -> None:
    notes = np.array(["fever and cough"] * len(X), dtype=object)
    notes[100] = "fever since Reykjavik"
    finding = finding_at(scan_model(CountVectorizer().fit(notes), tmp_path, table(note=notes)), "vocabulary_")
    assert (finding.severity, finding.count, finding.match.unique_rows) == ("lists", 5, (101,))


def test_leaves_of_one_person_are_counted_over_the_forest(tmp_path: Path) -> None:
    forest = RandomForestClassifier(6, random_state=0).fit(X, Y)
    trees = [tree.tree_ for tree in forest.estimators_]
    singletons = sum(int(((t.children_left == -1) & (t.n_node_samples == 1)).sum()) for t in trees)
    inner = sum(int((t.children_left != -1).sum()) for t in trees)
    result = scan_model(forest, tmp_path)
    assert finding_at(result, "estimators_[*].tree_.nodes", "leaves").count == singletons
    assert finding_at(result, "estimators_[*].tree_.nodes", "thresholds").count == inner
    assert not result.rows_inside
    for model in (IsolationForest(n_estimators=5, random_state=0), GradientBoostingClassifier(n_estimators=5)):
        assert any(
            "leaves of one person" in finding.content for finding in scan_model(model.fit(X, Y), tmp_path).findings
        )


def test_a_linear_model_has_no_rows(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    result = scan_model(model, tmp_path, table())
    assert not result.rows_inside
    assert {finding.severity for finding in result.findings} == {"statistics", "lists"}


def test_noised_or_shuffled_rows_are_not_matched(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for mutant in (X * (1 + 1e-6 * rng.normal(size=X.shape)), rng.permuted(X, axis=0), X + 1.0):
        result = scan_model(KNeighborsClassifier().fit(mutant, Y), tmp_path, table())
        assert result.matched_rows == ()
        assert result.rows_inside  # by its name: rows of people, but not this table's
        assert finding_at(result, "_fit_X").remark == "none of this table's rows"
    assert scan_model(KNeighborsClassifier().fit(X, Y), tmp_path, table()).matched_rows != ()


def test_with_half_of_the_rows_from_elsewhere_the_other_half_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    mixed = np.where(np.arange(len(X))[:, None] % 2 == 0, X, rng.permuted(X, axis=0))
    result = scan_model(make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(mixed, Y), tmp_path, table())
    assert list(result.matched_rows) == list(range(1, len(X) + 1, 2))


def test_nothing_is_constructed_not_even_an_unknown_type(tmp_path: Path) -> None:
    import skops.io

    class Stranger:
        def __init__(self) -> None:
            self.kept_ = X[:50]

        def __setstate__(self, state) -> None:
            raise AssertionError("constructed")

    (tmp_path / "m.skops").write_bytes(skops.io.dumps(Stranger()))
    assert scan(tmp_path / "m.skops", table()).matched_rows == tuple(range(1, 51))
    assert scan(tmp_path / "m.skops").findings[0].certainty == "possible"


def test_our_own_releases_have_no_rows(tmp_path: Path) -> None:
    from dosimeter.estimators import PrivatePCA
    from dosimeter.models.linear_release import release_table

    private = PrivatePCA(3, epsilon=2.0, lower=X.min(axis=0), upper=X.max(axis=0)).fit(X).released_
    people = table(city=CITY)
    fixed = release_table(people, "ill", scale=0.5, l2=0.01, categorical=("city",)).model
    for model in (private, fixed):
        path = dump_model(model, tmp_path)
        assert not scan(path).rows_inside
        result = scan(path, people)
        assert not result.rows_inside
        assert result.matched_rows == ()
        assert all(finding.remark != "this table's own" for finding in result.findings)
