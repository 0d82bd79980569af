"""The encoding of a table in blocks, from the summaries of its first pass: the same constants as in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding, NumberColumn
from dosimeter.tables.column_levels import level_names
from dosimeter.tables.data_checks import FEW_ROWS, id_remark
from dosimeter.tables.declared_bounds import clip_remarks
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.learned_encoding import MAX_LEVELS, category_column, refuse_odd
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import MOST_LEVELS, ColumnSummary, LabelSummary, NumberSummary


def encoding_of_summaries(
    summaries: Mapping[str, ColumnSummary], representatives: Table, categorical: Collection[str] = ()
) -> TableEncoding:
    """As `learn_encoding` of the whole table; representatives: as `table_summary.representatives`."""
    sources: list[ColumnEncoding] = []
    constant = []
    for name, summary in summaries.items():
        if isinstance(summary, LabelSummary):
            if len(summary.levels) < 2:
                constant.append(name)
            else:
                sources.append(_category(name, summary, representatives, name in categorical))
        elif summary.low == summary.high:
            constant.append(name)
        else:
            sources.append(_number(name, summary))
    return TableEncoding(tuple(sources), tuple(constant))


def _category(name: str, summary: LabelSummary, representatives: Table, requested: bool) -> CategoryColumn:
    if len(summary.levels) > MOST_LEVELS:
        shown = safe_text(name)
        raise Refusal(
            f"column {shown} has more than {MOST_LEVELS} levels and at most {MAX_LEVELS} are taken in blocks: pool "
            f"rare levels into one, keep fewer digits of a code, or pass {option('exclude', shown)}"
        )
    column = category_column(name, level_names(representatives, name), summary.n, requested)
    return replace(column, as_text=name in representatives.texts)


def _number(name: str, summary: NumberSummary) -> NumberColumn:
    if summary.values is not None and len(summary.values) == 2:
        step = summary.high - summary.low
        refuse_odd(name, summary.low, step, summary.size)
        return NumberColumn(name, summary.low + step / 2, step, two=True)
    refuse_odd(name, summary.mean, summary.deviation, summary.size)
    return NumberColumn(name, summary.mean, summary.deviation, fitted=True)


def spreads_of(encoding: TableEncoding, summaries: Mapping[str, ColumnSummary]) -> FloatArray:
    """(d,) as `declared_bounds.spreads`: standard deviation of each clipped number, 1 for labels.

    Half the width of its bounds for a number that does not vary: a public unit, the same in kilograms and in grams.
    """
    deviations: list[float] = []
    for source in encoding.sources:
        summary = summaries[source.name]
        if isinstance(source, NumberColumn) and isinstance(summary, NumberSummary):
            deviations.append(summary.spread if summary.varies or summary.kind == "bool" else source.scale)
        else:
            deviations += [1.0] * len(source.names)
    return np.array(deviations)


def outside_remarks_of(summaries: Mapping[str, ColumnSummary]) -> tuple[str, ...]:
    """As `declared_bounds.outside_remarks`."""
    clipped = sum(s.outside for s in summaries.values() if isinstance(s, NumberSummary))
    unlisted = sum(s.unlisted for s in summaries.values() if isinstance(s, LabelSummary))
    return clip_remarks(clipped, unlisted)


def id_remarks_of(summaries: Mapping[str, ColumnSummary]) -> tuple[str, ...]:
    """As `data_checks.id_remarks`."""
    return tuple(
        id_remark(name)
        for name, s in summaries.items()
        if isinstance(s, NumberSummary) and s.every is not None and s.whole and s.n <= FEW_ROWS * len(s.every)
    )
