"""Which noise costs least accuracy at one dose: alike on all weights, shaped by the Hessian, or on a reweighted fit.

The rule is public: the expected increase of the objective F of eq. 13 over its minimum,

    E F(w' + b) - F(w*)  =  F(w') - F(w*) + ½ tr(H(w') Σ)        exact for the squared loss, to second order for others,

w* the minimiser, w' what the noise b ~ (0, Σ) is put on (w* itself, or the reweighted minimiser), H the Hessian of F.
What it finds depends on the table, and is named as not covered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.glm.fit import Fit, Loss
from dosimeter.glm.loss import Squared
from dosimeter.glm.release_plan import ReleasePlan, Route, route

ISOTROPIC, SHAPED, EQUALISED = "isotropic", "shaped", "equalised"
KINDS = (ISOTROPIC, SHAPED, EQUALISED)
ROUNDS = 3
"""Reweightings of equalised noise: docs/irfil.md, section 4; further rounds make the total figure less even."""
CHOSEN = "the kind of noise (isotropic, shaped or equalised) was chosen by its expected loss on this table: not covered"
WORK = {SHAPED: 3e9, EQUALISED: 4e8}
"""Multiplications above which a kind is not tried, some ten seconds; named, it is done whatever it takes."""
TOGETHER = 30
"""How much more a person with several rows costs than a row."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The cheapest plan for a limit, and what the others would cost. Internal but for what `plan.draw` gives."""

    kind: str
    plan: ReleasePlan
    route: Route
    """The same kind at other limits."""
    prices: dict[str, float]
    """Kind -> expected increase of the objective, for each row."""
    left_out: dict[str, str]
    """Kind -> why it was not tried, or was refused."""


def price(plan: ReleasePlan, best: Fit, X: Any) -> float:
    """E F(w' + b) - F(w*) of a plan, for each row; best: the fit of the plain objective on X (n, d)."""
    fit, X = plan.fit, np.asarray(X, dtype=np.float64)
    rows = np.column_stack([X, np.ones(len(X))]) if fit.intercept else X
    d, n = X.shape[1], len(X)
    a = best.sample_weight * np.asarray(best.loss.curvature(fit.margin))
    noise: Any = plan.noise
    if isinstance(noise, CorrelatedGaussian):
        covariance = noise.covariance
        moved = np.einsum("ij,jk,ik->i", rows, covariance, rows, optimize=True)
        spent = float(a @ moved) + n * best.l2 * float(np.trace(covariance[:d, :d]))
    else:
        spent = noise.variance * (float(a @ np.sum(rows**2, axis=1)) + n * best.l2 * d)
    return (_objective(best, fit) - _objective(best, best) + spent / 2) / n


def _objective(best: Fit, at: Fit) -> float:
    values = best.loss.value(at.margin, best.y)
    return float(best.sample_weight @ values) + best.n * best.l2 / 2 * float(np.sum(at.coef**2))


def choose(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float,
    max_dose: float,
    *,
    law: Any = Gaussian,
    rounds: int = ROUNDS,
    **how: Any,
) -> Choice:
    """The plan of least price for a highest dose of max_dose; `how` as in `plan`."""
    several = how.get("groups") is not None and len(set(how["groups"])) < len(how["groups"])
    settings: dict[str, dict[str, Any]] = {ISOTROPIC: {}, SHAPED: {"shape": "hessian"}, EQUALISED: {"equalise": rounds}}
    found: dict[str, tuple[ReleasePlan, Route]] = {}
    left_out: dict[str, str] = {}
    for kind, more in settings.items():
        why = _not_tried(kind, loss, law, np.shape(X), rounds, several)
        if why:
            left_out[kind] = why
            continue
        try:
            way = route(X, y, loss, l2, law=law, **more, **how)
            found[kind] = (way(max_dose, None), way)
        except (Refusal, CannotMeasure) as error:
            if kind == ISOTROPIC:
                raise  # what it says holds for the table, and the others are no way around it
            left_out[kind] = str(error)
    best = found[ISOTROPIC][0].fit
    prices = {kind: price(planned, best, X) for kind, (planned, _) in found.items()}
    kind = min(prices, key=lambda k: prices[k])
    planned, way = found[kind]
    # Also where nothing else could be had: that is a fact about the table as well.
    return Choice(kind, replace(planned, uncovered=(*planned.uncovered, CHOSEN)), way, prices, left_out)


def _not_tried(kind: str, loss: Loss, law: Any, size: tuple[int, ...], rounds: int, several: bool) -> str:
    n, p = size[0], size[1] + 1
    work = n * p**2 * (p + 10) * 12 if kind == SHAPED else n * p**3 * (rounds + 1)
    if kind == SHAPED and not isinstance(loss, Squared):
        return "the shape is derived for the squared loss"
    if kind == SHAPED and law is not Gaussian:
        return "shaped noise is Gaussian"
    if kind in WORK and work * (TOGETHER if several else 1) > WORK[kind]:
        return "it would take long on a table of this size: name it to have it"
    return ""
