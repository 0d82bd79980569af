"""From a table and a limit to a model for release: fitted, reweighted or shaped on request, noised, scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.noise import Density, Gaussian, no_noise
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.progress import stage
from dosimeter.core.release import Release
from dosimeter.glm.fitting.penalty import STATED
from dosimeter.glm.losses.label_weights import LabelWeights
from dosimeter.glm.releases.noise_choice import CHOSEN, EQUALISED, ISOTROPIC, ROUNDS, SHAPED
from dosimeter.glm.releases.release_plan import ReleasePlan
from dosimeter.glm.releases.release_planning import route
from dosimeter.glm.releases.weight_sums import exact_sums
from dosimeter.models.fit_table import PreparedTable, prepare, score
from dosimeter.models.given_model import target_unit
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.models.usefulness import Usefulness, finite_score, usefulness
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.declared_bounds import Bounds
from dosimeter.tables.sklearn_estimators import linear_model, refuse_unexportable
from dosimeter.tables.sklearn_export import input_order, pipeline
from dosimeter.tables.table import Table
from dosimeter.tables.weight_folding import fold, model_inputs

NOISED = "each released weight of the standardised columns"
NOISED_CONTRASTS = "each weight of the K - 1 orthonormal contrasts between the classes, of the standardised columns"
UNIT = "the deviations in which the reweighting measures columns and target are statistics of the data: not covered"
FORM = "the form of the model (which columns vary) is read off the table: not covered"
FORM_OF_CLASSES = (
    "the form of the model (which columns vary, which two classes occur) is read off the table: not covered"
)
FORM_OF_SEVERAL = FORM_OF_CLASSES.replace("two ", "")
FORMS = {glm.TargetKind.TWO_CLASSES: FORM_OF_CLASSES, glm.TargetKind.CLASSES: FORM_OF_SEVERAL}


@dataclass(frozen=True, eq=False)
class TableRelease:
    """A model before and after: doses in standard deviations, scores on its own table. Internal but for the release."""

    ready: PreparedTable
    before: TableLeakage
    """The exact weights: figures are unbounded, `unit_scale_eta` is at noise of scale 1."""
    plan: ReleasePlan
    release: Release
    model: Any
    """The released model: a scikit-learn Pipeline over the source columns."""
    doses: FloatArray
    """(people,) η of each person in the release."""
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
    """What the other kinds would have cost; None if the kind was stated."""
    noise_on: str = NOISED
    """What the noise was drawn on."""

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What no figure covers: the choices of the columns, the form of the file, then the choices of the noise."""
        form = FORMS.get(self.ready.loss.target, FORM)
        return (*self.ready.not_covered, *(() if self.ready.declared else (form,)), *self.plan.not_covered)

    @property
    def dose(self) -> Dose:
        """One row per person, or per row of the table if no person was named, in standard deviations. Internal."""
        ids = self.ready.ids
        return Dose.of_figures(
            FISHER,
            "example" if ids is None else "person",
            tuple(range(len(self.doses))) if ids is None else tuple(dict.fromkeys(ids)),
            self.doses,
            standing=Standing.UNACCOUNTED if self.not_covered else Standing.EXACT,
            measured_in="standard deviations",
            not_covered=self.not_covered,
        )

    @property
    def dose_with_blocks(self) -> Dose:
        """The same with each person's Fisher matrix, for a ledger that keeps them. Internal."""
        ready, design = self.ready, self.ready.design
        if ready.ids is None:
            raise Refusal(
                f"Fisher blocks are stored by person: name the column that says whose row it is, {option('person')}"
            )
        names = {j: f"{name}/{k}" for name, unknowns in design.blocks.items() for k, j in enumerate(unknowns)}
        blocks = glm.fisher_blocks(
            self.plan.leakage,
            ready.ids,
            np.column_stack([design.X, ready.y]),
            units=np.concatenate([(design.constant_map * design.spread).ravel(), design.spread, [_target_unit(ready)]]),
            names=[names[j] for j in range(len(names))],
            **ready.shared,
        )
        return replace(self.dose, fisher_blocks=blocks)

    @property
    def noise_draw(self) -> FloatArray:
        """The noise on each released number, released minus exact. Internal: it reveals the exact weights."""
        coef, intercept = (self.release.values[name] for name in ("coef", "intercept"))
        drawn = np.column_stack([np.atleast_2d(coef), intercept])
        return np.asarray(drawn.ravel() - exact_sums(self.plan.fit, self.rows))


def release_table(
    table: Table,
    target: str,
    *,
    max_dose: float | None = None,
    scale: float | None = None,
    l2: float | None = None,
    loss: str = "auto",
    law: type[Density] = Gaussian,
    reweighting_rounds: int = 0,
    noise_shape: str | None = None,
    person: str | None = None,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    bounds: Bounds | None = None,
    own_units: bool = False,
    scaler: str = "total",
    rng: np.random.Generator | None = None,
) -> TableRelease:
    """Fit, choose the noise for a highest dose of max_dose (or take the public scale), draw it, build the model.

    reweighting_rounds: 0 leaves everyone's weight as it is. noise_shape: None for equal noise on all weights,
    "hessian", or "auto" for what costs least at max_dose (`glm.choose`). l2: None is the penalty of
    scikit-learn's default model for the loss. bounds, scaler: as in `fit_table`; a limit below what a fitted scaler
    leaves at any noise is refused.
    """
    ready = prepare(
        table,
        target,
        loss=loss,
        person=person,
        categorical=categorical,
        exclude=exclude,
        tied=tied,
        not_tied=not_tied,
        bounds=bounds,
        own_units=own_units,
        scaler=scaler,
    )
    refuse_unexportable(ready.loss)
    penalty, rows = ready.penalty(l2), fold(ready.columns)
    fit = ready.fit(penalty.l2)
    return draw_release(
        ready,
        penalty,
        lambda n: glm.penalty(ready.loss, n, l2).l2,
        ready.read(fit, noise=no_noise, include_target=True, unit="sd", frame=table),
        rows,
        model_inputs(ready.columns, table),
        {name: gap.value for name, gap in table.gaps.items()},
        max_dose=max_dose,
        scale=scale,
        law=law,
        reweighting_rounds=reweighting_rounds,
        noise_shape=noise_shape,
        rng=rng,
        row_numbers=table.rows,
    )


