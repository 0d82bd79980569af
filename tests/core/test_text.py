"""Untrusted text on a terminal: nothing moves the cursor, is hidden or is interpreted."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dosimeter.core.text import safe_list, safe_text


@given(st.text(), st.integers(1, 80))
def test_nothing_but_visible_characters_comes_out_and_never_too_many(text: str, width: int) -> None:
    shown = safe_text(text, width)
    assert len(shown) <= width
    assert all(c == " " or unicodedata.category(c)[0] not in "CZ" for c in shown)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert safe_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\rc\td", "a\\x0ab\\x0dc\\x09d"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\u3164", "\\u3164"),
        ("\U000e0041", "\\U000e0041"),
        ("\udc80", "\\udc80"),
        ("\x00\x9b", "\\x00\\x9b"),
        ("größe 体重", "größe 体重"),
    ],
)
def test_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert safe_text(text) == shown


def test_a_long_name_keeps_its_two_ends() -> None:
    assert safe_text("begin" + "x" * 10_000 + "end", 11) == "begin…xxend"


def test_an_escape_is_never_cut_in_half() -> None:
    for width in range(1, 30):
        shown = safe_text("\x1b" * 50, width)
        assert shown.replace("\\x1b", "").strip("…") == ""


def test_markup_of_rich_is_shown_and_not_interpreted() -> None:
    hostile = "[red]bmi[/red][link=http://x]y[/link]"
    console = Console(file=None, force_terminal=False, width=200)
    with console.capture() as captured:
        console.print(Text(safe_text(hostile)))
        console.print(escape(safe_text(hostile)))
    assert captured.get().splitlines() == [hostile, hostile]


def test_a_long_list_says_how_many_names_are_left_out() -> None:
    assert safe_list(map(str, range(10)), limit=3) == "0, 1, 2 and 7 more"
