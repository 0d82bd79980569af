"""`dosimeter report RESULT.json --out page.html`: a result as one page that a colleague without Python can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli.output import console, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.report.html import Edition
    from dosimeter.report.layout import Document

EDITIONS = ("external", "internal")
PAGES = (".html", ".htm")


def report(
    result: Annotated[
        Path | None, typer.Argument(help="What --json of another verb wrote.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the page here (.html).")] = None,
    edition: Annotated[
        str,
        typer.Option("--edition", help="external: only what does not depend on the data; internal: everything."),
    ] = "external",
    statistics: Annotated[
        bool,
        typer.Option("--statistics", help="Add statistics of doses to the external edition: rounded, not protected."),
    ] = False,
    card: Annotated[
        Path | None, typer.Option("--card", help="Write a model card section here (Markdown, external content).")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of all results and stop.")] = False,
    json: Annotated[
        str | None, typer.Option("--json", help="Write the edition's facts as JSON here; - for stdout.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words, only files and the exit code.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Make one self-contained page of a result. It fetches nothing; written for its owner only (0600)."""
    from dosimeter.cli.options import check_outputs
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_text

    if schema:
        from dosimeter.results.registry import json_schema

        write_json(json_schema(), "-" if json is None else json)
        return 0
    if result is None:
        raise Refusal("name the result to report on: dosimeter report RESULT.json --out page.html")
    if out is None and card is None and json is None:
        raise Refusal("say where the page goes: --out page.html (or --card CARD.md, --json -)")
    check_outputs([out, card, None if json in (None, "-") else Path(str(json))], [result])
    if out is not None and out.suffix.lower() not in PAGES:
        raise Refusal(f"--out {safe_text(out.name)}: a page is an .html file (a browser prints it as PDF)")
    made, page, section = _made(result, _edition(edition, statistics), statistics)
    for path, text in ((out, page), (card, section)):
        if path is not None:
            write_text(path, text, inputs=[result])
    if json is not None:
        write_json(made.facts, json, inputs=[result])
    _tell(made, [path for path in (out, card) if path is not None], console(quiet, color, json))
    return 0


def _edition(edition: str, statistics: bool) -> Edition:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if edition not in EDITIONS:
        raise Refusal(f"--edition {safe_text(edition)}: use external or internal")
    if edition == "internal" and statistics:
        raise Refusal("--statistics is for the external edition: the internal one has every figure already")
    return "internal" if edition == "internal" else "external"


def _made(result: Path, edition: Edition, statistics: bool) -> tuple[Document, str, str]:
    """The report, its page and its card. Facts that fit their schema may still contradict themselves."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.report.html import document, lay_out
    from dosimeter.report.model_card import card
    from dosimeter.results.read import read_result

    facts = read_result(result)
    try:
        made = document(facts, edition, statistics=statistics)
        return made, lay_out(made), card(facts)
    except Refusal:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError):
        what = "its figures contradict each other, so no page can be made"
        raise Refusal(f"{safe_text(result, 120)}: {what}: run the verb again") from None


def _tell(made: Document, written: list[Path], words: Console) -> None:
    from dosimeter.core.text import safe_text
    from dosimeter.report.terminal import Page

    page = Page()
    page.add("verdict", safe_text(made.verdict.text, 600), {"good": "green", "bad": "red"}.get(made.verdict.tone, ""))
    page.add("edition", safe_text(made.facts["says"], 300), "red" if made.edition == "internal" else "dim")
    for k, path in enumerate(written):
        page.add("written" if k == 0 else "", f"{safe_text(path, 120)} (readable by you only)")
    page.show(words)
