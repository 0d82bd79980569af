"""A schema as the text of its TOML file, completed with certificates and the noise of a training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.consortium_sections import COORDINATOR
from dosimeter.tables.declared_bounds import Range


def toml_text(value: Any) -> str:
    """A value as TOML writes it.

    >>> toml_text("a \\"b\\""), toml_text([1, 2.5]), toml_text(1e-6)
    ('"a \\\\"b\\\\""', '[1, 2.5]', '1e-06')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A text of JSON is a basic string of TOML, once DEL is escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    return repr(value)


def table_text(name: str, values: Mapping[str, Any]) -> str:
    """A table with its keys; those that are None are left out."""
    lines = [f"{key} = {toml_text(value)}" for key, value in values.items() if value is not None]
    return "\n".join([*([name] if name else []), *lines, ""])


def schema_text(schema: ConsortiumSchema) -> str:
    """The file that `read_schema` reads as this schema."""
    return "\n".join(_tables(schema))


def _tables(schema: ConsortiumSchema) -> Iterator[str]:
    fits = schema.loss != ""
    top = {"study": schema.study, "person": schema.person or None, "target": schema.target or None}
    yield table_text("", {**top, **({"loss": schema.loss, "l2": schema.l2} if fits else {})})
    terms = schema.release
    exact = fits and terms.noise_at == COORDINATOR
    yield table_text(
        "[release]",
        {
            "name": terms.name, "max-dose": terms.max_dose, "scale": terms.scale,
            "noise": terms.noise if exact else None, "epsilon": terms.epsilon, "delta": terms.delta,
            "noise-at": None if terms.noise_at == COORDINATOR else terms.noise_at,
        },
    )  # fmt: skip
    if schema.clients is not None:
        yield table_text("[clients]", schema.clients)
    if schema.components is not None:
        settings = schema.components
        yield table_text("[components]", {"components": settings.components, "mean-share": settings.mean_share})
    if schema.training is not None:
        t = schema.training
        yield table_text(
            "[training]",
            {
                "rounds": t.rounds, "architecture": t.architecture, "hidden": list(t.hidden) or None,
                "learning-rate": t.learning_rate, "momentum": t.momentum, "clip": t.clip,
                "clip-quantile": t.clip_quantile, "patients-per-round": t.per_round, "noise-multiplier": t.noise,
            },
        )  # fmt: skip
    for name, column in schema.columns.items():
        heading = f"[columns.{toml_text(name)}]"
        if isinstance(column, Range):
            yield table_text(heading, {"lower": column.lower, "upper": column.upper, "centre": column.centre})
        else:
            yield table_text(heading, {"levels": list(column)})
    for site in schema.sites:
        yield table_text(
            "[[sites]]",
            {"name": site.name, "certificate": site.certificate or None, "patients": site.patients},
        )
