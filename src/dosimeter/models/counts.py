"""Tables of counts: texts and scipy.sparse tables as a caller passes them, and their columns behind a model's steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.steps.registry import kind_of
from dosimeter.adapters.words.design import WordDesign, word_design
from dosimeter.adapters.words.reading import holds_vectorizer, read_columns, read_texts
from dosimeter.adapters.words.steps import read_step
from dosimeter.adapters.words.vectorizers import table_state
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.glm.linalg.sparse_table import as_table, is_sparse
from dosimeter.tables.column_values import text_array
from dosimeter.tables.row_arguments import column_of, names_of
from dosimeter.tables.table import Table, library_of

TEXT, COLUMNS = "text", "columns"
"""Names of the source of texts without a name, and of the columns of a sparse table, which are one source."""
NARROW, SMALL = 256, 1 << 20
"""A sparse table of at most this many columns and numbers is written out: every reading by column is then there."""


def as_source(data: Any) -> Any:
    """Texts as a frame of one column, a small sparse table as an array; everything else as it is.

    >>> as_source(["a dog", "a cat"])
    {'text': array(['a dog', 'a cat'], dtype=object)}
    """
    if is_sparse(data):
        if len(data.shape) != 2:
            raise Refusal(f"a sparse table has rows and columns, not shape {data.shape}")
        n, d = data.shape
        return np.asarray(data.toarray(), dtype=np.float64) if d <= NARROW and n * d <= SMALL else as_table(data)
    if (frame := _sparse_frame(data)) is not None:
        return frame
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "OUT":
        data = data.tolist()
    if isinstance(data, list | tuple) and any(isinstance(cell, str) for cell in data):
        return {TEXT: _all_texts(list(data), TEXT)}
    if not nw.dependencies.is_into_series(data):
        return data
    series = nw.from_native(data, series_only=True)
    if series.dtype in (nw.String, nw.Object, nw.Categorical):
        named = series if isinstance(series.name, str) and series.name else series.rename(TEXT)
        return named.to_frame().to_native()
    return data


def _sparse_frame(data: Any) -> Any:
    """A pandas frame of sparse columns: written out with its names if it is small, else as a sparse table."""
    if not nw.dependencies.is_pandas_dataframe(data) or not hasattr(data, "sparse"):
        return None
    n, d = data.shape
    return data.sparse.to_dense() if d <= NARROW and n * d <= SMALL else as_table(data.sparse.to_coo())


def takes_counts(steps: Sequence[Any], frame: Any) -> bool:
    """Whether the model's columns are read as counts: a sparse table, or a vectorizer among the steps."""
    return is_sparse(frame) or any(holds_vectorizer(step) for step in steps)


def read_counts(
    steps: Sequence[Any], frame: Any, set_aside: Sequence[str], expected: int | None
) -> tuple[WordDesign, dict[str, NDArray[Any]]]:
    """The design, and the source columns as they were read.

    set_aside: columns that are target or person. expected: how many columns the model was fitted on, if it says so.
    """
    if is_sparse(frame):
        return _sparse_design(steps, frame, expected), {}
    names = [name for name in names_of(frame) if name not in set_aside]
    if not names:
        Table.of(frame)  # says what is wrong with it
    columns = _columns(frame, names)
    first = next(step for step in steps if not (step is None or isinstance(step, str)))
    kind = kind_of(first)
    if kind is not None and kind.name == "ColumnTransformer":
        fitted = list(map(str, getattr(first, "feature_names_in_", names)))
        absent = [name for name in fitted if name not in columns]
        if absent:
            raise Refusal(f"the model was fitted on {safe_list(absent)}, which the frame does not have")
        used = {name: columns[name] for name in fitted}
        n = len(next(iter(columns.values())))
        state = read_columns(steps, fitted, used, n, library_of(frame))
        seen = {source for part in state.parts for source in _sources(part)}
        return word_design(state, fitted), {name: column for name, column in used.items() if name in seen}
    if len(names) != 1:
        raise Refusal(
            f"the model begins with {safe_text(type(first).__name__)}, which takes one column of texts, and the frame "
            f"has {safe_list(names)}: pass the column of texts alone"
        )
    (source,) = names
    if columns[source].dtype.kind != "O":
        raise Refusal(f"column {safe_text(source)} holds numbers where the model saw texts: pass the training texts")
    return word_design(read_texts(steps, source, columns[source]), names), columns


def _sources(part: Any) -> tuple[str, ...]:
    return (part.source,) if hasattr(part, "source") else tuple(part.design.blocks)


def _sparse_design(steps: Sequence[Any], X: Any, expected: int | None) -> WordDesign:
    if any(holds_vectorizer(step) for step in steps):
        raise Refusal("the model takes texts and was given a sparse table: pass the texts that it was fitted on")
    d = X.shape[1]
    if expected is not None and expected != d:
        raise Refusal(f"the model was fitted on {expected} columns and the table has {d}: pass the training table")
    state = table_state(X, tuple(f"x{j}" for j in range(d)), COLUMNS)
    for step in steps:
        state = read_step(step, state)
    return word_design(state, [COLUMNS])


def _columns(frame: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Columns of texts as they are; all others as a `Table` has them."""
    texts = {name: cells for name in names if (cells := _texts(frame, name)) is not None}
    others = [name for name in names_of(frame) if name not in names or name in texts]
    rest = Table.of(frame, drop=others) if len(others) < len(names_of(frame)) else None
    return {name: texts[name] if name in texts or rest is None else rest[name] for name in names}


def _texts(frame: Any, name: str) -> NDArray[Any] | None:
    """(n,) a column of strings; None if it holds anything else."""
    raw = column_of(frame, name)
    cells = raw.to_list() if isinstance(raw, nw.Series) else np.asarray(raw).tolist()
    if not any(isinstance(cell, str) for cell in cells):
        return None
    return _all_texts(cells, name)


def _all_texts(cells: list[Any], name: str) -> NDArray[Any]:
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            raise Refusal(f"column {safe_text(name)} has no text in row {row} (from 0): fill it or leave the row out")
    return text_array(cells)
