"""Three hospitals in this process: the same bytes as over a network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.core.noise import Gaussian
from dosimeter.engines.protocol.assembly import Assembly
from dosimeter.engines.protocol.exchange import DirectExchange
from dosimeter.engines.sites import AtSite, SitesEngine
from dosimeter.ledger import Ledger
from dosimeter.models.consortium_fit import check_totals, fit_sites, fit_values, totals_of
from dosimeter.models.consortium_model import consortium_model, public_bounds
from dosimeter.models.site_desk import SiteDesk
from dosimeter.models.site_table import site_table_of
from dosimeter.tables.consortium_schema import ConsortiumSchema, schema_of
from dosimeter.tables.table import Table


def schema_for(loss: str, **release: Any) -> ConsortiumSchema:
    targets = {
        "logistic": {"levels": ["no", "yes"]},
        "squared": {"lower": -20, "upper": 20},
        "poisson": {"lower": 0, "upper": 60},
    }
    columns = {
        "age": {"lower": 18, "upper": 100},
        "bmi": {"lower": 12, "upper": 60},
        "sex": {"levels": ["f", "m", "x"]},
    }
    return schema_of(
        {
            "study": "readmission", "person": "id", "target": "y", "loss": loss, "l2": 0.01,
            "release": {"name": "r1", **(release or {"max-dose": 1.0})},
            "columns": {**columns, "y": targets[loss]},
            "sites": [{"name": name} for name in ("north", "south", "east")],
        },
        complete=False,
    )  # fmt: skip


def patients(loss: str, n: int = 240, seed: int = 7) -> dict[str, Any]:
    """Rows of all sites; a third of the people have two rows, and sex never changes within a person."""
    rng = np.random.default_rng(seed)
    people = np.arange(n) - (np.arange(n) % 3 == 2)
    age, bmi = rng.uniform(20, 95, n), rng.uniform(15, 50, n)
    sex = rng.choice(["f", "m", "x"], n)[people]
    m = (age - 59) / 41 + 0.5 * (sex == "m") - 0.3
    y: Any
    if loss == "logistic":
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-m)), "yes", "no")
    elif loss == "poisson":
        y = rng.poisson(np.exp(m)).astype(float)
    else:
        y = 3 * m + rng.normal(0, 1, n)
    return {"id": [f"p{k}" for k in people], "age": age, "bmi": bmi, "sex": sex, "y": y}


def cut(rows: dict[str, Any], sites: int = 3) -> list[dict[str, Any]]:
    n = len(rows["id"])
    ends = [3 * (n * k // (3 * sites)) for k in range(sites)] + [n]
    return [{name: column[a:b] for name, column in rows.items()} for a, b in pairwise(ends)]


class Consortium:
    """Desks of all sites behind a direct exchange, and the coordinator's engine."""

    def __init__(
        self, schema: ConsortiumSchema, parts: list[dict[str, Any]], folder: Path, budget: str = "fil=2"
    ) -> None:
        self.schema = schema
        self.said: list[str] = []
        self.ledgers = [folder / f"ledger{k}.db" for k in range(1, len(parts) + 1)]
        self.desks = {}
        for k, (rows, path) in enumerate(zip(parts, self.ledgers, strict=True), start=1):
            Ledger.create(path, [budget]).close()
            (folder / f"site{k}").mkdir()
            self.desks[k] = SiteDesk(
                schema, k, self._reader(rows), self._opener(path), folder / f"site{k}", self.said.append
            )
        self.exchange = DirectExchange({k: desk.answer for k, desk in self.desks.items()})
        self.assembly = Assembly(
            self.exchange, schema.digest, list(self.desks), schema.sizes, deadline=10.0, first_round=0
        )

    def _reader(self, rows: dict[str, Any]) -> Any:
        text = [self.schema.person, *self.schema.labels, *([] if self.schema.classes is None else [self.schema.target])]
        return lambda: site_table_of(Table.of(rows, text=text), self.schema, Location("patients.csv", first=1))

    def _opener(self, path: Path) -> Any:
        return lambda: Ledger.open(path)

    def fit(self) -> tuple[Any, Any, Any, SitesEngine]:
        """(fit, totals, model, engine)."""
        self.assembly.ask("match")
        answers = self.assembly.ask("moments", check=lambda site, values: check_totals(self.schema, values))
        each = {site: totals_of(values) for site, values in answers.items()}
        totals = sum(list(each.values())[1:], next(iter(each.values())))
        model = consortium_model(self.schema, totals, Gaussian(1.0))
        bounds = public_bounds(self.schema, model, totals)
        engine = SitesEngine(self.assembly, bounds, {site: own.rows for site, own in each.items()})
        return fit_sites(engine, model, bounds), totals, model, engine

    def scale(self, fitted: Any, totals: Any, engine: SitesEngine) -> float:
        answers = engine.map_over(engine.parts, AtSite("scale needed", fit_values(fitted, totals)))
        return float(2.0 ** (max(answer["rung"] for answer in answers) / 2))
