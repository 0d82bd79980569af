"""The base of all results: one frozen type per verb, registered by its class, versioned by its schema name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.core.version import __version__
from dosimeter.results.parts import Provenance
from dosimeter.results.to_json import JsonObject, to_json
from dosimeter.results.visibility import GIVEN, WORDS, ResultModel, visibility_of

REGISTRY: dict[str, type[Result]] = {}
"""Schema name -> the type of the result. `Result.__init_subclass__` fills it."""


class Result(ResultModel):
    """What a verb returns: every figure with its unit and standing, every field marked public or internal.

    A subclass sets `schema_name` ("dosimeter.measurement/3") and declares each field with `public(...)` or
    `internal(...)`. Build one with its `of(...)`. Show it with `print`, `to_html`, `to_json`, `to_frame`, or in
    a notebook.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True)

    schema_name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    """The heading of its report."""
    internal_note: ClassVar[str] = "Internal: computed from the data without protection. Do not publish."
    """What the internal edition says about itself."""
    public_only: ClassVar[bool] = False
    """Whether it is computed from public numbers alone, so that nothing in it is internal."""

    schema_: Annotated[str, WORDS, Field(alias="schema")] = ""
    version: Annotated[str, WORDS] = __version__
    reproduce: Annotated[Provenance | None, GIVEN] = None
    """How to run it again."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if cls.schema_name:
            REGISTRY[cls.schema_name] = cls

    @model_validator(mode="before")
    @classmethod
    def _named(cls, values: Any) -> Any:
        """The schema's name and the version are set by the type, so that they are always in the JSON."""
        if isinstance(values, Mapping):
            return {"schema": cls.schema_name, "version": __version__, **values}
        return values

    def with_fields(self, **values: Any) -> Self:
        """The same result with some fields set: a booking, a digest, the command that made it."""
        return self.model_copy(update=values)

    def to_dict(self) -> JsonObject:
        """Plain values, as JSON has them; only fields that were set."""
        values: JsonObject = to_json(self.model_dump(by_alias=True, exclude_unset=True))
        return values

    def to_json(self) -> str:
        """The result as JSON text. It holds internal figures: do not publish it."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=True, allow_nan=False) + "\n"

    def to_html(self, edition: Literal["external", "internal"] = "external") -> str:
        """The report as one self-contained HTML page."""
        return str(_renderer("html").to_html(self, edition))

    def to_card(self) -> str:
        """A section for a model card, in Markdown. External content only."""
        return str(_renderer("model_card").to_card(self))

    def to_text(self) -> str:
        """The internal report as plain text, as a terminal shows it."""
        return str(_renderer("terminal").to_text(self))

    def to_frame(self, kind: str = "pandas") -> Any:
        """The main table of the result as a dataframe."""
        return _renderer("frame").to_frame(self, kind)

    def plot(self) -> Any:
        """The main chart of the result: a notebook draws it, and `.write("chart.html")` makes a page of it."""
        return _renderer("plot").plot(self)

    def __repr__(self) -> str:
        """One line: all fields would fill several screens."""
        return f"<{type(self).__name__} ({self.schema_name}): print() shows it; .to_html(), .to_json(), .to_frame()>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return str(_renderer("notebook").to_notebook(self))


def _renderer(name: str) -> Any:
    """A module of `report`, loaded by its name: results are read and stored without templates or charts."""
    from importlib import import_module

    return import_module(f"dosimeter.reports.{name}")


def load_types() -> Mapping[str, type[Result]]:
    """All registered types. A new result is one module and its name here."""
    from importlib import import_module

    for module in (
        "answers", "attack", "check", "components", "consortium", "federated", "labels", "ledger", "linear",
        "measurement", "reproduction", "scan",
    ):  # fmt: skip
        import_module(f"dosimeter.results.{module}")
    return REGISTRY


def read(values: JsonObject) -> Result:
    """Parsed JSON as the result that it is. Refused if it does not fit its schema.

    >>> read({"schema": "dosimeter.measurement/1"})
    Traceback (most recent call last):
    dosimeter.core.errors.Refusal: schema dosimeter.measurement/1 is not known here: this version reads
    dosimeter.measurement/3; make the result again
    """
    known = load_types()
    name = values.get("schema") if isinstance(values, Mapping) else None
    kind = known.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Refusal(_unknown(name, known))
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(f"the result does not fit {name}: {safe_text(where)}: {safe_text(first['msg'])}") from None


def _unknown(name: Any, known: Mapping[str, type[Result]]) -> str:
    if not isinstance(name, str):
        return "this is not a result of dosimeter: it has no field schema; pass what --json wrote"
    same = [schema for schema in known if schema.split("/")[0] == name.split("/")[0]]
    reads = f"this version reads {same[0] if same else ', '.join(known)}"
    return f"schema {safe_text(name)} is not known here: {reads}; make the result again"


def json_schema() -> JsonObject:
    """JSON Schema (2020-12) of all results, each field with its edition (x-edition) and the reason (x-why).

    >>> "Provenance" in json_schema()["$defs"]
    True
    """
    from functools import reduce
    from operator import or_

    from pydantic import TypeAdapter

    schema: JsonObject = TypeAdapter(reduce(or_, load_types().values())).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "results of dosimeter", **schema}


def undeclared(values: JsonObject) -> list[str]:
    """Paths of values that the schema does not declare: reading ignores them."""
    return sorted(set(_undeclared(read(values), dict(values), "")))


def _undeclared(model: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(model, BaseModel) and isinstance(value, dict):
        names = {field.alias or name: name for name, field in type(model).model_fields.items()}
        for key, inner in value.items():
            if key not in names:
                yield f"{path}{key}"
            else:
                yield from _undeclared(getattr(model, names[key]), inner, f"{path}{key}.")
    elif isinstance(model, list | tuple) and isinstance(value, list):
        for part, inner in zip(model, value, strict=True):
            yield from _undeclared(part, inner, path)


def fields(model: type[ResultModel], path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, mark) of every field of a model and of its parts."""
    for name, field in model.model_fields.items():
        yield f"{path}{field.alias or name}", visibility_of(field)
        for part in part_types(field.annotation):
            yield from fields(part, f"{path}{name}.")


def part_types(annotation: Any) -> Iterator[type[ResultModel]]:
    """The parts that a field holds."""
    if isinstance(annotation, type) and issubclass(annotation, ResultModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from part_types(inner)
