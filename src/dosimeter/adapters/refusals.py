"""Why a model cannot be measured, in one sentence that says what to do instead."""

from __future__ import annotations

from typing import Any

from dosimeter.core.text import safe_text

LINEAR = "fit a linear model such as Ridge or LogisticRegression"
VOTE = "publish labels voted by several such models (dosimeter pate), or fit a linear model"

REASONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("SGD", "Perceptron", "PassiveAggressive"), "stops before its optimum and is random", LINEAR),
    (("KNeighbors", "RadiusNeighbors", "NearestCentroid"), "stores the rows themselves, or means of them", LINEAR),
    (("Bayesian", "ARD"), "chooses its penalties from the data within the fit", LINEAR),
    (("Lars", "OrthogonalMatchingPursuit"), "adds columns one by one and is not one smooth minimum", "fit Lasso"),
    (("Quant", "TheilSen", "RANSAC"), "follows single rows, without a second derivative", "fit HuberRegressor"),
    (("NuSVC", "NuSVR", "SVC", "SVR", "OneClassSVM"), "stores its support vectors, which are rows", VOTE),
    (("GaussianProcess", "KernelRidge"), "stores the rows themselves", VOTE),
    (("Bagging",), "fits several models on rows drawn at random", "fit one of its models on the whole table"),
    (("OneVsOne", "OutputCode"), "fits a model on the rows of a few classes at a time", "fit OneVsRestClassifier"),
    (("RegressorChain", "ClassifierChain"), "feeds the outputs of its models to one another",
     "fit MultiOutputRegressor or MultiOutputClassifier"),
    (("PLS", "CCA"), "chooses its components by the target within the fit", "fit Ridge, or PCA before Ridge"),
    (("MultinomialNB", "BernoulliNB", "ComplementNB", "CategoricalNB"),
     "releases logarithms of counts, whose noise is not that of weights", "fit LogisticRegression on the counts"),
    (("MultiTask",), "penalises the weights of all targets together", "fit and measure one Lasso for each target"),
    (("GLSAR", "GLS"), "uses a covariance between rows, so a row enters the equations of others", "fit OLS or WLS"),
    (("RLM",), "takes its scale from the median of the residuals, which follows single rows", "fit HuberRegressor"),
    (("ZeroInflated", "Hurdle", "Truncated"), "mixes two models of one count", "fit a Poisson GLM"),
    (("NegativeBinomial", "GeneralizedPoisson"), "estimates its dispersion together with the weights",
     "fit a GLM with the family NegativeBinomial(alpha=...)"),
    (("OrderedModel", "ConditionalLogit", "ConditionalPoisson"), "has a likelihood with further parameters or groups",
     "fit MNLogit or LogisticRegression"),
    (("Forest", "Tree", "Boosting", "AdaBoost", "XGB", "LGBM", "CatBoost", "Isolation"),
     "splits on single values of rows, so its parameters do not follow the data smoothly", VOTE),
    (("MLP", "Sequential", "Module"), "has no unique minimum, and where it stopped depends on chance", VOTE),
    (("MixedLM", "BinomialBayes"), "estimates random effects and their variances together",
     "fit a linear model with the groups as a category"),
    (("Voting", "Stacking"), "is several models at once", "measure each of its models and add the doses in a ledger"),
    (("CalibratedClassifierCV",),
     "averages models of several folds and fits a curve to their scores, which is not one minimum",
     "measure the classifier itself"),
    (("Quadratic",), "releases a covariance for each class", "fit LinearDiscriminantAnalysis"),
    (("Dummy",), "predicts a constant and has no weights", "release that constant with noise of its own"),
    (("AFT", "Aalen", "KaplanMeier", "CoxTimeVarying", "WeibullFitter", "NelsonAalen"),
     "is a survival model other than Cox's, or a curve that follows single rows", "fit CoxPHFitter"),
    (("Isotonic",), "follows single rows, without a second derivative", LINEAR),
    (("KMeans", "Mixture", "Clustering", "DBSCAN"), "assigns rows to clusters, which changes in jumps", LINEAR),
)  # fmt: skip
"""(parts of a class name, why, what to do instead); the first match decides."""

OTHER = "is not one of the smooth estimators whose dependence on a row is known here"


def reason_for(model: Any) -> str:
    """One sentence for a model that has no adapter."""
    name = _model_name(model)
    for parts, why, instead in REASONS:
        if any(part in name for part in parts):
            return f"{safe_text(name)} cannot be measured: it {why}; {instead} instead"
    return f"{safe_text(name)} cannot be measured: it {OTHER}; {LINEAR} instead"


def _model_name(model: Any) -> str:
    """The class of a model; of results of statsmodels, that of the model they belong to."""
    inner = getattr(model, "model", None)
    of_statsmodels = type(model).__module__.split(".")[0] == "statsmodels" and inner is not None
    return type(inner if of_statsmodels else model).__name__
