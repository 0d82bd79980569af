"""The two editions of a result: internal has everything, external only what is marked public.

External is made from a list of what may be published, never from a list of what may not. So a new field stays internal
until someone has marked it. docs/reference/results.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from dosimeter.results.result import Result, fields, load_types, part_types
from dosimeter.results.visibility import visibility_of

Edition = Literal["external", "internal"]
R = TypeVar("R", bound=Result)

SAYS = {
    "external": (
        "External edition: settings, guarantees and what follows from the noised release. Whatever else was read off "
        "the data is named under “not covered”."
    ),
    "internal": Result.internal_note,
}
PUBLIC = "Computed from public numbers alone: no table was read."


def says(result: Result, edition: Edition) -> str:
    """What an edition of a result holds, in a sentence."""
    if result.public_only:
        return PUBLIC
    return SAYS["external"] if edition == "external" else result.internal_note


def external(result: R) -> R:
    """The same type with the public fields alone. A field that is withheld is absent: `shows` is False for it, and
    reading it raises AttributeError unless it has a default."""
    public: R = _public(result, result)
    return public


def _public(model: Any, result: Result) -> Any:
    values: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        mark, value = visibility_of(field), getattr(model, name)
        if name in model.model_fields_set and mark is not None and mark.is_public(result):
            values[name] = _public_value(value, result)
    # model_construct: a withheld field that is required stays absent instead of being refused. It takes aliases.
    aliased = {type(model).model_fields[name].alias or name: value for name, value in values.items()}
    shown = {name for name, value in values.items() if value is not None}
    return type(model).model_construct(_fields_set=shown, **aliased)


def _public_value(value: Any, result: Result) -> Any:
    if isinstance(value, BaseModel):
        return _public(value, result)
    if isinstance(value, list | tuple):
        return [_public_value(part, result) for part in value]
    return value


PAGE_FIELDS: Mapping[str, TypeAdapter[Any]] = {
    "edition": TypeAdapter(Literal["external"]),
    "says": TypeAdapter(str),
    "sentence": TypeAdapter(str),
    "withheld": TypeAdapter(list[str]),
    "statistics": TypeAdapter(dict[str, Any]),
}
"""What the JSON of an external edition has beside the fields of its result, and of which type."""


def internal_fields(kind: type[Result], values: Mapping[str, object]) -> Iterator[str]:
    """Paths in a result's JSON that are not public, that its type does not declare, or that hold another type.

    >>> from dosimeter.results.result import load_types
    >>> kind = load_types()["dosimeter.measurement/3"]
    >>> list(internal_fields(kind, {"noise": "Gaussian(sigma=1.0)", "dose": {"highest": 3.0}, "mine": 1}))
    ['dose', 'mine']
    >>> list(internal_fields(kind, {"noise": [[61.2, 24.8], [47.0, 31.5]]}))
    ['noise']
    """
    page = {key: value for key, value in values.items() if key in PAGE_FIELDS}
    yield from (key for key, value in page.items() if not _fits(PAGE_FIELDS[key], value))
    yield from _internal(kind, {key: values[key] for key in values if key not in page}, "", kind.public_only)


def _internal(kind: Any, values: Mapping[str, object], path: str, all_public: bool) -> Iterator[str]:
    names = {field.alias or name: field for name, field in kind.model_fields.items()}
    for key, value in values.items():
        mark = visibility_of(names[key]) if key in names else None
        if mark is None or (mark.edition == "internal" and not all_public):
            yield f"{path}{key}"
            continue
        parts = list(part_types(names[key].annotation))
        entries = value if isinstance(value, list) else [value]
        records = [entry for entry in entries if isinstance(entry, Mapping)]
        if parts and len(records) == len(entries):
            for entry in records:
                # Of several types that the field may hold, the one that explains most.
                choices = (list(_internal(part, entry, f"{path}{key}.", all_public)) for part in parts)
                yield from min(choices, key=len)
        elif not _fits(_type_of(kind, key), value):
            yield f"{path}{key}"


@cache
def _type_of(kind: Any, key: str) -> TypeAdapter[Any]:
    """The type of a field by its name in the JSON."""
    names = {field.alias or name: field for name, field in kind.model_fields.items()}
    return TypeAdapter(names[key].annotation)


def _fits(kind: TypeAdapter[Any], value: Any) -> bool:
    try:
        kind.validate_python(value)
    except ValidationError:
        return False
    return True


def withheld(result: Result) -> list[str]:
    """What other results of this type publish and this one does not, with the reason, where that may be said."""
    by_reason: dict[str, list[str]] = {}
    for path, why in _withheld(result, result, ""):
        by_reason.setdefault(why, []).append(path)
    return [f"{', '.join(paths)}: {why}" for why, paths in by_reason.items()]


def _withheld(model: BaseModel, result: Result, path: str) -> Iterator[tuple[str, str]]:
    for name, field in type(model).model_fields.items():
        mark, value = visibility_of(field), getattr(model, name)
        if value is None or mark is None or mark.edition == "internal":
            continue
        if mark.unless and not mark.is_public(result):
            yield f"{path}{name}", mark.unless
        elif isinstance(value, BaseModel) and mark.is_public(result):
            yield from _withheld(value, result, f"{path}{name}.")


def table() -> str:
    """Every field, its edition and the reason, in Markdown for docs/reference/results.md."""
    lines = []
    for schema, kind in sorted(load_types().items()):  # in an order that no import decides
        lines += [f"### {schema}", "", "| field | edition | why |", "|---|---|---|"]
        inside: tuple[str, ...] = ()
        for path, mark in fields(kind):
            if path.startswith(inside):
                continue
            edition = "public" if mark.when is None else f"public, unless {mark.unless or 'it was not kept'}"
            lines.append(f"| `{path}` | {edition if mark.edition == 'public' else 'internal'} | {mark.why} |")
            inside = inside if mark.edition == "public" else (*inside, f"{path}.")
        lines.append("")
    return "\n".join(lines)
