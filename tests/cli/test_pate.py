"""`dosimeter pate`: the labels, the figure for print, what stays inside, and every way of getting it wrong."""

from __future__ import annotations

import csv as csv_module
import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from dosimeter.cli.main import run
from dosimeter.files.pate_checkpoint import read_progress
from dosimeter.models.label_sheet import LabelledRows
from tests import forked

from .test_bad_input import csv

rng = np.random.default_rng(8)
N, K = 300, 40


def people(n, seed):
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n)
    return {
        "age": (50 + 12 * (2 * ill - 1) + rng.normal(0, 6, n)).round(3),
        "city": np.where(rng.random(n) < 0.2, "Graz", np.where(ill == 1, "Ulm", "Bern")),
        "ill": np.where(ill == 1, "yes", "no"),
    }


PRIVATE = {"id": [f"person-{i // 2}-secret" for i in range(N)], **people(N, 1)}
PUBLIC = {"visit": [f"v{i}" for i in range(K)], **people(K, 2)}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    private, public = tmp_path / "private.csv", tmp_path / "public.csv"
    private.write_text(csv(PRIVATE))
    public.write_text(csv({k: v for k, v in PUBLIC.items() if k != "ill"}))
    return private, public


def arguments(tables, out, *more, budget="20 nats"):
    fixed = ["--target", "ill", "--classes", "no,yes", "--person", "id", "--teachers", "20", "--out", str(out)]
    return ["pate", str(tables[0]), "--public", str(tables[1]), *fixed, "--budget", budget, *map(str, more)]


def rows_of(path):
    with path.open(newline="") as handle:
        return list(csv_module.DictReader(handle))


def test_every_public_row_gets_a_label_and_most_are_right(tables, tmp_path, capsys):
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "--json", "-")) == 0
    facts = json.loads(capsys.readouterr().out)
    rows = rows_of(out)
    assert list(rows[0]) == ["row", "label"]
    assert [int(row["row"]) for row in rows] == list(range(1, K + 1))
    # A margin of most of 20 votes against noise of scale 2 (Laplace): chance would give 20 of 40.
    assert sum(row["label"] == told for row, told in zip(rows, PUBLIC["ill"], strict=True)) >= 32
    if sys.platform != "win32":
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
    told = facts["publishable"]
    assert (told["teachers"], told["queries"], told["classes"]) == (20, K, 2)
    assert told["nats"] <= 20 < told["nats"] * 1.0001
    assert told["factor"] == pytest.approx(np.exp(told["nats"]))
    assert facts["internal"]["people"] == N // 2
    assert facts["internal"]["highest_nats"] <= told["nats"]
    assert facts["booked"] is False


def test_the_words_keep_the_figure_for_print_apart_from_what_is_internal(tables, tmp_path, capsys):
    assert run(arguments(tables, tmp_path / "labels.csv", "--threshold", "12")) == 0
    shown = " ".join(capsys.readouterr().out.split())
    before, after = shown.split("Bound and exact", 1)
    assert "At most 20 nats: no attacker's chance of a right guess about any one teacher's data" in before
    assert "hence about any one person's, given who is in the table, grows" in before
    assert "who the person is included at most" in before
    assert "upper bound" in before
    assert "one teacher's partition replaced by any other (replace-one)" in before
    assert "plain vote" not in before
    assert "Noisy label = plain vote for" in after
    assert "Do not publish" in shown
    assert "the list of classes" not in after
    assert "not booked: no ledger is configured" in after


def test_classes_read_off_the_private_table_leave_no_figure_to_publish(tables, tmp_path, capsys):
    """One person alone has a third class: the noise and every figure change, and nothing claims that they do not."""
    out, facts, told = tmp_path / "labels.csv", tmp_path / "facts.json", {}
    given = ["pate", str(tables[0]), "--public", str(tables[1]), "--target", "ill", "--person", "id"]
    for name, ill in (("two", PRIVATE["ill"]), ("three", ["perhaps", "perhaps", *PRIVATE["ill"][2:]])):
        tables[0].write_text(csv(PRIVATE | {"ill": ill}))
        more = ["--teachers", "20", "--budget", "20 nats", "--out", str(out), "--json", str(facts)]
        assert run([*given, *more]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "Nothing to publish: the classes were read off the private table" in shown
        assert "List them with --classes" in shown
        assert "the same for every table" not in shown
        assert "the list of classes: read off ill" in shown
        told[name] = json.loads(facts.read_text())
        assert run(["report", str(facts), "--out", str(tmp_path / "p.html"), "--json", str(tmp_path / "e.json")]) == 0
        outside = json.loads((tmp_path / "e.json").read_text())
        assert outside["sentence"].startswith("No figure is claimed for these labels")
        kept = {"nats", "nats_per_query", "factor", "epsilon", "noise", "threshold", "classes"}
        assert not kept & set(outside["publishable"])
        assert "nats," not in outside["sentence"]
    assert told["two"]["publishable"]["epsilon"] != told["three"]["publishable"]["epsilon"]
    assert {one["publishable"]["standing"] for one in told.values()} == {"unaccounted"}
    assert {one["publishable"]["epsilon_standing"] for one in told.values()} == {"unaccounted"}
    assert {one["internal"]["standing"] for one in told.values()} == {"unaccounted"}


def test_with_classes_listed_a_table_of_one_class_is_no_reason_to_refuse(tables, tmp_path):
    tables[0].write_text(csv(PRIVATE | {"ill": ["yes"] * N}))
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "--scale", "0.1", "-q", budget="30 nats")) == 0
    assert {row["label"] for row in rows_of(out)} == {"yes"}


