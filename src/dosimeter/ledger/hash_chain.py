"""The hash chain: the digest of an entry is SHA-256 over the previous digest and the entry's canonical JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from dosimeter.core.errors import Refusal, Tampered

GENESIS_DIGEST = "0" * 64


def canonical(value: Any) -> str:
    """The canonical JSON of a value: sorted keys, no spaces, ASCII; nan and infinity are refused.

    >>> canonical({"b": 1, "a": "η"})
    '{"a":"\\\\u03b7","b":1}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except ValueError:
        raise Refusal("a recipe holds finite numbers only: nan and infinity cannot be booked") from None


def link(previous: str, body: str) -> str:
    """The digest of an entry, from the previous digest and its canonical JSON.

    >>> link(GENESIS_DIGEST, "{}")[:16]
    '5508d2b710e64bc4'
    """
    for text in (previous, body):
        if not isinstance(text, str) or not text.isascii():
            raise Tampered("an entry of the chain is not ASCII text: altered or damaged")
    return hashlib.sha256(previous.encode("ascii") + body.encode("ascii")).hexdigest()


def digest_of_rows(rows: Iterable[tuple[bytes, int]]) -> str:
    """SHA-256 over the (pseudonym, amount) rows; the caller sorts them by pseudonym."""
    digest = hashlib.sha256()
    for pseudonym, amount in rows:
        digest.update(pseudonym)
        digest.update(amount.to_bytes(8, "big"))
    return digest.hexdigest()


def sign(private: bytes, digest: str) -> str:
    """The Ed25519 signature of the digest's text, in hex."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private).sign(digest.encode("ascii")).hex()


def is_signed_by(public: str, digest: str, signature: str) -> bool:
    """Whether the signature is valid under this public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), digest.encode("ascii"))
    except (InvalidSignature, ValueError):
        return False
    return True


def new_signing_key() -> tuple[bytes, str]:
    """A new Ed25519 key: the private half, and the public half in hex."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw().hex()
