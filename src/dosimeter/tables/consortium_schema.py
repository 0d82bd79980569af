"""The schema of a consortium, in TOML: what all sites agree on before anything is computed.

study = "readmission"
person = "patient_id"
target = "readmitted"
loss = "logistic"                # squared, logistic or poisson
l2 = 0.01

[release]
name = "readmission-2026-11"     # every site's ledger books it under this name
max-dose = 1.0                   # the noise follows from it; or scale = 0.05, a public scale

[columns.age]
lower = 18
upper = 100

[columns.readmitted]
levels = ["no", "yes"]

[[sites]]
name = "north"
certificate = "..."              # SHA-256 of the site's certificate; `dosimeter federate init` writes it

Two sites have the same schema if and only if `digest` is the same, and every message carries it.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from dosimeter.core.errors import CannotMeasure
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import regular_file
from dosimeter.tables.bounds_file import bounds_of, nearest
from dosimeter.tables.declared_bounds import Declaration, Range

_LARGEST = 1 << 20
_KEYS = ("study", "person", "target", "loss", "l2", "release", "columns", "sites")
LOSSES = ("squared", "logistic", "poisson")
"""Losses that are a sum over rows with a residual that grows with the margin: what `engines/plausible.py` bounds."""
NOISES = ("gaussian", "laplace")
COX = (
    "the loss cox does not run over a network: its risk sets join the rows of all sites, so each site would have to "
    "send the times of its own patients' events; fit a Cox model of each site, or pool the rows"
)
MOST_SITES, MOST_COLUMNS = 200, 2000
_WORD = re.compile(r"\w(?:[\w .+\-]{0,58}[\w.+\-])?")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Site:
    """One entry of the roster."""

    number: int
    """From 1, in the order of the file."""
    name: str
    certificate: str
    """SHA-256 of its certificate, hex; "" before `federate init`."""


@dataclass(frozen=True)
class ReleaseTerms:
    """What is released, and the limit that all sites agreed on."""

    name: str
    max_dose: float | None = None
    """Highest η of a person at any site."""
    scale: float | None = None
    """A public noise scale instead."""
    noise: str = "gaussian"


@dataclass(frozen=True)
class ConsortiumSchema:
    """Columns, kinds, levels, bounds, target, person, loss, penalty and roster."""

    study: str
    person: str
    columns: Mapping[str, Declaration]
    """In the order of the file, the target among them."""
    release: ReleaseTerms
    sites: tuple[Site, ...]
    target: str
    loss: str
    l2: float

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything that is agreed; a site's answer carries it."""
        facts = {
            "study": self.study, "person": self.person, "target": self.target, "loss": self.loss, "l2": self.l2,
            "release": vars(self.release),
            "columns": [[name, _facts(column)] for name, column in self.columns.items()],
            "sites": [[site.name, site.certificate] for site in self.sites],
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
        declared = self.columns[self.target]
        return declared if isinstance(declared, tuple) else None

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
        }

    @property
    def bounds(self) -> dict[str, Any]:
        """What `measure` and `fix` take as `bounds` for the joint table."""
        return {name: (c.lower, c.upper) if isinstance(c, Range) else list(c) for name, c in self.columns.items()}


def _facts(column: Declaration) -> list[Any]:
    return [column.lower, column.upper, column.middle] if isinstance(column, Range) else list(column)


