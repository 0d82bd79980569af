"""The encoding of a private table, taken from a public one: the public table alone decides columns, kinds and levels.

So nothing about one part of the private table reaches the teacher of another part. Each teacher scales its own rows: a
scaler fitted on all private rows would carry every person's values into every teacher, and one person could change more
than one vote.
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
from dosimeter.core.face import option
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.fit_encoding import CategoryColumn, Columns, NumberColumn, _levels
from dosimeter.tables.table import Table

MOST_CLASSES = 50


@dataclass(frozen=True)
class PublicColumns:
    """Numbers as they are, then one indicator for each public level of each label; an unlisted level has none.

    >>> public = Table.of({"age": [40, 60, 50], "race": ["white", "black", "white"], "more": [1, 2, 3]})
    >>> private = Table.of({"race": ["black", "green"], "age": [30, 70], "ill": ["no", "yes"]})
    >>> columns = PublicColumns.of(private, public, aside=["ill"])
    >>> columns.design(private)
    array([[30., 1., 0.], [70., 0., 0.]])
    """

    numbers: tuple[str, ...]
    labels: tuple[CategoryColumn, ...]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, private: Table, public: Table, *, aside: Sequence[str] = (), nominal: Sequence[str] = ()
    ) -> PublicColumns:
        """All columns of the private table except those in `aside`; the public table must have each of them."""
        used = [name for name in private.names if name not in aside]
        if not used:
            raise Refusal("the private table has no column beside the target: there is nothing to learn from")
        for name in used:
            if name not in public.names:
                shown = safe_text(name)
                raise Refusal(
                    f"the public table has no column {shown}: add it there, leave it out ({option('exclude', shown)}), "
                    f"or declare that it names the persons ({option('person', shown)})"
                )
            _same_kind(name, private, public)
        spare = [name for name in public.names if name not in used]
        columns = Columns.of(public.drop(spare), nominal=nominal)
        numbers = tuple(s.name for s in columns.sources if isinstance(s, NumberColumn))
        labels = tuple(_sort_codes(s) for s in columns.sources if isinstance(s, CategoryColumn))
        unused = [name for name in spare if name not in aside]
        notes = {"not used": unused, "left out, with one value only": columns.constant}
        return cls(
            numbers, labels, tuple(f"public columns {use}: {safe_list(names)}" for use, names in notes.items() if names)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The source columns, numbers first."""
        return (*self.numbers, *(label.name for label in self.labels))

    def design(self, table: Table) -> FloatArray:
        """(n, d) of either table."""
        blocks = [table[name].astype(np.float64)[:, None] for name in self.numbers]
        for label in self.labels:
            levels, position = _levels(table, label.name)
            blocks.append(
                np.array([[level == known for known in label.levels] for level in levels], dtype=float)[position]
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
            levels = [level_values(label.levels).tolist() for label in self.labels]
            encoder = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
            parts.append(("labels", encoder, list(range(k, k + len(levels)))))
        before = ColumnTransformer(parts).fit(self._example())
        # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
        before.feature_names_in_ = np.array(self.names, dtype=object)
        if self.labels:
            encoder = before.named_transformers_["labels"]
            encoder.feature_names_in_ = np.array(self.names[k:], dtype=object)
            encoder.categories_ = [encoder_levels(label.levels) for label in self.labels]
        return Pipeline([("columns", before), ("model", model)])

    def _example(self) -> NDArray[Any]:
        """(2, columns) made-up rows in the order of `names`."""
        example = np.zeros((2, len(self.names)), dtype=object)
        for j, label in enumerate(self.labels, start=len(self.numbers)):
            known = level_values(label.levels).tolist()
            example[:, j] = [known[0], known[-1]]
        return example


def level_values(names: Sequence[str]) -> NDArray[Any]:
    """(k,) classes or levels as values of a table that was read: whole numbers if all of them are.

    >>> level_values(["0", "1"]).tolist(), level_values(["01", "1"]).tolist()
    ([0, 1], ['01', '1'])
    """
    whole = all(_WHOLE.fullmatch(name) for name in names)
    return np.array([int(name) for name in names]) if whole else np.array(names)


def encoder_levels(names: Sequence[str]) -> NDArray[Any]:
    """(k,) the same for a fitted OneHotEncoder: numbers in rising order, or objects in any order."""
    known = level_values(names)
    return known if known.dtype.kind == "i" else known.astype(object)


_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")


def _sort_codes(label: CategoryColumn) -> CategoryColumn:
    """The label with codes that are whole numbers in rising order: a OneHotEncoder looks them up by bisection."""
    known = level_values(label.levels)
    if known.dtype.kind != "i":
        return label
    return replace(label, levels=tuple(str(k) for k in np.sort(known).tolist()))


def class_names(table: Table, target: str, classes: Sequence[str] | None = None) -> NDArray[np.str_]:
    """(n,) the target as the names of classes: whole numbers without a point, text as it is.

    classes: listed beforehand. Then the number of classes in the table is private and never refused.
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
            f"or pass {option('categorical', shown)}"
        )
