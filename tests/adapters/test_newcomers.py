"""What a newcomer passes first: each is measured, and compared with refits, or refused with a sentence that helps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

import dosimeter as dm

N = 40
_RNG = np.random.default_rng(8)
PEOPLE = pd.DataFrame(
    {
        "age": _RNG.integers(20, 80, N).astype(float),
        "income": np.exp(_RNG.normal(10, 0.5, N)).round(2),
        "city": _RNG.choice(["Bern", "Genf", "Zug"], N),
        "site": _RNG.integers(1, 4, N),
    }
)
COST = (0.02 * PEOPLE.age + (PEOPLE.city == "Zug") + 0.3 * PEOPLE.site + _RNG.normal(0, 1, N)).to_numpy().round(3)
SICK = (np.median(COST) < COST).astype(int)
UNIT = dm.Gaussian(1.0)


def _ridge(D, y, l2=1.0):
    """The weights and the intercept of Ridge."""
    D = np.asarray(D, dtype=np.float64)
    centred = D - D.mean(axis=0)
    w = np.linalg.solve(centred.T @ centred + l2 * np.eye(D.shape[1]), centred.T @ (y - y.mean()))
    return np.append(w, y.mean() - D.mean(axis=0) @ w)


def _towards(fit, D, row, to):
    """dw/dt of the design's row moved by t of the way to another, central and extrapolated."""

    def at(t):
        moved = np.array(D, dtype=np.float64)
        moved[row] += t * (to - moved[row])
        return fit(moved)

    wide, narrow = ((at(h) - at(-h)) / (2 * h) for h in (2e-3, 1e-3))
    return (4 * narrow - wide) / 3


def _largest_step(fit, design, table, row, column, levels):
    D = design(table)
    points = []
    for level in levels:
        one = table.copy()
        one.loc[row, column] = level
        points.append(_towards(fit, D, row, design(one)[row]))
    return max(np.linalg.norm(a - b) for a in points for b in points)


# --- gaps in a category ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [None, np.nan], ids=["None", "nan"])
@pytest.mark.parametrize("kind", ["level", "level, dropped first", "level, products", "constant", "most frequent"])
def test_a_category_with_gaps(gap, kind):
    """An encoder's own level for gaps, with an imputer in front of it too: SimpleImputer does not fill None."""
    table = PEOPLE.drop(columns="site").astype({"city": object})
    table.loc[::6, "city"] = gap
    before = {
        "constant": [SimpleImputer(strategy="constant", fill_value="Bern")],
        "most frequent": [SimpleImputer(strategy="most_frequent")],
    }.get(kind, [])
    encoder = OneHotEncoder(drop="first" if kind == "level, dropped first" else None)
    after = [PolynomialFeatures(interaction_only=True)] if kind == "level, products" else []
    city = make_pipeline(*before, encoder)
    model = make_pipeline(
        make_column_transformer((city, ["city"]), (StandardScaler(), ["age"])), *after, Ridge()
    ).fit(table, COST)  # fmt: skip

    def design(frame):
        return np.asarray(model[:-1].transform(frame), dtype=np.float64)

    leak = dm.measure(model, table, COST, noise=UNIT)
    for row in (1, 8, 25):
        step = _largest_step(lambda D: _ridge(D, COST), design, table, row, "city", ["Bern", "Genf", "Zug"])
        assert leak.cell("city")[row] == pytest.approx(step, rel=1e-6)
    assert (leak.cell("city")[::6] == 0.0).all()
    assert np.isfinite(leak.examples).all()


def test_gaps_of_polars_are_none():
    table = pl.from_pandas(PEOPLE[["age", "city"]].assign(city=PEOPLE.city.where(PEOPLE.index % 6 > 0)))
    city = make_pipeline(SimpleImputer(strategy="constant", fill_value="unknown"), OneHotEncoder())
    model = make_pipeline(make_column_transformer((city, ["city"]), remainder=StandardScaler()), Ridge())
    leak = dm.measure(model.fit(table, COST), table, COST, noise=UNIT)
    assert (leak.cell("city")[::6] == 0.0).all()
    assert (leak.cell("city")[1::6] > 0.0).all()


