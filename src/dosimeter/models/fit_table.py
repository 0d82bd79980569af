"""Our own fit on a named table: standardised numbers, one-hot labels, an unpenalised intercept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.adapters.features import Design, categories, held_fixed, known_cells
from dosimeter.adapters.named_errors import columns_named
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_list, safe_text
from dosimeter.models.fitted_scaler import STATISTIC, check_scaler, covered, read_through
from dosimeter.models.given_model import SAME, UNITS, check, reading
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.tables.column_values import spread
from dosimeter.tables.constant_values import Tied, tie
from dosimeter.tables.data_checks import class_remarks, id_remarks, target_remarks
from dosimeter.tables.declared_bounds import (
    TAKEN,
    Bounds,
    Declaration,
    declarations,
    declared_columns,
    outside_remarks,
    refuse_unknown,
    spreads,
)
from dosimeter.tables.fit_encoding import COMMA, CategoryColumn, Columns, NumberColumn, as_text, decimal_commas
from dosimeter.tables.missing_values import gap_notes, gap_remarks, observed_by_person
from dosimeter.tables.table import Table

LOSSES = ("auto", "squared", "logistic", "poisson", "softmax")
MOST_CLASSES = 50


@dataclass(frozen=True, eq=False)
class TableFit:
    """A model that was fitted here, how well it does on its own table, and what it gives away."""

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

    def __repr__(self) -> str:
        loss = self.leakage.fit.loss.name
        return f"<OwnFit {loss}, {len(self.names)} weights, {self.score_name} {self.score:.3f} on its own table>"


def fit_table(
    table: Table,
    target: str,
    *,
    l2: float | None = None,
    noise: Any,
    loss: str = "auto",
    person: str | None = None,
    nominal: Sequence[str] = (),
    drop: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    unit: str = "sd",
    label: bool = True,
    bounds: Bounds | None = None,
    own_units: bool = False,
    scaler: str = "total",
) -> TableFit:
    """Fit eq. 13 with penalty l2 on the standardised columns and measure the release of its weights.

    l2: None is the penalty of scikit-learn's default model for the loss (`glm.penalty`).
    bounds: column -> (lower, upper), or a list of levels: public, so that nothing of the preprocessing is a statistic
    of the table. Without them columns are standardised by their own mean and deviation.
    scaler: 'total' measures the weights as they leave, folded into the columns' own units, through mean and deviation;
    'held' regards these as public, and what they leave at any noise is told beside the figures.

    >>> from dosimeter.core.noise import Gaussian
    >>> people = Table.of({"age": [40, 50, 60, 70], "sex": list("fmfm"), "ill": ["no", "no", "yes", "no"]})
    >>> own = fit_table(people, "ill", l2=0.1, noise=Gaussian(0.1))
    >>> own, list(own.coef), own.leakage.measured_in
    (<OwnFit logistic, 2 weights, accuracy 0.750 on its own table>, ['age', 'sex=m'], 'standard deviations')
    """
    check(noise, unit, (*tied, *not_tied), person)
    ready = prepare(
        table,
        target,
        loss=loss,
        person=person,
        nominal=nominal,
        drop=drop,
        tied=tied,
        not_tied=not_tied,
        label=label,
        bounds=bounds,
        own_units=own_units,
        scaler=scaler,
    )
    penalty = ready.penalty(l2)
    fit = ready.fit(penalty.l2)
    leakage = ready.read(fit, noise=noise, label=label, unit=unit, frame=table, remarks=(penalty_remark(penalty),))
    W = by_output(fit, fit.w)
    names = ready.columns.names
    coef = {name: tuple(row) for name, row in zip(names, W[:-1].tolist(), strict=True)}
    how_well = score(fit.loss, fit.margin, ready.y)
    return TableFit(leakage, names, ready.outputs, coef, tuple(W[-1].tolist()), *how_well, penalty)


def penalty_remark(penalty: glm.Penalty) -> str:
    """What a fit of ours is penalised by, for the remarks."""
    return f"{penalty.words}; on the weights of the standardised columns, the intercept is not penalised"


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table turned into the numbers of a fit, with the names to read its figures by."""

    y: FloatArray
    loss: Any
    target: str
    outputs: tuple[str, ...]
    columns: Columns
    design: Design
    ids: tuple[Any, ...] | None
    tied: Tied
    remarks: tuple[str, ...]
    classes: NDArray[Any] | None = None
    """The classes of the target in their order, as the table writes them; None where it is a number."""
    declared: bool = False
    """Whether columns, levels and classes follow from public bounds."""
    scaler: str = "total"

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is taken on the caller's word."""
        return (TAKEN,) if self.declared else ()

    def penalty(self, l2: float | None) -> glm.Penalty:
        """The stated penalty, or scikit-learn's default for this loss and number of rows."""
        return glm.penalty(self.loss, len(self.y), l2)

    @property
    def shared(self) -> dict[str, Any]:
        """What is one unknown for all rows of a person, as `glm` takes it."""
        positions = [j for name in self.tied.columns for j in self.design.blocks[name]]
        return {"tied": positions, "tied_label": self.tied.label}

    def fit(self, l2: float) -> glm.Fit:
        """The exact minimiser with penalty l2; columns that are to blame for a refusal are named."""
        stage("fitting the model")
        with columns_named(self.design.names):
            return glm.fit(self.design.X, self.y, self.loss, l2, intercept=True)

    def read(
        self, fit: glm.Fit, *, noise: Any, label: bool, unit: str, frame: Any, remarks: Sequence[str] = ()
    ) -> TableLeakage:
        """The `TableLeakage` of a fit of this table."""
        how = reading(self.design, self.loss, self.y, noise=noise, label=label, unit=unit)
        found = read_through(fit, self.design, self.y, how, self.scaler)
        leak = TableLeakage(
            found.leak,
            fit,
            self.design,
            frame=frame,
            target=self.target,
            label_unit=how["label_unit"],
            measured_in=UNITS[unit],
            ids=self.ids,
            tied=self.tied.columns,
            tied_label=self.tied.label,
            uncovered=found.uncovered,
            remarks=(*self.remarks, *remarks),
            assumed=self.assumed,
            floor=found.floor,
            scaler=self.scaler,
        )
        return leak.with_floor_remark()

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What no figure of this table covers."""
        return covered(self.design) if self.scaler == "total" else self.design.uncovered


def prepare(
    table: Table,
    target: str,
    *,
    loss: str = "auto",
    person: str | None = None,
    nominal: Sequence[str] = (),
    drop: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    label: bool = True,
    bounds: Bounds | None = None,
    own_units: bool = False,
    scaler: str = "total",
) -> PreparedTable:
    """Columns standardised and one-hot encoded, the target as its loss wants it, persons and tied values checked.

    bounds: as in `fit_table`. own_units: numbers are centred and clipped by their bounds, but not scaled.
    label: whether the target counts among a row's unknowns.
    """
    check_scaler(scaler)
    stage("preparing the columns")
    if loss not in LOSSES:
        raise Refusal(f"loss {safe_text(loss)!r} is not one of {', '.join(LOSSES)}")
    if person == target:
        raise Refusal(SAME.format(name=safe_text(target)))
    told = None if bounds is None else declarations(bounds)
    if told is not None:
        refuse_unknown(told, [name for name in (*table.names, *drop) if name != person])
        table = _clipped_target(table, target, told.get(target))
    y, kind, outputs, remark, classes = _target(table, target, loss, None if told is None else _about(told, target))
    rest = table.drop({target, *drop, *([] if person is None else [person])})
    ids = None if person is None else tuple(table[person].tolist())
    for name in (target, *([] if person is None else [person])):
        if name in table.gaps:
            raise Refusal(f"column {safe_text(name)} had missing values, which are not filled in: leave the rows out")
    columns = Columns.of(rest, nominal=nominal) if told is None else declared_columns(rest, told, own_units=own_units)
    design = with_gaps(_design(columns, rest, told is not None), rest)
    sources = {name: rest[name] for name in rest.names if design.blocks[name] or name in (*tied, *not_tied)}
    for name in [] if ids is None else [name for name in sources if name in rest.gaps]:
        sources[name] = observed_by_person(sources[name], rest.gaps[name].mask, ids or ())
    shared = tie(sources, y if label else None, ids, target, tied, not_tied, frame=rest)
    numbers = [s.name for s in columns.sources if isinstance(s, NumberColumn)]
    aside = {name for name in rest.names if name not in numbers}
    remarks = (
        remark,
        *target_remarks(table, target, loss),
        *(class_remarks(table[target], ids, target) if isinstance(kind, glm.Logistic | glm.Softmax) else ()),
        *columns.notes,
        *(() if told is None else outside_remarks(columns, rest)),
        *gap_remarks(rest.gaps),
        *id_remarks(rest.drop(aside)),
        *shared.remarks,
    )
    return PreparedTable(
        y, kind, target, outputs, columns, design, ids, shared, remarks, classes, told is not None, scaler=scaler
    )


_Told = tuple[FloatArray, Any, tuple[str, ...], str, NDArray[Any] | None]


def _about(told: dict[str, Declaration], target: str) -> Declaration | tuple[()]:
    return told.get(target, ())


def _clipped_target(table: Table, target: str, told: Declaration | None) -> Table:
    """The table with the target held to its public bounds, where it has some."""
    if told is None or isinstance(told, tuple):
        return table
    if table.kind(target) == "text":
        raise Refusal(f"the target {safe_text(target)} holds text, and lower and upper were declared: declare levels")
    held = np.clip(table[target].astype(float), told.lower, told.upper)
    columns = tuple(held if name == target else table[name] for name in table.names)
    return Table(table.names, columns, table.rows, table.dropped, table.gaps)


def _classes(table: Table, target: str, told: tuple[str, ...]) -> tuple[NDArray[Any], FloatArray]:
    """The declared classes as the table writes them, in order, and the position of each row's among them."""
    kind, shown = table.kind(target), safe_text(target)
    try:
        typed = sorted((float(level) if kind == "number" else level, level) for level in told)
    except ValueError:
        raise Refusal(f"the target {shown} holds numbers, and its declared levels are not: correct them") from None
    words = [level for _, level in typed]
    if kind == "number":  # 1 and 1.0 are one class
        words = [str(int(v)) if float(v).is_integer() else repr(float(v)) for v, _ in typed]
    place = {level: float(k) for k, level in enumerate(words)}
    cells = as_text(table, target).tolist()
    if any(cell not in place for cell in cells):
        raise Refusal(f"the target {shown} has a value that is not among its declared levels: declare all classes")
    values = [cell == "True" for cell in words] if kind == "bool" else [value for value, _ in typed]
    return np.array(values), np.array([place[cell] for cell in cells])


