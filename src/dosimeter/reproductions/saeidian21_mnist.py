"""PATE end to end on MNIST, which [Saeidian21] leaves to earlier papers.

250 teachers, their votes, noisy labels, a student, and the privacy cost, exact and by the bounds. The releases are
simulated: drawn from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.noise import Laplace
from dosimeter.datasets.digits import mnist
from dosimeter.pate.accounting import epsilon
from dosimeter.pate.doses import dose, public_bound, worst_by_query
from dosimeter.pate.ensemble import Teachers
from dosimeter.pate.label import Labels, label
from dosimeter.pate.student import LearningCurve, Student
from dosimeter.pate.votes import Votes
from dosimeter.reproductions.comparison import Row, claim, weak

TEACHERS, QUERIES, WEAK_QUERIES = 250, 2000, 500
GAMMAS = (0.01, 0.02, 0.05, 0.1, 0.2)
SIZES = (50, 100, 200, 500, 1000, 2000)
BINS, CELLS = 8, 7


@dataclass(frozen=True, eq=False)
class TeacherStudy:
    """Votes on the first test images as public queries; the other images test the student. All of it is internal."""

    X: FloatArray
    """(60000, 28, 28)."""
    y: Index
    X_test: FloatArray
    """(10000, 28, 28)."""
    y_test: Index
    n_jobs: int = -1

    @cached_property
    def features(self) -> tuple[FloatArray, FloatArray]:
        """(60000, 392) and (10000, 392): a fixed public map, so that nothing is learnt across parts."""
        return gradients(self.X), gradients(self.X_test)

    @property
    def truth(self) -> Index:
        """(k,) true labels of the queries."""
        return self.y_test[:QUERIES]

    @cached_property
    def votes(self) -> Votes:
        """Logistic teachers on oriented gradients, 240 images each."""
        train, test = self.features
        return self._teachers(C=30.0).vote(train, self.y, test[:QUERIES], n_jobs=self.n_jobs)

    @cached_property
    def weak_votes(self) -> Votes:
        """The same on raw pixels: weaker teachers."""
        train, test = (images.reshape(len(images), -1) for images in (self.X, self.X_test))
        return self._teachers(C=1.0).vote(train, self.y, test[:WEAK_QUERIES], n_jobs=self.n_jobs)

    def _teachers(self, C: float) -> Teachers:
        from sklearn.linear_model import LogisticRegression

        return Teachers(LogisticRegression(C=C, max_iter=200), TEACHERS)

    @cached_property
    def labels(self) -> dict[float, Labels]:
        """By γ, simulated."""
        return {g: label(self.votes, Laplace(1 / g), rng=np.random.default_rng(7)) for g in GAMMAS}

    @cached_property
    def curves(self) -> dict[float, LearningCurve]:
        """By γ: a logistic student on the same public features."""
        from sklearn.linear_model import LogisticRegression

        test = self.features[1]
        student = Student(LogisticRegression(C=30.0, max_iter=200))
        rest = (test[QUERIES:], self.y_test[QUERIES:])
        queries = test[:QUERIES]
        return {g: student.learning_curve(queries, self.labels[g], *rest, SIZES, Laplace(1 / g)) for g in GAMMAS}

    @cached_property
    def doses(self) -> dict[float, FloatArray]:
        """By γ: (60000,) nats of each person, an upper bound: exact per query, added by Lemma 5.

        The writers are not recorded: an image is a person.
        """
        whose = self._teachers(C=30.0).partition(len(self.y)).teacher_of
        return {g: dose(self.votes, Laplace(1 / g), person=whose).figures for g in GAMMAS}


def teacher_study(data: Path) -> TeacherStudy:
    """The study of MNIST."""
    return TeacherStudy(*mnist(data))


def rows(study: TeacherStudy) -> list[Row]:
    """What the text says about consensus, accuracy and totals, on real votes."""
    return [*_synergy(study), _better_teachers(study), *(_total(study, g) for g in GAMMAS)]


def _synergy(study: TeacherStudy) -> list[Row]:
    votes, g = study.votes, 0.05
    leaked = worst_by_query(votes, Laplace(1 / g))
    lead = votes.counts.max(axis=1) / votes.n_teachers
    right = votes.counts.argmax(axis=1) == study.truth
    rank = float(spearmanr(lead, leaked)[0])
    return [
        claim(
            "Remark 11 on MNIST: stronger consensus lowers what a label leaks",
            rank < -0.9,
            f"rank correlation of the first class's share and the leakage over {votes.n_queries} queries, γ = {g:g}: "
            f"{rank:.3f} (required: below -0.9)",
        ),
        claim(
            "IV-B on MNIST: labels that are right leak less",
            bool(np.median(leaked[right]) < np.median(leaked[~right])),
            f"vote right for {right.mean():.1%}; median nats {np.median(leaked[right]):.2e} if right, "
            f"{np.median(leaked[~right]):.2e} if wrong, γ = {g:g}",
        ),
    ]


def _better_teachers(study: TeacherStudy) -> Row:
    k, noise = WEAK_QUERIES, Laplace(20.0)
    results = {}
    for name, votes in (("gradients", Votes(study.votes.values[:, :k], 10)), ("pixels", study.weak_votes)):
        accuracy_of_one = float(np.mean(votes.values == study.truth[:k]))
        accuracy_of_vote = float(np.mean(votes.counts.argmax(axis=1) == study.truth[:k]))
        results[name] = (accuracy_of_one, accuracy_of_vote, float(worst_by_query(votes, noise).sum()))
    good, weak = results["gradients"], results["pixels"]
    return claim(
        "IV-B on MNIST: more accurate teachers agree more and leak less",
        good[0] > weak[0] and good[2] < weak[2],
        f"{k} queries, γ = 0.05: "
        + "; ".join(f"{n}: a teacher {a:.1%}, the vote {t:.1%}, {s:.2f} nats" for n, (a, t, s) in results.items()),
    )


def _total(study: TeacherStudy, g: float) -> Row:
    """Corollary 15 at one γ, with everything that this γ gave."""
    votes, curve, nats = study.votes, study.curves[g], study.doses[g]
    spent, plain = public_bound(QUERIES, 10, Laplace(1 / g)), votes.counts.argmax(axis=1)
    noisy = float(np.mean(study.labels[g].values == study.truth))
    epsilon_beside = epsilon(QUERIES, Laplace(1 / g), 1e-5)
    row = claim(
        f"Corollary 15 on MNIST, γ = {g:g}: k queries leak at most kγ",
        bool(nats.max() <= spent.nats <= QUERIES * g),
        f"{QUERIES} queries: vote right {np.mean(plain == study.truth):.1%}, with noise {noisy:.1%}, student "
        f"{curve.accuracy[-1]:.1%}; nats per person, an upper bound (exact per query, added by Lemma 5): median "
        f"{np.median(nats):.3g}, highest {nats.max():.3g}; k log B1 {spent.nats:.4g}, kγ {QUERIES * g:g}; for "
        f"comparison ε = {epsilon_beside.epsilon:.3g} at δ = 1e-5 (one part replaced). The paper has no experiment",
    )
    return weak(row, "it must hold: every query's exact value is at most log B1, which is at most γ")


def gradients(images: FloatArray, block: int = 2000) -> FloatArray:
    """(n, 392) histograms of 8 gradient directions in 7 x 7 cells, each row of norm one; (n, 28, 28) images."""
    return np.concatenate([_directions(images[k : k + block]) for k in range(0, len(images), block)])


def _directions(images: Any) -> FloatArray:
    down, across = np.gradient(images.astype(np.float32), axis=(1, 2))
    strength, side = np.hypot(across, down), images.shape[1] // CELLS
    angle = np.mod(np.arctan2(down, across), np.pi) * (BINS / np.pi)
    parts = []
    for k in range(BINS):
        # Shared between the two nearest directions, on a circle.
        near = np.maximum(0.0, 1.0 - np.abs(np.mod(angle - k + BINS / 2, BINS) - BINS / 2))
        cells = (strength * near).reshape(len(images), CELLS, side, CELLS, side)
        parts.append(cells.sum(axis=(2, 4)).reshape(len(images), -1))
    table = np.concatenate(parts, axis=1).astype(np.float64)
    return np.asarray(table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12))
