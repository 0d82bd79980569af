"""The schema of a consortium, in TOML: what all sites agree on before anything is computed.

study = "readmission"
person = "patient_id"
target = "readmitted"
loss = "logistic"                # squared, logistic or poisson
l2 = 0.01

[release]
name = "readmission-2026-11"     # every site's ledger books it under this name
max-dose = 1.0                   # the noise follows from it; or scale = 0.05, a public scale
                                 # with noise-at = "sites": epsilon and delta instead (squared loss)

[columns.age]
lower = 18
upper = 100

[columns.readmitted]
levels = ["no", "yes"]

[[sites]]
name = "north"
certificate = "..."              # SHA-256 of the site's certificate; `dosimeter federate init` writes it

A study without a loss has [components] (principal components) or [training] (rounds that protect patients), and epsilon
and delta in [release]: `tables/consortium_sections.py`.

Two sites have the same schema if and only if `digest` is the same, and every message carries it.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from dosimeter.core.errors import CannotMeasure
from dosimeter.core.face import speaking
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import regular_file
from dosimeter.tables.bounds_file import bounds_of
from dosimeter.tables.consortium_sections import (
    COORDINATOR,
    SITES,
    ComponentTerms,
    ReleaseTerms,
    TrainingTerms,
    component_terms,
    release_terms,
    training_terms,
)
from dosimeter.tables.declared_bounds import Declaration, Range
from dosimeter.tables.schema_values import SchemaValues

_LARGEST = 1 << 20
_KEYS = ("study", "person", "target", "loss", "l2", "release", "components", "training", "clients", "columns", "sites")
LOSSES = ("squared", "logistic", "poisson")
"""Losses that are a sum over rows with a residual that grows with the margin: what `engines/plausible.py` bounds."""
MODEL, NOISY_MODEL, COMPONENTS, NOISY_COMPONENTS, TRAINING, CLIENTS = (
    "model", "model, noise at the sites", "components", "components, noise at the sites", "training", "clients",
)  # fmt: skip
"""Kinds of study: each has its own list of operations that a site answers."""
COX = (
    "the loss cox does not run over a network: its risk sets join the rows of all sites, so each site would have to "
    "send the times of its own patients' events; fit a Cox model of each site, or pool the rows"
)
MOST_SITES, MOST_CLIENTS, MOST_COLUMNS = 200, 65_535, 2000
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Site:
    """One entry of the roster."""

    number: int
    """From 1, in the order of the file."""
    name: str
    certificate: str
    """SHA-256 of its certificate, hex; "" before `federate init`."""
    patients: int | None = None
    """Declared patients, public; a training needs them."""


@dataclass(frozen=True)
class ConsortiumSchema:
    """Columns, kinds, levels, bounds, target, person, loss, penalty and roster."""

    study: str
    person: str
    columns: Mapping[str, Declaration]
    """In the order of the file, the target among them."""
    release: ReleaseTerms
    sites: tuple[Site, ...]
    target: str = ""
    """ "" for components."""
    loss: str = ""
    """ "" unless a model is fitted."""
    l2: float = 0.0
    components: ComponentTerms | None = None
    training: TrainingTerms | None = None
    clients: Mapping[str, Any] | None = None
    """[clients] as it stands in the file: `models/client_training.py` reads it."""

    @property
    def kind(self) -> str:
        """What is released, and who adds the noise."""
        if self.clients is not None:
            return CLIENTS
        if self.training is not None:
            return TRAINING
        if self.components is not None:
            return COMPONENTS if self.release.noise_at == COORDINATOR else NOISY_COMPONENTS
        return MODEL if self.release.noise_at == COORDINATOR else NOISY_MODEL

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything that is agreed; a site's answer carries it."""
        facts = {
            "study": self.study, "person": self.person, "target": self.target, "loss": self.loss, "l2": self.l2,
            "release": vars(self.release),
            "columns": [[name, _facts(column)] for name, column in self.columns.items()],
            "sites": [[site.name, site.certificate, site.patients] for site in self.sites],
            "components": None if self.components is None else vars(self.components),
            "training": None if self.training is None else vars(self.training),
            "clients": None if self.clients is None else dict(self.clients),
        }  # fmt: skip
        return sha256(json.dumps(facts, sort_keys=True, allow_nan=False).encode()).digest()

    @property
    def features(self) -> dict[str, Declaration]:
        """The columns without the target."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that are numbers, without the target."""
        return tuple(name for name, column in self.features.items() if isinstance(column, Range))

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns with levels, without the target."""
        return tuple(name for name, column in self.features.items() if isinstance(column, tuple))

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The levels of the target, None if it is a number."""
        declared = self.columns.get(self.target)
        return declared if isinstance(declared, tuple) else None

    @property
    def indicators(self) -> int:
        """Numbers of a row if every level has an indicator: of components and of a training."""
        return sum(1 if isinstance(c, Range) else len(c) for c in self.features.values())

    @property
    def width(self) -> int:
        """d: numbers of a row in a fit."""
        return sum(1 if isinstance(c, Range) else len(c) - 1 for c in self.features.values())

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions that messages name."""
        return {
            "d": self.width,
            "p": self.width + 1,
            "numbers": len(self.numbers),
            "unknowns": len(self.features) + 1,
            "q": self.indicators + (self.kind == NOISY_MODEL),
            "weights": 1 if self.training is None else self.training.network(self.indicators, self.outputs).size,
        }

    @property
    def outputs(self) -> int:
        """Of a trained network: its classes, or one number."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def patients(self) -> int:
        """K: the declared patients of all sites."""
        return sum(site.patients or 0 for site in self.sites)

    @property
    def bounds(self) -> dict[str, Any]:
        """What `measure` and `fix` take as `bounds` for the joint table."""
        return {name: (c.lower, c.upper) if isinstance(c, Range) else list(c) for name, c in self.columns.items()}


