"""`dosimeter scan FILE`: what a model file holds about people, without ever unpickling it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.output import console, write_json

if TYPE_CHECKING:
    from dosimeter.report.terminal import Page
    from dosimeter.scan import Scan
    from dosimeter.tables.table import Table

_SHOWN = 20
_LIMITS = (
    "a scan finds what lies in the file as numbers and text; what weights give away is for dosimeter measure",
    "rows behind a step that is no scaling, projection or encoding of labels are found by their names alone",
)


def scan(
    file: Annotated[
        Path, typer.Argument(help="The model: .skops, .onnx, .safetensors, .npz, .npy or .json.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Option("--data", help="The training table, .csv or .parquet: name its rows that are found.")
    ] = None,
    person: Annotated[str | None, typer.Option("--person", help="The column that says whose row it is.")] = None,
    show_ids: Annotated[bool, typer.Option("--show-ids", help="Show whose rows were found; with --person.")] = False,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", help="Relative difference that is still the same number.", show_default=False),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out. May be repeated.")] = None,
    missing: Annotated[str, typer.Option("--missing", help="refuse, or drop rows with a missing value.")] = "refuse",
    delimiter: Annotated[str, typer.Option("--delimiter", help="What separates cells in a .csv.")] = ",",
    json: Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Look for training rows, single people's values, statistics and lists in a model file.

    Exit 1: rows or single people's values are inside.
    """
    from dosimeter.cli.checks import positive
    from dosimeter.cli.options import check_outputs, read
    from dosimeter.scan import scan as look

    _check(data, person, show_ids)
    check_outputs([None if json in (None, "-") else Path(str(json))], [file, *([data] if data else [])])
    off = None if tolerance is None else positive("--tolerance", tolerance)
    table = None if data is None else read(data, delimiter, missing, person, [], drop or [])
    found = look(file, None if table is None else table.drop([person] if person else []), tolerance=off)
    facts = facts_of(found, file, _ids(found, table, person) if show_ids else [])
    if json is not None:
        write_json(facts, json, inputs=[file, *([data] if data else [])])
    tell(found, facts, file, console(quiet, color, json))
    return 1 if found.rows_inside or found.values_inside else 0


def _check(data: Path | None, person: str | None, show_ids: bool) -> None:
    from dosimeter.core.errors import Refusal

    if data is None and person is not None:
        raise Refusal("--person: there is no table: pass --data as well")
    if show_ids and person is None:
        raise Refusal("--show-ids: say which column they are in: pass --data and --person as well")


def _ids(found: Scan, table: Table | None, person: str | None) -> list[str]:
    """Whose rows were found, each once, in the order of the table."""
    if table is None or person is None:
        return []
    rows = set(found.named)
    held = [str(one) for one, row in zip(table[person], table.rows, strict=True) if int(row) + 1 in rows]
    return list(dict.fromkeys(held))


def facts_of(found: Scan, file: Path, ids: list[str]) -> dict[str, Any]:
    """What was found as a plain dict."""
    from dosimeter.core.version import __version__

    facts = {"schema": "dosimeter.scan/1", "version": __version__, "internal": True, "file": file.name}
    facts |= {**found.facts(), "standing": "exact for what is listed; what is not listed may still be there"}
    return {**facts, **({"ids_found": ids} if ids else {}), "not_covered": list(_LIMITS)}


def tell(found: Scan, facts: dict[str, Any], file: Path, words: Any) -> None:
    """For people: the verdict first, then what lies where, worst first."""
    from dosimeter.core.text import safe_text
    from dosimeter.report.terminal import Page

    page = Page()
    page.add("file", f"{safe_text(file.name)} ({found.kind}), read without running anything in it")
    _verdict(page, found)
    if "ids_found" in facts:
        page.add("whose", _some([safe_text(one) for one in facts["ids_found"]]))
    _findings(page, found)
    for place, why in found.unread[:_SHOWN]:
        page.add("not looked into", f"{safe_text(place)}: {safe_text(why, 200)}", "yellow")
    for k, note in enumerate(_LIMITS):
        page.add("" if k else "not covered", note, "dim")
    page.show(words)


def _verdict(page: Page, found: Scan) -> None:
    if found.unread and not found.looked:
        page.add("verdict", "not looked into: nothing in this file could be read, and rows may be inside", "yellow")
        return
    if not found.rows_inside:
        maybe = any(one.severity == "rows" for one in found.findings)
        more = "; what could be rows is listed below" if maybe and not found.compared else ""
        where = f" in what was looked into; {_parts(len(found.unread))} not, see below" if found.unread else ""
        if found.values_inside:
            page.add("verdict", f"single people's values inside; no rows found{where}{more}", "red")
        else:
            page.add("verdict", f"no rows found{where}{more}", "yellow" if found.unread else "green")
        return
    page.add("verdict", "rows inside: who has this file has people's rows", "red")
    if found.compared:
        named = found.named
        which = (
            f": {_some(list(map(str, named)))}" if named else ": the rows inside are not this table's, or were changed"
        )
        page.add("", f"{len(named)} of the table's {found.compared} rows" + which)
    page.add("", "a model that keeps no rows: dosimeter fix, or another linear model", "dim")


def _parts(count: int) -> str:
    return "1 part was" if count == 1 else f"{count} parts were"


def _findings(page: Page, found: Scan) -> None:
    from dosimeter.core.text import safe_text

    shown = [one for one in found.findings if one.certainty != "possible" or one.severity == "rows"]
    if not shown:
        page.add("found", "nothing that is known to speak of single people")
    for severity in dict.fromkeys(one.severity for one in shown):
        group = [one for one in shown if one.severity == severity]
        for k, one in enumerate(group[:_SHOWN]):
            maybe = "could be: " if one.certainty == "possible" else ""
            met = _met(one)
            words = f"{maybe}{one.what} ({one.count}) in {safe_text(one.place)}" + (f": {met}" if met else "")
            page.add("" if k else severity, words)
        if len(group) > _SHOWN:
            page.add("", f"and {len(group) - _SHOWN} more (--json - has them all)")
        for why in dict.fromkeys(one.why for one in group[:_SHOWN]):
            page.add("", why, "dim")


def _met(finding: Any) -> str:
    """What the table says of a finding, in words."""
    match = finding.match
    if match is None:
        return str(finding.remark)
    if finding.severity != "rows":
        which = f", {len(match.alone)} rows by themselves: {_some(list(map(str, match.alone)))}" if match.alone else ""
        return f"{match.found} of {match.of} are in the table{which}"
    sure = "" if match.beyond_accident else ": no more than by accident"
    how = f"{match.how}, {match.columns} columns, {match.distinct} distinct rows"
    return f"{match.found} of {match.of} are rows of the table ({how}); by accident {match.by_accident:.1g}{sure}"


def _some(shown: list[str]) -> str:
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
