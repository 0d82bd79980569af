"""A party's own certificate and key are checked before it connects: the other side cannot say what is wrong."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from dosimeter.core.errors import Refusal
from dosimeter.engines import identity
from dosimeter.engines.certificates import Authority, fingerprint_of, write_certificate, write_key
from dosimeter.engines.identity import check_identity


def party(folder: Path, authority: Authority, days: int = 2) -> SimpleNamespace:
    """The files of a site, with a certificate of this authority."""
    folder.mkdir()
    certificate, key = authority.site("north", days)
    write_certificate(folder / "site.crt", certificate)
    write_key(folder / "site.key", key)
    write_certificate(folder / "ca.crt", authority.certificate)
    return SimpleNamespace(
        authority=folder / "ca.crt", certificate=folder / "site.crt", key=folder / "site.key",
        fingerprint=fingerprint_of(certificate), private=key,
    )  # fmt: skip


@pytest.fixture
def north(tmp_path: Path) -> SimpleNamespace:
    return party(tmp_path / "north", Authority.create("wards", 2))


def test_good_files_pass(north: SimpleNamespace) -> None:
    check_identity(north, north.fingerprint, "site 1, north")


def copied(name: str) -> Any:
    return lambda own, other: shutil.copy(getattr(other, name), getattr(own, name))


def with_passphrase(own: Any, other: Any) -> None:
    encrypted = BestAvailableEncryption(b"secret")
    own.key.write_bytes(own.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted))


FAULTS: dict[str, tuple[Any, str]] = {
    "another site's key": (copied("key"), "site.key is not the key of site.crt: take both from one folder"),
    "another authority": (copied("authority"), "site.crt is not signed by ca.crt"),
    "damaged certificate": (lambda own, other: own.certificate.write_text("x"), "site.crt is no certificate in PEM"),
    "damaged key": (lambda own, other: own.key.write_text("x"), "site.key is no private key in PEM"),
    "a passphrase": (with_passphrase, "site.key has a passphrase, and nobody is asked for it: remove it"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_files_that_do_not_fit_are_refused_in_one_line(fault: str, north: SimpleNamespace, tmp_path: Path) -> None:
    spoil, text = FAULTS[fault]
    spoil(north, party(tmp_path / "south", Authority.create("other", 2)))
    with pytest.raises(Refusal, match=text) as refusal:
        check_identity(north)
    assert "\n" not in str(refusal.value)


def test_the_folder_of_another_site_is_refused(north: SimpleNamespace) -> None:
    with pytest.raises(Refusal, match="not the certificate that the schema has for site 2, south"):
        check_identity(north, "0" * 64, "site 2, south")


def test_an_expired_certificate_says_when_and_what_to_do(tmp_path: Path) -> None:
    late = party(tmp_path / "late", Authority.create("wards", 2), days=-1)
    with pytest.raises(Refusal, match=r"site.crt expired at \d{4}-.* UTC: make a new consortium with"):
        check_identity(late)


def test_a_clock_that_is_behind_is_named(north: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=lambda zone: datetime.now(UTC) - timedelta(days=400))
    monkeypatch.setattr(identity, "datetime", clock)
    with pytest.raises(Refusal, match=r"site.crt is valid from .* UTC on: set the clock of this computer"):
        check_identity(north)
