"""What may be handed over is the same, byte by byte, for tables that differ in one cell, one row or one person."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dosimeter.cli.main import run
from dosimeter.reports.document import NOTHING
from dosimeter.results.visibility import Visibility
from dosimeter.scanner.scan import contents_of
from tests.reports.verbs import BOUNDS, COLUMNS, LINEAR, people, prepare, several_classes, write

Rows = list[tuple[Any, ...]]
WHO = COLUMNS.index("who")
FITS = "--person who --exclude site --bounds {here}/bounds.toml --epsilon 2 --out {out}/m.skops"
UNLISTED = "--person who --exclude site --exclude score --public {here}/public.csv --teachers 12"
PATE = f"{UNLISTED} --classes no,yes"
BY_ROWS = PATE.replace("--person", "--exclude")
CLIENTS = (
    "--target ill --client site --exclude who --exclude score --epsilon 8 --rounds 2 --epochs 1 "
    "--out {out}/m.safetensors"
)
LOGISTIC = "--target ill --exclude who --exclude site --exclude score"
CLASSES = "--target ill --person who --exclude score --exclude site"
IMPUTED = "--bounds {here}/bounds.toml --missing impute --impute age=5000 --impute bmi=5000"
ANSWERS = "--release predictions --queries {here}/public.csv"
PATIENTS = (
    "--target ill --unit patient --person who --site site --exclude score --epsilon 8 --rounds 2 --clients 200 "
    "--classes no,yes --bounds {here}/bounds.toml"
)
DECLARED = f"{CLIENTS} --clients 12 --classes no,yes --bounds {{here}}/bounds.toml"
BOUNDED = "--bounds {here}/bounds.toml --missing drop"
COMMANDS = {
    "measure": f"measure {{table}} {LINEAR} --scale 1 --max-dose 1000 --show-ids",
    "measure exact": f"measure {{table}} {LINEAR}",
    "measure logistic": f"measure {{table}} {LOGISTIC} --scale 1 --unit raw",
    "fix": f"fix {{table}} {LINEAR} --max-dose 5 --out {{out}}/m.skops",
    "fix equal": f"fix {{table}} {LINEAR} --max-dose 5 --equalise --reweighting-rounds 2 --out {{out}}/m.skops",
    "fix shaped": f"fix {{table}} {LINEAR} --max-dose 5 --noise-shape hessian --out {{out}}/m.skops",
    "fix with a scale": f"fix {{table}} {LINEAR} --scale 50 --noise laplace --max-dose 1000 --out {{out}}/m.skops",
    "pca": f"pca {{table}} {FITS} --attack",
    "pca by rows": f"pca {{table}} {FITS.replace('--person who', '--exclude who')}",
    "pca by declared people": f"pca {{table}} {FITS} --neighbours add-or-remove",
    "pca open": "pca {table} --person who --exclude site --not-private --epsilon 2 --out {out}/m.skops",
    "pate": f"pate {{table}} --target ill {PATE} --scale 3 --queries 4 --out {{out}}/labels.csv",
    "pate by budget": f"pate {{table}} --target ill {PATE} --budget 2_nats --queries 4 --out {{out}}/labels.csv",
    "pate without classes": f"pate {{table}} --target ill {UNLISTED} --budget 2_nats --queries 4 --threshold 6 "
    "--out {out}/labels.csv",
    "pate by rows": f"pate {{table}} --target ill {BY_ROWS} --scale 3 --queries 4 --out {{out}}/labels.csv",
    "federate": f"federate --table {{table}} {CLIENTS} --clients 12",
    "federate declared": f"federate --table {{table}} {DECLARED}",
    "federate pipeline": f"federate --table {{table}} {DECLARED}".replace("m.safetensors", "m.skops"),
    "measure with bounds": f"measure {{table}} {LINEAR} {BOUNDED} --scale 1",
    "measure with constants": f"measure {{table}} {LINEAR} {IMPUTED} --scale 1",
    "fix with constants": f"fix {{table}} {LINEAR} {IMPUTED} --scale 50 --max-dose 1000 --even-if-useless "
    "--out {out}/m.skops",
    "measure answers": f"measure {{table}} {CLASSES} {BOUNDED} {ANSWERS} --scale 1 --max-dose 1000",
    "measure exact answers": f"measure {{table}} {LINEAR} {ANSWERS}",
    "federate by patient": f"federate --table {{table}} {PATIENTS} --out {{out}}/m.safetensors",
    "fix with bounds": f"fix {{table}} {LINEAR} {BOUNDED} --scale 50 --max-dose 1000 --even-if-useless "
    "--out {out}/m.skops",
    "fix of classes": f"fix {{table}} {CLASSES} {BOUNDED} --scale 5 --max-dose 1000 --even-if-useless "
    "--out {out}/m.skops",
    "fix of three classes": f"fix {{table}} {CLASSES} --max-dose 5 --even-if-useless --out {{out}}/m.skops",
    "fix of three declared classes": f"fix {{table}} {CLASSES} {BOUNDED} --loss softmax --scale 5 --max-dose 1000 "
    "--even-if-useless --out {out}/m.skops",
    "fix of amounts": f"fix {{table}} {LINEAR} --loss gamma --max-dose 5 --even-if-useless --out {{out}}/m.skops",
    "measure of classes": f"measure {{table}} {CLASSES} {BOUNDED} --scale 5",
    "pate with gaps": f"pate {{table}} --target ill {PATE} --missing drop --scale 3 --queries 4 "
    "--out {out}/labels.csv",
    "pate by rows with gaps": f"pate {{table}} --target ill {BY_ROWS} --missing drop --scale 3 --queries 4 "
    "--out {out}/labels.csv",
    "pate with bounds": f"pate {{table}} --target ill {UNLISTED} --bounds {{here}}/bounds.toml --scale 3 --queries 4 "
    "--out {out}/labels.csv",
    "pate by rows with bounds": f"pate {{table}} --target ill {BY_ROWS} --bounds {{here}}/bounds.toml --scale 3 "
    "--queries 4 --out {out}/labels.csv",
    "pate with a student": f"pate {{table}} --target ill {PATE} --scale 0.5 --queries 30 --out {{out}}/labels.csv "
    "--student {out}/s.skops",
}
SAME_NUMBER: dict[str, Callable[[Rows], int]] = {
    "pca": lambda rows: len({row[WHO] for row in rows}),
    "pca by rows": len,
}
"""N is public where one is replaced: only tables with as many people, whatever their rows, or rows are neighbours."""


ARTEFACTS = ("m.skops", "m.safetensors", "labels.csv", "s.skops")


def _cell(row: int, name: str, value: Any) -> Callable[[Rows], Rows]:
    def changed(rows: Rows) -> Rows:
        cells = list(rows[row])
        cells[COLUMNS.index(name)] = value
        return [*rows[:row], tuple(cells), *rows[row + 1 :]]

    return changed


NEIGHBOURS: dict[str, Callable[[Rows], Rows]] = {
    "an outlier": _cell(5, "age", 9999.0),
    "a zero": _cell(5, "bmi", 0.0),
    "a target far off": _cell(7, "score", 2.0),
    "another person": _cell(5, "who", "canary-000000000000000"),
    "a person under another name": lambda rows: [
        (*("canary-999999999999999" if cell == rows[5][WHO] else cell for cell in row),) for row in rows
    ],
    "a label changed": lambda rows: _cell(5, "ill", "no" if rows[5][COLUMNS.index("ill")] == "yes" else "yes")(rows),
    "a row of another kind": lambda rows: [
        *rows[:5],
        (rows[5][WHO], 9999.0, 0.0, "south" if rows[5][3] == "north" else "north", 0.5, "yes", rows[5][6]),
        *rows[6:],
    ],
    "a row less": lambda rows: rows[:-1],
    "a row twice": lambda rows: [*rows, rows[3]],
    "a person less": lambda rows: rows[2:],
}
UNREADABLE: dict[str, Callable[[Rows], Rows]] = {
    "a word for a number": _cell(5, "age", "abc"),
    "infinity": _cell(5, "bmi", "inf"),
    "beyond float64": _cell(5, "age", "1e400"),
    "a gap": _cell(5, "age", ""),
}
"""Where columns are declared these are gaps; elsewhere they are refused."""
RARE = {"a level of one person": _cell(5, "ward", "west")}
"""Where levels are declared it is none of them; elsewhere the form of the model shows it."""
UNDECLARED = {"a class of one person": _cell(5, "ill", "neither"), "a number for a class": _cell(5, "ill", "1e400")}
"""Where classes are declared these are gaps."""
OF_ONE_VERB = {
    "measure with bounds": UNREADABLE | RARE,
    "fix with bounds": UNREADABLE | RARE,
    "measure with constants": UNREADABLE | RARE,
    "fix with constants": UNREADABLE | RARE,
    "measure answers": UNREADABLE | RARE | UNDECLARED,
    "federate by patient": UNREADABLE | RARE | UNDECLARED,
    "fix of classes": UNREADABLE | RARE | UNDECLARED,
    "fix of three declared classes": UNREADABLE | RARE | UNDECLARED,
    "measure of classes": UNREADABLE | RARE | UNDECLARED,
    "federate declared": UNREADABLE | RARE | UNDECLARED,
    "pate with gaps": UNDECLARED,
    "pate by rows with gaps": UNDECLARED,
    "pate with bounds": UNREADABLE | RARE | UNDECLARED,
    "pate by rows with bounds": UNREADABLE | RARE | UNDECLARED,
    "pate without classes": {"a class of one person": _cell(5, "ill", "neither")},
    "pca": UNREADABLE | RARE,
    "pca by rows": UNREADABLE | RARE,
    "pca by declared people": UNREADABLE | RARE,
}
"""Where other verbs refuse the table."""


def handed_over(folder: Path, words: str, rows: Rows) -> dict[str, Any]:
    """Page, card, JSON and the exit codes; what is noise itself (clips, refusals, the file's digest) is set aside."""
    here = prepare(folder, 1)
    write(here / "table.csv", COLUMNS, rows)
    bounds = BOUNDS.replace('"no", "yes"', '"no", "perhaps", "yes"') if "--loss softmax" in words else BOUNDS
    (here / "bounds.toml").write_text(("n = 130\n" if "add-or-remove" in words else "") + bounds)
    if "federate" in words:
        own = "".join(f"\n[{part}" for part in BOUNDS.split("\n[")[1:] if not part.startswith(("score]", "ill]")))
        (here / "bounds.toml").write_text(own)
    for name in ARTEFACTS:
        (here / name).unlink(missing_ok=True)
    given = words.format(table=here / "table.csv", here=here, out=here).split()
    arguments = [word.replace("_nats", " nats") for word in given]
    made = {"code": run([*arguments, "-q", "--json", str(here / "facts.json")])}
    facts = json.loads((here / "facts.json").read_text())
    if "by_round" in facts:
        facts["clip_last"], facts["by_round"]["clip"] = 1.0, [1.0] * len(facts["by_round"]["clip"])
    if "publishable" in facts:
        facts["publishable"]["refused"] = 0
    if "student" in facts:
        facts["student"] = None
    if "artefact" in facts:
        files = [path for path in here.iterdir() if path.name in ARTEFACTS[:3]]
        known = [facts["artefact"], *([facts["artefact_beside"]] if "artefact_beside" in facts else [])]
        assert sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files) == sorted(known)
        facts |= {name: "0" * 64 for name in ("artefact", "artefact_beside") if name in facts}
    (here / "facts.json").write_text(json.dumps(facts))
    asked = ["report", str(here / "facts.json"), "--out", str(here / "page.html"), "--card", str(here / "card.md")]
    made["report"] = run([*asked, "--json", str(here / "external.json")])
    return made | {name: (here / name).read_bytes() for name in ("page.html", "card.md", "external.json")}


