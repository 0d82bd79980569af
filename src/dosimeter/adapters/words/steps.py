"""Steps behind a vectorizer or on a sparse table: those that keep zeros, and projections to a few columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dosimeter.adapters.steps.registry import kind_of
from dosimeter.adapters.steps.run import require_fitted, step_name
from dosimeter.adapters.steps.selectors import CHOICE
from dosimeter.adapters.words.state import WordsState
from dosimeter.adapters.words.vectorizers import weigh_terms
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.linalg.sparse_table import is_sparse

Reader = Callable[[Any, WordsState], WordsState]
READERS: dict[str, Reader] = {}
"""Kind of step -> how it changes a sparse table."""


def reader(*names: str) -> Callable[[Reader], Reader]:
    """Register a reader for kinds of steps; a decorator."""

    def register(read: Reader) -> Reader:
        READERS.update(dict.fromkeys(names, read))
        return read

    return register


def read_step(step: Any, state: WordsState) -> WordsState:
    """The table after a fitted step."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return state
    kind = kind_of(step)
    if kind is None or kind.name not in READERS:
        raise CannotMeasure(
            f"{step_name(step)} behind a vectorizer or on a sparse table is not read: steps that keep zeros are "
            f"({', '.join(sorted(READERS))})"
        )
    return READERS[kind.name](step, state)


@reader("Pipeline")
def _pipeline(pipeline: Any, state: WordsState) -> WordsState:
    for _, step in pipeline.steps:
        state = read_step(step, state)
    return state


@reader("TfidfTransformer")
def _tfidf(transformer: Any, state: WordsState) -> WordsState:
    if transformer.use_idf:
        require_fitted(transformer, "idf_", state.X.shape[1])
    return weigh_terms(transformer, state)


@reader("Normalizer")
def _normalizer(normalizer: Any, state: WordsState) -> WordsState:
    return state.normalised(normalizer.norm, step_name(normalizer)).note(step_name(normalizer))


@reader("MaxAbsScaler")
def _largest(scaler: Any, state: WordsState) -> WordsState:
    if getattr(scaler, "clip", False):
        raise CannotMeasure("MaxAbsScaler with clip=True is not read on a sparse table: use clip=False")
    scale = np.asarray(require_fitted(scaler, "scale_", state.X.shape[1]), dtype=np.float64)
    return state.scaled_by_its_columns(1.0 / scale, of_deviations=False).note(step_name(scaler), "largest values")


@reader("StandardScaler")
def _standard(scaler: Any, state: WordsState) -> WordsState:
    if scaler.with_mean and is_sparse(state.X):
        raise CannotMeasure("StandardScaler that subtracts the mean makes a sparse table dense: use with_mean=False")
    require_fitted(scaler, "scale_", state.X.shape[1])
    scale = np.ones(state.X.shape[1]) if scaler.scale_ is None else np.asarray(scaler.scale_, dtype=np.float64)
    if scaler.with_mean:
        moved = WordsState(
            state.X - scaler.mean_, state.names, state.parts, state.statistics, state.steps, state.remarks
        )
        return moved.scaled(1.0 / scale).note(step_name(scaler), "mean and scale")
    return state.scaled_by_its_columns(1.0 / scale, of_deviations=True).note(step_name(scaler), "scales")


@reader("SelectorMixin")
def _selector(selector: Any, state: WordsState) -> WordsState:
    support = np.asarray(selector.get_support(), dtype=bool)
    if len(support) != state.X.shape[1]:
        raise CannotMeasure(
            f"{step_name(selector)} was fitted on {len(support)} columns and gets {state.X.shape[1]}: pass the "
            "training table"
        )
    return state if support.all() else state.selected(support).note(step_name(selector), CHOICE)


@reader("TruncatedSVD")
def _svd(svd: Any, state: WordsState) -> WordsState:
    components = np.asarray(require_fitted(svd, "components_", state.X.shape[1]), dtype=np.float64)
    return state.projected(components, "component").note(step_name(svd), "components")


@reader("GaussianRandomProjection", "SparseRandomProjection")
def _random(projection: Any, state: WordsState) -> WordsState:
    matrix = require_fitted(projection, "components_", state.X.shape[1])
    dense = np.asarray(matrix.toarray() if is_sparse(matrix) else matrix, dtype=np.float64)
    return state.projected(dense, "projection").note(step_name(projection))
