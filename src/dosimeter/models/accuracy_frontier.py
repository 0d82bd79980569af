"""The frontier: accuracy against dose as the noise grows, for equal noise on all weights and for shaped noise.

With equal noise on all weights doses fall as 1/scale (whitening is linear), or towards the floor of a fitted scaler (in
large tables an upper bound, `TableLeakage.figures_at`); shaped noise has a floor, read at each scale. The score is the
expectation over the noise: with margins m, rows x̃ and noise n of variance v on each weight,

    squared     E Σ(y - m - x̃n)² = Σ(y - m)² + v Σ|x̃|²               symmetric laws
                                  = Σ(y - m)² + c tr(H⁻¹ X̃ᵀX̃)        for n ~ N(0, c H⁻¹)
    logistic    P(the right side of 0) = Φ(±m / (σ|x̃|))               Gaussian
    softmax     P(the largest margin) = E Π Φ((m - mⱼ)/(σ|x̃|) + z)    Gaussian
    Poisson     E exp(m + x̃n) = exp(m + σ²|x̃|²/2)                     Gaussian

and anything else is simulated and reported as such. Internal: scores and doses are statistics of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import rows_per_block
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.quantiles import median
from dosimeter.glm.jacobians.scalar_jacobian import CACHE
from dosimeter.glm.linalg.inverse_hessian import times
from dosimeter.glm.linalg.sparse_table import Table, is_sparse, row_squares
from dosimeter.models.fit_table import score
from dosimeter.models.given_model import measure_options
from dosimeter.models.table_leakage import TableLeakage

HIGHEST = tuple(10.0 ** (k / 4) for k in range(8, -5, -1))
"""Highest doses from 100 to 0.1: the scales follow from them."""
SHAPED = HIGHEST[::2]
TRIALS, ROWS = 32, 5000
"""Simulated releases, and the evenly spaced rows that they are scored on."""
WORK, TOGETHER = 1.5e8, 30
"""Multiplications above which shaped noise is left out (half a second), and the factor for figures by person."""
USELESS = -1.0
"""R² and D² fall without limit as the noise grows: steps with a lower score are left out."""
EXACT = "expected over the noise, exact"
SIMULATED = "mean over {trials} simulated releases"


Curve = Literal["isotropic", "shaped", ""]


@dataclass(frozen=True)
class FrontierStep:
    """One noise scale: the expected score, the highest and the typical dose."""

    scale: float
    score: float
    highest: float
    typical: float


@dataclass(frozen=True)
class AccuracyFrontier:
    """Accuracy against dose as the noise grows."""

    score_name: str
    score_is: str
    """EXACT, or SIMULATED with its numbers."""
    without_noise: float
    isotropic: tuple[FrontierStep, ...]
    """The same noise on every weight."""
    shaped: tuple[FrontierStep, ...]
    here: float | None
    """The scale of this release, None if there is none."""
    here_on: Curve
    """The curve that this release lies on, "" for none."""


def frontier(
    leak: TableLeakage, law: type[Density] = Gaussian, *, here: float | None = None, here_on: Curve = "isotropic"
) -> AccuracyFrontier | None:
    """Steps of growing noise. here: the scale of this release, on the curve `here_on`. None if nothing leaks."""
    at_one = leak.at_one * _root_of_information(law)
    if not at_one.max() > 0:
        return None
    fit = leak.fit
    score_name, without_noise = score(fit.loss, fit.margin, fit.y)
    expected_score, score_is = _expected_score(leak, law)
    scales = (float(at_one.max()) / np.array(HIGHEST)).tolist()
    scales += [here] if here is not None and here_on == "isotropic" else []
    steps = []
    for s in sorted(scales):
        eta = leak.figures_at(law, s)
        steps.append(_step(s, expected_score(s), float(eta.max()), median(eta)))
    shaped = _shaped_steps(leak, here if here_on == "shaped" else None) if fit.loss.quadratic else ()
    return AccuracyFrontier(
        score_name=score_name,
        score_is=score_is,
        without_noise=without_noise,
        isotropic=tuple(step for step in steps if step.score >= USELESS),
        shaped=shaped,
        here=here if here_on else None,
        here_on=here_on if here is not None else "",
    )


def _root_of_information(law: type[Density]) -> float:
    """η at scale 1 of this law over that at a Fisher information of one."""
    density: Any = law
    return float(np.sqrt(density(1.0).fisher_information))


def _step(scale: float, expected_score: float, highest: float, typical: float) -> FrontierStep:
    return FrontierStep(float(scale), expected_score, float(highest), float(typical))


def _expected_score(leak: TableLeakage, law: type[Density]) -> tuple[Callable[[float], float], str]:
    """scale -> expected score on the table, and whether it is exact or simulated."""
    fit, m, y = leak.fit, leak.fit.margin, leak.fit.y
    squares = _squares(leak.design.X) + float(fit.intercept)
    loss, at_scale = fit.loss, cast(Any, law)
    known = law is Gaussian or (loss.quadratic and law.symmetric)
    if loss.has_expected_score and known:
        return loss.score_curve(m, y, squares, at_scale(1.0).variance), EXACT
    on = "" if len(y) <= ROWS else f", on {ROWS} of the rows"
    return _simulate_score(leak, law), SIMULATED.format(trials=TRIALS) + on


def _squares(X: Table) -> FloatArray:
    """(n,) |x|² of each row, a few rows at a time: a large table is not copied."""
    if is_sparse(X):
        return row_squares(X)
    step = rows_per_block(X.shape[1], CACHE)
    return np.concatenate([(X[i : i + step] ** 2).sum(axis=1) for i in range(0, len(X), step)])


def _simulate_score(leak: TableLeakage, law: type[Density]) -> Callable[[float], float]:
    """The same draws at every scale, so that the curve is smooth. A simulation, not for release."""
    density: Any = law
    fit, n = leak.fit, len(leak.fit.y)
    sample = np.unique(np.linspace(0, n - 1, min(n, ROWS)).round().astype(int))
    X, margin, y = leak.design.X[sample], fit.margin[sample], fit.y[sample]
    draws = density(1.0).draw(np.random.Generator(np.random.PCG64(0)), (TRIALS, *fit.w.shape))
    changes = [times(X, w) for w in draws]

    def mean_score(s: float) -> float:
        return float(np.mean([score(fit.loss, margin + s * m, y)[1] for m in changes]))

    return mean_score


def _shaped_steps(leak: TableLeakage, here: float | None) -> tuple[FrontierStep, ...]:
    """Steps of N(0, c H⁻¹) for a squared loss, √c as the scale; none if they would take long."""
    fit, X = leak.fit, leak.design.X
    n, p = X.shape[0], len(fit.w)
    if is_sparse(X) or n * p**2 * (p + 10) * len(SHAPED) * (1 if leak.ids is None else TOGETHER) > WORK:
        return ()
    unit = "raw" if leak.measured_in == "own units" else "sd"
    options = measure_options(
        leak.design, fit.loss, fit.y, noise=None, include_target=leak.leak.include_target, unit=unit
    )
    options.pop("noise")
    if leak.floor is not None and leak.scaler == "total":
        options["scaled"] = leak.design.fitted
    rows = np.column_stack([X, np.ones(n)]) if fit.intercept else X
    change = float(np.sum((rows @ fit.factor.matrix) ** 2))
    residual, total = np.sum((fit.y - fit.margin) ** 2), np.sum((fit.y - fit.y.mean()) ** 2)
    at_one = _doses(leak, leak.design.read(glm.shape_noise(fit, X, fit.y, c=1.0, **options).leakage))
    steps = []
    for s in sorted([*(float(at_one.max()) / np.array(SHAPED)).tolist(), *([] if here is None else [here])]):
        eta = _doses(leak, leak.design.read(glm.shape_noise(fit, X, fit.y, c=s * s, **options).leakage))
        steps.append(_step(s, float(1 - (residual + s * s * change) / total), eta.max(), median(eta)))
    return tuple(step for step in steps if step.score >= USELESS)


def _doses(leak: TableLeakage, leakage: Any) -> FloatArray:
    if leak.ids is None:
        return np.asarray(leakage.examples)
    return np.array(list(leakage.group(leak.ids, **leak.shared).values()))
