"""`dosimeter report` and the demo's pages: which edition, for whose eyes, and what is refused."""

from __future__ import annotations

import json
import os
import re
import stat

import pytest

from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.results.read import LIMIT, read_result
from tests.reports.samples import SAMPLES, sample


@pytest.fixture
def result(tmp_path):
    """Writes facts as a verb's --json does."""

    def write(facts, name="result.json"):
        path = tmp_path / name
        path.write_text(json.dumps(facts), encoding="utf-8")
        return path

    return write


def facts_of(path):
    found = re.search(r'id="figures">(.*?)</script>', path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return json.loads(found[1])


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_external_edition_is_the_default(name, result, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert run(["report", str(result(sample(name))), "--out", str(out)]) == 0
    assert facts_of(out)["edition"] == "external"
    says = "Computed from public numbers alone" if name == "plan" else "External edition"
    assert says in capsys.readouterr().out


def test_the_internal_edition_is_asked_for_and_says_so(result, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert run(["report", str(result(sample("linear release"))), "--out", str(out), "--edition", "internal"]) == 0
    assert facts_of(out)["edition"] == "internal"
    assert "Do not publish" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists instead of modes")
@pytest.mark.parametrize("edition", ["external", "internal"])
def test_a_page_is_for_its_owner_only(edition, result, tmp_path):
    out = tmp_path / "page.html"
    assert run(["report", str(result(sample("linear release"))), "--out", str(out), "--edition", edition, "-q"]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_the_json_is_the_edition_and_nothing_more(result, capsys):
    assert run(["report", str(result(sample("measurement"))), "--json", "-", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["edition"] == "external"
    assert not told.keys() & {"dose", "ranked", "strip", "groups", "rows"}


def test_statistics_are_asked_for(result, tmp_path):
    out = tmp_path / "page.html"
    assert run(["report", str(result(sample("measurement"))), "--out", str(out), "--statistics", "-q"]) == 0
    assert "without protection" in facts_of(out)["statistics"]["says"]


def test_the_schema_is_printed_on_request(capsys):
    assert run(["report", "--schema"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert "json-schema.org" in made["$schema"]
    assert "Measurement" in made["$defs"]


def test_a_card_is_written_beside_or_instead(result, tmp_path):
    card = tmp_path / "CARD.md"
    assert run(["report", str(result(sample("linear release"))), "--card", str(card), "-q"]) == 0
    assert "Gaussian" in card.read_text(encoding="utf-8")


def test_bad_usage_is_refused_in_one_line(result, tmp_path, refused):
    good, out = result(sample("linear release")), tmp_path / "page.html"
    assert "name the result" in refused(["report", "--out", out])
    assert "say where" in refused(["report", good])
    assert "use external or internal" in refused(["report", good, "--out", out, "--edition", "public"])
    assert "external edition" in refused(["report", good, "--out", out, "--edition", "internal", "--statistics"])
    assert "the output is the input" in refused(["report", good, "--out", good])
    assert "same file" in refused(["report", good, "--out", out, "--json", out])
    assert "no folder" in refused(["report", good, "--out", tmp_path / "nowhere" / "page.html"])
    assert "no such file" in refused(["report", tmp_path / "missing.json", "--out", out])
    assert "directory" in refused(["report", tmp_path, "--out", out])
    for name in ("page.pdf", "page", "page.json"):
        assert f"--out {name}: a page is an .html file" in refused(["report", good, "--out", tmp_path / name])


BROKEN = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"schema": "\xff"}',
    "nan": b'{"schema": NaN}',
    "deep": b"[" * 200_000,
    "a list": b"[1, 2]",
    "a number": b"7",
    "twice": b'{"schema": "a", "schema": "b"}',
    "unknown": b'{"schema": "dosimeter.other/2"}',
    "old": b'{"schema": "dosimeter.measurement/1"}',
    "bare": b'{"schema": "dosimeter.measurement/2"}',
    "a schema that is a list": b'{"schema": ["dosimeter.measurement/2"]}',
    "endless number": b'{"schema": ' + b"9" * 10_000 + b"}",
    "pickle": b"\x80\x04\x95\x00\x00.",
}


@pytest.mark.parametrize("kind", list(BROKEN))
def test_what_is_no_result_is_refused(kind, tmp_path, refused):
    path = tmp_path / "result.json"
    path.write_bytes(BROKEN[kind])
    refused(["report", path, "--out", tmp_path / "page.html"])


def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    path = tmp_path / "result.json"
    with path.open("wb") as file:
        file.truncate(LIMIT + 1)
    with pytest.raises(Refusal, match="above the limit"):
        read_result(path)


CONTRADICTIONS = {
    "edges": ("distribution", {"of": "η", "unit": "row", "edges": [1.0], "counts": [1, 2], "zero": 0, "limit": None}),
    "negative edges": (
        "distribution",
        {"of": "η", "unit": "row", "edges": [-1.0, 0.0], "counts": [1], "zero": 0, "limit": None},
    ),
    "a ragged strip": ("strip", {"rows": [1, 2], "columns": ["a"], "kinds": ["number"], "eta": [[1.0], [1.0, 2.0]]}),
    "a strip of nobody": ("strip", {"rows": [], "columns": ["a"], "kinds": ["number"], "eta": [[1.0]]}),
}


@pytest.mark.parametrize("kind", list(CONTRADICTIONS))
def test_a_result_that_contradicts_itself_is_refused(kind, result, tmp_path, refused):
    field, value = CONTRADICTIONS[kind]
    path = result(sample("measurement", **{field: value}))
    refused(["report", path, "--out", tmp_path / "page.html", "--edition", "internal"])


def test_every_field_in_turn_made_wrong_is_a_page_or_a_refusal(result, capsys):
    """Never a fault of ours: 0 or 2, whatever stands in a field."""
    whole = sample("components")
    for key in whole:
        for wrong in (None, "x"):
            path = result({**whole, key: wrong})
            assert run(["report", str(path), "--json", "-", "--edition", "internal", "-q"]) in (0, 2)
    assert "fault of dosimeter" not in capsys.readouterr().err


def test_the_demo_writes_both_editions_and_opens_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda *_: pytest.fail("the demo opened a browser"))
    assert run(["demo", "--out", str(tmp_path)]) == 0
    internal, external = tmp_path / "dosimeter-demo.html", tmp_path / "dosimeter-demo.external.html"
    assert facts_of(internal)["edition"] == "internal"
    assert facts_of(external)["edition"] == "external"
    assert 300_000 < internal.stat().st_size < 1_500_000
    said = capsys.readouterr().out
    assert "dosimeter-demo.html" in said
    assert "dosimeter-demo.external.html" in said
    if os.name != "nt":
        assert {stat.S_IMODE(path.stat().st_mode) for path in (internal, external)} == {0o600}


def test_the_demo_refuses_a_folder_that_is_not_there(tmp_path, refused):
    assert "no folder" in refused(["demo", "--out", tmp_path / "nowhere"])
