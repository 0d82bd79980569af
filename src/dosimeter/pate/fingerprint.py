"""Settings in words that change when a setting does and not from run to run: what tells a stale state from a good one.

A repr will not do: that of a lambda is an address, of a long array its ends, of a large estimator its beginning.
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
_HERE = secrets.token_hex(8)
"""Of this process: in the words for what cannot be described, so that no other process takes it for its own."""


def in_words(value: Any, within: tuple[int, ...] = ()) -> str:
    """A value by what it holds, a function by its code; `within` are the objects that are being described around it.

    Not seen: the code of classes, and of functions that a function finds in its module. What can be neither taken
    apart nor pickled has words that hold for this process alone.

    >>> in_words({"power": 2, "of": [1.5, "a"]})
    "{'power': 2, 'of': [1.5, 'a']}"
    >>> in_words(lambda x: x + 1) == in_words(lambda x: x + 2)
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
        told = ", ".join(f"{name}={in_words(settings[name], inside)}" for name in sorted(settings))
        return f"{_name(type(value))}({told})"
    return f"{_name(type(value))} {_parts(value, inside)}".rstrip()


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _members(value: Any, inside: tuple[int, ...]) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{in_words(k, inside)}: {in_words(v, inside)}" for k, v in value.items()) + "}"
    told = [in_words(one, inside) for one in value]
    # A set of words has another order in every process.
    opened, closed = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    return opened + ", ".join(told if opened != "{" else sorted(told)) + closed


def _code_of(function: Any, inside: tuple[int, ...]) -> str:
    """Changes with a function's body, defaults, closure, owner, and the numbers and text it finds in its module."""
    names, known = function.__code__.co_names, function.__globals__
    told = (
        getattr(function, "__self__", None),
        function.__defaults__,
        function.__kwdefaults__,
        dict(inspect.getclosurevars(function).nonlocals),
        {name: known[name] for name in names if isinstance(known.get(name), str | int | float)},
    )
    body = _body(function.__code__, inside) + in_words(told, inside)
    return hashlib.blake2b(body.encode(), digest_size=8).hexdigest()


def _body(code: Any, inside: tuple[int, ...]) -> str:
    """Of a function's code and of the functions inside it."""
    constants = [_body(c, inside) if hasattr(c, "co_code") else in_words(c, inside) for c in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _parts(value: Any, inside: tuple[int, ...]) -> str:
    """As pickle would take it apart, with the code that runs when it is called."""
    called = ""
    if callable(value) and hasattr(type(value).__call__, "__code__"):
        called = _code_of(type(value).__call__, inside)
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        parts: Any = value.__reduce_ex__(2) if reduce is None else reduce(value)
    except Exception:  # whatever a foreign class raises: locks, connections, generators
        return f"{called} of process {_HERE}, {id(value)}".lstrip()
    if isinstance(parts, str):  # the name under which its module has it
        return f"{getattr(value, '__module__', '?')}.{parts}"
    made = [part if k < 3 or part is None else list(part) for k, part in enumerate(parts)]
    return f"{called} {in_words(made, inside)}".lstrip()
