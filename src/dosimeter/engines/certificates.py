"""The certificates of a consortium: an authority of its own, and one certificate for each role that fits no other."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

EARLIER = timedelta(minutes=5)
"""A certificate is valid a little before it was made: clocks differ."""


@dataclass(frozen=True)
class Authority:
    """Signs the certificates of one consortium. Its key stays with the administrator who set the consortium up."""

    certificate: x509.Certificate
    key: Any

    @classmethod
    def create(cls, study: str, days: int) -> Authority:
        """A new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{study} authority")
        builder = _builder(name, name, key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    def coordinator(self, host: str, days: int) -> tuple[x509.Certificate, Any]:
        """A certificate that proves to sites who the coordinator is, and nothing else."""
        try:
            place: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            place = x509.DNSName(host)
        return self._sign("coordinator", ExtendedKeyUsageOID.SERVER_AUTH, days, [place])

    def site(self, name: str, days: int) -> tuple[x509.Certificate, Any]:
        """A certificate that proves to the coordinator which site it is, and nothing else."""
        return self._sign(name, ExtendedKeyUsageOID.CLIENT_AUTH, days, [])

    def _sign(self, name: str, use: Any, days: int, places: list[x509.GeneralName]) -> tuple[x509.Certificate, Any]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self.certificate.subject, key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if places:
            builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
        return builder.sign(self.key, hashes.SHA256()), key


def fingerprint_of(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate, hex: how roster and sites name it."""
    return sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def write_certificate(path: Path, certificate: x509.Certificate) -> None:
    """The certificate in PEM."""
    write_private(path, certificate.public_bytes(serialization.Encoding.PEM))


def write_key(path: Path, key: Any) -> None:
    """The private key in PEM, readable by its owner only."""
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_private(path, key.private_bytes(pem, pkcs8, serialization.NoEncryption()))


def write_private(path: Path, content: bytes) -> None:
    """A new file of mode 0600; an existing one is never replaced."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _builder(name: x509.Name, issuer: x509.Name, public_key: Any, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, name, public_key, x509.random_serial_number())
    builder = builder.not_valid_before(min(now - EARLIER, now + timedelta(days=days) - EARLIER))
    builder = builder.not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
