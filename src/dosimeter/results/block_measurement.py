"""The `Measurement` of a table that was read in blocks: the same fields, from sums and selections over blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.notion import Standing
from dosimeter.core.selection import Collected, quantile
from dosimeter.engines.reading_store import every_reading
from dosimeter.glm.blocks.block_leakage import column_norms
from dosimeter.glm.blocks.block_scores import score_of
from dosimeter.models.column_control import explain_table
from dosimeter.results.block_figures import BlockReader, FirstPass, Wanted
from dosimeter.results.distribution import bin_edges, distribution_of_counts
from dosimeter.results.exposure import WIDEST
from dosimeter.results.groups import group_remarks
from dosimeter.results.linear_parts import (
    ASSUMPTIONS,
    ATTACKER,
    ColumnFigures,
    ExposureMatrix,
    FittedScaler,
    GroupFigures,
    NotionInfo,
    TargetFigures,
    WorstCell,
)
from dosimeter.results.measurement import (
    TARGETS,
    UNKNOWNS,
    Doses,
    LinearModel,
    Measurement,
    NoiseNeeded,
    Verdict,
    noise_on,
)
from dosimeter.results.parts import Distribution, Ranked
from dosimeter.results.unknowns import Unknown, given_remarks, spread_or_one
from dosimeter.results.visibility import present
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import ColumnSummary, NumberSummary

MEASURED_IN = {"raw": "own units", "sd": "standard deviations"}
ONLY_IN_MEMORY = "the curve of accuracy against noise is drawn for tables in memory only: this one was read in blocks"


@dataclass(frozen=True, eq=False)
class BlockFigures:
    """Everything that the two passes over the rows found."""

    reader: BlockReader
    first: FirstPass
    doses: Collected
    deviations: dict[str, Collected]
    top_rows: FloatArray
    """(top,) first rows of the most exposed people, the most exposed first."""
    top_cells: FloatArray
    """(top, unknowns) their least deviations."""
    top_places: FloatArray
    """(top, unknowns) the rows of these."""
    top_ids: Any
    summaries: dict[str, ColumnSummary]
    sample: Table
    """Evenly spaced rows."""
    over_all: dict[str, float]
    """Source column -> η of the column over all rows together."""

    @classmethod
    def of(
        cls,
        reader: BlockReader,
        first: FirstPass,
        second: tuple[Any, ...],
        summaries: dict[str, ColumnSummary],
        sample: Table,
        over_all: dict[str, float],
    ) -> BlockFigures:
        """From the sums of the passes."""
        doses, deviations, joined = second
        rows, cells, places, ids = joined.arrays
        order = {int(row): k for k, row in enumerate(rows.tolist())}
        at = np.array([order[int(row)] for row in first.top.rows], dtype=np.intp)
        named = dict(zip(reader.unknowns, deviations.items, strict=True))
        return cls(reader, first, doses, named, rows[at], cells[at], places[at], ids[at], summaries, sample, over_all)

    def dose(self, share: float) -> float:
        """The quantile of the doses."""
        return quantile(self.first.doses, self.doses, share)

    def typical_deviation(self, name: str) -> float:
        """The median over people of the least deviation of an unknown."""
        return quantile(self.first.deviations[name], self.deviations[name], 0.5)

    def least_deviation(self, name: str) -> float:
        """The smallest."""
        return float(self.first.least[self.reader.unknowns.index(name)])

    @property
    def attributes(self) -> dict[str, float]:
        """Source column -> η of the column over all rows together."""
        return self.over_all


def wanted_bins(first: FirstPass) -> Wanted:
    """What the second pass collects."""
    deviations = {name: counts.bins_for([0.5]) for name, counts in first.deviations.items()}
    return Wanted(first.doses.bins_for([0.5, 0.99]), deviations, np.sort(first.top.rows))


def attributes(first: FirstPass, reader: BlockReader, jacobian: Any) -> tuple[dict[str, float], tuple[str, ...]]:
    """η of each source column over all rows, and the columns whose sums lost too many digits."""
    norms, lost = column_norms(jacobian, first.columns)
    figures, again = {}, []
    for name, block in reader.model.design.blocks.items():
        if name in first.joint:
            top = float(np.linalg.eigvalsh(first.joint[name])[-1])
            figures[name] = math.sqrt(max(0.0, top))
        elif not block:
            figures[name] = 0.0
        else:
            figures[name] = float(norms[block[0]])
            if lost[block[0]]:
                again.append(name)
    return figures, tuple(again)


def block_measurement(
    figures: BlockFigures,
    *,
    limit: float | None,
    groups: Sequence[GroupFigures],
    requested: Sequence[str],
    show_ids: bool,
    dropped: int,
) -> Measurement:
    """Every figure of a measurement, as `Measurement.of` has it of a table in memory."""
    reader, first, model = figures.reader, figures.first, figures.reader.model
    bounded, unit = reader.bounded, "row" if model.person is None else "person"
    every = unknowns_over_blocks(figures) if bounded else []
    score = score_of(model.loss, first.score)
    score = score if score is None or math.isfinite(score) else None
    floor = model.has_scaler
    return Measurement(
        internal=True,
        words=[],
        notion=NotionInfo.fisher(MEASURED_IN[model.unit]),
        standing=(Standing.UNACCOUNTED if model.not_covered else Standing.EXACT).value,
        attacker=ATTACKER,
        noise=str(model.noise),
        noise_on=noise_on(model.loss, True),
        bounded=bounded,
        model=LinearModel(
            loss=model.loss.description,
            fitted_here=True,
            l2=float(reader.fitted.l2),
            parameters=int(reader.fitted.w.size),
            intercept=True,
            target=model.target,
            gradient_norm=reader.fitted.gradient_norm,
            condition=reader.fitted.condition,
            l2_from=model.penalty.source,
            **present(score_name=None if score is None else model.loss.score_name, score=score),
        ),
        people=first.people,
        rows=first.rows,
        unknowns=UNKNOWNS[model.include_target],
        unit=unit,
        rows_counted="from 1, the header not counted",
        dose=_doses(figures),
        meaning=_worst_cell(every, figures),
        groups=list(groups),
        columns=_columns(every, figures),
        target=_target(every, figures),
        distribution=distribution_over_blocks(figures, unit, limit),
        ranked=ranked_over_blocks(figures, show_ids),
        strip=exposure_over_blocks(every, figures, show_ids),
        not_covered=list(model.not_covered),
        assumptions=[*ASSUMPTIONS, *model.assumptions],
        remarks=[
            *model.every_remark,
            *model.floor_remarks(first.left),
            *given_remarks(every),
            *group_remarks(groups, requested),
            ONLY_IN_MEMORY,
        ],
        scaler=FittedScaler.of(model.scaler, first.left, _counted(figures, limit)) if floor else None,
        dropped_rows=dropped,
        **present(
            noise_needed=None if bounded else _noise_needed(figures, limit),
            verdict=None if limit is None else _verdict(figures, limit),
        ),
    )


def _doses(figures: BlockFigures) -> Doses:
    first, row = figures.first, int(figures.top_rows[0]) + 1
    typical = figures.dose(0.5)
    if figures.reader.bounded:
        return Doses(typical=typical, worst_1_percent=figures.dose(0.99), highest=first.highest, highest_row=row)
    over = first.highest / typical if typical > 0 else math.inf
    return Doses(
        typical=math.inf, worst_1_percent=math.inf, highest=math.inf, highest_row=row, highest_over_typical=over
    )


def unknowns_over_blocks(figures: BlockFigures) -> list[Unknown]:
    """Without their rows: names, kinds, spreads and what the other columns say about them."""
    reader, model, design = figures.reader, figures.reader.model, figures.reader.model.design
    nothing: FloatArray = np.empty(0)
    every = []
    for name, block in design.blocks.items():
        number = bool(block) and name not in design.nominal
        kind, spread = ("number", _spread(figures.summaries[name])) if number else ("category", 1.0)
        every.append(Unknown(name, kind, nothing, spread))
    if model.include_target:
        classes, step = bool(model.loss.target.classes), model.target_step
        spread = _spread(figures.summaries[model.target]) if not classes and step is None else 1.0
        every.append(Unknown(model.target, "target", nothing, spread, classes or step is not None))
    names = list(dict.fromkeys((*design.blocks, model.target)))
    rest = explain_table(figures.sample, names, design.nominal - design.binned)
    if tuple(u.name for u in every) != reader.unknowns:
        raise TypeError("unknowns and passes differ")
    return [Unknown(u.name, u.kind, u.deviation, u.spread, u.classes, rest.get(u.name)) for u in every]


def _spread(summary: ColumnSummary) -> float:
    if not isinstance(summary, NumberSummary):
        return 1.0
    # Cells beyond 1e150, which declared bounds clip, have no squares: the spread is then that of the clipped ones.
    raw = summary.raw if math.isfinite(summary.raw.deviation) else summary.moments
    return spread_or_one(raw.mean, raw.deviation)


def _figures(unknown: Unknown, figures: BlockFigures) -> dict[str, Any]:
    typical, least = figures.typical_deviation(unknown.name), figures.least_deviation(unknown.name)
    if unknown.kind == "category":
        return {"typical": _inverse(typical), "highest": _inverse(least), **unknown.context}
    return {"typical_deviation": typical, "least_deviation": least, **unknown.context}


def _columns(every: Sequence[Unknown], figures: BlockFigures) -> list[ColumnFigures]:
    sources = [unknown for unknown in every if unknown.kind != "target"]
    order = sorted(sources, key=lambda source: float(source.share(figures.typical_deviation(source.name))))
    return [
        ColumnFigures(
            column=source.name,
            kind=source.kind,
            over_all_rows=figures.over_all[source.name],
            **_figures(source, figures),
        )
        for source in order
    ]


def _target(every: Sequence[Unknown], figures: BlockFigures) -> TargetFigures:
    model = figures.reader.model
    own = next((_figures(unknown, figures) for unknown in every if unknown.kind == "target"), {})
    return TargetFigures(column=model.target, kind="target", counted=model.include_target, **own)


def _worst_cell(every: Sequence[Unknown], figures: BlockFigures) -> WorstCell | None:
    if not every:
        return None
    mine = figures.top_cells[0]
    shares = [float(unknown.share(mine[k])) for k, unknown in enumerate(every)]
    k = int(np.argmin(shares))
    best, category = every[k], every[k].kind == "category"
    typical = figures.typical_deviation(best.name)
    return WorstCell(
        row=int(figures.top_rows[0]) + 1,
        cell_row=int(figures.top_places[0, k]) + 1,
        column=best.name,
        kind=best.kind,
        **present(
            eta=_inverse(mine[k]) if category else None,
            typical_eta=_inverse(typical) if category else None,
            deviation=None if category else float(mine[k]),
            typical_deviation=None if category else typical,
        ),
        **best.context,
    )


def distribution_over_blocks(figures: BlockFigures, unit: str, limit: float | None) -> Distribution:
    first, relative = figures.first, not figures.reader.bounded
    typical = (figures.dose(0.5) or 1.0) if relative else 1.0
    edges = bin_edges(first.lowest / typical, first.highest / typical) if first.highest > 0 else np.array([])
    counts: Any = np.zeros(max(0, len(edges) - 1), dtype=np.int64)
    if len(edges):
        for readings in every_reading(figures.reader.folder):
            eta = readings["eta"]
            counts = counts + np.histogram(eta[eta > 0] / typical, edges)[0]
    of = "η over the typical" if relative else "η"
    return distribution_of_counts(edges, counts, first.zero, of=of, unit=unit, limit=None if relative else limit)


def ranked_over_blocks(figures: BlockFigures, show_ids: bool) -> list[Ranked]:
    typical, relative = figures.dose(0.5), not figures.reader.bounded
    out = []
    for k, (eta, row) in enumerate(zip(figures.first.top.values.tolist(), figures.top_rows.tolist(), strict=True)):
        over = eta / typical if typical > 0 else 1.0 if eta == 0 else math.inf
        named = present(id=str(figures.top_ids[k]) if show_ids and figures.reader.model.person else None)
        out.append(Ranked(rank=k + 1, row=int(row) + 1, dose=over if relative else eta, over_typical=over, **named))
    return out


def exposure_over_blocks(every: Sequence[Unknown], figures: BlockFigures, show_ids: bool) -> ExposureMatrix | None:
    if not every:
        return None
    spread = np.array([unknown.spread for unknown in every])
    with np.errstate(divide="ignore"):
        cells = spread / figures.top_cells
    order = np.argsort(-cells.max(axis=0), kind="stable")[:WIDEST]
    return ExposureMatrix(
        rows=[int(row) + 1 for row in figures.top_rows],
        **present(ids=[str(i) for i in figures.top_ids] if show_ids and figures.reader.model.person else None),
        columns=[every[j].name for j in order],
        kinds=[every[j].kind for j in order],
        eta=cells[:, order].tolist(),
    )


def _verdict(figures: BlockFigures, limit: float) -> Verdict:
    if not figures.reader.bounded:
        above = figures.first.people
    else:
        above = sum(int(np.sum(readings["counted"] > limit)) for readings in every_reading(figures.reader.folder))
    return Verdict(limit=limit, within=above == 0, above=above)


def _counted(figures: BlockFigures, limit: float | None) -> float | None:
    """The highest figure that a limit is compared with."""
    if limit is None or not figures.reader.bounded:
        return None
    return max(float(readings["counted"].max()) for readings in every_reading(figures.reader.folder))


def _noise_needed(figures: BlockFigures, limit: float | None) -> list[NoiseNeeded]:
    targets = sorted({*TARGETS, *(() if limit is None else (limit,))})
    scales = [(highest, _scale_for(figures, highest)) for highest in targets]
    return [NoiseNeeded(highest=highest, scale=scale) for highest, scale in scales if math.isfinite(scale)]


def _scale_for(figures: BlockFigures, highest: float) -> float:
    """The scale of Gaussian noise at which nobody is above `highest`; behind a fitted scaler an upper bound."""
    first, model = figures.first, figures.reader.model
    if not np.any(model.design.fitted):
        return first.highest / highest
    if highest <= first.left:
        return math.inf
    eta, left = first.front.eta, first.front.left
    if model.scaler == "held":
        return float(np.max(eta / (highest - left)))

    def top(log_scale: float) -> float:
        share = math.exp(-2 * log_scale)
        return float(np.sqrt((share * eta**2 + max(0.0, 1.0 - share) * left**2).max()))

    low = high = 0.0
    while top(high) > highest:
        high += 1.0
    while top(low) <= highest:
        low -= 1.0
    from scipy.optimize import brentq

    return math.exp(brentq(lambda k: math.log(top(k) / highest), low, high))


def _inverse(deviation: Any) -> float:
    return math.inf if deviation == 0 else float(1.0 / deviation)