# --- formulas -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["cost ~ age + C(site)", "cost ~ age * C(site)"])
def test_a_number_that_a_formula_takes_for_a_category(formula):
    table = PEOPLE.assign(cost=COST)
    leak = dm.measure(smf.ols(formula, table).fit(), table, noise=UNIT)

    def design(frame):
        levels = np.column_stack([frame.site == 2, frame.site == 3]).astype(float)
        products = [levels * frame.age.to_numpy()[:, None]] if "*" in formula else []
        return np.column_stack([np.ones(N), frame.age, levels, *products])

    def fit(D):
        return np.linalg.lstsq(D, COST, rcond=None)[0]

    for row in (0, 9, 30):
        step = _largest_step(fit, design, table, row, "site", [1, 2, 3])
        assert leak.cell("site")[row] == pytest.approx(step, rel=1e-6)


def test_weights_of_an_elastic_net_of_statsmodels_with_l2_alone():
    """Its coordinate descent stops near 2e-4: the penalty is found, and the figure is of the minimum with it."""
    Z = sm.add_constant(
        (PEOPLE[["age", "income"]] - PEOPLE[["age", "income"]].mean()) / PEOPLE[["age", "income"]].std()
    )
    results = sm.GLM(SICK, Z, family=sm.families.Binomial()).fit_regularized(alpha=0.1, L1_wt=0.0)
    leak = dm.measure(results, Z, SICK, noise=UNIT)
    A, w = Z.to_numpy(), np.zeros(3)
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-A @ w))
        H = (A.T * (p * (1 - p))) @ A + 0.1 * N * np.eye(3)
        w = w - np.linalg.solve(H, A.T @ (p - SICK) + 0.1 * N * w)
    assert np.asarray(leak.labels) == pytest.approx(np.linalg.norm(np.linalg.solve(H, A.T), axis=0), rel=1e-6)


def test_a_row_of_a_multinomial_logit_moves_on_the_simplex_of_classes():
    """The weights are contrasts with the first class; that all indicators grow together is no move."""
    y = np.digitize(COST, np.quantile(COST, [0.3, 0.7]))
    X = (PEOPLE[["age"]] / 10.0).assign(const=1.0)
    results = sm.MNLogit(y, X).fit(disp=0, tol=1e-12)
    leak = dm.measure(results, X, y, noise=UNIT)
    A, W = X.to_numpy(), np.asarray(results.params)

    def fit(table, indicators):
        w = W.copy()
        for _ in range(30):
            E = np.exp(np.column_stack([np.zeros(N), table @ w]))
            P = E / E.sum(axis=1, keepdims=True)
            G = table.T @ (P - indicators)[:, 1:]
            H = np.zeros((4, 4))
            for a in range(2):
                for b in range(2):
                    weight = P[:, a + 1] * ((a == b) - P[:, b + 1])
                    H[2 * a : 2 * a + 2, 2 * b : 2 * b + 2] = (table.T * weight) @ table
            w = w - np.linalg.solve(H, G.T.ravel()).reshape(2, 2).T
        return w.T.ravel()

    own = np.eye(3)[y]
    for row in (0, 17):
        columns = []
        for k in range(3):

            def at(t, k=k, row=row):
                e = own.copy()
                e[row] = (1 - t) * own[row] + t * np.eye(3)[k]
                return fit(A, e)

            columns.append((at(1e-3) - at(-1e-3)) / 2e-3)
        moves = np.column_stack(columns)

        def moved(t, row=row):
            table = A.copy()
            table[row, 0] += t
            return fit(table, own)

        wide, narrow = ((moved(h) - moved(-h)) / (2 * h) for h in (2e-3, 1e-3))
        J = np.column_stack([(4 * narrow - wide) / 3, np.sqrt(2) * (moves - moves.mean(axis=1, keepdims=True))])
        assert leak.examples[row] == pytest.approx(np.linalg.norm(J, 2), rel=1e-5)


# --- several outputs and L1 behind steps that bend -------------------------------------------------------------------


def _signs(y):
    return 2.0 * np.eye(3)[y] - 1.0