def test_classes_listed_beforehand_are_covered_and_counted(tables, tmp_path, capsys):
    assert run(arguments(tables, tmp_path / "l.csv", "--classes", "no, maybe, yes", "--json", "-", "-q")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["classes"] == ["no", "maybe", "yes"]
    assert not any("list of classes" in note for note in facts["not_covered"])
    assert facts["internal"]["teachers_lacking_a_class"] == 20


def test_a_key_names_the_public_rows_and_only_the_first_are_asked(tables, tmp_path):
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "--key", "visit", "--queries", "5", "-q", budget="2 nats")) == 0
    assert [row["key"] for row in rows_of(out)] == ["v0", "v1", "v2", "v3", "v4"]


def test_refused_queries_have_no_label_and_are_counted(tables, tmp_path, capsys):
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "--threshold", "20", "--json", "-", "-q")) == 0
    empty = sum(row["label"] == "" for row in rows_of(out))
    assert empty == json.loads(capsys.readouterr().out)["publishable"]["refused"]
    # Leads of at most 20 against 20 with symmetric noise: each is refused with chance 1/2 or more; 40 in all.
    assert empty >= 5


def test_each_person_has_one_dose_and_shares_it_with_those_of_the_same_teacher(tables, tmp_path, capsys):
    doses, state = tmp_path / "doses.csv", tmp_path / "state.npz"
    assert (
        run(arguments(tables, tmp_path / "l.csv", "--doses-out", doses, "--checkpoint", state, "--json", "-", "-q"))
        == 0
    )
    facts, rows = json.loads(capsys.readouterr().out), rows_of(doses)
    assert len({row["person"] for row in rows}) == len(rows) == N // 2
    nats = [float(row["nats"]) for row in rows]
    assert max(nats) == pytest.approx(facts["internal"]["highest_nats"], rel=1e-12)
    assert len(set(nats)) <= 20


def test_without_a_table_it_shows_itself_on_digits_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["pate"]) == 0
    shown = capsys.readouterr().out
    words = " ".join(shown.split())
    assert "labelled 50 of 497 public rows, 0 refused" in words
    assert "teachers 50, of 1300 people" in words
    assert "your own tables" in shown
    assert os.listdir(tmp_path) == []
    assert run(["pate", "--json", "-", "--budget", "20 nats", "--noise", "exponential"]) == 0
    facts = json.loads(capsys.readouterr().out)
    # 50 labels of ten classes, right for 94 % of them in expectation; 30 would be a fault.
    assert facts["accuracy"]["labels"] > 0.6
    assert facts["internal"]["highest_nats"] < facts["publishable"]["nats"]


# ------------------------------------------------------------------------------------------------ what stays inside


def test_nothing_of_the_private_table_is_in_what_leaves(tables, tmp_path, capfd):
    """Canaries: every age of the private table is unlike any public number, every id and one city are its own."""
    rng = np.random.default_rng(4)
    ages = [f"{a:.5f}" for a in 40 + 20 * rng.random(N)]
    city = ["Geheimstadt" if i % 7 == 0 else c for i, c in enumerate(PRIVATE["city"].tolist())]
    tables[0].write_text(csv(PRIVATE | {"age": ages, "city": city}))
    out, student = tmp_path / "labels.csv", tmp_path / "student.skops"
    assert run(arguments(tables, out, "--student", student, "--json", tmp_path / "facts.json")) == 0
    said = capfd.readouterr()
    released = [out.read_bytes(), said.out.encode(), said.err.encode(), (tmp_path / "facts.json").read_bytes()]
    with zipfile.ZipFile(student) as archive:
        released += [student.read_bytes(), *(archive.read(name) for name in archive.namelist())]
    everything = b"\n".join(released)
    numbers = np.array(ages, dtype=float)
    for canary in [*ages, *PRIVATE["id"], "Geheimstadt", f"{numbers.mean():.6f}", f"{numbers.std():.6f}"]:
        assert canary.encode() not in everything
    held = [
        np.frombuffer(block[at:], dtype="<f8", count=(len(block) - at) // 8)
        for block in released[5:]
        for at in range(8)
    ]
    floats = np.concatenate(held)
    for figure in [*numbers, numbers.mean(), numbers.std(), numbers.var()]:
        assert not (floats == figure).any()
    assert b"age" in everything  # the names of columns are there, so the search does see what is in the files


def test_the_labels_hold_the_rows_and_the_labels_alone(tables, tmp_path):
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "-q")) == 0
    assert re.fullmatch(r"row,label\n(\d+,(yes|no)\n){40}", out.read_text())


@pytest.mark.parametrize("estimator", ["logistic", "tree", "bayes"])
def test_one_persons_rows_move_one_teachers_votes_only(estimator, tables, tmp_path):
    states = []
    for name in ("before", "after"):
        state = tmp_path / f"{name}.npz"
        more = ["--estimator", estimator, "--checkpoint", state, "-q"]
        assert run(arguments(tables, tmp_path / f"{name}.csv", *more)) == 0
        states.append(read_progress(state).votes)
        moved = PRIVATE | {
            "age": [1e6 if i in (10, 11) else a for i, a in enumerate(PRIVATE["age"])],
            "city": ["Atlantis" if i in (10, 11) else c for i, c in enumerate(PRIVATE["city"])],
            "ill": ["yes" if i in (10, 11) else c for i, c in enumerate(PRIVATE["ill"])],
        }
        tables[0].write_text(csv(moved))
    changed = (states[0] != states[1]).any(axis=1)
    # Statistics taken over all rows (a scaler, levels) would let 1e6 and Atlantis move every teacher.
    assert changed.sum() <= 1
    if estimator != "tree":  # a tree of many rows cuts the outlier off and votes as before
        assert changed.sum() == 1


