"""The config files of a consortium, in TOML: where things are, nothing about patients.

consortium.toml, at the coordinator          site.toml, at each site
schema = "schema.toml"                       schema = "schema.toml"
listen = "192.0.2.10"                        site = "north"
port = 8443                                  table = "patients.csv"
authority = "ca.crt"                         ledger = "ledger.db"
certificate = "coordinator.crt"              host = "192.0.2.10"
key = "coordinator.key"                      port = 8443
state = "state"                              coordinator = "SHA-256 of its certificate"
out = "model.skops"                          authority, certificate, key, state as beside

Paths are relative to the file. What is agreed between all sites stands in the schema.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text
from dosimeter.engines.transports import HTTPS, TRANSPORTS, ServerPlace, SitePlace
from dosimeter.files.file_checks import regular_file

_LARGEST = 1 << 20
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
DEADLINE, PATIENCE, MOST_QUESTIONS = 600.0, 86_400.0, 1000
"""Seconds that a site has for an answer, seconds that a site waits for the coordinator, questions of a study."""
LARGEST_SHARE = 0.5
"""Of one patient in an exact sum."""

HOST_REMEDY = "give an address or a name, without a port"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")


def is_host(text: str) -> bool:
    """Whether this is an address or a name of a computer, and nothing more.

    >>> [is_host(text) for text in ("coordinator.example", "192.0.2.10", "2001:db8::1")]
    [True, True, True]
    >>> [is_host(text) for text in ("192.0.2.10:8443", "192.0.2", "https://coordinator.example", "a b")]
    [False, False, False, False]
    """
    if ":" not in text and not re.fullmatch(r"[0-9.]+", text):
        return _NAME.fullmatch(text) is not None
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


@dataclass(frozen=True)
class CoordinatorConfig:
    """consortium.toml."""

    schema: Path
    place: ServerPlace
    state: Path
    out: Path
    deadline: float
    transport: str
    source: Location
    ledger: str | None = None
    """Where a training of clients is booked, client by client; sites of other studies have their own."""
    keys: Path | None = None


@dataclass(frozen=True)
class SiteConfig:
    """site.toml."""

    schema: Path
    site: str
    place: SitePlace
    table: Path
    ledger: str | None
    """None for a client of a training, which the coordinator books."""
    keys: Path | None
    state: Path
    missing: str
    delimiter: str
    decimal: str
    patience: float
    most_questions: int
    largest_share: float
    """Of one patient in an exact sum; a table beyond it does not take part."""
    transport: str
    source: Location


def read_coordinator_config(path: str | os.PathLike[str]) -> CoordinatorConfig:
    """The config of a coordinator; refused in one line if a key is missing, unknown or of another kind."""
    values = _Values.read(path)
    values.refuse_other_party("site", "listen", "it is the config of a site", "give consortium.toml")
    values.known(
        "schema", "listen", "port", "authority", "certificate", "key", "state", "out", "deadline", "transport",
        "ledger", "keys",
    )  # fmt: skip
    state = values.folder("state")
    authority, certificate, key = (values.file(name) for name in ("authority", "certificate", "key"))
    place = ServerPlace(values.text("listen"), values.port(), authority, certificate, key, state)
    out = values.path("out")
    if out.suffix != ".skops":
        raise values.source.refusal(f"out = {safe_text(out.name)}", "name a .skops file")
    return CoordinatorConfig(
        values.file("schema"),
        place,
        state,
        out,
        values.seconds("deadline", DEADLINE),
        values.transport(),
        values.source,
        values.ledger(),
        values.path("keys") if "keys" in values.table else None,
    )


def read_site_config(path: str | os.PathLike[str]) -> SiteConfig:
    """The config of a site; refused in one line if a key is missing, unknown or of another kind."""
    values = _Values.read(path)
    values.refuse_other_party("listen", "site", "it is the config of a coordinator", "give site.toml")
    values.known(
        "schema", "site", "table", "ledger", "keys", "host", "port", "coordinator", "authority", "certificate", "key",
        "state", "missing", "delimiter", "decimal", "patience", "most-questions", "largest-share", "transport",
    )  # fmt: skip
    coordinator = values.text("coordinator").lower()
    if not _FINGERPRINT.fullmatch(coordinator):
        remedy = "give the SHA-256 of the coordinator's certificate, 64 hexadecimal digits"
        raise values.source.refusal("coordinator is no fingerprint", remedy)
    state = values.folder("state")
    authority, certificate, key = (values.file(name) for name in ("authority", "certificate", "key"))
    place = SitePlace(values.host("host"), values.port(), coordinator, authority, certificate, key, state)
    return SiteConfig(
        schema=values.file("schema"),
        site=values.text("site"),
        place=place,
        table=values.path("table"),
        ledger=values.ledger(),
        keys=values.path("keys") if "keys" in values.table else None,
        state=state,
        missing=values.choice("missing", ("refuse", "drop")),
        delimiter=values.text("delimiter", ","),
        decimal=values.text("decimal", "."),
        patience=values.seconds("patience", PATIENCE),
        most_questions=values.whole("most-questions", 1, 10**9, MOST_QUESTIONS),
        largest_share=values.share("largest-share", LARGEST_SHARE),
        transport=values.transport(),
        source=values.source,
    )


@dataclass(frozen=True)
class _Values:
    """The keys of a config file, each checked when it is read."""

    table: Mapping[str, Any]
    folder_of_file: Path
    source: Location

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> _Values:
        file, source = regular_file(path, _LARGEST)
        try:
            table = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise source.refusal(f"not valid TOML ({safe_text(error, 120)})", "correct it") from None
        return cls(table, file.absolute().parent, source)

    def refuse_other_party(self, theirs: str, own: str, problem: str, remedy: str) -> None:
        """Refuse a file with the other party's key and without the own one."""
        if theirs in self.table and own not in self.table:
            raise self.source.refusal(problem, remedy)

    def known(self, *keys: str) -> None:
        """Refuse keys that are not in the list."""
        for key in self.table:
            if key not in keys:
                near = get_close_matches(key[:100], keys, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"use {safe_list(keys, 20)}"
                raise self.source.refusal(f"{safe_text(key)} is not a key", remedy)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.table.get(key, default)
        if not isinstance(value, str) or (not value.strip() and value != "\t"):
            raise self.source.refusal(f"{key} = {safe_text(repr(value))}", f'write {key} = "..."')
        return value

    def host(self, key: str) -> str:
        """An address or a name."""
        value = self.text(key)
        if not is_host(value):
            raise self.source.refusal(f"{key} = {safe_text(value)}", HOST_REMEDY)
        return value

    def choice(self, key: str, words: tuple[str, ...]) -> str:
        """One of these words, the first by default."""
        value = self.text(key, words[0])
        if value not in words:
            raise self.source.refusal(f"{key} = {safe_text(value)}", f"use {' or '.join(words)}")
        return value

    def path(self, key: str) -> Path:
        """A path, relative to the config file."""
        return self.folder_of_file / self.text(key)

    def file(self, key: str) -> Path:
        """The path of a file that exists."""
        path = self.path(key)
        regular_file(path, _LARGEST)
        return path

    def folder(self, key: str) -> Path:
        """A private folder, which may not exist yet."""
        path = self.path(key)
        if path.exists() and not path.is_dir():
            raise self.source.refusal(f"{key} = {safe_text(path.name)} is a file", "name a folder")
        return path

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number."""
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.source.refusal(
                f"{key} = {safe_text(repr(value))}", f"give a whole number from {least} to {most}"
            )
        return value

    def port(self) -> int:
        """A TCP port."""
        return self.whole("port", 1, 65_535)

    def seconds(self, key: str, default: float) -> float:
        """A time."""
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e7:
            raise self.source.refusal(f"{key} = {safe_text(repr(value))}", "give seconds, above 0")
        return float(value)

    def share(self, key: str, default: float) -> float:
        """A part of a whole."""
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise self.source.refusal(f"{key} = {safe_text(repr(value))}", "give a number above 0, at most 1")
        return float(value)

    def ledger(self) -> str | None:
        """A path, or the URL of a database; None without the key."""
        if "ledger" not in self.table:
            return None
        place = self.text("ledger")
        return place if "://" in place else str(self.path("ledger"))

    def transport(self) -> str:
        """The name of a transport."""
        return self.choice("transport", (HTTPS, *(name for name in TRANSPORTS if name != HTTPS)))