def read_schema(path: str | os.PathLike[str], *, complete: bool = True) -> ConsortiumSchema:
    """The schema in a file. complete: every site has its certificate."""
    file, source = regular_file(path, _LARGEST)
    try:
        tables = tomllib.loads(file.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise source.refusal(f"not valid TOML ({safe_text(error, 120)})", "correct it") from None
    return schema_of(tables, source, complete=complete)


def schema_of(tables: Mapping[str, Any], source: Location | None = None, *, complete: bool = True) -> ConsortiumSchema:
    """The schema that a mapping in the form of the file describes."""
    return _Reader(tables, source or Location("schema")).schema(complete)


class _Reader:
    """The checks of a schema, one key after the other."""

    def __init__(self, tables: Mapping[str, Any], source: Location) -> None:
        self.tables = tables
        self.source = source

    def schema(self, complete: bool) -> ConsortiumSchema:
        self._known(self.tables, _KEYS, "")
        person, target = self._name("person"), self._name("target")
        columns = self._columns(person)
        if target not in columns:
            raise self.source.refusal(f"target = {safe_text(target)} is no [columns] entry", "declare the target too")
        schema = ConsortiumSchema(
            study=self._word("study", self.tables.get("study")),
            person=person,
            columns=columns,
            release=self._release(),
            sites=self._sites(complete),
            target=target,
            loss=self._loss(target, columns),
            l2=self._l2(),
        )
        if schema.width < 1 or len(columns) > MOST_COLUMNS:
            raise self.source.refusal(f"{len(columns)} columns", f"declare at least one, at most {MOST_COLUMNS}")
        return schema

    def _known(self, table: Any, keys: tuple[str, ...], where: str) -> Mapping[str, Any]:
        if not isinstance(table, Mapping):
            raise self.source.refusal(f"[{where}] is not a table", f"write [{where}] and its keys below")
        for key in table:
            if key not in keys:
                shown = f"[{where}] {safe_text(key)}" if where else safe_text(key)
                raise self.source.refusal(f"{shown} is not a key", nearest(str(key), keys))
        return table

    def _word(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            fault = f"{key} = {safe_text(repr(value))}"
            raise self.source.refusal(fault, "give 1 to 60 letters, digits, . _ - + and blanks")
        return value

    def _name(self, key: str) -> str:
        value = self.tables.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.source.refusal(f"there is no {key}", f'name the column: {key} = "patient_id"')
        return value

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
        value = self._number(self.tables, "l2", "")
        if value < 0:
            raise self.source.refusal(f"l2 = {value:g}", "give 0 or more")
        return value

    def _release(self) -> ReleaseTerms:
        keys = ("name", "max-dose", "scale", "noise")
        table = self._known(self.tables.get("release", {}), keys, "release")
        name = self._word("[release] name", table.get("name"))
        limit, scale = (
            self._positive(self._number(table, key, "release"), key) if key in table else None
            for key in ("max-dose", "scale")
        )
        if (limit is None) == (scale is None):
            raise self.source.refusal("[release] needs a limit", "give max-dose or a public scale, one of the two")
        noise = table.get("noise", NOISES[0])
        if noise not in NOISES:
            raise self.source.refusal(f"[release] noise = {safe_text(repr(noise))}", f"use {' or '.join(NOISES)}")
        return ReleaseTerms(name, limit, scale, noise)

    def _sites(self, complete: bool) -> tuple[Site, ...]:
        entries = self.tables.get("sites")
        if not isinstance(entries, list) or not 2 <= len(entries) <= MOST_SITES:
            raise self.source.refusal("the roster needs two sites or more", 'write [[sites]] and name = "..." for each')
        sites = []
        for k, entry in enumerate(entries, start=1):
            table = self._known(entry, ("name", "certificate"), "[sites]")
            certificate = table.get("certificate", "")
            if not isinstance(certificate, str) or not (_FINGERPRINT.fullmatch(certificate) or not complete):
                todo = "`dosimeter federate init` writes the SHA-256 of its certificate"
                raise self.source.refusal(f"site {k} has no certificate", todo)
            sites.append(Site(k, self._word(f"name of site {k}", table.get("name")), certificate))
        for what in ("name", "certificate"):
            values = [getattr(site, what) for site in sites if getattr(site, what)]
            if len(set(values)) < len(values):
                raise self.source.refusal(f"two sites have the same {what}", "give each its own")
        return tuple(sites)

    def _number(self, table: Mapping[str, Any], key: str, where: str) -> float:
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            shown = f"[{where}] {key}" if where else key
            raise self.source.refusal(f"{shown} = {safe_text(repr(value))}", "give a number")
        return float(value)

    def _positive(self, value: float, key: str) -> float:
        if not 0 < value <= 1e6:
            raise self.source.refusal(f"{key} = {value:g}", "give a number above 0")
        return value
