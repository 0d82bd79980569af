"""The check itself can fail: each hole that a page could have is planted, and seen."""

from __future__ import annotations

import numpy as np
import pytest
from markupsafe import Markup

from dosimeter.reports.charts import Axis, Series, chart
from dosimeter.reports.html import to_html
from dosimeter.reports.markup import environment
from dosimeter.reports.standalone_page import chart_scripts, policy, standalone_page
from tests.reports.samples import result_of

from .opened import opened

CHART = chart("t", Axis("x"), Axis("y"), [Series("s", np.array([1.0, 2.0]), np.array([3.0, 4.0]))])


def test_a_page_of_ours_is_quiet_and_drawn():
    seen = opened(standalone_page("t", CHART))
    assert seen.quiet, seen
    assert (seen.charts, seen.drawn) == (1, 1)


def planted(what):
    return opened(standalone_page("t", Markup(what), charts=False))


@pytest.mark.parametrize(
    "what",
    [
        "<script>window.pwned = 1</script>",
        "<script src='https://a.example/x.js'></script>",
        "<img src='https://a.example/x.png'>",
        "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>",
        "<img src=x onerror='window.pwned = 1'>",
        "<svg onload='window.pwned = 1'></svg>",
        "<p style='color:red'>",
        "<style>p { color: red }</style>",
        "<iframe src='https://a.example/'></iframe>",
        "<link rel=stylesheet href='https://a.example/x.css'>",
        "<base href='https://a.example/'>",
        "<object data='https://a.example/x'></object>",
    ],
)
def test_the_policy_stops_what_is_planted_and_the_check_sees_it(what):
    seen = planted(what)
    assert seen.pwned is None
    assert seen.violations
    assert not seen.quiet


def test_without_the_policy_a_planted_script_runs_and_is_seen():
    guarded = standalone_page(
        "t", CHART + Markup("<script>window.pwned = 1</script><img src='http://127.0.0.1:9/x.png'>")
    )
    bare = guarded.replace('http-equiv="Content-Security-Policy"', 'name="was-a-policy"')
    assert bare != guarded
    seen = opened(bare)
    assert seen.pwned == "1"
    assert any("127.0.0.1:9" in request for request in seen.requests)


def test_a_dialog_and_an_uncaught_error_are_seen():
    talks = "<!doctype html><title>t</title><script>alert('hello'); throw new Error('woe')</script>"
    seen = opened(talks)
    assert seen.dialogs == ("hello",)
    assert any("woe" in line for line in seen.messages)


def test_one_letter_more_in_a_script_and_nothing_is_drawn():
    seen = opened(standalone_page("t", CHART).replace("const drawn =", "const  drawn ="))
    assert seen.drawn == 0
    assert seen.violations


def test_a_chart_that_cannot_be_drawn_is_seen():
    seen = opened(standalone_page("t", Markup(str(CHART).replace('"type": "line"', '"type": "lines"'))))
    assert seen.drawn == 0
    assert seen.messages


@pytest.mark.parametrize("code", ["eval('1')", "new Function('return 1')()", "setTimeout('window.pwned = 1', 0)"])
def test_text_cannot_become_code_in_any_page_of_ours(code):
    """Even a script of our own, allowed by its hash, is not allowed to compile text."""
    seen = opened(standalone_page("t", CHART, scripts=(code,)))
    assert seen.pwned is None
    assert not seen.quiet
    assert seen.drawn == 1


def test_text_cannot_become_markup_either():
    seen = opened(standalone_page("t", CHART, scripts=("document.querySelector('.chart').innerHTML = '<b>x</b>'",)))
    assert any("TrustedHTML" in line or "innerHTML" in line for line in seen.messages)


def test_a_template_that_forgets_to_escape_is_seen(monkeypatch):
    monkeypatch.setitem(environment().filters, "shown", Markup)
    result = result_of("plan", remarks=["<img src=x onerror=window.pwned=1>", "<b>bold</b>"])
    seen = opened(to_html(result))
    assert seen.violations
    assert seen.elements["b"] == 1


def test_the_policy_has_no_unsafe_word():
    said = policy(chart_scripts(), ("p{}",))
    assert "unsafe" not in said
    assert "default-src 'none'" in said
    assert "http" not in said