def draw_release(
    ready: PreparedTable,
    penalty: glm.Penalty,
    l2: Callable[[int], float],
    before: TableLeakage,
    rows: Sequence[Row],
    inputs: FloatArray,
    fills: Mapping[str, Any],
    *,
    max_dose: float | None,
    scale: float | None,
    law: type[Density],
    reweighting_rounds: int,
    noise_shape: str | None,
    intercept: bool = True,
    sample_weight: Any = None,
    label_weights: LabelWeights | None = None,
    rng: np.random.Generator | None = None,
    row_numbers: Any = None,
) -> TableRelease:
    """Choose the noise, draw it and score the model.

    l2: number of rows -> penalty of a fold. before: the exact weights. rows: the released numbers as sums over
    the weights. inputs: (n, weights) of the released model. fills: column -> the constant
    that fills its gaps. row_numbers: (n,) of the rows in their source, for the folds of a cross-validation.
    """
    if (max_dose is None) == (scale is None):
        raise Refusal(f"state either {option('max_dose')} or {option('scale')}, one of the two")
    problem = (ready.design.X, ready.y, ready.loss, penalty.l2)
    units: dict[str, Any] = {
        "input_map": ready.design.constant_map * ready.design.spread,
        "target_unit": _target_unit(ready),
    }
    fitted = ready.design.fitted if np.any(ready.design.fitted) else None
    options: dict[str, Any] = {
        **units,
        **ready.shared,
        "groups": ready.ids,
        "intercept": intercept,
        "sample_weight": sample_weight,
        "known": ready.design.known,
        "scaled": fitted,
        "scaler_is_public": ready.scaler == "held",
    }
    if label_weights is not None:
        options["label_weights"] = label_weights
    stage("choosing the noise")
    choice: glm.Choice | None = None
    if noise_shape == "auto" and not reweighting_rounds and max_dose is not None:
        choice = glm.choose(*problem, max_dose, law=law, **options)
        kind, planned, plan_at = choice.kind, choice.plan, choice.route
        reweighting_rounds = ROUNDS if kind == EQUALISED else 0
    else:
        shape = None if noise_shape == "auto" else noise_shape
        kind = EQUALISED if reweighting_rounds else ISOTROPIC if shape is None else SHAPED
        plan_at = route(*problem, law=law, reweighting_rounds=reweighting_rounds, noise_shape=shape, **options)
        planned = plan_at(max_dose, scale)
    useful = usefulness(
        *problem[:3],
        l2,
        kind=kind,
        plan_at=plan_at,
        planned=planned,
        law=law,
        limit=planned.counted if max_dose is None else max_dose,
        rounds=reweighting_rounds,
        groups=ready.ids,
        intercept=intercept,
        sample_weight=sample_weight,
        row_numbers=row_numbers,
        **(units | ready.shared if kind == EQUALISED else {}),
    )
    # Reported for every kind: reported for the reweighting alone, it would reveal the choice.
    reweighted = bool(reweighting_rounds) or CHOSEN in planned.not_covered
    if reweighted and (ready.declared or ready.design.known is not None or _target_unit(ready) != 1.0):
        planned = replace(planned, not_covered=(*planned.not_covered, UNIT))
    stage("measuring every row")
    if penalty.source != STATED:
        planned = replace(planned, penalty=penalty.source)
    release = planned.draw(rng, rows)
    coef, offset = release.values["coef"], release.values["intercept"]
    leakage = planned.leakage
    doses = leakage.examples if ready.ids is None else np.array(list(leakage.group(ready.ids, **ready.shared).values()))
    name, score_before = score(ready.loss, before.fit.margin, ready.y)
    _, after = score(ready.loss, _margins(ready.loss, inputs @ coef.T + offset), ready.y)
    offsets = offset if coef.ndim > 1 else float(offset[0])
    last = linear_model(ready.loss, coef[..., input_order(ready.columns)], offsets, ready.classes)
    model = pipeline(ready.columns, last, fills=fills)
    return TableRelease(
        ready,
        before,
        planned,
        release,
        model,
        doses,
        name,
        score_before,
        finite_score(after),
        penalty,
        kind,
        useful,
        tuple(rows),
        choice,
        NOISED_CONTRASTS if isinstance(ready.loss, glm.Softmax) else NOISED,
    )


def _margins(loss: Any, released: FloatArray) -> FloatArray:
    """(n,) or (n, K') the margins of a fit, from those of the released model, (n,) or (n, K) one for each class."""
    return released @ loss.contrast if isinstance(loss, glm.Softmax) else released


def _target_unit(ready: PreparedTable) -> float:
    return float(target_unit(ready.loss, ready.y, "sd"))
