"""From texts, or a sparse table, through the steps before a model to its design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dosimeter.adapters.chain import Chain
from dosimeter.adapters.features import assemble, learned_scalers
from dosimeter.adapters.steps.containers import branches, is_drop, positions
from dosimeter.adapters.steps.registry import kind_of
from dosimeter.adapters.steps.run import require_fitted, step_name
from dosimeter.adapters.words.state import ColumnPart, WordPart, WordsState
from dosimeter.adapters.words.steps import read_step
from dosimeter.adapters.words.vectorizers import is_vectorizer, read_vectorizer
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text
from dosimeter.glm.linalg.sparse_table import Table


def holds_vectorizer(step: Any) -> bool:
    """Whether a step is a vectorizer, or has one inside."""
    if step is None or isinstance(step, str):
        return False
    if is_vectorizer(step):
        return True
    for attribute in ("steps", "transformer_list"):
        if any(holds_vectorizer(inner) for _, inner in getattr(step, attribute, None) or ()):
            return True
    return any(holds_vectorizer(inner) for _, inner, _ in getattr(step, "transformers_", None) or ())


def read_texts(steps: Sequence[Any], source: str, texts: NDArray[Any]) -> WordsState:
    """A column of texts behind steps of which the first takes texts."""
    if not steps:
        raise CannotMeasure("the model has no vectorizer before it: texts have no numbers")
    first, rest = steps[0], steps[1:]
    if first is None or (isinstance(first, str) and first == "passthrough"):
        return read_texts(rest, source, texts)
    kind = kind_of(first)
    name = None if kind is None else kind.name
    if is_vectorizer(first):
        state = read_vectorizer(first, source, texts.tolist())
    elif name == "Pipeline":
        state = read_texts([step for _, step in first.steps], source, texts)
    elif name == "FeatureUnion":
        weights = first.transformer_weights or {}
        states = [
            _weighted(read_texts([inner], source, texts), weights.get(key, 1.0))
            for key, inner in first.transformer_list
            if not is_drop(inner)
        ]
        state = side_by_side(states)
    else:
        raise CannotMeasure(
            f"{step_name(first)} takes texts and is not read: use CountVectorizer, TfidfVectorizer or HashingVectorizer"
        )
    for step in rest:
        state = read_step(step, state)
    return state


def read_columns(
    steps: Sequence[Any], names: Sequence[str], columns: Mapping[str, NDArray[Any]], n: int, library: Any
) -> WordsState:
    """A table behind a ColumnTransformer of which one branch takes a text, then the other steps."""
    first, rest = steps[0], steps[1:]
    kind = kind_of(first)
    if kind is not None and kind.name == "Pipeline":
        return read_columns([*(step for _, step in first.steps), *rest], names, columns, n, library)
    if kind is None or kind.name != "ColumnTransformer":
        raise CannotMeasure(
            f"{step_name(first)} before a vectorizer is not read: put the vectorizer first, or into a ColumnTransformer"
        )
    require_fitted(first, "transformers_", len(names))
    weights, states = first.transformer_weights or {}, []
    for key, inner, chosen in branches(first):
        picked = [names[j] for j in positions(chosen, names)]
        if is_drop(inner) or not picked:
            continue
        if holds_vectorizer(inner):
            if len(picked) != 1:
                raise CannotMeasure(f"{step_name(inner)} takes one column of texts, not {len(picked)}")
            state = read_texts([inner], picked[0], text_cells(columns[picked[0]], picked[0]))
        else:
            state = _numbers(inner, picked, columns, n, library)
        states.append(_weighted(state, weights.get(key, 1.0)))
    state = side_by_side(states)
    for step in rest:
        state = read_step(step, state)
    return state


def text_cells(column: NDArray[Any], name: str) -> NDArray[Any]:
    """A column of texts; numbers are refused."""
    if column.dtype.kind != "O":
        raise Refusal(f"column {safe_text(name)} holds numbers where the model saw texts: pass the training table")
    return column


def _numbers(inner: Any, picked: list[str], columns: Mapping[str, NDArray[Any]], n: int, library: Any) -> WordsState:
    """Columns of numbers and categories behind their own steps."""
    own = {name: columns[name] for name in picked}
    chain = Chain((inner,), tuple(picked), own, n, library=library)
    design = assemble(chain, picked)
    if design.row_map is not None:
        raise CannotMeasure(
            f"{step_name(inner)} bends its columns, which is not read beside a text: use steps with a fixed slope there"
        )
    every = np.arange(design.X.shape[1], dtype=np.intp)
    part = ColumnPart(design, every, design.constant_map, learned_scalers(chain.features))
    return WordsState(sparse.csr_array(design.X), design.names, (part,), {}, design.unfoldable, design.remarks)


def _weighted(state: WordsState, weight: Any) -> WordsState:
    return state if float(weight) == 1.0 else state.scaled(np.full(state.X.shape[1], float(weight)))


def side_by_side(states: Sequence[WordsState]) -> WordsState:
    """The columns of several branches next to each other."""
    if not states:
        raise CannotMeasure("the model sees no column at all: there is nothing that could leak")
    if len(states) == 1:
        return states[0]
    parts: list[WordPart | ColumnPart] = []
    first = 0
    for state in states:
        parts += [replace(part, columns=part.columns + first) for part in state.parts]
        first += state.X.shape[1]
    tables: list[Table] = [sparse.csr_array(state.X) for state in states]
    return WordsState(
        sparse.csr_array(sparse.hstack(tables)),
        tuple(name for state in states for name in state.names),
        tuple(parts),
        {statistic: None for state in states for statistic in state.statistics},
        tuple(step for state in states for step in state.steps),
        tuple(remark for state in states for remark in state.remarks),
    )
