"""Results of a pass on their way from a worker to the client, which a scheduler carries but cannot read.

The client sends a public key (X25519) with each pass. The worker that finishes it encrypts the result under a key that
only the client can derive (HKDF-SHA256, AES-256-GCM). This is against a scheduler that looks. One that acts could send
its own tasks to the workers: see the sharp edges.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dosimeter.engines.dask_tasks import Sealed

_PURPOSE = b"dosimeter: a result of a pass"
_KEY, _NONCE = 32, 12


class Recipient:
    """The client's side: a key pair of one pass.

    >>> recipient = Recipient()
    >>> letter = enclose((1, 2.0), recipient.address)
    >>> recipient.open(letter)
    (1, 2.0)
    """

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()

    @property
    def address(self) -> Sealed:
        """The public key, as it is sent to the workers."""
        return Sealed(self._key.public_key().public_bytes_raw())

    def open(self, letter: Sealed) -> Any:
        """The value that a worker enclosed."""
        sender, nonce, content = (
            letter.content[:_KEY],
            letter.content[_KEY : _KEY + _NONCE],
            letter.content[_KEY + _NONCE :],
        )
        secret = self._key.exchange(X25519PublicKey.from_public_bytes(sender))
        return pickle.loads(AESGCM(_derive(secret)).decrypt(nonce, content, sender))  # noqa: S301 - from our own workers


def enclose(value: Any, address: Sealed) -> Sealed:
    """The value, readable by the recipient only. Runs on a worker."""
    own, nonce = X25519PrivateKey.generate(), os.urandom(_NONCE)
    sender = own.public_key().public_bytes_raw()
    secret = own.exchange(X25519PublicKey.from_public_bytes(address.content))
    content = AESGCM(_derive(secret)).encrypt(nonce, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), sender)
    return Sealed(sender + nonce + content)


def _derive(secret: bytes) -> bytes:
    return HKDF(SHA256(), _KEY, None, _PURPOSE).derive(secret)
