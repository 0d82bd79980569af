"""`dosimeter demo`: the whole road on real patients, in ten seconds and without a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.measure import NOISED
from dosimeter.cli.output import console, write_json

if TYPE_CHECKING:
    from rich.console import Console

SCALE, LIMIT, TRIALS = 1.0, 1.0, 200
"""Fixed beforehand, not tuned on the patients. The limit is the one that docs/limits.md suggests."""
PAGES = {"internal": "dosimeter-demo.html", "external": "dosimeter-demo.external.html"}
"""Edition -> the page's file."""
SAID = {"internal": "internal: do not publish", "external": "external: what may be handed over"}


def demo(
    context: typer.Context,
    max_dose: Annotated[
        float, typer.Option("--max-dose", help="The limit that the verdict is about (the exit code stays 0).")
    ] = LIMIT,
    scale: Annotated[float, typer.Option("--scale", help="Standard deviation of the noise on each weight.")] = SCALE,
    out: Annotated[Path, typer.Option("--out", help="The folder for the two pages of the report.")] = Path("."),
    json: Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words, only JSON.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Measure a model of 442 diabetes patients: what its weights give away about each of them, as two pages."""
    from dosimeter.cli.checks import positive
    from dosimeter.cli.options import check_outputs
    from dosimeter.core.text import safe_text
    from dosimeter.results.provenance import how_asked

    positive("--scale", scale)
    positive("--max-dose", max_dose)
    pages = {edition: out / name for edition, name in PAGES.items()}
    check_outputs([*pages.values(), None if json in (None, "-") else Path(str(json))], [])
    facts = figures(scale, max_dose) | {"reproduce": how_asked(context)}
    write_pages(facts, pages)
    if json is not None:
        write_json(facts, json)
    words = console(quiet, color, json)
    tell(facts, words)
    for heading, (edition, path) in zip(("the report:", ""), pages.items(), strict=True):
        words.print(f"{heading:16} {safe_text(path, 300)} ({SAID[edition]})", soft_wrap=True)
    return 0


def write_pages(facts: dict[str, Any], pages: dict[Any, Path]) -> None:
    """Both editions of the report, each for its owner's eyes only."""
    from dosimeter.files.atomic import write_text
    from dosimeter.report.html import page

    for edition, path in pages.items():
        write_text(path, page(facts, edition))


def figures(scale: float = SCALE, limit: float = LIMIT) -> dict[str, Any]:
    """The facts of the demo."""
    from dosimeter import Gaussian
    from dosimeter.datasets.demo import DERIVED, TARGET, diabetes
    from dosimeter.models.fit_table import fit_table
    from dosimeter.results.summarise import summarise

    table = diabetes().drop(DERIVED)
    own = fit_table(table, TARGET, noise=Gaussian(scale))
    facts = summarise(own.leakage, table, limit=limit)
    facts["noise_on"] = f"each released weight {NOISED[True]}"
    facts["model"] |= {"score_name": own.score_name, "score": own.score, "l2_from": own.penalty.source}
    facts["attack"] = _attacked(table, TARGET, facts["meaning"]["column"], Gaussian(scale))
    return facts


def _attacked(table: Any, target: str, column: str, noise: Any) -> dict[str, Any] | None:
    """The white-box inversion of the column that the meaning speaks of, where it is one that can be guessed."""
    import numpy as np

    from dosimeter.models.linear_attack import invert

    if column == target:
        return None
    played = invert(table, target, column, noise=noise, trials=TRIALS, rng=np.random.Generator(np.random.PCG64(0)))
    return {**played.facts(), "column": column, "simulation": True}


def tell(facts: dict[str, Any], words: Console) -> None:
    """The facts as a newcomer reads them."""
    from dosimeter.cli import show

    model = facts["model"]
    words.print(f"dosimeter {facts['version']} · demo: {facts['rows']} diabetes patients (shipped with scikit-learn)")
    words.print(
        f"linear regression of {model['target']} on {len(facts['columns'])} columns, "
        f"{model['score_name']} {model['score']:.2f}; noise on {facts['noise_on']}: {facts['noise']}\n"
    )
    show.measurement(facts, words, "patient", f"patient {facts['dose']['highest_row']}")
    yours = "patients.csv --target COLUMN --person COLUMN"
    words.print(f"\nyour own table:  dosimeter measure {yours} --scale 1 --max-dose 1", soft_wrap=True)
    words.print(f"and repaired:    dosimeter fix {yours} --max-dose 1 --out model.skops", soft_wrap=True)
