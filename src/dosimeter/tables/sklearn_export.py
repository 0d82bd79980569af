"""An encoding and an estimator as a plain scikit-learn Pipeline over the source columns, without need of this package.

Numbers pass as they are, or are clipped to their declared bounds and scaled to -1 and 1. Each level of a category has
an indicator; a label that is not listed has none. Gaps are filled with declared constants. The steps are fitted on
made-up rows, so nothing in them is computed from people. `weight_folding` folds the constants of a fit into its noised
weights; `sklearn_estimators` builds the last step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding, NumericColumn, PartColumn
from dosimeter.tables.column_levels import frame_levels
from dosimeter.tables.encoding import TableEncoding


def pipeline(
    encoding: TableEncoding | None,
    model: Any,
    *,
    step: str = "model",
    fills: Mapping[str, Any] | None = None,
) -> Any:
    """A fitted Pipeline that ends in a fitted model, which takes its inputs in the order of `input_order`.

    encoding: None for a model of rows of numbers. step: name of the last step. fills: column -> the public constant
    that replaces a missing value.

    >>> import pandas as pd
    >>> from dosimeter import glm
    >>> from dosimeter.tables.sklearn_estimators import linear_model
    >>> encoding = TableEncoding((CategoryColumn("code", ("2", "1"), indicators=True),))
    >>> weights = np.array([20.0, 10.0])[input_order(encoding)]
    >>> model = pipeline(encoding, linear_model(glm.Squared(), weights, 0.5))
    >>> model.predict(pd.DataFrame({"code": [1, 2, 3]}))
    array([10.5, 20.5,  0.5])
    """
    from sklearn.pipeline import Pipeline

    if encoding is None:
        return Pipeline([(step, model)])
    refuse_part_scales(encoding)
    sources = export_order(encoding)
    constants = {s.name: fills[s.name] for s in sources if s.name in fills} if fills else {}
    before = _column_step(encoding, named=not constants)
    if constants:
        return Pipeline([("gaps", _imputing_step(sources, constants)), ("columns", before), (step, model)])
    return Pipeline([("columns", before), (step, model)])


def input_order(encoding: TableEncoding) -> Index:
    """(inputs,) the position of each input of the pipeline's model among the columns and levels of `export_order`.

    Only codes change their order: an encoder looks numbers up by bisection.
    """
    first = len(encoding.numbers)
    order = [np.arange(first)]
    for label in encoding.labels:
        levels = exported_levels(label)
        order.append(first + frame_levels(levels, label.as_text)[1])
        first += len(levels)
    return np.concatenate(order).astype(np.intp)


def export_order(encoding: TableEncoding) -> list[ColumnEncoding]:
    """The source columns as the pipeline groups them: numbers as they are, numbers with bounds, labels."""
    return [*free_numbers(encoding), *bounded_numbers(encoding), *encoding.labels]


def free_numbers(encoding: TableEncoding) -> list[NumericColumn]:
    """Numbers that a model sees as they are."""
    return [s for s in encoding.numbers if s.bounds is None]


def bounded_numbers(encoding: TableEncoding) -> list[NumericColumn]:
    """Numbers that a model sees clipped to their bounds and scaled to -1 and 1."""
    return [s for s in encoding.numbers if s.bounds is not None]


def exported_levels(label: CategoryColumn) -> list[Any]:
    """The levels that have an indicator: all but the one that unlisted labels count as."""
    return [level for j, level in enumerate(label.levels) if j != label.others]


def refuse_part_scales(encoding: TableEncoding) -> None:
    """Refuse columns that each client standardises: a pipeline does not know the mean of a row's client."""
    by_part = [s.name for s in encoding.sources if isinstance(s, PartColumn)]
    if by_part:
        raise Refusal(
            f"{safe_list(by_part, 4)}: standardised inside each client, which a pipeline cannot do for one row: "
            f"declare bounds with {option('bounds')}, or write {option('out', 'model.safetensors')}"
        )


def _column_step(encoding: TableEncoding, *, named: bool) -> Any:
    """A ColumnTransformer fitted on made-up rows. named: it reads frames by name, not by position."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    exported = [exported_levels(label) for label in encoding.labels]
    levels = [frame_levels(names, s.as_text)[0] for names, s in zip(exported, encoding.labels, strict=True)]
    # A dense matrix keeps the last step simple.
    encoder = OneHotEncoder(categories=[v.tolist() for v in levels], handle_unknown="ignore", sparse_output=False)
    groups: list[tuple[str, Any, Sequence[ColumnEncoding]]] = [
        ("numbers", "passthrough", free_numbers(encoding)),
        ("bounded", MinMaxScaler(feature_range=(-1, 1), clip=True), bounded_numbers(encoding)),
        ("labels", encoder, encoding.labels),
    ]
    parts, first = [], 0
    for name, step, group in groups:
        if group:
            parts.append((name, step, list(range(first, first + len(group)))))
            first += len(group)
    before = ColumnTransformer(parts).fit(_example(encoding, levels))
    if levels:  # of the kind that a frame's column has; the made-up rows are of all kinds
        before.named_transformers_["labels"].categories_ = levels
    if named:
        # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
        before.feature_names_in_ = _names(export_order(encoding))
        for name, step, group in groups:
            if group and not isinstance(step, str):
                before.named_transformers_[name].feature_names_in_ = _names(group)
    return before


def _example(encoding: TableEncoding, levels: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """(rows, columns) made-up rows in the pipeline's order: what the transformers are fitted on instead of people."""
    rows = max([2, *(len(label.levels) for label in encoding.labels)])
    free, bounded = free_numbers(encoding), bounded_numbers(encoding)
    example = np.zeros((rows, len(free) + len(bounded) + len(levels)), dtype=object)
    for k, number in enumerate(bounded, start=len(free)):
        low, high = number.bounds or (0.0, 1.0)
        example[:, k], example[1, k] = low, high
    for k, known in enumerate(levels, start=len(free) + len(bounded)):
        example[:, k] = [known.tolist()[i % len(known)] for i in range(rows)]
    return example


def _imputing_step(sources: Sequence[ColumnEncoding], constants: Mapping[str, Any]) -> Any:
    """A transformer that fills gaps with constants and keeps the order of the columns."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    parts: list[Any] = []
    example = np.zeros((2, len(sources)), dtype=object)
    for k, s in enumerate(sources):
        step: Any = "passthrough"
        if s.name in constants and not isinstance(s, CategoryColumn):
            step = SimpleImputer(strategy="constant", fill_value=float(constants[s.name]))
        elif s.name in constants:
            # A missing text is nan in pandas and None in polars.
            both = [
                SimpleImputer(missing_values=m, strategy="constant", fill_value=constants[s.name])
                for m in (np.nan, None)
            ]
            step = Pipeline([("nan", both[0]), ("none", both[1])])
            example[:, k] = constants[s.name]
        parts.append((f"column {k}", step, [k]))
    imputer = ColumnTransformer(parts).fit(example)
    imputer.feature_names_in_ = _names(sources)
    for k, s in enumerate(sources):
        if s.name in constants:
            step = imputer.named_transformers_[f"column {k}"]
            (step[0] if isinstance(s, CategoryColumn) else step).feature_names_in_ = _names([s])
    return imputer


def _names(sources: Sequence[ColumnEncoding]) -> NDArray[Any]:
    return np.array([s.name for s in sources], dtype=object)
