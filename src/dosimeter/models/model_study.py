"""A joint fit at the coordinator: sums of all sites, one scale for a common limit, one draw of noise on the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density
from dosimeter.core.progress import stage
from dosimeter.core.release import Recipe
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED, rung
from dosimeter.core.text import safe_text
from dosimeter.engines.consortium_operations import LIMITS, MATCH, MOMENTS, SCALE, SCORE
from dosimeter.engines.protocol.assembly import SiteFault, Values
from dosimeter.engines.sites import AtSite, SitesEngine
from dosimeter.glm.blocks.block_scores import score_of
from dosimeter.glm.fitting.block_fit import BlockFit
from dosimeter.glm.losses.loss import LOSSES
from dosimeter.glm.releases.weight_sums import draw_sums, exact_sums
from dosimeter.models.block_model import BlockModel
from dosimeter.models.block_release import base_score
from dosimeter.models.consortium_fit import check_totals, fit_sites, fit_values, totals_of
from dosimeter.models.consortium_model import LAWS, Totals, consortium_model, public_bounds
from dosimeter.models.consortium_study import CoordinatorStudy, Refused, StudyDraw, sites_without
from dosimeter.models.linear_release import FORM, FORMS
from dosimeter.models.usefulness import finite_score
from dosimeter.noise_addition.linear_map import SIGNIFICANT
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.sklearn_estimators import linear_model
from dosimeter.tables.sklearn_export import input_order, pipeline
from dosimeter.tables.weight_folding import fold

SAME = 1e-13
"""Deviation of a target, relative to its bounds, that comes from rounding its mean."""


@dataclass(frozen=True, eq=False)
class JointFit:
    """The fit of all sites' rows. Internal: without noise."""

    fitted: BlockFit
    totals: Totals
    model: BlockModel
    engine: SitesEngine

    @property
    def values(self) -> Values:
        """As it travels to the sites."""
        return fit_values(self.fitted, self.totals)


def joint_fit(study: CoordinatorStudy) -> JointFit:
    """Ask all sites for their totals and then for sums, pass after pass, until the minimiser is there."""
    schema, assembly = study.schema, study.assembly
    stage("waiting for the sites")
    assembly.ask(MATCH.name)
    stage("fitting over the sites")
    answers = assembly.ask(MOMENTS.name, check=lambda site, values: check_totals(schema, values))
    each = {site: totals_of(values) for site, values in answers.items()}
    first, *others = each.values()
    totals = sum(others, first)
    _refuse_one_target(study, totals)
    model = consortium_model(schema, totals, _law(study)(1.0))  # type: ignore[call-arg]
    bounds = public_bounds(schema, model, totals)
    engine = SitesEngine(assembly, bounds, {site: own.rows for site, own in each.items()})
    return JointFit(fit_sites(engine, model, bounds), totals, model, engine)


def _refuse_one_target(study: CoordinatorStudy, totals: Totals) -> None:
    """Refuse to fit a target that is the same in all rows; its spread is that of rounding."""
    target = study.schema.columns[study.schema.target]
    size = max(abs(target.lower), abs(target.upper)) if isinstance(target, Range) else 1.0
    if totals.target_squares <= totals.rows * (SAME * size) ** 2:
        name = safe_text(study.schema.target)
        raise Refusal(f"the target {name} has one value only at all sites, within its bounds: there is nothing to fit")


def prepare_model(study: CoordinatorStudy) -> StudyDraw | Refused:
    """Fit, choose the scale, ask every site whether its patients stay within their limits, then draw."""
    joint = joint_fit(study)
    terms = study.schema.release
    scale: float | None = terms.scale
    not_covered: tuple[str, ...] = ()
    if scale is None:
        stage("choosing the noise")
        scale, not_covered = _needed_scale(joint), (SCALE_NOT_COVERED,)
    stage("asking the sites for their limits")
    proposal = study.proposal()
    question = {**joint.values, "proposal": proposal, "scale": scale, "chosen": terms.scale is None}
    refused = sites_without(study.assembly.ask(LIMITS.name, question), "within")
    if refused:
        return Refused(refused)
    stage("drawing the noise")
    return _draw(study, joint, scale, not_covered)


def _law(study: CoordinatorStudy) -> type[Density]:
    return LAWS[study.schema.release.noise]


def _needed_scale(joint: JointFit) -> float:
    """The largest of the scales that the sites need, each a rung of the public ladder."""
    answers = joint.engine.map_over(joint.engine.parts, AtSite(SCALE.name, joint.values))
    return rung(max(int(answer["rung"]) for answer in answers))


def _draw(study: CoordinatorStudy, joint: JointFit, scale: float, chosen: tuple[str, ...]) -> StudyDraw:
    import skops.io as sio

    model, noise = joint.model, _law(study)(scale)  # type: ignore[call-arg]
    fitted: Any = joint.fitted
    rows = fold(model.encoding)
    before = _score(study, exact_sums(fitted, rows), model.target_mean)
    drawn = draw_sums(fitted, noise, rows, intercept=True, bits=None)
    coef, intercept = drawn["coef"], drawn["intercept"]
    last = linear_model(model.loss, coef[input_order(model.encoding)], float(intercept[0]), model.classes)
    form = FORMS.get(model.loss.target, FORM)
    not_covered = (*model.not_covered, *(() if model.assumptions else (form,)), *chosen)
    settings = {
        "loss": model.loss.description, "l2": float(study.schema.l2), "scale": float(scale),
        "significant bits": SIGNIFICANT, "sites": len(study.schema.sites), "study": study.schema.study,
    }  # fmt: skip
    figures = {
        "scale": float(scale),
        "chosen": bool(chosen),
        "passes": joint.engine.passes,
        "rows": int(joint.totals.rows),
        "score_name": model.loss.score_name,
        "score_base": base_score(model),
        "score_before": before,
        "parameters": len(coef) + 1,
        "not_covered": list(not_covered),
    }
    recipe = Recipe("weights", str(noise), settings, not_covered)
    weights = [value.hex() for value in np.append(coef, intercept).tolist()]
    kept = {"weights": weights, "target_mean": float(model.target_mean).hex()}
    return StudyDraw(sio.dumps(pipeline(model.encoding, last)), recipe, figures, kept=kept)


def released_score(study: CoordinatorStudy) -> float | None:
    """The score of the draw on the rows of all sites, after it was booked and written; None without all. Internal.

    Scored earlier, the weights would reach the sites before the draw is the only one. A site may be away, or decline:
    weights with much noise may leave all but a few of its patients out of the score.
    """
    kept = study.journal.facts.get("kept", {})
    if "weights" not in kept:
        return None
    weights = np.array([float.fromhex(value) for value in kept["weights"]])
    try:
        return _score(study, weights, float.fromhex(kept["target_mean"]))
    except SiteFault:
        return None


def _score(study: CoordinatorStudy, weights: FloatArray, mean: float) -> float:
    """How well weights predict the rows of all sites; the intercept is the last one. Internal."""
    question = {"coef": weights[:-1], "intercept": float(weights[-1]), "mean": mean}
    answers = study.assembly.ask(SCORE.name, question)
    terms = np.array([sum(float(answer[name]) for answer in answers.values()) for name in ("part", "whole")])
    score = score_of(LOSSES[study.schema.loss](), terms)
    return finite_score(-np.inf if score is None else score)
