"""Which edition a field belongs to, declared beside the field itself. A field without a mark is never published."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.fields import FieldInfo

Edition = Literal["public", "internal"]
Condition = Callable[[Any], bool]
"""The whole result -> whether a field of it may be published."""


def _amount(value: Any) -> Any:
    """JSON has no infinity: the word "unbounded" stands for it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value  # the type's own check refuses what is no number
    try:
        return "unbounded" if math.isinf(value) else float(value)
    except OverflowError:
        raise ValueError("a number beyond the largest, 1.8e308") from None


Amount = Annotated[float | Literal["unbounded"], BeforeValidator(_amount)]
"""A figure, or the word for infinity."""


class ResultModel(BaseModel):
    """A part of a result. Fields that are not declared are ignored when it is read, so they can never be published."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, populate_by_name=True)

    def shows(self, name: str) -> bool:
        """Whether this edition has the field, with a value."""
        return name in self.model_fields_set and getattr(self, name) is not None


def present(**values: Any) -> dict[str, Any]:
    """Keyword arguments without those that are None: a field that is not set is absent from the JSON.

    >>> present(spread=2.0, step=None)
    {'spread': 2.0}
    """
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Visibility:
    """public: fixed without looking at the table, or follows from the noised release. internal: everything else."""

    edition: Edition
    why: str
    when: Condition | None = None
    """Public only if the whole result says so: a scale that the user stated, but not one found in the data."""
    unless: str = ""
    """What makes a conditional field internal, if that may be published."""

    def is_public(self, result: Any) -> bool:
        """Whether the field may appear in the external edition of this result."""
        return self.edition == "public" and (self.when is None or self.when(result))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """The mark travels in the JSON Schema."""
        return {**handler(core), "x-edition": self.edition, "x-why": self.why}


def public(why: str, when: Condition | None = None, unless: str = "") -> Visibility:
    """A field that may be published.

    >>> public("given by the user").is_public(None), internal("a statistic of the data").is_public(None)
    (True, False)
    """
    return Visibility("public", why, when, unless)


def internal(why: str) -> Visibility:
    """A field that stays with the people who hold the table."""
    return Visibility("internal", why)


def visibility_of(field: FieldInfo) -> Visibility | None:
    """The mark of a field, if it has one."""
    return next((m for m in field.metadata if isinstance(m, Visibility)), None)


FORM = public("the form of the released artefact, visible to anyone who has it")
GIVEN = public("a setting, fixed before the table was read")
WORDS = public("text that is the same for every table")
NOISED = public("follows from the noised release and public rows alone")
STATISTIC = internal("a statistic of the data, without protection")
ONE = internal("about one person")
TOTALS = internal("people's totals in the ledger")
LOCAL = internal("local to the operator: file names and the like")
WHOLE = internal("marks the whole result as internal")
