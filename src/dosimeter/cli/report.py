"""`dosimeter report RESULT.json --out page.html`: a result as one page that a colleague without Python can read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import OUTPUT, START, Color, Json, Quiet, check_outputs, json_path, opt


def report(
    result: Annotated[
        Path | None, typer.Argument(help="What --json of another verb wrote.", show_default=False)
    ] = None,
    out: Annotated[Path | None, opt("--out", help="Write the page here (.html).", group=START)] = None,
    edition: Annotated[
        str,
        opt(
            "--edition",
            help="external: only what does not depend on the data; internal: everything.",
            group=START,
            show_default=True,
        ),
    ] = "external",
    statistics: Annotated[
        bool,
        opt(
            "--statistics",
            help="Add statistics of doses to the external edition: rounded, not protected.",
            group=OUTPUT,
        ),
    ] = False,
    template: Annotated[
        str | None,
        opt(
            "--template",
            help="Answer a questionnaire instead: edpb (opinion 28/2024) or aisvs (OWASP AISVS C12.3).",
            group=START,
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        opt("--also", help="Another result that --template draws on. May be repeated.", group=START),
    ] = None,
    card: Annotated[
        Path | None, opt("--card", help="Write a model card section here (Markdown, external content).", group=START)
    ] = None,
    schema: Annotated[
        bool, opt("--schema", help="Print the JSON Schema of all results and stop.", group=OUTPUT)
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Make one self-contained page of a result. It fetches nothing; only its owner can read it (0600)."""
    from dosimeter.cli.output import console, write_json
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_text
    from dosimeter.reports.report import check_page
    from dosimeter.reports.report import report as report_on
    from dosimeter.reports.terminal import Lines, show_verdict

    if schema:
        from dosimeter.results.result import json_schema

        write_json(json_schema(), "-" if json is None else json)
        return 0
    if result is None:
        raise Refusal("name the result to report on: dosimeter report RESULT.json --out page.html")
    if out is None and card is None and json is None:
        raise Refusal("say where the page goes: --out page.html (or --card CARD.md, --json -)")
    inputs = [result, *(also or ())]
    check_outputs([out, card, json_path(json)], inputs)
    if card is not None and template is not None:
        raise Refusal("--card is for the report of one result: leave it, or --template, out")
    if out is not None:
        check_page(out, "out")
    document = report_on(result, edition=edition, statistics=statistics, template=template, also=also or ())
    try:
        pages = ((path, getattr(document, form)) for path, form in ((out, "html"), (card, "card")) if path is not None)
        texts = list(pages)
        figures = document.document.figures
    except Refusal as error:
        raise Refusal(f"{safe_text(result, 120)}: {error}") from None
    for path, text in texts:
        write_text(path, text, inputs=inputs)
    if json is not None:
        write_json(figures, json, inputs=inputs)
    lines = Lines()
    show_verdict(document.document, lines)
    for k, (path, _) in enumerate(texts):
        lines.add("" if k else "Written", f"{safe_text(path, 120)} (readable by you only)")
    lines.print(console(quiet, color, json))
    return 0