@pytest.mark.parametrize("change", ["another", "gone", "come"])
def test_who_is_in_the_table_moves_no_more_teachers_than_are_paid_for(change, tables, tmp_path):
    """Another person in the place of one (two are charged), one person less, one more (one)."""
    states, told = [], {}
    for name in ("before", "after"):
        state, facts = tmp_path / f"{name}.npz", tmp_path / "facts.json"
        more = ["--checkpoint", state, "--estimator", "tree", "--json", facts, "-q"]
        assert run(arguments(tables, tmp_path / f"{name}.csv", *more)) == 0
        states.append(read_progress(state).votes)
        told = json.loads(facts.read_text())["publishable"]
        columns = {key: list(values) for key, values in PRIVATE.items()}
        if change == "another":
            columns["id"] = ["somebody else" if i in (10, 11) else who for i, who in enumerate(columns["id"])]
        elif change == "gone":
            columns = {key: [v for i, v in enumerate(values) if i not in (10, 11)] for key, values in columns.items()}
        else:
            columns = {key: [*values, {"id": "newcomer"}.get(key, values[3])] for key, values in columns.items()}
        tables[0].write_text(csv(columns))
    moved = (states[0] != states[1]).any(axis=1).sum()
    assert moved <= (2 if change == "another" else 1)
    # Two votes cost more than one and at most twice as much as one.
    assert told["nats"] < told["nats_who"] <= 2 * told["nats"]
    assert told["unit"] == "teacher's part, and so any person in it, given who is in the table"


@pytest.mark.parametrize("named", [True, False])
def test_a_row_that_loses_a_value_moves_one_teachers_votes_at_most(named, tables, tmp_path):
    """Rows counted anew after a gap, or persons dealt anew, would give every teacher other people."""
    states = []
    columns = PRIVATE if named else {k: v for k, v in PRIVATE.items() if k != "id"}
    whose = ["--person", "id"] if named else []
    for name in ("before", "after"):
        gap = columns | {"age": ["" if name == "after" and i in (10, 11) else a for i, a in enumerate(columns["age"])]}
        tables[0].write_text(csv(gap))
        state, doses = tmp_path / f"{name}.npz", tmp_path / f"{name}-doses.csv"
        given = ["pate", str(tables[0]), "--public", str(tables[1]), "--target", "ill", "--teachers", "20", *whose]
        more = ["--missing", "drop", "--scale", "3", "--out", str(tmp_path / f"{name}.csv"), "--checkpoint", str(state)]
        assert run([*given, *more, "--doses-out", str(doses), "-q"]) == 0
        states.append(read_progress(state).votes)
    assert (states[0] != states[1]).any(axis=1).sum() <= (1 if named else 2)  # without --person two rows are two people
    if not named:
        assert [int(row["row"]) for row in rows_of(doses)] == [i for i in range(1, N + 1) if i not in (11, 12)]


@pytest.mark.parametrize("named", [True, False])
def test_rows_left_out_are_counted_among_what_is_internal(named, tables, tmp_path, capsys):
    """Persons 3 and 4 lose both rows, person 5 one; row 300 has no name and is nobody's."""
    gaps = {6, 7, 8, 9, 10}
    columns = PRIVATE | {"age": ["" if i in gaps else a for i, a in enumerate(PRIVATE["age"])]}
    if named:
        columns |= {"id": [*columns["id"][:-1], ""]}
    else:
        del columns["id"]
    tables[0].write_text(csv(columns))
    given = ["pate", str(tables[0]), "--public", str(tables[1]), "--target", "ill", "--teachers", "20", "--scale", "3"]
    whose = ["--person", "id"] if named else []
    facts = tmp_path / "facts.json"
    more = ["--missing", "drop", "--exclude", "city", "--out", str(tmp_path / "l.csv"), "--json", str(facts)]
    assert run([*given, *whose, *more]) == 0
    before, after = " ".join(capsys.readouterr().out.split()).split("Bound and exact", 1)
    told = json.loads(facts.read_text())
    kept = told["internal"]
    assert (kept["rows_left_out"], kept["persons_left_out"]) == ((6, 2) if named else (5, 5))
    assert "left_out" not in json.dumps(told["publishable"])
    counted = "Private rows left out for a missing value or an unlisted class: 6; persons without a row left: 2"
    assert (counted if named else counted.replace("6", "5").replace("2", "5")) in after
    assert "left out" not in before


def test_nothing_left_out_is_counted_as_none_and_votes_made_elsewhere_as_unknown(tables, tmp_path, capsys):
    assert run(arguments(tables, tmp_path / "l.csv", "--json", "-", "-q")) == 0
    kept = json.loads(capsys.readouterr().out)["internal"]
    assert (kept["rows_left_out"], kept["persons_left_out"]) == (0, 0)
    np.save(tmp_path / "votes.npy", np.zeros((30, 4), int))
    given = ["pate", "--votes", str(tmp_path / "votes.npy"), "--classes", "2", "--scale", "3"]
    assert run([*given, "--out", str(tmp_path / "v.csv"), "--json", "-", "-q"]) == 0
    kept = json.loads(capsys.readouterr().out)["internal"]
    assert (kept["rows_left_out"], kept["persons_left_out"]) == ("unknown", "unknown")