def _target(table: Table, target: str, loss: str, told: Declaration | tuple[()] | None = None) -> _Told:
    """y (n,) as the loss wants it, the loss, the outputs' names, a remark that says what was chosen, the classes.

    told: what is declared about the target, () for nothing; None where it may be read off the table.
    """
    if told is not None:
        return _declared_target(table, target, loss, told)
    column, shown = table[target], safe_text(target)
    levels = sorted(set(column.tolist()))
    if len(levels) < 2:
        raise Refusal(f"the target {shown} has one value only: there is nothing to fit")
    text = table.kind(target) == "text"
    chosen = loss
    if loss == "auto":
        chosen = "logistic" if len(levels) == 2 else "softmax" if text else "squared"
    if text and decimal_commas(map(str, levels)):
        raise Refusal(f"the target {shown} holds numbers with a {COMMA}")
    if text and chosen in ("squared", "poisson"):
        raise Refusal(f"the target {shown} holds text: use the loss logistic or softmax")
    how = "chosen for the target's values" if loss == "auto" else "as asked"
    if chosen == "logistic":
        if len(levels) != 2:
            raise Refusal(f"the target {shown} has {len(levels)} values and logistic needs two: use softmax or squared")
        remark = f"loss logistic, {how}: 1 is {shown} = {safe_text(levels[1])}"
        return (_positions(column, levels)), glm.Logistic(), (target,), remark, np.unique(column)
    if chosen == "softmax":
        if len(levels) > MOST_CLASSES:
            raise Refusal(
                f"the target {shown} has {len(levels)} classes and at most {MOST_CLASSES} are taken: use squared"
            )
        remark = f"loss softmax, {how}: the classes of {shown} are {safe_list(levels)}"
        outputs = tuple(map(str, levels))
        return _positions(column, levels), glm.Softmax(len(levels), "mean"), outputs, remark, np.array(levels)
    y = np.asarray(column, dtype=np.float64)
    return y, glm.Squared() if chosen == "squared" else glm.Poisson(), (target,), f"loss {chosen}, {how}", None


