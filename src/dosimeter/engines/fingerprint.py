"""A fingerprint of a function and the values that it carries: equal values give equal fingerprints in every process.

Not of its pickle: two pickles of equal values may differ in which of their parts are one object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np


def fingerprint(value: Any) -> str:
    """32 hexadecimal digits.

    >>> fingerprint(partial(max, 1)) == fingerprint(partial(max, 1)), fingerprint((1, 2)) == fingerprint((1, 3))
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    digest.update(f"<{type(value).__name__}>".encode())
    if value is None or isinstance(value, bool | int | str | bytes | Enum | PurePath):
        digest.update(repr(value).encode())
    elif isinstance(value, np.bool | np.integer):
        digest.update(repr(value.item()).encode())
    elif isinstance(value, float | np.floating):
        digest.update(float(value).hex().encode())
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(repr((value.dtype.str, value.shape)).encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.ndarray):
        _feed(digest, value.tolist())
    elif isinstance(value, tuple | list):
        for item in value:
            _feed(digest, item)
    elif isinstance(value, set | frozenset):
        _feed(digest, sorted(map(repr, value)))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _feed(digest, key)
            _feed(digest, item)
    elif isinstance(value, partial):
        for item in (value.func, value.args, value.keywords):
            _feed(digest, item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            digest.update(field.name.encode())
            _feed(digest, getattr(value, field.name))
    elif hasattr(value, "__self__") and hasattr(value, "__func__"):
        _feed(digest, value.__func__)
        _feed(digest, value.__self__)
    elif hasattr(value, "__qualname__"):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif hasattr(value, "__dict__"):
        _feed(digest, vars(value))
    else:
        raise TypeError(f"a {type(value).__name__} has no fingerprint")
    digest.update(b"</>")