def _facts(column: Declaration) -> list[Any]:
    return [column.lower, column.upper, column.middle] if isinstance(column, Range) else list(column)


def read_schema(
    path: str | os.PathLike[str], *, complete: bool = True, noise_at: str | None = None
) -> ConsortiumSchema:
    """The schema in a file. complete: every site has its certificate. noise_at: in place of the file's."""
    file, source = regular_file(path, _LARGEST)
    try:
        tables = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise source.refusal(f"not valid TOML ({safe_text(error, 120)})", "correct it") from None
    if noise_at is not None and isinstance(tables.get("release"), dict):
        tables["release"]["noise-at"] = noise_at
    return schema_of(tables, source, complete=complete)


def schema_of(tables: Mapping[str, Any], source: Location | None = None, *, complete: bool = True) -> ConsortiumSchema:
    """The schema that a mapping in the form of the file describes."""
    with speaking("config file"):
        return _Reader(tables, source or Location("schema")).schema(complete)


class _Reader(SchemaValues):
    """The checks of a schema, one key after the other."""

    def schema(self, complete: bool) -> ConsortiumSchema:
        self.known(self.tables, _KEYS, "")
        kind = [key for key in ("loss", "components", "training", "clients") if key in self.tables]
        if len(kind) != 1:
            remedy = "give loss and l2, or [components], or [training], or [clients]: one of them"
            raise self.source.refusal(f"{' and '.join(kind) or 'no kind of study'}", remedy)
        if kind == ["clients"] and "person" in self.tables:
            raise self.source.refusal("[clients] protects each client with all its rows", "leave person out")
        person = "" if kind == ["clients"] else self.column("person")
        columns = self._columns(person)
        target = "" if kind == ["components"] else self._target(columns)
        study = self.word("study", self.tables.get("study"))
        terms = release_terms(self, kind[0])
        sites = self._sites(complete, MOST_CLIENTS if kind == ["clients"] else MOST_SITES)
        parts: dict[str, Any] = {}
        if kind == ["loss"]:
            parts = {"loss": self._loss(target, columns), "l2": self._l2()}
            if terms.noise_at == SITES and parts["loss"] != "squared":
                remedy = "use the squared loss, or leave noise-at out"
                raise self.source.refusal('noise-at = "sites" is for the loss squared', remedy)
        elif "l2" in self.tables:
            raise self.source.refusal("l2 is for a study with a loss", "leave it out")
        schema = ConsortiumSchema(study, person, columns, terms, sites, target, **parts)
        if kind == ["components"]:
            if "target" in self.tables:
                raise self.source.refusal("components have no target", "leave it out")
            schema = replace(schema, components=component_terms(self, schema.indicators))
        elif kind == ["clients"]:
            clients = self.tables["clients"]
            if not isinstance(clients, Mapping):
                raise self.source.refusal("[clients] is not a table", "write [clients] and its keys below")
            schema = replace(schema, clients=dict(clients))
        elif kind == ["training"]:
            if not all(site.patients for site in sites):
                raise self.source.refusal("a training needs declared patients", "add patients = ... to each [[sites]]")
            schema = replace(schema, training=training_terms(self, schema.patients, complete=complete))
        if schema.width < 1 or len(columns) > MOST_COLUMNS:
            raise self.source.refusal(f"{len(columns)} columns", f"declare at least one, at most {MOST_COLUMNS}")
        return schema

    def _target(self, columns: Mapping[str, Declaration]) -> str:
        target = self.column("target")
        if target not in columns:
            raise self.source.refusal(f"target = {safe_text(target)} is no [columns] entry", "declare the target too")
        return target

    def _columns(self, person: str) -> dict[str, Declaration]:
        tables = self.tables.get("columns")
        if not isinstance(tables, Mapping) or not all(isinstance(each, Mapping) for each in tables.values()):
            raise self.source.refusal("no column is declared", "add [columns.age] and below it lower = 18, upper = 100")
        if person in tables:
            raise self.source.refusal(f"[columns.{safe_text(person)}] is the person column", "leave it out there")
        columns = dict(bounds_of({name: dict(each) for name, each in tables.items()}, self.source).columns)
        for name, column in columns.items():
            if isinstance(column, tuple) and len(column) < 2:
                raise self.source.refusal(f"[columns.{safe_text(name)}] has one level", "give two or more, or drop it")
        return columns

    def _loss(self, target: str, columns: Mapping[str, Declaration]) -> str:
        loss = self.tables.get("loss")
        if loss == "cox":
            raise CannotMeasure(f"{safe_text(self.source.label, 120)}: {COX}")
        if loss not in LOSSES:
            raise self.source.refusal(f"loss = {safe_text(repr(loss))}", f"use {', '.join(LOSSES)}")
        declared = columns[target]
        if loss == "logistic" and not (isinstance(declared, tuple) and len(declared) == 2):
            raise self.source.refusal("the loss logistic needs a target of two levels", "declare its levels")
        if loss != "logistic" and not isinstance(declared, Range):
            raise self.source.refusal(f"the loss {loss} needs a target that is a number", "declare lower and upper")
        if loss == "poisson" and isinstance(declared, Range) and declared.lower < 0:
            raise self.source.refusal("the loss poisson needs counts", "declare lower = 0 for the target")
        return str(loss)

    def _l2(self) -> float:
        value = self.number(self.tables, "l2", "")
        if value < 0:
            raise self.source.refusal(f"l2 = {value:g}", "give 0 or more")
        return value

    def _sites(self, complete: bool, most: int) -> tuple[Site, ...]:
        entries = self.tables.get("sites")
        if not isinstance(entries, list) or not 2 <= len(entries) <= most:
            raise self.source.refusal("the roster needs two sites or more", 'write [[sites]] and name = "..." for each')
        sites = []
        for k, entry in enumerate(entries, start=1):
            table = self.known(entry, ("name", "certificate", "patients"), "[sites]")
            certificate = table.get("certificate", "")
            if not isinstance(certificate, str) or not (_FINGERPRINT.fullmatch(certificate) or not complete):
                todo = "`dosimeter federate init` writes the SHA-256 of its certificate"
                raise self.source.refusal(f"site {k} has no certificate", todo)
            patients = self.whole(table, "patients", "[sites]", 1, 1 << 30) if "patients" in table else None
            sites.append(Site(k, self.word(f"name of site {k}", table.get("name")), certificate, patients))
        for what in ("name", "certificate"):
            values = [getattr(site, what) for site in sites if getattr(site, what)]
            if len(set(values)) < len(values):
                raise self.source.refusal(f"two sites have the same {what}", "give each its own")
        return tuple(sites)
