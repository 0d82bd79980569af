"""The models and preprocessing steps that people have, each with a refit at tight tolerance as its oracle.

A case builds a fitted model as its user would, with the library's defaults where they matter, and says how the released
numbers are computed again from the design matrix that the frozen steps produce.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

Array = NDArray[Any]
N = 60


def people(n: int = N, seed: int = 11) -> pd.DataFrame:
    """A made table: three numbers, a two-valued and a three-valued category."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50.0, 12.0, n)
    return pd.DataFrame(
        {
            "age": age,
            "bmi": rng.normal(27.0, 4.0, n) + 0.05 * (age - 50.0),
            "crp": rng.lognormal(1.0, 0.5, n),
            "sex": rng.permutation(np.resize(["f", "m"], n)),
            "ward": rng.permutation(np.resize(["a", "b", "c"], n)),
        }
    )


FRAME = people()
NUMBERS = ["age", "bmi", "crp"]
X = (FRAME[NUMBERS] - FRAME[NUMBERS].mean()) / FRAME[NUMBERS].std()
_RNG = np.random.default_rng(5)
MARGIN = X.to_numpy() @ [0.8, -0.5, 0.4] + 0.3
NUMBER = MARGIN + 0.7 * _RNG.normal(size=N)
BINARY = (MARGIN + _RNG.logistic(size=N) > 0).astype(int)
THREE = np.digitize(MARGIN + _RNG.normal(size=N), [-0.3, 0.8])
COUNT = _RNG.poisson(np.exp(0.5 * MARGIN)).astype(float)
POSITIVE = _RNG.gamma(3.0, np.exp(0.4 * MARGIN) / 3.0) + 0.05
SEVERAL = np.column_stack([NUMBER, 0.5 * NUMBER + _RNG.normal(size=N), COUNT])
WEIGHT = _RNG.uniform(0.5, 2.0, N)
TIME = _RNG.exponential(np.exp(-0.5 * MARGIN)) + 0.01
EVENT = (_RNG.random(N) < 0.7).astype(int)

Refit = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Case:
    """One model or step. refit: (design, y) -> the released numbers, exact to many digits."""

    name: str
    section: str
    fit: Callable[[Any, Array], Any]
    refit: Refit | None
    y: Array = field(repr=False)
    frame: Any = field(default=None, repr=False)
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    """Of `dm.measure`."""
    design: Callable[[Any, Any], Array] | None = None
    """(fitted model, frame) -> the design matrix with the frozen steps; default: the frame's numbers as they are."""
    refused: str = ""
    """For a model that has no figure: a part of the expected reason."""
    label_moves: bool = True
    """Whether the oracle can move a label of this target a little: it is a number."""
    cell_oracle: Callable[[Any, int], float] | None = None
    """(fitted model, row) -> η of its one source column by refits, for a column that is neither number nor category."""

    @property
    def table(self) -> Any:
        return X if self.frame is None else self.frame


def linear_parts(model: Any) -> Array:
    """All numbers that predict: coefficients, then intercepts."""
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


