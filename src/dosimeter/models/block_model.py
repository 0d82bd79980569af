"""Our own fit on a table that is read in blocks: how a block becomes numbers, and its leakage by the table's names.

A `BlockModel` holds constants and no rows, and can be pickled: encoding, target, units, what is tied. The leakage of a
block is a `TableLeakage` of its rows, as if the whole table were in memory, so every figure by row, person and column
is read off by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import step_of
from dosimeter.core.engine import RowBlock
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.glm.blocks.block_leakage import measure_block
from dosimeter.glm.fitting.block_fit import BlockFit, refuse_unsuitable
from dosimeter.glm.fitting.existence import refuse_if_unbounded
from dosimeter.glm.linalg.validation import HUGE, too_large_target
from dosimeter.glm.scalers.fitted_scaler import floor_of
from dosimeter.models.fit_table import design_of, penalty_remark
from dosimeter.models.fitted_scaler import check_scaler, floor_remark, not_covered_with_scaler
from dosimeter.models.given_model import SAME, UNITS, check
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.models.table_target import clip_target, loss_names, prepare_target, target_declaration
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn
from dosimeter.tables.constant_values import Tied, TieFacts, decide_ties, tie_facts
from dosimeter.tables.data_checks import class_remarks, target_remarks
from dosimeter.tables.declared_bounds import TAKEN, Declaration, Range, declared_encoding, refuse_unknown
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.streamed_encoding import encoding_of_summaries, id_remarks_of, outside_remarks_of, spreads_of
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import ColumnSummary, LabelSummary, NumberSummary, representatives

NOTHING_TIED = Tied()


@dataclass(frozen=True, eq=False)
class BlockModel:
    """What is fitted and measured, without rows."""

    n: int
    loss: Any
    target: str
    classes: NDArray[Any] | None
    """The classes of the target in their order; None if it is a number."""
    target_bounds: tuple[float, float] | None
    encoding: TableEncoding
    design: Design
    """Of a few rows: all but X is that of the whole table."""
    noise: Any
    include_target: bool
    unit: str
    target_unit: float
    target_mean: float
    target_step: float | None
    """The distance between the two values of a target that is a number; None for any other."""
    scaler: str
    penalty: glm.Penalty
    remarks: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    person: str | None = None
    tied: Tied = NOTHING_TIED
    named_ties: tuple[str, ...] = ()
    """Columns that the caller named as tied or not tied; one that does not vary is in no column of the design."""

    # --- a block as numbers ---

    def rows(self, table: Table) -> RowBlock:
        """(X, y, ω) of a block."""
        return self.matrix(table), self.labels(table), np.ones(table.n)

    def matrix(self, table: Table) -> FloatArray:
        """X (k, d), column after column in memory."""
        X = np.empty((len(self.encoding.names), table.n))
        j = 0
        for source in self.encoding.sources:
            if isinstance(source, NumberColumn):
                np.subtract(source.values(table), source.centre, out=X[j])
                X[j] /= source.scale
                j += 1
            elif isinstance(source, CategoryColumn):
                width = len(source.names)
                X[j : j + width] = source.design(table).T
                j += width
            else:
                raise TypeError(f"{type(source).__name__} is not a column of a fit")
        return X.T

    def labels(self, table: Table) -> FloatArray:
        """y (k,)."""
        column = table[self.target]
        if self.classes is None:
            y = column.astype(np.float64)
            return y if self.target_bounds is None else np.clip(y, *self.target_bounds)
        if column.dtype.kind == "O":
            place = {level: float(k) for k, level in enumerate(self.classes.tolist())}
            return np.array([place[str(cell)] for cell in column.tolist()])
        return np.searchsorted(self.classes.astype(np.float64), column.astype(np.float64)).astype(np.float64)

    def largest(self, summaries: Mapping[str, ColumnSummary]) -> FloatArray:
        """(d,) the largest magnitude of each column of X."""
        sizes: list[float] = []
        for source in self.encoding.sources:
            summary = summaries[source.name]
            if isinstance(source, NumberColumn) and isinstance(summary, NumberSummary):
                ends = (summary.low - source.centre, summary.high - source.centre)
                sizes.append(max(map(abs, ends)) / source.scale)
            else:
                sizes += [1.0] * len(source.names)
        return np.array(sizes)

    # --- figures of a block ---

    @property
    def has_scaler(self) -> bool:
        """Whether columns are standardised by the table itself."""
        return bool(np.any(self.design.fitted))

    @property
    def measure_options(self) -> dict[str, Any]:
        """As `measure_block` takes them."""
        return {
            "include_target": self.include_target,
            "input_map": self.design.input_map(self.design.spread) if self.unit == "sd" else self.design.input_map(),
            "target_unit": self.target_unit,
        }

    def leakage(self, fitted: BlockFit, table: Table) -> TableLeakage:
        """η of a block's rows by the names of its columns."""
        block = self.rows(table)
        leak, fit = measure_block(fitted, block, self.noise, **self.measure_options)
        floor = whole = None
        if self.has_scaler:
            total, _ = measure_block(fitted, block, self.noise, **self.measure_options, scaled=self.design.fitted)
            floor = floor_of(total)
            leak, whole = (leak, total) if self.scaler == "held" else (total, None)
        return TableLeakage(
            leak,
            fit,
            replace(self.design, X=block[0]),
            frame=table,
            target=self.target,
            target_unit=self.target_unit,
            measured_in=UNITS[self.unit],
            ids=None if self.person is None else tuple(table[self.person].tolist()),
            tied=self.tied.columns,
            tied_target=self.tied.target,
            not_covered=self.not_covered,
            remarks=self.every_remark,
            assumptions=self.assumptions,
            floor=floor,
            whole=whole,
            scaler=self.scaler,
        )

    def highest(self, leak: glm.Leakage, table: Table) -> float:
        """The highest figure of a person of a block, or of a row: without computing all of them."""
        if self.person is None:
            return leak.highest
        blocks = self.design.blocks
        tied = [j for name in self.tied.columns for j in blocks[name]]
        return leak.highest_group(table[self.person].tolist(), tied=tied, tied_target=self.tied.target)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What no figure covers."""
        return not_covered_with_scaler(self.design) if self.scaler == "total" else self.design.not_covered

    @property
    def every_remark(self) -> tuple[str, ...]:
        """On target, columns, ties and penalty."""
        return (*self.remarks, *self.tied.remarks, penalty_remark(self.penalty))

    def floor_remarks(self, highest: float) -> tuple[str, ...]:
        """What the scaler leaves at any noise, at most."""
        if not self.has_scaler:
            return ()
        unit = "row" if self.person is None else "person"
        return (floor_remark(self.design, highest, self.scaler, unit),)

    # --- what is one unknown for all rows of a person ---

    @property
    def tie_columns(self) -> tuple[str, ...]:
        """Source columns that may be tied."""
        return tuple(name for name, block in self.design.blocks.items() if block or name in self.named_ties)

    def tie_terms(self, table: Table) -> tuple[TieFacts]:
        """Where values change within a person; the block holds all rows of its people."""
        if self.person is None:
            raise TypeError("there is no person column")
        columns = {name: table[name] for name in self.tie_columns}
        y = self.labels(table) if self.include_target else None
        return (tie_facts(columns, y, table[self.person].tolist(), table.rows),)

    def with_ties(self, facts: TieFacts, tied: Sequence[str], not_tied: Sequence[str]) -> BlockModel:
        """The same with what is tied."""
        decided = decide_ties(self.tie_columns, self.include_target, facts, self.target, tied, not_tied, _row)
        return replace(self, tied=decided)


def _row(row: int) -> str:
    return f"row {row + 1} counted from 1"


def prepare_blocks(
    summaries: Mapping[str, ColumnSummary],
    n: int,
    target: str,
    *,
    noise: Any,
    loss: str = "auto",
    l2: float | None = None,
    person: str | None = None,
    categorical: Sequence[str] = (),
    unit: str = "sd",
    include_target: bool = True,
    declared: dict[str, Declaration] | None = None,
    own_units: bool = False,
    scaler: str = "total",
) -> BlockModel:
    """The model of a table with these summaries, as `fit_table.prepare` of the whole table."""
    check(noise, unit, (), person)
    check_scaler(scaler)
    if loss not in loss_names():
        raise Refusal(f"{option('loss', safe_text(loss))}: use {', '.join(loss_names())}")
    if person == target:
        raise Refusal(SAME.format(name=safe_text(target)))
    if declared is not None:
        refuse_unknown(declared, [name for name in summaries if name != person])
    small = representatives({name: s for name, s in summaries.items() if name != person})
    declaration = None if declared is None else declared.get(target)
    small = clip_target(small, target, declaration)
    y, kind, _, remark, classes = prepare_target(
        small, target, loss, None if declared is None else target_declaration(declared, target)
    )
    refuse_unsuitable(kind)
    _refuse_target(summaries[target], target, kind, declared is not None)
    rest = {name: s for name, s in summaries.items() if name not in (target, person)}
    aside = [name for name in small.names if name not in rest]
    if declared is None:
        encoding = encoding_of_summaries(rest, small, categorical=categorical)
    else:
        encoding = declared_encoding(small.drop(aside), declared, own_units=own_units)
    design = design_of(encoding, small.drop(aside), declared is not None)
    if declared is not None:
        spread = spreads_of(encoding, rest)
        spread[[j for name in design.vertices for j in design.blocks[name]]] = 1.0
        design = replace(design, spread=spread)
    whole = summaries[target]
    penalty = glm.penalty(kind, n, l2)
    numbers = {number.name for number in encoding.numbers}
    shown = _repeated(y, n)
    refuse_if_unbounded(shown, np.ones(len(shown)), kind, _strengths(penalty, encoding), True)
    remarks = (
        remark,
        *target_remarks(small, target, loss),
        *(_class_remarks(whole, target) if kind.target.classes else ()),
        *encoding.remarks,
        *(() if declared is None else outside_remarks_of(rest)),
        *id_remarks_of({name: s for name, s in rest.items() if name in numbers}),
    )
    own_spread = whole.spread if isinstance(whole, NumberSummary) and unit == "sd" and not kind.target.classes else 1.0
    return BlockModel(
        n=n,
        loss=kind,
        target=target,
        classes=classes,
        target_bounds=(declaration.lower, declaration.upper) if isinstance(declaration, Range) else None,
        encoding=encoding,
        design=design,
        noise=noise,
        include_target=include_target,
        unit=unit,
        target_unit=float(kind.target.unit(y, own_spread)),
        target_mean=_mean(whole, classes),
        target_step=None if kind.target.classes else step_of(y),
        scaler=scaler,
        penalty=penalty,
        remarks=remarks,
        assumptions=(TAKEN,) if declared is not None else (),
        person=person,
    )


def _refuse_target(whole: ColumnSummary, target: str, kind: Any, declared: bool) -> None:
    """As of a table in memory: a declared number that has one value within its bounds, and one beyond float64."""
    if kind.target.classes or not isinstance(whole, NumberSummary):
        return
    if whole.size > HUGE:
        raise too_large_target(whole.size)
    if declared and not whole.varies:
        raise Refusal(f"the target {safe_text(target)} has one value only, within its bounds: there is nothing to fit")


def _repeated(y: FloatArray, n: int) -> FloatArray:
    """The distinct targets; only their values matter, as long as there are enough rows."""
    return y if n >= len(y) else y[:n]


def _strengths(penalty: glm.Penalty, encoding: TableEncoding) -> FloatArray:
    # Too few rows cannot happen with blocks; with λ on every column only the targets are looked at.
    d = len(encoding.names)
    return np.append(np.full(d, max(penalty.l2, 1e-300)), 0.0)


def _mean(target: ColumnSummary, classes: NDArray[Any] | None) -> float:
    """The mean of y."""
    if isinstance(target, NumberSummary) and classes is None:
        return target.mean
    if isinstance(target, LabelSummary) and classes is not None and len(classes) == 2 and target.n:
        upper = [c for level, c in zip(target.levels, target.counts.tolist(), strict=True) if level == str(classes[1])]
        return float(sum(upper) / target.n)
    if isinstance(target, NumberSummary) and classes is not None:
        low, high = classes.astype(np.float64)
        return float((target.mean - low) / (high - low))
    raise CannotMeasure("the target has no mean: more than two classes are measured in memory only")


def _class_remarks(target: ColumnSummary, name: str) -> tuple[str, ...]:
    """As of the whole column: each class once or twice, by how many rows have it."""
    if not isinstance(target, LabelSummary):
        return ()
    cells = [level for level, c in zip(target.levels, target.counts.tolist(), strict=True) for _ in range(min(c, 2))]
    return class_remarks(np.array([*cells, None], dtype=object)[:-1], None, name)
