"""A private table read through a public one: which columns there are, what they hold and which levels they have is
decided by the public table alone, so that nothing about one part of the private table reaches another part's teacher.

Scales are left to the model inside each teacher: a scaler fitted on all private rows would carry every person's values
into every teacher, and one person would move more than one vote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.fit_encoding import CategoryColumn, Columns, NumberColumn, _levels
from dosimeter.tables.table import Table

MOST_CLASSES = 50


@dataclass(frozen=True)
class PublicColumns:
    """Numbers as they are, then one indicator for each public level of each label; a level unknown there is all zeros.

    >>> public = Table.of({"age": [40, 60, 50], "race": ["white", "black", "white"], "more": [1, 2, 3]})
    >>> private = Table.of({"race": ["black", "green"], "age": [30, 70], "ill": ["no", "yes"]})
    >>> seen = PublicColumns.of(private, public, aside=["ill"])
    >>> seen.design(private)
    array([[30., 1., 0.], [70., 0., 0.]])
    """

    numbers: tuple[str, ...]
    labels: tuple[CategoryColumn, ...]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, private: Table, public: Table, *, aside: Sequence[str] = (), nominal: Sequence[str] = ()
    ) -> PublicColumns:
        """The columns of the private table but those `aside`; the public table must have each of them."""
        used = [name for name in private.names if name not in aside]
        if not used:
            raise Refusal("the private table has no column beside the target: there is nothing to learn from")
        for name in used:
            if name not in public.names:
                shown = safe_text(name)
                raise Refusal(
                    f"the public table has no column {shown}: add it there, leave it out (--drop {shown}), or say that "
                    f"it names the persons (--person {shown})"
                )
            _same_kind(name, private, public)
        spare = [name for name in public.names if name not in used]
        columns = Columns.of(public.drop(spare), nominal=nominal)
        numbers = tuple(s.name for s in columns.sources if isinstance(s, NumberColumn))
        labels = tuple(_in_order(s) for s in columns.sources if isinstance(s, CategoryColumn))
        unused = [name for name in spare if name not in aside]
        notes = {"not used": unused, "left out, with one value only": columns.constant}
        return cls(numbers, labels, tuple(f"public columns {how}: {safe_list(of)}" for how, of in notes.items() if of))

    @property
    def names(self) -> tuple[str, ...]:
        """The source columns, numbers first."""
        return (*self.numbers, *(label.name for label in self.labels))

    def design(self, table: Table) -> FloatArray:
        """(n, d) of either table."""
        blocks = [table[name].astype(np.float64)[:, None] for name in self.numbers]
        for label in self.labels:
            found, position = _levels(table, label.name)
            blocks.append(
                np.array([[level == known for known in label.levels] for level in found], dtype=float)[position]
            )
        return np.concatenate(blocks, axis=1)

    def pipeline(self, model: Any) -> Any:
        """A fitted model of `design` as a scikit-learn Pipeline over the source columns by name."""
        from sklearn.compose import ColumnTransformer
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import OneHotEncoder

        k, parts = len(self.numbers), []
        if self.numbers:
            parts.append(("numbers", "passthrough", list(range(k))))
        if self.labels:
            levels = [as_read(label.levels).tolist() for label in self.labels]
            encoder = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
            parts.append(("labels", encoder, list(range(k, k + len(levels)))))
        before = ColumnTransformer(parts).fit(self._example())
        # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
        before.feature_names_in_ = np.array(self.names, dtype=object)
        if self.labels:
            encoder = before.named_transformers_["labels"]
            encoder.feature_names_in_ = np.array(self.names[k:], dtype=object)
            encoder.categories_ = [as_category(label.levels) for label in self.labels]
        return Pipeline([("columns", before), ("model", model)])

    def _example(self) -> NDArray[Any]:
        """(2, columns) made-up rows in the order of `names`."""
        made = np.zeros((2, len(self.names)), dtype=object)
        for j, label in enumerate(self.labels, start=len(self.numbers)):
            known = as_read(label.levels).tolist()
            made[:, j] = [known[0], known[-1]]
        return made


def as_read(names: Sequence[str]) -> NDArray[Any]:
    """(k,) names of classes or levels as a table's reader gives them: whole numbers where all of them are.

    >>> as_read(["0", "1"]).tolist(), as_read(["01", "1"]).tolist()
    ([0, 1], ['01', '1'])
    """
    whole = all(_WHOLE.fullmatch(name) for name in names)
    return np.array([int(name) for name in names]) if whole else np.array(names)


def as_category(names: Sequence[str]) -> NDArray[Any]:
    """(k,) the same for a fitted OneHotEncoder: numbers in rising order, or objects in any."""
    known = as_read(names)
    return known if known.dtype.kind == "i" else known.astype(object)


_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")


def _in_order(label: CategoryColumn) -> CategoryColumn:
    """Codes that are whole numbers by their value: a OneHotEncoder looks such levels up by bisection."""
    known = as_read(label.levels)
    if known.dtype.kind != "i":
        return label
    return replace(label, levels=tuple(str(k) for k in np.sort(known).tolist()))


def class_names(table: Table, target: str, classes: Sequence[str] | None = None) -> NDArray[np.str_]:
    """(n,) the target as the names of classes: whole numbers without a point, text as it is.

    classes: listed beforehand. Then how many of them the table holds is nobody's business and refuses nothing.
    """
    column, shown = table[target], safe_text(target)
    levels, position = _levels(table, target)
    if len(levels) < 2 and classes is None:
        raise Refusal(f"the target {shown} has one value only: there is nothing to vote on")
    if len(levels) > MOST_CLASSES:
        raise Refusal(
            f"the target {shown} has {len(levels)} values and at most {MOST_CLASSES} classes are taken: a vote is on "
            "classes, not on amounts"
        )
    return np.asarray(levels)[position].reshape(len(column))


def _same_kind(name: str, private: Table, public: Table) -> None:
    kinds = tuple("text" if table.kind(name) == "text" else "number" for table in (private, public))
    if kinds[0] != kinds[1]:
        shown = safe_text(name)
        raise Refusal(
            f"column {shown} is {kinds[0]} in the private table and {kinds[1]} in the public one: correct one of them, "
            f"or declare it nominal (--nominal {shown})"
        )
