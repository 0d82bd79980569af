"""Our own fit on a named table: standardised numbers, one-hot labels, an unpenalised intercept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.adapters.features import Design, categories, held_fixed, known_cells
from dosimeter.adapters.named_errors import name_columns_in_refusals
from dosimeter.adapters.polish import kink_remarks
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.glm.equations.joint_outputs import SIDES
from dosimeter.glm.linalg.sparse_table import is_sparse
from dosimeter.models.fitted_scaler import STATISTIC, check_scaler, measure_with_scaler, not_covered_with_scaler
from dosimeter.models.given_model import SAME, UNITS, check, measure_options
from dosimeter.models.many_levels import (
    MayBeSparse,
    coordinate_weights,
    has_many_levels,
    has_sparse_fit,
    indicator_map,
    indicator_names,
    indicator_table,
    many_levels_remark,
    spread_over,
)
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.models.table_target import clip_target, loss_names, prepare_target, target_declaration
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn
from dosimeter.tables.column_values import spread
from dosimeter.tables.constant_values import Tied, tie
from dosimeter.tables.data_checks import class_remarks, id_remarks, level_remarks, target_remarks, varies
from dosimeter.tables.declared_bounds import (
    TAKEN,
    Bounds,
    declarations,
    declared_encoding,
    outside_remarks,
    refuse_unknown,
    spreads,
)
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.learned_encoding import MANY_LEVELS, MAX_LEVELS, learn_encoding
from dosimeter.tables.missing_values import gap_notes, gap_remarks, observed_by_person
from dosimeter.tables.person_ids import id_remarks_of_people
from dosimeter.tables.table import Table


@dataclass(frozen=True, eq=False)
class TableFit:
    """A model that was fitted here, how well it does on its own table, and what it leaks."""

    leakage: TableLeakage
    names: tuple[str, ...]
    """(d,) the standardised numbers and the indicators."""
    outputs: tuple[str, ...]
    """The target, or the classes of a softmax model."""
    coef: dict[str, tuple[float, ...]]
    """Name -> its weight for each output."""
    intercept: tuple[float, ...]
    score_name: str
    """'R²', 'accuracy' or 'D²' (share of the Poisson deviance explained), on the training table."""
    score: float
    penalty: glm.Penalty
    """λ and where it comes from."""
    encoding: TableEncoding
    """How a row becomes numbers: of a query as of a row of the table."""
    classes: tuple[Any, ...] = ()
    """The classes of the target as the table writes them; () if it is a number."""

    def __repr__(self) -> str:
        loss = self.leakage.fit.loss.name
        return f"<TableFit {loss}, {len(self.names)} weights, {self.score_name} {self.score:.3f} on its own table>"


def fit_table(
    table: Table,
    target: str,
    *,
    l2: float | None = None,
    noise: Any,
    loss: str = "auto",
    person: str | None = None,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    unit: str = "sd",
    include_target: bool = True,
    bounds: Bounds | None = None,
    own_units: bool = False,
    scaler: str = "total",
    answers: bool = False,
) -> TableFit:
    """Fit eq. 13 with penalty l2 on the standardised columns and measure the release of its weights.

    l2: None is the penalty of scikit-learn's default model for the loss (`glm.penalty`).
    bounds: column -> (lower, upper), or a list of levels: public, so that nothing of the preprocessing is a statistic
    of the table. Without them columns are standardised by their own mean and deviation.
    scaler: 'total' measures the weights as they are released, folded into the columns' own units, through mean and
    deviation; 'held' takes these as public, and what they leave at any noise is reported beside the figures.
    answers: the model answers queries and is not released, so that a scaler leaves nothing beside the answers.

    >>> from dosimeter.core.noise import Gaussian
    >>> people = Table.of({"age": [40, 50, 60, 70], "sex": list("fmfm"), "ill": ["no", "no", "yes", "no"]})
    >>> fitted = fit_table(people, "ill", l2=0.1, noise=Gaussian(0.1))
    >>> fitted, list(fitted.coef), fitted.leakage.measured_in
    (<TableFit logistic, 2 weights, accuracy 0.750 on its own table>, ['age', 'sex=m'], 'standard deviations')
    """
    check(noise, unit, (*tied, *not_tied), person)
    ready = prepare(
        table,
        target,
        loss=loss,
        person=person,
        categorical=categorical,
        exclude=exclude,
        tied=tied,
        not_tied=not_tied,
        include_target=include_target,
        bounds=bounds,
        own_units=own_units,
        scaler=scaler,
        sparse=None if answers else has_sparse_fit(l2),
    )
    penalty = ready.penalty(l2)
    fit = ready.fit(penalty.l2)
    leakage = ready.read(
        fit,
        noise=noise,
        include_target=include_target,
        unit=unit,
        frame=table,
        remarks=(penalty_remark(penalty),),
        answers=answers,
    )
    W = by_output(fit, coordinate_weights(ready.columns, fit.w) if is_sparse(ready.design.X) else fit.w)
    names = ready.columns.names
    coef = {name: tuple(row) for name, row in zip(names, W[:-1].tolist(), strict=True)}
    name_and_score = score(fit.loss, fit.margin, ready.y)
    classes = () if ready.classes is None else tuple(ready.classes.tolist())
    intercept = tuple(W[-1].tolist())
    return TableFit(leakage, names, ready.outputs, coef, intercept, *name_and_score, penalty, ready.columns, classes)


def penalty_remark(penalty: glm.Penalty) -> str:
    """The penalty of a fit, for the remarks."""
    return f"{penalty.sentence}; on the weights of the standardised columns, the intercept is not penalised"


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table turned into the numbers of a fit, with the names to read its figures by."""

    y: FloatArray
    loss: Any
    target: str
    outputs: tuple[str, ...]
    columns: TableEncoding
    design: Design
    ids: tuple[Any, ...] | None
    tied: Tied
    remarks: tuple[str, ...]
    classes: NDArray[Any] | None = None
    """The classes of the target in their order, as the table writes them; None if it is a number."""
    declared: bool = False
    """Whether columns, levels and classes follow from public bounds."""
    scaler: str = "total"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken as known without a check."""
        return (TAKEN,) if self.declared else ()

    def penalty(self, l2: float | None) -> glm.Penalty:
        """The stated penalty, or scikit-learn's default for this loss and number of rows."""
        return glm.penalty(self.loss, len(self.y), l2)

    @property
    def shared(self) -> dict[str, Any]:
        """What is one unknown for all rows of a person, as `glm` takes it."""
        positions = [j for name in self.tied.columns for j in self.design.blocks[name]]
        return {"tied": positions, "tied_target": self.tied.target}

    def fit(self, l2: float) -> glm.Fit:
        """The exact minimiser with penalty l2; a refusal names the columns that cause it."""
        stage("fitting the model")
        # Levels are read through a map that is not diagonal: the rule by size would choose routes that have none.
        route = "primal" if is_sparse(self.design.X) else None
        with name_columns_in_refusals(self.design.names):
            return glm.fit(self.design.X, self.y, self.loss, l2, intercept=True, route=route)

    def read(
        self,
        fit: glm.Fit,
        *,
        noise: Any,
        include_target: bool,
        unit: str,
        frame: Any,
        remarks: Sequence[str] = (),
        answers: bool = False,
    ) -> TableLeakage:
        """The `TableLeakage` of a fit of this table; answers: as in `fit_table`."""
        options = measure_options(self.design, self.loss, self.y, noise=noise, include_target=include_target, unit=unit)
        figures = measure_with_scaler(fit, self.design, self.y, options, self.scaler)
        kinks, sides = kink_remarks(fit)
        leak = TableLeakage(
            figures.leak,
            fit,
            self.design,
            frame=frame,
            target=self.target,
            target_unit=options["target_unit"],
            measured_in=UNITS[unit],
            ids=self.ids,
            tied=self.tied.columns,
            tied_target=self.tied.target,
            not_covered=(*figures.not_covered, *sides),
            remarks=(*self.remarks, *remarks, *kinks),
            assumptions=self.assumptions,
            floor=figures.floor,
            whole=figures.whole,
            scaler=self.scaler,
        )
        return leak if answers else leak.with_floor_remark()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What no figure of this table covers."""
        of_design = not_covered_with_scaler(self.design) if self.scaler == "total" else self.design.not_covered
        return (*of_design, *((SIDES,) if self.loss.has_kinks else ()))


def prepare(
    table: Table,
    target: str,
    *,
    loss: str = "auto",
    person: str | None = None,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    include_target: bool = True,
    bounds: Bounds | None = None,
    own_units: bool = False,
    scaler: str = "total",
    sparse: MayBeSparse | None = None,
    by_person: bool = True,
) -> PreparedTable:
    """Columns standardised and one-hot encoded, the target as its loss wants it, persons and tied values checked.

    bounds: as in `fit_table`. own_units: numbers are centred and clipped by their bounds, but not scaled.
    include_target: whether the target counts among a row's unknowns. sparse: whether the fit can be of a sparse table,
    which a category of many levels becomes; None if it cannot. by_person: whether the verb takes a person column.
    """
    check_scaler(scaler)
    stage("preparing the columns")
    if loss not in loss_names():
        raise Refusal(f"{option('loss', safe_text(loss))}: use {', '.join(loss_names())}")
    if person == target:
        raise Refusal(SAME.format(name=safe_text(target)))
    declared = None if bounds is None else declarations(bounds)
    if declared is not None:
        refuse_unknown(declared, [name for name in (*table.names, *exclude) if name != person])
        table = clip_target(table, target, declared.get(target))
    y, kind, outputs, remark, classes = prepare_target(
        table, target, loss, None if declared is None else target_declaration(declared, target)
    )
    if declared is not None and not kind.target.classes and not varies(y):
        raise Refusal(f"the target {safe_text(target)} has one value only, within its bounds: there is nothing to fit")
    rest = table.drop({target, *exclude, *([] if person is None else [person])})
    ids = None if person is None else tuple(table[person].tolist())
    for name in (target, *([] if person is None else [person])):
        if name in table.gaps:
            raise Refusal(f"column {safe_text(name)} had missing values, which are not filled in: leave the rows out")
    may_be_sparse = sparse is not None and sparse(kind, table.n)
    columns = (
        learn_encoding(
            rest,
            categorical=categorical,
            max_levels=MANY_LEVELS if may_be_sparse else MAX_LEVELS,
            may_name_person=by_person and person is None,
            may_declare=by_person,  # the verbs that take persons take bounds too
        )
        if declared is None
        else declared_encoding(rest, declared, own_units=own_units)
    )
    many = may_be_sparse and has_many_levels(columns)
    if many and rest.gaps:
        raise Refusal(f"cells are not filled in beside {MAX_LEVELS} levels or more: use {option('missing', 'drop')}")
    design = mark_gaps(design_of(columns, rest, declared is not None, sparse=many), rest)
    sources = {name: rest[name] for name in rest.names if design.blocks[name] or name in (*tied, *not_tied)}
    for name in [] if ids is None else [name for name in sources if name in rest.gaps]:
        sources[name] = observed_by_person(sources[name], rest.gaps[name].mask, ids or ())
    shared = tie(sources, y if include_target else None, ids, target, tied, not_tied, frame=rest)
    numbers = [number.name for number in columns.numbers]
    aside = {name for name in rest.names if name not in numbers}
    remarks = (
        remark,
        *target_remarks(table, target, loss),
        *(class_remarks(table[target], ids, target) if kind.target.classes else ()),
        *columns.remarks,
        *((many_levels_remark(columns),) if many else ()),
        *(() if declared is None else outside_remarks(columns, rest)),
        *gap_remarks(rest.gaps),
        *id_remarks(rest.drop(aside)),
        *id_remarks_of_people(ids or ()),
        *(() if declared is not None else chain.from_iterable(map(_level_remarks, columns.sources))),
        *shared.remarks,
    )
    scaler = "held" if many else scaler
    return PreparedTable(
        y, kind, target, outputs, columns, design, ids, shared, remarks, classes, declared is not None, scaler=scaler
    )


def _level_remarks(source: Any) -> tuple[str, ...]:
    return level_remarks(source.name, source.levels) if isinstance(source, CategoryColumn) else ()


def design_of(columns: TableEncoding, table: Table, declared: bool, sparse: bool = False) -> Design:
    """The design of a table with this encoding; declared: its constants are public. sparse: levels are indicators."""
    numbers = [s.name for s in columns.sources if isinstance(s, NumberColumn) and s.fitted]
    two = [s.name for s in columns.sources if isinstance(s, NumberColumn) and s.two and table.kind(s.name) != "bool"]
    labels = [s.name for s in columns.sources if isinstance(s, CategoryColumn) or s.name in two]
    not_covered = [held_fixed(STATISTIC, numbers)] if numbers and not declared else []
    if labels and not declared:
        not_covered.append(held_fixed("the levels", labels))
    constant_map = np.diag(1.0 / columns.scale)
    blocks = {name: columns.blocks.get(name, ()) for name in table.names}
    observed = {s.name: s.values(table) for s in columns.sources if isinstance(s, NumberColumn)}
    observed |= {name: observed[name][~gap.mask] for name, gap in table.gaps.items() if name in observed}
    vertices = {label.name: label.vertices for label in columns.labels}
    vertices |= categories(constant_map, blocks, (), observed)
    spread = spreads(columns, table) if declared else columns.scale
    spread[[j for name in vertices for j in blocks[name]]] = 1.0
    fitted = spread_over(columns, columns.fitted) if sparse else columns.fitted
    return Design(
        X=indicator_table(columns, table) if sparse else columns.design(table),
        names=indicator_names(columns) if sparse else columns.names,
        constant_map=indicator_map(columns, np.diagonal(constant_map)) if sparse else constant_map,
        blocks=blocks,
        vertices=vertices,
        spread=spread,
        not_covered=tuple(not_covered),
        fitted=fitted if fitted.any() else (),
    )


def mark_gaps(design: Design, table: Table) -> Design:
    """The design with filled cells marked; the spread of a number is that of its observed values."""
    masks = {name: gap.mask for name, gap in table.gaps.items()}
    known = known_cells(design.blocks, masks, table.n, design.constant_map.shape[1])
    if known is None:
        return design
    spreads = np.array(design.spread)
    for name in table.gaps:
        if name not in design.nominal:
            for j in design.blocks.get(name, ()):  # one unknown a column: its slope is 1/scale
                spreads[j] = spread(design.X[~table.gaps[name].mask, j]) / design.constant_map[j, j]
    return replace(design, known=known, spread=spreads, not_covered=(*design.not_covered, *gap_notes(table.gaps)))


def by_output(fit: glm.Fit, w: FloatArray) -> FloatArray:
    """(p, outputs) weights w of the fit's shape, the intercept last."""
    return w @ fit.loss.contrast.T if isinstance(fit.loss, glm.Softmax) else w[:, None]


def score(loss: Any, m: FloatArray, y: FloatArray) -> tuple[str, float]:
    """Name and value of how well margins m do: accuracy, R², or D² (share of the deviance explained)."""
    return loss.score_name, float(loss.score(m, y))