def again(model: Any, **settings: Any) -> Refit:
    """A refit by the library itself with other settings."""

    def refit(Z: Array, y: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return linear_parts(clone(model).set_params(**settings).fit(Z, y))

    return refit


Loss = Callable[[Array, Array], Array]
"""l(m, y) of arrays, m complex: its derivative is the imaginary part of a step of 1e-30, exact to rounding."""


def newton(loss: Loss, penalty: float, constant_penalty: float = 0.0, constant_first: bool = False) -> Refit:
    """argmin Σ l(w·x + b, y) + penalty/2 |w|² + constant_penalty/2 b², for solvers of libraries that stop early."""

    def refit(Z: Array, y: Array) -> Array:
        rows = np.column_stack([Z, np.ones(len(Z))])
        ridge = np.append(np.full(Z.shape[1], penalty), constant_penalty)
        theta = np.zeros(rows.shape[1])

        def gradient(theta: Array) -> tuple[Array, Array]:
            m = rows @ theta
            slope = np.imag(loss(m + 1e-30j, y)) / 1e-30
            bend = (np.imag(loss(m + 1e-6 + 1e-30j, y)) - np.imag(loss(m - 1e-6 + 1e-30j, y))) / 2e-36
            return rows.T @ slope + ridge * theta, (rows.T * bend) @ rows + np.diag(ridge)

        for _ in range(200):
            g, H = gradient(theta)
            eigenvalues, vectors = np.linalg.eigh(H)
            move = vectors @ ((vectors.T @ g) / np.maximum(np.abs(eigenvalues), 1e-3 * np.abs(eigenvalues).max()))
            theta = theta - move * min(1.0, 1.0 / float(np.abs(rows @ move).max() + 1e-300))
        return np.append(theta[-1], theta[:-1]) if constant_first else theta

    return refit


def _positive(z: Array) -> Array:
    return np.where(np.real(z) > 0, z, 0.0)


def squared_hinge(m: Array, y: Array) -> Array:
    return _positive(1.0 - (2.0 * y - 1.0) * m) ** 2


def squared_band(m: Array, y: Array) -> Array:
    return _positive(m - y - 0.1) ** 2 + _positive(y - m - 0.1) ** 2


def logistic_loss(m: Array, y: Array) -> Array:
    return np.log1p(np.exp(-(2.0 * y - 1.0) * m))


def inverse_gaussian(m: Array, y: Array) -> Array:
    return (y - np.exp(m)) ** 2 / (2.0 * y * np.exp(2.0 * m))


def probit_loss(m: Array, y: Array) -> Array:
    from scipy.special import ndtr

    return -np.log(ndtr((2.0 * y - 1.0) * m))


def cloglog_loss(m: Array, y: Array) -> Array:
    return np.where(y == 1, -np.log(-np.expm1(-np.exp(m))), np.exp(m))


def negative_binomial(m: Array, y: Array) -> Array:
    return (y + 2.0) * np.log1p(0.5 * np.exp(m)) - y * m


def poisson_loss(m: Array, y: Array) -> Array:
    return np.exp(m) - y * m


TIGHT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 2000}


