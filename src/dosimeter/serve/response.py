"""A page as a response: the report's HTML frame, style and scripts, with the policy as a header too."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse

from dosimeter.reports.markup import environment, visible
from dosimeter.reports.standalone_page import chart_scripts, policy, standalone_page, style
from dosimeter.serve.access import SAFE
from dosimeter.serve.pages import ServedPage


def answer(leaf: ServedPage) -> HTMLResponse:
    """The page with headers that isolate it from other pages."""
    scripts = (slide(),) if leaf.slider is not None else ()
    text = standalone_page(f"{leaf.title} (dosimeter)", lay_out(leaf), charts=leaf.charts, scripts=scripts)
    page_scripts = (*(chart_scripts() if leaf.charts else ()), *scripts)
    rules = f"{policy(page_scripts, (style(),))}; frame-ancestors 'none'"
    return HTMLResponse(text, leaf.status, {**SAFE, "Content-Security-Policy": rules})


def lay_out(leaf: ServedPage) -> Markup:
    """The body of the page."""
    # An autoescaping template returns markup: its values were escaped on the way in.
    return Markup(_environment().get_template("served.html.j2").render(leaf=leaf, visible=visible))


@cache
def _environment() -> Environment:
    """The Jinja2 environment of the reports, with the template of this package."""
    base = environment()
    loaders = [PackageLoader("dosimeter.serve", "page"), *([base.loader] if base.loader else [])]
    return base.overlay(loader=ChoiceLoader(loaders))


@cache
def slide() -> str:
    """The script of the slider. A browser reads line ends as \\n before it takes the hash."""
    script = files("dosimeter.serve").joinpath("page").joinpath("slide.js")
    return script.read_text(encoding="utf-8").replace("\r\n", "\n")
