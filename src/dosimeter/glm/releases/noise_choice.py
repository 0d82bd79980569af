"""Which noise costs the least accuracy at a given dose: isotropic, shaped by the Hessian, or on a reweighted fit.

The rule is public: the expected increase of the objective F of eq. 13 over its minimum,

    E F(w' + b) - F(w*)  =  F(w') - F(w*) + ½ tr(H(w') Σ)        exact for the squared loss, to second order for others,

w* the minimiser, w' the weights that get the noise b ~ (0, Σ) (w* itself, or the reweighted minimiser), H the Hessian
of F. Its result depends on the table, and is named as not covered. On a large table the kinds are compared on a sample
of the rows first (`choice_sample`), and those that cost far more there are not tried on the whole table. The limit is
kept exactly on the whole table for whatever is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.releases.choice_sample import ChoiceSample
from dosimeter.glm.releases.release_plan import ReleasePlan
from dosimeter.glm.releases.release_planning import PlanForLimit, route
from dosimeter.glm.reweighting.reweighting_gradient import no_reweighting_gradient

ISOTROPIC, SHAPED, EQUALISED = "isotropic", "shaped", "equalised"
KINDS = (ISOTROPIC, SHAPED, EQUALISED)
ROUNDS = 3
"""Reweightings of equalised noise: docs/explanation/irfil.md, 4; further rounds make the total figure less even."""
CHOSEN = "the kind of noise (isotropic, shaped or equalised) was chosen by its expected loss on this table: not covered"
WORK = {SHAPED: 3e9, EQUALISED: 4e8}
"""Multiplications above which a kind is tried only if it is among the cheapest on a sample; a few seconds."""
MOST = {SHAPED: 1e12, EQUALISED: 4e9}
"""Multiplications above which it is not tried at all. Equalised noise holds n p² numbers several times: here 1.3 GB."""
TOGETHER = {SHAPED: 4, EQUALISED: 30}
"""How much more a person with several rows costs than a row."""
NEAR = 2.0
"""A kind is worth trying if it costs no more than this many times the cheapest on the sample: a rung of the scale."""
SLOW = "too slow on a table of this size: request it by name to use it anyway"
LEAST = 10
"""Rows of a sample for each weight: fewer do not tell which kind is cheaper."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The cheapest plan for a limit, and the cost of the others. Internal except what `plan.draw` gives.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> X = np.column_stack([np.arange(20.0), np.arange(20.0) % 3])
    >>> sorted(choose(X, X @ [1.0, 2.0] + np.arange(20) % 5, Squared(), 0.1, 0.5).loss_increases)
    ['isotropic', 'shaped']
    """

    kind: str
    """"isotropic", "shaped" or "equalised"."""
    plan: ReleasePlan
    route: PlanForLimit
    """The same kind at other limits."""
    loss_increases: dict[str, float]
    """Kind -> expected increase of the objective, per row."""
    not_tried: dict[str, str]
    """Kind -> why it was not tried, or was refused."""


def expected_loss_increase(plan: ReleasePlan, best: Fit, X: Any) -> float:
    """E F(w' + b) - F(w*) of a plan, per row; best: the fit of the unweighted objective on X (n, d)."""
    fit, X = plan.fit, np.asarray(X, dtype=np.float64)
    rows = np.column_stack([X, np.ones(len(X))]) if fit.intercept else X
    n = len(X)
    a = best.sample_weight * _margin_curvature(best, fit)
    noise: Any = plan.noise
    if isinstance(noise, CorrelatedGaussian):
        covariance = noise.covariance
        margin_variance = np.einsum("ij,jk,ik->i", rows, covariance, rows, optimize=True)
        noise_loss = float(a @ margin_variance) + float(best.penalty @ np.diag(covariance))
    else:
        classes = fit.w.size // len(fit.w)
        noise_loss = noise.variance * (float(a @ np.sum(rows**2, axis=1)) + classes * float(best.penalty.sum()))
    return (_objective(best, fit) - _objective(best, best) + noise_loss / 2) / n


def _objective(best: Fit, other: Fit) -> float:
    values = best.loss.value(other.margin, best.y)
    return float(best.sample_weight @ values) + float((best.penalty @ other.w**2).sum()) / 2


def _margin_curvature(best: Fit, other: Fit) -> FloatArray:
    """(n,) d²l/dm² at the other fit's margins; for softmax its trace, since noise on the contrasts is independent."""
    a = np.asarray(best.loss.curvature(other.margin, best.y))
    return a if a.ndim == 1 else np.trace(a, axis1=1, axis2=2)


def choose(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any,
    max_dose: float,
    *,
    law: Any = Gaussian,
    rounds: int = ROUNDS,
    **options: Any,
) -> Choice:
    """The plan with the least expected loss for a highest dose.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table.
    loss : Loss
        One of `glm.LOSSES`, or `Softmax(...)`: isotropic noise for softmax.
    l2 : float or array_like
        λ, as in `glm.fit`.
    max_dose : float
        The highest η allowed.
    law : type of Density, default Gaussian
        The noise class.
    rounds : int, default 3
        Reweightings of equalised noise.
    **options
        As in `plan`.

    Returns
    -------
    Choice
        The choice of a kind depends on the table and is named as not covered. Softmax and losses that are not canonical
        have isotropic noise alone, and no choice.

    Raises
    ------
    Refusal
        If isotropic noise is refused: the reason then holds for the table.

    Notes
    -----
    E F(w' + b) - F(w*) = F(w') - F(w*) + ½ tr(H(w') Σ), F of eq. 13 of [Hannun21].

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> X = np.column_stack([np.arange(20.0), np.arange(20.0) % 3])
    >>> choose(X, X @ [1.0, 2.0] + np.arange(20) % 5, Squared(), 0.1, 0.5).plan.highest <= 0.5
    True
    """
    several = options.get("groups") is not None and len(set(options["groups"])) < len(options["groups"])
    not_tried = {kind: reason for kind in KINDS if (reason := underived(kind, loss, law))}
    sizes = {kind: _work(kind, np.shape(X), rounds, several) for kind in KINDS if kind not in not_tried}
    problem = (X, y, loss, l2)
    not_tried |= _not_worth_trying(problem, max_dose, law, rounds, options, sizes)
    kinds = [kind for kind in KINDS if kind not in not_tried]
    plans, refused = _plans(problem, max_dose, law, rounds, options, kinds)
    loss_increases = _loss_increases(plans, X)
    kind = min(loss_increases, key=lambda k: loss_increases[k])
    planned, plan_at = plans[kind]
    # Also if no other kind was possible on this table: that too is a fact about it. That none is derived for the loss
    # is not.
    if not all(underived(other, loss, law) for other in KINDS if other != ISOTROPIC):
        planned = replace(planned, not_covered=(*planned.not_covered, CHOSEN))
    return Choice(kind, planned, plan_at, loss_increases, not_tried | refused)


Problem = tuple[Any, Any, Loss, float]
"""X, y, loss, l2."""


def _plans(
    problem: Problem, max_dose: float, law: Any, rounds: int, options: dict[str, Any], kinds: Sequence[str]
) -> tuple[dict[str, tuple[ReleasePlan, PlanForLimit]], dict[str, str]]:
    """A plan of each kind that meets the limit, and why there is none of others."""
    settings: dict[str, dict[str, Any]] = {
        ISOTROPIC: {},
        SHAPED: {"noise_shape": "hessian"},
        EQUALISED: {"reweighting_rounds": rounds},
    }
    X, y, loss, l2 = problem
    plans: dict[str, tuple[ReleasePlan, PlanForLimit]] = {}
    refused: dict[str, str] = {}
    for kind in kinds:
        try:
            plan_at = route(X, y, loss, l2, law=law, **settings[kind], **options)
            plans[kind] = (plan_at(max_dose, None), plan_at)
        except (Refusal, CannotMeasure) as error:
            if kind == ISOTROPIC:
                raise  # the reason holds for the table, and the other kinds do not avoid it
            refused[kind] = str(error)
    return plans, refused


def _loss_increases(plans: dict[str, tuple[ReleasePlan, PlanForLimit]], X: Any) -> dict[str, float]:
    best = plans[ISOTROPIC][0].fit
    return {kind: expected_loss_increase(planned, best, X) for kind, (planned, _) in plans.items()}


def underived(kind: str, loss: Loss, law: Any) -> str:
    """Why a kind has no figure for this loss and law, whatever the table; "" if it has."""
    if kind == SHAPED and not loss.quadratic:
        return "the shape is derived for the squared loss only"
    if kind == SHAPED and law is not Gaussian:
        return "shaped noise is Gaussian"
    return no_reweighting_gradient(loss) if kind == EQUALISED else ""


def _work(kind: str, size: tuple[int, ...], rounds: int, several: bool) -> float:
    """About how many multiplications a plan takes."""
    n, p = size[0], size[1] + 1
    one_row = {ISOTROPIC: 0, SHAPED: 12 * p**2 * (p + 10), EQUALISED: (rounds + 1) * p**3}[kind]
    return float(n * one_row * (TOGETHER[kind] if several and kind in TOGETHER else 1))


def _not_worth_trying(
    problem: Problem, max_dose: float, law: Any, rounds: int, options: dict[str, Any], sizes: dict[str, float]
) -> dict[str, str]:
    """Kind -> why it is not tried on the whole table: another is cheaper on a sample, or it is too slow even so."""
    X, y, loss, l2 = problem
    n, p = np.shape(X)[0], np.shape(X)[1] + 1
    large = {kind: int(n * WORK[kind] / size) for kind, size in sizes.items() if kind in WORK and size > WORK[kind]}
    reasons = {kind: SLOW for kind, rows in large.items() if rows < LEAST * p or sizes[kind] > MOST[kind]}
    unclear = {kind: rows for kind, rows in large.items() if kind not in reasons}
    if not unclear:
        return reasons
    try:
        sample = ChoiceSample.of(X, y, options, min(unclear.values()))
        kinds = [kind for kind in sizes if kind not in reasons]
        part = (sample.X, sample.y, loss, l2)
        plans, refused = _plans(part, max_dose * sample.growth, law, rounds, sample.options, kinds)
    except (Refusal, CannotMeasure) as error:
        return reasons | dict.fromkeys(unclear, f"a sample of the rows does not tell what it costs ({error})")
    loss_increases = _loss_increases(plans, sample.X)
    cheapest = min(loss_increases, key=lambda k: loss_increases[k])
    for kind in unclear:
        if kind in refused:
            reasons[kind] = refused[kind]
        elif loss_increases[kind] > NEAR * loss_increases[cheapest]:
            reasons[kind] = f"on a sample of {len(sample.y)} rows it costs more than {cheapest} noise"
    return reasons