def scikit_learn_models() -> Iterator[Case]:
    """Section 1 of the list: estimators of scikit-learn."""
    from sklearn import linear_model as lm
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
    from sklearn.naive_bayes import GaussianNB
    from sklearn.svm import LinearSVC, LinearSVR

    def plain(name: str, model: Any, y: Array, tight: dict[str, Any] | None = None, refit: Refit | None = None) -> Case:
        return Case(
            name, "scikit-learn", lambda Z, y: clone(model).fit(Z, y), refit or again(model, **(tight or {})), y,
            label_moves=y.dtype.kind == "f" and y.ndim == 1,
        )  # fmt: skip

    yield plain("LinearRegression", lm.LinearRegression(), NUMBER)
    yield plain("Ridge", lm.Ridge(alpha=2.0), NUMBER)
    yield plain("Ridge, no intercept", lm.Ridge(alpha=2.0, fit_intercept=False), NUMBER)
    yield plain("RidgeCV", lm.RidgeCV(alphas=[2.0]), NUMBER)
    yield plain("Ridge, several targets", lm.Ridge(alpha=2.0), SEVERAL)
    yield plain("Ridge, a penalty per target", lm.Ridge(alpha=np.array([0.5, 2.0, 4.0])), SEVERAL)
    yield plain("LinearRegression, several targets", lm.LinearRegression(), SEVERAL)
    yield plain("RidgeClassifier", lm.RidgeClassifier(), BINARY)
    yield plain("RidgeClassifier, three classes", lm.RidgeClassifier(), THREE)
    yield plain("RidgeClassifierCV", lm.RidgeClassifierCV(alphas=[1.0]), BINARY)
    yield plain("LogisticRegression()", lm.LogisticRegression(), BINARY, TIGHT)
    yield plain(
        "LogisticRegression, class weights", lm.LogisticRegression(class_weight={0: 1.0, 1: 2.0}), BINARY, TIGHT
    )
    yield plain("LogisticRegression, three classes", lm.LogisticRegression(), THREE, TIGHT)
    yield plain(
        "LogisticRegression, liblinear", lm.LogisticRegression(solver="liblinear"), BINARY,
        refit=newton(logistic_loss, 1.0, 1.0),
    )  # fmt: skip
    yield plain(
        "LogisticRegression, liblinear, scaled intercept",
        lm.LogisticRegression(solver="liblinear", intercept_scaling=3.0), BINARY,
        refit=newton(logistic_loss, 1.0, 1.0 / 9.0),
    )  # fmt: skip
    yield plain("PoissonRegressor()", lm.PoissonRegressor(), COUNT, TIGHT)
    yield plain("GammaRegressor()", lm.GammaRegressor(), POSITIVE, TIGHT)
    for power, y in ((0.0, NUMBER), (1.0, COUNT), (1.5, COUNT), (2.0, POSITIVE), (3.0, POSITIVE)):
        refit = newton(inverse_gaussian, float(N)) if power == 3 else None
        yield plain(f"TweedieRegressor(power={power:g})", lm.TweedieRegressor(power=power), y, TIGHT, refit)
    yield _huber()
    yield plain("LinearSVC", LinearSVC(), BINARY, refit=newton(squared_hinge, 1.0, 1.0))
    yield plain(
        "LinearSVR, squared", LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1), NUMBER,
        refit=newton(squared_band, 1.0, 1.0),
    )  # fmt: skip
    yield plain("LinearSVC, three classes", LinearSVC(), THREE, refit=_one_against_the_rest)
    yield plain(
        "LinearSVC, three classes, class weights", LinearSVC(class_weight={0: 3.0, 1: 1.0, 2: 2.0}), THREE,
        refit=_weighed_against_the_rest,
    )  # fmt: skip
    yield plain("Lasso", lm.Lasso(alpha=0.1), NUMBER, {"tol": 1e-15, "max_iter": 200_000})
    yield plain("Lasso, columns without a weight", lm.Lasso(alpha=0.4), NUMBER, {"tol": 1e-15, "max_iter": 200_000})
    yield plain("ElasticNet", lm.ElasticNet(alpha=0.1), NUMBER, {"tol": 1e-15, "max_iter": 200_000})
    yield plain("LassoCV", lm.LassoCV(alphas=[0.1]), NUMBER, {"tol": 1e-15, "max_iter": 200_000})
    yield plain("ElasticNetCV", lm.ElasticNetCV(alphas=[0.1]), NUMBER, {"tol": 1e-15, "max_iter": 200_000})
    yield plain(
        "LogisticRegression, L1", lm.LogisticRegression(l1_ratio=1.0, solver="saga", max_iter=5000, C=0.5), BINARY,
        {"tol": 1e-13, "max_iter": 200_000},
    )  # fmt: skip
    yield plain(
        "LogisticRegression, L1, columns without a weight",
        lm.LogisticRegression(l1_ratio=1.0, solver="saga", max_iter=5000, C=0.3), BINARY,
        {"tol": 1e-13, "max_iter": 200_000},
    )  # fmt: skip
    yield plain("LinearDiscriminantAnalysis", LinearDiscriminantAnalysis(), THREE)
    yield plain(
        "LinearDiscriminantAnalysis, lsqr, shrinkage", LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3), THREE
    )
    yield Case(
        "GaussianNB", "scikit-learn", lambda Z, y: GaussianNB().fit(Z, y),
        lambda Z, y: (lambda m: np.concatenate([m.theta_.ravel(), m.var_.ravel(), m.class_prior_]))(
            GaussianNB().fit(Z, y)
        ),
        THREE, FRAME[NUMBERS], label_moves=False,
    )  # fmt: skip
    ovr = OneVsRestClassifier(lm.LogisticRegression())
    yield Case(
        "OneVsRestClassifier of LogisticRegression", "scikit-learn", lambda Z, y: clone(ovr).fit(Z, y),
        lambda Z, y: np.concatenate(
            [linear_parts(m) for m in OneVsRestClassifier(lm.LogisticRegression(**TIGHT)).fit(Z, y).estimators_]
        ),
        THREE, label_moves=False,
    )  # fmt: skip
    ridge = OneVsRestClassifier(lm.RidgeClassifier(alpha=2.0))
    labels = np.column_stack([BINARY, THREE == 2]).astype(int)
    each = OneVsRestClassifier(lm.LogisticRegression())
    yield Case(
        "OneVsRestClassifier of RidgeClassifier", "scikit-learn", lambda Z, y: clone(ridge).fit(Z, y),
        lambda Z, y: np.concatenate([linear_parts(m) for m in clone(ridge).fit(Z, y).estimators_]),
        THREE, label_moves=False,
    )  # fmt: skip
    yield Case(
        "OneVsRestClassifier of several labels", "scikit-learn", lambda Z, y: clone(each).fit(Z, y),
        lambda Z, y: np.concatenate(
            [linear_parts(m) for m in OneVsRestClassifier(lm.LogisticRegression(**TIGHT)).fit(Z, y).estimators_]
        ),
        labels, label_moves=False,
    )  # fmt: skip
    many = MultiOutputRegressor(lm.Ridge())
    yield Case(
        "MultiOutputRegressor of Ridge", "scikit-learn", lambda Z, y: clone(many).fit(Z, y),
        lambda Z, y: np.concatenate([linear_parts(m) for m in clone(many).fit(Z, y).estimators_]),
        SEVERAL, label_moves=False,
    )  # fmt: skip
    both = MultiOutputClassifier(lm.LogisticRegression())
    yield Case(
        "MultiOutputClassifier of LogisticRegression", "scikit-learn", lambda Z, y: clone(both).fit(Z, y),
        lambda Z, y: np.concatenate(
            [linear_parts(m) for m in MultiOutputClassifier(lm.LogisticRegression(**TIGHT)).fit(Z, y).estimators_]
        ),
        labels, label_moves=False,
    )  # fmt: skip
    yield _transformed_target()
    yield from _chosen_from_the_data()
    yield from _refused()


