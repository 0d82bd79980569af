"""`dm.label` from Python: files and dataframes alike, votes as an array, options worded for Python."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.errors import LimitExceeded
from tests.cli.test_pate import PRIVATE, PUBLIC, K, N, csv

pd = pytest.importorskip("pandas")

OPEN = {name: column for name, column in PUBLIC.items() if name != "ill"}
QUESTION = {"target": "ill", "classes": ["no", "yes"], "person": "id", "teachers": 20, "key": "visit"}


def figures(released):
    """All that does not depend on the draw of the noise."""
    fields = released.result.to_dict()
    inside = fields.pop("internal")
    inside.pop("agreement_with_plain_vote")
    fields["publishable"].pop("refused")
    fields.pop("source")
    return fields, inside


def test_files_and_frames_give_the_same_figures(tmp_path):
    private, public = tmp_path / "private.csv", tmp_path / "public.csv"
    private.write_text(csv(PRIVATE))
    public.write_text(csv(OPEN))
    of_files = dm.label(private, public=str(public), budget="5 nats", **QUESTION)
    frames = pd.read_csv(private), pd.read_csv(public)
    of_frames = dm.label(frames[0], public=frames[1], budget="5 nats", **(QUESTION | {"classes": "no, yes"}))
    assert figures(of_files) == figures(of_frames)
    assert of_files.result.source == "private.csv"
    assert of_frames.result.source == "a dataframe"


def test_the_model_has_keys_labels_and_the_student_and_the_artefact_is_their_csv():
    released = dm.label(PRIVATE, public=OPEN, budget="25 nats", student=True, **QUESTION)
    rows = released.model
    assert rows.keys == tuple(OPEN["visit"])
    assert set(rows.labels) <= {"no", "yes"}
    text = released.artefact.decode()
    assert text.splitlines()[:2] == ["key,label", f"v0,{rows.labels[0]}"]
    assert set(rows.student.predict(pd.DataFrame(OPEN))) <= {"no", "yes"}
    assert list(released.extra_files) == [".skops"]
    (nats,) = released.doses
    assert len(nats.ids) == N // 2
    assert released.recipe.settings["published nats"] == released.result.publishable.nats
    assert not any(note.startswith("earlier and later") for note in released.recipe.not_covered)


def test_without_persons_there_is_nothing_to_book_and_without_a_student_no_file():
    columns = {name: column for name, column in PRIVATE.items() if name != "id"}
    question = {name: value for name, value in QUESTION.items() if name != "person"}
    released = dm.label(columns, public=OPEN, scale=3, **question)
    assert released.doses == ()
    assert released.extra_files == {}
    assert released.model.student is None


def test_labels_of_one_class_teach_no_student_and_the_result_says_why():
    released = dm.label(
        PRIVATE | {"ill": ["yes"] * N}, public=OPEN, budget="30 nats", scale=0.1, student=True, **QUESTION
    )
    assert set(released.model.labels) == {"yes"}
    assert released.model.student is None
    assert any(note.startswith("no student: all 40 labels are class 1") for note in released.result.remarks)


def test_votes_may_be_an_array():
    released = dm.label(votes=np.full((1000, 6), 2), classes=3, budget="1 nat")
    assert released.model.labels == ("2",) * 6
    assert released.model.key_name == "query"
    assert released.result.source == "an array"


def test_training_goes_on_from_a_checkpoint(tmp_path):
    state = tmp_path / "state.npz"
    dm.label(PRIVATE, public=OPEN, scale=3, checkpoint=state, **QUESTION)
    with pytest.raises(dm.Refusal, match="it exists; go on from it with resume="):
        dm.label(PRIVATE, public=OPEN, scale=3, checkpoint=str(state), **QUESTION)
    again = dm.label(PRIVATE, public=OPEN, scale=3, checkpoint=str(state), resume=True, **QUESTION)
    assert any("are charged again" in note for note in again.result.remarks)
    with pytest.raises(dm.Refusal, match="resume= from what"):
        dm.label(PRIVATE, public=OPEN, scale=3, resume=True, **QUESTION)


def test_a_scale_that_breaks_the_budget_is_a_limit_exceeded():
    with pytest.raises(LimitExceeded, match="above the budget of 1; nothing was written"):
        dm.label(PRIVATE, public=OPEN, scale=2, budget="1 nat", **QUESTION)


def test_the_private_frame_is_not_taken_for_the_public_one():
    frame = pd.DataFrame(PRIVATE)
    with pytest.raises(dm.Refusal, match="is the private table itself"):
        dm.label(frame, public=frame, target="ill", person="id", scale=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, 'state a limit: budget="1 nat", or a public scale='),
        ({"budget": "1"}, "write it in nats"),
        ({"scale": 0}, "scale=0.0: give a finite number above 0"),
        ({"scale": 3, "target": None}, "target= is missing: name the column of classes"),
        ({"scale": 3, "public": None}, "public= is missing"),
        ({"scale": 3, "noise": "pink"}, 'noise="pink": use'),
        ({"scale": 3, "delta": 1}, "delta=1.0: give a number above 0 and below 1"),
        ({"scale": 3, "queries": K + 1}, f"queries={K + 1}: give a number of public rows from 1 to {K}"),
        ({"scale": 3, "threshold": 21}, "threshold=21.0: with 20 teachers"),
        ({"scale": 3, "estimator": "oracle"}, 'estimator="oracle": use logistic'),
        ({"scale": 3, "key": "age"}, 'key="age" is a column that the teachers learn from'),
        ({"scale": 3, "classes": ["yes"]}, "classes=: 1 classes; list from 2"),
        ({"scale": 3, "jobs": 0}, "jobs=0: give a number of processes"),
        ({"scale": 3, "votes": "v.npy"}, "votes= are votes already and the table is for teachers trained here"),
    ],
)
def test_a_refusal_names_the_option_as_python_writes_it(options, message):
    with pytest.raises(dm.Refusal, match=message):
        dm.label(PRIVATE, **({"public": OPEN} | QUESTION | options))


def test_options_of_tables_do_not_go_with_votes_or_the_demonstration():
    with pytest.raises(dm.Refusal, match="votes= are votes already and teachers= is for teachers trained here"):
        dm.label(votes=np.zeros((9, 2), int), classes=2, scale=3, teachers=9)
    with pytest.raises(dm.Refusal, match="target= without a table"):
        dm.label(target="ill")


def test_the_demonstration_labels_digits():
    released = dm.label(budget="20 nats", queries=10)
    assert released.result.demo
    assert len(released.model.labels) == 10
    assert released.model.student is not None or released.model.no_student
