"""From a table and a limit to a model that may leave: fitted, reweighted or shaped on request, noised, priced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, no_noise
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.progress import stage
from dosimeter.core.release import Release
from dosimeter.glm.noise_choice import EQUALISED, ISOTROPIC, ROUNDS, SHAPED
from dosimeter.glm.penalty import STATED
from dosimeter.glm.release_plan import ReleasePlan, route
from dosimeter.models.fit_table import PreparedTable, prepare, score
from dosimeter.models.given_model import label_unit
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.models.usefulness import Usefulness, usefulness
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.declared_bounds import Bounds
from dosimeter.tables.sklearn_export import fold, pipeline, raw
from dosimeter.tables.table import Table

NOISED = "each released weight of the standardised columns"
UNIT = "the deviations in which columns and target count in the reweighting are statistics of the data: not covered"
FORM = "the form of the model (which columns vary) is read off the table: not covered"
FORM_OF_CLASSES = (
    "the form of the model (which columns vary, which two classes occur) is read off the table: not covered"
)


@dataclass(frozen=True, eq=False)
class TableRelease:
    """A model before and after: doses in standard deviations, scores on its own table. Internal but for the release."""

    ready: PreparedTable
    before: TableLeakage
    """The exact weights: figures unbounded, `relative` at noise of scale 1."""
    plan: ReleasePlan
    release: Release
    model: Any
    """The released model: a scikit-learn Pipeline over the source columns."""
    doses: FloatArray
    """(people,) η of each person after the repair."""
    score_name: str
    score_before: float
    score_after: float
    penalty: glm.Penalty
    kind: str
    """Of the noise: isotropic, shaped or equalised."""
    useful: Usefulness
    rows: tuple[Row, ...]
    """The released numbers as sums over the noised weights."""
    choice: glm.Choice | None = None
    """What the other kinds would have cost; None where the kind was stated."""
    noise_on: str = NOISED

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What no figure covers: the choices of the columns, the form of the file, then the choices of the noise."""
        form = FORM_OF_CLASSES if isinstance(self.ready.loss, glm.Logistic) else FORM
        return (*self.ready.uncovered, *(() if self.ready.declared else (form,)), *self.plan.uncovered)

    @property
    def dose(self) -> Dose:
        """One row per person, or per row of the table where no person was named, in standard deviations. Internal."""
        ids = self.ready.ids
        return Dose.of_reading(
            FISHER,
            "example" if ids is None else "person",
            tuple(range(len(self.doses))) if ids is None else tuple(dict.fromkeys(ids)),
            self.doses,
            standing=Standing.UNACCOUNTED if self.uncovered else Standing.EXACT,
            measured_in="standard deviations",
            uncovered=self.uncovered,
        )

    @property
    def dose_with_blocks(self) -> Dose:
        """The same with each person's Fisher matrix, for a ledger that keeps them. Internal."""
        ready, design = self.ready, self.ready.design
        if ready.ids is None:
            raise Refusal("blocks are kept of persons: name the column that says whose row it is, --person")
        names = {j: f"{name}/{k}" for name, unknowns in design.blocks.items() for k, j in enumerate(unknowns)}
        found = glm.blocks(
            self.plan.leakage,
            ready.ids,
            np.column_stack([design.X, ready.y]),
            units=np.concatenate([(design.through * design.spread).ravel(), design.spread, [_label_unit(ready)]]),
            names=[names[j] for j in range(len(names))],
            **ready.shared,
        )
        return replace(self.dose, blocks=found)

    @property
    def drawn(self) -> FloatArray:
        """(weights,) the noise, released minus exact. Internal: with it the exact weights are known."""
        values, w = self.release.values, self.plan.fit.w
        exact = [sum(float(a) * w[j] for j, a in row.items()) for row in self.rows]
        return np.concatenate([values["coef"], values["intercept"]]) - np.array(exact, dtype=np.float64)


