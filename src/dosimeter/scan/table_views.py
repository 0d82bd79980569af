"""A table as a model may have seen it: as it stands, scaled by the file's own scalers, projected, labels encoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.scan.classify import Siblings, siblings_of
from dosimeter.scan.contents import Contents, FileArray
from dosimeter.tables.table import Table

_MOST_VIEWS = 24
_MOST_CELLS = 2**27
_MOST_LEVELS = 200
_TELLING = 3
_MOST_ENDS = 3
"""Lengths of a row that are tried with an end of the columns left out, the longest first."""


@dataclass(frozen=True, eq=False)
class TableView:
    """how: in words; values: (n, d); slack: (d,) size of what was taken away, which sets the rounding error."""

    how: str
    values: FloatArray
    slack: FloatArray
    raw: bool = False
    spare: bool = False
    """A guess: compared as a whole, its columns not put together with others."""

    @property
    def width(self) -> int:
        """d."""
        return int(self.values.shape[1])


@dataclass(frozen=True, eq=False)
class ViewStep:
    """x -> ((x - offset) * factor) @ matrix, (d,), (d,) and (d, k) or None. mean: (d,) if the offset is a mean."""

    place: str
    words: str
    offset: FloatArray
    factor: FloatArray
    matrix: FloatArray | None = None
    mean: bool = False
    norm: str = ""

    def apply(self, view: TableView) -> TableView:
        """The view behind this step."""
        how = f"{view.how}, {self.words} by {self.place}" if not view.raw else f"{self.words} by {self.place}"
        if self.norm:
            order = {"l1": 1, "l2": 2, "max": np.inf}[self.norm]
            size = np.linalg.norm(view.values, ord=order, axis=1, keepdims=True)
            return TableView(how, view.values / np.where(size == 0, 1, size), view.slack * 0)
        values = (view.values - self.offset) * self.factor
        slack = (view.slack + np.abs(self.offset)) * np.abs(self.factor)
        if self.matrix is not None:
            slack = (slack + np.sqrt(np.mean(values**2, axis=0))) @ np.abs(self.matrix)
            values = values @ self.matrix
        return TableView(how, values, slack)


def views(table: Table, contents: Contents) -> list[TableView]:
    """Raw columns (all, and those that the file names), then every view behind the file's steps, in its order."""
    numbers = numeric(table)
    names = tuple(numbers)
    made = [_raw(numbers, names)] if names else []
    for part in contents.parts:
        wanted = part.texts if part.name == "feature_names_in_" else ()
        if wanted and set(wanted) <= set(names) and wanted != names:
            made.append(_raw(numbers, wanted))
    # ONNX lists all tensors before its operators: a projection comes behind the scaling there, as everywhere.
    widths = [int(part.values) for part in contents.parts if part.name == "n_features_in_" and part.values.size == 1]
    if made and widths and all(view.width != widths[0] for view in made):
        made.extend(_ends(numbers, widths[0]))
    for step in sorted(steps(contents), key=lambda one: contents.kind == "ONNX" and one.matrix is not None):
        inputs = [view for view in made if view.width == step.offset.size] or _picked(numbers, step)
        made.extend(step.apply(view) for view in inputs)
        if _enough(made):
            break
    for one in _guesses(made, numbers, _widths(contents, len(numbers))):
        if _enough(made):
            break
        made.append(one)
    return made


def _enough(made: list[TableView]) -> bool:
    return len(made) > _MOST_VIEWS or sum(view.values.size for view in made) > _MOST_CELLS


def _widths(contents: Contents, n: int) -> set[int]:
    """How long a row can be in this file: of lines, of columns, of a list; n: columns of the table."""
    found: set[int] = set()
    for part in contents.parts:
        if part.numeric and part.values.ndim:
            shape = part.values.shape
            found |= {shape[0], shape[-1], int(np.prod(shape[1:], dtype=object))}
            # A long list may be rows one after the other, most likely without a target and an id.
            found |= {d for d in (n, n - 1, n - 2) if len(shape) == 1 and d >= 2 and shape[0] % d == 0}
    return found


