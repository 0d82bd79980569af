"""Every law of a notion, on every registered notion; and a new notion needs its registration alone."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from dosimeter.core.accounts import Account, LedgerLimit, LimitViolation
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import DIFFERENTIAL_PRIVACY, LEAKAGE, NOTIONS, Notion, key_of, notion_of, parse_budget
from dosimeter.files.dose_file import _dose, _to_dict
from dosimeter.ledger import Ledger
from dosimeter.reports.sections.ledger import _figure
from dosimeter.results.ledger import PersonAnswer
from dosimeter.serve import pages
from dosimeter.serve.ledger_cache import LedgerCache
from dosimeter.workflows.ledger_refusal import _exceeded
from tests.ledger.samples import booking, dose

every_notion = pytest.mark.parametrize("notion", NOTIONS.values(), ids=str)
every_numeric_notion = pytest.mark.parametrize(
    "notion", [notion for notion in NOTIONS.values() if not notion.composes_events], ids=str
)


@every_notion
def test_the_key_finds_the_notion_and_the_notion_its_key(notion: Notion) -> None:
    assert notion_of(notion.key) is notion
    assert key_of(notion) == notion.key
    assert Account(notion.key, "person", "own units").notion is notion


@every_notion
def test_every_text_is_there_and_every_template_can_be_filled(notion: Notion) -> None:
    texts = {field.name: getattr(notion, field.name) for field in dataclasses.fields(notion)}
    optional = {"unit_suffix", "no_noise_law"}
    assert all(value for name, value in texts.items() if isinstance(value, str) and name not in optional)
    assert "{" not in notion.meaning.format("own units")
    assert "{" not in notion.more_noise.format(symbol=notion.symbol, room=0.5, delta=1e-6)


@every_notion
def test_a_budget_is_parsed_from_what_is_printed_and_from_its_example(notion: Notion) -> None:
    delta = 1e-6 if notion.composes_events else 0.0
    assert parse_budget(notion.budget(0.25, delta)) == (notion, 0.25, delta)
    limit = LedgerLimit.parse(notion.budget_example)
    assert limit.notion is notion
    assert LedgerLimit.parse(str(limit)) == limit


@every_numeric_notion
def test_a_reading_survives_its_coordinate(notion: Notion) -> None:
    readings = np.array([0.0, 1e-3, 0.3, 1.0, 40.0])
    np.testing.assert_allclose(notion.read(notion.write(readings)), readings, rtol=1e-15)


def test_events_have_no_number_per_row() -> None:
    with pytest.raises(Refusal, match="events have no amount"):
        LedgerLimit.parse("eps=3@1e-6").amount  # noqa: B018
    with pytest.raises(Refusal, match="use EventDose"):
        Dose(DIFFERENTIAL_PRIVACY, "person", ("ann",), np.array([0.1]))


def test_an_unknown_notion_is_refused_by_name() -> None:
    keys = re.escape(", ".join(NOTIONS))
    for attempt in (notion_of, lambda key: Account(key, "person", "own units"), lambda key: LedgerLimit(key, 1.0)):
        with pytest.raises(Refusal, match=rf"surprise.*{keys}|{keys}.*surprise"):
            attempt("surprise")
    *most, last = (notion.budget_example for notion in NOTIONS.values())
    with pytest.raises(Refusal, match=re.escape(f"write {', '.join(most)} or {last}")):
        parse_budget("surprise=1")


BITS = dataclasses.replace(
    LEAKAGE,
    key="bits",
    name="leakage in bits",
    short_name="leakage in bits",
    symbol="B",
    coordinate="bits",
    unit_suffix="bits",
    meaning="no guess about the person becomes more likely by more than a factor 2^bits",
    law_in_brief="bits add",
    budget_example="bits=3",
    _read=lambda x: x / np.log(2),
    _write=lambda x: x * np.log(2),
)


def test_a_new_notion_is_booked_limited_written_and_shown_once_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = dose({"ann": 2.0, "bob": 1.0}, BITS, measured_in="own units")
    with pytest.raises(Refusal, match="no account for leakage in bits"):
        _to_dict(mine)
    monkeypatch.setitem(NOTIONS, BITS.key, BITS)
    again = _dose(_to_dict(mine))
    assert isinstance(again, Dose)
    assert again.notion is BITS
    limit = LedgerLimit.parse("bits=3 bits")
    with Ledger.create(str(tmp_path / "book.db"), [limit], keys=tmp_path / "keys") as ledger:
        ledger.book(booking("may", mine))
        (passing,) = ledger.preview(booking("june", mine))
        assert isinstance(passing, LimitViolation)
        assert passing.totals == pytest.approx((4.0,))
        assert _exceeded(passing).startswith("1 person would pass bits 3 bits (4")
        answer = PersonAnswer.of(ledger, "ann")
        assert _figure(answer.totals[0]) == "2 bits"
        leaf = pages.overview(LedgerCache(ledger))
        assert any("B (leakage in bits)" in str(row[0]) for part in leaf.sections[0].parts[:1] for row in part.rows)
