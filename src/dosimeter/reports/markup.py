"""Markup: the one place where text becomes HTML. Autoescaping is always on, and data goes into islands."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dosimeter.core.text import safe_text
from dosimeter.reports.layout import number

LONGEST = 2000
"""Characters of one text that a page shows; what is longer is cut in the middle."""


@cache
def environment() -> Environment:
    """Jinja2 with autoescape for every template whatever its name, and no silent gaps."""
    jinja = Environment(
        loader=PackageLoader("dosimeter.reports", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["shown"] = shown
    jinja.filters["island"] = island
    jinja.filters["number"] = number
    return jinja


def render(template: str, **values: Any) -> Markup:
    """A template of this package with its values, escaped."""
    # An autoescaping template returns markup: its values were escaped on the way in.
    return Markup(environment().get_template(template).render(**values))


def shown(text: object) -> str:
    r"""Untrusted text as a page shows it: control, bidi and invisible characters as escapes. HTML is escaped later.

    >>> shown("a\u202eb\x00")
    'a\\u202eb\\x00'
    """
    return safe_text(text, LONGEST)


def visible(value: Any) -> Any:
    """`shown` for every text inside a chart's specification."""
    if isinstance(value, dict):
        return {key: visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [visible(item) for item in value]
    return shown(value) if isinstance(value, str) else value


def island(value: Any) -> Markup:
    r"""JSON for the inside of a <script type="application/json">: nothing in it can end the element or open a comment.

    >>> str(island("</script><!--"))
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def hashed(text: str) -> str:
    """A source expression of a Content-Security-Policy: this script or style, letter by letter, and no other.

    >>> hashed("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
