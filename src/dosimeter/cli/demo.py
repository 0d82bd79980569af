"""`dosimeter demo`: a whole measurement on real patients, in ten seconds and without any file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli.options import NOISE, START, Color, Json, Quiet, opt

if TYPE_CHECKING:
    from dosimeter.results.editions import Edition

PAGES: dict[Edition, str] = {"internal": "dosimeter-demo.html", "external": "dosimeter-demo.external.html"}
"""Edition -> the page's file."""
SAID: dict[Edition, str] = {"internal": "internal: do not publish", "external": "external: may be handed over"}
YOURS = "patients.csv --target COLUMN --person COLUMN"
FOOTER = (
    f"\nyour own table:  dosimeter measure {YOURS} --scale 1 --max-dose 1",
    f"with noise:      dosimeter fix {YOURS} --max-dose 1 --out model.skops",
)


def demo(
    context: typer.Context,
    max_dose: Annotated[
        float,
        opt(
            "--max-dose",
            help="The limit that the verdict is about; the exit code stays 0.",
            group=START,
            show_default=True,
        ),
    ] = 1.0,
    scale: Annotated[
        float, opt("--scale", help="Standard deviation of the noise on each weight.", group=NOISE, show_default=True)
    ] = 1.0,
    out: Annotated[
        Path, opt("--out", help="The folder for the two pages of the report.", group=START, show_default=True)
    ] = Path("."),
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Measure a model of 442 diabetes patients: what its weights leak about each of them, as two pages."""
    from dosimeter.cli.options import check_outputs, json_path
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.core.checks import positive
    from dosimeter.core.text import safe_text
    from dosimeter.core.version import __version__
    from dosimeter.files.atomic import write_text
    from dosimeter.workflows.demo import demo_measurement

    positive("scale", scale)
    positive("max_dose", max_dose)
    pages = {edition: out / name for edition, name in PAGES.items()}
    check_outputs([*pages.values(), json_path(json)], [])
    result = demo_measurement(scale, max_dose).with_fields(reproduce=provenance(context))
    for edition, path in pages.items():
        write_text(path, result.to_html(edition))
    reports = [f"{safe_text(path, 300)} ({SAID[edition]})" for edition, path in pages.items()]
    show(
        result,
        quiet=quiet,
        color=color,
        json=json,
        heading=f"dosimeter {__version__} · demo: {result.rows} diabetes patients (shipped with scikit-learn)",
        footer=(*FOOTER, f"the report:      {reports[0]}", f"                 {reports[1]}"),
    )
    return 0
