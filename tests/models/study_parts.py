"""Studies in this process: the coordinator's flow and the sites behind a direct exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dosimeter.engines.protocol.assembly import Assembly
from dosimeter.engines.protocol.exchange import DirectExchange
from dosimeter.files.consortium_journal import open_journal
from dosimeter.models.consortium_kinds import coordinate
from dosimeter.models.consortium_study import CoordinatorStudy, StudyOutcome
from dosimeter.tables.consortium_schema import ConsortiumSchema, schema_of
from tests.models.consortium import Consortium

COLUMNS = {
    "age": {"lower": 18, "upper": 100},
    "bmi": {"lower": 12, "upper": 60},
    "sex": {"levels": ["f", "m", "x"]},
}
TARGETS: dict[str, dict[str, Any]] = {
    "class": {"levels": ["no", "yes"]},
    "number": {"lower": -20, "upper": 20},
    "count": {"lower": 0, "upper": 60},
}


def schema_with(target: str = "", patients: int | None = None, **tables: Any) -> ConsortiumSchema:
    """A schema of three sites; target: a key of TARGETS."""
    columns = {**COLUMNS, **({"y": TARGETS[target]} if target else {})}
    own = {} if patients is None else {"patients": patients}
    named = {"target": "y"} if target else {}
    sites = [{"name": name, **own} for name in ("north", "south", "east")]
    return schema_of(
        {"study": "wards", "person": "id", "columns": columns, "sites": sites, **named, **tables}, complete=False
    )


def run(consortium: Consortium, folder: Path) -> StudyOutcome:
    """One run of the coordinator, in a folder that outlives it."""
    schema = consortium.schema
    with open_journal(folder / "state", schema.digest) as journal:
        assembly = Assembly(
            DirectExchange({k: desk.answer for k, desk in consortium.desks.items()}),
            schema.digest,
            list(consortium.desks),
            schema.sizes,
            deadline=10.0,
            first_round=journal.first_round,
        )
        return coordinate(CoordinatorStudy(schema, assembly, journal, consortium.said.append))
