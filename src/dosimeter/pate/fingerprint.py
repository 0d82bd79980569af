"""Settings as text that changes when a setting does, but not from run to run: it detects a stale state.

A repr is not enough: that of a lambda is an address, of a long array only its ends, of a large estimator its beginning.
"""

from __future__ import annotations

import copyreg
import hashlib
import inspect
import secrets
from types import ModuleType
from typing import Any

import numpy as np

from dosimeter.pate.partition import digest_of

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice)
_PROCESS = secrets.token_hex(8)
"""Identifies this process in the text for what cannot be described, so that no other process accepts it."""


def describe(value: Any, within: tuple[int, ...] = ()) -> str:
    """A value by its content, a function by its code; `within` holds the ids of the enclosing objects.

    Not covered: the code of classes, and of functions that a function finds in its module. A value that can be neither
    taken apart nor pickled gets text that is valid for this process alone.

    >>> describe({"power": 2, "of": [1.5, "a"]})
    "{'power': 2, 'of': [1.5, 'a']}"
    >>> describe(lambda x: x + 1) == describe(lambda x: x + 2)
    False
    """
    if type(value) in _PLAIN or isinstance(value, np.generic):
        return repr(value)
    if isinstance(value, type | ModuleType):
        return _name(value) if isinstance(value, type) else f"module {value.__name__}"
    if id(value) in within:
        return "itself"
    inside = (*within, id(value))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {digest_of(value)}"
    if type(value) in (list, tuple, set, frozenset, dict):
        return _members(value, inside)
    if hasattr(value, "__code__"):
        return f"{_name(value)} {_code_of(value, inside)}"
    if hasattr(value, "get_params"):
        settings = value.get_params(deep=False)
        parameters = ", ".join(f"{name}={describe(settings[name], inside)}" for name in sorted(settings))
        return f"{_name(type(value))}({parameters})"
    return f"{_name(type(value))} {_parts(value, inside)}".rstrip()


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _members(value: Any, inside: tuple[int, ...]) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{describe(k, inside)}: {describe(v, inside)}" for k, v in value.items()) + "}"
    items = [describe(item, inside) for item in value]
    # A set of strings has another order in every process.
    opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    return opening + ", ".join(items if opening != "{" else sorted(items)) + closing


def _code_of(function: Any, inside: tuple[int, ...]) -> str:
    """Changes with a function's body, defaults, closure, owner, and the numbers and text it finds in its module."""
    names, known = function.__code__.co_names, function.__globals__
    context = (
        getattr(function, "__self__", None),
        function.__defaults__,
        function.__kwdefaults__,
        dict(inspect.getclosurevars(function).nonlocals),
        {name: known[name] for name in names if isinstance(known.get(name), str | int | float)},
    )
    body = _body(function.__code__, inside) + describe(context, inside)
    return hashlib.blake2b(body.encode(), digest_size=8).hexdigest()


def _body(code: Any, inside: tuple[int, ...]) -> str:
    """A function's code and that of the functions inside it."""
    constants = [_body(c, inside) if hasattr(c, "co_code") else describe(c, inside) for c in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _parts(value: Any, inside: tuple[int, ...]) -> str:
    """As pickle would take it apart, with the code that runs when it is called."""
    called = ""
    if callable(value) and hasattr(type(value).__call__, "__code__"):
        called = _code_of(type(value).__call__, inside)
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        parts: Any = value.__reduce_ex__(2) if reduce is None else reduce(value)
    except Exception:  # a foreign class may raise anything: locks, connections, generators
        return f"{called} of process {_PROCESS}, {id(value)}".lstrip()
    if isinstance(parts, str):  # its name in its module
        return f"{getattr(value, '__module__', '?')}.{parts}"
    values = [part if k < 3 or part is None else list(part) for k, part in enumerate(parts)]
    return f"{called} {describe(values, inside)}".lstrip()