def _declared_target(table: Table, target: str, loss: str, told: Declaration | tuple[()]) -> _Told:
    """The same from what is declared: which loss and which classes must not depend on the rows."""
    shown, how = safe_text(target), "chosen for the target's declaration" if loss == "auto" else "as asked"
    if isinstance(told, tuple) and told:
        classes, y = _classes(table, target, told)
        if len(classes) < 2:
            raise Refusal(f"bounds of the target {shown}: declare two classes or more")
        chosen = loss if loss != "auto" else "logistic" if len(classes) == 2 else "softmax"
        if chosen == "logistic" and len(classes) == 2:
            remark = f"loss logistic, {how}: 1 is {shown} = {safe_text(classes[1])}"
            return y, glm.Logistic(), (target,), remark, classes
        if chosen == "softmax" and len(classes) <= MOST_CLASSES:
            remark = f"loss softmax, {how}: the classes of {shown} are {safe_list(classes.tolist())}"
            return y, glm.Softmax(len(classes), "mean"), tuple(map(str, classes.tolist())), remark, classes
        raise Refusal(
            f"the target {shown} is declared with {len(classes)} levels, which the loss {chosen} does not fit"
        )
    if loss in ("logistic", "softmax"):
        raise Refusal(f"the loss {loss} needs the classes of {shown}: declare its levels")
    if not told and loss == "auto":
        raise Refusal(f"nothing is declared about the target {shown}: declare bounds or levels, or name the loss")
    if table.kind(target) == "text":
        raise Refusal(f"the target {shown} holds text: declare its levels")
    y = np.asarray(table[target], dtype=np.float64)
    chosen = "squared" if loss == "auto" else loss
    return y, glm.Squared() if chosen == "squared" else glm.Poisson(), (target,), f"loss {chosen}, {how}", None


