"""[Zari22] figures 1 to 6 redrawn: values in, markup out. Bars are 95 % intervals of the mean over the trials."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.reports.charts import Axis, Series, chart
from dosimeter.reproductions.html_page import Figure
from dosimeter.reproductions.zari22_attack import AttackCurve, half_interval
from dosimeter.reproductions.zari22_private import AG, LAPLACE, NAIVE, OURS, VECTOR, PrivateStudy
from dosimeter.reproductions.zari22_scales import ALPHAS, DELTA, EPSILONS, boundary, naive_is_less

K, AUC, BEST, EPSILON, Q = "k", "AUC", "largest AUC over k", "ε", "captured energy q"
POINTS = 40
"""Number of k that are drawn for images, which have many."""


def _drawn_indices(r: int) -> Index:
    return np.unique(np.linspace(0, r - 1, min(r, POINTS)).astype(np.intp))


def _halves(values: FloatArray) -> FloatArray:
    """(r,) half intervals of rows (r, trials)."""
    return np.array([half_interval(row) for row in values])


def attack(curves_by_table: dict[str, tuple[AttackCurve, ...]]) -> Figure:
    """Figure 1: as printed (the maximum over k' <= k), the AUC at each k by itself, and chance."""
    charts = []
    for name, curves in curves_by_table.items():
        printed, single = [], []
        for curve in curves:
            auc = curve.by_k
            indices = _drawn_indices(len(auc))
            running = np.maximum.accumulate(auc, axis=0)
            x = indices.astype(np.float64) + 1
            printed.append(Series(f"N = {curve.N}", x, running[indices].mean(axis=1), spread=_halves(running[indices])))
            single.append(Series(f"N = {curve.N}", x, auc[indices].mean(axis=1), spread=_halves(auc[indices])))
        main = next(curve for curve in curves if curve.study.N == curve.N)
        ends = np.array([1.0, float(min(len(curve.by_k) for curve in curves))])
        printed.append(Series(f"chance, N = {main.N}", ends, np.full(2, main.chance_95)))
        charts.append(chart(f"{name}, largest AUC up to k", Axis(K), Axis(AUC), printed))
        charts.append(chart(f"{name}, AUC at k", Axis(K), Axis(AUC), single))
    caption = (
        "Left: the maximum over k' <= k, as the paper draws it, and what it stays below in 95 % of random deals of the "
        "names member and stranger, over all k. Right: the AUC at each k by itself."
    )
    return Figure("Figure 1", caption, "".join(charts))


SHOWN_EPSILONS = (1e2, 1e4, 1e7)
"""ε of figure 2b that are drawn, those that 5.3 mentions; figure 3 has them all."""


def protected(private_studies: dict[str, PrivateStudy], plain: dict[str, tuple[AttackCurve, ...]]) -> Figure:
    """Figure 2, a and b; plain: the attack on the exact components, drawn at the N of section 5."""
    charts = []
    for name, private in private_studies.items():
        exact = next(curve for curve in plain[name] if curve.N == private.study.N).by_k
        band = Series("chance (95 %)", np.array([1.0, float(private.study.d)]), np.full(2, private.chance_95))
        for panel, mechanism, epsilons in (("a", AG, private.grid(AG)), ("b", VECTOR, SHOWN_EPSILONS)):
            series = [_up_to_k(f"ε = {e:g}", private.outcome(mechanism, e).auc.T) for e in epsilons]
            series += [_up_to_k("exact components", exact), band]
            charts.append(chart(f"({panel}) {name}, {mechanism}", Axis(K), Axis("largest AUC up to k"), series))
    return Figure("Figure 2", "δ = 1/N. Chance is about the largest AUC over all k.", "".join(charts))


def _up_to_k(name: str, auc: FloatArray) -> Series:
    """The maximum over k' <= k of AUCs (r, trials)."""
    indices, running = _drawn_indices(len(auc)), np.maximum.accumulate(auc, axis=0)
    return Series(name, indices.astype(np.float64) + 1, running[indices].mean(axis=1), spread=_halves(running[indices]))


def laplace(private_studies: dict[str, PrivateStudy]) -> Figure:
    """Figure 3."""
    charts = []
    for name, private in private_studies.items():
        series = [_over_epsilon(private, mechanism) for mechanism in LAPLACE]
        grid = private.grid(NAIVE)
        ends = np.array([grid[0], grid[-1]])
        series.append(Series("exact components (ε = ∞)", ends, np.full(2, private.exact.mean())))
        series.append(Series("chance (95 %)", ends, np.full(2, private.chance_95)))
        charts.append(chart(name, Axis(EPSILON, log=True), Axis(BEST), series))
    return Figure("Figure 3", "The adversary sees all components and picks the best k afterwards.", "".join(charts))


def _over_epsilon(private: PrivateStudy, mechanism: str) -> Series:
    outcomes = [private.outcome(mechanism, e) for e in private.grid(mechanism)]
    return Series(
        mechanism,
        np.array(private.grid(mechanism)),
        np.array([outcome.mean for outcome in outcomes]),
        spread=np.array([outcome.half for outcome in outcomes]),
    )


def region() -> Figure:
    """Figure 4: the points (ε, α) where naive composition adds less noise, and the curve by formula."""
    less = naive_is_less()
    alpha, epsilon = np.array(ALPHAS, dtype=np.float64), np.array(EPSILONS)
    series = []
    for name, where in (("naive adds less", less), ("advanced adds less", ~less)):
        i, j = np.nonzero(where)
        series.append(Series(name, epsilon[j], alpha[i], "points"))
    star = boundary()
    series.append(Series("ε* = α ln(2 - √(2 ln(1/δ)/α))", star[star > 0], alpha[star > 0]))
    markup = chart("Less noise", Axis(EPSILON, log=True), Axis("α", log=True), series)
    return Figure("Figure 4", f"δ = {DELTA:g}; points from eq. 2 solved, the line by formula.", markup)


def utility(private_studies: dict[str, PrivateStudy]) -> Figure:
    """Figure 5 with a control that the paper does not have, and the proved Gaussian scale beside the printed one."""
    charts = []
    for name, private in private_studies.items():
        for title, mechanisms in ((name, (*LAPLACE, AG)), (f"{name}, Gaussian noise", (AG, OURS))):
            series = [_energy(private, mechanism) for mechanism in mechanisms]
            ends = np.array([series[-1].x[0], max(line.x[-1] for line in series)])
            series.append(Series("directions at random", ends, np.full(2, private.control.mean())))
            charts.append(chart(f"{title}, k = {private.k.mean():g}", Axis(EPSILON, log=True), Axis(Q), series))
    caption = "k is the least that captures 90 % exactly. Analyze Gauss as printed; ours is proved for a replaced row."
    return Figure("Figure 5", caption, "".join(charts))


def _energy(private: PrivateStudy, mechanism: str) -> Series:
    grid = private.grid(mechanism)
    energy = [private.outcome(mechanism, e).energy for e in grid]
    half = np.array([half_interval(q) for q in energy])
    return Series(mechanism, np.array(grid), np.array([q.mean() for q in energy]), spread=half)


def trade(private_studies: dict[str, PrivateStudy]) -> Figure:
    """Figure 6."""
    charts = []
    for name, private in private_studies.items():
        series = []
        for mechanism in (*LAPLACE, AG):
            outcomes = [private.outcome(mechanism, e) for e in private.grid(mechanism)]
            series.append(
                Series(
                    mechanism,
                    np.array([outcome.mean for outcome in outcomes]),
                    np.array([outcome.q for outcome in outcomes]),
                )
            )
        low, high = float(private.chance.mean()), float(private.exact.mean())
        control = np.full(2, private.control.mean())
        series.append(Series("directions at random", np.array([low, high]), control))
        charts.append(chart(name, Axis(BEST), Axis(Q), series))
    return Figure(
        "Figure 6", "One point per ε; the random directions are at the q that reveals nothing.", "".join(charts)
    )