def test_the_student_works_without_us_and_by_name(tables, tmp_path, capsys):
    import pandas as pd
    import skops.io as sio

    public = tmp_path / "scored.csv"
    public.write_text(csv(PUBLIC))
    student = tmp_path / "student.skops"
    more = ["--student", student, "--queries", "30", "--key", "visit", "--json", "-", "-q"]
    assert run(arguments((tables[0], public), tmp_path / "l.csv", *more, budget="15 nats")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert sio.get_untrusted_types(file=student) == []
    model, frame = sio.load(student), pd.read_csv(public)
    predicted = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[frame.columns[::-1]]), predicted)
    assert np.mean(predicted[30:] == frame["ill"][30:]) == pytest.approx(facts["accuracy"]["student"])
    labels = [row["label"] for row in rows_of(tmp_path / "l.csv")]
    assert np.mean(np.array(labels) == frame["ill"][:30]) == pytest.approx(facts["accuracy"]["labels"])
    strange = frame.assign(city="Atlantis")  # a level that nobody has seen
    assert set(model.predict(strange)) <= {"yes", "no"}


def test_a_student_reads_codes_as_a_frame_has_them_and_ignores_those_that_nobody_has_seen(tables, tmp_path):
    import pandas as pd
    import skops.io as sio

    codes = {"Ulm": 7, "Bern": 31, "Graz": 5}
    for path, columns in zip(tables, (PRIVATE, {k: v for k, v in PUBLIC.items() if k != "ill"}), strict=True):
        path.write_text(csv(columns | {"city": [codes[city] for city in columns["city"]]}))
    student = tmp_path / "student.skops"
    more = ["--categorical", "city", "--student", student, "--key", "visit", "-q"]
    assert run(arguments(tables, tmp_path / "l.csv", *more, budget="25 nats")) == 0
    model, frame = sio.load(student), pd.read_csv(tables[1])
    kept, weights = model.named_steps["model"], model.named_steps["columns"]
    design = np.column_stack([frame["age"], *(frame["city"] == code for code in (5, 7, 31))]).astype(float)
    np.testing.assert_array_equal(weights.transform(frame), design)
    np.testing.assert_array_equal(model.predict(frame), kept.predict(design))
    design[:, 1:] = 0
    np.testing.assert_array_equal(model.predict(frame.assign(city=99)), kept.predict(design))


@pytest.mark.parametrize("quiet", [True, False])
def test_labels_of_one_class_are_kept_and_their_price_is_told_though_no_student_learns_from_them(
    quiet, tables, tmp_path, capsys
):
    """All but one are ill, 19 teachers know nothing else: a lead of 18 against noise of scale 0.1, e^-170."""
    tables[0].write_text(csv(PRIVATE | {"ill": ["no", "no", *["yes"] * (N - 2)]}))
    out, student, doses = tmp_path / "labels.csv", tmp_path / "student.skops", tmp_path / "doses.csv"
    more = ["--scale", "0.1", "--student", student, "--doses-out", doses, *(["-q"] * quiet)]
    line = arguments(tables, out, *more, "--json", tmp_path / "facts.json", budget="30 nats")
    assert run(line) == 3
    said = capsys.readouterr()
    assert [row["label"] for row in rows_of(out)] == ["yes"] * K
    assert len(rows_of(doses)) == N // 2
    assert not student.exists()
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["written"] == [str(out), str(doses)]
    assert any(note.startswith("no student: all 40 labels are class 1") for note in facts["remarks"])
    assert len(said.err.splitlines()) == 1
    assert "student.skops was not written: all 40 labels are class 1" in said.err
    # Two classes at equal counts, γ = 10: 40 log(2 - 6 e^-10).
    assert "the 40 labels were drawn, at most 27.72 nats are spent, and they are in labels.csv" in said.err
    assert ("What was promised" in said.out) is not quiet


def test_refusals_alone_teach_no_student_and_are_kept_too(tables, tmp_path, capsys):
    """Answers have nothing to do with x and 100 votes of 100 are asked for: 30 fewer pass once in e^20.

    The threshold's noise has the scale 1/log 2 there, since the vote has next to none.
    """
    coins = np.random.default_rng(6).random((2, N))
    tables[0].write_text(csv({"id": PRIVATE["id"], "x": coins[0], "ill": np.where(coins[1] < 0.5, "yes", "no")}))
    tables[1].write_text(csv({"x": [0.2, 0.8]}))
    out, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    more = ["--teachers", "100", "--threshold", "100", "--scale", "0.1", "--student", tmp_path / "s.skops", "-q"]
    code = run(arguments(tables, out, *more, "--checkpoint", state, budget="5 nats"))
    assert max(np.bincount(column).max() for column in read_progress(state).votes.T) <= 70
    assert (code, [row["label"] for row in rows_of(out)]) == (3, ["", ""])
    assert "every query was refused" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------- limits


def test_a_scale_that_breaks_the_budget_writes_nothing_and_ends_with_exit_1(tables, tmp_path, capsys):
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "--scale", "2", budget="1 nat")) == 1
    assert "above the budget of 1; nothing was written" in capsys.readouterr().err
    assert not out.exists()
    assert run(arguments(tables, out, "--scale", "100", "-q", budget="1 nat")) == 0


def test_labels_near_chance_are_announced(tables, tmp_path, capsys):
    assert run(arguments(tables, tmp_path / "labels.csv", budget="0.1 nats")) == 0
    assert "expect labels near chance" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential", "logistic", "gaussian"])
def test_every_noise_keeps_its_budget(noise, tables, tmp_path, capsys):
    assert run(arguments(tables, tmp_path / "l.csv", "--noise", noise, "--json", "-", "-q", budget="9 nats")) == 0
    facts = json.loads(capsys.readouterr().out)["publishable"]
    assert facts["noise"].lower().startswith(noise)
    assert 8.99 < facts["nats"] <= 9