def base_table(verb: str) -> Rows:
    """The people that the neighbours differ from."""
    return several_classes(people(1)) if "three" in verb else people(1)


@pytest.mark.parametrize("verb", COMMANDS)
def test_neighbours_are_handed_over_alike(tmp_path, capsys, monkeypatch, verb):
    base, said = base_table(verb), []
    found = {}
    monkeypatch.chdir(tmp_path)
    for name, change in {"": lambda rows: rows, **NEIGHBOURS, **OF_ONE_VERB.get(verb, {})}.items():
        rows = change(base)
        if verb in SAME_NUMBER and SAME_NUMBER[verb](rows) != SAME_NUMBER[verb](base):
            continue
        found[name] = handed_over(tmp_path / "here", COMMANDS[verb], rows)
        said.append(capsys.readouterr().out)
        if verb in RELEASED and name in ("", *TOLD_APART):
            _DRAWN[verb, name] = contents(tmp_path / "here")
    assert found[""]["code"] == 0
    assert [name for name, one in found.items() if one != found[""]] == []
    assert len(set(said)) == 1


@pytest.mark.parametrize("verb", ["measure", "fix", "pca", "pate"])
def test_the_comparison_sees_what_slips_out(tmp_path, monkeypatch, verb):
    monkeypatch.setattr(Visibility, "is_public", lambda self, result: True)
    words = COMMANDS[verb]
    one, other = (
        handed_over(tmp_path / "here", words, rows) for rows in (people(1), NEIGHBOURS["an outlier"](people(1)))
    )
    assert one["page.html"] != other["page.html"]
    assert one["external.json"] != other["external.json"]


