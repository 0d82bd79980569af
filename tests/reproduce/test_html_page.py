"""The page stands alone: no network, no scripts but its own, all text escaped; pictures are true PNG."""

from __future__ import annotations

import base64
import struct
import zlib
from html import unescape

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.report.standalone_page import chart_scripts, style
from dosimeter.reproduce.comparison import Report, Row, claim, weak
from dosimeter.reproduce.html_page import Figure, Reproduction, page, png, strip


def told():
    rows = (Row("a <b>", 1.0, 1.0, 0.0), Row("c", 1.0, 2.0, 0.0, "mis<print"), claim("d", False, "x < y"))
    return Reproduction(Report("p&q", rows), (Figure("F <1>", "un<der", "<svg></svg>"),))


def test_the_page_reaches_for_nothing_and_escapes_what_it_is_told():
    text = page(told())
    own = text
    for script in chart_scripts():
        own = own.replace(f"<script>{script}</script>", "")
    own = own.replace(style(), "")
    assert "default-src 'none'" in unescape(text)
    assert "unsafe" not in own
    assert "http" not in own.replace("http-equiv", "")
    assert "src=" not in own.replace('src="data:', "")
    assert "<script" not in own
    assert "F &lt;1&gt;" in text
    assert "un&lt;der" in text
    assert "p&amp;q" in text


def test_the_page_counts_what_holds_and_what_is_unexplained():
    text = page(told())
    assert "1 of 3 rows hold; 1 differ and say why; 1 differ without a reason" in text
    assert text.count('class="unexplained"') == 1


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_a_picture_can_be_read_back(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    raw = base64.b64decode(png(pixels).removeprefix("data:image/png;base64,"))
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(raw):
        (size,), kind = struct.unpack(">I", raw[at : at + 4]), raw[at + 4 : at + 8]
        chunks[kind] = raw[at + 8 : at + 8 + size]
        assert struct.unpack(">I", raw[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + chunks[kind])
        at += 12 + size
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (shape[1], shape[0])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(shape[0], -1)
    assert not lines[:, 0].any()
    np.testing.assert_array_equal(lines[:, 1:].reshape(shape), pixels)


def test_other_pixels_are_refused():
    for bad in (np.zeros((2, 2)), np.zeros((2, 2, 4), np.uint8), np.zeros(4, np.uint8)):
        with pytest.raises(Refusal):
            png(bad)


def test_the_words_over_a_picture_are_escaped():
    assert "&lt;i&gt;" in strip("<t>", [np.zeros((2, 2), np.uint8)], ["<i>"])


def test_the_page_counts_weak_rows_and_shows_a_note():
    rows = (weak(claim("a", True, "13.3 <= 20"), "a bound on a bound"), claim("b", True, "seen"))
    text = page(Reproduction(Report("p", rows, "a <smoke> test"), ()))
    assert "2 of 2 rows hold" in text
    assert "Of those that hold 1 are weak" in text
    assert "<td>ok, weak</td>" in text
    assert "a &lt;smoke&gt; test" in text
    assert "are weak" not in page(told())
