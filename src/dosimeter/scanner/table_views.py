"""A table as a model may have seen it: as it stands, scaled by the file's own scalers, projected, labels encoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.scanner.classify import Siblings, siblings_of
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.tables.table import Table

_MOST_VIEWS = 40
_MOST_CELLS = 2**27
_MOST_LEVELS = 200
_FEWEST_NONZERO = 3
_MOST_ENDS = 3
"""Widths of a row that are tried with columns left out at one end, the longest first."""


@dataclass(frozen=True, eq=False)
class TableView:
    """A view of the table. values: (n, d); slack: (d,) size of what was subtracted, which sets the rounding error."""

    description: str
    values: FloatArray
    slack: FloatArray
    raw: bool = False
    spare: bool = False
    """A guess: compared as a whole; its columns are not combined with others."""

    @property
    def width(self) -> int:
        """d."""
        return int(self.values.shape[1])


@dataclass(frozen=True, eq=False)
class ViewStep:
    """x -> ((x - offset) * factor) @ matrix, (d,), (d,) and (d, k) or None. mean: (d,) if the offset is a mean."""

    place: str
    description: str
    offset: FloatArray
    factor: FloatArray
    matrix: FloatArray | None = None
    mean: bool = False
    norm: str = ""

    def apply(self, view: TableView) -> TableView:
        """The view after this step."""
        view_name = (
            f"{view.description}, {self.description} by {self.place}"
            if not view.raw
            else f"{self.description} by {self.place}"
        )
        if self.norm:
            order = {"l1": 1, "l2": 2, "max": np.inf}[self.norm]
            size = np.linalg.norm(view.values, ord=order, axis=1, keepdims=True)
            return TableView(view_name, view.values / np.where(size == 0, 1, size), view.slack * 0)
        values = (view.values - self.offset) * self.factor
        slack = (view.slack + np.abs(self.offset)) * np.abs(self.factor)
        if self.matrix is not None:
            slack = (slack + np.sqrt(np.mean(values**2, axis=0))) @ np.abs(self.matrix)
            values = values @ self.matrix
        return TableView(view_name, values, slack)


def views(table: Table, contents: Contents) -> list[TableView]:
    """Raw columns (all, and those that the file names), then every view after the file's steps, in its order."""
    numbers = numeric_columns(table)
    names = tuple(numbers)
    all_views = [_raw_view(numbers, names)] if names else []
    for part in contents.parts:
        wanted = part.texts if part.name == "feature_names_in_" else ()
        if wanted and set(wanted) <= set(names) and wanted != names:
            all_views.append(_raw_view(numbers, wanted))
    # ONNX lists all tensors before its operators: a projection comes after the scaling there too.
    widths = [int(part.values) for part in contents.parts if part.name == "n_features_in_" and part.values.size == 1]
    if all_views and widths and all(view.width != widths[0] for view in all_views):
        all_views.extend(_end_views(numbers, widths[0]))
    for step in sorted(transform_steps(contents), key=lambda step: contents.kind == "ONNX" and step.matrix is not None):
        inputs = [view for view in all_views if view.width == step.offset.size] or _input_views(numbers, step)
        all_views.extend(step.apply(view) for view in inputs)
        if _too_many(all_views):
            break
    for guess in _guesses(all_views, numbers, _widths(contents, len(numbers))):
        if _too_many(all_views):
            break
        all_views.append(guess)
    return all_views


def _too_many(all_views: list[TableView]) -> bool:
    return len(all_views) > _MOST_VIEWS or sum(view.values.size for view in all_views) > _MOST_CELLS


def _widths(contents: Contents, n: int) -> set[int]:
    """Possible widths of a row in this file: of rows, of columns, of a list; n: columns of the table."""
    widths: set[int] = set()
    for part in contents.parts:
        if part.numeric and part.values.ndim:
            shape = part.values.shape
            widths |= {shape[0], shape[-1], int(np.prod(shape[1:], dtype=object))}
            # A long list may be consecutive rows, most likely without a target and an id.
            widths |= {d for d in (n, n - 1, n - 2) if len(shape) == 1 and d >= 2 and shape[0] % d == 0}
    return widths


def _guesses(all_views: list[TableView], numbers: dict[str, FloatArray], widths: set[int]) -> Iterator[TableView]:
    """If the file does not say what was done: columns left out at one end, scaled by the table's own statistics."""
    raw = [view for view in all_views if view.raw]
    known_widths = {view.width for view in raw}
    for d in sorted((d for d in widths - known_widths if 2 <= d < len(numbers)), reverse=True)[:_MOST_ENDS]:
        raw += [replace(view, spare=True) for view in _end_views(numbers, d)]
    yield from raw[len([view for view in all_views if view.raw]) :]
    for view in raw:
        if view.width in widths:
            yield from _scale_by_hand(view)


def _scale_by_hand(view: TableView) -> Iterator[TableView]:
    """By means and standard deviations, by the range, by the length of the row: common scalings before a fit."""
    X = view.values
    low, high, mean, deviation = X.min(axis=0), X.max(axis=0), X.mean(axis=0), X.std(axis=0)
    nothing, alike = np.zeros(view.width), np.ones(view.width)
    first, median, third = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    for description, offset, scale in (
        ("standardised by the table's own figures", mean, deviation),
        (
            "standardised by the table's own figures (n - 1)",
            mean,
            X.std(axis=0, ddof=1) if len(X) > 1 else deviation,
        ),
        ("scaled to the table's own range", low, high - low),
        ("scaled to -1 and 1 by the table's own range", (low + high) / 2, (high - low) / 2),
        ("minus the table's own means", mean, alike),
        ("divided by the table's own deviations", nothing, deviation),
        ("divided by the table's own largest values", nothing, np.abs(X).max(axis=0)),
        ("minus the table's own medians, by its quartiles", median, third - first),
    ):
        size = np.where(scale == 0, 1.0, scale)
        yield TableView(description, (X - offset) / size, np.abs(offset) / size, spare=True)
    # A row with one or two non-zero numbers becomes nearly a unit vector when divided: it would match any such row.
    has_enough = np.count_nonzero(X, axis=1) >= _FEWEST_NONZERO
    for description, order in (("each row divided by its length", 2), ("each row divided by its sum of sizes", 1)):
        size = np.linalg.norm(X, ord=order, axis=1, keepdims=True)
        divided = X / np.where(size == 0, 1.0, size)
        yield TableView(description, np.where(has_enough[:, None], divided, np.nan), np.zeros(view.width), spare=True)