def _positions(column: NDArray[Any], levels: list[Any]) -> FloatArray:
    place = {level: float(k) for k, level in enumerate(levels)}
    return np.array([place[cell] for cell in column.tolist()])


def _design(columns: Columns, table: Table, declared: bool) -> Design:
    numbers = [s.name for s in columns.sources if isinstance(s, NumberColumn) and s.fitted]
    labels = [
        s.name for s in columns.sources if isinstance(s, CategoryColumn) or (s.two and table.kind(s.name) != "bool")
    ]
    uncovered = [held_fixed(STATISTIC, numbers)] if numbers and not declared else []
    if labels and not declared:
        uncovered.append(held_fixed("the levels", labels))
    X, through = columns.design(table), columns.through
    blocks = {name: columns.blocks.get(name, ()) for name in table.names}
    seen = {s.name: s.values(table) for s in columns.sources if isinstance(s, NumberColumn)}
    seen |= {name: seen[name][~gap.mask] for name, gap in table.gaps.items() if name in seen}
    vertices = {s.name: s.vertices for s in columns.sources if isinstance(s, CategoryColumn)}
    vertices |= categories(through, blocks, (), seen)
    spread = spreads(columns, table) if declared else columns.scale
    spread[[j for name in vertices for j in blocks[name]]] = 1.0
    return Design(
        X=X,
        names=columns.names,
        through=through,
        blocks=blocks,
        vertices=vertices,
        spread=spread,
        uncovered=tuple(uncovered),
        fitted=columns.fitted if columns.fitted.any() else (),
    )


def with_gaps(design: Design, table: Table) -> Design:
    """The design with the cells that were filled in marked; a number's spread is that of the values that are there."""
    masks = {name: gap.mask for name, gap in table.gaps.items()}
    known = known_cells(design.blocks, masks, table.n, design.through.shape[1])
    if known is None:
        return design
    found = np.array(design.spread)
    for name in table.gaps:
        if name not in design.nominal:
            for j in design.blocks.get(name, ()):  # one unknown a column: its slope is 1/scale
                found[j] = spread(design.X[~table.gaps[name].mask, j]) / design.through[j, j]
    return replace(design, known=known, spread=found, uncovered=(*design.uncovered, *gap_notes(table.gaps)))


def by_output(fit: glm.Fit, w: FloatArray) -> FloatArray:
    """(p, outputs) weights w of the fit's shape, the intercept last."""
    return w @ fit.loss.contrast.T if isinstance(fit.loss, glm.Softmax) else w[:, None]


def score(loss: Any, m: FloatArray, y: FloatArray) -> tuple[str, float]:
    """Name and value of how well margins m do: accuracy, R², or D² (share of the Poisson deviance explained)."""
    if isinstance(loss, glm.Softmax):
        return "accuracy", float(np.mean((m @ loss.contrast.T).argmax(axis=1) == y))
    if isinstance(loss, glm.Logistic):
        return "accuracy", float(np.mean((m > 0) == (y > 0.5)))
    if isinstance(loss, glm.Squared):
        return "R²", 1.0 - float(np.sum((y - m) ** 2) / np.sum((y - y.mean()) ** 2))
    return "D²", 1.0 - _deviance(y, np.exp(np.minimum(m, 700.0))) / _deviance(y, np.full_like(y, y.mean()))


def _deviance(y: FloatArray, mean: FloatArray) -> float:
    """Poisson deviance Σ 2(y log(y/μ) - y + μ)."""
    from scipy.special import xlogy

    return float(2.0 * np.sum(xlogy(y, y / mean) - y + mean))
