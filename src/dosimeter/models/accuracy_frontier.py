"""The frontier: accuracy against dose as the noise grows, for noise alike on all weights and for shaped noise.

Doses fall as 1/scale for noise alike on all weights (whitening is linear), or towards what a fitted scaler leaves (in
large tables an upper bound, `TableLeakage.figures_at`); shaped noise has a floor, read at each scale. The score is
expected over the noise: with margins m, rows x̃ and noise n of variance v on each weight,

    squared     E Σ(y - m - x̃n)² = Σ(y - m)² + v Σ|x̃|²               symmetric laws
                                  = Σ(y - m)² + c tr(H⁻¹ X̃ᵀX̃)        for n ~ N(0, c H⁻¹)
    logistic    P(the right side of 0) = Φ(±m / (σ|x̃|))               Gaussian
    Poisson     E exp(m + x̃n) = exp(m + σ²|x̃|²/2)                     Gaussian

and anything else is simulated, and says so. Internal: scores and doses alike are statistics of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Density, Gaussian, Laplace, LogisticNoise
from dosimeter.models.fit_table import score
from dosimeter.models.given_model import reading
from dosimeter.models.table_leakage import TableLeakage

HIGHEST = tuple(10.0 ** (k / 4) for k in range(8, -5, -1))
"""Highest doses from 100 to 0.1: the scales follow from them."""
SHAPED = HIGHEST[::2]
TRIALS, ROWS = 32, 5000
"""Simulated releases, and rows evenly spaced that they are scored on."""
WORK, TOGETHER = 1.5e8, 30
"""Multiplications above which shaped noise is left out, about half a second; rows of a person together cost more."""
USELESS = -1.0
"""R² and D² fall without end as the noise grows: steps below this are left out."""
EXACT = "expected over the noise, exact"
SIMULATED = "mean over {trials} simulated releases"


def frontier(
    leak: TableLeakage, law: type[Density] = Gaussian, *, here: float | None = None, here_on: str = "isotropic"
) -> dict[str, Any] | None:
    """Steps of growing noise. here: the scale of this release, on the curve `here_on`. None where nothing leaks."""
    at_one = leak.at_one * _root_of_information(law)
    if not at_one.max() > 0:
        return None
    fit, name = leak.fit, score(leak.fit.loss, leak.fit.margin, leak.fit.y)
    scored, how = _expected(leak, law)
    scales = (float(at_one.max()) / np.array(HIGHEST)).tolist()
    scales += [here] if here is not None and here_on == "isotropic" else []
    steps = []
    for s in sorted(scales):
        eta = leak.figures_at(law, s)
        steps.append(_step(s, scored(s), float(eta.max()), float(np.median(eta))))
    return {
        "score_name": name[0],
        "score_is": how,
        "without_noise": name[1],
        "isotropic": [step for step in steps if step["score"] >= USELESS],
        "shaped": _shaped(leak, here if here_on == "shaped" else None) if isinstance(fit.loss, glm.Squared) else [],
        "here": here if here_on else None,
        "here_on": here_on if here is not None else "",
    }


def _root_of_information(law: type[Density]) -> float:
    """η at scale 1 of this law over that at a Fisher information of one."""
    at: Any = law
    return float(np.sqrt(at(1.0).fisher_information))


def _step(scale: float, scored: float, highest: float, typical: float) -> dict[str, float]:
    return {"scale": float(scale), "score": scored, "highest": float(highest), "typical": float(typical)}


def _expected(leak: TableLeakage, law: type[Density]) -> tuple[Callable[[float], float], str]:
    """scale -> expected score on the table, and how it was found."""
    fit, m, y = leak.fit, leak.fit.margin, leak.fit.y
    squares = (leak.design.X**2).sum(axis=1) + float(fit.intercept)
    if isinstance(fit.loss, glm.Squared) and law in (Gaussian, Laplace, LogisticNoise):
        at: Any = law
        moved, whole = at(1.0).variance * squares.sum(), np.sum((y - y.mean()) ** 2)
        rest = np.sum((y - m) ** 2)
        return lambda s: float(1 - (rest + s * s * moved) / whole), EXACT
    if isinstance(fit.loss, glm.Logistic) and law is Gaussian:
        from scipy.special import ndtr

        side = np.where(y > 0.5, m, -m) / np.sqrt(squares)
        return lambda s: float(ndtr(side / s).mean()), EXACT
    if isinstance(fit.loss, glm.Poisson) and law is Gaussian:
        return lambda s: _poisson(m, y, s * s * squares), EXACT
    on = "" if len(y) <= ROWS else f", on {ROWS} of the rows"
    return _simulated(leak, law), SIMULATED.format(trials=TRIALS) + on


def _poisson(m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
    """1 - E deviance / deviance of the mean; E log μ = m, E μ = exp(m + variance/2)."""
    from scipy.special import xlogy

    with np.errstate(over="ignore"):
        spent = 2 * np.sum(xlogy(y, y) - y * m - y + np.exp(m + variance / 2))
    alone = 2 * np.sum(xlogy(y, y / y.mean()))
    return float(1 - spent / alone)


def _simulated(leak: TableLeakage, law: type[Density]) -> Callable[[float], float]:
    """The same draws at every scale, so that the curve is smooth. A simulation, not for release."""
    at: Any = law
    fit, n = leak.fit, len(leak.fit.y)
    some = np.unique(np.linspace(0, n - 1, min(n, ROWS)).round().astype(int))
    X, margin, y = leak.design.X[some], fit.margin[some], fit.y[some]
    rows = np.column_stack([X, np.ones(len(X))]) if fit.intercept else X
    draws = at(1.0).draw(np.random.Generator(np.random.PCG64(0)), (TRIALS, *fit.w.shape))
    moved = [rows @ w for w in draws]

    def scored(s: float) -> float:
        return float(np.mean([score(fit.loss, margin + s * m, y)[1] for m in moved]))

    return scored


def _shaped(leak: TableLeakage, here: float | None) -> list[dict[str, float]]:
    """Steps of N(0, c H⁻¹) for a squared loss, √c as the scale; none where they would take long."""
    fit, X = leak.fit, leak.design.X
    n, p = X.shape[0], len(fit.w)
    if n * p**2 * (p + 10) * len(SHAPED) * (1 if leak.ids is None else TOGETHER) > WORK:
        return []
    unit = "own" if leak.measured_in == "own units" else "sd"
    how = reading(leak.design, fit.loss, fit.y, noise=None, label=leak.leak.label, unit=unit)
    how.pop("noise")
    if leak.floor is not None and leak.scaler == "total":
        how["scaled"] = leak.design.fitted
    rows = np.column_stack([X, np.ones(n)]) if fit.intercept else X
    moved = float(np.sum((rows @ fit.factor.matrix) ** 2))
    rest, whole = np.sum((fit.y - fit.margin) ** 2), np.sum((fit.y - fit.y.mean()) ** 2)
    once = _doses(leak, leak.design.read(glm.shaped(fit, X, fit.y, c=1.0, **how).leakage))
    steps = []
    for s in sorted([*(float(once.max()) / np.array(SHAPED)).tolist(), *([] if here is None else [here])]):
        eta = _doses(leak, leak.design.read(glm.shaped(fit, X, fit.y, c=s * s, **how).leakage))
        steps.append(_step(s, float(1 - (rest + s * s * moved) / whole), eta.max(), np.median(eta)))
    return [step for step in steps if step["score"] >= USELESS]


def _doses(leak: TableLeakage, found: Any) -> FloatArray:
    if leak.ids is None:
        return np.asarray(found.examples)
    return np.array(list(found.group(leak.ids, **leak.shared).values()))
