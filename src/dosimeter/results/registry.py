"""The versioned facts: what `--json` prints is one of these models, and the report is made of it.

Each field says to which edition it belongs (`marks`); docs/report-editions.md has the table with the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.results.components import ComponentsRelease
from dosimeter.results.federated import FederatedPlan, FederatedRelease
from dosimeter.results.labels import LabelRelease
from dosimeter.results.linear import LinearRelease, Measurement
from dosimeter.results.to_json import plain
from dosimeter.results.visibility import ResultModel, mark_of

KINDS: dict[str, type[ResultModel]] = {
    "dosimeter.measurement/2": Measurement,
    "dosimeter.repair/2": LinearRelease,
    "dosimeter.components/2": ComponentsRelease,
    "dosimeter.pate/2": LabelRelease,
    "dosimeter.federate/2": FederatedRelease,
    "dosimeter.federate-plan/2": FederatedPlan,
}
"""The field "schema" of the facts -> their model."""


def read(facts: Mapping[str, Any]) -> ResultModel:
    """The facts as their model; refused where they are not what their schema says.

    >>> read({"schema": "dosimeter.measurement/1"})
    Traceback (most recent call last):
    dosimeter.core.errors.Refusal: schema dosimeter.measurement/1 is not known here: this version reads
    dosimeter.measurement/2; make the result again
    """
    name = facts.get("schema") if isinstance(facts, Mapping) else None
    model = KINDS.get(name) if isinstance(name, str) else None
    if model is None:
        raise Refusal(_unknown(name))
    try:
        return model.model_validate(plain(dict(facts)))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(f"the facts do not fit {name}: {safe_text(where)}: {safe_text(first['msg'])}") from None


def _unknown(name: Any) -> str:
    if not isinstance(name, str):
        return "this is not a result of dosimeter: it has no field schema; pass what --json wrote"
    same = [known for known in KINDS if known.split("/")[0] == name.split("/")[0]]
    reads = f"this version reads {same[0] if same else ', '.join(KINDS)}"
    return f"schema {safe_text(name)} is not known here: {reads}; make the result again"


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of all facts, each field with its edition (x-edition) and the reason (x-why).

    >>> sorted(json_schema()["$defs"])[:3]
    ['Accuracies', 'Accuracy', 'Asked']
    """
    union: Any = None
    for model in KINDS.values():
        union = model if union is None else union | model
    made: dict[str, Any] = TypeAdapter(union).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "facts of dosimeter", **made}


def unlisted(facts: Mapping[str, Any]) -> list[str]:
    """Paths of what stands in the facts and not in their schema: it would appear in the internal edition alone."""
    return sorted(set(_unlisted(read(facts), plain(dict(facts)), "")))


def _unlisted(model: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(model, BaseModel) and isinstance(value, dict):
        for key, inner in value.items():
            name = "schema_" if key == "schema" else key
            if name not in type(model).model_fields:
                yield f"{path}{key}"
            else:
                yield from _unlisted(getattr(model, name), inner, f"{path}{key}.")
    elif isinstance(model, list) and isinstance(value, list):
        for one, inner in zip(model, value, strict=True):
            yield from _unlisted(one, inner, path)


def fields(model: type[ResultModel], path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, mark) of every field of a model and of its parts."""
    for name, field in model.model_fields.items():
        yield f"{path}{field.alias or name}", mark_of(field)
        for part in _parts(field.annotation):
            yield from fields(part, f"{path}{name}.")


def _parts(annotation: Any) -> Iterator[type[ResultModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ResultModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _parts(inner)