def test_a_refusal_is_handed_over_alike_whatever_refused(tmp_path):
    """The stated limit, or the ledger's: outside, both are that nothing was released."""
    ledger = str(tmp_path / "book.sqlite")
    assert run(["ledger", "init", "--ledger", ledger, "--budget", "fil=0.001", "-q"]) == 0
    words = f"fix {{table}} {LINEAR} --scale 1 --max-dose {{limit}} --out {{out}}/m.skops"
    made = {}
    for name, limit, more in (
        ("limit", "1e-3", ""),
        ("ledger", "1e6", f" --ledger {ledger} --name first"),
    ):
        found = handed_over(tmp_path / name, words.replace("{limit}", limit) + more, people(1))
        assert found["code"] == 1
        told = json.loads(found["external.json"])
        told["reproduce"]["command"] = told["reproduce"]["command"].split("--max-dose")[0]
        made[name] = told
        page = found["page.html"].decode()
        assert "✗" in page
        assert "✓" not in page
        assert "ledger would" not in page
        assert "no ledger was configured" not in page
    assert made["limit"]["sentence"] == NOTHING
    assert made["limit"] == made["ledger"]


def test_a_page_names_the_file_it_speaks_of_and_a_refusal_names_none(tmp_path):
    words = COMMANDS["fix with a scale"]
    made = handed_over(tmp_path / "kept", words, people(1))
    assert b"SHA-256 of the released file" in made["page.html"]
    assert b"SHA-256 of the released file" in made["card.md"]
    refused = handed_over(tmp_path / "refused", words.replace("--max-dose 1000", "--max-dose 1e-9"), people(1))
    assert refused["code"] == 1
    assert b"SHA-256 of the" not in refused["page.html"] + refused["card.md"]


