"""The section of a model card: external content, markup that stays inside, a place in somebody's card."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dosimeter.report.editions import external
from dosimeter.report.model_card import LEDGER, NOT_BOOKED, card
from tests.report.verbs import commands

VERBS = list(commands(Path()))


@pytest.mark.parametrize("verb", VERBS)
def test_a_card_says_the_same_of_every_table(printed, verb):
    one, other = (card({**facts[verb], "artefact": ""}) for facts in printed)  # a noised file has its own digest
    assert one == other


@pytest.mark.parametrize("verb", VERBS)
def test_a_card_has_the_verdict_and_everything_that_is_not_covered(printed, verb):
    facts, text = printed[0][verb], card(printed[0][verb]).replace("\\", "")
    told = external(facts)
    assert text.startswith(told["sentence"])
    for note in [*told.get("not_covered", []), *told.get("assumptions", []), *told["withheld"]]:
        assert note in text
    assert "noise" in text
    assert (NOT_BOOKED in text) == ("booked" in told)


def test_noise_limit_and_standing_are_in_the_card(printed):
    text = card(printed[0]["fix with a scale"])
    for words in ("√c = 50", "η = 1000 per person", "unaccounted", "without bias"):
        assert words in text
    assert "ε = 2, δ = 1e-06; upper bound" in card(printed[0]["pca"])
    assert "at most 2 nats" in card(printed[0]["pate"])


def test_the_head_of_the_ledger_is_in_the_card(printed):
    booked = {"name": "readmission-v3", "seq": 17, "head": "17:9f3c9f3c"}
    text = card({**printed[0]["fix"], "booked": booked})
    assert f"| {LEDGER} | 17:9f3c9f3c |" in text
    assert "readmission-v3, entry 17" in text
    assert NOT_BOOKED not in text
    newer = card({**printed[0]["fix"], "booked": booked}, head="19:aaaa")
    assert "19:aaaa" in newer
    assert "17:9f3c9f3c" not in newer


HOSTILE = [
    "x | y", "<script>alert(1)</script>", "[a](javascript:alert(1))", "![a](http://x)", "`code`", "a\n# heading",
    "**bold**", "&lt;b&gt;", "\x1b[31m", "$x$", "a\\| b",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_column_name_is_text_in_the_card_and_nothing_else(printed, name):
    facts = json.loads(json.dumps(printed[0]["fix"]))
    facts["model"]["target"] = name
    text = card(facts)
    usual = card(printed[0]["fix"])
    assert len(text.splitlines()) == len(usual.splitlines())
    (line,) = [one for one in text.splitlines() if one.startswith("| model |")]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`\[\]*&$]", line)
    assert all(character.isprintable() for character in line)


def test_the_section_fits_into_a_card_of_skops(printed):
    from sklearn.linear_model import Ridge
    from skops.card import Card

    made = Card(Ridge(), model_diagram=False)
    made.add(Privacy=card(printed[0]["fix"]))
    assert "scaled so that no person's dose is above the stated limit η = 5" in made.render()
