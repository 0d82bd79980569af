"""Bits: the AES-256-CTR keystream under a key that the operating system gives at each call.

No seed and no stored state, so there is nothing to copy: a forked child, a pickled mechanism and a repeated call each
ask for a key of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal

Words = NDArray[np.uint64]
Bits = Callable[[int], Words]
"""A source of independent uniform 64-bit words: n -> (n,)."""

_KEY_BYTES = 32  # AES-256


def fresh() -> Bits:
    """A source under a new key, to be used within one call and dropped.

    >>> bits = fresh()
    >>> bits(3).shape, bool((bits(4) == bits(4)).all())
    ((3,), False)
    """
    # Late: the import takes 35 ms, and whoever only simulates or asks for a grid does not need it.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # The counter starts at 0: a block repeats only if a key does.
    stream = Cipher(algorithms.AES(_key()), modes.CTR(bytes(16))).encryptor()
    return lambda n: np.frombuffer(stream.update(bytes(8 * n)), dtype="<u8").astype(np.uint64, copy=False)


def _key() -> bytes:
    """32 bytes of the operating system, or a refusal: there is no second-best source."""
    try:
        key = os.urandom(_KEY_BYTES)
    except (OSError, NotImplementedError) as error:
        raise Refusal(
            f"the operating system gave no random bytes ({error}): no noise, so nothing is released"
        ) from None
    if len(key) != _KEY_BYTES:
        raise Refusal(f"the operating system gave {len(key)} random bytes, not {_KEY_BYTES}: nothing is released")
    return key
