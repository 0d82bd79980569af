"""The protocol's bytes inside Flower's messages: one record with one value. Import after `flower_settings.prepare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.app import ConfigRecord, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

RECORD, VALUE = "dosimeter", "bytes"
KIND = "query"
MOST_OBJECTS = 3
"""A message is itself, its record dictionary and one record: an object tree of another size is refused."""
OVERHEAD = 4096
"""Bytes of a Flower message besides ours, at most."""


def wrapped(data: bytes, *, run: int, source: int, to: int, ttl: float, replies_to: str = "") -> Message:
    """A message that carries these bytes and lives `ttl` seconds."""
    metadata = Metadata(
        run_id=run,
        message_id="",
        src_node_id=source,
        dst_node_id=to,
        reply_to_message_id=replies_to,
        group_id="",
        created_at=now().timestamp(),
        ttl=ttl,
        message_type=KIND,
    )
    message = make_message(metadata=metadata, content=RecordDict({RECORD: ConfigRecord({VALUE: data})}))
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def objects_of(message: Message) -> tuple[Any, dict[str, bytes]]:
    """The object tree of a message, and the bytes of each object in it."""
    with no_object_id_recompute():
        objects = get_all_nested_objects(message)
        return get_object_tree(message), {key: each.deflate() for key, each in objects.items()}


def unwrapped(tree: Any, content: Callable[[str], bytes | None]) -> bytes | None:
    """The bytes that a message carries, b"" if they are no such message; None while an object is still on its way."""
    keys = [each.object_id for each in _bounded(tree)]
    if len(keys) > MOST_OBJECTS:
        return b""
    contents = {key: content(key) for key in keys}
    if any(each is None for each in contents.values()):
        return b""
    if any(each == b"" for each in contents.values()):
        return None
    try:
        message: Any = inflate_object_from_contents(tree.object_id, contents)
        data = message.content.config_records[RECORD][VALUE]
    except Exception:  # an object of another kind, a missing key, damaged bytes
        return b""
    return data if type(data) is bytes else b""


def _bounded(tree: Any) -> list[Any]:
    """The nodes of a tree, at most one more than a message has."""
    nodes = []
    for node in iterate_object_tree(tree):
        nodes.append(node)
        if len(nodes) > MOST_OBJECTS:
            break
    return nodes