def _one_against_the_rest(Z: Array, y: Array) -> Array:
    return np.concatenate([newton(squared_hinge, 1.0, 1.0)(Z, (y == k).astype(float)) for k in range(3)])


def _weighed_against_the_rest(Z: Array, y: Array) -> Array:
    """liblinear weighs the rows of a class by its weight where it is against the rest, and all others by one."""

    def loss(weight: float) -> Loss:
        return lambda m, label: np.where(label == 1, weight, 1.0) * squared_hinge(m, label)

    parts = [newton(loss(weight), 1.0, 1.0)(Z, (y == k).astype(float)) for k, weight in enumerate((3.0, 1.0, 2.0))]
    return np.concatenate(parts)


def _huber() -> Case:
    """Weights, intercept and scale: scikit-learn's objective, minimised to many digits by a solver of our own."""
    from scipy.optimize import minimize
    from sklearn.linear_model import HuberRegressor

    def refit(Z: Array, y: Array) -> Array:
        start = HuberRegressor(max_iter=1000).fit(Z, y)

        def pieces(theta: Array) -> tuple[float, Array, Array]:
            w, b, sigma = theta[:-2], theta[-2], theta[-1]
            residual = y - Z @ w - b
            linear = np.abs(residual) > 1.35 * sigma
            u, rows = residual / sigma, np.column_stack([Z, np.ones(len(Z))])
            inside = np.where(linear, 2 * 1.35 * np.abs(u) - 1.35**2, u**2)
            slope = np.where(linear, 2 * 1.35 * np.sign(u), 2 * u)
            value = float(np.sum(sigma + inside * sigma) + 1e-4 * w @ w)
            g = np.append(-rows.T @ slope + np.append(2e-4 * w, 0.0), len(y) + np.sum(inside - slope * u))
            bent = np.where(linear, 0.0, 2.0) / sigma
            moves = np.column_stack([rows, u])
            H = moves.T @ (bent[:, None] * moves)
            H[np.arange(len(w)), np.arange(len(w))] += 2e-4
            return value, g, H

        theta = np.concatenate([start.coef_, [start.intercept_, start.scale_]])
        theta = minimize(lambda t: pieces(t)[:2], theta, jac=True, method="BFGS").x
        for _ in range(20):
            _, g, H = pieces(theta)
            theta = theta - np.linalg.solve(H, g)
        return theta

    return Case("HuberRegressor", "scikit-learn", lambda Z, y: HuberRegressor(max_iter=1000).fit(Z, y), refit, NUMBER)


def _chosen_from_the_data() -> Iterator[Case]:
    """Searches and eliminations: what they chose is held fixed, and refits keep it."""
    from sklearn import linear_model as lm
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.feature_selection import RFE, RFECV
    from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, TunedThresholdClassifierCV
    from sklearn.pipeline import Pipeline

    logistic = lm.LogisticRegression()
    pipeline = Pipeline([("scale", "passthrough"), ("model", logistic)])
    searches = {
        "LogisticRegressionCV": lm.LogisticRegressionCV(Cs=[1.0], cv=3),
        "GridSearchCV of a pipeline": GridSearchCV(pipeline, {"model__C": [1.0]}, cv=3),
        "HalvingGridSearchCV of a pipeline": HalvingGridSearchCV(pipeline, {"model__C": [1.0]}, cv=3, random_state=0),
        "TunedThresholdClassifierCV": TunedThresholdClassifierCV(logistic, cv=3),
    }
    for name, search in searches.items():
        yield Case(
            name, "scikit-learn", lambda Z, y, search=search: clone(search).fit(Z, y), again(logistic, **TIGHT), BINARY,
            label_moves=False,
        )  # fmt: skip
    for name, selector in {"RFE": RFE(logistic, n_features_to_select=2), "RFECV": RFECV(logistic, cv=3)}.items():
        yield Case(
            f"{name} of LogisticRegression", "scikit-learn", lambda Z, y, selector=selector: clone(selector).fit(Z, y),
            again(logistic, **TIGHT), BINARY, label_moves=False, design=lambda model, Z: model.transform(Z),
        )  # fmt: skip