def _guesses(made: list[TableView], numbers: dict[str, FloatArray], widths: set[int]) -> Iterator[TableView]:
    """Where the file does not say what was done: an end of the columns left out, scaled by the table's own figures."""
    raw = [view for view in made if view.raw]
    known = {view.width for view in raw}
    for d in sorted((d for d in widths - known if 2 <= d < len(numbers)), reverse=True)[:_MOST_ENDS]:
        raw += [replace(view, spare=True) for view in _ends(numbers, d)]
    yield from raw[len([view for view in made if view.raw]) :]
    for view in raw:
        if view.width in widths:
            yield from _scaled(view)


def _scaled(view: TableView) -> Iterator[TableView]:
    """By means and deviations, by the range, by the length of the row: what is done by hand before a fit."""
    X = view.values
    low, high, mean = X.min(axis=0), X.max(axis=0), X.mean(axis=0)
    for words, away, by in (
        ("standardised by the table's own figures", mean, X.std(axis=0)),
        (
            "standardised by the table's own figures (n - 1)",
            mean,
            X.std(axis=0, ddof=1) if len(X) > 1 else X.std(axis=0),
        ),
        ("scaled to the table's own range", low, high - low),
    ):
        size = np.where(by == 0, 1.0, by)
        yield TableView(words, (X - away) / size, np.abs(away) / size, spare=True)
    # A row with one or two numbers besides zeros is nearly a unit vector when it is divided: as good as anybody's.
    telling = np.count_nonzero(X, axis=1) >= _TELLING
    for words, order in (("each row divided by its length", 2), ("each row divided by its sum of sizes", 1)):
        size = np.linalg.norm(X, ord=order, axis=1, keepdims=True)
        divided = X / np.where(size == 0, 1.0, size)
        yield TableView(words, np.where(telling[:, None], divided, np.nan), np.zeros(view.width), spare=True)


def numeric(table: Table) -> dict[str, FloatArray]:
    """Columns of numbers and of yes and no, as float64."""
    return {name: table[name].astype(np.float64) for name in table.names if table.kind(name) != "text"}


def encoded(table: Table) -> TableView | None:
    """Every label as indicators and as a code, None where no column holds labels; the widest columns are left out."""
    columns: list[FloatArray] = []
    for name in table.names:
        if table.kind(name) != "text":
            continue
        levels, codes = np.unique(table[name].astype(str), return_inverse=True)
        if 2 <= len(levels) <= _MOST_LEVELS:
            columns += [codes.astype(np.float64), *(np.eye(len(levels))[codes].T)]
    if not columns:
        return None
    values = np.column_stack(columns)
    return TableView("labels encoded", values, np.zeros(values.shape[1]))


def _raw(numbers: dict[str, FloatArray], names: tuple[str, ...]) -> TableView:
    values = np.column_stack([numbers[name] for name in names])
    return TableView("as it stands", values, np.zeros(len(names)), raw=True)


def _picked(numbers: dict[str, FloatArray], step: ViewStep) -> list[TableView]:
    """Columns for a step that fits no view: those whose means are the step's, else the first or the last ones."""
    names, d = tuple(numbers), step.offset.size
    if step.mean:
        chosen = []
        means = np.array([column.mean() for column in numbers.values()])
        spreads = np.array([column.std() for column in numbers.values()])
        for mean in step.offset:
            near = np.flatnonzero(np.abs(means - mean) <= 1e-6 * (spreads + np.abs(mean)))
            chosen.append(names[near[0]] if near.size else "")
        if all(chosen) and len(set(chosen)) == d:
            return [_raw(numbers, tuple(chosen))]
    return _ends(numbers, d)


def _ends(numbers: dict[str, FloatArray], d: int) -> list[TableView]:
    """The first and the last d columns: a target, an id or a weight often stands at one end."""
    names = tuple(numbers)
    return [_raw(numbers, names[:d]), _raw(numbers, names[-d:])] if 1 <= d < len(names) else []


