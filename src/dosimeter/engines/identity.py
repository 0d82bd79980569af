"""Whether a party's own certificate and key are good, before it connects: what is wrong is known here and said here.

The other side refuses a bad certificate too, but it cannot say why: a connection that is closed is all that is seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

_INIT = "`dosimeter federate init`"


class Identity(Protocol):
    """The files of a party, as `ServerPlace` and `SitePlace` have them."""

    @property
    def authority(self) -> Path:
        """The certificate of the authority."""
        ...

    @property
    def certificate(self) -> Path:
        """Its own."""
        ...

    @property
    def key(self) -> Path:
        """The private key of it."""
        ...


def check_identity(place: Identity, expected: str = "", whose: str = "") -> None:
    """Refuse files that the other side would not accept, in one line that says what to do.

    expected: SHA-256 of the certificate on the roster, hex; "" if there is none. whose: who has it there.
    """
    from dosimeter.engines.certificates import fingerprint_of

    certificate, authority = _certificate(place.certificate), _certificate(place.authority)
    name, key = safe_text(place.certificate.name), _key(place.key)
    if key.public_key() != certificate.public_key():
        raise Refusal(f"{safe_text(place.key.name)} is not the key of {name}: take both from one folder of {_INIT}")
    if expected and fingerprint_of(certificate) != expected:
        raise Refusal(f"{name} is not the certificate that the schema has for {whose}: take it from that folder")
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:
        ca = safe_text(place.authority.name)
        raise Refusal(f"{name} is not signed by {ca}: take both from one folder of {_INIT}") from None
    for each, path in ((certificate, place.certificate), (authority, place.authority)):
        _check_dates(each, safe_text(path.name))


def say_if_readable(place: Identity, say: Callable[[str], None]) -> None:
    """Say if other users of this computer can read the private key: a copy over a network often makes it so."""
    if os.name == "posix" and place.key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        name = safe_text(place.key.name)
        say(f"other users of this computer can read or write {name}: chmod 600 {name}")


def _check_dates(certificate: Any, name: str) -> None:
    now = datetime.now(UTC)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        raise Refusal(f"{name} is valid from {first:%Y-%m-%d %H:%M} UTC on: set the clock of this computer")
    if now > last:
        todo = f"make a new consortium with {_INIT}, or set the clock of this computer if it is wrong"
        raise Refusal(f"{name} expired at {last:%Y-%m-%d %H:%M} UTC: {todo}")


def _certificate(path: Path) -> Any:
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise Refusal(f"{safe_text(path.name)} is no certificate in PEM: copy it again as {_INIT} wrote it") from None


def _key(path: Path) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(path.read_bytes(), None)
    except TypeError:
        raise Refusal(f"{safe_text(path.name)} has a passphrase, and nobody is asked for it: remove it") from None
    except Exception:
        raise Refusal(f"{safe_text(path.name)} is no private key in PEM: copy it again as {_INIT} wrote it") from None
