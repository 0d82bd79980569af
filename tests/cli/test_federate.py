"""`federate`: what is written and said, plans without training, and that every slip is one line and nothing written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dosimeter.cli.main import run
from dosimeter.files.safetensors import read_network

from .test_bad_input import csv

rng = np.random.default_rng(8)
CLIENTS, EACH = 40, 12
N = CLIENTS * EACH
SITE = np.repeat(np.arange(CLIENTS), EACH)
AGE = (50 + 8 * rng.normal(size=CLIENTS)[SITE] + 10 * rng.normal(size=N)).round(3)
PRESSURE = (120 + 12 * rng.normal(size=N)).round(3)
ROWS = {
    "hospital_id": [f"h{s:02d}" for s in SITE],
    "age": AGE,
    "pressure": PRESSURE,
    "ward": rng.choice(["east", "west"], N),
    "ill": np.where(PRESSURE + 4 * rng.normal(size=N) > 120, "yes", "no"),
}
TABLE = "--target ill --client hospital_id --epsilon 8 --delta 1e-3 --rounds 5 --clients-per-round 20"


@pytest.fixture
def hospitals(tmp_path):
    path = tmp_path / "hospitals.csv"
    path.write_text(csv(ROWS))
    return path


def trained(capsys, *arguments, code=0):
    assert run(["federate", *map(str, arguments), "--json", "-", "-q"]) == code
    return json.loads(capsys.readouterr().out)


def on_hospitals(hospitals, tmp_path, capsys, extra=""):
    out = tmp_path / "model.safetensors"
    return trained(capsys, "--table", hospitals, *TABLE.split(), "--out", out, *extra.split()), out


def test_a_model_of_hospitals_is_written_with_its_guarantee_and_its_form(hospitals, tmp_path, capsys):
    facts, out = on_hospitals(hospitals, tmp_path, capsys)
    told = facts["guarantee"]
    assert (told["unit"], told["adjacency"], told["standing"]) == ("client", "add-or-remove-one", "unaccounted")
    assert 7.5 < told["epsilon"] <= 8
    assert told["trusted"].startswith("the curator")
    assert facts["clients"] == CLIENTS
    assert facts["rounds"] == 5
    assert facts["accuracy"] == {}
    network, model, story = read_network(out)
    assert network.widths == (4, 2)  # two amounts, two wards
    assert np.isfinite(model).all()
    assert story["guarantee"] == told
    assert story["simulation"] is False
    assert story["rows_become"]["classes"] == ["no", "yes"]
    assert "internal" not in story
    assert any("the list of 2 classes was read" in note for note in story["not_covered"])
    assert any(note.startswith("tuning") for note in facts["not_covered"])
    assert facts["booked"] is False


BOUNDS = (
    '[age]\nlower = 0\nupper = 100\n[pressure]\nlower = 60\nupper = 200\n[ward]\nlevels = ["east", "west", "north"]\n'
)


def declared(tmp_path):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(BOUNDS)
    return f"--bounds {bounds} --classes no,yes --clients 45"


def test_only_what_is_declared_is_accounted_for(hospitals, tmp_path, capsys):
    """Number of clients, classes, levels: whichever is read off the rows gives one client away that alone has it."""
    whole = declared(tmp_path)
    facts, _ = on_hospitals(hospitals, tmp_path, capsys, whole)
    assert facts["guarantee"]["standing"] == "upper bound"
    assert facts["clients"] == facts["recipe"]["clients"] == 45
    assert not any("declare" in note for note in facts["not_covered"])
    for left_out, word in (("--clients 45", "counted in the rows"), ("--classes no,yes", "list of 2 classes")):
        facts, out = on_hospitals(hospitals, tmp_path, capsys, whole.replace(left_out, ""))
        assert facts["guarantee"]["standing"] == "unaccounted"
        assert word in facts["not_covered"][0]
        assert read_network(out)[2]["guarantee"]["standing"] == "unaccounted"
    facts, _ = on_hospitals(hospitals, tmp_path, capsys, "--classes no,yes --clients 45")
    assert facts["guarantee"]["standing"] == "unaccounted"
    assert "levels of ward" in facts["not_covered"][0]


def test_one_client_more_in_the_table_changes_nothing_that_is_public(hospitals, tmp_path, capsys):
    """Terms, form and words of the file are those of the neighbouring table, bit for bit; only weights differ."""
    whole, stories = declared(tmp_path), []
    fewer = tmp_path / "fewer" / "hospitals.csv"
    fewer.parent.mkdir()
    fewer.write_text(csv({name: np.asarray(values)[SITE != 3] for name, values in ROWS.items()}))
    for table in (hospitals, fewer):
        stories.append(read_network(on_hospitals(table, tmp_path, capsys, whole)[1])[2])
    assert stories[0] == stories[1]


def test_rows_that_were_left_out_are_not_counted_in_the_file(tmp_path, capsys):
    path = tmp_path / "gaps.csv"
    ages = [f"{a}" for a in AGE]
    ages[7] = ages[300] = ""
    path.write_text(csv({**ROWS, "age": ages}))
    facts, out = on_hospitals(path, tmp_path, capsys, "--missing drop")
    assert "internal: left out for a missing value: 2 of the rows" in facts["remarks"]
    assert not any("left out" in note for note in read_network(out)[2]["remarks"])


def test_with_bounds_whatever_stands_on_one_line_changes_nothing_that_is_public(hospitals, tmp_path, capsys):
    whole, stories = declared(tmp_path), []
    base = hospitals.read_text().splitlines()

    def with_cell(name, value):
        cells = base[8].split(",")
        cells[base[0].split(",").index(name)] = value
        return ",".join(cells)

    wrong = [with_cell("age", value) for value in ("abc", "1e400", '5"0')]
    for line in (base[8], *wrong, base[8].rsplit(",", 1)[0], base[8] + ",7", with_cell("ill", "perhaps")):
        hospitals.write_text("\n".join([*base[:8], line, *base[9:]]) + "\n")
        facts, out = on_hospitals(hospitals, tmp_path, capsys, whole)
        stories.append(read_network(out)[2])
        assert facts["guarantee"]["standing"] == "upper bound"
    assert all(story == stories[0] for story in stories)
    assert any("class is not declared: 1 of the rows" in note for note in facts["remarks"])


def test_names_that_may_be_one_client_are_told_and_not_published(tmp_path, capsys):
    path = tmp_path / "typos.csv"
    names = list(ROWS["hospital_id"])
    names[36] = "H03"
    path.write_text(csv({**ROWS, "hospital_id": names}))
    facts, out = on_hospitals(path, tmp_path, capsys)
    assert facts["clients"] == CLIENTS + 1
    assert any("'H03' and 'h03'" in note for note in facts["remarks"])
    assert b"H03" not in out.read_bytes()


def test_the_name_of_no_client_is_in_the_file(hospitals, tmp_path, capsys):
    _, out = on_hospitals(hospitals, tmp_path, capsys)
    held = out.read_bytes()
    assert not any(name.encode() in held for name in ROWS["hospital_id"])


def test_a_model_is_scored_on_public_rows_only(hospitals, tmp_path, capsys):
    test = tmp_path / "public.csv"
    test.write_text(csv({name: values[:200] for name, values in ROWS.items()}))
    facts, _ = on_hospitals(hospitals, tmp_path, capsys, f"--test {test} --classes no,yes")
    assert facts["accuracy"]["share"] > 0.75  # the rule itself is right for about 0.9
    assert "public.csv" in facts["accuracy"]["of"]
    assert not any("classes was read" in note for note in facts["not_covered"])


def test_what_one_client_becomes_does_not_depend_on_another():
    from dosimeter.tables.client_rows import derive_client_encoding, encode_client_rows
    from dosimeter.tables.table import Table

    table = Table.of(ROWS)
    form, _ = derive_client_encoding(table, "ill", "hospital_id")
    own = encode_client_rows(table, form, "hospital_id")
    moved = {**ROWS, "age": np.where(SITE == 3, 1e6 * AGE, AGE)}
    other = encode_client_rows(Table.of(moved), form, "hospital_id")
    stay = SITE != 3
    np.testing.assert_array_equal(own.X[stay], other.X[stay])
    for rows in own.clients:  # standardised inside each
        np.testing.assert_allclose(own.X[rows][:, 0].mean(), 0, atol=1e-12)
        np.testing.assert_allclose(own.X[rows][:, 0].std(), 1)


def test_declared_bounds_scale_everybody_alike(hospitals, tmp_path, capsys):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(BOUNDS)
    facts, out = on_hospitals(hospitals, tmp_path, capsys, f"--bounds {bounds}")
    assert facts["rows_become"]["columns"] == {
        "age": [0.0, 100.0],
        "pressure": [60.0, 200.0],
        "ward": ["east", "west", "north"],
    }
    assert read_network(out)[0].widths == (5, 2)


def test_a_column_of_codes_becomes_levels(tmp_path, capsys):
    path = tmp_path / "codes.csv"
    path.write_text(csv({**ROWS, "ward": np.where(np.array(ROWS["ward"]) == "east", 7, 31)}))
    facts, out = on_hospitals(path, tmp_path, capsys, "--categorical ward")
    assert facts["rows_become"]["columns"]["ward"] == ["31", "7"]
    assert read_network(out)[0].widths == (4, 2)


def test_a_seed_makes_a_simulation_and_everything_says_so(hospitals, tmp_path, capsys):
    facts, out = on_hospitals(hospitals, tmp_path, capsys, "--simulation-seed 5")
    assert facts["simulation"] is True
    assert "NOT FOR RELEASE" in facts["stamp"]
    _, first, story = read_network(out)
    assert "NOT FOR RELEASE" in story["stamp"]
    on_hospitals(hospitals, tmp_path, capsys, "--simulation-seed 5")
    np.testing.assert_array_equal(read_network(out)[1], first)
    on_hospitals(hospitals, tmp_path, capsys)
    assert (read_network(out)[1] != first).all()


def test_a_history_has_a_line_a_round(hospitals, tmp_path, capsys):
    on_hospitals(hospitals, tmp_path, capsys, f"--history {tmp_path / 'h.csv'}")
    head, *lines = (tmp_path / "h.csv").read_text().splitlines()
    assert len(lines) == 5
    assert not {"accuracy", "loss"} & set(head.split(","))  # there is no row to measure them on
    place = head.split(",").index("epsilon")
    spent = [float(line.split(",")[place]) for line in lines]
    assert spent == sorted(spent)
    assert spent[-1] <= 8


def test_a_history_with_public_rows_has_their_accuracy(hospitals, tmp_path, capsys):
    history = tmp_path / "h.csv"
    facts, _ = on_hospitals(hospitals, tmp_path, capsys, f"--history {history} --test {hospitals}")
    head, *lines = (line.split(",") for line in history.read_text().splitlines())
    assert float(lines[-1][head.index("accuracy")]) == pytest.approx(facts["accuracy"]["share"])
    assert "loss" in head


def pipeline_of(hospitals, tmp_path, capsys, extra=""):
    bounds, out = tmp_path / "bounds.toml", tmp_path / "model.skops"
    bounds.write_text(BOUNDS)
    given = f"--bounds {bounds} --clients 60 --classes yes,no {extra}".split()
    return trained(capsys, "--table", hospitals, *TABLE.split(), "--out", out, *given), out


@pytest.mark.parametrize("model", ["--architecture softmax", "--architecture mlp --hidden 8"])
def test_a_pipeline_works_without_us_and_answers_as_the_network_beside_it(model, hospitals, tmp_path, capsys):
    import hashlib

    import pandas as pd
    import skops.io as sio

    facts, out = pipeline_of(hospitals, tmp_path, capsys, f"{model} --test {hospitals}")
    beside = tmp_path / "model.safetensors"
    assert facts["written"] == [str(out), str(beside)]
    assert facts["artefact"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert facts["artefact_beside"] == hashlib.sha256(beside.read_bytes()).hexdigest()
    assert facts["guarantee"]["standing"] == "upper bound"
    network, weights, story = read_network(beside)
    assert story["pipeline_sha256"] == facts["artefact"]
    assert sio.get_untrusted_types(file=out) == []
    made, frame = sio.load(out), pd.read_csv(hospitals)
    said = made.predict(frame)
    assert np.mean(said == frame["ill"]) == pytest.approx(facts["accuracy"]["share"])
    # The same by the tensors and the form in the metadata, as somebody with torch would.
    columns = story["rows_become"]["columns"]
    scaled = [np.clip(2 * (frame[c] - lo) / (hi - lo) - 1, -1, 1) for c, (lo, hi) in list(columns.items())[:2]]
    Z = np.column_stack([*scaled, *(frame["ward"] == level for level in columns["ward"])]).astype(float)
    for k, (W, b) in enumerate(network.layers(weights[None])):
        Z = (np.maximum(Z, 0) if k else Z) @ W[0] + b[0, 0]
    assert said.tolist() == [["yes", "no"][k] for k in Z.argmax(axis=1)]
    strange = frame.assign(ward="a ward that nobody has seen")
    assert set(made.predict(strange)) <= {"yes", "no"}
    page = tmp_path / "facts.json"
    page.write_text(json.dumps(facts))
    assert run(["report", str(page), "--out", str(tmp_path / "p.html"), "--card", str(tmp_path / "c.md")]) == 0
    assert facts["artefact_beside"] in (tmp_path / "p.html").read_text()
    assert facts["artefact_beside"] in (tmp_path / "c.md").read_text()


def test_a_pipeline_cannot_standardise_for_a_client_that_it_does_not_know(hospitals, tmp_path, refused):
    line = refused(["federate", "--table", hospitals, *TABLE.split(), "--out", tmp_path / "m.skops"])
    assert "age, pressure: standardised inside each client" in line
    assert "--bounds" in line


def test_a_pipeline_that_was_booked_before_is_written_as_it_was_and_its_network_is_not(hospitals, tmp_path, capsys):
    book = ["--ledger", str(tmp_path / "book.db")]
    assert run(["ledger", "init", *book, "-q"]) == 0
    first, out = pipeline_of(hospitals, tmp_path, capsys, f"{' '.join(book)} --name june")
    before, beside = out.read_bytes(), tmp_path / "model.safetensors"
    out.unlink()
    beside.unlink()
    again, _ = pipeline_of(hospitals, tmp_path, capsys, f"{' '.join(book)} --name june")
    assert out.read_bytes() == before
    assert again["artefact"] == first["artefact"]
    assert not beside.exists()
    assert any("model.safetensors was not written" in note for note in again["remarks"])


def test_a_history_of_a_training_that_was_stopped_has_all_its_rounds(hospitals, tmp_path, capsys, monkeypatch):
    """Stopped after the third round was kept; the lines of the first run stand in the second one's file."""
    from dosimeter.files.federated_checkpoint import CheckpointWriter

    told, keep = [], CheckpointWriter.keep

    def stopping(self, state, rounds=()):
        keep(self, state, rounds)
        told[:] = rounds
        if state.serial == 6:
            raise KeyboardInterrupt

    history = tmp_path / "h.csv"
    files = f"--history {history} --checkpoint {tmp_path / 'ck.npz'} --resume"
    out = tmp_path / "model.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointWriter, "keep", stopping)
        assert run(["federate", "--table", str(hospitals), *TABLE.split(), "--out", str(out), *files.split()]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("stopped; nothing half-written was left behind: go on with --resume")
    assert len(told) == 3
    assert not out.exists()
    facts, _ = on_hospitals(hospitals, tmp_path, capsys, files)
    head, *lines = (line.split(",") for line in history.read_text().splitlines())
    assert [line[0] for line in lines] == ["0", "1", "2", "3", "4"]
    for name in ("clip", "variance", "scale", "epsilon"):
        found = [float(line[head.index(name)]) for line in lines[:3]]
        assert found == pytest.approx([getattr(entry, name) for entry in told], rel=1e-12)
    assert float(lines[1][head.index("variance")]) > 0
    assert facts["stopped"].endswith("3 were in the checkpoint")
    assert facts["by_round"]["round"] == list(range(5))


def test_a_training_goes_on_from_its_checkpoint_only_where_it_is_its_own(hospitals, tmp_path, capsys, refused):
    ck, out = tmp_path / "ck.npz", tmp_path / "m.safetensors"
    base = ["federate", "--table", hospitals, *TABLE.split(), "--out", out, "--checkpoint", ck]
    assert run([str(a) for a in [*base, "-q"]]) == 0
    first = read_network(out)[1]
    assert "--resume" in refused([*base, "-q"])
    assert "another training" in refused([*base, "-q", "--resume", "--momentum", "0.1"])
    # All rounds are over: the same model again, and nothing is noised twice.
    assert run([str(a) for a in [*base, "-q", "--resume"]]) == 0
    np.testing.assert_array_equal(read_network(out)[1], first)


def test_a_plan_answers_both_questions_without_training(capsys):
    # Printed in the notes on Table 1 of [Geyer19], K = 1000, and for the authors' own m with σ = 1, K = 100.
    plan = "plan --epsilon 8"
    noise = trained(capsys, *f"{plan} --clients 1000 --delta 1e-5 --clients-per-round 220 --rounds 54".split())
    assert noise["noise"] == pytest.approx(1.251, abs=5e-4)
    assert noise["guarantee"]["epsilon"] <= 8
    rounds = trained(capsys, *f"{plan} --clients 100 --delta 1e-3 --clients-per-round 30 --noise-multiplier 1".split())
    assert rounds["rounds"] == 28
    assert rounds["updates_expected"] == 840
    assert rounds["remarks"] == []


def test_a_fixed_number_of_clients_costs_more_noise(capsys):
    asked = "plan --epsilon 8 --clients 100 --delta 1e-3 --clients-per-round 50 --rounds 11".split()
    poisson, fixed = trained(capsys, *asked), trained(capsys, *asked, "--sampling", "fixed")
    assert fixed["guarantee"]["adjacency"] == "replace-one"
    assert fixed["noise"] > 2 * poisson["noise"]


def test_a_delta_that_allows_one_client_to_be_published_is_told(capsys):
    facts = trained(capsys, *"plan --epsilon 8 --clients 20 --delta 0.05 --noise-multiplier 4".split())
    assert "not below 1/K" in facts["remarks"][0]


def test_a_budget_that_allows_no_round_ends_with_exit_1_and_nothing_written(hospitals, tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    before = sorted(tmp_path.iterdir())
    line = "--target ill --client hospital_id --epsilon 0.1 --delta 1e-6 --noise-multiplier 0.5".split()
    assert run(["federate", "--table", str(hospitals), *line, "--out", str(out)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "allows 0 rounds" in shown
    assert "Nothing was trained and nothing was written" in shown
    assert sorted(tmp_path.iterdir()) == before
    facts = trained(
        capsys,
        *"plan --clients 100 --epsilon 8 --delta 1e-3 --noise-multiplier 1 --clients-per-round 25 --rounds 500".split(),
        code=1,
    )
    assert "500 were requested" in facts["over"]


def test_the_words_name_neighbours_trust_and_what_is_not_booked(hospitals, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "m.safetensors"
    assert run(["federate", "--table", str(hospitals), *TABLE.split(), "--out", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "add or remove one client with all its rows",
        "trusted the curator",
        "tuning:",
        "metrics:",
        "not booked: no ledger is configured",
        "name public rows with --test",
        "5 rounds",
    ):
        assert words in shown


@pytest.mark.slow
def test_the_demonstration_needs_no_argument(capsys):
    facts = trained(capsys)
    assert facts["demo"]
    assert facts["clients"] == 500
    assert facts["guarantee"]["epsilon"] <= 8
    assert facts["accuracy"]["share"] > 0.8


GIVEN = f"{TABLE} --out {{out}}"
BAD = {
    "an unknown word": ("federate plant --clients 10 --epsilon 1", "No such command"),
    "no budget": ("federate --dataset digits --clients 100 --out {out}", "--epsilon"),
    "no file": ("federate --dataset digits --clients 100 --epsilon 1", "--out is missing"),
    "no clients": ("federate --dataset digits --epsilon 1 --out {out}", "--clients is missing"),
    "no data": ("federate --dataset mnist --clients 100 --epsilon 8 --delta 1e-3 --rounds 2 --out {out}", "--data"),
    "an unknown dataset": ("federate --dataset cifar --clients 10 --epsilon 1 --out {out}", "digits or mnist"),
    "table and dataset": (f"federate --dataset digits --table {{table}} {GIVEN}", "Leave one"),
    "no target": ("federate --table {table} --client hospital_id --epsilon 1 --out {out}", "--target is missing"),
    "no client": ("federate --table {table} --target ill --epsilon 1 --out {out}", "--client is missing"),
    "a target without a table": ("federate --target ill", "--table"),
    "an unknown column": ("federate --table {table} --target il --client hospital_id --epsilon 1 --out {out}", "il"),
    "one column for two things": ("federate --table {table} --target ill --client ill --epsilon 1 --out {out}", "both"),
    "a target of amounts": (
        "federate --table {table} --target age --client hospital_id --epsilon 1 --out {out}",
        "class",
    ),
    "fewer clients than the table has": (f"federate --table {{table}} {GIVEN} --clients 20", "40 clients, more than"),
    "the wrong ending": (f"federate --table {{table}} {TABLE} --out {{out}}.bin", ".safetensors"),
    "a checkpoint that is a csv": (f"federate --table {{table}} {GIVEN} --checkpoint c.csv", ".npz"),
    "a resumption of nothing": (f"federate --table {{table}} {GIVEN} --resume", "--checkpoint"),
    "epsilon of zero": ("federate plan --clients 100 --epsilon 0", "--epsilon"),
    "epsilon that is no number": ("federate plan --clients 100 --epsilon nan", "--epsilon"),
    "epsilon beyond all sense": ("federate plan --clients 100 --epsilon 1e9", "nobody"),
    "delta below what is told apart": ("federate plan --clients 100 --epsilon 1 --delta 1e-20", "--delta"),
    "codes of no column": (f"federate --table {{table}} {GIVEN} --categorical wrad", "wrad"),
    "delta of one": ("federate plan --clients 100 --epsilon 1 --delta 1", "--delta"),
    "rounds of zero": ("federate plan --clients 100 --epsilon 1 --rounds 0", "--rounds"),
    "noise of zero": ("federate plan --clients 100 --epsilon 1 --noise-multiplier 0", "--noise-multiplier"),
    "more clients a round than there are": (
        "federate plan --clients 100 --epsilon 1 --clients-per-round 101",
        "--clients-per-round",
    ),
    "half a client": ("federate plan --clients 100 --epsilon 1 --clients-per-round 5.5 --sampling fixed", "whole"),
    "an unknown sampling": ("federate plan --clients 100 --epsilon 1 --sampling all", "poisson or fixed"),
    "one client": ("federate plan --clients 1 --epsilon 1", "hidden"),
    "an unknown model": (f"federate --table {{table}} {GIVEN} --architecture forest", "softmax or mlp"),
    "hidden layers of softmax": (f"federate --table {{table}} {GIVEN} --architecture softmax --hidden 8", "--hidden"),
    "hidden layers of words": (f"federate --table {{table}} {GIVEN} --hidden many", "--hidden"),
    "two ways to batch": (f"federate --table {{table}} {GIVEN} --batches 2 --batch-size 3", "one of the two"),
    "momentum of one": (f"federate --table {{table}} {GIVEN} --momentum 1", "--momentum"),
    "quantile of one": (f"federate --table {{table}} {GIVEN} --clip-quantile 1", "--clip-quantile"),
    "a rate that is no number": (f"federate --table {{table}} {GIVEN} --learning-rate inf", "--learning-rate"),
    "a negative seed": (f"federate --table {{table}} {GIVEN} --simulation-seed -1", "--simulation-seed"),
    "no processes": (f"federate --table {{table}} {GIVEN} --processes 0", "--processes"),
    "one class": (f"federate --table {{table}} {GIVEN} --classes yes", "two different"),
    "a class that is not listed": (f"federate --table {{table}} {GIVEN} --classes yes,maybe", "add it"),
    "a table that is not there": (f"federate --table nowhere.csv {GIVEN}", "no such file"),
    "the output is the input": (f"federate --table {{table}} {TABLE} --out {{out}} --json {{table}}", "the input"),
    "a needed column dropped": (f"federate --table {{table}} {GIVEN} --exclude ill", "--exclude"),
    "a policy unheard of": (f"federate --table {{table}} {GIVEN} --missing guess", "--missing"),
    "a folder that is not there": (f"federate --table {{table}} {TABLE} --out nowhere/m.safetensors", "no folder"),
    "pooling of a table": (f"federate --table {{table}} {GIVEN} --image-pooling 2", "--image-pooling"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_a_slip_is_one_line_and_nothing_is_written(case, hospitals, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOSIMETER_DATA", raising=False)
    line, word = BAD[case]
    filled = [part.format(table=hospitals, out=tmp_path / "m.safetensors") for part in line.split()]
    assert word in refused(filled)


def test_clients_who_are_one_are_refused(tmp_path, refused):
    path = tmp_path / "one.csv"
    path.write_text(csv({**ROWS, "hospital_id": ["h"] * N}))
    assert "cannot be hidden" in refused(
        ["federate", "--table", path, *TABLE.split(), "--out", tmp_path / "m.safetensors"]
    )


def test_a_model_that_cannot_move_beyond_its_clip_stays_finite_on_wild_amounts(tmp_path, capsys):
    path = tmp_path / "wild.csv"
    path.write_text(csv({**ROWS, "age": AGE * 1e250}))
    facts, out = on_hospitals(path, tmp_path, capsys)
    assert np.isfinite(read_network(out)[1]).all()
    assert facts["internal"]["updates_refused"] == 0


def test_a_damaged_checkpoint_is_refused_before_any_work(hospitals, tmp_path, monkeypatch, refused):
    import dosimeter.models.federated_rows
    import dosimeter.models.federated_terms

    def work(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr(dosimeter.models.federated_rows, "table_clients", work)
    monkeypatch.setattr(dosimeter.models.federated_terms, "terms", work)
    kept = tmp_path / "state.npz"
    kept.write_bytes(b"PK\x03\x04 and no more")
    words = [
        "federate",
        "--table",
        hospitals,
        *TABLE.split(),
        "--out",
        tmp_path / "m.safetensors",
        "--checkpoint",
        kept,
    ]
    assert "damaged archive" in refused([*words, "--resume"])
    assert "it exists" in refused(words)