def _transformed_target() -> Case:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import Ridge

    model = TransformedTargetRegressor(Ridge(alpha=2.0), func=np.log, inverse_func=np.exp)
    return Case(
        "TransformedTargetRegressor(log) of Ridge", "scikit-learn", lambda Z, y: clone(model).fit(Z, y),
        lambda Z, y: linear_parts(Ridge(alpha=2.0).fit(Z, np.log(y))), POSITIVE,
    )  # fmt: skip


def _refused() -> Iterator[Case]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import BaggingClassifier, GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.multiclass import OneVsOneClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    models = {
        CalibratedClassifierCV(LogisticRegression(), cv=3): "averages models",
        RandomForestClassifier(3, random_state=0): "pate",
        GradientBoostingClassifier(n_estimators=3, random_state=0): "pate",
        DecisionTreeClassifier(random_state=0): "pate",
        SVC(): "support vectors",
        KNeighborsClassifier(3): "stores the rows",
        MLPClassifier((3,), max_iter=20, random_state=0): "no unique minimum",
        SGDClassifier(random_state=0): "random",
        BaggingClassifier(LogisticRegression(), 3, random_state=0): "drawn at random",
        OneVsOneClassifier(LogisticRegression()): "OneVsRestClassifier",
    }
    for model, reason in models.items():
        yield Case(
            type(model).__name__, "refused", lambda Z, y, model=model: clone(model).fit(Z, y), None, BINARY,
            refused=reason,
        )  # fmt: skip


def statsmodels_models() -> Iterator[Case]:
    """Section 1 of the list: results of statsmodels."""
    import statsmodels.api as sm

    families = {
        "Gaussian": (sm.families.Gaussian(), NUMBER),
        "Binomial logit": (sm.families.Binomial(), BINARY.astype(float)),
        "Binomial probit": (sm.families.Binomial(sm.families.links.Probit()), BINARY.astype(float)),
        "Binomial cloglog": (sm.families.Binomial(sm.families.links.CLogLog()), BINARY.astype(float)),
        "Poisson": (sm.families.Poisson(), COUNT),
        "Gamma log": (sm.families.Gamma(sm.families.links.Log()), POSITIVE),
        "Gamma inverse": (sm.families.Gamma(), POSITIVE + 1.0),
        "InverseGaussian log": (sm.families.InverseGaussian(sm.families.links.Log()), POSITIVE),
        "NegativeBinomial(alpha=0.5)": (sm.families.NegativeBinomial(alpha=0.5), COUNT),
    }

    def results(family: Any, **more: Any) -> Callable[[Any, Array], Any]:
        return lambda Z, y: sm.GLM(y, sm.add_constant(Z), family=family, **more).fit(tol=1e-14, maxiter=300)

    exact = {
        "Binomial probit": newton(probit_loss, 0.0),
        "Binomial cloglog": newton(cloglog_loss, 0.0),
        "NegativeBinomial(alpha=0.5)": newton(negative_binomial, 0.0),
    }
    for name, (family, y) in families.items():
        fit = results(family)
        yield Case(
            f"GLM {name}", "statsmodels", fit,
            exact.get(name) or (lambda Z, y, fit=fit: np.asarray(fit(Z, y).params)), y,
            label_moves=y is not families["Binomial logit"][1] and "Binomial" not in name.split()[0],
        )  # fmt: skip
    offset = 0.3 * MARGIN
    for name, more in {
        "GLM Poisson, offset": {"offset": offset},
        "GLM Poisson, exposure": {"exposure": np.exp(offset)},
        "GLM Poisson, frequency weights": {"freq_weights": WEIGHT},
        "GLM Poisson, variance weights": {"var_weights": WEIGHT},
    }.items():
        fit = results(sm.families.Poisson(), **more)
        yield Case(name, "statsmodels", fit, lambda Z, y, fit=fit: np.asarray(fit(Z, y).params), COUNT)
    kinds: dict[str, tuple[Callable[[Any, Any], Any], Array]] = {
        "OLS": (lambda Z, y: sm.OLS(y, sm.add_constant(Z)).fit(), NUMBER),
        "WLS": (lambda Z, y: sm.WLS(y, sm.add_constant(Z), weights=WEIGHT).fit(), NUMBER),
        "Logit": (lambda Z, y: sm.Logit(y, sm.add_constant(Z)).fit(disp=0, tol=1e-13), BINARY),
        "Probit": (lambda Z, y: sm.Probit(y, sm.add_constant(Z)).fit(disp=0, tol=1e-13), BINARY),
        "Poisson": (lambda Z, y: sm.Poisson(y, sm.add_constant(Z)).fit(disp=0, tol=1e-13), COUNT),
        "Poisson, exposure": (
            lambda Z, y: sm.Poisson(y, sm.add_constant(Z), exposure=np.exp(offset)).fit(disp=0, tol=1e-13), COUNT,
        ),
        "MNLogit": (lambda Z, y: sm.MNLogit(y, sm.add_constant(Z)).fit(disp=0, tol=1e-13, method="newton"), THREE),
        "GEE, independence": (
            lambda Z, y: sm.GEE(
                y, sm.add_constant(Z), groups=np.arange(N) // 3, family=sm.families.Poisson(),
                cov_struct=sm.cov_struct.Independence(),
            ).fit(ctol=1e-13, maxiter=500), COUNT,
        ),
        "GLM fit_regularized, L2": (
            lambda Z, y: sm.GLM(y, sm.add_constant(Z), family=sm.families.Poisson()).fit_regularized(
                alpha=0.1, L1_wt=0.0, cnvrg_tol=1e-14, maxiter=2000
            ), COUNT,
        ),
        "OLS fit_regularized, L2": (
            lambda Z, y: sm.OLS(y, sm.add_constant(Z)).fit_regularized(alpha=0.1, L1_wt=0.0), NUMBER,
        ),
    }  # fmt: skip
    exact = {"GLM fit_regularized, L2": newton(poisson_loss, 0.1 * N, 0.1 * N)}
    for name, (fit, y) in kinds.items():
        yield Case(
            name, "statsmodels", fit,
            exact.get(name) or (lambda Z, y, fit=fit: np.ravel(np.asarray(fit(Z, y).params))), y,
            label_moves=y.dtype.kind == "f",
        )  # fmt: skip


