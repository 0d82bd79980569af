"""A self-contained page: its policy, its style and its scripts, all inside one file that fetches nothing."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from markupsafe import Markup

from dosimeter.reports.markup import hashed, render

LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def standalone_page(
    title: str, body: Markup, *, charts: bool = True, images: bool = False, scripts: tuple[str, ...] = ()
) -> str:
    """A whole HTML page around `body`.

    charts: whether `body` holds some, and so Vega is needed. images: whether it holds pictures as data: URIs.
    scripts: further scripts of ours, run after the charts were begun.
    """
    page_scripts = (*(chart_scripts() if charts else ()), *scripts)
    look = style()
    return str(
        render(
            "shell.html.j2",
            title=title,
            body=body,
            policy=policy(page_scripts, (look,), images=images),
            # Fixed text of this package. Escaping would change the scripts, and their hashes would not match.
            style=Markup(look),
            scripts=[Markup(script) for script in page_scripts],
        )
    )


def policy(scripts: tuple[str, ...], styles: tuple[str, ...], *, images: bool = False) -> str:
    """The Content-Security-Policy: nothing but these scripts and styles, letter by letter, no eval, no network.

    Vega's SVG renderer sets its styles through the CSSOM, which no policy counts as inline style: style-src needs no
    'unsafe-inline'. Its expressions run in the interpreter that vega-embed carries: script-src needs no 'unsafe-eval'.
    Vega-Embed empties its place by innerHTML = "": draw.js lets that text alone pass as trusted HTML.
    """
    lines = {
        "default-src": "'none'",
        "script-src": " ".join(map(hashed, scripts)) or "'none'",
        "style-src": " ".join(map(hashed, styles)) or "'none'",
        "img-src": "data:" if images else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "default" if scripts else "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in lines.items())


@cache
def style() -> str:
    """The style of every page."""
    return _text("dosimeter.reports", "page/style.css")


@cache
def chart_scripts() -> tuple[str, ...]:
    """Vega, Vega-Lite, Vega-Embed, and the lines that draw every chart of the page."""
    return (*(_text("dosimeter.reports.vega", name) for name in LIBRARIES), _text("dosimeter.reports", "page/draw.js"))


def _text(package: str, name: str) -> str:
    resource = files(package)
    for part in name.split("/"):
        resource = resource.joinpath(part)
    # A browser reads line ends as \n before it takes the hash.
    return resource.read_text(encoding="utf-8").replace("\r\n", "\n")