def repair(
    table: Table,
    target: str,
    *,
    max_dose: float | None = None,
    scale: float | None = None,
    l2: float | None = None,
    loss: str = "auto",
    law: type[Density] = Gaussian,
    equalise: int = 0,
    shape: str | None = None,
    person: str | None = None,
    nominal: Sequence[str] = (),
    drop: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    bounds: Bounds | None = None,
    own_units: bool = False,
    scaler: str = "total",
    rng: np.random.Generator | None = None,
) -> TableRelease:
    """Fit, choose the noise for a highest dose of max_dose (or take the public scale), draw it, build the model.

    shape: None for noise alike on all weights, "hessian", or "auto" for what costs least at max_dose (`glm.choose`).
    l2: None is the penalty of scikit-learn's default model for the loss.
    bounds, scaler: as in `fit_table`; a limit below what a fitted scaler leaves at any noise is refused.
    """
    ready = prepare(
        table,
        target,
        loss=loss,
        person=person,
        nominal=nominal,
        drop=drop,
        tied=tied,
        not_tied=not_tied,
        bounds=bounds,
        own_units=own_units,
        scaler=scaler,
    )
    if isinstance(ready.loss, glm.Softmax):
        raise CannotMeasure("a softmax model is measured but not repaired here: use two classes")
    penalty, rows = ready.penalty(l2), fold(ready.columns)
    plainly = ready.fit(penalty.l2)
    return released(
        ready,
        penalty,
        lambda n: glm.penalty(ready.loss, n, l2).l2,
        ready.read(plainly, noise=no_noise, label=True, unit="sd", frame=table),
        rows,
        raw(ready.columns, table),
        {name: gap.value for name, gap in table.gaps.items()},
        max_dose=max_dose,
        scale=scale,
        law=law,
        equalise=equalise,
        shape=shape,
        rng=rng,
    )


def released(
    ready: PreparedTable,
    penalty: glm.Penalty,
    l2: Callable[[int], float],
    before: TableLeakage,
    rows: Sequence[Row],
    seen: FloatArray,
    fills: Mapping[str, Any],
    *,
    max_dose: float | None,
    scale: float | None,
    law: type[Density],
    equalise: int,
    shape: str | None,
    intercept: bool = True,
    sample_weight: Any = None,
    rng: np.random.Generator | None = None,
) -> TableRelease:
    """The noise chosen, drawn and priced. l2: number of rows -> penalty of a fold. before: the exact weights.

    rows: the released numbers as sums over the weights. seen: (n, weights) what the released model sees of the table.
    fills: column -> the constant that fills its gaps.
    """
    if (max_dose is None) == (scale is None):
        raise Refusal("state either max_dose or scale, one of the two")
    problem = (ready.design.X, ready.y, ready.loss, penalty.l2)
    units: dict[str, Any] = {"through": ready.design.through * ready.design.spread, "label_unit": _label_unit(ready)}
    how: dict[str, Any] = {**units, "groups": ready.ids, **ready.shared, "intercept": intercept}
    how |= {"sample_weight": sample_weight}
    fitted = ready.design.fitted if np.any(ready.design.fitted) else None
    how |= {"known": ready.design.known, "scaled": fitted, "held": ready.scaler == "held"}
    stage("choosing the noise")
    choice: glm.Choice | None = None
    if shape == "auto" and not equalise and max_dose is not None:
        choice = glm.choose(*problem, max_dose, law=law, **how)
        kind, planned, way = choice.kind, choice.plan, choice.route
        equalise = ROUNDS if kind == EQUALISED else 0
    else:
        form = None if shape == "auto" else shape
        kind = EQUALISED if equalise else ISOTROPIC if form is None else SHAPED
        way = route(*problem, law=law, equalise=equalise, shape=form, **how)
        planned = way(max_dose, scale)
    useful = usefulness(
        *problem[:3],
        l2,
        kind=kind,
        way=way,
        planned=planned,
        law=law,
        limit=planned.highest if max_dose is None else max_dose,
        rounds=equalise,
        groups=ready.ids,
        intercept=intercept,
        sample_weight=sample_weight,
        **(units | ready.shared if kind == EQUALISED else {}),
    )
    # Said whichever kind was chosen: only where it is the reweighting would tell which one that was.
    reweighted = bool(equalise) or choice is not None
    if reweighted and (ready.declared or ready.design.known is not None or _label_unit(ready) != 1.0):
        planned = replace(planned, uncovered=(*planned.uncovered, UNIT))
    stage("measuring every row")
    if penalty.source != STATED:
        planned = replace(planned, penalty=penalty.source)
    # A model without an intercept and without a shift has 0 there, whatever the table.
    still = not rows[-1]
    release = planned.draw(rng, [*rows[:-1], rows[0] if still else rows[-1]])
    coef, offset = release.values["coef"], 0.0 if still else float(release.values["intercept"][0])
    told = planned.leakage
    doses = told.examples if ready.ids is None else np.array(list(told.group(ready.ids, **ready.shared).values()))
    name, first = score(ready.loss, before.fit.margin, ready.y)
    _, after = score(ready.loss, seen @ coef + offset, ready.y)
    model = pipeline(ready.columns, ready.loss, coef, offset, ready.classes, fills)
    whole = (ready, before, planned, release, model, doses, name, first, after, penalty, kind, useful)
    return TableRelease(*whole, tuple(rows), choice)


def _label_unit(ready: PreparedTable) -> float:
    return label_unit(ready.loss, ready.y, "sd")