def survival_models() -> Iterator[Case]:
    """Section 1 of the list: proportional hazards. The target is (time, event)."""
    import statsmodels.api as sm

    target = pd.DataFrame({"time": TIME, "event": EVENT})
    tied = target.assign(time=np.ceil(4 * TIME) / 4)
    for ties in ("breslow", "efron"):
        for name, both in (("", target), (", tied times", tied)):

            def fit(Z: Any, y: Any, ties: str = ties, both: Any = both) -> Any:
                return sm.PHReg(both["time"], Z, status=both["event"], ties=ties).fit(disp=0)

            yield Case(
                f"PHReg, {ties}{name}", "proportional hazards", fit,
                lambda Z, y, fit=fit: np.asarray(fit(Z, y).params), both, frame=X, label_moves=False,
            )  # fmt: skip
    offset = 0.3 * MARGIN
    yield Case(
        "PHReg, offset", "proportional hazards",
        lambda Z, y: sm.PHReg(y["time"], Z, status=y["event"], offset=offset).fit(disp=0),
        lambda Z, y: np.asarray(sm.PHReg(y["time"], Z, status=y["event"], offset=offset).fit(disp=0).params),
        target, frame=X, label_moves=False,
    )  # fmt: skip
    yield _cox_formula(target)
    try:
        import lifelines
    except ImportError:
        return
    settings: dict[str, dict[str, Any]] = {
        "CoxPHFitter": {},
        "CoxPHFitter, penalizer": {"penalizer": 0.1},
        "CoxPHFitter, strata": {"strata": ["ward"]},
    }
    for name, more in settings.items():
        frame = pd.concat([X, FRAME[["ward"]] if "strata" in more else FRAME[[]], target], axis=1)

        def cox(frame: Any, more: dict[str, Any] = more) -> Any:
            kind = {"penalizer": more.get("penalizer", 0.0)}
            fitter = lifelines.CoxPHFitter(**kind)
            precise = {"precision": 1e-12, "r_precision": 1e-15, "max_steps": 500}
            return fitter.fit(frame, "time", "event", strata=more.get("strata"), fit_options=precise)

        yield Case(
            name, "proportional hazards", lambda Z, y, cox=cox: cox(Z),
            lambda Z, y, cox=cox, frame=frame: np.asarray(
                cox(frame.assign(**dict(zip(NUMBERS, np.asarray(Z).T, strict=True)))).params_
            ),
            target, frame=frame, label_moves=False, design=lambda model, frame: np.asarray(frame[NUMBERS], dtype=float),
        )  # fmt: skip


