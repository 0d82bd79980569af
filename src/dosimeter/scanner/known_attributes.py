"""What attributes of fitted models hold, by name: scikit-learn's attributes and ONNX operators'.

"SVC.support_vectors_" is an attribute of one class, "support_vectors_" of any; "KDTree[0]" the first piece of one.
An attribute that is not listed, and whose shape could be a table, is "possible" (see `classify`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.scanner.finding import Severity


@dataclass(frozen=True)
class KnownAttribute:
    """What an attribute holds and why it matters."""

    severity: Severity
    content: str
    why: str


WHOLE_ROWS = "every line is one person's whole row, original or scaled"
_LABELS = "one value per person, in the order of the training table"
PEOPLES_EXTREMES = "the smallest and the largest value of a column are single people's values"
EXTREME = f"unless they were declared in advance, {PEOPLES_EXTREMES}"
ONE_PERSONS_TEXTS = "most of these texts are in one row of the table each: names or ids of people"
NOT_IN_TABLE = "not in this table: declared in advance, from other rows, or behind a step that is not followed"
_CUTS = "cut points lie on single people's values or halfway between two"
_SOLVABLE = "anyone who knows all other rows can solve for the missing one"
EXACT = f"exact, without noise: {_SOLVABLE}"
MOMENT = f"if they are of people's rows and without noise, {_SOLVABLE}"
_LEVELS = "a level held by one person identifies them: it was in the table"
_CLUSTER_OF_ONE = "the centre of a cluster of one is that person's row"
_COUNT = "it changes by one with each person"
_SIGN = "its sign or size reveals that person's target"

_TABLE: tuple[tuple[Severity, str, str, str], ...] = (
    ("rows", "support vectors", WHOLE_ROWS,
     "support_vectors_ SVMClassifier.support_vectors SVMRegressor.support_vectors"),
    ("rows", "the table that neighbours are looked up in", WHOLE_ROWS, "_fit_X KDTree[0] BallTree[0]"),
    ("rows", "the table that the kernel is taken against", WHOLE_ROWS, "X_fit_"),
    ("rows", "the table of a Gaussian process", WHOLE_ROWS, "X_train_"),
    ("rows", "the table that was embedded", WHOLE_ROWS, "training_data_"),
    ("rows", "the table that labels spread over", WHOLE_ROWS, "LabelPropagation.X_ LabelSpreading.X_"),
    ("rows", "the cells of a dataframe", WHOLE_ROWS, "data.frame.numbers _unpickle_block[0]"),
    ("rows", "the design of the training rows", WHOLE_ROWS, "exog orig_exog wexog lm.x glm.x loess.x svm.SV qr.qr"),
    ("rows", "rows chosen as examples", WHOLE_ROWS,
     "DBSCAN.components_ HDBSCAN.medoids_ AffinityPropagation.cluster_centers_ Nystroem.components_"),
    ("rows", "the scores of the training rows", "with the loadings, every line gives one person's whole row",
     "prcomp.x princomp.scores"),
    ("values of single people", "labels of the training rows", _LABELS,
     "_y y_train_ y_ transduction_ _targets endog wendog orig_endog lm.y glm.y loess.y randomForest.y coxph.y"),
    ("values of single people", "a value for every training row", _LABELS,
     "labels_ label_distributions_ oob_decision_function_ oob_prediction_ inlier_mask_ outliers_ dist_ embedding_"
     " x_scores_ y_scores_ _x_scores _y_scores f_cached pi_ W_sr_ L_ negative_outlier_factor_ cv_values_"
     " RidgeCV.cv_results_ RidgeClassifierCV.cv_results_"
     " probabilities_ reachability_ core_distances_ _distances_fit_X_ GaussianProcessRegressor.alpha_"
     " pinv_wexog wresid fittedvalues fitted.values residuals effects linear.predictors prior.weights loess.fitted"
     " kmeans.cluster rpart.where rpart.y smooth.spline.yin smooth.spline.y"
     " randomForest.predicted randomForest.votes randomForest.oob.times svm.fitted svm.decision.values"),
    ("values of single people", "numbers of training rows", "they say which rows of the training table were chosen",
     "support_ svm.index core_sample_indices_ cluster_centers_indices_ component_indices_ _neighbors_indices_fit_X_"),
    ("values of single people", "a weight for every stored row", _SIGN,
     "dual_coef_ SVMClassifier.coefficients SVMRegressor.coefficients"),
    ("values of single people", "smallest and largest values", EXTREME,
     "data_min_ data_max_ max_abs_ X_min_ X_max_"),
    ("values of single people", "a shift or scale made of the extremes", EXTREME,
     "data_range_ MinMaxScaler.min_ MinMaxScaler.scale_ MaxAbsScaler.scale_"),
    ("values of single people", "cut points", _CUTS,
     "quantiles_ bin_edges_ bin_thresholds_ X_thresholds_ y_thresholds_ BSpline._t BSpline.t split_conditions"
     " LightGBM.threshold"
     " TreeEnsembleClassifier.nodes_values TreeEnsembleRegressor.nodes_values"),
    ("values of single people", "medians", "a median is one person's value, or halfway between two", "center_"),
    ("values of single people", "fill-in values for gaps", "a median or the most frequent value is a person's value",
     "SimpleImputer.statistics_ Imputer.imputed_value_floats"),
    ("statistics", "means", MOMENT,
     "mean_ xbar_ location_ means_ theta_ centroids_ _x_mean _y_mean _y_train_mean X_offset_ target_mean_"),
    ("statistics", "variances and scales", MOMENT,
     "var_ scale_ covariance_ covariances_ precision_ sigma_ _x_std _y_std _y_train_std explained_variance_"
     " singular_values_ noise_variance_"),
    ("statistics", "shifts and scales of the columns", MOMENT, "Scaler.offset Scaler.scale lambdas_"),
    ("statistics", "number of people", _COUNT,
     "n_samples_ n_samples_seen_ n_samples_fit_ class_count_ shape_fit_"),
    ("statistics", "shares of the classes", MOMENT, "class_prior_ priors_ weights_ class_log_prior_"),
    ("statistics", "mean target of every level", "for a level held by one person it is that person's target",
     "encodings_"),
    ("statistics", "centres of clusters", _CLUSTER_OF_ONE, "cluster_centers_ subcluster_centers_"),
    ("statistics", "how rare each word is", "the largest value marks words that one person used", "idf_"),
    ("lists", "levels of a column", _LEVELS,
     "categories_ OneHotEncoder.cats_strings OneHotEncoder.cats_int64s LabelEncoder.keys_strings"
     " LabelEncoder.keys_int64s LabelEncoder.classes_strings"),
    ("lists", "classes", _LEVELS, "classes_ classlabels_strings"),
    ("lists", "words", "a word that only one person used identifies them",
     "vocabulary_ feature_names_ TfIdfVectorizer.pool_strings"),
)  # fmt: skip
KNOWN_ATTRIBUTES = {
    name: KnownAttribute(severity, content, why) for severity, content, why, names in _TABLE for name in names.split()
}

WORD_LISTS = ("vocabulary_", "pool_strings", "feature_names_")
"""Attributes whose entries are words of a text rather than whole cells."""
WEIGHTS = frozenset(
    """coef_ intercept_ _intercept_ coefs_ intercepts_ components_ rotation_ mixing_ unmixing_ weight bias kernel
    coefficients intercepts feature_importances_ n_features_in_ feature_names_in_ scalings_ _scalings random_state key
    kernel_params class_weight_ _probA _probB _n_support _num_iter n_iter_ _gamma estimators_features_ _seeds
    loadings_ _dual_coef_ train_score_ validation_score_ nodes values nodes_modes
    transform_matrix""".split()
)
"""Weights and settings: never a finding by themselves. With a table they are still compared."""


def known_attribute(owner: str, name: str, first: bool = False) -> KnownAttribute | None:
    """The entry of an attribute; the entry for its class takes precedence over the one for any class.

    >>> kinds = [("SVC", "support_vectors_"), ("DBSCAN", "components_"), ("PCA", "components_")]
    >>> [getattr(known_attribute(*kind), "severity", None) for kind in kinds]
    ['rows', 'rows', None]
    """
    keys = (f"{owner}.{name}", f"{owner}[0]" if first else name, name)
    return next((KNOWN_ATTRIBUTES[key] for key in keys if key in KNOWN_ATTRIBUTES), None)