def numeric_columns(table: Table) -> dict[str, FloatArray]:
    """Columns of numbers and of booleans, as float64."""
    return {name: table[name].astype(np.float64) for name in table.names if table.kind(name) != "text"}


def encode_labels(table: Table) -> TableView | None:
    """Every label as indicators and as a code; None without labels. Columns of many levels or of names are not used."""
    columns: list[FloatArray] = []
    for name in table.names:
        if table.kind(name) != "text":
            continue
        levels, codes = np.unique(table[name].astype(str), return_inverse=True)
        if 2 <= len(levels) <= min(_MOST_LEVELS, max(2, table.n // 2)):
            columns += [codes.astype(np.float64), *(np.eye(len(levels))[codes].T)]
    if not columns:
        return None
    values = np.column_stack(columns)
    return TableView("labels encoded", values, np.zeros(values.shape[1]))


def _raw_view(numbers: dict[str, FloatArray], names: tuple[str, ...]) -> TableView:
    values = np.column_stack([numbers[name] for name in names])
    return TableView("as it stands", values, np.zeros(len(names)), raw=True)


def _input_views(numbers: dict[str, FloatArray], step: ViewStep) -> list[TableView]:
    """Columns for a step that fits no view: those whose means are the step's, else the first or the last ones."""
    names, d = tuple(numbers), step.offset.size
    if step.mean:
        chosen = []
        means = np.array([column.mean() for column in numbers.values()])
        spreads = np.array([column.std() for column in numbers.values()])
        for mean in step.offset:
            candidates = np.flatnonzero(np.abs(means - mean) <= 1e-6 * (spreads + np.abs(mean)))
            chosen.append(names[candidates[0]] if candidates.size else "")
        if all(chosen) and len(set(chosen)) == d:
            return [_raw_view(numbers, tuple(chosen))]
    return _end_views(numbers, d)


def _end_views(numbers: dict[str, FloatArray], d: int) -> list[TableView]:
    """The first and the last d columns: a target, an id or a weight is often at one end."""
    names = tuple(numbers)
    return [_raw_view(numbers, names[:d]), _raw_view(numbers, names[-d:])] if 1 <= d < len(names) else []


def transform_steps(contents: Contents) -> Iterator[ViewStep]:
    """The scalers and projections of a file, in its order."""
    for holder, parts in siblings_of(contents).items():
        owner = next(iter(parts.values())).owner
        if owner == "Normalizer" and parts.get("norm", FileArray("", "", "", "")).texts[:1] in (
            ("l1",),
            ("l2",),
            ("max",),
        ):
            width = parts["n_features_in_"].values if "n_features_in_" in parts else np.zeros(())
            zeros = np.zeros(int(width) if width.size == 1 and 0 <= width <= 1e6 else 0)
            yield ViewStep(holder, "normalised", zeros, zeros, norm=parts["norm"].texts[0])
            continue
        step = _affine(holder or owner, owner, parts) or _projection(holder or owner, parts)
        if step is not None and np.isfinite(step.offset).all() and np.isfinite(step.factor).all():
            yield step


_SCALERS = {
    # owner: (description, attribute that is subtracted, attribute that divides, attribute that multiplies, mean?)
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
    description, subtracted, divisor_name, factor_name, mean = _SCALERS[owner]
    centred = _is_on(parts, "with_mean") and _is_on(parts, "with_centering")
    vectors = [
        _vector(parts[name])
        for name in (subtracted, divisor_name, factor_name)
        if name in parts and parts[name].numeric
    ]
    if not vectors or len({vector.size for vector in vectors}) != 1:
        return None
    zeros, ones = np.zeros(vectors[0].size), np.ones(vectors[0].size)
    offset = _vector(parts[subtracted]) if centred and subtracted in parts and parts[subtracted].numeric else zeros
    divisor = _vector(parts[divisor_name]) if divisor_name in parts and parts[divisor_name].numeric else ones
    factor = _vector(parts[factor_name]) if factor_name in parts and parts[factor_name].numeric else ones
    return ViewStep(place, description, offset, factor / np.where(divisor == 0, 1, divisor), mean=mean and centred)


def _projection(place: str, parts: Siblings) -> ViewStep | None:
    """PCA and similar: (x - mean_) @ components_.T, divided by the standard deviations if it whitens."""
    if "transform_matrix" in parts and parts["transform_matrix"].values.ndim == 2:  # ONNX form
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
        and _is_on(parts, "whiten")
        and "explained_variance_" in parts
        and parts["explained_variance_"].values.size == k
    ):
        components = components / np.sqrt(_vector(parts["explained_variance_"]))[:, None]
    return ViewStep(place, "projected", mean, np.ones(d), components.T, mean="mean_" in parts)


def _is_on(parts: Siblings, name: str) -> bool:
    """A setting that is on unless the file says otherwise."""
    return name not in parts or not parts[name].numeric or bool(np.all(parts[name].values))


def _vector(part: FileArray) -> FloatArray:
    return np.asarray(part.values, dtype=np.float64).ravel()
