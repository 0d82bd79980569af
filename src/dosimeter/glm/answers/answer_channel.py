"""The channel of noised answers: simulated answers, and how likely they are under other weights of the model.

| answer                            | log-likelihood of answers a under weights w                  |
| margins, predictions              | Σ log p(a - f(x̃·w))                                          |
| the label of (margin + noise)     | Σ log(1 - F(t - x̃·w)) where a is class 1, log F(t - x̃·w) else |
| the largest of (margins + Gumbel) | Σ log softmax(margins/scale) at a                            |

The largest of several margins with other noise has no closed form and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import Density, Gaussian, Gumbel
from dosimeter.glm.answers.answer_information import Answer, AnswerInformation, query_rows
from dosimeter.glm.losses.scalar_loss import TwoClassLoss
from dosimeter.glm.losses.softmax import Softmax

AT_ONCE = 4_000_000
"""Numbers held at a time."""


@dataclass(frozen=True, eq=False)
class AnswerChannel:
    """Answers to fixed queries, as a random function of the weights."""

    fit: Any
    rows: FloatArray
    """(k, p) queries, with a one for the intercept."""
    noise: Density
    answer: Answer

    @classmethod
    def of(cls, fit: Any, queries: Any, noise: Density, answer: Answer) -> AnswerChannel:
        """queries (k, d), in the columns of the fit. What has no figure is refused as it is there."""
        AnswerInformation.of(fit, queries, noise, answer)
        if answer is Answer.LABELS and isinstance(fit.loss, Softmax) and not isinstance(noise, Gumbel):
            raise CannotMeasure(
                f"the class of several margins with {noise} has no closed likelihood: attack Gumbel noise, or margins"
            )
        return cls(fit, query_rows(fit, queries), noise, answer)

    @property
    def outputs(self) -> int:
        """Numbers in one answer."""
        several = isinstance(self.fit.loss, Softmax) and self.answer is not Answer.LABELS
        return len(self.fit.loss.contrast) if several else 1

    @property
    def weights(self) -> FloatArray:
        """(q,) of the fit; those of softmax one contrast after another."""
        return np.asarray(self.fit.w.T.ravel())

    def exact(self, W: FloatArray) -> FloatArray:
        """(c, k·outputs) answers without noise for weights (c, q); for labels the margins, K of them for softmax."""
        if isinstance(self.fit.loss, Softmax):
            p = len(self.fit.w)
            by_contrast = np.einsum("kp,cjp->ckj", self.rows, W.reshape(len(W), -1, p))
            m = by_contrast @ self.fit.loss.contrast.T
            if self.answer is Answer.PREDICTIONS:
                m = np.exp(log_softmax(m, axis=2))
            return np.asarray(m.reshape(len(W), -1))
        m = W @ self.rows.T
        return np.asarray(self.fit.loss.prediction(m)[0]) if self.answer is Answer.PREDICTIONS else m

    def draw(self, W: FloatArray, rng: np.random.Generator, trials: int) -> FloatArray:
        """(trials, k·outputs) simulated answers of weights (q,); labels as numbers of their class."""
        exact = self.exact(W[None])[0]
        noised = exact + self.noise.draw(rng, (trials, len(exact)))
        if self.answer is not Answer.LABELS:
            return np.asarray(noised)
        if isinstance(self.fit.loss, TwoClassLoss):
            return np.asarray(noised > self.fit.loss.threshold, dtype=np.float64)
        return np.asarray(noised.reshape(trials, len(self.rows), -1).argmax(axis=2), dtype=np.float64)

    def log_likelihood(self, W: FloatArray, answers: FloatArray) -> FloatArray:
        """(c, t) of answers (t, k·outputs) under weights (c, q), up to what all weights share."""
        exact = self.exact(W)
        if self.answer is Answer.LABELS:
            return self._of_labels(exact, answers)
        if type(self.noise) is Gaussian:
            # -‖a - f‖²/2σ² without ‖a‖², which all weights share: one product for all.
            a, f = answers / self.noise.scale, exact / self.noise.scale
            return np.asarray(f @ a.T - 0.5 * np.einsum("ck,ck->c", f, f)[:, None])
        out = np.empty((len(W), len(answers)))
        for part in self._parts(len(W), answers.size):
            out[part] = self.noise.logpdf(answers - exact[part][:, None, :]).sum(axis=2)
        return out

    def label_divergence(self, W: FloatArray) -> FloatArray:
        """(c,) Σ over the queries of the symmetric KL divergence between labels of weights (c, q) and of the fit's."""
        here, there = (self._log_chances(self.exact(some)) for some in (self.weights[None], W))
        return np.asarray(np.sum((np.exp(here) - np.exp(there)) * (here - there), axis=(1, 2)))

    def _log_chances(self, exact: FloatArray) -> FloatArray:
        """(c, k, classes) of the labels, from margins (c, k·outputs)."""
        if isinstance(self.fit.loss, TwoClassLoss):
            x = self.fit.loss.threshold - exact
            # A chance below 1e-300 is one that no simulation shows.
            return np.maximum(np.stack([self.noise.logcdf(x), self.noise.logsf(x)], axis=2), -690.0)
        return np.asarray(log_softmax(exact.reshape(len(exact), len(self.rows), -1) / self.noise.scale, axis=2))

    def _of_labels(self, exact: FloatArray, labels: FloatArray) -> FloatArray:
        shares = self._log_chances(exact)
        indicators = (labels[:, :, None] == np.arange(shares.shape[2])).astype(np.float64)
        return np.asarray(shares.reshape(len(exact), -1) @ indicators.reshape(len(labels), -1).T)

    @staticmethod
    def _parts(count: int, width: int) -> list[Index]:
        size = max(1, AT_ONCE // max(1, width))
        return [np.arange(first, min(first + size, count), dtype=np.intp) for first in range(0, count, size)]
