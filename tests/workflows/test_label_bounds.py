"""`dm.label` with declared bounds: a cell or a line that cannot be read changes its own row and ends nothing."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.workflows.label_question import LabelQuestion
from dosimeter.workflows.label_tables import tables_task

rng = np.random.default_rng(3)
N, AT = 60, 7
HEADER = b"who,age,ward,ill"
LINES = [
    f"p{k // 2},{rng.uniform(20, 90):.2f},{('north', 'south')[k % 3 == 0]},{('no', 'yes')[k % 2]}".encode()
    for k in range(N)
]
BOUNDS = {"age": (0, 120), "ward": ["north", "south"], "ill": ["no", "yes"]}
PUBLIC = {"age": [30.0, 50.0, 70.0, 90.0], "ward": ["north", "south", "north", "south"]}
HOSTILE = {
    "a word": b"p3,secret,north,no",
    "infinity": b"p3,inf,north,no",
    "beyond float64": b"p3,1e400,north,no",
    "nothing": b"p3,,north,no",
    "a class of their own": b"p3,44,north,secret",
    "a short line": b"p3,44",
    "a long line": b"p3,44,north,no,secret",
    "an open quote": b'p3,44,"secret,no',
    "not UTF-8": b"p3,44,\xff\xfe,no",
    "an empty line": b"",
}


def table(folder, line=None):
    lines = [*LINES]
    if line is not None:
        lines[AT] = line
    path = folder / "private.csv"
    path.write_bytes(b"\n".join([HEADER, *lines]) + b"\n")
    return path


def question(**options):
    return LabelQuestion(**({"target": "ill", "public": PUBLIC, "teachers": 4, "bounds": BOUNDS} | options))


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("person", [{"person": "who"}, {"exclude": ["who"]}])
def test_a_line_that_cannot_be_read_moves_no_other_row_and_no_other_teacher(tmp_path, name, person):
    base = tables_task(table(tmp_path), question(**person)).task
    other = tables_task(table(tmp_path, HOSTILE[name]), question(**person)).task
    others = np.arange(N) != AT
    np.testing.assert_array_equal(other.X, base.X[others])
    np.testing.assert_array_equal(other.y, base.y[others])
    np.testing.assert_array_equal(other.public, base.public)
    assert other.classes == base.classes == ("no", "yes")
    assert other.source_rows == base.source_rows == N
    np.testing.assert_array_equal(other.partition(4).parts, base.partition(4).parts[others])


@pytest.mark.parametrize("name", HOSTILE)
def test_labels_leave_whatever_the_cell_and_no_message_quotes_it(tmp_path, name):
    options = {"target": "ill", "public": PUBLIC, "teachers": 4, "scale": 3, "person": "who", "bounds": BOUNDS}
    released = dm.label(table(tmp_path, HOSTILE[name]), **options)
    assert len(released.model.labels) == 4
    assert released.result.publishable == dm.label(table(tmp_path), **options).result.publishable
    assert released.result.internal.rows_left_out == 1
    assert released.result.internal.persons_left_out == 0
    with pytest.raises(dm.Refusal) as caught:
        dm.label(table(tmp_path, HOSTILE[name]), **options, missing="refuse")
    assert "row 8" in str(caught.value)
    assert not any(word in str(caught.value) for word in ("secret", "1e400", "inf", "44", "p3"))


def test_a_person_without_a_readable_row_is_counted_and_moves_nobody(tmp_path):
    path = tmp_path / "private.csv"
    path.write_bytes(b"\n".join([HEADER, *LINES[:2], b"lonely,x,north,no", *LINES[2:]]) + b"\n")
    job = tables_task(path, question(person="who"))
    assert (job.dropped.rows, job.dropped.persons) == (1, 1)
    assert "lonely" not in job.task.persons


def test_numbers_are_clipped_and_unlisted_labels_count_as_the_first_level(tmp_path):
    far = tables_task(table(tmp_path, b"p3,1e308,attic,yes"), question(person="who"))
    near = tables_task(table(tmp_path, b"p3,120,north,yes"), question(person="who"))
    np.testing.assert_array_equal(far.task.X, near.task.X)
    assert any(note.startswith("1 private cells lay outside") for note in far.remarks)
    assert any(note.startswith("1 private labels are in no public list") for note in far.remarks)
    assert not any("private cells" in note for note in near.remarks)


def test_a_huge_cell_ends_no_training(tmp_path):
    """The square of 1e308 overflows in a teacher's scaler; a bound keeps it out."""
    options = {"target": "ill", "public": PUBLIC, "teachers": 4, "scale": 3, "person": "who", "bounds": BOUNDS}
    for estimator in ("logistic", "bayes"):
        released = dm.label(table(tmp_path, b"p3,1e308,north,yes"), **options, estimator=estimator)
        assert len(released.model.labels) == 4


def test_a_file_of_bounds_and_a_mapping_are_the_same_and_frames_are_read_alike(tmp_path):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(
        '[age]\nlower = 0\nupper = 120\n[ward]\nlevels = ["north", "south"]\n[ill]\nlevels = ["no", "yes"]\n'
    )
    path = table(tmp_path, b"p3,secret,north,no")
    cells = [line.decode().split(",") for line in path.read_bytes().splitlines()[1:]]
    frame = {name: [row[j] for row in cells] for j, name in enumerate(HEADER.decode().split(","))}
    tasks = [
        tables_task(data, question(person="who", bounds=b)).task for data in (path, frame) for b in (bounds, BOUNDS)
    ]
    for task in tasks[1:]:
        np.testing.assert_array_equal(task.X, tasks[0].X)
        np.testing.assert_array_equal(task.y, tasks[0].y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"age": (0, 120)}}, "nothing is declared about ward"),
        ({"bounds": BOUNDS | {"wards": ["a", "b"]}}, "there is no column wards"),
        ({"bounds": BOUNDS | {"ill": (0, 1)}}, "bounds of ill: a vote is on classes"),
        ({"bounds": BOUNDS | {"who": ["a", "b"]}}, "is the person column"),
        ({"classes": ["no", "perhaps"]}, "classes= and the declared levels of ill are not the same"),
        ({"categorical": ["age"]}, r"\[age\] is a number, and categorical= names it"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(tmp_path, options, message):
    with pytest.raises(dm.Refusal, match=message):
        tables_task(table(tmp_path), question(**({"person": "who"} | options)))


def test_bounds_do_not_go_with_votes(tmp_path):
    with pytest.raises(dm.Refusal, match="votes= are votes already and bounds= is for teachers trained here"):
        dm.label(votes=np.zeros((9, 2), int), classes=2, scale=3, bounds=BOUNDS)
