"""The queries that teachers answer, and the student that comes back, from tables with names."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.models.label_task import ESTIMATORS, estimator_of, label_task
from dosimeter.pate.label import label
from dosimeter.tables.table import Table

rng = np.random.default_rng(6)


def table(n, ids=True):
    ill = rng.integers(0, 2, n)
    columns = {"age": 50.0 + 20 * ill + rng.normal(0, 5, n), "ill": np.where(ill, "yes", "no").tolist()}
    return Table.of({"id": [f"p{i // 2}" for i in range(n)], **columns} if ids else columns)


PRIVATE, PUBLIC = table(120), table(30, ids=False)


def test_the_first_public_rows_are_the_questions_and_their_target_is_for_scoring_only():
    task = label_task(PRIVATE, PUBLIC, "ill", person="id", queries=10)
    np.testing.assert_array_equal(task.queries[:, 0], PUBLIC["age"][:10])
    assert task.queries.shape == (10, 1)
    assert task.truth is not None
    assert label_task(PRIVATE, PUBLIC.drop(["ill"]), "ill", person="id").truth is None


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_votes_well_and_teaches_a_student(estimator):
    task = label_task(PRIVATE, PUBLIC, "ill", person="id", queries=20)
    work = task.training(estimator, 10)
    *_, state = work.run()
    labels = label(work.votes(state), dm.Laplace(0.5))
    accuracy = task.score(labels, task.student(labels))
    # Two standard deviations on each side of the middle: a few per cent of rows lie beyond; half would be chance.
    assert accuracy.labels >= 0.75
    assert accuracy.student >= 0.7
    # The same by hand: names of classes against the public table's own.
    names = np.array(task.classes)[labels.values]
    assert accuracy.labels == pytest.approx(np.mean(names == PUBLIC["ill"][:20]))


def test_what_is_not_covered_is_said():
    alone, named = label_task(PRIVATE.drop(["id"]), PUBLIC, "ill"), label_task(PRIVATE, PUBLIC, "ill", person="id")
    assert any("each row counts as another person" in note for note in alone.not_covered)
    assert any("how many rows there are" in note for note in alone.not_covered)
    assert any("who is in the table" in note for note in named.not_covered)
    listed = label_task(PRIVATE, PUBLIC, "ill", person="id", classes=["yes", "no"])
    assert listed.classes == ("yes", "no")
    assert not any("list of classes" in note for note in listed.not_covered)
    assert listed.declared
    assert not named.declared


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": 0}, "from 1 to 30"),
        ({"queries": 31}, "from 1 to 30"),
        ({"classes": ["yes"]}, "1 classes"),
        ({"classes": ["yes", "no", "no"]}, "each once"),
        ({"classes": ["yes", ""]}, "each once"),
        ({"classes": ["yes", "maybe"]}, "not in the list of classes"),
        ({"person": "ill"}, "name two columns"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(Refusal, match=message):
        label_task(PRIVATE, PUBLIC, "ill", **({"person": "id"} | options))


def test_an_unknown_estimator_is_refused():
    with pytest.raises(Refusal, match="use logistic, tree, forest, bayes"):
        estimator_of("oracle")


@pytest.mark.parametrize("person", [None, "id"])
def test_a_row_left_out_for_a_missing_value_leaves_everyone_else_with_their_teacher(person):
    """Replacing one person's values by nothing may move one teacher's vote and no other."""
    columns = {name: PRIVATE[name].tolist() for name in (["age", "ill"] if person is None else PRIVATE.names)}

    def parts(ages):
        private = Table.of(columns | {"age": ages}, missing="drop")
        partition = label_task(private, PUBLIC, "ill", person=person).partition(10)
        return dict(zip(private.rows.tolist(), partition.parts.tolist(), strict=True)), partition

    whole, _ = parts(columns["age"])
    lacking = [None if row in (6, 7) else age for row, age in enumerate(columns["age"])]  # both rows of one person
    left, partition = parts(lacking)
    assert sorted(set(whole) - set(left)) == [6, 7]
    assert left == {row: part for row, part in whole.items() if row not in (6, 7)}
    if person is None:
        assert list(partition.teacher_of) == sorted(left)  # named by their place in the source


def test_a_gap_that_leaves_a_teacher_without_rows_is_no_reason_to_refuse():
    private = Table.of({"age": [31.0, None, 47.0, 62.0], "ill": ["no", "yes", "no", "yes"]}, missing="drop")
    work = label_task(private, PUBLIC, "ill", classes=["no", "yes"]).training("tree", 4)
    *_, state = work.run()
    assert state.empty == 1
    assert state.finished.all()
    with pytest.raises(Refusal, match="use at most 4"):
        label_task(private, PUBLIC, "ill", classes=["no", "yes"]).training("tree", 5)
