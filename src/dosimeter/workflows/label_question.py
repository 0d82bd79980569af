"""The options of `label` about tables, classes and teachers, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.workflows.people_table import BoundsSource, Data, FitBounds, fit_bounds

OF_TABLES = ("target", "public", "person", "key", "categorical", "exclude", "bounds", "missing", "delimiter", "decimal")
OF_TEACHERS = ("teachers", "estimator", "student", "doses_out", "checkpoint", "resume", "jobs")
"""Options that do not go with votes made elsewhere."""


@dataclass(frozen=True)
class LabelQuestion:
    """What is asked of whom."""

    target: str | None = None
    public: Data = None
    votes: Any = None
    classes: Sequence[str] | str | int | None = None
    person: str | None = None
    queries: int | None = None
    teachers: int = 50
    estimator: str = "logistic"
    key: str | None = None
    categorical: Sequence[str] = ()
    exclude: Sequence[str] = ()
    bounds: BoundsSource | None = None
    missing: str | None = None
    delimiter: str = ","
    decimal: str = "."

    @property
    def passed(self) -> list[str]:
        """Options that do not have their default value."""
        return [field.name for field in fields(self) if not _is_default(getattr(self, field.name), field.default)]

    @property
    def class_list(self) -> list[str] | None:
        """The classes that were listed."""
        if self.classes is None or isinstance(self.classes, int):
            return None if self.classes is None else [str(self.classes)]
        return [name.strip() for name in self.classes.split(",")] if isinstance(self.classes, str) else [*self.classes]

    @property
    def missing_policy(self) -> str:
        """With declared columns one person's gap does not end the run unless that is asked for."""
        return self.missing or ("refuse" if self.bounds is None else "drop")

    def declared(self) -> FitBounds:
        """What is known about the private columns without the table."""
        return fit_bounds(self.bounds, str(self.target), self.person, self.categorical, self.exclude)

    def public_classes(self, declared: FitBounds) -> list[str] | None:
        """The classes that were listed, or the declared levels of the target; refused if the two differ."""
        target, listed = str(self.target), self.class_list
        if declared.bounds is None or target not in declared.bounds:
            return listed
        levels, shown = declared.classes(target), safe_text(target)
        if levels is None:
            raise Refusal(f"bounds of {shown}: a vote is on classes; give the target levels, or leave it out there")
        if listed is not None and set(listed) != set(levels):
            raise Refusal(
                f"{option('classes')} and the declared levels of {shown} are not the same: leave one of the two out"
            )
        return [*levels] if listed is None else listed


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(tuple(value) == default)
    return value is default or (isinstance(value, str | int) and bool(value == default))


def check_kind(table: Data, question: LabelQuestion, passed: Sequence[str]) -> None:
    """Refuse options that do not fit; none is ignored in silence. passed: the options that the caller gave."""
    if question.votes is not None:
        unfit = [option(name) for name in (*OF_TABLES, *OF_TEACHERS) if name in passed]
        if table is not None or unfit:
            other = "the table" if table is not None else unfit[0]
            raise Refusal(
                f"{option('votes')} are votes already and {other} is for teachers trained here: leave one out"
            )
        return
    if table is None:
        for name in OF_TABLES:
            if name in passed:
                raise Refusal(f"{option(name)} without a table: name the private table first")
        return
    needed = (("target", "the column of classes"), ("public", "the public table whose rows get labels"))
    for name, description in needed:
        if getattr(question, name) is None:
            raise Refusal(f"{option(name)} is missing: name {description}")
