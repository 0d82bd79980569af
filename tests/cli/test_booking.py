"""Booking by every verb: the spend and the bytes together, the file afterwards, and nothing where it is refused."""

from __future__ import annotations

import csv as csv_module
import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import dosimeter
from dosimeter.cli.main import run
from dosimeter.ledger import Ledger

from .booked import ACCOUNTS, ENDING, VERBS, WHO, asked, command, everything, released
from .test_bad_input import PEOPLE, csv

SOURCES = str(Path(dosimeter.__file__).parents[1])


OTHER = {"pate": ("--queries", "7")}
"""Labels of other queries: those of the same ones may come out the same."""


def artefact(ledger, name):
    with Ledger.open(ledger) as book:
        return book.artefact(name)


@pytest.mark.parametrize("verb", VERBS)
def test_a_release_is_booked_for_everybody_and_its_file_holds_the_stored_bytes(verb, ledger, tmp_path, capsys):
    facts, out = released(verb, tmp_path, capsys, "first", "--to", "Hospital B", "--note", "monthly")
    safe_list = asked(capsys, "list")
    (entry,) = safe_list["releases"]
    assert facts["booked"] == {"name": "first", "seq": entry["seq"], "head": safe_list["head"]}
    assert (entry["to"], entry["note"], entry["people"]) == ("Hospital B", "monthly", len(WHO[verb]))
    assert set(entry["accounts"]) == ACCOUNTS[verb]
    assert out.read_bytes() == artefact(ledger, "first")
    assert os.stat(out).st_mode & 0o077 == 0
    for who in sorted(WHO[verb])[:3]:
        assert asked(capsys, "person", who)["known"]
    assert run(["ledger", "verify"]) == 0


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_name_again_spends_once_and_writes_the_same_bytes(verb, ledger, tmp_path, capsys):
    facts, out = released(verb, tmp_path, capsys, "first")
    before = everything(ledger)
    again, other = released(verb, tmp_path, capsys, "first", out=tmp_path / f"again.{ENDING[verb]}")
    assert other.read_bytes() == out.read_bytes()
    assert again["booked"] == facts["booked"]
    # The labels of that time are read back, so that what is said is of them; elsewhere a remark says that it is not.
    assert (verb == "pate") != any("stored file was written again" in note for note in again["remarks"])
    assert everything(ledger) == before


@pytest.mark.parametrize(
    "verb", ["fix", "pate", *(pytest.param(v, marks=pytest.mark.slow) for v in ("pca", "federate"))]
)
def test_a_run_killed_between_commit_and_export_is_repeated_with_the_same_draw(verb, ledger, tmp_path, capsys):
    out = tmp_path / f"model.{ENDING[verb]}"
    arguments = [*command(verb, tmp_path, out), "--name", "first", "-q"]
    # Killed at the first file that is written: the commit is over by then.
    code = (
        "import os, signal, dosimeter.files.atomic as atomic\n"
        "def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
        "atomic.atomic_file = die\n"
        "atomic.write_bytes = die\n"
        "from dosimeter.cli.main import run\n"
        f"run({arguments!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": SOURCES}, capture_output=True, timeout=600
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not out.exists()
    paid = artefact(ledger, "first")
    assert run(arguments) == 0
    assert out.read_bytes() == paid
    assert len(asked(capsys, "list")["releases"]) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_where_somebody_would_pass_nothing_is_written_and_nothing_booked(verb, ledger, tmp_path, capsys):
    limits = {"fix": "fil=0.01", "pca": "eps=0.05@1e-6", "pate": "leakage=0.001", "federate": "eps=0.05@1e-6"}
    assert run(["ledger", "budget", limits[verb], "-q"]) == 0
    out, dose = tmp_path / f"model.{ENDING[verb]}", tmp_path / "dose.json"
    arguments = [*command(verb, tmp_path, out), "--name", "first", "--dose-file", str(dose)]
    before, files = everything(ledger), set(tmp_path.iterdir())
    assert run(arguments) == 1
    shown = " ".join(capsys.readouterr().out.split())
    clients = "clients" if verb == "federate" else "people"
    assert re.search(rf"Refused {len(WHO[verb])} {clients} would pass", shown)
    assert "Nothing was written." in shown
    assert "and refit" not in shown  # without everybody there is nothing to fit
    assert '--override "reason" (recorded)' in shown
    assert everything(ledger) == before
    assert set(tmp_path.iterdir()) == files
    facts, _ = released(verb, tmp_path, capsys, "first", code=1)
    assert facts["booked"] is False
    assert facts["refused"][0]["people"] == len(WHO[verb])
    assert everything(ledger) == before
    # With a reason it goes out, and the book says why.
    _, out = released(verb, tmp_path, capsys, "first", "--override", "asked by the board")
    assert out.exists()
    assert asked(capsys, "list")["releases"][0]["override"] == "asked by the board"