def _cox_formula(target: Any) -> Case:
    """Columns of a formula, without the constant that a Cox model has none of."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    frame = pd.concat([FRAME[["age", "crp", "ward"]], target], axis=1)

    def fit(Z: Any, y: Any) -> Any:
        return smf.phreg("time ~ scale(age) * C(ward) + np.log(crp)", Z, status="event", ties="efron").fit(disp=0)

    def design(model: Any, Z: Any) -> Array:
        data = model.model.data
        matrix = formula_matrix(getattr(data, "model_spec", None) or data.design_info, Z)
        names = getattr(getattr(matrix, "design_info", matrix), "column_names", None) or list(matrix.columns)
        return np.asarray(matrix, dtype=float)[:, [name != "Intercept" for name in names]]

    return Case(
        "PHReg by a formula", "proportional hazards", fit,
        lambda Z, y: np.asarray(sm.PHReg(y["time"], Z, status=y["event"], ties="efron").fit(disp=0).params),
        target, frame=frame, label_moves=False, design=design,
    )  # fmt: skip


def formula_matrix(spec: Any, Z: Any) -> Any:
    """The design of a fitted formula, by the library that fitted it."""
    if hasattr(spec, "get_model_matrix"):
        return spec.get_model_matrix(Z)
    import patsy

    return patsy.dmatrix(spec, Z)


def formulas() -> Iterator[Case]:
    """Section 1 of the list: formulas, read back to the source columns."""
    import statsmodels.formula.api as smf

    texts = {
        "categories": "y ~ age + C(ward) + sex",
        "a number as a category": "y ~ age * C(site)",
        "interaction with a category": "y ~ age * sex + bmi",
        "logarithm": "y ~ np.log(crp) + age",
        "spline": "y ~ bs(age, df=4) + bmi",
        "polynomial": "y ~ age + I(age ** 2) + bmi",
        "product": "y ~ age : bmi + age + bmi",
    }
    site = np.random.default_rng(6).integers(1, 4, N).astype(float)
    frame = FRAME.assign(age=X["age"], bmi=X["bmi"], site=site)
    for name, text in texts.items():

        def fit(Z: Any, y: Array, text: str = text) -> Any:
            return smf.ols(text, data=Z.assign(y=y)).fit()

        def design(model: Any, Z: Any) -> Array:
            return np.asarray(formula_matrix(model.model.data.model_spec, Z))

        yield Case(
            f"formula: {name}", "formulas", fit,
            lambda Z, y: np.linalg.lstsq(Z, y, rcond=None)[0], NUMBER,
            frame=frame[["age", "site"]] if "site" in text else frame.drop(columns="site"), design=design,
            options={"by_levels": ("site",)} if "site" in text else {},
        )  # fmt: skip


def steps() -> Iterator[Case]:
    """Section 2 of the list: preprocessing before Ridge, held fixed."""
    from sklearn import preprocessing as pre
    from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold, f_regression
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import SimpleImputer
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import FeatureUnion, make_pipeline
    from sklearn.random_projection import GaussianRandomProjection

    class Ratio(pre.FunctionTransformer):
        """One's own class."""

        def __init__(self) -> None:
            super().__init__(lambda Z: np.column_stack([np.asarray(Z), np.asarray(Z)[:, 0] / np.asarray(Z)[:, 1]]))

    numbers = {
        "StandardScaler": pre.StandardScaler(),
        "MinMaxScaler": pre.MinMaxScaler(),
        "MaxAbsScaler": pre.MaxAbsScaler(),
        "RobustScaler": pre.RobustScaler(),
        "Normalizer": pre.Normalizer(),
        "PCA": PCA(2),
        "PCA, whitened": PCA(2, whiten=True),
        "TruncatedSVD": TruncatedSVD(2, random_state=0),
        "GaussianRandomProjection": GaussianRandomProjection(2, random_state=0),
        "SelectKBest": SelectKBest(f_regression, k=2),
        "SelectFromModel": SelectFromModel(Ridge(), max_features=2),
        "RFE": RFE(Ridge(), n_features_to_select=2),
        "VarianceThreshold": VarianceThreshold(),
        "FeatureUnion": FeatureUnion([("scaled", pre.StandardScaler()), ("components", PCA(1))]),
        "passthrough": "passthrough",
        "set_output frames": pre.StandardScaler().set_output(transform="pandas"),
        "PolynomialFeatures": pre.PolynomialFeatures(2, include_bias=False),
        "PolynomialFeatures, interactions only": pre.PolynomialFeatures(2, interaction_only=True, include_bias=False),
        "SplineTransformer": pre.SplineTransformer(n_knots=4, include_bias=False),
        "PowerTransformer": pre.PowerTransformer(),
        "PowerTransformer, Box-Cox": pre.PowerTransformer("box-cox"),
        "QuantileTransformer": pre.QuantileTransformer(n_quantiles=20),
        "QuantileTransformer, normal": pre.QuantileTransformer(n_quantiles=20, output_distribution="normal"),
        "FunctionTransformer(log1p)": pre.FunctionTransformer(np.log1p),
        "RBFSampler": RBFSampler(n_components=5, gamma=0.001, random_state=0),
        "Nystroem": Nystroem(n_components=5, gamma=0.001, random_state=0),
        "one's own class": Ratio(),
        "KBinsDiscretizer": pre.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
    }
    for name, step in numbers.items():
        # Squares of raw columns would be so unlike in size that the refits lose digits.
        table = X if "Polynomial" in name else FRAME[NUMBERS]
        yield _step(name, make_pipeline(step, Ridge(alpha=0.5)), table, categories=name == "KBinsDiscretizer")
    text = ["sex", "ward"]
    labels = {
        "OneHotEncoder": pre.OneHotEncoder(),
        "OneHotEncoder, first level dropped": pre.OneHotEncoder(drop="first"),
        "OneHotEncoder, infrequent levels": pre.OneHotEncoder(min_frequency=25),
        "OneHotEncoder, unknown levels": pre.OneHotEncoder(handle_unknown="ignore"),
        "OrdinalEncoder": pre.OrdinalEncoder(),
        "TargetEncoder, held fixed": FrozenEstimator(
            pre.TargetEncoder(random_state=0, target_type="continuous").fit(FRAME[text], NUMBER)
        ),
    }
    for name, encoder in labels.items():
        columns = make_column_transformer((encoder, text), (pre.StandardScaler(), NUMBERS))
        yield _step(name, make_pipeline(columns, Ridge(alpha=0.5)), FRAME)
    ward = FRAME.assign(ward=FRAME.ward.where(np.arange(N) % 9 > 0))
    columns = make_column_transformer((pre.OneHotEncoder(), text), (pre.StandardScaler(), NUMBERS))
    yield _step("OneHotEncoder, a level for gaps", make_pipeline(columns, Ridge(alpha=0.5)), ward)
    gaps = FRAME[NUMBERS].mask(np.random.default_rng(3).random((N, 3)) < 0.1)
    yield _step("SimpleImputer", make_pipeline(SimpleImputer(), Ridge(alpha=0.5)), gaps)
    inner = make_pipeline(SimpleImputer(), pre.StandardScaler(), pre.PolynomialFeatures(2, include_bias=False))
    outer = ColumnTransformer(
        [("n", inner, make_column_selector(dtype_include="number")), ("c", pre.OneHotEncoder(), text)]
    )
    yield _step("nested ColumnTransformer", make_pipeline(outer, pre.StandardScaler(), Ridge(alpha=0.5)), FRAME)


def _step(name: str, pipeline: Any, frame: Any, categories: bool = False) -> Case:
    from sklearn.linear_model import Ridge

    def design(model: Any, Z: Any) -> Array:
        out = model[:-1].transform(Z)
        return np.asarray(out.toarray() if hasattr(out, "toarray") else out, dtype=float)

    return Case(
        name, "preprocessing", lambda Z, y: clone(pipeline).fit(Z, y),
        lambda Z, y: linear_parts(Ridge(alpha=0.5).fit(Z, y)), NUMBER, frame=frame, design=design,
        options={"by_levels": tuple(frame.columns)} if categories else {},
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """The list without texts (`coverage_texts.py`)."""
    yield from scikit_learn_models()
    yield from statsmodels_models()
    yield from survival_models()
    yield from formulas()
    yield from steps()
