"""Random bits: an AES-256-CTR keystream under a new key from the operating system at each call.

There is no seed and no stored state that could be copied: a forked child, a pickled mechanism and a repeated call each
request their own key.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal

RandomWords = NDArray[np.uint64]
Bits = Callable[[int], RandomWords]
"""A source of independent uniform 64-bit words: n -> (n,)."""

_KEY_BYTES = 32  # AES-256


def fresh_bits() -> Bits:
    """A source under a new key, to be used within one call and then discarded.

    >>> bits = fresh_bits()
    >>> bits(3).shape, bool((bits(4) == bits(4)).all())
    ((3,), False)
    """
    # Late: the import takes 35 ms, and simulations and grids do not need it.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # The counter starts at 0: a block can repeat only if a key does.
    stream = Cipher(algorithms.AES(_key()), modes.CTR(bytes(16))).encryptor()
    return lambda n: np.frombuffer(stream.update(bytes(8 * n)), dtype="<u8").astype(np.uint64, copy=False)


def _key() -> bytes:
    """32 random bytes from the operating system; refused if it has none, because there is no safe substitute."""
    try:
        key = os.urandom(_KEY_BYTES)
    except (OSError, NotImplementedError) as error:
        raise Refusal(
            f"the operating system returned no random bytes ({error}): without noise nothing is released"
        ) from None
    if len(key) != _KEY_BYTES:
        raise Refusal(f"the operating system returned {len(key)} random bytes, not {_KEY_BYTES}: nothing is released")
    return key