def contents(folder: Path) -> dict[str, Any]:
    """Every name, form and number of the artefacts in a folder."""
    places: dict[str, Any] = {}
    for name in ARTEFACTS:
        path = folder / name
        if name == "labels.csv" and path.exists():
            places[name] = [line.split(",")[0] for line in path.read_text().splitlines()]
        elif path.exists():
            for part in contents_of(path).parts:
                place = f"{name}: {part.place}"
                places |= {f"{place} (form)": part.shape, f"{place} (texts)": part.texts}
                places |= {f"{place}[{k}]": value for k, value in enumerate(part.values.ravel().tolist())}
    return places


_DRAWN: dict[tuple[str, str], dict[str, Any]] = {}
"""Verb, neighbour -> one draw, if the test above has made it in this process."""


def exact_parts(folder: Path, verb: str, name: str, rows: Rows) -> dict[str, Any]:
    """What two draws from one table have in common: names, forms, and every number that no noise has moved."""
    draws = [_DRAWN[verb, name]] if (verb, name) in _DRAWN else []
    while len(draws) < 2:
        handed_over(folder, COMMANDS[verb], rows)
        draws.append(contents(folder))
    first, second = draws
    assert first
    return {place: value for place, value in first.items() if second.get(place) == value}


RELEASED = ["fix", "fix shaped", "fix with bounds", "fix with constants", "fix of classes", "fix of three classes",
            "fix of amounts", "pca by declared people", "pate with a student"]  # fmt: skip
SLOW = ["federate declared", "federate pipeline", "fix equal"]
TOLD_APART = ("a row of another kind", "another person", "a row less")
GAPPED = {"fix with constants": "a gap"}
"""Where a cell without a value is filled, the file is the same too."""


@pytest.mark.parametrize("verb", [*RELEASED, *(pytest.param(verb, marks=pytest.mark.slow) for verb in SLOW)])
def test_nothing_in_an_artefact_that_noise_has_not_moved_tells_neighbours_apart(tmp_path, capsys, verb):
    """A number that is the same in every draw is exact: where it differs between neighbours, one row has moved it."""
    base = exact_parts(tmp_path / "here", verb, "", base_table(verb))
    assert any(name.endswith("(form)") for name in base) or "labels.csv" in base
    changes = NEIGHBOURS | UNREADABLE
    for name in (*TOLD_APART, *([GAPPED[verb]] if verb in GAPPED else [])):
        other = exact_parts(tmp_path / "here", verb, name, changes[name](base_table(verb)))
        both = base.keys() & other.keys()
        assert {place: (base[place], other[place]) for place in both if base[place] != other[place]} == {}, name
        assert {place for place in base.keys() ^ other.keys() if place.endswith(("(form)", "(texts)"))} == set(), name


def test_the_comparison_of_artefacts_sees_an_exact_number(tmp_path, capsys, monkeypatch):
    """Levels that were read off the table stand in the encoder: one person's own level is seen."""
    base = exact_parts(tmp_path / "here", "fix", "", people(1))
    other = exact_parts(tmp_path / "here", "fix", "a level of one person", RARE["a level of one person"](people(1)))
    moved = [place for place in base.keys() & other.keys() if base[place] != other[place]]
    assert any("categories_" in place for place in moved)
