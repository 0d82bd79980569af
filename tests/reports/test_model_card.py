"""The section of a model card: external content, markup that stays inside, a place in anyone's card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dosimeter.reports.document import document
from dosimeter.reports.model_card import LEDGER, to_card
from dosimeter.reports.sections.closing import NOT_BOOKED
from dosimeter.results.editions import external
from dosimeter.results.parts import BookingRecord
from tests.reports.verbs import commands

VERBS = list(commands(Path()))
BOOKED = BookingRecord(name="readmission-v3", seq=17, head="17:9f3c9f3c")


def without_digest(result):
    """A noised file has its own digest."""
    digests = {name: "" for name in ("artefact", "artefact_beside") if name in type(result).model_fields}
    return result.with_fields(**digests)


@pytest.mark.parametrize("verb", VERBS)
def test_a_card_says_the_same_of_every_table(results, verb):
    first, second = (to_card(without_digest(by_verb[verb])) for by_verb in results)
    assert first == second


@pytest.mark.parametrize("verb", VERBS)
def test_a_card_has_the_verdict_and_everything_that_is_not_covered(results, verb):
    result = results[0][verb]
    text, report = to_card(result).replace("\\", ""), document(result)
    assert text.startswith(report.verdict.text)
    published = external(result).to_dict()
    for note in [*published.get("not_covered", []), *published.get("assumptions", []), *report.figures["withheld"]]:
        assert note.removesuffix(": not covered") in text  # the heading says it
    assert "noise" in text
    assert (NOT_BOOKED in text) == ("booked" in published)


def test_noise_limit_and_standing_are_in_the_card(results):
    text = to_card(results[0]["fix with a scale"])
    for phrase in ("√c = 50", "η = 1000 per person", "unaccounted", "without bias"):
        assert phrase in text


def test_the_bound_of_released_labels_is_in_the_card(results):
    assert "at most 2 nats" in to_card(results[0]["pate"])


def test_the_head_of_the_ledger_is_in_the_card(results):
    booked = results[0]["fix"].with_fields(booked=BOOKED)
    text = to_card(booked)
    for line in ("| head | 17:9f3c9f3c |", "| booked as | readmission-v3 |", "| entry | 17 |"):
        assert line in text
    assert NOT_BOOKED not in text
    newer = to_card(booked, head="19:aaaa")
    assert "| head | 19:aaaa |" in newer
    assert "17:9f3c9f3c" not in newer
    assert f"{LEDGER}: 19:aaaa" in to_card(results[0]["fix"], head="19:aaaa")


HOSTILE = [
    "x | y", "<script>alert(1)</script>", "[a](javascript:alert(1))", "![a](http://x)", "`code`", "a\n# heading",
    "**bold**", "&lt;b&gt;", "\x1b[31m", "$x$", "a\\| b",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_column_name_is_text_in_the_card_and_nothing_else(results, name):
    usual = results[0]["fix"]
    text = to_card(usual.with_fields(model=usual.model.model_copy(update={"target": name})))
    assert len(text.splitlines()) == len(to_card(usual).splitlines())
    (line,) = [line for line in text.splitlines() if line.startswith("| model |")]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`\[\]*&$]", line)
    assert all(character.isprintable() for character in line)


def test_the_section_fits_into_a_card_of_skops(results):
    from sklearn.linear_model import Ridge
    from skops.card import Card

    card = Card(Ridge(), model_diagram=False)
    card.add(Privacy=to_card(results[0]["fix"]))
    assert "No person has a dose" in card.render()
    assert "above the stated limit of 5. " in card.render()