def test_l1_and_several_outputs_behind_products():
    X = PEOPLE[["age", "income"]]
    steps = [StandardScaler(), PolynomialFeatures(include_bias=False)]
    three = np.digitize(COST, np.quantile(COST, [0.3, 0.7]))
    lasso = make_pipeline(*steps, Lasso(alpha=0.05, tol=1e-12, max_iter=100_000)).fit(X, COST)
    ridge = make_pipeline(*steps, RidgeClassifier(solver="cholesky")).fit(X, three)
    active, sign = np.flatnonzero(lasso[-1].coef_), np.sign(lasso[-1].coef_)

    def by_l1(D):
        A, centred = D[:, active], D[:, active] - D[:, active].mean(axis=0)
        w = np.linalg.solve(centred.T @ centred, centred.T @ (COST - COST.mean()) - 0.05 * N * sign[active])
        return np.append(w, COST.mean() - A.mean(axis=0) @ w)

    def by_ridge(D):
        return np.concatenate([_ridge(D, column) for column in _signs(three).T])

    for model, y, fit in ((lasso, COST, by_l1), (ridge, three, by_ridge)):
        leak = dm.measure(model, X, y, noise=UNIT)
        for row in (0, 13):
            for name in X:
                step = 1e-3 * X[name].std()

                def at(t, name=name, row=row, model=model, fit=fit):
                    moved = X.copy()
                    moved.loc[row, name] += t
                    return fit(model[:-1].transform(moved))

                wide, narrow = ((at(h) - at(-h)) / (2 * h) for h in (2 * step, step))
                assert leak.cell(name)[row] == pytest.approx(np.linalg.norm((4 * narrow - wide) / 3), rel=1e-6)


def test_several_classes_of_normalised_words():
    """TfidfVectorizer's rows of length one bend, and three classes are three outputs."""
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(["fever", "cough", "pain", "rash", "rest"], 6)) for _ in range(N)]
    three = np.digitize(COST, np.quantile(COST, [0.3, 0.7]))
    model = make_pipeline(TfidfVectorizer(), RidgeClassifier(solver="sparse_cg", tol=1e-13)).fit(texts, three)
    leak = dm.measure(model, texts, three, noise=UNIT)
    names = model[0].get_feature_names_out().tolist()
    counts = np.array([[text.split().count(word) for word in names] for text in texts], dtype=float)

    def fit(table):
        rows = table * model[0].idf_
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.concatenate([_ridge(rows, column) for column in _signs(three).T])

    frame = pd.DataFrame(leak.words_frame(rows=[0, 5], k=5))
    assert len(frame) > 4
    for row, word, eta in zip(frame["row"], frame["word"], frame["eta"], strict=True):
        slopes = []
        for h in (2e-3, 1e-3):
            move = np.zeros_like(counts)
            move[row, names.index(word)] = h
            slopes.append((fit(counts + move) - fit(counts - move)) / (2 * h))
        assert eta == pytest.approx(np.linalg.norm((4 * slopes[1] - slopes[0]) / 3), rel=1e-6)


# --- targets --------------------------------------------------------------------------------------------------------


def test_a_transformed_target_before_an_l1_penalty_and_behind_products():
    X = StandardScaler().fit_transform(PEOPLE[["age", "income"]])
    y = np.exp(COST)
    lasso = TransformedTargetRegressor(Lasso(alpha=0.05), func=np.log, inverse_func=np.exp).fit(X, y)
    plain = Lasso(alpha=0.05).fit(X, COST)
    through, own = (dm.measure(model, X, target, noise=UNIT) for model, target in ((lasso, y), (plain, COST)))
    assert through.labels == pytest.approx(own.labels / y, rel=1e-8)
    assert through.cells == pytest.approx(own.cells, rel=1e-8)
    bent = TransformedTargetRegressor(
        make_pipeline(PolynomialFeatures(), Ridge()), func=np.log, inverse_func=np.exp
    ).fit(X, y)  # fmt: skip
    leak = dm.measure(bent, X, y, noise=UNIT)
    D = bent.regressor_[:-1].transform(X)
    for row in (0, 12):
        wide, narrow = (
            (_ridge(D, np.log(y + h * np.eye(N)[row])) - _ridge(D, np.log(y - h * np.eye(N)[row]))) / (2 * h)
            for h in (2e-3 * y[row], 1e-3 * y[row])
        )
        assert leak.labels[row] == pytest.approx(np.linalg.norm((4 * narrow - wide) / 3), rel=1e-6)


