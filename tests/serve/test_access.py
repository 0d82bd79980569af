"""Who gets in: only clients with the token, on this machine, from this page. Always 4xx, never a fault."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter.serve.access import METHODS
from tests.serve.asking import HOST, PORT, TOKEN, Client, asked

PAGES = ("/", "/people", "/people?account=1&page=1", "/releases", "/release?seq=2", "/budgets")
TRAVERSAL = """
/../../../../etc/passwd /..%2f..%2fetc/passwd /%2e%2e/%2e%2e/etc/passwd /people/../../etc/passwd //etc/passwd
/....//....//etc/passwd /..\\..\\windows\\win.ini /%5c..%5c.. /.git/config /people%00.html /%00 /page/served.html.j2
/static/../run.py /people/ /People /release/2 /release?seq=../../2 /release?seq=2/../3 /release?seq=2%00
/release?seq=-1 /release?seq=1e3 /release?seq=0x2 /release?seq=٢ /release?seq=99999999999 /release?seq=2&seq=3 /release
/people?account=-1 /people?account=999 /people?page=0 /people?page=999999999 /people?account=0&page=a /people?x=1
/;/people /favicon.ico /robots.txt /?account=1 /.well-known/x /%ff%fe /people?account=%F0%9F%98%80 /a?b#c /*
""".split()


def test_without_the_token_no_page_is_shown(stranger: Client) -> None:
    for page in PAGES:
        answer = stranger.get(page)
        assert answer.status_code == 401
        assert "ledger" not in answer.text.lower()


@pytest.mark.parametrize(
    "wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%ff", "🙂", f"{TOKEN}&token={TOKEN}"]
)
def test_a_wrong_token_opens_nothing(wrong: str, stranger: Client) -> None:
    answer = stranger.get(f"/?token={wrong}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    stranger.cookies[f"dosimeter-{PORT}"] = wrong.split("&")[0] + "-"
    assert stranger.get("/").status_code == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger: Client) -> None:
    answer = stranger.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "domain" not in cookie
    assert stranger.get("/").status_code == 200
    assert stranger.get(f"/people?token={TOKEN}").status_code == 403  # the first visit is to / alone


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"127.0.0.1.evil.example:{PORT}", "",
     f"localhost.evil.example:{PORT}", f"[::1]:{PORT}", f"0.0.0.0:{PORT}", f"127.0.0.1:{PORT}@evil", f"127.1:{PORT}",
     f"LOCALHOST:{PORT}", f" 127.0.0.1:{PORT} x", "null"],
)  # fmt: skip
def test_a_name_that_was_made_to_resolve_here_is_turned_away(host: str, client: Client) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421
    assert client.get(f"/?token={TOKEN}", headers={"host": host}).status_code == 421


def test_two_hosts_are_one_too_many(app: Any) -> None:
    known = [("host", f"127.0.0.1:{PORT}"), ("cookie", f"dosimeter-{PORT}={TOKEN}")]
    assert asked(app, "GET", "/", "", known).status_code == 200
    assert asked(app, "GET", "/", "", [*known, ("host", "evil.example")]).status_code == 421
    assert asked(app, "GET", "/", "", [*known, known[0]]).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", f"https://127.0.0.1:{PORT}", "http://127.0.0.1", f"http://127.0.0.1:{PORT}."],
)
def test_another_pages_request_is_turned_away(origin: str, client: Client) -> None:
    answer = client.get("/", headers={"origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_our_own_origin_and_both_names_of_this_machine_get_in(client: Client) -> None:
    assert client.get("/", headers={"origin": HOST}).status_code == 200
    assert (
        client.get("/", headers={"host": f"localhost:{PORT}", "origin": f"http://localhost:{PORT}"}).status_code == 200
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_a_request_that_another_page_began_is_turned_away(site: str, client: Client) -> None:
    assert client.get("/", headers={"sec-fetch-site": site}).status_code == 403
    for fine in ("none", "same-origin"):
        assert client.get("/", headers={"sec-fetch-site": fine}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_nothing_but_reading_is_offered(method: str, client: Client) -> None:
    for page in PAGES:
        answer = client.request(method, page)
        assert answer.status_code == 405
        assert answer.headers["allow"] == ", ".join(METHODS)


def test_head_tells_what_get_would(client: Client) -> None:
    for page in PAGES:
        assert client.request("HEAD", page).pairs == client.get(page).pairs


def test_a_body_is_not_taken(client: Client) -> None:
    for body in ({"content-length": "1"}, {"content-length": "10000000000"}, {"transfer-encoding": "chunked"}):
        assert client.get("/", headers=body).status_code == 413


@pytest.mark.parametrize("address", TRAVERSAL)
def test_paths_that_lead_elsewhere_lead_nowhere(address: str, client: Client) -> None:
    answer = client.get(address)
    assert answer.status_code in (404, 414)
    assert "root:" not in answer.text


def test_an_endless_address_is_refused(client: Client) -> None:
    assert client.get("/people?account=" + "0" * 5000).status_code == 414


def test_every_answer_keeps_to_itself(client: Client, stranger: Client) -> None:
    answers = [client.get(page) for page in (*PAGES, "/nowhere", f"/?token={TOKEN}")]
    answers += [stranger.get("/"), client.request("POST", "/"), client.get("/", headers={"host": "x"})]
    for answer in answers:
        rules = answer.headers["content-security-policy"]
        assert "default-src 'none'" in rules
        assert "frame-ancestors 'none'" in rules
        assert "unsafe" not in rules
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert TOKEN not in answer.text


def _digest(path: Path) -> str:
    """Of the database, its log and its key file."""
    files = sorted(file for file in path.parent.iterdir() if not file.name.endswith("-shm"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30)
pieces = st.sampled_from(["people", "release", "..", ".", "%2e%2e", "", "budgets", "%00", "a", "\x00", "\udcff"])
names = st.sampled_from(["account", "page", "seq", "token", "x"])
numbers = st.integers().map(str) | printable
paths = st.sampled_from([*PAGES, *TRAVERSAL]) | st.lists(pieces, max_size=5).map("/".join) | printable
queries = (
    st.just("")
    | printable
    | st.dictionaries(names, numbers, max_size=4).map(
        lambda values: "&".join(f"{name}={value}" for name, value in values.items())
    )
)
fields = st.sampled_from("origin cookie sec-fetch-site accept range content-length x-forwarded-host host".split())
plausible = st.sampled_from([HOST, f"127.0.0.1:{PORT}", f"dosimeter-{PORT}={TOKEN}", "0", "none", "bytes=0-", "\udcff"])
headers = st.lists(st.tuples(fields, printable | plausible), max_size=3)


@settings(
    max_examples=2500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    method=st.sampled_from(["GET"] * 6 + ["HEAD", "POST", "DELETE", "OPTIONS"]),
    address=paths,
    query=queries,
    more=headers,
    known=st.booleans(),
)
def test_whatever_is_asked_there_is_an_answer_and_the_ledger_stays(
    method: str, address: str, query: str, more: Any, known: bool, app: Any, path: Path, before: str
) -> None:
    sent = [("host", f"127.0.0.1:{PORT}"), *([("cookie", f"dosimeter-{PORT}={TOKEN}")] if known else []), *more]
    where, _, end = address.partition("?")
    answer = asked(app, method, where, query or end, sent)
    assert 200 <= answer.status_code < 500
    assert "content-security-policy" in answer.headers
    if not known and not any(TOKEN in value for _, value in more):
        assert answer.status_code >= 400
    assert _digest(path) == before


@pytest.fixture(scope="module")
def before(path: Path, ledger: Any) -> str:
    return _digest(path)