def test_defaults_stand_in_the_settings_file(tables, tmp_path, monkeypatch, capsys):
    (tmp_path / "dosimeter.toml").write_text('[pate]\nbudget = "3 nats"\nteachers = 15\n')
    monkeypatch.chdir(tmp_path)
    options = "--target ill --person id --public public.csv --out l.csv --json - -q"
    assert run(["pate", "private.csv", *options.split()]) == 0
    told = json.loads(capsys.readouterr().out)["publishable"]
    assert told["teachers"] == 15
    assert 2.99 < told["nats"] <= 3


# --------------------------------------------------------------------------------------------------- resuming


def test_a_second_run_takes_the_votes_from_the_state_and_another_table_is_refused(
    tables,
    tmp_path,
    capsys,
    refused,
):
    state = tmp_path / "state.npz"
    assert run(arguments(tables, tmp_path / "a.csv", "--checkpoint", state, "-q")) == 0
    kept = read_progress(state)
    assert kept.finished.all()
    written = state.stat().st_mtime_ns
    assert "it exists; go on from it with --resume" in refused(
        arguments(tables, tmp_path / "b.csv", "--checkpoint", state)
    )
    assert run(arguments(tables, tmp_path / "b.csv", "--checkpoint", state, "--resume", "--noise", "gumbel")) == 0
    assert "are charged again" in " ".join(capsys.readouterr().out.split())
    np.testing.assert_array_equal(read_progress(state).votes, kept.votes)
    assert state.stat().st_mtime_ns >= written
    tables[0].write_text(csv(PRIVATE | {"age": PRIVATE["age"] + 1}))
    assert "other rows" in refused(arguments(tables, tmp_path / "c.csv", "--checkpoint", state, "--resume"))
    state.write_bytes(b"PK\x03\x04 not a state")
    assert "start again" in refused(arguments(tables, tmp_path / "c.csv", "--checkpoint", state, "--resume"))


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that cannot be caught is POSIX")
def test_a_killed_command_goes_on_where_it_stopped(tables, tmp_path):
    state, out = tmp_path / "state.npz", tmp_path / "labels.csv"
    command = arguments(tables, out, "--checkpoint", state, "--resume", "--estimator", "forest", "-q")
    # It waits halfway, so that the kill is never too late, however busy the machine is.
    program = (
        "import sys, time, dosimeter.files.pate_checkpoint as files\n"
        "real = files.write_progress\n"
        "def write(path, state, **options):\n"
        "    real(path, state, **options)\n"
        "    time.sleep(600 if state.finished.sum() >= 10 else 0)\n"
        "files.write_progress = write\n"
        "from dosimeter.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    child = forked.start(["-c", program, *command])
    try:
        deadline = time.monotonic() + 400
        while not state.exists():
            assert child.poll() is None, "the command ended by itself"
            assert time.monotonic() < deadline, "no state was written"
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not out.exists()
    assert [p.name for p in tmp_path.glob("*.part")] == []
    before = read_progress(state)
    assert 0 < before.finished.sum() < 20
    assert run(command) == 0
    after = read_progress(state)
    assert after.finished.all()
    np.testing.assert_array_equal(after.votes[before.finished], before.votes[before.finished])
    assert len(rows_of(out)) == K


# ------------------------------------------------------------------------------------------------------ bad input


TYPOS = {
    "no target": {"--target": None},
    "no public table": {"--public": None},
    "no budget": {"--budget": None},
    "no out": {"--out": None},
    "unknown target": {"--target": "il"},
    "target that is an amount": {"--target": "age"},
    "unknown person": {"--person": "idd"},
    "person is the target": {"--person": "ill"},
    "an identifier among the columns": {"--person": None},
    "budget without a unit": {"--budget": "1"},
    "budget in bits": {"--budget": "1 bit"},
    "negative budget": {"--budget": "-1 nat"},
    "no number in the budget": {"--budget": "much"},
    "budget of nothing": {"--budget": "0 nats"},
    "budget that is no limit": {"--budget": "1000 nats"},
    "one teacher": {"--teachers": "1"},
    "no teacher": {"--teachers": "0"},
    "half a teacher": {"--teachers": "2.5"},
    "more teachers than persons": {"--teachers": "151"},
    "unknown noise": {"--noise": "pink"},
    "zero scale": {"--scale": "0"},
    "threshold above the teachers": {"--threshold": "21"},
    "threshold nan": {"--threshold": "nan"},
    "negative threshold": {"--threshold": "-3"},
    "delta of one": {"--delta": "1"},
    "delta nan": {"--delta": "nan"},
    "no queries": {"--queries": "0"},
    "more queries than rows": {"--queries": "41"},
    "unknown key": {"--key": "vizit"},
    "key among the columns": {"--key": "age"},
    "unknown estimator": {"--estimator": "oracle"},
    "unknown drop": {"--exclude": "nothing"},
    "all columns dropped": {"--exclude": ["age", "city"]},
    "unknown nominal": {"--categorical": "cty"},
    "unknown missing": {"--missing": "guess"},
    "wrong delimiter": {"--delimiter": ";"},
    "one class listed": {"--classes": "yes"},
    "a class twice": {"--classes": "yes,no,no"},
    "a class not listed": {"--classes": "yes,maybe"},
    "labels not as csv": {"--out": "labels.xlsx"},
    "student not as skops": {"--student": "student.pkl"},
    "state not as npz": {"--checkpoint": "state.pkl"},
    "student in a folder that is not there": {"--student": "nowhere/at/all.skops"},
    "zero jobs": {"--jobs": "0"},
    "jobs below all": {"--jobs": "-2"},
    "misspelt option": {"--buget": "1 nat"},
    "two outputs in one file": {"--doses-out": "labels.csv"},
    "labels over the public table": {"--out": "public.csv"},
}


@pytest.mark.parametrize("case", list(TYPOS))
def test_a_typo_ends_with_exit_2_one_line_and_no_file(case, tables, monkeypatch, refused):
    monkeypatch.chdir(tables[0].parent)
    options = {"--target": "ill", "--public": "public.csv", "--person": "id", "--teachers": "20"}
    options |= {"--budget": "20 nats", "--out": "labels.csv"} | TYPOS[case]
    line = ["pate", "private.csv"]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            line += [] if one is None else [option, one]
    refused(line)


def test_a_public_table_that_does_not_match_is_refused(tables, refused, tmp_path):
    tables[1].write_text(csv({"age": PUBLIC["age"]}))
    assert "no column city" in refused(arguments(tables, tmp_path / "l.csv"))
    assert run(arguments(tables, tmp_path / "l.csv", "--exclude", "city", "-q")) == 0
    (tmp_path / "l.csv").unlink()
    tables[1].write_text(csv({"age": PUBLIC["city"], "city": PUBLIC["city"]}))
    assert "number in the private table and text" in refused(arguments(tables, tmp_path / "l.csv"))


GOOD = rng.integers(0, 3, (12, 6))
BAD_VOTES = {
    "negative": np.where(GOOD == 2, -1, GOOD),
    "fractional": GOOD + 0.5,
    "nan": np.where(GOOD == 2, np.nan, GOOD),
    "infinite": np.where(GOOD == 2, np.inf, GOOD),
    "a class too many": np.where(GOOD == 2, 3, GOOD),
    "one dimension": GOOD[0],
    "three dimensions": GOOD[None],
    "one teacher": GOOD[:1],
    "no teacher": GOOD[:0],
    "no query": GOOD[:, :0],
    "text": GOOD.astype("U1"),
    "bool": GOOD > 0,
    "complex": GOOD * 1j,
}


@pytest.mark.parametrize("case", list(BAD_VOTES))
def test_bad_votes_are_refused_in_one_line(case, tmp_path, refused):
    path = tmp_path / "votes.npy"
    np.save(path, BAD_VOTES[case])
    options = ["--classes", "3", "--budget", "1 nat", "--out", tmp_path / "l.csv"]
    assert "votes.npy" in refused(["pate", "--votes", path, *options])


def test_votes_made_elsewhere_are_labelled(tmp_path, capsys):
    path, out = tmp_path / "votes.npy", tmp_path / "labels.csv"
    np.save(path, np.full((1000, 6), 2, dtype=np.uint8))
    assert run(["pate", "--votes", str(path), "--classes", "3", "--budget", "1 nat", "--out", str(out)]) == 0
    assert [row["label"] for row in rows_of(out)] == ["2"] * 6
    assert [row["query"] for row in rows_of(out)] == list("012345")  # as the columns of the votes are counted
    assert list(rows_of(out)[0]) == ["query", "label"]
    said = " ".join(capsys.readouterr().out.split())
    assert "about one person only if no person's rows taught two teachers" in said
    assert "about any one teacher's data grows by" in said  # nothing here says that a person has one teacher
    assert (
        run(["pate", "--votes", str(path), "--classes", "3", "--queries", "2", "--budget", "1 nat", "--out", str(out)])
        == 0
    )
    assert len(rows_of(out)) == 2


# ---------------------------------------------------------------------------------------- votes on many queries


def many_votes(path, order="C", queries=700, seed=3):
    """30 teachers on three classes, most of them agreed."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((30, queries)) < 0.8, rng.integers(0, 3, queries), rng.integers(0, 3, (30, queries)))
    np.save(path, np.asarray(values, dtype=np.int16, order=order))
    return values


def labelled(path, out, *more):
    return ["pate", "--votes", str(path), "--classes", "3", "--scale", "0.01", "--out", str(out), *map(str, more)]


@pytest.mark.parametrize("order", ["C", "F"])
def test_labels_written_in_pieces_are_the_file_of_labels_held_at_once(order, tmp_path, monkeypatch, capsys):
    """Next to no noise, so that both runs draw the same labels but for ties of the plain vote."""
    values = many_votes(tmp_path / "votes.npy", order)
    counts = np.array([np.bincount(column, minlength=3) for column in values.T])
    clear = np.sort(counts, axis=1)[:, -1] > np.sort(counts, axis=1)[:, -2]
    tied = tmp_path / "votes.npy"
    np.save(tied, np.asarray(values[:, clear], dtype=np.int16, order=order))
    facts = {}
    for name in ("held", "pieces"):
        if name == "pieces":
            monkeypatch.setattr("dosimeter.workflows.label.MOST_HELD", 10)
            monkeypatch.setattr("dosimeter.models.label_sheet._PIECE", 64)
            monkeypatch.setattr("dosimeter.pate.vote_blocks.MOST_QUERIES", 50)
        assert run(labelled(tied, tmp_path / f"{name}.csv", "--json", "-", "-q")) == 0
        facts[name] = json.loads(capsys.readouterr().out)
    held, pieces = ((tmp_path / f"{name}.csv").read_bytes() for name in ("held", "pieces"))
    assert held == pieces
    plain = counts[clear].argmax(axis=1)
    assert held.decode() == "query,label\n" + "".join(f"{q},{label}\n" for q, label in enumerate(plain))
    assert facts["held"]["artefact"] == facts["pieces"]["artefact"] == hashlib.sha256(held).hexdigest()
    assert facts["held"]["publishable"] == facts["pieces"]["publishable"]
    a, b = (facts[name]["internal"] for name in ("held", "pieces"))
    assert a["agreement_with_plain_vote"] == b["agreement_with_plain_vote"] == 1.0
    for figure in ("typical_nats", "highest_nats"):
        assert a[figure] == pytest.approx(b[figure], rel=1e-12, abs=1e-300)
    assert a["by_teacher"] == pytest.approx(b["by_teacher"], rel=1e-12, abs=1e-300)
    assert a["by_query"]["nats"] == pytest.approx(b["by_query"]["nats"], rel=1e-12, abs=1e-300)
    assert a["by_query"]["shown"] == b["by_query"]["shown"] == 200
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "pieces.csv").stat().st_mode) == 0o600


def test_refused_queries_are_written_alike_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("dosimeter.workflows.label.MOST_HELD", 10)
    monkeypatch.setattr("dosimeter.models.label_sheet._PIECE", 7)
    many_votes(tmp_path / "votes.npy")
    assert run(labelled(tmp_path / "votes.npy", tmp_path / "l.csv", "--threshold", "25", "-q")) == 0
    text = (tmp_path / "l.csv").read_text()
    assert re.fullmatch(r'query,label\n(\d+,([012]|"")\n){700}', text)
    assert '""' in text
    assert [int(row["query"]) for row in rows_of(tmp_path / "l.csv")] == list(range(700))


@pytest.mark.parametrize("moment", [0, 5])
def test_labels_interrupted_while_they_are_written_leave_no_file(moment, tmp_path, monkeypatch):
    monkeypatch.setattr("dosimeter.workflows.label.MOST_HELD", 10)
    monkeypatch.setattr("dosimeter.models.label_sheet._PIECE", 64)
    many_votes(tmp_path / "votes.npy")
    writing = LabelledRows.pieces

    def stopped(rows):
        for k, piece in enumerate(writing(rows)):
            if k == moment:
                raise KeyboardInterrupt
            yield piece

    monkeypatch.setattr(LabelledRows, "pieces", stopped)
    assert run(labelled(tmp_path / "votes.npy", tmp_path / "l.csv", "-q")) != 0
    assert os.listdir(tmp_path) == ["votes.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that cannot be caught is POSIX")
def test_labels_of_a_command_killed_while_it_writes_are_not_there(tmp_path):
    """The pieces stop after the third: what is killed then has written, under no name that anybody reads."""
    many_votes(tmp_path / "votes.npy")
    script = (
        "import sys, time, dosimeter.models.label_sheet as sheet, dosimeter.workflows.label as label\n"
        "from dosimeter.cli.main import run\n"
        "label.MOST_HELD, sheet._PIECE, writing = 10, 64, sheet.LabelledRows.pieces\n"
        "def slow(rows):\n"
        "    for k, piece in enumerate(writing(rows)):\n"
        "        yield piece\n"
        "        if k == 3:\n"
        "            print('three', flush=True); time.sleep(600)\n"
        "sheet.LabelledRows.pieces = slow\n"
        "run(sys.argv[1:])\n"
    )
    command = ["-c", script, *labelled(tmp_path / "votes.npy", tmp_path / "l.csv", "-q")]
    child = forked.start(command, stdout=subprocess.PIPE)
    assert child.stdout.readline().strip() == b"three"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (tmp_path / "l.csv").exists()
    assert run(labelled(tmp_path / "votes.npy", tmp_path / "l.csv", "-q")) == 0
    assert len(rows_of(tmp_path / "l.csv")) == 700


def test_bad_files_of_votes_are_refused_and_nothing_is_written(tmp_path, monkeypatch, refused):
    monkeypatch.setattr("dosimeter.pate.vote_blocks.MOST_QUERIES", 100)
    path, out = tmp_path / "votes.npy", tmp_path / "l.csv"
    values = many_votes(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "its header declares 42000 bytes and it has 41999" in refused(labelled(path, out))
    values[17, 699] = 3
    np.save(path, values)
    said = refused(labelled(path, out))
    assert "votes[17, 699] (teacher 17, query 699) is 3, not one of the classes 0..2" in said
    np.save(path, values.astype(object), allow_pickle=True)
    assert "pickle" in refused(labelled(path, out))
    np.save(path, values.astype("M8[s]"))
    assert "votes must be whole numbers, not datetime64" in refused(labelled(path, out))
    assert os.listdir(tmp_path) == ["votes.npy"]


@pytest.mark.parametrize(
    "options",
    [
        "--budget 1_nat",
        "--classes 1 --budget 1_nat",
        "--classes three --budget 1_nat",
        "--classes 3",
        "--classes 3 --budget 1_nat --student s.skops",
        "--classes 3 --budget 1_nat --person id",
        "--classes 3 --budget 1_nat --doses-out d.csv",
        "--classes 3 --budget 1_nat --teachers 12",
        "--classes 3 --budget 1_nat --estimator tree",
        "--classes 3 --budget 1_nat --delimiter ;",
        "--classes 3 --budget 1_nat --queries 7",
        "--classes 3 --budget 1_nat --queries 0",
    ],
)
def test_options_that_do_not_go_with_votes_are_refused(options, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    np.save("votes.npy", GOOD)
    refused(["pate", "--votes", "votes.npy", "--out", "l.csv", *(o.replace("_", " ") for o in options.split())])
    refused(["pate", "--votes", "nowhere.npy", "--out", "l.csv", "--classes", "3", "--budget", "1 nat"])
    refused(["pate", "table.csv", "--votes", "votes.npy", "--out", "l.csv", "--classes", "3", "--budget", "1 nat"])


def test_options_of_a_table_without_a_table_are_refused(refused):
    for option in (
        "--target",
        "--public",
        "--person",
        "--key",
        "--exclude",
        "--categorical",
        "--missing",
        "--delimiter",
    ):
        assert "name the private table" in refused(["pate", option, "something"])


def test_the_private_table_is_not_taken_for_the_public_one(tables, tmp_path, refused):
    twin = tmp_path / "twin.csv"
    twin.hardlink_to(tables[0])
    for public in (tables[0], twin):
        line = refused(arguments((tables[0], public), tmp_path / "labels.csv"))
        assert f"--public {public.name} is the private table itself" in line


def test_public_rows_that_are_private_ones_are_told(tables, tmp_path, capsys):
    more = ["--json", "-", "-q", "--queries", "5"]
    assert run(arguments(tables, tmp_path / "a.csv", *more, budget="1 nat")) == 0
    assert not any("rows of the private table" in note for note in json.loads(capsys.readouterr().out)["remarks"])
    mixed = {name: [*PRIVATE[name][:7], *PUBLIC[name]] for name in ("age", "city")}
    tables[1].write_text(csv({"id": [*PRIVATE["id"][:7], *(f"guest {k}" for k in range(K))], **mixed}))
    assert run(arguments(tables, tmp_path / "b.csv", *more, budget="1 nat")) == 0
    remarks = " ".join(json.loads(capsys.readouterr().out)["remarks"])
    assert f"7 of {K + 7} public rows are rows of the private table too" in remarks
    assert "4 of the public table's id are persons of the private table too" in remarks


def test_the_person_column_may_name_the_public_rows(tables, tmp_path):
    guests = [f"guest {k}" for k in range(K)]
    tables[1].write_text(csv({"id": guests, "age": PUBLIC["age"], "city": PUBLIC["city"]}))
    out = tmp_path / "labels.csv"
    assert run(arguments(tables, out, "--key", "id", "--queries", "3", "-q", budget="1 nat")) == 0
    assert [row["key"] for row in rows_of(out)] == guests[:3]


def test_a_labelling_that_was_stopped_says_how_to_go_on(tables, tmp_path, capsys, monkeypatch):
    from dosimeter.files import pate_checkpoint

    write = pate_checkpoint.write_progress

    def stopping(*given, **named):
        write(*given, **named)
        raise KeyboardInterrupt

    words = arguments(tables, tmp_path / "labels.csv", "--checkpoint", tmp_path / "state.npz", "-q")
    with monkeypatch.context() as patch:
        patch.setattr(pate_checkpoint, "write_progress", stopping)
        assert run(words) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("stopped; nothing half-written was left behind: go on with --resume")
    assert run([*words, "--resume"]) == 0


def test_a_damaged_state_is_refused_before_any_work(tables, tmp_path, monkeypatch, refused):
    import dosimeter.workflows.label

    def work(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr(dosimeter.workflows.label, "prepare", work)
    (tmp_path / "state.npz").write_bytes(b"PK\x03\x04 and no more")
    options = ["--checkpoint", tmp_path / "state.npz", "--resume"]
    assert "damaged archive" in refused(arguments(tables, tmp_path / "l.csv", *options))


def test_resuming_needs_the_name_of_a_checkpoint(tables, tmp_path, refused):
    assert "Name the file with --checkpoint" in refused(arguments(tables, tmp_path / "l.csv", "--resume"))


@pytest.mark.parametrize("person", ["id", None])
def test_a_row_of_an_unlisted_class_is_a_gap_and_moves_nobody_to_another_teacher(tables, tmp_path, capsys, person):
    """The reference is the deal of the whole table, person by person or place by place."""
    from dosimeter.workflows.label import prepare
    from dosimeter.workflows.label_question import LabelQuestion

    def deal(missing):
        question = LabelQuestion(
            target="ill", public=tables[1], person=person, exclude=() if person else ("id",), classes="no,yes",
            estimator="tree", teachers=7, missing=missing,
        )  # fmt: skip
        task = prepare(tables[0], question, scale=3).task
        parts = task.task.partition(7).parts.tolist()
        return dict(zip(task.task.places.tolist(), parts, strict=True)), task.dropped

    before, gone = deal("refuse")
    assert (gone.rows, gone.persons) == (0, 0)
    strange = {**PRIVATE, "ill": [{4: "sick-secret", 5: "1e400"}.get(i, v) for i, v in enumerate(PRIVATE["ill"])]}
    tables[0].write_text(csv(strange))
    after, gone = deal("drop")
    assert (gone.rows, gone.persons) == (2, 1 if person else 2)
    assert after == {place: part for place, part in before.items() if place not in (4, 5)}
    options = arguments(tables, tmp_path / "l.csv")
    assert run(options) == 2
    shown = capsys.readouterr().err
    assert "not among the listed classes (row 5, column ill)" in shown
    assert "secret" not in shown
    assert not (tmp_path / "l.csv").exists()
    assert run([*options, "--missing", "drop"]) == 0


def test_classes_that_are_numbers_are_known_however_they_are_written(tables, tmp_path, capsys):
    coded = [("1.0" if i % 3 else "1") if v == "yes" else "0" for i, v in enumerate(PRIVATE["ill"])]
    tables[0].write_text(csv({**PRIVATE, "ill": ["abc", *coded[1:]]}))
    tables[1].write_text(csv({**PUBLIC, "ill": [int(v == "yes") for v in PUBLIC["ill"]]}).replace("visit,", "id,"))
    for classes in ("0,1", "00,01"):
        options = arguments(tables, tmp_path / "l.csv", "--classes", classes, "--missing", "drop", "--json", "-", "-q")
        assert run(options) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["internal"]["rows_left_out"] == 1
        assert {row["label"] for row in rows_of(tmp_path / "l.csv")} <= set(classes.split(","))