@pytest.mark.parametrize("person", [None, np.arange(N) // 2])
def test_a_transformed_target_of_two_values_steps_from_one_to_the_other(person):
    """Against refits with the other value; the slope of the logarithm says 1/21 at one and 1 at the other."""
    X, y = PEOPLE[["age", "income"]], np.where(np.arange(N) // 2 % 3 == 0, 20.0, 0.0)
    model = TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1).fit(X, y)
    leak = dm.measure(model, X, y, person=person, noise=UNIT)
    assert leak.tied_target == (person is not None)
    for row in (0, 5, 12):
        rows = [row] if person is None else np.flatnonzero(person == person[row])
        other = y.copy()
        other[rows] = 20.0 - y[rows]
        refits = [Ridge().fit(X, np.log1p(values)) for values in (y, other)]
        ends = [np.append(refit.coef_, refit.intercept_) for refit in refits]
        assert leak.labels[row] == pytest.approx(np.linalg.norm(ends[1] - ends[0]), rel=1e-6)


def test_a_transformed_target_of_several_columns_is_refused_by_name():
    X, Y = PEOPLE[["age", "income"]], np.column_stack([COST, COST**2])
    model = TransformedTargetRegressor(Ridge(), transformer=StandardScaler()).fit(X, Y)
    with pytest.raises(dm.CannotMeasure, match="transformed target of several columns"):
        dm.measure(model, X, Y, noise=UNIT)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_target_that_is_a_frame_of_one_column(frame):
    X = PEOPLE[["age", "income"]]
    model, y = Ridge().fit(X, COST), frame({"cost": COST})
    leak = dm.measure(model, X, y, noise=UNIT)
    assert leak.target == "cost"
    assert np.array_equal(leak.labels, dm.measure(model, X, COST, noise=UNIT).labels)


def test_a_frame_of_targets_in_another_order_is_refused():
    X = PEOPLE[["age", "income"]]
    Y = pd.DataFrame({"a": COST, "b": COST**2})
    for y in (Y[["a"]], Y):
        model = Ridge().fit(X, y)
        with pytest.raises(dm.Refusal, match="another order"):
            dm.measure(model, X, y[::-1], noise=UNIT)


# --- models at their defaults ---------------------------------------------------------------------------------------


def test_naive_bayes_of_standardised_columns():
    """All variances are one, and which of them smooths the others is a matter of 1e-9."""
    table = PEOPLE[["age", "income"]]
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(table, SICK)
    leak = dm.measure(model, table, SICK, noise=UNIT)
    Z = model[0].transform(table)

    def fit(D):
        groups = [D[k == SICK] for k in (0, 1)]
        return np.concatenate([np.concatenate([g.mean(axis=0), g.var(axis=0)]) for g in groups])

    for row in (0, 21):
        for column, name in enumerate(table):
            to = Z[row] + np.eye(2)[column] / model[0].scale_[column]
            assert leak.cell(name)[row] == pytest.approx(np.linalg.norm(_towards(fit, Z, row, to)), rel=1e-6)


@pytest.mark.parametrize("model", [LinearSVC(), Ridge(solver="sag", random_state=0)])
@pytest.mark.filterwarnings("ignore")
def test_columns_of_unlike_scales_are_named(model):
    """The tolerance of a solver is met by the largest column long before the others."""
    table = PEOPLE[["age", "income", "site"]]
    with pytest.raises(dm.CannotMeasure, match="scale the columns"):
        dm.measure(model.fit(table, SICK), table, SICK, noise=UNIT)


def test_a_table_in_another_order_is_said():
    X = PEOPLE[["age", "income"]].to_numpy()
    with pytest.raises(dm.CannotMeasure, match="order of its columns"):
        dm.measure(Ridge(solver="cholesky").fit(X, COST), X[:, ::-1], COST, noise=UNIT)