def test_one_who_would_pass_among_many_may_be_left_out(ledger, tmp_path, capsys):
    words = command("fix", tmp_path, tmp_path / "m.skops")
    assert run([*words, "--no-ledger", "--json", "-", "-q"]) == 0
    highest = json.loads(capsys.readouterr().out)["dose"]["highest"]
    assert run(["ledger", "budget", f"fil={0.9999 * highest:.6g}", "-q"]) == 0
    assert run([*words, "--name", "first"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 person would pass" in shown
    assert "drop that person and refit" in shown


def test_a_monthly_retrain_runs_until_the_budget_refuses_and_the_way_out_fits(ledger, tmp_path, capsys):
    assert run(["ledger", "budget", "fil=4", "-q"]) == 0
    months, highest = 0, 0.0
    for month in range(1, 20):
        out = tmp_path / f"m{month}.skops"
        code = run([*command("fix", tmp_path, out), "--name", f"month-{month}", "--json", "-", "-q"])
        facts = json.loads(capsys.readouterr().out)
        if code == 1:
            break
        months, highest = month, facts["dose"]["highest"]
    # Equal releases: the highest total after k of them is √k times one dose.
    assert months == int(16 / highest**2)
    assert not out.exists()
    assert len(asked(capsys, "list")["releases"]) == months
    assert run([*command("fix", tmp_path, out), "--name", "last"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    (offered,) = re.findall(r"--max-dose ([0-9.]+) \(adds noise\)", shown)
    options = [
        str(tmp_path / "fix.csv"),
        "--target",
        "dose",
        "--person",
        "id",
        "--out",
        str(out),
        "--name",
        "last",
        "-q",
    ]
    room = (16 - months * highest**2) ** 0.5
    assert 0.98 * room < float(offered) <= room
    assert run(["fix", *options, "--max-dose", offered]) == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("verb", "account", "option"),
    [
        ("pca", "eps|person|replace-one", r"(--epsilon [0-9.]+ --delta [0-9.e-]+) \(about"),
        ("pate", "leakage|person|own units", r'(--budget "[0-9.]+ nats") \('),
        pytest.param(
            "federate",
            "eps|client|add-or-remove-one",
            r"(--epsilon [0-9.]+ --delta [0-9.e-]+) \(about",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_is_offered_instead_of_the_second_release_fits(verb, account, option, ledger, tmp_path, capsys):
    """There is room for 1.2 of the first release, and two of them take √2 of it or more."""
    released(verb, tmp_path, capsys, "first")
    (most,) = [one["highest"] for one in asked(capsys, "budget")["accounts"] if one["account"] == account]
    key = account.split("|")[0]
    limit = f"{key}={1.2 * most:.6g}" + ("@1e-6" if key == "eps" else "")
    assert run(["ledger", "budget", limit, "-q"]) == 0
    out = tmp_path / f"second.{ENDING[verb]}"
    words = [*command(verb, tmp_path, out), "--name", "second", *OTHER.get(verb, ())]
    assert run(words) == 1
    (offered,) = re.findall(option, " ".join(capsys.readouterr().out.split()))
    given = shlex.split(offered)
    if verb == "federate":  # the noise follows from the budget then
        at = words.index("--noise-multiplier")
        del words[at : at + 2]
    assert run([*words, *given, "-q"]) == 0
    assert out.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_ledger_and_with_no_ledger_it_says_so(verb, ledger, tmp_path, capsys, monkeypatch):
    out = tmp_path / f"model.{ENDING[verb]}"
    before = everything(ledger)
    assert run([*command(verb, tmp_path, out), "--no-ledger"]) == 0
    assert "(not booked: --no-ledger)" in " ".join(capsys.readouterr().out.split())
    monkeypatch.delenv("DOSIMETER_LEDGER")
    assert run([*command(verb, tmp_path, out), "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["booked"] is False
    assert "not booked: no ledger is configured" in " ".join(shown.err.split())
    assert everything(ledger) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_is_asked_for_before_the_work_begins(verb, ledger, tmp_path, refused):
    arguments = command(verb, tmp_path, tmp_path / f"model.{ENDING[verb]}")
    (tmp_path / f"{verb}.csv").unlink()
    before = everything(ledger)
    assert "--name is missing" in refused(arguments)
    for name in ("", "  ", "a/b", "x" * 121, "new\nline"):
        refused([*arguments, "--name", name])
    assert everything(ledger) == before


def test_rows_are_not_people(ledger, tmp_path, refused):
    for verb in ("fix", "pca", "pate"):
        words = command(verb, tmp_path, tmp_path / f"model.{ENDING[verb]}")
        at = words.index("--person")
        line = refused([*words[:at], *words[at + 2 :], "--name", "first"])
        assert "rows are not people" in line
        assert "--person" in line
        # A dose file is by person too, ledger or not.
        assert "rows are not people" in refused([*words[:at], *words[at + 2 :], "--no-ledger", "--dose-file", "d.json"])


def test_votes_without_people_are_not_booked(ledger, tmp_path, refused, capsys):
    np.save(tmp_path / "votes.npy", np.zeros((20, 3), dtype=np.int64))
    words = [
        "pate",
        "--votes",
        tmp_path / "votes.npy",
        "--classes",
        "2",
        "--budget",
        "1 nat",
        "--out",
        tmp_path / "l.csv",
    ]
    assert "no person's dose is known" in refused([*words, "--name", "first"])
    assert run([str(w) for w in [*words, "--no-ledger", "-q"]]) == 0


def test_what_is_made_up_or_drawn_from_a_seed_is_never_booked(ledger, tmp_path, capsys, refused):
    words = [*command("federate", tmp_path, tmp_path / "m.safetensors"), "--simulation-seed", "3"]
    assert "never booked" in refused([*words, "--name", "first"])
    assert run(words) == 0
    assert "not booked: a simulation" in " ".join(capsys.readouterr().out.split())
    public = "--clients 20 --epsilon 8 --delta 1e-3 --rounds 1 --noise-multiplier 3"
    assert run(f"federate --dataset digits {public} --epochs 1 --out d.safetensors".split()) == 0
    assert "not booked: made-up clients" in " ".join(capsys.readouterr().out.split())
    assert run(f"federate plan {public} -q".split()) == 0
    assert asked(capsys, "list")["releases"] == []


def test_what_cannot_be_composed_or_is_not_private_is_refused_with_a_way_out(ledger, tmp_path, refused):
    line = refused([*command("federate", tmp_path, tmp_path / "m.safetensors"), "--sampling", "fixed", "--name", "x"])
    assert "--sampling poisson, or --no-ledger" in line
    words = command("pca", tmp_path, tmp_path / "c.skops")
    at = words.index("--bounds")
    line = refused([*words[:at], *words[at + 2 :], "--not-private", "--name", "x"])
    assert "--bounds, or pass --no-ledger" in line


# --- the figures ---


def totals(capsys, who):
    return {one["account"]: one for one in asked(capsys, "person", who)["totals"]}


def test_the_dose_of_a_person_is_the_one_that_fix_reports(ledger, tmp_path, capsys):
    facts, _ = released("fix", tmp_path, capsys, "first")
    readings = [totals(capsys, who)["fil|person|standard deviations"]["reading"] for who in sorted(WHO["fix"])]
    assert max(readings) == pytest.approx(facts["dose"]["highest"], rel=1e-6)
    assert np.median(readings) == pytest.approx(facts["dose"]["typical"], rel=1e-6)
    # Each to whom it belongs: the ranking names people by the first of their rows.
    for one in facts["ranked"][:4]:
        mine = totals(capsys, PEOPLE["id"][one["row"] - 1])["fil|person|standard deviations"]["reading"]
        assert mine == pytest.approx(one["dose"], rel=1e-6)


def test_the_event_of_components_is_for_a_person_whatever_their_rows(ledger, tmp_path, capsys):
    """It was for a row, and three times as dear for somebody with three; now their rows weigh as much as one."""
    table = tmp_path / "visits.csv"
    rng = np.random.default_rng(4)
    ids = ["once"] * 1 + ["thrice"] * 3 + [f"p{k}" for k in range(200)]
    table.write_text(csv({"id": ids, "x": rng.uniform(0, 1, len(ids)), "z": rng.uniform(0, 1, len(ids))}))
    table.write_text(table.read_text() + "unread,abc,0.5\n")
    (tmp_path / "b.toml").write_text("[x]\nlower = 0\nupper = 1\n[z]\nlower = 0\nupper = 1\n")
    words = f"pca {table} --epsilon 0.5 --delta 1e-6 --person id --bounds b.toml --out c.skops --name first --json - -q"
    assert run(words.split()) == 0
    facts = json.loads(capsys.readouterr().out)
    key = "eps|person|replace-one"
    once, thrice, unread = (totals(capsys, who)[key]["reading"] for who in ("once", "thrice", "unread"))
    # The ledger reads at δ = 1e-6 where no budget says another, as the release was asked for.
    assert once == pytest.approx(facts["guarantee"]["costs"], rel=1e-3)
    assert facts["guarantee"]["unit"] == "person"
    assert facts["people_public"] == 203
    assert once == thrice == unread


def test_the_nats_of_a_person_are_those_of_the_sheet(ledger, tmp_path, capsys):
    _, _ = released("pate", tmp_path, capsys, "first", "--doses-out", tmp_path / "nats.csv")
    with (tmp_path / "nats.csv").open(newline="") as handle:
        rows = {row["person"]: float(row["nats"]) for row in csv_module.DictReader(handle)}
    for who in sorted(rows)[:5]:
        assert totals(capsys, who)["leakage|person|own units"]["reading"] == pytest.approx(rows[who], abs=1e-9)
    gaps = asked(capsys, "person", min(rows))["not_covered"]
    assert any("queries fixed in advance" in note for note in gaps)
    assert not any("each run adds its own" in note for note in gaps)  # here they are added


def test_two_trainings_of_the_same_clients_compose(ledger, tmp_path, capsys):
    assert run(["ledger", "budget", "eps=100@1e-3", "-q"]) == 0
    facts, _ = released("federate", tmp_path, capsys, "first")
    one = totals(capsys, "h03")["eps|client|add-or-remove-one"]["reading"]
    assert one == pytest.approx(facts["guarantee"]["epsilon"], rel=1e-3)
    released("federate", tmp_path, capsys, "second")
    two = totals(capsys, "h03")["eps|client|add-or-remove-one"]["reading"]
    assert one < two < 2 * one


def test_labels_that_happen_to_be_those_of_another_release_are_booked_and_paid_for(ledger, tmp_path, capsys):
    """Refused, they would tell for nothing that two draws agree, and be drawn again until they do not."""
    quiet = ("--scale", "0.05", "--budget", "6 nats")  # so little noise that the plain vote always comes out
    first, second = (released("pate", tmp_path, capsys, name, *quiet)[1] for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert len(asked(capsys, "person", "person-3-secret")["releases"]) == 2


def test_a_resumed_training_is_booked_once_and_under_one_name(ledger, tmp_path, capsys, refused):
    kept = ("--checkpoint", tmp_path / "state.npz")
    first, out = released("federate", tmp_path, capsys, "first", *kept)
    again, other = released("federate", tmp_path, capsys, "first", *kept, "--resume", out=tmp_path / "o.safetensors")
    assert again["booked"] == first["booked"]
    assert other.read_bytes() == out.read_bytes()
    words = command("federate", tmp_path, tmp_path / "p.safetensors")
    line = refused([*words, *kept, "--resume", "--name", "second", "-q"])
    assert "already used for first" in line
    assert len(asked(capsys, "list")["releases"]) == 1


# --- where the ledger is named ---


def test_options_go_over_the_environment_and_that_over_the_file(ledger, tmp_path, capsys, monkeypatch):
    for name in ("typed", "file"):
        assert run(["ledger", "init", "--ledger", f"{name}.db", "-q"]) == 0
    (tmp_path / "dosimeter.toml").write_text('[ledger]\nurl = "file.db"\n')
    words = [*command("fix", tmp_path, tmp_path / "m.skops"), "-q"]
    assert run([*words, "--name", "a", "--ledger", "typed.db"]) == 0
    assert run([*words, "--name", "b"]) == 0
    monkeypatch.delenv("DOSIMETER_LEDGER")
    assert run([*words, "--name", "c"]) == 0
    for path, name in (("typed.db", "a"), (ledger, "b"), ("file.db", "c")):
        assert [one["name"] for one in asked(capsys, "list", "--ledger", path)["releases"]] == [name]
    (tmp_path / "dosimeter.toml").write_text('[ledger]\nurl = "file.db"\n[fix]\nledger = "typed.db"\n')
    assert run([*words, "--name", "d"]) == 0
    assert len(asked(capsys, "list", "--ledger", "typed.db")["releases"]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "[ledger]\nurl = 3\n",
        '[ledger]\nulr = "x.db"\n',
        '[ledger]\nurl = ""\n',
        'url = "x.db"\n',
        '[ledger.lst]\njson = "-"\n',
    ],
)
def test_a_misspelt_ledger_in_the_settings_is_refused(text, ledger, tmp_path, refused):
    (tmp_path / "dosimeter.toml").write_text(text)
    refused(["ledger", "list"])


def test_keys_may_lie_elsewhere(ledger, tmp_path, capsys, refused):
    (tmp_path / "apart").mkdir()
    os.rename(f"{ledger}.keys", tmp_path / "apart" / "keys")
    words = [*command("fix", tmp_path, tmp_path / "m.skops"), "--name", "a", "-q"]
    assert "key" in refused(words)
    (tmp_path / "dosimeter.toml").write_text('[ledger]\nkeys = "apart/keys"\n')
    assert run(words) == 0


# --- every slip is one line and leaves the ledger as it was ---

BAD = (
    "--nmae first",
    "--name first --ledger nowhere.db",
    "--name first --ledger folder/none/book.db",
    "--name first --ledger fix.csv",
    "--name first --ledger mysql://u:hunter2@h/d",
    "--name first --ledger postgresql://u:hunter2@127.0.0.1:1/d",
    "--name first --keys fix.csv",
    "--name first --no-ledger",
    "--no-ledger --ledger book.db",
    "--name first --override ''",
    "--name first --to ''",
    "--name first --max-dose nan",
    "--name first --target nothing",
    "--name first --person nobody",
    "--name first --dose-file book.db",
    "--name first --dose-file book.db.keys",
    "--name first --out book.skops/m.skops",
    "--name first --dose-file model.skops",
    "--name first --dose-file none/dose.json",
    "--name first --json book.db",
)


@pytest.mark.parametrize("more", BAD)
def test_bad_options_leave_the_ledger_untouched(more, ledger, tmp_path, capsys):
    words = command("fix", tmp_path, tmp_path / "model.skops")
    before, files = everything(ledger), set(tmp_path.iterdir())
    code = run([*words, "--json", "-", *shlex.split(more)])
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("dosimeter: error: ")
    assert "fault of dosimeter" not in line
    assert "hunter2" not in line
    assert everything(ledger) == before
    assert set(tmp_path.iterdir()) == files


def test_an_override_is_typed_each_time(ledger, tmp_path, monkeypatch, refused):
    words = [*command("fix", tmp_path, tmp_path / "m.skops"), "--name", "a", "-q"]
    monkeypatch.setenv("DOSIMETER_FIX_OVERRIDE", "always")
    assert "must be given on the command line" in refused(words)
    monkeypatch.delenv("DOSIMETER_FIX_OVERRIDE")
    monkeypatch.setenv("DOSIMETER_FIX_NO_LEDGER", "1")
    assert "must be given on the command line" in refused(words[:-3])
    monkeypatch.delenv("DOSIMETER_FIX_NO_LEDGER")
    (tmp_path / "dosimeter.toml").write_text('[fix]\noverride = "always"\n')
    assert "must be given on the command line" in refused(words)


def test_an_id_that_no_ledger_takes_is_refused_before_anything_is_written(ledger, tmp_path, refused):
    words = command("fix", tmp_path, tmp_path / "m.skops")
    table = tmp_path / "fix.csv"
    table.write_text(table.read_text().replace("p0,", "x" * 1001 + ","))
    assert "1000 characters" in refused([*words, "--name", "first"])
    assert "1000 characters" in refused([*words, "--no-ledger", "--dose-file", tmp_path / "d.json"])


# --- nothing of a person gets out ---

ID, CELL = "CANARY-7f3a-person", 73519.024681
TEXT = "CanaryLevel9b"


def found(data):
    """Which canaries are in these bytes, also inside a zip."""
    parts = [data]
    if data[:2] == b"PK":
        import io

        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts += [archive.read(name) for name in archive.namelist()]
    float64, float32 = np.float64(CELL).tobytes(), np.float32(CELL).tobytes()
    wanted = {"id": ID.encode(), "cell": b"73519.02", "float64": float64, "float32": float32}
    return {what for what, needle in wanted.items() if any(needle in part for part in parts)}


def planted(verb, folder):
    """The verb's command on its table with one person and one cell that must not be seen again."""
    words = command(verb, folder, folder / f"model.{ENDING[verb]}")
    table = folder / f"{verb}.csv"
    head, first, *rest = table.read_text().splitlines()
    cells, names = first.split(","), head.split(",")
    whose = "hospital_id" if verb == "federate" else "id"
    cells[names.index("age")] = str(CELL)
    mine = cells[names.index(whose)]
    rows = [",".join(cells), *rest]
    table.write_text("\n".join([head, *(row.replace(mine + ",", ID + ",", 1) for row in rows)]) + "\n")
    return words


@pytest.mark.parametrize("verb", VERBS)
def test_no_id_and_no_cell_gets_into_any_output(verb, ledger, tmp_path, capsys):
    words = [*planted(verb, tmp_path), "--name", "first", "--dose-file", "dose.json"]
    assert found((tmp_path / f"{verb}.csv").read_bytes()) >= {"id", "cell"}
    codes = [run(words), run([*words, "--json", "-"]), run(["ledger", "list"]), run(["ledger", "export"])]
    codes += [run(["ledger", "export", "--format", "csv"]), run(["ledger", "budget"]), run(["ledger", "verify"])]
    assert run(["ledger", "budget", "fil=1e-3", "leakage=1e-3", "eps=1e-3@1e-6"]) == 0
    words[words.index("first")] = "second"
    words += OTHER.get(verb, ())
    codes += [run(words) - 1, run([*words, "--json", "-"]) - 1]
    assert codes == [0] * len(codes)
    shown = capsys.readouterr()
    assert "Refused" in shown.out
    assert found(shown.out.encode() + shown.err.encode()) == set()
    for path in tmp_path.iterdir():
        if path.name.startswith(("model.", "book.db")):
            assert found(path.read_bytes()) == set(), path.name
    # The dose file is internal and must know whose doses they are, but no cell.
    assert found((tmp_path / "dose.json").read_bytes()) == {"id"}


def test_the_search_for_canaries_finds_them():
    import io

    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", ID.encode() + np.float64(CELL).tobytes())
    assert found(kept.getvalue()) == {"id", "float64"}
    assert found(str(CELL).encode()) == {"cell"}


@pytest.mark.skipif(os.name == "nt", reason="folders have no such mode there")
def test_a_folder_that_cannot_be_written_into_is_refused_before_anything_is_spent(
    ledger, tmp_path, refused, monkeypatch
):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # the superuser may write anywhere: the mode answers instead
        monkeypatch.setattr(os, "access", lambda path, mode, **_: bool(os.stat(path).st_mode & 0o200))
    words = [*command("fix", tmp_path, folder / "m.skops"), "--name", "first"]
    before = everything(ledger)
    assert "permission to write to its folder is denied" in refused(words)
    assert everything(ledger) == before


@pytest.mark.parametrize("verb", ["fix", "pate"])
def test_a_file_that_fails_after_the_booking_says_what_is_booked_and_how_to_get_it(
    verb, ledger, tmp_path, capsys, monkeypatch
):
    import tempfile

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    words = [*command(verb, tmp_path, tmp_path / f"m.{ENDING[verb]}"), "--name", "first", "-q"]
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", full)
        assert run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "booked as first, but the file could not be written (" in line
    assert asked(capsys, "list")["releases"][0]["name"] == "first"
    told = shlex.split(line.split("`")[1])
    assert told[:3] == ["dosimeter", "ledger", "artefact"]
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(tmp_path / "again")
    assert run(told[1:]) == 0
    assert (tmp_path / "again" / told[-1]).read_bytes() == artefact(ledger, "first")
