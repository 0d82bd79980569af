"""The student learns from released labels, pays for every query, and reports the cost of its accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.pate.doses import public_bound
from dosimeter.pate.label import label
from dosimeter.pate.student import Student
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes

rng = np.random.default_rng(2)
K, M = 90, 3
TRUTH = np.arange(K) % M
X = np.eye(M)[TRUTH] + rng.normal(0, 0.2, (K, M))
TEST_Y = np.arange(60) % M
TEST = np.eye(M)[TEST_Y] + rng.normal(0, 0.2, (60, M))
VOTES = Votes(np.where(rng.random((200, K)) < 0.9, TRUTH, (TRUTH + 1) % M), M)
NOISE = dm.Laplace(5.0)
LABELS = label(VOTES, NOISE)


def test_a_student_of_clean_labels_is_the_same_model_taught_by_hand():
    model = Student(LogisticRegression(C=3.0)).fit(X, LABELS)
    by_hand = LogisticRegression(C=3.0).fit(X, TRUTH)
    assert (LABELS.values == TRUTH).all()  # a margin of 160 votes against noise of scale 5
    np.testing.assert_array_equal(model.predict_proba(TEST), by_hand.predict_proba(TEST))


def test_refused_queries_are_left_out_and_still_paid_for():
    threshold = Threshold(183.0, dm.Laplace(5.0))
    labels = label(VOTES, NOISE, threshold=threshold)
    assert 0 < labels.refused.sum() < K
    model = Student(DecisionTreeClassifier(random_state=0)).fit(X, labels)
    kept = ~labels.refused
    by_hand = DecisionTreeClassifier(random_state=0).fit(X[kept], labels.values[kept])
    np.testing.assert_array_equal(model.predict(TEST), by_hand.predict(TEST))
    curve = Student(DecisionTreeClassifier()).learning_curve(
        X, labels, TEST, TEST_Y, [30, 90], NOISE, threshold=threshold
    )
    assert curve.answered[-1] == kept.sum()
    assert curve.nats[1] == pytest.approx(3 * curve.nats[0])  # queries, not answers


def test_the_student_predicts_the_names_of_the_classes():
    model = Student(LogisticRegression()).fit(X, LABELS, classes=["cat", "dog", "eel"])
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    with pytest.raises(Refusal, match="2 names for 3 classes"):
        Student(LogisticRegression()).fit(X, LABELS, classes=["cat", "dog"])


def test_the_curve_rises_with_the_queries_and_counts_each_of_them():
    student = Student(lambda A, b: LogisticRegression().fit(A, b))
    curve = student.learning_curve(X, LABELS, TEST, TEST_Y, [1, 2, 90], NOISE)
    assert curve.queries.tolist() == [1, 2, 90]
    assert curve.accuracy[0] == pytest.approx(1 / 3)  # one label, one class: the constant
    assert curve.accuracy[0] < curve.accuracy[2] == 1.0
    # Theorem 13: never above kγ, and for few classes below it.
    assert (curve.nats <= np.array([1, 2, 90]) / 5.0).all()
    np.testing.assert_allclose(curve.nats, curve.nats[0] * np.array([1, 2, 90]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.fit(X[:-1], LABELS), "90 labels"),
        (lambda s: s.fit(X, label(VOTES, NOISE, threshold=Threshold(9e3, NOISE))), "every query was refused"),
        (lambda s: s.fit(X, label(Votes(np.ones((200, K)), M), NOISE)), "nothing to learn"),
        (lambda s: s.learning_curve(X, LABELS, TEST, TEST_Y, [0], NOISE), "size 0"),
        (lambda s: s.learning_curve(X, LABELS, TEST, TEST_Y, [91], NOISE), "size 91"),
        (lambda s: s.learning_curve(X, LABELS, TEST, TEST_Y[:-1], [5], NOISE), "60 test rows"),
        (lambda s: s.learning_curve(X, LABELS, TEST, TEST_Y, [5], dm.Laplace(6.0)), "were released with"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_line(make, message):
    with pytest.raises(Refusal, match=message) as refused:
        make(Student(LogisticRegression()))
    assert "\n" not in str(refused.value)


def test_a_curve_without_the_threshold_of_its_labels_is_refused():
    """Refusals have a privacy cost too: with little noise they cost several times the labels."""
    threshold = Threshold(120, dm.Laplace(0.5))
    labels = label(VOTES, NOISE, threshold=threshold)
    for other in (None, Threshold(120, dm.Laplace(5.0)), Threshold(121, dm.Laplace(0.5))):
        with pytest.raises(Refusal, match="not released with the threshold"):
            Student(LogisticRegression()).learning_curve(X, labels, TEST, TEST_Y, [K], NOISE, threshold=other)
    with pytest.raises(Refusal, match="not released with the threshold"):
        Student(LogisticRegression()).learning_curve(X, LABELS, TEST, TEST_Y, [K], NOISE, threshold=threshold)
    curve = Student(LogisticRegression()).learning_curve(X, labels, TEST, TEST_Y, [K], NOISE, threshold=threshold)
    assert curve.nats[0] > 3 * public_bound(K, M, NOISE).nats
