"""A page laid out: the report's shell, style and scripts, and its policy once more as a header."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse

from dosimeter.report.markup import environment, visible
from dosimeter.report.standalone_page import chart_scripts, policy, shell, style
from dosimeter.serve.access import SAFE
from dosimeter.serve.pages import ServedPage


def answer(leaf: ServedPage) -> HTMLResponse:
    """The page with the headers that keep it to itself."""
    scripts = (slide(),) if leaf.slider is not None else ()
    text = shell(f"{leaf.title} (dosimeter)", lay_out(leaf), charts=leaf.charts, scripts=scripts)
    own = (*(chart_scripts() if leaf.charts else ()), *scripts)
    rules = f"{policy(own, (style(),))}; frame-ancestors 'none'"
    return HTMLResponse(text, leaf.status, {**SAFE, "Content-Security-Policy": rules})


def lay_out(leaf: ServedPage) -> Markup:
    """The body of the page."""
    # What an autoescaping template gives is markup: its values were escaped on the way in.
    return Markup(_environment().get_template("served.html.j2").render(leaf=leaf, visible=visible))


@cache
def _environment() -> Environment:
    """The report's own, with this room's template beside its parts."""
    base = environment()
    loaders = [PackageLoader("dosimeter.serve", "page"), *([base.loader] if base.loader else [])]
    return base.overlay(loader=ChoiceLoader(loaders))


@cache
def slide() -> str:
    """The script of the slider. A browser reads line ends as \\n before it takes the hash."""
    found = files("dosimeter.serve").joinpath("page").joinpath("slide.js")
    return found.read_text(encoding="utf-8").replace("\r\n", "\n")
