"""The page is self-contained: no network, no scripts but its own, all text escaped; images are valid PNG."""

from __future__ import annotations

import base64
import struct
import zlib
from html import unescape

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.reports.standalone_page import chart_scripts, style
from dosimeter.reproductions.comparison import PaperReport, Row, claim, weak
from dosimeter.reproductions.html_page import Figure, Reproduction, page, png, strip


def example():
    rows = (Row("a <b>", 1.0, 1.0, 0.0), Row("c", 1.0, 2.0, 0.0, "mis<print"), claim("d", False, "x < y"))
    return Reproduction(PaperReport("p&q", rows), (Figure("F <1>", "un<der", "<svg></svg>"),))


def test_the_page_fetches_nothing_and_escapes_all_text():
    text = page(example())
    without_assets = text
    for script in chart_scripts():
        without_assets = without_assets.replace(f"<script>{script}</script>", "")
    without_assets = without_assets.replace(style(), "")
    assert "default-src 'none'" in unescape(text)
    assert "unsafe" not in without_assets
    assert "http" not in without_assets.replace("http-equiv", "")
    assert "src=" not in without_assets.replace('src="data:', "")
    assert "<script" not in without_assets
    assert "F &lt;1&gt;" in text
    assert "un&lt;der" in text
    assert "p&amp;q" in text


def test_the_page_counts_what_holds_and_what_is_unexplained():
    text = page(example())
    assert "1 of 3 rows hold; 1 differ and say why; 1 differ without a reason" in text
    assert text.count('class="unexplained"') == 1


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_an_image_can_be_read_back(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    raw = base64.b64decode(png(pixels).removeprefix("data:image/png;base64,"))
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, offset = {}, 8
    while offset < len(raw):
        (size,), kind = struct.unpack(">I", raw[offset : offset + 4]), raw[offset + 4 : offset + 8]
        chunks[kind] = raw[offset + 8 : offset + 8 + size]
        assert struct.unpack(">I", raw[offset + 8 + size : offset + 12 + size])[0] == zlib.crc32(kind + chunks[kind])
        offset += 12 + size
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (shape[1], shape[0])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(shape[0], -1)
    assert not lines[:, 0].any()
    np.testing.assert_array_equal(lines[:, 1:].reshape(shape), pixels)


def test_other_pixels_are_refused():
    for bad in (np.zeros((2, 2)), np.zeros((2, 2, 4), np.uint8), np.zeros(4, np.uint8)):
        with pytest.raises(Refusal):
            png(bad)


def test_the_text_above_an_image_is_escaped():
    assert "&lt;i&gt;" in strip("<t>", [np.zeros((2, 2), np.uint8)], ["<i>"])


def test_the_page_counts_weak_rows_and_shows_a_note():
    rows = (weak(claim("a", True, "13.3 <= 20"), "a bound on a bound"), claim("b", True, "measured"))
    text = page(Reproduction(PaperReport("p", rows, "a <smoke> test"), ()))
    assert "2 of 2 rows hold" in text
    assert "Of those that hold 1 are weak" in text
    assert "<td>ok, weak</td>" in text
    assert "a &lt;smoke&gt; test" in text
    assert "are weak" not in page(example())
