"""Which edition a fact belongs to, written beside the fact itself: without a mark it never leaves the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

Edition = Literal["public", "internal"]
Condition = Callable[[Mapping[str, Any]], bool]
Amount = float | Literal["unbounded"]
"""A figure, or the word for infinity."""


class ResultModel(BaseModel):
    """A part of what a verb prints. Fields that are not listed are read over, and can therefore not get out."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Visibility:
    """public: a constant that was fixed without the table, or follows from the noised release. internal: the rest."""

    edition: Edition
    why: str
    when: Condition | None = None
    """Public only where the whole of the facts says so: a scale that somebody stated, and not one found in the data."""
    unless: str = ""
    """In words, what makes a conditional field internal, where that may be said."""

    def lets_out(self, facts: Mapping[str, Any]) -> bool:
        """Whether the field may stand in the external edition of these facts."""
        return self.edition == "public" and (self.when is None or self.when(facts))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """The mark travels in the JSON Schema."""
        return {**handler(core), "x-edition": self.edition, "x-why": self.why}


def public(why: str, when: Condition | None = None, unless: str = "") -> Visibility:
    """A fact for everybody.

    >>> public("given by the user").lets_out({}), internal("a statistic of the data").lets_out({})
    (True, False)
    """
    return Visibility("public", why, when, unless)


def internal(why: str) -> Visibility:
    """A fact for the house."""
    return Visibility("internal", why)


def mark_of(field: FieldInfo) -> Visibility | None:
    """The mark of a field, if it has one."""
    return next((m for m in field.metadata if isinstance(m, Visibility)), None)


FORM = public("the form of the released artefact, which whoever has it sees")
GIVEN = public("a setting, fixed before the table was read")
WORDS = public("words that are the same for every table")
NOISED = public("follows from the noised release and public rows alone")
STATISTIC = internal("a statistic of the data, without protection")
ONE = internal("about one person")
TOTALS = internal("people's totals in the ledger")
LOCAL = internal("the operator's own affair: names of files and the like")
WHOLE = internal("says of the whole that it is internal")
SchemaName = Annotated[str, WORDS, Field(alias="schema")]
"""A model of pydantic has a method of that name."""