def steps(contents: Contents) -> Iterator[ViewStep]:
    """The scalers and projections of a file, in its order."""
    for holder, parts in siblings_of(contents).items():
        owner = next(iter(parts.values())).owner
        if owner == "Normalizer" and parts.get("norm", FileArray("", "", "", "")).texts[:1] in (
            ("l1",),
            ("l2",),
            ("max",),
        ):
            width = parts["n_features_in_"].values if "n_features_in_" in parts else np.zeros(())
            wide = np.zeros(int(width) if width.size == 1 and 0 <= width <= 1e6 else 0)
            yield ViewStep(holder, "normalised", wide, wide, norm=parts["norm"].texts[0])
            continue
        step = _affine(holder or owner, owner, parts) or _projection(holder or owner, parts)
        if step is not None and np.isfinite(step.offset).all() and np.isfinite(step.factor).all():
            yield step


_SCALERS = {
    # owner: (what it does, attribute that is taken away, attribute that divides, attribute that multiplies, mean?)
    "StandardScaler": ("standardised", "mean_", "scale_", "", True),
    "RobustScaler": ("scaled", "center_", "scale_", "", False),
    "MaxAbsScaler": ("scaled", "", "scale_", "", False),
    "Scaler": ("scaled", "offset", "", "scale", False),
}


def _affine(place: str, owner: str, parts: Siblings) -> ViewStep | None:
    if owner == "MinMaxScaler" and {"min_", "scale_"} <= set(parts):
        factor = _vector(parts["scale_"])
        return ViewStep(place, "scaled", -_vector(parts["min_"]) / np.where(factor == 0, 1, factor), factor)
    if owner not in _SCALERS:
        return None
    words, away, divide, times, mean = _SCALERS[owner]
    centred = _switch(parts, "with_mean") and _switch(parts, "with_centering")
    found = [_vector(parts[name]) for name in (away, divide, times) if name in parts and parts[name].numeric]
    if not found or len({one.size for one in found}) != 1:
        return None
    zero, one = np.zeros(found[0].size), np.ones(found[0].size)
    offset = _vector(parts[away]) if centred and away in parts and parts[away].numeric else zero
    divisor = _vector(parts[divide]) if divide in parts and parts[divide].numeric else one
    factor = _vector(parts[times]) if times in parts and parts[times].numeric else one
    return ViewStep(place, words, offset, factor / np.where(divisor == 0, 1, divisor), mean=mean and centred)


def _projection(place: str, parts: Siblings) -> ViewStep | None:
    """PCA and its like: (x - mean_) @ components_.T, divided by the deviations where it whitens."""
    if "transform_matrix" in parts and parts["transform_matrix"].values.ndim == 2:  # as ONNX has it
        matrix = parts["transform_matrix"].values.astype(np.float64)
        mean = _vector(parts["mean"]) if "mean" in parts else np.zeros(len(matrix))
        return (
            ViewStep("transform_matrix", "projected", mean, np.ones(len(matrix)), matrix)
            if mean.size == len(matrix)
            else None
        )
    if "components_" not in parts or parts["components_"].values.ndim != 2 or "singular_values_" not in parts:
        return None
    components = parts["components_"].values.astype(np.float64)
    k, d = components.shape
    mean = _vector(parts["mean_"]) if "mean_" in parts else np.zeros(d)
    if mean.size != d:
        return None
    if (
        "whiten" in parts
        and _switch(parts, "whiten")
        and "explained_variance_" in parts
        and parts["explained_variance_"].values.size == k
    ):
        components = components / np.sqrt(_vector(parts["explained_variance_"]))[:, None]
    return ViewStep(place, "projected", mean, np.ones(d), components.T, mean="mean_" in parts)


def _switch(parts: Siblings, name: str) -> bool:
    """A setting that is on unless the file says otherwise."""
    return name not in parts or not parts[name].numeric or bool(np.all(parts[name].values))


def _vector(part: FileArray) -> FloatArray:
    return np.asarray(part.values, dtype=np.float64).ravel()
