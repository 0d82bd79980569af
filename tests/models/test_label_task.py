"""What the teachers are asked, and the student that comes back, from tables with names."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.models.label_task import ESTIMATORS, ballot, estimator_of
from dosimeter.pate.label import label
from dosimeter.tables.table import Table

rng = np.random.default_rng(6)


def table(n, ids=True):
    ill = rng.integers(0, 2, n)
    columns = {"age": 50.0 + 20 * ill + rng.normal(0, 5, n), "ill": np.where(ill, "yes", "no").tolist()}
    return Table.of({"id": [f"p{i // 2}" for i in range(n)], **columns} if ids else columns)


PRIVATE, PUBLIC = table(120), table(30, ids=False)


def test_the_first_public_rows_are_the_questions_and_their_target_is_for_scoring_only():
    asked = ballot(PRIVATE, PUBLIC, "ill", person="id", queries=10)
    np.testing.assert_array_equal(asked.queries[:, 0], PUBLIC["age"][:10])
    assert asked.queries.shape == (10, 1)
    assert asked.truth is not None
    assert ballot(PRIVATE, PUBLIC.drop(["ill"]), "ill", person="id").truth is None


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_votes_well_and_teaches_a_student(estimator):
    asked = ballot(PRIVATE, PUBLIC, "ill", person="id", queries=20)
    work = asked.training(estimator, 10)
    *_, state = work.run()
    labels = label(work.votes(state), dm.Laplace(0.5))
    told = asked.score(labels, asked.student(labels))
    # Two standard deviations on each side of the middle: a few per cent of rows lie beyond; half would be chance.
    assert told["labels"] >= 0.75
    assert told["student"] >= 0.7
    # The same by hand: names of classes against the public table's own.
    names = np.array(asked.classes)[labels.values]
    assert told["labels"] == pytest.approx(np.mean(names == PUBLIC["ill"][:20]))


def test_what_is_not_covered_is_said():
    alone, named = ballot(PRIVATE.drop(["id"]), PUBLIC, "ill"), ballot(PRIVATE, PUBLIC, "ill", person="id")
    assert any("each row is taken for another person" in note for note in alone.uncovered)
    assert any("how many rows there are" in note for note in alone.uncovered)
    assert any("who is in the table" in note for note in named.uncovered)
    safe_list = ballot(PRIVATE, PUBLIC, "ill", person="id", classes=["yes", "no"])
    assert safe_list.classes == ("yes", "no")
    assert not any("list of classes" in note for note in safe_list.uncovered)
    assert safe_list.declared
    assert not named.declared


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"queries": 0}, "ask from 1 to 30"),
        ({"queries": 31}, "ask from 1 to 30"),
        ({"classes": ["yes"]}, "1 classes"),
        ({"classes": ["yes", "no", "no"]}, "each once"),
        ({"classes": ["yes", ""]}, "each once"),
        ({"classes": ["yes", "maybe"]}, "not in the list of classes"),
        ({"person": "ill"}, "name two columns"),
    ],
)
def test_bad_questions_are_refused(how, told):
    with pytest.raises(Refusal, match=told):
        ballot(PRIVATE, PUBLIC, "ill", **({"person": "id"} | how))


def test_an_unknown_estimator_is_refused():
    with pytest.raises(Refusal, match="use logistic, tree, forest, bayes"):
        estimator_of("oracle")


@pytest.mark.parametrize("person", [None, "id"])
def test_a_row_left_out_for_a_missing_value_leaves_everybody_else_with_their_teacher(person):
    """Replacing one person's values by nothing may move one teacher's vote and no other."""
    columns = {name: PRIVATE[name].tolist() for name in (["age", "ill"] if person is None else PRIVATE.names)}

    def parts(ages):
        private = Table.of(columns | {"age": ages}, missing="drop")
        made = ballot(private, PUBLIC, "ill", person=person).partition(10)
        return dict(zip(private.rows.tolist(), made.parts.tolist(), strict=True)), made

    whole, _ = parts(columns["age"])
    lacking = [None if row in (6, 7) else age for row, age in enumerate(columns["age"])]  # both rows of one person
    left, made = parts(lacking)
    assert sorted(set(whole) - set(left)) == [6, 7]
    assert left == {row: part for row, part in whole.items() if row not in (6, 7)}
    if person is None:
        assert list(made.teacher_of) == sorted(left)  # named by their place in the source


def test_a_gap_that_leaves_a_teacher_without_rows_is_no_reason_to_refuse():
    private = Table.of({"age": [31.0, None, 47.0, 62.0], "ill": ["no", "yes", "no", "yes"]}, missing="drop")
    work = ballot(private, PUBLIC, "ill", classes=["no", "yes"]).training("tree", 4)
    *_, state = work.run()
    assert state.empty == 1
    assert state.done.all()
    with pytest.raises(Refusal, match="take at most 4"):
        ballot(private, PUBLIC, "ill", classes=["no", "yes"]).training("tree", 5)
