"""What noised answers of a linear model say about its parameters: k answers are k functions of the weights.

A query x̃ (p,) is answered through its margin m = x̃·w, or through one margin per class. R has RᵀR = Σ over the answers
of their Fisher information about the parameters, whatever a row of the table does to these:

| answer                              | rows of R, one answer                                | standing    |
| margin + noise                      | √J x̃                                                 | exact       |
| mean or probability + noise         | √J μ'(m) x̃                                           | exact       |
| the label of (margin + noise)       | √(f²/(F(1 - F))) x̃, noise density f, cdf F           | exact       |
| the largest of (margins + Gumbel)   | √s_k (e_k - s)/scale ⊗ x̃, s = softmax(margins/scale) | exact       |
| the largest of (margins + noise)    | those of the noised margins                          | upper bound |

J is the location information of one noise. A label is a function of the noised margins, so it never says more than they
do. Answers with independent noise add: RᵀR is a sum. R is kept triangular by QR, so that it has at most one row per
parameter, and no square of a condition number enters. Derivations: docs/explanation/answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gumbel, Noise, no_noise
from dosimeter.core.notion import Standing
from dosimeter.glm.losses.scalar_loss import ScalarLoss, TwoClassLoss
from dosimeter.glm.losses.softmax import Softmax

INDEPENDENT = 1e-10
"""A query whose part outside the earlier ones is a smaller share of its length says nothing new of an exact model."""


NO_CLASS = "the {name} loss predicts no class: release margins or predictions"


class Answer(StrEnum):
    """What a query is answered with.

    Examples
    --------
    >>> Answer("labels") is Answer.LABELS, [answer.value for answer in Answer]
    (True, ['margins', 'predictions', 'labels'])
    """

    MARGINS = "margins"
    """The margin w·x, or one margin per class."""
    PREDICTIONS = "predictions"
    """The predicted mean, the probability of class 1, or one probability per class."""
    LABELS = "labels"
    """The class alone: that of the largest noised margin."""


@dataclass(frozen=True, eq=False)
class AnswerInformation:
    """Fisher information of answers about the parameters (q,), class after class for several margins.

    Examples
    --------
    >>> from dosimeter import Gaussian, glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> fit = glm.fit(X, y, glm.Squared())
    >>> one = AnswerInformation.of(fit, [[2.0]], Gaussian(0.5))          # a margin 2w with noise of 0.5
    >>> one.root                                                         # information (2/0.5)² about w
    array([[4.]])
    >>> round((one + one).strength, 6), (one + one).answers              # twice as much
    (32.0, 2)
    """

    root: FloatArray
    """R (r, q), r <= q."""
    answers: int
    """Queries that were answered."""
    standing: Standing = Standing.EXACT
    """An upper bound if an answer has no closed form of its own."""
    has_noise: bool = True
    """False for exact answers: R then says only which functions of the parameters are known."""

    @classmethod
    def of(cls, fit: Any, queries: Any, noise: Noise, answer: Answer | str = Answer.MARGINS) -> AnswerInformation:
        """Of the answers to `queries` (k, d), the columns of the fit's table; `noise` on each number of an answer.

        Parameters
        ----------
        fit : Fit
            The exact fit; its weights are the ones that answer.
        queries : array_like of shape (k, d)
            Public: their values are regarded as known to everyone.
        noise : Noise
            Independent noise on each margin or prediction; for labels on each margin, before the class is taken.
        answer : Answer
            What is answered.
        """
        rows = query_rows(fit, queries)
        kind, exact = _kind(answer), noise is no_noise
        law: Any = None if exact else noise
        if exact and kind is Answer.LABELS:
            raise CannotMeasure("labels without noise have no Fisher information: they jump; add noise to the margins")
        if not exact and not isinstance(law, Density):
            raise CannotMeasure(f"answers need independent noise such as Gaussian(0.1), not {noise!r}")
        if isinstance(fit.loss, Softmax):
            root, standing = _several(fit, rows, law, kind)
        else:
            root, standing = _one_margin(fit, rows, law, kind), Standing.EXACT
        if not np.isfinite(root).all():
            raise CannotMeasure("an answer has no finite derivative at these queries: leave out queries far outside")
        return cls(_triangular(root), len(rows), standing, not exact)

    @classmethod
    def at_most(cls, fit: Any, queries: Any, noise: Noise, answer: Answer | str = Answer.MARGINS) -> AnswerInformation:
        """The most that such answers say, whatever the weights are.

        A prediction is at most as steep as its loss allows, and a label is a function of the noised margins. Where the
        true weights make an answer flat, near 0 or 1, its own information is almost 0. Nearby weights make it steep,
        so that it tells these weights apart all the same.

        Raises
        ------
        CannotMeasure
            If the predictions of the loss have no steepest slope, as those of a log link.

        Examples
        --------
        >>> from dosimeter import Gaussian, glm
        >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0])
        >>> fit = glm.fit(X, y, glm.Logistic(), 0.1)
        >>> far = [[1000.0]]                                      # answered with 1 and noise
        >>> AnswerInformation.of(fit, far, Gaussian(0.5), "predictions").strength < 1e-100
        True
        >>> AnswerInformation.at_most(fit, far, Gaussian(0.5), "predictions").strength
        250000.0
        """
        kind = _kind(answer)
        slope = _steepest(fit.loss, kind)
        margins = cls.of(fit, queries, noise, Answer.MARGINS)
        standing = Standing.EXACT if kind is Answer.MARGINS else Standing.UPPER_BOUND
        return cls(slope * margins.root, margins.answers, standing, margins.has_noise)

    @classmethod
    def total(cls, batches: Sequence[AnswerInformation]) -> AnswerInformation:
        """All batches together, at least one: their noise is independent, so their information adds."""
        first = batches[0]
        for other in batches:
            if first.root.shape[1] != other.root.shape[1]:
                widths = f"{first.root.shape[1]} and {other.root.shape[1]}"
                raise Refusal(f"answers about {widths} parameters cannot be added")
            if first.has_noise != other.has_noise:
                raise Refusal("exact answers and noised answers do not add: account for the exact ones alone")
        bound = any(batch.standing is Standing.UPPER_BOUND for batch in batches)
        root = _triangular(np.vstack([batch.root for batch in batches]))
        answers = sum(batch.answers for batch in batches)
        return cls(root, answers, Standing.UPPER_BOUND if bound else Standing.EXACT, first.has_noise)

    def __add__(self, other: AnswerInformation) -> AnswerInformation:
        """Both batches together."""
        return AnswerInformation.total([self, other])

    @property
    def strength(self) -> float:
        """‖R‖₂²: the largest information about a direction of unit length in the parameters."""
        return float(np.linalg.norm(self.root, 2) ** 2) if self.root.size else 0.0

    @property
    def independent(self) -> int:
        """How many independent functions of the parameters the answers show."""
        return _rank(self.root)

    @property
    def left(self) -> int:
        """Independent functions that no answer shows yet; at 0, exact answers determine all parameters."""
        return int(self.root.shape[1]) - self.independent


def independent_queries(fit: Any, queries: Any) -> int:
    """How many independent functions of the parameters the margins of these queries show, from the queries alone.

    With an intercept the rank does not depend on where a column is centred or how it is scaled: columns are taken in
    units of the queries themselves, so that a scaler of the table has no part in it.
    """
    rows = query_rows(fit, queries)
    if fit.intercept:
        cells, ones = rows[:, :-1], rows[:, -1:]
        spread, size = cells.std(axis=0), np.abs(cells).max(axis=0)
        varies = spread > INDEPENDENT * size
        rows = np.hstack([(cells[:, varies] - cells[:, varies].mean(axis=0)) / spread[varies], ones])
    outputs = int(fit.w.size) // len(fit.w)
    return _rank(rows) * outputs


def _kind(answer: Answer | str) -> Answer:
    try:
        return Answer(answer)
    except ValueError:
        known = ", ".join(Answer)
        raise Refusal(f"answers are {known}, not {answer!r}") from None


def _steepest(loss: Any, kind: Answer) -> float:
    """The largest derivative of an answer by a margin, as a matrix norm for several classes."""
    if kind is Answer.MARGINS:
        return 1.0
    if kind is Answer.LABELS:
        if not isinstance(loss, TwoClassLoss | Softmax):
            raise CannotMeasure(NO_CLASS.format(name=loss.name))
        return 1.0
    if isinstance(loss, Softmax):
        return 0.5  # diag(s) - ssᵀ with s = (½, ½)
    loss.prediction(np.zeros(1))  # refused if it has none
    if not math.isfinite(loss.steepest_prediction):
        problem = f"predictions of the {loss.name} loss can be arbitrarily steep, so no answer has a highest cost"
        raise CannotMeasure(f"{problem}: answer margins")
    return float(loss.steepest_prediction)


def query_rows(fit: Any, queries: Any) -> FloatArray:
    """(k, p), with a one for the intercept."""
    rows = np.asarray(queries, dtype=np.float64)
    d = len(fit.w) - (1 if fit.intercept else 0)
    if rows.ndim != 2 or rows.shape[1] != d or not len(rows):
        raise Refusal(f"queries must be a (k, {d}) array with at least one row, not of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise Refusal(f"query {int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])} is not finite")
    return np.column_stack([rows, np.ones(len(rows))]) if fit.intercept else rows


def _one_margin(fit: Any, rows: FloatArray, law: Density | None, kind: Answer) -> FloatArray:
    """(k, p) of a loss with one margin."""
    loss: ScalarLoss = fit.loss
    m = rows @ fit.w
    if kind is Answer.LABELS:
        if not isinstance(loss, TwoClassLoss) or law is None:
            raise CannotMeasure(NO_CLASS.format(name=loss.name))
        return np.asarray(_label_slopes(m - loss.threshold, law)[:, None] * rows)
    slope = np.ones_like(m) if kind is Answer.MARGINS else loss.prediction(m)[1]
    information = 1.0 if law is None else law.fisher_information
    return np.asarray(math.sqrt(information) * slope[:, None] * rows)


def _label_slopes(above: FloatArray, law: Density) -> FloatArray:
    """(k,) √(f²/(F(1 - F))) at minus the margin above the threshold: of one coin that shows class 1.

    It falls to 0 in both tails of a log-concave law. Where log f is -inf so is log F, and their difference is none.
    """
    x = -above
    with np.errstate(over="ignore"):
        f = law.logpdf(x)
    slopes, seen = np.zeros(x.shape), np.isfinite(f)
    slopes[seen] = np.exp(f[seen] - 0.5 * (law.logcdf(x[seen]) + law.logsf(x[seen])))
    return slopes


def _several(fit: Any, rows: FloatArray, law: Density | None, kind: Answer) -> tuple[FloatArray, Standing]:
    """(r, q) of a softmax fit, parameters class after class, and its standing."""
    C = fit.loss.contrast
    logits = rows @ fit.w @ C.T
    if kind is Answer.LABELS and isinstance(law, Gumbel):
        s = _softmax(logits / law.scale)
        G = np.sqrt(s)[:, :, None] * (np.eye(len(C)) - s[:, None, :]) / law.scale
        return _blocks(G @ C, rows), Standing.EXACT
    information = 1.0 if law is None else law.fisher_information
    if kind is Answer.PREDICTIONS:
        s = _softmax(logits)
        slopes = s[:, :, None] * (np.eye(len(C)) - s[:, None, :])
    else:
        slopes = np.broadcast_to(np.eye(len(C)), (len(rows), len(C), len(C)))
    standing = Standing.UPPER_BOUND if kind is Answer.LABELS else Standing.EXACT
    return _blocks(math.sqrt(information) * slopes @ C, rows), standing


def _blocks(G: FloatArray, rows: FloatArray) -> FloatArray:
    """(k·K, K'·p): row (query, class) is G[query, class] ⊗ x̃."""
    k, classes, contrasts = G.shape
    return np.asarray((G[:, :, :, None] * rows[:, None, None, :]).reshape(k * classes, contrasts * rows.shape[1]))


def _softmax(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _triangular(root: FloatArray) -> FloatArray:
    """R with the same RᵀR and at most as many rows as columns."""
    return root if len(root) <= root.shape[1] else np.asarray(np.linalg.qr(root, mode="r"))


def _rank(root: FloatArray) -> int:
    """Independent rows, each column in a unit of its own: a rank must not depend on units."""
    size = np.linalg.norm(root, axis=0)
    scaled = root[:, size > 0] / size[size > 0]
    if not scaled.size:
        return 0
    return int(np.linalg.matrix_rank(scaled, tol=INDEPENDENT * math.sqrt(scaled.shape[1])))
