"""Our own fit on a named table: standardised numbers, one-hot labels, an unpenalised intercept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal
from dosimeter.frames.columns import COMMA, Columns, Nominal, Number, decimal_commas
from dosimeter.frames.dependent import columns_named
from dosimeter.frames.features import Design, held_fixed
from dosimeter.frames.leakage import TableLeakage
from dosimeter.frames.measure import SAME, UNITS, check, reading, refuse_untied
from dosimeter.frames.remarks import class_remarks, id_remarks, target_remarks, tied_remarks
from dosimeter.frames.table import Table
from dosimeter.io.text import harmless, listed

LOSSES = ("auto", "squared", "logistic", "poisson", "softmax")
MOST_CLASSES = 50


@dataclass(frozen=True, eq=False)
class OwnFit:
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
    unit: str = "sd",
    label: bool = True,
) -> OwnFit:
    """Fit eq. 13 with penalty l2 on the standardised columns and measure the release of its weights.

    l2: None is the penalty of scikit-learn's default model for the loss (`glm.penalty`).

    >>> from dosimeter.core.noise import Gaussian
    >>> people = Table.of({"age": [40, 50, 60, 70], "sex": list("fmfm"), "ill": ["no", "no", "yes", "no"]})
    >>> own = fit_table(people, "ill", l2=0.1, noise=Gaussian(0.1))
    >>> own, list(own.coef), own.leakage.measured_in
    (<OwnFit logistic, 2 weights, accuracy 0.750 on its own table>, ['age', 'sex=m'], 'standard deviations')
    """
    check(noise, unit, tied, person)
    ready = prepare(table, target, loss=loss, person=person, nominal=nominal, drop=drop, tied=tied)
    penalty = ready.penalty(l2)
    fit = ready.fit(penalty.l2)
    leakage = ready.read(fit, noise=noise, label=label, unit=unit, frame=table, remarks=(penalty_remark(penalty),))
    W = by_output(fit, fit.w)
    names = ready.columns.names
    coef = {name: tuple(row) for name, row in zip(names, W[:-1].tolist(), strict=True)}
    how_well = score(fit.loss, fit.margin, ready.y)
    return OwnFit(leakage, names, ready.outputs, coef, tuple(W[-1].tolist()), *how_well, penalty)


def penalty_remark(penalty: glm.Penalty) -> str:
    """What a fit of ours is penalised by, for the remarks."""
    return f"{penalty.words}; on the weights of the standardised columns, the intercept is not penalised"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table turned into the numbers of a fit, with the names to read its figures by."""

    y: FloatArray
    loss: Any
    target: str
    outputs: tuple[str, ...]
    columns: Columns
    design: Design
    ids: tuple[Any, ...] | None
    tied: tuple[str, ...]
    remarks: tuple[str, ...]

    def penalty(self, l2: float | None) -> glm.Penalty:
        """The stated penalty, or scikit-learn's default for this loss and number of rows."""
        return glm.penalty(self.loss, len(self.y), l2)

    def fit(self, l2: float) -> glm.Fit:
        """The exact minimiser with penalty l2; columns that are to blame for a refusal are named."""
        with columns_named(self.design.names):
            return glm.fit(self.design.X, self.y, self.loss, l2, intercept=True)

    def read(
        self, fit: glm.Fit, *, noise: Any, label: bool, unit: str, frame: Any, remarks: Sequence[str] = ()
    ) -> TableLeakage:
        """The `TableLeakage` of a fit of this table."""
        how = reading(self.design, self.loss, self.y, noise=noise, label=label, unit=unit)
        return TableLeakage(
            glm.measure(fit, self.design.X, self.y, **how),
            fit,
            self.design,
            frame=frame,
            target=self.target,
            label_unit=how["label_unit"],
            measured_in=UNITS[unit],
            ids=self.ids,
            tied=self.tied,
            uncovered=self.design.uncovered,
            remarks=(*self.remarks, *remarks),
        )


def prepare(
    table: Table,
    target: str,
    *,
    loss: str = "auto",
    person: str | None = None,
    nominal: Sequence[str] = (),
    drop: Sequence[str] = (),
    tied: Sequence[str] = (),
) -> Prepared:
    """Columns standardised and one-hot encoded, the target as its loss wants it, persons and tied columns checked."""
    if loss not in LOSSES:
        raise Refusal(f"loss {harmless(loss)!r} is not one of {', '.join(LOSSES)}")
    if person == target:
        raise Refusal(SAME.format(name=harmless(target)))
    y, kind, outputs, remark = _target(table, target, loss)
    rest = table.drop({target, *drop, *([] if person is None else [person])})
    ids = None if person is None else tuple(table[person].tolist())
    if tied and ids is None:
        raise Refusal("tied columns are one value per person: name the person column as well")
    refuse_untied(tied, {name: rest[name] for name in rest.names}, ids, target, rest)
    columns = Columns.of(rest, nominal=nominal)
    design = _design(columns, rest)
    numbers = [s.name for s in columns.sources if isinstance(s, Number)]
    aside = {name for name in rest.names if name not in numbers}
    remarks = (
        remark,
        *target_remarks(table, target, loss),
        *(class_remarks(table[target], ids, target) if isinstance(kind, glm.Logistic | glm.Softmax) else ()),
        *columns.notes,
        *id_remarks(rest.drop(aside)),
        *tied_remarks({name: rest[name] for name in rest.names}, ids, tied),
    )
    return Prepared(y, kind, target, outputs, columns, design, ids, tuple(tied), remarks)


def _target(table: Table, target: str, loss: str) -> tuple[FloatArray, Any, tuple[str, ...], str]:
    """y (n,) as the loss wants it, the loss, the outputs' names, and a remark that says what was chosen."""
    column, shown = table[target], harmless(target)
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
        remark = f"loss logistic, {how}: 1 is {shown} = {harmless(levels[1])}"
        return (_positions(column, levels)), glm.Logistic(), (target,), remark
    if chosen == "softmax":
        if len(levels) > MOST_CLASSES:
            raise Refusal(
                f"the target {shown} has {len(levels)} classes and at most {MOST_CLASSES} are taken: use squared"
            )
        remark = f"loss softmax, {how}: the classes of {shown} are {listed(levels)}"
        return _positions(column, levels), glm.Softmax(len(levels), "mean"), tuple(map(str, levels)), remark
    y = np.asarray(column, dtype=np.float64)
    return y, glm.Squared() if chosen == "squared" else glm.Poisson(), (target,), f"loss {chosen}, {how}"


def _positions(column: NDArray[Any], levels: list[Any]) -> FloatArray:
    place = {level: float(k) for k, level in enumerate(levels)}
    return np.array([place[cell] for cell in column.tolist()])


def _design(columns: Columns, table: Table) -> Design:
    numbers = [s.name for s in columns.sources if isinstance(s, Number) and table.kind(s.name) != "bool"]
    labels = [s.name for s in columns.sources if isinstance(s, Nominal)]
    uncovered = [held_fixed("mean and scale", numbers)] if numbers else []
    if labels:
        uncovered.append(held_fixed("the levels", labels))
    return Design(
        X=columns.design(table),
        names=columns.names,
        through=columns.through,
        blocks={name: columns.blocks.get(name, ()) for name in table.names},
        nominal=frozenset(labels),
        spread=columns.scale,
        uncovered=tuple(uncovered),
    )


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
